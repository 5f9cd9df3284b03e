"""Which evaluator a launch has: onnxruntime's session where that package takes the graph, else the reference's."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper
from onnx.reference import ReferenceEvaluator

from atops import executable
from atops.base.errors import LaunchFailure
from atops.runtime.executables.graph import fast_session
from tests.runtime.boards import PATIENCE, device
from tests.runtime.executable_models import BIAS, WEIGHT, endless, linear, model, picked, tensor

ROWS = np.ones((5, 4), np.float32)


class Package:
    """Stands for onnxruntime: sessions that evaluate by the reference, and a list of the graphs they were made for."""

    def __init__(self, refuses: bool = False) -> None:
        self.made: list[str] = []
        self.refuses = refuses
        self.SessionOptions = SimpleNamespace
        self.InferenceSession = self.session

    def session(self, data: bytes, sess_options: object, providers: list[str]) -> object:
        """Make a session, or refuse as the package does."""
        if self.refuses:
            raise RuntimeError("no such operator")
        self.made.append(ModelProto.FromString(data).graph.name)
        return ReferenceEvaluator(data)


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> Package:
    """The package, as if it were installed."""
    found = Package()
    monkeypatch.setitem(sys.modules, "onnxruntime", found)
    return found


def run(here, exe, times=1):
    """Launch the linear model and compare."""
    stream = here.create_stream()
    x, y = stream.upload(ROWS), stream.empty((5, 3))
    for _ in range(times):
        exe.launch(stream, [x], [y])
    np.testing.assert_allclose(stream.fetch(y).wait_sync(PATIENCE), ROWS @ WEIGHT + BIAS, rtol=1e-6)


def test_a_session_is_made_by_the_first_launch(package: Package):
    """Neither by building nor by opening, since making one may compute; and once."""
    exe = executable.load(executable.build(linear()).to_bytes())
    assert package.made == []
    with device() as here:
        run(here, exe, times=3)
        assert package.made == ["model"]
        exe.close()


def test_a_session_that_fails_is_a_launch_failure(package: Package):
    """As with the other evaluator."""
    exe = executable.build(picked())
    with device() as here:
        stream = here.create_stream()
        x, at, y = stream.zeros(4), stream.upload(np.array([1, 9], np.int64)), stream.zeros(2)
        with pytest.raises(LaunchFailure, match="evaluation failed"):
            exe.launch(stream, [x, at], [y]).wait_sync(PATIENCE)
    assert package.made == ["model"]


def test_functions_are_left_to_the_reference(package: Package):
    """A session runs whole models only."""
    exe = executable.build(linear(), refit=True)
    with device() as here:
        stream = here.create_stream()
        exe.managed_constants(here.driver)
        exe.function_text()
        values, factor, result = stream.upload(BIAS), stream.upload(np.float32(2)), stream.empty(3)
        exe.call(stream, "scaled", [values, factor], [result])
        assert (stream.fetch(result).wait_sync(PATIENCE) == BIAS * 2).all()
        exe.close()
    assert package.made == []


def narrow():
    """Return a model with a type that numpy does not have."""
    node = helper.make_node("Neg", ["x"], ["y"])
    element = TensorProto.BFLOAT16
    return model([node], [tensor("x", [2], element)], [tensor("y", [2], element)])


def test_loops_and_other_types_are_left_to_the_reference(package: Package):
    """A loop can be ended there; a type that numpy does not have can be held."""
    assert fast_session(endless()) is None
    assert fast_session(narrow()) is None
    assert package.made == []
    exe = executable.build(narrow())
    with device() as here:
        stream = here.create_stream()
        x, y = stream.upload(np.array([1, -2], ml_dtypes.bfloat16)), stream.empty(2, "bfloat16")
        exe.launch(stream, [x], [y])
        assert stream.fetch(y).wait_sync(PATIENCE).tolist() == [-1, 2]


def test_what_the_package_refuses_is_left_to_the_reference(monkeypatch: pytest.MonkeyPatch):
    """An operator or a version that it does not know."""
    monkeypatch.setitem(sys.modules, "onnxruntime", Package(refuses=True))
    with device() as here:
        run(here, executable.build(linear()))


def test_without_the_package_the_reference_evaluates(monkeypatch: pytest.MonkeyPatch):
    """Nothing but onnx is needed."""
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    assert fast_session(linear()) is None
    with device() as here:
        run(here, executable.build(linear()))


def test_the_package_evaluates_as_the_reference_does():
    """With the real package a launch goes through its session, and its results are those of the reference."""
    assert fast_session(linear()) is not None
    with device() as here:
        run(here, executable.build(linear()), times=2)
