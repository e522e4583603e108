"""Listener of a run, which calls callbacks and shows progress on the terminal or in the notebook."""

from __future__ import annotations

import json
import logging
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

log = logging.getLogger("eciton")

#: Minimum time between progress lines, in seconds.
EVERY = 5


class Epoch(NamedTuple):
    """Report of an epoch or a part of it, which callbacks receive. Metrics are `None` without an evaluation."""

    seed: int
    epoch: int
    loss: float
    train: float | None
    val: float | None
    test: float | None
    metric: str | None
    seconds: float
    lr: float
    gradient_norm: float | None
    step: int = 0
    rows_per_second: float | None = None


Callback = Callable[[Epoch], object]


class Listener:
    """Receives the events of a run, calls the callbacks, and shows the progress."""

    def __init__(self, callbacks: Sequence[Callback] | Callback, progress: bool | None) -> None:
        self.callbacks: list[Callback] = [callbacks] if callable(callbacks) else list(callbacks)
        unfit = [one for one in self.callbacks if not callable(one)]
        if unfit:
            raise TypeError(f"callbacks: {unfit[0]!r} is not callable; expected functions of an Epoch")
        self.shown = wanted() if progress is None else progress
        self.bar: Any = None
        self.total = 0
        self.first_seed = 0
        self.epochs = 0
        self.begun = self.told = time.monotonic()

    def started(self, text: str) -> None:
        found = json.loads(text)
        self.epochs, seeds = int(found["epochs"]), found["seeds"]
        self.total, self.first_seed = self.epochs * len(seeds), int(seeds[0])
        self.begun = self.told = time.monotonic()
        if self.shown:
            self.bar = bar(self.total, f"{found['dataset']}, {found['model']}")

    def epoch(self, report: dict[str, Any]) -> bool:
        one = Epoch(**report)
        if self.shown:
            self.show(one)
        # Every callback is called, even if another one has ended the run.
        return any([bool(callback(one)) for callback in self.callbacks])

    def show(self, one: Epoch) -> None:
        done = (one.seed - self.first_seed) * self.epochs + one.epoch
        if self.bar is not None:
            figures = {"loss": f"{one.loss:.4f}"} | ({} if one.val is None else {"val": f"{one.val:.4f}"})
            self.bar.set_postfix(figures, refresh=False)
            self.bar.update(max(0, done - self.bar.n))
        elif time.monotonic() - self.told >= EVERY:
            self.line(done, one.loss, one.val)

    def line(self, done: int, loss: float, val: float | None) -> None:
        """Print a progress line."""
        self.told = time.monotonic()
        left = (self.told - self.begun) / max(done, 1) * (self.total - done)
        found = "" if val is None else f", val {val:.4f}"
        print(
            f"epoch {done:,} of {self.total:,}: loss {loss:.4f}{found}; {left:.0f} s left", file=sys.stderr, flush=True
        )

    def seed(self, text: str) -> None:
        if not self.shown:
            return
        found = json.loads(text)
        done = (int(found["seed"]) - self.first_seed) * self.epochs + int(found["epochs"])
        if self.bar is not None:
            self.bar.update(max(0, done - self.bar.n))
        else:
            self.line(done, found["loss"], found["metrics"]["validation"])

    def resumed(self, text: str) -> None:
        found = json.loads(text)
        for difference in found["differences"] + found["damaged"]:
            warnings.warn(difference, stacklevel=4)

    def warning(self, text: str) -> None:
        warnings.warn(text, stacklevel=4)

    def log(self, kernel: str, line: str) -> None:
        log.info("kernel %s: %s", kernel, line)

    def close(self) -> None:
        if self.bar is not None:
            self.bar.close()


def wanted() -> bool:
    """Return true if progress is shown by default: on a terminal or in a notebook."""
    return bool(getattr(sys.stderr, "isatty", bool)()) or "ipykernel" in sys.modules


def bar(total: int, title: str) -> Any:
    """Return a progress bar of tqdm, or `None` if tqdm is not installed. Then lines are printed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # tqdm warns about missing notebook widgets
            from tqdm.auto import tqdm
    except ImportError:
        return None
    return tqdm(total=total, desc=title, unit="epoch", leave=False)
