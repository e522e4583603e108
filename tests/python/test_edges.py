"""Repeated edges, weights of zero, self-loops, masks and labels: one meaning in every object and file."""

from __future__ import annotations

import unittest
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import scipy.sparse as sp

import eciton
from common import Case, digest, train

WEIGHTED = {"model.edge_weights": 0, "data.normalise_features": "none"}


def generated(seed: int, nodes: int = 12):
    """Entries (source, target, weight) of a symmetric matrix, with repeats, zeros and loops; features and labels."""
    random = np.random.default_rng(seed)
    half = random.integers(0, nodes, (30, 2))
    weights = random.integers(-4, 9, 30) / 4.0  # exact in any width; sums are 0 at times
    repeated = random.integers(0, 30, 10)
    half = np.concatenate([half, half[repeated], np.stack([np.arange(nodes - 1), np.arange(1, nodes)], axis=1)])
    again = random.choice([-1.0, 0.5, 1.0], 10) * weights[repeated]
    weights = np.concatenate([weights, again, np.full(nodes - 1, 1.5)])
    loops = half[:, 0] == half[:, 1]
    pairs = np.concatenate([half, half[~loops, ::-1]])
    both = np.concatenate([weights, weights[~loops]])
    x = random.random((nodes, 3)).astype(np.float32)
    return pairs, both, x, np.arange(nodes) % 2


def columns(graph: eciton.Graph) -> dict[tuple[int, int], float]:
    rows = graph.edge_features
    values = np.ones(graph.num_edges) if rows is None else rows[:, 0]
    return {(int(s), int(t)): float(w) for (s, t), w in zip(graph.edge_index.T, values)}


def quiet(*arguments, **named) -> eciton.Graph:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return eciton.graph(*arguments, **named)


class Mapped(Case):
    def test_a_map_of_a_truncated_file_is_refused_with_its_name(self) -> None:
        path = self.folder / "x\x1b[31m.f32"
        values = np.arange(30_000, dtype=np.float32).reshape(-1, 3)
        edges = np.array([[0, 1], [1, 2]])
        for view in (lambda map: map, lambda map: map[10:20], np.asarray):
            values.tofile(path)
            x = view(np.memmap(path, np.float32, "r", shape=values.shape))
            eciton.graph(edges, x=x, num_nodes=len(x))
            with open(path, "r+b") as file:
                file.truncate(4096)
            with self.assertRaises(ValueError) as raised:
                eciton.graph(edges, x=x, num_nodes=len(x))
            text = str(raised.exception)
            self.assertIn("x\\x1b[31m.f32 has 4,096 bytes", text)
            self.assertTrue(text.isprintable(), text)

    def test_a_mapped_file_that_changes_under_a_graph_ends_the_run_with_its_name(self) -> None:
        path = self.folder / "x.f32"
        np.random.default_rng(3).random((40, 16), np.float32).tofile(path)
        x = np.memmap(path, np.float32, "r", shape=(40, 16))
        made = eciton.graph(np.stack([np.arange(39), np.arange(1, 40)]), x=x, y=np.arange(40) % 2)
        with open(path, "r+b") as file:
            file.write(b"\1")
        with self.assertRaisesRegex(ValueError, "x.f32.*do not change data"):
            train(made)

    def test_messages_spell_out_control_characters(self) -> None:
        bad = "a\x1b[31m\x07b"
        (self.folder / bad).mkdir()
        (self.folder / bad / "edges.csv").write_text(f"source,target\n{bad}\n")
        (self.folder / f"{bad}.wasm").write_text(bad)
        for use in (
            lambda: eciton.graph(self.folder / bad),
            lambda: eciton.graph(f"{self.folder}/{bad}/none"),
            lambda: eciton.load(self.folder / bad),
            lambda: eciton.Kernel(self.folder / f"{bad}.wasm"),
            lambda: eciton.Kernel(self.folder / f"{bad}.none"),
            lambda: eciton.train("cora", epochs=1, progress=False, **{"data.split": bad}),
            lambda: eciton.train("cora", epochs=1, progress=False, **{bad: 1}),
        ):
            with self.assertRaises((ValueError, OSError, TypeError)) as raised:
                use()
            text = str(raised.exception)
            self.assertTrue(text.replace("\n", "").isprintable(), repr(text))


