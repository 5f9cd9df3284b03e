"""Every HIP function by its rows: calls that succeed, each documented code, null, wrong types, dead handles."""

from __future__ import annotations

import ctypes
import inspect
import re
from pathlib import Path
from runpy import run_path
from typing import Any, ClassVar, get_args

import numpy as np

import atops
import atops.tops as tops
from atops import kernels
from atops.base.result_codes import Result
from atops.bridge.handles import stream_of
from atops.hip import aio, hip
from atops.hip.functions.api import TWINS
from atops.hip.header.functions import FUNCTIONS
from tests.every import every
from tests.runtime.boards import Latch
from tests.tops.conformance import Case, Conformance, World, implementation

E = hip.hipError_t
H2D, D2H = hip.hipMemcpyKind.hipMemcpyHostToDevice, hip.hipMemcpyKind.hipMemcpyDeviceToHost
D2D = hip.hipMemcpyKind.hipMemcpyDeviceToDevice
DEFAULTS = {
    "0": 0, "NULL": None, "0xFFFFFFFF": 0xFFFFFFFF, "0xFFFFFFFFFFFFFFFF": (1 << 64) - 1, "hipMemAttachGlobal": 1,
    "hipMemcpyHostToDevice": H2D, "hipMemcpyDeviceToHost": D2H,
}  # fmt: skip
SIZE = 64
ROOT = Path(__file__).resolve().parents[2]


def stream(world: World) -> int:
    """Return a new stream that takes no part in null-stream order."""
    return hip.check(hip.hipStreamCreateWithFlags(hip.hipStreamNonBlocking))


def event(world: World) -> int:
    """Return a new event."""
    return hip.check(hip.hipEventCreate())


def memory(world: World) -> int:
    """Return a pointer to new memory."""
    return hip.check(hip.hipMalloc(SIZE))


def pool(world: World, **fields: Any) -> int:
    """Return a new pool."""
    return hip.check(hip.hipMemPoolCreate(props(world, **fields)))


def props(world: World, **fields: Any) -> Any:
    """Return what a pool is made of, with other fields."""
    made = hip.hipMemPoolProps(1, 0, hip.hipMemLocation(1, 0))
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def held(world: World) -> int:
    """Return a stream that a latch holds."""
    handle = stream(world)
    latch = Latch(world.device)
    latch.hold(stream_of(handle))
    world.keep.append(latch)
    return handle


def recorded(handle: int) -> int:
    """Return an event recorded in a stream."""
    made = hip.check(hip.hipEventCreate())
    hip.check(hip.hipEventRecord(made, handle))
    return made


def done(world: World) -> int:
    """Return an event that is complete."""
    made = recorded(0)
    hip.check(hip.hipEventSynchronize(made))
    return made


def host() -> np.ndarray:
    """Return host memory."""
    return np.zeros(SIZE, np.uint8)


def dead_stream(world: World) -> int:
    """Return the handle of a stream that was destroyed."""
    made = stream(world)
    hip.check(hip.hipStreamDestroy(made))
    return made


def registered(world: World) -> np.ndarray:
    """Return registered host memory."""
    array = host()
    hip.check(hip.hipHostRegister(array, SIZE, 0))
    world.keep.append(array)
    return array


