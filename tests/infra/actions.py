"""One table: every call to AWS that there is, the IAM action that it needs, who makes it, and on what.

The policies follow from it and are compared with it: what functions and trainers may do (infra/template.yaml), and what a deployer may do
(infra/deployer-policy.json, printed by `eciton deploy --policy`). Calls are of three kinds:
* CALLS: in Eciton's own sources, by file and operation. `found` reads the sources: a call without a row is a failure, and a row without its call.
* SAM: of `sam` on the deployer's credentials, by the operation's name; `found_in_sam` reads sam's sources.
* CloudFormation's on the same credentials, by the types of the template's resources: AWS's own lists, which cfn-lint brings. UNUSED says of
  what is on such a list and not granted why it is not needed.
"""
import fnmatch
import json
import pathlib
import re

import botocore.session
from botocore import xform_name

from translated import INFRA, PSEUDO, resolve, source

ROOT = INFRA.parent
# The role of functions that do tasks, that of the function that does whole runs, a person who trains, one who deploys.
ROLE, RUNS, TRAINER, DEPLOYER = "role", "role of whole runs", "trainer", "deployer"
OURS = "arn:aws:%s:us-east-1:123456789012:%s"
# What an action is on; names for the table.
ON = {
    "runs": "arn:aws:s3:::{Bucket}/runs/*",
    "kernels": "arn:aws:s3:::{Bucket}/kernels/*",
    # Of whole runs: `prefixes` compares these with the sources.
    "files": "arn:aws:s3:::{Bucket}/runs/files/*",
    "jobs": "arn:aws:s3:::{Bucket}/runs/jobs/*",
    "bucket": "arn:aws:s3:::{Bucket}",
    "functions": OURS % ("lambda", "function:eciton-worker-*"),
    "log streams": OURS % ("logs", "log-group:/aws/lambda/eciton-worker-*:log-stream:*"),
    "log streams of whole runs": OURS % ("logs", "log-group:/aws/lambda/eciton-worker-runs*:log-stream:*"),
    # A deployer's: before there is a stack.
    "all": "*",
    "buckets": "arn:aws:s3:::eciton-*",
    "objects": "arn:aws:s3:::eciton-*/*",
    "stack": OURS % ("cloudformation", "stack/eciton/*"),
    "transform": "arn:aws:cloudformation:us-east-1:aws:transform/Serverless-2016-10-31",
    "role": "arn:aws:iam::123456789012:role/eciton-WorkerRole-*",
    "role of whole runs": "arn:aws:iam::123456789012:role/eciton-TrainerRole-*",
    "policy": "arn:aws:iam::123456789012:policy/eciton-TrainerPolicy-*",
    "log groups": OURS % ("logs", "log-group:/aws/lambda/eciton-worker-*"),
    "alarms": OURS % ("cloudwatch", "alarm:eciton-*"),
    "topic": OURS % ("sns", "eciton-*"),
    "budget": "arn:aws:budgets::123456789012:budget/eciton-*",
}

