#!/usr/bin/env python3
"""Quality of pipelines under delayed weights. Planned and measured rows a second: plans.py.

  pipelines.py delay ECITON TEXT [--seeds 3]            # 2BW beside Flush: a language model, SGD and AdamW
  pipelines.py mixed ECITON [--seeds 3]                 # versions mixed within a step, at depth 8, momentum 0.9

Prints medians with their range.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile

p = argparse.ArgumentParser()
p.add_argument("what", choices=["delay", "mixed"]), p.add_argument("eciton"), p.add_argument("text", nargs="?")
p.add_argument("--seeds", type=int, default=3)
a = p.parse_args()
work = pathlib.Path(tempfile.mkdtemp())


def run(*words):
    done = subprocess.run([a.eciton, *map(str, words)], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{words}: {done.stderr}")
    return done.stdout


def last(text):
    return json.loads(text.splitlines()[-1])


def spread(values):
    return f"{statistics.median(values):,.4g} ({min(values):,.4g} to {max(values):,.4g})"


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
