"""Constants and refit of executables as C-style calls (TOPS Runtime API, 2.11)."""

from __future__ import annotations

import json
from typing import ClassVar

import numpy as np

import atops.tops as tops
from tests.runtime.boards import PATIENCE, Latch
from tests.runtime.executable_models import BIAS, WEIGHT
from tests.tops.conformance import Case, Conformance
from tests.tops.executable_calls import LAYER, ROWS, STIFF, download, launch, opened, upload

INVALID, DEAD = tops.topsErrorInvalidValue, tops.topsErrorInvalidHandle
STATE, NEVER = tops.topsErrorIllegalState, tops.topsErrorNotSupported
NEW = np.array([7, 8, 9], np.float32)


def begun(data=LAYER):
    """Return an executable whose refit has begun."""
    exe = opened(data)
    tops.check(tops.topsExecutableGetConstManagedData(exe))
    return exe


def asked():
    """Return an executable whose functions may be called."""
    exe = begun()
    tops.check(tops.topsExecutableGetSubFuncInfo(exe))
    return exe


def write(exe, bias=NEW):
    """Store a new bias in the executable's pinned memory, and set its flag."""
    count, names, [address], [size], uids, [flag] = tops.check(tops.topsExecutableGetConstManagedData(exe))
    assert (count, names, size, uids) == (1, ["b"], 12, [1])
    tops.host_view(address, size).view(np.float32)[:] = bias
    tops.host_view(flag, 1)[:] = 1


def updated(exe=None):
    """Return an executable whose new constants are on the device."""
    exe = begun() if exe is None else exe
    write(exe)
    tops.check(tops.topsExecutableUpdateRuntimeResource(exe, None, None))
    return exe


def call(**given):
    """Return the arguments of a call of the model's function, good but for what is given."""

    def make(world):
        row = {
            "exe": lambda w: asked(), "func_name": "scaled",
            "inputs": lambda w: [upload(BIAS), upload(np.array([10], np.float32))], "input_count": 2,
            "input_dims": [3], "input_rank": [1, 0], "outputs": lambda w: [tops.check(tops.topsMalloc(12))],
            "output_count": 1, "stream": None, **given,
        }  # fmt: skip
        return tuple(value(world) if callable(value) else value for value in row.values())

    return make


def registered(world):
    """Return registered host memory."""
    array = np.zeros(3, np.float32)
    world.keep.append(array)
    tops.check(tops.topsHostRegister(array, array.nbytes, 0))
    return [array.ctypes.data]


def objects(world):
    """Return memory of the object API."""
    world.keep.append(world.device.allocate(12))
    return [world.keep[-1].address]


