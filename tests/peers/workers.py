#!/usr/bin/env python3
"""Pipelines over workers: pace, losses, memory.

  workers.py pace ECITON TEXT [--rounds 3]      # two workers beside one process of two threads: language model, branches
  workers.py losses ECITON TEXT [--seeds 3]     # workers killed at a mean of three update times, with spares
  workers.py replicas ECITON TEXT [--seeds 3]   # the same where workers own the weights: with a log, with replicas
  workers.py memory ECITON TEXT                 # four workers in control groups (v1, as root); refused on one
  workers.py owned ECITON TEXT                  # the same, the host in such a group as well: workers own the weights

`pace` and `losses` compare the digests of all runs of a model. `losses` prints the time lost beside a run without losses: with
shadows, without, and for a run without workers that is killed at the same times and resumed from its checkpoints.
"""
import argparse
import json
import os
import pathlib
import random
import signal
import statistics
import subprocess
import tempfile
import time

p = argparse.ArgumentParser()
p.add_argument("what", choices=["pace", "losses", "replicas", "memory", "owned"]), p.add_argument("eciton"), p.add_argument("text")
p.add_argument("--rounds", type=int, default=3), p.add_argument("--seeds", type=int, default=3)
p.add_argument("--bytes", type=int, default=200_000), p.add_argument("--mean", type=float, default=3.0)
p.add_argument("--limit", type=int, default=384, help="MiB of a worker's group")
p.add_argument("--host", type=int, default=384, help="MiB of the host's group")
a = p.parse_args()
a.eciton = str(pathlib.Path(a.eciton).absolute())
work = pathlib.Path(tempfile.mkdtemp())
(work / "text.txt").write_bytes(pathlib.Path(a.text).read_bytes()[: a.bytes])
LM = ["text.txt", "--recipe", "char-lm", "--epochs", "1", "--micro", "8"]
# Three updates an epoch, so that a run on one process has checkpoints to go on from.
(work / "short.txt").write_bytes(pathlib.Path(a.text).read_bytes()[:7_700])
SHORT = ["short.txt", "--recipe", "char-lm", "--epochs", "8", "--micro", "8", "--eval-every", "0"]


def start(*words, **more):
    return subprocess.Popen([a.eciton, *map(str, words)], cwd=work, text=True, **more)


def summary(out, err):
    for line in out.splitlines():
        if line.startswith("{") and json.loads(line).get("event") == "summary":
            return json.loads(line)
    raise SystemExit(f"no summary: {err}")


