"""Conversion of weights to the names and layouts of the layers of PyTorch Geometric (PyG).

| layer | PyG layer | names in PyG |
| --- | --- | --- |
| `gcn` | `GCNConv` | `lin.weight`, `bias` |
| `sage` | `SAGEConv` | `lin_l` (neighbours), `lin_r` (the node itself) |
| `gat` | `GATConv` | `lin.weight`, `att_src`, `att_dst`, `bias` |
| `gatv2` | `GATv2Conv` | `lin_l` (source), `lin_r` (target), `att`, `bias` |
| `gin` | `GINConv(Sequential(Linear, ReLU, Linear))` | `nn.0`, `nn.2`, `eps` |
| `linear` | `Linear` | `weight`, `bias` |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Weights = dict[str, NDArray[np.float32]]

#: Default number of attention heads. The last layer has one head by default.
HEADS = 8


def gcn(of: Weights, _: int) -> Weights:
    return {"lin.weight": of["weight"].T} | kept(of, {"bias": "bias"})


def sage(of: Weights, _: int) -> Weights:
    found = {"lin_l.weight": of["neighbour.weight"].T, "lin_r.weight": of["self.weight"].T}
    return found | kept(of, {"self.bias": "lin_l.bias"})


def gat(of: Weights, heads: int) -> Weights:
    found = {
        "lin.weight": of["weight"].T,
        "att_src": of["source"].reshape(1, heads, -1),
        "att_dst": of["target"].reshape(1, heads, -1),
    }
    return found | kept(of, {"bias": "bias"})


def gatv2(of: Weights, heads: int) -> Weights:
    found = {
        "lin_l.weight": of["source.weight"].T,
        "lin_r.weight": of["target.weight"].T,
        "att": of["attention"].reshape(1, heads, -1),
    }
    return found | kept(of, {"source.bias": "lin_l.bias", "target.bias": "lin_r.bias", "bias": "bias"})


def gin(of: Weights, _: int) -> Weights:
    found = {"nn.0.weight": of["mlp.0.weight"].T, "nn.2.weight": of["mlp.1.weight"].T}
    return found | kept(of, {"mlp.0.bias": "nn.0.bias", "mlp.1.bias": "nn.2.bias", "epsilon": "eps"})


def linear(of: Weights, _: int) -> Weights:
    return {"weight": of["weight"].T} | kept(of, {"bias": "bias"})


def kept(of: Weights, names: Mapping[str, str]) -> Weights:
    """Return the weights that exist under the keys of `names`, renamed to its values."""
    return {theirs: of[ours] for ours, theirs in names.items() if ours in of}


LAYERS: dict[str, Callable[[Weights, int], Weights]] = {
    "gcn": gcn,
    "sage": sage,
    "gat": gat,
    "gatv2": gatv2,
    "gin": gin,
    "linear": linear,
    "mlp": linear,
}


def kinds(weights: Weights, model: Mapping[str, Any]) -> set[str]:
    """Return the kinds of the layers that have weights."""
    listed = model["layers"] if isinstance(model["layers"], list) else None
    numbers = {int(name.split(".", 2)[1]) for name in weights}
    return {kind_of(model, listed, at) for at in numbers}


def kind_of(model: Mapping[str, Any], listed: list[Any] | None, at: int) -> str:
    """Return the kind of a layer."""
    own: Mapping[str, Any] = listed[at] if listed is not None else {}
    return str(own.get("kernel") or model.get("kind") or "gcn")


def differences(
    of: set[str], weighted: bool, counts: Mapping[str, int] | None, edges: int, kept_loops: int
) -> list[str]:
    """Return warnings about differences between eciton's layers and PyG's layers on the given edges.

    `weighted`: true if a layer reads edge weights. `counts`: counts of the given edges by treatment. `edges`: number of
    directed edges of the graph, of which `kept_loops` are self-loops.
    """
    gathers = sorted(of & {"gcn", "sage", "gat", "gatv2", "gin"})
    if not gathers:
        return []
    remedy = "pass run.graph.edge_index" + (" and run.graph.edge_features" if weighted else "") + " to PyG's model"
    # With weights, PyG's GCNConv adds up repeats as eciton does, and an edge of weight 0 adds nothing.
    sums_alike = weighted and gathers == ["gcn"]
    found = []
    known = counts or {}
    summed = bool(known.get("summed"))
    if known.get("symmetric"):
        # Without values, entries that repeat an edge and those that list its other direction are counted as one.
        given = known["listed"] - known["dropped_loops"] - known["zeros"] - (known["repeats"] if summed else 0)
        if given != edges:
            found.append(f"edges were made symmetric and merged; {remedy}")
    if known.get("repeats") and (summed or not known.get("symmetric")) and not (sums_alike and summed):
        were = "added up" if known.get("summed") else "merged"
        found.append(f"{known['repeats']:,} duplicate edges were {were}, but PyG counts each of them; {remedy}")
    if known.get("zeros") and not sums_alike:
        found.append(f"{known['zeros']:,} edges of weight 0 were dropped, but PyG keeps them; {remedy}")
    # GCNConv and GATConv give each node exactly one self-loop, whether or not the edges contain it.
    others = [kind for kind in gathers if kind in ("sage", "gin") or (kind == "gcn" and weighted)]
    if known.get("dropped_loops") and others:
        found.append(
            f"{known['dropped_loops']:,} self-loops were dropped, but PyG's {', '.join(others)} layers use them; "
            f"{remedy}, or train on eciton.graph(..., self_loops=True)"
        )
    doubled = [kind for kind in gathers if kind in ("gcn", "gat", "gatv2")]
    if kept_loops and doubled:
        found.append(
            f"{kept_loops:,} self-loops were kept, which {', '.join(doubled)} layers use in addition to the self-loop "
            "of each node, but PyG's layers do not; train on eciton.graph(..., self_loops=False)"
        )
    return [f"state_dict: PyG computes different results on this graph: {text}" for text in found]


def state_dict(weights: Weights, model: Mapping[str, Any]) -> Weights:
    """Return the state of a PyG model with the layers `convs`.

    Raises ValueError for a layer without a PyG equivalent.
    """
    layers: dict[int, Weights] = {}
    for name, values in weights.items():
        _, number, rest = name.split(".", 2)
        layers.setdefault(int(number), {})[rest] = values
    last = max(layers)
    listed = model["layers"] if isinstance(model["layers"], list) else None
    found: Weights = {}
    for at, of in layers.items():
        own: Mapping[str, Any] = listed[at] if listed is not None else {}
        kind = kind_of(model, listed, at)
        if kind not in LAYERS:
            raise ValueError(f'state_dict: layer {at} is a {kind}, which has no PyG equivalent; use layout="eciton"')
        more = [name for name in of if name.startswith("norm") or name.startswith("edge")]
        if more:
            raise ValueError(
                f'state_dict: layer {at} has {more[0]}, which PyG\'s {kind} layer lacks; use layout="eciton"'
            )
        heads = int(own.get("heads") or (1 if at == last else model.get("heads") or HEADS))
        named = LAYERS[kind](of, heads)
        if kind == "gin":
            named.setdefault("eps", np.array([own.get("epsilon") or model.get("epsilon") or 0.0], np.float32))
        found |= {f"convs.{at}.{name}": np.ascontiguousarray(values) for name, values in named.items()}
    return found
