#!/usr/bin/env python3
"""Reads a run folder as a Python user would and checks it. Needs numpy and safetensors.

    read_run.py RUN [--planetoid FOLDER NAME]

RUN is what `eciton train --out RUN` left: summary.json, model.safetensors, predictions.npz. With --planetoid the test accuracy is
computed anew from the scores and the published labels (ind.NAME.ally, .ty, .test.index), and must be the summary's.
"""
import argparse
import json
import os
import pickle
import sys

import numpy as np
from safetensors.numpy import load_file


def unpacked(weights):
    """Weights of layers of signs as numbers: the column's scale with the weight's sign."""
    found = dict(weights)
    for name in [name.removesuffix(".signs") for name in weights if name.endswith(".signs")]:
        signs, scales = found.pop(f"{name}.signs"), found.pop(f"{name}.scales")
        positive = np.unpackbits(signs, axis=1, count=scales.size, bitorder="little").astype(bool)
        found[name] = np.where(positive, scales.ravel(), -scales.ravel()).reshape(len(signs), *scales.shape)
    return found


def planetoid_truth(folder, name):
    """Labels of all vertices in published order, and the test vertices; of the labels only, so numpy's own pickles."""
    def one_hot(part):
        with open(f"{folder}/ind.{name}.{part}", "rb") as file:
            return pickle.load(file, encoding="latin1").argmax(1)
    known, held_out = one_hot("ally"), one_hot("ty")
    test = np.loadtxt(f"{folder}/ind.{name}.test.index", dtype=int)
    labels = np.full(max(len(known), test.max() + 1), -1)
    labels[: len(known)] = known
    labels[test] = held_out
    return labels, test


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("run")
    arguments.add_argument("--planetoid", nargs=2, metavar=("FOLDER", "NAME"))
    a = arguments.parse_args()

    if not os.path.isfile(f"{a.run}/predictions.npz"):
        sys.exit(f"{a.run}/predictions.npz: no such file. A sweep on functions fetches it with --predictions "
                 f"only; `eciton predict {a.run} --out {a.run}/predictions.npz` computes it.")

    # The five lines of docs/reference/run-folder.md
    weights = load_file(f"{a.run}/model.safetensors")
    predictions = np.load(f"{a.run}/predictions.npz")
    ids, scores = predictions["ids"], predictions["scores"]
    weights = unpacked(weights)
    print({name: array.shape for name, array in weights.items()})
    print(dict(zip(ids[:3].tolist(), scores.argmax(1)[:3].tolist())))

    with open(f"{a.run}/summary.json") as file:
        summary = json.load(file)
    checks = {
        "there are weights": len(weights) > 0,
        "weights are f32 and finite": all(w.dtype == np.float32 and np.isfinite(w).all() for w in weights.values()),
        "one row of scores an id": scores.ndim == 2 and len(scores) == len(ids),
        "scores are f32 and finite": scores.dtype == np.float32 and bool(np.isfinite(scores).all()),
        "ids are unique": len(np.unique(ids)) == len(ids),
    }
    if "embeddings" in predictions:
        embeddings = predictions["embeddings"]
        checks["one row of embeddings an id"] = embeddings.ndim == 2 and len(embeddings) == len(ids)
    if a.planetoid:
        labels, test = planetoid_truth(*a.planetoid)
        accuracy = float((scores.argmax(1)[test] == labels[test]).mean())
        recorded = summary["seeds"][0]["metrics"]["test"]
        checks[f"test accuracy {accuracy:.4f} is the first seed's {recorded:.4f}"] = abs(accuracy - recorded) < 1e-9
    for name, passed in checks.items():
        print("ok    " if passed else "FAILED", name)
    failed = sum(not passed for passed in checks.values())
    print(f"{len(checks) - failed} passed, {failed} failed")
    raise SystemExit(failed != 0)


if __name__ == "__main__":
    main()
