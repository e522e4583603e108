#!/usr/bin/env python3
"""Every model in f64 with numpy alone: the oracle that whole models of Eciton are compared with.

    zoo.py INPUT.json [OUTPUT.json]       loss and gradients of one epoch; with "epochs": n, n epochs of training as well
    zoo.py --self-test                    finite differences of every layer

Graphs are directed: A[v, u] = 1 for an edge (u, v), once, without loops. N = D^-1/2 (A + I) D^-1/2 with D the row sums of A + I,
M = D^-1 A with D those of A (0 where there is none). Attention is over the ones of A + I. Matrices are dense, gradients come from a tape; nothing is shared with the host
but the generator of random numbers (keyed.py) and the optimisers (gcn.py).

INPUT.json
    vertices, edges, features, labels, train      as gcn.py; edges are directed
        loss             cross-entropy (default); else labels are rows of values, null where unknown:
                         binary-cross-entropy, squared-error, absolute-error
        class_weights    of cross-entropy: a number a class, or "balanced"; focal: gamma, 0 where it is not there
        edge_features    rows of numbers, one for each of edges; an edge that is there several times has their mean
        edge_weights     the column of edge_features that takes the place of the ones of A, where the model has one
        links            {"negatives": 1}: link prediction (links.py) in place of labels, train and loss; edges are those of the
                         training graph, negatives are drawn by seed anew each epoch
        graphs           the number of its graph for each vertex, in any order: graph classification. The first vertex of a graph stands
                         for it: its row is the graph's behind a layer "readout", where all other rows are zero, and its label is the
                         graph's. train has only such vertices
        labelled_edges   {"ends": [[source, target], ...], "features": rows of numbers}: labels and train are those of these edges,
                         which have the rows behind a layer "readout"
    layers        [{"kernel", "width", "activation", "dropout", "bias", "norm", "residual", and "hops", "alpha", "epsilon",
                   "train_epsilon", "jumping", "aggregator", "heads", "average", "slope", "attention_dropout", "edge_features",
                   "readout" (mean, sum, max: of the rows of a graph's vertices; source, target, ends: of an edge's ends) where the
                   kernel has them}, ...]
    parameters    {name: [[...]] or [...]}, as Eciton names them
    seed, epochs, optimiser, slope                as gcn.py; weight_decay one number

OUTPUT.json
    loss, gradients {name: ...}; with epochs: losses [epochs] (each before its update)
"""
import numpy as np

import gcn
import keyed
import links


class Var:
    """A matrix and how its gradient flows back: [(parent, gradient -> parent's gradient)]."""

    def __init__(self, value, parents=()):
        self.value, self.parents, self.gradient = np.asarray(value, float), parents, None

    def __add__(self, other):
        return Var(self.value + other.value, [(self, lambda g: fit(g, self)), (other, lambda g: fit(g, other))])

    def __mul__(self, other):
        other = other if isinstance(other, Var) else Var(other)
        return Var(self.value * other.value, [(self, lambda g: fit(g * other.value, self)), (other, lambda g: fit(g * self.value, other))])

    def __matmul__(self, other):
        return Var(self.value @ other.value, [(self, lambda g: g @ other.value.T), (other, lambda g: self.value.T @ g)])

    def then(self, function, derivative):
        return Var(function(self.value), [(self, lambda g: g * derivative(self.value))])

    def back(self, gradient):
        order, seen = [], set()

        def visit(var):
            if id(var) not in seen:
                seen.add(id(var))
                for parent, _ in var.parents:
                    visit(parent)
                order.append(var)

        visit(self)
        for var in order:
            var.gradient = np.zeros_like(var.value)
        self.gradient = gradient
        for var in reversed(order):
            for parent, flow in var.parents:
                parent.gradient = parent.gradient + flow(var.gradient)


def fit(gradient, var):
    """Sums over what was broadcast."""
    while gradient.ndim > var.value.ndim:
        gradient = gradient.sum(0)
    for axis, extent in enumerate(var.value.shape):
        if extent == 1 and gradient.shape[axis] != 1:
            gradient = gradient.sum(axis, keepdims=True)
    return gradient


