#!/usr/bin/env python3
"""Planned and measured pipelines: rows a second, and peaks of memory of the host and of each worker.

    plans.py ECITON [--rounds 3] [--only NAME] [--json FILE]
    plans.py ECITON --fit 200      # a network that needs recomputation to fit four workers of 200 MiB (memory groups v1, as root)

Each line is one pipeline: threads, workers on this machine with both owners of the weights, workers
with a quota of a processor (control groups v1, as root), and workers in network namespaces whose links
have a bandwidth (as root). The profile has the lanes of `1f1b` with 8 micro-batches on this machine, once
for threads and once for each owner of the weights; all other lines are predicted from them. The speed of a
machine changes from minute to minute, so each run is between two profiles, and is compared with the mean
of the two planned rates.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile

p = argparse.ArgumentParser()
p.add_argument("eciton"), p.add_argument("--rounds", type=int, default=3), p.add_argument("--only", default="")
p.add_argument("--fit", type=int), p.add_argument("--json"), p.add_argument("--layers", type=int, default=6), p.add_argument("--hidden", type=int, default=384)
a = p.parse_args()
a.eciton = str(pathlib.Path(a.eciton).absolute())
work = pathlib.Path(tempfile.mkdtemp())
MODEL = ["rows", "--layers", a.layers, "--hidden", a.hidden, "--batch", 1024, "--dropout", 0, "--eval-every", 0]
HOST, OWN = ["--set", "workers.owner=host"], ["--set", "workers.owner=worker", "--set", "workers.snapshot_every=1000"]
LOCAL, NET, THREADS = "127.0.0.1", "10.77.0.1", None
# Name, address of the host, lanes, flags of the pipeline, keys of [cluster].
PLANS = [
    ("threads, gpipe", THREADS, 2, ["--schedule", "gpipe", "--micro", 4], {}),
    ("threads, 1f1b", THREADS, 2, ["--micro", 8], {}),
    ("workers, the host owns", LOCAL, 2, ["--micro", 8, *HOST], {}),
    ("workers own", LOCAL, 2, ["--micro", 8, *OWN], {}),
    ("workers own, 2bw", LOCAL, 2, ["--micro", 8, "--schedule", "2bw", *OWN], {}),
    ("workers own, 2 wide", LOCAL, 2, ["--micro", 8, "--width", 2, *OWN], {}),
    ("the host owns, 2 wide", LOCAL, 2, ["--micro", 8, "--width", 2, *HOST], {}),
    ("quotas of 30 and 60 %", LOCAL, 2, ["--micro", 8, *OWN], {"speed_percent": [30, 60]}),
    ("links of 1,000 Mbit/s", NET, 2, ["--micro", 8, *OWN], {"link_mbits": [1000]}),
    ("links of 100 Mbit/s", NET, 2, ["--micro", 8, *OWN], {"link_mbits": [100]}),
    ("links of 100, the host owns", NET, 2, ["--micro", 8, *HOST], {"link_mbits": [100]}),
]


def eciton(*words):
    done = subprocess.run([a.eciton, *map(str, words)], cwd=work, text=True, capture_output=True)
    if done.returncode:
        raise SystemExit(f"eciton {' '.join(map(str, words))}: {done.stdout[-2000:]}{done.stderr}")
    return done.stdout


def last(text, event):
    return [line for line in map(json.loads, filter(lambda line: line.startswith("{"), text.splitlines())) if line["event"] == event][-1]


class Net:
    """Network namespaces for the host and the workers, on one bridge, with links of a bandwidth each way."""

    def __init__(self, count, mbits):
        self.mark = f"e{os.getpid() % 10000}"
        self.spaces = [f"{self.mark}n{at}" for at in range(count)]
        ip("link", "add", f"{self.mark}b", "type", "bridge"), ip("link", "set", f"{self.mark}b", "up")
        rate = ["rate", f"{mbits}mbit", "burst", "64kb", "latency", "200ms"]
        for at, space in enumerate(self.spaces):
            ip("netns", "add", space)
            ip("link", "add", f"{self.mark}v{at}", "type", "veth", "peer", "name", "eth0", "netns", space)
            ip("link", "set", f"{self.mark}v{at}", "master", f"{self.mark}b", "up")
            ip("-n", space, "addr", "add", f"10.77.0.{at + 1}/24", "dev", "eth0"), ip("-n", space, "link", "set", "eth0", "up")
            ip("-n", space, "link", "set", "lo", "up")
            subprocess.run(["tc", "qdisc", "add", "dev", f"{self.mark}v{at}", "root", "tbf", *rate], check=True)
            subprocess.run(["ip", "netns", "exec", space, "tc", "qdisc", "add", "dev", "eth0", "root", "tbf", *rate], check=True)

    def close(self):
        for space in self.spaces:
            ip("netns", "del", space)
        ip("link", "del", f"{self.mark}b")


def ip(*words):
    subprocess.run(["ip", *words], check=True)


def quota(percent, at):
    """Puts a process to be into a group with a share of one processor."""
    group = pathlib.Path("/sys/fs/cgroup/cpu") / f"eciton-{os.getpid()}-{at}"

    def enter():
        group.mkdir(exist_ok=True)
        (group / "cpu.cfs_period_us").write_text("10000")
        (group / "cpu.cfs_quota_us").write_text(str(100 * percent))
        (group / "tasks").write_text("0")

    return enter


def start(words, space, before=None, **pipes):
    inside = ["ip", "netns", "exec", space] if space else []
    return subprocess.Popen([*inside, a.eciton, *map(str, words)], cwd=work, text=True, preexec_fn=before, **pipes)


def peak(process):
    """Waits for a process, and returns the peak of its memory in bytes."""
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return used.ru_maxrss * 1024


def measure(address, lanes, words, cluster, net):
    """Trains once: rows a second, peak of the host, peaks of the workers."""
    spaces = net.spaces if net else [None] * (lanes + 1)
    subprocess.run(["rm", "-rf", "tokens"], cwd=work)
    more = ["--set", f"workers.listen={address}:0", "--set", "workers.tokens=tokens", "--workers", lanes] if address else []
    with open(work / "out.jsonl", "w") as out:
        process = start(["train", *MODEL, *words, *more, "--epochs", 6, "--json", "--no-out"], spaces[0], stdout=out, stderr=subprocess.PIPE)
        there = []
        if address:
            while "listens at " not in (line := process.stderr.readline()):
                if not line:
                    raise SystemExit("the run does not listen")
            at = line.split("listens at ")[1].split(";")[0]
            shares = cluster.get("speed_percent", [])
            for place in range(lanes):
                before = quota(shares[place], place) if shares else None
                line = ["worker", "--connect", at, "--token-file", f"tokens/worker-{place}.token", "--quiet"]
                there.append(start(line, spaces[place + 1], before))
        told = process.stderr.read()
        host = peak(process)
    if process.returncode:
        raise SystemExit(told)
    workers = [peak(one) for one in there]
    text = (work / "out.jsonl").read_text()
    seconds = [line["seconds"] for line in map(json.loads, text.splitlines()) if line.get("event") == "epoch"]
    return ROWS / statistics.median(seconds[1:]), host, workers


def limited(limit, at, groups):
    """Puts a process to be into a group with so many MiB of memory, without swap."""
    group = pathlib.Path("/sys/fs/cgroup/memory") / f"eciton-{os.getpid()}-{at}"
    groups.append(group)

    def enter():
        group.mkdir(exist_ok=True)
        (group / "memory.limit_in_bytes").write_text(str(limit << 20))
        (group / "tasks").write_text("0")

    return enter


def fit():
    """Trains on four workers of little memory, by a plan with recomputation, and compares the digest with one process."""
    eciton("data", "generate", "linear", "wide", "--rows", 32768, "--features", 128)
    model = ["wide", "--model", "mlp", "--layers", 16, "--hidden", 512, "--batch", 16384, "--micro", 4, "--dropout", 0, "--eval-every", 0,
             "--lr", 0.001]
    eciton("profile", *model, "--epochs", 1, "--threads", 1, "--file", "wide.json")
    memory = ["--set", f"cluster.memory_mib={a.fit}"]
    over = ["--lanes", 4, "--workers", 4, *OWN, "--set", f"workers.listen={LOCAL}:0", "--set", "workers.tokens=tokens", "--threads", 2]
    for name, more in [("without recomputation", []), ("by the plan", ["--measured", "wide.json"])]:
        plan = subprocess.run([a.eciton, *map(str, ["plan", *model, *over, *memory, *more, "--json"])], cwd=work, text=True,
                              capture_output=True)
        if plan.returncode:
            print(f"{name}: refused: {plan.stderr.strip()}")
            continue
        lanes = last(plan.stdout, "plan")["lanes"]["lanes"]
        print(f"{name}: planned peaks, MiB: {[one['process_bytes'] >> 20 for one in lanes]}")
    subprocess.run(["rm", "-rf", "tokens"], cwd=work)
    words = ["train", *model, *over, *memory, "--measured", "wide.json", "--epochs", 2, "--json", "--no-out"]
    with open(work / "fit.jsonl", "w") as out:
        process = start(words, None, stdout=out, stderr=subprocess.PIPE)
        while "listens at " not in (line := process.stderr.readline()):
            if not line:
                raise SystemExit("the run does not listen")
        at, groups, there = line.split("listens at ")[1].split(";")[0], [], []
        for place in range(4):
            # Without --cache, a worker uses half of its memory for weights and rows.
            line = ["worker", "--connect", at, "--token-file", f"tokens/worker-{place}.token", "--quiet", "--cache", f"{a.fit - 50}MiB"]
            there.append(start(line, None, limited(a.fit, place, groups)))
        told = process.stderr.read()
        process.wait()
    peaks = [peak(one) >> 20 for one in there]
    counted = [int((group / "memory.max_usage_in_bytes").read_text()) >> 20 for group in groups]
    for group in groups:
        group.rmdir()
    if process.returncode:
        raise SystemExit(told)
    alone = last(eciton("train", *model, "--epochs", 2, "--threads", 2, "--json", "--no-out"), "summary")
    digest = last((work / "fit.jsonl").read_text(), "summary")["model_digest"]
    print(f"trained: peaks, MiB: {peaks}, counted by the groups {counted} of {a.fit}; digest "
          f"{'equal' if digest == alone['model_digest'] else 'DIFFERS'}; one process takes {alone['peak_memory_bytes'] >> 20} MiB")


def spread(values, digits=0):
    return "{:,.{d}f} ({:,.{d}f} to {:,.{d}f})".format(statistics.median(values), min(values), max(values), d=digits)


def planned(lanes, words, address):
    """Profiles this machine, with lanes that are threads or workers, and plans the run with the profile."""
    of = ["--workers", lanes, *(HOST if "workers.owner=host" in words else OWN)] if address else []
    eciton("profile", *MODEL, "--epochs", 4, "--lanes", lanes, "--micro", 8, "--threads", 2, *of, "--file", "profile.json")
    return last(eciton("plan", *MODEL, *words, "--json"), "plan")


def main():
    found = []
    for name, address, lanes, words, cluster in PLANS:
        if a.only not in name:
            continue
        width = words[words.index("--width") + 1] if "--width" in words else 1
        words = [*words, "--lanes", lanes, "--measured", "profile.json", "--threads", 2]
        for key, value in cluster.items():
            words += ["--set", f"cluster.{key}={json.dumps(value)}"]
        listen = ["--workers", lanes, "--set", f"workers.listen={address}:0", "--set", "workers.tokens=tokens"] if address else []
        net = Net(lanes + 1, cluster["link_mbits"][0]) if address == NET else None
        try:
            runs, plans = [], [planned(lanes, [*words, *listen], address)]
            for _ in range(a.rounds):
                runs.append(measure(address, lanes, words, cluster, net))
                plans.append(planned(lanes, [*words, *listen], address))
        finally:
            if net:
                net.close()
        paces, plan = [run[0] for run in runs], plans[-1]
        rates = [one["planned"]["own"]["rows_per_second"] for one in plans]
        rates = [statistics.harmonic_mean(pair) for pair in zip(rates, rates[1:])]
        ratios = [rate / pace for rate, pace in zip(rates, paces)]
        line = {"name": name, "planned": rates, "measured": paces, "ratios": ratios, "host": [run[1] for run in runs],
                "host_planned": plan["memory"]["total_bytes"], "workers": [run[2] for run in runs],
                "workers_planned": [one.get("process_bytes", 0) for one in plan["lanes"]["lanes"]] * width}
        found.append(line)
        mib = lambda bytes: f"{bytes / 2**20:.0f}"
        peaks = [max(of) for of in zip(*line["workers"])]
        print(f"| {name} | {spread(rates)} | {spread(paces)} | {spread(ratios, 2)} | host {mib(line['host_planned'])}, {mib(max(line['host']))} | workers "
              f"{', '.join(map(mib, line['workers_planned']))}; {', '.join(map(mib, peaks))} |", flush=True)
    if a.json:
        pathlib.Path(a.json).write_text(json.dumps(found, indent=1))


if a.fit:
    raise SystemExit(fit())
eciton("data", "generate", "linear", "rows", "--rows", 16384, "--features", 256)
ROWS = json.loads(eciton("data", "stat", "rows", "--json").splitlines()[-1])["train"]
main()
