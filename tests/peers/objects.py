#!/usr/bin/env python3
"""Graphs of DGL's and of OGB's own libraries: the digest of the same arrays without them.

  objects.py        # in an environment with eciton, and with dgl, ogb or both

DGL: `dgl.graph` with features, labels and masks of nodes. OGB: a data set that OGB's `DatasetSaver` writes and its
`NodePropPredDataset` reads, and one of many graphs that `GraphPropPredDataset` reads. Nothing is downloaded.
"""
import pathlib
import tempfile

import eciton
import numpy as np

random = np.random.default_rng(0)
nodes, classes = 600, 3
y = random.integers(0, classes, nodes)
pairs = random.integers(0, nodes, (6000, 2))
pairs = pairs[(pairs[:, 0] != pairs[:, 1]) & ((y[pairs[:, 0]] == y[pairs[:, 1]]) | (random.random(len(pairs)) < 0.2))]
pairs = np.unique(np.concatenate([pairs, pairs[:, ::-1]]), axis=0)
edges = pairs.T.copy()
x = (random.random((nodes, 16)) + np.eye(classes)[y].repeat(6, 1)[:, :16]).astype(np.float32)
part = random.permutation(nodes) % 3
masks = {name: part == at for at, name in enumerate(("train", "val", "test"))}


def digest(graph):
    return eciton.train(graph, model="gcn", hidden=16, epochs=30, seed=0, progress=False).digest


alone = digest(eciton.graph(edges, x=x, y=y, **masks))


def same(what, graph):
    found = digest(graph)
    print(f"{what}: {found[:12]}, of the arrays {alone[:12]}", flush=True)
    if found != alone:
        raise SystemExit(f"{what} gives another model")


def dgl():
    import dgl
    import torch

    graph = dgl.graph((torch.from_numpy(edges[0]), torch.from_numpy(edges[1])), num_nodes=nodes)
    graph.ndata["feat"], graph.ndata["label"] = torch.from_numpy(x), torch.from_numpy(y)
    for name, mask in masks.items():
        graph.ndata[f"{name}_mask"] = torch.from_numpy(mask)
    same(f"DGL {dgl.__version__}", eciton.graph(graph))
    try:
        eciton.graph(dgl.heterograph({("a", "r", "b"): ([0], [0]), ("b", "s", "a"): ([0], [0])}))
    except TypeError as refused:
        print(f"  two kinds of nodes: {refused}")
    else:
        raise SystemExit("a heterogeneous graph was taken")


def ogb():
    import functools

    import torch
    # OGB reads files that it wrote itself with pickles, which torch allows no more where nothing is said.
    torch.load = functools.partial(torch.load, weights_only=False)
    import ogb
    from ogb.io import DatasetSaver
    from ogb.graphproppred import GraphPropPredDataset
    from ogb.nodeproppred import NodePropPredDataset

    def saved(name, graphs, labels, split, **mapping):
        folder = pathlib.Path(tempfile.mkdtemp())
        saver = DatasetSaver(dataset_name=name, is_hetero=False, version=1, root=str(folder))
        saver.save_graph_list(graphs)
        saver.save_target_labels(labels)
        saver.save_split(split, split_name="made")
        readme = folder / "mapping"
        readme.mkdir()
        (readme / "README.md").write_text("made")
        saver.copy_mapping_dir(str(readme))
        saver.save_task_info(**mapping)
        return saver.get_meta_dict()

    numbers = {key: np.flatnonzero(masks[of]) for key, of in (("train", "train"), ("valid", "val"), ("test", "test"))}
    graph = {"edge_index": edges, "num_nodes": nodes, "node_feat": x}
    meta = saved("ogbn-made", [graph], y[:, None], numbers, task_type="multiclass classification", eval_metric="acc",
                 num_classes=classes)
    same(f"OGB {ogb.__version__}, nodes", eciton.graph(NodePropPredDataset("ogbn-made", meta_dict=meta)))
    graphs = []
    for at in range(40):
        size = 5 + at % 4
        ring = np.arange(size)
        both = np.stack([np.concatenate([ring, (ring + 1) % size]), np.concatenate([(ring + 1) % size, ring])])
        graphs.append({"edge_index": both, "num_nodes": size,
                       "node_feat": (random.random((size, 3)) + at % 2).astype(np.float32)})
    labels = np.arange(40)[:, None] % 2
    thirds = {key: np.arange(40)[at::3] for at, key in enumerate(("train", "valid", "test"))}
    meta = saved("ogbg-made", graphs, labels, thirds, task_type="binary classification", eval_metric="rocauc", num_classes=2)
    many = eciton.graph(GraphPropPredDataset("ogbg-made", meta_dict=meta))
    run = eciton.train(many, model="gcn", hidden=8, epochs=20, progress=False)
    print(f"OGB {ogb.__version__}, {many.num_graphs} graphs: test {run.metrics['test']}")


for library in (dgl, ogb):
    try:
        __import__(library.__name__)
    except ImportError:
        print(f"{library.__name__} is not here: left out")
        continue
    library()
