#!/usr/bin/env python3
"""Full-graph GCN with two layers over P processes: torch.distributed with Gloo, and DGL's sparse product.

    RANK=0 WORLD_SIZE=2 MASTER_ADDR=HOST MASTER_PORT=29500 gloo_gcn.py DATA [--hidden 64] [--dropout 0.5] [--epochs 20] [--threads 1]

The model and the settings are those of `eciton train DATA --model gcn`. DATA is a folder of npy arrays, as `eciton data generate ... --arrays`
or shared/peers/prepare.py writes it. Eciton reads the same folder. The graph must have both directions of each edge.

Each process has a contiguous range of vertices, with an equal share of rows and edges. A process sends another one only the rows that
the other's neighbour lists name. The product over own rows is computed while these rows are in flight. GLOO_SOCKET_IFNAME names the
network interface. Process 0 prints one JSON line. Bytes and processor seconds are those of an epoch after the warm-up. Needs torch and dgl.
"""
import argparse
import json
import os
import resource
import statistics
import time

os.environ.setdefault("DGLBACKEND", "pytorch")
import dgl
import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("data")
    for name, kind, default in (("hidden", int, 64), ("dropout", float, 0.5), ("epochs", int, 20), ("warmup", int, 3), ("threads", int, 1)):
        p.add_argument(f"--{name}", type=kind, default=default)
    a = p.parse_args()
    torch.set_num_threads(a.threads)
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    load = lambda name, **more: np.load(f"{a.data}/{name}.npy", **more)
    indptr, indices, y, train = load("indptr"), load("indices", mmap_mode="r"), load("label"), load("train")
    rows, edges, classes = len(indptr) - 1, len(indices), int(y.max()) + 1
    cuts = np.searchsorted(indptr + np.arange(rows + 1), np.arange(size + 1) * (rows + edges) / size)
    first, end = cuts[rank], cuts[rank + 1]

    # Sources and targets of this process, and the process of each source.
    degrees = np.diff(indptr)
    source, target = indices[indptr[first]:indptr[end]].astype(np.int64), np.repeat(np.arange(end - first), degrees[first:end])
    owner = np.searchsorted(cuts, source, side="right") - 1
    own = owner == rank
    ghosts = np.unique(source[~own])
    starts = np.searchsorted(ghosts, cuts)
    # The graph has both directions, so a process needs a row if that row has a neighbour there.
    to_send = {q: torch.from_numpy(np.unique(target[owner == q])) for q in range(size) if q != rank}

    def block(source, target, count):
        graph = dgl.create_block((torch.from_numpy(source), torch.from_numpy(target)), num_src_nodes=count, num_dst_nodes=int(end - first))
        return graph.int().formats("csc")

    loops = np.arange(end - first)
    inner = block(np.concatenate([source[own] - first, loops]), np.concatenate([target[own], loops]), int(end - first))
    outer = block(np.searchsorted(ghosts, source[~own]), target[~own], len(ghosts))
    scale = torch.from_numpy((1 / np.sqrt(degrees[first:end] + 1)).astype(np.float32))[:, None]
    sent, received = 0, 0

    class Gather(torch.autograd.Function):
        """Product with the normalised adjacency matrix. The matrix is symmetric, so the gradient is the same product."""

        @staticmethod
        def forward(_, h):
            nonlocal sent, received
            h = h * scale
            landed, others = torch.empty(len(ghosts), h.shape[1]), [q for q in to_send if len(to_send[q])]
            work = [dist.irecv(landed[starts[q]:starts[q + 1]], q) for q in others]
            packed = [(h[to_send[q]], q) for q in others]
            work += [dist.isend(rows, q) for rows, q in packed]
            sent, received = sent + sum(rows.nbytes for rows, _ in packed), received + landed.nbytes
            out = dgl.ops.copy_u_sum(inner, h)
            for one in work:
                one.wait()
            return (out + dgl.ops.copy_u_sum(outer, landed) if len(ghosts) else out) * scale

        @staticmethod
        def backward(_, gradient):
            return Gather.forward(_, gradient)

    # Eciton scales the columns by the training rows, too.
    x = load("feat", mmap_mode="r")
    mean, deviation = x[train].mean(0), x[train].std(0)
    x = torch.from_numpy((x[first:end] - mean) / np.where(deviation == 0, 1, deviation))
    mine = train[(train >= first) & (train < end)]
    y, mine = torch.from_numpy(y[mine]), torch.from_numpy(mine - first)
    torch.manual_seed(0)
    layers = torch.nn.ModuleList([torch.nn.Linear(x.shape[1], a.hidden), torch.nn.Linear(a.hidden, classes)])
    for one in layers:
        torch.nn.init.xavier_uniform_(one.weight), torch.nn.init.zeros_(one.bias)
    parameters = list(layers.parameters())
    adam = torch.optim.Adam([dict(params=layers[0].parameters(), weight_decay=5e-4), dict(params=layers[1].parameters())], lr=0.01)
    torch.manual_seed(rank + 1)
    layer = lambda at, h: Gather.apply(F.linear(F.dropout(h, a.dropout), layers[at].weight)) + layers[at].bias
    processor = lambda: sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
    seconds, before = [], (0, 0, 0)
    for epoch in range(a.epochs):
        if epoch == a.warmup:
            before = (sent, received, processor())
        begun = time.perf_counter()
        adam.zero_grad()
        loss = F.cross_entropy(layer(1, F.relu(layer(0, x)))[mine], y, reduction="sum") / len(train)
        loss.backward()
        sums = torch.cat([loss.detach()[None], *(one.grad.flatten() for one in parameters)])
        dist.all_reduce(sums)
        for one, gradient in zip(parameters, sums[1:].split([one.numel() for one in parameters])):
            one.grad.copy_(gradient.view_as(one))
        adam.step()
        seconds.append(time.perf_counter() - begun)
    counted, ring = len(seconds) - a.warmup, 2 * (size - 1) / size * sums.nbytes  # Gloo sums along a ring.
    mine = torch.tensor([(now - was) / counted for now, was in zip((sent, received, processor()), before)], dtype=torch.float64)
    mine[:2] += ring
    total, most = mine.clone(), mine[:2].max()
    dist.all_reduce(total), dist.all_reduce(most, dist.ReduceOp.MAX)
    if rank == 0:
        quartiles = statistics.quantiles(seconds[a.warmup:], n=4)
        print(json.dumps({
            "peer": "gloo", "version": f"torch {torch.__version__}, dgl {dgl.__version__}", "hosts": size, "epoch_s": round(quartiles[1], 5),
            "quartiles": [round(quartiles[0], 5), round(quartiles[2], 5)], "sent_bytes": round(float(total[0])), "largest_bytes": round(float(most)),
            "cpu_s": round(float(total[2]), 5), "loss": round(float(sums[0]), 5), "threads": a.threads,
        }), flush=True)
    dist.barrier()  # Process 0 has the store, so it must not end first.
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
