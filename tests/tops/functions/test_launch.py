"""Launches in one call and in steps (TOPS Runtime API, 2.8 and 2.9)."""

from __future__ import annotations

import asyncio
import contextvars
import ctypes
import struct
from collections.abc import Iterator
from typing import Any, ClassVar

import ml_dtypes
import numpy as np
import pytest

import atops.tops as tops
from atops import kernels as k
from atops.base.options import EmulatorOptions
from atops.base.result_codes import Result
from atops.bridge.handles import register
from atops.runtime.board.current_device import enter, leave
from atops.runtime.driver import Driver, board_of
from atops.tops.functions.api import last
from atops.tops.functions.launch import LoadedFunction, places_of
from atops.tops.header.functions import FUNCTIONS
from tests.runtime.boards import PATIENCE, Latch, broken
from tests.tops.conformance import Case, Conformance, World, implementation
from tests.tops.programs import EMPTY, add, contents, function, memory, module, nothing, scratch

LAUNCHES = ("topsModuleLaunchKernel", "topsLaunchCooperativeKernel")
PUSH, POP = implementation("__topsPushCallConfiguration"), implementation("__topsPopCallConfiguration")
CONFIGURE = ("topsConfigureCall", "__topsPushCallConfiguration")
STARTS = "every call starts the runtime"
MISSING = (tops.topsErrorMissingConfiguration,)
INVALID = tops.topsErrorInvalidValue
PAIR = np.dtype([("a", np.int8), ("b", np.int32)], align=True)


@pytest.fixture(autouse=True)
def nothing_configured() -> Iterator[None]:
    """Leave no configuration for the next test."""
    yield
    forget_configurations()


def forget_configurations() -> None:
    """Take back what `topsConfigureCall` left."""
    while POP()[0] == tops.topsSuccess:
        pass


def configured(world: World, *arguments: Any) -> None:
    """Configure one thread, and set up arguments one behind the other."""
    tops.check(tops.topsConfigureCall(1, 1))
    offset = 0
    for each in arguments:
        offset += -offset % each.nbytes
        tops.check(tops.topsSetupArgument(each, each.nbytes, offset))
        offset += each.nbytes


def other_stream(world: World) -> Any:
    """Return a stream of the other device."""
    stream = world.second.create_stream()
    world.keep.append(stream)
    return stream


def launched(world: World, **changed: Any) -> tuple[Any, ...]:
    """Return arguments of topsModuleLaunchKernel for `empty`, with some of them changed."""
    given = dict(
        f=None, gridDimX=1, gridDimY=1, gridDimZ=1, blockDimX=1, blockDimY=1, blockDimZ=1, sharedMemBytes=0, stream=0,
        kernelParams=None, extra=None,
    )  # fmt: skip
    given.update(changed)
    if "f" not in changed:
        given["f"] = function(world)
    return tuple(given.values())


def fill(world: World, **changed: Any) -> tuple[Any, ...]:
    """Return arguments of topsModuleLaunchKernel for `fill`: (y, value, count)."""
    return launched(world, f=function(world, "fill"), **changed)


def packed(world: World, count: int = 8) -> bytes:
    """Return the arguments of `fill` as C has them in a struct."""
    return struct.pack("<Qfi", memory(world), 1.5, count)


def added(world: World) -> list[Any]:
    """Return arguments of `add`."""
    return [memory(world), np.float32(1.5), True, 2.0]


