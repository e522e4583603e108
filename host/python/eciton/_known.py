"""What is known of vertices: features, labels, parts and ids, as the private module takes them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eciton import _arrays as arrays
from eciton._eciton import Builder

MAX_CLASSES = 1 << 20
#: Number of rows of features whose rounding is looked at in one step.
BLOCK_ROWS = 1 << 14


def feature_names(x: Any, leave: Sequence[str]) -> list[str]:
    """Names of the columns of features of a frame, but for `leave`; none of other objects."""
    if not arrays.is_frame(x) or arrays.is_sparse(x):
        return []
    return [str(name) for name in arrays.columns(x) if name not in leave]


def target_names(target: Any) -> list[str]:
    """Names of the columns of labels, from the name of a column or of several."""
    if isinstance(target, str):
        return [target] if target else []
    return [str(name) for name in target] if isinstance(target, (list, tuple)) else []


def features(builder: Builder, x: Any, rows: int, leave: Sequence[str] = ()) -> None:
    """Features of `rows` vertices. Of a frame the columns that are numbers, but for `leave`."""
    if arrays.is_sparse(x):
        check_rows(x.shape[0], rows, "x")
        csr = x.tocsr()
        indptr, indices = arrays.whole(csr.indptr, "x.indptr"), arrays.whole(csr.indices, "x.indices")
        data = arrays.array(csr.data, "x.data")
        residuals = None if fits(data) else np.ascontiguousarray(residual(data))
        builder.sparse(int(csr.shape[1]), indptr, indices, arrays.numbers(data, "x.data"), residuals)
        return
    if arrays.is_frame(x):
        names = [name for name in arrays.columns(x) if name not in leave]
        found = {name: arrays.plain(arrays.column(x, name, "x")) for name in names}
        words = [str(name) for name, values in found.items() if values.dtype.kind not in "fiub"]
        if words:
            raise TypeError(
                f"x: columns of words: {', '.join(words)}; encode them as numbers, or name them in `y` or `ids`"
            )
        if not found:
            raise ValueError("x: a frame without a column of numbers; leave x out")
        for name, column in found.items():
            if column.dtype.kind == "f" and not bool(np.isfinite(column).all()):
                row = int(np.flatnonzero(~np.isfinite(column))[0])
                raise ValueError(
                    f"x, column {name!r}: row {row} has {column[row]}; fill it with a number, or leave the row out"
                )
        exact = list(found.values())
        values = np.stack([arrays.numbers(values, "x") for values in exact], axis=1)
    else:
        exact = [arrays.array(x, "x")]
        values = arrays.numbers(exact[0], "x")
    if values.ndim == 1:
        values = values[:, None]
    if values.ndim != 2:
        raise ValueError(f"x: expected [nodes, features], found {list(values.shape)}")
    check_rows(values.shape[0], rows, "x")
    if values.shape[1] == 0:
        raise ValueError("x: no column; leave x out, and vertices have features of their own")
    builder.dense(np.ascontiguousarray(values))
    first = 0
    for part in exact:
        columns = part.reshape(rows, -1)
        if not fits(part):
            for row in range(0, rows, BLOCK_ROWS):
                builder.residuals(row, first, residual(columns[row : row + BLOCK_ROWS]))
        first += columns.shape[1]


def fits(values: NDArray[Any]) -> bool:
    """Whether f32 holds every value of the array's type."""
    return values.dtype.kind == "b" or values.dtype.itemsize <= (4 if values.dtype.kind == "f" else 2)


def residual(values: NDArray[Any]) -> NDArray[np.float64]:
    """The values less what they are as f32, in f64."""
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = values.astype(np.float32)
        if values.dtype.kind == "f":
            return np.asarray(values.astype(np.float64) - rounded.astype(np.float64), np.float64)
        # Whole numbers of 64 bits lose nothing: both are cut at the same power of two.
        high = values >> 24
        low = (values - (high << 24)).astype(np.float64)
        return np.asarray((high.astype(np.float64) - rounded.astype(np.float64) / 2**24) * 2.0**24 + low, np.float64)


def check_rows(found: int, rows: int, what: str) -> None:
    """Refuses another number of rows than there are vertices."""
    if found != rows:
        raise ValueError(f"{what}: {found:,} rows, but the graph has {rows:,} nodes; give each node a row")


def is_none(label: Any) -> bool:
    """Whether a label of words stands for none."""
    return arrays.is_missing(label) or label == "" or label == "-1"


