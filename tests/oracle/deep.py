#!/usr/bin/env python3
"""Deep networks in NumPy, f64: loss and gradients of a list of layers as model files have it.

A job is a line of JSON: `layers` (as in a model file, each with all its keys), `features` [n, columns], `labels` [n],
`rows` (those that count), `group` (rows of a sequence), `parameters` (name -> values). The answer has `loss` and
`gradients` (name -> values). Formulas are written down once more here, from their papers, over a reverse-mode tape.
"""
import json
import sys

import numpy as np

from gcn import Activation


class Node:
    """A value, and how its gradient reaches what it was made of."""

    def __init__(self, value, parts=()):
        self.value, self.parts, self.grad = value, parts, np.zeros_like(value)

    def backward(self):
        order, seen = [], set()

        def visit(node):
            if id(node) not in seen:
                seen.add(id(node))
                for part, _ in node.parts:
                    visit(part)
                order.append(node)

        visit(self)
        self.grad = np.ones_like(self.value)
        for node in reversed(order):
            for part, pull in node.parts:
                part.grad = part.grad + pull(node.grad)


def summed(grad, shape):
    """A gradient of a broadcast value, as that value's."""
    while grad.ndim > len(shape):
        grad = grad.sum(0)
    for axis, extent in enumerate(shape):
        if extent == 1 and grad.shape[axis] != 1:
            grad = grad.sum(axis, keepdims=True)
    return grad


def add(a, b):
    return Node(a.value + b.value, [(a, lambda g: summed(g, a.value.shape)), (b, lambda g: summed(g, b.value.shape))])


def mul(a, b):
    return Node(a.value * b.value,
                [(a, lambda g: summed(g * b.value, a.value.shape)), (b, lambda g: summed(g * a.value, b.value.shape))])


def matmul(a, b):
    swap = lambda x: np.swapaxes(x, -1, -2)
    return Node(a.value @ b.value, [(a, lambda g: g @ swap(b.value)), (b, lambda g: summed(swap(a.value) @ g, b.value.shape))])


def reshape(a, shape):
    return Node(a.value.reshape(shape), [(a, lambda g: g.reshape(a.value.shape))])


def transpose(a, order):
    return Node(a.value.transpose(order), [(a, lambda g: g.transpose(np.argsort(order)))])


def take(a, index):
    def pull(g):
        out = np.zeros_like(a.value)
        np.add.at(out, index, g)
        return out

    return Node(a.value[index], [(a, pull)])


def concat(parts):
    ends = np.cumsum([0] + [p.value.shape[1] for p in parts])
    pulls = [(p, lambda g, i=i: g[:, ends[i]:ends[i + 1]]) for i, p in enumerate(parts)]
    return Node(np.concatenate([p.value for p in parts], 1), pulls)


def elementwise(a, value, slope):
    return Node(value, [(a, lambda g: g * slope)])


def activate(a, name):
    f = Activation(name, float(np.float32(0.2)))
    return elementwise(a, f(a.value), f.derivative(a.value))


def normalise(a, by, gain, shift):
    x = a.value
    mean = x.mean(1, keepdims=True) if by == "layer" else 0.0
    scale = 1 / np.sqrt(((x - mean) ** 2).mean(1, keepdims=True) + 1e-5)
    y = (x - mean) * scale

    def pull(g):
        h = g - y * (g * y).mean(1, keepdims=True)
        return scale * (h - (g.mean(1, keepdims=True) if by == "layer" else 0.0))

    out = mul(Node(y, [(a, pull)]), gain)
    return out if shift is None else add(out, shift)


def softmax(a):
    y = np.exp(a.value - a.value.max(-1, keepdims=True))
    y = y / y.sum(-1, keepdims=True)
    return Node(y, [(a, lambda g: y * (g - (g * y).sum(-1, keepdims=True)))])


