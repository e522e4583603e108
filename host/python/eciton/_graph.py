"""`eciton.graph`: a data set of what is in memory, or of a name or path."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eciton import _arrays as arrays
from eciton import _eciton, _known, _objects


class Graph:
    """A graph with features, labels, parts and ids, as a run reads it. `eciton.graph` makes one."""

    def __init__(self, data: _eciton.Data) -> None:
        self._data = data

    @property
    def name(self) -> str:
        """A short name."""
        return self._data.name

    @property
    def source(self) -> str | None:
        """The name or path that it was read from; `None`: it was made of objects in memory."""
        return self._data.source

    @property
    def num_nodes(self) -> int:
        """Nodes."""
        return self._data.num_nodes

    @property
    def num_edges(self) -> int:
        """Directed edges: an edge that goes both ways counts twice."""
        return self._data.num_edges

    @property
    def num_features(self) -> int:
        """Columns of the nodes' features; without features, a column a node."""
        return self._data.num_features

    @property
    def num_edge_features(self) -> int:
        """Columns of the edges' features, or 0."""
        return self._data.num_edge_features

    @property
    def num_graphs(self) -> int:
        """Graphs: 1, but for a data set of many."""
        return self._data.num_graphs

    @property
    def num_classes(self) -> int:
        """Classes, or columns of labels."""
        return self._data.num_outputs

    @property
    def task(self) -> str:
        """What its labels are for: `classification`, `multi-label` or `regression`."""
        return self._data.task

    @property
    def directed(self) -> bool:
        """Whether some edge has no reverse."""
        return self._data.directed

    @property
    def sparse_features(self) -> bool:
        """Whether features are kept as the values that are not zero."""
        return self._data.sparse_features

    @property
    def classes(self) -> list[str] | None:
        """Names of the classes, in order; `None` where they are numbers."""
        return self._data.classes or None

    @property
    def ids(self) -> NDArray[Any]:
        """What nodes are called (of many graphs: graphs), [rows]."""
        return _ids(self._data.ids(), self.num_graphs if self._data.many_graphs else self.num_nodes)

    @property
    def x(self) -> NDArray[np.float32]:
        """Features [nodes, columns] as they were read, before any scaling. Sparse features become dense."""
        return self._data.features()

    @property
    def feature_names(self) -> list[str] | None:
        """Names of the feature columns, in order; `None` if they have no names."""
        return self._data.column_names()[0] or None

    @property
    def y(self) -> NDArray[Any]:
        """Labels: classes [rows], -1 for none, or values [rows, columns], NaN for what is unknown."""
        return self._data.labels()

    @property
    def split(self) -> dict[str, NDArray[np.int64]]:
        """Rows that train, choose between models (`val`) and test."""
        return dict(zip(("train", "val", "test"), self._data.split()))

    @property
    def edge_features(self) -> NDArray[np.float32] | None:
        """[edges, columns] in the order of `edge_index`, or `None`."""
        return self._data.edge_features()

    @property
    def report(self) -> list[tuple[str, str]]:
        """The reading report: (level, text), of which the level is `fact`, `note` or `warning`."""
        return self._data.report()

    @property
    def edge_index(self) -> NDArray[np.int64]:
        """[2, edges]: sources and targets, by target."""
        return np.stack(self._data.edges())

    def save(self, path: str | os.PathLike[str]) -> Graph:
        """Writes a store at `path`, where nothing may lie yet, and gives the graph that lies there.

        A run on that one can be looked at by the command `eciton`, and names its data by the path.
        """
        self._data.save(path)
        stored = graph(path)
        return Graph(stored._data) if self.classes is None else _renamed(stored, self.classes)

    def __repr__(self) -> str:
        graphs = f", {self.num_graphs:,} graphs" if self._data.many_graphs else ""
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
    num_nodes: int | None = None,
    directed: bool | None = None,
    self_loops: bool | None = None,
    mask: int = 0,
    name: str | None = None,
) -> Graph:
    """A graph of whatever holds one.

    `edges` is a sparse matrix of SciPy, an `edge_index` [2, edges], a graph of PyG, DGL, networkx or igraph, a sequence
    of PyG's `Data` (many graphs), a frame of edges (pandas, polars, pyarrow), an OGB data set (of one graph or many), a
    name or a path.

    `x`: features [nodes, columns]: an array, a sparse matrix (it stays sparse) or a frame, of which `y` and `ids` may
    name columns. `y`: classes from 0 on (-1: none) or words, several labels, or fractions to predict numbers.
    `train`, `val`, `test`: masks, numbers of rows, or ids; without any, 60 / 20 / 20 of the labelled rows by chance
    (seed 0), and without `test` all other labelled rows. `mask` is the column of PyG's masks of several splits.
    `ids`: what nodes are called. `classes`: names of the classes, in order. `edge_features`: [edges, columns] in the
    order of the edges; "data" of a sparse matrix; names of columns or attributes.
    `directed`: whether an edge goes one way only. Matrices, `edge_index` and Python graphs are taken as they are,
    frames of edges go both ways. Edges of a node to itself are left out, unless `self_loops` is true (of a store that
    was read from a path: unless it is false). Edges that repeat are added up, and an edge whose only value is a weight
    of 0 is no edge: docs/reference/data-formats.md has the rule. `Graph.report` tells what was found.

    Raises ValueError and TypeError, in words, for what does not fit together.

    >>> import numpy as np, eciton
    >>> g = eciton.graph(np.array([[0, 1, 2], [1, 2, 0]]), y=["a", "b", "a"], directed=False)
    >>> g.num_nodes, g.num_edges, g.classes
    (3, 6, ['a', 'b'])
    """
    if isinstance(edges, Graph):
        return edges
    if isinstance(edges, (str, os.PathLike)):
        given = {"x": x, "y": y, "train": train, "val": val, "test": test, "ids": ids, "edge_features": edge_features}
        others = [key for key, value in given.items() if value is not None]
        if others:
            raise TypeError(
                f"{', '.join(others)}: a name or path of a data set has its own; give the arrays with a matrix or edges"
            )
        data = _eciton.open(os.fspath(edges), name, self_loops, None)
        _warn(data)
        return Graph(data if classes is None else data.with_classes([str(one) for one in classes]))
    found = _objects.find(edges, edge_features if _is_choice(edge_features) else None)
    if edge_features is not None and not _is_choice(edge_features):
        framed = arrays.is_frame(edge_features)
        found.edge_names = [str(one) for one in arrays.columns(edge_features)] if framed else []
        found.edge_features = _table(edge_features) if framed else edge_features
        found.weight, found.structure = _objects.one_weight(found.edge_names), False
    for key, value in (("ids", ids), ("y", y)):
        if isinstance(value, str) and not arrays.is_frame(x):
            raise TypeError(f"{key}: {value!r} names a column, and x is no frame; give the values")
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
    y = found.y if y is None else y
    if ids is not None:
        column = arrays.plain(arrays.array(ids, "ids"))
        arrays.complete(column.reshape(-1), "ids")
        found.ids = _as_listed(column)
    if num_nodes is not None:
        found.nodes = num_nodes
    joins = _number(found, x, y)
    if found.nodes is None or found.nodes == 0:
        raise ValueError("the graph has no nodes; give edges, x or num_nodes")
    builder = _eciton.Builder(
        name or found.name, found.nodes, found.directed if directed is None else directed, bool(self_loops)
    )
    for level, text in joins:
        builder.note(level, text)
    if shuffled:
        builder.note("warning", "x: its index is not 0, 1, 2, ...; rows are taken in their order: give ids=x.index")
    builder.names(_known.feature_names(x, leave), found.edge_names, _known.target_names(target))
    _edges(builder, found)
    if x is not None:
        _known.features(builder, x, found.nodes, leave)
    rows, unit = found.nodes, "nodes"
    if found.graph_of is not None:
        builder.graphs(found.graph_of)
        rows, unit = int(found.graph_of[-1]) + 1, "graphs"
        named = None
    else:
        named = _known.named(builder, found.ids, rows)
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


