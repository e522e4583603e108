"""The examples of workers as services: their form, their commands, and a worker that is started as they start it.

Needs `eciton` (ECITON, else target/release/eciton).
"""
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request

import kubernetes_validate
import yaml
from prometheus_client.parser import text_string_to_metric_families

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from cloud import Instance  # noqa: E402

ROOT = pathlib.Path(__file__).parents[2]
WORKERS = ROOT / "infra/workers"
ECITON = os.environ.get("ECITON", str(ROOT / "target/release/eciton"))
# Exit codes after which another start changes nothing, as docs/how-to/train-on-workers.md lists them.
FINAL = ["2", "77", "80"]


def unit():
    return (WORKERS / "eciton-worker.service").read_text()


def settings(text):
    """The settings of a unit of systemd."""
    pairs = [line.split("=", 1) for line in text.splitlines() if "=" in line and not line.startswith("#")]
    return {name.strip(): value.strip() for name, value in pairs}


class CloudFormation(yaml.SafeLoader):
    """Reads a template. Functions of CloudFormation become their arguments."""


CloudFormation.add_multi_constructor("!", lambda loader, _, node: loader.construct_scalar(node) if isinstance(node, yaml.ScalarNode) else loader.construct_sequence(node))


def template():
    return yaml.load((WORKERS / "autoscaling.yaml").read_text(), CloudFormation)


class Examples(unittest.TestCase):
    def options(self, words):
        """Checks that `eciton worker` has all options of a command line. Returns their values."""
        self.assertEqual(words[1], "worker")
        told = subprocess.run([ECITON, "worker", "--help"], capture_output=True, text=True, timeout=10, check=True).stdout
        known = set(re.findall(r"--[a-z-]+", told))
        self.assertLessEqual({word for word in words if word.startswith("--")}, known)
        return dict(zip(words[2::2], words[3::2]))

    def test_systemd_accepts_the_unit(self):
        found = settings(unit())
        given = self.options(shlex.split(found["ExecStart"]))
        self.assertEqual(given["--token-file"], "/etc/eciton/tokens")
        self.assertEqual((found["Restart"], found["RestartPreventExitStatus"].split()), ("always", FINAL))
        if not shutil.which("systemd-analyze"):
            print("skipped: systemd-analyze is not installed")
            return
        with tempfile.TemporaryDirectory() as folder:
            # The program and its user do not exist here.
            text = unit().replace("/usr/local/bin/eciton", "/bin/true").replace("User=eciton", f"User={os.getuid()}")
            path = pathlib.Path(folder) / "eciton-worker.service"
            path.write_text(text)
            done = subprocess.run(["systemd-analyze", "verify", path], capture_output=True, text=True, timeout=30)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            path.write_text(text.replace("Restart=always", "Restart=ever"))
            done = subprocess.run(["systemd-analyze", "verify", path], capture_output=True, text=True, timeout=30)
            self.assertIn("restart specifier", done.stderr)

    def test_slurm_starts_each_worker_with_a_token_of_its_own(self):
        text = (WORKERS / "slurm.sh").read_text()
        options = dict(re.findall(r"^#SBATCH --([a-z-]+)(?:=(.*))?$", text, re.M))
        self.assertEqual(options["signal"], "TERM@90")
        self.assertLess(text.rindex("#SBATCH"), text.index("\nset -"))
        with tempfile.TemporaryDirectory() as folder:
            for name, body in {"srun": 'shift; for SLURM_PROCID in 0 1; do export SLURM_PROCID; "$@"; done', "eciton": 'echo "$@"'}.items():
                path = pathlib.Path(folder) / name
                path.write_text(f"#!/bin/bash\n{body}\n")
                path.chmod(0o755)
            environment = {"PATH": f"{folder}:/usr/bin:/bin"}
            done = subprocess.run(["bash", WORKERS / "slurm.sh"], env=environment, capture_output=True, text=True, timeout=10)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
        for process, line in enumerate(done.stdout.splitlines()):
            given = self.options(["eciton", *line.split()])
            self.assertEqual(given["--token-file"], f"tokens/worker-{process}.token")
        self.assertEqual(process, 1)

    def test_kubernetes_accepts_the_manifests(self):
        for path in [WORKERS / "kubernetes.yaml", ROOT / "infra/jobs/kubernetes.yaml"]:
            for manifest in yaml.safe_load_all(path.read_text()):
                kubernetes_validate.validate(manifest, "1.37", strict=True)
        pod = yaml.safe_load((WORKERS / "kubernetes.yaml").read_text())["spec"]["template"]["spec"]
        [worker] = pod["containers"]
        given = self.options(worker["command"])
        port = int(given["--status"].split(":")[1])
        self.assertEqual(worker["ports"], [{"name": "status", "containerPort": port}])
        self.assertEqual((worker["readinessProbe"]["httpGet"]["path"], worker["livenessProbe"]["httpGet"]["path"]), ("/ready", "/status"))
        # The container that copies the tokens leaves files that the worker accepts.
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            (folder / "secret").mkdir()
            (folder / "own").mkdir()
            for number in range(2):
                (folder / f"secret/worker-{number}.token").write_text("x")
            script = pod["initContainers"][0]["command"][2].replace("/secret", f"{folder}/secret").replace("/own", f"{folder}/own")
            subprocess.run(["sh", "-c", script], check=True, timeout=10)
            modes = {path.name: oct(path.stat().st_mode & 0o777) for path in (folder / "own/tokens").iterdir()}
            self.assertEqual(modes, {"worker-0.token": "0o600", "worker-1.token": "0o600"})

    def test_the_auto_scaling_group_has_no_lint(self):
        done = subprocess.run([pathlib.Path(sys.executable).parent / "cfn-lint", "-i", "W", "--", WORKERS / "autoscaling.yaml"], capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stdout), (0, ""))
        resources = template()["Resources"]
        script = resources["Template"]["Properties"]["LaunchTemplateData"]["UserData"]["Fn::Base64"]
        script = re.sub(r"\$\{([A-Z]\w*)\}", r"\1", script)
        self.assertEqual(subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True, timeout=10).stderr, "")
        found = settings(script)
        given = self.options(shlex.split(found["ExecStart"]))
        self.assertEqual((given["--connect"], given["--token-file"]), ("Connect", "/etc/eciton/tokens"))
        self.assertEqual(found["RestartPreventExitStatus"].split(), FINAL)
        # The hook lasts as long as the worker may take to leave.
        self.assertGreaterEqual(int(resources["Leaves"]["Properties"]["HeartbeatTimeout"]), int(found["TimeoutStopSec"]))
        self.assertEqual(resources["Leaves"]["Properties"]["LifecycleTransition"], "autoscaling:EC2_INSTANCE_TERMINATING")


