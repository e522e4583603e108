"""Objects that stand for a graph: all of them train to the bits of the command on the same data."""

from __future__ import annotations

import os
import subprocess
import sys
import unittest
from types import SimpleNamespace

import numpy as np
import scipy.sparse as sp

import eciton
from common import Case, digest, folder, known, planted, train


class Objects(Case):
    @classmethod
    def setUpClass(cls) -> None:
        import tempfile
        from pathlib import Path

        cls.made = tempfile.TemporaryDirectory()
        cls.path = folder(Path(cls.made.name) / "set")
        cls.wanted = digest(str(cls.path), "--epochs", "5", "--hidden", "8")
        cls.directed = None

    @classmethod
    def tearDownClass(cls) -> None:
        cls.made.cleanup()

    def check(self, graph: eciton.Graph) -> eciton.Run:
        _, _, group, names, ids, _ = planted()
        run = train(graph, hidden=8)
        self.assertEqual(run.digest, self.wanted)
        self.assertEqual(run.ids.tolist(), ids)
        self.assertEqual(run.classes, names.tolist())
        self.assertLessEqual(set(run.predict()), set(names))
        self.assertEqual(run.table()["label"].tolist(), names[group].tolist())
        return run

    def both_ways(self) -> np.ndarray:
        pairs = planted()[0]
        return np.concatenate([pairs, pairs[:, ::-1]]).T.copy()

    def test_path(self) -> None:
        self.check(eciton.graph(self.path))
        stored = eciton.graph(self.path).save(self.folder / "store")
        self.check(stored)

    def test_matrices(self) -> None:
        source, target = self.both_ways()
        coo = sp.coo_matrix((np.ones(len(source)), (source, target)), shape=(60, 60))
        for matrix in (coo, coo.tocsr(), coo.tocsc(), sp.csr_array(coo), coo.tolil(), sp.coo_array(coo)):
            with self.subTest(type(matrix).__name__):
                self.check(eciton.graph(matrix, **known()))
        wide = coo.tocsr()
        wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
        self.check(eciton.graph(wide, **known()))
        unsorted = coo.tocsr()
        for row in range(60):
            span = slice(unsorted.indptr[row], unsorted.indptr[row + 1])
            unsorted.indices[span] = unsorted.indices[span][::-1]
        self.check(eciton.graph(unsorted, **known()))
        # Each edge once, and the matrix is no symmetric one: both ways on request.
        half = sp.csr_matrix((np.ones(len(planted()[0])), planted()[0].T), shape=(60, 60))
        self.check(eciton.graph(half, directed=False, **known()))
        self.assertTrue(eciton.graph(half, **known()).directed)

    def test_directions(self) -> None:
        pairs = planted()[0]
        half = sp.coo_matrix((np.ones(len(pairs)), pairs.T), shape=(60, 60))
        digests = set()
        for graph in (half.tocsr(), half.tocsc(), half, pairs.T.copy()):
            made = eciton.graph(graph, **known())
            self.assertTrue(made.directed)
            self.assertEqual(sorted(map(tuple, made.edge_index.T.tolist())), sorted(map(tuple, pairs.tolist())))
            digests.add(train(made, hidden=8).digest)
        self.assertEqual(len(digests), 1)
        self.assertNotEqual(digests, {self.wanted})

    def test_arrays(self) -> None:
        both = self.both_ways()
        self.check(eciton.graph(both, **known()))
        self.check(eciton.graph(both.astype(np.int32), **known()))
        self.check(eciton.graph(both.T, **known()))
        self.check(eciton.graph(planted()[0].tolist(), directed=False, **known()))
        self.check(eciton.graph((both[0], both[1]), **known()))

    def test_lent_memory(self) -> None:
        source, target = self.both_ways()
        matrix = sp.csr_matrix((np.ones(len(source)), (source, target)), shape=(60, 60))
        graph = eciton.graph(matrix, **known())
        self.assertFalse(matrix.indices.flags.writeable)
        with self.assertRaises(ValueError):
            matrix.indices[0] = 99
        (matrix @ np.ones(60)).sum()
        del graph
        self.assertTrue(matrix.indices.flags.writeable)
        wide = np.ones((60, 16), np.float32) - 2 * np.eye(60, 16, dtype=np.float32)
        graph = eciton.graph(matrix, x=wide, y=planted()[2])
        self.assertFalse(wide.flags.writeable)
        before = train(graph).digest
        del graph
        self.assertTrue(wide.flags.writeable)
        self.assertEqual(train(eciton.graph(matrix, x=wide.astype(np.float64), y=planted()[2])).digest, before)
        graph = eciton.graph(matrix, **known())
        del matrix, source, target
        self.check(graph)

    def test_pandas(self) -> None:
        pandas = self.skip_without("pandas")
        pairs, x, group, names, ids, _ = planted()
        edges = pandas.DataFrame({"a": np.array(ids)[pairs[:, 0]], "b": np.array(ids)[pairs[:, 1]]})
        rest = known()
        self.check(eciton.graph(edges, **rest))
        nodes = pandas.DataFrame(x, columns=list("abcde")).assign(name=ids, kind=names[group])
        parts = {key: rest[key] for key in ("train", "val", "test")}
        self.check(eciton.graph(edges, x=nodes, ids="name", y="kind", **parts))
        named = {key: np.array(ids)[mask] for key, mask in parts.items()}
        rest = nodes.drop(columns="kind")
        self.check(eciton.graph(edges, x=rest, ids="name", y=pandas.Series(names[group]), **named))

    def test_polars_and_arrow(self) -> None:
        polars = self.skip_without("polars")
        pyarrow = self.skip_without("pyarrow")
        pairs, x, group, names, ids, _ = planted()
        columns = {"a": np.array(ids)[pairs[:, 0]].tolist(), "b": np.array(ids)[pairs[:, 1]].tolist()}
        nodes = {"name": ids, "kind": names[group].tolist(), **{name: x[:, at] for at, name in enumerate("abcde")}}
        parts = {key: known()[key] for key in ("train", "val", "test")}
        for edges, table in (
            (polars.DataFrame(columns), polars.DataFrame(nodes)),
            (pyarrow.table(columns), pyarrow.table(nodes)),
        ):
            with self.subTest(type(edges).__module__):
                self.check(eciton.graph(edges, x=table, ids="name", y="kind", **parts))

    def test_networkx(self) -> None:
        networkx = self.skip_without("networkx")
        pairs, _, _, _, ids, _ = planted()
        graph = networkx.Graph()
        graph.add_nodes_from(ids)
        graph.add_edges_from((ids[a], ids[b]) for a, b in pairs)
        rest = {key: value for key, value in known().items() if key != "ids"}
        self.check(eciton.graph(graph, **rest))
        one_way = eciton.graph(graph.to_directed(), **rest)
        self.assertFalse(one_way.directed, "both directions are there")
        weighted = networkx.DiGraph()
        weighted.add_edge("x", "y", weight=2.5)
        weighted.add_edge("y", "z", weight=0.5)
        made = eciton.graph(weighted, edge_features="weight")
        self.assertEqual((made.num_edge_features, made.directed, made.ids.tolist()), (1, True, ["x", "y", "z"]))
        with self.assertRaisesRegex(ValueError, "lacks the attribute 'cost'"):
            eciton.graph(weighted, edge_features=["weight", "cost"])

    def test_igraph(self) -> None:
        igraph = self.skip_without("igraph")
        pairs, _, _, _, ids, _ = planted()
        graph = igraph.Graph(60, pairs.tolist())
        self.check(eciton.graph(graph, **known()))
        graph.vs["name"] = ids
        self.check(eciton.graph(graph, **{key: value for key, value in known().items() if key != "ids"}))

    def test_data_of_pyg(self) -> None:
        _, x, group, names, ids, part = planted()
        masks = {f"{name}_mask": part == name for name in ("train", "val", "test")}
        data = SimpleNamespace(edge_index=self.both_ways(), x=x, y=group, num_nodes=60, **masks)
        self.check(eciton.graph(data, ids=ids, classes=names))
        several = {key: np.stack([~mask, mask], axis=1) for key, mask in masks.items()}
        data = SimpleNamespace(edge_index=self.both_ways(), x=x, y=group[:, None], num_nodes=60, **several)
        self.check(eciton.graph(data, ids=ids, classes=names, mask=1))
        with self.assertRaisesRegex(TypeError, "heterogeneous"):
            eciton.graph(SimpleNamespace(edge_types=[], node_types=[]))

    def test_data_of_pyg_itself(self) -> None:
        torch = self.skip_without("torch")
        self.skip_without("torch_geometric")
        from torch_geometric.data import Data

        _, x, group, names, ids, part = planted()
        masks = {f"{name}_mask": torch.tensor(part == name) for name in ("train", "val", "test")}
        data = Data(edge_index=torch.tensor(self.both_ways()), x=torch.tensor(x), y=torch.tensor(group), **masks)
        self.check(eciton.graph(data, ids=ids, classes=names))
        self.check(
            eciton.graph(torch.tensor(self.both_ways()), **{**known(), "x": torch.tensor(x, requires_grad=True)})
        )

    def test_data_sets_of_pyg(self) -> None:
        self.skip_without("torch_geometric")
        from torch_geometric.datasets import FakeDataset, FakeHeteroDataset, KarateClub

        karate = eciton.graph(KarateClub())
        self.assertEqual((karate.num_nodes, karate.num_graphs, len(karate.split["train"])), (34, 1, 4))
        many = FakeDataset(num_graphs=40, avg_num_nodes=10, num_classes=3, edge_dim=2, task="graph")
        made = eciton.graph(many)
        self.assertEqual((made.num_graphs, made.num_edge_features, len(made.y)), (40, 2, 40))
        self.assertEqual(made.y.tolist(), [int(one.y) for one in many])
        self.assertEqual(eciton.graph([many[at] for at in range(9)]).num_graphs, 9)
        with self.assertRaisesRegex(TypeError, "heterogeneous"):
            eciton.graph(FakeHeteroDataset()[0])

    def test_ogb(self) -> None:
        _, x, group, names, ids, part = planted()
        graph = {"edge_index": self.both_ways(), "num_nodes": 60, "node_feat": x, "edge_feat": None}
        parts = {
            key: np.flatnonzero(part == name) for key, name in (("train", "train"), ("valid", "val"), ("test", "test"))
        }

        class Dataset:
            def __getitem__(self, _):
                return graph, group[:, None]

            def get_idx_split(self):
                return parts

        self.check(eciton.graph(Dataset(), ids=ids, classes=names))
        ours = {"train": parts["train"], "val": parts["valid"], "test": parts["test"]}
        self.check(eciton.graph((graph, group[:, None]), ids=ids, classes=names, **ours))

    def test_ogb_of_many_graphs(self) -> None:
        ring = np.stack([np.arange(4), (np.arange(4) + 1) % 4])
        edges = np.concatenate([ring, ring[::-1]], axis=1)

        class Dataset:
            graphs = [{"edge_index": edges, "num_nodes": 4, "node_feat": np.full((4, 2), at % 2)} for at in range(12)]

            def __init__(self, tasks: int):
                self.labels = (np.arange(12)[:, None] + np.arange(tasks)) % 2

            def __len__(self):
                return 12

            def __getitem__(self, at):
                return self.graphs[at], self.labels[at]

            def get_idx_split(self):
                return {key: np.arange(at, 12, 3) for at, key in enumerate(("train", "valid", "test"))}

        made = eciton.graph(Dataset(1))
        self.assertEqual((made.num_graphs, made.num_classes), (12, 2))
        self.assertEqual(made.split["val"].tolist(), [1, 4, 7, 10])
        self.assertEqual(train(made, hidden=8, epochs=3).predict().shape, (12,))
        self.assertEqual(eciton.graph(Dataset(3)).y.shape, (12, 3))

    def test_graph_of_dgl(self) -> None:
        """By what DGL's graphs offer; DGL's own wheels end at an old Python and PyTorch."""
        _, x, group, names, ids, part = planted()
        both = self.both_ways()
        data = {"feat": x, "label": group, **{f"{name}_mask": part == name for name in ("train", "val", "test")}}
        one = SimpleNamespace(
            ndata=data, edata={}, ntypes=["_N"], etypes=["_E"], edges=lambda: (both[0], both[1]), num_nodes=lambda: 60
        )
        self.check(eciton.graph(one, ids=ids, classes=names))
        with self.assertRaisesRegex(TypeError, "heterogeneous"):
            eciton.graph(SimpleNamespace(ndata={}, edata={}, ntypes=["a", "b"], etypes=["_E"]))

    def test_many_graphs(self) -> None:
        random = np.random.default_rng(1)

        def ring(size: int, label: int) -> SimpleNamespace:
            at = np.arange(size)
            edges = np.stack([np.concatenate([at, (at + 1) % size]), np.concatenate([(at + 1) % size, at])])
            return SimpleNamespace(
                edge_index=edges, x=random.random((size, 3), np.float32) + label, y=[label], num_nodes=size
            )

        graphs = [ring(3 + at % 4, at % 2) for at in range(30)]
        made = eciton.graph(graphs)
        self.assertEqual((made.num_graphs, made.num_classes, len(made.y)), (30, 2, 30))
        self.assertEqual(sum(map(len, made.split.values())), 30)
        run = train(made, hidden=8, epochs=3)
        self.assertEqual(run.predict().shape, (30,))
        chosen = eciton.graph(graphs, train=range(10), val=range(10, 20), test=range(20, 30))
        self.assertEqual(chosen.split["val"].tolist(), list(range(10, 20)))

    def test_edge_features(self) -> None:
        pairs = planted()[0]
        weights = np.arange(1, len(pairs) + 1, dtype=np.float32)
        made = eciton.graph(pairs.T.copy(), directed=False, edge_features=weights, **known())
        self.assertEqual(made.num_edge_features, 1)
        run = train(made, **{"model.edge_weights": 0})
        matrix = sp.csr_matrix((weights, pairs.T), shape=(60, 60))
        same = eciton.graph(matrix, directed=False, edge_features="data", **known())
        self.assertEqual(train(same, **{"model.edge_weights": 0}).digest, run.digest)
        with self.assertRaisesRegex(ValueError, "found 3 rows, expected one row"):
            eciton.graph(pairs.T.copy(), edge_features=np.ones(3))


