#!/usr/bin/env python3
"""The test metric of PyG's GraphSAGE, GAT, GATv2, GIN, GCN, SGC, APPNP and MLP with Eciton's hyper-parameters, to hold beside `eciton train`.

    accuracy.py MODEL DATA [--seeds 10] [--first-seed 0] [--hidden 64] [--layers 2] [--epochs 200] [--lr 0.01] [--wd 5e-4] [--dropout 0.5]
                 [--aggregator mean|max]   sage
                 [--heads 8]   gat, gatv2: heads of all layers but the last; elu, dropout of the weights of edges as of the input
                 [--norm layer|batch]   normalisation (batch: by the rows at hand, in evaluation too) behind every layer but the last, before its activation
                 [--metric accuracy|roc-auc]   of two classes
                 [--raw]   features as they are
                 [--zero-biases]   linear layers' biases begin at zero, as Eciton's do, not as PyTorch draws them

DATA is a folder of npy arrays as shared/peers/prepare.py makes it; `eciton train DATA --model MODEL ...` reads the same one. Labels of two
dimensions are flags, learnt by binary cross-entropy and measured by ROC-AUC, or numbers, learnt by the squared error and measured by the mean
absolute error. Features are divided by their sums, or left as they are (--raw). Dropout stands before every layer with weights, weight decay is on all parameters, the metric is that after the last
epoch. Prints one JSON line, with that of each seed, the median time of an epoch and the process's peak memory. Needs torch and torch_geometric.
"""
import argparse
import json
import resource
import statistics
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch_geometric.nn import APPNP, GATConv, GATv2Conv, GCNConv, GINConv, MLP, SAGEConv, SGConv


def arguments():
    p = argparse.ArgumentParser()
    p.add_argument("model", choices=["gcn", "sage", "gat", "gatv2", "gin", "sgc", "appnp", "mlp"])
    p.add_argument("data")
    for name, kind, default in (("seeds", int, 10), ("first-seed", int, 0), ("hidden", int, 64), ("layers", int, 2), ("epochs", int, 200), ("lr", float, 0.01),
                                ("wd", float, 5e-4), ("dropout", float, 0.5), ("threads", int, 1), ("hops", int, 0), ("heads", int, 8)):
        p.add_argument(f"--{name}", type=kind, default=default)
    p.add_argument("--aggregator", choices=["mean", "max"], default="mean")
    p.add_argument("--norm", choices=["none", "layer", "batch"], default="none")
    p.add_argument("--metric", choices=["accuracy", "roc-auc"], default="accuracy")
    p.add_argument("--zero-biases", action="store_true")
    p.add_argument("--raw", action="store_true")
    return p.parse_args()