class OneGraph(Case):
    def forms(self, pairs, weights, x, y, keep):
        """The same data as objects and files: (name, graph)."""
        nodes = len(x)
        rest = {"x": x, "y": y, "train": np.arange(6), "test": np.arange(6, nodes), "self_loops": keep}
        coo = sp.coo_matrix((weights, pairs.T), shape=(nodes, nodes))
        csr = coo.tocsr()
        for name, matrix in (
            ("coo", coo),
            ("csr", csr),
            ("csc", coo.tocsc()),
            ("dense", sp.csr_matrix(coo.toarray())),
            ("lil", coo.tolil()),
            ("csr with explicit zeros", sp.csr_matrix((csr.data, csr.indices, csr.indptr), shape=csr.shape)),
        ):
            yield name, quiet(matrix, edge_features="data", **rest)
            yield f"{name}, directed=False", quiet(matrix, edge_features="data", directed=False, **rest)
        yield "edge_index", quiet(pairs.T.copy(), edge_features=weights, **rest)
        pyg = SimpleNamespace(edge_index=pairs.T.copy(), num_nodes=nodes, edge_weight=weights)
        yield "PyG edge_weight", quiet(pyg, **rest)
        pyg = SimpleNamespace(edge_index=pairs.T.copy(), num_nodes=nodes, edge_attr=weights.astype(np.float32))
        yield "PyG edge_attr", quiet(pyg, **rest)
        dgl = SimpleNamespace(
            ndata={}, edata={"w": weights}, ntypes=["_N"], etypes=["_E"], edges=lambda: (pairs[:, 0], pairs[:, 1]),
            num_nodes=lambda: nodes,
        )
        yield "DGL", quiet(dgl, **rest)
        ogb = ({"edge_index": pairs.T.copy(), "num_nodes": nodes, "edge_feat": weights}, y[:, None])
        yield "OGB", quiet(ogb, **{key: value for key, value in rest.items() if key != "y"})
        for library in ("pandas", "polars", "pyarrow"):
            try:
                module = __import__(library)
            except ImportError:
                print(f"{library} is not installed: its frames are not checked")
                continue
            table = {"a": pairs[:, 0], "b": pairs[:, 1], "Weight": weights}
            frame = module.table(table) if library == "pyarrow" else module.DataFrame(table)
            yield library, quiet(frame, ids=list(range(nodes)), **rest)
        try:
            import networkx

            multi = networkx.MultiDiGraph()
            multi.add_nodes_from(range(nodes))
            for (source, target), weight in zip(pairs.tolist(), weights.tolist()):
                multi.add_edge(source, target, weight=weight)
            yield "networkx", quiet(multi, edge_features="weight", **rest)
        except ImportError:
            print("networkx is not installed: its graphs are not checked")
        try:
            import igraph

            made = igraph.Graph(nodes, pairs.tolist(), directed=True)
            made.es["weight"] = weights.tolist()
            yield "igraph", quiet(made, edge_features="weight", **rest)
        except ImportError:
            print("igraph is not installed: its graphs are not checked")

    def files(self, folder: Path, pairs, weights, x, y):
        """The same data as files of the command."""
        nodes = len(x)
        folder.mkdir()
        numbers = [",".join(repr(float(number)) for number in row) for row in x]
        known = {
            "features.csv": "id,a,b,c\n" + "".join(f"{v},{numbers[v]}\n" for v in range(nodes)),
            "labels.csv": "id,class\n" + "".join(f"{v},{y[v]}\n" for v in range(nodes)),
            "split.csv": "id,part\n" + "".join(f"{v},{'train' if v < 6 else 'test'}\n" for v in range(nodes)),
        }
        lines = [f"{s} {t} {w!r}" for (s, t), w in zip(pairs.tolist(), weights.tolist())]
        for name, text in (
            ("edges.csv", "source,target,weight\n" + "".join(line.replace(" ", ",") + "\n" for line in lines)),
            ("list.txt", "".join(line + "\n" for line in lines)),
        ):
            own = folder / name.split(".")[0]
            own.mkdir()
            for file, content in known.items():
                (own / file).write_text(content)
            (own / name).write_text(text)
            yield own if name == "edges.csv" else own / name
        own = folder / "mtx"
        own.mkdir()
        for file, content in known.items():
            rows = content.splitlines()
            shifted = [rows[0]] + [f"{int(row.split(',', 1)[0]) + 1},{row.split(',', 1)[1]}" for row in rows[1:]]
            (own / file).write_text("\n".join(shifted) + "\n")
        entries = [f"{s + 1} {t + 1} {w!r}" for (s, t), w in zip(pairs.tolist(), weights.tolist())]
        head = f"%%MatrixMarket matrix coordinate real general\n{nodes} {nodes} {len(entries)}\n"
        (own / "a.mtx").write_text(head + "\n".join(entries) + "\n")
        yield own / "a.mtx"

    def test_generated_graphs(self) -> None:
        for seed in range(2):
            print("seed", seed)
            pairs, weights, x, y = generated(seed)
            for keep in (False, True):
                matrix = sp.coo_matrix((weights, pairs.T), shape=(len(x), len(x))).toarray()
                if not keep:
                    np.fill_diagonal(matrix, 0)
                wanted = {(int(s), int(t)): float(matrix[s, t]) for s, t in np.argwhere(matrix)}
                digests = {}
                for name, graph in self.forms(pairs, weights, x, y, keep):
                    with self.subTest(name, seed=seed, keep=keep):
                        self.assertEqual(columns(graph), wanted)
                    digests[name] = train(graph, model="sage", hidden=4, **WEIGHTED).digest
                for path in self.files(self.folder / f"{seed}{keep}", pairs, weights, x, y):
                    settings = {**WEIGHTED, "data.self_loops": "keep" if keep else "drop"}
                    sets = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
                    digests[path.name] = digest(str(path), "--epochs", "5", "--hidden", "4", "--model", "sage", *sets)
                    read = quiet(path, self_loops=keep)
                    digests[f"{path.name} in Python"] = train(read, model="sage", hidden=4, **WEIGHTED).digest
                self.assertEqual(len(set(digests.values())), 1, digests)

    def test_the_structure_of_a_matrix(self) -> None:
        """Without weights, zeros of a matrix are no edges either."""
        pairs, weights, x, y = generated(7)
        coo = sp.coo_matrix((weights, pairs.T), shape=(len(x), len(x)))
        wanted = sorted(map(tuple, np.argwhere(coo.toarray() - np.diag(np.diag(coo.toarray()))).tolist()))
        for matrix in (coo, coo.tocsr(), coo.tocsc(), sp.csr_matrix(coo.toarray())):
            made = quiet(matrix, x, y)
            self.assertEqual(sorted(map(tuple, made.edge_index.T.tolist())), wanted)
            self.assertIsNone(made.edge_features)

    def test_sums_are_those_of_scipy(self) -> None:
        random = np.random.default_rng(5)
        pairs = random.integers(0, 6, (2, 200))
        coo = sp.coo_matrix((random.random(200), pairs), shape=(6, 6))
        made = [quiet(form, edge_features="data", self_loops=True) for form in (coo, coo.tocsr())]
        dense = coo.toarray().astype(np.float32)
        for graph in made:
            found = np.zeros((6, 6), np.float32)
            found[tuple(graph.edge_index)] = graph.edge_features[:, 0]
            np.testing.assert_allclose(found, dense, rtol=2e-7)

    def test_repeated_entries(self) -> None:
        matrix = sp.coo_matrix(([1.0, 2.0, 5.0, 1.0, 2.0, 5.0], ([0, 0, 1, 1, 1, 2], [1, 1, 2, 0, 0, 1])), shape=(3, 3))
        with self.assertWarnsRegex(UserWarning, "2 entries repeat an edge; their values were added up"):
            made = eciton.graph(matrix, np.eye(3), [0, 1, 0], edge_features="data")
        self.assertEqual(columns(made)[(0, 1)], 3.0)
        self.assertIn(("note", "edges: 2 entries repeat an edge; their values were added up"), made.report)

    def test_zeros_with_other_features_are_kept(self) -> None:
        pairs = np.array([[0, 1], [1, 2]])
        self.assertEqual(quiet(pairs, edge_features=np.zeros((2, 2))).num_edges, 2)
        self.assertEqual(quiet(pairs, edge_features=np.zeros((2, 1))).num_edges, 2)
        self.assertEqual(quiet(pairs, edge_features=np.zeros(2), num_nodes=3).num_edges, 0)

    def test_self_loops(self) -> None:
        pairs = np.array([[0, 1, 1], [1, 0, 1]])
        with self.assertWarnsRegex(UserWarning, "1 self-loop dropped; to keep them, pass self_loops=True"):
            self.assertEqual(eciton.graph(pairs).num_edges, 2)
        kept = eciton.graph(pairs, self_loops=True)
        self.assertEqual((kept.num_edges, kept.report[-1]), (3, ("fact", "edges: 1 self-loop kept (self_loops=True)")))
        stored = kept.save(self.folder / "store")
        self.assertEqual((stored.num_edges, quiet(self.folder / "store", self_loops=False).num_edges), (3, 2))
        with self.assertRaisesRegex(ValueError, "pass self_loops to eciton.graph"):
            train(quiet(pairs, y=[0, 1]), **{"data.self_loops": "keep"})

    def test_names_of_columns(self) -> None:
        pandas = self.skip_without("pandas")
        nodes = pandas.DataFrame({"name": ["a", "b", "c"], "age": [1.0, 2, 3], "km": [3.0, 2, 1], "kind": [0, 1, 0]})
        ends = {"from": ["a", "b"], "to": ["b", "c"]}
        edges = pandas.DataFrame({**ends, "note": ["x", "y"], "cost": [1, 0], "time": [2, 3]})
        made = eciton.graph(edges, x=nodes, ids="name", y="kind")
        self.assertEqual(made._data.column_names(), (["age", "km"], ["cost", "time"], ["kind"]))
        series = eciton.graph(edges, x=nodes[["age", "km"]], ids=nodes["name"], y=nodes["kind"], edge_features="time")
        self.assertEqual(series._data.column_names(), (["age", "km"], ["time"], ["kind"]))


