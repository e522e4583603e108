"""The manifests of batch systems: the fields that each system needs, one command line in all, and the exit codes of `eciton job`."""
import json
import pathlib
import re
import shlex
import subprocess
import unittest

import yaml

JOBS = pathlib.Path(__file__).parents[2] / "infra/jobs"
COMMAND = ["eciton", "job", "--store", "s3://BUCKET/PREFIX", "jobs/SWEEPID.list"]
# Exit codes that mean a failure, as docs/how-to/sweep-settings.md lists them.
FINAL, AGAIN = [1, 2], "75"


def kubernetes():
    return yaml.safe_load((JOBS / "kubernetes.yaml").read_text())


def batch():
    return json.loads((JOBS / "batch.json").read_text())


def slurm():
    return (JOBS / "slurm.sh").read_text()


class Manifests(unittest.TestCase):
    def test_kubernetes_has_an_indexed_job(self):
        job = kubernetes()
        self.assertEqual((job["apiVersion"], job["kind"]), ("batch/v1", "Job"))
        self.assertRegex(job["metadata"]["name"], r"\A[a-z0-9]([-a-z0-9]*[a-z0-9])?\Z")
        spec = job["spec"]
        self.assertEqual(spec["completionMode"], "Indexed")
        self.assertGreater(spec["completions"], 1)
        self.assertLessEqual(spec["parallelism"], spec["completions"])
        # Limits by index, and a policy of failures, are allowed only for pods that are not restarted.
        self.assertGreater(spec["backoffLimitPerIndex"], 0)
        self.assertEqual(spec["template"]["spec"]["restartPolicy"], "Never")
        [container] = spec["template"]["spec"]["containers"]
        self.assertEqual(container["command"], COMMAND)
        self.assertEqual(container["resources"]["requests"]["memory"], container["resources"]["limits"]["memory"])
        codes, disruption = spec["podFailurePolicy"]["rules"]
        wanted = {"containerName": container["name"], "operator": "In", "values": FINAL}
        self.assertEqual((codes["action"], codes["onExitCodes"]), ("FailIndex", wanted))
        self.assertEqual((disruption["action"], disruption["onPodConditions"]), ("Ignore", [{"type": "DisruptionTarget"}]))
        self.assertTrue(any(variable["name"] == "AWS_REGION" for variable in container["env"]))

    def test_batch_has_a_definition_and_an_array(self):
        found = batch()
        definition, submit = found["jobDefinition"], found["submit"]
        self.assertEqual(set(found), {"jobDefinition", "submit"})
        self.assertEqual(definition["type"], "container")
        container = definition["containerProperties"]
        self.assertEqual(container["command"], COMMAND)
        needs = {need["type"]: need["value"] for need in container["resourceRequirements"]}
        self.assertEqual(set(needs), {"VCPU", "MEMORY"})
        # Of one vCPU, Fargate has 2 to 8 GB.
        self.assertEqual((needs["VCPU"], int(needs["MEMORY"]) % 1024), ("1", 0))
        for role in ("jobRoleArn", "executionRoleArn"):
            self.assertRegex(container[role], r"\Aarn:aws:iam::ACCOUNT:role/")
        retry = definition["retryStrategy"]
        self.assertIn(retry["attempts"], range(2, 11))
        self.assertEqual(retry["evaluateOnExit"][0], {"onExitCode": AGAIN, "action": "RETRY"})
        self.assertEqual(retry["evaluateOnExit"][-1]["action"], "EXIT")
        self.assertGreaterEqual(definition["timeout"]["attemptDurationSeconds"], 60)
        self.assertEqual(submit["jobDefinition"], definition["jobDefinitionName"])
        self.assertIn(submit["arrayProperties"]["size"], range(2, 10_001))

    def test_slurm_has_an_array(self):
        text = slurm()
        done = subprocess.run(["bash", "-n", JOBS / "slurm.sh"], capture_output=True, text=True, timeout=10)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        options = dict(re.findall(r"^#SBATCH --([a-z-]+)(?:=(.*))?$", text, re.M))
        self.assertEqual(set(options), {"job-name", "array", "cpus-per-task", "mem", "time", "requeue"})
        self.assertRegex(options["array"], r"\A0-[1-9][0-9]*\Z")
        # Slurm reads its options before the first command only.
        self.assertLess(text.rindex("#SBATCH"), text.index("\nset -"))
        [line] = [line for line in text.splitlines() if line.startswith("eciton job")]
        self.assertEqual(shlex.split(line.split(" || ")[0]), COMMAND)
        self.assertIn(f'"$status" -eq {AGAIN}', text)

    def test_slurm_requeues_after_a_temporary_failure_alone(self):
        for code, wanted in ((0, ""), (1, ""), (75, "requeue 9_3\n")):
            with self.subTest(code):
                script = f"eciton() {{ return {code}; }}\nscontrol() {{ echo \"$@\"; }}\n" + slurm()
                environment = {"PATH": "/usr/bin:/bin", "SLURM_ARRAY_JOB_ID": "9", "SLURM_ARRAY_TASK_ID": "3"}
                done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=10, env=environment)
                self.assertEqual((done.returncode, done.stdout, done.stderr), (code, wanted, ""))
                environment["SLURM_RESTART_COUNT"] = "3"
                done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=10, env=environment)
                self.assertEqual((done.returncode, done.stdout), (code, ""))

    def test_the_sizes_are_the_same(self):
        last = int(re.search(r"--array=0-(\d+)", slurm())[1])
        self.assertEqual({kubernetes()["spec"]["completions"], batch()["submit"]["arrayProperties"]["size"], last + 1}, {12})


if __name__ == "__main__":
    unittest.main()
