"""Executables: built, opened and launched in stream order, under both executors; what fails, fails as kernels do."""

from __future__ import annotations

import threading
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import atops
from atops import executable
from atops.base.errors import (
    IllegalAddress,
    InvalidHandle,
    InvalidType,
    InvalidValue,
    LaunchFailure,
    LaunchOutOfResources,
    NotFound,
    NotSupported,
    PeerAccessNotEnabled,
    PriorLaunchFailure,
    StreamAborted,
)
from atops.base.options import EmulatorOptions
from atops.base.trace.records import Kind
from atops.runtime.device import Device
from atops.runtime.executables.graph import Graph
from atops.runtime.resources.bundle import create_bundle
from atops.runtime.resources.placement import BundleRequest
from tests.every import every
from tests.runtime.boards import PATIENCE, Foreign, Latch, board, device, leftovers, works
from tests.runtime.executable_models import BIAS, SHAPE, WEIGHT, endless, fixed, linear, model, picked, places, tensor

ROWS = np.linspace(-1, 1, 20, dtype=np.float32).reshape(5, 4)


def check_linear(stream, exe, rows=ROWS, weight=WEIGHT, bias=BIAS, **options):
    """Run the linear model and compare."""
    x, y = stream.upload(rows), stream.empty((len(rows), 3))
    done = exe.launch(stream, [x], [y], **options)
    result = stream.fetch(y).wait_sync(PATIENCE)
    assert done.result() == [(len(rows), 3)]
    np.testing.assert_allclose(result, rows @ weight + bias, rtol=1e-6)


# ---- building


def test_what_is_built_tells_its_tables():
    """Inputs, outputs, constants and functions have the names, types and dims of the model."""
    exe = executable.build(linear(), ranges={"n": (2, 8)}, name="layer")
    [x], [y] = exe.inputs, exe.outputs
    assert (x.name, x.dtype, x.dims, x.minimum, x.maximum) == ("x", "float32", (-1, 4), (2, 4), (8, 4))
    assert (y.name, y.dtype, y.dims, y.maximum) == ("y", "float32", (-1, 3), (8, 3))
    assert [(each.name, each.dims) for each in exe.constants] == [("w", (4, 3)), ("b", (3,))]
    assert not any(each.managed for each in exe.constants)
    assert [each.name for each in exe.functions] == ["scaled"]
    assert "layer" in repr(exe)


def test_a_range_of_one_extent_is_a_built_dim():
    """Where the least and the largest extent are one, the outputs' dims are known too."""
    exe = executable.build(linear(), ranges={"n": (5, 5)})
    assert exe.inputs[0].dims == (5, 4)
    assert exe.outputs[0].dims == (5, 3)


def test_a_model_comes_from_a_file_too(tmp_path: Path):
    """A path and bytes are as good as a model; a tensor that is kept beside the file is put in."""
    inside, outside = tmp_path / "inside.onnx", tmp_path / "outside.onnx"
    onnx.save(linear(), inside)
    onnx.save(linear(), outside, save_as_external_data=True, size_threshold=0, location="weights")
    reference = executable.build(linear()).to_bytes()
    assert executable.build(inside).to_bytes() == reference
    assert executable.build(str(outside)).to_bytes() == reference
    assert executable.build(linear().SerializeToString()).to_bytes() == reference
    with pytest.raises(InvalidValue, match="outside the model"):
        executable.build(outside.read_bytes())


def text_model():
    """Return a model whose output is text."""
    return model([helper.make_node("Identity", ["x"], ["y"])],
                 [tensor("x", [2], TensorProto.STRING)], [tensor("y", [2], TensorProto.STRING)])  # fmt: skip


def unknown_operator():
    """Return a model with an unknown operator."""
    return model([helper.make_node("Fancy", ["x"], ["y"], domain="custom")], [tensor("x", [2])], [tensor("y", [2])])


def sequence():
    """Return a model whose output is no tensor."""
    made = helper.make_tensor_sequence_value_info("y", TensorProto.FLOAT, [2])
    return model([helper.make_node("SequenceConstruct", ["x"], ["y"])], [tensor("x", [2])], [made])


def torn():
    """Return a model that uses what nothing makes."""
    return model([helper.make_node("Relu", ["z"], ["y"])], [tensor("x", [2])], [tensor("y", [2])])