def end(process):
    """Kills a process, and closes its outputs."""
    process.kill()
    process.wait()
    for pipe in (process.stdout, process.stderr):
        if pipe:
            pipe.close()


class Worker:
    """A worker with a status, on an instance of its own or elsewhere."""

    def __init__(self, folder, address, instance=None):
        environment = os.environ | ({"AWS_EC2_METADATA_SERVICE_ENDPOINT": instance} if instance else {"AWS_EC2_METADATA_DISABLED": "true"})
        line = [ECITON, "worker", "--connect", address, "--token-file", "tokens", "--status", "127.0.0.1:0", "--wait", "20"]
        self.process = subprocess.Popen(line, cwd=folder, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.url = self.process.stderr.readline().split("status at ")[1].strip().removesuffix("/status")

    def get(self, path):
        try:
            with urllib.request.urlopen(self.url + path, timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def status(self):
        return json.loads(self.get("/status")[1])

    def until(self, state):
        end = time.time() + 15
        while self.status()["state"] != state:
            assert time.time() < end, self.status()
            time.sleep(0.05)


class Service(unittest.TestCase):
    def test_a_worker_serves_its_status_and_leaves_when_ec2_interrupts_it(self):
        with tempfile.TemporaryDirectory() as folder, (instance := Instance("us-east-1a")) as url:
            subprocess.run([ECITON, "data", "generate", "linear", "rows", "--rows", "4000", "--features", "32"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
            line = [ECITON, "train", "rows", "--model", "mlp", "--layers", "4", "--batch", "256", "--micro", "4", "--lanes", "2", "--workers", "2", "--epochs", "100000",
                    "--set", "workers.spares=1", "--set", "workers.listen=127.0.0.1:0", "--set", "workers.tokens=tokens", "--out", "run", "--json"]
            run = subprocess.Popen(line, cwd=folder, text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            self.addCleanup(end, run)
            while "listens at " not in (told := run.stderr.readline()):
                self.assertTrue(told, "the run does not listen")
            address = told.split("listens at ")[1].split(";")[0]
            workers = [Worker(folder, address, url), Worker(folder, address)]
            for worker in workers:
                self.addCleanup(end, worker.process)
                worker.until("connected")
            spare = Worker(folder, address)
            self.addCleanup(end, spare.process)
            spare.until("waiting")
            # Each has another token, and the spare is ready although it has no place.
            self.assertEqual({worker.status()["place"] for worker in workers}, {0, 1})
            self.assertEqual((spare.status()["place"], spare.get("/ready")), (None, (200, "waiting")))
            families = {family.name: family for family in text_string_to_metric_families(workers[0].get("/metrics")[1])}
            value = lambda name: families[f"eciton_worker_{name}"].samples[0].value
            self.assertEqual({sample.labels["state"]: sample.value for sample in families["eciton_worker_state"].samples}, {"connecting": 0, "waiting": 0, "connected": 1})
            self.assertEqual((value("admissions"), value("leaving")), (1, 0))
            self.assertEqual({family.type for family in families.values()}, {"gauge", "counter"})
            limit = time.time() + 15
            while workers[0].status()["tasks"] < 20:
                self.assertLess(time.time(), limit, "no tasks")
                time.sleep(0.05)
            found = workers[0].status()
            self.assertTrue(found["task_seconds"] > 0 and found["received_bytes"] > 1000 and found["sent_bytes"] > 1000, found)
            # EC2 announces the interruption of the first instance. Its worker leaves, and the spare has its place.
            place = found["place"]
            instance.answers["/latest/meta-data/spot/instance-action"] = json.dumps({"action": "terminate", "time": "2026-11-30T00:00:00Z"})
            out, err = workers[0].process.communicate(timeout=20)
            self.assertEqual(workers[0].process.returncode, 80, err)
            self.assertIn("EC2 will interrupt this spot instance (action terminate at 2026-11-30T00:00:00Z)", err)
            self.assertIn("the worker was asked to leave", out)
            spare.until("connected")
            self.assertEqual(spare.status()["place"], place)
            # The run stops, and its workers wait for it to be resumed.
            run.terminate()
            self.assertEqual(run.wait(20), 143)
            workers[1].until("connecting")
            self.assertEqual(workers[1].get("/ready"), (503, "connecting"))
            self.assertIn("can be resumed", workers[1].status()["last_end"])


if __name__ == "__main__":
    unittest.main()
