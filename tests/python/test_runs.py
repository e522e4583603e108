"""Trainings: callbacks, signals, threads, forks, folders, and what a run tells."""

from __future__ import annotations

import faulthandler
import os
import signal
import subprocess
import sys
import threading
import unittest

import numpy as np

import eciton
from common import Case, command, digest, folder, known, planted, train


def graph() -> eciton.Graph:
    return eciton.graph(planted()[0].T.copy(), directed=False, **known())


class Runs(Case):
    def test_results_that_were_changed_are_refused_with_the_name_of_the_file(self) -> None:
        run = train(graph(), epochs=4, out=self.folder / "r")
        for name, use in (("metrics.jsonl", lambda: run.history), ("predictions.npz", run.scores)):
            use()
            path = self.folder / "r" / name
            before = path.read_bytes()
            path.write_bytes(before[:-40] + bytes([before[-40] ^ 1]) + before[-39:])
            with self.assertRaisesRegex(ValueError, f"{name}: the content has the digest"):
                use()
            path.write_bytes(before)

    def test_what_a_run_tells(self) -> None:
        made = graph()
        run = train(made, epochs=20, hidden=8, seed=2, seeds=2, out=self.folder / "r")
        self.assertEqual(run.seeds, [2, 3])
        self.assertEqual(len(run.history["loss"]), 40)
        self.assertTrue(np.isfinite(run.history["val"]).all())
        self.assertEqual(run.folder, self.folder / "r")
        self.assertEqual(run.config["run"]["epochs"], 20)
        proba = run.predict_proba()
        np.testing.assert_allclose(proba.sum(axis=1), 1, atol=1e-12)
        self.assertEqual(np.array(run.classes)[proba.argmax(axis=1)].tolist(), run.predict().tolist())
        self.assertAlmostEqual(run.score(), run.metrics["test"])
        self.assertAlmostEqual(run.score("accuracy"), run.score())
        for part in ("train", "val", "test"):
            self.assertAlmostEqual(run.score("accuracy", part), run.metrics[part])
        counts = run.confusion()
        self.assertEqual(counts.sum(), 20)
        self.assertAlmostEqual(np.trace(counts) / 20, run.score())
        self.assertLessEqual(run.score("f1-macro"), 1)
        self.assertEqual(run.embeddings().shape, (60, 8))
        np.testing.assert_array_equal(run.scores(made), run.scores())
        self.assertEqual(sum(values.size for values in run.state_dict().values()), 5 * 8 + 8 + 8 * 3 + 3)
        again = eciton.load(run.save(self.folder / "copy"), made)
        self.assertEqual((again.digest, again.classes), (run.digest, run.classes))
        self.assertEqual(again.predict().tolist(), run.predict().tolist())
        with self.assertRaises(FileExistsError):
            run.save(self.folder / "copy")
        shown = run._repr_html_()
        self.assertIn("<svg", shown)
        self.assertNotIn("<script", shown)
        self.assertIn(run.digest[:16], repr(run))
        table = run.table()
        self.assertEqual(list(table)[:4], ["id", "predicted", "label", "part"])
        with self.assertRaisesRegex(ValueError, "in memory"):
            command_fails(self, "predict", str(self.folder / "r"))
            eciton.load(self.folder / "r").embeddings()
        alone = eciton.load(self.folder / "r")
        self.assertEqual(alone.predict().tolist(), run.predict().tolist())
        (self.folder / "r" / "python.json").write_text('{"classes": [1]}')
        with self.assertRaisesRegex(ValueError, "python.json: expected class names"):
            eciton.load(self.folder / "r")

    def test_hosts(self) -> None:
        one, three = (train("cora", epochs=4, intervals=4, hosts=hosts) for hosts in (None, 3))
        self.assertEqual(one.summary["model_digest"], three.summary["model_digest"])
        with self.assertRaisesRegex(ValueError, "the graph is in memory"):
            train(graph(), hosts=2)
        with self.assertRaisesRegex(ValueError, "hosts: found 33, expected a number from 1 to 32"):
            train("cora", hosts=33)

    def test_frames(self) -> None:
        self.skip_without("pandas")
        run = train(graph())
        frame = run.history.to_pandas()
        self.assertEqual(list(frame["epoch"]), [1, 2, 3, 4, 5])
        self.assertEqual(len(run.table().to_pandas()), 60)
        self.skip_without("polars")
        self.assertEqual(len(run.table().to_polars()), 60)

    def test_a_temporary_folder_goes_with_its_run(self) -> None:
        run = train(graph())
        place = run.folder
        self.assertTrue(place.is_dir())
        del run
        self.assertFalse(place.exists() or place.parent.exists())

    def test_settings(self) -> None:
        wanted = digest(
            "--epochs",
            "3",
            "--model",
            "sage",
            "--set",
            "optimiser.schedule=cosine",
            "--set",
            "model.aggregator=max",
            "--hidden",
            "8",
        )
        run = train(
            "cora", model="sage", epochs=3, hidden=8, **{"optimiser.schedule": "cosine", "model.aggregator": "max"}
        )
        self.assertEqual(run.digest, wanted)
        run = train(
            "cora",
            model="sage",
            epochs=3,
            hidden=8,
            settings={"optimiser.schedule": "cosine", "model.aggregator": "max"},
        )
        self.assertEqual(run.digest, wanted)
        layers = [{"width": 8}, {"dropout": 0.2}]
        wanted = digest("--epochs", "3", "--set", "model.layers=[{ width = 8 }, { dropout = 0.2 }]")
        self.assertEqual(train("cora", epochs=3, layers=layers).digest, wanted)
        self.assertEqual(train("cora", epochs=3, recipe="gat").digest, digest("--epochs", "3", "--recipe", "gat"))
        (self.folder / "r.toml").write_text("[run]\nepochs = 3\n[optimiser]\nlr = 0.1\n")
        run = eciton.train("cora", recipe=self.folder / "r.toml", progress=False)
        self.assertEqual(run.digest, digest(str(self.folder / "r.toml")))
        cases = [
            (TypeError, "did you mean 'hidden'", {"hiden": 3}),
            (ValueError, "(?s)did you mean `run.epochs`.*in run.epoch=3", {"run.epoch": 3}),
            (ValueError, "`run.epochs` is 0", {"epochs": 0}),
            (ValueError, "did you mean `gcn`", {"model": "gnc"}),
            (TypeError, "expected a number, text, bool", {"optimiser.lr": object()}),
            (ValueError, "seeds: found 0", {"seeds": 0}),
            (TypeError, "3 is not callable", {"callbacks": [3]}),
            (FileExistsError, "", {"out": str(self.folder)}),
        ]
        for error, words, settings in cases:
            with self.subTest(words), self.assertRaisesRegex(error, words):
                eciton.train("cora", progress=False, **settings)

    def test_data_sets_by_path(self) -> None:
        path = folder(self.folder / "set")
        run = train(eciton.graph(path), out=self.folder / "r", hidden=8)
        scores = self.folder / "scores.csv"
        command("predict", str(self.folder / "r"), "--out", str(scores))
        self.assertEqual(scores.read_text().splitlines()[1].split(",")[0], planted()[4][0])
        self.assertEqual(eciton.load(self.folder / "r").embeddings().shape, (60, 8))
        stored = graph().save(self.folder / "store")
        self.assertEqual(stored.classes, ["ant", "bee", "wasp"])
        self.assertEqual(train(stored, hidden=8).digest, run.digest)
        self.assertEqual(train(graph(), hidden=8).digest, run.digest)

    def test_plan_and_sweep(self) -> None:
        planned = eciton.plan(graph(), hidden=8)
        self.assertEqual((planned["vertices"], planned["fits"]), (60, True))
        tried = eciton.sweep(
            graph(), {"hidden": [4, 8], "optimiser.lr": [0.01, 0.1]}, epochs=5, seeds=2, progress=False
        )
        self.assertEqual(len(tried.runs), 4)
        self.assertEqual(tried.table["hidden"].tolist(), [4, 4, 8, 8])
        self.assertIn(tried.best, tried.runs)

    def test_regression_and_flags(self) -> None:
        pairs, x, group, *_ = planted()
        both = np.concatenate([pairs, pairs[:, ::-1]]).T.copy()
        numbers = eciton.graph(both, x=x, y=x[:, 0] + 0.25)
        self.assertEqual(numbers.task, "regression")
        run = train(numbers, epochs=20)
        self.assertEqual(run.predict().shape, (60,))
        self.assertLess(run.score("mean-absolute-error"), 5)
        with self.assertRaisesRegex(TypeError, "no probabilities"):
            run.predict_proba()
        flags = eciton.graph(both, x=x, y=np.eye(3, dtype=np.float32)[group])
        self.assertEqual(flags.task, "multi-label")
        run = train(flags)
        self.assertEqual((run.predict().dtype, run.predict().shape), (np.dtype(bool), (60, 3)))
        self.assertLessEqual(run.score("f1-macro"), 1)

    def test_links(self) -> None:
        run = train("cora", task="link-prediction", dropout=0.0)
        self.assertEqual(run.embeddings().shape[0], 2708)
        self.assertEqual(run.predict_proba(pairs=[[0, 1], [5, 9]]).shape, (2,))
        self.assertGreater(run.score(), 0.5)
        with self.assertRaisesRegex(TypeError, "not available for link prediction"):
            run.predict()

    def test_another_graph(self) -> None:
        run = train(graph(), epochs=30)
        pairs, x, *_ = planted()
        with self.assertRaisesRegex(ValueError, "in memory; pass it"):
            eciton.load(run.folder).table()
        half = eciton.graph(pairs[(pairs < 30).all(axis=1)].T.copy(), x=x[:30], directed=False)
        self.assertEqual(run.predict(half).shape, (30,))
        narrow = eciton.graph(pairs.T.copy(), x=x[:, :4])
        with self.assertRaisesRegex(ValueError, "4 feature columns"):
            run.predict(narrow)


