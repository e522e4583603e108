"""What an object is that stands for a graph: found by its attributes, so that no library is imported for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eciton import _arrays as arrays


@dataclass
class Found:
    """Edges of a graph, and what else the object knows."""

    #: The number of nodes; `None`: as many as the edges name.
    nodes: int | None = None
    #: Compressed lists: offsets, neighbours, and whether they are of targets by source.
    lists: tuple[Any, Any, bool] | None = None
    #: Sources and targets.
    edges: tuple[Any, Any] | None = None
    #: A row an edge.
    edge_features: Any = None
    #: Names of the columns of `edge_features`, if they have some.
    edge_names: list[str] = field(default_factory=list)
    #: Whether the only column of `edge_features` is the edge's weight, so that 0 is no edge.
    weight: bool = False
    #: Whether `edge_features` only tell which edges there are.
    structure: bool = False
    #: Whether an edge goes one way only.
    directed: bool = True
    #: Ids of nodes, or `None`: 0, 1, 2, ...
    ids: list[Any] | None = None
    #: Whether the edges name nodes by ids that are not known yet.
    by_id: bool = False
    x: Any = None
    y: Any = None
    masks: dict[str, Any] = field(default_factory=dict)
    #: The graph of each node, where there are many.
    graph_of: NDArray[np.uint64] | None = None
    name: str = "graph"


def find(thing: Any, edge_columns: Any) -> Found:
    """What `thing` is. `edge_columns` are those of a frame, or names of edges' attributes, that are kept."""
    if arrays.is_sparse(thing):
        return matrix(thing, edge_columns)
    if hasattr(thing, "edge_types") and hasattr(thing, "node_types"):
        raise TypeError(
            "a heterogeneous graph: eciton trains on one kind of nodes and edges; call to_homogeneous() first"
        )
    if callable(getattr(thing, "get", None)) and callable(getattr(thing, "indices", None)):
        # A data set of PyG, which answers for its graphs as if they were one.
        return pyg(thing[0]) if len(thing) == 1 else graphs(thing)
    if getattr(thing, "edge_index", None) is not None:
        return pyg(thing)
    if hasattr(thing, "ndata") and hasattr(thing, "edata"):
        return dgl(thing)
    if hasattr(thing, "vs") and hasattr(thing, "get_edgelist"):
        return igraph(thing, edge_columns)
    if hasattr(thing, "nodes") and hasattr(thing, "is_directed"):
        return networkx(thing, edge_columns)
    if hasattr(thing, "get_idx_split"):
        found = graphs(thing, ogb_graph) if hasattr(thing, "graphs") else ogb(thing[0])
        found.masks = dict(
            zip(("train", "val", "test"), (thing.get_idx_split()[key] for key in ("train", "valid", "test")))
        )
        return found
    if isinstance(thing, tuple) and len(thing) == 2 and isinstance(thing[0], dict):
        return ogb(thing)
    if not isinstance(thing, (np.ndarray, dict)) and many(thing):
        return graphs(thing)
    if arrays.is_frame(thing):
        return frame(thing, edge_columns)
    return edge_index(thing)


def matrix(thing: Any, weights: Any) -> Found:
    """A sparse matrix of SciPy: an entry [i, j] is an edge from i to j."""
    if thing.shape[0] != thing.shape[1]:
        raise ValueError(
            f"the adjacency is {thing.shape[0]:,} x {thing.shape[1]:,}; give a square matrix, a row a node"
        )
    nodes = int(thing.shape[0])
    if weights is not None:
        if not isinstance(weights, str) or weights != "data":
            raise ValueError(
                'edge_features: of a sparse matrix it is "data", its values; for more columns give an edge_index'
            )
        coo = thing.tocoo()
        return Found(nodes, edges=(coo.row, coo.col), edge_features=coo.data[:, None], weight=True)
    compressed = hasattr(thing, "indptr") and getattr(thing, "format", "") in ("csr", "csc")
    held = thing if compressed else thing.tocoo()
    # Where no sum can be 0, the values tell nothing.
    if held.data.dtype.kind in "biuf" and (held.data.size == 0 or bool(held.data.min() > 0)):
        if compressed:
            return Found(nodes, lists=(thing.indptr, thing.indices, thing.format == "csr"))
        return Found(nodes, edges=(held.row, held.col))
    coo = thing.tocoo()
    return Found(nodes, edges=(coo.row, coo.col), edge_features=coo.data[:, None], weight=True, structure=True)


