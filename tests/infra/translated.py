"""The template as CloudFormation gets it: translated by SAM's own translator, its conditions and parameters resolved.

No validator looks inside SAM's resources, and a loopback endpoint drops what it does not know; so everything is asserted here, on what the
translation makes for given parameters.
"""
import copy
import json
import os
import pathlib
import subprocess
import sys

from samcli.yamlhelper import yaml_parse
from samtranslator.translator.transform import transform

os.environ.setdefault("AWS_DEFAULT_REGION", "us-east-1")  # the translator asks for one

INFRA = pathlib.Path(__file__).resolve().parents[2] / "infra"
PSEUDO = {"AWS::StackName": "eciton", "AWS::AccountId": "123456789012", "AWS::Region": "us-east-1", "AWS::Partition": "aws"}
KEY = "ab" * 32


class Managed:
    """No managed policy of AWS's is used, and none can be looked up."""

    def load(self):
        return {}


def source():
    """The template as written."""
    return yaml_parse((INFRA / "template.yaml").read_text())


def parameters(template, given=None):
    """All parameters: defaults, and what is given."""
    values = {name: p.get("Default") for name, p in template["Parameters"].items()} | {"VerifyingKey": KEY} | (given or {})
    return {name: str(value) for name, value in values.items()}


def translate(template):
    """CloudFormation's template. The translator changes what it is given, and wants code in a bucket."""
    template = copy.deepcopy(template)
    template["Globals"]["Function"]["CodeUri"] = "s3://packages/eciton/code"
    return json.loads(json.dumps(transform(template, {}, Managed())))


class Resolver:
    """Conditions and functions of a translated template, for given parameters."""

    def __init__(self, translated, values):
        self.translated, self.values = translated, values

    def condition(self, name):
        return self.truth(self.translated["Conditions"][name])

    def truth(self, expression):
        (function, of), = expression.items()
        match function:
            case "Condition":
                return self.condition(of)
            case "Fn::Equals":
                one, other = (self.value(side) for side in of)
                return str(one) == str(other)
            case "Fn::And":
                return all(self.truth(part) for part in of)
            case "Fn::Or":
                return any(self.truth(part) for part in of)
            case "Fn::Not":
                return not self.truth(of[0])
        raise ValueError(function)

    def value(self, it):
        """A value with everything resolved that parameters decide; what another resource decides stays `{logical id}`."""
        if isinstance(it, list):
            return [v for v in map(self.value, it) if v is not None]
        if not isinstance(it, dict):
            return it
        if len(it) == 1:
            (function, of), = it.items()
            match function:
                case "Ref":
                    return None if of == "AWS::NoValue" else self.values.get(of, PSEUDO.get(of, "{%s}" % of))
                case "Fn::GetAtt":
                    return "{%s}" % (".".join(of) if isinstance(of, list) else of)
                case "Fn::If":
                    return self.value(of[1] if self.condition(of[0]) else of[2])
                case "Fn::Sub":
                    for name, text in (PSEUDO | self.values).items():
                        of = of.replace("${%s}" % name, str(text))
                    return of.replace("${", "{")
                case "Fn::FindInMap":
                    name, *keys = (self.value(part) for part in of)
                    return self.translated["Mappings"][name][keys[0]][keys[1]]
        return {key: value for key, value in ((k, self.value(v)) for k, v in it.items()) if value is not None}

    def resources(self):
        """What would be made: logical id -> (type, properties, whole resource)."""
        made = {}
        for name, resource in self.translated["Resources"].items():
            if "Condition" not in resource or self.condition(resource["Condition"]):
                made[name] = (resource["Type"], self.value(resource.get("Properties", {})), resource)
        return made

    def outputs(self):
        made = self.translated["Outputs"].items()
        return {name: self.value(o["Value"]) for name, o in made if "Condition" not in o or self.condition(o["Condition"])}


def resolve(template, given=None):
    return Resolver(translate(template), parameters(template, given))


def lint(translated, folder):
    """What cfn-lint says of a translated template: lines of `rule: text`."""
    file = pathlib.Path(folder) / "translated.json"
    file.write_text(json.dumps(translated, indent=1))
    done = subprocess.run(
        [pathlib.Path(sys.executable).parent / "cfn-lint", "--format", "json", "--regions", "us-east-1", "--", str(file)],
        capture_output=True, text=True, timeout=120)
    if not done.stdout.strip().startswith("["):
        raise RuntimeError(f"cfn-lint did not run: {done.stderr}")
    return [f"{m['Rule']['Id']}: {m['Message']}" for m in json.loads(done.stdout)]
