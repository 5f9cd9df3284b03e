"""The six ways to launch an executable as C-style calls (TOPS Runtime API, 2.11)."""

from __future__ import annotations

from typing import ClassVar

import anyio
import numpy as np
import pytest

import atops.tops as tops
from atops import executable as object_api
from atops.base.errors import NotReady
from atops.base.trace.records import Kind
from atops.runtime.board.current_device import enter
from atops.runtime.driver import board_of
from atops.tops import aio
from atops.tops.header.functions import FUNCTIONS
from tests.runtime.boards import PATIENCE, Latch
from tests.runtime.executable_models import BIAS, WEIGHT, linear, picked, places
from tests.tops.conformance import Case, Conformance
from tests.tops.executable_calls import (
    EXPECTED,
    LAYER,
    PAIR,
    ROWS,
    STIFF,
    VALUES,
    download,
    launch,
    opened,
    upload,
    with_constants,
)

INVALID, DEAD = tops.topsErrorInvalidValue, tops.topsErrorInvalidHandle
NAMES = tuple(name for name in FUNCTIONS if name.startswith("topsLaunchExecutable"))
WITH_CONSTANTS = tuple(name for name in NAMES if "ConstData" in name)
OPERATOR_MODE = ("topsLaunchExecutableV2", "topsLaunchExecutableWithConstDataV2")
LATER = ("topsLaunchExecutableV3", "topsLaunchExecutableWithConstDataV3")


def arguments(name, **given):
    """Return arguments of a launch, good but for what is given."""
    make = with_constants if name in WITH_CONSTANTS else launch

    def made(world):
        row = make(**{key: value(world) if callable(value) else value for key, value in given.items()})
        return tuple(row[each.name] for each in FUNCTIONS[name].parameters)

    return made


def elsewhere(world):
    """Return memory of device 1."""
    tops.check(tops.topsSetDevice(1))
    pointer = upload(ROWS)
    tops.check(tops.topsSetDevice(0))
    return [pointer]


def short(world):
    """Return memory of too few bytes."""
    return [tops.check(tops.topsMalloc(16))]


def foreign_bundle(world):
    """Return a bundle of device 1."""
    tops.check(tops.topsSetDevice(1))
    bundle = topsres()
    tops.check(tops.topsSetDevice(0))
    return bundle


def topsres(exclusive=False):
    """Return a resource bundle of one cluster, or of all and exclusive."""
    mode = tops.TOPS_RES_BUNDLE_MODE__DEVICE if exclusive else tops.TOPS_RES_BUNDLE_MODE__CLUSTER
    bundle = tops.topsResourceBundle_t(mode=mode, cluster_num=1)
    request = tops.topsResourceRequest_t(need_alloc_cluster=exclusive, res_bundle_cfg=bundle)
    return tops.check(tops.topsCreateResource(request))


WRONG = (
    ("two inputs", {"inputs": lambda w: [upload(ROWS)] * 2, "input_count": None}, INVALID),
    ("an input counted twice", {"input_count": 2}, INVALID),
    ("no outputs", {"outputs": lambda w: [], "output_count": None}, INVALID),
    ("an output counted twice", {"output_count": 2}, INVALID),
    ("negative dims", {"input_dims": [-5, 4]}, INVALID),
    ("dims for one rank more", {"input_dims": [5, 4, 1]}, INVALID),
    ("rank too small", {"input_rank": [1]}, INVALID),
    ("negative rank", {"input_rank": [-2]}, INVALID),
    ("ranks of two", {"input_rank": [1, 1]}, INVALID),
    ("dims of other rank", {"input_dims": [20], "input_rank": [1]}, INVALID),
    ("more rows than memory", {"input_dims": [50, 4]}, INVALID),
    ("other rows than built", {"input_dims": [4, 4]}, INVALID),
    ("short input", {"inputs": short}, INVALID),
    ("short output", {"outputs": short}, INVALID),
    ("input at no memory", {"inputs": lambda w: [12345]}, INVALID),
    ("null input", {"inputs": lambda w: [None]}, INVALID),
    ("dead stream", {"stream": 1 << 60}, DEAD),
    ("dead resource", {"res": 1 << 60}, DEAD),
    ("resource of another device", {"res": foreign_bundle}, DEAD),
    ("no handle", {"exe": 12345}, DEAD),
    ("memory of another device", {"inputs": elsewhere}, tops.topsErrorPeerAccessNotEnabled),
)


