"""Modules, launches and symbols by their rows; programs that compile, load and launch, as hip-python's do."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import atops.tops as tops
from atops import kernels as k
from atops.base.result_codes import Result
from atops.hip import hip, hiprtc
from tests.tops.conformance import Case, Conformance, World, new_world
from tests.tops.programs import EMPTY, IMAGE, SOURCE, contents, function, memory, module, nothing

E = hip.hipError_t
R = hiprtc.hiprtcResult
CONTEXT = "a device has one context, which is made when it is needed"
STARTS = "every call starts the runtime"
VARIABLE = k.device_variable(np.int32, [0] * 4)
H2D, D2H = hip.hipMemcpyKind.hipMemcpyHostToDevice, hip.hipMemcpyKind.hipMemcpyDeviceToHost


@k.cooperative
@k.kernel
async def meets(x: k.Span[np.int32], value: np.int32) -> None:
    """Store, meet all blocks, and count."""
    x[0] = value
    await k.syncblocks()


def gone(world: World) -> int:
    """Return the handle of a module that was unloaded."""
    handle = module(world)
    hip.check(hip.hipModuleUnload(handle))
    return handle


def launch(world: World, *instead: Any) -> tuple[Any, ...]:
    """Return the arguments of a launch of "fill" by grid."""
    return (function(world, "fill"), *EMPTY, *EMPTY, 0, None, [memory(world), np.float32(2), np.int32(4)], *instead)


def several(world: World, kind: Any, kernel: Any = nothing, **fields: Any) -> list[Any]:
    """Return a launch on each of the two devices."""
    made = []
    for device in (0, 1):
        hip.check(hip.hipSetDevice(device))
        stream = hip.check(hip.hipStreamCreateWithFlags(hip.hipStreamNonBlocking))
        if kind is hip.hipLaunchParams:
            made.append(kind(func=kernel, stream=stream, **fields))
        else:
            made.append(kind(function=function(world), hStream=stream, **fields))
    hip.check(hip.hipSetDevice(0))
    return made


def unlike(world: World, kind: Any, **fields: Any) -> list[Any]:
    """Return two such launches, of which the second has other fields."""
    made = several(world, kind)
    for name, value in fields.items():
        setattr(made[1], name, value)
    return made


UNLIKE = (
    {"grid": {"gridDimX": 2}, "block": {"blockDimZ": 2}, "memory": {"sharedMemBytes": 1024}},
    {"kernel": {"func": meets}, "grid": {"gridDim": 2}, "block": {"blockDim": (1, 2)}, "memory": {"sharedMem": 8}},
)


def failed(world: World) -> int:
    """Return a stream whose host function has raised."""
    stream = hip.check(hip.hipStreamCreateWithFlags(hip.hipStreamNonBlocking))
    hip.check(hip.hipLaunchHostFunc(stream, lambda _: [][0], None))
    assert hip.hipStreamSynchronize(stream) == (E.hipErrorLaunchFailure,)
    return stream


def elsewhere(world: World) -> int:
    """Return a stream of device 1."""
    hip.check(hip.hipSetDevice(1))
    stream = hip.check(hip.hipStreamCreateWithFlags(hip.hipStreamNonBlocking))
    hip.check(hip.hipSetDevice(0))
    return stream


def narrow(world: World) -> int:
    """Return a stream whose blocks have room for two threads."""
    return hip.check(hip.hipExtStreamCreateWithCUMask(1, [3]))


COOPERATIVE_FORMS = {
    "hipModuleLaunchCooperativeKernel": lambda w, stream: (function(w), *EMPTY, 12, 1, 1, 0, stream, None),
    "hipModuleLaunchCooperativeKernelMultiDevice": lambda w, stream: (
        [hip.hipFunctionLaunchParams(function=function(w), blockDimX=12, hStream=stream)], 1, 0,
    ),
}  # fmt: skip
BY_ITEMS = ("hipExtModuleLaunchKernel", "hipHccModuleLaunchKernel")
LOADS = "what cannot be loaded is refused when it is loaded"
COOPERATIVE = {
    "Deinitialized": "handles of a runtime that has ended are InvalidHandle",
    "InvalidConfiguration": "extents that a launch cannot have are InvalidValue, as HIP answers",
    "InvalidImage": LOADS,
    "LaunchTimeOut": "kernels have no time limit",
    "NotInitialized": STARTS,
    "SharedObjectInitFailed": LOADS,
}
MULTI = ("hipModuleLaunchCooperativeKernelMultiDevice", "hipLaunchCooperativeKernelMultiDevice",
         "hipExtLaunchMultiKernelMultiDevice")  # fmt: skip
KINDS = (hip.hipFunctionLaunchParams, hip.hipLaunchParams, hip.hipLaunchParams)


class TestModules(Conformance):
    """Modules and their functions."""

    good: ClassVar = {
        "hipModuleLoad": ("good.image",),
        "hipModuleUnload": lambda w: (module(w),),
        "hipModuleLoadData": (IMAGE,),
        "hipModuleLoadDataEx": (IMAGE, 1, [hip.hipJitOption.hipJitOptionMaxRegisters], [32]),
        "hipModuleGetFunction": lambda w: (module(w), b"fill"),
        "hipFuncGetAttributes": lambda w: (hip.hipFuncAttributes(), function(w)),
        "hipFuncGetAttribute": lambda w: (0, function(w)),
        "hipGetFuncBySymbol": lambda w: (function(w),),
        "hipFuncSetAttribute": lambda w: (function(w), 8, 1024),
        "hipModuleOccupancyMaxActiveBlocksPerMultiprocessor": lambda w: (function(w), 12, 0),
        "hipOccupancyMaxActiveBlocksPerMultiprocessor": lambda w: (function(w), 12, 0),
        "hipModuleGetGlobal": lambda w: (module(w), "calls"),
        "hipGetSymbolAddress": (VARIABLE,),
        "hipGetSymbolSize": (VARIABLE,),
        "hipMemcpyToSymbol": (VARIABLE, np.ones(4, np.int32), 16),
        "hipMemcpyToSymbolAsync": (VARIABLE, np.ones(4, np.int32), 16, 0, H2D, None),
        "hipMemcpyFromSymbol": (np.ones(4, np.int32), VARIABLE, 16),
        "hipMemcpyFromSymbolAsync": (np.ones(4, np.int32), VARIABLE, 16, 0, D2H, None),
    }
    bad: ClassVar = (
        Case("hipModuleLoad", "no such file", ("none.image",), E.hipErrorFileNotFound),
        Case("hipModuleLoad", "no name", ("",), E.hipErrorInvalidValue),
        Case("hipModuleLoad", "damaged", ("bad.image",), E.hipErrorSharedObjectInitFailed),
        Case("hipModuleUnload", "twice", lambda w: (gone(w),), E.hipErrorInvalidHandle),
        Case("hipModuleLoadData", "damaged", (IMAGE[:99],), E.hipErrorInvalidImage),
        Case("hipModuleLoadDataEx", "damaged", (IMAGE[:99], 0, None, None), E.hipErrorInvalidImage),
        Case("hipModuleLoadDataEx", "no option", (IMAGE, 1, [99], [1]), E.hipErrorInvalidValue),
        Case("hipModuleGetFunction", "no name", lambda w: (module(w), ""), E.hipErrorInvalidValue),
        Case("hipModuleGetFunction", "unknown", lambda w: (module(w), "fil"), E.hipErrorNotFound),
        Case("hipFuncGetAttributes", "no struct", lambda w: (None, function(w)), E.hipErrorInvalidValue),
        Case("hipFuncGetAttributes", "null", (hip.hipFuncAttributes(), None), E.hipErrorInvalidDeviceFunction),
        Case("hipFuncGetAttribute", "no attribute", lambda w: (99, function(w)), E.hipErrorInvalidValue),
        Case("hipFuncGetAttribute", "null", (0, None), E.hipErrorInvalidDeviceFunction),
        Case("hipGetFuncBySymbol", "no kernel", (len,), E.hipErrorInvalidDeviceFunction),
        Case("hipFuncSetAttribute", "null", (None, 8, 0), E.hipErrorInvalidDeviceFunction),
        Case("hipFuncSetAttribute", "too much", lambda w: (function(w), 8, 1 << 40), E.hipErrorInvalidValue),
        *(
            Case(name, what, arguments, code)
            for name in good
            if "Occupancy" in name
            for what, arguments, code in (
                ("null", (None, 12, 0), E.hipErrorInvalidDeviceFunction),
                ("no threads", lambda w: (function(w), 0, 0), E.hipErrorInvalidValue),
            )
        ),
        Case("hipModuleGetTexRef", "no textures", lambda w: (module(w), "image"), E.hipErrorNotFound),
        Case("hipModuleGetTexRef", "null", (None, "image"), E.hipErrorInvalidValue),
        Case("hipModuleGetTexRef", "no name", lambda w: (module(w), ""), E.hipErrorInvalidValue),
        Case("hipModuleGetGlobal", "unloaded", lambda w: (gone(w), "calls"), E.hipErrorInvalidHandle),
        Case("hipModuleGetGlobal", "no name", lambda w: (module(w), ""), E.hipErrorInvalidValue),
        Case("hipModuleGetGlobal", "unknown", lambda w: (module(w), "call"), E.hipErrorNotFound),
        *(
            Case(name, what, (symbol,), code)
            for name in ("hipGetSymbolAddress", "hipGetSymbolSize")
            for what, symbol, code in (
                ("null", None, E.hipErrorInvalidSymbol), ("no symbol", 7.5, E.hipErrorInvalidValue),
            )
        ),
        *(
            Case(name, what, arguments, code)
            for name, rest in (("hipMemcpyToSymbol", ()), ("hipMemcpyToSymbolAsync", (None,)))
            for what, arguments, code in (
                ("null", (None, np.ones(4), 16, 0, H2D, *rest), E.hipErrorInvalidSymbol),
                ("direction", (VARIABLE, np.ones(4), 16, 0, D2H, *rest), E.hipErrorInvalidMemcpyDirection),
                ("too long", (VARIABLE, np.ones(4), 32, 0, H2D, *rest), E.hipErrorInvalidValue),
            )
        ),
        *(
            Case(name, what, arguments, code)
            for name, rest in (("hipMemcpyFromSymbol", ()), ("hipMemcpyFromSymbolAsync", (None,)))
            for what, arguments, code in (
                ("null", (np.ones(4), None, 16, 0, D2H, *rest), E.hipErrorInvalidSymbol),
                ("direction", (np.ones(4), VARIABLE, 16, 0, H2D, *rest), E.hipErrorInvalidMemcpyDirection),
                ("too long", (np.ones(4), VARIABLE, 32, 0, D2H, *rest), E.hipErrorInvalidValue),
            )
        ),
    )  # fmt: skip
    unreachable: ClassVar = {
        ("hipModuleLoad", Result.InvalidContext): CONTEXT,
        ("hipModuleGetFunction", Result.InvalidContext): CONTEXT,
        **{
            (name, Result.OutOfMemory): "a module takes memory when one of its variables is used"
            for name in ("hipModuleLoad", "hipModuleLoadData", "hipModuleLoadDataEx")
        },
        **{
            (name, Result.NotInitialized): STARTS
            for name in ("hipModuleLoad", "hipModuleLoadData", "hipModuleLoadDataEx", "hipModuleGetFunction",
                         "hipModuleGetTexRef")
        },
    }  # fmt: skip
    nullable: ClassVar = frozenset({("hipModuleLoadDataEx", "options"), ("hipModuleLoadDataEx", "optionValues")})
    never: ClassVar = frozenset({"hipModuleGetTexRef"})


@pytest.fixture(autouse=True)
def image_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files beside which every test runs: an image, and a damaged one."""
    monkeypatch.chdir(tmp_path)
    tmp_path.joinpath("good.image").write_bytes(IMAGE)
    tmp_path.joinpath("bad.image").write_bytes(IMAGE[:-1])