def attention(a, heads, causal, group):
    n, d = a.value.shape[0], a.value.shape[1] // 3
    parts = transpose(reshape(a, (n // group, group, 3, heads, d // heads)), (2, 0, 3, 1, 4))
    q, k, v = (take(parts, i) for i in range(3))
    scores = mul(matmul(q, transpose(k, (0, 1, 3, 2))), Node(np.array(1 / np.sqrt(d // heads))))
    if causal:
        scores = add(scores, Node(np.where(np.tril(np.ones((group, group))) > 0, 0, -1e30)))
    return reshape(transpose(matmul(softmax(scores), v), (0, 2, 1, 3)), (n, d))


def windows(image, size, stride, padding, dilation):
    """Places in a padded image, flat, of each window's values: [windows, size * size * channels]."""
    h, w, c = image
    high, wide = h + 2 * padding, w + 2 * padding
    reach = dilation * (size - 1) + 1
    places = [((y + i * dilation) * wide + x + j * dilation) * c + k
              for y in range(0, high - reach + 1, stride) for x in range(0, wide - reach + 1, stride)
              for i in range(size) for j in range(size) for k in range(c)]
    return np.array(places).reshape(-1, size * size * c)


def padded(a, image, padding):
    h, w, c = image
    x = a.value.reshape(-1, h, w, c)
    inner = (slice(None), slice(padding, padding + h), slice(padding, padding + w))
    out = np.zeros((len(x), h + 2 * padding, w + 2 * padding, c))
    out[inner] = x
    shape = a.value.shape
    return Node(out.reshape(len(x), -1), [(a, lambda g: g.reshape(out.shape)[inner].reshape(shape))])


def conv(a, image, layer, weight, bias):
    padding = layer.get("padding", 0)
    places = windows(image, layer.get("kernel_size", 3), layer.get("stride", 1), padding, layer.get("dilation", 1))
    patches = take(padded(a, image, padding), (slice(None), places))
    out = matmul(patches, weight)
    return reshape(out if bias is None else add(out, bias), (len(a.value), -1))


def pool(a, image, layer):
    c, window = image[2], layer.get("window", 2)
    places = windows(image, window, layer.get("stride", window), 0, 1).reshape(-1, window**2, c)
    values = take(a, (slice(None), places))
    x = values.value
    if layer.get("pool") == "mean":
        out = Node(x.mean(2), [(values, lambda g: np.broadcast_to(g[:, :, None] / x.shape[2], x.shape))])
    else:
        first = np.zeros_like(x)
        np.put_along_axis(first, x.argmax(2)[:, :, None], 1.0, 2)
        out = Node(x.max(2), [(values, lambda g: first * g[:, :, None])])
    return reshape(out, (len(a.value), -1))


def cross_entropy(a, labels, rows):
    p = softmax(a)
    out = np.zeros_like(p.value)
    out[rows, labels[rows]] = 1
    counted = np.zeros(len(p.value))
    counted[rows] = 1 / len(rows)
    loss = -(counted[rows] * np.log(p.value[rows, labels[rows]])).sum()
    return Node(np.array(loss), [(a, lambda g: g * counted[:, None] * (p.value - out))])


def network(job, parameters):
    used = {}

    def named(name):
        if name not in parameters:
            return None
        return used.setdefault(name, parameters[name])

    made, further = {"features": Node(np.array(job["features"], float))}, []
    previous, group = made["features"], job["group"]
    for at, layer in enumerate(job["layers"]):
        own = lambda name: named(f"layers.{at}.{name}")
        inputs = [made[name] for name in layer["inputs"]] if layer.get("inputs") else [previous]
        x, kind = inputs[0], layer["kernel"]

        def linear(x, role="", rows=None):
            weight = own(f"{role}weight")
            if weight is None:
                weight = transpose(rows, (1, 0))
            out = matmul(x, weight)
            bias = own(f"{role}bias")
            return out if bias is None else add(out, bias)

        if kind == "linear":
            tied = layer.get("weights_of")
            rows = [named(f"layers.{place}.weight") for place, other in enumerate(job["layers"]) if other.get("name") == tied]
            y = linear(x, rows=None if tied is None else rows[0])
        elif kind == "embedding":
            ids = x.value[:, 0].astype(int)
            y = take(own("weight"), ids)
            if layer.get("positions"):
                y = add(y, take(own("positions"), np.arange(len(ids)) % group))
        elif kind == "self-attention":
            y = linear(attention(linear(x, "qkv."), layer["heads"], layer.get("causal", False), group), "output.")
        elif kind == "transformer":
            by = layer.get("norm", "layer")
            h = normalise(x, by, own("norm.0.scale"), own("norm.0.shift"))
            h = attention(linear(h, "qkv."), layer["heads"], layer.get("causal", False), group)
            x = add(x, linear(h, "output."))
            h = normalise(x, by, own("norm.1.scale"), own("norm.1.shift"))
            h = linear(activate(linear(h, "mlp.0."), layer.get("activation", "gelu")), "mlp.1.")
            y = add(x, h)
        elif kind == "conv2d":
            y = conv(x, layer["image"], layer, own("weight"), own("bias"))
        elif kind == "pool2d":
            y = pool(x, layer["image"], layer)
        elif kind == "concat":
            y = concat(inputs)
        elif kind == "slice":
            y = take(x, (slice(None), np.arange(layer.get("start", 0), layer.get("start", 0) + layer["count"])))
        elif kind == "product":
            y = mul(inputs[0], inputs[1])
        elif kind == "sum":
            y = inputs[0]
            for other in inputs[1:]:
                y = add(y, other)
        elif kind in ("normalise", "activate"):
            y = x
        else:
            raise ValueError(kind)
        if kind == "transformer":
            layer = {key: layer[key] for key in ("name", "loss_weight") if key in layer}
        elif layer.get("norm", "none") != "none":
            y = normalise(y, layer["norm"], own("norm.scale"), own("norm.shift"))
        previous = y = activate(y, layer.get("activation", "identity"))
        if layer.get("name"):
            made[layer["name"]] = y
        if "loss_weight" in layer:
            further.append((layer["loss_weight"], y))
    return previous, further


def answer(job):
    parameters = {name: Node(np.array(values, float)) for name, values in job["parameters"].items()}
    scores, further = network(job, parameters)
    compared = lambda scores: cross_entropy(scores, np.array(job["labels"]), np.array(job["rows"]))
    loss = compared(scores)
    for weight, scores in further:
        loss = add(loss, mul(Node(np.array(weight)), compared(scores)))
    loss.backward()
    gradients = {name: node.grad.tolist() for name, node in parameters.items()}
    return {"loss": float(loss.value), "gradients": gradients}


def main():
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
