"""ONNX models as a C host program runs them: built, opened, asked, launched, refitted, saved.

One model is made here, the other comes with the package onnx, which the extra `onnx` installs.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import atops.tops as tops
from atops import executable
from atops.tops import check


def main() -> None:
    """Run both models, and the first again with another bias; compare with the reference."""
    stream = check(tops.topsStreamCreate())
    rng = np.random.default_rng(7)

    layer = dense_layer(rng)
    image = executable.build(layer, ranges={"batch": (1, 16)}, refit=["bias"], name="dense layer").to_bytes()
    exe = check(tops.topsCreateExecutable(image, len(image)))
    batch = rng.standard_normal((5, 8)).astype(np.float32)
    [result] = launch(exe, [batch], stream)
    np.testing.assert_allclose(result, reference(layer, [batch])[0], rtol=1e-5, atol=1e-6)
    print("dense layer:", batch.shape, "->", result.shape)

    refit_bias(exe, np.zeros(4, np.float32), stream)
    [without_bias] = launch(exe, [batch], stream)
    layer.graph.initializer[1].CopyFrom(numpy_helper.from_array(np.zeros(4, np.float32), "bias"))
    np.testing.assert_allclose(without_bias, reference(layer, [batch])[0], rtol=1e-5, atol=1e-6)
    print("after the refit the bias is gone")

    model, inputs = shipped_model()
    image = executable.build(model).to_bytes()
    shipped = check(tops.topsCreateExecutable(image, len(image)))
    results = launch(shipped, inputs, stream)
    for found, wanted in zip(results, reference(model, inputs), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5)
    print("the model that comes with onnx:", [each.shape for each in inputs], "->", [each.shape for each in results])

    for each in (exe, shipped):
        check(tops.topsDestroyExecutable(each))
    check(tops.topsStreamDestroy(stream))
    print("both agree with the reference")


def dense_layer(rng: np.random.Generator) -> Any:
    """Return `relu(x @ weight + bias)` for a batch of any size."""
    constants = [
        numpy_helper.from_array(rng.standard_normal((8, 4)).astype(np.float32), "weight"),
        numpy_helper.from_array(rng.standard_normal(4).astype(np.float32), "bias"),
    ]
    graph = helper.make_graph(
        [helper.make_node("Gemm", ["x", "weight", "bias"], ["sum"]), helper.make_node("Relu", ["sum"], ["y"])],
        "dense",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 4])],
        constants,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def shipped_model() -> tuple[Any, list[Any]]:
    """Return a model of onnx's own test data, with its first set of inputs."""
    folder = Path(onnx.__file__).parent / "backend" / "test" / "data" / "simple" / "test_single_relu_model"
    model = onnx.load(folder / "model.onnx")
    names = sorted((folder / "test_data_set_0").glob("input_*.pb"))
    return model, [numpy_helper.to_array(onnx.load_tensor(name)) for name in names]


def launch(exe: int, inputs: list[Any], stream: int) -> list[Any]:
    """Upload the inputs, run the executable, and return what comes out, in shape."""
    pointers = [check(tops.topsMalloc(each.nbytes)) for each in inputs]
    for pointer, array in zip(pointers, inputs, strict=True):
        check(tops.topsMemcpyHtoDAsync(pointer, array, array.nbytes, stream))
    most = check(tops.topsExecutableQueryInfo(exe, tops.topsExecutableInfoOutputMaxDimsList))
    ranks = check(tops.topsExecutableQueryInfo(exe, tops.topsExecutableInfoOutputRank))
    outputs = [check(tops.topsMalloc(4 * math.prod(dims))) for dims in split(most, ranks)]
    input_dims = [extent for each in inputs for extent in each.shape]
    dims, ranks = check(tops.topsLaunchExecutable(
        exe, None, pointers, len(pointers), input_dims, [each.ndim for each in inputs], outputs, len(outputs), stream
    ))  # fmt: skip
    results = [np.empty(shape, np.float32) for shape in split(dims, ranks)]
    for pointer, array in zip(outputs, results, strict=True):
        check(tops.topsMemcpyDtoHAsync(array, pointer, array.nbytes, stream))
    check(tops.topsStreamSynchronize(stream))
    for pointer in (*pointers, *outputs):
        check(tops.topsFree(pointer))
    return results


def split(dims: list[int], ranks: list[int]) -> list[tuple[int, ...]]:
    """Return the shapes that follow each other in a flat list."""
    rest = iter(dims)
    return [tuple(next(rest) for _ in range(rank)) for rank in ranks]


def refit_bias(exe: int, bias: Any, stream: int) -> None:
    """Change the one managed constant, and let the executable have a key for it."""
    assert check(tops.topsExecutableGetRefitFlag(exe)) == 1
    _, names, addresses, sizes, _, flags = check(tops.topsExecutableGetConstManagedData(exe))
    assert names == ["bias"]
    tops.host_view(addresses[0], sizes[0]).view(np.float32)[:] = bias
    tops.host_view(flags[0], 1)[:] = 1
    check(tops.topsExecutableUpdateRuntimeResource(exe, None, stream))
    check(tops.topsExecutableUpdateConstantKey(exe))


def reference(model: Any, inputs: list[Any]) -> list[Any]:
    """Return what onnx's own evaluator makes of the same inputs."""
    names = [each.name for each in model.graph.input]
    found: list[Any] = ReferenceEvaluator(model).run(None, dict(zip(names, inputs, strict=True)))
    return found


if __name__ == "__main__":
    main()
