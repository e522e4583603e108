"""`eciton.train`, `eciton.resume` and `eciton.plan`."""

from __future__ import annotations

import difflib
import json
import math
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from eciton import _eciton
from eciton._graph import Graph, graph
from eciton._kernel import Kernel
from eciton._progress import Callback, Listener
from eciton._run import Run, load, remember

#: Arguments of `train` that stand for a key of a recipe.
KEYS = {
    "layers": "model.layers",
    "hidden": "model.hidden",
    "dropout": "model.dropout",
    "epochs": "run.epochs",
    "lr": "optimiser.lr",
    "weight_decay": "optimiser.weight_decay",
    "seed": "run.seed",
    "metric": "run.metric",
    "patience": "run.patience",
    "batch": "batch.rows",
    "sampler": "batch.sampler",
    "fan_out": "batch.fan_out",
    "threads": "run.threads",
    "task": "data.task",
    "split": "data.split",
    "split_seed": "data.split_seed",
    "class_weights": "model.class_weights",
    "optimiser": "optimiser.kind",
}


def toml(value: Any) -> str:
    """A value as TOML writes it."""
    if hasattr(value, "tolist"):
        value = value.tolist()  # of NumPy: an array, or one number
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else {math.inf: "inf", -math.inf: "-inf"}.get(value, "nan")
    if isinstance(value, Kernel):
        value = value.path
    if isinstance(value, (str, os.PathLike)):
        return json.dumps(os.fspath(value), ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(str(key))} = {toml(one)}" for key, one in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(toml(one) for one in value) + "]"
    raise TypeError(f"{value!r}: a setting is a number, a text, a truth value, or a list or dictionary of these")


def words(
    data: Graph,
    model: Any,
    recipe: Any,
    kernels: Mapping[str, Any] | None,
    named: Mapping[str, Any],
    settings: Mapping[str, Any],
) -> list[str]:
    """The words after `eciton train` that ask for these settings."""
    found: list[str] = []
    if recipe is not None:
        text = os.fspath(recipe)
        if text.endswith(".toml"):
            found.append(text)
        else:
            found += [data.name if data.source is None else data.source, "--name", data.name, "--recipe", text]
    if model is not None:
        found += ["--model", os.fspath(model)]
    for name, kernel in (kernels or {}).items():
        found += ["--kernel", f"{name}={kernel.path if isinstance(kernel, Kernel) else os.fspath(kernel)}"]
    for name, value in named.items():
        if value is not None:
            found += ["--set", f"{KEYS[name]}={toml(value)}"]
    for key, value in settings.items():
        if "." not in key:
            near = difflib.get_close_matches(key, [*KEYS, "model", "recipe", "kernels", "out", "seeds", "callbacks"], 1)
            advice = f"; did you mean {near[0]!r}?" if near else ""
            raise TypeError(f'{key!r} is no argument{advice} Keys of a recipe are given as **{{"section.key": value}}')
        found += ["--set", f"{key}={toml(value)}"]
    return found