def labels(builder: Builder, y: Any, rows: int, classes: Sequence[Any] | None, unit: str = "nodes") -> None:
    """Labels: classes of whole numbers from 0 (-1: none) or words, several labels, or numbers."""
    found = arrays.plain(arrays.array(y, "y"))
    if found.ndim == 2 and found.shape[1] == 1:
        found = found[:, 0]
    if found.ndim not in (1, 2):
        raise ValueError(f"y: expected [{unit}] or [{unit}, labels], found {list(found.shape)}")
    if found.shape[0] != rows:
        raise ValueError(
            f"y: {found.shape[0]:,} rows, but there are {rows:,} {unit}; give each a row, -1 or NaN for none"
        )
    names = None if classes is None else [str(name) for name in classes]
    if found.ndim == 2:
        builder.values(arrays.numbers(found, "y"))
        return
    if found.dtype.kind in "OUST":
        words(builder, found, names)
        return
    if found.dtype.kind == "f":
        known = found[np.isfinite(found)]
        if np.any(np.isinf(found)) or np.any(known != np.floor(known)) or np.any(known < -1):
            if names is not None:
                raise ValueError(
                    "classes: y has fractions or negative numbers, which are no classes; leave classes out"
                )
            builder.values(arrays.numbers(found, "y")[:, None])
            return
    missing = np.isnan(found) if found.dtype.kind == "f" else np.zeros(found.shape, bool)
    if has_signs(found):
        builder.note(
            "warning",
            'y: labels are -1 and 1, which were read as two classes, "-1" and "1"; give None or NaN for no label',
        )
        of = np.where(missing, -1, np.where(found == 1, 1, 0)).astype(np.int64)
        if names is not None and len(names) != 2:
            raise ValueError(f"classes: {len(names)} names, but y has two classes, -1 and 1; name both")
        builder.classes(of, 2, names or ["-1", "1"])
        return
    found = np.where(missing, -1, found) if missing.any() else found
    of = arrays.whole(found, "y")
    highest = int(of.max(initial=-1))
    if highest >= MAX_CLASSES:
        raise ValueError(
            f"y: class {highest:,}; classes are numbers below {MAX_CLASSES:,}; give words, or floats to predict numbers"
        )
    if names is not None and len(names) <= highest:
        raise ValueError(f"classes: {len(names)} names, but y has class {highest}; name every class from 0 on")
    builder.classes(of, len(names) if names is not None else highest + 1, names or [])


def has_signs(found: NDArray[Any]) -> bool:
    """Whether labels are all -1 or 1 (or missing), with at least one of each: then -1 is a class, not a missing label."""
    if found.ndim != 1 or found.dtype.kind not in "if":
        return False
    if found.size == 0 or (found[0] not in (-1, 1) and not arrays.is_missing(found[0])):
        return False
    known = found[~np.isnan(found)] if found.dtype.kind == "f" else found
    return bool(np.all(np.abs(known) == 1)) and bool((known == -1).any()) and bool((known == 1).any())


def words(builder: Builder, found: NDArray[Any], names: list[str] | None) -> None:
    """Classes that are words: in alphabetical order, unless they are listed."""
    listed = found.tolist()
    known = {str(label) for label in listed if not is_none(label)}
    order = names if names is not None else sorted(known)
    unknown = sorted(known - set(order))
    if unknown:
        raise ValueError(f"classes: y has {unknown[0]!r}, which is not among them; name every class")
    at = {name: number for number, name in enumerate(order)}
    of = [-1 if is_none(label) else at[str(label)] for label in listed]
    builder.classes(np.array(of, np.int64), len(order), order)


def part(members: Any, rows: int, what: str, ids: Any, choice: int) -> NDArray[np.int64]:
    """One part of a split: a mask, a table of masks of which one is chosen, numbers of rows, or ids that are words."""
    found = arrays.plain(arrays.array(members, what))
    if found.dtype.kind == "f" and bool(np.isnan(found).any()):
        raise ValueError(f"{what}: row {int(np.argwhere(np.isnan(found))[0][0])} is missing; give True or False")
    refuse_integer_mask(found, rows, what)
    if found.dtype.kind == "b":
        if found.ndim == 2:
            if not 0 <= choice < found.shape[1]:
                raise ValueError(f"mask: {choice}, but {what} has {found.shape[1]} columns, from 0")
            found = found[:, choice]
        if found.shape != (rows,):
            raise ValueError(
                f"{what}: a mask of {list(found.shape)}, but there are {rows:,} rows; give each one an entry"
            )
        return np.flatnonzero(found).astype(np.int64)
    if found.ndim != 1:
        raise ValueError(f"{what}: expected a mask [rows] or numbers of rows, found {list(found.shape)}")
    if found.dtype.kind in "OUST":
        if ids is None:
            raise TypeError(f"{what}: words, and the nodes have no ids; give ids, or a mask")
        at = {str(name): row for row, name in enumerate(ids)}
        missing = [name for name in found.tolist() if str(name) not in at]
        if missing:
            raise ValueError(f"{what}: no node is called {missing[0]!r}")
        return np.array([at[str(name)] for name in found.tolist()], np.int64)
    return arrays.whole(found, what)