class TestLaunchExecutable(Conformance):
    """All forms, by their rows."""

    good: ClassVar = {name: arguments(name) for name in NAMES}
    nullable = frozenset((name, each) for name in NAMES for each in ("res", "input_count", "output_count"))
    bad = (
        *(
            Case(name, what, arguments(name, **given), code)
            for name in NAMES
            for what, given, code in WRONG
            if not (name in WITH_CONSTANTS and "exe" in given)
        ),
        *(
            Case(name, what, arguments(name, **given), INVALID)
            for name in WITH_CONSTANTS
            for what, given in (
                ("one constant", {"const_datas": short, "const_datas_count": 1}),
                ("wrong count", {"const_datas_count": 3}),
                ("small constants", {"const_datas": lambda w: short(w) * 2}),
            )
        ),
    )


def run(name, stream=None, data=STIFF, **given):
    """Launch by any form; return dims and ranks, None for those that tell none, and the pointer of the output."""
    row = (with_constants if name in WITH_CONSTANTS else launch)(data, stream=stream, **given)
    answer = tops.check(getattr(tops, name)(**row))
    return answer, row["outputs"]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_form_computes_the_same(world, name):
    """In the order of the stream; dims and ranks are those of the outputs."""
    stream = tops.check(tops.topsStreamCreate())
    answer, [output] = run(name, stream)
    tops.check(tops.topsStreamSynchronize(stream))
    np.testing.assert_allclose(download(output, (5, 3)), EXPECTED, rtol=1e-6)
    if name in OPERATOR_MODE:
        assert answer is None
    else:
        assert [list(each) for each in answer] == [[5, 3], [2]]


@pytest.mark.parametrize("name", NAMES)
def test_graph_mode_takes_dims_between_the_bounds(world, name):
    """2 to 8 rows are valid, and the built dims are none; operator mode refuses them all."""
    for count, right in ((1, False), (2, True), (8, True), (9, False)):
        rows = np.ones((count, 4), np.float32)
        row = (with_constants if name in WITH_CONSTANTS else launch)(LAYER, rows)
        row["outputs"] = [tops.check(tops.topsMalloc(9 * 12))]
        code, *answer = getattr(tops, name)(**row)
        assert code == (0 if right and name not in OPERATOR_MODE else INVALID)
        if code == 0:
            tops.check(tops.topsDeviceSynchronize())
            assert list(answer[0]) == [count, 3]
            np.testing.assert_allclose(download(row["outputs"][0], (count, 3)), rows @ WEIGHT + BIAS, rtol=1e-6)


@pytest.mark.parametrize("name", LATER)
def test_v3_returns_at_once_and_fills_dims_in_stream_order(world, name):
    """NotReady before, the dims after; the host callback that fills them is seen in the trace."""
    latch, stream = Latch(world.device), world.device.create_stream(nonblocking=True)
    latch.hold(stream)
    (dims, ranks), _ = run(name, stream)
    for each in (dims, ranks):
        assert "pending" in repr(each)
        for read in (len, list, lambda numbers: numbers[0]):
            with pytest.raises(NotReady):
                read(each)
    latch.open()
    stream.sync(PATIENCE)
    assert (list(dims), len(dims), dims[1], dims[-2:]) == ([5, 3], 2, 3, [5, 3])
    assert list(ranks) == [2] and repr(ranks) == "[2]"
    kinds = [each.kind for each in world.driver.tracer.records() if each.stream == stream.number]
    assert kinds[kinds.index(Kind.LAUNCH) :] == [Kind.LAUNCH, Kind.CALL]


def test_v3_tells_why_there_are_no_dims(world):
    """Reading them after a failure raises what the stream has."""
    exe = opened(object_api.build(picked(), name="picked").to_bytes())
    inputs = [upload(np.zeros(4, np.float32)), upload(np.array([0, 9], np.int64))]
    output = [tops.check(tops.topsMalloc(8))]
    stream = tops.check(tops.topsStreamCreate())
    dims, _ = tops.check(tops.topsLaunchExecutableV3(exe, None, inputs, 2, [4, 2], [1, 1], output, 1, stream))
    assert tops.topsStreamSynchronize(stream) == (tops.topsErrorLaunchFailure,)
    with pytest.raises(Exception, match="picked") as failure:
        list(dims)
    assert failure.value.__cause__ is not None
    assert tops.topsLaunchExecutableV2(exe, None, inputs, 2, [4, 2], [1, 1], output, 1, stream)[0] != 0
    answer = tops.topsLaunchExecutable(exe, None, inputs, 2, [4, 2], [1, 1], output, 1, None)
    assert answer == (tops.topsErrorLaunchFailure, None, None)


def test_v1_waits_without_blocking_a_loop(world):
    """The twin lets the loop go on; cancelling the wait does not cancel the work."""
    latch, stream = Latch(world.device), world.device.create_stream(nonblocking=True)
    latch.hold(stream)
    row = launch(stream=stream)

    async def main():
        enter(world.driver, board_of(world.driver))
        with anyio.move_on_after(0) as scope:
            await aio.topsLaunchExecutable(**row)
        assert scope.cancelled_caught
        latch.open()
        return await aio.topsLaunchExecutable(**row)

    assert anyio.run(main) == (0, [5, 3], [2])
    assert download(row["outputs"][0], (5, 3)).any()


