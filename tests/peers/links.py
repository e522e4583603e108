#!/usr/bin/env python3
"""PyG's graph auto-encoder (Kipf and Welling 2016) on the links that Eciton holds out, to hold beside its link prediction.

    links.py DATA [--model gcn|sage] [--seeds 3] [--hidden 32] [--embedding 16] [--epochs 200] [--lr 0.01] [--wd 0] [--dropout 0]
             [--batch 1024 [--fan-out 10 10]] [--validation 0.05] [--test 0.1] [--split-seed 0] [--negatives 1] [--hits 10 50] [--threads 1]

DATA is a folder of npy arrays as shared/peers/prepare.py makes it. The held-out links and their negatives are those of
tests/oracle/links.py, by --split-seed; training negatives are PyG's `negative_sampling` on the training graph, anew each epoch, as
in its example of link prediction. Two layers, relu between them, no dropout after the last; a pair's score is the product of its
rows; the loss is the mean binary cross-entropy over training links, each once, and negatives. Features are divided by their sums.

With --batch, an update has that many training links and their negatives, and reads the two ends of each pair, --fan-out neighbours of
these, and so on, as PyG's LinkNeighborLoader does (which needs pyg-lib; the sampler here is NumPy's).

Prints one JSON line a seed: ROC-AUC and hits of the test links, in %, at the first epoch with the best ROC-AUC of the validation
links ("best") and after the last ("last"); then a line of means and standard deviations over seeds, with the median time of an
epoch (without evaluation; "negatives_s" of it are for drawing). Needs torch and torch_geometric.
"""
import argparse
import json
import pathlib
import resource
import statistics
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch_geometric import seed_everything
from torch_geometric.nn import GCNConv, SAGEConv
from torch_geometric.utils import negative_sampling

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "oracle"))
import links  # the oracle's


def arguments():
    p = argparse.ArgumentParser()
    p.add_argument("data")
    p.add_argument("--model", choices=["gcn", "sage"], default="gcn")
    for name, kind, default in (("seeds", int, 3), ("hidden", int, 32), ("embedding", int, 16), ("epochs", int, 200), ("lr", float, 0.01),
                                ("wd", float, 0.0), ("dropout", float, 0.0), ("validation", float, 0.05), ("test", float, 0.1),
                                ("split-seed", int, 0), ("negatives", int, 1), ("threads", int, 1)):
        p.add_argument(f"--{name}", type=kind, default=default)
    p.add_argument("--batch", type=int)
    p.add_argument("--fan-out", type=int, nargs=2, default=[10, 10])
    p.add_argument("--hits", type=int, nargs="+", default=[10, 50])
    return p.parse_args()


class Encoder(torch.nn.Module):
    def __init__(self, a, features):
        super().__init__()
        make = {"gcn": lambda i, o: GCNConv(i, o, cached=a.batch is None), "sage": SAGEConv}[a.model]
        self.dropout, self.layers = a.dropout, torch.nn.ModuleList([make(features, a.hidden), make(a.hidden, a.embedding)])

    def forward(self, x, edges):
        for at, layer in enumerate(self.layers):
            x = layer(F.dropout(x if at == 0 else x.relu(), self.dropout, self.training), edges)
        return x


class Neighbours:
    """Draws neighbours of rows without replacement, hop by hop."""

    def __init__(self, edges, n, seed):
        source, target = edges.numpy()
        order = np.argsort(target, kind="stable")
        self.sources, self.starts = source[order], np.searchsorted(target[order], np.arange(n + 1))
        self.random = np.random.default_rng(seed)

    def sample(self, rows, fan_out):
        """The vertices of a subgraph, the targets `rows` first, and its edges in local rows."""
        vertices, ring, found = rows, rows, []
        for most in fan_out:
            counts = self.starts[ring + 1] - self.starts[ring]
            local = np.repeat(np.arange(len(ring)), counts)
            at = np.arange(counts.sum()) - np.repeat(counts.cumsum() - counts, counts) + self.starts[ring][local]
            order = np.lexsort((self.random.random(len(at)), local))
            rank = np.arange(len(at)) - np.repeat(counts.cumsum() - counts, counts)
            chosen = order[rank < most]
            source, target = self.sources[at[chosen]], ring[local[chosen]]
            found.append(np.stack([source, target]))
            ring = np.setdiff1d(source, vertices)
            vertices = np.concatenate([vertices, ring])
        places = np.empty(len(self.starts), np.int64)
        places[vertices] = np.arange(len(vertices))
        return torch.from_numpy(vertices), torch.from_numpy(places[np.concatenate(found, 1)])


