#!/usr/bin/env python3
"""Link prediction in f64 with numpy alone: which links are held out, which pairs are drawn as negatives, the loss, the metrics.

    links.py INPUT.json [OUTPUT.json]     the split of a graph's links, held-out negatives and, with embeddings, the metrics
    links.py --self-test                  the draws one number at a time, metrics by counting, finite differences

A link is an unordered pair {a < b} of vertices with an edge either way; they are numbered in ascending order of (a, b). Its score is
<z[a], z[b]>, z the rows of the last layer. zoo.py trains whole models with `Training`; tests/peers/links.py takes the split from here.

INPUT.json
    vertices, edges       directed or not; self loops and repeats are ignored
    seed                  0: links.seed
    validation, test      0.05, 0.1: the share of links, rounded down
    each                  1: negatives of a held-out link
    embeddings            [[...], ...] of every vertex; without it no metrics
    hits                  [10]: every K

OUTPUT.json
    training, and for validation and test "links", "negatives" [[a, b], ...], those of a negative as they were drawn, and the
    metrics roc_auc, mrr, hits {K: ...}
"""
import numpy as np

import gcn
import keyed
import random_vectors

ATTEMPTS = 64
HELD_OUT = 0xFFFFFFFF  # what stands for the epoch where negatives are those of held-out links
TRAINING, VALIDATION, TEST = range(3)


class Links:
    """The links of a graph: pairs [links, 2], a < b, ascending."""

    def __init__(self, vertices, pairs):
        pairs = np.sort(np.asarray(pairs, np.int64).reshape(-1, 2), axis=1)
        pairs = pairs[pairs[:, 0] != pairs[:, 1]]
        self.vertices, self.numbers = vertices, np.unique(pairs[:, 0] * vertices + pairs[:, 1])
        self.pairs = np.stack(np.divmod(self.numbers, vertices), 1)

    def __len__(self):
        return len(self.numbers)

    def holds(self, pairs):
        """Whether each of pairs, in any order of its ends, is a link."""
        pairs = np.sort(pairs, axis=1)
        number = pairs[:, 0] * self.vertices + pairs[:, 1]
        at = np.searchsorted(self.numbers, number)
        return (np.append(self.numbers, -1)[at] == number) & (number >= 0)

    def negatives(self, count, seed, epoch, stream=0):
        """The pair of each row [count, 2], as drawn, and which rows found one within their attempts [count]."""
        key = keyed.key(seed, keyed.NEGATIVES, epoch, 0, stream)
        pairs, open_ = np.full((count, 2), -1), np.arange(count)
        for attempt in range(ATTEMPTS):
            if len(open_) == 0:
                break
            bits = keyed.bits(key, open_, [2 * attempt, 2 * attempt + 1]).astype(np.uint64)
            drawn = (bits * np.uint64(self.vertices) >> np.uint64(32)).astype(np.int64)
            taken = (drawn[:, 0] != drawn[:, 1]) & ~self.holds(drawn)
            pairs[open_[taken]] = drawn[taken]
            open_ = open_[~taken]
        return pairs, pairs[:, 0] >= 0

    def split(self, validation=0.05, test=0.1, seed=0):
        """Of each link TRAINING, VALIDATION or TEST: selection sampling in ascending order."""
        roles, wanted = np.full(len(self), TRAINING), [int(validation * len(self)), int(test * len(self))]
        for link, r in enumerate(below(split_mix(seed, len(self)), np.arange(len(self), 0, -1)).tolist()):
            if r < wanted[0]:
                roles[link], wanted[0] = VALIDATION, wanted[0] - 1
            elif r < sum(wanted):
                roles[link], wanted[1] = TEST, wanted[1] - 1
        return roles


class HeldOut:
    """The held-out links of one role, [links, 2], and their negatives, which are no links of the whole graph."""

    def __init__(self, links, roles, role, each=1, seed=0):
        self.pairs = links.pairs[roles == role]
        drawn, found = links.negatives(len(self.pairs) * each, seed, HELD_OUT, role - VALIDATION)
        self.negatives, self.owner = drawn[found], np.repeat(np.arange(len(self.pairs)), each)[found]

    def metrics(self, z, hits=(10,)):
        positive, negative = scores(z, self.pairs), scores(z, self.negatives)
        found = {str(k): hits_at(positive, negative, k) for k in hits}
        return {"roc_auc": roc_auc(positive, negative), "mrr": mrr(positive, negative, self.owner), "hits": found}