def layer_norm(x, scale, shift):
    k = x.value.shape[1]
    mean = x.value.mean(1, keepdims=True)
    size = np.sqrt(((x.value - mean) ** 2).mean(1, keepdims=True) + float(np.float32(1e-5)))
    h = (x.value - mean) / size
    # The Jacobian of a row: (I - 1/k - h h^T / k) / size.
    def flow(g):
        out = np.empty_like(g)
        for row in range(len(g)):
            jacobian = (np.eye(k) - 1 / k - np.outer(h[row], h[row]) / k) / size[row]
            out[row] = jacobian @ g[row]
        return out
    return Var(h, [(x, flow)]) * scale + shift


def batch_norm(x, counts):
    """Columns by their mean and variance over the rows that count, gradients by the Jacobian of a column."""
    n = max(counts.sum(), 1)
    mean = (x.value * counts[:, None]).sum(0) / n
    size = np.sqrt((((x.value - mean) ** 2) * counts[:, None]).sum(0) / n + float(np.float32(1e-5)))
    h = (x.value - mean) / size
    def flow(g):
        out = np.empty_like(g)
        for column in range(g.shape[1]):
            of = h[:, column]
            jacobian = (np.eye(len(of)) - counts / n - np.outer(of, of * counts) / n) / size[column]
            out[:, column] = jacobian.T @ g[:, column]
        return out
    return Var(h, [(x, flow)])


def pair_norm(x, counts):
    """Rows about the mean of the rows that count, by the root of their mean square length (Zhao and Akoglu 2020)."""
    n, rows = max(counts.sum(), 1), len(x.value)
    left = x.value - (x.value * counts[:, None]).sum(0) / n
    size = np.sqrt((left ** 2 * counts[:, None]).sum() / n + float(np.float32(1e-5)))
    def flow(g):
        # y = left / size; d size / d left = left counts / (n size); d left / d x is the centring.
        of_size = -(g * left).sum() / size ** 2
        of_left = g / size + of_size * left * counts[:, None] / (n * size)
        return (np.eye(rows) - counts / n).T @ of_left
    return Var(left / size, [(x, flow)])


def l2_norm(x):
    size = np.maximum(np.linalg.norm(x.value, axis=1, keepdims=True), 1e-12)
    y = x.value / size
    def flow(g):
        out = np.empty_like(g)
        for row in range(len(g)):
            short = size[row] <= 1e-12
            out[row] = (g[row] if short else (np.eye(len(y[row])) - np.outer(y[row], y[row])) @ g[row]) / size[row]
        return out
    return Var(y, [(x, flow)])


def maximum(x, edges):
    """The largest value of each column over v's ones of edges [v, u], 0 where there is none; values that tie share the gradient."""
    rows = np.where(edges[:, :, None], x.value[None], -np.inf)
    y = np.where(edges.any(1, keepdims=True), rows.max(1), 0)
    at = edges[:, :, None] & (rows == y[:, None])
    share = at / np.maximum(at.sum(1, keepdims=True), 1)
    return Var(y, [(x, lambda g: np.einsum("vuf,vf->uf", share, g))])


def attention(z, source, target, edges, layer, factors):
    """Graph attention over dense matrices; factors [v, u, head] are dropout's. The gradient goes through the softmax's Jacobian."""
    heads, slope = layer["heads"], float(np.float32(layer["slope"]))
    n, width = z.value.shape
    each = width // heads
    out, parts = np.zeros((n, width)), []
    for h in range(heads):
        own = slice(h * each, (h + 1) * each)
        s, t = z.value[:, own] @ source.value[own], z.value[:, own] @ target.value[own]
        score = t[:, None] + s[None, :]
        e = np.where(edges, np.where(score > 0, score, slope * score), -np.inf)
        e = np.exp(e - e.max(1, keepdims=True))
        alpha = e / e.sum(1, keepdims=True)
        out[:, own] = (alpha * factors[:, :, h]) @ z.value[:, own]
        parts.append((own, score, alpha))
    share = 1 / heads if layer["average"] else 1

    def gradients(g):
        dz, da, db = np.zeros_like(z.value), np.zeros_like(source.value), np.zeros_like(target.value)
        for h, (own, score, alpha) in enumerate(parts):
            gh = g * share if layer["average"] else g[:, own]
            dz[:, own] += (alpha * factors[:, :, h]).T @ gh
            weight = factors[:, :, h] * (gh @ z.value[:, own].T)
            d = alpha * (weight - (weight * alpha).sum(1, keepdims=True)) * np.where(score > 0, 1, slope)
            ds, dt = d.sum(0), d.sum(1)
            dz[:, own] += np.outer(ds, source.value[own]) + np.outer(dt, target.value[own])
            da[own], db[own] = z.value[:, own].T @ ds, z.value[:, own].T @ dt
        return dz, da, db

    if layer["average"]:
        out = out.reshape(n, heads, each).mean(1)
    return Var(out, [(parent, lambda g, at=at: gradients(g)[at]) for at, parent in enumerate((z, source, target))])


