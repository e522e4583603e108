#!/usr/bin/env python3
"""PyG on labels of edges, next to Eciton's.

    edge_labels.py DATA --make FOLDER [--seed 0]
    edge_labels.py FOLDER [--model sage|gcn] [--seeds 10] [--hidden 64] [--epochs 100] [--lr 0.01] [--wd 5e-4] [--dropout 0.5]
                   [--batch 512 [--fan-out 10 10]] [--threads 1]

DATA is a folder of npy arrays with a graph and classes of vertices, as links.py reads it. --make writes a folder that both systems
read: features.npy, and edges.csv with each edge once, in a random direction. Its columns are `amount`, a number whose logarithm is
higher by 0.5 on average for edges between classes, `kind`, which is "within" for edges between vertices of one class and "across"
for others, and `split` (30 / 20 / 50 %). Classes of vertices are not written.

The model has two layers, the rows of both ends of an edge and a projection of its standardised amount side by side, and two linear
layers: what `eciton train FOLDER --edge-label kind` trains. Features are divided by their sums. Dropout is before each layer but
the readout. With --batch, an update has that many training edges and reads --fan-out neighbours of their ends, and so on.

Prints one JSON line a seed: ROC-AUC and accuracy of the test edges in % after the last epoch, and at the best validation accuracy;
then a line of means and standard deviations, with the median seconds of an epoch. Needs torch and torch_geometric.
"""
import argparse
import csv
import json
import pathlib
import statistics
import sys
import time

import numpy as np


def arguments():
    p = argparse.ArgumentParser()
    p.add_argument("data")
    p.add_argument("--make")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--model", choices=["sage", "gcn"], default="sage")
    for name, kind, default in (("seeds", int, 10), ("hidden", int, 64), ("epochs", int, 100), ("lr", float, 0.01),
                                ("wd", float, 5e-4), ("dropout", float, 0.5), ("threads", int, 1)):
        p.add_argument(f"--{name}", type=kind, default=default)
    p.add_argument("--batch", type=int)
    p.add_argument("--fan-out", type=int, nargs=2, default=[10, 10])
    return p.parse_args()


