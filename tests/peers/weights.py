#!/usr/bin/env python3
"""Compares logits of PyG's layers that have a run's weights with the run's scores. Needs the wheel, torch and PyG.

    weights.py [--nodes N] [--epochs N]

Prints the largest difference, and the largest score, of each model; exits with 1 where they differ by more than
1e-5 of it.
"""

import argparse
import sys

import numpy as np
import torch
from torch_geometric.nn import GATConv, GATv2Conv, GCNConv, GINConv, SAGEConv

import eciton

HIDDEN, CLASSES, FEATURES = 16, 5, 24


def mlp(inputs, outputs):
    return torch.nn.Sequential(torch.nn.Linear(inputs, outputs), torch.nn.ReLU(), torch.nn.Linear(outputs, outputs))


def layers(kind, heads):
    """Two layers as PyG's users write them."""
    each = HIDDEN // heads
    return {
        "gcn": lambda: [GCNConv(FEATURES, HIDDEN), GCNConv(HIDDEN, CLASSES)],
        "sage": lambda: [SAGEConv(FEATURES, HIDDEN), SAGEConv(HIDDEN, CLASSES)],
        "gat": lambda: [GATConv(FEATURES, each, heads), GATConv(HIDDEN, CLASSES, 1)],
        "gatv2": lambda: [GATv2Conv(FEATURES, each, heads), GATv2Conv(HIDDEN, CLASSES, 1)],
        "gin": lambda: [GINConv(mlp(FEATURES, HIDDEN), eps=0.25), GINConv(mlp(HIDDEN, CLASSES), eps=0.25)],
    }[kind]()


class Model(torch.nn.Module):
    def __init__(self, convs):
        super().__init__()
        self.convs = torch.nn.ModuleList(convs)

    def forward(self, x, edges):
        for conv in self.convs[:-1]:
            x = torch.relu(conv(x, edges))
        return self.convs[-1](x, edges)


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--nodes", type=int, default=2000)
    a.add_argument("--epochs", type=int, default=20)
    a = a.parse_args()
    random = np.random.default_rng(7)
    pairs = random.integers(0, a.nodes - 3, (2, 4 * a.nodes))  # the last three nodes have no edge
    pairs = np.unique(pairs[:, pairs[0] != pairs[1]], axis=1)
    x = random.standard_normal((a.nodes, FEATURES), np.float32)
    worst = 0.0
    for directed in (False, True):
        edges = pairs if directed else np.unique(np.concatenate([pairs, pairs[::-1]], axis=1), axis=1)
        g = eciton.graph(edges, x=x, y=random.integers(0, CLASSES, a.nodes))
        for kind, heads, settings in (
            ("gcn", 1, {}),
            ("sage", 1, {}),
            ("gat", 8, {}),
            ("gat", 2, {"model.heads": 2}),
            ("gatv2", 8, {}),
            ("gin", 1, {"model.epsilon": 0.25}),
        ):
            run = eciton.train(g, model=kind, hidden=HIDDEN, epochs=a.epochs, seed=3, progress=False, **settings)
            model = Model(layers(kind, heads))
            model.load_state_dict(run.to_torch())
            with torch.no_grad():
                theirs = model.eval()(torch.from_numpy(x), torch.from_numpy(edges)).numpy()
            ours = run.scores()
            difference, largest = float(np.abs(ours - theirs).max()), float(np.abs(theirs).max())
            worst = max(worst, difference / max(largest, 1.0))
            name = f"{kind}{f', {heads} heads' if 'gat' in kind else ''}, {'directed' if directed else 'both ways'}"
            print(f"{name:<28} largest difference {difference:.2e}, largest score {largest:.3g}")
    print(f"torch {torch.__version__}, worst {worst:.2e}")
    sys.exit(worst > 1e-5)


if __name__ == "__main__":
    main()