class TestStreams(Conformance):
    """Streams, callbacks, words."""

    good: ClassVar = {
        "hipStreamCreate": (),
        "hipStreamCreateWithFlags": (1,),
        "hipStreamCreateWithPriority": (1, -1),
        "hipDeviceGetStreamPriorityRange": (),
        "hipStreamDestroy": lambda world: (stream(world),),
        "hipStreamQuery": lambda world: (stream(world),),
        "hipStreamSynchronize": lambda world: (stream(world),),
        "hipStreamWaitEvent": lambda world: (stream(world), event(world), 0),
        "hipStreamGetFlags": lambda world: (stream(world),),
        "hipStreamGetPriority": lambda world: (stream(world),),
        "hipExtStreamCreateWithCUMask": (1, [0x3003]),
        "hipExtStreamGetCUMask": lambda world: (stream(world), 1, (ctypes.c_uint32 * 1)()),
        "hipStreamAddCallback": lambda world: (stream(world), lambda *_: None, None, 0),
        "hipStreamWaitValue32": lambda world: (stream(world), memory(world), 0, 0, 0xFFFFFFFF),
        "hipStreamWaitValue64": lambda world: (stream(world), memory(world), 0, 0, 0xFFFFFFFF),
        "hipStreamWriteValue32": lambda world: (stream(world), memory(world), 1, 0),
        "hipStreamWriteValue64": lambda world: (stream(world), memory(world), 1, 0),
        "hipStreamGetDevice": lambda world: (stream(world),),
        "hipLaunchHostFunc": lambda world: (stream(world), lambda _: None, None),
    }
    bad: ClassVar = (
        Case("hipStreamCreateWithFlags", "other bits", (2,), E.hipErrorInvalidValue),
        Case("hipStreamCreateWithPriority", "other bits", (2, 0), E.hipErrorInvalidValue),
        Case("hipStreamDestroy", "the null stream", (None,), E.hipErrorInvalidHandle),
        Case("hipStreamQuery", "dead", lambda world: (dead_stream(world),), E.hipErrorInvalidHandle),
        Case("hipStreamQuery", "held", lambda world: (held(world),), E.hipErrorNotReady),
        Case("hipStreamSynchronize", "dead", lambda world: (dead_stream(world),), E.hipErrorInvalidHandle),
        Case("hipStreamWaitEvent", "no event", (None, None, 0), E.hipErrorInvalidHandle),
        Case("hipStreamGetFlags", "dead", lambda world: (dead_stream(world),), E.hipErrorInvalidHandle),
        Case("hipStreamGetPriority", "dead", lambda world: (dead_stream(world),), E.hipErrorInvalidHandle),
        Case("hipExtStreamCreateWithCUMask", "no words", (0, [1]), E.hipErrorInvalidValue),
        Case("hipExtStreamCreateWithCUMask", "null", (1, None), E.hipErrorInvalidValue),
        Case("hipExtStreamCreateWithCUMask", "other SIPs in each cluster", (1, [0x1003]), E.hipErrorInvalidValue),
        Case("hipExtStreamGetCUMask", "null", (None, 1, None), E.hipErrorInvalidValue),
        Case("hipExtStreamGetCUMask", "no room", (None, 0, host()), E.hipErrorInvalidValue),
        Case("hipExtStreamGetCUMask", "dead", lambda w: (dead_stream(w), 1, host()), E.hipErrorInvalidHandle),
        Case("hipStreamAddCallback", "flags", (None, print, None, 1), E.hipErrorInvalidValue),
        Case("hipStreamAddCallback", "dead", lambda w: (dead_stream(w), print, None, 0), E.hipErrorInvalidHandle),
        Case("hipStreamAddCallback", "coroutine", (None, TWINS["hipFree"], None, 0), E.hipErrorNotSupported),
        Case("hipLaunchHostFunc", "no function", (None, 7, None), E.hipErrorInvalidValue),
        Case("hipStreamWaitValue32", "flags", lambda w: (None, memory(w), 0, 4), E.hipErrorInvalidValue),
        Case("hipStreamWaitValue32", "33 bits", lambda w: (None, memory(w), 1 << 32, 0), E.hipErrorInvalidValue),
        Case("hipStreamWaitValue64", "not aligned", lambda w: (None, memory(w) + 4, 0, 0), E.hipErrorInvalidValue),
        Case("hipStreamWriteValue32", "null", (None, None, 0, 0), E.hipErrorInvalidValue),
        Case("hipStreamWriteValue64", "the end", lambda w: (None, memory(w) + SIZE, 0, 0), E.hipErrorInvalidValue),
    )
    unreachable: ClassVar = {
        ("hipStreamCreate", Result.InvalidValue): "it takes no argument",
        ("hipStreamGetFlags", Result.InvalidValue): "the result is returned, and not stored behind a pointer",
        ("hipStreamGetPriority", Result.InvalidValue): "the result is returned, and not stored behind a pointer",
        ("hipExtStreamCreateWithCUMask", Result.InvalidHandle): "it takes no handle",
    }
    anything: ClassVar = frozenset({("hipStreamAddCallback", "userData"), ("hipLaunchHostFunc", "userData")})


