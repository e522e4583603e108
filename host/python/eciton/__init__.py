"""Train graph neural networks on CPUs with sandboxed WebAssembly kernels.

>>> import eciton
>>> g = eciton.graph("cora")
>>> run = eciton.train(g, model="gcn", epochs=20, seed=0, progress=False)
>>> run.predict().shape
(2708,)

`eciton.graph` accepts matrices, edge lists, tables and graphs of other libraries. `eciton.train` accepts any recipe
key.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from eciton._eciton import __version__, carried_in

if TYPE_CHECKING:
    from eciton import callbacks, datasets
    from eciton._graph import Graph, graph
    from eciton._kernel import Kernel
    from eciton._run import History, Run, load
    from eciton._sampler import Sample, Sampler, sampler
    from eciton._sweep import Sweep, sweep
    from eciton._train import plan, resume, train

__all__ = [
    "Graph",
    "History",
    "Kernel",
    "Run",
    "Sample",
    "Sampler",
    "Sweep",
    "__version__",
    "callbacks",
    "datasets",
    "graph",
    "load",
    "plan",
    "resume",
    "sampler",
    "sweep",
    "train",
]

# `--executor emulated` and `eciton deploy` use the function binaries of this folder.
carried_in(os.path.join(os.path.dirname(__file__), "programs"))

# Modules are imported on first use, because the command `eciton` does not need NumPy.
_HOMES = {
    "Graph": "_graph",
    "graph": "_graph",
    "Kernel": "_kernel",
    "History": "_run",
    "Run": "_run",
    "load": "_run",
    "Sample": "_sampler",
    "Sampler": "_sampler",
    "sampler": "_sampler",
    "Sweep": "_sweep",
    "sweep": "_sweep",
    "plan": "_train",
    "resume": "_train",
    "train": "_train",
    "callbacks": "",
    "datasets": "",
}


def __getattr__(name: str) -> object:
    import importlib

    if name not in _HOMES:
        raise AttributeError(f"module 'eciton' has no attribute {name!r}")
    home = _HOMES[name]
    module = importlib.import_module(f"eciton.{home or name}")
    found: object = getattr(module, name) if home else module
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