def run(*words):
    process = start("train", *words, "--json", "--no-out", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return summary(*process.communicate())


def spread(values):
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def branches():
    """Eight branches of four layers, joined: generated rows, a model file."""
    subprocess.run([a.eciton, "data", "generate", "linear", "made", "--rows", "16384", "--features", "2048"], cwd=work, check=True,
                   capture_output=True)
    return ["made", "--recipe", "branches", "--epochs", "2", "--batch", "2048", "--micro", "8"]


OVER = ["--lanes", "2", "--workers", "2", "--threads", "1"]
OWNED = ["--set", "workers.owner=worker"]


def pace():
    forms = [["--threads", "2"], OVER, [*OVER, *OWNED], [*OVER, *OWNED, "--schedule", "2bw"]]
    for name, model in [("language model", LM), ("branches", branches())]:
        times, digests = [[] for _ in forms], set()
        for _ in range(a.rounds):
            for of, more in zip(times, forms):
                found = run(*model, *more)
                of.append(found["epoch_seconds_median"])
                if "2bw" not in more:
                    digests.add(found["model_digest"])
        ratio = [spread([one / two for one, two in zip(times[0], of)]) for of in times[1:]]
        print(f"{name}: one process {spread(times[0])} s an epoch; two workers {spread(times[1])} s, pace {ratio[0]}; "
              f"that own the weights {spread(times[2])} s, pace {ratio[1]}; with 2bw {spread(times[3])} s, pace {ratio[2]}; "
              f"digests but 2bw's {len(digests)}", flush=True)


def worker(address, place):
    line = ["worker", "--connect", address, "--token-file", f"tokens/worker-{place}.token", "--quiet", "--wait", "20"]
    return start(*line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def over_workers(count, gaps, *more):
    """A run whose workers are killed after gaps, and started again at once: its summary, seconds, kills."""
    for token in (work / "tokens").glob("*"):
        token.unlink()
    words = [*SHORT, "--lanes", count, "--workers", count, "--threads", "1", "--json", "--no-out", *more,
             "--set", "workers.listen=127.0.0.1:0", "--set", "workers.tokens=tokens"]
    process = start("train", *words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    while "listens at " not in (line := process.stderr.readline()):
        if not line:
            raise SystemExit("the run does not listen")
    address = line.split("listens at ")[1].split(";")[0]
    there = [worker(address, place) for place in range(count)]
    begun, kills, draw = time.time(), 0, random.Random(1)
    for gap in gaps:
        end = time.time() + gap
        while time.time() < end and process.poll() is None:
            time.sleep(0.01)
        if process.poll() is not None:
            break
        # One, or two neighbours at once.
        at, both = draw.randrange(count), draw.random() < 0.3
        for place in {at, (at + 1) % count} if both else {at}:
            there[place].kill(), there[place].wait()
            there[place] = worker(address, place)
            kills += 1
    out, err = process.communicate()
    took = time.time() - begun
    for process in there:
        process.kill(), process.wait()
    return summary(out, err), took, kills


def restarted(gaps):
    """A run of two threads with a checkpoint an epoch, killed after gaps and resumed: its summary, seconds, kills."""
    words = ["train", *SHORT, "--threads", "2", "--out", "killed", "--json", "--set", "checkpoint.every=1"]
    begun, kills, line = time.time(), 0, words
    for gap in [*gaps[:200], 1e6]:
        process = start(*line, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            out, err = process.communicate(timeout=gap)
            if "cannot resume" not in err:
                break
            line = words
        except subprocess.TimeoutExpired:
            process.kill(), process.communicate()
            kills += 1
            # A run without a checkpoint cannot resume.
            line = ["resume", "killed", "--json"] if [*work.glob("killed.checkpoint/*")] else words
    took = time.time() - begun
    found = summary(out, err)
    subprocess.run(["rm", "-rf", "killed", "killed.checkpoint"], cwd=work)
    return found, took, kills


def losses():
    quiet, base, _ = over_workers(3, [])
    one = time.time()
    alone = run(*SHORT, "--threads", "2")
    one = time.time() - one
    mean = a.mean * base / 24
    print(f"without losses: {base:.1f} s over three workers, {one:.1f} s in one process; a loss each {mean:.2f} s in the mean", flush=True)
    digests = {quiet["model_digest"], alone["model_digest"]}
    for seed in range(a.seeds):
        draw = random.Random(seed)
        gaps = [draw.expovariate(1 / mean) for _ in range(10_000)]
        for name, of in [("without shadows", lambda: over_workers(3, gaps)),
                         ("with shadows", lambda: over_workers(3, gaps, "--set", "workers.redundant=true"))]:
            found, took, kills = of()
            digests.add(found["model_digest"])
            print(f"seed {seed}, {name}: {kills} workers lost, {took:.1f} s, lost {took - base:.1f} s, "
                  f"{found['workers']['retries']} steps restarted, {found['workers']['again']} repeated", flush=True)
        found, took, kills = restarted(gaps)
        digests.add(found["model_digest"])
        print(f"seed {seed}, checkpoint and restart: {kills} times, {took:.1f} s, lost {took - one:.1f} s", flush=True)
    print(f"digests: {len(digests)}")


def replicas():
    every = lambda updates: ["--set", f"workers.snapshot_every={updates}"]
    replicas = lambda count: ["--set", f"workers.replicas={count}", *every(8)]
    forms = [("log every update", every(1)), ("log every 8", every(8)), ("a replica, log every 8", replicas(1)),
             ("two replicas, log every 8", replicas(2))]
    tasks = lambda found: sum(place["tasks"] for place in found["workers"]["places"])
    mib = lambda found: sum(place["bytes_in"] + place["bytes_out"] for place in found["workers"]["places"]) / 2**20
    digests, quiet = set(), {}
    for name, more in forms:
        found = [over_workers(3, [], *OWNED, *more) for _ in range(a.rounds)]
        quiet[name] = statistics.median(took for _, took, _ in found)
        digests |= {of["model_digest"] for of, _, _ in found}
        print(f"{name}, without losses: {spread([took for _, took, _ in found])} s, {tasks(found[0][0])} tasks and instructions, "
              f"{mib(found[0][0]):.0f} MiB over the host's links", flush=True)
    mean = a.mean * quiet["log every 8"] / 24
    print(f"a loss each {mean:.2f} s in the mean, of a neighbour as well in 30 %")
    for seed in range(a.seeds):
        draw = random.Random(seed)
        gaps = [draw.expovariate(1 / mean) for _ in range(10_000)]
        for name, more in forms:
            try:
                found, took, kills = over_workers(3, gaps, *OWNED, *more)
            except SystemExit as ended:
                print(f"seed {seed}, {name}: it ends, {str(ended).strip().splitlines()[-1]}", flush=True)
                continue
            digests.add(found["model_digest"])
            print(f"seed {seed}, {name}: {kills} workers lost, {took:.1f} s, lost {took - quiet[name]:.1f} s, "
                  f"{found['workers']['returns']} returns, {tasks(found)} tasks and instructions", flush=True)
    print(f"digests: {len(digests)}")


def grouped(limit):
    """Puts a process to be into a group of its own with so many bytes of memory (control groups v1)."""
    group = pathlib.Path("/sys/fs/cgroup/memory") / f"eciton-worker-{os.getpid()}-{random.random()}"

    def enter():
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text(str(limit))
        (group / "tasks").write_text("0")

    return group, enter


def memory():
    limit = a.limit << 20
    model = ["digits", "--layers", "16", "--hidden", "2048", "--batch", "240", "--micro", "2", "--epochs", "1", "--lr", "0.001"]

    def over(count):
        for token in (work / "tokens").glob("*"):
            token.unlink()
        process = start("train", *model, "--lanes", count, "--workers", count, "--json", "--no-out", "--threads", "1",
                        "--set", "workers.listen=127.0.0.1:0", "--set", "workers.tokens=tokens",
                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        while "listens at " not in (line := process.stderr.readline()):
            pass
        address = line.split("listens at ")[1].split(";")[0]
        there = []
        for place in range(count):
            group, enter = grouped(limit)
            words = ["worker", "--connect", address, "--token-file", f"tokens/worker-{place}.token", "--json"]
            there.append((start(*words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, preexec_fn=enter), group))
        out, err = process.communicate()
        peaks = []
        for process, group in there:
            process.communicate()
            peaks.append(round(int((group / "memory.max_usage_in_bytes").read_text()) / 2**20))
            group.rmdir()
        return out, err, peaks

    plan = start("plan", *model, "--lanes", "4", "--json", stdout=subprocess.PIPE)
    lanes = json.loads(plan.communicate()[0])["lanes"]["lanes"]
    print(f"limit of each worker {a.limit} MiB; planned to keep, MiB:", [round(lane["worker_bytes"] / 2**20) for lane in lanes])
    out, err, _ = over(1)
    print("on one:", err.strip().splitlines()[-1])
    out, err, peaks = over(4)
    alone = run(*model)
    print("on four: digest", "equal" if summary(out, err)["model_digest"] == alone["model_digest"] else "DIFFERS",
          "peaks of the groups, MiB:", peaks, "one process, MiB:", alone["peak_memory_bytes"] >> 20)


def owned():
    """Four workers and a host, each with less memory than weights and moments take."""
    model = ["digits", "--layers", "16", "--hidden", "2048", "--batch", "240", "--micro", "2", "--epochs", "1", "--lr", "0.001"]
    groups = []

    def limited(limit, *words, **more):
        group, enter = grouped(limit << 20)
        groups.append(group)
        return start(*words, preexec_fn=enter, **more)

    def over(*more):
        for token in (work / "tokens").glob("*"):
            token.unlink()
        process = limited(a.host, "train", *model, "--lanes", "4", "--workers", "4", "--json", "--out", "over", "--threads", "1", *more,
                          "--set", "workers.listen=127.0.0.1:0", "--set", "workers.tokens=tokens",
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        told = ""
        while "listens at " not in (line := process.stderr.readline()):
            told += line
            if not line:
                process.communicate()
                return "", told, []
        address = line.split("listens at ")[1].split(";")[0]
        there = [limited(a.limit, "worker", "--connect", address, "--token-file", f"tokens/worker-{place}.token", "--quiet",
                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for place in range(4)]
        out, err = process.communicate()
        for one in there:
            one.communicate()
        return out, err, [round(int((group / "memory.max_usage_in_bytes").read_text()) / 2**20) for group in groups]

    def clear():
        for group in groups:
            group.rmdir()
        groups.clear()

    out, err, _ = over()
    print(f"the host owns: {err.strip().splitlines()[-1] if not out.strip() else 'not refused'}"), clear()
    begun = time.time()
    out, err, peaks = over(*OWNED)
    took = time.time() - begun
    found = summary(out, err)
    clear()
    alone = run(*model)
    print(f"workers own: digest {'equal' if found['model_digest'] == alone['model_digest'] else 'DIFFERS'}, {took:.0f} s, peaks, MiB: host "
          f"{peaks[0]} of {a.host}, workers {peaks[1:]} of {a.limit}; one process {alone['peak_memory_bytes'] >> 20}, "
          f"model.safetensors {(work / 'over/model.safetensors').stat().st_size >> 20}")


globals()[a.what]()