class TestExecutableRefit(Conformance):
    """Constants and refit, by their rows."""

    good: ClassVar = {
        "topsExecutableLoadConstData": lambda world: (opened(), None),
        "topsExecutableGetRefitFlag": lambda world: (opened(),),
        "topsExecutableGetConstManagedData": lambda world: (opened(),),
        "topsExecutableGetSubFuncInfo": lambda world: (begun(),),
        "topsExecutableCallSubFunc": call(),
        "topsExecutableUpdateRuntimeResource": lambda world: (begun(), None, None),
        "topsExecutableUpdateConstantKey": lambda world: (updated(),),
    }
    nullable = frozenset(
        {
            ("topsExecutableLoadConstData", "res"),
            ("topsExecutableUpdateRuntimeResource", "res"),
        }
    )
    bad = (
        Case("topsExecutableLoadConstData", "dead resource", lambda w: (opened(), 1 << 60), DEAD),
        Case("topsExecutableGetConstManagedData", "built without", lambda w: (opened(STIFF),), NEVER),
        Case("topsExecutableGetSubFuncInfo", "built without", lambda w: (opened(STIFF),), NEVER),
        Case("topsExecutableGetSubFuncInfo", "not begun", lambda w: (opened(),), STATE),
        Case("topsExecutableGetSubFuncInfo", "updated", lambda w: (updated(),), STATE),
        Case("topsExecutableCallSubFunc", "built without", call(exe=lambda w: opened(STIFF)), NEVER),
        Case("topsExecutableCallSubFunc", "not begun", call(exe=lambda w: opened()), STATE),
        Case("topsExecutableCallSubFunc", "not asked", call(exe=lambda w: begun()), STATE),
        Case("topsExecutableCallSubFunc", "updated", call(exe=lambda w: updated(asked())), STATE),
        Case("topsExecutableCallSubFunc", "no function", call(func_name="squared"), tops.topsErrorNotFound),
        Case("topsExecutableCallSubFunc", "one input", call(inputs=lambda w: [upload(BIAS)], input_count=1), INVALID),
        Case("topsExecutableCallSubFunc", "count of one", call(input_count=1), INVALID),
        Case("topsExecutableCallSubFunc", "no output", call(outputs=lambda w: [], output_count=0), INVALID),
        Case("topsExecutableCallSubFunc", "more than memory", call(input_dims=[4]), INVALID),
        Case("topsExecutableCallSubFunc", "ranks of one", call(input_rank=[1]), INVALID),
        Case("topsExecutableCallSubFunc", "registered memory", call(outputs=registered), INVALID),
        Case("topsExecutableCallSubFunc", "memory of the object API", call(outputs=objects), INVALID),
        Case("topsExecutableCallSubFunc", "pageable memory", call(outputs=lambda w: [np.zeros(3)]), INVALID),
        Case("topsExecutableCallSubFunc", "dead stream", call(stream=1 << 60), DEAD),
        Case("topsExecutableUpdateRuntimeResource", "built without", lambda w: (opened(STIFF), None, None), NEVER),
        Case("topsExecutableUpdateRuntimeResource", "not begun", lambda w: (opened(), None, None), STATE),
        Case("topsExecutableUpdateRuntimeResource", "dead resource", lambda w: (begun(), 1 << 60, None), DEAD),
        Case("topsExecutableUpdateRuntimeResource", "dead stream", lambda w: (begun(), None, 1 << 60), DEAD),
        Case("topsExecutableUpdateConstantKey", "built without", lambda w: (opened(STIFF),), NEVER),
        Case("topsExecutableUpdateConstantKey", "not begun", lambda w: (opened(),), STATE),
        Case("topsExecutableUpdateConstantKey", "not updated", lambda w: (begun(),), STATE),
        Case("topsExecutableUpdateConstantKey", "twice", lambda w: (renewed(updated()),), STATE),
    )


def renewed(exe):
    """Return the executable with a new key."""
    tops.check(tops.topsExecutableUpdateConstantKey(exe))
    return exe


def result(exe):
    """Run the layer and return what comes out."""
    row = launch(exe=exe)
    tops.check(tops.topsLaunchExecutable(**row))
    return download(row["outputs"][0], (5, 3))


def test_loaded_constants_are_the_file_s(world):
    """Each has its own memory, in the order of the table; loading twice gives others."""
    exe = opened()
    pointers, count = tops.check(tops.topsExecutableLoadConstData(exe, None))
    again, _ = tops.check(tops.topsExecutableLoadConstData(exe, None))
    assert count == len(pointers) == len({*pointers, *again}) - 2 == 2
    assert (download(pointers[0], (4, 3)) == WEIGHT).all()
    assert (download(pointers[1], 3) == BIAS).all()
    for pointer in (*pointers, *again):
        assert tops.topsFree(pointer) == (0,)


def test_loading_into_a_bundle(world):
    """The memory is of what the bundle reserves."""
    bundle = tops.topsResourceBundle_t(
        mode=tops.TOPS_RES_BUNDLE_MODE__CLUSTER, cluster_num=1, hbm_mem_size=1 << 20
    )
    res = tops.check(tops.topsCreateResource(tops.topsResourceRequest_t(res_bundle_cfg=bundle)))
    free = tops.check(tops.topsMemGetInfo())[0]
    pointers, _ = tops.check(tops.topsExecutableLoadConstData(opened(), res))
    assert tops.check(tops.topsMemGetInfo())[0] == free
    for pointer in pointers:
        assert tops.topsFree(pointer) == (0,)


