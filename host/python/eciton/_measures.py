"""Predictions, probabilities and metrics from scores."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from eciton import _arrays as arrays

KNOWN = (
    "accuracy, balanced-accuracy, f1-macro, f1-micro; for regression mean-absolute-error, root-mean-squared-error, r2"
)


def probabilities(scores: NDArray[np.float32], task: str) -> NDArray[np.float64]:
    """Return the softmax of class scores, or the sigmoid of the scores of several labels."""
    wide = scores.astype(np.float64)
    if task != "classification":
        return sigmoid(wide)
    wide -= wide.max(axis=1, keepdims=True)
    np.exp(wide, out=wide)
    found: NDArray[np.float64] = wide / wide.sum(axis=1, keepdims=True)
    return found


def sigmoid(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return 1 / (1 + e^-x), without overflow."""
    found: NDArray[np.float64] = 0.5 * (1.0 + np.tanh(0.5 * scores))
    return found


def pair_probabilities(embedding: NDArray[np.float32], pairs: Any) -> NDArray[np.float64]:
    """Return the probabilities of links: sigmoid of the inner products of embeddings."""
    ends = arrays.whole(pairs, "pairs")
    if ends.ndim != 2 or ends.shape[1] != 2:
        raise ValueError(f"pairs: expected [pairs, 2], found {list(ends.shape)}")
    if ends.size and (ends.min() < 0 or ends.max() >= len(embedding)):
        wrong = ends.min() if ends.min() < 0 else ends.max()
        raise ValueError(f"pairs: found row {wrong}, expected 0 to {len(embedding) - 1}")
    wide = embedding.astype(np.float64)
    return sigmoid(np.einsum("ij,ij->i", wide[ends[:, 0]], wide[ends[:, 1]]))


def decided(scores: NDArray[np.float32], task: str) -> NDArray[Any]:
    """Return the predictions: the first class of highest score, labels with a score above 0, or numbers."""
    if task == "classification":
        classes: NDArray[np.int64] = np.argmax(scores, axis=1)
        return classes
    if task == "multi-label":
        flags: NDArray[np.bool_] = scores > 0
        return flags
    return scores[:, 0] if scores.shape[1] == 1 else scores


def confusion(labels: NDArray[Any], found: NDArray[Any], classes: int) -> NDArray[np.int64]:
    """Return the confusion matrix [classes, classes]: true classes in rows, predicted classes in columns."""
    counts = np.zeros((classes, classes), np.int64)
    np.add.at(counts, (labels, found), 1)
    return counts


def f1(right: Any, wrong: Any, missed: Any) -> NDArray[np.float64]:
    """Return 2 TP / (2 TP + FP + FN), or 0 if the denominator is 0."""
    right, wrong, missed = (np.asarray(one, float) for one in (right, wrong, missed))
    below = 2 * right + wrong + missed
    found: NDArray[np.float64] = np.divide(2 * right, below, out=np.zeros_like(below), where=below > 0)
    return found


def measured(metric: str, labels: NDArray[Any], found: NDArray[Any], task: str) -> float:
    """Return a metric of predictions."""
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
    raise ValueError(f"score: unknown metric {metric!r} for {task}; expected the metric of the run, or one of {KNOWN}")


def no_part(part: str) -> NoReturn:
    """Raise the error for an unknown part of the split."""
    raise ValueError(f"part: found {part!r}, expected train, val or test")
