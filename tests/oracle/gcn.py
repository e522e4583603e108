#!/usr/bin/env python3
"""A graph convolutional network in f64 with numpy alone: the oracle that Eciton's whole models are compared with.

    gcn.py INPUT.json [OUTPUT.json]       loss and gradients of one epoch; with "epochs": n, n epochs of training as well
    gcn.py --self-test                    finite differences, the generator's vectors, the optimisers

Layer l = 0 .. L-1, with h[0] = x, no bias and no activation before layer 0:

    u[l]   = dropout(activation(h[l] + bias[l-1]))        stream 0, layer l, columns of h[l]
    h[l+1] = D^-1/2 (A + I) D^-1/2  (u[l] weight[l])      transform first; A without self loops and repeats, both directions
    loss   = mean over train of -log softmax(h[L] + bias[L-1])[label]

INPUT.json
    vertices      number of vertices
    edges         [[source, target], ...]; undirected, self loops and repeats are ignored
    features      [[f32, ...], ...]; or features_sparse: {"columns", "indptr", "indices", "values"}
    labels        [class, ...] of every vertex
    train         [vertex, ...]
    parameters    [{"weight": [[...]], "bias": [...]}, ...] of each layer; or
    hidden, classes   [16], 7: parameters by the contract's initialiser (Glorot weights, zero biases)
    bias          true; false: biases stay 0
    seed, dropout, epoch, activation       0, 0.0, 0, "relu" (identity, relu, leaky-relu, elu, sigmoid, tanh, gelu, gelu-tanh, silu,
                                           softplus; "slope", "alpha")
    epochs        0; epochs are counted from `epoch`
    optimiser     {"kind": "adam" | "adamw" | "sgd", "lr": 0.01, "betas": [0.9, 0.999], "eps": 1e-8, "momentum": 0, "nesterov": false,
                   "weight_decay": one number for all layers or one a layer}; PyTorch's formulas

OUTPUT.json
    loss, gradients [{"weight", "bias"}], parameters (those used), scores [vertices, classes] (dropout off);
    with epochs: losses [epochs] (each before its update), final_parameters, final_scores
"""
import json
import math
import os
import sys

import numpy as np

import keyed


def glorot(seed, layer, position, rows, columns):
    """The initialiser of a kernel's parameter at `position`, rounded to f32 as the host stores it."""
    k = keyed.key(seed, keyed.INITIALISER, 0, layer, position)
    bound = np.float32(np.sqrt(6.0 / (rows + columns)))
    return ((2 * keyed.uniform(keyed.bits(k, rows, columns)) - 1).astype(np.float32) * bound).astype(np.float64)


def initial_parameters(seed, widths, bias=True):
    """Position of a weight in the signature of kernel `linear`: after its input bias, which the first layer has not."""
    return [
        {"weight": glorot(seed, l, int(bias and l > 0), k, m), "bias": np.zeros(m)} for l, (k, m) in enumerate(zip(widths, widths[1:]))
    ]


class Gather:
    """D^-1/2 (A + I) D^-1/2, which is symmetric: its own transpose."""

    def __init__(self, vertices, edges):
        e = np.asarray(edges, np.int64).reshape(-1, 2)
        if e.size and (e.min() < 0 or e.max() >= vertices):
            raise ValueError(f"edges: a vertex outside 0 .. {vertices - 1}")
        e = e[e[:, 0] != e[:, 1]]
        loops = np.arange(vertices)
        keys = np.concatenate([e[:, 0] * vertices + e[:, 1], e[:, 1] * vertices + e[:, 0], loops * vertices + loops])
        self.row, self.column = np.divmod(np.unique(keys), vertices)
        degree = np.bincount(self.row, minlength=vertices)  # counts the loop: never zero
        self.start = np.concatenate([[0], np.cumsum(degree)[:-1]])
        scale = 1 / np.sqrt(degree)
        self.value = (scale[self.row] * scale[self.column])[:, None]

    def __call__(self, rows):
        return np.add.reduceat(self.value * rows[self.column], self.start, axis=0)


ROOT, CUBE = np.sqrt(2 / np.pi), 0.044715
erf = np.vectorize(math.erf, otypes=[float])