class PyG(Case):
    """What `state_dict(layout="pyg")` says of edges that PyG would treat otherwise."""

    def said(self, model: str, pairs, weights=None, **named) -> list[str]:
        graph = quiet(pairs, np.eye(4, dtype=np.float32), [0, 1, 0, 1], train=[0, 1], edge_features=weights, **named)
        more = {} if weights is None else {"model.edge_weights": 0}
        run = train(graph, model=model, hidden=8, **more)
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            run.state_dict(layout="pyg")
        return [str(one.message) for one in found]

    def test_differences(self) -> None:
        plain = np.array([[0, 1, 2, 3], [1, 2, 3, 0]])
        repeated, looped = plain[:, [0, 0, 1, 2, 3]], np.concatenate([plain, [[2], [2]]], axis=1)
        for model in ("gcn", "sage", "gin", "gat", "gatv2"):
            self.assertEqual(self.said(model, plain), [])
            (text,) = self.said(model, repeated)
            self.assertRegex(text, "1 duplicate edges were merged.*pass run.graph.edge_index")
            dropped, kept = self.said(model, looped), self.said(model, looped, self_loops=True)
            if model in ("sage", "gin"):
                self.assertRegex(dropped[0], "1 self-loops were dropped.*self_loops=True")
                self.assertEqual(kept, [])
            else:
                self.assertEqual(dropped, [])
                self.assertRegex(kept[0], "1 self-loops were kept.*self_loops=False")
            self.assertRegex(self.said(model, plain, directed=False)[0], "made symmetric")
            self.assertEqual(self.said(model, np.concatenate([plain, plain[::-1]], axis=1), directed=False), [])
        weights = np.array([1.0, 2.0, 3.0, 0.0, 1.0])
        self.assertEqual(self.said("gcn", repeated, weights), [])
        self.assertRegex(self.said("gcn", looped, np.ones(5))[0], "1 self-loops were dropped")


