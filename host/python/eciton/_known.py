"""Conversion of features, labels, split and ids of nodes for the private module."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eciton import _arrays as arrays
from eciton._eciton import Builder

#: Upper bound of class numbers.
MAX_CLASSES = 1 << 20
#: Number of feature rows whose rounding errors are computed in one step.
BLOCK_ROWS = 1 << 14


def feature_names(x: Any, leave: Sequence[str]) -> list[str]:
    """Return the feature column names of a data frame without those in `leave`, or an empty list for other objects."""
    if not arrays.is_frame(x) or arrays.is_sparse(x):
        return []
    return [str(name) for name in arrays.columns(x) if name not in leave]


def target_names(target: Any) -> list[str]:
    """Return the names of label columns as a list."""
    if isinstance(target, str):
        return [target] if target else []
    return [str(name) for name in target] if isinstance(target, (list, tuple)) else []


def features(builder: Builder, x: Any, rows: int, leave: Sequence[str] = ()) -> None:
    """Pass the features of `rows` nodes to the builder. Columns of a data frame that are in `leave` are skipped."""
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
                f"x: expected columns of numbers, found text in {', '.join(words)}; encode it as numbers, or use it "
                "as `y` or `ids`"
            )
        if not found:
            raise ValueError("x: the data frame has no feature column; omit x")
        for name, column in found.items():
            if column.dtype.kind == "f" and not bool(np.isfinite(column).all()):
                row = int(np.flatnonzero(~np.isfinite(column))[0])
                raise ValueError(
                    f"x, column {name!r}: row {row} has {column[row]}; replace it by a number, or remove the row"
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
        raise ValueError("x: found no columns; omit x to give each node a one-hot feature")
    builder.dense(np.ascontiguousarray(values))
    first = 0
    for part in exact:
        columns = part.reshape(rows, -1)
        if not fits(part):
            for row in range(0, rows, BLOCK_ROWS):
                builder.residuals(row, first, residual(columns[row : row + BLOCK_ROWS]))
        first += columns.shape[1]


def fits(values: NDArray[Any]) -> bool:
    """Return true if f32 represents every value of the array's type exactly."""
    return values.dtype.kind == "b" or values.dtype.itemsize <= (4 if values.dtype.kind == "f" else 2)


def residual(values: NDArray[Any]) -> NDArray[np.float64]:
    """Return the rounding errors of f32: exact values minus their f32 values, as f64."""
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = values.astype(np.float32)
        if values.dtype.kind == "f":
            return np.asarray(values.astype(np.float64) - rounded.astype(np.float64), np.float64)
        # 64-bit integers keep all bits, because high and low part are converted separately.
        high = values >> 24
        low = (values - (high << 24)).astype(np.float64)
        return np.asarray((high.astype(np.float64) - rounded.astype(np.float64) / 2**24) * 2.0**24 + low, np.float64)


def check_rows(found: int, rows: int, what: str) -> None:
    """Check that there is one row per node."""
    if found != rows:
        raise ValueError(f"{what}: found {found:,} rows, expected one row for each of the {rows:,} nodes")


def is_none(label: Any) -> bool:
    """Return true if a text label means unlabelled."""
    return arrays.is_missing(label) or label == "" or label == "-1"


def labels(builder: Builder, y: Any, rows: int, classes: Sequence[Any] | None, unit: str = "nodes") -> None:
    """Pass the labels to the builder.

    Labels are classes as numbers from 0 (-1: unlabelled) or texts, several binary labels, or numbers.
    """
    found = arrays.plain(arrays.array(y, "y"))
    if found.ndim == 2 and found.shape[1] == 1:
        found = found[:, 0]
    if found.ndim not in (1, 2):
        raise ValueError(f"y: expected [{unit}] or [{unit}, labels], found {list(found.shape)}")
    if found.shape[0] != rows:
        raise ValueError(
            f"y: found {found.shape[0]:,} rows, expected one for each of the {rows:,} {unit} (-1 or NaN: unlabelled)"
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
                    "classes: y has fractions or negative numbers, so its values are not classes; omit classes"
                )
            builder.values(arrays.numbers(found, "y")[:, None])
            return
    missing = np.isnan(found) if found.dtype.kind == "f" else np.zeros(found.shape, bool)
    if has_signs(found):
        builder.note(
            "warning",
            'y: labels -1 and 1 were read as two classes, "-1" and "1"; use None or NaN for unlabelled rows',
        )
        of = np.where(missing, -1, np.where(found == 1, 1, 0)).astype(np.int64)
        if names is not None and len(names) != 2:
            raise ValueError(f"classes: found {len(names)} names, expected two, for the classes -1 and 1")
        builder.classes(of, 2, names or ["-1", "1"])
        return
    found = np.where(missing, -1, found) if missing.any() else found
    of = arrays.whole(found, "y")
    highest = int(of.max(initial=-1))
    if highest >= MAX_CLASSES:
        raise ValueError(
            f"y: found class {highest:,}, but classes must be below {MAX_CLASSES:,}; use texts, or floats for "
            "regression"
        )
    if names is not None and len(names) <= highest:
        raise ValueError(
            f"classes: found {len(names)} names, but y has class {highest}; expected a name for every class from 0"
        )
    builder.classes(of, len(names) if names is not None else highest + 1, names or [])


def has_signs(found: NDArray[Any]) -> bool:
    """Return true if labels are -1, 1 or missing, with at least one of each sign.

    Then -1 is a class, not unlabelled.
    """
    if found.ndim != 1 or found.dtype.kind not in "if":
        return False
    if found.size == 0 or (found[0] not in (-1, 1) and not arrays.is_missing(found[0])):
        return False
    known = found[~np.isnan(found)] if found.dtype.kind == "f" else found
    return bool(np.all(np.abs(known) == 1)) and bool((known == -1).any()) and bool((known == 1).any())


