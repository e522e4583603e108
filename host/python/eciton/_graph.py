"""Function `eciton.graph`, which creates a data set from objects in memory or from a name or path."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eciton import _arrays as arrays
from eciton import _eciton, _known, _objects


class Graph:
    """Graph with features, labels, split and ids. `eciton.graph` creates it."""

    def __init__(self, data: _eciton.Data) -> None:
        self._data = data

    @property
    def name(self) -> str:
        """Name of the data set."""
        return self._data.name

    @property
    def source(self) -> str | None:
        """Name or path of the data set, or `None` if it was created from objects in memory."""
        return self._data.source

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return self._data.num_nodes

    @property
    def num_edges(self) -> int:
        """Number of directed edges. An undirected edge counts twice."""
        return self._data.num_edges

    @property
    def num_features(self) -> int:
        """Number of feature columns. Without features, each node has a column of its own."""
        return self._data.num_features

    @property
    def num_edge_features(self) -> int:
        """Number of edge feature columns, or 0 without edge features."""
        return self._data.num_edge_features

    @property
    def num_graphs(self) -> int:
        """Number of graphs. It is 1 except for a data set of many graphs."""
        return self._data.num_graphs

    @property
    def num_classes(self) -> int:
        """Number of classes, of binary labels, or of target values."""
        return self._data.num_outputs

    @property
    def task(self) -> str:
        """Task that the labels define: `classification`, `multi-label` or `regression`."""
        return self._data.task

    @property
    def directed(self) -> bool:
        """True if an edge has no reverse edge."""
        return self._data.directed

    @property
    def sparse_features(self) -> bool:
        """True if only the non-zero features are stored."""
        return self._data.sparse_features

    @property
    def classes(self) -> list[str] | None:
        """Names of the classes, in order, or `None` if classes have no names."""
        return self._data.classes or None

    @property
    def ids(self) -> NDArray[Any]:
        """Ids of the nodes, or of the graphs of a data set with many graphs."""
        return _ids(self._data.ids(), self.num_graphs if self._data.many_graphs else self.num_nodes)

    @property
    def x(self) -> NDArray[np.float32]:
        """Features [nodes, columns] as they were read, before any scaling, as a dense array."""
        return self._data.features()

    @property
    def feature_names(self) -> list[str] | None:
        """Names of the feature columns, in order, or `None` if they have no names."""
        return self._data.column_names()[0] or None

    @property
    def y(self) -> NDArray[Any]:
        """Labels: classes [rows] with -1 for unlabelled rows, or values [rows, columns] with NaN for unknown values."""
        return self._data.labels()

    @property
    def split(self) -> dict[str, NDArray[np.int64]]:
        """Rows for training (`train`), validation (`val`) and test (`test`)."""
        return dict(zip(("train", "val", "test"), self._data.split()))

    @property
    def labelled_edges(self) -> NDArray[np.int64] | None:
        """Sources and targets [2, rows] of the edges that `y` and `split` belong to, or `None` if it is not edges."""
        found = self._data.labelled_edges()
        return None if found is None else np.stack(found)

    @property
    def edge_features(self) -> NDArray[np.float32] | None:
        """Edge features [edges, columns] in the order of `edge_index`, or `None`."""
        return self._data.edge_features()

    @property
    def report(self) -> list[tuple[str, str]]:
        """Report on how the data was read: pairs of level (`fact`, `note` or `warning`) and text."""
        return self._data.report()

    @property
    def edge_index(self) -> NDArray[np.int64]:
        """Sources and targets of the edges [2, edges], sorted by target."""
        return np.stack(self._data.edges())

    def save(self, path: str | os.PathLike[str]) -> Graph:
        """Write the graph as a store to `path`, which must not exist, and return the stored graph.

        A run on the stored graph records the path, so that commands such as `eciton predict` can read the data again.
        """
        self._data.save(path)
        stored = graph(path)
        return Graph(stored._data) if self.classes is None else _renamed(stored, self.classes)

    def __repr__(self) -> str:
        graphs = f", {self.num_graphs:,} graphs" if self._data.many_graphs else ""
        edges = self.labelled_edges
        graphs += "" if edges is None else f", {edges.shape[1]:,} labelled edges"
        return (
            f"<eciton.Graph {self.name!r}: {self.num_nodes:,} nodes, {self.num_edges:,} directed edges{graphs}, "
            f"{self.num_features:,} {'sparse ' if self.sparse_features else ''}features, {self.num_classes} "
            f"{'classes' if self.task == 'classification' else 'labels'}>"
        )


def _renamed(stored: Graph, classes: list[str]) -> Graph:
    stored._data = stored._data.with_classes(classes)
    return stored


def _ids(found: NDArray[np.uint64] | list[str] | None, rows: int) -> NDArray[Any]:
    if found is None:
        return np.arange(rows)
    if isinstance(found, list):
        return np.array(found, object)
    return found.astype(np.int64) if found.size == 0 or found.max() < 2**63 else found


def graph(
    edges: Any,
    x: Any = None,
    y: Any = None,
    *,
    train: Any = None,
    val: Any = None,
    test: Any = None,
    ids: Any = None,
    classes: Sequence[Any] | None = None,
    edge_features: Any = None,
    edge_labels: Any = None,
    num_nodes: int | None = None,
    directed: bool | None = None,
    self_loops: bool | None = None,
    mask: int = 0,
    name: str | None = None,
) -> Graph:
    """Create a graph from a matrix, edges, a graph of another library, a name or a path.

    `edges`: a sparse matrix of SciPy, an `edge_index` [2, edges], a graph of PyG, DGL, networkx or igraph, a sequence
    of PyG's `Data` (many graphs), a data frame of edges (pandas, polars, pyarrow), an OGB data set, or a name or path.
    `x`: features [nodes, columns], as an array, a sparse matrix or a data frame. Sparse features stay sparse.
    `y`: labels. Whole numbers from 0 (-1: unlabelled) or texts are classes, a 0/1 matrix is several labels, and
    fractions are numbers to predict. If `x` is a data frame, `y` and `ids` may be names of its columns. With a path, `y`
    is the name of the label column.
    `train`, `val`, `test`: split, as masks, row numbers or ids. Default: a random split of the labelled rows into 60,
    20 and 20 % (seed 0). If only `test` is missing, it consists of all other labelled rows.
    `mask`: column of PyG's masks with several splits [default: 0].
    `ids`: ids of the nodes. `classes`: names of the classes, in order.
    `edge_features`: array [edges, columns] in the order of the edges, "data" for the values of a sparse matrix, or
    names of columns or attributes.
    `edge_labels`: labels of the edges in their order, to be learnt in place of `y`, or the name of their column in a data
    frame of edges or at a path. The split then consists of edges. Features of the edges are read by the model.
    `directed`: false to add the reverse of every edge. Default: false for data frames of edges; otherwise the direction
    that the object defines.
    `self_loops`: true to keep self-loops. Default: they are dropped (for a store, kept as stored).

    Duplicate edges are merged and their values are added up. An edge whose only value is a weight of 0 is dropped.
    docs/reference/data-formats.md describes the rules. `Graph.report` lists what was found.

    Raises ValueError or TypeError if the arguments do not fit together.

    >>> import numpy as np, eciton
    >>> g = eciton.graph(np.array([[0, 1, 2], [1, 2, 0]]), y=["a", "b", "a"], directed=False)
    >>> g.num_nodes, g.num_edges, g.classes
    (3, 6, ['a', 'b'])
    """
    if isinstance(edges, Graph):
        return edges
    if isinstance(edges, (str, os.PathLike)):
        given = {"x": x, "train": train, "val": val, "test": test, "ids": ids, "edge_features": edge_features}
        columns = {"y": y, "edge_labels": edge_labels}
        given |= {key: value for key, value in columns.items() if not isinstance(value, str)}
        others = [key for key, value in given.items() if value is not None]
        if others:
            raise TypeError(
                f"{', '.join(others)}: not allowed with the name or path of a data set, which has its own values"
            )
        data = _eciton.open(os.fspath(edges), name, self_loops, None, y, edge_labels)
        _warn(data)
        return Graph(data if classes is None else data.with_classes([str(one) for one in classes]))
    of_edges = edge_labels if isinstance(edge_labels, str) else getattr(edge_labels, "name", None)
    leave_out = edge_labels if isinstance(edge_labels, str) else None
    if isinstance(edge_labels, str):
        if not arrays.is_frame(edges):
            raise TypeError(f"edge_labels: {edge_labels!r} names a column, but edges is not a data frame; pass the values")
        edge_labels = arrays.column(edges, edge_labels, "edges")
    found = _objects.find(edges, edge_features if _is_choice(edge_features) else None, leave_out)
    if edge_features is not None and not _is_choice(edge_features):
        framed = arrays.is_frame(edge_features)
        found.edge_names = [str(one) for one in arrays.columns(edge_features)] if framed else []
        found.edge_features = _table(edge_features) if framed else edge_features
        found.weight, found.structure = _objects.one_weight(found.edge_names), False
    for key, value in (("ids", ids), ("y", y)):
        if isinstance(value, str) and not arrays.is_frame(x):
            raise TypeError(f"{key}: {value!r} names a column, but x is not a data frame; pass the values")
    leave: list[str] = []
    if isinstance(ids, str):
        leave.append(ids)
        column = arrays.plain(arrays.column(x, ids, "x"))
        arrays.complete(column, f"x, column {ids!r}")
        ids = _as_listed(column)
    target = y if isinstance(y, str) else getattr(y, "name", None)
    if isinstance(y, str):
        leave.append(y)
        y = arrays.column(x, y, "x")
    elif arrays.is_frame(y):
        target = arrays.columns(y)
        y = _table(y)
    if arrays.is_frame(x):
        arrays.refuse_index(x, "x")
    for what, thing in (("y", y), ("ids", ids), ("train", train), ("val", val), ("test", test)):
        arrays.refuse_other_order(thing, x, (what, "x"))
    shuffled = _is_shuffled(x) and ids is None
    x = found.x if x is None else x
    if edge_labels is not None:
        if y is not None or found.graph_of is not None or found.edges is None:
            reason = "y" if y is not None else "many graphs" if found.graph_of is not None else "a compressed matrix"
            raise ValueError(f"edge_labels: not allowed with {reason}; pass an edge_index [2, edges] without y")
        y = None
    else:
        y = found.y if y is None else y
    if ids is not None:
        column = arrays.plain(arrays.array(ids, "ids"))
        arrays.complete(column.reshape(-1), "ids")
        found.ids = _as_listed(column)
    if num_nodes is not None:
        found.nodes = num_nodes
    joins = _number(found, x, y)
    if found.nodes is None or found.nodes == 0:
        raise ValueError("the graph has no nodes; pass edges, x or num_nodes")
    builder = _eciton.Builder(
        name or found.name, found.nodes, found.directed if directed is None else directed, bool(self_loops)
    )
    for level, text in joins:
        builder.note(level, text)
    if shuffled:
        text = "x: the index is not 0, 1, 2, ..., but rows are used in order; to use the index, pass ids=x.index"
        builder.note("warning", text)
    if edge_labels is not None:
        target, y, found.masks = of_edges, edge_labels, {}
    builder.names(_known.feature_names(x, leave), found.edge_names, _known.target_names(target))
    _edges(builder, found, edge_labels is not None)
    if x is not None:
        _known.features(builder, x, found.nodes, leave)
    rows, unit = found.nodes, "nodes"
    if found.graph_of is not None:
        builder.graphs(found.graph_of)
        rows, unit = int(found.graph_of[-1]) + 1, "graphs"
        named = None
    else:
        named = _known.named(builder, found.ids, rows)
    if edge_labels is not None and found.edges is not None:
        rows, unit, named = len(found.edges[0]), "edges", None
    if y is not None:
        _known.labels(builder, y, rows, classes, unit)
    parts = [
        found.masks.get(key) if one is None else one for key, one in (("train", train), ("val", val), ("test", test))
    ]
    if found.masks and (train is not None or val is not None or test is not None):
        parts = [train, val, test]
    _known.split(builder, parts, rows, _known.known(y, rows), named, mask)
    made = builder.finish()
    _warn(made)
    return Graph(made)


def opened(data: Any, *asked: Mapping[str, Any] | None) -> Graph:
    """Return the graph that `data` is, or that it names. At a path, the label columns are those in the settings `asked`."""
    if isinstance(data, Graph):
        return data
    if not isinstance(data, (str, os.PathLike)):
        return graph(data)
    named = {key: value for settings in asked for key, value in (settings or {}).items()}
    label, edge_label = (named.get(key, named.get(f"data.{key}")) for key in ("label", "edge_label"))
    return graph(data, y=label, edge_labels=edge_label)


def _warn(data: _eciton.Data) -> None:
    """Issue the notes and warnings of the reading report as Python warnings for the caller of `graph`."""
    for level, text in data.report():
        if level != "fact":
            warnings.warn(text, stacklevel=3)


def _as_listed(column: NDArray[Any]) -> list[Any]:
    """Return ids as a list. Floats with whole values become integers."""
    if column.dtype.kind == "f" and bool(np.all(column == np.floor(column))):
        column = column.astype(np.int64)
    return list(column.tolist())


def _is_shuffled(x: Any) -> bool:
    """Return true if a pandas data frame has a numeric index other than 0, 1, 2, ..."""
    found = arrays.index(x)
    return found is not None and found.dtype.kind in "iuf" and not np.array_equal(found, np.arange(found.size))


def _table(frame: Any) -> NDArray[Any]:
    """Return the columns of a data frame of labels as one array."""
    found = [arrays.plain(arrays.column(frame, name, "y")) for name in arrays.columns(frame)]
    return found[0] if len(found) == 1 else np.stack(found, axis=1)


def _is_choice(thing: Any) -> bool:
    """Return true if the argument is a column name or a list of column names."""
    return isinstance(thing, str) or (isinstance(thing, (list, tuple)) and len(thing) > 0 and isinstance(thing[0], str))


def _number(found: _objects.Found, x: Any, y: Any) -> list[tuple[str, str]]:
    """Number the nodes, if edges refer to ids or the number of nodes is unknown.

    Returns lines of the reading report about ids in the edges.
    """
    report: list[tuple[str, str]] = []
    rows = None
    for thing in (x, y):
        if rows is None and thing is not None and found.graph_of is None:
            rows = int(thing.shape[0]) if hasattr(thing, "shape") else len(thing)
    if found.edges is not None and found.by_id and (found.ids is not None or rows is None or _are_words(found.edges)):
        if found.ids is None and rows is not None:
            text = "ids: edges refer to nodes by ids, but the rows of x and y have no ids; pass ids with one id per row"
            raise ValueError(text)
        report = _by_id(found)
    elif found.edges is not None:
        found.edges = (arrays.whole(found.edges[0], "edges"), arrays.whole(found.edges[1], "edges"))
        if found.by_id and found.edges[0].size and min(int(end.min()) for end in found.edges) == 1:
            text = "edges: ids were used as row numbers from 0, but no id is 0; if ids start at 1, pass ids"
            report.append(("warning", text))
    if found.nodes is None:
        found.nodes = len(found.ids) if found.ids is not None else rows
    if found.nodes is None and found.edges is not None:
        found.nodes = max(int(found.edges[0].max(initial=-1)), int(found.edges[1].max(initial=-1))) + 1
    return report


def _are_words(edges: tuple[Any, Any]) -> bool:
    return any(end.dtype.kind in "OUST" for end in edges)


def _by_id(found: _objects.Found) -> list[tuple[str, str]]:
    """Convert ids of edges to node numbers.

    Without given ids, numeric ids are sorted, and texts are in order of appearance.
    """
    assert found.edges is not None
    report: list[tuple[str, str]] = []
    ends = np.stack(found.edges, axis=1).reshape(-1)
    if ends.dtype.kind == "f" and bool(np.all(ends == np.floor(ends))):
        ends = ends.astype(np.int64)  # pandas stores whole numbers as floats if a column had a NaN
    whole = ends.dtype.kind in "iu"
    if not whole:
        ends = np.array([str(end) for end in ends.tolist()], object)
    unique, first, at = np.unique(ends, return_index=True, return_inverse=True)
    if found.ids is None:
        order = np.arange(len(unique)) if whole else np.argsort(first, kind="stable")
        found.ids = unique[order].tolist()
        rows = np.empty(len(unique), np.int64)
        rows[order] = np.arange(len(unique))
    else:
        number = {(one if whole else str(one)): row for row, one in enumerate(found.ids)}
        missing = [one for one in unique.tolist() if one not in number]
        joined = len(unique) - len(missing)
        if missing and joined == 0:
            example = found.ids[0] if found.ids else None
            raise ValueError(
                f"none of the {len(unique):,} ids of the edges (such as {missing[0]!r}) is among the "
                f"{len(found.ids):,} ids of the nodes (such as {example!r}); both must use the same ids"
            )
        if missing:
            raise ValueError(
                f"an edge refers to node {missing[0]!r}, which is not among the ids ({len(missing):,} of "
                f"{len(unique):,} ids of the edges are unknown); add the node, or remove the edge"
            )
        alone = len(found.ids) - joined
        report.append(("fact", f"ids: edges refer to {joined:,} of {len(found.ids):,} nodes"))
        if 2 * alone > len(found.ids):
            text = f"ids: {alone:,} of {len(found.ids):,} nodes have no edge; check that both use the same ids"
            report.append(("warning", text))
        rows = np.array([number[one] for one in unique.tolist()], np.int64)
    numbered = rows[at].reshape(-1, 2)
    found.edges = (numbered[:, 0].copy(), numbered[:, 1].copy())
    return report


def _edges(builder: _eciton.Builder, found: _objects.Found, labelled: bool) -> None:
    """Pass the edges to the builder, compressed lists without a copy if possible. `labelled`: the edges have labels."""
    values = None
    if found.edge_features is not None:
        values = arrays.edge_values(found.edge_features, "edge_features")
        # A 1-D array has the weights of edges. A table with one column is a weight only if its name is.
        found.weight = found.weight or values.ndim == 1
        values = np.ascontiguousarray(values[:, None] if values.ndim == 1 else values)
        if values.ndim != 2:
            raise ValueError(f"edge_features: expected [edges, columns], found {list(values.shape)}")
        if found.lists is not None:
            raise ValueError(
                'edge_features: a compressed matrix defines no order of edges; pass "data", or a matrix in COO format'
            )
    if found.lists is not None:
        offsets, neighbours, outgoing = found.lists
        narrow = neighbours
        if neighbours.dtype != np.int32 or not neighbours.flags.c_contiguous:
            wide = arrays.whole(neighbours, "indices")
            if wide.size and (wide.max() > np.iinfo(np.int32).max or wide.min() < 0):
                raise ValueError(
                    f"indices: found node {int(wide.max())}, expected 0 to {(found.nodes or 0) - 1}"
                )
            narrow = wide.astype(np.int32)
        builder.lists(arrays.whole(offsets, "indptr"), narrow, outgoing)
        return
    if found.edges is None:
        raise TypeError("the graph has no edges; for a graph without edges, pass an empty edge_index [2, 0]")
    sources, targets = (np.ascontiguousarray(arrays.whole(end, "edges")) for end in found.edges)
    if len(sources) != len(targets):
        raise ValueError(f"edges: found {len(sources):,} sources, but {len(targets):,} targets")
    if values is not None and len(values) != len(sources):
        raise ValueError(
            f"edge_features: found {len(values):,} rows, expected one row for each of the {len(sources):,} edges"
        )
    builder.edges(sources, targets, values, found.weight, (not found.structure, labelled))