def attention_v2(source, target, a, edges, layer, factors, known, w):
    """Brody, Alon and Yahav 2022, eq. 7, over dense matrices, as :func:`attention`; known [v, u, k] of each edge times w is added to
    what the scores are made of."""
    heads, slope = layer["heads"], float(np.float32(layer["slope"]))
    n, width = source.value.shape
    each = width // heads
    out, parts = np.zeros((n, width)), []
    for h in range(heads):
        own = slice(h * each, (h + 1) * each)
        inner = target.value[:, None, own] + source.value[None, :, own] + known @ w.value[:, own]
        bent = np.where(inner > 0, inner, slope * inner)
        e = np.where(edges, bent @ a.value[own], -np.inf)
        e = np.exp(e - e.max(1, keepdims=True))
        alpha = e / e.sum(1, keepdims=True)
        out[:, own] = (alpha * factors[:, :, h]) @ source.value[:, own]
        parts.append((own, inner, bent, alpha))
    share = 1 / heads if layer["average"] else 1

    def gradients(g):
        ds, dt, da = np.zeros_like(source.value), np.zeros_like(target.value), np.zeros_like(a.value)
        dw = np.zeros_like(w.value)
        for h, (own, inner, bent, alpha) in enumerate(parts):
            gh = g * share if layer["average"] else g[:, own]
            ds[:, own] += (alpha * factors[:, :, h]).T @ gh
            weight = factors[:, :, h] * (gh @ source.value[:, own].T)
            d = alpha * (weight - (weight * alpha).sum(1, keepdims=True))
            flow = d[:, :, None] * a.value[own] * np.where(inner > 0, 1, slope)
            ds[:, own] += flow.sum(0)
            dt[:, own] += flow.sum(1)
            da[own] += np.einsum("vu,vuf->f", d, bent)
            dw[:, own] += np.einsum("vuk,vuf->kf", known, flow)
        return ds, dt, da, dw

    if layer["average"]:
        out = out.reshape(n, heads, each).mean(1)
    return Var(out, [(parent, lambda g, at=at: gradients(g)[at]) for at, parent in enumerate((source, target, a, w))])


class Graph:
    def __init__(self, vertices, edges, rows=None, weights=None, graphs=None, labelled=None):
        a, rows = np.zeros((vertices, vertices)), np.zeros((len(edges), 1)) if rows is None else np.asarray(rows, float)
        self.known = np.zeros((vertices, vertices, rows.shape[1]))
        for (u, v), row in zip(edges, rows):
            if u != v:
                a[v, u] += 1
                self.known[v, u] += row
        a = np.minimum(a, 1)
        degree = a.sum(1, keepdims=True)
        # An edge to itself that attention adds has the mean of a vertex's in-edges.
        self.known[np.arange(vertices), np.arange(vertices)] = self.known.sum(1) / np.maximum(degree, 1)
        self.others = a > 0
        self.edges = self.others | np.eye(vertices, dtype=bool)
        if weights is not None:
            a = a * self.known[:, :, weights]
        loops = a + np.eye(vertices)
        scale = 1 / np.sqrt(loops.sum(1))
        self.symmetric = Var(scale[:, None] * loops * scale)
        self.mean = Var(np.divide(a, degree, out=np.zeros_like(a), where=degree > 0))
        self.sum = Var(a)
        # [v, u]: v stands for the graph of u.
        self.members, self.ends, self.edge_rows = None, None, None
        if labelled is not None:
            # [edge, v]: v is the source, or the target, of the edge.
            ends = np.asarray(labelled["ends"])
            self.ends = [(ends[:, at, None] == np.arange(vertices)) * 1.0 for at in (0, 1)]
            self.edge_rows = np.asarray(labelled["features"], float)
        if graphs is not None:
            of = np.asarray(graphs)
            first = (of[:, None] == of).argmax(1)
            self.members = first == np.arange(vertices)[:, None]