def shapes(name: str, *, listed: bool = False) -> Iterator[Case]:
    """Yield what is wrong with the dimensions and the shared memory of a call that takes them."""
    def call(grid: Any = EMPTY, block: Any = EMPTY, shared: int = 0) -> Any:
        if name == "topsModuleLaunchKernel":
            return lambda w: (function(w), *grid, *block, shared, None, None, None)
        if name in CONFIGURE:
            return (grid, block, shared, 0)
        return (nothing, grid, block, None, shared, 0)

    for axis in range(3):
        zero = tuple(0 if each == axis else 1 for each in range(3))
        yield Case(name, f"L13 grid 0 in {'xyz'[axis]}", call(grid=zero), INVALID)
        yield Case(name, f"L13 block 0 in {'xyz'[axis]}", call(block=zero), INVALID)
        wide = tuple(1 << 31 if each == axis else 1 for each in range(3))
        two = tuple(2 if each == axis else 1 for each in range(3))
        yield Case(name, f"L13 2**32 in {'xyz'[axis]}", call(grid=wide, block=two), INVALID)
    yield Case(name, "negative", call(grid=(-1, 1, 1)), INVALID)
    yield Case(name, "negative shared memory", call(shared=-1), INVALID)
    if listed:
        yield Case(name, "L14 grid over the limit", call(grid=(1, 257, 1)), INVALID)
        large = tops.topsErrorInvalidConfiguration if name == "topsLaunchKernel" else INVALID
        yield Case(name, "L14 L22 block over the limit", call(block=(13, 1, 1)), large)
        yield Case(name, "L16 L22 threads over the limit", call(block=(12, 2, 1)), large)
        much = tops.topsErrorCooperativeLaunchTooLarge if name == "topsLaunchCooperativeKernel" else INVALID
        yield Case(name, "L17 L26 too much shared memory", call(shared=1 << 40), much)


