"""A kernel of one's own: a WebAssembly component."""

from __future__ import annotations

import os
from typing import NamedTuple

from eciton import _eciton


class Attribute(NamedTuple):
    """What a kernel may be told. `default` is text, `None` where a value must be given."""

    name: str
    default: str | None
    meaning: str


class Kernel:
    """A component, checked against the contract as a run would.

    `eciton.train(g, kernels={"linear": eciton.Kernel("mine.wasm")})` puts it in a built-in kernel's place.
    Raises ValueError, with the differences, for what is no kernel.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        #: Absolute.
        self.path = os.path.abspath(os.fspath(path))
        self.digest, self.contract, listed = _eciton.inspect(self.path)
        self.attributes = [Attribute(*one) for one in listed]

    def __repr__(self) -> str:
        names = ", ".join(attribute.name for attribute in self.attributes) or "none"
        return f"<eciton.Kernel {self.path}: contract {self.contract}, digest {self.digest[:16]}, attributes {names}>"
