#!/usr/bin/env python3
"""A network that swallows all bytes of a worker from a random byte on, in network namespaces (as root).

  swallow.py ECITON [--runs 50] [--seed 0]

The run and two workers have a namespace each, on one bridge. Once the first worker's link has carried a
number of bytes, drawn from the seed, the link leaves the bridge: both ends keep their carrier, and no packet
arrives any more. Every run must notice this within 4 s (`workers.silence_ms` is 2000), and must have the
digest of a run without workers. Where namespaces cannot be made, the script prints why and skips.
"""
import argparse
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import threading
import time

p = argparse.ArgumentParser()
p.add_argument("eciton"), p.add_argument("--runs", type=int, default=50), p.add_argument("--seed", type=int, default=0)
a = p.parse_args()
eciton = str(pathlib.Path(a.eciton).absolute())
work = pathlib.Path(tempfile.mkdtemp())
LINE = ["train", "digits", "--layers", "6", "--batch", "600", "--micro", "4", "--epochs", "8", "--lanes", "2", "--no-out", "--json"]
WITHIN_S = 4
mark = f"e{os.getpid() % 10000}"
spaces = [f"{mark}n{at}" for at in range(3)]


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


def summary(out):
    for line in out.splitlines():
        if line.startswith("{") and json.loads(line).get("event") == "summary":
            return json.loads(line)
    return None


def carried():
    """Bytes that the first worker's link has carried, both ways."""
    folder = pathlib.Path(f"/sys/class/net/{mark}v1/statistics")
    return sum(int((folder / name).read_text()) for name in ("rx_bytes", "tx_bytes"))


def inside(at, *words, **more):
    return subprocess.Popen(["ip", "netns", "exec", spaces[at], eciton, *words], cwd=work, text=True, **more)


def one(after, owner):
    """A run whose first worker is cut off after a number of bytes: seconds until it is noticed, and the digest."""
    settings = ["workers.listen=10.78.0.1:0", "workers.tokens=tokens", "workers.silence_ms=2000", f"workers.owner={owner}"]
    words = [word for setting in settings for word in ("--set", setting)]
    run = inside(0, *LINE, "--workers", "2", *words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    lines, gone = [], []

    def read():
        for line in run.stderr:
            lines.append(line)
            if "worker 0 was removed from the run" in line:
                gone.append(time.time())

    threading.Thread(target=read, daemon=True).start()
    while not any("listens at " in line for line in lines):
        if run.poll() is not None:
            raise SystemExit(f"the run does not listen: {''.join(lines)}")
        time.sleep(0.01)
    address = "".join(lines).split("listens at ")[1].split(";")[0]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    workers = [inside(at, "worker", "--connect", address, "--token-file", f"tokens/worker-{at - 1}.token", **quiet) for at in (1, 2)]
    begun = carried()
    while carried() - begun < after and run.poll() is None:
        time.sleep(0.001)
    ip("link", "set", f"{mark}v1", "nomaster")
    cut = time.time()
    out, _ = run.communicate()
    for worker in workers:
        worker.kill(), worker.wait()
    ip("link", "set", f"{mark}v1", "master", f"{mark}b")
    found = summary(out)
    if found is None:
        raise SystemExit(f"after {after} bytes: the run failed: {''.join(lines)}")
    return (gone[0] - cut if gone else None), found["model_digest"]


def main():
    alone = subprocess.run([eciton, *LINE], cwd=work, check=True, capture_output=True, text=True)
    alone = summary(alone.stdout)["model_digest"]
    try:
        ip("link", "add", f"{mark}b", "type", "bridge"), ip("link", "set", f"{mark}b", "up")
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"skipped: no bridge can be made ({getattr(error, 'stderr', None) or error}); run as root, with iproute2")
        return
    try:
        for at, space in enumerate(spaces):
            try:
                ip("netns", "add", space)
            except subprocess.CalledProcessError as error:
                print(f"skipped: no network namespace can be made ({error.stderr.strip()})")
                return
            ip("link", "add", f"{mark}v{at}", "type", "veth", "peer", "name", "eth0", "netns", space)
            ip("link", "set", f"{mark}v{at}", "master", f"{mark}b", "up")
            ip("-n", space, "addr", "add", f"10.78.0.{at + 1}/24", "dev", "eth0"), ip("-n", space, "link", "set", "eth0", "up")
            ip("-n", space, "link", "set", "lo", "up")
        draw, times = random.Random(a.seed), []
        for number in range(a.runs):
            after, owner = draw.randrange(100_000, 2_500_000), ["host", "worker"][number % 2]
            noticed, digest = one(after, owner)
            print(f"run {number}: owner {owner}, after {after} bytes: " + ("it was over" if noticed is None else f"noticed after {noticed:.2f} s"), flush=True)
            if digest != alone or (noticed or 0) > WITHIN_S:
                sys.exit(f"run {number}: digest {digest}, expected {alone} within {WITHIN_S} s")
            times += [] if noticed is None else [noticed]
        print(f"{a.runs} equal digests; {len(times)} failures noticed, after {max(times, default=0):.2f} s at most")
    finally:
        for space in spaces:
            subprocess.run(["ip", "netns", "del", space], capture_output=True)
        for at in range(3):
            subprocess.run(["ip", "link", "del", f"{mark}v{at}"], capture_output=True)
        subprocess.run(["ip", "link", "del", f"{mark}b"], capture_output=True)


main()