class TestLaunch(Conformance):
    """The launches of 2.8 and every function of 2.9, by their rows."""

    def after_row(self) -> None:
        """Leave no configuration for the next row."""
        forget_configurations()

    functions = (*LAUNCHES, *(name for name, each in FUNCTIONS.items() if each.family == "Clang"))
    good: ClassVar = {
        "topsModuleLaunchKernel": lambda w: fill(w, kernelParams=[memory(w), 1.5, 8]),
        "topsLaunchCooperativeKernel": lambda w: (add, 2, (2, 1), added(w), 0, 0),
        "topsConfigureCall": (tops.dim3(2), tops.dim3(3, 2), 64, 0),
        "topsSetupArgument": lambda w: configured(w) or (np.float32(1.5), 4, 8),
        "topsLaunchByPtr": lambda w: configured(w) or (nothing,),
        "__topsPushCallConfiguration": ((2, 3), 4, 64, 0),
        "__topsPopCallConfiguration": lambda w: configured(w) or (),
        "topsLaunchKernel": lambda w: (add, tops.dim3(2), tops.dim3(2), added(w), 0, 0),
    }
    bad = (
        *shapes("topsModuleLaunchKernel", listed=True),
        *shapes("topsLaunchCooperativeKernel", listed=True),
        *shapes("topsLaunchKernel", listed=True),
        *shapes("topsConfigureCall"),
        *shapes("__topsPushCallConfiguration"),
        Case("topsModuleLaunchKernel", "L12 null", lambda w: launched(w, f=None), tops.topsErrorInvalidValue),
        Case("topsModuleLaunchKernel", "a module", lambda w: launched(w, f=module(w)), tops.topsErrorInvalidHandle),
        Case("topsModuleLaunchKernel", "other device", lambda w: launched(w, stream=other_stream(w)),
             tops.topsErrorInvalidDevice),
        Case("topsModuleLaunchKernel", "no stream", lambda w: launched(w, stream=1), tops.topsErrorInvalidHandle),
        Case("topsModuleLaunchKernel", "L18 both forms", lambda w: fill(
            w, kernelParams=[memory(w), 1.5, 8], extra=(1, packed(w), 2, 16, 3)), INVALID),
        *(
            Case("topsModuleLaunchKernel", f"L18 extra {what}", lambda w, extra=extra: fill(w, extra=extra(w)), INVALID)
            for what, extra in {
                "without an end": lambda w: (1, packed(w), 2, 16),
                "in another order": lambda w: (2, 16, 1, packed(w), 3),
                "with other keys": lambda w: (1, packed(w), 2, 16, 0),
                "larger than its buffer": lambda w: (1, packed(w), 2, 17, 3),
                "too short": lambda w: (1, packed(w), 2, 15, 3),
                "too long": lambda w: (1, bytes(17), 2, 17, 3),
                "of a negative size": lambda w: (1, packed(w), 2, -1, 3),
                "without a size": lambda w: (1, packed(w), 2, None, 3),
                "without a buffer": lambda w: (1, None, 2, 16, 3),
                "of no memory": lambda w: (1, 12345, 2, 16, 3),
                "with gaps": lambda w: (1, np.zeros(32, np.uint8)[::2], 2, 16, 3),
                "with a null pointer": lambda w: (1, bytes(16), 2, 16, 3),
            }.items()
        ),
        *(
            Case("topsModuleLaunchKernel", f"kernelParams {what}", lambda w, p=p: fill(w, kernelParams=p(w)), INVALID)
            for what, p in {
                "too few": lambda w: [memory(w), 1.5],
                "too many": lambda w: [memory(w), 1.5, 8, 8],
                "null pointer": lambda w: [None, 1.5, 8],
                "no memory": lambda w: [12345, 1.5, 8],
                "host memory": lambda w: [np.zeros(8, np.float32), 1.5, 8],
                "a float for an int": lambda w: [memory(w), 1.5, 8.0],
                "out of range": lambda w: [memory(w), 1.5, 1 << 31],
                "in a mapping": lambda w: {"y": memory(w)},
            }.items()
        ),
        Case("topsLaunchCooperativeKernel", "L24 three blocks of two clusters", (nothing, 3, 1, None, 0, 0),
             tops.topsErrorCooperativeLaunchTooLarge),
        Case("topsLaunchCooperativeKernel", "null", (None, 1, 1, None, 0, 0), tops.topsErrorInvalidDeviceFunction),
        Case("topsLaunchCooperativeKernel", "other device", lambda w: (function(w), 1, 1, None, 0, other_stream(w)),
             tops.topsErrorInvalidDevice),
        Case("topsLaunchKernel", "L20 null", (None, 1, 1, None, 0, 0), tops.topsErrorInvalidDeviceFunction),
        Case("topsLaunchKernel", "L21 <<<0>>>", (nothing, 0, 1, None, 0, 0), INVALID),
        Case("topsLaunchKernel", "four dimensions", (nothing, (1, 1, 1, 1), 1, None), INVALID),
        Case("topsLaunchKernel", "no kernel", (print, 1, 1, None, 0, 0), tops.topsErrorInvalidDeviceFunction),
        Case("topsLaunchKernel", "no handle", (12345, 1, 1, None, 0, 0), tops.topsErrorInvalidHandle),
        Case("topsLaunchKernel", "no dynamic shared memory", lambda w: (scratch, 1, 1, [memory(w)], 0, 0), INVALID),
        Case("topsLaunchKernel", "other device", lambda w: (function(w), 1, 1, None, 0, other_stream(w)),
             tops.topsErrorInvalidDevice),
        *(Case(name, "no stream", (1, 1, 0, 1), tops.topsErrorInvalidHandle) for name in CONFIGURE),
        Case("topsSetupArgument", "nothing configured", (b"1234", 4, 0), tops.topsErrorMissingConfiguration),
        Case("topsSetupArgument", "no bytes", lambda w: configured(w) or (b"", 0, 0), INVALID),
        Case("topsSetupArgument", "too few bytes", lambda w: configured(w) or (b"123", 4, 0), INVALID),
        Case("topsSetupArgument", "beyond 4096", lambda w: configured(w) or (b"1234", 4, 4093), INVALID),
        Case("topsSetupArgument", "negative", lambda w: configured(w) or (b"1234", 4, -4), INVALID),
        Case("topsLaunchByPtr", "nothing configured", (nothing,), tops.topsErrorMissingConfiguration),
        Case("topsLaunchByPtr", "null", lambda w: configured(w) or (None,), tops.topsErrorInvalidDeviceFunction),
        Case("topsLaunchByPtr", "no arguments", lambda w: configured(w) or (add,), INVALID),
        Case("topsLaunchByPtr", "too many", lambda w: configured(w, np.int64(1)) or (nothing,), INVALID),
        Case("topsLaunchByPtr", "other device",
             lambda w: tops.topsConfigureCall(1, 1, 0, other_stream(w)) and (function(w),),
             tops.topsErrorInvalidDevice),
        Case("__topsPopCallConfiguration", "nothing configured", (), tops.topsErrorMissingConfiguration),
    )  # fmt: skip
    nullable: ClassVar = frozenset({("topsModuleLaunchKernel", "extra")})
    unreachable: ClassVar = {
        **{(name, Result.NotInitialized): STARTS for name in FUNCTIONS if FUNCTIONS[name].family == "Clang"
           and name != "topsLaunchKernel"},
        **{(name, Result.NotInitialized): STARTS for name in LAUNCHES},
        **{(name, Result.InvalidDevice): "only a board without devices: test_no_device" for name in CONFIGURE},
        ("topsSetupArgument", Result.InvalidDevice): "no device has to do with it before the launch",
        ("__topsPopCallConfiguration", Result.InvalidDevice): "no device has to do with it before the launch",
        ("__topsPopCallConfiguration", Result.InvalidValue): "its arguments in C are all out-parameters",
    }  # fmt: skip


