"""Arrays: what other libraries' objects are as NumPy's, without importing those libraries."""

from __future__ import annotations

import mmap
import os
from typing import Any

import numpy as np
from numpy.typing import NDArray


def clean(text: Any) -> str:
    """`text` for a message: characters that cannot be printed, which could steer a terminal, are spelled out."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in str(text))


def array(thing: Any, what: str) -> NDArray[Any]:
    """`thing` as an array of NumPy: tensors, columns of frames, lists. `what` names it in messages."""
    if isinstance(thing, np.ma.MaskedArray):
        refuse_truncated(thing.data, what)
        return _unmasked(thing, what)
    if hasattr(thing, "detach"):
        thing = thing.detach()
    if hasattr(thing, "cpu"):
        thing = thing.cpu()
    refuse_truncated(thing, what)
    try:
        if not hasattr(thing, "__array__") and hasattr(thing, "to_numpy"):
            found = np.asarray(thing.to_numpy())
        elif not hasattr(thing, "__array__") and hasattr(thing, "__dlpack__"):
            found = np.from_dlpack(thing)
        else:
            found = np.asarray(thing)
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(f"{clean(what)}: {type(thing).__name__} is no array: {clean(error)}") from error
    refuse_truncated(found, what)
    return found


def _mapped(thing: Any) -> tuple[str | None, int, mmap.mmap] | None:
    """Name of the mapped file that an array lies in, if it is known, first mapped byte, and map. `None`: no map."""
    name, offset, owner = None, 0, thing
    while isinstance(owner, (np.ndarray, memoryview)):
        if isinstance(owner, np.memmap) and owner.filename is not None:
            name, offset = os.fspath(owner.filename), owner.offset
        owner = owner.obj if isinstance(owner, memoryview) else owner.base
    start = offset - offset % mmap.ALLOCATIONGRANULARITY
    return (name, start, owner) if isinstance(owner, mmap.mmap) else None


def mapped_file(thing: Any) -> str | None:
    """Name of the mapped file that an array lies in. `None` for other arrays, and for maps without a name."""
    found = _mapped(thing)
    return None if found is None else found[0]


def refuse_truncated(thing: Any, what: str) -> None:
    """Refuses an array in a mapped file that is shorter than the map: reading it would end the process with SIGBUS.

    Raises ValueError with the name of the file.
    """
    mapped = _mapped(thing)
    if mapped is None:
        return
    name, start, owner = mapped
    try:
        found, needed = owner.size(), start + len(owner)
    except (OSError, ValueError):
        # Memory without a file, or a map that was closed, whose arrays NumPy refuses itself.
        return
    if found < needed:
        raise ValueError(
            f"{clean(what)}: the file {clean(name or 'of the mapped array')} has {found:,} bytes, but the array maps "
            f"its first {needed:,} bytes; it was truncated after it was mapped: write the file again, and map it again"
        )


def _unmasked(thing: Any, what: str) -> NDArray[Any]:
    """The data of a masked array without masked entries. Raises ValueError if an entry is masked."""
    mask = np.ma.getmaskarray(thing)
    if mask.any():
        first = ", ".join(str(int(at)) for at in np.argwhere(mask)[0])
        raise ValueError(
            f"{what}: a masked array with {int(mask.sum()):,} masked entries, the first at [{first}]; fill them "
            "(numpy.ma.filled(array, value)), or leave their rows out"
        )
    return np.asarray(thing.data)


def is_missing(value: Any) -> bool:
    """Whether a value stands for none: `None`, NaN, NaT, or pandas' NA."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, (float, np.floating)) and bool(np.isnan(value))


def plain(found: NDArray[Any]) -> NDArray[Any]:
    """Objects that are all numbers or missing as an array of numbers, NaN for what is missing; else the same array.

    Nullable columns of pandas are such objects.
    """
    if found.dtype.kind != "O" or found.size == 0:
        return found
    listed = found.reshape(-1).tolist()
    missing = [is_missing(value) for value in listed]
    kinds = {type(value) for value, gone in zip(listed, missing) if not gone}
    if not kinds or not all(issubclass(one, (bool, int, float, np.bool_, np.integer, np.floating)) for one in kinds):
        return found
    if all(issubclass(one, (bool, np.bool_)) for one in kinds) and not any(missing):
        return found.astype(bool)
    if all(issubclass(one, (bool, int, np.bool_, np.integer)) for one in kinds) and not any(missing):
        return found.astype(np.int64)
    filled = [np.nan if gone else float(value) for value, gone in zip(listed, missing)]
    return np.array(filled, np.float64).reshape(found.shape)


