"""Compares the defaults that follow from the data with other settings and with scikit-learn.

Writes small tables of scikit-learn and the image archive as .npz, and takes graphs from --graphs (the folder
`shared/data` of a checkout). Each set is trained with seeds 0 to 4 by `eciton train DATA` alone. --before names an
older binary, whose defaults are printed in a column of their own. Each --set adds its setting to all runs.
scikit-learn's models get the same rows of each part, and columns of mean 0 and deviation 1.

    pip install numpy scikit-learn
    python tests/peers/defaults.py --eciton target/release/eciton --graphs ../shared/data
"""

import argparse
import json
import subprocess
import tempfile
from pathlib import Path

import numpy as np
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
    return found


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
    tests = [seed["metrics"]["test"] for seed in summary["seeds"]]
    return float(np.mean(tests)), float(np.std(tests)), summary["total_seconds"]


def peers(data: Path, out: Path) -> list[float]:
    """Returns the test accuracy of logistic regression and of boosted trees on the parts of a run."""
    table, said = np.load(data), np.load(out / "predictions.npz", allow_pickle=True)
    parts = np.array([str(part) for part in said["parts"]])
    x, y = table["x"].reshape(len(table["x"]), -1), table["y"]
    known, test = np.isin(parts, ["train", "1"]), np.isin(parts, ["test", "3"])
    x = StandardScaler().fit(x[known]).transform(x)
    models = LogisticRegression(max_iter=2000), HistGradientBoostingClassifier()
    return [float(np.mean(model.fit(x[known], y[known]).predict(x[test]) == y[test])) for model in models]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--eciton", type=Path, required=True, help="the binary whose defaults are measured")
    parser.add_argument("--before", type=Path, help="an older binary")
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
        print("| data | before | defaults | seconds | baseline | logistic regression | boosted trees |")
        print("| --- | --- | --- | --- | --- | --- | --- |")
        for name, data in sets.items():
            if arguments.only and name not in arguments.only:
                continue
            cells = [name, "-"]
            if arguments.before:
                out = folder / f"before-{name}".replace(" ", "_")
                mean, deviation, _ = figures(train(arguments.before, data, out, [], arguments.seeds))
                cells[1] = f"{mean:.3f} ± {deviation:.3f}"
            out = folder / f"run-{name}".replace(" ", "_")
            summary = train(arguments.eciton, data, out, arguments.set, arguments.seeds)
            mean, deviation, seconds = figures(summary)
            majority = (summary["seeds"][0].get("quality") or {}).get("majority") or {}
            cells += [f"{mean:.3f} ± {deviation:.3f}", f"{seconds:.1f}", f"{majority.get('share', 0):.3f}"]
            cells += [f"{value:.3f}" for value in peers(data, out)] if name in tables else ["-", "-"]
            print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
