#!/usr/bin/env python3
"""Several hosts in network namespaces (as root): time of an epoch next to the law, and ends of all hosts after a cut link.

    hosts.py ECITON DATA [--rates 200,1000,10000] [--hosts 1,2,4,8] [--epochs 30] [--gloo PYTHON] [--usd 0.0425] [-- WORDS]
    hosts.py ECITON DATA --cut [--runs 3]                                     # cuts the link of host 1 while three hosts train
    hosts.py ECITON DATA --cut-byte 50000000 [--runs 20] [--seed 0]           # cuts it after a random number of bytes below this one
    hosts.py ECITON DATA --cut-byte 20000 --rates 20 [--runs 20] [--seed 0]   # cuts it while the hosts connect

Each host has a namespace, and a link with a rate in Mbit/s for each direction (`tc tbf`). A bridge joins all links. With P hosts, each
process has 2/P cores (control groups v1). WORDS are further words of `eciton train` and `eciton plan`, such as --set run.order=rabbit.
Figures of time need ECITON of a plain `cargo build --release`: a build with .ci/quick.toml leaves the connections unoptimised.

The law is: seconds of one host with both cores + bytes of the largest host / rate. The bytes are those of a step that `eciton plan`
prints, sent or received. The script prints a JSON line for each row, and a table. Columns of the table:

    link        Mbit/s of one TCP stream without other work
    law s       predicted seconds of an epoch; `ratio` is measured / predicted
    MB step     planned bytes of the largest host
    host 0      whether the bytes that host 0 counted equal the plan
    wire MB     the same bytes as the link counts them, with TLS and with one header for each packet of up to 64 KiB
    cpu s       processor time of all hosts; most of the kernel's time for received packets is not in it
    MB/core-s   bytes that all hosts send, by the processor time that exceeds that of one host
    $/1000      dollars for 1,000 epochs of P machines with 2/P vCPU each, at --usd for an hour and vCPU

With --gloo, PYTHON (with torch and dgl) runs gloo_gcn.py in the same namespaces with the same cores. DATA must then be a folder of npy
arrays (`eciton data generate block-model DATA --arrays`).

A cut link is either down, or it leaves the bridge and keeps its carrier. The rate is the first of --rates. All processes must end with
code 1 within `silence_ms` + 2 s, and the error of host 0 must name host 1. Until the first epoch, hosts.wait_s (5 s) replaces
`silence_ms` (2 s). The script exits with 1 if bytes, digests or ends are wrong. It removes its namespaces and groups when it ends. If it
cannot create them, it prints the reason and skips.
"""
import argparse
import contextlib
import ctypes
import fcntl
import json
import math
import os
import pathlib
import random
import shutil
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time

at = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
p.add_argument("eciton"), p.add_argument("data"), p.add_argument("--rates", default="200,1000,10000"), p.add_argument("--hosts", default="1,2,4,8")
p.add_argument("--epochs", type=int, default=30), p.add_argument("--usd", type=float, default=0.0425), p.add_argument("--gloo")
p.add_argument("--cores", type=float, default=2), p.add_argument("--period-ms", type=int, default=20)
p.add_argument("--limit", type=float, default=900), p.add_argument("--deadline", type=float, default=30)
p.add_argument("--hidden", type=int, default=64), p.add_argument("--dropout", type=float, default=0.5), p.add_argument("--seed", type=int, default=0)
p.add_argument("--cut", action="store_true"), p.add_argument("--cut-byte", type=int), p.add_argument("--runs", type=int, default=3)
a = p.parse_args(sys.argv[1:at])
WORDS, WARMUP, SILENCE_S, WAIT_S = sys.argv[at + 1:], 3, 2, 5
ECITON = str(pathlib.Path(a.eciton).absolute())
DATA = str(pathlib.Path(a.data).absolute()) if pathlib.Path(a.data).exists() else a.data
GROUPS, MARK, MTU = pathlib.Path("/sys/fs/cgroup/cpu"), "eciton-hosts", 9001  # The MTU is that of EC2.
SIOCGIFFLAGS, SIOCSIFFLAGS, SIOCBRDELIF = 0x8913, 0x8914, 0x89A3
address = lambda host: f"10.77.0.{host + 1}"