def joined(parts):
    """The columns of all parts, one after the other."""
    ends = np.cumsum([0] + [part.value.shape[1] for part in parts])
    taken = lambda at: lambda g: g[:, ends[at]:ends[at + 1]]
    return Var(np.hstack([part.value for part in parts]), [(part, taken(at)) for at, part in enumerate(parts)])


class Zoo:
    def __init__(self, graph, features, labels, train, layers, seed=0, slope=0.01, of="cross-entropy", links=None, class_weights=None, focal=0.0):
        self.class_weights, self.focal = class_weights, focal
        self.graph, self.features, self.labels, self.train, self.of = graph, features, labels, train, of
        self.layers, self.seed, self.slope, self.links = layers, seed, slope, links

    def dropped(self, x, probability, draw, epoch):
        probability = float(np.float32(probability))
        if epoch is None or probability == 0:
            return x
        bits = keyed.bits(keyed.key(self.seed, keyed.DROPOUT, epoch, draw, 0), *x.value.shape)
        return x * np.where(keyed.dropped(bits, probability), 0, 1 / (1 - probability))

    def factors(self, layer, draw, epoch):
        """Of an attention: row v, column u * heads + head, of stream 1."""
        probability, n, heads = float(np.float32(layer["attention_dropout"])), len(self.features), layer["heads"]
        if epoch is None or probability == 0:
            return np.ones((n, n, heads))
        bits = keyed.bits(keyed.key(self.seed, keyed.DROPOUT, epoch, draw, 1), n, n * heads)
        return np.where(keyed.dropped(bits, probability), 0, 1 / (1 - probability)).reshape(n, n, heads)

    def edge_factors(self, layer, draw, epoch):
        """Of an edge kernel: row v * 2^32 + u, column head, of stream 0."""
        probability, n, heads = float(np.float32(layer["attention_dropout"])), len(self.features), layer["heads"]
        if epoch is None or probability == 0:
            return np.ones((n, n, heads))
        vertices = np.arange(n, dtype=np.uint64)
        rows = (vertices[:, None] << np.uint64(32) | vertices[None, :]).reshape(-1)
        bits = keyed.bits(keyed.key(self.seed, keyed.DROPOUT, epoch, draw, 0), rows, heads)
        return np.where(keyed.dropped(bits, probability), 0, 1 / (1 - probability)).reshape(n, n, heads)

    def scores(self, p, epoch):
        h, outputs = Var(self.features), []
        for l, layer in enumerate(self.layers):
            before = h
            h = self.layer(h, l, layer, {k.split(".", 2)[2]: v for k, v in p.items() if k.startswith(f"layers.{l}.")}, outputs, epoch)
            if layer.get("residual"):
                h = h + before
            outputs.append(h)
        return h

    def layer(self, h, l, layer, p, outputs, epoch):
        graph, kernel, dropout = self.graph, layer["kernel"], layer["dropout"]
        # Batch normalisation and PairNorm take the last bias away with the mean.
        gone = ("bias", "mlp.1.bias", "self.bias") if layer.get("norm") in ("batch", "pair") else ()
        bias = lambda x, name="bias": x + p[name] if layer["bias"] and name not in gone else x
        x = self.dropped(h, dropout, l, epoch)
        if kernel in ("gcn", "sgc"):
            for _ in range(layer.get("hops", 1)):
                x = graph.symmetric @ x
            x = bias(x @ p["weight"])
        elif kernel == "sage":
            brought = maximum(x, graph.others) if layer["aggregator"] == "max" else graph.mean @ x
            x = bias(x @ p["self.weight"] + brought @ p["neighbour.weight"], "self.bias")
        elif kernel == "gin":
            own = x + x * p["epsilon"] if layer["train_epsilon"] else x * (1 + layer["epsilon"])
            x = bias((own + graph.sum @ x) @ p["mlp.0.weight"], "mlp.0.bias")
            x = bias(x.then(lambda v: np.maximum(v, 0), lambda v: (v > 0) * 1.0) @ p["mlp.1.weight"], "mlp.1.bias")
        elif kernel == "gat":
            x = bias(attention(x @ p["weight"], p["source"], p["target"], graph.edges, layer, self.factors(layer, l, epoch)))
        elif kernel == "gatv2":
            ends = [bias(x @ p[f"{end}.weight"], f"{end}.bias") for end in ("source", "target")]
            w = p["edge-weight"] if layer.get("edge_features") else Var(np.zeros((graph.known.shape[2], ends[0].value.shape[1])))
            factors = self.edge_factors(layer, l, epoch)
            x = bias(attention_v2(*ends, p["attention"], graph.edges, layer, factors, graph.known, w))
        elif kernel == "appnp":
            first = x
            for _ in range(layer["hops"]):
                x = (graph.symmetric @ x) * (1 - layer["alpha"]) + first * layer["alpha"]
        elif kernel == "readout":
            members = graph.members
            if members is None and graph.ends is None:
                raise ValueError("readout: the job has no graphs; give it the key graphs or labelled_edges")
            match layer["readout"]:
                case "source": x = Var(graph.ends[0]) @ x
                case "target": x = Var(graph.ends[1]) @ x
                case "ends":
                    parts = [Var(end) @ x for end in graph.ends]
                    if layer.get("edge_features"):
                        parts.append(Var(graph.edge_rows) @ p["edge.weight"] + p["edge.bias"])
                    x = joined(parts)
                case "sum": x = Var(members) @ x
                case "mean": x = Var(members / np.maximum(members.sum(1, keepdims=True), 1)) @ x
                case "max": x = maximum(x, members)
                case other: raise ValueError(f"readout: expected mean, sum, max, source, target or ends, found {other!r}")
        elif kernel == "linear":
            match layer.get("jumping"):
                case None:
                    x = x @ p["weight"]
                case "sum":
                    total = outputs[0]
                    for other in outputs[1:]:
                        total = total + other
                    alone = len(outputs) == 1
                    x = self.dropped(total, dropout, l, epoch) @ p["from.0.weight" if alone else "weight"]
                case "concat":
                    parts = [self.dropped(o, dropout, l | i << 16, epoch) @ p[f"from.{i}.weight"] for i, o in enumerate(outputs)]
                    x = parts[0]
                    for part in parts[1:]:
                        x = x + part
            x = bias(x)
        else:
            raise ValueError(f"kernel: unknown {kernel!r}")
        match layer.get("norm", "none"):
            case "layer": x = layer_norm(x, p["norm.scale"], p["norm.shift"])
            case "l2": x = l2_norm(x)
            case "batch" | "pair":
                read = any(before["kernel"] == "readout" for before in self.layers[:l + 1])
                of_graphs = read and graph.members is not None
                counts = graph.members.any(1) if of_graphs else np.ones(len(x.value), bool)
                if layer["norm"] == "pair":
                    x = pair_norm(x, counts)
                else:
                    x = batch_norm(x, counts) * p["norm.scale"] + p["norm.shift"]
        activation = gcn.Activation(layer["activation"], self.slope)
        return x.then(activation, activation.derivative)

    def loss(self, p, epoch, gradients=True):
        p = {name: Var(value) for name, value in p.items()}
        scores = self.scores(p, epoch)
        if self.links is not None:
            loss, gradient = self.links.loss(scores.value, epoch)
        elif self.of == "cross-entropy":
            loss, gradient = self.over_classes(scores.value)
        else:
            loss, gradient = self.over_values(scores.value)
        if not gradients:
            return loss
        scores.back(gradient)
        return loss, {name: np.zeros_like(var.value) if var.gradient is None else var.gradient for name, var in p.items()}


    def over_classes(self, scores):
        """The mean of w -(1 - p)^gamma log p over training vertices, by the sum of their w, and its gradient."""
        labels = self.labels[self.train]
        counts = np.bincount(labels, minlength=scores.shape[1])
        weights = self.class_weights
        if weights == "balanced":
            weights = len(labels) / (np.count_nonzero(counts) * np.maximum(counts, 1))
        w = np.ones(len(labels)) if weights is None else np.asarray(weights, float)[labels]
        w = w / w.sum()
        e = np.exp(scores[self.train] - scores[self.train].max(1, keepdims=True))
        softmax = e / e.sum(1, keepdims=True)
        onehot = np.eye(scores.shape[1])[labels]
        p, gamma = softmax[np.arange(len(labels)), labels], self.focal
        by_p = -((1 - p) ** gamma) / p
        if gamma:
            by_p += gamma * (1 - p) ** (gamma - 1) * np.log(p)
        gradient = np.zeros_like(scores)
        gradient[self.train] = (w * by_p * p)[:, None] * (onehot - softmax)
        return (w * -((1 - p) ** gamma) * np.log(p)).sum(), gradient

    def over_values(self, scores):
        """The mean over all values that are known of training vertices, and its gradient."""
        known = np.zeros(scores.shape, bool)
        known[self.train] = ~np.isnan(self.labels[self.train])
        z, t = scores[known], self.labels[known]
        match self.of:
            case "binary-cross-entropy": each, slope = np.logaddexp(0, z) - z * t, 1 / (1 + np.exp(-z)) - t
            case "squared-error": each, slope = (z - t) ** 2, 2 * (z - t)
            case "absolute-error": each, slope = abs(z - t), np.sign(z - t)
        gradient = np.zeros_like(scores)
        gradient[known] = slope / known.sum()
        return each.mean(), gradient