def complete(found: NDArray[Any], what: str) -> None:
    """Refuses a missing value among ids. Raises ValueError with its row."""
    if found.dtype.kind == "f":
        gone = np.flatnonzero(np.isnan(found))
    elif found.dtype.kind == "O":
        gone = np.flatnonzero([is_missing(value) or value == "" for value in found.tolist()])
    elif found.dtype.kind in "UST":
        gone = np.flatnonzero([value in ("", b"") for value in found.tolist()])
    else:
        return
    if gone.size:
        raise ValueError(f"{what}: row {int(gone[0])} has no id ({gone.size:,} rows); give each row an id")


def whole(thing: Any, what: str) -> NDArray[np.int64]:
    """`thing` as whole numbers, contiguous; floats that are whole are taken."""
    found = plain(array(thing, what))
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
    found = plain(array(thing, what))
    if found.dtype.kind not in "fiub":
        raise TypeError(f"{what}: expected numbers, found {kind(found)}; encode words as numbers first")
    return np.ascontiguousarray(found, dtype=np.float32)


def edge_values(thing: Any, what: str) -> NDArray[Any]:
    """`thing` as numbers that are added up before they are rounded to f32: f32, or f64 if it is wider."""
    found = plain(array(thing, what))
    if found.dtype.kind not in "fiub":
        raise TypeError(f"{what}: expected numbers, found {kind(found)}; encode words as numbers first")
    narrow = found.dtype.kind == "b" or found.dtype.itemsize <= (4 if found.dtype.kind == "f" else 2)
    return np.ascontiguousarray(found, dtype=np.float32 if narrow else np.float64)


#: Names of a column that is the weight of an edge, in lower case.
WEIGHT_NAMES = ("weight", "w", "value", "values", "data")


def is_weight(name: Any) -> bool:
    """Whether a column's name marks it as the weight of an edge."""
    return str(name).strip().lower() in WEIGHT_NAMES


def index(thing: Any) -> NDArray[Any] | None:
    """The index of a frame or column of pandas; `None` of other objects."""
    found = getattr(thing, "index", None)
    if found is None or callable(found) or not hasattr(found, "to_numpy") or not hasattr(thing, "iloc"):
        return None
    return np.asarray(found.to_numpy())


def refuse_other_order(one: Any, other: Any, names: tuple[str, str]) -> None:
    """Refuses two objects of pandas with as many rows whose indices differ: their rows belong to other nodes."""
    rows, others = index(one), index(other)
    if rows is None or others is None or rows.shape != others.shape or np.array_equal(rows, others):
        return
    at = int(np.flatnonzero(rows != others)[0]) if rows.ndim == 1 else 0
    raise ValueError(
        f"{names[0]}: row {at} has the index {rows[at]!r}, but in {names[1]} {others[at]!r}; rows are matched by their "
        f"order: give {names[0]}.loc[{names[1]}.index], or reset_index(drop=True) if the order is right"
    )


def refuse_index(frame: Any, what: str) -> None:
    """Refuses a first column without a name that counts the rows: pandas' index that was written to a file."""
    names = columns(frame)
    if not names or str(names[0]) not in ("", "Unnamed: 0", "index", "level_0", "__index_level_0__"):
        return
    values = plain(array(frame[names[0]], what))
    if values.dtype.kind in "iuf" and values.size > 1 and np.array_equal(values - values[0], np.arange(values.size)):
        raise ValueError(
            f"{what}: column {names[0]!r} counts the rows; it is the index of another frame and no data. Drop it "
            "(pandas.read_csv(file, index_col=0))"
        )


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
        raise ValueError(f"{what}: there is no column {name!r}; there are {', '.join(map(clean, columns(frame)))}")
    return array(frame[name], f"{what}, column {name!r}")
