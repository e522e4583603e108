"""Hosts as processes: results of one host, and what happens to the others when one fails.

Needs `eciton` (ECITON, else target/release/eciton), and the worker (ECITON_WORKER, else target/worker/bootstrap).
"""
import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).parents[2]
ECITON = os.environ.get("ECITON", str(ROOT / "target/release/eciton"))
WORKER = os.environ.get("ECITON_WORKER", str(ROOT / "target/worker/bootstrap"))
SILENCE = 2.0
LONG = ["--epochs", "1000000", "--set", "run.eval_every=1000", "--set", f"hosts.silence_ms={SILENCE * 1000:.0f}"]


def train(*words, **more):
    command = [ECITON, "train", "cora", "--set", "run.intervals=8", "--set", "run.threads=1", *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)


def ended(process, seconds=60):
    out, errors = process.communicate(timeout=seconds)
    return process.returncode, out, errors


def end(process):
    process.kill()
    process.communicate()


class Hosts(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.place = pathlib.Path(place.name)

    def start(self, count, *words, changed=None):
        """Starts hosts as a launcher does. `changed` has the arguments of one host."""
        all = []
        for host in range(count):
            own = changed[1] if changed and changed[0] == host else words
            env = {**os.environ, "PMI_RANK": str(host), "PMI_SIZE": str(count), "NO_COLOR": "1"}
            folder = ["--hosts", "env", "--rendezvous", str(self.place / "meet"), "--set", "hosts.listen=127.0.0.1:0"]
            all.append(train(*own, *folder, env=env))
            self.addCleanup(end, all[-1])
        return all

    def await_training(self, hosts):
        """Waits until host 0 has reported an epoch."""
        while "epoch" not in hosts[0].stdout.readline():
            self.assertIsNone(hosts[0].poll())

    def summary(self, name):
        return json.loads((self.place / name / "summary.json").read_text())

    def test_results_are_those_of_one_host(self):
        # Hosts on this machine need no secret of the user, and are not disturbed by one.
        secret = ["--set", "hosts.secret=" + self.secret("secret", "a secret of 32 characters or more")]
        for name, words in [("one", []), ("three", ["--hosts", "3", *secret])]:
            code, _, errors = ended(train("--epochs", "6", "--out", str(self.place / name), *words))
            self.assertEqual((code, errors), (0, ""))
        launched = self.start(2, "--epochs", "6", "--out", str(self.place / "two"))
        self.assertEqual([ended(host)[0] for host in launched], [0, 0])
        self.assertEqual(list((self.place / "meet").iterdir()), [])
        for name in ["two", "three"]:
            self.assertEqual(self.summary("one")["seeds"], self.summary(name)["seeds"])
            files = [(self.place / folder / "predictions.npz").read_bytes() for folder in ["one", name]]
            self.assertEqual(*files)

    def test_bytes_are_those_of_the_plan(self):
        # Hosts read only their rows of a store with parts, and send each other features.
        made = str(self.place / "made")
        shape = ["--vertices", "3000", "--edges", "40000", "--features", "20"]
        for command in [["generate", "block-model", made, *shape], ["partition", made, made + "-3", "--hosts", "3"]]:
            subprocess.run([ECITON, "data", *command], capture_output=True, timeout=60, check=True)
        order = ["--set", "run.order=rabbit"]
        once = ["--dropout", "0", "--set", "run.gather_features=once"]
        runs = [["cora", "--model", "gcn"], ["cora", "--model", "gat", *order], ["cora", "--row-storage", "bf16"]]
        for words in [*runs, [made + "-3", "--model", "gcn"], [made + "-3", "--model", "sage", *once]]:
            with self.subTest(words):
                words = [*words, "--set", "run.intervals=9", "--hosts", "3"]
                told = subprocess.run([ECITON, "plan", *words, "--json"], capture_output=True, text=True, timeout=60, check=True)
                plan = json.loads(told.stdout)["hosts"]
                with tempfile.TemporaryDirectory() as place:
                    out = str(pathlib.Path(place) / "run")
                    more = ["--epochs", "5", "--set", "run.eval_every=2", "--set", "run.threads=1", "--out", out]
                    run = subprocess.run([ECITON, "train", *words, *more], capture_output=True, text=True, timeout=60)
                    self.assertEqual((run.returncode, run.stderr), (0, ""))
                    summary = json.loads((pathlib.Path(out) / "summary.json").read_text())
                # Evaluations follow the steps 2, 4 and 5.
                total = lambda host, to: host["start_bytes"][to] + 5 * host["step_bytes"][to] + 3 * host["evaluation_bytes"][to]
                for found in summary["hosts"]:
                    other = found["host"]
                    wanted = (total(plan["hosts"][0], other), total(plan["hosts"][other], 0))
                    self.assertEqual((found["sent_bytes"], found["received_bytes"]), wanted)

    def test_all_hosts_end_when_one_fails(self):
        for sent in [signal.SIGKILL, signal.SIGSTOP]:
            for victim in range(3):
                with self.subTest(signal=sent, victim=victim):
                    hosts = self.start(3, *LONG, "--no-out")
                    self.await_training(hosts)
                    begun = time.monotonic()
                    hosts[victim].send_signal(sent)
                    others = [host for host in range(3) if host != victim]
                    results = {host: ended(hosts[host]) for host in others}
                    took = time.monotonic() - begun
                    # A stopped process is only known by its silence.
                    self.assertLess(took, SILENCE + 2 if sent == signal.SIGSTOP else 2)
                    self.assertTrue(all(code == 1 for code, _, _ in results.values()), results)
                    texts = [errors for _, _, errors in results.values() if errors]
                    # Without host 0, each host that sees the failure itself reports it.
                    self.assertIn(len(texts), [1] if victim > 0 else [1, 2], texts)
                    self.assertTrue(all(f"error: host {victim}: " in text for text in texts), texts)
                    hosts[victim].kill()

    def test_ctrl_c_stops_all_hosts(self):
        out = self.place / "run"
        run = train(*LONG, "--out", str(out), "--hosts", "3", env={**os.environ, "NO_COLOR": "1"})
        self.addCleanup(end, run)
        self.await_training([run])
        run.send_signal(signal.SIGINT)
        code, _, errors = ended(run)
        self.assertEqual(code, 130, errors)
        self.assertTrue(self.summary("run")["stopped"])

    def test_a_run_goes_on_with_another_number_of_hosts(self):
        words = ["--epochs", "400", "--set", "checkpoint.every=20", "--set", "run.eval_every=10"]
        self.assertEqual(ended(train(*words, "--out", str(self.place / "whole")))[0], 0)
        for before, after in [(3, 2), (1, 3), (2, 1)]:
            with self.subTest(before=before, after=after):
                out = str(self.place / f"run-{before}-{after}")
                host = ["--hosts", str(before)] if before > 1 else []
                run = train(*words, "--out", out, *host)
                self.addCleanup(end, run)
                while not any(pathlib.Path(f"{out}.checkpoint").glob("epoch-*.safetensors")):
                    self.assertIsNone(run.poll())
                    time.sleep(0.005)
                run.kill()
                run.communicate()
                self.assertFalse((pathlib.Path(out) / "summary.json").exists())
                more = [ECITON, "resume", out, *(["--hosts", str(after)] if after > 1 else [])]
                resumed = subprocess.run(more, capture_output=True, text=True, timeout=60)
                self.assertEqual(resumed.returncode, 0, resumed.stderr)
                self.assertRegex(resumed.stderr, r"^resuming after epoch \d+ of seed 0\n$")
                self.assertEqual(self.summary(f"run-{before}-{after}")["model_digest"], self.summary("whole")["model_digest"])

    def test_hosts_that_differ_refuse_each_other(self):
        same = ["--epochs", "9", "--no-out"]
        self.assertEqual(ended(train("--epochs", "1", "--out", str(self.place / "first")))[0], 0)
        for other, text in [(["--epochs", "8", "--no-out"], "different settings"),
                            ([*same, "--set", "run.intervals=9"], "different program"),
                            ([*same, "--set", f"run.init={self.place / 'first/model.safetensors'}"], "different first weights"),
                            ([*same, "--set", "data.normalise_features=none"], "different data")]:
            with self.subTest(text):
                hosts = self.start(2, *same, changed=(1, other))
                results = [ended(host) for host in hosts]
                self.assertEqual([code for code, _, _ in results], [1, 1], results)
                self.assertIn(text, results[0][2])

    def test_a_missing_host_is_named(self):
        hosts = self.start(3, "--epochs", "9", "--no-out", "--set", "hosts.wait_s=1")
        hosts[1].kill()
        (code, _, errors), (other, _, silent) = ended(hosts[0]), ended(hosts[2])
        self.assertEqual((code, other, silent), (1, 1, ""), errors)
        self.assertIn("hosts 1;", errors)
        code, _, errors = ended(train("--no-out", "--hosts", "2", env={**os.environ, "ECITON_SECRET": "short"}))
        self.assertEqual(code, 1)
        self.assertIn("has 5 characters", errors)

    def secret(self, name, text):
        path = self.place / name
        path.touch(mode=0o600)
        path.write_text(text)
        return str(path)

    def come(self, count, *words, guests=None, secret="a secret of all hosts, in 32 characters"):
        """Starts host 0 at an address, and `count` - 1 guests."""
        with socket.create_server(("127.0.0.1", 0)) as free:
            address = "127.0.0.1:%d" % free.getsockname()[1]
        own = self.secret("own", "a secret of all hosts, in 32 characters")
        first = train(*words, "--hosts", str(count), "--rendezvous", f"tcp://{address}", "--set", f"hosts.secret={own}")
        line = [ECITON, "host", "--connect", address, "--secret", self.secret("theirs", secret), "--wait", "20"]
        more = [subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(guests or count - 1)]
        for process in [first, *more]:
            self.addCleanup(end, process)
        return first, more

    def test_hosts_come_to_an_address(self):
        self.assertEqual(ended(train("--epochs", "6", "--out", str(self.place / "one")))[0], 0)
        for name, words in [("tls", []), ("plain", ["--set", "hosts.encrypt=false"])]:
            with self.subTest(name):
                first, guests = self.come(3, "--epochs", "6", "--out", str(self.place / name), *words)
                for process in [first, *guests]:
                    code, _, errors = ended(process)
                    self.assertEqual(code, 0, errors)
                self.assertEqual(self.summary("one")["seeds"], self.summary(name)["seeds"])
        first, (guest,) = self.come(2, "--no-out", "--set", "hosts.wait_s=2", secret="another secret of 32 characters or more")
        (code, _, errors), (other, _, reason) = ended(first), ended(guest)
        self.assertEqual((code, other), (1, 1), (errors, reason))
        self.assertIn("hosts.secret is the same", reason)

    def test_a_signal_at_any_host_has_its_code_at_all(self):
        for victim in range(3):
            for sent, code in [(signal.SIGINT, 130), (signal.SIGTERM, 143)]:
                with self.subTest(victim=victim, sent=sent):
                    out = self.place / f"run-{victim}-{code}"
                    first, guests = self.come(3, *LONG, "--out", str(out))
                    self.await_training([first])
                    hosts = [first, *guests]
                    hosts[victim].send_signal(sent)
                    self.assertEqual([ended(host)[0] for host in hosts], [code] * 3)
                    self.assertEqual((out / "summary.json").exists(), sent == signal.SIGINT)
                    self.assertTrue(any(pathlib.Path(f"{out}.checkpoint").glob("*.safetensors")))

    def functions(self, name, *words):
        line = ["--executor", "emulated", "--functions", "4", "--out", str(self.place / name), *words]
        run = train(*line, env={**os.environ, "ECITON_WORKER": WORKER, "NO_COLOR": "1"})
        self.addCleanup(end, run)
        return run

    def test_each_host_has_its_own_functions(self):
        for mode in ["sync", "pipe"]:
            with self.subTest(mode):
                words = ["--epochs", "5", "--mode", mode, "--set", "run.eval_every=5"]
                for name, more in [("one", []), ("four", ["--hosts", "4"])]:
                    code, _, errors = ended(self.functions(f"{name}-{mode}", *words, *more))
                    self.assertEqual(code, 0, errors)
                one, four = (self.summary(f"{name}-{mode}") for name in ["one", "four"])
                self.assertEqual(one["model_digest"], four["model_digest"])
                self.assertEqual(one["tasks"], four["tasks"], "the tasks of all hosts")
                self.assertGreaterEqual(four["bill"]["cold_starts"], 4)
        code, _, errors = ended(self.functions("stale", "--epochs", "5", "--hosts", "4", "--mode", "async", "--staleness", "0"))
        self.assertEqual(code, 0, errors)

    def test_functions_of_one_host_may_be_killed(self):
        words = ["--set", "run.eval_every=40", "--epochs", "40"]
        self.assertEqual(ended(train(*words, "--out", str(self.place / "one")))[0], 0)
        run = self.functions("four", "--hosts", "4", *words)
        killed = 0
        while run.poll() is None and killed < 4:
            # Functions of the first process that host 0 has started.
            children = pathlib.Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()
            below = lambda pid: pathlib.Path(f"/proc/{pid}/task").glob("*/children")
            for host in children:
                with contextlib.suppress(OSError):
                    if "host" in pathlib.Path(f"/proc/{host}/cmdline").read_text().split("\0"):
                        for function in " ".join(one.read_text() for one in below(host)).split():
                            os.kill(int(function), signal.SIGKILL)
                            killed += 1
                        break
            time.sleep(0.2)
        code, _, errors = ended(run)
        self.assertEqual((code, killed >= 4), (0, True), errors)
        self.assertEqual(self.summary("one")["model_digest"], self.summary("four")["model_digest"])

    def test_strangers_keep_no_host_out(self):
        hosts = self.start(1, "--epochs", "3", "--no-out")
        meet = self.place / "meet" / "hosts.json"
        # A run of one host has no door, so the first of two hosts is started alone.
        self.assertEqual(ended(hosts[0])[0], 0)
        more = {**os.environ, "PMI_SIZE": "2", "NO_COLOR": "1"}
        words = ["--epochs", "3", "--no-out", "--hosts", "env", "--rendezvous", str(self.place / "meet"), "--set", "hosts.listen=127.0.0.1:0"]
        first = train(*words, env={**more, "PMI_RANK": "0"})
        self.addCleanup(end, first)
        while not meet.exists():
            time.sleep(0.01)
        host, port = json.loads(meet.read_text())["address"].rsplit(":", 1)
        strangers = []
        for number in range(1000):
            with contextlib.suppress(OSError):
                strangers.append(socket.create_connection((host, int(port)), timeout=5))
                strangers[-1].sendall(os.urandom(number % 300))
        second = train(*words, env={**more, "PMI_RANK": "1"})
        self.addCleanup(end, second)
        self.assertEqual([ended(first)[0], ended(second)[0]], [0, 0])
        for stranger in strangers:
            stranger.close()

    def test_what_several_hosts_cannot_do_is_said(self):
        for words, text in [(["--set", "batch.rows=100"], "batch"),
                            (["--set", "run.intervals=1"], "run.intervals")]:
            code, _, errors = ended(train("--epochs", "2", "--no-out", "--hosts", "2", *words))
            self.assertEqual((code, errors.count("error: ")), (1, 1), errors)
            self.assertIn(text, errors)
        code, _, errors = ended(train("--hosts", "env", "--no-out"))
        self.assertEqual(code, 2)
        self.assertIn("PMI_RANK", errors)

    def test_a_host_that_waits_uses_no_processor(self):
        hosts = self.start(2, *LONG, "--no-out", "--set", "hosts.silence_ms=20000")
        self.await_training(hosts)
        hosts[1].send_signal(signal.SIGSTOP)
        ticks = lambda: sum(int(n) for n in pathlib.Path(f"/proc/{hosts[0].pid}/stat").read_text().split()[13:15])
        time.sleep(0.5)
        before = ticks()
        time.sleep(3)
        used = (ticks() - before) / os.sysconf("SC_CLK_TCK") / 3
        hosts[1].send_signal(signal.SIGCONT)
        self.assertLessEqual(used, 0.01)


if __name__ == "__main__":
    unittest.main()
