"""The template: valid, linted as SAM's and as CloudFormation's, and as rules.py wants it; and every check finds what is planted."""
import copy
import os
import pathlib
import subprocess
import sys
import tempfile
import tomllib
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import rules  # noqa: E402
from translated import INFRA, lint, source, translate  # noqa: E402

ALL = {f"Size{size}": "true" for size in (512, 1024, 1769, 3538, 7076, 10240)} | {"TrainerMemory2": "512", "TrainerMemory3": "3008"}
CHOICES = {
    "defaults": {},
    "everything": ALL | {"Architecture": "arm64", "Email": "a@b.org", "ReservedConcurrency": "100", "TimeoutSeconds": "900", "LogRetentionDays": "1"},
    "little": {"Size512": "true", "Size1769": "false", "TrainerMemory": "0", "Alarms": "false", "TimeoutSeconds": "30"},
    "a proof": {"Size1769": "false", "Size512": "true", "TrainerMemory": "512", "TrainerMemory2": "1769", "TrainerMemory3": "3008", "Alarms": "false"},
    "no first trainer": {"TrainerMemory": "0", "TrainerMemory2": "512"},
    "no budget": {"Email": "a@b.org", "BudgetUsd": "0"},
}


def sam(*line):
    environment = os.environ | {"AWS_DEFAULT_REGION": "us-east-1", "SAM_CLI_TELEMETRY": "0", "PATH": f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"}
    return subprocess.run(["sam", *line], cwd=INFRA, env=environment, capture_output=True, text=True, timeout=300)


class Template(unittest.TestCase):
    def test_sam_validates_it(self):
        done = sam("validate", "--lint")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("is a valid SAM Template", done.stdout + done.stderr)

    def test_the_translated_template_has_no_lint(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(lint(translate(source()), folder), [])

    def test_it_is_as_it_must_be(self):
        for name, given in CHOICES.items():
            with self.subTest(name):
                self.assertEqual(rules.problems(source(), given), [])

    def test_the_default_stack_fits_a_new_account(self):
        made = rules.resolve(source()).resources().values()
        sizes = [properties["MemorySize"] for kind, properties, _ in made if kind == "AWS::Lambda::Function"]
        self.assertEqual([int(size) for size in sizes], [1769, 1769])

    def test_each_action_has_its_sentence(self):
        self.assertEqual(rules.without_a_sentence(rules.text()), [])
        self.assertEqual(set(rules.actions_in(rules.text())), set(rules.ROLE) | set(rules.RUNS) | set(rules.TRAINER) | {"sts:AssumeRole", "s3:*"})

    def test_sam_builds_from_where_the_package_is(self):
        config = tomllib.loads((INFRA / "samconfig.toml").read_text())["default"]
        # Otherwise the Makefile runs in a copy, and a new worker is taken from a cache.
        self.assertEqual([config["build"]["parameters"][k] for k in ("build_in_source", "cached")], [True, False])


class Plants(unittest.TestCase):
    """A check that cannot fail is none: each of these changes must be found."""

    def planted(self, change, words, given=None):
        template = copy.deepcopy(source())
        change(template["Resources"], template)
        self.assertRegex("\n".join(rules.problems(template, given)), words)

    def statement(self, resources, sid):
        documents = [p["PolicyDocument"] for role in ("WorkerRole", "TrainerRole") for p in resources[role]["Properties"]["Policies"]]
        documents.append(resources["TrainerPolicy"]["Properties"]["PolicyDocument"])
        return next(s for d in documents for s in d["Statement"] if s["Sid"] == sid)

    def test_a_misspelt_action(self):
        self.planted(lambda r, _: self.statement(r, "Write").update(Action="s3:PutObjects"), "s3:PutObjects is not on the list")
        self.planted(lambda r, _: self.statement(r, "Log")["Action"].__setitem__(1, "logs:PutLogEvent"), "logs:PutLogEvents is missing")
        self.planted(lambda r, _: self.statement(r, "Functions").update(Action="lambda:Invoke"), "lambda:Invoke is not")
        # An action that exists, but is none of ours, is for our own list alone.
        self.planted(lambda r, _: self.statement(r, "Write").update(Action="s3:PutBucketPolicy"), "s3:PutBucketPolicy is not on the list")
        template = source()
        self.statement(template["Resources"], "Write")["Action"] = "s3:PutObjects"
        with tempfile.TemporaryDirectory() as folder:
            self.assertRegex("\n".join(lint(translate(template), folder)), "W3037.*putobjects")

    def test_a_wider_policy(self):
        self.planted(lambda r, _: self.statement(r, "Read").update(Action="s3:*"), r"s3:\* is not on the list")
        self.planted(lambda r, _: self.statement(r, "Read").update(Resource="*"), r"s3:GetObject on \['\*'\]")
        self.planted(lambda r, _: self.statement(r, "Write").update(Resource={"Fn::Sub": "arn:aws:s3:::${Bucket}/*"}), "s3:PutObject on")
        self.planted(lambda r, _: r["WorkerRole"]["Properties"].update(ManagedPolicyArns=["arn:aws:iam::aws:policy/AdministratorAccess"]), "managed policies of WorkerRole")
        self.planted(lambda r, _: self.statement(r, "Read").update(NotResource="*"), "NotResource")
        self.planted(lambda r, _: r["WorkerRole"]["Properties"]["AssumeRolePolicyDocument"]["Statement"][0].update(Principal="*"), "takes WorkerRole on")

    def test_the_role_of_whole_runs(self):
        role = lambda r: r["TrainerRole"]["Properties"]
        less = lambda r, _: self.statement(r, "ReadRuns")["Resource"].pop(0)
        self.planted(less, r"TrainerRole: s3:GetObject on .*jobs.*, not on .*files")
        self.planted(lambda r, _: self.statement(r, "WriteRuns")["Action"].remove("s3:AbortMultipartUpload"), "TrainerRole: s3:AbortMultipartUpload is missing")
        wider = {"Fn::Sub": "arn:aws:s3:::${Bucket}/runs/*"}
        self.planted(lambda r, _: self.statement(r, "WriteRuns").update(Resource=wider), r"TrainerRole: s3:PutObject on \['arn:aws:s3:::\{Bucket\}/runs/\*'\]")
        self.planted(lambda r, _: self.statement(r, "ReadRuns").update(Action=["s3:GetObject", "s3:DeleteObject"]), "TrainerRole: s3:DeleteObject is not on the list")
        self.planted(lambda r, _: role(r).update(ManagedPolicyArns=["arn:aws:iam::aws:policy/AdministratorAccess"]), "managed policies of TrainerRole")
        self.planted(lambda r, _: r["Trainer"]["Properties"].update(Role={"Fn::GetAtt": ["WorkerRole", "Arn"]}), "Trainer Role")
        self.planted(lambda r, _: r["TrainerRole"].pop("Condition"), "roles", {"TrainerMemory": "0"})
        self.planted(lambda r, _: r.pop("TrainerThrottles"), "alarms")
        self.planted(lambda r, _: r["Trainer2"]["Properties"].update(MemorySize=1024), "Trainer2 MemorySize", ALL)
        self.planted(lambda r, _: r["TrainerDuration"]["Properties"].update(Threshold=1), "Duration")

    def test_what_a_loopback_endpoint_drops(self):
        bucket = lambda r: r["Bucket"]["Properties"]
        self.planted(lambda r, _: bucket(r).pop("LifecycleConfiguration"), "lifecycle")
        self.planted(lambda r, _: bucket(r)["LifecycleConfiguration"]["Rules"][0].update(ExpirationInDays=2), "lifecycle")
        self.planted(lambda r, _: bucket(r).pop("BucketEncryption"), "encryption")
        self.planted(lambda r, _: bucket(r)["PublicAccessBlockConfiguration"].update(BlockPublicAcls=False), "public access")
        self.planted(lambda r, _: r.pop("BucketPolicy"), "bucket policy")
        self.planted(lambda r, _: r["Bucket"].update(DeletionPolicy="Retain"), "would stay")
        self.planted(lambda r, _: r["Worker1769Logs"]["Properties"].pop("RetentionInDays"), "log groups")
        self.planted(lambda r, _: r["Trainer"].pop("DependsOn"), "Trainer: does not wait for its log group")
        self.planted(lambda r, _: r["Worker1769"].pop("DependsOn"), "does not wait for its log group")
        always = lambda _, t: t["Globals"]["Function"].update(ReservedConcurrentExecutions=100)
        self.planted(always, "ReservedConcurrentExecutions: 100, not null")
        never = lambda _, t: t["Globals"]["Function"].pop("ReservedConcurrentExecutions")
        self.planted(never, 'ReservedConcurrentExecutions: null, not "5"', {"ReservedConcurrency": "5"})

    def test_alarms_budget_and_functions(self):
        self.planted(lambda r, _: r["Worker3538Throttles"]["Properties"].update(MetricName="Errors"), "alarms", ALL)
        self.planted(lambda r, _: r["Worker3538Duration"]["Properties"].update(Threshold=1), "Duration", ALL)
        self.planted(lambda r, _: r.pop("Budget"), "budgets", {"Email": "a@b.org"})
        self.planted(lambda r, _: r["Worker1769"]["Properties"].update(MemorySize=3538), "Worker1769 MemorySize")
        self.planted(lambda r, _: r["Worker1769"]["Properties"].update(Layers=["x"]), "other properties")
        self.planted(lambda _, t: t["Globals"]["Function"]["Environment"]["Variables"].pop("ECITON_SIGNING_KEY"), "Worker1769 Environment")
        self.planted(lambda _, t: t["Outputs"].pop("Bucket"), "outputs")
        self.planted(lambda r, _: r.update(Queue={"Type": "AWS::SQS::Queue"}), "are not wanted")

    def test_lint_of_the_translated_template(self):
        template = source()
        template["Resources"]["Worker1769Logs"]["Properties"]["RetentionInDays"] = 2
        with tempfile.TemporaryDirectory() as folder:
            self.assertNotEqual(lint(translate(template), folder), [])

    def test_an_action_without_a_sentence(self):
        lines = rules.text().splitlines()
        at = next(i for i, line in enumerate(lines) if "- s3:PutObject" in line)
        del lines[at - 1]
        self.assertEqual(rules.without_a_sentence("\n".join(lines)), ["s3:PutObject"])


class Build(unittest.TestCase):
    """What the Makefile refuses before anything is uploaded."""

    def build(self, *files, target="build-Worker1769"):
        with tempfile.TemporaryDirectory() as folder:
            package, out = pathlib.Path(folder, "package"), pathlib.Path(folder, "out")
            (package / "kernels").mkdir(parents=True)
            for name, content in files:
                (package / name).write_bytes(content)
            done = subprocess.run(["make", "-s", target, f"PACKAGE={package}", f"ARTIFACTS_DIR={out}"],
                                  cwd=INFRA, capture_output=True, text=True, timeout=60)
            made = sorted(str(p.relative_to(out)) for p in out.rglob("*") if p.is_file()) if out.exists() else []
            return done.returncode, done.stderr, made

    def setUp(self):
        self.worker = pathlib.Path("/bin/true").read_bytes()
        self.kernel = ("kernels/k.cwasm", b"k")

    def test_a_package_is_copied(self):
        self.assertEqual(self.build(("bootstrap", self.worker), self.kernel)[::2], (0, ["bootstrap", "kernels/k.cwasm"]))

    def test_no_worker_and_no_kernels(self):
        self.assertRegex(self.build(self.kernel)[1], "no worker at .*cargo build")
        self.assertRegex(self.build(("bootstrap", b""))[1], "no kernels at .*eciton deploy")

    def test_a_trainer_is_the_bootstrap_of_its_function(self):
        self.assertRegex(self.build(("bootstrap", self.worker), self.kernel, target="build-Trainer")[1], "no trainer at .*eciton-trainer")
        files = ("bootstrap", self.worker), ("trainer", self.worker), self.kernel
        self.assertEqual(self.build(*files, target="build-Trainer")[::2], (0, ["bootstrap", "kernels/k.cwasm"]))

    def test_a_script(self):
        self.assertRegex(self.build(("bootstrap", b"#!/bin/sh\n"), self.kernel)[1], "is no Linux program")

    def test_a_newer_c_library(self):
        code, said, made = self.build(("bootstrap", self.worker.replace(b"\0GLIBC_2.34\0", b"\0GLIBC_2.99\0")), self.kernel)
        self.assertNotEqual(code, 0)
        self.assertRegex(said, r"needs glibc 2\.99, Amazon Linux 2023 has 2\.34")
        self.assertEqual(made, [])


if __name__ == "__main__":
    unittest.main()
