#!/usr/bin/env python3
"""Workers that are killed and started again while replicas of a pipeline train: all digests are equal.

    churn.py ECITON [--seeds 2]
    churn.py ECITON --pace [--seeds 2] [--rates 0,0.33]      # rows per second of four protections, as root (control groups v1)
    churn.py ECITON --crowd [--seconds 300]      # 2 to 6 workers for 4 lanes that join and leave, beside the simulator

With --pace, failures are drawn at 10, 16 and 33 % per worker and hour. An hour takes 7.5 seconds, so an outage
of half an hour takes 3.75. Each worker has 40 % of a processor.
"""
import argparse
import json
import os
import pathlib
import random
import statistics
import subprocess
import tempfile
import threading
import time

p = argparse.ArgumentParser()
p.add_argument("eciton"), p.add_argument("--seeds", type=int, default=2), p.add_argument("--kills", type=int, default=6)
p.add_argument("--crowd", action="store_true"), p.add_argument("--seconds", type=float, default=300)
p.add_argument("--pace", action="store_true"), p.add_argument("--rates", default="0,0.1,0.16,0.33")
a = p.parse_args()
a.eciton = str(pathlib.Path(a.eciton).absolute())
work = pathlib.Path(tempfile.mkdtemp())
MODEL = ["rows", "--layers", "4", "--hidden", "64", "--batch", "1024", "--dropout", "0", "--eval-every", "0", "--micro", "8", "--epochs", "8",
         "--no-out", "--json", "--seed", "3"]


def start(*words, **pipes):
    return subprocess.Popen([a.eciton, *map(str, words)], cwd=work, text=True, **pipes)


def digest(text):
    return [line for line in map(json.loads, text.splitlines()) if line["event"] == "summary"][-1]["model_digest"]


