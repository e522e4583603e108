"""Estimators, kernels and the examples in docstrings."""

from __future__ import annotations

import doctest
import importlib
import unittest
from pathlib import Path

import numpy as np

import eciton
from common import Case, planted, train

KERNELS = Path(__file__).parents[2] / "guest-kernels" / "prebuilt"


class Estimators(Case):
    def test_classes(self) -> None:
        self.skip_without("sklearn")
        from sklearn.base import clone

        from eciton.sklearn import GraphClassifier

        pairs, x, group, names, _, part = planted()
        both = np.concatenate([pairs, pairs[:, ::-1]]).T.copy()
        estimator = clone(GraphClassifier(hidden=8, epochs=60, random_state=1))
        self.assertEqual(estimator.get_params()["hidden"], 8)
        with self.assertRaisesRegex(ValueError, "not fitted"):
            estimator.predict()
        found = estimator.fit_predict(both, x, names[group], train_mask=part == "train")
        self.assertEqual(found.shape, (60,))
        self.assertGreater(estimator.score(), 0.8)
        self.assertEqual(estimator.classes_.tolist(), names.tolist())
        self.assertEqual(estimator.embedding_.shape, (60, 8))
        self.assertEqual(len(estimator.history_["loss"]), 60)
        self.assertEqual(estimator.predict_proba(both, x).shape, (60, 3))

    def test_numbers_and_links(self) -> None:
        self.skip_without("sklearn")
        from eciton.sklearn import GraphRegressor, LinkPredictor

        pairs, x, *_ = planted()
        both = np.concatenate([pairs, pairs[:, ::-1]]).T.copy()
        regressor = GraphRegressor(epochs=30).fit(both, x, x[:, 0] * 2.5)
        self.assertEqual(regressor.predict().shape, (60,))
        self.assertLessEqual(regressor.score(), 1)
        links = LinkPredictor(epochs=20, dropout=0.0).fit(both, x)
        self.assertEqual(links.predict([[0, 1], [2, 50]]).dtype, bool)
        self.assertGreater(links.score(), 0.3)


class Kernels(Case):
    def test_a_kernel_of_ones_own(self) -> None:
        kernel = eciton.Kernel(KERNELS / "linear.wasm")
        self.assertIn("out-features", [attribute.name for attribute in kernel.attributes])
        self.assertEqual(train("cora", kernels={"linear": kernel}).digest, train("cora").digest)
        bad = self.folder / "bad.wasm"
        bad.write_bytes(b"\0asm\1\0\0\0")
        with self.assertRaisesRegex(ValueError, "bad.wasm"):
            eciton.Kernel(bad)
        with self.assertRaises(OSError):
            eciton.Kernel(self.folder / "none.wasm")


class Examples(unittest.TestCase):
    def test_docstrings(self) -> None:
        tried = 0
        for name in (
            "eciton",
            "eciton._graph",
            "eciton._train",
            "eciton._run",
            "eciton._sweep",
            "eciton.callbacks",
            "eciton.datasets",
            "eciton.sklearn",
        ):
            try:
                module = importlib.import_module(name)
            except ImportError as error:
                print(f"{name}: skipped: {error}")
                continue
            found = doctest.testmod(module, extraglobs={"eciton": eciton}, optionflags=doctest.ELLIPSIS)
            self.assertEqual(found.failed, 0, name)
            tried += found.attempted
        self.assertGreater(tried, 15)


if __name__ == "__main__":
    unittest.main()
