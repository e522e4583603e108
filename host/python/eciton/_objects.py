"""Recognition of graph objects of other libraries by their attributes, without importing those libraries."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eciton import _arrays as arrays


@dataclass
class Found:
    """Edges of a graph, and other data that the object contains."""

    #: Number of nodes. `None`: the number of nodes that the edges refer to.
    nodes: int | None = None
    #: Compressed neighbour lists: offsets, neighbours, and true if each list has the targets of a source.
    lists: tuple[Any, Any, bool] | None = None
    #: Sources and targets of the edges.
    edges: tuple[Any, Any] | None = None
    #: Edge features, one row per edge.
    edge_features: Any = None
    #: Column names of `edge_features`, or an empty list.
    edge_names: list[str] = field(default_factory=list)
    #: True if the only column of `edge_features` is the edge weight. Then edges of weight 0 are dropped.
    weight: bool = False
    #: True if `edge_features` is used only to drop edges of weight 0.
    structure: bool = False
    #: True if edges are directed.
    directed: bool = True
    #: Ids of the nodes. `None`: 0, 1, 2, ...
    ids: list[Any] | None = None
    #: True if the edges refer to ids that are not yet converted to node numbers.
    by_id: bool = False
    x: Any = None
    y: Any = None
    masks: dict[str, Any] = field(default_factory=dict)
    #: Graph number of each node, for many graphs.
    graph_of: NDArray[np.uint64] | None = None
    name: str = "graph"


def find(thing: Any, edge_columns: Any, labels: str | None = None) -> Found:
    """Recognise a graph object. `edge_columns` are the columns or attributes to use as edge features.

    `labels` is the column of a data frame of edges that is not an edge feature.
    """
    if arrays.is_sparse(thing):
        return matrix(thing, edge_columns)
    if hasattr(thing, "edge_types") and hasattr(thing, "node_types"):
        raise TypeError(
            "found a heterogeneous graph, expected one type of nodes and edges; call to_homogeneous() first"
        )
    if callable(getattr(thing, "get", None)) and callable(getattr(thing, "indices", None)):
        # A data set of PyG has the attributes of its graphs as if they were one graph.
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
        return frame(thing, edge_columns, labels)
    return edge_index(thing)


def matrix(thing: Any, weights: Any) -> Found:
    """Read a sparse matrix of SciPy. An entry [i, j] is an edge from i to j."""
    if thing.shape[0] != thing.shape[1]:
        raise ValueError(
            f"found an adjacency matrix of {thing.shape[0]:,} x {thing.shape[1]:,}, expected a square matrix with a "
            "row per node"
        )
    nodes = int(thing.shape[0])
    if weights is not None:
        if not isinstance(weights, str) or weights != "data":
            raise ValueError(
                'edge_features: expected "data" (the values) for a sparse matrix; for more columns, use an edge_index'
            )
        coo = thing.tocoo()
        return Found(nodes, edges=(coo.row, coo.col), edge_features=coo.data[:, None], weight=True)
    compressed = hasattr(thing, "indptr") and getattr(thing, "format", "") in ("csr", "csc")
    held = thing if compressed else thing.tocoo()
    # If all values are positive, no edge has weight 0, so that the values are not needed.
    if held.data.dtype.kind in "biuf" and (held.data.size == 0 or bool(held.data.min() > 0)):
        if compressed:
            return Found(nodes, lists=(thing.indptr, thing.indices, thing.format == "csr"))
        return Found(nodes, edges=(held.row, held.col))
    coo = thing.tocoo()
    return Found(nodes, edges=(coo.row, coo.col), edge_features=coo.data[:, None], weight=True, structure=True)


def edge_index(thing: Any) -> Found:
    """Read an array [2, edges], or a list of pairs."""
    found = arrays.array(thing, "graph")
    if found.ndim == 2 and found.dtype.kind == "f" and found.shape[0] == found.shape[1] and found.shape[0] > 2:
        raise TypeError("found a dense adjacency matrix; pass scipy.sparse.csr_array(A)")
    if found.ndim == 2 and found.shape[0] != 2 and found.shape[1] == 2:
        found = found.T
    if found.ndim != 2 or found.shape[0] != 2:
        raise TypeError(
            f"graph: found {type(thing).__name__} of shape {list(found.shape)}, expected a sparse matrix, an "
            "edge_index [2, edges], a graph of PyG, DGL, networkx or igraph, a data frame of edges, a path or a name"
        )
    if found.dtype.kind in "OUST":
        return Found(edges=(found[0], found[1]), directed=False, by_id=True)
    whole = arrays.whole(found, "edge_index")
    return Found(edges=(whole[0], whole[1]))


def pyg(thing: Any) -> Found:
    """Read a `Data` object of PyTorch Geometric."""
    index = arrays.whole(thing.edge_index, "edge_index")
    if index.ndim != 2 or index.shape[0] != 2:
        raise ValueError(f"edge_index: expected [2, edges], found {list(index.shape)}")
    masks = {
        ours: getattr(thing, f"{theirs}_mask", None)
        for ours, theirs in (("train", "train"), ("val", "val"), ("test", "test"))
    }
    nodes = getattr(thing, "num_nodes", None)
    rows = {name: getattr(thing, name, None) for name in ("edge_attr", "edge_weight")}
    # Without edge attributes, edge weights are the edge features.
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
    """Read a graph of DGL, with the common names of node data."""
    if len(getattr(thing, "ntypes", "1")) > 1 or len(getattr(thing, "etypes", "1")) > 1:
        raise TypeError(
            "found a heterogeneous graph, expected one type of nodes and edges; call dgl.to_homogeneous first"
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
    """Return names of attributes or columns as a list."""
    if names is None:
        return []
    return [names] if isinstance(names, str) else [str(name) for name in names]


def attributes(rows: Iterator[dict[str, Any]], names: Any) -> NDArray[np.float64] | None:
    """Return the named attributes of edges as rows."""
    if names is None:
        return None
    wanted = listed(names)
    try:
        found = [[float(row[name]) for name in wanted] for row in rows]
    except KeyError as error:
        text = f"edge_features: an edge lacks the attribute {error.args[0]!r}; every edge must have it"
        raise ValueError(text) from None
    return np.array(found, np.float64).reshape(len(found), len(wanted))


def one_weight(names: list[str]) -> bool:
    """Return true if there is a single name, and it marks an edge weight."""
    return len(names) == 1 and arrays.is_weight(names[0])


def networkx(thing: Any, names: Any) -> Found:
    """Read a graph of networkx, whose nodes become ids."""
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
    """Read a graph of igraph. Ids are the vertex attribute `name`, if it exists."""
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
    """Read a graph of an OGB data set: a dictionary of arrays, and labels."""
    graph, labels = thing
    if "edge_index" not in graph:
        raise TypeError("found a heterogeneous graph, expected one type of edges; keep the edge_index of one type")
    index = arrays.whole(graph["edge_index"], "edge_index")
    return Found(
        int(graph["num_nodes"]),
        edges=(index[0], index[1]),
        edge_features=graph.get("edge_feat"),
        x=graph.get("node_feat"),
        y=labels,
    )


def ogb_graph(thing: Any) -> Found:
    """Read one of many graphs of an OGB data set, whose labels are one row."""
    found = ogb(thing)
    labels = np.atleast_1d(np.asarray(found.y))
    found.y = labels if labels.size == 1 else labels[None, :]
    return found


def many(thing: Any) -> bool:
    """Return true for a sequence of `Data` objects."""
    if (
        arrays.is_frame(thing)
        or not hasattr(thing, "__len__")
        or not hasattr(thing, "__getitem__")
        or hasattr(thing, "shape")
    ):
        return False
    return not isinstance(thing, (str, bytes)) and len(thing) > 0 and getattr(thing[0], "edge_index", None) is not None


def graphs(thing: Any, read: Callable[[Any], Found] | None = None) -> Found:
    """Read a sequence of graphs with `read` [default: PyG's `Data`]. Each graph has one label or one row of labels."""
    parts = [(read or pyg)(thing[at]) for at in range(len(thing))]
    nodes: list[int] = []
    for at, part in enumerate(parts):
        if part.nodes is None or part.nodes == 0:
            raise ValueError(f"graph {at}: the number of nodes is 0 or unknown; set num_nodes")
        nodes.append(part.nodes)
    first = np.concatenate([[0], np.cumsum(nodes)])
    edges = [part.edges for part in parts if part.edges is not None]
    ends = [np.concatenate([pair[end] + start for pair, start in zip(edges, first)]) for end in (0, 1)]

    def joined(name: str, what: str) -> Any:
        rows = [getattr(part, name) for part in parts]
        if all(one is None for one in rows):
            return None
        if any(one is None for one in rows):
            raise ValueError(f"{what}: some graphs have it and some do not; all graphs must have it")
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


def frame(thing: Any, keep: Any, labels: str | None = None) -> Found:
    """Read a table of edges. The first two columns are source and target, further numeric columns are edge features.

    The column `labels` is not a feature.
    """
    arrays.refuse_index(thing, "edges")
    names = arrays.columns(thing)
    if len(names) < 2:
        given = ", ".join(map(arrays.clean, names))
        raise ValueError(f"a data frame of edges must have two columns, source and target; found {given}")
    ends = [arrays.plain(arrays.column(thing, name, "edges")) for name in names[:2]]
    for name, end in zip(names, ends):
        arrays.complete(end, f"edges, column {name!r}")
    others = [name for name in names[2:] if name != labels]
    wanted = [keep] if isinstance(keep, str) else list(others if keep is None else keep)
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
    """Check that a column of numbers has no NaN. Raises ValueError with the row of the first one."""
    if values.dtype.kind == "f" and bool(np.isnan(values).any()):
        row = int(np.flatnonzero(np.isnan(values))[0])
        raise ValueError(f"{what}: row {row} has no value; add a value, or omit the column")
