#!/usr/bin/env python3
"""Trains longer than an emulated function lives, and compares digests with unbroken runs.

    chains.py ECITON

The first part is a training of 60 processor seconds (ECITON_CHAIN_SECONDS) under a time limit of 3 s:
one chain of calls, none of which fails. The second part is a sweep of two trainings of which each
takes several calls. Its host is killed ten times, and the same command continues it.
"""
import argparse
import json
import os
import pathlib
import resource
import signal
import subprocess
import sys
import tempfile
import time

SECONDS = float(os.environ.get("ECITON_CHAIN_SECONDS", "60"))
LIMIT = ["--executor", "emulated", "--set", "executor.timeout_s=3"]
MODEL = ["--set", "model.hidden=256", "--json"]
KILLS = 10


def lines(eciton, folder, arguments):
    """Runs a command to its end, and returns the JSON objects that it prints."""
    ran = subprocess.run([eciton, *arguments], cwd=folder, capture_output=True, text=True)
    if ran.returncode != 0:
        command = " ".join(arguments)
        sys.exit(f"eciton {command}: code {ran.returncode}\n{ran.stdout[-2000:]}\n{ran.stderr}")
    return [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]


def find(found, key):
    """Returns the last object with a key."""
    return [line for line in found if key in line][-1]


def processor_seconds(eciton, folder, epochs):
    """Trains on this machine, and returns the processor time and the summary."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = lines(eciton, folder, ["train", "cora", "--epochs", str(epochs), *MODEL, "--no-out"])
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return used, find(found, "model_digest")


def one_chain(eciton, folder):
    """Compares a chain with an unbroken run of the same training."""
    pilot = 200
    # The pilot includes the start of the process, which makes an epoch look longer than it is.
    epochs = int(pilot * SECONDS / processor_seconds(eciton, folder, pilot)[0] * 1.3)
    used, whole = processor_seconds(eciton, folder, epochs)
    task = ["train", "cora", "--epochs", str(epochs), *MODEL, "--as-task", *LIMIT, "--out", "chain"]
    found = lines(eciton, folder, task)
    spent = find(found, "jobs")
    failed, links = spent["bill"]["failed"], len(spent["jobs"])
    billed = spent["bill"]["billed_ms"] / 1000
    print(f"{epochs} epochs, {used:.1f} s of processor time here: {links} links, {failed} failed calls, "
          f"{billed:.1f} s billed")
    epochs_of = [job["paused"]["epoch"] for job in spent["jobs"][:-1]]
    assert find(found, "model_digest")["model_digest"] == whole["model_digest"], "another digest"
    assert used >= SECONDS, f"the training needs {used:.1f} s of processor time, not {SECONDS}"
    assert failed == 0, "calls failed"
    assert links >= 4, "one chain of several calls was expected"
    assert epochs_of == sorted(set(epochs_of)), f"a link made no progress: {epochs_of}"


def killed_sweep(eciton, folder):
    """Kills the host of a sweep of chains, and compares its table with that of a sweep here."""
    sweep = pathlib.Path(folder, "tries.toml")
    sweep.write_text('recipe = "cora/gcn"\nseeds = 2\n')
    line = ["sweep", str(sweep), "--set", "run.epochs=1500", *MODEL]
    wanted = find(lines(eciton, folder, [*line, "--out", "here"]), "rows")
    there = [*line, *LIMIT, "--functions", "2", "--out", "there"]
    newest = []
    for _ in range(KILLS):
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        host = subprocess.Popen([eciton, *there], cwd=folder, start_new_session=True, **quiet)
        until = time.monotonic() + 60
        # Until another link lies there, or the sweep has ended.
        while checkpoints(folder) == newest and host.poll() is None and time.monotonic() < until:
            time.sleep(0.02)
        if host.poll() is None:
            host.send_signal(signal.SIGKILL)
        host.wait()
        newest = checkpoints(folder)
    print(f"after {KILLS} kills: {newest}")
    found = find(lines(eciton, folder, there), "rows")
    keys = ("choice", "state", "model_digest")
    found, wanted = [[[row[key] for key in keys] for row in table["rows"]] for table in (found, wanted)]
    assert found == wanted, f"{found}, not {wanted}"


def checkpoints(folder):
    """Returns the names of the checkpoints and summaries of a sweep's trials."""
    trials = pathlib.Path(folder, "there", "trials")
    # A folder that is on its way has more in its name.
    number = "[0-9]" * 5
    links = trials.glob(f"{number}.checkpoint/epoch-*.safetensors")
    files = [*links, *trials.glob(f"{number}/summary.json")]
    return sorted(str(path.relative_to(trials)) for path in files)


def main():
    form = argparse.RawDescriptionHelpFormatter
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    arguments.add_argument("eciton", type=pathlib.Path)
    eciton = str(arguments.parse_args().eciton.resolve())
    for part in (one_chain, killed_sweep):
        with tempfile.TemporaryDirectory() as folder:
            part(eciton, folder)


if __name__ == "__main__":
    main()
