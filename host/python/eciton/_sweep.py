"""Training of one graph with many settings, and a table of the results."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from eciton._graph import opened
from eciton._run import History, Run
from eciton._train import train


class Sweep:
    """Runs of a sweep, each with its settings."""

    def __init__(self, runs: list[Run], settings: list[dict[str, Any]]) -> None:
        self.runs = runs
        self.settings = settings

    @property
    def table(self) -> History:
        """Table with a row per run: settings, `val` and `test` (means over seeds), `test_std` and `digest`."""
        names = list(self.settings[0]) if self.settings else []
        columns: dict[str, Any] = {
            name: np.array(
                [str(one[name]) if isinstance(one[name], (list, tuple, dict)) else one[name] for one in self.settings]
            )
            for name in names
        }
        columns["val"] = np.array([_validation(run) for run in self.runs])
        columns["test"] = np.array([run.summary["test_metric"] for run in self.runs], float)
        columns["test_std"] = np.array([run.summary["test_metric_std"] for run in self.runs], float)
        columns["digest"] = np.array([run.digest for run in self.runs])
        return History(columns)

    @property
    def best(self) -> Run:
        """Run with the best validation metric, the first of equal ones. Test metrics are not used."""
        values = [_validation(run) for run in self.runs]
        if all(np.isnan(value) for value in values):
            known = [run.summary.get("undefined_metrics", {}).get("validation") for run in self.runs]
            reasons = [f"{self.runs[0].summary['metric']} is undefined: {one}" for one in known if one]
            reason = reasons[0] if reasons else "pass val= to eciton.graph"
            raise ValueError(f"best: no run has a validation metric; {reason}")
        less = str(self.runs[0].summary["metric"]) in (
            "cross-entropy",
            "mean-absolute-error",
            "root-mean-squared-error",
        )
        return self.runs[int(np.nanargmin(values) if less else np.nanargmax(values))]

    def __repr__(self) -> str:
        return f"<eciton.Sweep of {len(self.runs)} runs>"


def _validation(run: Run) -> float:
    found = [seed["metrics"]["validation"] for seed in run.summary["seeds"]]
    return float("nan") if any(value is None for value in found) else float(np.mean(found))


def sweep(
    data: Any,
    grid: Mapping[str, Sequence[Any]],
    *,
    out: str | Path | None = None,
    **settings: Any,
) -> Sweep:
    """Train once for each combination of values in `grid`, whose keys are arguments of `train` or recipe keys.

    `settings` apply to all runs. With `out`, run folders are written to `out/0`, `out/1`, ...

    >>> tried = eciton.sweep("cora", {"hidden": [8, 16]}, epochs=10, progress=False)
    >>> len(tried.table["test"])
    2
    """
    if not grid or any(len(values) == 0 for values in grid.values()):
        raise ValueError("grid: expected at least one value per setting")
    known = opened(data, settings)
    chosen = [dict(zip(grid, values)) for values in itertools.product(*grid.values())]
    runs = [
        train(known, out=None if out is None else Path(out) / str(at), **{**settings, **one})
        for at, one in enumerate(chosen)
    ]
    return Sweep(runs, chosen)
