"""Trains GraphStorm and Eciton with their defaults on the same graphs, and prints both test accuracies.

Each FOLDER holds one graph in the layout of `../shared/peers/prepare.py` (indptr.npy, indices.npy, feat.npy, label.npy,
and the vertices of each part). GraphStorm's settings are those of its own example for a graph of one relation
(`gs_node_classification`, two GraphSAGE layers of 128 columns, 10 and 15 sampled neighbours, batches of 1,024), with
one trainer on this machine. DGL's newest wheel works only with torch 2.2.1, and GraphStorm from 0.5 on needs a newer torch:

    python3.11 -m venv gs
    gs/bin/pip install 'setuptools<70' dgl==2.1.0 torch==2.2.1 'numpy<2' 'pandas<2.3' 'pyarrow<17' scipy pyyaml pydantic \\
        torchdata==0.7.1 h5py scikit-learn ogb==1.3.6 packaging psutil transformers==4.48.0
    gs/bin/pip install --no-deps graphstorm==0.4.2
    gs/bin/python tests/peers/graphstorm_nodes.py --eciton target/release/eciton data/cora data/amazon_photo
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

CONFIG = """version: 1.0
gsf:
  basic: {{backend: gloo, verbose: false}}
  gnn:
    model_encoder_type: sage
    fanout: "15,10"
    num_layers: 2
    hidden_size: 128
    use_mini_batch_infer: false
  output: {{save_model_path: {out}}}
  hyperparam: {{dropout: 0.0, lr: 0.001, num_epochs: {epochs}, batch_size: 1024, eval_frequency: 100000, no_validation: false, wd_l2norm: 0}}
  input: {{restore_model_path: null}}
  node_classification:
    target_ntype: "_N"
    label_field: "label"
    node_feat_name: ["feat"]
    num_classes: {classes}
    multilabel: false
    eval_metric: ["accuracy"]
"""


def construct(source: Path, out: Path) -> int:
    """Writes a graph as GraphStorm's one partition, and returns the number of classes."""
    offsets, sources = np.load(source / "indptr.npy"), np.load(source / "indices.npy")
    features, labels = np.load(source / "feat.npy"), np.load(source / "label.npy")
    out.mkdir(parents=True)
    ids = np.arange(len(labels))
    pd.DataFrame({"id": ids, "feat": list(features), "label": labels}).to_parquet(out / "nodes.parquet")
    targets = np.repeat(ids, np.diff(offsets))
    pd.DataFrame({"src": sources.astype("i8"), "dst": targets}).to_parquet(out / "edges.parquet")
    split = {}
    for part, name in (("train", "train"), ("val", "valid"), ("test", "test")):
        pd.DataFrame({"id": np.load(source / f"{part}.npy")}).to_parquet(out / f"{part}.parquet")
        split[name] = str(out / f"{part}.parquet")
    label = {"label_col": "label", "task_type": "classification", "custom_split_filenames": split | {"column": ["id"]}}
    conf = {
        "version": "gconstruct-v0.1",
        "nodes": [{
            "node_id_col": "id", "node_type": "_N", "format": {"name": "parquet"},
            "files": [str(out / "nodes.parquet")],
            "features": [{"feature_col": "feat", "feature_name": "feat"}], "labels": [label],
        }],
        "edges": [{
            "source_id_col": "src", "dest_id_col": "dst", "relation": ["_N", "_E", "_N"],
            "format": {"name": "parquet"}, "files": [str(out / "edges.parquet")],
        }],
    }
    (out / "conf.json").write_text(json.dumps(conf))
    run([sys.executable, "-m", "graphstorm.gconstruct.construct_graph", "--conf-file", str(out / "conf.json"),
         "--output-dir", str(out / "graph"), "--graph-name", "g", "--num-parts", "1", "--num-processes", "1"])
    return int(labels.max()) + 1


def run(command: list[str], **more: object) -> str:
    """Runs a command, and returns its two outputs."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}\n{done.stdout[-4000:]}")
    return done.stdout


def graphstorm(source: Path, place: Path, seeds: int, epochs: int) -> tuple[list[float], float]:
    """Returns the test accuracy of each seed's model of best validation, and the seconds of one training."""
    classes = construct(source, place)
    (place / "train.yaml").write_text(CONFIG.format(out=place / "model", epochs=epochs, classes=classes))
    found, began = [], time.perf_counter()
    for _ in range(seeds):   # it takes no seed: each run differs
        said = run([sys.executable, "-m", "graphstorm.run.gs_node_classification", "--workspace", str(place),
                    "--num-trainers", "1", "--num-servers", "1", "--num-samplers", "0",
                    "--part-config", str(place / "graph/g.json"), "--cf", str(place / "train.yaml")], env=os.environ | {"OMP_NUM_THREADS": "2"})
        best = re.findall(r"[Bb]est test accuracy: ([0-9.]+)", said.replace("Best Test", "best test"))
        if not best:
            raise SystemExit(f"no test accuracy in what GraphStorm printed:\n{said[-3000:]}")
        found.append(float(best[-1]))
    return found, (time.perf_counter() - began) / seeds


def eciton(binary: Path, source: Path, place: Path, seeds: int) -> tuple[list[float], float]:
    """Returns the test accuracy of each seed's written model, and the seconds of one training."""
    said = run([str(binary), "train", str(source), "--seeds", str(seeds), "--json", "--out", str(place / "eciton")])
    summary = json.loads(said.splitlines()[-1])
    return [seed["metrics"]["test"] for seed in summary["seeds"]], summary["total_seconds"] / seeds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+", metavar="FOLDER")
    parser.add_argument("--eciton", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=30, help="of GraphStorm")
    arguments = parser.parse_args()
    print("| data | Eciton | seconds | GraphStorm | seconds |\n| --- | --- | --- | --- | --- |")
    for source in arguments.folders:
        with tempfile.TemporaryDirectory() as name:
            place = Path(name)
            cells = [source.name]
            for scores, seconds in (
                eciton(arguments.eciton.resolve(), source.resolve(), place, arguments.seeds),
                graphstorm(source.resolve(), place / "graphstorm", arguments.seeds, arguments.epochs),
            ):
                spread = statistics.pstdev(scores)
                cells += [f"{statistics.mean(scores):.3f} ± {spread:.3f}", f"{seconds:.1f}"]
            print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
