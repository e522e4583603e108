"""What the suites of the Python package have in common."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np

import eciton

EPOCHS = 5


def command(*words: str) -> str:
    """Runs the command of this Python's package; what it printed."""
    ran = subprocess.run([sys.executable, "-m", "eciton", *words], capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        raise AssertionError(f"eciton {' '.join(words)}: exit code {ran.returncode}\n{ran.stdout}{ran.stderr}")
    return ran.stdout


def digest(*words: str) -> str:
    """The digest of what the command trains."""
    last = command("train", "--json", "--no-out", *words).splitlines()[-1]
    return str(json.loads(last)["model_digest"])


@functools.cache
def planted(seed: int = 0):
    """A graph of 60 nodes in three groups: pairs (each once), features, classes by name, ids, and parts."""
    random = np.random.default_rng(seed)
    group = np.repeat(np.arange(3), 20)
    pairs = {
        (min(a, b), max(a, b))
        for a, b in random.integers(0, 60, (400, 2)).tolist()
        if a != b and (group[a] == group[b] or random.random() < 0.1)
    }
    pairs = np.array(sorted(pairs))
    x = random.random((60, 5), np.float32)
    x[np.arange(60), group] += 1
    names = np.array(["ant", "bee", "wasp"], object)
    ids = [f"n{row * 7 % 60:02d}" for row in range(60)]
    part = np.array(["train", "val", "test"], object)[random.permutation(60) % 3]
    return pairs, x.astype(np.float32), group, names, ids, part


def folder(path: Path) -> Path:
    """The planted graph as the files that the command reads."""
    pairs, x, group, names, ids, part = planted()
    path.mkdir()
    (path / "edges.csv").write_text("source,target\n" + "".join(f"{ids[a]},{ids[b]}\n" for a, b in pairs))
    rows = "".join(f"{ids[v]},{','.join(repr(float(value)) for value in x[v])}\n" for v in range(60))
    (path / "features.csv").write_text("id,a,b,c,d,e\n" + rows)
    (path / "labels.csv").write_text("id,kind\n" + "".join(f"{ids[v]},{names[group[v]]}\n" for v in range(60)))
    (path / "split.csv").write_text("id,part\n" + "".join(f"{ids[v]},{part[v]}\n" for v in range(60)))
    return path


def known():
    """What is known of the planted graph's nodes, as arguments of `eciton.graph`."""
    _, x, group, names, ids, part = planted()
    masks = {name: part == name for name in ("train", "val", "test")}
    return {"x": x, "y": names[group], "ids": ids, **masks}


def train(graph, **settings):
    """A short training."""
    return eciton.train(graph, progress=False, **{"epochs": EPOCHS, **settings})


class Case(unittest.TestCase):
    """A test with a folder of its own."""

    def setUp(self) -> None:
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        self.folder = Path(made.name)

    def skip_without(self, module: str):
        """The module, or a skip that says what is missing."""
        try:
            return __import__(module)
        except ImportError:
            self.skipTest(f"{module} is not installed")
