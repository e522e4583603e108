#!/usr/bin/env python3
"""Writes the tables of this folder with pandas and pyarrow: the same data as CSV, Parquet (each compression) and Feather.

  make.py [--seed 46]
"""
import argparse
import pathlib

import numpy as np
import pandas as pd

p = argparse.ArgumentParser()
p.add_argument("--seed", type=int, default=46)
random = np.random.default_rng(p.parse_args().seed)
folder, count = pathlib.Path(__file__).parent, 60
words = np.array(["plain", 'a "quoted" one', "comma, here", "Zürich", "two words"], dtype=object)
note = random.choice(words, count)
note[random.random(count) < 0.1] = None
rate = random.integers(0, 64, count) / 8
rate[random.random(count) < 0.1] = np.nan
frame = pd.DataFrame({
    "count": random.integers(-1000, 1_000_000, count), "rate": rate, "member": random.random(count) < 0.5, "note": note,
    "since": np.datetime64("2001-01-01") + random.integers(0, 9000, count).astype("timedelta64[D]"),
    "kind": pd.Categorical(random.choice(["low", "high"], count)), "label": random.choice(["ant", "bee", "cat"], count),
})
frame.to_csv(folder / "table.csv", index=False)
for compression in ["snappy", "zstd", "gzip", "lz4"]:
    frame.to_parquet(folder / f"{compression}.parquet", compression=compression)
frame.to_feather(folder / "table.feather")
nested = pd.DataFrame({"x": [[1.0, 2.0], [3.0]], "label": ["a", "b"]})
nested.to_parquet(folder / "nested.parquet")
edges = pd.DataFrame({"source": random.integers(0, count, 150), "target": random.integers(0, count, 150)})
(folder / "texts").mkdir(exist_ok=True), (folder / "columns").mkdir(exist_ok=True)
nodes = frame.drop(columns="note").assign(id=np.arange(count))
edges.to_csv(folder / "texts/edges.csv", index=False), nodes.to_csv(folder / "texts/nodes.csv", index=False)
edges.set_index(random.permutation(len(edges))).to_parquet(folder / "columns/edges.parquet"), nodes.to_feather(folder / "columns/nodes.feather")
