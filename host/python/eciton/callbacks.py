"""Callbacks of a training: called after each epoch with an `Epoch`. A true answer ends the run.

The epoch that has begun meanwhile is still done.

>>> import eciton
>>> seen = {}
>>> run = eciton.train("cora", epochs=5, callbacks=[eciton.callbacks.record_evaluation(seen)], progress=False)
>>> len(seen["loss"])
5
"""

from __future__ import annotations

from eciton._progress import Callback, Epoch

__all__ = ["Callback", "Epoch", "early_stopping", "log_evaluation", "record_evaluation"]

#: Metrics of which less is better.
ERRORS = ("cross-entropy", "mean-absolute-error", "root-mean-squared-error")


def early_stopping(patience: int, min_delta: float = 0.0) -> Callback:
    """Ends a run after `patience` evaluated epochs whose validation metric is no better than the best by `min_delta`.

    The run itself does that as well, with the weights of the best epoch: `patience=` and `**{"run.keep": "best"}`.
    A validation metric that has no value in the first evaluated epoch is a `ValueError`: nothing could end the run.
    """
    best: list[float] = []
    waited = 0
    of: int | None = None

    def callback(epoch: Epoch) -> bool:
        nonlocal waited, of
        if epoch.seed != of:
            best.clear()
            waited, of = 0, epoch.seed
        if epoch.metric is None:  # not evaluated
            return False
        missing = epoch.val is None or epoch.val != epoch.val
        if missing and not best:
            raise ValueError(
                f"early_stopping: {epoch.metric} has no value on the validation rows (epoch {epoch.epoch}); the run's "
                "warnings name the reason; give other validation rows, choose another metric, or leave the callback out"
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
    """Prints a line after every `period` epochs."""

    def callback(epoch: Epoch) -> None:
        if epoch.epoch % period == 0:
            parts = [("train", epoch.train), ("val", epoch.val), ("test", epoch.test)]
            said = "".join(f"  {name} {value:.4f}" for name, value in parts if value is not None)
            print(f"[{epoch.epoch}]  loss {epoch.loss:.6f}{said}", flush=True)

    return callback


def record_evaluation(into: dict[str, list[float | None]]) -> Callback:
    """Puts loss and metrics of each epoch into a dictionary of lists."""
    into.clear()

    def callback(epoch: Epoch) -> None:
        for name, value in (("loss", epoch.loss), ("train", epoch.train), ("val", epoch.val), ("test", epoch.test)):
            into.setdefault(name, []).append(value)

    return callback
