"""What must hold of the stack, checked on the translated template: `problems` names everything that does not."""
import json
import re

import actions
from translated import INFRA, resolve

# What functions, and a person who trains, may do, and on what: as the table of calls has it. A misspelt action grants nothing, and one too
# many is no error to any linter.
ROLE = {action: sorted(where) for action, where in actions.wanted(actions.ROLE).items()}
RUNS = {action: sorted(where) for action, where in actions.wanted(actions.RUNS).items()}
TRAINER = {action: sorted(where) for action, where in actions.wanted(actions.TRAINER).items()}
TYPES = {
    "AWS::S3::Bucket", "AWS::S3::BucketPolicy", "AWS::IAM::Role", "AWS::IAM::ManagedPolicy", "AWS::Lambda::Function",
    "AWS::Logs::LogGroup", "AWS::CloudWatch::Alarm", "AWS::SNS::Topic", "AWS::Budgets::Budget",
}
CLOSED = {"BlockPublicAcls": True, "BlockPublicPolicy": True, "IgnorePublicAcls": True, "RestrictPublicBuckets": True}


def listed(value):
    return value if isinstance(value, list) else [value]


def granted(documents):
    """Action -> resources, over policy documents; conditions and negations are not used, and refused."""
    grants = {}
    for document in documents:
        for statement in document["Statement"]:
            extra = set(statement) - {"Sid", "Effect", "Action", "Resource"}
            if extra or statement["Effect"] != "Allow":
                raise ValueError(f"a statement with {sorted(extra)} or effect {statement['Effect']}")
            for action in listed(statement["Action"]):
                grants.setdefault(action, []).extend(listed(statement["Resource"]))
    return grants


def compare(what, found, wanted):
    for action in sorted(set(found) | set(wanted)):
        if action not in wanted:
            yield f"{what}: {action} is not on the list of allowed actions"
        elif action not in found:
            yield f"{what}: {action} is missing"
        elif sorted(found[action]) != sorted(wanted[action]):
            yield f"{what}: {action} on {found[action]}, not on {wanted[action]}"


