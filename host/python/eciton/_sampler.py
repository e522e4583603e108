"""Samplers of micro-batches, for models of other systems."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eciton import _eciton
from eciton._graph import Graph, opened
from eciton._train import _settings


@dataclass(frozen=True)
class Sample:
    """A micro-batch: rows of the graph, numbered from 0, and the edges between them.

    The arrays of a sampler `neighbours` begin with the targets, followed by the rows at one hop, and so on.
    """

    #: Number of the update, counted from 1, and of the micro-batch within the update, counted from 0.
    round: int
    micro: int
    #: Node of the graph of each row, as an index into `graph.x` and `graph.y`.
    vertices: NDArray[np.int64]
    #: Rows of the source and of the target of each edge, as `[2, edges]`.
    edge_index: NDArray[np.int64]
    #: Rows that count in the loss. They are empty for a data set of many graphs, and in link prediction.
    targets: NDArray[np.int64]
    #: Number of rows within h hops of the targets, for each h.
    hops: NDArray[np.int64]
    #: Weight of each edge in sums over neighbours. `None` if all weights are 1.
    edge_weight: NDArray[np.float32] | None
    #: Loss weight of each target. `None` if all weights are equal.
    loss_weight: NDArray[np.float32] | None
    #: Number of the graph of each row. `None` for a single graph.
    batch: NDArray[np.int64] | None
    #: Rows of the ends of each labelled edge, or of each pair in the loss of link prediction, as `[2, pairs]`. `None` for
    #: labels of nodes and graphs.
    edge_label_index: NDArray[np.int64] | None = None
    #: In link prediction, 1 for pairs that are linked, 0 for others. `None` for other tasks.
    edge_label: NDArray[np.float32] | None = None
    #: Number of each labelled edge, as an index into `graph.labelled_edges` and `graph.y`. `None` for other tasks.
    labelled: NDArray[np.int64] | None = None


class Sampler:
    """An iterator over the micro-batches of some epochs, which `eciton.sampler` returns.

    It draws the next updates on all cores while the caller uses the current ones.
    """

    def __init__(self, known: Graph, samples: _eciton.Samples, epochs: int, pyg: bool) -> None:
        self.graph = known
        self.epochs = epochs
        self._samples = samples
        # The arrays of the whole graph are copied once.
        self._rows = (known.x, known.y) if pyg else None
        #: Number of updates per epoch, and of micro-batches per update.
        self.updates, self.micro, self._threads = samples.sizes()

    def __len__(self) -> int:
        return self.updates * self.micro * self.epochs

    def __iter__(self) -> Iterator[Any]:
        last = self.updates * self.epochs + 1
        with ThreadPoolExecutor(1) as ahead:
            end = min(1 + self._threads, last)
            drawn = ahead.submit(self._samples.draw, 1, end)
            while True:
                samples = drawn.result()
                if end < last:
                    first, end = end, min(end + self._threads, last)
                    drawn = ahead.submit(self._samples.draw, first, end)
                    more = True
                else:
                    more = False
                for found in samples:
                    sample = Sample(**found)
                    yield sample if self._rows is None else _data(sample, *self._rows)
                if not more:
                    return


def _data(sample: Sample, x: NDArray[np.float32], y: NDArray[Any]) -> Any:
    """Convert a micro-batch of a graph with features `x` and labels `y` to PyG's `Data`."""
    import torch  # pyright: ignore[reportMissingImports]
    from torch_geometric.data import Data  # pyright: ignore[reportMissingImports]

    def tensor(values: NDArray[Any] | None) -> Any:
        return None if values is None else torch.from_numpy(np.ascontiguousarray(values))

    of_nodes = sample.batch is None and sample.labelled is None
    data = Data(
        x=tensor(x[sample.vertices]),
        edge_index=tensor(sample.edge_index),
        y=tensor(y[sample.vertices]) if of_nodes else None,
        n_id=tensor(sample.vertices),
        edge_weight=tensor(sample.edge_weight),
    )
    if sample.edge_label_index is not None:
        labels = sample.edge_label if sample.labelled is None else y[sample.labelled]
        data.edge_label_index, data.edge_label = tensor(sample.edge_label_index), tensor(labels)
    data.targets, data.loss_weight, data.batch = tensor(sample.targets), tensor(sample.loss_weight), tensor(sample.batch)
    return data


def sampler(
    data: Any,
    model: str | os.PathLike[str] | None = None,
    *,
    epochs: int = 1,
    pyg: bool = False,
    recipe: str | os.PathLike[str] | None = None,
    settings: Mapping[str, Any] | None = None,
    **more: Any,
) -> Sampler:
    """Return an iterator over the micro-batches that a training with these settings reads.

    `data` is a `Graph`, or an argument of `eciton.graph`. The settings are those of `eciton.train`, above all `sampler`,
    `batch`, `fan_out`, `micro`, `layers` (the number of hops) and `seed`. The iterator ends after `epochs` epochs. It
    yields a `Sample` with NumPy arrays for each micro-batch, or a `torch_geometric.data.Data` if `pyg` is true.

    Raises ValueError for settings that do not fit the data, with the message of the command `eciton sample`.

    >>> samples = eciton.sampler("cora", sampler="neighbours", batch=64, fan_out=[10, 5])
    >>> [len(sample.targets) for sample in samples]
    [64, 64, 12]
    """
    known = opened(data, more, settings)
    if epochs < 1:
        raise ValueError(f"epochs: found {epochs}, expected 1 or more")
    asked = _settings(known, model, recipe, None, more, settings)
    return Sampler(known, _eciton.samples(known._data, asked), epochs, pyg)
