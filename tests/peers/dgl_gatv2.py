#!/usr/bin/env python3
"""Epoch time and peak memory of DGL's GATv2Conv with Eciton's hyper-parameters, to hold beside `eciton train --model gatv2`.

    dgl_gatv2.py DATA [--hidden 64] [--heads 8] [--epochs 20] [--dropout 0.5] [--threads 2]

DATA is a folder of npy arrays as shared/peers/prepare.py makes it. Two layers, elu between them, heads side by side, one head in the last layer,
a vertex among its own neighbours. Prints one JSON line. Needs torch and dgl.
"""
import argparse
import json
import resource
import statistics
import time

import dgl
import numpy as np
import torch
import torch.nn.functional as F
from dgl.nn import GATv2Conv


def main():
    p = argparse.ArgumentParser()
    p.add_argument("data")
    for name, kind, default in (("hidden", int, 64), ("heads", int, 8), ("epochs", int, 20), ("dropout", float, 0.5), ("threads", int, 2)):
        p.add_argument(f"--{name}", type=kind, default=default)
    a = p.parse_args()
    torch.set_num_threads(a.threads)
    load = lambda name: np.load(f"{a.data}/{name}.npy")
    x, y, train = (torch.from_numpy(load(name)) for name in ("feat", "label", "train"))
    indptr, source = load("indptr"), load("indices").astype(np.int64)
    target = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    graph = dgl.add_self_loop(dgl.remove_self_loop(dgl.graph((source, target), num_nodes=len(indptr) - 1)))
    torch.manual_seed(0)
    make = lambda i, o, heads: GATv2Conv(i, o, heads, feat_drop=a.dropout, attn_drop=a.dropout)
    layers = torch.nn.ModuleList([make(x.shape[1], a.hidden // a.heads, a.heads), make(a.hidden, int(y.max()) + 1, 1)])
    adam = torch.optim.Adam(layers.parameters(), lr=0.01, weight_decay=5e-4)
    seconds = []
    for _ in range(a.epochs):
        begun = time.perf_counter()
        adam.zero_grad()
        h = F.elu(layers[0](graph, x).flatten(1))
        F.cross_entropy(layers[1](graph, h).flatten(1)[train], y[train]).backward()
        adam.step()
        seconds.append(time.perf_counter() - begun)
    print(json.dumps({
        "peer": "dgl", "version": dgl.__version__, "model": "gatv2", "data": a.data, "epoch_s": round(statistics.median(seconds), 5),
        "range": [round(min(seconds), 5), round(max(seconds), 5)], "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
        "threads": a.threads,
    }), flush=True)


if __name__ == "__main__":
    main()
