#!/usr/bin/env python3
"""Workers that are killed and started again while replicas of a pipeline train: all digests are equal.

    churn.py ECITON [--seeds 2]
"""
import argparse
import json
import pathlib
import random
import subprocess
import tempfile
import threading
import time

p = argparse.ArgumentParser()
p.add_argument("eciton"), p.add_argument("--seeds", type=int, default=2), p.add_argument("--kills", type=int, default=6)
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


start("data", "generate", "linear", "rows", "--rows", 16384, "--features", 256, stdout=subprocess.DEVNULL).wait()
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