def edge_index(thing: Any) -> Found:
    """An array [2, edges], or a list of pairs."""
    found = arrays.array(thing, "graph")
    if found.ndim == 2 and found.dtype.kind == "f" and found.shape[0] == found.shape[1] and found.shape[0] > 2:
        raise TypeError("a dense adjacency: give scipy.sparse.csr_array(A), which keeps its edges alone")
    if found.ndim == 2 and found.shape[0] != 2 and found.shape[1] == 2:
        found = found.T
    if found.ndim != 2 or found.shape[0] != 2:
        raise TypeError(
            f"graph: {type(thing).__name__} of {list(found.shape)} is nothing known here; give a sparse matrix, an "
            "edge_index [2, edges], a graph of PyG, DGL, networkx or igraph, a frame of edges, a path or a name"
        )
    if found.dtype.kind in "OUST":
        return Found(edges=(found[0], found[1]), directed=False, by_id=True)
    whole = arrays.whole(found, "edge_index")
    return Found(edges=(whole[0], whole[1]))


def pyg(thing: Any) -> Found:
    """A `Data` of PyTorch Geometric."""
    index = arrays.whole(thing.edge_index, "edge_index")
    if index.ndim != 2 or index.shape[0] != 2:
        raise ValueError(f"edge_index: expected [2, edges], found {list(index.shape)}")
    masks = {
        ours: getattr(thing, f"{theirs}_mask", None)
        for ours, theirs in (("train", "train"), ("val", "val"), ("test", "test"))
    }
    nodes = getattr(thing, "num_nodes", None)
    rows = {name: getattr(thing, name, None) for name in ("edge_attr", "edge_weight")}
    # Without attributes, weights are the edges' features.
    named = next((name for name in rows if rows[name] is not None), "edge_attr")
    return Found(
        nodes=None if nodes is None else int(nodes),
        edges=(index[0], index[1]),
        edge_features=rows[named],
        edge_names=["weight"] if named == "edge_weight" else [],
        weight=named == "edge_weight",
        x=getattr(thing, "x", None),
        y=getattr(thing, "y", None),
        masks={name: mask for name, mask in masks.items() if mask is not None},
    )


def dgl(thing: Any) -> Found:
    """A graph of DGL, with its usual names of node data."""
    if len(getattr(thing, "ntypes", "1")) > 1 or len(getattr(thing, "etypes", "1")) > 1:
        raise TypeError(
            "a heterogeneous graph: eciton trains on one kind of nodes and edges; call dgl.to_homogeneous first"
        )
    sources, targets = thing.edges()
    data = thing.ndata
    weights = next((name for name in ("weight", "w") if name in thing.edata), None)

    def first(*names: str) -> Any:
        return next((data[name] for name in names if name in data), None)

    masks = {"train": first("train_mask"), "val": first("val_mask"), "test": first("test_mask")}
    return Found(
        nodes=int(thing.num_nodes()),
        edges=(arrays.whole(sources, "edges"), arrays.whole(targets, "edges")),
        edge_features=None if weights is None else thing.edata[weights],
        edge_names=[] if weights is None else [weights],
        weight=weights is not None,
        x=first("feat", "x", "features"),
        y=first("label", "y", "labels"),
        masks={name: mask for name, mask in masks.items() if mask is not None},
    )


def listed(names: Any) -> list[str]:
    """Names of attributes or columns as a list."""
    if names is None:
        return []
    return [names] if isinstance(names, str) else [str(name) for name in names]


def attributes(rows: Iterator[dict[str, Any]], names: Any) -> NDArray[np.float64] | None:
    """Attributes of edges, by name, as rows."""
    if names is None:
        return None
    wanted = listed(names)
    try:
        found = [[float(row[name]) for name in wanted] for row in rows]
    except KeyError as error:
        raise ValueError(f"edge_features: an edge has no attribute {error.args[0]!r}; give it to every edge") from None
    return np.array(found, np.float64).reshape(len(found), len(wanted))


def one_weight(names: list[str]) -> bool:
    """Whether the only one of `names` is that of an edge's weight."""
    return len(names) == 1 and arrays.is_weight(names[0])


def networkx(thing: Any, names: Any) -> Found:
    """A graph of networkx. Ids are its nodes."""
    ids = list(thing.nodes)
    at = {node: row for row, node in enumerate(ids)}
    pairs = np.fromiter((at[end] for edge in thing.edges() for end in edge[:2]), np.int64).reshape(-1, 2)
    rows = attributes((edge[-1] for edge in thing.edges(data=True)), names)
    return Found(
        len(ids),
        edges=(pairs[:, 0].copy(), pairs[:, 1].copy()),
        edge_features=rows,
        edge_names=listed(names),
        weight=one_weight(listed(names)),
        directed=bool(thing.is_directed()),
        ids=ids,
        name=str(getattr(thing, "name", "") or "graph"),
    )


def igraph(thing: Any, names: Any) -> Found:
    """A graph of igraph. Ids are the attribute `name`, where it is there."""
    pairs = np.array(thing.get_edgelist(), np.int64).reshape(-1, 2)
    rows = attributes((edge.attributes() for edge in thing.es), names)
    ids = list(thing.vs["name"]) if "name" in thing.vs.attributes() else None
    return Found(
        int(thing.vcount()),
        edges=(pairs[:, 0].copy(), pairs[:, 1].copy()),
        edge_features=rows,
        edge_names=listed(names),
        weight=one_weight(listed(names)),
        directed=bool(thing.is_directed()),
        ids=ids,
    )