def test_several_inputs_and_outputs(world):
    """Flat dims are taken apart by their ranks; pointers may be into the middle of memory."""
    both = upload(np.stack([VALUES, VALUES + 1]))
    results = tops.check(tops.topsMalloc(48))
    dims, ranks = tops.check(
        tops.topsLaunchExecutable(
            opened(PAIR), None, [both, both + 24], None, [2, 3, 2, 3], [2, 2], [results, results + 24], None, None
        )
    )
    assert (dims, ranks) == ([2, 3, 2, 3], [2, 2])
    found = download(results, (2, 2, 3))
    assert (found[0] == VALUES * 2 + 1).all()
    assert (found[1] == VALUES * (VALUES + 1)).all()


def test_unknown_dims_may_fill_what_follows_the_pointer(world):
    """They are told after the run; what leaves the memory is IllegalAddress on the stream, not before."""
    exe = opened(object_api.build(places()).to_bytes())
    values = upload(np.array([0, 3, 0, 4, 5, 0], np.float32))
    output = tops.check(tops.topsMalloc(32))
    launched = tops.topsLaunchExecutable(exe, None, [values], 1, [6], [1], [output + 8], 1, None)
    assert launched == (0, [1, 3], [2])
    assert download(output, 4, np.int64)[1:].tolist() == [1, 3, 4]
    launched = tops.topsLaunchExecutable(exe, None, [values], 1, [6], [1], [output + 16], 1, None)
    assert launched == (tops.topsErrorIllegalAddress, None, None)


def test_pinned_memory_and_registered_memory_are_operands(world):
    """By their device pointers."""
    pinned = tops.check(tops.topsHostMalloc(80, 0))
    tops.host_view(pinned, 80).view(np.float32)[:] = ROWS.ravel()
    source = tops.check(tops.topsHostGetDevicePointer(pinned, 0))
    result = np.zeros((5, 3), np.float32)
    tops.check(tops.topsHostRegister(result, result.nbytes, 0))
    target = tops.check(tops.topsHostGetDevicePointer(result, 0))
    tops.check(tops.topsLaunchExecutable(**launch(inputs=[source], outputs=[target])))
    np.testing.assert_allclose(result, EXPECTED, rtol=1e-6)
    tops.check(tops.topsHostUnregister(result))


def test_constants_are_taken_in_the_order_they_were_loaded(world):
    """The caller may change them, and frees them; the executable's own are another copy."""
    row = with_constants()
    _, bias = row["const_datas"]
    tops.check(tops.topsMemcpyHtoD(bias, np.zeros(3, np.float32), 12))
    tops.check(tops.topsLaunchExecutableWithConstData(**row))
    np.testing.assert_allclose(download(row["outputs"][0], (5, 3)), ROWS @ WEIGHT, rtol=1e-6)
    plain = {name: value for name, value in row.items() if "const" not in name}
    tops.check(tops.topsLaunchExecutable(**plain))
    np.testing.assert_allclose(download(row["outputs"][0], (5, 3)), EXPECTED, rtol=1e-6)
    for pointer in row["const_datas"]:
        assert tops.topsFree(pointer) == (0,)
    assert tops.topsLaunchExecutableWithConstData(**row)[0] == INVALID


def test_a_bundle_is_where_it_runs(world):
    """By handle, and as the default; beside an exclusive bundle of all clusters there is no room."""
    row = launch()
    bundle = topsres(exclusive=True)
    assert tops.topsLaunchExecutable(**row)[0] == tops.topsErrorLaunchOutOfResources
    assert tops.topsLaunchExecutable(**{**row, "res": bundle})[0] == 0
    tops.check(tops.topsDeviceSetResource(bundle))
    assert tops.topsLaunchExecutable(**row)[0] == 0
    tops.check(tops.topsDeviceSetResource(None))
    tops.check(tops.topsDestroyResource(bundle))
    assert tops.topsLaunchExecutable(**{**row, "res": bundle})[0] == DEAD
    assert tops.topsLaunchExecutable(**row)[0] == 0


def test_launches_carry_the_profile_meta_of_their_compilation(world):
    """The record is named after the compilation id that the executable was built with, and the trace has the note."""
    tops.check(tops.topsExtSetProfileMeta(b"tiled 4 x 4", 11, 7))
    data = object_api.build(linear(), ranges={"n": (5, 5)}, compilation_id=7).to_bytes()
    tops.check(tops.topsLaunchExecutable(**launch(data)))
    names = [each.name for each in world.driver.tracer.records() if each.kind is Kind.LAUNCH]
    assert names == ["compilation 7"]
    assert dict(world.driver.tracer.snapshot().names.notes) == {"compilation 7": "tiled 4 x 4"}
