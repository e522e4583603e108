"""Generated inputs, read by Eciton and by pandas, SciPy and scikit-learn: the meaning of every number is the same.

`ECITON_CAMPAIGN=2000` sets the number of inputs (docs/contributing/testing.md); without it the short form runs. A failure prints
the kind and the seed, which alone repeat it: `ECITON_SEED=17`.
"""

from __future__ import annotations

import json
import os
import unittest
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np

import eciton
from common import Case

INPUTS = int(os.environ.get("ECITON_CAMPAIGN", "100"))
ONE = os.environ.get("ECITON_SEED")
WORDS = ["ash", "birch", "cedar", "date palm", "#elm", "fir, silver", 'the "oak"', "1e"]
MISSING = ["", "NA", "nan", "None", "null"]


def quiet(*arguments, **named) -> eciton.Graph:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return eciton.graph(*arguments, **named)


def train(graph: eciton.Graph, **settings) -> eciton.Run:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return eciton.train(graph, model="mlp", epochs=3, hidden=4, progress=False, **settings)


def classes_of(graph: eciton.Graph) -> list[str | None]:
    """The class of each row by its name, or its number as text; `None` for rows without a label."""
    names = graph.classes
    return [None if at < 0 else (names[at] if names else str(at)) for at in graph.y.tolist()]


