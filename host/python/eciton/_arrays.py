"""Arrays: what other libraries' objects are as NumPy's, without importing those libraries."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def array(thing: Any, what: str) -> NDArray[Any]:
    """`thing` as an array of NumPy: tensors, columns of frames, lists. `what` names it in messages."""
    if hasattr(thing, "detach"):
        thing = thing.detach()
    if hasattr(thing, "cpu"):
        thing = thing.cpu()
    try:
        if not hasattr(thing, "__array__") and hasattr(thing, "to_numpy"):
            return np.asarray(thing.to_numpy())
        if not hasattr(thing, "__array__") and hasattr(thing, "__dlpack__"):
            return np.from_dlpack(thing)
        return np.asarray(thing)
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(f"{what}: {type(thing).__name__} is no array: {error}") from error


def whole(thing: Any, what: str) -> NDArray[np.int64]:
    """`thing` as whole numbers, contiguous; floats that are whole are taken."""
    found = array(thing, what)
    if found.size == 0:
        return np.zeros(found.shape, np.int64)
    if found.dtype.kind == "f":
        if not np.all(np.isfinite(found)) or np.any(found != np.floor(found)):
            raise ValueError(f"{what}: expected whole numbers, found fractions or NaN; give integers")
    elif found.dtype.kind not in "iub":
        raise TypeError(f"{what}: expected whole numbers, found {kind(found)}; give integers")
    if found.dtype.kind == "u" and found.dtype.itemsize == 8 and found.max() > np.iinfo(np.int64).max:
        raise ValueError(f"{what}: {found.max()} is above 2^63 - 1")
    return np.ascontiguousarray(found, dtype=np.int64)


def numbers(thing: Any, what: str) -> NDArray[np.float32]:
    """`thing` as f32, contiguous: without a copy where it is that already."""
    found = array(thing, what)
    if found.dtype.kind not in "fiub":
        raise TypeError(f"{what}: expected numbers, found {kind(found)}; encode words as numbers first")
    return np.ascontiguousarray(found, dtype=np.float32)


def kind(found: NDArray[Any]) -> str:
    """What an array holds, in words."""
    return "words" if found.dtype.kind in "OUST" else f"{found.dtype}"


def is_sparse(thing: Any) -> bool:
    """Whether it is a sparse matrix or array of SciPy."""
    return hasattr(thing, "shape") and hasattr(thing, "tocsr") and hasattr(thing, "nnz")


def is_frame(thing: Any) -> bool:
    """Whether it is a table with named columns: of pandas, polars or pyarrow."""
    return (hasattr(thing, "columns") or hasattr(thing, "column_names")) and hasattr(thing, "__getitem__")


def columns(frame: Any) -> list[str]:
    """The names of a frame's columns."""
    names = frame.column_names if hasattr(frame, "column_names") else frame.columns
    return list(names)


def column(frame: Any, name: str, what: str) -> NDArray[Any]:
    """A column of a frame."""
    if name not in columns(frame):
        raise ValueError(f"{what}: there is no column {name!r}; there are {', '.join(map(str, columns(frame)))}")
    return array(frame[name], f"{what}, column {name!r}")
