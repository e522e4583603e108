#!/usr/bin/env python3
"""Spiking networks in Eciton and in snnTorch, with the same settings on the same digits.

  spiking.py ECITON [--seeds 10] [--part losses,population] [--threads N] [--kernel FILE.wasm] [--work DIR]

Run by a Python that has torch, snntorch, scikit-learn and numpy. Both sides train recipe `digits/spiking` (64-128-10, T = 25,
batches of 128, Adam 0.001, 30 epochs, first weights of `torch.nn.Linear`) and variants of it. Prints a line a run, then the
tables of docs/research/accuracy-against-papers.md: test accuracy (mean and standard deviation over seeds) and the median time of an epoch, both
without evaluation. `--threads` holds for both sides; `--kernel` takes a component in the place of the built-in kernel.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile
import time

import numpy as np

p = argparse.ArgumentParser()
p.add_argument("eciton"), p.add_argument("--seeds", type=int, default=10), p.add_argument("--epochs", type=int, default=30)
p.add_argument("--part", default="losses,population"), p.add_argument("--kernel", type=pathlib.Path)
p.add_argument("--work", type=pathlib.Path), p.add_argument("--threads", type=int, default=0)
a = p.parse_args()
work = (a.work or pathlib.Path(tempfile.mkdtemp())).resolve()
work.mkdir(parents=True, exist_ok=True)
BATCH, RATE, BETA = 128, 0.001, 0.9
# loss, surrogate, reset
LOSSES = [
    ("ce_count", "atan", "subtract"),
    ("ce_count", "fast-sigmoid", "subtract"),
    ("ce_count", "straight-through", "subtract"),
    ("ce_count", "atan", "zero"),
    ("ce_rate", "atan", "subtract"),
    ("mse_count", "atan", "subtract"),
]
# hidden, steps, neurons a class
POPULATION = [(512, 25, 1), (512, 5, 1), (512, 5, 3), (128, 25, 1), (128, 5, 1), (128, 5, 3), (128, 5, 10)]


def digits():
    from sklearn.datasets import load_digits

    both = load_digits()
    return (both.data / 16).astype(np.float32), both.target, np.arange(len(both.target)) % 5 == 0


X, Y, TEST = digits()


def data(loss):
    """The recipe's digits; of `mse_count` with the rates that are wanted as numbers."""
    if loss != "mse_count":
        return "digits"
    folder = work / "rates"
    folder.mkdir(exist_ok=True)
    np.save(folder / "x.npy", X)
    np.save(folder / "y.npy", np.eye(10, dtype=np.float32)[Y])
    rows = np.arange(len(Y))
    for name, which in ("train", ~TEST), ("val", TEST & False), ("test", TEST):
        np.save(folder / f"{name}.npy", rows[which])
    return str(folder)


def model(loss, surrogate, reset, hidden, steps, population):
    """The recipe, with the layers that a loss needs.

    ce_count: cross-entropy of counts. mse_count: squared error of rates, 1 of the class and 0 of others, which is
    snnTorch's divided by T. ce_rate: each step's spikes are scores with a loss of their own, so that the sum is T times
    snnTorch's mean. A factor of the loss changes nothing of Adam but for its epsilon.
    """
    kernel = json.dumps(str(a.kernel.resolve()) if a.kernel else "spiking")
    settings = dict(hidden=hidden, classes=10, steps=steps, population=population, beta=BETA, surrogate=surrogate, reset=reset,
                    output={"ce_count": "count", "mse_count": "rate", "ce_rate": "steps"}[loss])
    settings = ", ".join(f"{key} = {json.dumps(value)}" for key, value in settings.items())
    width = 10 * steps if loss == "ce_rate" else 10
    task = '\ntask = "regression"' if loss == "mse_count" else ""
    lines = [f'[data]\nsource = {json.dumps(data(loss))}{task}\n',
             f'[[model.layers]]\nkernel = {kernel}\nname = "spikes"\nwidth = {width}\ndropout = 0.0\nactivation = "identity"\nattributes = {{ {settings} }}\n']
    for step in range(steps if loss == "ce_rate" else 0):
        lines.append(f'[[model.layers]]\nkernel = "slice"\ninputs = ["spikes"]\nstart = {10 * step}\ncount = 10\n')
        if step + 1 < steps:
            lines.append("loss_weight = 1.0\n")
    lines.append(f'[batch]\nrows = {BATCH}\n\n[optimiser]\nkind = "adam"\nlr = {RATE}\nweight_decay = 0.0\n\n[run]\nepochs = {a.epochs}\n')
    return "\n".join(lines)


def run(*words):
    ran = subprocess.run([a.eciton, *map(str, words)], capture_output=True, text=True)
    if ran.returncode:
        raise SystemExit(f"eciton {' '.join(map(str, words))}: {ran.stdout}{ran.stderr}")
    return ran.stdout


