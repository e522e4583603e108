"""Every call to AWS has its action in the policy of whoever makes it; and the checks find what is planted."""
import copy
import json
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import actions  # noqa: E402
import rules  # noqa: E402
from actions import DEPLOYER, ROLE, RUNS, TRAINER  # noqa: E402
from translated import resolve, source  # noqa: E402


def policies():
    """Who -> action -> resources, as the template and the deployer's policy have them."""
    made = resolve(source()).resources()
    role = lambda name: rules.granted(policy["PolicyDocument"] for policy in made[name][1]["Policies"])
    return {
        ROLE: role("WorkerRole"),
        RUNS: role("TrainerRole"),
        TRAINER: rules.granted([made["TrainerPolicy"][1]["PolicyDocument"]]),
        DEPLOYER: rules.granted([without_condition(actions.deployers())]),
    }


def without_condition(document):
    """The role is passed to Lambda only; other conditions are refused by `granted`."""
    document = copy.deepcopy(document)
    for statement in document["Statement"]:
        if statement["Sid"] == "Pass":
            assert statement.pop("Condition") == {"StringEquals": {"iam:PassedToService": "lambda.amazonaws.com"}}
    return document


class Actions(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.known = actions.operations(actions.services())
        cls.needed = {who: actions.wanted(who, actions.types()) for who in (ROLE, RUNS, TRAINER, DEPLOYER)}

    def test_every_call_has_a_row(self):
        self.assertEqual(actions.services(), ["lambda", "s3", "sts"])
        calls, problems = actions.found(actions.sources(), self.known)
        self.assertEqual(problems + list(actions.compared(calls)), [])

    def test_a_call_that_is_added_is_found(self):
        texts = actions.sources()
        name = "host/deploy/src/cloud/bucket.rs"
        for call, words in [("client.put_bucket_acl()\n    .bucket(name).send().await;", "put_bucket_acl has no row"),
                            ("request.send().await;", "8 requests are sent and 7 operations are known"),
                            ("client.list_buckets().into_paginator().send();", "list_buckets")]:
            with self.subTest(call):
                calls, problems = actions.found(texts | {name: texts[name] + call}, self.known)
                self.assertRegex("\n".join(problems + list(actions.compared(calls))), words)
        # In a file that made none before, too.
        calls, _ = actions.found(texts | {"host/train/src/train.rs": "lambda.delete_function().send()"}, self.known)
        self.assertEqual(list(actions.compared(calls)), ["host/train/src/train.rs: delete_function has no row in tests/infra/actions.py"])
        calls, _ = actions.found({n: t for n, t in texts.items() if n != name}, self.known)
        self.assertRegex("\n".join(actions.compared(calls)), "create_bucket is in the table and not in the code")

    def test_sam_makes_no_call_without_a_row(self):
        named = actions.found_in_sam()
        self.assertEqual(sorted(named - set(actions.SAM)), [])
        self.assertEqual(sorted(set(actions.SAM) - named), [])

    def test_every_type_of_the_template_has_its_actions(self):
        self.assertEqual(actions.types(), sorted(actions.TYPES))

    def test_policies_have_what_calls_need_and_no_more(self):
        for who, grants in policies().items():
            with self.subTest(who):
                self.assertEqual(list(actions.missing(who, grants, self.needed[who])), [])

    def test_an_action_that_a_policy_misses_is_found(self):
        for who, grants in policies().items():
            for action in grants:
                with self.subTest(who=who, action=action):
                    less = {name: where for name, where in grants.items() if name != action}
                    self.assertRegex("\n".join(actions.missing(who, less, self.needed[who])), f"{who}: {action.rstrip('*')}.* is missing")
        more = policies()[TRAINER] | {"s3:DeleteBucket": ["arn:aws:s3:::{Bucket}"]}
        self.assertEqual(list(actions.missing(TRAINER, more, self.needed[TRAINER])), ["trainer: s3:DeleteBucket on arn:aws:s3:::{Bucket} is needed by no call"])

    def test_whole_runs_have_the_prefixes_of_the_sources(self):
        texts = actions.sources()
        named = {name: actions.ON[name] for name in ("files", "jobs")}
        self.assertEqual(actions.prefixes(texts), named)
        name = "host/cloud/src/trainers.rs"
        moved = actions.prefixes(texts | {name: texts[name].replace('"runs/jobs/"', '"runs/answers/"')})
        self.assertNotEqual(moved, named)

    def test_whole_runs_may_not_write_what_tasks_read(self):
        grants = policies()[RUNS]
        self.assertEqual(grants["s3:PutObject"], ["arn:aws:s3:::{Bucket}/runs/jobs/*"])
        wider = grants | {"s3:PutObject": ["arn:aws:s3:::{Bucket}/runs/*"]}
        said = "\n".join(actions.missing(RUNS, wider, self.needed[RUNS]))
        self.assertIn("role of whole runs: s3:PutObject on arn:aws:s3:::{Bucket}/runs/* is needed by no call", said)
        self.assertIn("role of whole runs: s3:PutObject on arn:aws:s3:::{Bucket}/runs/jobs/* is missing", said)

    def test_clean_needed_what_trainers_may_not(self):
        """It listed versions and removed by version: neither is in TrainerPolicy, and a loopback endpoint ignores policies."""
        text = actions.sources()["host/deploy/src/cloud.rs"]
        clean = text[text.index("pub fn clean"):]
        self.assertRegex(clean, r"store\.list\(")
        self.assertNotIn("bucket::", clean)

    def test_a_worker_could_not_abandon_an_upload(self):
        """It wrote large answers in parts, and could not remove the parts of one that failed."""
        self.assertIn("s3:AbortMultipartUpload", policies()[ROLE])

    def test_the_deployers_policy_is_small_enough(self):
        text = json.dumps(actions.deployers(), separators=(",", ":"))
        self.assertLess(len(text), 6144, "IAM's limit for a managed policy")


if __name__ == "__main__":
    unittest.main()