# ---- arguments


def test_pointers_become_memory_by_annotation(world):
    """An int is the bytes up to the end of its allocation for a plain span, elements for a typed one, or a number."""
    seen = []

    @k.kernel
    def look(a: k.Span, b: k.Span[np.float32], c: k.restrict[np.int16], d: np.uint64, e, f) -> None:
        seen.append([(x.dtype.name, x.shape) for x in (a, b, c)] + [int(d), e, f.shape])

    pointer = memory(world)
    arguments = [pointer, pointer + 6, pointer, pointer, 7, ctypes.c_void_p(pointer + 24)]
    assert tops.topsLaunchKernel(look, 1, 1, arguments) == (tops.topsSuccess,)
    tops.check(tops.topsDeviceSynchronize())
    assert seen == [[("uint8", (32,)), ("float32", (6,)), ("int16", (16,)), pointer, 7, (8,)]]


def test_address_for_a_parameter_without_a_type_is_refused(world):
    """It may be a number or a pointer; the message says what is expected."""

    @k.kernel
    def look(x) -> None: ...

    pointer = memory(world)
    assert tops.topsLaunchKernel(look, 1, 1, [pointer]) == (INVALID,)
    with pytest.raises(ValueError, match=r"parameter x has no type .* an address; annotate it"):
        tops.check(tops.topsLaunchKernel(look, 1, 1, [np.uint64(pointer)]))
    assert tops.topsLaunchKernel(look, 1, 1, [12345]) == (tops.topsSuccess,)


def test_values_of_every_kind(world):
    """Numbers, scalars of numpy and ctypes, arrays of one element, memory of the object API, pinned host pointers."""
    array = world.device.empty(8, np.float32)
    pinned = world.device.host_malloc(8, np.float32)
    pinned.array[:] = 0
    host = pinned.array.__array_interface__["data"][0]
    world.device.null_stream.fill(array, 0)
    for target in (array, array.address, np.array([array.address]), ctypes.c_uint64(array.address), host):
        for amount in (1, 1.0, np.float32(1), ctypes.c_float(1), np.array(1, np.float32)):
            assert tops.topsLaunchKernel(add, 1, 1, (target, amount, ctypes.c_bool(True), 0)) == (tops.topsSuccess,)
    assert contents(world, array.address) == [20.0] * 8
    assert pinned.array.tolist() == [5.0] * 8


def test_a_char_of_c_is_a_number(world):
    """A c_char of ctypes has bytes; a parameter of one byte takes it, signed or not."""
    seen: list[int] = []

    @k.kernel
    def look(signed: np.int8, unsigned: np.uint8) -> None:
        seen.extend((int(signed), int(unsigned)))

    tops.check(tops.topsLaunchKernel(look, 1, 1, [ctypes.c_char(200), ctypes.c_char(b"\xc8")]))
    tops.check(tops.topsDeviceSynchronize())
    assert seen == [-56, 200]


def test_l23_arguments_are_taken_at_the_call(world):
    """What the caller does with the storage of arguments afterwards, the kernel does not see."""
    latch, stream = Latch(world.device), world.device.null_stream
    pointer = memory(world)
    latch.hold(stream)
    amount, data = np.ones(1, np.float32), bytearray(packed(world))
    tops.check(tops.topsLaunchKernel(add, 1, 1, [pointer, amount, True, 0]))
    data[:8] = struct.pack("<Q", pointer + 16)
    data[12:] = struct.pack("<i", 2)
    tops.check(tops.topsModuleLaunchKernel(*fill(world, extra=(1, data, 2, 16, 3))))
    tops.check(tops.topsConfigureCall(1, 1))
    flag = bytearray(b"\1")
    for each, size, offset in ((np.uint64(pointer), 8, 0), (amount, 4, 8), (flag, 1, 12), (np.float64(10), 8, 16)):
        tops.check(tops.topsSetupArgument(each, size, offset))
    flag[0] = 0
    amount[:] = 100
    assert tops.topsLaunchByPtr(add) == (tops.topsSuccess,)
    amount[:], data[:] = 1000, bytes(16)
    latch.open()
    assert contents(world, pointer) == [12, 12, 12, 12, 14, 14, 12, 12]


