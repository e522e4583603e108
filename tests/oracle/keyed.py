"""The contract's random generator (wit/kernel/kernel.wit, interface `random`), vectorised with numpy.

    bits(key(seed=7, purpose=DROPOUT, epoch=0, layer=0, stream=0), rows, columns)   # uint32 [rows, columns]

`random_vectors.py` says the same in plain Python, one number at a time, and was written from the WIT text alone; the two are
compared by `gcn.py --self-test`.
"""
import numpy as np

INITIALISER, DROPOUT, KERNEL, NEGATIVES = 1, 2, 3, 4
G = np.uint64(0x9E3779B97F4A7C15)


def mix64(z):
    with np.errstate(over="ignore"):
        z = np.asarray(z, np.uint64)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def key(seed, purpose, epoch, layer, stream):
    """Arguments are integers or arrays that broadcast; the result is uint64 of that shape."""
    u = lambda v: np.asarray(v, np.uint64)
    with np.errstate(over="ignore"):
        k = mix64(u(seed) + G)
        k = mix64(k ^ (u(purpose) << np.uint64(32) | u(epoch)))
        return mix64(k ^ (u(layer) << np.uint64(32) | u(stream)))


def row_key(key, row):
    with np.errstate(over="ignore"):
        return mix64(np.asarray(key, np.uint64) + (np.asarray(row, np.uint64) + np.uint64(1)) * G)


def bits_of(row_key, column):
    """bits32 of each (row key, column); arguments broadcast."""
    row_key, column = np.asarray(row_key, np.uint64), np.asarray(column, np.uint32)
    a = (row_key & np.uint64(0xFFFFFFFF)).astype(np.uint32)
    b = (row_key >> np.uint64(32)).astype(np.uint32)
    with np.errstate(over="ignore"):
        x = a + column * (b | np.uint32(1))
        x = (x ^ (x >> np.uint32(16))) * np.uint32(0x21F0AAAD)
        x = (x ^ (x >> np.uint32(15))) + b
        x = x * np.uint32(0xD35A2D97)
        return x ^ (x >> np.uint32(15))


def bits(key, rows, columns):
    """uint32 [len(rows), len(columns)]; an integer stands for range(integer)."""
    rows = np.arange(rows) if np.isscalar(rows) else np.asarray(rows)
    columns = np.arange(columns) if np.isscalar(columns) else np.asarray(columns)
    return bits_of(row_key(key, rows)[:, None], columns[None, :])


def uniform(bits):
    """In [0, 1), 24 bits, exact in f32."""
    return (bits >> np.uint32(8)).astype(np.float64) * 2.0**-24


def dropped(bits, probability):
    """`probability` is the f32 that the contract carries."""
    return bits.astype(np.uint64) < np.uint64(int(np.ceil(float(np.float32(probability)) * 2.0**32)))