def run(job):
    of = job.get("loss", "cross-entropy")
    labels, train, linked = None, None, None
    if "links" in job:
        linked = links.Training(links.Links(job["vertices"], job["edges"]), **job["links"], seed=job.get("seed", 0))
    else:
        labels = np.asarray(job["labels"], np.int64 if of == "cross-entropy" else float)  # null: NaN
        train = np.asarray(job["train"], np.int64)
    net = Zoo(
        Graph(job["vertices"], job["edges"], job.get("edge_features"), job.get("edge_weights"), job.get("graphs"), job.get("labelled_edges")),
        gcn.features_of(job),
        labels, train, job["layers"], job.get("seed", 0), job.get("slope", 0.01), of, linked, job.get("class_weights"), job.get("focal", 0.0),
    )
    p = {name: np.asarray(value, np.float32).astype(float) for name, value in job["parameters"].items()}
    loss, gradients = net.loss(p, 0)
    answer = {"loss": loss, "gradients": {name: g.tolist() for name, g in gradients.items()}}
    if job.get("epochs", 0):
        optimiser, losses = gcn.Optimiser(**job["optimiser"]), []
        for epoch in range(job["epochs"]):
            loss, gradients = net.loss(p, epoch)
            losses.append(loss)
            optimiser.step([p], [gradients])
        answer["losses"] = losses
    return answer