@every(
    "make, options, error, says",
    [
        (lambda: 3, {}, InvalidType, "ModelProto"),
        (lambda: b"\xff\xff\xff", {}, InvalidValue, "no ONNX"),
        (torn, {}, InvalidValue, "valid ONNX"),
        (text_model, {}, NotSupported, "'x'"),
        (unknown_operator, {}, NotSupported, "Fancy"),
        (sequence, {}, NotSupported, "'y' is no tensor"),
        (linear, {"ranges": {"m": (1, 2)}}, NotFound, "'n'"),
        (linear, {"ranges": {"n": (3, 2)}}, InvalidValue, "range of 'n'"),
        (linear, {"refit": ["c"]}, NotFound, "'c'"),
        (linear, {"refit": "b"}, InvalidType, "refit"),
        (linear, {"name": 7}, InvalidType, "name"),
        (linear, {"clusters": 0}, InvalidValue, "clusters"),
        (linear, {"memory": -1}, InvalidValue, "memory"),
    ],
)
def test_what_cannot_be_built_is_refused(make, options, error, says):
    """A wrong model or option is an error that names it."""
    with pytest.raises(error, match=says):
        executable.build(make(), **options)


def test_a_missing_file_is_an_os_error(tmp_path: Path):
    """Neither builds nor loads."""
    for function in (executable.build, executable.load):
        with pytest.raises(FileNotFoundError):
            function(tmp_path / "none")


def test_building_and_opening_without_the_package_name_the_extra(monkeypatch: pytest.MonkeyPatch):
    """Where onnx is not installed, the error says what to install."""
    data = executable.build(fixed()).to_bytes()
    monkeypatch.setitem(__import__("sys").modules, "onnx", None)
    for function in (executable.build, executable.load):
        with pytest.raises(NotSupported, match=r"atops\[onnx\]"):
            function(data)


# ---- launching


@pytest.mark.parametrize("way", ["built", "bytes", "file"])
def test_it_computes_what_the_model_says(way: str, tmp_path: Path):
    """As built, and as saved and opened again."""
    exe = executable.build(linear())
    if way == "bytes":
        exe = executable.load(exe.to_bytes())
    elif way == "file":
        exe.save(tmp_path / "linear.exe")
        exe = executable.load(tmp_path / "linear.exe")
    with device() as here:
        stream = here.create_stream()
        for rows in (ROWS, ROWS[:1], ROWS[:0]):
            check_linear(stream, exe, rows)
        stream.close()
        exe.close()
        assert leftovers(here.driver) == {}


def test_it_runs_inline_too():
    """Under the inline executor a launch is a step like any other."""
    exe = executable.build(linear())

    async def main():
        async with Device(0).create_stream() as stream:
            x, y = stream.upload(ROWS), stream.empty((5, 3))
            assert await exe.launch(Foreign(stream.__tops_stream__()), [x], [y]) == [(5, 3)]  # any library's stream
            return await stream.fetch(y)

    np.testing.assert_allclose(atops.run(main, EmulatorOptions(seed=3)), ROWS @ WEIGHT + BIAS, rtol=1e-6)


def test_the_whole_is_in_stream_order():
    """A launch waits for what is before it, and reads its inputs then."""
    exe = executable.build(fixed())
    with device() as here:
        latch, stream = Latch(here), here.create_stream()
        a, b = stream.zeros(SHAPE), stream.upload(np.full(SHAPE, 3, np.float32))
        outputs = [stream.empty(SHAPE), stream.empty(SHAPE)]
        latch.hold(stream)
        stream.fill(a, 2)
        done = exe.launch(stream, [a, b], outputs)
        assert not done.done()
        latch.open()
        assert done.wait_sync(PATIENCE) == [SHAPE, SHAPE]
        assert [float(stream.fetch(each).wait_sync(PATIENCE)[0, 0]) for each in outputs] == [5, 6]


def test_an_output_may_be_an_input():
    """Inputs are read before anything is stored, in whatever order outputs are."""
    exe = executable.build(fixed())
    with device() as here:
        stream = here.create_stream()
        a, b = stream.upload(np.full(SHAPE, 2, np.float32)), stream.upload(np.full(SHAPE, 3, np.float32))
        exe.launch(stream, [a, b], [b, a])
        assert float(stream.fetch(b).wait_sync(PATIENCE)[0, 0]) == 5
        assert float(stream.fetch(a).wait_sync(PATIENCE)[0, 0]) == 6