class TestLaunches(Conformance):
    """Launches by grid, by work-items, of several kernels."""

    good: ClassVar = {
        "hipModuleLaunchKernel": lambda w: launch(w, None),
        "hipExtModuleLaunchKernel": lambda w: (*launch(w, None), None, None, 1),
        "hipHccModuleLaunchKernel": lambda w: (*launch(w, None), None, None),
        "hipModuleLaunchCooperativeKernel": lambda w: launch(w),
        "hipLaunchCooperativeKernel": (nothing, 2, 12, None, 0, None),
        "hipLaunchKernel": (nothing, hip.dim3(2), (12, 1, 1), None),
        "hipExtLaunchKernel": (nothing, 2, 12, None, 0, None, None, None, 0),
        "hipModuleLaunchCooperativeKernelMultiDevice": lambda w: (several(w, hip.hipFunctionLaunchParams), 2, 3),
        "hipLaunchCooperativeKernelMultiDevice": lambda w: (several(w, hip.hipLaunchParams), 2, 0),
        "hipExtLaunchMultiKernelMultiDevice": lambda w: (several(w, hip.hipLaunchParams), 2, 0),
    }
    bad: ClassVar = (
        Case("hipModuleLaunchKernel", "both forms", lambda w: launch(w, (1, 2)), E.hipErrorInvalidValue),
        Case("hipModuleLaunchKernel", "null", (None, *EMPTY, *EMPTY, 0, None, None, None), E.hipErrorInvalidValue),
        Case("hipModuleLaunchKernel", "threads", lambda w: (function(w), *EMPTY, 13, 1, 1, 0, None, None, None),
             E.hipErrorInvalidValue),
        *(Case(name, "does not divide", lambda w: (function(w), 13, 1, 1, 12, 1, 1, 0, None, None, None),
               E.hipErrorInvalidValue) for name in BY_ITEMS),
        Case("hipExtModuleLaunchKernel", "flags", lambda w: (*launch(w, None), None, None, 2), E.hipErrorInvalidValue),
        Case("hipExtModuleLaunchKernel", "no event", lambda w: (*launch(w, None), 7, None, 0),
             E.hipErrorInvalidHandle),
        Case("hipModuleLaunchCooperativeKernel", "too large",
             lambda w: (function(w), 3, 1, 1, *EMPTY, 0, None, None), E.hipErrorCooperativeLaunchTooLarge),
        Case("hipModuleLaunchCooperativeKernel", "null", (None, *EMPTY, *EMPTY, 0, None, None),
             E.hipErrorInvalidHandle),
        Case("hipModuleLaunchCooperativeKernel", "no block", lambda w: (function(w), 0, 1, 1, *EMPTY, 0, None, None),
             E.hipErrorInvalidValue),
        Case("hipLaunchCooperativeKernel", "too large", (nothing, 3, 1, None, 0, None),
             E.hipErrorCooperativeLaunchTooLarge),
        Case("hipLaunchCooperativeKernel", "null", (None, 1, 1, None, 0, None), E.hipErrorInvalidValue),
        *(
            Case(name, what, (*arguments, *rest), code)
            for name, rest in (("hipLaunchKernel", ()), ("hipExtLaunchKernel", (0, None, None, None, 0)))
            for what, arguments, code in (
                ("null", (None, 1, 1, None), E.hipErrorInvalidDeviceFunction),
                ("threads", (nothing, 1, 13, None), E.hipErrorInvalidConfiguration),
                ("no block", (nothing, 0, 1, None), E.hipErrorInvalidValue),
            )
        ),
        *(
            Case(name, what, arguments, E.hipErrorInvalidValue)
            for name, kind in zip(MULTI, KINDS, strict=True)
            for what, arguments in (
                ("another count", lambda w, kind=kind: (several(w, kind), 3, 0)),
                ("one device twice", lambda w, kind=kind: ([several(w, kind)[0]] * 2, 2, 0)),
                ("null stream", lambda w, kind=kind: ([kind()], 1, 0)),
                ("flags", lambda w, kind=kind: (several(w, kind), 2, 4)),
            )
        ),
        *(
            Case(name, "too large", lambda w, kind=kind, fields=fields: (several(w, kind, **fields), 2, 0),
                 E.hipErrorCooperativeLaunchTooLarge)
            for name, kind, fields in zip(MULTI[:2], KINDS, ({"gridDimX": 3}, {"gridDim": 3}), strict=False)
        ),
        *(
            Case(name, f"another {what}", lambda w, kind=kind, fields=fields: (unlike(w, kind, **fields), 2, 0),
                 E.hipErrorInvalidValue)
            for name, kind, rows in zip(MULTI[:2], KINDS, UNLIKE, strict=False)
            for what, fields in rows.items()
        ),
        *(
            Case(name, what, lambda w, form=form, stream=stream: form(w, stream(w)), code)
            for name, form in zip(COOPERATIVE_FORMS, COOPERATIVE_FORMS.values(), strict=True)
            for what, stream, code in (
                ("a stream that has failed", failed, E.hipErrorLaunchFailure),
                ("a stream of another device", elsewhere, E.hipErrorInvalidContext),
                ("a stream with two SIPs", narrow, E.hipErrorLaunchOutOfResources),
            )
        ),
        Case("hipModuleLaunchCooperativeKernelMultiDevice", "dead",
             lambda w: ([hip.hipFunctionLaunchParams(function=gone(w), hStream=hip.hipStreamCreate()[1])], 1, 0),
             E.hipErrorInvalidHandle),
    )  # fmt: skip
    unreachable: ClassVar = {
        **{
            (name, Result[code]): reason
            for name in ("hipModuleLaunchCooperativeKernel", "hipModuleLaunchCooperativeKernelMultiDevice")
            for code, reason in COOPERATIVE.items()
        },
        **{
            (name, Result.NotInitialized): STARTS
            for name in ("hipModuleLaunchKernel", "hipExtModuleLaunchKernel", "hipLaunchCooperativeKernel", *MULTI[1:])
        },
    }
    nullable: ClassVar = frozenset(
        (name, each)
        for name in good
        for each in ("kernelParams", "extra", "args", "startEvent", "stopEvent", "hStream", "stream")
    )