class TestPools(Conformance):
    """Pools, and allocations in stream order."""

    good: ClassVar = {
        "hipMallocAsync": (SIZE, None),
        "hipFreeAsync": lambda world: (hip.check(hip.hipMallocAsync(SIZE, None)), None),
        "hipMemPoolTrimTo": lambda world: (pool(world), 0),
        "hipMemPoolSetAttribute": lambda world: (pool(world), 4, ctypes.c_uint64(1 << 20)),
        "hipMemPoolGetAttribute": lambda world: (pool(world), 4, ctypes.c_uint64()),
        "hipMemPoolSetAccess": lambda w: (pool(w), [hip.hipMemAccessDesc(hip.hipMemLocation(1, 1), 3)], 1),
        "hipMemPoolGetAccess": lambda world: (pool(world), hip.hipMemLocation(1, 1)),
        "hipMemPoolCreate": lambda world: (props(world),),
        "hipMemPoolDestroy": lambda world: (pool(world),),
        "hipMallocFromPoolAsync": lambda world: (SIZE, pool(world), None),
        "hipDeviceGetDefaultMemPool": (0,),
        "hipDeviceGetMemPool": (1,),
        "hipDeviceSetMemPool": lambda world: (0, pool(world)),
    }
    bad: ClassVar = (
        Case("hipMallocAsync", "negative", (-1, None), E.hipErrorInvalidValue),
        Case("hipMallocAsync", "too much", (1 << 50, None), E.hipErrorOutOfMemory),
        Case("hipMallocAsync", "dead stream", lambda w: (8, dead_stream(w)), E.hipErrorInvalidHandle),
        Case("hipFreeAsync", "null", (None, None), E.hipErrorInvalidValue),
        Case("hipFreeAsync", "interior", lambda w: (memory(w) + 1, None), E.hipErrorInvalidValue),
        Case("hipMemPoolTrimTo", "null", (None, 0), E.hipErrorInvalidValue),
        Case("hipMemPoolSetAttribute", "only read", lambda w: (pool(w), 5, ctypes.c_uint64()), E.hipErrorInvalidValue),
        Case("hipMemPoolSetAttribute", "a peak", lambda w: (pool(w), 6, ctypes.c_uint64(1)), E.hipErrorInvalidValue),
        Case("hipMemPoolGetAttribute", "too small", lambda w: (pool(w), 4, ctypes.c_int()), E.hipErrorInvalidValue),
        Case("hipMemPoolGetAttribute", "none such", lambda w: (pool(w), 9, ctypes.c_uint64()), E.hipErrorInvalidValue),
        Case("hipMemPoolSetAccess", "its own device",
             lambda w: (pool(w), hip.hipMemAccessDesc(hip.hipMemLocation(1, 0), 0), 1), E.hipErrorInvalidDevice),
        Case("hipMemPoolSetAccess", "count",
             lambda w: (pool(w), hip.hipMemAccessDesc(hip.hipMemLocation(1, 1), 3), 2), E.hipErrorInvalidValue),
        *(
            Case("hipMemPoolSetAccess", what, lambda w, desc=desc, count=count: (pool(w), desc, count), code)
            for what, desc, count, code in (
                ("more than devices", hip.hipMemAccessDesc(hip.hipMemLocation(1, 0), 3), 3, E.hipErrorInvalidDevice),
                ("no device", hip.hipMemAccessDesc(hip.hipMemLocation(1, 2), 3), 1, E.hipErrorInvalidDevice),
                ("below the devices", hip.hipMemAccessDesc(hip.hipMemLocation(1, -1), 3), 1, E.hipErrorInvalidDevice),
                ("location", hip.hipMemAccessDesc(hip.hipMemLocation(0, 0), 3), 1, E.hipErrorInvalidValue),
                ("access", hip.hipMemAccessDesc(hip.hipMemLocation(1, 0), 0xFFFF), 1, E.hipErrorInvalidValue),
            )
        ),
        Case("hipMemPoolGetAccess", "no device", lambda w: (pool(w), hip.hipMemLocation(1, 9)), E.hipErrorInvalidValue),
        Case("hipMemPoolCreate", "type", lambda w: (props(w, allocType=0),), E.hipErrorInvalidValue),
        Case("hipMemPoolCreate", "place", lambda w: (props(w, location=hip.hipMemLocation(0, 0)),),
             E.hipErrorInvalidValue),
        Case("hipMemPoolCreate", "no place", lambda w: (props(w, location=None),), E.hipErrorInvalidValue),
        Case("hipMemPoolCreate", "shared", lambda w: (props(w, handleTypes=2),), E.hipErrorNotSupported),
        Case("hipMemPoolDestroy", "the default pool",
             lambda w: (hip.check(hip.hipDeviceGetDefaultMemPool(0)),), E.hipErrorInvalidValue),
        Case("hipMallocFromPoolAsync", "no pool", (8, 7, None), E.hipErrorInvalidValue),
        Case("hipMallocFromPoolAsync", "more than it has", lambda w: (1 << 30, pool(w, maxSize=1 << 20), None),
             E.hipErrorOutOfMemory),
        Case("hipDeviceGetDefaultMemPool", "no device", (2,), E.hipErrorInvalidDevice),
        Case("hipDeviceGetMemPool", "no device", (2,), E.hipErrorInvalidValue),
        Case("hipDeviceSetMemPool", "no device", lambda w: (2, pool(w)), E.hipErrorInvalidValue),
        Case("hipDeviceSetMemPool", "of another device", lambda w: (1, pool(w)), E.hipErrorInvalidValue),
    )  # fmt: skip
    unreachable: ClassVar = {
        ("hipMallocAsync", Result.NotSupported): "every device has pools",
        ("hipFreeAsync", Result.NotSupported): "every device has pools",
        ("hipMallocFromPoolAsync", Result.NotSupported): "every device has pools",
    }


