#!/usr/bin/env python3
"""Graph classification: a made data set of many graphs, and PyG's GCN, GIN and GraphSAGE on such data, to hold beside `eciton train`.

    graphs.py make FOLDER NAME [--graphs 400] [--seed 0] [--keep 0.6 1]
    graphs.py train DATA --name NAME [--model gcn|gin|sage] [--readout mean|sum|max] [--seeds 3] [--layers 3] [--hidden 32]
              [--epochs 100] [--lr 0.01] [--dropout 0] [--wd 0] [--threads 1] [--batch N]

`make` writes a TU data set (Morris et al. 2020) with A, graph_indicator, graph_labels and node_labels. Graphs have 20 to 40 vertices and
two links a vertex; vertices have one of three labels at random, which tell nothing. Three classes in equal numbers differ in structure:

    1   links at random (Erdos and Renyi)
    2   a ring of cliques of five
    3   preferential attachment, two links a vertex (Barabasi and Albert)

Of a structure each graph keeps a share of its links, drawn uniformly from --keep; the others are links at random, so that the classes
overlap.

`train` reads DATA as Eciton does: features are attributes and one-hot labels of vertices (the constant 1 without either), divided by
their sums unless one is negative; links count in both directions, once; 80 % of the graphs train, 10 % validate, 10 % test, by
`Split::random` of seed 0. The model is N layers of width --hidden with relu, one readout of a graph's rows and a linear layer; dropout
stands before each layer with weights, weight decay is on all parameters, the first values are PyG's. All graphs are one batch and an
epoch is one step, or with --batch each step has N training graphs of PyG's DataLoader, which are shuffled in every epoch. Prints one JSON line a seed, with accuracies after the last epoch in %, then one of means and standard deviations
over seeds, with the median time of an epoch. Needs torch and torch_geometric; `make` only numpy.
"""
import argparse
import gzip
import itertools
import json
import pathlib
import resource
import statistics
import sys
import time

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "oracle"))
import keyed  # the oracle's

CLIQUE, LINKS, KINDS = 5, 2, 3


def arguments():
    p = argparse.ArgumentParser()
    commands = p.add_subparsers(dest="command", required=True)
    make = commands.add_parser("make")
    make.add_argument("folder", type=pathlib.Path)
    make.add_argument("name")
    make.add_argument("--graphs", type=int, default=400)
    make.add_argument("--seed", type=int, default=0)
    make.add_argument("--keep", type=float, nargs=2, default=[0.6, 1.0])
    train = commands.add_parser("train")
    train.add_argument("data", type=pathlib.Path)
    train.add_argument("--name", required=True)
    train.add_argument("--model", choices=["gcn", "gin", "sage"], default="gin")
    train.add_argument("--readout", choices=["mean", "sum", "max"], default="sum")
    for name, kind, default in (("seeds", int, 3), ("layers", int, 3), ("hidden", int, 32), ("epochs", int, 100), ("lr", float, 0.01),
                                ("dropout", float, 0.0), ("wd", float, 0.0), ("threads", int, 1)):
        train.add_argument(f"--{name}", type=kind, default=default)
    train.add_argument("--batch", type=int)
    return p.parse_args()


def structure(kind, n, random):
    """The links of a class before some are replaced."""
    if kind == 2:
        cliques = [range(at, min(at + CLIQUE, n)) for at in range(0, n, CLIQUE)]
        links = {pair for clique in cliques for pair in itertools.combinations(clique, 2)}
        return links | {tuple(sorted((a[-1], b[0]))) for a, b in zip(cliques, cliques[1:] + cliques[:1])}
    links, ends = {(0, 1)}, [0, 1]
    for vertex in range(2, n) if kind == 3 else []:
        chosen = set()
        while len(chosen) < LINKS:
            chosen.add(ends[random.integers(len(ends))])
        links |= {(other, vertex) for other in chosen}
        ends += [*chosen, *[vertex] * LINKS]
    return links