def answers(call: tuple[Any, ...]) -> Any:
    """Return the results of a call that must succeed, as hip-python's programs do."""
    code, *results = call
    assert not code, code
    return results[0] if len(results) == 1 else tuple(results)


def test_extra_takes_values_one_after_the_other(world: World) -> None:
    """As hip-python; C's form with a buffer works, too, and so do kernelParams."""
    handle, pointer = function(world, "fill"), memory(world)
    buffer = np.zeros(16, np.uint8)
    buffer[:8].view(np.uint64)[0], buffer[8:12].view(np.float32)[0], buffer[12:].view(np.int32)[0] = pointer, 3, 8
    in_c = (hip.HIP_LAUNCH_PARAM_BUFFER_POINTER, buffer, hip.HIP_LAUNCH_PARAM_BUFFER_SIZE, ctypes.c_size_t(16),
            hip.HIP_LAUNCH_PARAM_END)  # fmt: skip
    size = ctypes.c_size_t(16)
    by_address = (in_c[0], buffer.ctypes.data, in_c[2], ctypes.byref(size), in_c[4])
    by_pointer = (in_c[0], ctypes.c_void_p(buffer.ctypes.data), in_c[2], ctypes.pointer(size), in_c[4])
    words = (ctypes.c_void_p * 5)(in_c[0], buffer.ctypes.data, in_c[2], ctypes.addressof(size), in_c[4])
    values = (ctypes.c_void_p(pointer), ctypes.c_float(2), ctypes.c_int(8))
    in_c_forms = (((None, each), 6) for each in (in_c, by_address, by_pointer, words))
    for given, expected in (((None, values), 4), *in_c_forms, ((list(values), None), 4)):
        answers(hip.hipModuleLaunchKernel(handle, 1, 1, 1, 1, 1, 1, 0, None, *given))
        assert contents(world, pointer) == [expected] * 8