class Differential(Case):
    """Each kind of input gets its share of the inputs."""

    def each(self, kind: str, share: float, check: Callable[[int, np.random.Generator], None]) -> None:
        """Checks the inputs of one kind, each from its seed."""
        seeds = range(max(1, int(INPUTS * share))) if ONE is None else [int(ONE)]
        for seed in seeds:
            with self.subTest(kind=kind, seed=seed):
                # Not `hash`, which differs between processes.
                check(seed, np.random.default_rng([seed, *kind.encode()]))

    def place(self, seed: int) -> Path:
        path = self.folder / str(seed)
        path.mkdir()
        return path

    def test_tables_are_those_of_pandas(self) -> None:
        pd = self.skip_without("pandas")
        def check(seed: int, random: np.random.Generator) -> None:
            rows, width = int(random.integers(6, 40)), int(random.integers(1, 6))
            frame = pd.DataFrame({})
            for at in range(width):
                name = [f"f{at}", f"Größe {at}", f'a,"{at}"'][int(random.integers(3))]
                values = [
                    random.normal(size=rows),
                    random.integers(-50, 50, rows),
                    random.integers(0, 2, rows),
                    random.normal(size=rows) * 1e-30,
                ][int(random.integers(4))]
                frame[name] = values
            if random.random() < 0.2:
                # A header of numbers, as pandas writes a frame of an array; fractions show that it is one.
                frame.columns = [str(at) for at in range(width)]
                frame["0"] = random.normal(size=rows)
            kind = int(random.integers(4))
            if kind == 0:
                label = random.choice(WORDS[: int(random.integers(2, len(WORDS)))], rows).astype(object)
            elif kind == 1:
                label = random.integers(0, 4, rows).astype(object)
            elif kind == 2:
                label = random.choice([-1, 1], rows).astype(object)
                label[:2] = [-1, 1]
            else:
                label = random.normal(size=rows).round(3).astype(object)
            if kind in (0, 1):
                unknown = random.random(rows) < 0.2
                unknown[:3] = False
                label[unknown] = "" if kind == 1 else random.choice(MISSING)
            features = list(frame.columns)
            order = [*features, "target"]
            frame["target"] = label
            if random.random() < 0.5:
                frame["id"] = [f"r{row}" for row in random.permutation(rows)]
                order.insert(int(random.integers(len(order) + 1)), "id")
            else:
                random.shuffle(order)
            path = self.place(seed) / "t.csv"
            frame[order].to_csv(path, index=False, lineterminator="\r\n" if random.random() < 0.2 else "\n")
            wanted = pd.read_csv(path)
            found = quiet(path)
            columns = [name for name in order if name in features]
            self.assertEqual(found.num_nodes, len(wanted))
            self.assertEqual([name.lower() for name in found.feature_names or []], [name.lower() for name in columns])
            np.testing.assert_array_equal(found.x, wanted[columns].to_numpy(np.float64).astype(np.float32))
            if "id" in order:
                self.assertEqual(found.ids.tolist(), wanted["id"].tolist())
            if kind == 3:
                np.testing.assert_array_equal(found.y[:, 0], wanted["target"].to_numpy(np.float32))
            else:
                target = wanted["target"]
                if kind == 1:
                    target = target.map(lambda value: None if pd.isna(value) else str(int(value)))
                else:
                    target = target.map(lambda value: None if pd.isna(value) else str(value))
                self.assertEqual(classes_of(found), [None if pd.isna(one) else one for one in target])

        self.each("table", 0.4, check)

    def test_matrices_are_those_of_scipy(self) -> None:
        sp = self.skip_without("scipy.sparse") and __import__("scipy.sparse", fromlist=["sparse"])
        io = __import__("scipy.io", fromlist=["io"])
        def check(seed: int, random: np.random.Generator) -> None:
            nodes, entries = int(random.integers(2, 20)), int(random.integers(1, 60))
            ends = random.integers(0, nodes, (2, entries))
            weights = random.integers(-3, 4, entries) / 2
            matrix = sp.coo_matrix((weights, ends), shape=(nodes, nodes))
            dense = matrix.toarray()
            # Summed entries, without zeros and without the diagonal; two directions have their mean.
            np.fill_diagonal(dense, 0)
            both = (dense != 0) & (dense.T != 0)
            mean = np.where(both, (dense + dense.T) / 2, dense + dense.T)
            x, y = np.eye(nodes, dtype="f4"), np.arange(nodes) % 2
            found = quiet(matrix, x, y, edge_features="data", directed=True)
            self.check(found, dense)
            path = self.place(seed)
            io.mmwrite(path / "m.mtx", matrix)
            if np.any(mean):
                self.check(quiet(path / "m.mtx"), mean)
            else:
                self.assertEqual(quiet(path / "m.mtx").num_edges, 0)
            sp.save_npz(path / "scipy.npz", matrix.tocsr())

        self.each("matrix", 0.3, check)

    def check(self, found: eciton.Graph, wanted: np.ndarray) -> None:
        """Edges and weights of a graph against a matrix whose entry [s, t] is the weight of s -> t."""
        got = np.zeros_like(wanted)
        rows = found.edge_features
        values = np.ones(found.num_edges) if rows is None else rows[:, 0]
        got[found.edge_index[0], found.edge_index[1]] = values
        np.testing.assert_allclose(got, wanted, rtol=1e-6)

    def test_joins_are_those_of_pandas(self) -> None:
        pd = self.skip_without("pandas")
        def check(seed: int, random: np.random.Generator) -> None:
            count = int(random.integers(4, 15))
            form = [
                lambda v: f"n{v}", lambda v: f"#{v}", lambda v: str(v), lambda v: f"{v}.0", lambda v: f'x,"{v}"'
            ][int(random.integers(5))]
            ids = [form(int(v)) for v in random.permutation(count)]
            pairs = [(ids[v], ids[(v + 1) % count]) for v in range(count)]
            place = self.place(seed)
            pd.DataFrame(pairs, columns=["source", "target"]).to_csv(place / "edges.csv", index=False)
            labels = pd.DataFrame({"id": random.permutation(ids)})
            labels["kind"] = [WORDS[int(at)] for at in random.integers(0, 3, count)]
            labels.to_csv(place / "labels.csv", index=False)
            features = pd.DataFrame({"id": random.permutation(ids), "value": random.normal(size=count)})
            features.to_csv(place / "features.csv", index=False)
            found = quiet(place)
            names = [str(one) for one in found.ids]
            self.assertEqual(sorted(names), sorted(form_of(one) for one in ids))
            by_id = dict(zip(labels["id"].map(form_of), labels["kind"]))
            self.assertEqual(classes_of(found), [by_id[one] for one in names])
            values = dict(zip(features["id"].map(form_of), features["value"].astype(np.float32)))
            np.testing.assert_array_equal(found.x[:, 0], [values[one] for one in names])
            edges = {frozenset((names[s], names[t])) for s, t in found.edge_index.T}
            self.assertEqual(edges, {frozenset(map(form_of, pair)) for pair in pairs})

        self.each("folder", 0.15, check)

    def test_moments_are_those_of_scikit_learn(self) -> None:
        self.skip_without("sklearn")
        from sklearn.preprocessing import StandardScaler

        def check(seed: int, random: np.random.Generator) -> None:
            rows, width = int(random.integers(10, 60)), int(random.integers(1, 5))
            shift = 10.0 ** random.integers(0, 12, width) * random.choice([-1, 1], width)
            x = random.normal(size=(rows, width)) + shift
            y = np.arange(rows) % 3
            part = random.permutation(rows)
            cut = rows // 2
            graph = quiet(
                np.zeros((2, 0), int), x, y, num_nodes=rows, train=part[:cut], val=part[cut:-2], test=part[-2:]
            )
            run = train(graph, **{"data.normalise_features": "columns"})
            schema = json.loads((run.folder / "schema.json").read_text())
            scaler = StandardScaler().fit(x[part[:cut]])
            columns = schema["features"]["columns"]
            # A value keeps its correction if f32 rounds it by more than 2^-20 of the column's deviation.
            means, deviations = ([one[key] for one in columns] for key in ("mean", "deviation"))
            allowed = 2e-6 * scaler.scale_ + 4 * np.finfo(float).eps * np.abs(scaler.mean_)
            np.testing.assert_array_less(np.abs(means - scaler.mean_), allowed)
            np.testing.assert_allclose(deviations, scaler.scale_, rtol=1e-6)

        self.each("scaling", 0.05, check)

    def test_metrics_are_those_of_scikit_learn(self) -> None:
        self.skip_without("sklearn")
        from sklearn import metrics

        def check(seed: int, random: np.random.Generator) -> None:
            rows, classes = int(random.integers(20, 60)), int(random.integers(2, 6))
            x, y = random.normal(size=(rows, 3)), random.integers(0, classes, rows)
            y[:classes] = np.arange(classes)
            part = random.permutation(rows)
            third = rows // 3
            graph = quiet(
                np.zeros((2, 0), int), x, y, num_nodes=rows,
                train=part[:third], val=part[third : 2 * third], test=part[2 * third :],
            )
            run = train(graph, seed=seed)
            told = np.asarray(run.predict()).astype(int)
            test = part[2 * third :]
            right, given = y[test], told[test]
            self.assertAlmostEqual(run.score(), metrics.accuracy_score(right, given), places=9)
            quality = run.quality
            assert quality is not None
            f1 = metrics.f1_score(right, given, average="macro", zero_division=0)
            self.assertAlmostEqual(quality["f1_macro"], f1, places=6)
            confusion = metrics.confusion_matrix(right, given, labels=np.arange(classes))
            np.testing.assert_array_equal(quality["confusion"], confusion)
            if classes == 2 and len(set(right)) == 2:
                scores = run.scores()[test]
                area = metrics.roc_auc_score(right, scores[:, 1].astype(float) - scores[:, 0])
                self.assertAlmostEqual(quality["roc_auc"], area, places=6)

        self.each("metrics", 0.1, check)


def form_of(one: object) -> str:
    """An id as Eciton names it: whole numbers in their shortest form."""
    return str(one)


if __name__ == "__main__":
    unittest.main()