class PyGItself(Case):
    def test_the_graphs_own_edges_give_the_same_scores(self) -> None:
        """With `run.graph.edge_index`, PyG's layers give the scores, whatever was merged or dropped."""
        torch = self.skip_without("torch")
        self.skip_without("torch_geometric")
        from torch_geometric.nn import GCNConv, SAGEConv

        pairs, weights, _, y = generated(3)
        x = np.random.default_rng(3).random((12, 6)).astype(np.float32)
        weights = np.abs(weights)
        for model, layer in (("gcn", GCNConv), ("sage", SAGEConv)):
            graph = quiet(pairs.T.copy(), x, y, train=np.arange(6), edge_features=weights)
            named = {"data.normalise_features": "none"} if model == "sage" else WEIGHTED
            run = train(graph, model=model, hidden=8, dropout=0.0, **named)
            with self.assertWarns(UserWarning):
                state = run.to_torch()
            layers = torch.nn.ModuleList([layer(6, 8), layer(8, 2)])
            layers.load_state_dict({name.removeprefix("convs."): values for name, values in state.items()})
            index = torch.tensor(run.graph.edge_index)
            more = (torch.tensor(run.graph.edge_features[:, 0]),) if model == "gcn" else ()
            with torch.no_grad():
                found = layers[1](torch.relu(layers[0](torch.tensor(x), index, *more)), index, *more)
            np.testing.assert_allclose(found.numpy(), run.scores(), atol=1e-5)