def test_work_items_and_events(world: World) -> None:
    """Blocks are global / local work-items; the events are stamped at both ends of the kernel."""
    handle, pointer = function(world, "fill"), memory(world)
    start, stop = answers(hip.hipEventCreate()), answers(hip.hipEventCreate())
    arguments = (pointer, np.float32(1), np.int32(8))
    answers(hip.hipExtModuleLaunchKernel(
        handle, 24, 1, 1, 12, 1, 1, 0, None, None, arguments, start, stop, hip.hipExtAnyOrderLaunch
    ))  # fmt: skip
    answers(hip.hipEventSynchronize(stop))
    assert answers(hip.hipEventElapsedTime(start, stop)) >= 0
    assert contents(world, pointer) == [2.0] * 8


def test_a_cooperative_launch_on_two_devices(world: World) -> None:
    """Its blocks meet across both."""
    launches, pointers = [], []
    for device in (0, 1):
        answers(hip.hipSetDevice(device))
        pointers.append(answers(hip.hipMalloc(64)))
        stream = answers(hip.hipStreamCreateWithFlags(hip.hipStreamNonBlocking))
        launches.append(hip.hipLaunchParams(meets, hip.dim3(1), hip.dim3(2), [pointers[-1], device + 5], 0, stream))
    answers(hip.hipLaunchCooperativeKernelMultiDevice(launches, 2, 0))
    for device, pointer in enumerate(pointers):
        answers(hip.hipSetDevice(device))
        answers(hip.hipDeviceSynchronize())
        host = np.zeros(1, np.int32)
        answers(hip.hipMemcpy(host, pointer, 4, D2H))
        assert host[0] == device + 5
        answers(hip.hipFree(pointer))
    answers(hip.hipSetDevice(0))


