#!/usr/bin/env python3
"""Makes random_vectors.json: 64 values of the contract's random generator, in plain Python.

Written from the text of `interface random` in wit/kernel/kernel.wit and nothing else, so that an implementation compared with it
is compared with the contract. `python3 random_vectors.py --check` fails when the file differs from what this script makes.
"""
import json
import os
import sys

M64, M32 = 2**64 - 1, 2**32 - 1
G = 0x9E3779B97F4A7C15
FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "random_vectors.json")


def mix64(z):
    z ^= z >> 30
    z = z * 0xBF58476D1CE4E5B9 & M64
    z ^= z >> 27
    z = z * 0x94D049BB133111EB & M64
    return z ^ z >> 31


def key(seed, purpose, epoch, layer, stream):
    inner = mix64((seed + G) & M64)
    return mix64(mix64(inner ^ (purpose << 32 | epoch)) ^ (layer << 32 | stream))


def bits32(key, row, column):
    row_key = mix64((key + (row + 1) * G) & M64)
    a, b = row_key & M32, row_key >> 32
    x = (a + column * (b | 1)) & M32
    x ^= x >> 16
    x = x * 0x21F0AAAD & M32
    x ^= x >> 15
    x = (x + b) & M32
    x = x * 0xD35A2D97 & M32
    return x ^ x >> 15


def inputs():
    """Every field at zero, small, neighbouring and largest values."""
    yield dict(seed=0, purpose=1, epoch=0, layer=0, stream=0, row=0, column=0)
    base = dict(seed=42, purpose=2, epoch=3, layer=1, stream=0, row=5, column=7)
    yield dict(base)
    largest = dict(seed=M64, purpose=3, epoch=M32, layer=M32, stream=M32, row=M64, column=M32)
    for name, value in largest.items():
        yield {**base, name: value}
        yield {**base, name: value - 1}
        yield {**base, name: 1}
    yield dict(largest)
    for row in (0, 1, 2, 2707):
        for column in (0, 1, 15, 1432):
            yield dict(seed=1, purpose=2, epoch=0, layer=0, stream=0, row=row, column=column)
    for n in range(64):  # the rest: spread by a linear congruence, so that no two fields are alike
        w = [(n * 7 + f + 1) * 0x5851F42D4C957F2D + 0x14057B7EF767814F & M64 for f in range(7)]
        yield dict(seed=w[0], purpose=1 + n % 3, epoch=w[1] >> 33, layer=w[2] >> 60, stream=w[3] >> 62, row=w[4] >> 24, column=w[5] >> 44)


def main():
    vectors = []
    for one in inputs():
        if len(vectors) == 64:
            break
        k = key(*(one[f] for f in ("seed", "purpose", "epoch", "layer", "stream")))
        bits = bits32(k, one["row"], one["column"])
        # 64-bit numbers as text: many JSON readers hold numbers as f64.
        vectors.append({**one, "seed": str(one["seed"]), "row": str(one["row"]), "key": f"{k:016x}", "bits32": bits, "uniform": (bits >> 8) * 2.0**-24})
    lines = ",\n".join("    " + json.dumps(v) for v in vectors)
    text = '{\n  "about": "eciton:kernel@0.1.0, interface random; made by random_vectors.py",\n  "vectors": [\n' + lines + "\n  ]\n}\n"
    if "--check" in sys.argv:
        if open(FILE).read() != text:
            sys.exit("random_vectors.json differs from what random_vectors.py makes; run it without --check")
    else:
        open(FILE, "w").write(text)
    print(f"{len(vectors)} vectors")


if __name__ == "__main__":
    main()