class Masks(Case):
    def test_integer_masks(self) -> None:
        matrix = sp.csr_matrix(np.ones((6, 6)) - np.eye(6))
        rest = {"x": np.eye(6, dtype=np.float32), "y": np.array([0, 1, 0, 1, 0, 1])}
        mask = np.array([0, 0, 1, 1, 0, 0])
        made = eciton.graph(matrix, train=mask.astype(bool), test=[4, 5], **rest)
        self.assertEqual(made.split["train"].tolist(), [2, 3])
        for kind in (np.uint8, np.int64, np.float32, np.uint16):
            for part in ("train", "val", "test"):
                with self.subTest(kind.__name__, part=part), self.assertRaisesRegex(ValueError, rf"{part}.*seems to be a mask"):
                    eciton.graph(matrix, **{"train": [0], part: mask.astype(kind)}, **rest)
        with self.assertRaisesRegex(ValueError, "astype.bool"):
            pairs = SimpleNamespace(edge_index=np.array([[0, 1], [1, 2]]), num_nodes=6, train_mask=mask, **rest)
            eciton.graph(pairs)
        with self.assertRaisesRegex(ValueError, "seems to be a mask"):
            eciton.graph(matrix, train=np.stack([mask, mask], axis=1), **rest)
        self.assertEqual(eciton.graph(matrix, train=[1, 0], **rest).split["train"].tolist(), [0, 1])

    def test_masked_arrays(self) -> None:
        edges, x, y = np.array([[0, 1], [1, 2]]), np.eye(3, dtype=np.float32), np.array([0, 1, 0])

        def masked(array, at):
            made = np.ma.array(array)
            made[at] = np.ma.masked
            return made

        self.assertEqual(eciton.graph(np.ma.array(edges), np.ma.array(x), np.ma.array(y)).num_edges, 2)
        for what, call in (
            ("graph", lambda: eciton.graph(masked(edges, (0, 1)), x, y)),
            ("x", lambda: eciton.graph(edges, masked(x, (1, 1)), y)),
            ("y", lambda: eciton.graph(edges, x, masked(y, 2))),
            ("train", lambda: eciton.graph(edges, x, y, train=masked(np.array([True, False, True]), 0))),
            ("edge_features", lambda: eciton.graph(edges, x, y, edge_features=masked(np.ones(2), 1))),
        ):
            with self.subTest(what), self.assertRaisesRegex(ValueError, f"{what}: the masked array has 1 masked"):
                call()

    def test_missing_values(self) -> None:
        pandas = self.skip_without("pandas")
        edges = pandas.DataFrame({"a": [0, 1, 2], "b": [1, 2, 3]})
        nodes = pandas.DataFrame({"id": [0, 1, 2, 3], "age": pandas.array([1, 2, None, 4], "Int64")})
        with self.assertRaisesRegex(ValueError, "x, column 'age': row 2"):
            eciton.graph(edges, x=nodes, ids="id")
        for kind in ("Int64", "Float64", "boolean", "object", "string"):
            labels = pandas.Series([1, 0, None, 1], dtype="Int64").astype(kind)
            made = quiet(edges, y=labels, ids=[0, 1, 2, 3])
            self.assertEqual([one < 0 for one in made.y.tolist()], [False, False, True, False], kind)
        with self.assertRaisesRegex(ValueError, "column 'b': row 1 has no id"):
            eciton.graph(pandas.DataFrame({"a": [0, 1], "b": [1, None]}))
        with self.assertRaisesRegex(ValueError, "column 'w': row 1 has no value"):
            eciton.graph(pandas.DataFrame({"a": [0, 1], "b": [1, 2], "w": [1.0, None]}))