def refuse_integer_mask(found: NDArray[Any], rows: int, what: str) -> None:
    """Refuses an array of 0 and 1 with an entry a row: a mask that would be taken for row numbers."""
    if found.dtype.kind not in "iuf" or rows < 2 or found.ndim not in (1, 2) or found.shape[0] != rows:
        return
    if bool(np.all((found == 0) | (found == 1))):
        raise ValueError(
            f"{what}: an array of 0 and 1 with an entry for each of {rows:,} rows is a mask, but its type is "
            f"{found.dtype}, which stands for row numbers; give mask.astype(bool) (of PyTorch: mask.bool()), or row "
            "numbers as numpy.flatnonzero(mask)"
        )


def split(
    builder: Builder, parts: Sequence[Any], rows: int, labelled: NDArray[np.bool_], ids: Any, choice: int
) -> None:
    """Train, validation and test parts. Without a test part all other labelled rows test; without any, none is told."""
    if all(one is None for one in parts):
        return
    names = ("train", "val", "test")
    if parts[0] is None:
        raise ValueError("train: missing, though val or test is given; say which rows train")
    found = [
        np.zeros(0, np.int64) if one is None else part(one, rows, name, ids, choice) for one, name in zip(parts, names)
    ]
    for name, members in zip(names, found):
        outside = members[(members < 0) | (members >= rows)]
        if outside.size:
            raise ValueError(f"{name}: row {outside[0]}, but rows are 0..{rows}")
        bare = members[~labelled[members]]
        if bare.size:
            raise ValueError(f"{name}: row {bare[0]} has no label; leave it out of the part, or label it")
    for one in range(3):
        for other in range(one + 1, 3):
            both = np.intersect1d(found[one], found[other])
            if both.size:
                raise ValueError(f"row {both[0]} is in {names[one]} and in {names[other]}; parts have no row in common")
    if parts[2] is None:
        rest = labelled.copy()
        rest[np.concatenate(found[:2])] = False
        found[2] = np.flatnonzero(rest).astype(np.int64)
    builder.split(*found)


def known(y: Any, rows: int) -> NDArray[np.bool_]:
    """Which rows have a label."""
    if y is None:
        return np.zeros(rows, bool)
    found = arrays.plain(arrays.array(y, "y"))
    if found.dtype.kind in "OUST":
        return np.array([not is_none(label) for label in found.reshape(rows, -1)[:, 0].tolist()], bool)
    found = found.reshape(rows, -1)
    if found.shape[1] == 1 and has_signs(found[:, 0]):
        return np.asarray(~np.isnan(found[:, 0].astype(np.float64)), bool)
    if found.dtype.kind == "f":
        present = ~np.isnan(found).all(axis=1)
        return np.asarray(present & ~((found[:, 0] == -1) & (found.shape[1] == 1)), bool)
    return np.asarray(found[:, 0] != -1 if found.shape[1] == 1 else np.ones(rows, bool), bool)


def named(builder: Builder, ids: Any, rows: int) -> list[Any] | None:
    """The nodes' ids: numbers or words, each once. `None` where they are 0, 1, 2, ..."""
    if ids is None:
        return None
    found = arrays.array(ids, "ids") if not isinstance(ids, list) else np.array(ids, object)
    if found.ndim != 1 or found.shape[0] != rows:
        raise ValueError(f"ids: {list(found.shape)}, but the graph has {rows:,} nodes; give each node an id")
    listed: list[Any] = found.tolist()
    whole = all(type(one) is int and one >= 0 for one in listed)
    if not whole:
        listed = [str(one) for one in listed]
    if len(set(listed)) != rows:
        twice = Counter(listed).most_common(1)[0][0]
        raise ValueError(f"ids: {twice!r} is there twice; ids are each node's own")
    if whole and listed == list(range(rows)):
        return None
    if whole:
        builder.numbers(np.array(listed, np.uint64))
    else:
        builder.words(listed)
    return listed