class Activation:
    def __init__(self, name, slope=0.01, alpha=1.0):
        self.name, self.slope, self.alpha = name, slope, alpha
        if name not in ("identity", "relu", "leaky-relu", "elu", "sigmoid", "tanh", "gelu", "gelu-tanh", "silu", "softplus"):
            raise ValueError(f"activation: unknown {name!r}")

    def __call__(self, x):
        match self.name:
            case "identity": return x
            case "relu": return np.maximum(x, 0)
            case "leaky-relu": return np.where(x > 0, x, self.slope * x)
            case "elu": return np.where(x > 0, x, self.alpha * np.expm1(np.minimum(x, 0)))
            case "sigmoid": return 1 / (1 + np.exp(-x))
            case "tanh": return np.tanh(x)
            case "gelu": return x * (1 + erf(x / np.sqrt(2))) / 2
            case "gelu-tanh": return x * (1 + np.tanh(ROOT * (x + CUBE * x**3))) / 2
            case "silu": return x / (1 + np.exp(-x))
            case "softplus": return np.logaddexp(0, x)

    def derivative(self, x):
        match self.name:
            case "identity": return np.ones_like(x)
            case "relu": return (x > 0).astype(float)
            case "leaky-relu": return np.where(x > 0, 1, self.slope)
            case "elu": return np.where(x > 0, 1, self.alpha * np.exp(np.minimum(x, 0)))
            case "sigmoid": y = self(x); return y * (1 - y)
            case "tanh": return 1 - np.tanh(x) ** 2
            case "gelu": return (1 + erf(x / np.sqrt(2))) / 2 + x * np.exp(-x * x / 2) / np.sqrt(2 * np.pi)
            case "gelu-tanh":
                t = np.tanh(ROOT * (x + CUBE * x**3))
                return (1 + t) / 2 + x * (1 - t * t) * ROOT * (1 + 3 * CUBE * x * x) / 2
            case "silu": s = 1 / (1 + np.exp(-x)); return s * (1 + x * (1 - s))
            case "softplus": return 1 / (1 + np.exp(-x))


class Gcn:
    def __init__(self, gather, features, labels, train, seed=0, dropout=0.0, activation=Activation("relu"), bias=True):
        self.gather, self.features, self.labels, self.train = gather, features, labels, train
        self.seed, self.probability, self.activation = seed, float(np.float32(dropout)), activation
        self.bias = bias

    def scale(self, epoch, layer, shape):
        """What dropout multiplies by: 0 or 1 / (1 - p); `epoch` None: not training."""
        if epoch is None or self.probability == 0:
            return 1.0
        bits = keyed.bits(keyed.key(self.seed, keyed.DROPOUT, epoch, layer, 0), *shape)
        return np.where(keyed.dropped(bits, self.probability), 0, 1 / (1 - self.probability))

    def forward(self, parameters, epoch):
        """Scores, and of each layer (u, pre-activation or None, dropout's scale)."""
        h, kept = self.features, []
        for l, p in enumerate(parameters):
            scale = self.scale(epoch, l, h.shape)
            before = None if l == 0 else h
            u = (h if l == 0 else self.activation(h)) * scale
            kept.append((u, before, scale))
            h = self.gather(u @ p["weight"]) + p["bias"]  # the next layer's input bias, or the loss kernel's
        return h, kept

    def loss(self, parameters, epoch):
        scores, _ = self.forward(parameters, epoch)
        return self.cross_entropy(scores)[0]

    def cross_entropy(self, scores):
        x = scores[self.train]
        x = x - x.max(1, keepdims=True)
        log_p = x - np.log(np.exp(x).sum(1, keepdims=True))
        at = np.arange(len(self.train)), self.labels[self.train]
        weight = 1 / len(self.train)
        grad = np.zeros_like(scores)
        d = np.exp(log_p)
        d[at] -= 1
        grad[self.train] = weight * d
        return -weight * log_p[at].sum(), grad

    def loss_and_gradients(self, parameters, epoch):
        scores, kept = self.forward(parameters, epoch)
        loss, grad = self.cross_entropy(scores)
        gradients = []
        for p, (u, before, scale) in zip(reversed(parameters), reversed(kept)):
            bias = grad.sum(0) if self.bias else np.zeros_like(p["bias"])
            z = self.gather(grad)
            gradients.append({"weight": u.T @ z, "bias": bias})
            if before is not None:
                grad = (z @ p["weight"].T) * scale * self.activation.derivative(before)
        return loss, gradients[::-1]