def words(builder: Builder, found: NDArray[Any], names: list[str] | None) -> None:
    """Pass text labels to the builder. Without given names, classes are in alphabetical order."""
    listed = found.tolist()
    known = {str(label) for label in listed if not is_none(label)}
    order = names if names is not None else sorted(known)
    unknown = sorted(known - set(order))
    if unknown:
        raise ValueError(
            f"classes: y has {unknown[0]!r}, which is not among the names; expected a name for every class"
        )
    at = {name: number for number, name in enumerate(order)}
    of = [-1 if is_none(label) else at[str(label)] for label in listed]
    builder.classes(np.array(of, np.int64), len(order), order)


def part(members: Any, rows: int, what: str, ids: Any, choice: int) -> NDArray[np.int64]:
    """Return the rows of one part of a split, given as a mask, a column of several masks, row numbers, or ids."""
    found = arrays.plain(arrays.array(members, what))
    if found.dtype.kind == "f" and bool(np.isnan(found).any()):
        raise ValueError(f"{what}: row {int(np.argwhere(np.isnan(found))[0][0])} is missing, expected True or False")
    refuse_integer_mask(found, rows, what)
    if found.dtype.kind == "b":
        if found.ndim == 2:
            if not 0 <= choice < found.shape[1]:
                raise ValueError(f"mask: found {choice}, but {what} has {found.shape[1]} columns, numbered from 0")
            found = found[:, choice]
        if found.shape != (rows,):
            raise ValueError(
                f"{what}: found a mask of shape {list(found.shape)}, expected one entry for each of the {rows:,} rows"
            )
        return np.flatnonzero(found).astype(np.int64)
    if found.ndim != 1:
        raise ValueError(f"{what}: expected a mask [rows] or row numbers, found {list(found.shape)}")
    if found.dtype.kind in "OUST":
        if ids is None:
            raise TypeError(f"{what}: found texts, but the nodes have no ids; pass ids, or use a mask")
        at = {str(name): row for row, name in enumerate(ids)}
        missing = [name for name in found.tolist() if str(name) not in at]
        if missing:
            raise ValueError(f"{what}: no node has the id {missing[0]!r}")
        return np.array([at[str(name)] for name in found.tolist()], np.int64)
    return arrays.whole(found, what)


def refuse_integer_mask(found: NDArray[Any], rows: int, what: str) -> None:
    """Refuse an integer array of 0 and 1 with one entry per row: a mask that would be read as row numbers."""
    if found.dtype.kind not in "iuf" or rows < 2 or found.ndim not in (1, 2) or found.shape[0] != rows:
        return
    if bool(np.all((found == 0) | (found == 1))):
        raise ValueError(
            f"{what}: an array of 0 and 1 with one entry for each of {rows:,} rows seems to be a mask, but type "
            f"{found.dtype} means row numbers; pass mask.astype(bool) (PyTorch: mask.bool()), or "
            "numpy.flatnonzero(mask)"
        )


def split(
    builder: Builder, parts: Sequence[Any], rows: int, labelled: NDArray[np.bool_], ids: Any, choice: int
) -> None:
    """Pass the split to the builder.

    A missing test part is all other labelled rows. Without any part, none is passed.
    """
    if all(one is None for one in parts):
        return
    names = ("train", "val", "test")
    if parts[0] is None:
        raise ValueError("train: missing, but val or test is given; pass the training rows")
    found = [
        np.zeros(0, np.int64) if one is None else part(one, rows, name, ids, choice) for one, name in zip(parts, names)
    ]
    for name, members in zip(names, found):
        outside = members[(members < 0) | (members >= rows)]
        if outside.size:
            raise ValueError(f"{name}: found row {outside[0]}, expected 0 to {rows - 1}")
        bare = members[~labelled[members]]
        if bare.size:
            raise ValueError(f"{name}: row {bare[0]} has no label; remove it from the split, or add a label")
    for one in range(3):
        for other in range(one + 1, 3):
            both = np.intersect1d(found[one], found[other])
            if both.size:
                raise ValueError(
                    f"row {both[0]} is in both {names[one]} and {names[other]}; the parts of a split must not overlap"
                )
    if parts[2] is None:
        rest = labelled.copy()
        rest[np.concatenate(found[:2])] = False
        found[2] = np.flatnonzero(rest).astype(np.int64)
    builder.split(*found)


def known(y: Any, rows: int) -> NDArray[np.bool_]:
    """Return a mask of the labelled rows."""
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
    """Pass the ids of the nodes to the builder and return them, or `None` if they are 0, 1, 2, ..."""
    if ids is None:
        return None
    found = arrays.array(ids, "ids") if not isinstance(ids, list) else np.array(ids, object)
    if found.ndim != 1 or found.shape[0] != rows:
        raise ValueError(f"ids: found shape {list(found.shape)}, expected one id for each of the {rows:,} nodes")
    listed: list[Any] = found.tolist()
    whole = all(type(one) is int and one >= 0 for one in listed)
    if not whole:
        listed = [str(one) for one in listed]
    if len(set(listed)) != rows:
        twice = Counter(listed).most_common(1)[0][0]
        raise ValueError(f"ids: {twice!r} occurs more than once; expected unique ids")
    if whole and listed == list(range(rows)):
        return None
    if whole:
        builder.numbers(np.array(listed, np.uint64))
    else:
        builder.words(listed)
    return listed
