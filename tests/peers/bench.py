"""What bench.sh runs: times Eciton and its peers from outside, taking turns, and prints a table. Standard library only."""
import json
import os
import platform
import re
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ECITON = os.environ.get("ECITON", "target/release/eciton")
PEERS = os.environ.get("PEERS", "../shared/peers")
VENV = os.environ.get("PEERS_VENV", "")
PLANETOID = os.environ.get("PLANETOID", "../shared/data/planetoid")
DATA = os.environ.get("PEERS_DATA", os.path.join(tempfile.gettempdir(), "peers", "data"))
OUT = os.environ.get("OUT", "target/peers.jsonl")
ROUNDS, THREADS, SEED = (int(os.environ.get(n, d)) for n, d in (("ROUNDS", 2), ("THREADS", 2), ("SEED", 0)))
SHORT, LONG = 200, int(os.environ.get("LONG", 1200))
LIMIT_S = 600
notes = []


def busy_s():
    """Processor seconds of the whole machine, and of this process's finished children."""
    fields = list(map(int, open("/proc/stat").readline().split()[1:9]))
    own = os.times()
    everyone = fields[0] + fields[1] + fields[2] + fields[5] + fields[6] + fields[7]
    return everyone / os.sysconf("SC_CLK_TCK"), own.user + own.system + own.children_user + own.children_system


def measure(command, environment):
    """Runs once: wall clock, peak memory by GNU time, the last JSON object of its output."""
    with tempfile.NamedTemporaryFile("r") as report:
        before, start = busy_s(), time.perf_counter()
        done = subprocess.run(["/usr/bin/time", "-v", "-o", report.name, *command], env={**os.environ, **environment},
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=LIMIT_S)
        wall_s, after = time.perf_counter() - start, busy_s()
        if done.returncode:
            raise RuntimeError(f"exit {done.returncode}: {' | '.join(done.stderr.strip().splitlines()[-2:])}")
        peak = int(re.search(r"Maximum resident set size \(kbytes\): (\d+)", report.read())[1]) * 1024
    last = json.loads([line for line in done.stdout.splitlines() if line.startswith("{")][-1])
    others = max(0.0, (after[0] - before[0]) - (after[1] - before[1])) / wall_s
    return dict(wall_s=wall_s, peak_memory_bytes=peak, others=others, said=last)


class Eciton:
    """Told to evaluate once, after the last epoch, as the peers are."""

    def __init__(self, name, source, cache):
        self.name, self.source, self.cache = name, source, cache
        self.folder = tempfile.mkdtemp(prefix="eciton-bench-")

    def command(self, epochs):
        return [ECITON, "train", *self.source, "--epochs", str(epochs), "--eval-every", "0", "--threads", str(THREADS), "--seed", str(SEED),
                "--json", "--out", os.path.join(self.folder, "run")]

    def run(self, epochs):
        shutil.rmtree(os.path.join(self.folder, "run"), ignore_errors=True)
        if self.cache == "empty":
            shutil.rmtree(os.path.join(self.folder, "cache"), ignore_errors=True)
        figures = measure(self.command(epochs), {"ECITON_CACHE_DIR": os.path.join(self.folder, "cache", "kernels"), "NO_COLOR": "1"})
        said = figures["said"]
        return {**figures, "accuracy": said["test_accuracy"], "own_epoch_s": said["epoch_seconds_median"]}

    def warm(self):
        self.run(SHORT)

    def end(self):
        shutil.rmtree(self.folder, ignore_errors=True)


class Peer:
    def __init__(self, name, script, dataset, arguments=()):
        self.name, self.script, self.dataset, self.arguments = name, script, dataset, list(arguments)

    def command(self, epochs):
        return [f"{VENV}/bin/python", f"{PEERS}/{self.script}", f"{DATA}/{self.dataset}", *self.arguments, "--threads", str(THREADS), "--epochs", str(epochs)]

    def run(self, epochs):
        figures = measure(self.command(epochs), {"GLIBC_TUNABLES": os.environ.get("PEERS_TUNABLES", "")})
        said = figures["said"]
        self.version = said["version"]
        return {**figures, "accuracy": said["test_acc"], "own_epoch_s": said["epoch_s"]["median"]}

    def warm(self):
        """Reads its libraries from disk once."""
        self.run(4)

    def end(self):
        pass