READS = {ROLE: ("s3:GetObject", "runs", "kernels"), RUNS: ("s3:GetObject", "files", "jobs", "kernels"), TRAINER: ("s3:GetObject", "runs", "kernels")}
# Only the host writes kernels.
WRITES = {ROLE: ("s3:PutObject", "runs"), RUNS: ("s3:PutObject", "jobs"), TRAINER: ("s3:PutObject", "runs", "kernels")}
ABANDONS = {ROLE: ("s3:AbortMultipartUpload", "runs"), RUNS: ("s3:AbortMultipartUpload", "jobs"), TRAINER: ("s3:AbortMultipartUpload", "runs", "kernels")}
# Whoever cleans a run up: the run itself, or `eciton clean`.
REMOVES = {TRAINER: ("s3:DeleteObject", "runs")}
STORE, CLOUD = "host/transport/src/s3", "host/deploy/src/cloud"
CALLS = {
    (f"{STORE}/download.rs", "get_object"): READS,
    # A GET of an object that may be absent is told so only who may list. HEAD is GetObject's.
    (f"{STORE}.rs", "head_object"): READS,
    (f"{STORE}.rs", "list_objects_v2"): {TRAINER: ("s3:ListBucket", "bucket")},
    (f"{STORE}.rs", "delete_object"): REMOVES,
    (f"{STORE}.rs", "delete_objects"): REMOVES,
    (f"{STORE}/upload.rs", "put_object"): WRITES,
    (f"{STORE}/upload.rs", "create_multipart_upload"): WRITES,
    (f"{STORE}/upload.rs", "upload_part"): WRITES,
    (f"{STORE}/upload.rs", "complete_multipart_upload"): WRITES,
    (f"{STORE}/upload.rs", "abort_multipart_upload"): ABANDONS,
    ("host/cloud/src/lambda_invoker.rs", "invoke"): {TRAINER: ("lambda:InvokeFunction", "functions")},
    # Needs no permission, and cannot be denied.
    (f"{CLOUD}.rs", "get_caller_identity"): {},
    (f"{CLOUD}.rs", "get_account_settings"): {DEPLOYER: ("lambda:GetAccountSettings", "all")},
    (f"{CLOUD}.rs", "get_function_concurrency"): {DEPLOYER: ("lambda:GetFunctionConcurrency", "functions")},
    (f"{CLOUD}.rs", "get_function_configuration"): {DEPLOYER: ("lambda:GetFunctionConfiguration", "functions")},
    (f"{CLOUD}/bucket.rs", "create_bucket"): {DEPLOYER: ("s3:CreateBucket", "buckets")},
    (f"{CLOUD}/bucket.rs", "put_public_access_block"): {DEPLOYER: ("s3:PutBucketPublicAccessBlock", "buckets")},
    (f"{CLOUD}/bucket.rs", "head_bucket"): {DEPLOYER: ("s3:ListBucket", "buckets")},
    (f"{CLOUD}/bucket.rs", "list_object_versions"): {DEPLOYER: ("s3:ListBucketVersions", "buckets")},
    # With and without the id of a version.
    (f"{CLOUD}/bucket.rs", "delete_objects"): {DEPLOYER: ("s3:DeleteObjectVersion s3:DeleteObject", "objects")},
    (f"{CLOUD}/bucket.rs", "put_object"): {DEPLOYER: ("s3:PutObject", "objects")},
    (f"{CLOUD}/bucket.rs", "delete_bucket"): {DEPLOYER: ("s3:DeleteBucket", "buckets")},
}
# The Lambda service, on the function's role.
SERVICE = {
    "opens a log stream": {ROLE: ("logs:CreateLogStream", "log streams"), RUNS: ("logs:CreateLogStream", "log streams of whole runs")},
    "writes log lines": {ROLE: ("logs:PutLogEvents", "log streams"), RUNS: ("logs:PutLogEvents", "log streams of whole runs")},
}
# `sam deploy`, `sam list stack-outputs`, `sam delete`; None: it is in these files, and Eciton's command lines do not come there.
SAM = {
    "cloudformation:CreateChangeSet": "stack transform",
    "cloudformation:DescribeChangeSet": "stack",
    "cloudformation:ExecuteChangeSet": "stack",
    "cloudformation:DescribeStacks": "stack",
    "cloudformation:DescribeStackEvents": "stack",
    "cloudformation:GetTemplateSummary": "all",
    "cloudformation:RollbackStack": "stack",
    "cloudformation:DeleteStack": "stack",
    "cloudformation:GetTemplate": "stack",
    "cloudformation:ListChangeSets": "stack",
    "s3:HeadObject": "objects",
    "s3:DeleteObject": "objects",
    "s3:ListObjectsV2": "buckets",
    "s3:GetObjectTagging": "objects",
    "cloudformation:CreateStack": None,  # `sam sync`
    "cloudformation:UpdateStack": None,  # `sam sync`
}
# Not an operation that sam's sources name: large packages go in parts, by boto3's transfers; the settings have tags.
SAM_BESIDE = {"s3:PutObject": "objects", "s3:AbortMultipartUpload": "objects", "cloudformation:TagResource": "stack"}
SAM_FILES = ["lib/deploy/deployer.py", "lib/delete/cfn_utils.py", "lib/package/s3_uploader.py", "lib/list/stack_outputs/stack_outputs_producer.py"]
# Operations whose action has another name.
NAMED = {"s3:HeadObject": "s3:GetObject", "s3:ListObjectsV2": "s3:ListBucket"}
ROLES = ("role", "role of whole runs")
# CloudFormation: what the actions of a type are on, by their service, or by their whole name; of both roles alike.
TYPES = {
    "AWS::S3::Bucket": {"s3": "buckets"},
    "AWS::S3::BucketPolicy": {"s3": "buckets"},
    "AWS::IAM::Role": {"iam": ROLES},
    "AWS::IAM::ManagedPolicy": {"iam": "policy"},
    "AWS::Lambda::Function": {"lambda": "functions", "iam": ROLES, "s3": "objects"},
    "AWS::Logs::LogGroup": {"logs": "log groups"} | dict.fromkeys(["logs:DescribeLogGroups", "logs:DescribeIndexPolicies", "logs:DescribeResourcePolicies"], "all"),
    "AWS::CloudWatch::Alarm": {"cloudwatch": "alarms", "cloudwatch:DescribeAlarms": "all"},
    "AWS::SNS::Topic": {"sns": "topic"},
    "AWS::Budgets::Budget": {"budgets": "budget", "billing": "all"},
}
# On AWS's lists, and not needed by this template.
UNUSED = {
    "AWS::S3::Bucket": {
        "s3tables:* *MetadataTable* *Metadata*Table*": "no metadata tables",
        "iam:PassRole": "no replication",
        "s3:PutObjectAcl s3:PutBucketAcl": "ACLs are off",
        "s3:DeleteObject": "no objects are made with it",
        "s3:PutBucketAbac s3:PutAnalytics* s3:PutBucketCORS s3:PutInventory* s3:PutMetrics* s3:PutBucketNotification s3:*ut*Replication* s3:PutBucketWebsite": "not in the template",
        "s3:PutAccelerate* s3:Put*ObjectLock* s3:PutBucketLogging s3:PutBucketVersioning s3:PutIntelligent* s3:DeleteBucketReplication": "not in the template",
        "s3:DeleteBucketWebsite s3:DeleteBucketAnalytics* s3:DeleteBucketCors s3:DeleteBucketMetrics* s3:DeleteBucketEncryption s3:DeleteBucketLifecycle": "no update removes these",
    },
    "AWS::IAM::Role": {"*PermissionsBoundary": "none", "iam:AttachRolePolicy iam:DetachRolePolicy": "no managed policies"},
    "AWS::IAM::ManagedPolicy": {"iam:Attach* iam:Detach*": "it is attached by whoever administers users"},
    "AWS::Lambda::Function": {
        "ec2:*": "no VPC", "elasticfilesystem:* s3files:*": "no file system", "kms:*": "no key of one's own", "lambda:GetLayerVersion": "no layers",
        "lambda:GetCodeSigningConfig lambda:*utFunctionCodeSigningConfig lambda:DeleteFunctionCodeSigningConfig": "kernels are signed, by another way",
        "lambda:PutRuntimeManagementConfig lambda:AssociateRuntimeAlias lambda:PutFunctionRecursionConfig": "not in the template",
        "lambda:PutFunctionScalingConfig lambda:PassCapacityProvider lambda:PublishVersion": "not in the template",
    },
    "AWS::Logs::LogGroup": {
        "logs:*tDataProtectionPolicy logs:DeleteDataProtectionPolicy logs:PutIndexPolicy logs:DeleteIndexPolicy": "not in the template",
        "logs:PutResourcePolicy logs:DeleteResourcePolicy logs:CreateLogDelivery s3:* firehose:*": "nothing delivers logs",
        "logs:*KmsKey logs:PutBearerTokenAuthentication logs:PutLogGroupDeletionProtection": "not in the template",
    },
    "AWS::SNS::Topic": {"sns:PutDataProtectionPolicy iam:*": "not in the template"},
}
# Read, though matched by a pattern above.
READ_ALL_THE_SAME = {"logs:GetDataProtectionPolicy", "s3:GetReplicationConfiguration"}