def compiled(source: str | bytes, name: str, *options: str | bytes) -> bytearray:
    """Compile a text and return its code, as hip-python's examples do."""
    program = answers(hiprtc.hiprtcCreateProgram(source, name, 0, None, None))
    (code,) = hiprtc.hiprtcCompileProgram(program, len(options), options)
    if code != R.HIPRTC_SUCCESS:
        log = bytearray(answers(hiprtc.hiprtcGetProgramLogSize(program)))
        answers(hiprtc.hiprtcGetProgramLog(program, log))
        raise RuntimeError(log.decode())
    code = bytearray(answers(hiprtc.hiprtcGetCodeSize(program)))
    answers(hiprtc.hiprtcGetCode(program, code))
    answers(hiprtc.hiprtcDestroyProgram(program.createRef()))
    return code


def test_runtime_compilation(world: World) -> None:
    """From a text to numbers; errors of the text are in its log, and other misuse has its code."""
    properties = hip.hipDeviceProp_t()
    answers(hip.hipGetDeviceProperties(properties, 0))
    code = compiled(SOURCE.encode(), "programs.py", b"--offload-arch=" + properties.gcnArchName, "-O3")
    handle = answers(hip.hipModuleGetFunction(answers(hip.hipModuleLoadData(code)), b"fill"))
    pointer = answers(hip.hipMalloc(32))
    extra = (pointer, ctypes.c_float(2.5), ctypes.c_int(8))
    answers(hip.hipModuleLaunchKernel(handle, *hip.dim3(1), *hip.dim3(1), sharedMemBytes=0, stream=None,
                                      kernelParams=None, extra=extra))  # fmt: skip
    host = np.zeros(8, np.float32)
    answers(hip.hipMemcpy(host, pointer, 32, D2H))
    assert host.tolist() == [5.0] * 8
    with pytest.raises(RuntimeError, match=r"bad\.py:1:"):
        compiled("def f(:", "bad.py")
    program = answers(hiprtc.hiprtcCreateProgram(SOURCE, "programs.py", 0, None, None))
    assert hiprtc.hiprtcCompileProgram(program, 1, ["--no-such"]) == (R.HIPRTC_ERROR_INVALID_OPTION,)
    assert hiprtc.hiprtcGetCodeSize(program)[0] is not R.HIPRTC_SUCCESS
    assert hiprtc.hiprtcGetProgramLog(program, bytearray(1)) == (R.HIPRTC_ERROR_INVALID_INPUT,)
    assert hiprtc.hiprtcCompileProgram(12345, 0, None) == (R.HIPRTC_ERROR_INVALID_PROGRAM,)
    assert hiprtc.hiprtcCreateProgram(None, b"x", 0, None, None) == (R.HIPRTC_ERROR_INVALID_INPUT, None)
    assert answers(hiprtc.hiprtcGetErrorString(R.HIPRTC_ERROR_COMPILATION)) == b"HIPRTC_ERROR_COMPILATION"
    assert len(answers(hiprtc.hiprtcVersion())) == 2


