"""Writes run folders, checkpoints and a half-done sweep with one version of Eciton.

    python3 make.py ECITON FOLDER

FOLDER holds `data/` and the recipes. Each run is trained twice: to its end, as `NAME`, and killed after a few
epochs, as `NAME-part.checkpoint`. `NAME.json` and `NAME.csv` have what ECITON itself makes of the first: its digest and
metrics, and the first rows of its predictions. Paths in the written files become relative to FOLDER, and the
checkpoints' digest of `config.toml` follows; nothing else is changed.
"""

import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys

CLASS = ["--set", "run.numeric_class=portable-1"]   # every processor has it
OWNED = ["digits", "--model", "mlp", "--hidden", "8", "--layers", "3", "--batch", "512", "--micro", "4", "--lanes", "3",
         "--workers", "3", "--epochs", "8", "--schedule", "2bw", "--set", "workers.owner=worker"]
# What is trained, and after how many epochs the second training is killed (None: it is not made).
RUNS = {
    "gcn": (["gcn.toml"], 7),
    "sage": (["data/graph", "--model", "sage", "--hidden", "8", "--sampler", "neighbours", "--batch", "18", "--micro", "2",
              "--fan-out", "4,3", "--epochs", "40"], 6),
    "char-lm": (["char-lm.toml", "--lanes", "2"], 3),
    "owned": (OWNED, 3),
    "leaky-relu": (["data/graph", "--model", "mlp", "--hidden", "8", "--set", "model.activation=leaky-relu", "--epochs", "40"], 6),
    "columns": (["data/rows.csv", "--model", "mlp", "--hidden", "8", "--set", "data.normalise_features=columns",
                 "--epochs", "40"], None),
    "links": (["data/graph", "--task", "link-prediction", "--model", "gcn", "--hidden", "8", "--set", "links.embedding=4",
               "--epochs", "60"], 9),
}


def main() -> None:
    program, folder = str(pathlib.Path(sys.argv[1]).resolve()), pathlib.Path(sys.argv[2]).resolve()
    os.chdir(folder)
    os.environ["ECITON_PROGRAM"] = program   # of the workers
    os.environ["ECITON_SIMD"] = "portable"

    def run(*line: str) -> str:
        done = subprocess.run([program, *line], capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{line}: {done.stderr}")
        return done.stdout

    def killed(line: list[str], wanted: str, times: int) -> None:
        process = subprocess.Popen([program, *line], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        for text in process.stdout:
            times -= json.loads(text)["event"] == wanted
            if times == 0:
                process.kill()
        assert process.wait() != 0, f"{line} ended before it was killed"

    for name, (line, after) in RUNS.items():
        for old in [name, f"{name}-part.checkpoint"]:
            shutil.rmtree(old, ignore_errors=True)
        for suffix in ["json", "csv"]:
            pathlib.Path(f"{name}.{suffix}").unlink(missing_ok=True)
        summary = json.loads(run("train", *line, *CLASS, "--json", "--out", name).splitlines()[-1])
        metrics = {key: json.loads(run("eval", name, "--json"))[key] for key in ["val_metric", "test_metric"]}
        pathlib.Path(f"{name}.json").write_text(json.dumps({"model_digest": summary["model_digest"], **metrics}) + "\n")
        run("predict", name, "--out", f"{name}.csv")
        table = pathlib.Path(f"{name}.csv").read_text().splitlines(keepends=True)
        pathlib.Path(f"{name}.csv").write_text("".join(table[:31]))   # the first rows
        if after is not None:
            every = ["--set", "checkpoint.every=2", "--set", "checkpoint.keep=1"]
            killed(["train", *line, *CLASS, *every, "--json", "--out", f"{name}-part"], "epoch", after)
    shutil.rmtree("sweep", ignore_errors=True)
    whole = json.loads(run("sweep", "tries.toml", "--json", "--out", "sweep").splitlines()[-1])
    digests = [row["model_digest"] for row in whole["rows"]]
    pathlib.Path("sweep.json").write_text(json.dumps({"model_digests": digests}) + "\n")
    shutil.rmtree("sweep")
    killed(["sweep", "tries.toml", "--json", "--workers", "1", "--out", "sweep"], "trial", 3)

    for left in list(folder.rglob(".*.partial-*")):   # of the killed processes
        shutil.rmtree(left)
    for path in folder.rglob("*"):
        if path.name == "lock" or path.suffix == ".svg":
            path.unlink()
        elif path.suffix in (".toml", ".json", ".jsonl"):
            path.write_text(path.read_text().replace(f"{folder}/", ""))
    for checkpoint in folder.rglob("*.checkpoint"):
        relocate(checkpoint)


def relocate(checkpoint: pathlib.Path) -> None:
    """Gives the checkpoints in a folder the digest of their `config.toml`, in which a path has changed."""
    digest = hashlib.sha256((checkpoint / "config.toml").read_bytes()).hexdigest()
    for path in checkpoint.glob("*.safetensors"):
        content = path.read_bytes()
        length = int.from_bytes(content[:8], "little")
        metadata = json.loads(content[8 : 8 + length])["__metadata__"]
        if "mark" not in metadata:
            continue
        old = json.loads(metadata["mark"])["records"][0]
        mark = metadata["mark"].replace(old, digest)
        total = hashlib.sha256(f"{metadata['digest']}\n{mark}".encode()).hexdigest()
        path.write_bytes(content.replace(old.encode(), digest.encode()).replace(metadata["sum"].encode(), total.encode()))


main()