def test_ties():
    """Sources that tie share the gradient of a maximum; a vertex without in-neighbours gets zero and gives none."""
    edges = np.array([[0, 1, 1], [0, 0, 1], [0, 0, 0]]) > 0
    x = Var([[9, 9], [5, -2], [5, -3]])
    y = maximum(x, edges)
    assert (y.value == [[5, -2], [5, -3], [0, 0]]).all(), y.value
    y.back(np.array([[6.0, 4], [1, 2], [70, 80]]))
    assert (x.gradient == [[0, 0], [3, 4], [4, 2]]).all(), x.gradient
    return "sources that tie share"


def test_readout():
    """Rows of a graph's vertices become one, in the row of its first vertex."""
    x, graphs = Var([[1, -4], [7, 0], [2, -8], [3, -6], [5, 5]]), [9, 2, 9, 9, 4]
    net = Zoo(Graph(5, [], graphs=graphs), x.value, None, None, [])
    first = {"sum": [6, -18], "mean": [2, -6], "max": [3, -4]}
    flow = {"sum": [[1, 2]] * 3, "mean": [[1 / 3, 2 / 3]] * 3, "max": [[0, 2], [0, 0], [1, 0]]}
    for readout, row in first.items():
        layer = dict(kernel="readout", readout=readout, dropout=0.0, bias=False, activation="identity")
        y = net.layer(x, 0, layer, {}, [], None)
        assert (y.value == [row, [7, 0], [0, 0], [0, 0], [5, 5]]).all(), (readout, y.value)
        y.back(np.array([[1.0, 2], [3, 4], [70, 80], [90, 10], [5, 6]]))
        expected = [flow[readout][0], [3, 4], *flow[readout][1:], [5, 6]]
        assert np.allclose(x.gradient, expected, rtol=1e-15), (readout, x.gradient)
    return "rows of graphs"


