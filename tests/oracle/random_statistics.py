#!/usr/bin/env python3
"""Published statistical tests of the contract's random generator.

    random_statistics.py [--quick] [--seed N] [--stream NAME ...]   all tests; --quick takes seconds, the whole run some minutes
    random_statistics.py --self-test                                the tests themselves, on SP 800-22's worked examples
    random_statistics.py --list                                     names of the streams
    random_statistics.py --raw NAME | dieharder -a -g 200           a stream of 32-bit words, for other suites (endless)

Eight tests of NIST SP 800-22 rev. 1a run over bit streams that walk the generator along each of its keys, so that numbers with
neighbouring rows, columns, epochs, layers, streams and seeds stand next to each other; along the exclusive or of such
neighbours; and along single bits of the word. Besides, for probabilities other than 1/2, chi-squared tests of how many values are
dropped in each row, column and epoch, and of neighbours dropped together.

Every test of a stream runs on many sequences. Their p-values must be uniform (Kolmogorov-Smirnov) and no more of them below 0.01
than the binomial allows. Each such judgement is one more p-value. With m judgements the run fails if one is below 0.0001 / m
(Bonferroni), so a sound generator fails once in ten thousand runs; the smallest are always printed. `control` is numpy's PCG64 judged the same
way; `control-counter`, `control-weyl` and `control-lcg16` are poor on purpose and must be caught (--controls).
"""
import argparse
import math
import sys
import time

import numpy as np

try:
    from scipy.special import erfc, gammaincc
    from scipy.stats import binom, kstwo
except ImportError:
    sys.exit("random_statistics.py needs scipy: pip install scipy")

import keyed

# --- NIST SP 800-22 rev. 1a; each takes bits [sequences, n] of 0 and 1 and gives a p-value a sequence (or several columns) ---


def frequency(bits):
    n = bits.shape[1]
    return erfc(np.abs(2.0 * bits.sum(1) - n) / math.sqrt(2 * n))


def block_frequency(bits, m=128):
    blocks = bits.shape[1] // m
    share = bits[:, : blocks * m].reshape(len(bits), blocks, m).mean(2)
    return gammaincc(blocks / 2, 4 * m * ((share - 0.5) ** 2).sum(1) / 2)


def runs(bits):
    n = bits.shape[1]
    share = bits.mean(1)
    count = 1 + (bits[:, 1:] != bits[:, :-1]).sum(1)
    with np.errstate(divide="ignore", invalid="ignore"):
        p = erfc(np.abs(count - 2 * n * share * (1 - share)) / (2 * math.sqrt(2 * n) * share * (1 - share)))
    return np.where(np.abs(share - 0.5) >= 2 / math.sqrt(n), 0.0, p)


def longest_run(bits):
    n = bits.shape[1]
    if n < 6272:
        m, low, chance = 8, 1, [0.2148, 0.3672, 0.2305, 0.1875]
    elif n < 750000:
        m, low, chance = 128, 4, [0.1174, 0.2430, 0.2493, 0.1752, 0.1027, 0.1124]
    else:
        m, low, chance = 10000, 10, [0.0882, 0.2092, 0.2483, 0.1933, 0.1208, 0.0675, 0.0727]
    blocks = n // m
    x = bits[:, : blocks * m].reshape(len(bits), blocks, m)
    now = np.zeros(x.shape[:2], int)
    best = np.zeros(x.shape[:2], int)
    for i in range(m):
        now = (now + 1) * x[:, :, i]
        np.maximum(best, now, out=best)
    category = np.clip(best, low, low + len(chance) - 1) - low
    chi = 0
    for c, p in enumerate(chance):
        chi = chi + ((category == c).sum(1) - blocks * p) ** 2 / (blocks * p)
    return gammaincc((len(chance) - 1) / 2, chi / 2)