def graph(kind, keep, random):
    """The vertices and links of one graph of a class, its vertices in random order."""
    n = int(random.integers(20, 41))
    known = sorted(structure(kind, n, random))
    kept = random.permutation(len(known))[:round(random.uniform(*keep) * LINKS * n)] if kind > 1 else []
    links = {known[at] for at in kept}
    while len(links) < LINKS * n:
        a, b = sorted(random.integers(n, size=2).tolist())
        if a != b:
            links.add((a, b))
    order = random.permutation(n)
    return n, order[np.array(sorted(links))]


def make(a):
    random, first = np.random.default_rng(a.seed), 1
    edges, of, kinds = [], [], random.permutation(np.arange(a.graphs) % 3 + 1)
    for number, kind in enumerate(kinds, 1):
        n, links = graph(kind, a.keep, random)
        both = np.concatenate([links, links[:, ::-1]]) + first
        edges.append(both[np.lexsort((both[:, 1], both[:, 0]))])
        of.append(np.full(n, number))
        first += n
    a.folder.mkdir(parents=True, exist_ok=True)
    write = lambda part, rows: np.savetxt(a.folder / f"{a.name}_{part}.txt", rows, "%d", ", ")
    write("A", np.concatenate(edges))
    write("graph_indicator", np.concatenate(of))
    write("graph_labels", kinds)
    write("node_labels", random.integers(KINDS, size=first - 1))
    print(json.dumps({"name": a.name, "graphs": a.graphs, "vertices": first - 1, "edges": sum(map(len, edges)), "seed": a.seed}))


def table(data, name, part, needed=True):
    """The rows of a file in f64; None where it is not there and not needed."""
    folders = [data, data / "raw", data / name, data / name / "raw"]
    for path, opened in ((folder / f"{name}_{part}.txt{end}", by) for folder in folders for end, by in (("", open), (".gz", gzip.open))):
        if path.is_file():
            with opened(path, "rt") as file:
                lines = [line for line in file.read().replace(",", " ").splitlines() if line.strip()]
            return np.array(" ".join(lines).split(), float).reshape(len(lines), -1)
    if needed:
        raise SystemExit(f"{data}: no {name}_{part}.txt in it, in its raw, {name} or {name}/raw; give the folder and name of a TU data set")
    return None


def features(data, name, vertices):
    attributes, labels = (table(data, name, f"node_{part}", False) for part in ("attributes", "labels"))
    columns = [] if attributes is None else [attributes]
    for column in [] if labels is None else labels.T.astype(int):
        columns.append(np.eye(np.ptp(column) + 1)[column - column.min()])
    x = np.concatenate(columns, 1) if columns else np.ones((vertices, 1))
    return x if (x < 0).any() else x / np.maximum(x.sum(1, keepdims=True), 1e-30)


def split(standing, seed=0):
    """Vertices that train, validate and test: host/graph's `Split::random` of 80 and 10 %."""
    order, state = sorted(standing), seed
    for last in range(len(order) - 1, 0, -1):
        state = (state + int(keyed.G)) % 2**64
        other = int(keyed.mix64(state)) * (last + 1) >> 64
        order[last], order[other] = order[other], order[last]
    first, second = int(len(order) * 0.8), int(len(order) * (0.8 + 0.1))
    return order[:first], order[first:second], order[second:]


