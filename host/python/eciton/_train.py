"""Functions `eciton.train`, `eciton.resume` and `eciton.plan`."""

from __future__ import annotations

import difflib
import inspect
import json
import math
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from eciton import _eciton
from eciton._graph import Graph, graph, opened
from eciton._kernel import Kernel
from eciton._progress import Callback, Listener
from eciton._run import Run, load, remember
from eciton._settings import DOCUMENTATION, KEYS

def toml(value: Any) -> str:
    """Return a value as TOML text."""
    if hasattr(value, "tolist"):
        value = value.tolist()  # NumPy array or number
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
    raise TypeError(f"{value!r}: expected a number, text, bool, or a list or dictionary of these")


def _settings(
    data: Graph,
    model: Any,
    recipe: Any,
    kernels: Mapping[str, Any] | None,
    named: Mapping[str, Any],
    settings: Mapping[str, Any] | None,
) -> _eciton.Settings:
    """Return the settings of a run on `data`.

    Keys of `named` are arguments of `train`, or recipe keys. Later settings win: arguments, then `settings`, then
    the recipe keys in `named`.
    """
    source = name = None
    if recipe is not None:
        recipe = os.fspath(recipe)
        if recipe.endswith(".toml"):
            source, recipe = recipe, None
        else:
            source, name = (data.name if data.source is None else data.source), data.name
    paths = {
        kernel: one.path if isinstance(one, Kernel) else os.fspath(one) for kernel, one in (kernels or {}).items()
    }
    found: list[tuple[str, str]] = []
    arguments = [(key, value) for key, value in named.items() if key in KEYS and value is not None]
    recipe_keys = [(key, value) for key, value in named.items() if key not in KEYS]
    for key, value in [*arguments, *(settings or {}).items(), *recipe_keys]:
        if key not in KEYS and "." not in key:
            near = difflib.get_close_matches(key, [*KEYS, "model", "recipe", "kernels", "out", "seeds", "callbacks"], 1)
            advice = f"; did you mean {near[0]!r}?" if near else ""
            raise TypeError(f'unknown argument {key!r}{advice} (recipe keys are passed as **{{"section.key": value}})')
        found.append((KEYS.get(key, key), toml(value)))
    start = (source, name, recipe, None if model is None else os.fspath(model))
    return _eciton.Settings(start, list(paths.items()), found, data._data)


def train(
    data: Any,
    model: str | os.PathLike[str] | None = None,
    *,
    recipe: str | os.PathLike[str] | None = None,
    seeds: int = 1,
    kernels: Mapping[str, Any] | None = None,
    out: str | os.PathLike[str] | None = None,
    embeddings: bool = False,
    hosts: int | None = None,
    callbacks: Sequence[Callback] | Callback = (),
    progress: bool | None = None,
    settings: Mapping[str, Any] | None = None,
    **more: Any,
) -> Run:
    """Train a model on a graph and return the run.

    `data` is a `Graph`, or an argument of `eciton.graph`. `model` is gcn (the default), sage, gin, sgc, appnp, gat,
    gatv2, mlp, or a model file. `recipe` selects the recommended settings of a model for a known data set, or names a
    recipe file. The settings below are arguments. Every other recipe key is passed as
    `**{"optimiser.schedule": "cosine"}`, or for type checkers as `settings={"optimiser.schedule": "cosine"}`.
    A setting that is `None` has its default value, which is that of the command `eciton train`.

    `seeds` is the number of times to train, with the random seeds `seed`, `seed + 1`, ... `out` is the run folder, which
    must not exist or be empty. Without `out` the folder is temporary and is deleted with the run. `callbacks` are called
    after each epoch. An exception of a callback, or Ctrl-C, stops the run after the epoch and is raised here. If `out`
    is given, the run folder is written, and `eciton.resume` continues the run. `hosts` is the number of processes that
    share the training. Without `rendezvous`, they are started on this machine. With it, the others are started by
    `eciton host`. `data` must then have a name or a path that all of them can read. `progress` shows a progress
    bar [default: only on a terminal or in a notebook].

    Raises ValueError for settings that do not fit the data, with the message of the command `eciton train`.

    >>> run = eciton.train("cora", hidden=8, epochs=10, seed=1, progress=False, **{"optimiser.lr": 0.02})
    >>> bool(run.history["loss"][-1] < run.history["loss"][0])
    True
    """
    known = opened(data, more, settings)
    if seeds < 1:
        raise ValueError(f"seeds: found {seeds}, expected 1 or more")
    asked = _settings(known, model, recipe, kernels, more, settings)
    temporary = tempfile.mkdtemp(prefix="eciton-") if out is None else None
    folder = Path(temporary) / "run" if temporary is not None else Path(os.fspath(out or ""))
    listener = Listener(callbacks, progress)
    if hosts is not None and not 1 <= hosts <= 32:
        raise ValueError(f"hosts: found {hosts}, expected a number from 1 to 32")
    shared = (hosts, [sys.executable, "-m", "eciton"]) if hosts is not None and hosts > 1 else None
    if shared is not None and known.source is None:
        raise ValueError("hosts: the graph is in memory; pass the name or the path of a data set that all hosts can read")
    try:
        _eciton.train(known._data, asked, (folder, seeds, embeddings), shared, listener, bool(listener.callbacks))
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
    """Resume an interrupted run from its last checkpoint.

    The final model is bit-identical to that without interruption.

    `data` is the graph of the run, if that was in memory. `force` resumes the run even if data, kernels or processor
    have changed, as far as possible. A finished run is returned unchanged.

    Raises FileNotFoundError if there is no checkpoint.
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
    recipe: str | os.PathLike[str] | None = None,
    kernels: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    **more: Any,
) -> dict[str, Any]:
    """Return the work and memory of a run without training: layers, stages, tasks, bytes by purpose.

    The arguments are those of `train`.

    >>> eciton.plan("cora", hidden=8)["memory"]["total_bytes"] > 0
    True
    """
    known = opened(data, more, settings)
    asked = _settings(known, model, recipe, kernels, more, settings)
    found: dict[str, Any] = json.loads(_eciton.plan(known._data, asked))
    return found


def _document(function: Any) -> None:
    """Add the arguments that set recipe keys to the signature and docstring of a function."""
    own = inspect.signature(function)
    *first, last = own.parameters.values()
    named = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None) for name in KEYS]
    function.__signature__ = own.replace(parameters=[*first, *named, last])
    function.__doc__ = inspect.cleandoc(function.__doc__) + "\n\n" + DOCUMENTATION


_document(train)
_document(plan)
