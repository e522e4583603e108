#!/usr/bin/env python3
"""Bounded asynchrony in f64 with numpy alone: the losses of a run of Eciton's, from the order in which its steps ended.

    apart.py INPUT.json OUTPUT.json

INPUT.json is that of gcn.py, with
    epochs        how many
    cuts          [0, ..., vertices]: interval i has the vertices cuts[i] .. cuts[i + 1]
    events        the file that `--record-events` wrote, of a run without a limit of steps in flight that
                  gathers in each epoch
    staleness     S
    weights       "stash" or "2bw"

Stages of L layers, as in plan/src/program.rs: T(l) = 2 l, G(l) = 2 l + 1, the head 2 L, and backward G'(l) = 2 L + 1 + 2 (L - 1 - l),
T'(l) = G'(l) + 1. A gather is handed out, and what it reads is settled, when its own interval's rows are committed: of each interval the newest
rows that are not after its epoch. The first epoch reads rows of its own only. OUTPUT.json: {"losses": [epochs], "ages": {age: reads}}
"""
import numpy as np

from gcn import Activation, Gather, Gcn, Optimiser, command, features_of, initial_parameters


class Apart:
    def __init__(self, job):
        x, seed = features_of(job), job.get("seed", 0)
        activation = Activation(job.get("activation", "relu"), job.get("slope", 0.01), job.get("alpha", 1.0))
        labels, train = np.asarray(job["labels"], np.int64), np.asarray(job["train"], np.int64)
        self.net = Gcn(Gather(job["vertices"], job["edges"]), x, labels, train, seed, job.get("dropout", 0.0), activation, job.get("bias", True))
        self.parameters = initial_parameters(seed, [x.shape[1], *job["hidden"], job["classes"]], self.net.bias)
        self.layers, self.staleness, self.rule = len(self.parameters), job["staleness"], job["weights"]
        self.rows = [slice(a, b) for a, b in zip(job["cuts"], job["cuts"][1:])]
        self.optimiser = Optimiser(**job.get("optimiser", {}))
        self.versions = [[{k: v.copy() for k, v in p.items()} for p in self.parameters]]
        self.store, self.newest = {}, {}          # rows by (stage, epoch); the newest epoch by (stage, interval)
        self.settled, self.ages = {}, {}          # what gathers under way read
        self.entered = {(1, i): 0 for i in range(len(self.rows))}   # versions by (epoch, interval)
        self.finished, self.at, self.over = {}, {}, 0
        self.losses, self.gradients = {}, {}

    def put(self, stage, epoch, interval, value):
        whole = self.store.setdefault((stage, epoch), np.full((self.net.features.shape[0], value.shape[1]), np.nan))
        whole[self.rows[interval]] = value
        self.newest[stage, interval] = epoch

    def settle(self, stage, epoch, interval):
        """The rows of `stage` that a gather of `interval` reads that is handed out now."""
        whole = np.full_like(self.store[stage, epoch], np.nan)
        for of, rows in enumerate(self.rows):
            read = epoch if epoch == 1 else min(epoch, self.newest[stage, of])
            whole[rows] = self.store[stage, read][rows]
            if epoch > 1 and of != interval:
                self.ages[epoch - read] = self.ages.get(epoch - read, 0) + 1
        assert not np.isnan(whole).any()
        return whole

    def enter(self, interval):
        epoch = self.at[interval] + 1
        if (epoch, interval) not in self.entered and epoch - 1 <= self.over + self.staleness:
            late = max(epoch - 2, 0)
            self.entered[epoch, interval] = late if self.rule == "2bw" else len(self.versions) - 1

    def step(self, epoch, stage, interval):
        net, L, rows = self.net, self.layers, self.rows[interval]
        weights = self.versions[self.entered[epoch, interval]]
        gathers = 1 + 2 * np.arange(2 * L)
        if stage in gathers:
            whole = self.settled.pop((stage, epoch, interval)) if epoch > 1 else self.settle(stage - 1, epoch, interval)
            self.put(stage, epoch, interval, net.gather(whole)[rows])
            return
        backward = stage > 2 * L
        l = 2 * L - stage // 2 if backward else stage // 2   # T'(l) = 4 L - 2 l
        if stage == 2 * L:
            scores = np.zeros((len(net.labels), len(weights[-1]["bias"])))
            scores[rows] = self.store[stage - 1, epoch][rows] + weights[-1]["bias"]
            mine = np.isin(net.train, np.arange(rows.start, rows.stop))
            of = Gcn(None, None, net.labels, net.train[mine])
            loss, grad = of.cross_entropy(scores) if mine.any() else (0.0, np.zeros_like(scores))
            share = mine.sum() / len(net.train)
            self.losses[epoch] = self.losses.get(epoch, 0.0) + loss * share
            self.add(epoch, L - 1, "bias", (grad * share).sum(0))
            self.put(stage, epoch, interval, (grad * share)[rows])
        else:
            width = net.features.shape[1] if l == 0 else weights[l - 1]["weight"].shape[1]
            scale = np.broadcast_to(net.scale(epoch - 1, l, (len(net.labels), width)), (len(net.labels), width))[rows]
            before = None if l == 0 else self.store[2 * l - 1, epoch][rows] + weights[l - 1]["bias"]
            u = (net.features[rows] if l == 0 else net.activation(before)) * scale
            if backward:
                z = self.store[stage - 1, epoch][rows]
                self.add(epoch, l, "weight", u.T @ z)
                if l > 0:
                    grad = (z @ weights[l]["weight"].T) * scale * net.activation.derivative(before)
                    self.add(epoch, l - 1, "bias", grad.sum(0))
                    self.put(stage, epoch, interval, grad)
            else:
                self.put(stage, epoch, interval, u @ weights[l]["weight"])
        if epoch > 1 and stage + 1 in gathers and stage < 4 * L:
            self.settled[stage + 1, epoch, interval] = self.settle(stage, epoch, interval)
        if stage == 4 * L:
            self.finish(epoch, interval)

    def add(self, epoch, layer, name, gradient):
        if name == "weight" or self.net.bias:
            sums = self.gradients.setdefault(epoch, [{k: np.zeros_like(v) for k, v in p.items()} for p in self.parameters])
            sums[layer][name] = sums[layer][name] + gradient

    def finish(self, epoch, interval):
        self.finished[epoch] = self.finished.get(epoch, 0) + 1
        self.at[interval] = epoch
        self.enter(interval)
        if self.finished[epoch] == len(self.rows):
            assert epoch == self.over + 1
            self.optimiser.step(self.parameters, self.gradients.pop(epoch))
            self.versions.append([{k: v.copy() for k, v in p.items()} for p in self.parameters])
            self.over = epoch
            for of in self.at:
                self.enter(of)


def run(job):
    """Losses by epoch, and how many gathers read rows of which age."""
    apart = Apart(job)
    with open(job["events"]) as file:
        for line in file.read().splitlines()[1:]:
            what, epoch, stage, interval, *_ = line.split()
            assert what in ("gathered", "completed"), line
            apart.step(int(epoch), int(stage), int(interval))
    losses = [apart.losses[e] for e in sorted(apart.losses)]
    return {"losses": losses, "ages": {str(age): count for age, count in sorted(apart.ages.items())}}


if __name__ == "__main__":
    command(run, [], __doc__)
