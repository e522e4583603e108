#!/usr/bin/env python3
"""The loss of an epoch in f64 with numpy: the weighted mean over all training rows, whatever the batches.

    epoch_loss.py RUN DATA.csv [CLASS_WEIGHTS]

RUN is the folder of a perceptron of two layers (`--model mlp`) whose weights did not move (`--lr 1e-45`), DATA.csv its
rows with the columns `split` and `label`, CLASS_WEIGHTS a JSON list. Features are as they are
(`--set data.normalise_features=none`). It prints the loss.
"""
import csv
import json
import struct
import sys
from pathlib import Path

import numpy as np


def tensors(path):
    """The F32 tensors of a file of safetensors, as f64."""
    data = Path(path).read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__", None)
    body = data[8 + length :]
    return {
        name: np.frombuffer(body[slice(*one["data_offsets"])], "<f4").reshape(one["shape"]).astype(np.float64)
        for name, one in header.items()
    }


def loss(run, table, class_weights=None):
    w = tensors(Path(run) / "model.safetensors")
    rows = [row for row in csv.DictReader(open(table)) if row["split"] == "train"]
    names = [name for name in rows[0] if name not in ("split", "label")]
    x = np.array([[float(row[name]) for name in names] for row in rows])
    y = np.array([int(row["label"]) for row in rows])
    hidden = np.maximum(x @ w["layers.0.weight"] + w["layers.0.bias"], 0)
    z = hidden @ w["layers.1.weight"] + w["layers.1.bias"]
    z -= z.max(axis=1, keepdims=True)
    each = np.log(np.exp(z).sum(axis=1)) - z[np.arange(len(y)), y]
    of = np.ones(len(y)) if class_weights is None else np.array(class_weights, float)[y]
    return float((of * each).sum() / of.sum())


if __name__ == "__main__":
    print(loss(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]) if len(sys.argv) > 3 else None))
