"""Finished runs: results, predictions and weights of a run folder."""

from __future__ import annotations

import json
import os
import shutil
import warnings
import weakref
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from eciton import _arrays as arrays
from eciton import _eciton, _measures, _picture
from eciton._graph import Graph, _ids, graph

if TYPE_CHECKING:
    import pandas
    import polars

#: File in a run folder with the class names, and with the task if the data set was in memory.
BESIDES = "python.json"


class History(Mapping[str, NDArray[Any]]):
    """Table: columns of equal length, by name."""

    def __init__(self, columns: Mapping[str, NDArray[Any]]) -> None:
        self._columns = dict(columns)

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __repr__(self) -> str:
        rows = len(next(iter(self._columns.values()), []))
        return f"<eciton.History of {rows:,} rows: {', '.join(self._columns)}>"

    def to_pandas(self) -> pandas.DataFrame:
        """Convert to a pandas data frame."""
        import pandas

        return pandas.DataFrame(
            {name: list(column) if column.dtype == object else column for name, column in self.items()}
        )

    def to_polars(self) -> polars.DataFrame:
        """Convert to a polars data frame."""
        import polars

        return polars.DataFrame(
            {name: column.tolist() if column.dtype == object else column for name, column in self.items()}
        )


class Run:
    """Finished training run. `eciton.train`, `eciton.resume` and `eciton.load` return it."""

    def __init__(self, folder: Path, data: Graph | None = None, temporary: str | None = None) -> None:
        summary, config, versions = _eciton.open_run(folder)
        #: Path of the run folder.
        self.folder = Path(folder)
        #: Content of `summary.json`.
        self.summary: dict[str, Any] = json.loads(summary)
        #: All settings, by section of a recipe.
        self.config: dict[str, Any] = json.loads(config)
        #: Versions, digests of kernels, and numeric class.
        self.versions: dict[str, Any] = json.loads(versions)
        self._data = data
        self._besides = _read_besides(self.folder)
        self._classes: list[str] | None = self._besides["classes"]
        if temporary is not None:
            weakref.finalize(self, shutil.rmtree, temporary, True)

    @property
    def graph(self) -> Graph:
        """Graph that the run was trained on.

        Raises ValueError if the graph was in memory and was not passed to `load`.
        """
        if self._data is None:
            place = self.config["data"]
            if place["source"] == _eciton.IN_MEMORY:
                raise ValueError("the graph of the run was in memory; pass it as eciton.load(path, graph)")
            loops = {"keep": True, "drop": False}.get(place.get("self_loops"))
            self._data = graph(place["source"], name=place.get("name"), self_loops=loops)
        return self._data

    @property
    def seeds(self) -> list[int]:
        """Random seeds that were trained. Results of a single model are those of the first seed."""
        return [int(seed["seed"]) for seed in self.summary["seeds"]]

    @property
    def digest(self) -> str:
        """SHA-256 of the weights. Equal digests mean bit-identical weights."""
        return str(self.summary["model_digest"])

    @property
    def task(self) -> str:
        """Task: `classification`, `multi-label`, `regression` or `link-prediction`."""
        wanted = self.config["data"].get("task") or self._besides["task"]
        return str(wanted) if wanted else self.graph.task

    @property
    def classes(self) -> list[str] | None:
        """Names of the classes, or `None` if classes have no names."""
        return self._classes

    @property
    def metrics(self) -> dict[str, float | None]:
        """Metric on `train`, `val` and `test` of the stored model."""
        first = self.summary["seeds"][0]
        kept = first["best"] if first.get("kept_epoch") and first["best"] else first["metrics"]
        return {"train": kept["train"], "val": kept["validation"], "test": kept["test"]}

    @property
    def quality(self) -> dict[str, Any] | None:
        """Majority class, macro F1, metrics by class and confusion matrix, as in `summary.json`, or `None`."""
        found: dict[str, Any] | None = self.summary["seeds"][0].get("quality")
        return found

    @property
    def bill(self) -> dict[str, Any] | None:
        """Use of billed services, or `None` if the run used none."""
        found: dict[str, Any] | None = self.summary.get("bill")
        return found

    @property
    def history(self) -> History:
        """Loss, metrics and times of every epoch of every seed. Metrics are NaN if an epoch was not evaluated."""
        _eciton.check_results(self.folder)
        lines = (self.folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        reports = [json.loads(line) for line in lines if line]

        def figure(value: Any) -> float:
            return float("nan") if value is None else float(value)

        columns: dict[str, NDArray[Any]] = {
            "seed": np.array([report["seed"] for report in reports], np.uint64),
            "epoch": np.array([report["epoch"] for report in reports], np.int64),
        }
        for name in ("loss", "seconds", "lr"):
            columns[name] = np.array([figure(report.get(name)) for report in reports])
        for part in ("train", "val", "test"):
            columns[part] = np.array([figure(report.get(f"{part}_metric")) for report in reports])
        return History(columns)

    @property
    def ids(self) -> NDArray[Any]:
        """Ids of the rows of predictions."""
        return self._scores(None, False)[2]

    def _scores(
        self, data: Any, embeddings: bool
    ) -> tuple[NDArray[np.float32], NDArray[np.float32] | None, NDArray[Any]]:
        """Return scores (embeddings for link prediction), the last hidden layer, and ids."""
        if data is None and not embeddings:
            stored = self.folder / "predictions.npz"
            if stored.is_file() and self.config["data"].get("task") != "link-prediction":
                _eciton.check_results(self.folder)
                with np.load(stored) as arrays:
                    if "scores" in arrays:
                        return arrays["scores"], None, arrays["ids"]
        scores, rows, ids, _ = _eciton.predict(self.folder, self._shown(data), embeddings)
        return scores, rows, _ids(ids, len(scores))

    def _known(self, data: Any) -> Graph | None:
        if isinstance(data, (str, os.PathLike)):
            # Columns are matched by the names of the training data, and labels are optional.
            return Graph(_eciton.open(os.fspath(data), None, None, self.folder, None, None))
        if data is not None:
            return data if isinstance(data, Graph) else graph(data)
        in_memory = self.config["data"]["source"] == _eciton.IN_MEMORY
        return self.graph if in_memory or self._data is not None else None

    def _shown(self, data: Any) -> _eciton.Data | None:
        """Return the data set for prediction, or `None` for the data set of the run, which is read again."""
        known = self._known(data)
        return None if known is None else known._data

    def scores(self, data: Any = None) -> NDArray[np.float32]:
        """Return the output of the last layer [rows, columns], before softmax or sigmoid.

        For regression: the predictions.

        `data` is another graph with the same features [default: the graph of the run].
        """
        self._no_links("scores", "embeddings() and predict_proba(pairs=...)")
        return self._scores(data, False)[0]

    def predict_proba(self, data: Any = None, *, pairs: Any = None) -> NDArray[np.float64]:
        """Return probabilities [rows, classes or labels], or for link prediction one per node pair in `pairs` [n, 2].

        >>> import eciton
        >>> run = eciton.train("cora", epochs=5, progress=False)
        >>> float(run.predict_proba().sum(axis=1).round(6).min())
        1.0
        """
        if self.task == "link-prediction":
            if pairs is None:
                raise TypeError(
                    "predict_proba: link prediction requires pairs=[[source, target], ...] with row numbers of nodes"
                )
            return _measures.pair_probabilities(self.embeddings(data), pairs)
        if pairs is not None:
            raise TypeError(f"pairs: the task of this run is {self.task}, not link prediction; omit pairs")
        if self.task == "regression":
            raise TypeError("predict_proba: regression has no probabilities; call predict()")
        return _measures.probabilities(self.scores(data), self.task)

    def predict(self, data: Any = None) -> NDArray[Any]:
        """Return predictions in the order of `ids`.

        These are class names or numbers [rows], binary labels [rows, labels], or values.
        """
        self._no_links("predict", "predict_proba(pairs=...)")
        found = _measures.decided(self.scores(data), self.task)
        if self.task == "classification" and self._classes is not None:
            found = np.array(self._classes, object)[found]
        return found

    def embeddings(self, data: Any = None) -> NDArray[np.float32]:
        """Return the last hidden layer [rows, width]; for link prediction, the rows whose inner products are scores."""
        if self.task == "link-prediction":
            return self._scores(data, True)[0]
        rows = self._scores(data, True)[1]
        if rows is None:
            raise ValueError("embeddings: a model with one layer has no hidden layer; train with layers=2 or more")
        return rows

    def score(self, metric: str | None = None, part: str = "test", data: Any = None) -> float:
        """Return a metric of the model on a part of the split: `train`, `val` or `test`.

        `metric`: accuracy, balanced-accuracy, f1-macro, f1-micro, mean-absolute-error, root-mean-squared-error or r2
        [default: the metric of the run]. Raises ValueError if the part is empty.
        """
        if metric is None or metric == self.summary["metric"]:
            if data is None:
                found = self.metrics.get(part) if part in self.metrics else _measures.no_part(part)
            else:
                measured = json.loads(_eciton.evaluate(self.folder, self._shown(data)))
                found = measured[{"val": "validation"}.get(part, part)]
            if found is None:
                raise ValueError(f"score: the part {part!r} is empty, or the metric is undefined there")
            return float(found)
        labels, decided = self._part(part, data)
        return _measures.measured(metric, labels, decided, self.task)

    def confusion(self, part: str = "test", data: Any = None) -> NDArray[np.int64]:
        """Return the confusion matrix [classes, classes]: true classes in rows, predicted classes in columns."""
        if self.task != "classification":
            raise TypeError(f"confusion: the task of this run is {self.task}, expected classification")
        labels, decided = self._part(part, data)
        return _measures.confusion(labels, decided, int(self._scores(data, False)[0].shape[1]))

    def _part(self, part: str, data: Any) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return labels and predictions of the rows of a part."""
        self._no_links("score", "score() with the run's own metric")
        known = self._known(data) or self.graph
        drawn = self.config["data"].get("split")
        if drawn is not None:
            raise ValueError(
                "score: data.split defined the parts; other metrics require train=, val= and test= of eciton.graph"
            )
        rows = known.split.get(part)
        rows = _measures.no_part(part) if rows is None else rows
        if len(rows) == 0:
            raise ValueError(f"score: the part {part!r} is empty")
        return known.y[rows], _measures.decided(self.scores(data), self.task)[rows]

    def table(self, data: Any = None) -> History:
        """Return a table with a row per node, graph or labelled edge.

        The columns are `id` (for edges `source` and `target`), `predicted`, `label`, `part`, and for classification `p(NAME)` of each class.
        """
        known = self._known(data) or self.graph
        scores, _, ids = self._scores(data, False)
        ends = known.labelled_edges
        columns: dict[str, NDArray[Any]] = {"id": ids}
        if ends is not None:
            columns = {"source": known.ids[ends[0]], "target": known.ids[ends[1]]}
        columns["predicted"] = self.predict(data)
        part = np.full(len(ids), "", object)
        for name, rows in known.split.items():
            part[rows] = name
        if self.task == "classification":
            names = self._classes or [str(number) for number in range(scores.shape[1])]
            label = np.array([*names, None], object)[known.y] if self._classes else known.y
            columns |= {"label": label, "part": part}
            found = _measures.probabilities(scores, self.task)
            columns |= {f"p({name})": found[:, at] for at, name in enumerate(names)}
            return History(columns)
        if columns["predicted"].ndim == 2:
            several = columns.pop("predicted")
            columns |= {f"predicted {at}": several[:, at] for at in range(several.shape[1])}
        return History(columns | {"part": part})

    def state_dict(self, layout: str = "eciton", seed: int | None = None) -> dict[str, NDArray[np.float32]]:
        """Return the weights as a dictionary of arrays by name.

        `layout`: "eciton" (as in the run folder), or "pyg" for a model of PyG layers. The names of "pyg" are those of a
        `torch.nn.ModuleList` `convs` of GCNConv, SAGEConv, GATConv, GATv2Conv or GINConv; `to_torch` returns tensors.
        A warning is issued if PyG would compute different results on the edges that were passed to `eciton.graph`. Then
        pass `run.graph.edge_index` (and `run.graph.edge_features`) to PyG's model.
        """
        found = _eciton.weights(self.folder, self.seeds[0] if seed is None else seed)
        if layout == "eciton":
            return found
        if layout == "pyg":
            from eciton import _pyg

            state = _pyg.state_dict(found, self.config["model"])
            if self._data is not None or self.config["data"]["source"] != _eciton.IN_MEMORY:
                data = self.graph._data
                kinds = _pyg.kinds(found, self.config["model"])
                weighted = self.config["model"].get("edge_weights") is not None
                edges, loops = data.num_edges, data.num_self_loops
                for text in _pyg.differences(kinds, weighted, data.edge_counts(), edges, loops):
                    warnings.warn(text, stacklevel=2)
            return state
        raise ValueError(f"layout: found {layout!r}, expected eciton or pyg")

    def to_torch(self, layout: str = "pyg") -> dict[str, Any]:
        """Return the weights as PyTorch tensors, for `load_state_dict`."""
        import torch  # pyright: ignore[reportMissingImports]

        return {
            name: torch.from_numpy(np.ascontiguousarray(values)) for name, values in self.state_dict(layout).items()
        }

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Copy the run folder to `path`, which must not exist."""
        target = Path(os.fspath(path))
        if target.exists():
            raise FileExistsError(f"{arrays.clean(target)} already exists; choose another path")
        shutil.copytree(self.folder, target)
        return target

    def _no_links(self, asked: str, instead: str) -> None:
        if self.task == "link-prediction":
            raise TypeError(f"{asked}: not available for link prediction; call {instead}")

    def __repr__(self) -> str:
        return f"<eciton.Run {', '.join(f'{name} {text}' for name, text in _picture.rows(self))}>"

    def _repr_html_(self) -> str:
        return _picture.picture(self)


def load(path: str | os.PathLike[str], data: Any = None) -> Run:
    """Load a finished run from its folder. `data` is the graph of the run, if that was in memory.

    Raises FileNotFoundError if the folder has no run, and ValueError if the run is damaged.
    """
    known = data if data is None or isinstance(data, Graph) else graph(data)
    return Run(Path(os.fspath(path)), known)


def remember(folder: Path, data: Graph) -> None:
    """Write class names and task of a data set in memory to the run folder, if the run folder exists."""
    if (data.classes is not None or data.source is None) and (folder / "summary.json").is_file():
        besides = {"classes": data.classes, "task": data.task}
        (folder / BESIDES).write_text(json.dumps(besides), encoding="utf-8")


def _read_besides(folder: Path) -> dict[str, Any]:
    file = folder / BESIDES
    if not file.is_file():
        return {"classes": None, "task": None}
    found = json.loads(file.read_text(encoding="utf-8"))
    classes = found.get("classes") if isinstance(found, dict) else 0
    named = classes is None or (isinstance(classes, list) and all(isinstance(name, str) for name in classes))
    if not named or found.get("task") not in (None, "classification", "multi-label", "regression"):
        raise ValueError(
            f"{arrays.clean(file)}: expected class names and a task; to use class numbers, delete the file"
        )
    return {"classes": classes, "task": found.get("task")}