class TestDevices(Conformance):
    """Devices and errors."""

    good: ClassVar = {
        "hipInit": (0,), "hipDriverGetVersion": (), "hipRuntimeGetVersion": (), "hipGetDeviceCount": (),
        "hipSetDevice": (0,), "hipGetDevice": (), "hipGetDeviceProperties": lambda w: (hip.hipDeviceProp_t(), 0),
        "hipDeviceGetAttribute": (hip.hipDeviceAttribute_t.hipDeviceAttributeWarpSize, 0),
        "hipDeviceGetName": lambda w: (bytearray(64), 64, 0), "hipDeviceGet": (1,), "hipDeviceSynchronize": (),
        "hipDeviceReset": (), "hipGetDeviceFlags": (), "hipSetDeviceFlags": (hip.hipDeviceScheduleYield,),
        "hipDeviceCanAccessPeer": (0, 1), "hipDeviceEnablePeerAccess": (1, 0),
        "hipDeviceDisablePeerAccess": lambda w: (hip.hipDeviceEnablePeerAccess(1, 0), 1)[1:],
        "hipDeviceTotalMem": (0,), "hipGetLastError": (), "hipPeekAtLastError": (), "hipGetErrorName": (1,),
        "hipGetErrorString": (1,),
    }  # fmt: skip
    bad: ClassVar = (
        Case("hipInit", "flags", (1,), E.hipErrorInvalidValue),
        Case("hipSetDevice", "no device", (2,), E.hipErrorInvalidDevice),
        Case("hipGetDeviceProperties", "no device", lambda w: (hip.hipDeviceProp_t(), 2), E.hipErrorInvalidDevice),
        Case("hipGetDeviceProperties", "null", (None, 0), E.hipErrorInvalidValue),
        Case("hipDeviceGetAttribute", "no device", (87, 2), E.hipErrorInvalidDevice),
        Case("hipDeviceGetAttribute", "a bound", (9999, 0), E.hipErrorInvalidValue),
        Case("hipDeviceGetName", "no device", lambda w: (bytearray(8), 8, 2), E.hipErrorInvalidDevice),
        Case("hipDeviceGetName", "no room", lambda w: (bytearray(8), 0, 0), E.hipErrorInvalidValue),
        Case("hipDeviceGet", "no device", (2,), E.hipErrorInvalidDevice),
        Case("hipSetDeviceFlags", "two", (3,), E.hipErrorInvalidValue),
        Case("hipSetDeviceFlags", "active", lambda w: (held(w) and 1,), E.hipErrorSetOnActiveProcess),
        Case("hipDeviceCanAccessPeer", "no device", (0, 2), E.hipErrorInvalidDevice),
        Case("hipDeviceEnablePeerAccess", "itself", (0, 0), E.hipErrorInvalidDevice),
        Case("hipDeviceEnablePeerAccess", "flags", (1, 1), E.hipErrorInvalidValue),
        Case("hipDeviceEnablePeerAccess", "twice", lambda w: (hip.check(hip.hipDeviceEnablePeerAccess(1, 0)) or 1, 0),
             E.hipErrorPeerAccessAlreadyEnabled),
        Case("hipDeviceDisablePeerAccess", "itself", (0,), E.hipErrorInvalidDevice),
        Case("hipDeviceDisablePeerAccess", "not enabled", (1,), E.hipErrorPeerAccessNotEnabled),
        Case("hipDeviceTotalMem", "no device", (2,), E.hipErrorInvalidDevice),
    )  # fmt: skip
    unreachable: ClassVar = {("hipGetDeviceCount", Result.NoDevice): "only a board without devices: test_no_device"}
    anything: ClassVar = frozenset({("hipGetErrorName", "hip_error"), ("hipGetErrorString", "hipError")})