@pytest.mark.slow
def test_kernels_in_cxx(world: World, compiler: None) -> None:
    """A kernel of HIP runs as it is written, with as many threads as a block has here."""
    source = b"""#include <hip/hip_runtime.h>
extern "C" __global__ void scale_vector(float factor, int n, short unused, float *x) {
    int tid = threadIdx.x + blockIdx.x * blockDim.x;
    if (tid < n) x[tid] *= factor;
}"""
    module_ = answers(hip.hipModuleLoadData(compiled(source, b"scale_vector", b"--offload-arch=gcu300")))
    kernel = answers(hip.hipModuleGetFunction(module_, b"scale_vector"))
    numbers = np.arange(100, dtype=np.float32)
    memory_ = answers(hip.hipMalloc(numbers.nbytes)).configure(typestr="float32", shape=(100,))
    answers(hip.hipMemcpy(memory_, numbers, numbers.nbytes, H2D))
    extra = (ctypes.c_float(3), ctypes.c_int(90), ctypes.c_short(5), memory_)
    grid, block = hip.dim3(x=9), hip.dim3(x=12)
    answers(hip.hipModuleLaunchKernel(kernel, *grid, *block, sharedMemBytes=128, stream=None, kernelParams=None,
                                      extra=extra))  # fmt: skip
    found = np.zeros_like(numbers)
    answers(hip.hipMemcpy(found, memory_, numbers.nbytes, D2H))
    assert np.array_equal(found, np.where(np.arange(100) < 90, numbers * 3, numbers))
    answers(hip.hipModuleUnload(module_))