def eciton(seed, *settings):
    """Test accuracy in per cent, and seconds of an epoch."""
    file = work / "model.toml"
    file.write_text(model(*settings))
    folder, scores = work / "run", work / "scores.npz"
    for old in (folder, scores):
        subprocess.run(["rm", "-rf", old], check=True)
    threads = ["--threads", a.threads] if a.threads else []
    told = run("train", file, "--seed", seed, "--eval-every", 0, *threads, "--out", folder, "--json")
    seconds = json.loads(told.splitlines()[-1])["epoch_seconds_median"]
    by_step = settings[0] == "ce_rate"
    run("predict", folder, *["--embeddings"] * by_step, "--out", scores)
    found = np.load(scores)
    counts = found["embeddings"].reshape(len(Y), -1, 10).sum(1) if by_step else found["scores"]
    return 100 * (counts.argmax(1) == Y)[TEST].mean(), seconds


def snntorch(seed, loss, surrogate, reset, hidden, steps, population):
    """The same of snnTorch, as its tutorials write it."""
    import snntorch as snn
    import snntorch.functional as SF
    import torch
    from snntorch import surrogate as grads

    if a.threads:
        torch.set_num_threads(a.threads)
    torch.manual_seed(seed)
    grad = {"atan": grads.atan(), "fast-sigmoid": grads.fast_sigmoid(), "straight-through": grads.straight_through_estimator()}[surrogate]
    first, second = torch.nn.Linear(64, hidden), torch.nn.Linear(hidden, 10 * population)
    lif1, lif2 = (snn.Leaky(beta=BETA, spike_grad=grad, reset_mechanism=reset) for _ in range(2))

    def spikes(x):
        mem1, mem2, out = lif1.reset_mem(), lif2.reset_mem(), []
        for _ in range(steps):
            spk1, mem1 = lif1(first(x), mem1)
            spk2, mem2 = lif2(second(spk1), mem2)
            out.append(spk2)
        return torch.stack(out)

    coded = dict(population_code=True, num_classes=10) if population > 1 else {}
    of = {"ce_count": SF.ce_count_loss, "ce_rate": SF.ce_rate_loss, "mse_count": SF.mse_count_loss}[loss](**coded)
    optimiser = torch.optim.Adam([*first.parameters(), *second.parameters()], lr=RATE)
    x, y = torch.tensor(X[~TEST]), torch.tensor(Y[~TEST])
    took = []
    for _ in range(a.epochs):
        began = time.perf_counter()
        order = torch.randperm(len(y))
        for at in range(0, len(y), BATCH):
            rows = order[at:at + BATCH]
            optimiser.zero_grad()
            of(spikes(x[rows]), y[rows]).backward()
            optimiser.step()
        took.append(time.perf_counter() - began)
    with torch.no_grad():
        right = SF.accuracy_rate(spikes(torch.tensor(X[TEST])), torch.tensor(Y[TEST]), **coded)
    return 100 * float(right), statistics.median(took)


def both(*settings):
    """Runs of each side in turns: accuracies and times."""
    found = {}
    for side in (eciton, snntorch):
        found[side.__name__] = []
    for seed in range(a.seeds):
        for side in (eciton, snntorch):
            accuracy, seconds = side(seed, *settings)
            found[side.__name__].append((accuracy, seconds))
            print(side.__name__, *settings, f"seed {seed}: {accuracy:.2f} %, {1000 * seconds:.1f} ms an epoch", flush=True)
    return found


def spread(runs):
    values = [accuracy for accuracy, _ in runs]
    return f"{statistics.mean(values):.2f} ± {statistics.stdev(values) if len(values) > 1 else 0:.2f}"


def mean(runs):
    return statistics.mean(accuracy for accuracy, _ in runs)


def milliseconds(runs):
    return 1000 * statistics.median(seconds for _, seconds in runs)


tables = []
if "losses" in a.part:
    tables.append("| loss | surrogate | reset | eciton, % | snntorch, % | difference | eciton, ms | snntorch, ms |\n" + "| --- " * 8 + "|")
    for loss, surrogate, reset in LOSSES:
        found = both(loss, surrogate, reset, 128, 25, 1)
        ours, theirs = found["eciton"], found["snntorch"]
        tables.append(f"| `{loss}` | {surrogate} | {reset} | {spread(ours)} | {spread(theirs)} | {mean(ours) - mean(theirs):+.2f} | "
                      f"{milliseconds(ours):.1f} | {milliseconds(theirs):.0f} |")
if "population" in a.part:
    tables.append("\n| hidden | T | neurons a class | eciton, % | snntorch, % | eciton, ms | share of T = 25 | snntorch, ms |\n" + "| --- " * 8 + "|")
    whole = {}
    for hidden, steps, population in POPULATION:
        found = both("ce_count", "atan", "subtract", hidden, steps, population)
        ours, theirs = found["eciton"], found["snntorch"]
        whole.setdefault(hidden, (mean(ours), milliseconds(ours)))
        tables.append(f"| {hidden} | {steps} | {population} | {spread(ours)} ({mean(ours) - whole[hidden][0]:+.2f}) | {spread(theirs)} | "
                      f"{milliseconds(ours):.1f} | {milliseconds(ours) / whole[hidden][1]:.2f} | {milliseconds(theirs):.0f} |")
print("\n" + "\n".join(tables))