def ogb(thing: Any) -> Found:
    """A graph of an OGB data set: a dictionary of arrays, and labels."""
    graph, labels = thing
    if "edge_index" not in graph:
        raise TypeError("a graph of several kinds of edges: eciton trains on one kind; keep one kind's edge_index")
    index = arrays.whole(graph["edge_index"], "edge_index")
    return Found(
        int(graph["num_nodes"]),
        edges=(index[0], index[1]),
        edge_features=graph.get("edge_feat"),
        x=graph.get("node_feat"),
        y=labels,
    )


def ogb_graph(thing: Any) -> Found:
    """One of many graphs of an OGB data set: its labels are one row."""
    found = ogb(thing)
    labels = np.atleast_1d(np.asarray(found.y))
    found.y = labels if labels.size == 1 else labels[None, :]
    return found


def many(thing: Any) -> bool:
    """Whether it is a sequence of `Data`."""
    if (
        arrays.is_frame(thing)
        or not hasattr(thing, "__len__")
        or not hasattr(thing, "__getitem__")
        or hasattr(thing, "shape")
    ):
        return False
    return not isinstance(thing, (str, bytes)) and len(thing) > 0 and getattr(thing[0], "edge_index", None) is not None


def graphs(thing: Any, read: Callable[[Any], Found] | None = None) -> Found:
    """A sequence of `Data`, or of what `read` reads, each a graph with one label, or one row of labels."""
    parts = [(read or pyg)(thing[at]) for at in range(len(thing))]
    nodes: list[int] = []
    for at, part in enumerate(parts):
        if part.nodes is None or part.nodes == 0:
            raise ValueError(f"graph {at}: it has no nodes, or does not say how many; set num_nodes")
        nodes.append(part.nodes)
    first = np.concatenate([[0], np.cumsum(nodes)])
    edges = [part.edges for part in parts if part.edges is not None]
    ends = [np.concatenate([pair[end] + start for pair, start in zip(edges, first)]) for end in (0, 1)]

    def joined(name: str, what: str) -> Any:
        rows = [getattr(part, name) for part in parts]
        if all(one is None for one in rows):
            return None
        if any(one is None for one in rows):
            raise ValueError(f"{what}: some graphs have it and some do not; give it to all")
        return np.concatenate([np.atleast_1d(arrays.array(one, what)) for one in rows])

    return Found(
        int(first[-1]),
        edges=(ends[0], ends[1]),
        x=joined("x", "x"),
        y=joined("y", "y"),
        edge_features=joined("edge_features", "edge_attr"),
        edge_names=parts[0].edge_names,
        weight=all(part.weight for part in parts),
        graph_of=np.repeat(np.arange(len(parts), dtype=np.uint64), nodes),
    )


def frame(thing: Any, keep: Any) -> Found:
    """A table of edges: the first two columns name their ends, columns of numbers after them are features of edges."""
    arrays.refuse_index(thing, "edges")
    names = arrays.columns(thing)
    if len(names) < 2:
        raise ValueError(f"a frame of edges needs two columns, source and target; found {', '.join(map(arrays.clean, names))}")
    ends = [arrays.plain(arrays.column(thing, name, "edges")) for name in names[:2]]
    for name, end in zip(names, ends):
        arrays.complete(end, f"edges, column {name!r}")
    wanted = [keep] if isinstance(keep, str) else list(names[2:] if keep is None else keep)
    rows = [arrays.plain(arrays.column(thing, name, "edges")) for name in wanted]
    if keep is None:
        numbers = [row.dtype.kind in "fiub" for row in rows]
        rows = [row for row, kept in zip(rows, numbers) if kept]
        wanted = [name for name, kept in zip(wanted, numbers) if kept]
    for name, row in zip(wanted, rows):
        refuse_missing(row, f"edges, column {name!r}")
    values = [arrays.edge_values(row, "edge_features") for row in rows]
    return Found(
        edges=(ends[0], ends[1]),
        edge_features=np.stack(values, axis=1) if rows else None,
        edge_names=[str(name) for name in wanted],
        weight=one_weight([str(name) for name in wanted]),
        directed=False,
        by_id=True,
    )


def refuse_missing(values: NDArray[Any], what: str) -> None:
    """Refuses NaN in a column of numbers. Raises ValueError with its row."""
    if values.dtype.kind == "f" and bool(np.isnan(values).any()):
        row = int(np.flatnonzero(np.isnan(values))[0])
        raise ValueError(f"{what}: row {row} has no value; fill it, or leave the column out")