def test_the_flag_says_how_it_was_built(world):
    """1 where refit is possible."""
    assert tops.topsExecutableGetRefitFlag(opened()) == (0, 1)
    assert tops.topsExecutableGetRefitFlag(opened(STIFF)) == (0, 0)


def test_the_text_tells_the_functions(world):
    """As JSON, with its size, and a flat list of how many inputs and outputs each has."""
    text, size, counts, count = tops.check(tops.topsExecutableGetSubFuncInfo(begun()))
    assert size == len(text)
    assert (counts, count) == ([2, 1], 2)
    [function] = json.loads(text)
    assert function["name"] == "scaled"
    assert [each["name"] for each in function["inputs"]] == ["values", "factor"]
    assert function["outputs"] == [{"name": "result", "dtype": "float32"}]


def test_a_whole_refit(world, tmp_path):
    """Values are computed by a function, taken over, seen by launches, and saved with a new key."""
    exe = opened()
    assert (result(exe) == result(opened())).all()
    _, _, [address], [size], _, [flag] = tops.check(tops.topsExecutableGetConstManagedData(exe))
    assert (tops.host_view(address, size).view(np.float32) == BIAS).all()
    tops.check(tops.topsExecutableGetSubFuncInfo(exe))
    values, factor, made = upload(BIAS), upload(np.array([10], np.float32)), tops.check(tops.topsHostMalloc(12, 0))
    called = tops.topsExecutableCallSubFunc(exe, b"scaled", [values, factor], None, [3], [1, 0], [made], None, None)
    assert called == (0,)
    tops.check(tops.topsDeviceSynchronize())
    tops.host_view(address, size)[:] = tops.host_view(made, 12)
    tops.host_view(flag, 1)[:] = 1
    stream = tops.check(tops.topsStreamCreate())
    tops.check(tops.topsExecutableUpdateRuntimeResource(exe, None, stream))
    assert tops.host_view(flag, 1)[0] == 0
    np.testing.assert_allclose(result(exe), ROWS @ WEIGHT + BIAS * 10, rtol=1e-5)
    path = tmp_path / "layer.exe"
    assert tops.topsExecutableSaveToFile(exe, path) == (STATE,)
    assert not path.exists()
    tops.check(tops.topsExecutableUpdateConstantKey(exe))
    tops.check(tops.topsExecutableSaveToFile(exe, path))
    again = tops.check(tops.topsCreateExecutableFromFile(path))
    np.testing.assert_allclose(result(again), ROWS @ WEIGHT + BIAS * 10, rtol=1e-5)


def test_an_update_is_in_stream_order(world):
    """Launches enqueued before it keep the old constants though they run later."""
    exe = opened()
    result(exe)
    write(exe)
    latch, held = Latch(world.device), world.device.create_stream(nonblocking=True)
    other = world.device.create_stream(nonblocking=True)
    before, after = launch(exe=exe, stream=held), launch(exe=exe, stream=other)
    latch.hold(held)
    tops.check(tops.topsLaunchExecutableV3(**before))
    tops.check(tops.topsExecutableUpdateRuntimeResource(exe, None, other))
    tops.check(tops.topsLaunchExecutableV3(**after))
    other.sync(PATIENCE)
    latch.open()
    held.sync(PATIENCE)
    np.testing.assert_allclose(download(after["outputs"][0], (5, 3)), ROWS @ WEIGHT + NEW, rtol=1e-5)
    np.testing.assert_allclose(download(before["outputs"][0], (5, 3)), ROWS @ WEIGHT + BIAS, rtol=1e-5)


def test_the_memory_of_constants_is_the_executable_s(world):
    """It is not for topsHostFree; it goes with the executable."""
    exe = opened()
    _, _, [address], *_ = tops.check(tops.topsExecutableGetConstManagedData(exe))
    assert tops.topsHostFree(address) == (INVALID,)
    tops.check(tops.topsDestroyExecutable(exe))
    assert tops.topsHostGetDevicePointer(address, 0) == (INVALID, None)
