"""Small ONNX models for the tests of executables, and what they should compute."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

WEIGHT = np.arange(12, dtype=np.float32).reshape(4, 3)
BIAS = np.array([1, -1, 0.5], np.float32)
OPSETS = [helper.make_opsetid("", 17), helper.make_opsetid("custom", 1)]
SHAPE = (2, 3)


def tensor(name: str, dims: Any, element: int = TensorProto.FLOAT) -> Any:
    """Return the declaration of an input or an output."""
    return helper.make_tensor_value_info(name, element, dims)


def model(nodes: Any, inputs: Any, outputs: Any, constants: Any = None, functions: Any = ()) -> ModelProto:
    """Return a model of nodes; `constants` are arrays by name."""
    kept = [numpy_helper.from_array(array, name) for name, array in (constants or {}).items()]
    graph = helper.make_graph(nodes, "model", inputs, outputs, kept)
    return helper.make_model(graph, opset_imports=OPSETS, functions=list(functions), ir_version=8)


def linear() -> ModelProto:
    """Return `y = x @ w + b` for any number of rows, and a function `scaled(values, factor)` beside it."""
    scaled = helper.make_function(
        "custom", "scaled", ["values", "factor"], ["result"],
        [helper.make_node("Mul", ["values", "factor"], ["result"])], [helper.make_opsetid("", 17)],
    )  # fmt: skip
    nodes = [helper.make_node("MatMul", ["x", "w"], ["t"]), helper.make_node("Add", ["t", "b"], ["y"])]
    ends = [tensor("x", ["n", 4])], [tensor("y", ["n", 3])]
    return model(nodes, *ends, {"w": WEIGHT, "b": BIAS}, [scaled])


def fixed() -> ModelProto:
    """Return `total = a + b, product = a * b` of one shape, without constants."""
    nodes = [helper.make_node("Add", ["a", "b"], ["total"]), helper.make_node("Mul", ["a", "b"], ["product"])]
    ends = [tensor("a", SHAPE), tensor("b", SHAPE)], [tensor("total", SHAPE), tensor("product", SHAPE)]
    return model(nodes, *ends)


def places() -> ModelProto:
    """Return the places of what is not zero, whose number only a run can tell."""
    node = helper.make_node("NonZero", ["x"], ["y"])
    return model([node], [tensor("x", [6])], [tensor("y", [1, None], TensorProto.INT64)])


def picked() -> ModelProto:
    """Return the elements at given places; a place that is not there fails the evaluation."""
    node = helper.make_node("Gather", ["x", "at"], ["y"])
    return model([node], [tensor("x", [4]), tensor("at", [2], TensorProto.INT64)], [tensor("y", [2])])


def endless() -> ModelProto:
    """Return a loop that never ends, so that running any of it is noticed."""
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["on"]), helper.make_node("Identity", ["v"], ["w"])],
        "body",
        [tensor("i", [], TensorProto.INT64), tensor("go", [], TensorProto.BOOL), tensor("v", [2])],
        [tensor("on", [], TensorProto.BOOL), tensor("w", [2])],
    )
    node = helper.make_node("Loop", ["most", "yes", "x"], ["y"], body=body)
    constants = {"most": np.array((1 << 62), np.int64), "yes": np.array(True)}
    return model([node], [tensor("x", [2])], [tensor("y", [2])], constants)
