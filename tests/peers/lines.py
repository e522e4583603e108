#!/usr/bin/env python3
"""Lines of closed outlines among lines of open strokes: a network with a graph of near lines, and without its edges.

  lines.py ECITON [--seeds 10] [--images 400] [--noise 0.35] [--epochs N] [--first 0] [--work DIR] [--recipe FILE]

Of each seed, generates images with it, trains recipe `lines` on them with it, with edges and without, and takes the
average precision of the test images' proposals. Prints a line a seed, means and standard deviations. What lies in
--work already is not made again.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile

p = argparse.ArgumentParser()
p.add_argument("eciton"), p.add_argument("--seeds", type=int, default=10), p.add_argument("--first", type=int, default=0)
p.add_argument("--images", type=int, default=400), p.add_argument("--noise", type=float, default=0.35)
p.add_argument("--epochs", type=int), p.add_argument("--work", type=pathlib.Path), p.add_argument("--recipe", type=pathlib.Path)
p.add_argument("--validation", action="store_true", help="of validation images: for who chooses settings")
a = p.parse_args()
work = (a.work or pathlib.Path(tempfile.mkdtemp())).resolve()
work.mkdir(parents=True, exist_ok=True)
WAYS = {"with edges": [], "without": ["--no-edges"]}


def run(*words):
    ran = subprocess.run([a.eciton, *map(str, words)], capture_output=True, text=True)
    if ran.returncode:
        raise SystemExit(f"eciton {' '.join(map(str, words))}: {ran.stdout}{ran.stderr}")
    return ran.stdout


def trained(seed, way):
    """Average precision in per cent, and the median time of an epoch in ms."""
    data, out = work / f"data-{seed}-{way.split()[0]}", work / f"run-{seed}-{way.split()[0]}"
    if not data.exists():
        run("data", "generate", "lines", data, "--images", a.images, "--noise", a.noise, "--seed", seed, *WAYS[way])
    if not out.exists():
        recipe = ["--recipe", "lines"] if not a.recipe else [a.recipe, "--set", f"data.source={json.dumps(str(data))}"]
        words = [*([data] if not a.recipe else []), *recipe, "--seed", seed, "--out", out]
        run("train", *words, *(["--epochs", a.epochs] if a.epochs else []))
    told = json.loads(run("eval", out, "--json"))
    summary = json.loads((out / "summary.json").read_text())
    return 100 * told["validation_metric" if a.validation else "test_metric"], 1000 * summary["epoch_seconds_median"]


def spread(values):
    return f"{statistics.mean(values):.2f} ± {statistics.stdev(values) if len(values) > 1 else 0:.2f}"


found = {}
print("| seed |", " | ".join(WAYS), "| difference |\n| --- | --- | --- | --- |")
seeds = range(a.first, a.first + a.seeds)
for seed in seeds:
    for way in WAYS:
        found[way, seed] = trained(seed, way)
    one, two = (found[way, seed][0] for way in WAYS)
    print(f"| {seed} | {one:.2f} | {two:.2f} | {one - two:+.2f} |", flush=True)
columns = [[found[way, seed][0] for seed in seeds] for way in WAYS]
gains = [one - two for one, two in zip(*columns)]
print("| mean |", " | ".join(map(spread, columns)), f"| {spread(gains)} |")
times = [statistics.median(found[way, seed][1] for seed in seeds) for way in WAYS]
print(f"\nan epoch takes {times[0]:.0f} ms with edges, {times[1]:.0f} without (medians)")
print(f"average precision with edges is {min(gains):.1f} to {max(gains):.1f} points higher (5 are asked for)")