class EdgeLabels(Case):
    def test_arrays_and_frames_are_the_table(self) -> None:
        pairs, x, group, _, ids, _ = planted()
        path = folder(self.folder / "set")
        random = np.random.default_rng(3)
        kind = np.array(["within", "across"], object)[(group[pairs[:, 0]] != group[pairs[:, 1]]).astype(int)]
        amount = (random.random(len(pairs)) * 1000 + 500 * (kind == "across")).astype(np.float32)
        part = np.array(["train", "val", "test"], object)[random.permutation(len(pairs)) % 3]
        rows = zip(pairs.tolist(), amount.tolist(), kind, part)
        lines = (f"{ids[a]},{ids[b]},{value!r},{of},{where}\n" for (a, b), value, of, where in rows)
        (path / "edges.csv").write_text("source,target,amount,kind,split\n" + "".join(lines))
        wanted = digest(str(path), "--edge-label", "kind", "--epochs", "5", "--hidden", "8")
        masks = {name: part == name for name in ("train", "val", "test")}
        of_nodes = {"x": x, "ids": ids, "directed": False, **masks}
        made = eciton.graph(pairs, edge_features=amount[:, None], edge_labels=kind, **of_nodes)
        self.assertEqual(made.labelled_edges.T.tolist(), pairs.tolist())
        self.assertEqual([made.classes[label] for label in made.y], kind.tolist())
        self.assertIn(f"{len(pairs)} labelled edges", repr(made))
        run = train(made, hidden=8)
        self.assertEqual(run.digest, wanted)
        self.assertEqual(train(str(path), edge_label="kind", hidden=8).digest, wanted)
        self.assertEqual(train(eciton.graph(path, edge_labels="kind"), hidden=8).digest, wanted)
        table = run.table()
        self.assertEqual(table["label"].tolist(), kind.tolist())
        self.assertEqual(table["source"].tolist(), [ids[a] for a in pairs[:, 0]])
        self.assertEqual(table["part"].tolist(), part.tolist())
        with self.assertRaisesRegex(ValueError, "labels of edges"):
            made.save(self.folder / "store")
        drawn = list(eciton.sampler(made, sampler="neighbours", batch=40, fan_out=[4, 4]))
        for sample in drawn:
            ends = sample.vertices[sample.edge_label_index]
            self.assertEqual(ends.tolist(), made.labelled_edges[:, sample.labelled].tolist())
        pandas = self.skip_without("pandas")
        named = [[ids[a] for a in pairs[:, end]] for end in (0, 1)]
        frame = pandas.DataFrame({"source": named[0], "target": named[1], "amount": amount, "kind": kind})
        del of_nodes["directed"]
        self.assertEqual(train(eciton.graph(frame, edge_labels="kind", **of_nodes), hidden=8).digest, wanted)

    def test_mistakes_are_named(self) -> None:
        pairs = planted()[0]
        for words, expected in (
            ({"edge_labels": np.zeros(3, int)}, "one for each of the"),
            ({"edge_labels": np.zeros(len(pairs), int), "y": np.zeros(60, int)}, "not allowed with y"),
            ({"edge_labels": np.zeros(len(pairs), int), "train": [len(pairs)]}, "train: found row"),
        ):
            with self.assertRaisesRegex(ValueError, expected):
                eciton.graph(pairs, num_nodes=60, **words)
        with self.assertRaisesRegex(TypeError, "not a data frame"):
            eciton.graph(pairs, edge_labels="kind")

    def test_a_label_column_of_a_file_is_learnt(self) -> None:
        path = self.folder / "rows.csv"
        rows = (f"{at % 7},{at % 5}.5,{at % 3},{at % 2}\n" for at in range(60))
        path.write_text("a,b,kind,label\n" + "".join(rows))
        self.assertEqual(train(str(path)).scores().shape, (60, 2))
        for run in (train(str(path), label="kind"), train(eciton.graph(path, y="kind"))):
            self.assertEqual(run.scores().shape, (60, 3))
            self.assertEqual(run.config["data"]["label"], "kind")
        with self.assertRaisesRegex(ValueError, "data.label: the graph has already been read; pass y=COLUMN"):
            train(eciton.graph(path), label="kind")


