"""Conversion of other libraries' objects to NumPy arrays, without importing those libraries."""

from __future__ import annotations

import mmap
import os
from typing import Any

import numpy as np
from numpy.typing import NDArray


def clean(text: Any) -> str:
    """Return `text` for a message, with unprintable characters, which could control a terminal, as escapes."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in str(text))


def array(thing: Any, what: str) -> NDArray[Any]:
    """Convert a tensor, a column of a data frame or a list to a NumPy array. `what` names it in error messages."""
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
        raise TypeError(f"{clean(what)}: cannot convert {type(thing).__name__} to an array: {clean(error)}") from error
    refuse_truncated(found, what)
    return found


def _mapped(thing: Any) -> tuple[str | None, int, mmap.mmap] | None:
    """Return file name, offset and map of a memory-mapped array, or `None` for other arrays.

    The name may be unknown.
    """
    name, offset, owner = None, 0, thing
    while isinstance(owner, (np.ndarray, memoryview)):
        if isinstance(owner, np.memmap) and owner.filename is not None:
            name, offset = os.fspath(owner.filename), owner.offset
        owner = owner.obj if isinstance(owner, memoryview) else owner.base
    start = offset - offset % mmap.ALLOCATIONGRANULARITY
    return (name, start, owner) if isinstance(owner, mmap.mmap) else None


def mapped_file(thing: Any) -> str | None:
    """Return the file name of a memory-mapped array, or `None` for other arrays and for maps without a name."""
    found = _mapped(thing)
    return None if found is None else found[0]


def refuse_truncated(thing: Any, what: str) -> None:
    """Check that the file of a memory-mapped array is not shorter than the map: a read would kill the process (SIGBUS).

    Raises ValueError with the name of the file.
    """
    mapped = _mapped(thing)
    if mapped is None:
        return
    name, start, owner = mapped
    try:
        found, needed = owner.size(), start + len(owner)
    except (OSError, ValueError):
        # Memory without a file, or a closed map. NumPy itself refuses arrays of a closed map.
        return
    if found < needed:
        raise ValueError(
            f"{clean(what)}: the file {clean(name or 'of the mapped array')} has {found:,} bytes, but the array maps "
            f"its first {needed:,} bytes; it was truncated after it was mapped; write the file again, and map it again"
        )


def _unmasked(thing: Any, what: str) -> NDArray[Any]:
    """Return the data of a masked array. Raises ValueError if an entry is masked."""
    mask = np.ma.getmaskarray(thing)
    if mask.any():
        first = ", ".join(str(int(at)) for at in np.argwhere(mask)[0])
        raise ValueError(
            f"{what}: the masked array has {int(mask.sum()):,} masked entries, the first at [{first}]; fill them "
            "(numpy.ma.filled(array, value)), or remove their rows"
        )
    return np.asarray(thing.data)


def is_missing(value: Any) -> bool:
    """Return true for a missing value: `None`, NaN, NaT, or pandas' NA."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, (float, np.floating)) and bool(np.isnan(value))


