#!/usr/bin/env python3
"""Reading of a large table and of large edge lists: `eciton data stat` against pandas.read_csv with its defaults.

  readers.py ECITON [--rows 5000000] [--edges 50000000] [--vertices 2000000] [--rounds 3] [--seed 46] [--work DIR]

Makes the inputs from the seed. Each round runs both programs on each input, in alternating order. Prints a line an
input: medians of both (of pandas without its import), the ratio of each round, and peak memory (of edges: bytes an edge besides the graph, which has
two directions of 4 bytes). Compares the results: rows, kinds of columns, values of each column; vertices and edges.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import pandas as pd

p = argparse.ArgumentParser()
p.add_argument("eciton"), p.add_argument("--rows", type=int, default=5_000_000), p.add_argument("--edges", type=int, default=50_000_000)
p.add_argument("--vertices", type=int, default=2_000_000), p.add_argument("--rounds", type=int, default=3)
p.add_argument("--seed", type=int, default=46), p.add_argument("--work", type=pathlib.Path)
p.add_argument("--only", choices=["table", "numbers", "list", "folder"], action="append")
a = p.parse_args()
work = (a.work or pathlib.Path(tempfile.mkdtemp())).resolve()
work.mkdir(parents=True, exist_ok=True)
random = np.random.default_rng(a.seed)
print(f"seed {a.seed}, {a.rows} rows, {a.edges} edges between {a.vertices} vertices, {os.cpu_count()} cores")

CITIES = ["Oslo", "Lima", "Graz", "Bern", "Cork", "Nara", "Suva", "Baku"]
KINDS = {"age": "number", "income": "number", "score": "number", "city": "category", "member": "boolean", "since": "date", "rate": "number"}
READ = """
import json, sys, time, pandas as pd
path, kind = sys.argv[1:]
start = time.perf_counter()
frame = pd.read_csv(path) if kind != "list" else pd.read_csv(path, sep="\\t", header=None)
print(time.perf_counter() - start)
"""


def table(path):
    """Whole numbers, fractions, words, truth values, dates and gaps, in chunks."""
    for start in range(0, a.rows, 500_000):
        count = min(500_000, a.rows - start)
        rate = random.random(count).round(4)
        rate[random.random(count) < 0.03] = np.nan
        pd.DataFrame({
            "age": random.integers(18, 90, count), "income": (random.random(count) * 90_000).round(2), "score": random.normal(size=count),
            "city": random.choice(CITIES, count), "member": random.random(count) < 0.4,
            "since": (np.datetime64("2001-01-01") + random.integers(0, 9000, count)).astype(str), "rate": rate,
            "label": random.choice(["low", "mid", "high"], count),
        }).to_csv(path, index=False, header=start == 0, mode="a")


def numbers(path):
    """Ten columns of fractions and a class."""
    for start in range(0, a.rows, 500_000):
        count = min(500_000, a.rows - start)
        frame = pd.DataFrame(random.normal(size=(count, 10)).round(6), columns=[f"x{at}" for at in range(10)])
        frame.assign(label=random.integers(0, 3, count)).to_csv(path, index=False, header=start == 0, mode="a")


def edges(path, separator, header):
    with open(path, "w") as file:
        file.write(header)
        for start in range(0, a.edges, 2_000_000):
            count = min(2_000_000, a.edges - start)
            pairs = pd.DataFrame({at: random.integers(0, a.vertices, count) for at in "st"})
            pairs.to_csv(file, sep=separator, index=False, header=False)


def run(words):
    """Seconds, peak bytes of memory and standard output of a program."""
    start = time.perf_counter()
    with tempfile.TemporaryFile() as out:
        child = subprocess.Popen([str(word) for word in words], stdout=out)
        _, status, usage = os.wait4(child.pid, 0)
        seconds = time.perf_counter() - start
        out.seek(0)
        text = out.read().decode()
    if status:
        raise SystemExit(f"{words}: status {status}")
    return seconds, usage.ru_maxrss * 1024, text


def same_columns(path, told):
    """Compares kinds and values of the columns with those of pandas."""
    frame = pd.read_csv(path)
    lines = [line["text"] for line in told["report"] if ": column " in line["text"]]
    read = {line.split("column ", 1)[1].split(": ")[0]: line.split(": ", 2)[2] for line in lines}
    for name, kind in KINDS.items():
        found = read[name].split(",")[0].strip()
        assert found == kind, f"{name}: {found}, expected {kind}"
        gaps = int(frame[name].isna().sum())
        assert (f"{gaps} missing" in read[name]) == (gaps > 0), f"{name}: {read[name]}, expected {gaps} missing"
    counts = frame["label"].value_counts()
    assert told["vertices"] == len(frame) and told["class_counts"] == [int(counts[name]) for name in told["label_names"]]


INPUTS = {
    "table": ("table.csv", table), "numbers": ("numbers.csv", numbers),
    "list": ("list.tsv", lambda path: edges(path, "\t", "")), "folder": ("folder/edges.csv", lambda path: edges(path, ",", "source,target\n")),
}
results = {}
for name, (file, make) in INPUTS.items():
    if a.only and name not in a.only:
        continue
    path = work / file
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        make(path)
    source = path.parent if name == "folder" else path
    ways = {"eciton": [a.eciton, "data", "stat", source, "--json"], "pandas": [sys.executable, "-c", READ, path, name]}
    found = {way: [] for way in ways}
    for at in range(a.rounds):
        for way in list(ways) if at % 2 == 0 else reversed(ways):
            seconds, bytes_peak, text = run(ways[way])
            found[way].append((float(text) if way == "pandas" else seconds, bytes_peak, text))
    told = json.loads(found["eciton"][-1][2])
    median = {way: statistics.median(run[0] for run in runs) for way, runs in found.items()}
    peak = {way: max(run[1] for run in runs) for way, runs in found.items()}
    ratios = [one[0] / other[0] for one, other in zip(found["pandas"], found["eciton"])]
    extra = ""
    if name in ("list", "folder"):
        graph = 4 * told["edges"] + 8 * told["vertices"]
        extra = f", {(peak['eciton'] - graph) / a.edges:.1f} bytes an edge besides the graph"
    print(f"{name} ({path.stat().st_size / 1e6:.0f} MB): eciton {median['eciton']:.2f} s, pandas {median['pandas']:.2f} s; pandas / eciton "
          f"{', '.join(f'{ratio:.2f}' for ratio in ratios)}; peak {peak['eciton'] / 1e6:.0f} MB, pandas {peak['pandas'] / 1e6:.0f} MB{extra}", flush=True)
    results[name] = path, told

# Afterwards, because a child's peak of memory is at least what its parent holds at its start.
for name, (path, told) in results.items():
    if name in ("list", "folder"):
        frame = pd.read_csv(path, sep="\t" if name == "list" else ",", header=None if name == "list" else 0)
        ends = np.sort(frame.to_numpy(), axis=1)
        ends = ends[ends[:, 0] != ends[:, 1]]
        distinct = len(np.unique(ends[:, 0] * a.vertices + ends[:, 1]))
        vertices = len(np.unique(frame.to_numpy()))
        assert (told["vertices"], told["edges"]) == (vertices, 2 * distinct), (told["vertices"], told["edges"], vertices, distinct)
    elif name == "table":
        same_columns(path, told)
    else:
        assert told["vertices"] == a.rows and told["features"] == 10
    print(f"{name}: the same result")
