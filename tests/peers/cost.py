"""Compares predicted with counted GB-seconds and dollars of sweeps on emulated functions.

    python3 tests/peers/cost.py target/release/eciton --data ../shared/data/planetoid [--repeats 3] [--load 0]

Six sweeps that differ in data set, memory size and number of functions. Before each one, `eciton cost sweep --pilot`
predicts; then the sweep runs on the emulator, whose times are virtual. Prints one table of signed errors (predicted
over counted, less 1); of several repeats, the one of the median. With --load N, N busy processes run beside.
`eciton` finds the trainer as usual (ECITON_TRAINER, or `trainer` beside it).
"""

import argparse
import json
import multiprocessing
import os
import statistics
import subprocess
import tempfile

# Data set, recipe, epochs, trials' seeds, MB, functions.
CONFIGURATIONS = [
    ("cora", "cora/gcn", 100, 8, 512, 2),
    ("cora", "cora/gcn", 100, 16, 1769, 16),
    ("citeseer", "citeseer/gcn", 100, 8, 1769, 8),
    ("citeseer", "citeseer/gcn", 50, 8, 3008, 2),
    ("pubmed", "pubmed/gcn", 50, 4, 512, 2),
    ("pubmed", "pubmed/gcn", 50, 8, 3008, 8),
]


def spin():
    while True:
        pass


def last(text):
    for line in reversed(text.splitlines()):
        try:
            return json.loads(line)
        except ValueError:
            continue
    raise SystemExit(f"no JSON in the output:\n{text}")


def command(folder, *words):
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(words)}\n{done.stdout}{done.stderr}")
    return last(done.stdout)


def one(eciton, source, configuration):
    data, recipe, epochs, seeds, memory, functions = configuration
    with tempfile.TemporaryDirectory() as folder:
        convert = [eciton, "data", "convert", source, "store", "--name", data]
        subprocess.run(convert, cwd=folder, check=True, capture_output=True)
        with open(os.path.join(folder, "tries.toml"), "w", encoding="utf-8") as file:
            file.write(f'recipe = "{recipe}"\ndata = "store"\nseeds = {seeds}\n[grid]\n"model.hidden" = [16, 64]\n')
        line = ["tries.toml", "--executor", "emulated", "--memory", str(memory), "--functions", str(functions)]
        line += ["--set", f"run.epochs={epochs}", "--json"]
        predicted = command(folder, eciton, "cost", "sweep", *line, "--pilot")
        counted = command(folder, eciton, "sweep", *line)["spent"]
    usage, bill = predicted["usage"], counted["bill"]
    gb = memory / 1024 / 1e3
    reads = usage["store"]["gets"] + usage["store"]["heads"]
    exact = (usage["invocations"], usage["cold_starts"], usage["store"]["puts"], reads) == (
        bill["invocations"],
        bill["cold_starts"],
        bill["store_writes"],
        bill["store_reads"],
    )
    work = (usage["gb_seconds"] - usage["init_ms"] * gb, bill["gb_seconds"] - bill["init_ms"] * gb)
    return {
        "GB-s": (usage["gb_seconds"], bill["gb_seconds"]),
        "GB-s without init": work,
        "init ms": (usage["init_ms"], bill["init_ms"]),
        "USD": (predicted["rows"][0]["usd"], counted["cost"]["usd"]),
        "seconds": (usage["seconds"], counted["seconds"]),
        "counts": exact,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("eciton")
    parser.add_argument("--data", required=True, help="the folder of Planetoid's files")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--load", type=int, default=0)
    arguments = parser.parse_args()
    busy = [multiprocessing.Process(target=spin, daemon=True) for _ in range(arguments.load)]
    for process in busy:
        process.start()
    print(f"load average before: {os.getloadavg()[0]:.1f}")
    columns = ["GB-s", "GB-s without init", "init ms", "USD", "seconds"]
    print("| data, MB, functions, trials | counts | " + " | ".join(columns) + " |")
    print("| --- | --- |" + " --- |" * len(columns))
    for configuration in CONFIGURATIONS:
        found = [one(os.path.abspath(arguments.eciton), os.path.abspath(arguments.data), configuration) for _ in range(arguments.repeats)]
        cells = []
        for column in columns:
            error = [run[column][0] / run[column][1] - 1 for run in found]
            middle = sorted(range(len(error)), key=error.__getitem__)[len(error) // 2]
            own, counted = found[middle][column]
            cells.append(f"{own:.4g} / {counted:.4g}: {statistics.median_high(error):+.1%}")
        data, _, _, seeds, memory, functions = configuration
        exact = "equal" if all(run["counts"] for run in found) else "DIFFERENT"
        print(f"| {data}, {memory}, {functions}, {2 * seeds} | {exact} | " + " | ".join(cells) + " |", flush=True)
    for process in busy:
        process.kill()


if __name__ == "__main__":
    main()
