#!/usr/bin/env python3
"""Learning rates and losses of each step beside PyTorch: an MLP on generated numbers, all rows in each step.

    steps.py ECITON [--steps 200]

needs NumPy, PyTorch and safetensors. Both start from the same weights. PyTorch computes in f64. Prints the largest relative
differences of rates and losses, for Adam with a warm-up and a cosine schedule, and ends with 1 if they exceed 1e-7 and 1e-4.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import torch
from safetensors.numpy import save_file

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("eciton")
parser.add_argument("--steps", type=int, default=200)
a = parser.parse_args()
WARMUP, RATE, FINAL, HIDDEN, CLASSES = 20, 0.003, 0.0001, 24, 5

random = np.random.default_rng(7)
x = random.normal(size=(400, 12)).astype(np.float32)
y = (x @ random.normal(size=(12, CLASSES))).argmax(1)
sizes = [(12, HIDDEN), (HIDDEN, CLASSES)]
weights = [(random.normal(size=size) / size[0] ** 0.5).astype(np.float32) for size in sizes]

with tempfile.TemporaryDirectory() as place:
    place = pathlib.Path(place)
    names = [f"x{i}" for i in range(x.shape[1])] + ["label"]
    rows = "\n".join(",".join([*(repr(float(v)) for v in row), f"c{label}"]) for row, label in zip(x, y))
    (place / "d.csv").write_text(",".join(names) + "\n" + rows + "\n")
    tensors = {}
    for layer, weight in enumerate(weights):
        tensors[f"layers.{layer}.weight"] = weight
        tensors[f"layers.{layer}.bias"] = np.zeros(weight.shape[1], np.float32)
    save_file(tensors, place / "first.safetensors")
    settings = [
        "data.split=random:0.8/0.1/0.1", "data.normalise_features=none", "optimiser.kind=adam", f"optimiser.lr={RATE}",
        f"optimiser.warmup_steps={WARMUP}", "optimiser.schedule=cosine", f"optimiser.final_lr={FINAL}", "optimiser.weight_decay=0",
        "optimiser.clip_norm=1e9", f"run.steps={a.steps}", "run.eval_every=0", "run.init=first.safetensors", "model.activation=relu",
    ]
    line = [a.eciton, "train", "d.csv", "--model", "mlp", "--layers", "2", "--hidden", str(HIDDEN), "--dropout", "0", "--out", "r", "--quiet"]
    line = line[:-1] + [word for setting in settings for word in ("--set", setting)]
    subprocess.run(line, cwd=place, check=True, stdout=subprocess.DEVNULL)
    reports = [json.loads(line) for line in (place / "r" / "metrics.jsonl").read_text().splitlines()]
    known = np.load(place / "r" / "predictions.npz")
    train, order = np.flatnonzero(known["parts"] == "train"), {name: at for at, name in enumerate(known["classes"])}

torch.set_default_dtype(torch.float64)
x, y = torch.tensor(x, dtype=torch.float64)[train], torch.tensor([order[f"c{label}"] for label in y])[train]
params = [torch.nn.Parameter(torch.tensor(t, dtype=torch.float64)) for t in tensors.values()]
optimiser = torch.optim.Adam(params, lr=RATE, eps=1e-8)
warmup = torch.optim.lr_scheduler.LinearLR(optimiser, start_factor=1 / (WARMUP + 1), total_iters=WARMUP)
cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, T_max=a.steps - WARMUP, eta_min=FINAL)
schedule = torch.optim.lr_scheduler.SequentialLR(optimiser, [warmup, cosine], milestones=[WARMUP])
rates, losses, norms = [], [], []
for _ in range(a.steps):
    optimiser.zero_grad()
    w1, b1, w2, b2 = params
    loss = torch.nn.functional.cross_entropy(torch.relu(x @ w1 + b1) @ w2 + b2, y)
    loss.backward()
    rates.append(optimiser.param_groups[0]["lr"])
    losses.append(loss.item())
    norms.append(torch.sqrt(sum((p.grad**2).sum() for p in params)).item())
    optimiser.step()
    schedule.step()

relative = lambda name, wanted: max(abs(r[name] - w) / abs(w) for r, w in zip(reports, wanted))
assert len(reports) == a.steps, f"{len(reports)} reports of {a.steps} steps"
found = {"lr": relative("lr", rates), "loss": relative("loss", losses), "gradient_norm": relative("gradient_norm", norms)}
print(f"{a.steps} steps, {len(train)} rows: largest relative differences", {name: f"{value:.1e}" for name, value in found.items()})
sys.exit(found["lr"] > 1e-7 or found["loss"] > 1e-4)
