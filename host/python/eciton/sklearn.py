"""Estimators with the interface of scikit-learn, and `fit(adjacency, features, labels)` as in scikit-network.

Learning is transductive: `fit` reads the whole graph, and unlabelled rows (-1, NaN) are predicted. `cross_val_score` of
scikit-learn selects rows and cannot be used; pass masks, or `split="folds:5/0"`.

>>> import eciton
>>> from eciton.sklearn import GraphClassifier
>>> g = eciton.datasets.cora()
>>> model = GraphClassifier(epochs=20).fit(g.edge_index, None, g.y)
>>> model.predict().shape
(2708,)
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

try:
    from sklearn.base import BaseEstimator
except ImportError as error:  # pragma: no cover
    raise ImportError("eciton.sklearn requires scikit-learn: pip install scikit-learn") from error

from eciton._graph import Graph, graph
from eciton._measures import pair_probabilities
from eciton._run import History, Run
from eciton._train import train


class _Estimator(BaseEstimator):  # type: ignore[misc,unused-ignore]
    """Base class of all estimators, with the arguments of `train` and a fitted run."""

    run_: Run
    graph_: Graph
    _task: str | None = None

    def __init__(
        self,
        model: str = "gcn",
        hidden: int = 16,
        layers: int = 2,
        dropout: float = 0.5,
        epochs: int = 200,
        lr: float = 0.01,
        weight_decay: float | None = None,
        patience: int | None = None,
        split: str | None = None,
        random_state: int = 0,
        directed: bool | None = None,
        settings: dict[str, Any] | None = None,
        verbose: bool = False,
    ) -> None:
        self.model = model
        self.hidden = hidden
        self.layers = layers
        self.dropout = dropout
        self.epochs = epochs
        self.lr = lr
        self.weight_decay = weight_decay
        self.patience = patience
        self.split = split
        self.random_state = random_state
        self.directed = directed
        self.settings = settings
        self.verbose = verbose

    def _fit(self, adjacency: Any, features: Any, labels: Any, masks: dict[str, Any]) -> None:
        if isinstance(adjacency, Graph):
            self.graph_ = adjacency
        else:
            self.graph_ = graph(adjacency, features, labels, directed=self.directed, **masks)
        self.run_ = train(
            self.graph_,
            model=self.model,
            hidden=self.hidden,
            layers=self.layers,
            dropout=self.dropout,
            epochs=self.epochs,
            lr=self.lr,
            weight_decay=self.weight_decay,
            patience=self.patience,
            split=self.split,
            seed=self.random_state,
            task=self._task,
            embeddings=False,
            progress=self.verbose,
            settings=self.settings,
        )

    def _fitted(self) -> Run:
        if not hasattr(self, "run_"):
            raise ValueError(f"{type(self).__name__} is not fitted; call fit first")
        return self.run_

    def _other(self, adjacency: Any, features: Any) -> Graph | None:
        if adjacency is None:
            return None
        return adjacency if isinstance(adjacency, Graph) else graph(adjacency, features, directed=self.directed)

    @property
    def history_(self) -> History:
        """Loss and metrics of every epoch."""
        return self._fitted().history

    @property
    def embedding_(self) -> NDArray[np.float32]:
        """Last hidden layer [nodes, width]."""
        return self._fitted().embeddings()


class GraphClassifier(_Estimator):
    """Classifier of nodes. Labels are class numbers or texts, with -1 for unlabelled nodes."""

    _task = "classification"

    def fit(
        self,
        adjacency: Any,
        features: Any = None,
        labels: Any = None,
        *,
        train_mask: Any = None,
        val_mask: Any = None,
        test_mask: Any = None,
    ) -> GraphClassifier:
        """Train on the nodes of `train_mask`, or without it on a random part of the labelled nodes."""
        self._fit(adjacency, features, labels, {"train": train_mask, "val": val_mask, "test": test_mask})
        self.classes_ = np.array(self.run_.classes) if self.run_.classes else np.arange(self.graph_.num_classes)
        self.labels_ = self.run_.predict()
        return self

    def fit_predict(self, adjacency: Any, features: Any = None, labels: Any = None, **masks: Any) -> NDArray[Any]:
        """Train, and return the predicted class of every node."""
        return self.fit(adjacency, features, labels, **masks).labels_

    def predict(self, adjacency: Any = None, features: Any = None) -> NDArray[Any]:
        """Return the predicted class of every node of a graph [default: the graph of `fit`]."""
        return self._fitted().predict(self._other(adjacency, features))

    def predict_proba(self, adjacency: Any = None, features: Any = None) -> NDArray[np.float64]:
        """Return probabilities [nodes, classes]."""
        return self._fitted().predict_proba(self._other(adjacency, features))

    def score(self, part: str = "test") -> float:
        """Return the accuracy on a part of the split: train, val or test."""
        return self._fitted().score("accuracy", part)


class GraphRegressor(_Estimator):
    """Regressor of nodes, with one or several target columns. Unknown values are NaN."""

    _task = "regression"

    def fit(
        self,
        adjacency: Any,
        features: Any = None,
        values: Any = None,
        *,
        train_mask: Any = None,
        val_mask: Any = None,
        test_mask: Any = None,
    ) -> GraphRegressor:
        """Train on the nodes of `train_mask`, or without it on a random part of the nodes with known values."""
        self._fit(adjacency, features, values, {"train": train_mask, "val": val_mask, "test": test_mask})
        return self

    def predict(self, adjacency: Any = None, features: Any = None) -> NDArray[Any]:
        """Return the predicted values of every node."""
        return self._fitted().predict(self._other(adjacency, features))

    def score(self, part: str = "test") -> float:
        """Return R^2 on a part of the split: train, val or test."""
        return self._fitted().score("r2", part)


class LinkPredictor(_Estimator):
    """Predictor of links. 10 % of the links are held out for test, and 5 % for validation."""

    _task = "link-prediction"

    def fit(self, adjacency: Any, features: Any = None) -> LinkPredictor:
        """Train on the links of a graph."""
        self._fit(adjacency, features, None, {})
        return self

    def predict_proba(self, pairs: Any) -> NDArray[np.float64]:
        """Return the probability of a link for each pair of nodes [n, 2]."""
        return pair_probabilities(self._fitted().embeddings(), pairs)

    def predict(self, pairs: Any) -> NDArray[np.bool_]:
        """Return true for each pair of nodes with a predicted link."""
        return self.predict_proba(pairs) > 0.5

    def score(self, part: str = "test") -> float:
        """Return the ROC-AUC of held-out links against an equal number of unlinked pairs."""
        return self._fitted().score(part=part)