def run(lanes, width, owner, schedule, seed):
    """Trains while workers die: digest or reason of the end, and number of kills."""
    subprocess.run(["rm", "-rf", "tokens"], cwd=work)
    process = start("train", *MODEL, "--lanes", lanes, "--width", width, "--schedule", schedule, "--workers", lanes, "--threads", 1,
                    "--set", f"workers.owner={owner}", "--set", "workers.listen=127.0.0.1:0", "--set", "workers.tokens=tokens",
                    "--set", "workers.snapshot_every=4", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    while "listens at " not in (line := process.stderr.readline()):
        if not line:
            raise SystemExit("the run does not listen")
    address = line.split("listens at ")[1].split(";")[0]
    worker = lambda at: start("worker", "--connect", address, "--token-file", f"tokens/worker-{at}.token", "--quiet", "--wait", "20",
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    there, told = [worker(at) for at in range(lanes)], {}
    readers = [threading.Thread(target=lambda name=name, pipe=pipe: told.update({name: pipe.read()}))
               for name, pipe in [("out", process.stdout), ("err", process.stderr)]]
    for reader in readers:
        reader.start()
    draw, kills, begun = random.Random(seed), 0, time.time()
    time.sleep(0.4)
    while process.poll() is None:
        if time.time() - begun > 60:
            process.kill()
        time.sleep(draw.uniform(0.05, 0.35))
        if process.poll() is None and kills < a.kills:
            at = draw.randrange(lanes)
            there[at].kill(), there[at].wait()
            kills += 1
            threading.Timer(draw.uniform(0, 0.4), lambda at=at: there.__setitem__(at, worker(at))).start()
    for reader in readers:
        reader.join()
    time.sleep(0.5)
    for one in there:
        one.kill(), one.wait()
    return digest(told["out"]) if process.returncode == 0 else told["err"].strip().splitlines()[-1], kills


HOUR, OUTAGE, EPOCHS = 7.5, 0.5, 30
OWN = ["--set", "workers.owner=worker", "--set", "workers.snapshot_every=16"]
PROTECTIONS = [
    ("peers take over, 2 wide", ["--width", "2", *OWN]),
    ("snapshots", OWN),
    ("replicated weights", [*OWN, "--set", "workers.replicas=1"]),
    ("redundant computation, 2 wide", ["--width", "2", "--set", "workers.owner=host", "--set", "workers.redundant=true"]),
]


def limited(at):
    """Returns a function that puts the process into a group with 40 % of a processor."""
    group = pathlib.Path("/sys/fs/cgroup/cpu") / f"eciton-{os.getpid()}-{at}"

    def enter():
        group.mkdir(exist_ok=True)
        (group / "cpu.cfs_period_us").write_text("10000")
        (group / "cpu.cfs_quota_us").write_text("4000")
        (group / "tasks").write_text("0")

    return enter


def paced(words, per_hour, seed):
    """Trains while workers fail at this rate and return after half an hour: rows per second, digest and number of failures."""
    subprocess.run(["rm", "-rf", "tokens"], cwd=work)
    model = ["rows", "--layers", "8", "--hidden", "256", "--batch", "1024", "--dropout", "0", "--eval-every", "0", "--micro", "8",
             "--epochs", EPOCHS, "--no-out", "--json", "--seed", "3", "--lanes", 4, "--workers", 4, "--threads", 1]
    process = start("train", *model, *words, "--set", "workers.listen=127.0.0.1:0", "--set", "workers.tokens=tokens",
                    stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    while "listens at " not in (line := process.stderr.readline()):
        if not line:
            raise SystemExit("the run does not listen")
    address = line.split("listens at ")[1].split(";")[0]
    worker = lambda at: start("worker", "--connect", address, "--token-file", f"tokens/worker-{at}.token", "--quiet", "--wait", "60",
                              preexec_fn=limited(at), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    there, told, draw = [worker(at) for at in range(4)], {}, random.Random(seed)
    readers = [threading.Thread(target=lambda name=name, pipe=pipe: told.update({name: pipe.read()}))
               for name, pipe in [("out", process.stdout), ("err", process.stderr)]]
    for reader in readers:
        reader.start()
    begun, failures = time.time(), 0
    when = lambda: draw.expovariate(per_hour) * HOUR if per_hour else float("inf")
    events = [[begun + 3 + when(), at, True] for at in range(4)]
    while process.poll() is None and time.time() < begun + 240:
        time.sleep(0.02)
        event = min(events)
        if event[0] <= time.time():
            at = event[1]
            if event[2]:
                there[at].kill(), there[at].wait()
                failures += 1
                event[0] += OUTAGE * HOUR
            else:
                there[at] = worker(at)
                event[0] += when()
            event[2] = not event[2]
    for one in there:
        one.kill() if process.poll() is None else one.wait()
    for reader in readers:
        reader.join()
    if process.returncode:
        raise SystemExit(told["err"])
    epochs = [line["seconds"] for line in map(json.loads, told["out"].splitlines()) if line["event"] == "epoch"]
    return (EPOCHS - 1) * ROWS / sum(epochs[1:]), digest(told["out"]), failures


def pace():
    """Prints the rates of all protections at each rate of failures."""
    digests = set()
    for name, words in PROTECTIONS:
        for per_hour in map(float, a.rates.split(",")):
            runs = [paced(words, per_hour, seed) for seed in range(a.seeds if per_hour else 1)]
            digests |= {run[1] for run in runs}
            rates = [run[0] for run in runs]
            print(f"{name}, {per_hour:.0%} per hour: {statistics.mean(rates):,.0f} rows/s ({min(rates):,.0f} to {max(rates):,.0f}), "
                  f"{sum(run[2] for run in runs)} failures", flush=True)
    print(f"{'equal' if len(digests) == 1 else 'DIFFERENT'} digests")
    return len(digests) > 1


LAYERS, WIDTH, MICRO, BATCH = 8, 256, 8, 1024
CROWD = ["rows", "--layers", LAYERS, "--hidden", WIDTH, "--batch", BATCH, "--dropout", "0", "--eval-every", "0", "--micro", MICRO,
         "--no-out", "--json", "--seed", "3", "--lanes", 4, "--schedule", "1f1b", "--threads", 1]


def crowd(steps, leaves):
    """Trains for a number of steps on 4 lanes. If `leaves`, 2 to 6 workers join and leave, otherwise 4 stay.

    Returns the summary, the seconds of the training, and the joins and leaves of workers with a place: seconds, place, joined or not.
    """
    subprocess.run(["rm", "-rf", "tokens"], cwd=work)
    process = start("train", *CROWD, "--steps", steps, "--workers", 4, "--set", "workers.spares=2", "--set", "workers.wait_s=60",
                    "--set", "workers.listen=127.0.0.1:0", "--set", "workers.tokens=tokens", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    while "listens at " not in (line := process.stderr.readline()):
        if not line:
            raise SystemExit("the run does not listen")
    address = line.split("listens at ")[1].split(";")[0]
    draw, events, told, there = random.Random(7), [], {}, []
    mean = lambda: draw.expovariate(1 / 2)

    class Worker:
        """A worker with any free token. It is killed at a random time after its start."""

        def __init__(self):
            self.place, self.dies = None, float("inf")
            self.process = start("worker", "--connect", address, "--token-file", "tokens", "--wait", "60", stdout=subprocess.DEVNULL,
                                 stderr=subprocess.PIPE)
            threading.Thread(target=self.listen, daemon=True).start()

        def listen(self):
            for line in self.process.stderr:
                if " as worker " in line:
                    self.place = int(line.split(" as worker ")[1])
                    events.append((time.time(), self.place, True))
                    self.dies = time.time() + mean() if leaves else float("inf")

        def kill(self):
            # The next worker may have the place before this process has been waited for.
            at = time.time()
            self.process.kill(), self.process.wait()
            if self.place is not None:
                events.append((at, self.place, False))

    readers = [threading.Thread(target=lambda name=name, pipe=pipe: told.update({name: pipe.read()}))
               for name, pipe in [("out", process.stdout), ("err", process.stderr)]]
    for reader in readers:
        reader.start()
    there = [Worker() for _ in range(4)]
    while any(worker.place is None for worker in there):
        time.sleep(0.01)
    begun = time.time()
    joins = begun + 0.7 * mean()
    while process.poll() is None:
        time.sleep(0.005)
        now = time.time()
        for worker in [worker for worker in there if worker.dies <= now and len(there) > 2]:
            there.remove(worker)
            worker.kill()
        if leaves and now >= joins:
            joins = now + 0.35 * mean()
            there += [Worker()] if len(there) < 6 else []
    ended = time.time()
    time.sleep(1)
    for worker in there:
        # One that was dialling when the run ended tries for a minute.
        worker.process.kill(), worker.process.wait()
    for reader in readers:
        reader.join()
    if process.returncode:
        raise SystemExit(told["err"])
    summary = [line for line in map(json.loads, told["out"].splitlines()) if line["event"] == "summary"][-1]
    events = sorted((at - begun, place, joined) for at, place, joined in events if begun < at < ended)
    return summary, ended - begun, events


def beside_the_simulator():
    """Compares repeated steps and sent bytes of a run whose workers join and leave with those of the simulator."""
    values = lambda summary: sum(place["values_in"] + place["values_out"] for place in summary["workers"]["places"])
    alone = [json.loads(line) for line in start("train", *CROWD, "--steps", 40, stdout=subprocess.PIPE).communicate()[0].splitlines()][-1]
    few, many = crowd(40, False), crowd(440, False)
    pace, per_step = 400 / (many[1] - few[1]), (values(many[0]) - values(few[0])) / 400
    assert few[0]["model_digest"] == alone["model_digest"], "another digest"
    steps = round(a.seconds * pace * 0.6)
    still = [json.loads(line) for line in start("train", *CROWD, "--steps", steps, stdout=subprocess.PIPE).communicate()[0].splitlines()][-1]
    summary, took, events = crowd(steps, True)
    equal = summary["model_digest"] == still["model_digest"]
    (work / "trace.csv").write_text("".join(f"{at:.4f},{place}{',returns' if joined else ''}\n" for at, place, joined in events))
    simulate = ["simulate", "--pipeline", f"layers-{LAYERS}x{WIDTH}", "--lanes", 4, "--width", 1, "--micro", MICRO, "--rows", BATCH,
                "--schedule", "1f1b", "--hold", "workers", "--host-link", 100, "--usd-hour", 1, "--json"]

    def simulated(tflops, *more):
        text = start(*simulate, "--tflops", tflops, *more, stdout=subprocess.PIPE).communicate()[0]
        return json.loads(text.splitlines()[-1])

    # The rate of a simulated worker is such that the undisturbed run has the measured pace.
    low, high = 1e-6, 10.0
    for _ in range(40):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if simulated(middle, "--hours", 20 / 3600)["rounds"] < 20 * pace else (low, middle)
    quiet = simulated(high, "--hours", took / 3600)
    found = simulated(high, "--hours", took / 3600, "--failure-trace", "trace.csv")
    left, workers = sum(not joined for *_, joined in events), summary["workers"]
    repeated = workers["again"] + workers["retries"]
    print(f"{took:.0f} s, {steps} steps, {left} workers with a place left, {len(events) - left} joined; "
          f"{'equal' if equal else 'ANOTHER'} digest; {pace:.2f} steps a second without churn, {steps / took:.2f} with "
          f"(simulated {found['rounds'] / took:.2f})")
    print(f"repeated steps: {repeated} ({workers['again']} for lost rows, {workers['retries']} in flight); simulated "
          f"{found['again'] + found['retries']} ({found['again']}, {found['retries']}); by loss {repeated / left:.2f} and "
          f"{(found['again'] + found['retries']) / max(found['losses'], 1):.2f}")
    # Rows have 4 bytes a value, and those of the simulated model 2. Bytes are therefore counted in undisturbed steps.
    recovery, expected = values(summary) / per_step - steps, found["sent_bytes"] * quiet["rounds"] / quiet["sent_bytes"] - found["rounds"]
    print(f"bytes of recovery: those of {recovery:.1f} undisturbed steps of {per_step / 1e6:.1f} MB; simulated {expected:.1f}; workers "
          f"with a place that left in the simulation: {found['losses']}")
    return not equal


start("data", "generate", "linear", "rows", "--rows", 16384, "--features", 256, stdout=subprocess.DEVNULL).wait()
ROWS = json.loads(subprocess.run([a.eciton, "data", "stat", "rows", "--json"], cwd=work, text=True, capture_output=True).stdout.splitlines()[-1])["train"]
if a.crowd:
    raise SystemExit(beside_the_simulator())
if a.pace:
    raise SystemExit(pace())
alone = digest(start("train", *MODEL, "--threads", 2, stdout=subprocess.PIPE).communicate()[0])
wrong = 0
for lanes, width in [(4, 2), (4, 4)]:
    for owner in ["host", "worker"]:
        for schedule in ["1f1b", "gpipe"]:
            for seed in range(a.seeds):
                found, kills = run(lanes, width, owner, schedule, seed)
                wrong += found != alone
                print(f"{lanes} lanes, {width} wide, the {owner} owns, {schedule}, seed {seed}: {kills} kills, "
                      f"{'equal' if found == alone else found}", flush=True)
raise SystemExit(wrong > 0)
