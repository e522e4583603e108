"""Custom kernels: WebAssembly components."""

from __future__ import annotations

import os
from typing import NamedTuple

from eciton import _eciton


class Attribute(NamedTuple):
    """Attribute of a kernel. `default` is the default value as text, or `None` if a value is required."""

    name: str
    default: str | None
    meaning: str


class Kernel:
    """Kernel component that was checked against the kernel contract.

    `eciton.train(g, kernels={"linear": eciton.Kernel("mine.wasm")})` replaces a built-in kernel by it.
    Raises ValueError with the differences if the file does not implement the contract.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        #: Absolute path of the component.
        self.path = os.path.abspath(os.fspath(path))
        self.digest, self.contract, listed = _eciton.inspect(self.path)
        self.attributes = [Attribute(*one) for one in listed]

    def __repr__(self) -> str:
        names = ", ".join(attribute.name for attribute in self.attributes) or "none"
        return f"<eciton.Kernel {self.path}: contract {self.contract}, digest {self.digest[:16]}, attributes {names}>"