class TestEvents(Conformance):
    """Events."""

    good: ClassVar = {
        "hipEventCreate": (),
        "hipEventCreateWithFlags": (hip.hipEventDisableTiming | hip.hipEventDisableSystemFence,),
        "hipEventRecord": lambda w: (event(w), stream(w)),
        "hipEventQuery": lambda w: (done(w),),
        "hipEventSynchronize": lambda w: (recorded(0),),
        "hipEventElapsedTime": lambda w: (done(w), done(w)),
        "hipEventDestroy": lambda w: (event(w),),
    }
    bad: ClassVar = (
        Case("hipEventCreateWithFlags", "bits", (8,), E.hipErrorInvalidValue),
        Case("hipEventRecord", "null", (None, None), E.hipErrorInvalidHandle),
        Case("hipEventQuery", "null", (None,), E.hipErrorInvalidHandle),
        Case("hipEventQuery", "pending", lambda w: (recorded(held(w)),), E.hipErrorNotReady),
        Case("hipEventSynchronize", "null", (None,), E.hipErrorInvalidHandle),
        Case("hipEventElapsedTime", "never recorded", lambda w: (event(w), done(w)), E.hipErrorInvalidHandle),
        Case("hipEventElapsedTime", "pending", lambda w: (done(w), recorded(held(w))), E.hipErrorNotReady),
        Case("hipEventDestroy", "null", (None,), E.hipErrorInvalidHandle),
    )


