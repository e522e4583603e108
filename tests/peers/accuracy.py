#!/usr/bin/env python3
"""Test accuracy of PyG's GraphSAGE, GAT, GIN, GCN, SGC, APPNP and MLP with Eciton's hyper-parameters, to hold beside `eciton train`.

    accuracy.py MODEL DATA [--seeds 10] [--hidden 64] [--layers 2] [--epochs 200] [--lr 0.01] [--wd 5e-4] [--dropout 0.5]
                 [--heads 8]   gat: heads of all layers but the last; elu, dropout of the weights of edges as of the input

DATA is a folder of npy arrays as shared/peers/prepare.py makes it; `eciton train DATA --model MODEL ...` reads the same one. Features are
divided by their sums. Dropout stands before every layer with weights, weight decay is on all parameters, accuracy is that after the last
epoch. Prints one JSON line. Needs torch and torch_geometric.
"""
import argparse
import json
import statistics

import numpy as np
import torch
import torch.nn.functional as F
from torch_geometric.nn import APPNP, GATConv, GCNConv, GINConv, MLP, SAGEConv, SGConv


def arguments():
    p = argparse.ArgumentParser()
    p.add_argument("model", choices=["gcn", "sage", "gat", "gin", "sgc", "appnp", "mlp"])
    p.add_argument("data")
    for name, kind, default in (("seeds", int, 10), ("hidden", int, 64), ("layers", int, 2), ("epochs", int, 200), ("lr", float, 0.01),
                                ("wd", float, 5e-4), ("dropout", float, 0.5), ("threads", int, 1), ("hops", int, 0), ("heads", int, 8)):
        p.add_argument(f"--{name}", type=kind, default=default)
    return p.parse_args()


class Net(torch.nn.Module):
    def __init__(self, a, features, classes):
        super().__init__()
        self.a = a
        widths = [features] + [a.hidden] * (a.layers - 1) + [classes]
        make = {
            "gcn": lambda i, o: GCNConv(i, o, cached=True),
            "sage": lambda i, o: SAGEConv(i, o),
            "gat": lambda i, o: GATConv(i, o // a.heads, a.heads, dropout=a.dropout) if o == a.hidden else GATConv(i, o, 1, dropout=a.dropout),
            "gin": lambda i, o: GINConv(MLP([i, o, o], norm=None, dropout=0.0)),
            "appnp": torch.nn.Linear,
            "mlp": torch.nn.Linear,
        }
        if a.model == "sgc":
            self.layers = torch.nn.ModuleList([SGConv(features, classes, K=a.hops or 2)])
        else:
            self.layers = torch.nn.ModuleList([make[a.model](i, o) for i, o in zip(widths, widths[1:])])
        self.propagate = APPNP(a.hops or 10, 0.1) if a.model == "appnp" else None

    def forward(self, x, edges):
        for at, layer in enumerate(self.layers):
            x = F.dropout(x, self.a.dropout, self.training)
            x = layer(x) if isinstance(layer, torch.nn.Linear) else layer(x, edges)
            if at + 1 < len(self.layers):
                x = F.elu(x) if self.a.model == "gat" else x.relu()
        return x if self.propagate is None else self.propagate(x, edges)


def main():
    a = arguments()
    torch.set_num_threads(a.threads)
    load = lambda name: np.load(f"{a.data}/{name}.npy")
    x = torch.from_numpy(load("feat"))
    x = x / x.sum(1, keepdim=True).clamp(min=1e-30)
    y, train, test = (torch.from_numpy(load(name)) for name in ("label", "train", "test"))
    indptr, source = load("indptr"), torch.from_numpy(load("indices").astype(np.int64))
    target = torch.from_numpy(np.repeat(np.arange(len(indptr) - 1), np.diff(indptr)))
    n = len(indptr) - 1
    # Rows are targets: PyG's transposed adjacency.
    edges = torch.sparse_csr_tensor(torch.from_numpy(indptr), source, torch.ones(len(source)), size=(n, n))
    if a.model in ("gcn", "gat", "sgc", "appnp"):
        edges = torch.stack([source, target])
    accuracies = []
    for seed in range(a.seeds):
        torch.manual_seed(seed)
        net = Net(a, x.shape[1], int(y.max()) + 1)
        adam = torch.optim.Adam(net.parameters(), lr=a.lr, weight_decay=a.wd)
        for _ in range(a.epochs):
            net.train()
            adam.zero_grad()
            F.cross_entropy(net(x, edges)[train], y[train]).backward()
            adam.step()
        net.eval()
        with torch.no_grad():
            accuracies.append((net(x, edges)[test].argmax(1) == y[test]).float().mean().item())
    print(json.dumps({
        "peer": "pyg", "model": a.model, "data": a.data, "seeds": a.seeds, "test_accuracy": round(100 * statistics.mean(accuracies), 2),
        "std": round(100 * statistics.pstdev(accuracies), 2), "torch": torch.__version__,
    }), flush=True)


if __name__ == "__main__":
    main()