def train(a):
    import torch
    import torch.nn.functional as F
    from torch_geometric.nn import GCNConv, GINConv, MLP, SAGEConv, global_add_pool, global_max_pool, global_mean_pool

    class Net(torch.nn.Module):
        def __init__(self, columns, classes):
            super().__init__()
            layer = {
                "gcn": lambda i, o: GCNConv(i, o, cached=not a.batch),
                "gin": lambda i, o: GINConv(MLP([i, o, o], norm=None, dropout=0.0)),
                "sage": SAGEConv,
            }[a.model]
            self.layers = torch.nn.ModuleList([layer(i, a.hidden) for i in [columns] + [a.hidden] * (a.layers - 1)])
            self.readout = {"mean": global_mean_pool, "sum": global_add_pool, "max": global_max_pool}[a.readout]
            self.last = torch.nn.Linear(a.hidden, classes)

        def forward(self, x, edges, of, graphs):
            for layer in self.layers:
                x = layer(F.dropout(x, a.dropout, self.training), edges).relu()
            return self.last(F.dropout(self.readout(x, of, graphs), a.dropout, self.training))

    torch.set_num_threads(a.threads)
    # Graphs in the order of their first vertices, which stand for them.
    _, standing, of = np.unique(table(a.data, a.name, "graph_indicator"), return_index=True, return_inverse=True)
    labels, n, graphs = table(a.data, a.name, "graph_labels")[:, 0], of.size, len(standing)
    if len(labels) != graphs:
        raise SystemExit(f"{a.name}_graph_labels.txt: {len(labels)} graphs, but {a.name}_graph_indicator.txt says {graphs}")
    x = torch.from_numpy(features(a.data, a.name, n)).float()
    y = torch.from_numpy(np.unique(labels, return_inverse=True)[1].reshape(-1))
    number = {vertex: graph for graph, vertex in enumerate(standing.tolist())}
    parts = dict(zip(("train", "validation", "test"), ([number[v] for v in part] for part in split(number))))
    pairs = table(a.data, a.name, "A").astype(int) - 1
    pairs = np.unique(np.concatenate([pairs, pairs[:, ::-1]]), axis=0)
    pairs = torch.from_numpy(pairs[pairs[:, 0] != pairs[:, 1]].T.copy())
    # Rows are targets: PyG's transposed adjacency, which is quicker where there is no coefficient an edge.
    edges = pairs if a.model == "gcn" else torch.sparse_coo_tensor(pairs, torch.ones(pairs.shape[1]), (n, n)).to_sparse_csr()
    of, found, seconds = torch.from_numpy(of.reshape(-1)), [], []
    if a.batch:
        from torch_geometric.data import Data
        from torch_geometric.loader import DataLoader

        order, lists = torch.argsort(of, stable=True), of[pairs[0]]
        single = []
        for graph in parts["train"]:
            own, links = order[of[order] == graph], pairs[:, lists == graph]
            single.append(Data(x=x[own], edge_index=torch.searchsorted(own, links), y=y[graph:graph + 1]))
    for seed in range(a.seeds):
        torch.manual_seed(seed)
        net = Net(x.shape[1], int(y.max()) + 1)
        adam = torch.optim.Adam(net.parameters(), lr=a.lr, weight_decay=a.wd)
        for _ in range(a.epochs):
            begun = time.perf_counter()
            net.train()
            for batch in DataLoader(single, a.batch, shuffle=True) if a.batch else [None]:
                adam.zero_grad()
                if batch is None:
                    loss = F.cross_entropy(net(x, edges, of, graphs)[parts["train"]], y[parts["train"]])
                else:
                    loss = F.cross_entropy(net(batch.x, batch.edge_index, batch.batch, batch.num_graphs), batch.y)
                loss.backward()
                adam.step()
            seconds.append(time.perf_counter() - begun)
        net.eval()
        with torch.no_grad():
            right = (net(x, edges, of, graphs).argmax(1) == y).float()
        found.append({"loss": loss.item()} | {part: 100 * right[of_part].mean().item() for part, of_part in parts.items()})
        print(json.dumps({"seed": seed} | {name: round(value, 4) for name, value in found[-1].items()}), flush=True)
    measure = lambda values: [round(statistics.mean(values), 2), round(statistics.pstdev(values), 2)]
    print(json.dumps({
        "peer": "pyg", "model": a.model, "readout": a.readout, "data": a.name, "graphs": [len(part) for part in parts.values()],
        "vertices": n, "edges": pairs.shape[1], "seeds": a.seeds, "layers": a.layers, "hidden": a.hidden, "epochs": a.epochs, "lr": a.lr,
        "dropout": a.dropout, "wd": a.wd, "batch": a.batch, **{name: measure([run[name] for run in found]) for name in found[0]},
        "epoch_s": round(statistics.median(seconds), 5), "threads": a.threads, "torch": torch.__version__,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
    }), flush=True)


if __name__ == "__main__":
    given = arguments()
    {"make": make, "train": train}[given.command](given)
