"""Reads a run's event files with TensorBoard's own reader and holds them against its metrics.jsonl.

    python3 -m venv tb && tb/bin/pip install tensorboard
    tb/bin/python tests/peers/events.py ECITON

A campaign, not part of CI: TensorBoard and what it needs take 30 MB.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator


def scalars(folder):
    """Each tag's values by step, as TensorBoard shows them."""
    found = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    found.Reload()
    return {tag: {event.step: event.value for event in found.Scalars(tag)} for tag in found.Tags()["scalars"]}


def check(eciton, words, seeds):
    with tempfile.TemporaryDirectory() as place:
        place = Path(place)
        train = [eciton, "train", "--tensorboard", place / "events", "--out", place / "run", *words]
        subprocess.run(train, check=True, stdout=subprocess.DEVNULL)
        rows = [json.loads(line) for line in (place / "run/metrics.jsonl").open()]
        count = 0
        for seed in seeds:
            folder = place / "events" / (f"seed-{seed}" if len(seeds) > 1 else "")
            found = scalars(folder)
            own = [row for row in rows if row["seed"] == seed]
            expected = {"loss/train": {row["epoch"]: row["loss"] for row in own}}
            expected["learning-rate"] = {row["epoch"]: row["lr"] for row in own}
            expected["seconds"] = {row["epoch"]: row["seconds"] for row in own}
            for part, column in [("train", "train"), ("validation", "val"), ("test", "test")]:
                values = {row["epoch"]: row[f"{column}_metric"] for row in own if row[f"{column}_metric"] is not None}
                expected[f"{own[0]['metric'] or own[-1]['metric']}/{part}"] = values
            if "gradient_norm" in own[0]:
                expected["gradient-norm"] = {row["epoch"]: row["gradient_norm"] for row in own}
            assert found.keys() == expected.keys(), (sorted(found), sorted(expected))
            for tag, values in expected.items():
                assert found[tag].keys() == values.keys(), tag
                for step, value in values.items():
                    assert abs(found[tag][step] - value) <= 1e-6 * max(1.0, abs(value)), (tag, step)
                    count += 1
        print(" ".join(words), "-", count, "values are the same in", len(seeds), "runs")


eciton = str(Path(sys.argv[1]).resolve())
check(eciton, ["--epochs", "200"], [0])
check(eciton, ["--epochs", "30", "--eval-every", "10", "--set", "optimiser.clip_norm=1"], [0])
check(eciton, ["--epochs", "20", "--seeds", "3", "--seed", "5"], [5, 6, 7])