class Optimiser:
    """torch.optim's Adam, AdamW and SGD."""

    def __init__(self, kind="adam", lr=0.01, betas=(0.9, 0.999), eps=1e-8, momentum=0.0, nesterov=False, weight_decay=0.0):
        if kind not in ("adam", "adamw", "sgd"):
            raise ValueError(f"optimiser: unknown kind {kind!r}")
        self.kind, self.lr, (self.beta1, self.beta2), self.eps = kind, lr, betas, eps
        self.momentum, self.nesterov, self.weight_decay = momentum, nesterov, weight_decay
        self.steps, self.state = 0, {}

    def step(self, parameters, gradients):
        """Changes `parameters` in place."""
        self.steps += 1
        decays = self.weight_decay if isinstance(self.weight_decay, list) else [self.weight_decay] * len(parameters)
        for l, (layer, gradient, decay) in enumerate(zip(parameters, gradients, decays, strict=True)):
            for name in layer:
                layer[name] = self.update((l, name), layer[name], gradient[name], decay)

    def update(self, at, x, g, decay):
        if self.kind == "adamw":
            x = x * (1 - self.lr * decay)
        else:
            g = g + decay * x
        if self.kind == "sgd":
            if self.momentum:
                b = self.state[at] = self.momentum * self.state[at] + g if at in self.state else g
                g = g + self.momentum * b if self.nesterov else b
            return x - self.lr * g
        m, v = self.state.get(at, (0.0, 0.0))
        m, v = self.beta1 * m + (1 - self.beta1) * g, self.beta2 * v + (1 - self.beta2) * g * g
        self.state[at] = m, v
        denominator = np.sqrt(v) / np.sqrt(1 - self.beta2**self.steps) + self.eps
        return x - self.lr / (1 - self.beta1**self.steps) * m / denominator


def features_of(job):
    n = job["vertices"]
    if "features" in job:
        x = np.asarray(job["features"], np.float32).astype(float)
        if x.ndim != 2 or len(x) != n:
            raise ValueError(f"features: expected {n} rows of one length, found shape {x.shape}")
        return x
    s = job["features_sparse"]
    x = np.zeros((n, s["columns"]))
    x[np.repeat(np.arange(n), np.diff(s["indptr"])), s["indices"]] = np.asarray(s["values"], np.float32)
    return x


def run(job):
    x, seed, epoch = features_of(job), job.get("seed", 0), job.get("epoch", 0)
    activation = Activation(job.get("activation", "relu"), job.get("slope", 0.01), job.get("alpha", 1.0))
    train = np.asarray(job["train"], np.int64)
    net = Gcn(Gather(job["vertices"], job["edges"]), x, np.asarray(job["labels"], np.int64), train, seed, job.get("dropout", 0.0), activation, job.get("bias", True))
    if "parameters" in job:
        parameters = [{k: np.asarray(p[k], np.float32).astype(float) for k in ("weight", "bias")} for p in job["parameters"]]
    else:
        parameters = initial_parameters(seed, [x.shape[1], *job["hidden"], job["classes"]], net.bias)
    listed = lambda layers: [{k: v.tolist() for k, v in p.items()} for p in layers]
    loss, gradients = net.loss_and_gradients(parameters, epoch)
    answer = {"loss": loss, "gradients": listed(gradients), "parameters": listed(parameters), "scores": net.forward(parameters, None)[0].tolist()}
    if job.get("epochs", 0):
        optimiser, losses = Optimiser(**job.get("optimiser", {})), []
        for e in range(epoch, epoch + job["epochs"]):
            loss, gradients = net.loss_and_gradients(parameters, e)
            losses.append(loss)
            optimiser.step(parameters, gradients)
        answer |= {"losses": losses, "final_parameters": listed(parameters), "final_scores": net.forward(parameters, None)[0].tolist()}
    return answer


def test_generator():
    file = os.path.join(os.path.dirname(os.path.abspath(__file__)), "random_vectors.json")
    vectors = json.load(open(file))["vectors"]
    for v in vectors:
        k = keyed.key(int(v["seed"]), v["purpose"], v["epoch"], v["layer"], v["stream"])
        assert f"{int(k):016x}" == v["key"], v
        bits = keyed.bits_of(keyed.row_key(k, int(v["row"])), v["column"])
        assert int(bits) == v["bits32"] and float(keyed.uniform(bits)) == v["uniform"], v
    return f"{len(vectors)} vectors"


