#!/usr/bin/env python3
"""Other things to learn from a set that has classes, so that tasks other than classification can be held beside PyG.

    targets.py words DATA OUT      the 10 commonest binary features of DATA as labels, no longer among its features (multi-label)
    targets.py degrees DATA OUT    log(1 + in-degree) of every vertex (regression)

DATA and OUT are folders of npy arrays as shared/peers/prepare.py makes them; 60 / 20 / 20 % of the vertices, seed 0, are the split.
"""
import pathlib
import shutil
import sys

import numpy as np

what, data, out = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
out.mkdir(parents=True, exist_ok=False)
for name in ("indptr", "indices"):
    shutil.copyfile(data / f"{name}.npy", out / f"{name}.npy")
x, indptr = np.load(data / "feat.npy"), np.load(data / "indptr.npy")
match what:
    case "words":
        most = np.sort(np.argsort(-(x > 0).sum(0), kind="stable")[:10])
        np.save(out / "label.npy", (x[:, most] > 0).astype(np.float32))
        x = np.delete(x, most, 1)
    case "degrees":
        np.save(out / "label.npy", np.log1p(np.diff(indptr)).astype(np.float32)[:, None])
np.save(out / "feat.npy", x)
order = np.random.default_rng(0).permutation(len(x))
ends = [0, len(x) * 6 // 10, len(x) * 8 // 10, len(x)]
for name, (start, end) in zip(("train", "val", "test"), zip(ends, ends[1:])):
    np.save(out / f"{name}.npy", np.sort(order[start:end]))
