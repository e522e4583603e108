"""Callbacks, which are called after each epoch with an `Epoch`. If a callback returns true, the run stops.

An epoch that is in progress at that time is completed.

>>> import eciton
>>> seen = {}
>>> run = eciton.train("cora", epochs=5, callbacks=[eciton.callbacks.record_evaluation(seen)], progress=False)
>>> len(seen["loss"])
5
"""

from __future__ import annotations

from eciton._progress import Callback, Epoch

__all__ = ["Callback", "Epoch", "early_stopping", "log_evaluation", "record_evaluation"]

#: Metrics for which lower is better.
ERRORS = ("cross-entropy", "mean-absolute-error", "root-mean-squared-error")


def early_stopping(patience: int, min_delta: float = 0.0) -> Callback:
    """Stop a run after `patience` evaluated epochs without an improvement of the validation metric by `min_delta`.

    The settings `patience=` and `**{"run.keep": "best"}` do the same without a callback, and keep the best weights.
    Raises ValueError if the validation metric is undefined in the first evaluated epoch.
    """
    best: list[float] = []
    waited = 0
    seed: int | None = None

    def callback(epoch: Epoch) -> bool:
        nonlocal waited, seed
        if epoch.seed != seed:
            best.clear()
            waited, seed = 0, epoch.seed
        if epoch.metric is None:  # not evaluated
            return False
        missing = epoch.val is None or epoch.val != epoch.val
        if missing and not best:
            raise ValueError(
                f"early_stopping: {epoch.metric} is undefined on the validation rows (epoch {epoch.epoch}); the "
                "warnings of the run name the reason; use other validation rows or metric, or remove the callback"
            )
        if epoch.val is None:
            return False
        good = -epoch.val if epoch.metric in ERRORS else epoch.val
        if not best or good > best[0] + min_delta:
            best[:] = [good]
            waited = 0
            return False
        waited += 1
        return waited >= patience

    return callback


def log_evaluation(period: int = 1) -> Callback:
    """Print loss and metrics every `period` epochs."""

    def callback(epoch: Epoch) -> None:
        if epoch.epoch % period == 0:
            parts = [("train", epoch.train), ("val", epoch.val), ("test", epoch.test)]
            metrics = "".join(f"  {name} {value:.4f}" for name, value in parts if value is not None)
            print(f"[{epoch.epoch}]  loss {epoch.loss:.6f}{metrics}", flush=True)

    return callback


def record_evaluation(into: dict[str, list[float | None]]) -> Callback:
    """Append loss and metrics of each epoch to the lists of the dictionary `into`."""
    into.clear()

    def callback(epoch: Epoch) -> None:
        for name, value in (("loss", epoch.loss), ("train", epoch.train), ("val", epoch.val), ("test", epoch.test)):
            into.setdefault(name, []).append(value)

    return callback