def contestants(dataset):
    ours = []
    if dataset == "cora":
        ours += [Eciton("eciton, built-in Cora", [], "warm"), Eciton("eciton, the same, empty cache", [], "empty")]
    if os.path.isfile(f"{PLANETOID}/ind.{dataset}.x"):
        ours += [Eciton("eciton", [PLANETOID, "--name", dataset], "warm")]
    elif dataset != "cora":
        notes.append(f"eciton on {dataset}: no {PLANETOID}/ind.{dataset}.x (PLANETOID)")
    theirs = [Peer("torch by hand, sparse features", "pyg_bench.py", dataset, ["--backend", "fused_sx"]),
              Peer("PyG, csr", "pyg_bench.py", dataset, ["--backend", "csr"]), Peer("DGL", "dgl_bench.py", dataset)]
    if not os.path.isfile(f"{DATA}/{dataset}/meta.json"):
        notes.append(f"peers on {dataset}: no {DATA}/{dataset}; make it with {PEERS}/prepare.py (PEERS_DATA)")
        theirs = []
    if not VENV or not os.path.isfile(f"{VENV}/bin/python"):
        notes.append("peers: no Python environment (PEERS_VENV); their set-up is in " + PEERS + "/README.md")
        theirs = []
    return ours + theirs


def attempt(one, epochs, dataset, lines):
    try:
        figures = one.run(epochs)
    except (OSError, RuntimeError, ValueError, KeyError, IndexError, subprocess.TimeoutExpired) as e:
        note = f"{one.name} on {dataset}: {e}"
        if note not in notes:
            notes.append(note)
        return None
    record = dict(name=one.name, dataset=dataset, epochs=epochs, command=shlex.join(one.command(epochs)), **figures)
    lines.write(json.dumps(record) + "\n")
    lines.flush()
    return figures


def rows(dataset, lines):
    field = contestants(dataset)
    ready = []
    for one in field:
        try:
            one.warm()
            ready.append(one)
        except (OSError, RuntimeError, ValueError, KeyError, IndexError, subprocess.TimeoutExpired) as e:
            notes.append(f"{one.name} on {dataset}: absent: {e}")
    short, long = {id(o): [] for o in ready}, {id(o): [] for o in ready}
    for _ in range(ROUNDS):
        for one in ready:
            for into, epochs in ((short, SHORT), (long, LONG)):
                if figures := attempt(one, epochs, dataset, lines):
                    into[id(one)].append(figures)
    for one in ready:
        s, l = short[id(one)], long[id(one)]
        if not s:
            continue
        median = lambda name, of: statistics.median(f[name] for f in of)
        span = lambda v: f"{statistics.median(v):.3g} ({min(v):.3g} to {max(v):.3g})"
        outside = [(b["wall_s"] - a["wall_s"]) / (LONG - SHORT) * 1e3 for a, b in zip(s, l)]
        yield [one.name, dataset, span(outside) if outside else "-", f"{median('own_epoch_s', s) * 1e3:.3g}", span([f["wall_s"] for f in s]),
               f"{median('peak_memory_bytes', s) / 2**20:.0f}", f"{median('accuracy', s):.4f}", f"{max(f['others'] for f in s + l):.2f}"], one
    for one in field:
        one.end()


def machine():
    model = next((l.split(":")[1].strip() for l in open("/proc/cpuinfo") if l.startswith("model name")), platform.processor())
    memory = int(open("/proc/meminfo").readline().split()[1]) / 2**20
    return f"{len(os.sched_getaffinity(0))} cores of {model}, {memory:.0f} GiB, Linux {platform.release()}, load {os.getloadavg()[0]:.2f} at the start"


def main():
    if not os.path.isfile(ECITON):
        sys.exit(f"{ECITON}: no such file; cargo build --release makes it, ECITON names another")
    if not os.path.isfile("/usr/bin/time"):
        sys.exit("/usr/bin/time is missing: apt-get install time")
    datasets = sys.argv[1:] or ["cora", "citeseer", "pubmed"]
    version = subprocess.run([ECITON, "--version"], capture_output=True, text=True).stdout.strip()
    print(f"Machine: {machine()}  \nDate: {time.strftime('%Y-%m-%d')}; {version}; {THREADS} threads, seed {SEED} (peers: 0), {ROUNDS} rounds taking turns\n")
    print(f"| what | data set | epoch from outside, ms (least to most) | epoch by its own clock, ms | process start to end, {SHORT} epochs, s | peak memory, MiB "
          "| test accuracy | others |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    commands, versions = [], []
    os.makedirs(os.path.dirname(OUT) or ".", exist_ok=True)
    with open(OUT, "a") as lines:
        for dataset in datasets:
            for cells, one in rows(dataset, lines):
                print("| " + " | ".join(cells) + " |", flush=True)
                commands.append(f"{one.name}: {shlex.join(one.command(SHORT))}")
                if hasattr(one, "version"):
                    versions.append(one.version)
    print(f"\nEpoch from outside: (T({LONG}) - T({SHORT})) / {LONG - SHORT}, wall clock.")
    print("\n".join(f"Version: {v}" for v in dict.fromkeys(versions)))
    print("\n".join(f"Command: {c}" for c in commands))
    for note in dict.fromkeys(notes):
        print(f"Note: {note}")


if __name__ == "__main__":
    main()