class Labels(Case):
    def test_signs_are_two_classes(self) -> None:
        edges = np.array([[0, 1, 2, 3], [1, 2, 3, 0]])
        for y in (np.array([-1, 1, 1, -1]), np.array([-1.0, 1, 1, -1]), [-1, 1, 1, -1]):
            with self.assertWarnsRegex(UserWarning, "-1 and 1 were read as two classes"):
                made = eciton.graph(edges, y=y)
            self.assertEqual((made.classes, made.y.tolist()), (["-1", "1"], [0, 1, 1, 0]))
        missing = quiet(edges, y=[-1.0, 1.0, np.nan, -1.0])
        self.assertEqual(missing.y.tolist(), [0, 1, -1, 0])
        self.assertEqual(eciton.graph(edges, y=[0, 1, -1, 1]).y.tolist(), [0, 1, -1, 1])

    def test_numbers_to_predict(self) -> None:
        edges = np.stack([np.arange(40), (np.arange(40) + 1) % 40])
        with self.assertWarnsRegex(UserWarning, 'look like numbers to predict.*task="regression"'):
            eciton.graph(edges, y=np.arange(40) * 3)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            eciton.graph(edges, y=np.arange(40) % 30 % 10)


class Frames(Case):
    def test_ids_that_do_not_join(self) -> None:
        pandas = self.skip_without("pandas")
        edges = pandas.DataFrame({"a": ["n1", "n2"], "b": ["n2", "n3"]})
        names = [f"n{at}" for at in range(1, 4)]
        self.assertIn(("fact", "ids: edges refer to 3 of 3 nodes"), eciton.graph(edges, ids=names).report)
        with self.assertRaisesRegex(ValueError, "none of the 3 ids of the edges"):
            eciton.graph(edges, ids=["1", "2", "3"])
        with self.assertRaisesRegex(ValueError, "'n3', which is not among the ids .1 of 3"):
            eciton.graph(edges, ids=["n1", "n2"])
        with self.assertWarnsRegex(UserWarning, "6 of 9 nodes have no edge"):
            eciton.graph(edges, ids=[*names, *"uvwxyz"])
        floats = pandas.DataFrame({"a": [1.0, 2.0], "b": [2.0, 3.0]})
        self.assertEqual(eciton.graph(floats, ids=[1, 2, 3]).num_edges, 4)
        with self.assertRaisesRegex(ValueError, "'n1' occurs more than once"):
            eciton.graph(edges, ids=["n1", "n1", "n2", "n3"])

    def test_rows_in_another_order(self) -> None:
        pandas = self.skip_without("pandas")
        edges = np.array([[0, 1], [1, 2]])
        x = pandas.DataFrame({"age": [1.0, 2, 3]}, index=["a", "b", "c"])
        y = pandas.Series([0, 1, 0], index=["b", "a", "c"])
        with self.assertRaisesRegex(ValueError, "y: row 0 has the index 'b', but in x it is 'a'.*y.loc.x.index"):
            eciton.graph(edges, x=x, y=y)
        self.assertEqual(eciton.graph(edges, x=x, y=y.loc[x.index]).y.tolist(), [1, 0, 0])
        self.assertEqual(eciton.graph(edges, x=x, y=y.tolist()).y.tolist(), [0, 1, 0])
        with self.assertWarnsRegex(UserWarning, "the index is not 0, 1, 2"):
            eciton.graph(edges, x=x.set_axis([2, 0, 1]))
        frame = pandas.DataFrame({"a": [1, 2], "b": [2, 1]})
        with self.assertWarnsRegex(UserWarning, "if ids start at 1"):
            eciton.graph(frame, x=np.eye(3))

    def test_an_index_is_no_column(self) -> None:
        pandas = self.skip_without("pandas")
        edges = pandas.DataFrame({"a": [0, 1], "b": [1, 2]})
        with self.assertRaisesRegex(ValueError, "edges: column 'Unnamed: 0' counts the rows"):
            eciton.graph(edges.rename_axis("Unnamed: 0").reset_index())
        nodes = pandas.DataFrame({"Unnamed: 0": [0, 1, 2], "age": [1.0, 2, 3]})
        with self.assertRaisesRegex(ValueError, "x: column 'Unnamed: 0' counts the rows"):
            eciton.graph(np.array([[0, 1], [1, 2]]), x=nodes)


if __name__ == "__main__":
    unittest.main()