def operations(services):
    """snake_case -> CamelCase, of all operations of these services, as AWS's models name them."""
    session = botocore.session.get_session()
    return {xform_name(name): name for service in services for name in session.get_service_model(service).operation_names}


def services(root=ROOT):
    """The services whose clients the program may use, from the manifests."""
    manifests = [*root.glob("host/*/Cargo.toml"), *root.glob("lambda-shims/*/Cargo.toml")]
    return sorted({name for m in manifests for name in re.findall(r"^aws-sdk-([\w-]+)\b", m.read_text(), re.M)})


def code(text):
    """Rust without comments and without its tests."""
    text = re.sub(r"//.*", "", text)
    return re.split(r"#\[cfg\(test\)\]\s*(?:pub\(\w+\) )?mod ", text)[0]


def sources(root=ROOT):
    """Path -> code, of all that is shipped: the emulator is a service, and tests are not."""
    files = [*root.glob("host/*/src/**/*.rs"), *root.glob("lambda-shims/*/src/**/*.rs")]
    named = {str(f.relative_to(root)): f for f in files if f.name != "tests.rs" and "tests" not in f.parts}
    return {name: code(f.read_text()) for name, f in sorted(named.items()) if not name.startswith("host/emulator/")}


def found(texts, known):
    """((file, operation), ...) of all calls, and problems: requests that go out without an operation that is known."""
    calls, problems = set(), []
    for name, text in texts.items():
        here = [call for call in re.findall(r"\.\s*(\w+)\(\)", text) if call in known]
        sent = len(re.findall(r"\.\s*(?:send|send_with|into_paginator|presigned)\(\)", text))
        # A request that is built in one place and sent in another is counted by file.
        if sent and sent != len(here):
            problems.append(f"{name}: {sent} requests are sent and {len(here)} operations are known ({', '.join(here)})")
        if sent:
            calls.update((name, call) for call in here)
        elif re.search(r"\baws_sdk_\w+::(?:Client|operation)\b", text) and here:
            problems.append(f"{name}: {', '.join(here)} without a request that is sent")
    return calls, problems