@pytest.mark.parametrize("right", [True, False])
def test_detectors_see_what_it_reads_and_stores(right: bool) -> None:
    """A store to an input in another stream, in no order, is a race; what it stores has been stored."""
    exe = executable.build(linear())
    with device(detect=True) as here:
        stream, other = here.create_stream(), here.create_stream()
        x = stream.upload(ROWS)
        check_linear(stream, exe)
        y = stream.empty((5, 3))
        stream.sync(PATIENCE)
        exe.launch(stream, [x], [y])
        if right:
            other.wait(stream)
        other.fill(x, 0)
        here.sync(PATIENCE)
        races = here.driver.report().races
        assert [race.kind for race in races] == ([] if right else ["data race"]), races


def test_it_is_traced_by_name():
    """The record is a launch with the executable's name; with a compilation id it has that, for the profile meta."""
    plain, profiled = executable.build(fixed(), name="plain"), executable.build(fixed(), compilation_id=7)
    with device(trace=64) as here:
        stream = here.create_stream()
        ends = [stream.zeros(SHAPE) for _ in range(4)]
        for exe in (plain, profiled):
            exe.launch(stream, ends[:2], ends[2:]).wait_sync(PATIENCE)
        stream.sync(PATIENCE)
        launches = [each for each in here.driver.tracer.records() if each.kind is Kind.LAUNCH]
    assert [each.name for each in launches] == ["plain", "compilation 7"]


def test_narrow_types_arrive_as_they_are():
    """bfloat16 and bool go in and come out."""
    nodes = [helper.make_node("Where", ["which", "x", "z"], ["y"])]
    exe = executable.build(model(
        nodes,
        [tensor("which", [3], TensorProto.BOOL), tensor("x", [3], TensorProto.BFLOAT16)],
        [tensor("y", [3], TensorProto.BFLOAT16)],
        {"z": np.array([9], ml_dtypes.bfloat16)},
    ))  # fmt: skip
    with device() as here:
        stream = here.create_stream()
        x = stream.upload(np.array([1, 2, 3], ml_dtypes.bfloat16))
        which, y = stream.upload(np.array([True, False, True])), stream.empty(3, "bfloat16")
        exe.launch(stream, [which, x], [y])
        assert stream.fetch(y).wait_sync(PATIENCE).tolist() == [1, 9, 3]


@pytest.mark.parametrize(
    ("shape", "options", "says"),
    [
        ((1, 4), {}, r"\(2, 4\) to \(8, 4\)"),
        ((9, 4), {}, r"\(2, 4\) to \(8, 4\)"),
        ((3, 5), {}, "dims"),
        ((3,), {}, "dims"),
        ((3, 4), {"exact": True}, "built ones"),
    ],
)
def test_dims_outside_of_what_was_built_are_refused(shape, options, says):
    """In graph mode between minimum and maximum, in operator mode the built ones only."""
    exe = executable.build(linear(), ranges={"n": (2, 8)})
    with device() as here:
        stream = here.create_stream()
        with pytest.raises(InvalidValue, match=says):
            exe.launch(stream, [stream.zeros(shape)], [stream.empty((8, 3))], **options)


def test_wrong_operands_are_refused():
    """Too few, of another type, without room, not memory, of another device without access, and a closed executable."""
    exe = executable.build(fixed())
    with board(devices=2) as driver:
        here, there = Device(0, driver), Device(1, driver)
        stream = here.create_stream()
        a, b, c, d = (stream.zeros(SHAPE) for _ in range(4))
        for inputs, outputs, error in (
            ([a], [c, d], InvalidValue),
            ([a, b], [c], InvalidValue),
            ([a, b.view("int32", SHAPE)], [c, d], InvalidType),
            ([a, np.zeros(SHAPE, np.float32)], [c, d], InvalidType),
            ([a, b], [c, d[:1]], InvalidValue),
            ([a, b], [c, bytearray(24)], InvalidType),
            ([a, there.empty(SHAPE)], [c, d], PeerAccessNotEnabled),
        ):
            with pytest.raises(error):
                exe.launch(stream, inputs, outputs)
        stream.sync(PATIENCE)  # nothing was enqueued that could fail
        exe.close()
        exe.close()
        with pytest.raises(InvalidHandle, match="closed"):
            exe.launch(stream, [a, b], [c, d])