def make(a):
    load = lambda name: np.load(f"{a.data}/{name}.npy")
    indptr, source, label = load("indptr"), load("indices").astype(np.int64), load("label").reshape(-1)
    target = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    pairs = np.unique(np.sort(np.stack([source, target], 1)[source != target], 1), axis=0)
    random = np.random.default_rng(a.seed)
    pairs = pairs[random.permutation(len(pairs))]
    turned = random.random(len(pairs)) < 0.5
    pairs[turned] = pairs[turned][:, ::-1]
    within = label[pairs[:, 0]] == label[pairs[:, 1]]
    amount = np.exp(random.normal(np.where(within, 6.0, 6.5), 1.0)).round(2)
    part = np.array(["train", "val", "test"])[np.searchsorted([0.3, 0.5, 1.0], random.random(len(pairs)))]
    folder = pathlib.Path(a.make)
    folder.mkdir(parents=True)
    np.save(folder / "features.npy", load("feat").astype(np.float32))
    with open(folder / "edges.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["source", "target", "amount", "kind", "split"])
        for (u, v), value, is_within, of in zip(pairs.tolist(), amount.tolist(), within, part):
            writer.writerow([u, v, value, "within" if is_within else "across", of])
    print(f"{len(pairs)} edges, {100 * within.mean():.1f} % within a class")


def main():
    a = arguments()
    if a.make:
        return make(a)
    import torch
    import torch.nn.functional as F
    from torch_geometric import seed_everything
    from torch_geometric.nn import GCNConv, SAGEConv

    from links import Neighbours

    class Net(torch.nn.Module):
        def __init__(self, features):
            super().__init__()
            layer = {"sage": SAGEConv, "gcn": GCNConv}[a.model]
            self.layers = torch.nn.ModuleList([layer(features, a.hidden), layer(a.hidden, a.hidden)])
            self.edge = torch.nn.Linear(1, a.hidden)
            self.mlp = torch.nn.ModuleList([torch.nn.Linear(3 * a.hidden, a.hidden), torch.nn.Linear(a.hidden, 2)])

        def forward(self, x, edges, ends, amount):
            drop = lambda h: F.dropout(h, a.dropout, self.training)
            for layer in self.layers:
                x = layer(drop(x), edges).relu()
            row = torch.cat([x[ends[0]], x[ends[1]], self.edge(amount)], 1)
            return self.mlp[1](drop(self.mlp[0](drop(row)).relu()))

    torch.set_num_threads(a.threads)
    folder = pathlib.Path(a.data)
    x = torch.from_numpy(np.load(folder / "features.npy"))
    x = x / x.sum(1, keepdim=True).clamp(min=1e-30)
    with open(folder / "edges.csv", newline="") as file:
        records = list(csv.DictReader(file))
    ends = torch.tensor([[int(r["source"]), int(r["target"])] for r in records]).T
    both = torch.cat([ends, ends.flip(0)], 1)
    label = torch.tensor([r["kind"] == "within" for r in records]).long()
    part = {name: torch.tensor([at for at, r in enumerate(records) if r["split"] == name]) for name in ("train", "val", "test")}
    amount = torch.tensor([[float(r["amount"])] for r in records], dtype=torch.float64)
    own = amount[part["train"]]
    amount = ((amount - own.mean()) / own.std(unbiased=False)).float()

    def area(scores, truth):
        order = torch.argsort(scores)
        rank = torch.empty(len(scores), dtype=torch.float64)
        rank[order] = torch.arange(1, len(scores) + 1, dtype=torch.float64)
        positive = int(truth.sum())
        return 100 * float((rank[truth == 1].sum() - positive * (positive + 1) / 2) / (positive * (len(truth) - positive)))

    rows = []
    for seed in range(a.seeds):
        seed_everything(seed)
        net = Net(x.shape[1])
        adam = torch.optim.Adam(net.parameters(), lr=a.lr, weight_decay=a.wd)
        sampler = Neighbours(both, len(x), seed) if a.batch else None
        seconds, best = [], (-1.0, None)
        for _ in range(a.epochs):
            begun = time.perf_counter()
            net.train()
            for batch in part["train"][torch.randperm(len(part["train"]))].split(a.batch) if a.batch else [part["train"]]:
                adam.zero_grad()
                if sampler is None:
                    scores = net(x, both, ends[:, batch], amount[batch])
                else:
                    vertices, local = ends[:, batch].unique(return_inverse=True)
                    vertices, lists = sampler.sample(vertices.numpy(), a.fan_out)
                    scores = net(x[vertices], lists, local, amount[batch])
                F.cross_entropy(scores, label[batch]).backward()
                adam.step()
            seconds.append(time.perf_counter() - begun)
            net.eval()
            with torch.no_grad():
                scores = net(x, both, ends, amount)
            right = (scores.argmax(1) == label).float()
            of = lambda name: 100 * float(right[part[name]].mean())
            test = part["test"]
            found = {"roc_auc": area(scores[test, 1] - scores[test, 0], label[test]), "accuracy": of("test")}
            if of("val") > best[0]:
                best = (of("val"), found)
        rows.append({"last": found, "best": best[1], "epoch_s": statistics.median(seconds)})
        print(json.dumps({"seed": seed, **rows[-1]}), flush=True)
    over = lambda of: [statistics.mean(map(of, rows)), statistics.stdev(map(of, rows)) if len(rows) > 1 else 0.0]
    summary = {f"{when}_{what}": over(lambda row: row[when][what]) for when in ("last", "best") for what in ("roc_auc", "accuracy")}
    print(json.dumps({"seeds": a.seeds, **summary, "epoch_s": statistics.median(row["epoch_s"] for row in rows)}))


if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
    main()
