"""`eciton prove aws` against a loopback endpoint: a proof from deployment to removal, one that fails, one that is stopped, and a report that arrives later.

Needs what test_deploy.py needs. The endpoint runs functions as processes of this machine and bills nothing: figures of time are of this machine.
"""
import gzip
import io
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
import zipfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from cloud import ROOT, Cloud, Reports  # noqa: E402

SIZES = [512, 1769, 3008]
TINY = ["--quick", "--data", "store", "--recipe", "cora/gcn", "--set", "run.epochs=2", "--functions", "2"]
LINES = ["Lambda-GB-Second", "Request", "Requests-Tier1", "Requests-Tier2", "DataTransfer-Out-Bytes"]
CAMPAIGN = unittest.skipUnless(os.environ.get("ECITON_PROOFS"), "a part of .ci/campaign proofs")
HEAD = "lineItem/LineItemType,lineItem/UsageStartDate,lineItem/UsageEndDate,lineItem/UsageType,lineItem/Operation,lineItem/UsageAmount,lineItem/UnblendedCost,lineItem/CurrencyCode,lineItem/ResourceId"


class Prove(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.cloud = Cloud(cls.folder.name)
        cls.addClassCleanup(cls.folder.cleanup)
        cls.addClassCleanup(cls.cloud.stop)
        cls.cloud.wait()
        cls.cloud.eciton("data", "convert", "cora", "store")

    def is_gone(self, stack="eciton-proof"):
        left = {what: names for what, names in self.cloud.everything(stack).items() if names}
        self.assertEqual(left, {}, "the stack is removed")
        self.assertFalse((self.cloud.home / f".config/eciton/deployments/{stack}.json").exists())

    def test_1_what_cannot_be_proved_deploys_nothing(self):
        refusals = [
            (["--yes"], 2, "--max-usd"),
            (["--max-usd", "1"], 2, "no terminal.*--yes"),
            (["--max-usd", "0.000001", "--yes"], 1, "the predicted cost of USD .* nothing was deployed"),
            (["--max-usd", "0.003", "--yes", "--memory-mb", "3008"], 1, "a call with 3008 MB and the full time limit of 120 s"),
            (["--max-usd", "1", "--yes", "--memory-mb", "600"], 2, "--memory-mb: found 600, expected 1 to 3 of the sizes 512,"),
            (["--max-usd", "1", "--yes", "--memory-mb", "512,1024,1769,3008"], 2, "found 512, 1024, 1769, 3008, expected 1 to 3 of"),
            (["--max-usd", "1", "--yes", "--out", "store"], 1, "already exists; choose a new folder"),
            (["--max-usd", "1", "--yes", "--recipe", "cora"], 2, "expected DATASET/MODEL"),
        ]
        for line, code, words in refusals:
            with self.subTest(line):
                recipe = [] if "--recipe" in line else TINY
                _, _, said = self.cloud.eciton("prove", "aws", *recipe, *line, code=code)
                self.assertRegex(said, f"(?s){words}")
        self.assertFalse(any(self.cloud.everything("eciton").values()), "a refused proof made something")
        self.assertFalse((self.cloud.folder / "proofs").exists())

    def test_2_a_dry_run_tells_what_it_would_do(self):
        _, out, _ = self.cloud.eciton("prove", "aws", "--max-usd", "1", "--dry-run", *TINY)
        for words in ("eciton-proof in us-east-1", "eciton-proof-worker-runs-3, 3008 MB", "W2          1769 MB: 8 calls", "limit --max-usd: USD 1"):
            self.assertIn(words, out)
        self.assertFalse(any(self.cloud.everything("eciton").values()), "a dry run made something")

    def test_3_a_proof(self):
        proof, _, _ = self.cloud.eciton("prove", "aws", "--max-usd", "1", "--yes", "--json", "--out", "proof", *TINY)
        self.is_gone()
        folder = self.cloud.folder / "proof"
        self.assertEqual(json.loads((folder / "proof.json").read_text()), proof)
        self.assertEqual((proof["version"], proof["region"], proof["error"]), (1, "us-east-1", None))
        self.assertTrue(proof["stack"]["removed"] and proof["stack"]["gone"])
        self.assertIsNone(proof["stack"]["left"])
        self.assertEqual(len(proof["cloud"]["sha256"]), 64)
        self.assertEqual([f["memory_mb"] for f in proof["stack"]["functions"]], SIZES)
        self.assertEqual([(run["workload"], run["memory_mb"]) for run in proof["runs"]], [(w, size) for size in SIZES for w in ("W1", "W2")])
        self.assertTrue(proof["digests_equal"], "a model does not depend on the memory size")
        for run in proof["runs"]:
            with self.subTest(workload=run["workload"], memory_mb=run["memory_mb"]):
                trainings = {"W1": 1, "W2": 8}[run["workload"]]
                self.assertEqual((run["done"], run["failed"], len(run["digests"])), (trainings, 0, trainings))
                self.assertEqual([line["usage"] for line in run["lines"]], LINES)
                found = {pair["name"]: pair for pair in run["quantities"]}
                # A late call is made twice: on a busy machine counts may be higher.
                if run["calls"] == trainings:
                    self.assertEqual(found["PUT"]["predicted"], found["PUT"]["counted"])
                    self.assertEqual(found["bytes to functions"]["predicted"], found["bytes to functions"]["counted"])
                for line in run["lines"]:
                    self.assertAlmostEqual(line["predicted_usd"], line["predicted"] * line["unit_usd"], 12)
                    if line["billed"] is not None:
                        self.assertAlmostEqual(line["billed_usd"], line["billed"] * line["unit_usd"], 12)
                time = run["lines"][0]
                self.assertEqual((time["source"], time["billed"] is None), ("reports", run["unreported"] > 0))
        self.assertLessEqual(proof["spent_usd"], 1)
        # Spent: the sum of the lines, where every call has a report.
        if all(run["unreported"] == 0 for run in proof["runs"]):
            billed = sum(line["billed_usd"] for run in proof["runs"] for line in run["lines"])
            self.assertAlmostEqual(proof["spent_usd"], billed, 9)
        keys = {one["key"].rsplit(".", 1)[1] for one in proof["assumptions"]}
        self.assertEqual(keys, {"init_ms", "invoke_ms", "cold_start_ms", "first_byte_ms", "bandwidth", "x86_64_cores"})
        self.assertEqual(len(proof["assumptions"]), 6 * len(SIZES))
        for one in proof["assumptions"]:
            self.assertEqual(one["measured"] is None, one["samples"] == 0, one)
        text = (folder / "proof.md").read_text()
        for size in SIZES:
            self.assertIn(f"### W2, {size} MB", text)
        self.assertIn("identical at all memory sizes", text)
        self.reported(proof, folder)

    @CAMPAIGN
    def test_3_reports_of_the_service_are_billed_and_measured(self):
        with Reports(self.cloud) as reports:
            line = ["prove", "aws", "--max-usd", "1", "--yes", "--json", "--out", "reported", "--memory-mb", "1769,512", *TINY]
            proof, _, said = self.cloud.eciton(*line, AWS_ENDPOINT_URL_LAMBDA=reports.url)
        self.is_gone()
        self.assertEqual([run["unreported"] for run in proof["runs"]], [0] * 4)
        sizes = {function["name"]: function["memory_mb"] for function in proof["stack"]["functions"]}
        for function, memory_mb in sizes.items():
            runs = [run for run in proof["runs"] if run["function"] == function]
            billed = sum(run["lines"][0]["billed"] for run in runs)
            self.assertAlmostEqual(billed, reports.billed_ms[function] / 1e3 * memory_mb / 1024, 9)
            self.assertEqual({run["used_mb"] for run in runs}, {reports.USED_MB})
            # W2 finds the function of W1 warm.
            cold = [next(pair for pair in run["quantities"] if pair["name"] == "cold starts") for run in runs]
            self.assertEqual([pair["predicted"] for pair in cold], [1, 1])
            self.assertEqual(cold[0]["counted"], 1)
        for run in proof["runs"]:
            for line in run["lines"]:
                self.assertAlmostEqual(line["ratio"], line["predicted"] / line["billed"], 9)
        billed = sum(line["billed_usd"] for run in proof["runs"] for line in run["lines"])
        self.assertAlmostEqual(proof["spent_usd"], billed, 9)
        measured = {(one["key"].rsplit(".", 1)[1], one["memory_mb"]): one for one in proof["assumptions"]}
        for memory_mb in sizes.values():
            # The file's value is that of one vCPU.
            self.assertAlmostEqual(measured["init_ms", memory_mb]["measured"], reports.INIT_MS * memory_mb / 1769, 6)
            for key in ("invoke_ms", "cold_start_ms", "x86_64_cores"):
                self.assertGreater(measured[key, memory_mb]["samples"], 0, key)
            self.assertGreater(measured["x86_64_cores", memory_mb]["measured"], 0)
        self.assertNotIn("no report line", (self.cloud.folder / "reported/proof.md").read_text())

    def reported(self, proof, folder):
        """A report that arrives later is joined by the names of the stack's resources."""
        hour = ",".join(f"{proof['begun'][:13]}:00:00Z" if at == 0 else f"{int(proof['begun'][:4]) + 1}-01-01T00:00:00Z" for at in (0, 1))
        rows = [HEAD]
        for function in proof["stack"]["functions"]:
            arn = f"arn:aws:lambda:us-east-1:123456789012:function:{function['name']}"
            rows += [f"Usage,{hour},USE1-Lambda-GB-Second,Invoke,2,0.00003,USD,{arn}", f"Usage,{hour},Request,Invoke,9,0.0000018,USD,{arn}"]
        rows += [f"Usage,{hour},Requests-Tier1,PutObject,40,0.0002,USD,{proof['stack']['bucket']}", f"Usage,{hour},BoxUsage:c7a.medium,RunInstances,1,0.05,USD,i-1", ""]
        report = self.cloud.folder / "report.csv.gz"
        report.write_bytes(gzip.compress("\n".join(rows).encode()))
        joined, _, _ = self.cloud.eciton("prove", "aws", "--cur", report, "--of", folder / "proof.json", "--json")
        invoice = joined["invoice"]
        self.assertEqual((invoice["items"], invoice["own_items"], invoice["currency"]), (8, 7, "USD"))
        of = {(line["resource"], line["usage"]): line for line in invoice["lines"]}
        for function in proof["stack"]["functions"]:
            own = [line["predicted"] for run in proof["runs"] if run["function"] == function["name"] for line in run["lines"] if line["usage"] == "Lambda-GB-Second"]
            line = of[function["name"], "Lambda-GB-Second"]
            self.assertAlmostEqual(line["predicted"], sum(own), 9)
            self.assertAlmostEqual(line["ratio"], sum(own) / 2, 9)
            self.assertEqual(of[function["name"], "Request"]["ratio"], 1)
        self.assertEqual(of["stack", "Requests-Tier1"]["billed"], 40)
        self.assertEqual(json.loads((folder / "proof.json").read_text()), joined)
        self.assertIn("## Cost and Usage Report", (folder / "proof.md").read_text())
        report.write_bytes(report.read_bytes()[:-20])
        _, _, said = self.cloud.eciton("prove", "aws", "--cur", report, "--of", folder / "proof.json", code=1)
        self.assertIn("gzip", said)
        self.assertEqual(json.loads((folder / "proof.json").read_text()), joined, "a damaged report changes nothing")

    def test_4_a_failure_removes_the_stack(self):
        """The functions' program is no trainer: every call fails."""
        line = ["prove", "aws", "--max-usd", "1", "--yes", "--out", "failed", "--memory-mb", "512", *TINY]
        _, _, said = self.cloud.eciton(*line, code=1, ECITON_TRAINER="/bin/true")
        self.assertRegex(said, "error: W1 with 512 MB: 1 of 1 trainings failed")
        self.is_gone()
        proof = json.loads((self.cloud.folder / "failed/proof.json").read_text())
        self.assertRegex(proof["error"], "W1 with 512 MB: 1 of 1 trainings failed")
        self.assertTrue(proof["stack"]["removed"])
        run, = proof["runs"]
        self.assertEqual((run["done"], run["failed"]), (0, 1))
        text = (self.cloud.folder / "failed/proof.md").read_text()
        self.assertIn("The proof ended early", text)
        if run["unreported"]:
            self.assertIn(f"no report line: {run['unreported']} of {run['calls']} calls", text)

    @CAMPAIGN
    def test_5_a_stack_that_exists_is_left_alone(self):
        self.cloud.eciton("deploy", "--stack", "eciton-proof", "--memory", "512", "--trainer", "512", "--no-alarms", "--json")
        line = ["prove", "aws", "--max-usd", "1", "--yes", *TINY]
        _, _, said = self.cloud.eciton(*line, code=1)
        self.assertRegex(said, "stack `eciton-proof` already exists .*deployment file")
        # Somebody else has deployed it.
        file = self.cloud.home / ".config/eciton/deployments/eciton-proof.json"
        text = file.read_text()
        file.unlink()
        _, _, said = self.cloud.eciton(*line, code=1)
        self.assertRegex(said, "stack `eciton-proof` already exists .reported by CloudFormation")
        self.assertEqual(self.cloud.everything("eciton-proof")["stacks"], ["eciton-proof"])
        file.write_text(text)
        self.cloud.eciton("destroy", "--stack", "eciton-proof", "--yes", "--json")

    @CAMPAIGN
    def test_6_a_signal_removes_the_stack(self):
        program = os.environ.get("ECITON", ROOT / "target/release/eciton")
        own = {"ECITON_WORKER": os.environ.get("ECITON_WORKER", str(ROOT / "target/worker/bootstrap")), "ECITON_TRAINER": os.environ.get("ECITON_TRAINER", str(ROOT / "target/worker/trainer"))}
        line = [program, "prove", "aws", "--max-usd", "1", "--yes", "--out", "stopped", "--memory-mb", "512", *TINY]
        # A group of its own, and the signal to all of it, as a terminal does.
        process = subprocess.Popen([str(word) for word in line], env=self.cloud.environment | own, cwd=self.cloud.folder, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True)
        self.addCleanup(process.kill)
        clock = threading.Timer(300, process.kill)
        clock.start()
        said = []
        for text in process.stderr:
            said.append(text)
            if text.startswith("making the stack"):
                os.killpg(process.pid, signal.SIGINT)
        self.assertEqual(process.wait(), 130, "".join(said))
        clock.cancel()
        process.stderr.close()
        self.assertIn("stopping; removing the stack", "".join(said))
        self.is_gone()
        proof = json.loads((self.cloud.folder / "stopped/proof.json").read_text())
        self.assertEqual((proof["runs"], proof["stack"]["removed"]), ([], True))
        self.assertIn("stopped", proof["error"])

    @CAMPAIGN
    def test_7_a_removal_that_fails_names_its_command(self):
        """A function of the stack's name that the stack does not know stays."""
        code = io.BytesIO()
        with zipfile.ZipFile(code, "w") as package:
            package.writestr("bootstrap", "#!/bin/sh\n")
        known = self.cloud.client("lambda")
        known.create_function(FunctionName="eciton-proof-worker-7076", Role="arn:aws:iam::000000000000:role/any", Runtime="provided.al2023", Handler="bootstrap", Code={"ZipFile": code.getvalue()})
        line = ["prove", "aws", "--max-usd", "1", "--yes", "--out", "left", "--memory-mb", "512", *TINY]
        _, _, said = self.cloud.eciton(*line, code=1, ECITON_TRAINER="/bin/true")
        command = "eciton destroy --stack eciton-proof --region us-east-1 --yes"
        self.assertRegex(said, f"(?s)error: W1 with 512 MB.*stack `eciton-proof` could not be removed and may cause costs.*worker-7076.*to remove it, run: {command}")
        proof = json.loads((self.cloud.folder / "left/proof.json").read_text())
        self.assertFalse(proof["stack"]["removed"])
        self.assertIn(command, proof["stack"]["left"])
        known.delete_function(FunctionName="eciton-proof-worker-7076")
        self.cloud.eciton(*command.split()[1:])
        self.is_gone()


if __name__ == "__main__":
    unittest.main()