class Hearing(Case):
    def test_callbacks(self) -> None:
        heard: list[eciton.callbacks.Epoch] = []
        seen: dict[str, list[float | None]] = {}
        run = train(graph(), epochs=12, seeds=2, callbacks=[heard.append, eciton.callbacks.record_evaluation(seen)])
        self.assertEqual([epoch.epoch for epoch in heard], [*range(1, 13)] * 2)
        self.assertEqual(run.history["loss"].tolist(), seen["loss"])
        self.assertEqual(run.digest, train(graph(), epochs=12, seeds=2).digest)

    def test_a_true_answer_stops(self) -> None:
        run = train(graph(), epochs=100, callbacks=[lambda epoch: epoch.epoch == 7])
        self.assertIn(len(run.history["loss"]), (7, 8))
        self.assertTrue(run.summary["stopped"])
        stopped = train(graph(), epochs=500, callbacks=[eciton.callbacks.early_stopping(5)])
        self.assertLess(len(stopped.history["loss"]), 500)

    def test_an_undefined_metric_ends_early_stopping(self) -> None:
        stop = eciton.callbacks.early_stopping(2)

        def epoch(number: int, val: float | None, metric: str | None = "roc-auc") -> eciton.callbacks.Epoch:
            return eciton.callbacks.Epoch(0, number, 1.0, None, val, None, metric, 0.1, 0.01, None)

        self.assertFalse(stop(epoch(1, None, None)), "not evaluated")
        for missing in (None, float("nan")):
            with self.assertRaisesRegex(ValueError, "roc-auc is undefined on the validation rows"):
                stop(epoch(2, missing))
        self.assertEqual([bool(stop(epoch(3 + n, 0.5))) for n in range(3)], [False, False, True])
        # After a value, one that is not a number is no better.
        stop = eciton.callbacks.early_stopping(2)
        self.assertEqual([bool(stop(epoch(1 + n, val))) for n, val in enumerate((0.5, float("nan"), 0.4))], [False, False, True])

    def test_what_a_callback_raises_comes_out(self) -> None:
        class Own(Exception):
            pass

        heard = []

        def raises(epoch: eciton.callbacks.Epoch) -> None:
            heard.append(epoch.epoch)
            if epoch.epoch == 3:
                raise Own("enough")

        before = set(os.listdir(os.path.dirname(str(self.folder))))
        with self.assertRaisesRegex(Own, "enough"):
            train(graph(), epochs=100, callbacks=[raises])
        self.assertEqual(heard, [1, 2, 3])
        left = {
            name for name in set(os.listdir(os.path.dirname(str(self.folder)))) - before if name.startswith("eciton-")
        }
        self.assertEqual(left, set(), "its temporary folder is gone")
        train(graph())

    def test_interrupt(self) -> None:
        """Ctrl-C ends the epoch and raises KeyboardInterrupt; the run goes on from its checkpoint, to the same bits."""
        made, out = graph(), self.folder / "r"
        # A shell has its background processes ignore Ctrl-C.
        self.addCleanup(signal.signal, signal.SIGINT, signal.signal(signal.SIGINT, signal.default_int_handler))

        def interrupts(epoch: eciton.callbacks.Epoch) -> None:
            if epoch.epoch == 4:
                os.kill(os.getpid(), signal.SIGINT)

        with self.assertRaises(KeyboardInterrupt):
            train(made, epochs=20, out=out, callbacks=[interrupts])
        self.assertTrue(eciton.load(out, made).summary["stopped"])
        run = eciton.resume(out, made, progress=False)
        self.assertEqual(run.digest, train(made, epochs=20).digest)
        self.assertEqual(len(run.history["loss"]), 20)
        other = eciton.graph(planted(1)[0].T.copy(), directed=False, **known())
        with self.assertRaises(KeyboardInterrupt):
            train(made, epochs=20, out=self.folder / "s", callbacks=[interrupts])
        with self.assertRaisesRegex(ValueError, "edges"):
            eciton.resume(self.folder / "s", other, progress=False)
        with self.assertRaises(FileNotFoundError):
            eciton.resume(self.folder / "none", progress=False)

    def test_lines_of_progress(self) -> None:
        code = "import eciton; eciton.train('cora', epochs=3, progress=True)"
        ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        self.assertIn("3", ran.stderr)
        ran = subprocess.run(
            [sys.executable, "-c", code.replace("True", "None")], capture_output=True, text=True, check=True
        )
        self.assertEqual((ran.stdout, ran.stderr), ("", ""), "into a pipe nothing is told")