class Training:
    """Every link of the training graph against negatives drawn anew each epoch."""

    def __init__(self, links, negatives=1, seed=0):
        self.links, self.count, self.seed = links, negatives * len(links), seed

    def loss(self, z, epoch):
        """Mean binary cross-entropy over links and negatives, and its gradient in z."""
        drawn, found = self.links.negatives(self.count, self.seed, epoch)
        pairs = np.concatenate([self.links.pairs, drawn[found]])
        linked, s = np.arange(len(pairs)) < len(self.links), scores(z, pairs)
        weight, gradient = 1 / len(pairs), np.zeros_like(z)
        slope = weight * (np.exp(-np.logaddexp(0, -s)) - linked)[:, None]
        np.add.at(gradient, pairs[:, 0], slope * z[pairs[:, 1]])
        np.add.at(gradient, pairs[:, 1], slope * z[pairs[:, 0]])
        return weight * (np.logaddexp(0, s) - s * linked).sum(), gradient


def split_mix(seed, count):
    """The first numbers of SplitMix64, uint64 [count]; it is a counter, mixed."""
    with np.errstate(over="ignore"):
        return keyed.mix64(np.uint64(seed) + np.arange(1, count + 1, dtype=np.uint64) * keyed.G)


def below(numbers, bounds):
    """The high half of the 128-bit product of each number and its bound, which is below 2^32."""
    half, bounds = np.uint64(32), np.asarray(bounds, np.uint64)
    return ((numbers >> half) * bounds + ((numbers & np.uint64(0xFFFFFFFF)) * bounds >> half)) >> half


def scores(z, pairs):
    return (z[pairs[:, 0]] * z[pairs[:, 1]]).sum(1)


def roc_auc(positive, negative):
    """The share of (positive, negative) where the positive is above; ties count half."""
    order = np.sort(negative)
    above = np.searchsorted(order, positive, "left") + np.searchsorted(order, positive, "right")
    return float(above.mean() / 2 / len(negative))


def hits_at(positive, negative, k):
    """OGB's: the share of positives above the k-th highest negative; 1 where there are fewer negatives."""
    return 1.0 if len(negative) < k else float((positive > np.sort(negative)[-k]).mean())


def mrr(positive, negative, owner):
    """OGB's: the mean of 1 / rank of each positive among its own negatives; rank = 1 + (# above + # not below) / 2."""
    own = positive[owner]
    count = lambda at: np.bincount(owner[at], minlength=len(positive))
    return float((1 / (1 + (count(negative > own) + count(negative >= own)) / 2)).mean())


def run(job):
    links, seed = Links(job["vertices"], job["edges"]), job.get("seed", 0)
    roles = links.split(job.get("validation", 0.05), job.get("test", 0.1), seed)
    answer = {"training": links.pairs[roles == TRAINING].tolist()}
    for name, role in (("validation", VALIDATION), ("test", TEST)):
        of = HeldOut(links, roles, role, job.get("each", 1), seed)
        answer[name] = {"links": of.pairs.tolist(), "negatives": of.negatives.tolist()}
        if "embeddings" in job:
            answer[name] |= of.metrics(np.asarray(job["embeddings"], np.float32).astype(float), job.get("hits", [10]))
    return answer


def random_links(r, vertices, edges):
    return Links(vertices, r.integers(0, vertices, (edges, 2)))