def compared(calls, table=None):
    table = CALLS if table is None else table
    yield from (f"{name}: {call} has no row in tests/infra/actions.py" for name, call in sorted(calls - set(table)))
    yield from (f"{name}: {call} is in the table and not in the code" for name, call in sorted(set(table) - calls))


def found_in_sam(files=None):
    """`service:Operation` of all that sam's sources name, waiters included."""
    import samcli

    root = pathlib.Path(samcli.__file__).parent
    session, named = botocore.session.get_session(), set()
    for file in files or SAM_FILES:
        text = (root / file).read_text()
        for service in ("cloudformation", "s3"):
            if f"/{'package' if service == 's3' else ''}" not in f"/{file}" or (service == "s3") != ("s3_uploader" in file):
                continue
            model = session.get_service_model(service)
            known = {xform_name(name): name for name in model.operation_names}
            named |= {f"{service}:{known[word]}" for word in re.findall(r"[.\"'](\w+)[\"'(]", text) if word in known}
    return named


def cloudformation(kind):
    """What AWS says that making, reading, changing and deleting a resource of this type needs."""
    import cfnlint

    for file in (pathlib.Path(cfnlint.__file__).parent / "data/schemas/resources").glob("*.json"):
        text = file.read_text()
        if f'"{kind}"' in text:
            schema = json.loads(text)
            if schema.get("typeName") == kind:
                return {action for name, of in schema["handlers"].items() if name != "list" for action in of["permissions"]}
    raise ValueError(f"{kind}: cfn-lint has no list of it")


def is_unused(kind, action):
    patterns = [pattern for names in UNUSED.get(kind, {}) for pattern in names.split()]
    return action not in READ_ALL_THE_SAME and any(fnmatch.fnmatchcase(action, pattern) for pattern in patterns)


def types(template=None):
    """The types of the template's resources, as CloudFormation makes them."""
    given = {f"Size{size}": "true" for size in (512, 1024, 1769, 3538, 7076, 10240)} | {"Email": "a@b.org", "ReservedConcurrency": "5"}
    return sorted({kind for kind, _, _ in resolve(template or source(), given).resources().values()})


def wanted(who, kinds=()):
    """Action -> set of resources."""
    grants = {}
    for row in [*CALLS.values(), *SERVICE.values()]:
        if who in row:
            actions, *on = row[who]
            for action in actions.split():
                grants.setdefault(action, set()).update(ON[name] for name in on)
    if who == DEPLOYER:
        for operation, on in (SAM | SAM_BESIDE).items():
            if on:
                grants.setdefault(NAMED.get(operation, operation), set()).update(ON[name] for name in on.split())
        for kind in kinds:
            for action in cloudformation(kind):
                if not is_unused(kind, action):
                    on = TYPES[kind].get(action) or TYPES[kind].get(action.split(":")[0])
                    if on is None:
                        raise ValueError(f"{kind}: {action}: neither in TYPES nor in UNUSED")
                    grants.setdefault(action, set()).update(ON[name] for name in ([on] if isinstance(on, str) else on))
    return grants


def prefixes(texts):
    """What a bucket's objects of whole runs begin with, as the sources have it: by the name of `ON`."""
    named = re.findall(r'pub const (FILES|JOBS): &str = "([^"]+)";', texts["host/cloud/src/trainers.rs"])
    return {name.lower(): "arn:aws:s3:::{Bucket}/%s*" % prefix for name, prefix in named}


def deployers(text=None):
    """The deployer's policy for the stack and account of these tests."""
    text = (INFRA / "deployer-policy.json").read_text() if text is None else text
    for name, value in (("Partition", "aws"), ("Region", PSEUDO["AWS::Region"]), ("Account", PSEUDO["AWS::AccountId"]), ("Stack", "eciton")):
        text = text.replace("${%s}" % name, value)
    return json.loads(text)


def missing(who, grants, needed):
    """What is needed and not granted, and the reverse. A granted action may have a star."""
    allowed = lambda action, on: any(fnmatch.fnmatchcase(action, name) and on in where for name, where in grants.items())
    for action, where in sorted(needed.items()):
        yield from (f"{who}: {action} on {on} is missing" for on in sorted(where) if not allowed(action, on))
    for name, where in sorted(grants.items()):
        asked = set().union(*(on for action, on in needed.items() if fnmatch.fnmatchcase(action, name)))
        yield from (f"{who}: {name} on {on} is needed by no call" for on in sorted(set(where) - asked))