def test_gradients(seed=20):
    """Central differences of the loss in every parameter, 2 and 3 layers, every activation, with dropout."""
    r, worst = np.random.default_rng(seed), 0.0
    for name in ("identity", "relu", "leaky-relu", "elu", "sigmoid", "tanh", "gelu", "gelu-tanh", "silu", "softplus"):
        for hidden in ([5], [5, 4]):
            n = 12
            x = r.normal(size=(n, 6)) * (r.random((n, 6)) < 0.5)
            net = Gcn(Gather(n, r.integers(0, n, (20, 2))), x, r.integers(0, 3, n), np.arange(0, n, 2), 9, 0.4, Activation(name))
            parameters = initial_parameters(9, [6, *hidden, 3])
            for p in parameters:  # away from the kinks at zero
                p["bias"] = r.normal(size=p["bias"].shape)
            _, gradients = net.loss_and_gradients(parameters, 3)
            for p, g in zip(parameters, gradients):
                for k in p:
                    difference = np.zeros_like(p[k])
                    for i in np.ndindex(p[k].shape):
                        keep, step = p[k][i], 1e-6
                        p[k][i] = keep + step
                        up = net.loss(parameters, 3)
                        p[k][i] = keep - step
                        difference[i] = (up - net.loss(parameters, 3)) / (2 * step)
                        p[k][i] = keep
                    error = np.linalg.norm(difference - g[k]) / (np.linalg.norm(g[k]) + 1e-12)
                    worst = max(worst, error)
                    assert error < 1e-6, (name, hidden, k, error)
    return f"seed {seed}, worst relative error {worst:.1e}"


def test_optimisers():
    """Two steps worked out by hand: x = 1, gradients 0.5 and 0.25, lr 0.1."""
    expected = {
        # x1 = 1 - .1 * 1; m = .9*.05+.1*.25 = .07, /.19; v = .999*.00025+.001*.0625 = .00031225, /.001999
        "adam": (dict(kind="adam", eps=0.0), 1 - 0.1 - 0.1 * (0.07 / 0.19) / np.sqrt(0.00031225 / 0.001999)),
        "adamw": (dict(kind="adamw", eps=0.0, weight_decay=0.5), (0.95 - 0.1) * 0.95 - 0.1 * (0.07 / 0.19) / np.sqrt(0.00031225 / 0.001999)),
        "sgd": (dict(kind="sgd", momentum=0.9), 1 - 0.05 - 0.1 * (0.45 + 0.25)),
        "nesterov": (dict(kind="sgd", momentum=0.9, nesterov=True), 1 - 0.1 * (0.5 + 0.45) - 0.1 * (0.25 + 0.9 * 0.7)),
        "sgd with decay": (dict(kind="sgd", weight_decay=0.5), 0.9 - 0.1 * (0.25 + 0.45)),
    }
    for name, (arguments, value) in expected.items():
        optimiser, parameters = Optimiser(lr=0.1, **arguments), [{"x": np.array(1.0)}]
        for g in (0.5, 0.25):
            optimiser.step(parameters, [{"x": np.array(g)}])
        assert abs(parameters[0]["x"] - value) < 1e-12, (name, parameters, value)
    return f"{len(expected)} cases"


def test_training(seed=4):
    """Two communities are learned, and the same job gives the same answer."""
    r = np.random.default_rng(seed)
    side = np.arange(40) % 2
    edges = [(u, v) for u in range(40) for v in range(u) if r.random() < (0.3 if side[u] == side[v] else 0.03)]
    job = dict(vertices=40, edges=edges, features=r.normal(size=(40, 8)) + side[:, None], labels=side, train=range(0, 40, 5),
               hidden=[4], classes=2, seed=seed, dropout=0.5, epochs=60, optimiser=dict(lr=0.05, weight_decay=[5e-4, 0.0]))
    answer = run(job)
    accuracy = (np.argmax(answer["final_scores"], 1) == side).mean()
    assert accuracy > 0.9 and answer["losses"][0] == answer["loss"] and answer == run(job), accuracy
    return f"seed {seed}, accuracy {accuracy:.3f}, loss {answer['losses'][0]:.4f} -> {answer['losses'][-1]:.4f}"


def command(run, tests, usage):
    """The command line of an oracle: a job's file, perhaps the answer's; --serve: a job and an answer a line;
    or --self-test."""
    if sys.argv[1:] == ["--self-test"]:
        for test in tests:
            print(f"{test.__name__}: {test()}")
        print(f"{len(tests)} passed, 0 failed")
    elif sys.argv[1:] == ["--serve"]:
        for line in sys.stdin:
            print(json.dumps(run(json.loads(line))), flush=True)
    elif len(sys.argv) in (2, 3) and not sys.argv[1].startswith("-"):
        with open(sys.argv[1]) as file:
            answer = run(json.load(file))
        with open(sys.argv[2], "w") if len(sys.argv) == 3 else sys.stdout as file:
            json.dump(answer, file)
    else:
        sys.exit(usage)


if __name__ == "__main__":
    command(run, [test_generator, test_gradients, test_optimisers, test_training], __doc__)
