#!/usr/bin/env python3
"""Makes each call of the operating system fail once that a run does on its files, and looks at what is left.

    python3 tests/io/failing.py ECITON [--every K] [--modes eio,enospc,short] [--of NAME]

ECITON is the binary. For each scenario, `failing.c` counts the calls on files below a folder of the
scenario's own (open, read, write, fsync, rename, mkdir, mmap ...); then call 1 fails, then call 2, and so on
(`--every K`: each K-th, from a first that the seed ECITON_SEED draws). After each failure:

* the program ends by itself, without a panic or a signal, and names a file or says what it lacks;
* exit status 0 means the digest of the run that nothing disturbed;
* `eciton resume`, or the same command where there is no checkpoint, ends with that digest. A model that was
  kept because only a later file could not be written makes predictions.

Prints one line for each scenario and mode, and one for each violation; exits with 1 if there is one.
"""
import argparse, json, os, random, shutil, subprocess, sys, tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
TRAIN = ["train", "cora", "--epochs", "3", "--threads", "2", "--hidden", "4", "--json", "--set", "checkpoint.every=1"]
TABLE = "".join(f"{i},{i % 3},{(7 * i) % 11}\n" for i in range(60))


def table(folder):
    (folder / "data").mkdir()
    (folder / "data/edges.csv").write_text("source,target\n" + "".join(f"{i},{(i * 7 + 1) % 60}\n" for i in range(60)))
    (folder / "data/features.csv").write_text("id,a,b\n" + TABLE)
    (folder / "data/labels.csv").write_text("id,class\n" + "".join(f"{i},{i % 3}\n" for i in range(60)))


def nothing(_):
    pass


# What is prepared, the command, and what goes on after a failure. Paths are relative to the scenario's folder.
OWN = ["train", "data", "--epochs", "3", "--threads", "2", "--hidden", "4", "--json", "--out", "run", "--set", "checkpoint.every=1"]
SCENARIOS = {
    "train": (nothing, [*TRAIN, "--out", "run"], "run"),
    "own-data": (table, OWN, "run"),
    "convert": (table, ["data", "convert", "data", "store"], None),
}


class Campaign:
    def __init__(self, eciton, work):
        self.eciton, self.work, self.violations = eciton, work, 0
        self.library = work / "failing.so"
        compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
        if compiler is None:
            sys.exit("no C compiler: cc, gcc and clang were looked for")
        subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", self.library, HERE / "failing.c", "-ldl"], check=True)

    def run(self, folder, command, at=None, mode="eio"):
        environment = {**os.environ, "ECITON_CACHE_DIR": str(self.work / "kernels")}
        log = folder.parent / "log"
        log.unlink(missing_ok=True)
        if at is not None:
            environment |= {"LD_PRELOAD": str(self.library), "FAILING_UNDER": str(folder), "FAILING_AT": str(at),
                            "FAILING_MODE": mode, "FAILING_LOG": str(log)}
        done = subprocess.run([self.eciton, *command], cwd=folder, env=environment, capture_output=True, text=True, timeout=60)
        lines = log.read_text().splitlines() if log.exists() else []
        return done, lines

    def fresh(self, prepare):
        folder = self.work / "scenario"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        prepare(folder)
        return folder

    def digest(self, done, folder, run):
        """What the command made, as one text that equal results share."""
        if run is None:
            files = sorted(path for path in (folder / "store").rglob("*") if path.is_file())
            return [(str(path.relative_to(folder)), path.read_bytes()) for path in files]
        return json.loads((folder / run / "summary.json").read_text())["model_digest"]

    def violated(self, what, done, text):
        self.violations += 1
        print(f"VIOLATED {what}: {text}\n  status {done.returncode}\n  " + done.stderr.strip()[-600:].replace("\n", "\n  "), flush=True)

    def scenario(self, name, modes, every, draw):
        prepare, command, run = SCENARIOS[name]
        folder = self.fresh(prepare)
        done, lines = self.run(folder, command, at=0)
        if done.returncode != 0:
            sys.exit(f"{name} fails undisturbed: {done.stderr}")
        wanted, calls = self.digest(done, folder, run), int(lines[-1].split()[1])
        for mode in modes:
            tried = refused = resumed = kept = 0
            for at in range(draw.randint(1, every), calls + 1, every):
                folder = self.fresh(prepare)
                done, lines = self.run(folder, command, at, mode)
                what = f"{name}, {mode}, {lines[0] if lines else f'call {at}'}"
                tried += 1
                if done.returncode < 0 or "panicked" in done.stderr or done.returncode == 101:
                    self.violated(what, done, "no error in words")
                    continue
                if done.returncode == 0:
                    if self.digest(done, folder, run) != wanted:
                        self.violated(what, done, "another result with exit status 0")
                    continue
                refused += 1
                if not done.stderr.strip() and '"error"' not in done.stdout:
                    self.violated(what, done, "a failure without a word")
                if run is not None and (folder / run / "model.safetensors").exists():
                    kept += 1
                    done, _ = self.run(folder, ["predict", run, "--out", "scores.csv"])
                    if done.returncode != 0:
                        self.violated(what, done, "the model that was kept makes no predictions")
                    continue
                again = command
                if run is not None and any((folder / f"{run}.checkpoint").glob("*.safetensors")):
                    again, resumed = ["resume", run, "--json"], resumed + 1
                done, _ = self.run(folder, again)
                if done.returncode != 0:
                    self.violated(what, done, f"`eciton {' '.join(again)}` does not go on")
                elif self.digest(done, folder, run) != wanted:
                    self.violated(what, done, f"`eciton {' '.join(again)}` ends with another result")
            print(f"{name}, {mode}: {tried} of {calls} calls failed, {refused} ended the command, {resumed} of these went on from a checkpoint, {kept} kept a model", flush=True)


def main():
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    arguments.add_argument("eciton")
    arguments.add_argument("--every", type=int, default=1)
    arguments.add_argument("--modes", default="eio,enospc,short")
    arguments.add_argument("--of", choices=SCENARIOS, action="append")
    given = arguments.parse_args()
    seed = os.environ.get("ECITON_SEED", "1")
    print(f"ECITON_SEED={seed}")
    with tempfile.TemporaryDirectory() as work:
        campaign = Campaign(str(Path(given.eciton).resolve()), Path(work).resolve())
        for name in given.of or SCENARIOS:
            campaign.scenario(name, given.modes.split(","), given.every, random.Random(f"{seed} {name}"))
    sys.exit(1 if campaign.violations else 0)


main()