def _warn(data: _eciton.Data) -> None:
    """Shows the lines of the reading report that are no plain facts as warnings of the caller of `graph`."""
    for level, text in data.report():
        if level != "fact":
            warnings.warn(text, stacklevel=3)


def _as_listed(column: NDArray[Any]) -> list[Any]:
    """Ids as a list: whole numbers stay numbers, whatever type the column had."""
    if column.dtype.kind == "f" and bool(np.all(column == np.floor(column))):
        column = column.astype(np.int64)
    return list(column.tolist())


def _is_shuffled(x: Any) -> bool:
    """Whether a frame of pandas has an index of numbers that are not the numbers of its rows."""
    found = arrays.index(x)
    return found is not None and found.dtype.kind in "iuf" and not np.array_equal(found, np.arange(found.size))


def _table(frame: Any) -> NDArray[Any]:
    """The columns of a frame of labels, side by side."""
    found = [arrays.plain(arrays.column(frame, name, "y")) for name in arrays.columns(frame)]
    return found[0] if len(found) == 1 else np.stack(found, axis=1)


def _is_choice(thing: Any) -> bool:
    """Whether it names columns."""
    return isinstance(thing, str) or (isinstance(thing, (list, tuple)) and len(thing) > 0 and isinstance(thing[0], str))


