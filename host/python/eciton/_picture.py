"""Display of a run in a notebook: a table, and the curve of its run folder."""

from __future__ import annotations

import html
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from eciton._run import Run

STYLE = "font:13px/1.5 system-ui,sans-serif;text-align:left;padding:1px 12px 1px 0;border:0;background:none"


def shown(value: float | None, metric: str) -> str:
    """Format the value of a metric."""
    if value is None:
        return "none"
    return f"{value:.2%}" if metric in ("accuracy", "balanced-accuracy", "f1-macro", "f1-micro") else f"{value:.4f}"


def rows(run: Run) -> list[tuple[str, str]]:
    """Return the rows of the table: label and text."""
    summary, metric = run.summary, str(run.summary["metric"])
    seeds = summary["seeds"]
    found = [("data and model", f"{summary['dataset']}, {summary['model']}")]
    found.append(("seeds", str(len(seeds))) if len(seeds) > 1 else ("seed", str(seeds[0]["seed"])))
    test = shown(summary["test_metric"], metric)
    if len(seeds) > 1 and summary["test_metric_std"] is not None:
        spread = summary["test_metric_std"]
        test += f" ± {spread:.2%}" if test.endswith("%") else f" ± {spread:.4f}"
    found.append((f"test {metric}", test))
    found.append((f"validation {metric}", shown(run.metrics["val"], metric)))
    found.append(("epochs", f"{seeds[0]['epochs']}, {summary['epoch_seconds_median'] * 1e3:.3g} ms each"))
    found.append(("digest", run.digest[:16]))
    if summary.get("cost"):
        found.append(("cost", f"${summary['cost'].get('total_usd', 0):.4f}"))
    if summary.get("stopped"):
        found.append(("stopped", "before the last epoch"))
    return found


def picture(run: Run) -> str:
    """Return self-contained HTML without scripts."""
    lines = "".join(
        f'<tr><th style="{STYLE};font-weight:600">{html.escape(name)}</th>'
        f'<td style="{STYLE}">{html.escape(text)}</td></tr>'
        for name, text in rows(run)
    )
    curve = Path(run.folder) / "curve.svg"
    svg = curve.read_text(encoding="utf-8") if curve.is_file() else ""
    svg = svg[svg.find("<svg") :] if "<svg" in svg else ""
    table = f'<table style="border-collapse:collapse;border:0;margin:0 0 8px">{lines}</table>'
    return f'<div style="max-width:720px">{table}<div style="background:#fff;border-radius:4px">{svg}</div></div>'
