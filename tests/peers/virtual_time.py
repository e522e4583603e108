#!/usr/bin/env python3
"""GB-seconds of one sweep on different numbers of emulated functions, idle and under load.

    ECITON_TRAINER=target/worker/trainer python3 tests/peers/virtual_time.py target/release/eciton [--trials 60] [--load 4]

A bill in virtual time must not depend on the number of functions or on the load of this machine. Prints GB-seconds without
initialisation, the modelled seconds of the sweep and the digests' number. Exits with 1 if GB-seconds differ by more than 10 %.
"""
import argparse, json, os, subprocess, sys, tempfile, time
from pathlib import Path

SWEEP = 'recipe = "cora/gcn"\nseeds = {seeds}\n[grid]\n"model.hidden" = [16, 64]\n'


def sweep(eciton, folder, trials, functions):
    file, out = folder / "sweep.toml", folder / f"out-{functions}-{time.monotonic_ns()}"
    file.write_text(SWEEP.format(seeds=trials // 2))
    command = [eciton, "sweep", file, "--set", "run.epochs=100", "--executor", "emulated", "--functions", str(functions), "--out", out, "--json"]
    begun = time.monotonic()
    lines = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    took, result = time.monotonic() - begun, json.loads(lines[-1])
    spent, bill = result["spent"], result["spent"]["bill"]
    memory_gb = 1769 / 1024
    digests = tuple(row["model_digest"] for row in sorted(result["rows"], key=lambda row: row["trial"]))
    return bill["gb_seconds"] - bill["init_ms"] / 1e3 * memory_gb, bill["init_ms"], bill["cold_starts"], spent["seconds"], took, digests


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("eciton", type=Path)
    parser.add_argument("--trials", type=int, default=60)
    parser.add_argument("--load", type=int, default=4, help="busy processes of the loaded half")
    arguments = parser.parse_args()
    found, digests = [], set()
    with tempfile.TemporaryDirectory() as folder:
        for load in (0, arguments.load):
            busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(load)]
            try:
                for functions in (1, 4, 16, 60):
                    gb_s, init_ms, cold, modelled, took, digest = sweep(arguments.eciton.resolve(), Path(folder), arguments.trials, functions)
                    found.append(gb_s)
                    digests.add(digest)
                    print(f"load {load}  functions {functions:>2}  {gb_s:8.3f} GB-s without initialisation ({cold} cold, {init_ms:.0f} ms)  "
                          f"{modelled:7.2f} s modelled  {took:6.1f} s here  (load average {os.getloadavg()[0]:.1f})", flush=True)
            finally:
                for process in busy:
                    process.kill()
    spread = max(found) / min(found) - 1
    print(f"GB-seconds differ by {spread:.1%} at most; {len(digests)} set of digests")
    return 0 if spread <= 0.10 and len(digests) == 1 else 1


sys.exit(main())