class TestMemory(Conformance):
    """Memory of devices and of hosts."""

    good: ClassVar = {
        "hipMalloc": (SIZE,), "hipFree": lambda w: (memory(w),), "hipMallocManaged": (SIZE, 1),
        "hipHostMalloc": (SIZE, 0), "hipHostFree": lambda w: (hip.check(hip.hipHostMalloc(SIZE, 0)),),
        "hipHostRegister": lambda w: (w.keep.append(host()) or w.keep[-1], SIZE, 0),
        "hipHostUnregister": lambda w: (registered(w),), "hipHostGetDevicePointer": lambda w: (registered(w), 0),
        "hipHostGetFlags": lambda w: (registered(w),), "hipMemGetInfo": (),
        "hipPointerGetAttributes": lambda w: (memory(w),),
        "hipPointerGetAttribute": lambda w: (host(), 12, memory(w)),
        "hipMemAdvise": lambda w: (memory(w), SIZE, hip.hipMemoryAdvise.hipMemAdviseSetReadMostly, -1),
        "hipMemPrefetchAsync": lambda w: (memory(w), SIZE, 0, None),
    }  # fmt: skip
    hosts: ClassVar = frozenset({"hipMemAdvise", "hipMemPrefetchAsync"})
    bad: ClassVar = (
        Case("hipMalloc", "negative", (-1,), E.hipErrorInvalidValue),
        Case("hipMalloc", "too much", (1 << 50,), E.hipErrorOutOfMemory),
        Case("hipFree", "interior", lambda w: (memory(w) + 1,), E.hipErrorInvalidValue),
        Case("hipMallocManaged", "flags", (SIZE, 0), E.hipErrorInvalidValue),
        Case("hipHostMalloc", "flags", (SIZE, 8), E.hipErrorInvalidValue),
        Case("hipHostFree", "of a device", lambda w: (memory(w),), E.hipErrorInvalidValue),
        Case("hipHostRegister", "empty", lambda w: (host(), 0, 0), E.hipErrorInvalidValue),
        Case("hipHostRegister", "device memory", lambda w: (host(), SIZE, 4), E.hipErrorNotSupported),
        Case("hipHostRegister", "twice", lambda w: (registered(w), SIZE, 0), E.hipErrorHostMemoryAlreadyRegistered),
        Case("hipHostUnregister", "null", (None,), E.hipErrorInvalidValue),
        Case("hipHostUnregister", "not registered", lambda w: (host(),), E.hipErrorHostMemoryNotRegistered),
        Case("hipHostGetDevicePointer", "pageable", lambda w: (host(), 0), E.hipErrorInvalidValue),
        Case("hipHostGetFlags", "pageable", lambda w: (host(),), E.hipErrorInvalidValue),
        Case("hipPointerGetAttributes", "unknown", (12345,), E.hipErrorInvalidValue),
        Case("hipPointerGetAttribute", "no attribute", lambda w: (host(), 99, memory(w)), E.hipErrorInvalidValue),
        Case("hipPointerGetAttribute", "no host pointer", lambda w: (host(), 4, memory(w)), E.hipErrorInvalidValue),
        Case("hipMemAdvise", "no advice", lambda w: (memory(w), SIZE, 99, 0), E.hipErrorInvalidValue),
        Case("hipMemAdvise", "no device", lambda w: (memory(w), SIZE, 1, 2), E.hipErrorInvalidDevice),
        Case("hipMemPrefetchAsync", "too much", lambda w: (memory(w), SIZE + 1, 0, 0), E.hipErrorInvalidValue),
        Case("hipMemPrefetchAsync", "no device", lambda w: (memory(w), SIZE, 2, 0), E.hipErrorInvalidDevice),
    )
    nullable: ClassVar = frozenset({("hipFree", "ptr"), ("hipHostFree", "ptr")})


def _pair(world: World) -> tuple[int, int]:
    return memory(world), memory(world)


WRONG = "memory of the other kind, or none"


class TestCopies(Conformance):
    """Copies and fills."""

    good: ClassVar = {
        "hipMemcpy": lambda w: (memory(w), host(), SIZE, H2D),
        "hipMemcpyAsync": lambda w: (host(), memory(w), SIZE, D2H, stream(w)),
        "hipMemcpyWithStream": lambda w: (*_pair(w), SIZE, D2D, None),
        "hipMemcpyHtoD": lambda w: (memory(w), host(), SIZE),
        "hipMemcpyDtoH": lambda w: (host(), memory(w), SIZE),
        "hipMemcpyDtoD": lambda w: (*_pair(w), SIZE),
        "hipMemcpyHtoDAsync": lambda w: (memory(w), host(), SIZE, None),
        "hipMemcpyDtoHAsync": lambda w: (host(), memory(w), SIZE, None),
        "hipMemcpyDtoDAsync": lambda w: (*_pair(w), SIZE, None),
        "hipMemcpyPeer": lambda w: (memory(w), 0, memory(w), 0, SIZE),
        "hipMemcpyPeerAsync": lambda w: (memory(w), 0, memory(w), 0, SIZE, None),
        **{
            f"hipMemset{width}{form}": filled
            for width in ("", "D8", "D16", "D32")
            for form, filled in (("", lambda w: (memory(w), 1, 4)), ("Async", lambda w: (memory(w), 1, 4, None)))
        },
    }
    bad: ClassVar = (
        Case("hipMemcpy", "null", (None, None, SIZE, H2D), E.hipErrorInvalidValue),
        Case("hipMemcpy", "kind", lambda w: (memory(w), host(), SIZE, 9), E.hipErrorInvalidMemcpyDirection),
        Case("hipMemcpyAsync", "null", (None, None, SIZE, H2D), E.hipErrorInvalidValue),
        Case("hipMemcpyAsync", "kind", lambda w: (memory(w), host(), SIZE, D2H), E.hipErrorInvalidMemcpyDirection),
        Case("hipMemcpyWithStream", "null", (None, None, SIZE, H2D, None), E.hipErrorInvalidValue),
        Case("hipMemcpyWithStream", "kind", lambda w: (memory(w), host(), 4, 9, 0), E.hipErrorInvalidMemcpyDirection),
        Case("hipMemcpyHtoD", WRONG, lambda w: (host(), host(), SIZE), E.hipErrorInvalidValue),
        Case("hipMemcpyDtoH", WRONG, lambda w: (memory(w), memory(w), SIZE), E.hipErrorInvalidValue),
        Case("hipMemcpyDtoD", WRONG, lambda w: (memory(w), host(), SIZE), E.hipErrorInvalidValue),
        Case("hipMemcpyHtoDAsync", WRONG, lambda w: (host(), host(), SIZE, None), E.hipErrorInvalidValue),
        Case("hipMemcpyDtoHAsync", WRONG, lambda w: (memory(w), memory(w), SIZE, None), E.hipErrorInvalidValue),
        Case("hipMemcpyDtoDAsync", WRONG, lambda w: (memory(w), host(), SIZE, None), E.hipErrorInvalidValue),
        *(
            Case(name, what, arguments, code)
            for name in ("hipMemcpyPeer", "hipMemcpyPeerAsync")
            for what, arguments, code in (
                ("no device", lambda w: (memory(w), 2, memory(w), 0, SIZE), E.hipErrorInvalidDevice),
                ("too long", lambda w: (memory(w), 0, memory(w), 0, SIZE + 1), E.hipErrorInvalidValue),
            )
        ),
        *(
            Case(name, "null", (None, 1, 4), E.hipErrorInvalidValue)
            for name in good
            if name.startswith("hipMemset")
        ),
    )