@pytest.mark.slow
def test_name_expressions_in_cxx(world: World, compiler: None) -> None:
    """Constants, variables in namespaces and uses of templates are found by their lowered names."""
    source = b"""__constant__ int V1;
namespace N1 { namespace N2 { __device__ int V2 = 20; } }
static __global__ void f1(int *result) { *result = V1 + 10; }
namespace N3 { __global__ void f2(int *result) { *result = N1::N2::V2 + 20; } }
template <typename T> __global__ void f3(int *result) { *result = sizeof(T); }
"""
    program = answers(hiprtc.hiprtcCreateProgram(source, b"names.hip", 0, None, None))
    kernels = {b"&f1": 110, b"N3::f2": 120, b"f3<int>": 4, b"f3<double >": 8}
    variables = {b"&V1": 100, b"&N1::N2::V2": 100}
    for each in (*kernels, *variables):
        assert hiprtc.hiprtcAddNameExpression(program, each) == (R.HIPRTC_SUCCESS,)
    assert hiprtc.hiprtcCompileProgram(program, 0, None) == (R.HIPRTC_SUCCESS,)
    code = bytearray(answers(hiprtc.hiprtcGetCodeSize(program)))
    answers(hiprtc.hiprtcGetCode(program, code))
    module_ = answers(hip.hipModuleLoadData(code))
    for each, value in variables.items():
        place, size = answers(hip.hipModuleGetGlobal(module_, answers(hiprtc.hiprtcGetLoweredName(program, each))))
        assert size == 4
        answers(hip.hipMemcpyHtoD(place, np.array([value], np.int32), 4))
    memory_ = answers(hip.hipMalloc(4))
    for each, value in kernels.items():
        kernel = answers(hip.hipModuleGetFunction(module_, answers(hiprtc.hiprtcGetLoweredName(program, each))))
        answers(hip.hipModuleLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, None, None, (memory_,)))
        found = np.zeros(1, np.int32)
        answers(hip.hipMemcpyDtoH(found, memory_, 4))
        assert found[0] == value
    answers(hip.hipModuleUnload(module_))