def test_ends():
    """The row of an edge is that of its source, that of its target, or both with those of its features."""
    x, p = Var([[1, -4], [7, 0], [2, -8]]), {"edge.weight": Var([[2, 3]]), "edge.bias": Var([0, 1])}
    net = Zoo(Graph(3, [], labelled={"ends": [[2, 0], [0, 1], [2, 2]], "features": [[1], [0], [-1]]}), x.value, None, None, [])
    rows = {"source": [[2, -8], [1, -4], [2, -8]], "target": [[1, -4], [7, 0], [2, -8]]}
    for readout in rows | {"ends": None}:
        layer = dict(kernel="readout", readout=readout, dropout=0.0, bias=False, activation="identity", edge_features=True)
        y = net.layer(x, 0, layer, p, [], None)
        both = np.hstack([rows["source"], rows["target"], [[2, 4], [0, 1], [-2, -2]]])
        assert (y.value == rows.get(readout, both)).all(), (readout, y.value)
        y.back(np.arange(y.value.size, dtype=float).reshape(y.value.shape))
        expected = {"source": [[2, 3], [0, 0], [4, 6]], "target": [[0, 1], [2, 3], [4, 5]], "ends": [[8, 10], [8, 9], [26, 29]]}
        assert np.allclose(x.gradient, expected[readout], rtol=1e-15), (readout, x.gradient)
    assert p["edge.bias"].gradient.tolist() == [30, 33] and p["edge.weight"].gradient.tolist() == [[-12, -12]]
    return "rows of edges"