@every("name", list(FUNCTIONS))
def test_signature(name):
    """A function takes the parameters of its row by their names in C, and tells that it returns a code and results."""
    signature = inspect.signature(implementation(name))
    expected = [(each.name, DEFAULTS.get(each.default, inspect.Parameter.empty)) for each in FUNCTIONS[name].parameters]
    assert [(each.name, each.default) for each in signature.parameters.values()] == expected
    code, *results = get_args(signature.return_annotation)
    assert code is hip.hipError_t and len(results) == FUNCTIONS[name].outs
    documented = implementation(name).__doc__
    assert documented and "tops" not in documented.replace("atops.tops", "").replace("TOPS", "")


@every("name", list(FUNCTIONS))
def test_twin(name):
    """A function has an awaitable twin if, and only if, its row says that it can block."""
    assert hasattr(aio, name) == (name in aio.__all__) == FUNCTIONS[name].waits
    if FUNCTIONS[name].waits:
        assert inspect.iscoroutinefunction(getattr(aio, name)) and getattr(aio, name) is TWINS[name]


def test_exports():
    """What is exported is listed, once, and nothing that is listed is missing."""
    assert all(hasattr(hip, name) for name in hip.__all__)
    functions = {name for name in hip.__all__ if name.startswith("hip") and inspect.isfunction(getattr(hip, name))}
    assert functions == set(FUNCTIONS)
    assert len(FUNCTIONS) == 132


def test_the_page_has_the_table_of_names():
    """docs/hip.md has what its script makes of the declarations; TOPS and the objects have the names."""
    names = run_path(str(ROOT / "docs" / "hip_names.py"))
    assert names["page"]() == names["PAGE"].read_text(encoding="utf-8"), "run: python docs/hip_names.py"
    assert {names["tops_name"](name) for name in FUNCTIONS} - {""} <= set(tops.__all__)
    assert set(names["OBJECTS"]) <= set(FUNCTIONS) and set(names["CUDA"]) | set(names["TOPS"]) <= set(FUNCTIONS)
    with atops.Device(0).create_stream() as stream:
        device = stream.device
        known = {
            "atops": atops, "k": kernels, "device": device, "stream": stream, "pool": device.default_pool,
            "event": device.create_event(), "buffer": device.empty(1), "module": kernels.Module,
        }  # fmt: skip
        for text in {names["objects_of"](name) for name in FUNCTIONS} - {""}:
            for owner, attribute in re.findall(r"\b(\w+)\.(\w+)", text):
                assert hasattr(known[owner], attribute), text