@pytest.fixture
def world() -> Any:
    """A board of two devices."""
    with new_world() as made:
        yield made


APART = b"""
extern "C" __global__ void apart(int *out, int *seen) {
    seen[blockIdx.x] = blockIdx.x + 1;
    cooperative_groups::this_grid().sync();
    out[blockIdx.x] = seen[1 - blockIdx.x];
}
extern "C" __global__ void meets(int *out, int *seen) { __syncblocks(); }
"""


@pytest.mark.slow
def test_kernels_in_cxx_on_two_devices(world: World, compiler: None) -> None:
    """A grid meets itself there; what would meet the other device's says that it cannot."""
    code = compiled(APART, b"apart.cpp", b"--offload-arch=gcu300")
    for name, expected in ("apart", E.hipSuccess), ("meets", E.hipErrorLaunchFailure):
        launches, results = [], []
        for device in (0, 1):
            answers(hip.hipSetDevice(device))
            function_ = answers(hip.hipModuleGetFunction(answers(hip.hipModuleLoadData(code)), name))
            values = [answers(hip.hipMalloc(8)), answers(hip.hipMalloc(8))]
            stream = answers(hip.hipStreamCreateWithFlags(hip.hipStreamNonBlocking))
            launches.append(hip.hipFunctionLaunchParams(function_, 2, 1, 1, 1, 1, 1, 0, stream, values))
        answers(hip.hipModuleLaunchCooperativeKernelMultiDevice(launches, 2, 0))
        for launch in launches:
            assert hip.hipStreamSynchronize(launch.hStream) == (expected,)
            if expected is E.hipSuccess:
                into = np.zeros(2, np.int32)
                answers(hip.hipMemcpy(into, launch.kernelParams[0], 8, D2H))
                results += list(into)
        assert results in ([], [2, 1, 2, 1])
    answers(hip.hipSetDevice(0))


def test_an_image_behind_a_pointer_is_as_long_as_it_says(world: World) -> None:
    """C passes nothing but the pointer: an address, a pointer of ctypes or byref, of memory of this process."""
    held = ctypes.create_string_buffer(IMAGE + bytes(64))
    address = ctypes.addressof(held)
    for image in address, ctypes.c_void_p(address), ctypes.cast(held, ctypes.POINTER(ctypes.c_char)):
        for module_ in answers(hip.hipModuleLoadData(image)), answers(hip.hipModuleLoadDataEx(image, 0, None, None)):
            answers(hip.hipModuleUnload(module_))
    assert hip.hipModuleLoadData(address + 1) == (E.hipErrorInvalidImage, None)
    assert hip.hipModuleLoadData(5) == (E.hipErrorInvalidValue, None)


def test_a_handle_of_tops_is_one_of_hip(world: World) -> None:
    """And the other way round."""
    handle = answers(hip.hipModuleGetFunction(tops.check(tops.topsModuleLoadData(IMAGE)), "empty"))
    assert tops.topsModuleLaunchKernel(handle, *EMPTY, *EMPTY, 0, None, None, None) == (tops.topsSuccess,)
    answers(hip.hipDeviceSynchronize())