class Cora(Case):
    def test_equals_the_command(self) -> None:
        wanted = digest("--epochs", "10", "--seed", "3")
        self.assertEqual(train("cora", epochs=10, seed=3).digest, wanted)
        cora = eciton.datasets.cora()
        self.assertTrue(cora.sparse_features)
        self.assertEqual((cora.num_nodes, cora.num_edges, cora.num_classes), (2708, 10556, 7))

    def test_sparse_features_stay_sparse(self) -> None:
        features = sp.random(60, 500, 0.01, format="csr", dtype=np.float32, random_state=1)
        pairs = planted()[0].T.copy()
        made = [eciton.graph(pairs, x=x, y=planted()[2]) for x in (features, features.toarray(), features.tocoo())]
        self.assertTrue(all(graph.sparse_features for graph in made))
        self.assertEqual(len({train(graph).digest for graph in made}), 1)


class FarFromZero(Case):
    """Columns that f32 cannot hold are scaled from the numbers as they were given."""

    def test_one_digest_whatever_the_type(self) -> None:
        import pandas as pd
        import polars as pl

        random = np.random.default_rng(43)
        seconds = random.integers(0, 60, 80)
        times, noise = 1_700_000_000 + seconds, random.standard_normal(80).astype(np.float32)
        exact = np.stack([times.astype(np.float64), noise.astype(np.float64)], axis=1)
        columns = {"time": times, "noise": noise}
        made = [
            exact,
            np.asfortranarray(exact),
            exact.tolist(),
            pd.DataFrame(columns),
            pl.DataFrame(columns),
            sp.csr_matrix(exact),
            sp.csc_array(exact),
        ]
        settings = {"epochs": 200, "lr": 0.1, "hidden": 8, "data.normalise_features": "columns"}
        edges, y = np.array([[0], [1]]), (seconds >= 30).astype(np.int64)
        runs = [train(eciton.graph(edges, x=x, y=y), model="mlp", dropout=0, **settings) for x in made]
        self.assertEqual(len({run.digest for run in runs}), 1)
        self.assertGreaterEqual(runs[0].score(), 0.9)

    def test_whole_numbers_of_64_bits(self) -> None:
        times = 1_700_000_000_000_000_000 + 1000 * np.arange(80)
        edges, y = np.array([[0], [1]]), np.arange(80) % 2
        settings = {"data.normalise_features": "columns"}
        near = train(eciton.graph(edges, x=(1000 * np.arange(80)).astype(np.float64), y=y), **settings)
        for x in (times, times.astype(np.uint64), -times[::-1]):
            run = train(eciton.graph(edges, x=x, y=y), **settings)
            self.assertLess(np.abs(run.scores() - near.scores()).max(), 0.05)


