#!/usr/bin/env python3
"""The worked bill of docs/how-to/deploy-to-aws.md, from infra/cloud.toml. Prints its two tables; test_bill.py compares them with the guide's.

A GCN of two layers on a graph of Reddit's size, every tensor task on functions, rows in f32, nothing kept warm but kernels, and 200 Mbit/s
for each function: the plain case, which warm features and bf16 rows make cheaper. Once with every frame by S3, and once with every frame
inside requests and replies, on as many intervals as make them fit; each for the three places where a host can be.

`--json` prints what each uses and comes to, without log lines: tests/infra/bill.json, which the program's own bill is compared with.
"""
import json
import pathlib
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROWS, FEATURES, HIDDEN, CLASSES = 232_965, 602, 128, 41
EPOCHS, MEMORY_MB = 200, 1769
INTERVALS = {"s3": 32, "payload": 160}   # the second: at most 4.7 MB a frame
BASE64 = 4 / 3
BYTES_PER_S = 200e6 / 8      # of one function, both directions together
FLOP_PER_S = 40e9            # of one processor, what crate matrixmultiply reached here with AVX2, halved


def epoch(intervals=INTERVALS["s3"]):
    """What one epoch uses: (tasks, bytes into functions, bytes out of them, floating-point operations)."""
    f, h, c = (ROWS * width * 4 for width in (FEATURES, HIDDEN, CLASSES))
    # forward 1, forward 2, loss, backward 2, backward 1: what a task reads and what it answers.
    reads = f + h + c + (h + c) + (f + h)
    answers = h + c + c + h
    weights = 4 * (FEATURES * HIDDEN + HIDDEN * CLASSES) * intervals
    flop = 2 * ROWS * (2 * FEATURES * HIDDEN + 3 * HIDDEN * CLASSES)
    return 5 * intervals, reads + 2 * weights, answers + weights, flop


def usage(transport):
    """What the run uses of what is charged for, by the names of the program's bill."""
    tasks, read, answered, flop = epoch(INTERVALS[transport])
    by_payload = transport == "payload"
    factor = BASE64 if by_payload else 1
    seconds = EPOCHS * (factor * (read + answered) / BYTES_PER_S + flop / FLOP_PER_S)
    invocations = EPOCHS * tasks
    # By S3, a task: the host writes its frame, the function reads it (header, then rows), writes the answer, the host reads that.
    return {
        "gb_seconds": seconds * MEMORY_MB / 1024,
        "invocations": invocations,
        "store_writes": 0 if by_payload else 2 * invocations,
        "store_reads": 0 if by_payload else 4 * invocations,
        "bytes_to_functions": round(EPOCHS * read * BASE64) if by_payload else 0,
        "bytes_from_functions": round(EPOCHS * answered * BASE64) if by_payload else 0,
        "store_bytes_to_host": 0 if by_payload else EPOCHS * answered,
    }


def transfer(used, prices):
    """Place of the host -> (GB that are charged there, USD)."""
    price = prices["transfer"]
    replies, requests, objects = (used[name] / 1e9 for name in ("bytes_from_functions", "bytes_to_functions", "store_bytes_to_host"))
    return {
        # Out of AWS, in whatever way; what comes in is free.
        "home": (replies + objects, (replies + objects) * price["to_internet_gb"]),
        # Requests and replies cross zones, and each way is charged; S3 is of no zone.
        "region": (requests + replies, (requests + replies) * price["between_zones_gb"]),
        "zone": (requests + replies, (requests + replies) * price["within_zone_gb"]),
    }


def bill(used, prices):
    """Rows of (what, how much, USD of the run), wherever the host is."""
    lambda_, s3, invocations = prices["lambda"], prices["s3"], used["invocations"]
    rows = [
        ("GB-seconds", f"{used['gb_seconds']:,.0f}", used["gb_seconds"] * lambda_["x86_64_gb_second"]),
        ("invocations", f"{invocations:,}", invocations * lambda_["million_requests"] / 1e6),
        ("S3 writes", f"{used['store_writes']:,}", used["store_writes"] * s3["thousand_writes"] / 1e3),
        ("S3 reads", f"{used['store_reads']:,}", used["store_reads"] * s3["thousand_reads"] / 1e3),
    ]
    return [row for row in rows if row[2] > 0], logs(used, prices)


def logs(used, prices):
    written = used["invocations"] * 500
    return "log lines, 500 bytes an invocation", f"{written / 1e6:,.0f} MB", written / 1e9 * prices["logs"]["gb_taken_in"]


def table(transport, prices):
    used = usage(transport)
    rows, lines_written = bill(used, prices)
    rows.append(lines_written)
    moved = transfer(used, prices)
    # Of the cents as printed, so that the table adds up.
    functions = sum(round(usd, 2) for _, _, usd in rows)
    lines = ["| what | how much | USD |", "| --- | ---: | ---: |"]
    lines += [f"| {what} | {much} | {usd:.2f} |" for what, much, usd in rows]

    def place(what, total, name, aside=""):
        gb, usd = moved[name]
        if round(usd, 2):
            lines.append(f"| {what} | {gb:,.0f} GB | {usd:.2f} |")
        lines.append(f"| **sum, {total}**{aside} | | **{functions + round(usd, 2):.2f}** |")

    own = " (its own price aside)"
    if moved["region"][1] == moved["zone"][1]:
        place("", "host in the region", "region", own)
    else:
        place("", "host in the functions' zone", "zone", own)
        place("requests and replies between zones", "host in the region", "region", own)
    place("answers to a host outside AWS", "host at home", "home")
    return "\n".join(lines)


def compared(prices):
    """For the program's own bill, which counts no log lines: what is used, and what it comes to at each place."""
    runs = {}
    for transport in INTERVALS:
        used = usage(transport)
        rows, lines_written = bill(used, prices)
        rest = sum(usd for _, _, usd in rows)
        usd = {place: rest + more for place, (_, more) in transfer(used, prices).items()}
        runs[transport] = {"usage": used, "usd": usd, "log_lines_usd": lines_written[2]}
    return runs


def prices():
    return tomllib.loads((ROOT / "infra/cloud.toml").read_text())["regions"]["us-east-1"]


if __name__ == "__main__":
    if sys.argv[1:] == ["--json"]:
        print(json.dumps(compared(prices()), indent=1))
    else:
        print("\n\n".join(f"{transport}:\n\n{table(transport, prices())}" for transport in INTERVALS))
