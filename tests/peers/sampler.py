#!/usr/bin/env python3
"""`eciton.sampler` as the loader of a PyG model, and its rows per second beside DGL's loader.

    sampler.py train [DATA] [--epochs 20] [--seeds 3] [--sampler neighbours] [--batch 64] [--fan-out 10 10]
    sampler.py rate DATA [--batch 512] [--fan-out 10 10] [--epochs 2] [--loader eciton|dgl]

`train` trains PyG's two-layer GraphSAGE (mean, 64 columns, dropout 0.5, Adam 0.01) on the micro-batches, evaluates it on the whole
graph, and prints a JSON line per seed with the test accuracy, then their mean. `rate` draws micro-batches without a model and prints
rows, edges and seconds; with --loader dgl by DGL's DataLoader over NeighborSampler. Needs eciton, torch and torch_geometric; `rate`
with dgl needs DGL.
"""
import argparse
import json
import statistics
import time

import numpy as np

import eciton


def arguments():
    p = argparse.ArgumentParser()
    p.add_argument("command", choices=["train", "rate"])
    p.add_argument("data", nargs="?", default="cora")
    p.add_argument("--sampler", default="neighbours")
    p.add_argument("--loader", choices=["eciton", "dgl"], default="eciton")
    p.add_argument("--batch", type=int, default=64)
    p.add_argument("--fan-out", type=int, nargs="+", default=[10, 10])
    p.add_argument("--epochs", type=int, default=20)
    p.add_argument("--seeds", type=int, default=3)
    return p.parse_args()


def samples(a, known, seed, pyg):
    fan_out = {"fan_out": a.fan_out} if a.sampler in ("neighbours", "shadow-khop") else {}
    return eciton.sampler(known, sampler=a.sampler, batch=a.batch, layers=len(a.fan_out), seed=seed, epochs=a.epochs, pyg=pyg, **fan_out)


def train(a):
    import torch
    import torch.nn.functional as F
    from torch_geometric.nn import SAGEConv

    known = eciton.graph(a.data)
    x, y = torch.from_numpy(known.x), torch.from_numpy(known.y)
    edges, test = torch.from_numpy(known.edge_index), torch.from_numpy(known.split["test"])
    found = []
    for seed in range(a.seeds):
        torch.manual_seed(seed)
        layers = torch.nn.ModuleList([SAGEConv(x.shape[1], 64), SAGEConv(64, int(y.max()) + 1)])
        adam = torch.optim.Adam(layers.parameters(), lr=0.01)

        def net(x, edges, training):
            x = F.dropout(layers[0](x, edges).relu(), 0.5, training)
            return layers[1](x, edges)

        for data in samples(a, known, seed, True):
            adam.zero_grad()
            F.cross_entropy(net(data.x, data.edge_index, True)[data.targets], data.y[data.targets]).backward()
            adam.step()
        with torch.no_grad():
            right = (net(x, edges, False).argmax(1) == y).float()
        found.append(100 * right[test].mean().item())
        print(json.dumps({"seed": seed, "test": round(found[-1], 2)}), flush=True)
    print(json.dumps({"data": known.name, "sampler": a.sampler, "batch": a.batch, "mean": round(statistics.mean(found), 2),
                      "deviation": round(statistics.pstdev(found), 2)}))


def rate(a):
    known = eciton.graph(a.data)
    if a.loader == "eciton":
        begun = time.perf_counter()
        drawn = [(len(s.vertices), s.edge_index.shape[1]) for s in samples(a, known, 0, False)]
    else:
        import dgl
        import torch

        source, target = known.edge_index
        graph = dgl.graph((source, target), num_nodes=known.num_nodes)
        targets = torch.from_numpy(known.split["train"])
        begun = time.perf_counter()
        loader = dgl.dataloading.DataLoader(graph, targets, dgl.dataloading.NeighborSampler(a.fan_out[::-1]), batch_size=a.batch, shuffle=True)
        drawn = [(len(rows), sum(block.num_edges() for block in blocks)) for _ in range(a.epochs) for rows, _, blocks in loader]
    took = time.perf_counter() - begun
    rows, edges = np.array(drawn).sum(0).tolist()
    print(json.dumps({"loader": a.loader, "batches": len(drawn), "rows": rows, "edges": edges, "seconds": round(took, 3),
                      "rows_per_s": round(rows / took)}))


if __name__ == "__main__":
    given = arguments()
    {"train": train, "rate": rate}[given.command](given)