def test_natural_alignment():
    """Each argument lies at a multiple of its size, structs at that of their widest field, and sizeof rounds up."""

    @k.kernel
    def f(a: np.int8, b: k.Span, c: np.bool_, d: ml_dtypes.bfloat16, e: PAIR, f: int, g: float, h: bool) -> None: ...

    places, end, size = places_of(f)
    assert [each.offset for each in places] == [0, 8, 16, 18, 20, 32, 40, 48]
    assert (end, size) == (49, 56)
    assert places_of(nothing) == ([], 0, 0)


def test_buffer_is_read_by_type(world):
    """Every type arrives as it was packed; the buffer may be any memory, with or without the bytes of its sizeof."""
    seen = []

    class Arguments(ctypes.Structure):
        _fields_: ClassVar = [
            ("a", ctypes.c_int8), ("y", ctypes.c_void_p), ("c", ctypes.c_bool), ("d", ctypes.c_uint16),
            ("f", ctypes.c_longlong), ("g", ctypes.c_double), ("h", ctypes.c_bool),
        ]  # fmt: skip

    @k.kernel
    def look(a: np.int8, y: k.Span, c: np.bool_, d: ml_dtypes.bfloat16, f: int, g: float, h: bool) -> None:
        seen.append((int(a), y.size, bool(c), float(d), f, g, h))

    given = Arguments(-3, memory(world), True, 0x3FC0, -(1 << 40), 0.1, True)
    pinned = world.device.host_malloc(64)
    pinned.array[: ctypes.sizeof(given)] = np.frombuffer(bytes(given), np.uint8)
    end, size = places_of(look)[1:]
    assert end < size == ctypes.sizeof(given)
    expected = (-3, 32, True, 1.5, -(1 << 40), 0.1, True)
    handle = function_handle(world, look)
    assert tops.topsModuleLaunchKernel(*launched(world, f=handle, extra=(1, bytes(given), 2, end, 3)))[0] == 0
    for buffer in (given, bytes(given), np.frombuffer(bytes(given), np.uint8), pinned.array.ctypes.data):
        extra = (tops.TOPS_LAUNCH_PARAM_BUFFER_POINTER, buffer, tops.TOPS_LAUNCH_PARAM_BUFFER_SIZE,
                 ctypes.c_size_t(size), tops.TOPS_LAUNCH_PARAM_END)  # fmt: skip
        assert tops.topsModuleLaunchKernel(*launched(world, f=handle, extra=extra)) == (tops.topsSuccess,)
    tops.check(tops.topsDeviceSynchronize())
    assert seen == [expected] * 5


def function_handle(world: World, kernel: Any) -> int:
    """Return a handle of a kernel of the test's own, as topsModuleGetFunction makes them."""
    return register(LoadedFunction(kernel, world.device.context), world.device.context)


def test_parameter_without_a_type_has_no_place(world):
    """In a buffer each parameter needs a type."""

    @k.kernel
    def look(x) -> None: ...

    extra = (1, bytes(8), 2, 8, 3)
    assert tops.topsModuleLaunchKernel(*launched(world, f=function_handle(world, look), extra=extra)) == (INVALID,)


def test_keyword_only_parameters_come_last(world):
    """A kernel's keyword-only parameters get the last values, and defaults are used where none is given."""
    seen = []

    @k.kernel
    def look(a: int, b: int = 2, *, shared: int, stop: int = 4) -> None:
        seen.append((a, b, shared, stop))

    assert tops.topsLaunchKernel(look, 1, 1, [1, 5, 3]) == (tops.topsSuccess,)
    assert tops.topsLaunchKernel(look, 1, 1, [1]) == (INVALID,)
    tops.check(tops.topsDeviceSynchronize())
    assert seen == [(1, 5, 3, 4)]


