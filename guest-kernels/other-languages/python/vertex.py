"""y = x w + b: a vertex kernel in Python.

x [n, k], w [k, m], b [m], y [n, m]. With dy the gradient of y: dw = x^T dy, db = column sums of dy, dx = dy w^T.
Both passes are one call of the host's linear algebra each; no value of a matrix is read into Python.
"""

from typing import NoReturn

from componentize_py_types import Err
from wit_world import exports
from wit_world.exports.vertex import Layer as Contract, Needs, Signature
from wit_world.imports import linalg, types
from wit_world.imports.linalg import Epilogue, Prologue

BEFORE = Prologue(bias=None, activation=types.Activation_Identity(), dropout=None)


def after(bias) -> Epilogue:
    return Epilogue(bias=bias, activation=types.Activation_Identity())


def refuse(text: str) -> NoReturn:
    raise Err(types.Error_Argument(text))


class Vertex(exports.Vertex):
    """What the interface has besides the resource."""

    def attributes(self):
        return [types.AttributeSpec("out-features", "values in a row of the result", None)]


class Layer(Contract):
    """The configured layer. An `Err` of the host that is not caught here goes on to the host as it is."""

    def __init__(self, columns: int, out_features: int):
        self.columns, self.out_features = columns, out_features

    @classmethod
    def open(cls, inputs, attributes):
        if len(inputs) != 1 or len(inputs[0]) != 1:
            refuse(f"one input with one extent a row is taken, not {inputs}")
        match {attribute.name: attribute.value for attribute in attributes}.get("out-features"):
            case types.Value_Integer(n) if 0 < n < 2**32:
                return cls(inputs[0][0], n)
            case other:
                refuse(f"out-features is a whole number from 1 to 2^32 - 1, not {other}")

    def signature(self):
        k, m = self.columns, self.out_features
        return Signature(
            inputs=[types.RowsSpec("x", [k])],
            parameters=[
                types.ParameterSpec("weight", [k, m], types.Initialiser_GlorotUniform()),
                types.ParameterSpec("bias", [m], types.Initialiser_Zeros()),
            ],
            outputs=[types.RowsSpec("y", [m])],
            kept=[],
            backward_needs=Needs.INPUTS,
            loss=None,
        )

    def forward(self, task, inputs, parameters, outputs, kept):
        w, b = parameters
        linalg.linear(inputs[0], BEFORE, w, after(b), outputs[0])

    def backward(
        self, task, inputs, outputs, kept, parameters, gradients, input_gradients, parameter_gradients
    ):
        w, b = parameters
        dw, db = parameter_gradients
        linalg.linear_backward(
            inputs[0], BEFORE, w, after(b), None, gradients[0], input_gradients[0], None, dw, db
        )

    def loss(self, *_):
        raise Err(types.Error_Unsupported("this layer is no loss"))