def _number(found: _objects.Found, x: Any, y: Any) -> list[tuple[str, str]]:
    """Gives nodes their numbers, where edges name them by ids or do not say how many there are.

    Returns lines of the reading report about ids that join.
    """
    report: list[tuple[str, str]] = []
    rows = None
    for thing in (x, y):
        if rows is None and thing is not None and found.graph_of is None:
            rows = int(thing.shape[0]) if hasattr(thing, "shape") else len(thing)
    if found.edges is not None and found.by_id and (found.ids is not None or rows is None or _are_words(found.edges)):
        if found.ids is None and rows is not None:
            raise ValueError("ids: edges name nodes by words, and rows of x and y have none; give ids, a word a row")
        report = _by_id(found)
    elif found.edges is not None:
        found.edges = (arrays.whole(found.edges[0], "edges"), arrays.whole(found.edges[1], "edges"))
        if found.by_id and found.edges[0].size and min(int(end.min()) for end in found.edges) == 1:
            text = "edges: ids were taken as row numbers from 0, and none is 0; if they count from 1, give ids"
            report.append(("warning", text))
    if found.nodes is None:
        found.nodes = len(found.ids) if found.ids is not None else rows
    if found.nodes is None and found.edges is not None:
        found.nodes = max(int(found.edges[0].max(initial=-1)), int(found.edges[1].max(initial=-1))) + 1
    return report


def _are_words(edges: tuple[Any, Any]) -> bool:
    return any(end.dtype.kind in "OUST" for end in edges)


def _by_id(found: _objects.Found) -> list[tuple[str, str]]:
    """Edges by ids: all ids of the edges, numbers in order and words as they come first, unless ids are given."""
    assert found.edges is not None
    report: list[tuple[str, str]] = []
    ends = np.stack(found.edges, axis=1).reshape(-1)
    if ends.dtype.kind == "f" and bool(np.all(ends == np.floor(ends))):
        ends = ends.astype(np.int64)  # pandas writes whole numbers as 1.0 once a column had a NaN
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
                f"none of the {len(unique):,} ids of the edges (for instance {missing[0]!r}) is among the "
                f"{len(found.ids):,} ids of the nodes (for instance {example!r}); write ids the same way in both"
            )
        if missing:
            raise ValueError(
                f"an edge names node {missing[0]!r}, which is not among the ids ({len(missing):,} of {len(unique):,} "
                "ids of the edges are not); add the node, or drop the edge"
            )
        alone = len(found.ids) - joined
        report.append(("fact", f"ids: edges name {joined:,} of {len(found.ids):,} nodes"))
        if 2 * alone > len(found.ids):
            report.append(
                ("warning", f"ids: {alone:,} of {len(found.ids):,} nodes are in no edge; are all ids written alike?")
            )
        rows = np.array([number[one] for one in unique.tolist()], np.int64)
    numbered = rows[at].reshape(-1, 2)
    found.edges = (numbered[:, 0].copy(), numbered[:, 1].copy())
    return report


def _edges(builder: _eciton.Builder, found: _objects.Found) -> None:
    """Hands the edges over: lists as they lie in memory, where they can be."""
    values = None
    if found.edge_features is not None:
        values = arrays.edge_values(found.edge_features, "edge_features")
        # One number an edge is its weight; a table of one column is what its name says.
        found.weight = found.weight or values.ndim == 1
        values = np.ascontiguousarray(values[:, None] if values.ndim == 1 else values)
        if values.ndim != 2:
            raise ValueError(f"edge_features: expected [edges, columns], found {list(values.shape)}")
        if found.lists is not None:
            raise ValueError('edge_features: a compressed matrix has no order of edges; give "data", or its COO form')
    if found.lists is not None:
        offsets, neighbours, outgoing = found.lists
        narrow = neighbours
        if neighbours.dtype != np.int32 or not neighbours.flags.c_contiguous:
            wide = arrays.whole(neighbours, "indices")
            if wide.size and (wide.max() > np.iinfo(np.int32).max or wide.min() < 0):
                raise ValueError(
                    f"indices: node {int(wide.max())} of {found.nodes}; rows are from 0 and below the matrix's size"
                )
            narrow = wide.astype(np.int32)
        builder.lists(arrays.whole(offsets, "indptr"), narrow, outgoing)
        return
    if found.edges is None:
        raise TypeError("a graph without edges: give an empty edge_index [2, 0]")
    sources, targets = (np.ascontiguousarray(arrays.whole(end, "edges")) for end in found.edges)
    if len(sources) != len(targets):
        raise ValueError(f"edges: {len(sources):,} sources, but {len(targets):,} targets")
    if values is not None and len(values) != len(sources):
        raise ValueError(
            f"edge_features: {len(values):,} rows, but there are {len(sources):,} edges; give each edge a row"
        )
    builder.edges(sources, targets, values, found.weight, not found.structure)
