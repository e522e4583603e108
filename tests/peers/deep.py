#!/usr/bin/env python3
"""Deep networks in Eciton and in PyTorch, in turns on one machine: rows a second, accuracy or loss, peak memory.

  deep.py ECITON TORCH_PYTHON DEEP_BENCH TEXT [--models digits-mlp,...] [--seeds 3] [--rounds 3] [--bytes 800000] [--workers 2]

DEEP_BENCH is the script of the peers' folder; TEXT is cut to its first bytes for both. Recipes are those of
docs/recipes with the batches, rates and first weights that the script has. Prints a line of JSON a run, then a table.
With --workers, Eciton also trains over so many worker processes of one thread that own the weights, with both schedules.
"""
import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import tempfile

p = argparse.ArgumentParser()
p.add_argument("eciton"), p.add_argument("python"), p.add_argument("bench"), p.add_argument("text")
p.add_argument("--models", default="digits-mlp,digits-cnn,branches,lm")
p.add_argument("--seeds", type=int, default=3), p.add_argument("--rounds", type=int, default=3)
p.add_argument("--bytes", type=int, default=800_000), p.add_argument("--workers", type=int, default=0)
a = p.parse_args()
recipes = pathlib.Path(__file__).resolve().parent.parent.parent / "docs/recipes"
work = pathlib.Path(tempfile.mkdtemp())
text = work / "text.txt"
text.write_bytes(pathlib.Path(a.text).read_bytes()[: a.bytes])
# recipe, data, epochs, steps of PyTorch for as many updates, rows of an epoch
MODELS = {
    "digits-mlp": ("digits/mlp.toml", "digits", 15, 22 * 15),
    "digits-cnn": ("digits/cnn.toml", "digits", 15, 22 * 15),
    "branches": ("any/branches.toml", "branches", 4, 19 * 4),
    "lm": ("any/char-lm.toml", str(text), 1, 351 * a.bytes // 800_000),
}


def eciton(model, seed, schedule=None):
    recipe, data, epochs, _ = MODELS[model]
    if data == "branches":
        data = work / data
        if not data.exists():
            command = [a.eciton, "data", "generate", "linear", data, "--rows", "8192", "--features", "2048"]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    command = [a.eciton, "train", recipes / recipe, "--set", f"data.source={data}", "--epochs", str(epochs), "--seed", str(seed),
               "--eval-every", "0", "--no-out", "--json"]
    if schedule:
        count = str(a.workers)
        command += ["--lanes", count, "--workers", count, "--threads", "1", "--micro", "8", "--schedule", schedule,
                    "--set", "workers.owner=worker"]
    found = subprocess.run(command, check=True, capture_output=True, text=True)
    lines = [json.loads(line) for line in found.stdout.splitlines()]
    summary = lines[-1].get("summary", lines[-1])
    seconds = summary["epoch_seconds_median"]
    rows = {"digits": 1437, "branches": 4915}.get(MODELS[model][1]) or (text.stat().st_size - 1) // 64 * 9 // 10 * 64
    return dict(by=f"eciton, {a.workers} workers, {schedule}" if schedule else "eciton", model=model, seed=seed, per_s=rows / seconds, quality=summary["test_metric"]["mean"] if isinstance(
        summary["test_metric"], dict) else summary["test_metric"], mib=summary["peak_memory_bytes"] / 2**20)


def torch(model, seed):
    command = [a.python, a.bench, model, "--seed", str(seed), "--steps", str(MODELS[model][3])]
    found = subprocess.run(command, check=True, capture_output=True, text=True, env=os.environ | {"ECITON_TEXT": str(text)})
    line = json.loads(found.stdout.splitlines()[-1])
    return dict(by=f"torch {line['version']}", model=model, seed=seed, per_s=line["per_s"], quality=line["test_acc"] or line["val_loss"],
                mib=line["peak_rss_mb"])


def figure(values, digits):
    values = [value for value in values if value is not None]
    return f"{statistics.median(values):,.{digits}f} ({min(values):,.{digits}f} to {max(values):,.{digits}f})" if values else "-"


print("load before", os.getloadavg())
for model in a.models.split(","):
    runs = []
    for seed in range(max(a.rounds, a.seeds)):
        own = [eciton(model, seed, schedule) for schedule in [None, *(["1f1b", "2bw"] if a.workers else [])]]
        for run in [*own, torch(model, seed)]:
            runs.append(run)
            print(json.dumps(run), flush=True)
    for by in sorted({run["by"] for run in runs}):
        own = [run for run in runs if run["by"] == by]
        print(f"| {model} | {by} | {figure([r['per_s'] for r in own], 0)} | {figure([r['quality'] for r in own], 4)} | {figure([r['mib'] for r in own], 0)} |",
              flush=True)