def test_dims_that_only_a_run_can_tell():
    """The result of the completion has them; where they do not fit, the launch fails with IllegalAddress."""
    exe = executable.build(places())
    assert exe.outputs[0].dims == (1, -1)
    with device() as here:
        stream = here.create_stream()
        x, y = stream.upload(np.array([0, 3, 0, 4, 5, 0], np.float32)), stream.zeros(6, "int64")
        assert exe.launch(stream, [x], [y]).wait_sync(PATIENCE) == [(1, 3)]
        assert stream.fetch(y).wait_sync(PATIENCE).tolist() == [1, 3, 4, 0, 0, 0]
        short = exe.launch(stream, [x], [y[:2]])
        with pytest.raises(LaunchFailure, match="output 'y'") as failure:
            short.wait_sync(PATIENCE)
        assert failure.value.code is IllegalAddress.code
        assert works(here.driver)


def test_a_failed_evaluation_poisons_the_stream():
    """What an operator raises is the cause of a LaunchFailure that names the executable; other streams go on."""
    exe = executable.build(picked(), name="picked")
    with device() as here:
        stream, other = here.create_stream(), here.create_stream()
        x, at, y = stream.zeros(4), stream.upload(np.array([1, 9], np.int64)), stream.zeros(2)
        failed = exe.launch(stream, [x, at], [y])
        later = stream.fill(y, 1)
        with pytest.raises(LaunchFailure, match=r"executable picked: evaluation failed: .*bounds"):
            failed.wait_sync(PATIENCE)
        with pytest.raises(PriorLaunchFailure):
            later.wait_sync(PATIENCE)
        assert other.fetch(x).wait_sync(PATIENCE).tolist() == [0] * 4
        stream.clear_error()
        stream.copy(at, np.array([1, 2], np.int64))
        assert exe.launch(stream, [x, at], [y]).wait_sync(PATIENCE) == [(2,)]


def test_an_input_that_is_freed_before_the_launch_runs_fails_it():
    """The address is named; nothing is stored."""
    exe = executable.build(fixed())
    with device() as here:
        stream = here.create_stream()
        a, b, c, d = (here.empty(SHAPE) for _ in range(4))
        for each in (c, d):
            stream.fill(each, 0)
        gate = Latch(here)
        gate.hold(stream)
        failed = exe.launch(stream, [a, b], [c, d])
        here.context.memory.free(a.allocation, "the test")
        gate.open()
        with pytest.raises(IllegalAddress, match="the test"):
            failed.wait_sync(PATIENCE)


def test_an_endless_graph_is_aborted(monkeypatch: pytest.MonkeyPatch):
    """An abort ends a loop between two turns, after it has begun; the device works on."""
    exe = executable.build(endless())
    begun, run = threading.Event(), Graph.run

    def noted(*arguments):
        begun.set()
        return run(*arguments)

    monkeypatch.setattr(Graph, "run", noted)
    with device() as here:
        stream = here.create_stream()
        x, y = stream.zeros(2), stream.zeros(2)
        running = exe.launch(stream, [x], [y])
        assert begun.wait(PATIENCE)
        stream.abort()
        with pytest.raises(StreamAborted):
            running.wait_sync(PATIENCE)
        assert works(here.driver)


def test_it_runs_in_a_bundle_and_not_beside_an_exclusive_one():
    """A bundle's launch runs on its clusters; with all of them taken, default work is LaunchOutOfResources."""
    exe = executable.build(fixed())
    with device(trace=64) as here:
        stream = here.create_stream()
        ends = [stream.zeros(SHAPE) for _ in range(4)]
        every = create_bundle(here.context, BundleRequest(exclusive=True))
        with pytest.raises(LaunchOutOfResources):
            exe.launch(stream, ends[:2], ends[2:])
        assert exe.launch(stream, ends[:2], ends[2:], bundle=every).wait_sync(PATIENCE) == [SHAPE, SHAPE]
        every.close()
        exe.launch(stream, ends[:2], ends[2:]).wait_sync(PATIENCE)