def plain(found: NDArray[Any]) -> NDArray[Any]:
    """Convert an object array of numbers to a numeric array, with NaN for missing values.

    Return other arrays unchanged.

    Nullable pandas columns are such object arrays.
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
    """Check that no id is missing. Raises ValueError with the row of the first missing id."""
    if found.dtype.kind == "f":
        gone = np.flatnonzero(np.isnan(found))
    elif found.dtype.kind == "O":
        gone = np.flatnonzero([is_missing(value) or value == "" for value in found.tolist()])
    elif found.dtype.kind in "UST":
        gone = np.flatnonzero([value in ("", b"") for value in found.tolist()])
    else:
        return
    if gone.size:
        raise ValueError(f"{what}: row {int(gone[0])} has no id ({gone.size:,} such rows); expected an id in each row")


def whole(thing: Any, what: str) -> NDArray[np.int64]:
    """Convert to a contiguous array of integers. Floats with whole values are accepted."""
    found = plain(array(thing, what))
    if found.size == 0:
        return np.zeros(found.shape, np.int64)
    if found.dtype.kind == "f":
        if not np.all(np.isfinite(found)) or np.any(found != np.floor(found)):
            raise ValueError(f"{what}: expected whole numbers, found fractions or NaN")
    elif found.dtype.kind not in "iub":
        raise TypeError(f"{what}: expected whole numbers, found {kind(found)}")
    if found.dtype.kind == "u" and found.dtype.itemsize == 8 and found.max() > np.iinfo(np.int64).max:
        raise ValueError(f"{what}: {found.max()} exceeds the maximum 2^63 - 1")
    return np.ascontiguousarray(found, dtype=np.int64)


def numbers(thing: Any, what: str) -> NDArray[np.float32]:
    """Convert to a contiguous f32 array, without a copy if `thing` is one."""
    found = plain(array(thing, what))
    if found.dtype.kind not in "fiub":
        raise TypeError(f"{what}: expected numbers, found {kind(found)}; encode text as numbers first")
    return np.ascontiguousarray(found, dtype=np.float32)


def edge_values(thing: Any, what: str) -> NDArray[Any]:
    """Convert to f32, or to f64 if the type is wider.

    Values of duplicate edges are added before they are rounded to f32.
    """
    found = plain(array(thing, what))
    if found.dtype.kind not in "fiub":
        raise TypeError(f"{what}: expected numbers, found {kind(found)}; encode text as numbers first")
    narrow = found.dtype.kind == "b" or found.dtype.itemsize <= (4 if found.dtype.kind == "f" else 2)
    return np.ascontiguousarray(found, dtype=np.float32 if narrow else np.float64)


#: Column names that mark the weight of an edge, in lower case.
WEIGHT_NAMES = ("weight", "w", "value", "values", "data")


def is_weight(name: Any) -> bool:
    """Return true if a column name marks the weight of an edge."""
    return str(name).strip().lower() in WEIGHT_NAMES


def index(thing: Any) -> NDArray[Any] | None:
    """Return the index of a pandas data frame or column, or `None` for other objects."""
    found = getattr(thing, "index", None)
    if found is None or callable(found) or not hasattr(found, "to_numpy") or not hasattr(thing, "iloc"):
        return None
    return np.asarray(found.to_numpy())


def refuse_other_order(one: Any, other: Any, names: tuple[str, str]) -> None:
    """Check that two pandas objects of equal length have the same index, so that rows belong to the same nodes."""
    rows, others = index(one), index(other)
    if rows is None or others is None or rows.shape != others.shape or np.array_equal(rows, others):
        return
    at = int(np.flatnonzero(rows != others)[0]) if rows.ndim == 1 else 0
    raise ValueError(
        f"{names[0]}: row {at} has the index {rows[at]!r}, but in {names[1]} it is {others[at]!r}; rows are matched by "
        f"order: pass {names[0]}.loc[{names[1]}.index], or use reset_index(drop=True) if the order is correct"
    )


def refuse_index(frame: Any, what: str) -> None:
    """Refuse an unnamed first column that counts the rows, which is the index that pandas writes to files."""
    names = columns(frame)
    if not names or str(names[0]) not in ("", "Unnamed: 0", "index", "level_0", "__index_level_0__"):
        return
    values = plain(array(frame[names[0]], what))
    if values.dtype.kind in "iuf" and values.size > 1 and np.array_equal(values - values[0], np.arange(values.size)):
        raise ValueError(
            f"{what}: column {names[0]!r} counts the rows, so it seems to be the index of a data frame; remove it "
            "(pandas.read_csv(file, index_col=0))"
        )


def kind(found: NDArray[Any]) -> str:
    """Return the type of an array's values, for messages."""
    return "text" if found.dtype.kind in "OUST" else f"{found.dtype}"


def is_sparse(thing: Any) -> bool:
    """Return true for a sparse matrix or array of SciPy."""
    return hasattr(thing, "shape") and hasattr(thing, "tocsr") and hasattr(thing, "nnz")


def is_frame(thing: Any) -> bool:
    """Return true for a table with named columns: of pandas, polars or pyarrow."""
    return (hasattr(thing, "columns") or hasattr(thing, "column_names")) and hasattr(thing, "__getitem__")


def columns(frame: Any) -> list[str]:
    """Return the column names of a data frame."""
    names = frame.column_names if hasattr(frame, "column_names") else frame.columns
    return list(names)


def column(frame: Any, name: str, what: str) -> NDArray[Any]:
    """Return a column of a data frame as an array."""
    if name not in columns(frame):
        raise ValueError(f"{what}: no column {name!r}; available: {', '.join(map(clean, columns(frame)))}")
    return array(frame[name], f"{what}, column {name!r}")