def call(*words):
    return subprocess.run([str(word) for word in words], check=True, capture_output=True, text=True).stdout


def inside(space, action):
    """Calls a function in a thread of the namespace, and returns its result."""
    result = []

    def work():
        with open(f"/run/netns/{space}") as name:
            if ctypes.CDLL(None, use_errno=True).setns(name.fileno(), 0x40000000):
                raise OSError(ctypes.get_errno(), "setns")
        result.append(action())

    thread = threading.Thread(target=work)
    thread.start(), thread.join()
    return result[0]


def remove(pid):
    """Removes the namespaces and the groups of a process of this script."""
    for space in pathlib.Path("/run/netns").glob(f"{MARK}-{pid}-*"):
        subprocess.run(["ip", "netns", "del", space.name], capture_output=True)
    for group in GROUPS.glob(f"{MARK}-{pid}-*"):
        for _ in range(100):  # The kernel may still be removing the last tasks.
            with contextlib.suppress(OSError):
                group.rmdir()
                break
            time.sleep(0.02)


class Network:
    """Namespaces of hosts, links of one rate to a bridge, and the processes of the hosts."""

    def __init__(self, count, mbits):
        self.count, self.mbits, self.processes = count, mbits, []
        self.switch, self.spaces = self.name("switch"), [self.name(host) for host in range(count)]

    def name(self, what):
        return f"{MARK}-{os.getpid()}-{what}"

    def __enter__(self):
        try:
            call("ip", "netns", "add", self.switch)
            call("ip", "-n", self.switch, "link", "add", "bridge", "type", "bridge")
            call("ip", "-n", self.switch, "link", "set", "bridge", "up")
            for host, space in enumerate(self.spaces):
                call("ip", "netns", "add", space)
                call("ip", "netns", "exec", space, "sysctl", "-w", "net.ipv6.conf.all.disable_ipv6=1")
                call("ip", "-n", self.switch, "link", "add", f"v{host}", "type", "veth", "peer", "name", "eth0", "netns", space)
                call("ip", "-n", self.switch, "link", "set", f"v{host}", "mtu", MTU, "master", "bridge", "up")
                call("ip", "-n", space, "addr", "add", f"{address(host)}/24", "dev", "eth0")
                call("ip", "-n", space, "link", "set", "eth0", "mtu", MTU, "up"), call("ip", "-n", space, "link", "set", "lo", "up")
                # A burst is what passes at once: the bytes of a millisecond, and a packet.
                burst = max(16 << 10, int(self.mbits * 125))
                for where, link in ((space, "eth0"), (self.switch, f"v{host}")):
                    shape = ["tbf", "rate", f"{self.mbits}mbit", "burst", burst, "latency", "50ms"]
                    call("tc", "-n", where, "qdisc", "add", "dev", link, "root", *shape)
            self.device = inside(self.switch, lambda: open("/proc/thread-self/net/dev"))
            self.control = inside(self.switch, lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            self.congestion = inside(self.spaces[0], lambda: pathlib.Path("/proc/sys/net/ipv4/tcp_congestion_control").read_text().strip())
            self.index = inside(self.switch, lambda: [socket.if_nametoindex(f"v{host}") for host in range(self.count)])
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        self.stop()
        for file in (getattr(self, "device", None), getattr(self, "control", None)):
            file and file.close()
        remove(os.getpid())
        signal.signal(signal.SIGINT, before)

    def start(self, host, count, *words, env=(), **pipes):
        """Starts a process in the namespace of a host, with its share of the cores."""
        group = GROUPS / self.name(host)
        group.mkdir(exist_ok=True)
        (group / "cpu.cfs_quota_us").write_text("-1")
        (group / "cpu.cfs_period_us").write_text(str(a.period_ms * 1000))
        (group / "cpu.cfs_quota_us").write_text(str(int(a.period_ms * 1000 * a.cores / count)))
        enter = lambda: (group / "cgroup.procs").write_text(str(os.getpid()))
        self.processes.append(subprocess.Popen(["ip", "netns", "exec", self.spaces[host], *map(str, words)], preexec_fn=enter, text=True,
                                               start_new_session=True, env={**os.environ, "NO_COLOR": "1", **dict(env)}, **pipes))
        return self.processes[-1]

    def stop(self):
        for one in self.processes:
            one.kill(), one.wait()
        self.processes.clear()

    def carried(self):
        """Returns the bytes that each host has sent and received."""
        self.device.seek(0)
        lines = (line.split(":") for line in self.device.read().splitlines() if line.lstrip().startswith("v"))
        found = {name.strip(): values.split() for name, values in lines}
        return [(int(found[f"v{host}"][0]), int(found[f"v{host}"][8])) for host in range(self.count)]

    def cut(self, host, how):
        """Takes the link of a host down, or off the bridge. System calls are quicker than a process."""
        if how == "down":
            name = f"v{host}".encode()
            flags = struct.unpack("16sh", fcntl.ioctl(self.control, SIOCGIFFLAGS, struct.pack("16sh", name, 0)))[1]
            fcntl.ioctl(self.control, SIOCSIFFLAGS, struct.pack("16sh", name, flags & ~1))
        else:
            fcntl.ioctl(self.control, SIOCBRDELIF, struct.pack("16si20x", b"bridge", self.index[host]))

    def goodput(self):
        """Measures the Mbit/s of one TCP stream from host 0 to host 1."""
        server = inside(self.spaces[1], lambda: socket.create_server((address(1), 0)))
        out = inside(self.spaces[0], lambda: socket.create_connection(server.getsockname()))
        into, moments, buffer, end = server.accept()[0], [], bytearray(1 << 20), time.monotonic() + 1.5

        def send():
            while time.monotonic() < end:
                out.sendall(bytes(1 << 20))
            out.close()

        sender = threading.Thread(target=send, daemon=True)
        sender.start()
        while count := into.recv_into(buffer):
            moments.append((time.monotonic(), count))
        sender.join(), into.close(), server.close()
        moments = [one for one in moments if one[0] > end - 1.2]
        return sum(count for _, count in moments[1:]) * 8e-6 / (moments[-1][0] - moments[0][0])


def kill_after(processes):
    """Kills the processes after --limit seconds, unless the returned timer is cancelled."""
    timer = threading.Timer(a.limit, lambda: [one.kill() for one in processes])
    timer.daemon = True
    timer.start()
    return timer


def processor(processes):
    """Returns the processor seconds of all threads of the processes."""
    values = (pathlib.Path(f"/proc/{one.pid}/stat").read_text().rsplit(")", 1)[1].split() for one in processes)
    return sum(int(fields[11]) + int(fields[12]) for fields in values) / os.sysconf("SC_CLK_TCK")


def model(count):
    return [DATA, "--model", "gcn", "--hidden", a.hidden, "--dropout", a.dropout, "--threads", math.ceil(a.cores / count), *WORDS]


def start_hosts(net, count, folder, *words):
    """Starts the hosts as a launcher does. Returns the processes and the files of their errors."""
    processes, errors = [], [pathlib.Path(folder) / f"errors-{host}" for host in range(count)]
    for host in range(count):
        env = {"ECITON_HOST": str(host), "ECITON_HOSTS": str(count)}
        more = ["--set", "run.eval_every=1000000", "--set", f"hosts.listen={address(host)}:0", "--no-out", "--json"]
        with open(errors[host], "w") as file:
            processes.append(net.start(host, count, ECITON, "train", *model(count), "--hosts", "env", "--rendezvous", f"{folder}/meet", *more, *words,
                                       env=env, stdout=subprocess.DEVNULL if host else subprocess.PIPE, stderr=file))
    return processes, errors


def ours(net, count):
    """Trains with hosts, and returns a row."""
    plan = {"hosts": [{"start_bytes": [0], "step_bytes": [0], "evaluation_bytes": [0]}]}
    if count > 1:
        plan = json.loads(call(ECITON, "plan", *model(count), "--hosts", count, "--json"))["hosts"]
    steps, samples, summary, begun = [one["step_bytes"] for one in plan["hosts"]], [], {}, net.carried()
    with tempfile.TemporaryDirectory() as folder:
        processes, errors = start_hosts(net, count, folder, "--epochs", a.epochs)
        timer = kill_after(processes)
        for line in map(json.loads, processes[0].stdout):
            if line["event"] == "epoch" and len(samples) < a.epochs - 1:
                samples.append((line["seconds"], processor(processes)))
            summary = line if line["event"] == "summary" else summary
        codes = [one.wait() for one in processes]
        timer.cancel()
        if any(codes):
            raise SystemExit(f"{count} hosts ended with {codes}: " + "".join(file.read_text() for file in errors))
    # The last epoch is left out, because an evaluation follows it.
    seconds, (first, last) = [one[0] for one in samples[WARMUP:]], (samples[WARMUP - 1], samples[-1])
    total = lambda host, to: plan["hosts"][host]["start_bytes"][to] + a.epochs * steps[host][to] + plan["hosts"][host]["evaluation_bytes"][to]
    found = summary.get("hosts") or []
    as_planned = lambda one: (one["sent_bytes"], one["received_bytes"]) == (total(0, one["host"]), total(one["host"], 0))
    equal = len(found) == count - 1 and all(map(as_planned, found))
    zero = plan["hosts"][0]
    beside = sum(zero["start_bytes"][1:]) + sum(zero["evaluation_bytes"][1:])
    # The link also carries handshakes and an evaluation. The overhead of a step is therefore that of the whole run.
    others = lambda host: [other for other in range(count) if other != host]
    planned = [(sum(total(host, to) for to in others(host)), sum(total(of, host) for of in others(host))) for host in range(count)]
    wire = max((after - before, plan) for trio in zip(begun, net.carried(), planned) for before, after, plan in zip(*trio))
    largest, quartiles = max(map(sum, [*steps, *zip(*steps)])), statistics.quantiles(seconds, n=4)
    return {"peer": "eciton", "epoch_s": quartiles[1], "quartiles": [quartiles[0], quartiles[2]], "cpu_s": (last[1] - first[1]) / len(seconds),
            "sent_bytes": sum(map(sum, steps)), "largest_bytes": largest, "host_0_planned": sum(steps[0]),
            "host_0_counted": (sum(one["sent_bytes"] for one in found) - beside) // a.epochs, "as_planned": equal,
            "wire_bytes": largest * wire[0] / wire[1] if wire[1] else 0, "digest": summary["model_digest"]}


def gloo(net, count):
    """Trains with gloo_gcn.py, and returns a row."""
    threads, before = math.ceil(a.cores / count), net.carried()
    words = [a.gloo, pathlib.Path(__file__).with_name("gloo_gcn.py"), DATA, "--hidden", a.hidden, "--dropout", a.dropout, "--epochs", a.epochs,
             "--warmup", WARMUP, "--threads", threads]
    with tempfile.TemporaryFile("w+") as errors:
        for rank in range(count):
            env = {"RANK": str(rank), "WORLD_SIZE": str(count), "MASTER_ADDR": address(0), "MASTER_PORT": "29500", "GLOO_SOCKET_IFNAME": "eth0",
                   "OMP_NUM_THREADS": str(threads), "OMP_WAIT_POLICY": "passive"}  # Threads that spin would use up the quota.
            net.start(rank, count, *words, env=env, stdout=subprocess.DEVNULL if rank else subprocess.PIPE, stderr=errors)
        processes = list(net.processes)
        timer = kill_after(processes)
        out = processes[0].communicate()[0]
        codes = [one.wait() for one in processes]
        timer.cancel()
        if any(codes):
            errors.seek(0)
            raise SystemExit(f"gloo with {count} processes ended with {codes}: {errors.read()}")
    net.processes.clear()
    wire = max(after - before for pair in zip(before, net.carried()) for before, after in zip(*pair)) / a.epochs
    return {**json.loads(out.splitlines()[-1]), "wire_bytes": wire}


def measure():
    """Prints a row for each rate, peer and number of hosts, and a table. Returns true if bytes or digests differ."""
    table, digests = [], set()
    peers = [ours, gloo] if a.gloo else [ours]
    short = lambda value: float(f"{value:.6g}") if isinstance(value, float) else value
    counts = sorted({1, *map(int, a.hosts.split(","))})
    for mbits in map(float, a.rates.split(",")):
        with Network(max(2, *counts), mbits) as net:
            goodput, one = net.goodput(), {}
            for count in counts:
                for peer in peers:
                    row = peer(net, count)
                    net.stop()
                    one.setdefault(peer, row)
                    digests |= {row["digest"]} if peer is ours else set()
                    spent = row["cpu_s"] - one[peer]["cpu_s"]
                    row |= {"mbits": mbits, "goodput_mbits": goodput, "tcp": net.congestion, "hosts": count}
                    row |= {"law_s": one[peer]["epoch_s"] + row["largest_bytes"] * 8e-6 / mbits, "usd": a.usd * a.cores * row["epoch_s"] / 3600}
                    row |= {"ratio": row["epoch_s"] / row["law_s"]}
                    row |= {"bytes_per_core_s": row["sent_bytes"] / spent if count > 1 and spent > 0 else None}
                    print(json.dumps({name: short(value) for name, value in row.items()}), flush=True)
                    table.append(row)
    different = len(digests) > 1 or not all(row.get("as_planned", True) for row in table)
    columns = {
        "Mbit/s": (7, lambda row: f"{row['mbits']:.0f}"), "link": (6, lambda row: f"{row['goodput_mbits']:.0f}"),
        "peer": (7, lambda row: row["peer"]), "P": (2, lambda row: row["hosts"]), "epoch s": (8, lambda row: f"{row['epoch_s']:.4f}"),
        "quartiles": (16, lambda row: " ".join(f"{value:.4f}" for value in row["quartiles"])), "law s": (8, lambda row: f"{row['law_s']:.4f}"),
        "ratio": (6, lambda row: f"{row['ratio']:.2f}"), "MB step": (8, lambda row: f"{row['largest_bytes'] / 1e6:.3f}"),
        "host 0": (7, lambda row: {True: "equal", False: "OTHER"}.get(row.get("as_planned"), "")),
        "wire MB": (8, lambda row: f"{row['wire_bytes'] / 1e6:.3f}"), "cpu s": (7, lambda row: f"{row['cpu_s']:.3f}"),
        "MB/core-s": (9, lambda row: f"{row['bytes_per_core_s'] / 1e6:.0f}" if row["bytes_per_core_s"] else ""),
        "$/1000": (8, lambda row: f"{row['usd'] * 1000:.5f}"), "digest": (9, lambda row: row.get("digest", "")[:8]),
    }
    print("\n" + " ".join(f"{name:>{width}}" for name, (width, _) in columns.items()))
    for row in table:
        print(" ".join(f"{show(row):>{width}}" for width, show in columns.values()))
    print(f"{'equal' if len(digests) == 1 else 'DIFFERENT'} digests")
    return different


def cut_once(draw, number, how):
    """Cuts the link of host 1 while three hosts train. Prints how they end. Returns true if this is as required."""
    count, victim, epochs = 3, 1, []
    after = draw.randrange(a.cut_byte) if a.cut_byte else None
    with Network(count, float(a.rates.split(",")[0])) as net, tempfile.TemporaryDirectory() as folder:
        begun, before = time.monotonic(), sum(net.carried()[victim])
        more = ["--epochs", 1000000, "--set", f"hosts.silence_ms={SILENCE_S * 1000}", "--set", f"hosts.wait_s={WAIT_S}"]
        processes, errors = start_hosts(net, count, folder, *more)
        read = lambda: epochs.extend(line for line in processes[0].stdout if '"epoch"' in line)
        threading.Thread(target=read, daemon=True).start()
        train = lambda: not any(one.poll() is not None for one in processes) and time.monotonic() < begun + 60
        if a.cut_byte:
            with contextlib.suppress(OSError):  # A late look at the counters is a late cut.
                os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(1))
            while sum(net.carried()[victim]) - before < after and train():
                time.sleep(0.0001)
        else:
            while len(epochs) < 2 and train():
                time.sleep(0.01)
            time.sleep(draw.uniform(0, 0.5))
        if not train():
            raise SystemExit("the hosts do not train: " + "".join(file.read_text() for file in errors))
        net.cut(victim, how)
        moment, ended, trained, carried = time.monotonic(), [None] * count, len(epochs), sum(net.carried()[victim]) - before
        while None in ended and time.monotonic() < moment + a.deadline:
            for host, one in enumerate(processes):
                if ended[host] is None and one.poll() is not None:
                    ended[host] = round(time.monotonic() - moment, 3)
            time.sleep(0.002)
        codes, texts = [one.poll() for one in processes], [file.read_text().strip() for file in errors]
    # Before its first epoch, host 0 may still wait for the others.
    allowed = (SILENCE_S if trained else max(SILENCE_S, WAIT_S)) + 2
    named = f"host {victim}:" in texts[0] or f"hosts {victim};" in texts[0]
    right = all(one is not None and one <= allowed for one in ended) and codes == [1] * count and named
    print(json.dumps({"run": number, "seed": a.seed, "cut": how, "after_bytes": after, "carried_bytes": carried, "epochs": trained, "ended_s": ended,
                      "codes": codes, "allowed_s": allowed, "host_0_names_it": named, "right": right, "errors": texts}), flush=True)
    return right


