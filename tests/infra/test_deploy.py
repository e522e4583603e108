"""A deployment from nothing and back, by `eciton` itself, against a loopback endpoint; and what it says before it starts.

Needs `eciton` (ECITON, else target/release/eciton), the worker (ECITON_WORKER, else target/worker/bootstrap), the trainer (ECITON_TRAINER, else target/worker/trainer) and the endpoint
(ECITON_MINISTACK, else beside Python). What the endpoint drops
(reserved concurrency, lifecycle, encryption) is test_template.py's.
"""
import json
import os
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import actions  # noqa: E402
import rules  # noqa: E402
from cloud import Cloud, Instance  # noqa: E402
from translated import KEY, resolve, source  # noqa: E402

# Of programs with the profile of a release: the trainer, the larger of the two, has 28 MB, the code of all kernels 5.4 MB.
PACKAGE_BYTES = int(os.environ.get("ECITON_PACKAGE_BYTES", 34_500_000))


class Deploy(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.cloud = Cloud(cls.folder.name)
        cls.addClassCleanup(cls.folder.cleanup)
        cls.addClassCleanup(cls.cloud.stop)
        cls.cloud.wait()

    def test_1_a_dry_run_tells_what_the_template_makes(self):
        for flags in (["--arch", "x86_64"], ["--memory", "10240,512,1769,7076,1024", "--email", "a@b.org", "--timeout", "900", "--log-days", "1"], ["--no-alarms", "--email", "a@b.org", "--budget", "0"]):
            with self.subTest(flags):
                told, _, said = self.cloud.eciton("deploy", "--dry-run", "--json", *flags)
                facts = told["facts"]
                self.assertEqual((said, told["missing"]), ("", []))
                resolver = resolve(source(), told["parameters"] | {"VerifyingKey": KEY})
                self.assertEqual(rules.problems(source(), told["parameters"] | {"VerifyingKey": KEY}), [])
                made = resolver.resources()
                functions = [p for t, p, _ in made.values() if t == "AWS::Lambda::Function" and not p["FunctionName"].endswith("-runs")]
                self.assertEqual(len(made), facts["resources"])
                self.assertEqual(facts["role_actions"], sorted(rules.ROLE))
                self.assertEqual(sorted(rules.ROLE), sorted(rules.RUNS))
                self.assertEqual([f["name"] for f in facts["functions"]], [f["FunctionName"] for f in sorted(functions, key=lambda f: f["MemorySize"])])
                self.assertEqual({f["memory_mb"] for f in facts["functions"]}, {f["MemorySize"] for f in functions})
                self.assertEqual({facts["timeout_s"]}, {int(f["Timeout"]) for f in functions})
                self.assertEqual(facts["alarms"], sum(t == "AWS::CloudWatch::Alarm" for t, _, _ in made.values()))
                self.assertEqual("budget_usd" in facts, any(t == "AWS::Budgets::Budget" for t, _, _ in made.values()))
        self.assertFalse(any(self.cloud.everything("eciton").values()), "a dry run made something")
        self.assertEqual(list(self.cloud.home.rglob("*")), [], "a dry run wrote something")

    def test_1_the_host_is_told_and_a_policy_is_printed(self):
        for flags, place, usd in (([], "home", 0.09), (["--host", "region"], "region", 0.01), (["--host", "zone"], "zone", 0.0)):
            told, _, _ = self.cloud.eciton("deploy", "--dry-run", "--json", *flags)
            self.assertEqual((told["host"]["place"], told["transfer_gb_usd"]), (place, usd))
            self.assertIn("as configured" if flags else "assumed, because AWS_EC2_METADATA_DISABLED", told["host"]["because"])
        # Where metadata answers it is believed: the host of these tests is not at AWS, a service on this machine says that it is.
        for zone, place in (("us-east-1c", "region"), ("eu-west-1a", "home")):
            with Instance(zone) as url:
                told, _, _ = self.cloud.eciton("deploy", "--dry-run", "--json", AWS_EC2_METADATA_DISABLED="", AWS_EC2_METADATA_SERVICE_ENDPOINT=url)
            self.assertEqual(told["host"]["place"], place)
            self.assertIn(f"the EC2 metadata service reports {zone}", told["host"]["because"])
        _, policy, _ = self.cloud.eciton("deploy", "--policy", "--region", "us-east-1")
        wanted = json.dumps(actions.deployers()).replace(actions.PSEUDO["AWS::AccountId"], "*")
        self.assertEqual(json.loads(policy), json.loads(wanted))
        self.cloud.eciton("deploy", "--policy", "--stack", "Not_One", code=2)

    def test_2_what_is_missing_is_said(self):
        told, _, _ = self.cloud.eciton("deploy", "--dry-run", "--json", ECITON_WORKER="/nowhere", ECITON_TRAINER="/nowhere", PATH="/nowhere")
        self.assertEqual(len(told["missing"]), 4)
        self.assertRegex(" ".join(told["missing"]), "cargo build.*pipx install aws-sam-cli.*make")
        refusals = [
            (["deploy", "--memory", "1000"], {}, 2, "512, 1024, 1769, 3538, 7076, 10240"),
            (["deploy", "--stack", "Not_One"], {}, 2, "lower-case"),
            (["deploy"], {"ECITON_WORKER": "/nowhere"}, 1, "cargo build"),
            (["deploy"], {"PATH": "/nowhere"}, 1, "pipx install aws-sam-cli"),
            (["deploy", "--arch", "arm64"], {}, 1, "made for x86_64, the functions are to be arm64"),
            (["deploy"], {"AWS_REGION": "", "AWS_DEFAULT_REGION": ""}, 1, "no AWS region is set: add --region"),
            (["deploy"], {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}, 1, "no credentials: `aws configure`"),
            (["deploy", "--reserve", "5000"], {}, 1, "cannot be reserved.*Service Quotas"),
            (["deploy", "--kernel", "k=/bin/true"], {}, 1, "k"),
            (["destroy"], {}, 2, "add --yes"),
            (["clean", "run"], {}, 1, "there is no deployment `eciton`"),
        ]
        for line, environment, code, words in refusals:
            with self.subTest(line=line, **environment):
                _, out, said = self.cloud.eciton(*line, code=code, **environment)
                self.assertRegex(said, r"(?s)error: .*" + words)
                self.assertEqual(out, "")
        self.assertFalse(any(self.cloud.everything("eciton").values()), "a refused deployment made something")

    def test_3_from_nothing_and_back(self):
        cloud = self.cloud
        built, _, _ = cloud.eciton("deploy", "--build-only", "--json")
        self.assertLess(built["package_bytes"], PACKAGE_BYTES)
        self.assertFalse(any(cloud.everything("eciton").values()), "--build-only made something")

        done, _, _ = cloud.eciton("deploy", "--json")
        deployment, file = done["result"]["deployment"], pathlib.Path(done["result"]["file"])
        self.assertEqual(json.loads(file.read_text()), deployment)
        there = cloud.everything("eciton")
        self.assertEqual(there["functions"], ["eciton-worker-1769", "eciton-worker-runs"])
        self.assertEqual(there["functions"], [f["name"] for f in deployment["functions"] + deployment["trainers"]])
        self.assertEqual(there["log groups"], [f"/aws/lambda/{name}" for name in there["functions"]])
        self.assertEqual([len(there[k]) for k in ("stacks", "buckets", "roles", "policies", "alarms")], [1, 2, 2, 1, 6])
        self.assertIn(deployment["bucket"], there["buckets"])
        # The account has room, and keeps it.
        self.assertEqual(deployment["account_concurrency"], 1000)
        self.assertNotIn("reserved_concurrency", deployment)
        self.assertEqual(self.parameter(cloud, "ReservedConcurrency"), "0")
        self.assertEqual(pathlib.Path(deployment["signing_key"]).stat().st_mode & 0o777, 0o600)
        made = [cloud.client("lambda").get_function(FunctionName=name)["Configuration"] for name in there["functions"]]
        self.assertEqual(len({f["CodeSha256"] for f in made}), 2, "one package for all workers, one for whole runs")
        self.assertEqual([f["MemorySize"] for f in made], [1769, 1769])
        for function in made:
            self.assertEqual(function["Environment"]["Variables"], {"ECITON_BUCKET": deployment["bucket"], "ECITON_SIGNING_KEY": deployment["verifying_key"], "ECITON_SIMD": "avx2"})
        packages = cloud.client("s3").list_objects_v2(Bucket=done["result"]["packages"])["Contents"]
        package, runs = sorted((o for o in packages if not o["Key"].endswith(".template")), key=lambda o: o["Size"])  # each uploaded once

        self.answers(deployment)
        self.trains(file)
        self.trains_without_the_key(deployment)

        # A run's objects, those of another, and no more than asked for.
        s3 = cloud.client("s3")
        for key in ("runs/one/e000001/x", "runs/one/y", "runs/one-more/x", "kernels/k"):
            s3.put_object(Bucket=deployment["bucket"], Key=key, Body=b"x")
        cleaned, _, _ = cloud.eciton("clean", "one", "--json")
        self.assertEqual(cleaned["objects"], 2)
        left = {o["Key"] for o in s3.list_objects_v2(Bucket=deployment["bucket"])["Contents"]}
        self.assertTrue({"runs/one-more/x", "kernels/k"} <= left and not any(key.startswith("runs/one/") for key in left), left)
        for name in ("../one", "", "a/b"):
            cloud.eciton("clean", name, code=1)

        # Another choice changes the stack; a kernel of the user's goes into the bucket.
        component = pathlib.Path(__file__).parents[2] / "guest-kernels/prebuilt/linear.wasm"
        again, _, _ = cloud.eciton("deploy", "--memory", "1769", "--no-alarms", "--reserve", "auto", "--kernel", f"mine={component}", "--json")
        there = cloud.everything("eciton")
        self.assertEqual((there["functions"], there["alarms"], len(there["buckets"])), (["eciton-worker-1769", "eciton-worker-runs"], [], 2))
        self.assertEqual(again["result"]["deployment"]["reserved_concurrency"], 100)
        self.assertEqual(self.parameter(cloud, "ReservedConcurrency"), "100")
        run, _, said = cloud.eciton("train", "--epochs", "1", "--no-out", "--json", "--executor", "lambda", "--functions", "500")
        self.assertEqual([run["helpers"]["cut"][k] for k in ("asked", "given")], [500, 100])
        self.assertIn("functions: 500 requested, 100 available: stack `eciton` reserves 100 for each function", said)
        (name, key), = again["result"]["kernels"]
        self.assertEqual((name, key.split(".")[1:]), ("mine", ["x86-64-v3", "cwasm"]))
        self.assertGreater(s3.head_object(Bucket=deployment["bucket"], Key=key)["ContentLength"], 1000)

        # Something of the stack's name that the stack does not know is found, and named.
        role = cloud.client("iam").list_roles()["Roles"][0]["Arn"]
        code = cloud.client("s3").get_object(Bucket=done["result"]["packages"], Key=package["Key"])["Body"].read()
        cloud.client("lambda").create_function(FunctionName="eciton-worker-7076", Role=role, Runtime="provided.al2023", Handler="bootstrap", Code={"ZipFile": code})
        _, _, said = cloud.eciton("destroy", "--yes", code=1)
        self.assertIn("still there: function eciton-worker-7076", said)
        self.assertTrue(file.exists())
        cloud.client("lambda").delete_function(FunctionName="eciton-worker-7076")

        gone, _, _ = cloud.eciton("destroy", "--yes", "--json")
        self.assertFalse(gone["result"]["stack"])
        self.assertEqual({what: names for what, names in cloud.everything("eciton").items() if names}, {})
        self.assertFalse(file.exists())
        # Once more finds nothing, and says so.
        gone, out, _ = cloud.eciton("destroy", "--yes", "--json")
        self.assertEqual((gone["result"]["stack"], gone["result"]["objects"]), (False, 0))

    def test_4_a_new_account_reserves_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            cloud = Cloud(folder, concurrency=10)
            self.addCleanup(cloud.stop)
            cloud.wait()
            _, _, said = cloud.eciton("deploy", "--reserve", "5", code=1)
            self.assertRegex(said, "5 for each of 2 functions cannot be reserved: the account may run 10 at once")
            done, _, _ = cloud.eciton("deploy", "--memory", "1769", "--stack", "new", "--reserve", "auto", "--json")
            self.assertEqual(done["result"]["deployment"]["account_concurrency"], 10)
            self.assertNotIn("reserved_concurrency", done["result"]["deployment"])
            self.assertEqual(self.parameter(cloud, "ReservedConcurrency"), "0")
            gone, _, _ = cloud.eciton("destroy", "--stack", "new", "--yes", "--json")
            self.assertTrue(gone["result"]["stack"])
            self.assertFalse(any(cloud.everything("new").values()))

    def parameter(self, cloud, name):
        stack, = cloud.client("cloudformation").describe_stacks()["Stacks"]
        return next(p["ParameterValue"] for p in stack["Parameters"] if p["ParameterKey"] == name)

    def answers(self, deployment):
        """The deployed worker runs, and refuses what is no task."""
        for function in deployment["functions"]:
            answer = self.cloud.client("lambda").invoke(FunctionName=function["name"], Payload=b'{"no": "task"}')
            body = json.loads(answer["Payload"].read())
            self.assertEqual(answer.get("FunctionError"), "Unhandled", body)
            self.assertRegex(body["errorType"], r"^Eciton\.", body)

    def trains(self, file):
        """A run on the deployed functions gives the weights of a local one in the deployment's class."""
        local, _, _ = self.cloud.eciton("train", "--epochs", "2", "--no-out", "--json", "--set", "run.numeric_class=avx2-fma-1")
        line = ["train", "--epochs", "2", "--no-out", "--json", "--executor", "lambda", "--deployment", file]
        deployed, _, said = self.cloud.eciton(*line)
        self.assertEqual((deployed["model_digest"], said), (local["model_digest"], ""))
        self.assertEqual((deployed["numeric_class"], local["numeric_class"]), ("avx2-fma-1",) * 2)
        self.assertEqual(deployed["cost"]["host"]["place"], "home")
        self.assertGreater(deployed["cost"]["transfer_usd"], 0)
        inside, _, said = self.cloud.eciton(*line, "--host", "zone", "--functions", "2000")
        self.assertEqual((inside["cost"]["host"], inside["cost"]["transfer_usd"]), ({"place": "zone", "because": "as configured"}, 0.0))
        self.whole_runs(file, local)
        self.assertIn("functions: 2000 requested, 1000 available: the account could run 1000 functions at once", said)

    def whole_runs(self, file, local):
        """The function of whole runs gives the same weights, and a second time finds its answer in the bucket."""
        line = ["--epochs", "2", "--json", "--executor", "lambda", "--deployment", file]
        for out, found in ("one", False), ("two", True):
            spent, text, _ = self.cloud.eciton("train", "--as-task", "--out", out, *line)
            summary = next(json.loads(said) for said in text.splitlines() if "model_digest" in said)
            self.assertEqual(summary["model_digest"], local["model_digest"])
            self.assertEqual([job["found"] for job in spent["jobs"]], [found])
            # The function looked for its answer, and wrote it and its predictions once; the bill has that and the host's own reads.
            told, bill = spent["jobs"][0]["store"], spent["bill"]
            self.assertEqual((told["heads"], told["puts"]), (1, 0 if found else 2))
            self.assertGreaterEqual(bill["store_reads"], told["heads"] + told["gets"] + 1)
            self.assertGreaterEqual(bill["store_writes"], told["puts"])
        _, _, said = self.cloud.eciton("train", "--as-task", *line, "--memory", "10240", code=1)
        self.assertIn("has no function for whole runs of 10240 MB or more; it has 1769", said)

    def trains_without_the_key(self, deployment):
        """Somebody else's home has no key, or another one: what is there runs, what is new is refused, and nothing is made or overwritten."""
        s3, bucket = self.cloud.client("s3"), deployment["bucket"]
        kernels = lambda: {o["Key"]: o["ETag"] for o in s3.list_objects_v2(Bucket=bucket, Prefix="kernels/").get("Contents", [])}
        self.assertEqual(kernels(), {}, "the built-in ones are in the package")
        home = self.cloud.folder / "trainer"
        key = home / ".local/state/eciton/signing.key"
        home.mkdir()
        file = home / "deployment.json"
        file.write_text(json.dumps(deployment | {"signing_key": str(key)}))
        line = ["train", "--epochs", "1", "--no-out", "--json", "--executor", "lambda"]
        theirs = [*line, "--deployment", file]
        self.cloud.eciton(*theirs, HOME=str(home))
        # The same kernel with a section that says nothing: new to everybody.
        mine = home / "mine.wasm"
        mine.write_bytes((pathlib.Path(__file__).parents[2] / "guest-kernels/prebuilt/linear.wasm").read_bytes() + b"\x00\x03\x02me")
        own = ["--kernel", f"linear={mine}"]
        _, _, said = self.cloud.eciton(*theirs, *own, code=1, HOME=str(home))
        self.assertRegex(said, "the functions of stack `eciton` cannot run kernel `linear`: the bucket does not contain it, and its signing key .* does not exist on this machine")
        self.assertFalse(key.exists())
        key.parent.mkdir(parents=True, exist_ok=True)  # the kernel cache has a key there
        key.write_bytes(bytes(range(32)))
        key.chmod(0o600)
        _, _, said = self.cloud.eciton(*theirs, *own, code=1, HOME=str(home))
        self.assertRegex(said, f"is not the signing key of the stack .its public key is .*, but the functions trust {deployment['verifying_key']}")
        self.assertEqual(kernels(), {})
        # Who has the key puts it there, for all.
        self.cloud.eciton(*line, *own)
        there = kernels()
        self.assertEqual(len(there), 1)
        self.cloud.eciton(*theirs, *own, HOME=str(home))
        self.assertEqual(kernels(), there)


if __name__ == "__main__":
    unittest.main()
