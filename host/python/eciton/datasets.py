"""Built-in and downloadable data sets by name.

>>> import eciton
>>> eciton.datasets.cora().num_nodes
2708
"""

from __future__ import annotations

from eciton import _eciton
from eciton._graph import Graph, graph

__all__ = ["available", "cora", "digits", "fetch", "load"]


def cora() -> Graph:
    """Load Cora: 2,708 machine learning papers in 7 classes, with the public split. Built in."""
    return graph("cora")


def digits() -> Graph:
    """Load 1,797 handwritten digits of 8 x 8 pixels, as tabular data without edges. Built in."""
    return graph("digits")


def available() -> list[str]:
    """Return the names of the built-in data sets, followed by those that `fetch` downloads."""
    builtin, fetched = _eciton.names()
    return builtin + fetched


def load(name: str) -> Graph:
    """Load a data set that is built in or has been downloaded. Raises ValueError for any other name."""
    return graph(name)


def fetch(name: str) -> Graph:
    """Download a data set into the user's cache, unless it is there, verify its checksums, and load it.

    Raises RuntimeError if the download fails. The reason is printed on standard error.
    """
    builtin, _ = _eciton.names()
    if name.lower() not in builtin and _eciton.main(["eciton", "data", "fetch", name]) != 0:
        raise RuntimeError(f"{name}: the download failed; see the message on standard error")
    return graph(name)