def test_freed_memory_is_refused(world):
    """A pointer whose memory was given back points nowhere."""
    array = world.device.empty(8, np.float32)
    array.close()
    assert tops.topsLaunchKernel(add, 1, 1, [array.address, 1, True, 0]) == (INVALID,)


# ---- geometry


def test_l15_block_at_the_maximum(world):
    """A gridDim counts blocks and blockDim threads, up to the architecture's limits."""
    seen = []

    @k.kernel
    def look() -> None:
        seen.append((tuple(k.gridDim), tuple(k.blockDim), tuple(k.blockIdx), tuple(k.threadIdx)))

    for block in ((12, 1, 1), (1, 12, 1), (1, 1, 12), (2, 3, 2)):
        seen.clear()
        assert tops.topsLaunchKernel(look, tops.dim3(2, 1, 2), block, None) == (tops.topsSuccess,)
        tops.check(tops.topsDeviceSynchronize())
        assert len(set(seen)) == 48
        assert {each[:2] for each in seen} == {((2, 1, 2), block)}


@pytest.mark.slow
def test_dynamic_shared_memory(world):
    """The launch gives its size, in each form of launch; one byte more than there is is InvalidValue."""
    pointer, most = memory(world, 1, np.int32), world.device.arch.l2_usable
    assert tops.topsLaunchKernel(scratch, 1, 1, [pointer], most) == (tops.topsSuccess,)
    assert tops.topsLaunchKernel(scratch, 1, 1, [pointer], most + 1) == (INVALID,)
    assert contents(world, pointer, 1, np.int32) == [most]
    tops.check(PUSH(1, 1, 512))
    tops.check(tops.topsSetupArgument(np.uint64(pointer), 8, 0))
    assert tops.topsLaunchByPtr(scratch) == (tops.topsSuccess,)
    assert contents(world, pointer, 1, np.int32) == [512]


def test_cooperative_blocks_meet(world):
    """Blocks of a cooperative launch start together and wait for each other; of a plain launch they may not."""
    seen = []

    @k.kernel
    async def meet(y: k.Span[np.int32]) -> None:
        y[int(k.blockIdx.x)] = 1
        await k.syncblocks()
        seen.append(int(y[0]) + int(y[1]))

    pointer = memory(world, 2, np.int32)
    assert tops.topsLaunchCooperativeKernel(meet, 2, 1, [pointer], 0, None) == (tops.topsSuccess,)
    tops.check(tops.topsDeviceSynchronize())
    assert seen == [2, 2]


def test_no_device(world):
    """On a board without devices there is nowhere to launch, and no stream to configure a launch for."""
    driver = Driver(EmulatorOptions(devices=0, trace=0))
    enter(driver, board_of(driver))
    try:
        assert tops.topsLaunchKernel(nothing, 1, 1, None) == (tops.topsErrorInvalidDevice,)
        assert tops.topsLaunchCooperativeKernel(nothing, 1, 1, None, 0, 0) == (tops.topsErrorInvalidDevice,)
        assert tops.topsConfigureCall(1, 1) == PUSH(1, 1) == (tops.topsErrorInvalidDevice,)
    finally:
        leave(driver)
        driver.close()


def test_another_chips_code_is_refused(world):
    """A kernel that is compiled for another chip has no binary for this one."""

    @k.kernel(arch="gcu210")
    def other() -> None: ...

    assert tops.topsLaunchKernel(other, 1, 1, None) == (tops.topsErrorNoBinaryForGcu,)


def test_l33_fault_is_told_by_later_launches(world):
    """A launch on a stream that a fault has poisoned answers that fault."""
    stream = world.device.create_stream()
    tops.check(tops.topsLaunchKernel(broken, 1, 1, None, 0, stream))
    fault = tops.topsDeviceSynchronize()
    assert fault == (tops.topsErrorLaunchFailure,)
    for _ in range(2):
        assert tops.topsLaunchKernel(nothing, 1, 1, None, 0, stream) == fault
        assert tops.topsLaunchCooperativeKernel(nothing, 1, 1, None, 0, stream) == fault


# ---- the stack of configurations