class Processes(Case):
    def test_threads(self) -> None:
        """Two trainings in two threads give what each gives alone."""
        alone = [train("cora", seed=seed, epochs=10).digest for seed in (0, 1)]
        found: dict[int, str] = {}

        def one(seed: int) -> None:
            found[seed] = train("cora", seed=seed, epochs=10).digest

        threads = [threading.Thread(target=one, args=(seed,)) for seed in (0, 1)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        self.assertEqual([found[0], found[1]], alone)

    @unittest.skipUnless(hasattr(os, "fork"), "there is no fork here")
    def test_a_fork_is_refused(self) -> None:
        code = (
            "import eciton, os, sys\n"
            "eciton.train('cora', epochs=1, progress=False)\n"
            "child = os.fork()\n"
            "if child == 0:\n"
            "    try:\n"
            "        eciton.train('cora', epochs=1, progress=False)\n"
            "    except RuntimeError as error:\n"
            "        os._exit(7 if 'forked' in str(error) and 'spawn' in str(error) else 8)\n"
            "    os._exit(9)\n"
            "sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
        )
        ran = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, timeout=60)
        self.assertEqual(ran.returncode, 7, ran.stderr)

    def test_a_trap_beside_faulthandler(self) -> None:
        """Faults of a kernel are wasmtime's, and faults of Python's remain faulthandler's."""
        faulthandler.enable()
        train("cora", epochs=1)
        code = (
            "import faulthandler, eciton\n"
            "faulthandler.enable()\n"
            "eciton.train('cora', epochs=1, progress=False)\n"
            "faulthandler._sigsegv()\n"
        )
        ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
        self.assertEqual(ran.returncode, -signal.SIGSEGV)
        self.assertIn("Segmentation fault", ran.stderr)

    def test_beside_torch(self) -> None:
        torch = self.skip_without("torch")
        before = train("cora", epochs=3).digest
        torch.rand(200, 200) @ torch.rand(200, 200)
        self.assertEqual(train("cora", epochs=3).digest, before)

    def test_the_command(self) -> None:
        self.assertIn(eciton.__version__, command("--version"))
        ran = subprocess.run([sys.executable, "-m", "eciton", "trian"], capture_output=True, text=True)
        self.assertEqual(ran.returncode, 2)
        ran = subprocess.run(
            [sys.executable, "-m", "eciton", "data", "stat", "nothing"], capture_output=True, text=True
        )
        self.assertEqual((ran.returncode, ran.stderr[:6]), (1, "error:"))
        words = ["train", "--epochs", "1000000", "--json", "--out", str(self.folder / "r")]
        child = subprocess.Popen(
            [sys.executable, "-m", "eciton", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert child.stdout is not None
        for _ in range(3):
            child.stdout.readline()
        child.send_signal(signal.SIGINT)
        _, said = child.communicate(timeout=60)
        self.assertEqual(child.returncode, 130, said)
        self.assertNotIn(b"Traceback", said)
        self.assertTrue(eciton.load(self.folder / "r").summary["stopped"])
        code = "import sys, eciton.__main__; assert 'numpy' not in sys.modules"
        subprocess.run([sys.executable, "-c", code], check=True)


def command_fails(case: unittest.TestCase, *words: str) -> None:
    """The command says that the run's data were in memory."""
    ran = subprocess.run([sys.executable, "-m", "eciton", *words], capture_output=True, text=True)
    case.assertEqual(ran.returncode, 1)
    case.assertIn("in memory", ran.stderr)


if __name__ == "__main__":
    unittest.main()
