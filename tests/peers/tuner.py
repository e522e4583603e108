#!/usr/bin/env python3
"""`--functions auto` against fixed numbers of functions, live on the emulator.

    ECITON_DATA=../shared/data ECITON_WORKER=target/worker/bootstrap python3 tests/peers/tuner.py target/release/eciton [--load 4] [--only NAME]

Eight workloads of layer tasks. In four of them the host has a quarter of a core, in a control group, and the
emulated cloud (its service and its functions) is outside of it, so that functions pay. In two of these the processors of the host or of the functions
change in the middle of the run. Prints, for each workload, the seconds and dollars of each number of functions, and
the value V = 1 / (seconds x dollars) and the pace of `auto` as shares of those of the best fixed number. The digests
of a workload must be equal. Needs root and control groups (version 1) of processors. Exits with 1 if a share of
`auto`'s value is below 0.9 in any workload.
"""
import argparse, json, os, subprocess, sys, threading, time
from pathlib import Path

GROUPS = Path("/sys/fs/cgroup/cpu")
PERIOD_US = 100_000
HOST_HOUR_USD = 3.06
PHOTO, CS = "graphdata-npz/amazon_photo.npz", "graphdata-npz/coauthor_cs.npz"


def model(name, hidden, layers, intervals, epochs):
    settings = {"model.hidden": hidden, "model.layers": layers}
    sets = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    return ["--model", name, *sets, "--intervals", str(intervals), "--epochs", str(epochs)]


# Name, data, arguments, cores of the host (None: all), and a step: after so many seconds a group has so many cores.
WORKLOADS = [
    ("photo, gcn of 256", PHOTO, model("gcn", 256, 2, 8, 80), None, None),
    ("cora, gcn of 64", "cora", model("gcn", 64, 2, 8, 1000), None, None),
    ("cs, gcn of 128", CS, model("gcn", 128, 2, 8, 40), None, None),
    ("cora, mlp of 1024, host slows down", "cora", model("mlp", 1024, 3, 4, 40), None, ("host", 6.0, 0.25)),
    ("cora, mlp of 1024, quarter", "cora", model("mlp", 1024, 3, 4, 30), 0.25, None),
    ("cora, gcn of 1024, quarter", "cora", model("gcn", 1024, 3, 4, 24), 0.25, None),
    ("photo, mlp of 1024, quarter", PHOTO, model("mlp", 1024, 3, 8, 16), 0.25, None),
    ("cora, mlp of 1024, quarter, functions slow down", "cora", model("mlp", 1024, 3, 4, 30), 0.25, ("functions", 10.0, 0.1)),
]
FIXED = ["0", "2", "8"]


class Group:
    """A control group with a share of the processors; it exists for the time of a run."""

    def __init__(self, name):
        self.path = GROUPS / f"eciton-{name}-{os.getpid()}"
        self.path.mkdir()

    def cores(self, cores):
        quota = -1 if cores is None else int(cores * PERIOD_US)
        (self.path / "cpu.cfs_period_us").write_text(str(PERIOD_US))
        (self.path / "cpu.cfs_quota_us").write_text(str(quota))

    def remove(self):
        for _ in range(100):
            try:
                return self.path.rmdir()
            except OSError:  # its last processes are ending
                time.sleep(0.05)
        self.path.rmdir()


def move_cloud(process, group):
    """Moves the emulator's threads, and so the processes that they start, out of the host's group."""
    moved = set()
    while process.poll() is None:
        for task in Path(f"/proc/{process.pid}/task").glob("*"):
            try:
                if task.name not in moved and (task / "comm").read_text().startswith("emulator"):
                    (group.path / "tasks").write_text(task.name)
                    moved.add(task.name)
            except OSError:  # it has ended
                pass
        time.sleep(0.02 if len(moved) < 3 else 0.5)


def run(eciton,  workload, functions):
    _, data, arguments, cores, step = workload
    groups = {name: Group(name) for name in ("host", "functions")}
    groups["host"].cores(cores)
    source = data if data == "cora" else str(Path(os.environ["ECITON_DATA"]).resolve() / data)
    command = [eciton, "train", source, *arguments, "--eval-every", "0", "--threads", "1", "--no-out", "--executor", "emulated", "--json",
               "--functions", functions, "--set", f"executor.host_hour_usd={HOST_HOUR_USD}", "--set", "executor.host=region"]
    enter = lambda: (groups["host"].path / "cgroup.procs").write_text(str(os.getpid()))
    timer = threading.Timer(step[1], groups[step[0]].cores, [step[2]]) if step else None
    process = subprocess.Popen(command, stdout=subprocess.PIPE, preexec_fn=enter, text=True)
    timer and timer.start()
    cloud = threading.Thread(target=move_cloud, args=(process, groups["functions"]), daemon=True)
    cloud.start()
    lines = process.communicate()[0].splitlines()
    cloud.join()
    timer and timer.cancel()
    for group in groups.values():
        group.remove()
    if process.returncode:
        sys.exit(f"{command} failed")
    result = json.loads(lines[-1])
    seconds = result["total_seconds"]
    # The bill is the cloud's. The host is paid for as long as the run takes.
    return seconds, result["cost"]["usd"] + seconds / 3600 * HOST_HOUR_USD, result["model_digest"], result["helpers"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("eciton", type=Path)
    parser.add_argument("--load", type=int, default=0, help="busy processes beside the runs")
    parser.add_argument("--only", default="", help="workloads whose names have this")
    arguments = parser.parse_args()
    failed = False
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(arguments.load)]
    try:
        for workload in (one for one in WORKLOADS if arguments.only in one[0]):
            found, digests = {}, set()
            for functions in [*FIXED, "auto"]:
                seconds, usd, digest, helpers = run(arguments.eciton.resolve(), workload, functions)
                found[functions] = (seconds, usd)
                digests.add(digest)
            value = {name: 1 / (seconds * usd) for name, (seconds, usd) in found.items()}
            best, quickest = max(FIXED, key=lambda one: value[one]), min(FIXED, key=lambda one: found[one][0])
            share, pace = value["auto"] / value[best], found[quickest][0] / found["auto"][0]
            failed |= share < 0.9 or len(digests) != 1
            shown = "  ".join(f"{name}: {seconds:.1f} s ${usd:.6f} V {value[name]:.1f}" for name, (seconds, usd) in found.items())
            print(f"load {arguments.load}  {workload[0]}\n  {shown}\n  auto ended at {helpers['last']} ({helpers['why']}): "
                  f"V {share:.2f} of {best} functions, pace {pace:.2f} of {quickest}; {len(digests)} digest", flush=True)
    finally:
        for process in busy:
            process.kill()
    return 1 if failed else 0


sys.exit(main())