def test_split(seed=3):
    """SplitMix64's published values; the split as a plain loop makes it."""
    assert split_mix(1234567, 2).tolist() == [6457827717110365317, 3203168211198807973]
    r = np.random.default_rng(seed)
    links, sizes = random_links(r, 60, 400), []
    for validation, test, start in ((0.05, 0.1, 0), (0.3, 0.7, 2**64 - 5), (0.0, 0.5, 9)):
        state, wanted, expected = start, [int(validation * len(links)), int(test * len(links))], []
        for link in range(len(links)):
            state = (state + random_vectors.G) % 2**64
            chosen = random_vectors.mix64(state) * (len(links) - link) >> 64
            expected.append(VALIDATION if chosen < wanted[0] else TEST if chosen < wanted[0] + wanted[1] else TRAINING)
            if expected[-1] != TRAINING:
                wanted[expected[-1] - 1] -= 1
        roles = links.split(validation, test, start)
        assert roles.tolist() == expected and wanted == [0, 0], (validation, test, start)
        sizes.append(np.bincount(roles, minlength=3).tolist())
    return f"seed {seed}, training, validation, test: {sizes}"


def test_negatives(seed=5):
    """As drawn one number at a time; rows of a graph that is nearly complete find none."""
    r, missing = np.random.default_rng(seed), 0
    for vertices, edges in ((50, 100), (12, 500), (6, 400)):
        links = random_links(r, vertices, edges)
        linked = set(map(tuple, links.pairs.tolist()))
        if vertices == 12:  # one pair that is not linked
            links = Links(vertices, [(a, b) for a in range(vertices) for b in range(a) if (a, b) != (7, 3)])
            linked = set(map(tuple, links.pairs.tolist()))
        pairs, found = links.negatives(40, 8, HELD_OUT, 1)
        key = random_vectors.key(8, keyed.NEGATIVES, HELD_OUT, 0, 1)
        for row in range(40):
            expected = [-1, -1]
            for attempt in range(ATTEMPTS):
                a, b = (random_vectors.bits32(key, row, 2 * attempt + end) * vertices >> 32 for end in range(2))
                if a != b and (min(a, b), max(a, b)) not in linked:
                    expected = [a, b]
                    break
            assert pairs[row].tolist() == expected and found[row] == (expected != [-1, -1]), (vertices, row)
        missing += (~found).sum()
    assert 0 < missing < 120, missing
    return f"seed {seed}, {missing} rows of 120 without a pair"


def test_metrics(seed=6):
    """By counting, with scores that tie."""
    r = np.random.default_rng(seed)
    positive, negative, owner = r.integers(0, 9, 30) / 2, r.integers(0, 7, 50) / 2, np.sort(r.integers(0, 30, 50))
    pairs = [(p > n) + (p == n) / 2 for p in positive for n in negative]
    assert abs(roc_auc(positive, negative) - sum(pairs) / len(pairs)) < 1e-12
    ranks = [1 + sum((n > p) + (n == p) / 2 for n, o in zip(negative, owner) if o == i) for i, p in enumerate(positive)]
    assert abs(mrr(positive, negative, owner) - sum(1 / rank for rank in ranks) / 30) < 1e-12
    for k in (1, 7, 50):
        bar = sorted(negative.tolist(), reverse=True)[k - 1]
        assert abs(hits_at(positive, negative, k) - sum(p > bar for p in positive) / 30) < 1e-12, k
    assert hits_at(positive, negative, 51) == 1
    return f"seed {seed}, 5 cases"


def test_gradient(seed=7):
    """Central differences of the loss in every embedding; epochs draw pairs of their own."""
    r = np.random.default_rng(seed)
    training, z = Training(random_links(r, 15, 30), 3, 4), r.normal(size=(15, 4))
    gradient, difference, step = training.loss(z, 2)[1], np.zeros((15, 4)), 1e-6
    for i in np.ndindex(z.shape):
        up, down = z.copy(), z.copy()
        up[i], down[i] = z[i] + step, z[i] - step
        difference[i] = (training.loss(up, 2)[0] - training.loss(down, 2)[0]) / (2 * step)
    error = np.linalg.norm(difference - gradient) / np.linalg.norm(gradient)
    assert error < 1e-8, error
    assert training.loss(z, 2)[0] != training.loss(z, 3)[0]
    return f"seed {seed}, relative error {error:.1e}"


if __name__ == "__main__":
    gcn.command(run, [test_split, test_negatives, test_metrics, test_gradient], __doc__)
