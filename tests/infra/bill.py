#!/usr/bin/env python3
"""The worked bill of docs/DEPLOY.md, from infra/prices.toml. Prints the table; test_bill.py compares it with the guide's.

A GCN of two layers on a graph of Reddit's size, every tensor task on functions, rows in f32, every frame by S3, nothing kept warm but
kernels, and 200 Mbit/s for each function: the plain case, which warm features, bf16 rows and payload frames each make cheaper.
"""
import pathlib
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROWS, FEATURES, HIDDEN, CLASSES = 232_965, 602, 128, 41
EPOCHS, INTERVALS, MEMORY_MB = 200, 32, 1769
BYTES_PER_S = 200e6 / 8      # of one function, both directions together
FLOP_PER_S = 40e9            # of one processor, what crate matrixmultiply reached here with AVX2, halved


def epoch():
    """What one epoch uses: (tasks, bytes into functions, bytes out of them, floating-point operations)."""
    f, h, c = (ROWS * width * 4 for width in (FEATURES, HIDDEN, CLASSES))
    # forward 1, forward 2, loss, backward 2, backward 1: what a task reads and what it answers.
    reads = f + h + c + (h + c) + (f + h)
    answers = h + c + c + h
    weights = 4 * (FEATURES * HIDDEN + HIDDEN * CLASSES) * INTERVALS
    flop = 2 * ROWS * (2 * FEATURES * HIDDEN + 3 * HIDDEN * CLASSES)
    return 5 * INTERVALS, reads + 2 * weights, answers + weights, flop


def bill(prices):
    """Rows of (what, how much, USD of the run); the last two are for the two places a host can be."""
    tasks, read, answered, flop = epoch()
    seconds = EPOCHS * ((read + answered) / BYTES_PER_S + flop / FLOP_PER_S)
    gb_seconds = seconds * MEMORY_MB / 1024
    invocations = EPOCHS * tasks
    # A task: the host writes its frame, the function reads it (header, then rows), writes the answer, the host reads that.
    writes, reads = 2 * invocations, 4 * invocations
    home = answered * EPOCHS / 1e9
    lambda_, s3 = prices["lambda"], prices["s3"]
    rows = [
        ("GB-seconds", f"{gb_seconds:,.0f}", gb_seconds * lambda_["x86_64_gb_second"]),
        ("invocations", f"{invocations:,}", invocations * lambda_["million_requests"] / 1e6),
        ("S3 writes", f"{writes:,}", writes * s3["thousand_writes"] / 1e3),
        ("S3 reads", f"{reads:,}", reads * s3["thousand_reads"] / 1e3),
        ("log lines, 500 bytes an invocation", f"{invocations * 500 / 1e6:,.0f} MB", invocations * 500 / 1e9 * prices["logs"]["gb_taken_in"]),
    ]
    return rows, ("answers to a host outside AWS", f"{home:,.0f} GB", home * prices["transfer"]["to_internet_gb"])


def table(prices):
    rows, home = bill(prices)
    # Of the cents as printed, so that the table adds up.
    functions = sum(round(usd, 2) for _, _, usd in rows)
    lines = ["| what | how much | USD |", "| --- | ---: | ---: |"]
    lines += [f"| {what} | {much} | {usd:.2f} |" for what, much, usd in rows]
    lines += [
        f"| **sum, host in the region** (its own price aside) | | **{functions:.2f}** |",
        f"| {home[0]} | {home[1]} | {home[2]:.2f} |",
        f"| **sum, host at home** | | **{functions + round(home[2], 2):.2f}** |",
    ]
    return "\n".join(lines)


def prices():
    return tomllib.loads((ROOT / "infra/prices.toml").read_text())


if __name__ == "__main__":
    print(table(prices()))
