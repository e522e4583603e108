#!/usr/bin/env python3
"""The products of deep networks in PyTorch, GFLOP/s on one thread: median of nine (least to most)."""
import os

os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"
import time

import torch

torch.set_num_threads(1)
SHAPES = [
    ("x w, queries", "P", 2048, 128, 384), ("x w, up", "P", 2048, 128, 512), ("x w, down", "P", 2048, 512, 128),
    ("x w, scores", "P", 2048, 128, 75), ("x w, branch", "P", 256, 256, 256), ("x w, digits", "P", 64, 64, 128),
    ("x w, patches", "P", 4096, 144, 32), ("d w^T, up", "R", 2048, 512, 128), ("d w^T, down", "R", 2048, 128, 512),
    ("d w^T, branch", "R", 256, 256, 256), ("x^T d, up", "L", 128, 2048, 512), ("x^T d, down", "L", 512, 2048, 128),
    ("x^T d, branch", "L", 256, 256, 256), ("x^T d, digits", "L", 64, 64, 128), ("q k^T, head", "R", 64, 32, 64),
    ("p v, head", "P", 64, 64, 32),
]


def rate(product, work):
    calls, rates = max(1, int(-(-2e8 // work))), []
    for _ in range(10):
        begun = time.perf_counter()
        for _ in range(calls):
            product()
        rates.append(work * calls / (time.perf_counter() - begun) / 1e9)
    return sorted(rates[1:])


print(f"torch {torch.__version__}, {torch.backends.mkl.is_available() and 'MKL' or 'no MKL'}")
for name, kind, m, k, n in SHAPES:
    a = torch.randn(k, m).t() if kind == "L" else torch.randn(m, k)
    b = torch.randn(n, k).t() if kind == "R" else torch.randn(k, n)
    out = torch.empty(m, n)
    rates = rate(lambda: torch.mm(a, b, out=out), 2.0 * m * k * n)
    print(f"{name:<16}{m:>6}{k:>6}{n:>6}  {rates[4]:.1f} ({rates[0]:.1f} to {rates[-1]:.1f})")
a, b, out = torch.randn(128, 64, 32), torch.randn(128, 32, 64), torch.empty(128, 64, 64)
rates = rate(lambda: torch.bmm(a, b, out=out), 2.0 * 128 * 64 * 32 * 64)
print(f"{'128 x q k^T':<16}{64:>6}{32:>6}{64:>6}  {rates[4]:.1f} ({rates[0]:.1f} to {rates[-1]:.1f})")