def problems(template, given=None):
    """Everything that is not as it must be, for these parameters."""
    resolver = resolve(template, given)
    values = resolver.values
    made = resolver.resources()
    of = lambda kind: {name: p for name, (t, p, _) in made.items() if t == kind}
    sizes = [size for size in (512, 1024, 1769, 3538, 7076, 10240) if values[f"Size{size}"] == "true"]
    email = values["Email"] != ""
    trainer = int(values["TrainerMemory"])
    # The second and the third function of whole runs need the first one.
    more = {n: int(values[f"TrainerMemory{n}"]) for n in (2, 3)} if trainer else {}
    # Logical name -> what its physical name ends with, and its size.
    wanted_functions = {f"Worker{size}": (str(size), size) for size in sizes} | ({"Trainer": ("runs", trainer)} if trainer else {})
    wanted_functions |= {f"Trainer{n}": (f"runs-{n}", size) for n, size in more.items() if size}
    role_of = lambda logical: "TrainerRole" if logical.startswith("Trainer") else "WorkerRole"
    found = [f"{name}: resources of type {t} are not wanted" for name, (t, _, _) in made.items() if t not in TYPES]

    def expect(what, is_, wanted):
        if is_ != wanted:
            found.append(f"{what}: {json.dumps(is_, sort_keys=True)}, not {json.dumps(wanted, sort_keys=True)}")

    # Bucket.
    expect("buckets", sorted(of("AWS::S3::Bucket")), ["Bucket"])
    bucket = of("AWS::S3::Bucket")["Bucket"]
    expect("Bucket name", bucket.get("BucketName"), None)
    expect("public access", bucket.get("PublicAccessBlockConfiguration"), CLOSED)
    rules = bucket.get("BucketEncryption", {}).get("ServerSideEncryptionConfiguration", [])
    expect("encryption", [r["ServerSideEncryptionByDefault"]["SSEAlgorithm"] for r in rules], ["AES256"])
    expect("ownership", bucket.get("OwnershipControls"), {"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]})
    rules = {r["Id"]: r for r in bucket.get("LifecycleConfiguration", {}).get("Rules", [])}
    expect("lifecycle", rules, {
        "runs-expire": {"Id": "runs-expire", "Status": "Enabled", "Prefix": "runs/", "ExpirationInDays": 1},
        "unfinished-uploads": {"Id": "unfinished-uploads", "Status": "Enabled", "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 1}},
    })
    for name in made:
        if made[name][2].get("DeletionPolicy", "Delete") != "Delete":
            found.append(f"{name}: it would stay after the stack is gone")
    statements = [s for p in of("AWS::S3::BucketPolicy").values() for s in p["PolicyDocument"]["Statement"]]
    expect("bucket policy", [{k: v for k, v in s.items() if k != "Sid"} for s in statements], [{
        "Effect": "Deny", "Principal": "*", "Action": "s3:*", "Resource": ["arn:aws:s3:::{Bucket}", "arn:aws:s3:::{Bucket}/*"],
        "Condition": {"Bool": {"aws:SecureTransport": "false"}},
    }])

    # Who may do what.
    roles = of("AWS::IAM::Role")
    allowed = {"WorkerRole": ROLE} | ({"TrainerRole": RUNS} if trainer else {})
    expect("roles", sorted(roles), sorted(allowed))
    for name, role in roles.items():
        expect(f"managed policies of {name}", role.get("ManagedPolicyArns", []), [])
        trust = [{k: v for k, v in s.items() if k != "Sid"} for s in role["AssumeRolePolicyDocument"]["Statement"]]
        expect(f"who takes {name} on", trust, [{"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}, "Action": "sts:AssumeRole"}])
    try:
        for name, role in roles.items():
            found.extend(compare(name, granted(p["PolicyDocument"] for p in role["Policies"]), allowed.get(name, {})))
        policies = of("AWS::IAM::ManagedPolicy")
        expect("policies", sorted(policies), ["TrainerPolicy"])
        found.extend(compare("TrainerPolicy", granted(p["PolicyDocument"] for p in policies.values()), TRAINER))
        expect("whom the policy is attached to", [policies["TrainerPolicy"].get(k) for k in ("Roles", "Users", "Groups")], [None] * 3)
    except ValueError as error:
        found.append(f"policies: {error}")

    # Functions.
    functions = of("AWS::Lambda::Function")
    expect("functions", sorted(functions), sorted(wanted_functions))
    reserved = int(values["ReservedConcurrency"])
    for logical, (ending, size) in wanted_functions.items():
        function = dict(functions.get(logical, {}))
        # A parameter is text.
        function["MemorySize"] = int(function.get("MemorySize", 0))
        wanted = {
            "FunctionName": f"eciton-worker-{ending}", "MemorySize": size, "Runtime": "provided.al2023", "Handler": "bootstrap",
            "Architectures": [values["Architecture"]], "Timeout": values["TimeoutSeconds"], "Role": "{%s.Arn}" % role_of(logical),
            "Environment": {"Variables": {"ECITON_BUCKET": "{Bucket}", "ECITON_SIGNING_KEY": values["VerifyingKey"], "ECITON_SIMD": {"x86_64": "avx2", "arm64": "neon"}[values["Architecture"]]}},
            "ReservedConcurrentExecutions": values["ReservedConcurrency"] if reserved else None,
            "Code": {"S3Bucket": "packages", "S3Key": "eciton/code"},
        }
        for property_, value in wanted.items():
            expect(f"{logical} {property_}", function.get(property_), value)
        extra = set(function) - set(wanted) - {"Tags", "PackageType"}
        expect(f"{logical}, other properties", sorted(extra), [])

    # Logs: made with the stack, so that they end with it and do not keep for ever.
    groups = {p["LogGroupName"]: p.get("RetentionInDays") for p in of("AWS::Logs::LogGroup").values()}
    expect("log groups", groups, {f"/aws/lambda/eciton-worker-{ending}": values["LogRetentionDays"] for ending, _ in wanted_functions.values()})
    for logical in wanted_functions:
        if f"{logical}Logs" not in listed(made.get(logical, (0, 0, {}))[2].get("DependsOn", [])):
            found.append(f"{logical}: does not wait for its log group, which Lambda would then make itself, without an end")

    # Alarms and budget.
    alarms = {}
    for p in of("AWS::CloudWatch::Alarm").values():
        expect("alarm's dimension", [d["Name"] for d in p["Dimensions"]], ["FunctionName"])
        alarms[p["MetricName"], p["Dimensions"][0]["Value"]] = p
        expect("whom an alarm tells", p.get("AlarmActions"), ["{Notices}"] if email else None)
        expect("an alarm without data", p["TreatMissingData"], "notBreaching")
        expect("alarm's namespace", p["Namespace"], "AWS/Lambda")
    wanted = {(m, "{%s}" % logical) for logical in wanted_functions for m in ("Errors", "Throttles", "Duration")} if values["Alarms"] == "true" else set()
    expect("alarms", sorted(alarms), sorted(wanted))
    for (metric, name), p in alarms.items():
        if metric == "Duration":
            expect(f"{name} Duration", [p["Threshold"], p["Statistic"]], [int(values["TimeoutSeconds"]) * 900, "Maximum"])
        else:
            expect(f"{name} {metric}", [p["Statistic"], p["ComparisonOperator"]], ["Sum", "GreaterThanThreshold"])
    topics = [p["Subscription"] for p in of("AWS::SNS::Topic").values()]
    expect("topics", topics, [[{"Protocol": "email", "Endpoint": values["Email"]}]] if email else [])
    budgets = [p["Budget"]["BudgetLimit"] for p in of("AWS::Budgets::Budget").values()]
    expect("budgets", budgets, [{"Amount": values["BudgetUsd"], "Unit": "USD"}] if email and values["BudgetUsd"] != "0" else [])

    # Outputs.
    wanted = {"Bucket": "{Bucket}", "TrainerPolicy": "{TrainerPolicy}"} | {f"Function{size}": "{Worker%d}" % size for size in sizes}
    wanted |= {logical: "{%s}" % logical for logical in wanted_functions if logical.startswith("Trainer")}
    expect("outputs", resolver.outputs(), wanted)
    return found


ACTION = re.compile(r"^\s*(?:- |Action: )([a-z0-9]+:[A-Za-z*]+)\s*$")


def without_a_sentence(text):
    """Actions that are granted without a sentence of why on the line above."""
    lines = text.splitlines()
    bare = []
    for at, line in enumerate(lines):
        found = ACTION.match(line)
        if found and found[1] != "s3:*":
            above = lines[at - 1].strip()
            if not (above.startswith("# ") and above.rstrip(")").endswith((".", ".)"))):
                bare.append(found[1])
    return bare


def actions_in(text):
    return [found[1] for line in text.splitlines() if (found := ACTION.match(line))]


def text():
    return (INFRA / "template.yaml").read_text()