def batches(a, seed, edges, positive, n):
    """For each update of an epoch: the vertices that it reads (None for all), their edges, the pairs, and the number of links."""
    if a.batch is None:
        negative = negative_sampling(edges, n, positive.shape[1] * a.negatives)
        yield None, None, torch.cat([positive, negative], 1), positive.shape[1]
        return
    sampler = batches.sampler
    for part in torch.randperm(positive.shape[1]).split(a.batch):
        own = positive[:, part]
        pairs = torch.cat([own, negative_sampling(edges, n, own.shape[1] * a.negatives)], 1)
        ends, local = pairs.unique(return_inverse=True)
        vertices, lists = sampler.sample(ends.numpy(), a.fan_out)
        yield vertices, lists, local, own.shape[1]


def train(a, seed, x, edges, positive, validation, test):
    """The measures of one run, and of each epoch the seconds it took and those for its negatives."""
    seed_everything(seed)  # of Python's generator too, which `negative_sampling` draws from
    net = Encoder(a, x.shape[1])
    batches.sampler = Neighbours(edges, len(x), seed) if a.batch else None
    adam = torch.optim.Adam(net.parameters(), lr=a.lr, weight_decay=a.wd)
    # Rows are targets: PyG's transposed adjacency, which is quicker where there is no coefficient an edge.
    n = len(x)
    graph = torch.sparse_coo_tensor(edges.flip(0), torch.ones(edges.shape[1]), (n, n)).to_sparse_csr() if a.model == "sage" else edges
    seconds, best = [], {"validation_roc_auc": -1.0}
    for epoch in range(a.epochs):
        begun, spent = time.perf_counter(), 0.0
        drawing = begun
        for vertices, lists, pairs, count in batches(a, seed, edges, positive, n):
            spent += time.perf_counter() - drawing
            net.train()
            adam.zero_grad()
            z = net(x, graph) if vertices is None else net(x[vertices], lists)
            linked = (torch.arange(pairs.shape[1]) < count).float()
            F.binary_cross_entropy_with_logits((z[pairs[0]] * z[pairs[1]]).sum(1), linked).backward()
            adam.step()
            drawing = time.perf_counter()
        seconds.append((time.perf_counter() - begun, spent))
        net.eval()
        with torch.no_grad():
            z = net(x, graph).numpy()
        found = percent(validation.metrics(z, a.hits))
        if found["roc_auc"] > best["validation_roc_auc"]:
            best = {"epoch": epoch + 1, "validation_roc_auc": found["roc_auc"], **percent(test.metrics(z, a.hits))}
    return best, {"epoch": a.epochs, "validation_roc_auc": found["roc_auc"], **percent(test.metrics(z, a.hits))}, seconds


def percent(metrics):
    return {"roc_auc": 100 * metrics["roc_auc"]} | {f"hits@{k}": 100 * value for k, value in metrics["hits"].items()}


def main():
    a = arguments()
    torch.set_num_threads(a.threads)
    load = lambda name: np.load(f"{a.data}/{name}.npy")
    x = torch.from_numpy(load("feat"))
    x = x / x.sum(1, keepdim=True).clamp(min=1e-30)
    indptr = load("indptr")
    whole = links.Links(len(x), np.stack([load("indices").astype(np.int64), np.repeat(np.arange(len(x)), np.diff(indptr))], 1))
    roles = whole.split(a.validation, a.test, a.split_seed)
    validation, test = (links.HeldOut(whole, roles, role, 1, a.split_seed) for role in (links.VALIDATION, links.TEST))
    positive = torch.from_numpy(whole.pairs[roles == links.TRAINING].T.copy())
    edges = torch.cat([positive, positive.flip(0)], 1)
    runs, seconds = {"best": [], "last": []}, []
    for seed in range(a.seeds):
        best, last, times = train(a, seed, x, edges, positive, validation, test)
        runs["best"].append(best)
        runs["last"].append(last)
        seconds += times
        rounded = lambda of: {name: round(value, 2) for name, value in of.items()}
        print(json.dumps({"seed": seed, "best": rounded(best), "last": rounded(last)}), flush=True)
    summary = {
        "peer": "pyg", "model": a.model, "data": a.data, "seeds": a.seeds, "epochs": a.epochs, "dropout": a.dropout,
        "links": [int((roles == role).sum()) for role in (links.TRAINING, links.VALIDATION, links.TEST)],
    }
    for when, of in runs.items():
        measures = {name: [run[name] for run in of] for name in of[0]}
        summary[when] = {name: [round(statistics.mean(v), 2), round(statistics.pstdev(v), 2)] for name, v in measures.items()}
    print(json.dumps(summary | {
        "epoch_s": round(statistics.median(whole for whole, _ in seconds), 5), "negatives_s": round(statistics.median(drawn for _, drawn in seconds), 5),
        "threads": a.threads, "torch": torch.__version__, "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
    }), flush=True)


if __name__ == "__main__":
    main()