def test_gradients(seed=31):
    """Central differences in every parameter of every layer, with what follows it."""
    r, worst, count = np.random.default_rng(seed), 0.0, 0
    follow = dict(activation="tanh", dropout=0.3, bias=True, norm="none", residual=False)
    base = dict(follow, kernel="linear", width=4)
    last = dict(follow, kernel="linear", width=3, activation="identity", dropout=0.0)
    models = [
        [dict(base, kernel="gcn"), last],
        [dict(base, kernel="sage", aggregator="mean"), last],
        [dict(base, kernel="sage", aggregator="max"), last],
        [base, dict(base, kernel="sage", aggregator="max", activation="relu"), dict(last, kernel="sage", aggregator="max")],
        [dict(base, kernel="gin", epsilon=0.3, train_epsilon=True), last],
        [dict(base, kernel="gin", epsilon=0.3, train_epsilon=False), last],
        [dict(base, kernel="sgc", hops=3), last],
        [base, last, dict(last, kernel="appnp", hops=3, alpha=0.2, bias=False)],
        [base, dict(base, kernel="sage", aggregator="mean", residual=True), dict(last, jumping="concat")],
        [base, dict(base, kernel="gcn"), dict(last, jumping="sum")],
        [dict(base, kernel="gat", heads=2, average=False, slope=0.2, attention_dropout=0.4), last],
        [base, dict(last, kernel="gat", heads=3, average=True, slope=0.1, attention_dropout=0.0)],
        [dict(base, kernel="gatv2", heads=2, average=False, slope=0.2, attention_dropout=0.4), last],
        [base, dict(last, kernel="gatv2", heads=3, average=True, slope=0.1, attention_dropout=0.0, edge_features=True)],
        [dict(base, norm="layer"), last],
        [dict(base, norm="l2"), last],
    ]
    attention = dict(heads=2, average=False, slope=0.2, attention_dropout=0.4)
    linked = [
        [dict(base, kernel="gcn"), dict(last, kernel="gcn")],
        [dict(base, kernel="sage", aggregator="mean"), dict(last, kernel="sage", aggregator="mean")],
        [dict(base, kernel="gat", **attention), dict(last, kernel="gat", **dict(attention, heads=1))],
        [dict(base, kernel="sage", aggregator="max"), dict(last, norm="l2")],
    ]
    readout = dict(follow, kernel="readout", width=4, activation="identity", bias=False)
    read = [
        [dict(base, kernel="gin", epsilon=0.3, train_epsilon=True), dict(readout, readout="sum"), last],
        [dict(base, kernel="gcn"), dict(base, kernel="gcn"), dict(readout, readout="mean", dropout=0.0), dict(last, dropout=0.3)],
        [dict(base, kernel="sage", aggregator="max"), dict(readout, readout="max"), base, last],
        [dict(base, norm="batch"), dict(readout, readout="sum"), dict(base, norm="batch"), last],
        [dict(base, norm="pair"), dict(readout, readout="mean"), dict(base, norm="pair"), last],
    ]
    losses = ["cross-entropy"] * len(models) + ["binary-cross-entropy", "squared-error", "absolute-error"] + ["links"] * len(linked)
    batch = [[dict(base, kernel="gcn", norm="batch"), dict(base, kernel="gin", epsilon=0.3, train_epsilon=False, norm="batch"), last],
             [dict(base, kernel="gcn", norm="pair"), dict(base, norm="pair"), last]]
    losses += ["cross-entropy"] * len(read + batch)
    # Weights of classes and exponents of the focal loss.
    over = {0: ([2, 0.5, 1], 0.0), 1: ("balanced", 2.0), 2: (None, 0.5)}
    for at, (layers, of) in enumerate(zip(models + models[:3] + linked + read + batch, losses, strict=True)):
        n, widths = 9, [5] + [layer["width"] for layer in layers]
        p = {}
        for l, layer in enumerate(layers):
            k, m = widths[l], widths[l + 1]
            shapes = {"bias": (m,), "weight": (k, m)}
            match layer["kernel"]:
                case "sage": shapes = {"self.weight": (k, m), "neighbour.weight": (k, m), "self.bias": (m,)}
                case "gin": shapes = {"mlp.0.weight": (k, m), "mlp.0.bias": (m,), "mlp.1.weight": (m, m), "mlp.1.bias": (m,)}
                case "appnp" | "readout": shapes = {}
                case "gat":
                    values = m * layer["heads"] if layer["average"] else m
                    shapes = {"bias": (m,), "weight": (k, values), "source": (values,), "target": (values,)}
                case "gatv2":
                    values = m * layer["heads"] if layer["average"] else m
                    shapes = {"bias": (m,), "attention": (values,)}
                    shapes |= {f"{end}.weight": (k, values) for end in ("source", "target")}
                    shapes |= {f"{end}.bias": (values,) for end in ("source", "target")}
                    if layer.get("edge_features"):
                        shapes["edge-weight"] = (2, values)
            if layer.get("jumping") == "concat":
                shapes = {"bias": (m,)} | {f"from.{i}.weight": (widths[i + 1], m) for i in range(l)}
            if layer.get("train_epsilon"):
                shapes["epsilon"] = (1,)
            if layer["norm"] in ("batch", "pair"):
                shapes.pop("bias" if "bias" in shapes else "mlp.1.bias", None)
            if layer["norm"] in ("layer", "batch"):
                shapes |= {"norm.scale": (m,), "norm.shift": (m,)}
            p |= {f"layers.{l}.{name}": r.normal(size=shape) for name, shape in shapes.items()}
        edges = r.integers(0, n - 1, (18, 2))
        train, graphs = np.arange(0, n, 2), None
        if layers in read:
            graphs, train = np.array([3, 5, 3, 5, 8, 8, 3, 5, 1]), [0, 1, 4, 8]
            edges = edges[graphs[edges[:, 0]] == graphs[edges[:, 1]]]
        graph = Graph(n, edges, r.uniform(size=(len(edges), 2)), [None, 1][len(p) % 2], graphs)
        x, labels = r.normal(size=(n, 5)), r.integers(0, 3, n)
        if of != "cross-entropy":
            labels = r.integers(0, 2, (n, widths[-1])).astype(float)
            labels[2, 1] = np.nan
        pairs = links.Training(links.Links(n, edges), 2, 7) if of == "links" else None
        class_weights, focal = over.get(at, (None, 0.0))
        net = Zoo(graph, x, labels, train, layers, 7, of=of, links=pairs, class_weights=class_weights, focal=focal)
        _, gradients = net.loss(p, 2)
        for name, value in p.items():
            difference = np.zeros_like(value)
            for i in np.ndindex(value.shape):
                keep, step = value[i], 1e-6
                value[i] = keep + step
                up = net.loss(p, 2, False)
                value[i] = keep - step
                difference[i] = (up - net.loss(p, 2, False)) / (2 * step)
                value[i] = keep
            # Differences are exact to some 1e-10; an attention's gradients may be that small beside its rows.
            error = np.linalg.norm(difference - gradients[name]) / (np.linalg.norm(gradients[name]) + 1e-3)
            worst, count = max(worst, error), count + 1
            assert error < 1e-6, (layers, name, error)
    return f"seed {seed}, {count} parameters, worst relative error {worst:.1e}"


if __name__ == "__main__":
    gcn.command(run, [test_ties, test_readout, test_ends, test_gradients], __doc__)