MEMORY = """
import sys
import numpy as np, scipy.sparse as sp
import eciton

def status(key):
    return int(next(line for line in open("/proc/self/status") if line.startswith(key)).split()[1]) * 1024

nodes, half = int(sys.argv[1]), int(sys.argv[2])
random = np.random.default_rng(0)
ends = random.integers(0, nodes, (2, half))
ends = ends[:, ends[0] != ends[1]]
matrix = sp.coo_matrix((np.ones(ends.shape[1], np.int8), ends), shape=(nodes, nodes)).tocsr()
matrix = (matrix + matrix.T).tocsr()
matrix.sort_indices()
x, y = random.standard_normal((nodes, 16), np.float32), random.integers(0, 4, nodes)
del ends
eciton.graph(np.array([[0], [1]]))
open("/proc/self/clear_refs", "w").write("5")  # the peak begins anew
before = status("VmRSS")
graph = eciton.graph(matrix, x=x, y=y)
print(status("VmHWM") - before, matrix.indices.nbytes, x.nbytes, 8 * (nodes + 1), y.nbytes)
"""


class Memory(Case):
    @unittest.skipUnless(os.access("/proc/self/clear_refs", os.W_OK), "this system does not tell a process's peak")
    def test_a_matrix_is_not_copied(self) -> None:
        """Ten million directed edges: offsets and labels are new, neighbours and features lie where SciPy has them."""
        ran = subprocess.run(
            [sys.executable, "-c", MEMORY, "1000000", "5000000"], capture_output=True, text=True, check=True
        )
        grown, indices, features, offsets, labels = map(int, ran.stdout.split())
        print(
            f"{grown / 2**20:.0f} MiB beside indices of {indices / 2**20:.0f} and features of {features / 2**20:.0f} MiB"
        )
        # Wide and narrow offsets, labels as numbers, as classes and in checks; less than either of the two is large.
        self.assertLess(grown, min(indices, 3 * offsets + 3 * labels))