def roc_auc(score, label):
    """Ties count half (the rank form of the Mann-Whitney statistic)."""
    _, at, counts = np.unique(score, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    rank = (last - (counts - 1) / 2)[at]
    positive = label == 1
    n, m = positive.sum(), (~positive).sum()
    return (rank[positive].sum() - n * (n + 1) / 2) / (n * m)


class Task:
    """What labels ask for: the number of scores, the loss and the metric."""

    def __init__(self, y, metric):
        flags = y.dim() == 2 and bool(((y == 0) | (y == 1)).all())
        if y.dim() == 1:
            self.columns, self.loss, self.metric = int(y.max()) + 1, F.cross_entropy, metric
        elif flags:
            self.columns, self.loss, self.metric = y.shape[1], F.binary_cross_entropy_with_logits, "roc-auc"
        else:
            self.columns, self.loss, self.metric = y.shape[1], F.mse_loss, "mean-absolute-error"

    def measure(self, z, y):
        if self.metric == "accuracy":
            return 100 * (z.argmax(1) == y).float().mean().item()
        if self.metric == "mean-absolute-error":
            return (z - y).abs().mean().item()
        if y.dim() == 1:
            return 100 * roc_auc((z[:, 1] - z[:, 0]).numpy(), y.numpy())
        return 100 * statistics.mean(roc_auc(z[:, i].numpy(), y[:, i].numpy()) for i in range(y.shape[1]))


class Net(torch.nn.Module):
    def __init__(self, a, features, classes):
        super().__init__()
        self.a = a
        widths = [features] + [a.hidden] * (a.layers - 1) + [classes]
        attention = lambda kind: lambda i, o: kind(i, o // a.heads, a.heads, dropout=a.dropout) if o == a.hidden else kind(i, o, 1, dropout=a.dropout)
        make = {
            "gcn": lambda i, o: GCNConv(i, o, cached=True),
            "sage": lambda i, o: SAGEConv(i, o, aggr=a.aggregator),
            "gat": attention(GATConv),
            "gatv2": attention(GATv2Conv),
            "gin": lambda i, o: GINConv(MLP([i, o, o], norm=None, dropout=0.0)),
            "appnp": torch.nn.Linear,
            "mlp": torch.nn.Linear,
        }
        if a.model == "sgc":
            self.layers = torch.nn.ModuleList([SGConv(features, classes, K=a.hops or 2)])
        else:
            self.layers = torch.nn.ModuleList([make[a.model](i, o) for i, o in zip(widths, widths[1:])])
        norms = {"none": [], "layer": [torch.nn.LayerNorm(width) for width in widths[1:-1]],
                 "batch": [torch.nn.BatchNorm1d(width, track_running_stats=False) for width in widths[1:-1]]}
        self.norms = torch.nn.ModuleList(norms[a.norm if a.model != "sgc" else "none"])
        self.propagate = APPNP(a.hops or 10, 0.1) if a.model == "appnp" else None

    def forward(self, x, edges):
        for at, layer in enumerate(self.layers):
            x = F.dropout(x, self.a.dropout, self.training)
            x = layer(x) if isinstance(layer, torch.nn.Linear) else layer(x, edges)
            if at + 1 < len(self.layers):
                x = self.norms[at](x) if len(self.norms) else x
                x = F.elu(x) if self.a.model in ("gat", "gatv2") else x.relu()
        return x if self.propagate is None else self.propagate(x, edges)


def main():
    a = arguments()
    torch.set_num_threads(a.threads)
    load = lambda name: np.load(f"{a.data}/{name}.npy")
    x = torch.from_numpy(load("feat"))
    x = x if a.raw else x / x.sum(1, keepdim=True).clamp(min=1e-30)
    y, train, test = (torch.from_numpy(load(name)) for name in ("label", "train", "test"))
    indptr, source = load("indptr"), torch.from_numpy(load("indices").astype(np.int64))
    target = torch.from_numpy(np.repeat(np.arange(len(indptr) - 1), np.diff(indptr)))
    n = len(indptr) - 1
    # Rows are targets: PyG's transposed adjacency.
    edges = torch.sparse_csr_tensor(torch.from_numpy(indptr), source, torch.ones(len(source)), size=(n, n))
    if a.model in ("gcn", "gat", "gatv2", "sgc", "appnp") or a.aggregator == "max":
        edges = torch.stack([source, target])
    found, seconds, task = [], [], Task(y, a.metric)
    for seed in range(a.first_seed, a.first_seed + a.seeds):
        torch.manual_seed(seed)
        net = Net(a, x.shape[1], task.columns)
        if a.zero_biases:
            for module in net.modules():
                if isinstance(module, torch.nn.Linear) and module.bias is not None:
                    torch.nn.init.zeros_(module.bias)
        adam = torch.optim.Adam(net.parameters(), lr=a.lr, weight_decay=a.wd)
        for _ in range(a.epochs):
            begun = time.perf_counter()
            net.train()
            adam.zero_grad()
            task.loss(net(x, edges)[train], y[train]).backward()
            adam.step()
            seconds.append(time.perf_counter() - begun)
        net.eval()
        with torch.no_grad():
            found.append(task.measure(net(x, edges)[test], y[test]))
    print(json.dumps({
        "peer": "pyg", "model": a.model, **({"norm": a.norm} if a.norm != "none" else {}), **({"biases": "zero"} if a.zero_biases else {}), "data": a.data, **({"aggregator": a.aggregator} if a.model == "sage" else {}), "seeds": a.seeds, "metric": task.metric,
        "test": round(statistics.mean(found), 4), "std": round(statistics.pstdev(found), 4), "torch": torch.__version__,
        "each": [round(value, 2) for value in found], "epoch_s": round(statistics.median(seconds), 5), "threads": a.threads,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
    }), flush=True)


if __name__ == "__main__":
    main()
