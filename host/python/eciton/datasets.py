"""Published data sets by name.

>>> import eciton
>>> eciton.datasets.cora().num_nodes
2708
"""

from __future__ import annotations

from eciton import _eciton
from eciton._graph import Graph, graph

__all__ = ["available", "cora", "digits", "fetch", "load"]


def cora() -> Graph:
    """2,708 papers of machine learning, 7 fields, the public split. It is in the package."""
    return graph("cora")


def digits() -> Graph:
    """1,797 handwritten digits of 8 x 8 pixels: rows without edges. It is in the package."""
    return graph("digits")


def available() -> list[str]:
    """Names: those in the package, then those that `fetch` brings."""
    builtin, fetched = _eciton.names()
    return builtin + fetched


def load(name: str) -> Graph:
    """A data set that is in the package, or has been fetched. Raises ValueError for any other."""
    return graph(name)


def fetch(name: str) -> Graph:
    """Downloads a data set into the user's cache, with checksums, unless it is there; and loads it.

    Raises RuntimeError where it could not be had; the reason is on standard error.
    """
    builtin, _ = _eciton.names()
    if name.lower() not in builtin and _eciton.main(["eciton", "data", "fetch", name]) != 0:
        raise RuntimeError(f"{name}: it could not be fetched; the reason is above")
    return graph(name)