class Mistakes(Case):
    """Each is refused in words."""

    def test_words(self) -> None:
        pairs, x, group, _, ids, _ = planted()
        edges = pairs.T.copy()
        nan = x.copy()
        nan[7, 2] = np.nan
        beyond = edges.copy()
        beyond[1, 3] = 60
        negative = edges.copy()
        negative[0, 5] = -1
        mask = np.zeros(60, bool)
        wide = sp.csr_matrix((60, 61))
        lists = sp.csr_matrix((np.ones(len(pairs)), pairs.T), shape=(60, 60))
        lists.indices[4] = -7
        unlabelled = np.where(np.arange(60) == 3, -1, group)
        cases = [
            (ValueError, "features, row 7: feature column 2 is NaN", lambda: eciton.graph(edges, x=nan)),
            (ValueError, "row 3: an edge names vertex 60", lambda: eciton.graph(beyond, x=x)),
            (ValueError, "row 5: an edge names vertex -1", lambda: eciton.graph(negative, x=x)),
            (ValueError, "vertex -7", lambda: eciton.graph(lists)),
            (ValueError, "x: found 59 rows, expected one row for each of the 60 nodes", lambda: eciton.graph(edges, x=x[:59], num_nodes=60)),
            (ValueError, "y: found 61 rows, expected one for each of the 60 nodes", lambda: eciton.graph(edges, x=x, y=np.zeros(61, int))),
            (ValueError, "60 x 61, expected a square matrix", lambda: eciton.graph(wide)),
            (ValueError, "a mask of shape .59.", lambda: eciton.graph(edges, x=x, y=group, train=mask[:59])),
            (ValueError, "found row 60, expected 0 to 59", lambda: eciton.graph(edges, x=x, y=group, train=[60])),
            (ValueError, "in both train and val", lambda: eciton.graph(edges, x=x, y=group, train=[1, 2], val=[2])),
            (ValueError, "row 3 has no label", lambda: eciton.graph(edges, x=x, y=unlabelled, train=[3])),
            (ValueError, "train: missing", lambda: eciton.graph(edges, x=x, y=group, val=[3])),
            (ValueError, "'n00' occurs more than once", lambda: eciton.graph(edges, x=x, ids=["n00"] * 60)),
            (ValueError, "no node has the id 'z'", lambda: eciton.graph(edges, x=x, y=group, ids=ids, train=["z"])),
            (ValueError, "2 names, but y has class 2", lambda: eciton.graph(edges, x=x, y=group, classes=["a", "b"])),
            (ValueError, "class 5,000,002", lambda: eciton.graph(edges, x=x, y=group + 5_000_000)),
            (TypeError, "a dense adjacency", lambda: eciton.graph(np.eye(60))),
            (TypeError, "expected a sparse matrix", lambda: eciton.graph(3)),
            (TypeError, "expected a sparse matrix", lambda: eciton.graph(object())),
            (TypeError, "expected numbers, found text", lambda: eciton.graph(edges, x=np.full((60, 1), "a"))),
            (TypeError, "'kind' names a column", lambda: eciton.graph(edges, x=x, y="kind")),
            (TypeError, "which has its own", lambda: eciton.graph("cora", x=x)),
            (ValueError, "did you mean `cora`", lambda: eciton.graph("corra")),
            (ValueError, "no nodes", lambda: eciton.graph(np.zeros((2, 0), int))),
        ]
        for error, words, call in cases:
            with self.subTest(words), self.assertRaisesRegex(error, words):
                call()


if __name__ == "__main__":
    unittest.main()
