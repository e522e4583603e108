#!/usr/bin/env python3
"""Planned and measured rows a second of pipelines on this machine, and quality under delayed weights.

  pipelines.py pace ECITON [--rounds 3] [--share 1.0]   # six shapes: planned, measured, their ratio
  pipelines.py delay ECITON TEXT [--seeds 3]            # 2BW beside Flush: a language model, SGD and AdamW
  pipelines.py mixed ECITON [--seeds 3]                 # versions mixed within a step, at depth 8, momentum 0.9

`pace` profiles the model once, asks `eciton plan` of each shape, then trains. With `--share S` below 1 each compute
thread, and so each lane, has a control group of its own (v1, as root) whose quota is S of a processor, in the profile
as in the training. Prints medians with their range.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile
import time

p = argparse.ArgumentParser()
p.add_argument("what", choices=["pace", "delay", "mixed"]), p.add_argument("eciton"), p.add_argument("text", nargs="?")
p.add_argument("--rounds", type=int, default=3), p.add_argument("--seeds", type=int, default=3)
p.add_argument("--share", type=float, default=1.0)
a = p.parse_args()
work = pathlib.Path(tempfile.mkdtemp())
group = pathlib.Path("/sys/fs/cgroup/cpu") / f"eciton-pace-{os.getpid()}"


def slow(process):
    """Moves compute threads into groups of their own while a process lives."""
    while process.poll() is None:
        for task in pathlib.Path(f"/proc/{process.pid}/task").glob("*"):
            try:
                name = (task / "comm").read_text().strip()
                if name.removeprefix("eciton-").isdigit() and task.name not in slowed:
                    own = group / name
                    own.mkdir(parents=True, exist_ok=True)
                    (own / "cpu.cfs_period_us").write_text("2000"), (own / "cpu.cfs_quota_us").write_text(str(int(2000 * a.share)))
                    (own / "tasks").write_text(task.name)
                    slowed.add(task.name)
            except OSError:
                continue
        time.sleep(0.005)


slowed = set()


def run(*words, limited=False):
    with tempfile.TemporaryFile("w+") as out:
        process = subprocess.Popen([a.eciton, *map(str, words)], stdout=out, stderr=subprocess.PIPE, text=True)
        if limited:
            slow(process)
        said = process.communicate()[1]
        if process.returncode:
            raise SystemExit(f"{words}: {said}")
        out.seek(0)
        return out.read()


def last(text):
    return json.loads(text.splitlines()[-1])


def spread(values):
    return f"{statistics.median(values):,.4g} ({min(values):,.4g} to {max(values):,.4g})"


def pace():
    data = work / "rows"
    run("data", "generate", "linear", data, "--rows", 16384, "--features", 256)
    model = [data, "--layers", 6, "--hidden", 384, "--batch", 1024, "--eval-every", 0, "--dropout", 0]
    limited = a.share < 1
    profile = work / "profile.json"
    run("profile", *model, "--epochs", 6, "--file", profile, limited=limited)
    shapes = [(lanes, 1, schedule, 4) for lanes, schedule in [(1, "1f1b"), (2, "gpipe"), (2, "1f1b"), (2, "2bw"), (3, "1f1b")]]
    for lanes, width, schedule, micro in shapes + [(2, 2, "1f1b", 4)]:
        shape = ["--lanes", lanes, "--width", width, "--schedule", schedule, "--micro", micro, "--measured", profile]
        planned = last(run("plan", *model, *shape, "--json"))
        planned = planned["planned"]["own"]["rows_per_second"]
        found = []
        for _ in range(a.rounds):
            told = [json.loads(line) for line in run("train", *model, *shape, "--epochs", 6, "--no-out", "--json",
                                                     limited=limited).splitlines()]
            seconds = [line["seconds"] for line in told if line.get("event") == "epoch"]
            found.append(rows(data) / statistics.median(seconds[1:]))
        measured = statistics.median(found)
        print(f"| {schedule}, {lanes} lanes, {width} wide, {micro} parts | {planned:,.0f} | {spread(found)} | {planned / measured:.2f} |", flush=True)


def rows(data):
    told = json.loads(run("data", "stat", data, "--json").splitlines()[-1])
    return told["train"]


def train(*words, seed, schedule, more=()):
    told = last(run("train", *words, "--seed", seed, "--schedule", schedule, "--no-out", "--json", *more))
    return told["test_metric"], told["seeds"][0]["loss"]


def table(of, seeds, schedules):
    for schedule in schedules:
        found = [of(seed, schedule) for seed in range(seeds)]
        print(f"| {schedule} | {spread([metric for metric, _ in found])} | {spread([loss for _, loss in found])} |", flush=True)


def delay():
    text = work / "text.txt"
    whole = pathlib.Path(a.text).read_bytes()
    recipe = pathlib.Path(__file__).resolve().parent.parent.parent / "docs/recipes/any/char-lm.toml"
    for kind, rate, size in [("adamw", 3e-4, 800_000), ("sgd", 0.01, 200_000)]:
        text.write_bytes(whole[:size])
        more = ["--set", f"optimiser.kind={kind}", "--set", f"optimiser.lr={rate}"]
        more += ["--set", "optimiser.momentum=0.9", "--set", "optimiser.weight_decay=0"] if kind == "sgd" else []
        print(f"{kind}, rate {rate}: test loss, training loss")
        table(lambda seed, schedule: train(recipe, "--set", f"data.source={text}", "--lanes", 2, "--micro", 4, "--eval-every", 0,
                                           seed=seed, schedule=schedule, more=more), a.seeds, ["1f1b", "2bw"])


def mixed():
    for rate in [0.01, 0.02, 0.05]:
        model = ["digits", "--layers", 8, "--hidden", 64, "--batch", 240, "--micro", 2, "--lanes", 8, "--epochs", 60, "--dropout", 0,
                 "--eval-every", 0, "--set", 'model.init={ kind = "normal", std = 0.18 }', "--set", "optimiser.kind=sgd",
                 "--set", "optimiser.momentum=0.9", "--set", f"optimiser.lr={rate}"]
        print(f"rate {rate}: test accuracy, training loss")
        table(lambda seed, schedule: train(*model, seed=seed, schedule=schedule), a.seeds, ["1f1b", "2bw", "naive"])


try:
    {"pace": pace, "delay": delay, "mixed": mixed}[a.what]()
finally:
    for own in [*group.glob("eciton-*"), group]:
        if own.exists():
            own.rmdir()