def spectral(bits):
    n = bits.shape[1]
    size = np.abs(np.fft.rfft(2.0 * bits - 1, axis=1))[:, : n // 2]
    expected = 0.95 * n / 2
    found = (size < math.sqrt(math.log(1 / 0.05) * n)).sum(1)
    return erfc(np.abs(found - expected) / math.sqrt(n * 0.95 * 0.05 / 4) / math.sqrt(2))


def pattern_counts(bits, m):
    """How often each pattern of m bits occurs, cyclic: [sequences, 2^m]."""
    k, n = bits.shape
    if m == 0:
        return np.full((k, 1), n)
    code = np.zeros((k, n), np.int64)
    for i in range(m):
        code = code << 1 | np.roll(bits, -i, axis=1)
    code += (np.arange(k) << m)[:, None]
    return np.bincount(code.ravel(), minlength=k << m).reshape(k, 1 << m)


def serial(bits, m=8):
    n = bits.shape[1]
    psi = [(2**j / n * (pattern_counts(bits, j).astype(float) ** 2).sum(1) - n) if j > 0 else np.zeros(len(bits)) for j in (m, m - 1, m - 2)]
    first, second = psi[0] - psi[1], psi[0] - 2 * psi[1] + psi[2]
    return np.stack([gammaincc(2 ** (m - 2), first / 2), gammaincc(2 ** (m - 3), second / 2)], 1)


def approximate_entropy(bits, m=7):
    n = bits.shape[1]

    def phi(m):
        share = pattern_counts(bits, m) / n
        return (share * np.log(np.where(share > 0, share, 1))).sum(1)

    return gammaincc(2 ** (m - 1), n * (math.log(2) - (phi(m) - phi(m + 1))))


def cumulative_sums(bits):
    n = bits.shape[1]
    walk = np.cumsum(2 * bits.astype(np.int64) - 1, 1)
    backward = walk[:, -1:] - np.concatenate([np.zeros((len(bits), 1), int), walk[:, :-1]], 1)
    normal = lambda x: 0.5 * erfc(-x / math.sqrt(2))
    answers = []
    for w in (walk, backward):
        z = np.abs(w).max(1).astype(float)
        p = np.ones(len(bits))
        for k in range(-200, 201):  # further terms are zero where z is not tiny
            use = (k >= (-n / z + 1) / 4) & (k <= (n / z - 1) / 4)
            p -= use * (normal((4 * k + 1) * z / math.sqrt(n)) - normal((4 * k - 1) * z / math.sqrt(n)))
            use = (k >= (-n / z - 3) / 4) & (k <= (n / z - 1) / 4)
            p += use * (normal((4 * k + 3) * z / math.sqrt(n)) - normal((4 * k + 1) * z / math.sqrt(n)))
        answers.append(np.clip(p, 0, 1))
    return np.stack(answers, 1)


TESTS = dict(frequency=frequency, block_frequency=block_frequency, runs=runs, longest_run=longest_run, spectral=spectral,
             serial=serial, approximate_entropy=approximate_entropy, cumulative_sums=cumulative_sums)

# --- streams: 32-bit words of the generator, in an order ---

FIELDS = ("seed", "epoch", "layer", "stream", "row", "column")


class Walk:
    """Words in an order: `inner` fields with their extents, the last fastest; then `outer` steps on for the next words."""

    def __init__(self, inner, outer, base=0, lag=None, purpose=keyed.DROPOUT):
        self.inner, self.outer, self.base, self.lag, self.purpose = inner, outer, base, lag, purpose

    def at(self, index, shift=None):
        f = dict(seed=self.base, epoch=3, layer=1, stream=0, row=17, column=5)
        for name, extent in reversed(self.inner):
            index, f[name] = np.divmod(index, extent)
        f[self.outer] = f[self.outer] + index
        if shift:
            f[shift[0]] = f[shift[0]] + shift[1]
        k = keyed.key(f["seed"], self.purpose, f["epoch"], f["layer"], f["stream"])
        return keyed.bits_of(keyed.row_key(k, f["row"]), f["column"])

    def words(self, start, count):
        index = np.arange(start, start + count, dtype=np.int64)
        return self.at(index) ^ self.at(index, self.lag) if self.lag else self.at(index)


class Sparse:
    """Rows of bag-of-words columns: the stored values' own, ascending, 1.3 % of 1,433; another set of columns each row."""

    def __init__(self, base=0):
        r = np.random.default_rng(1)
        self.rows = [np.sort(r.choice(1433, 18, replace=False)) for _ in range(4096)]
        self.columns, self.base = np.array(self.rows), base

    def words(self, start, count):
        index = np.arange(start, start + count)
        row, i = np.divmod(index, 18)
        return keyed.bits_of(keyed.row_key(keyed.key(self.base, 2, row // 2708, 0, 0), row % 2708), self.columns[row % 4096, i])


class Words:
    def __init__(self, f): self.f = f
    def words(self, start, count): return self.f(start, count)


def controls(base):
    def pcg(start, count):
        r = np.random.PCG64(base + 5)
        r.advance(start // 2)
        return r.random_raw((count + 1) // 2).view(np.uint32)[:count]
    u32 = lambda start, count: np.arange(start, start + count, dtype=np.uint64)
    return {
        "control": Words(pcg),
        "control-counter": Words(lambda s, c: (u32(s, c) << np.uint64(10)).astype(np.uint32)),
        "control-weyl": Words(lambda s, c: (u32(s, c) * np.uint64(0x9E3779B9)).astype(np.uint32)),
        "control-lcg16": Words(lambda s, c: ((u32(s, c) % np.uint64(65536)) * np.uint64(40503) % np.uint64(65536) << np.uint64(16)).astype(np.uint32)),
    }


def streams(base):
    """Names say the order: what runs fastest is last."""
    out = {
        "row,column<16": Walk([("row", 2708), ("column", 16)], "epoch", base),
        "row,column<128": Walk([("row", 2708), ("column", 128)], "epoch", base),
        "row,column<1433": Walk([("row", 2708), ("column", 1433)], "epoch", base),
        "row,column<2^20": Walk([("row", 4096), ("column", 1 << 20)], "epoch", base),
        "sparse": Sparse(base),
        "column,row": Walk([("column", 16), ("row", 2708)], "epoch", base),
        "column,row<2^20": Walk([("column", 1433), ("row", 1 << 20)], "epoch", base),
        "row,epoch": Walk([("column", 16), ("row", 1000), ("epoch", 200)], "layer", base),
        "row,column,epoch": Walk([("row", 1000), ("column", 16), ("epoch", 200)], "layer", base),
        "epoch": Walk([("row", 1000), ("epoch", 1 << 16)], "layer", base),
        "row,layer": Walk([("row", 100000), ("layer", 8)], "epoch", base),
        "row,column,layer": Walk([("row", 10000), ("column", 16), ("layer", 4)], "epoch", base),
        "row,stream": Walk([("row", 100000), ("stream", 4)], "epoch", base),
        "row,seed": Walk([("row", 10000), ("seed", 100)], "epoch", base),
        "seed": Walk([("row", 1000), ("seed", 1 << 16)], "epoch", base),
        "purpose 3, row,column<128": Walk([("row", 2708), ("column", 128)], "epoch", base, purpose=3),
    }
    plain = ("row", 2708), ("column", 128)
    for field, step in (("column", 1), ("column", 2), ("column", 16), ("column", 65536), ("row", 1), ("row", 2), ("row", 64), ("epoch", 1), ("epoch", 2),
                        ("layer", 1), ("stream", 1), ("seed", 1), ("seed", 2)):
        out[f"xor {field}+{step}"] = Walk(plain, "epoch", base, (field, step))
    return out


# --- judging ---


def uniformity(p):
    """Two p-values of a set of p-values: Kolmogorov-Smirnov against uniform, and the number below 0.01."""
    p = np.sort(p)
    n = len(p)
    d = max((np.arange(1, n + 1) / n - p).max(), (p - np.arange(n) / n).max())
    return float(kstwo.sf(d, n)), float(binom.sf((p < 0.01).sum() - 1, n, 0.01))


def judge_bits(name, take, sequences, n, results, tests=TESTS):
    bits = take(sequences * n).reshape(sequences, n).astype(np.int8)
    for test, f in tests.items():
        p = f(bits)
        p = p[:, None] if p.ndim == 1 else p
        for c in range(p.shape[1]):
            ks, low = uniformity(p[:, c])
            at = test if p.shape[1] == 1 else f"{test} {c + 1}"
            results += [(ks, name, at, "p-values uniform"), (low, name, at, "p-values below 0.01")]


def judge_counts(base, probability, rows, columns, epochs, results):
    """Dropped values a row, a column and an epoch, and neighbours dropped together, against the binomial."""
    p = math.ceil(float(np.float32(probability)) * 2**32) / 2**32
    x = np.stack([keyed.dropped(keyed.bits(keyed.key(base, 2, e, 0, 0), rows, columns), probability) for e in range(epochs)])
    name = f"p={probability:g}, {epochs}x{rows}x{columns}"

    def chi(label, count, n):
        z2 = (count - n * p) ** 2 / (n * p * (1 - p))
        # variance of z^2 of a binomial: 2 + (1 - 6 p (1-p)) / (n p (1-p)); many terms, so the sum is normal
        z = (z2 - 1).sum() / math.sqrt(z2.size * (2 + (1 - 6 * p * (1 - p)) / (n * p * (1 - p))))
        results.append((float(erfc(abs(z) / math.sqrt(2))), name, label, "spread of counts"))
        t = (count.sum() - count.size * n * p) / math.sqrt(count.size * n * p * (1 - p))
        results.append((float(erfc(abs(t) / math.sqrt(2))), name, label, "total"))

    chi("rows", x.sum(2), columns)
    chi("columns", x.sum(1), rows)
    chi("cells over epochs", x.sum(0), epochs)
    y = x - p
    for axis, label in enumerate(("epoch", "row", "column")):
        for lag in (1, 2, 3, 4, 8, 16, 32, 64):
            if lag < x.shape[axis]:
                a = y.take(range(lag, x.shape[axis]), axis)
                b = y.take(range(x.shape[axis] - lag), axis)
                z = (a * b).sum() / (p * (1 - p) * math.sqrt(a.size))
                results.append((float(erfc(abs(z) / math.sqrt(2))), name, f"{label}+{lag}", "correlation"))
    # any two epochs, and any two rows, of the mask: the largest correlation of all pairs
    for label, m in (("epochs", y.reshape(epochs, -1)[:, : 1 << 18]), ("rows", y.transpose(1, 0, 2).reshape(rows, -1)[:1000])):
        c = m.astype(np.float32) @ m.T.astype(np.float32) / (p * (1 - p) * math.sqrt(m.shape[1]))
        c = np.abs(c[np.triu_indices(len(c), 1)])
        largest = float(c.max())
        # normal approximation: wanted only where n p^2 (1-p)^2 is large, which the callers' sizes keep
        results.append((float(-np.expm1(c.size * np.log1p(-erfc(largest / math.sqrt(2))))), name, f"pairs of {label}", "largest correlation"))


def judge_words(name, source, results, count):
    """The word in 65,536 cells by each half, and pairs of successive bytes."""
    w = source.words(0, count)
    for label, v in (("high half", w >> np.uint32(16)), ("low half", w & np.uint32(0xFFFF)),
                     ("pairs of high bytes", (w[1::2] >> np.uint32(24)) | (w[::2] >> np.uint32(24) << np.uint32(8)))):
        found = np.bincount(v, minlength=65536)
        expected = len(v) / 65536
        results.append((float(gammaincc(65535 / 2, ((found - expected) ** 2).sum() / expected / 2)), name, label, "chi-squared"))


def judge_stream(name, source, quick, results):
    sequences, n = (48, 1 << 13) if quick else (128, 1 << 17)
    top = lambda count: source.words(0, count) >> np.uint32(31)
    judge_bits(name + " / dropped at 1/2", top, sequences, n, results)
    whole = lambda count: np.unpackbits(source.words(0, count // 32).astype(">u4").view(np.uint8))
    judge_bits(name + " / all 32 bits", whole, sequences, n, results)
    if not quick:
        judge_words(name, source, results, 1 << 24)


def bits_of_e(n):
    """The first n bits of e = 10.1011..., by binary splitting of its series."""
    def split(a, b):
        if b - a == 1:
            return 1, b
        (p, q), (r, t) = split(a, (a + b) // 2), split((a + b) // 2, b)
        return p * t + r, q * t
    terms = 1
    while math.lgamma(terms) < (n + 64) * math.log(2):
        terms = terms * 11 // 10 + 1
    p, q = split(0, terms)
    return np.array([list(bin((p + q << n - 2) // q)[2:].encode())], np.int8) - 48


def self_test():
    """SP 800-22 rev. 1a: worked examples of section 2 (but the spectral one, where the text counts 46 peaks and the FFT 48), and a million
    bits of e (appendix B)."""
    pi = "1100100100001111110110101010001000100001011010001100001000110100110001001100011001100010100010111000"
    run = "11001100000101010110110001001100111000000000001001001101010100010001001111010110100000001101011111001100111001101101100010110010"
    bits = lambda text: np.array([[int(c) for c in text]], np.int8)
    e = bits_of_e(10**6)
    cases = [
        ("frequency", frequency(bits(pi)), [0.109599]),
        ("block frequency", block_frequency(bits(pi), 10), [0.706438]),
        ("runs", runs(bits(pi)), [0.500798]),
        ("longest run", longest_run(bits(run)), [0.180598]),
        ("serial", serial(bits("0011011101"), 3), [0.808792, 0.670320]),
        ("approximate entropy", approximate_entropy(bits(pi), 2), [0.235301]),
        ("cumulative sums", cumulative_sums(bits(pi)), [0.219194, 0.114866]),
        ("e: frequency", frequency(e), [0.953749]),
        ("e: block frequency", block_frequency(e, 128), [0.211072]),
        ("e: runs", runs(e), [0.561917]),
        ("e: longest run", longest_run(e), [0.718945]),
        ("e: spectral", spectral(e), [0.847187]),
        ("e: serial", serial(e, 16), [0.766182, 0.462921]),
        ("e: approximate entropy", approximate_entropy(e, 10), [0.700073]),
        ("e: cumulative sums", cumulative_sums(e), [0.669887, 0.724266]),
    ]
    failed = 0
    for name, found, published in cases:
        good = np.allclose(found.ravel(), published, atol=2e-6)
        failed += not good
        print(f"{'ok    ' if good else 'FAILED'} {name}: {found.ravel()}, published {published}")
    print(f"{len(cases) - failed} passed, {failed} failed")
    return failed


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--quick", action="store_true")
    a.add_argument("--self-test", action="store_true")
    a.add_argument("--controls", action="store_true", help="judge the controls instead")
    a.add_argument("--seed", type=int, default=1)
    a.add_argument("--stream", action="append")
    a.add_argument("--raw")
    a.add_argument("--list", action="store_true")
    a = a.parse_args()
    if a.self_test:
        sys.exit(self_test() != 0)
    known = controls(a.seed) if a.controls else streams(a.seed)
    if a.list:
        return print("\n".join(known))
    if a.raw:
        source, at = ({**streams(a.seed), **controls(a.seed)})[a.raw], 0
        try:
            while True:
                sys.stdout.buffer.write(source.words(at, 1 << 18).tobytes())
                at += 1 << 18
        except BrokenPipeError:
            sys.stderr.close()
            return
    chosen = a.stream or (["row,column<16", "row,column<1433", "sparse", "column,row", "row,column,epoch", "row,seed", "xor row+1", "xor epoch+1",
                           "xor column+1"] if a.quick and not a.controls else list(known))
    results, start = [], time.time()
    for name in chosen:
        judge_stream(name, known[name], a.quick, results)
        mine = [r for r in results if r[1].startswith(name)]
        print(f"{time.time() - start:6.0f} s  {name:28} {len(mine):3} judgements, smallest p {min(mine)[0]:.2e}", flush=True)
    if not a.controls and not a.stream:
        if not a.quick:
            for bit in range(32):
                walk = known["row,column<128"]
                take = lambda count: walk.words(0, count) >> np.uint32(bit) & np.uint32(1)
                judge_bits(f"bit {bit}", take, 64, 1 << 15, results)
            print(f"{time.time() - start:6.0f} s  single bits of the word", flush=True)
        for probability in (0.5, 0.6, 0.1, 0.9):
            for shape in ([(500, 48, 8)] if a.quick else [(2708, 16, 200), (2708, 128, 40), (512, 1433, 40)]):
                judge_counts(a.seed, probability, *shape, results)
        print(f"{time.time() - start:6.0f} s  counts and correlations", flush=True)
    results.sort()
    limit = 1e-4 / len(results)
    failed = [r for r in results if r[0] < limit]
    print(f"\nseed {a.seed}: {len(results)} judgements, limit {limit:.1e}; the smallest:")
    for p, name, test, what in (results[:8] if not a.quick else results[:3]):
        print(f"  {p:.2e}  {name}: {test}, {what}")
    print(f"{len(results) - len(failed)} passed, {len(failed)} failed")
    sys.exit(len(failed) != 0)


if __name__ == "__main__":
    main()