def train(
    data: Any,
    model: str | os.PathLike[str] | None = None,
    *,
    recipe: str | os.PathLike[str] | None = None,
    layers: int | Sequence[Mapping[str, Any]] | None = None,
    hidden: int | None = None,
    dropout: float | None = None,
    epochs: int | None = None,
    lr: float | None = None,
    weight_decay: float | Sequence[float] | None = None,
    optimiser: str | None = None,
    seed: int | None = None,
    seeds: int = 1,
    metric: str | None = None,
    patience: int | None = None,
    batch: int | None = None,
    sampler: str | None = None,
    fan_out: Sequence[int] | None = None,
    threads: int | None = None,
    task: str | None = None,
    split: str | None = None,
    split_seed: int | None = None,
    class_weights: str | Sequence[float] | None = None,
    kernels: Mapping[str, Any] | None = None,
    out: str | os.PathLike[str] | None = None,
    embeddings: bool = False,
    callbacks: Sequence[Callback] | Callback = (),
    progress: bool | None = None,
    settings: Mapping[str, Any] | None = None,
    **more: Any,
) -> Run:
    """Trains a model on a graph.

    `data` is a `Graph`, or what `eciton.graph` takes. `model`: gcn (as by default), sage, gin, sgc, appnp, gat, gatv2,
    mlp, or a model file; `recipe`: the usual settings of a model for a known data set, or a recipe file. Everything
    else that a recipe may say: `**{"optimiser.schedule": "cosine"}`, or for type checkers `settings={...}` with the
    same keys. What is left out is as by the command `eciton`.
    A setting that is `None` is left out as well.

    `seeds` trains so often, with `seed`, `seed + 1`, ... `out` is the run folder, where nothing may lie yet; without
    it the folder is a temporary one, which goes with the run. `callbacks` are called after each epoch; one that raises
    ends the run, and what it raised comes out of here. So does Ctrl-C. The epoch that has begun meanwhile is done then,
    a run folder that has a name is written, and `eciton.resume` goes on with it. `progress`: by default where somebody
    looks on.

    Raises ValueError for settings and data that do not suit, in the words of the command.

    >>> run = eciton.train("cora", hidden=8, epochs=10, seed=1, progress=False, **{"optimiser.lr": 0.02})
    >>> bool(run.history["loss"][-1] < run.history["loss"][0])
    True
    """
    known = data if isinstance(data, Graph) else graph(data)
    given = {
        "layers": layers,
        "hidden": hidden,
        "dropout": dropout,
        "epochs": epochs,
        "lr": lr,
        "weight_decay": weight_decay,
        "optimiser": optimiser,
        "seed": seed,
        "metric": metric,
        "patience": patience,
        "batch": batch,
        "sampler": sampler,
        "fan_out": fan_out,
        "threads": threads,
        "task": task,
        "split": split,
        "split_seed": split_seed,
        "class_weights": class_weights,
    }
    if seeds < 1:
        raise ValueError(f"seeds: {seeds}; train at least once")
    asked = _eciton.Settings(words(known, model, recipe, kernels, given, {**(settings or {}), **more}), known._data)
    temporary = tempfile.mkdtemp(prefix="eciton-") if out is None else None
    folder = Path(temporary) / "run" if temporary is not None else Path(os.fspath(out or ""))
    listener = Listener(callbacks, progress)
    try:
        _eciton.train(known._data, asked, (folder, seeds, embeddings), listener, bool(listener.callbacks))
    except BaseException:
        remember(folder, known)
        if temporary is not None:
            _remove(temporary)
        raise
    finally:
        listener.close()
    remember(folder, known)
    return Run(folder, known, temporary)


def _remove(folder: str) -> None:
    import shutil

    shutil.rmtree(folder, ignore_errors=True)


def resume(
    run: str | os.PathLike[str],
    data: Any = None,
    *,
    force: bool = False,
    callbacks: Sequence[Callback] | Callback = (),
    progress: bool | None = None,
) -> Run:
    """Goes on with a run that was stopped or killed, from its last checkpoint, to the bits it would have had.

    `data` is the graph that it trained on, where that was in memory. `force`: go on though data, kernels or processor
    are not what they were, where that can be. A run that has finished comes back as it is.

    Raises FileNotFoundError where there is no checkpoint.
    """
    known = data if data is None or isinstance(data, Graph) else graph(data)
    listener = Listener(callbacks, progress)
    folder = Path(os.fspath(run))
    try:
        _eciton.resume(folder, None if known is None else known._data, force, listener, bool(listener.callbacks))
    finally:
        listener.close()
    if known is not None:
        remember(folder, known)
    return load(folder, known)


def plan(
    data: Any,
    model: str | os.PathLike[str] | None = None,
    *,
    settings: Mapping[str, Any] | None = None,
    **more: Any,
) -> dict[str, Any]:
    """What a training would do and hold, without training: layers, stages, tasks, bytes by purpose.

    Takes what `train` takes for model and settings.

    >>> eciton.plan("cora", hidden=8)["memory"]["total_bytes"] > 0
    True
    """
    known = data if isinstance(data, Graph) else graph(data)
    recipe, kernels = more.pop("recipe", None), more.pop("kernels", None)
    named = {key: more.pop(key) for key in list(more) if key in KEYS}
    asked = _eciton.Settings(words(known, model, recipe, kernels, named, {**(settings or {}), **more}), known._data)
    found: dict[str, Any] = json.loads(_eciton.plan(known._data, asked))
    return found
