"""Accuracy on a new graph, by Eciton and by PyTorch Geometric, on the same split and the same hyper-parameters.

A random 70 % of Cora's vertices and the edges among them are the known graph. The other vertices and the edges
among them are the new graph: the model never sees its vertices, edges or labels. A GraphSAGE model (mean, two layers,
64 hidden) is trained on the known graph's labels and predicts the new graph's. Needs eciton, torch and
torch_geometric in one Python:

    python tests/peers/inductive.py --seeds 10
"""

from __future__ import annotations

import argparse
import statistics

import numpy as np

import eciton

EPOCHS, HIDDEN, RATE, DECAY, DROPOUT = 100, 64, 0.01, 5e-4, 0.5


def parts(seed: int):
    """Known and new graph of Cora: vertices, edges among them, features and classes."""
    cora = eciton.graph("cora")
    x, y, edges = cora.x, cora.y, cora.edge_index
    x = x / np.maximum(x.sum(axis=1, keepdims=True), 1)
    known = np.zeros(len(y), bool)
    known[np.random.default_rng(seed).permutation(len(y))[: int(0.7 * len(y))]] = True
    for chosen in (known, ~known):
        number = np.cumsum(chosen) - 1
        inside = chosen[edges[0]] & chosen[edges[1]]
        yield x[chosen].astype(np.float32), y[chosen], number[edges[:, inside]]


def by_eciton(seed: int) -> float:
    (x, y, edges), (new_x, new_y, new_edges) = parts(seed)
    known = eciton.graph(edges, x, y, train=np.arange(len(y)), num_nodes=len(y))
    new = eciton.graph(new_edges, new_x, num_nodes=len(new_x))   # without labels
    settings = {"optimiser.weight_decay": DECAY, "data.normalise_features": "none", "optimiser.lr": RATE}
    run = eciton.train(
        known, model="sage", hidden=HIDDEN, epochs=EPOCHS, dropout=DROPOUT, seed=seed, progress=False, **settings
    )
    return float(np.mean(np.asarray(run.predict(new)).astype(int) == new_y))


def by_pyg(seed: int) -> float:
    import torch
    from torch_geometric.nn import SAGEConv

    torch.manual_seed(seed)
    (x, y, edges), (new_x, new_y, new_edges) = [[torch.from_numpy(np.ascontiguousarray(a)) for a in part] for part in parts(seed)]
    first, last = SAGEConv(x.shape[1], HIDDEN), SAGEConv(HIDDEN, 7)
    drop = torch.nn.functional.dropout

    def forward(x, edges, training):
        x = first(drop(x, DROPOUT, training), edges).relu()
        return last(drop(x, DROPOUT, training), edges)

    optimiser = torch.optim.Adam([*first.parameters(), *last.parameters()], lr=RATE, weight_decay=DECAY)
    for _ in range(EPOCHS):
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(forward(x, edges, True), y.long()).backward()
        optimiser.step()
    with torch.no_grad():
        return float((forward(new_x, new_edges, False).argmax(1) == new_y).float().mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    seeds = range(parser.parse_args().seeds)
    for name, measure in (("eciton", by_eciton), ("pyg", by_pyg)):
        found = [100 * measure(seed) for seed in seeds]
        print(f"{name}: {statistics.mean(found):.1f} ± {statistics.stdev(found):.1f} % of the new graph's vertices, {len(found)} seeds")


if __name__ == "__main__":
    main()