def cut():
    """Prints the ends of all runs. Returns true if one is not as required."""
    draw = random.Random(a.seed)
    rights = [cut_once(draw, number, how) for number in range(a.runs) for how in ("down", "off the bridge")]
    print(f"{rights.count(False)} of {len(rights)} runs did not end as required")
    return not all(rights)


def skip():
    """Returns the reason for which the namespaces cannot be made."""
    if os.geteuid():
        return "run as root"
    if missing := [name for name in ("ip", "tc") if not shutil.which(name)]:
        return f"{' and '.join(missing)} of iproute2 not found"
    if not (GROUPS / "cpu.cfs_period_us").exists():
        return f"no control group v1 with cpu.cfs_period_us at {GROUPS}"
    try:
        with Network(2, 1000):
            return None
    except (OSError, subprocess.CalledProcessError) as error:
        return getattr(error, "stderr", None) or str(error)


def main():
    if reason := skip():
        print(f"skipped: {reason.strip()}")
        return False
    # A run of this script that was killed leaves its namespaces and groups.
    for name in {*pathlib.Path("/run/netns").glob(f"{MARK}-*"), *GROUPS.glob(f"{MARK}-*")}:
        if not pathlib.Path(f"/proc/{(pid := name.name.split('-')[2])}").exists():
            remove(pid)
    for kind in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(kind, lambda *_: sys.exit(1))
    return cut() if a.cut or a.cut_byte else measure()


if __name__ == "__main__":
    try:
        raise SystemExit(main())
    except KeyboardInterrupt:
        raise SystemExit(130) from None
