#!/usr/bin/env python3
"""A graph convolution of signs beside one of numbers, on Cora, Citeseer and Pubmed.

  binary.py ECITON [--sets cora,citeseer,pubmed] [--seeds 10] [--first 0] [--kernel FILE.wasm]

Trains the recipe `binary` and a `gcn` of two layers and 64 hidden columns with each seed. Prints test accuracy in per
cent beside the source's, means and standard deviations over seeds: after the last epoch, and at the best validation
accuracy. ECITON_DATA is where data sets lie. With --kernel a component takes the place of the built-in kernel.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile

# Wang et al. 2021, table 2, as remembered: GCN and Bi-GCN of 64 hidden columns.
SOURCE = {"cora": (81.4, 81.2), "citeseer": (70.9, 68.8), "pubmed": (79.0, 78.2)}

p = argparse.ArgumentParser()
p.add_argument("eciton"), p.add_argument("--sets", default="cora,citeseer,pubmed")
p.add_argument("--seeds", type=int, default=10), p.add_argument("--first", type=int, default=0)
p.add_argument("--kernel", type=pathlib.Path)
a = p.parse_args()


def train(*words):
    """Accuracies of each seed in per cent: (after the last epoch, at the best validation accuracy)."""
    words = ["train", *map(str, words), "--seeds", str(a.seeds), "--set", f"run.seed={a.first}", "--no-out", "--json"]
    ran = subprocess.run([a.eciton, *words], capture_output=True, text=True)
    if ran.returncode:
        raise SystemExit(f"eciton {' '.join(words)}: {ran.stdout}{ran.stderr}")
    events = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]
    found = [event for event in events if event["event"] == "summary"][-1]
    return [(100 * seed["metrics"]["test"], 100 * seed["best"]["test"]) for seed in found["seeds"]]


def spread(values):
    return f"{statistics.mean(values):.1f} ± {statistics.stdev(values) if len(values) > 1 else 0:.1f}"


def recipe(name, folder):
    """With a component: the recipe of a clone as a file, for a binary that does not carry it."""
    if a.kernel is None:
        return [name, "--recipe", "binary"]
    text = (pathlib.Path(__file__).parents[2] / f"docs/recipes/{name}/binary.toml").read_text()
    file = pathlib.Path(folder) / f"{name}.toml"
    file.write_text(text.replace('kernel = "binary"', f"kernel = {json.dumps(str(a.kernel.resolve()))}"))
    return [file]


print("| | GCN-64: last; best | `binary`: last; best | behind: last; best | source: GCN; Bi-GCN; behind |", flush=True)
print("| --- | --- | --- | --- | --- |", flush=True)
with tempfile.TemporaryDirectory() as folder:
    for name in a.sets.split(","):
        gcn = train(name, "--model", "gcn", "--hidden", 64, "--epochs", 200, "--set", "optimiser.weight_decay=5e-4")
        binary = train(*recipe(name, folder))
        columns = [list(zip(*of)) for of in (gcn, binary)]
        behind = [statistics.mean(g) - statistics.mean(b) for g, b in zip(*columns)]
        theirs = SOURCE[name]
        cells = [*("; ".join(map(spread, of)) for of in columns), "; ".join(f"{x:.1f}" for x in behind)]
        print(f"| {name} |", " | ".join(cells), f"| {theirs[0]}; {theirs[1]}; {theirs[0] - theirs[1]:.1f} |", flush=True)
