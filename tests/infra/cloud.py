"""A loopback endpoint that speaks CloudFormation, Lambda, S3, IAM and logs (ministack), and `eciton` in a home of its own beside it."""
import base64
import http.client
import http.server
import json
import math
import os
import pathlib
import socket
import subprocess
import sys
import threading
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOLS = pathlib.Path(sys.executable).parent
START_S = 60


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Cloud:
    def __init__(self, folder, concurrency=1000):
        """`concurrency`: functions that the account may run at once."""
        self.folder = pathlib.Path(folder)
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.home = self.folder / "home"
        self.home.mkdir()
        plain = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "ECITON_", "XDG_"))}
        self.environment = plain | {
            "HOME": str(self.home), "PATH": f"{TOOLS}:{os.environ['PATH']}", "AWS_ENDPOINT_URL": self.url, "AWS_REGION": "us-east-1",
            "AWS_DEFAULT_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_EC2_METADATA_DISABLED": "true",
        }
        # It would bind all addresses otherwise. Workers inherit its environment, and find its S3 by it.
        own = plain | {"BIND_HOST": "127.0.0.1", "IOT_MTLS_ENABLED": "0", "GATEWAY_PORT": str(self.port), "AWS_ENDPOINT_URL_S3": self.url, "LAMBDA_ACCOUNT_CONCURRENCY": str(concurrency)}
        self.log = open(self.folder / "cloud.log", "wb")
        self.process = subprocess.Popen([os.environ.get("ECITON_MINISTACK", TOOLS / "ministack")], env=own, cwd=self.folder, stdout=self.log, stderr=subprocess.STDOUT)

    def wait(self):
        end = time.monotonic() + START_S
        while time.monotonic() < end:
            if self.process.poll() is not None:
                break
            try:
                urllib.request.urlopen(f"{self.url}/_ministack/health", timeout=1).read()
                return self
            except OSError:
                time.sleep(0.1)
        raise RuntimeError("the endpoint does not start:\n" + (self.folder / "cloud.log").read_text()[-4000:])

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()

    def client(self, service):
        import boto3
        return boto3.client(service, endpoint_url=self.url, region_name="us-east-1", aws_access_key_id="test", aws_secret_access_key="test")

    def eciton(self, *line, code=0, timeout=600, **environment):
        """Runs it; the last line of its output as JSON where there is one, and what it said besides."""
        program = os.environ.get("ECITON", ROOT / "target/release/eciton")
        worker = os.environ.get("ECITON_WORKER", ROOT / "target/worker/bootstrap")
        trainer = os.environ.get("ECITON_TRAINER", ROOT / "target/worker/trainer")
        done = subprocess.run([program, *map(str, line)], env=self.environment | {"ECITON_WORKER": str(worker), "ECITON_TRAINER": str(trainer)} | environment, cwd=self.folder,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout)
        if done.returncode != code:
            raise AssertionError(f"eciton {' '.join(map(str, line))}: exit code {done.returncode}, not {code}\n{done.stdout[-4000:]}\n{done.stderr[-8000:]}")
        last = done.stdout.strip().splitlines()[-1:] or [""]
        return (json.loads(last[0]) if last[0].startswith("{") else None), done.stdout, done.stderr

    def everything(self, stack):
        """All that belongs to a stack, by service; an empty list each once it is destroyed."""
        of = lambda names: sorted(name for name in names if stack in name)
        stacks = self.client("cloudformation").describe_stacks()["Stacks"]
        return {
            "stacks": of(s["StackName"] for s in stacks if s["StackStatus"] != "DELETE_COMPLETE"),
            "functions": of(f["FunctionName"] for f in self.client("lambda").list_functions()["Functions"]),
            "buckets": of(b["Name"] for b in self.client("s3").list_buckets()["Buckets"]),
            "log groups": of(g["logGroupName"] for g in self.client("logs").describe_log_groups()["logGroups"]),
            "roles": of(r["RoleName"] for r in self.client("iam").list_roles()["Roles"]),
            "policies": of(p["PolicyName"] for p in self.client("iam").list_policies(Scope="Local")["Policies"]),
            "alarms": of(a["AlarmName"] for a in self.client("cloudwatch").describe_alarms()["MetricAlarms"]),
        }


class Reports:
    """The endpoint's Lambda with the REPORT line that ends an invocation's log at AWS, which the endpoint leaves out. Durations are measured here."""

    INIT_MS, USED_MB = 40.0, 123
    AWAY = {"connection", "transfer-encoding", "content-length", "host"}

    def __init__(self, cloud):
        self.billed_ms = {}   # by function
        reports = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def forward(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                begun = time.monotonic()
                to = http.client.HTTPConnection("127.0.0.1", cloud.port, timeout=300)
                to.request(self.command, self.path, body, {k: v for k, v in self.headers.items() if k.lower() not in reports.AWAY})
                answer = to.getresponse()
                reply = answer.read()
                duration = (time.monotonic() - begun) * 1e3
                self.send_response(answer.status)
                for name, value in answer.getheaders():
                    if name.lower() not in reports.AWAY | {"x-amz-log-result"}:
                        self.send_header(name, value)
                if self.path.endswith("/invocations") and answer.status == 200:
                    self.send_header("X-Amz-Log-Result", base64.b64encode(reports.line(self.path.split("/")[-2], reply, duration).encode()).decode())
                self.send_header("Content-Length", str(len(reply)))
                self.end_headers()
                self.wfile.write(reply)
                to.close()

            do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = forward

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True

    def line(self, function, reply, duration):
        # A process says how many jobs it has done before.
        cold = json.loads(reply).get("before") == 0
        billed = math.ceil(duration + (self.INIT_MS if cold else 0))
        self.billed_ms[function] = self.billed_ms.get(function, 0) + billed
        init = f"Init Duration: {self.INIT_MS:.2f} ms\t" if cold else ""
        return f"END RequestId: r\nREPORT RequestId: r\tDuration: {duration:.2f} ms\tBilled Duration: {billed} ms\tMemory Size: 512 MB\tMax Memory Used: {self.USED_MB} MB\t{init}\n"

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


class Instance:
    """An instance's metadata service, the second version: a token by PUT, and nothing without it. `answers` may change."""

    def __init__(self, zone):
        self.answers = answers = {
            "/latest/meta-data/placement/region": zone[:-1], "/latest/meta-data/placement/availability-zone": zone,
            "/latest/meta-data/instance-id": "i-0",
        }

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self, status, text="", **headers):
                self.send_response(status)
                for name, value in (headers | {"Content-Length": str(len(text))}).items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(text.encode())

            def do_PUT(self):
                ttl = self.headers.get("X-aws-ec2-metadata-token-ttl-seconds", "")
                asked = self.path == "/latest/api/token" and ttl.isdigit()
                self.answer(200, "token", **{"X-aws-ec2-metadata-token-ttl-seconds": ttl}) if asked else self.answer(400)

            def do_GET(self):
                if self.headers.get("X-aws-ec2-metadata-token") != "token":
                    return self.answer(401)
                text = answers.get(self.path)
                self.answer(404) if text is None else self.answer(200, text)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{self.server.server_port}"

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