def test_configurations_nest(world):
    """The newest goes first, whichever of the two calls pushed it, with its own arguments."""
    pointer = memory(world)
    configured(world, np.uint64(pointer), np.float32(1), np.bool_(True), np.float64(0))
    stream = world.device.create_stream()
    assert PUSH(tops.dim3(2, 3), 4, 5, stream) == (tops.topsSuccess,)
    assert POP() == (tops.topsSuccess, tops.dim3(2, 3), tops.dim3(4), 5, stream)
    tops.check(PUSH((2, 3, 4), (1, 2), stream=None))
    assert POP() == (tops.topsSuccess, tops.dim3(2, 3, 4), tops.dim3(1, 2), 0, 0)
    assert tops.topsLaunchByPtr(add) == (tops.topsSuccess,)
    assert contents(world, pointer) == [1.0] * 8
    assert tops.topsLaunchByPtr(add) == MISSING
    stream.close()


def test_a_launch_that_fails_pops_too(world):
    """Whatever becomes of the launch, its configuration is used up; an argument that is missing is named."""
    configured(world, np.uint64(memory(world)), np.float32(1))
    with pytest.raises(ValueError, match=r"parameter flag was not set up; its 1 bytes are at offset 12"):
        tops.check(tops.topsLaunchByPtr(add))
    assert tops.topsLaunchByPtr(add) == MISSING


def test_each_thread_and_task_has_its_own_stack(world):
    """A configuration is seen where it was made: by no other thread or task, nor by a task that was begun there."""
    configured(world)
    thread, seen = world.thread(lambda: (POP()[:1], tops.topsConfigureCall(2, 2), POP()[:1]))
    thread.join(PATIENCE)
    assert seen == [(MISSING, (tops.topsSuccess,), (tops.topsSuccess,))]
    copied = contextvars.copy_context()
    thread, seen = world.thread(lambda: copied.run(POP)[:1])
    thread.join(PATIENCE)
    assert seen == [MISSING]

    async def child() -> tuple[Any, ...]:
        return POP()[:1]

    async def parent() -> list[tuple[Any, ...]]:
        first = POP()[:1]
        tops.check(tops.topsConfigureCall(3, 3))
        return [first, await asyncio.create_task(child()), POP()[:1]]

    assert asyncio.run(parent()) == [MISSING, MISSING, (tops.topsSuccess,)]
    assert POP()[0] == tops.topsSuccess
    assert POP()[0] == MISSING[0]


def test_stream_that_dies_before_the_launch(world):
    """The stream is looked up again when the launch comes."""
    stream = world.device.create_stream()
    tops.check(tops.topsConfigureCall(1, 1, 0, stream))
    tops.check(tops.topsDeviceReset())
    assert tops.topsLaunchByPtr(nothing) == (tops.topsErrorInvalidHandle,)


def test_a_registered_array_is_its_own_pointer(world):
    """A kernel gets the memory from a registered array on, with and without a type, and writes the array itself."""
    @k.kernel
    def store(x: k.Span[np.float32], y: Any, z: k.Span) -> None:
        """Store in each memory."""
        x[0], y[0], z[0] = x.size, y.size, z.size

    array = np.zeros(64, np.float32)
    world.keep.append(array)
    assert tops.topsHostRegister(array, array.nbytes, 0) == (tops.topsSuccess,)
    one = array[63:]
    assert tops.topsLaunchKernel(store, 1, 1, [array[32:], one, array[8:].view(np.uint8)]) == (tops.topsSuccess,)
    assert tops.topsStreamSynchronize(0) == (tops.topsSuccess,)
    data = array.view(np.uint8)
    assert (array[32], data[63 * 4], data[8 * 4]) == (32, 4, (64 - 8) * 4)
    array[63] = 2.5
    assert tops.topsLaunchKernel(add, 1, 1, [array[:8], one, np.array([True]), np.float64(0)]) == (tops.topsSuccess,)
    assert tops.topsStreamSynchronize(0) == (tops.topsSuccess,)
    assert array[0] == 2.5  # an array of one element is a number where that is what the kernel takes
    assert tops.topsLaunchKernel(store, 1, 1, [np.zeros(4), one, one]) == (tops.topsErrorInvalidValue,)
    assert "parameter x is pageable host memory (ndarray)" in last().message
