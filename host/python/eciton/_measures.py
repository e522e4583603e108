"""Decisions, probabilities and metrics of scores."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from eciton import _arrays as arrays

KNOWN = "accuracy, balanced-accuracy, f1-macro, f1-micro; of numbers mean-absolute-error, root-mean-squared-error, r2"


def probabilities(scores: NDArray[np.float32], task: str) -> NDArray[np.float64]:
    """Softmax of classes, sigmoid of several labels."""
    wide = scores.astype(np.float64)
    if task != "classification":
        return sigmoid(wide)
    wide -= wide.max(axis=1, keepdims=True)
    np.exp(wide, out=wide)
    found: NDArray[np.float64] = wide / wide.sum(axis=1, keepdims=True)
    return found


def sigmoid(of: NDArray[np.float64]) -> NDArray[np.float64]:
    """1 / (1 + e^-x), without an overflow."""
    found: NDArray[np.float64] = 0.5 * (1.0 + np.tanh(0.5 * of))
    return found


def of_pairs(embedding: NDArray[np.float32], pairs: Any) -> NDArray[np.float64]:
    """Probabilities of links: the sigmoid of inner products."""
    ends = arrays.whole(pairs, "pairs")
    if ends.ndim != 2 or ends.shape[1] != 2:
        raise ValueError(f"pairs: expected [pairs, 2], found {list(ends.shape)}")
    if ends.size and (ends.min() < 0 or ends.max() >= len(embedding)):
        raise ValueError(f"pairs: row {ends.min() if ends.min() < 0 else ends.max()}, but rows are 0..{len(embedding)}")
    wide = embedding.astype(np.float64)
    return sigmoid(np.einsum("ij,ij->i", wide[ends[:, 0]], wide[ends[:, 1]]))


def decided(scores: NDArray[np.float32], task: str) -> NDArray[Any]:
    """The first highest class, the flags whose score is above 0, or the numbers."""
    if task == "classification":
        classes: NDArray[np.int64] = np.argmax(scores, axis=1)
        return classes
    if task == "multi-label":
        flags: NDArray[np.bool_] = scores > 0
        return flags
    return scores[:, 0] if scores.shape[1] == 1 else scores


def confusion(labels: NDArray[Any], found: NDArray[Any], classes: int) -> NDArray[np.int64]:
    """[classes, classes]: rows are what is true, columns what is predicted."""
    counts = np.zeros((classes, classes), np.int64)
    np.add.at(counts, (labels, found), 1)
    return counts


def f1(right: Any, wrong: Any, missed: Any) -> NDArray[np.float64]:
    """2 TP / (2 TP + FP + FN), 0 where there is nothing."""
    right, wrong, missed = (np.asarray(one, float) for one in (right, wrong, missed))
    below = 2 * right + wrong + missed
    found: NDArray[np.float64] = np.divide(2 * right, below, out=np.zeros_like(below), where=below > 0)
    return found


def measured(metric: str, labels: NDArray[Any], found: NDArray[Any], task: str) -> float:
    """A metric of decisions."""
    if task == "regression":
        truth = np.asarray(labels, float).reshape(len(labels), -1)
        error = np.asarray(found, float).reshape(truth.shape) - truth
        known = np.isfinite(error)
        error = error[known]
        if metric == "mean-absolute-error":
            return float(np.abs(error).mean())
        if metric == "root-mean-squared-error":
            return float(np.sqrt((error**2).mean()))
        if metric == "r2":
            values = truth[known]
            spread = ((values - values.mean()) ** 2).sum()
            return float(1 - (error**2).sum() / spread) if spread > 0 else float("nan")
    elif task == "multi-label":
        known = np.isfinite(labels)
        truth = (labels == 1) & known
        right = (found & truth).sum(axis=0)
        wrong, missed = (found & ~truth & known).sum(axis=0), (~found & truth).sum(axis=0)
        if metric == "f1-macro":
            return float(f1(right, wrong, missed)[known.any(axis=0)].mean())
        if metric == "f1-micro":
            return float(f1(right.sum(), wrong.sum(), missed.sum()))
    else:
        classes = int(max(labels.max(), found.max())) + 1
        counts = confusion(labels, found, classes)
        right = np.diag(counts)
        if metric in ("accuracy", "f1-micro"):
            return float(right.sum() / counts.sum())
        rows = counts.sum(axis=1)
        if metric == "balanced-accuracy":
            return float((right[rows > 0] / rows[rows > 0]).mean())
        if metric == "f1-macro":
            named = (rows > 0) | (counts.sum(axis=0) > 0)
            return float(f1(right, counts.sum(axis=0) - right, rows - right)[named].mean())
    raise ValueError(f"score: no metric {metric!r} of {task}; known: {KNOWN}, and the run's own")


def no_part(part: str) -> NoReturn:
    """Refuses a part that there is not."""
    raise ValueError(f"part: {part!r}; known: train, val, test")
