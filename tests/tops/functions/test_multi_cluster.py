"""One cooperative grid whose blocks run different kernels (TOPS Runtime API, 2.11)."""

from __future__ import annotations

import struct
from typing import Any, ClassVar

import numpy as np
import pytest

import atops.tops as tops
from atops import kernels as k
from atops.base.options import EmulatorOptions
from atops.bridge.handles import stream_of
from atops.device.exec.thread import current_thread
from atops.runtime.board.current_device import enter, leave
from atops.runtime.driver import Driver, board_of
from atops.runtime.resources.bundle import set_chosen_bundle
from tests.runtime.boards import Latch
from tests.tops.conformance import Case, Conformance
from tests.tops.functions.test_resource_bundle import create, using
from tests.tops.programs import module

NAME = "topsExtLaunchCooperativeKernelMultiCluster"
INVALID = tops.topsErrorInvalidValue
FACTOR_OF_BLOCKS = k.constant(np.float32, [1, 1, 1, 1])
BIAS = k.constant(np.int8, 1)
FACTOR = k.constant(np.int64, 5)


@k.kernel
async def left(out: k.Span[np.int32], value: np.int32):
    """Store a number and the cluster, meet the others, then add what the right one has stored."""
    if k.threadIdx.x == 0:
        out[0] = value
        out[1] = current_thread().sip.cluster.ordinal
    await k.syncblocks()
    if k.threadIdx.x == 0:
        out[2] = int(out[0]) + int(out[4])


@k.kernel
async def right(value: np.int64, out: k.Span[np.int32]):
    """As `left`, the other way round."""
    if k.threadIdx.x == 0:
        out[4] = value
        out[5] = current_thread().sip.cluster.ordinal
        out[3] = k.gridDim.x * 10 + k.blockIdx.x
    await k.syncblocks()
    if k.threadIdx.x == 0:
        out[6] = int(out[0]) + int(out[4])


@k.kernel
def constants(out: k.Span[np.float32]):
    """Store what the constants are here."""
    if k.threadIdx.x == 0:
        out[0] = FACTOR[()] * BIAS[()]
        out[1:5] = FACTOR_OF_BLOCKS[...]


@k.kernel
def scratch(out: k.Span[np.int32]):
    """Tell how much dynamic shared memory the block has, and what is left for the rest."""
    if k.threadIdx.x == 0:
        out[0] = k.dynamic_shared(np.uint8).size


@k.kernel
def idle():
    """Do nothing."""


@k.kernel(arch="agcu200")
def older():
    """Do nothing, on any chip."""


@pytest.fixture(autouse=True)
def no_default():
    """Have no default bundle before and after each test."""
    set_chosen_bundle(None)
    yield
    set_chosen_bundle(None)


def entry(function: Any, cluster: int, arguments: bytes | None = None, shared: int = 0, **more: Any) -> Any:
    """Return what one block runs."""
    return tops.topsExtLaunchParams_t(
        cluster_id=cluster, func=function, args=arguments or 0, args_size=len(arguments or b""),
        descriptor=tops.topsKernelDescriptor_t(shared_mem_size=shared), **more,
    )  # fmt: skip


def memory(count: int = 8) -> int:
    """Return device memory of zeros: so many words."""
    pointer = tops.check(tops.topsMalloc(4 * count))
    tops.check(tops.topsMemset(pointer, 0, 4 * count))
    return pointer


def contents(pointer: int, dtype: Any = np.int32, count: int = 8) -> list[Any]:
    """Return what device memory holds, once the device is idle."""
    tops.check(tops.topsDeviceSynchronize())
    data = np.zeros(count, dtype)
    tops.check(tops.topsMemcpy(data, pointer, data.nbytes, tops.topsMemcpyDeviceToHost))
    return data.tolist()


def pair() -> list[Any]:
    """Return two blocks that do nothing."""
    return [entry(idle, 0), entry(idle, 1)]


def launch(entries: Any, blocks: Any, threads: Any = 1, stream: Any = 0) -> Any:
    """Call it with as many clusters as entries."""
    return tops.topsExtLaunchCooperativeKernelMultiCluster(entries, len(entries), blocks, threads, stream)


def short(world):
    """Return a call with a constant segment that is too short."""
    return [entry(constants, 0, struct.pack("Q", memory()), rodata=bytes(27), rodata_size=27)], 1, 1, 1, 0


def elsewhere(world):
    """Return a call with a function that was loaded on another device."""
    tops.check(tops.topsSetDevice(1))
    function = tops.check(tops.topsModuleGetFunction(module(world), "empty"))
    tops.check(tops.topsSetDevice(0))
    return [entry(function, 0)], 1, 1, 1, 0


class TestMultiCluster(Conformance):
    """The function, by its rows."""

    def after_row(self) -> None:
        """Have no default bundle again."""
        set_chosen_bundle(None)

    good: ClassVar = {NAME: lambda world: (pair(), 2, 2, 12, 0)}
    bad = (
        *(
            Case(NAME, what, arguments, code)
            for what, arguments, code in (
                ("no entry", ([], 0, 1, 1, 0), INVALID),
                ("another count", (pair(), 3, 2, 1, 0), INVALID),
                ("another number of blocks", (pair(), 2, 3, 1, 0), INVALID),
                ("one cluster twice", ([entry(idle, 1), entry(idle, 1)], 2, 2, 1, 0), INVALID),
                ("cluster 2", ([entry(idle, 0), entry(idle, 2)], 2, 2, 1, 0), INVALID),
                ("three clusters", ([*pair(), entry(idle, 2)], 3, 3, 1, 0), tops.topsErrorCooperativeLaunchTooLarge),
                ("an update", ([entry(idle, 0, update_count=1)], 1, 1, 1, 0), tops.topsErrorNotSupported),
                ("no function", ([entry(None, 0)], 1, 1, 1, 0), tops.topsErrorInvalidDeviceFunction),
                ("a dead function", ([entry(1 << 50, 0)], 1, 1, 1, 0), tops.topsErrorInvalidHandle),
                ("13 threads", (pair(), 2, 2, 13, 0), INVALID),
                ("no arguments", ([entry(left, 0)], 1, 1, 1, 0), INVALID),
                ("too many arguments", ([entry(idle, 0, b"1234")], 1, 1, 1, 0), INVALID),
                ("too much shared memory", ([entry(idle, 0, shared=1 << 31)], 1, 1, 1, 0), INVALID),
                ("no shared memory", ([entry(scratch, 0, struct.pack("Q", 0))], 1, 1, 1, 0), INVALID),
                ("two targets", ([entry(idle, 0), entry(older, 1)], 2, 2, 1, 0), INVALID),
                ("an entry that is none", ([(1, 2)], 1, 1, 1, 0), INVALID),
            )
        ),
        Case(NAME, "a short segment", short, INVALID),
        Case(NAME, "a function of another device", elsewhere, INVALID),
    )


@pytest.mark.parametrize("where", [(0, 1), (1, 0)])
def test_blocks_run_their_own_kernel_on_their_own_cluster_and_meet(world, where):
    """Each has its arguments; what one stored before syncblocks the other reads after it; the grid is one grid."""
    out = memory()
    entries = [
        entry(left, where[0], struct.pack("Qi", out, 7)),
        entry(right, where[1], struct.pack("qQ", 35, out)),
    ]
    tops.check(launch(entries, 2, 3))
    assert contents(out) == [7, where[0], 42, 21, 35, where[1], 42, 0]


@pytest.mark.parametrize("options", [{"workers": 2}, {"workers": "sip"}, {"strict": True}, {"seed": 3}], ids=str)
def test_blocks_differ_in_every_mode(options):
    """However threads are run: kernels, arguments, shared memory and constants are those of the block."""
    driver = Driver(EmulatorOptions(abort_grace=0.2, trace=0, **options))
    enter(driver, board_of(driver))
    try:
        out, first, second = memory(), memory(), memory()
        entries = [entry(left, 1, struct.pack("Qi", out, 7)), entry(right, 0, struct.pack("qQ", 35, out))]
        tops.check(launch(entries, 2, 12))
        assert contents(out)[:5] == [7, 1, 42, 21, 35]
        segment = {"rodata": struct.pack("<qb3x4f", 6, 7, 1.5, 2.5, 3.5, 4.5), "rodata_size": 28}
        entries = [
            entry(constants, 0, struct.pack("Q", first), **segment), entry(scratch, 1, struct.pack("Q", second), 512),
        ]  # fmt: skip
        tops.check(launch(entries, 2, 12))
        assert contents(first, np.float32, 2) == [42, 1.5]
        assert contents(second)[0] == 512
    finally:
        leave(driver)
        driver.close()


def test_a_count_of_none_is_the_length_and_the_grid_has_any_shape(world):
    """Two blocks along y are two blocks."""
    out = memory()
    entries = [entry(left, 1, struct.pack("Qi", out, 1)), entry(right, 0, struct.pack("qQ", 2, out))]
    tops.check(tops.topsExtLaunchCooperativeKernelMultiCluster(entries, None, tops.dim3(1, 2, 1), 1, None))
    assert contents(out)[:3] == [1, 1, 3]


def test_each_block_has_its_own_shared_memory(world):
    """The size in a descriptor is that of its block alone."""
    first, second = memory(), memory()
    entries = [
        entry(scratch, 0, struct.pack("Q", first), 1024), entry(scratch, 1, struct.pack("Q", second), 64),
    ]  # fmt: skip
    tops.check(launch(entries, 2, 2))
    assert [contents(each)[0] for each in (first, second)] == [1024, 64]


@pytest.mark.parametrize("kind", ["host", "pinned", "device"])
def test_rodata_are_the_constants_of_its_block_only(world, kind):
    """They lie at 0, 8 and 12; the other block, and later launches, have the declared values."""
    data = struct.pack("<qb3x4f", 6, 7, 1.5, 2.5, 3.5, 4.5)
    rodata: Any = data
    if kind == "pinned":
        rodata = tops.check(tops.topsHostMalloc(len(data), 0))
        tops.host_view(rodata, len(data))[:] = np.frombuffer(data, np.uint8)
    elif kind == "device":
        rodata = tops.check(tops.topsMalloc(len(data)))
        tops.check(tops.topsMemcpyHtoDAsync(rodata, np.frombuffer(data, np.uint8), len(data), 0))
    first, second = memory(), memory()
    own = entry(constants, 1, struct.pack("Q", first), rodata=rodata, rodata_size=len(data))
    tops.check(launch([own, entry(constants, 0, struct.pack("Q", second))], 2))
    assert contents(first, np.float32, 5) == [42, 1.5, 2.5, 3.5, 4.5]
    assert contents(second, np.float32, 5) == [5, 1, 1, 1, 1]
    tops.check(launch([entry(constants, 1, struct.pack("Q", first))], 1))
    assert contents(first, np.float32, 5) == [5, 1, 1, 1, 1]


def test_a_constant_that_the_kernel_does_not_name_is_not_in_its_segment(world):
    """What is reached in a way that no reading of the kernel finds has no place there: an error, not another value."""
    hidden = [BIAS]

    @k.kernel
    def indirect(out: k.Span[np.float32]):
        out[0] = FACTOR[()] + hidden[0][()]

    stream = tops.check(tops.topsStreamCreate())
    own = entry(indirect, 0, struct.pack("Q", memory()), rodata=bytes(8), rodata_size=8)
    tops.check(launch([own], 1, stream=stream))
    assert tops.topsStreamSynchronize(stream) == (tops.topsErrorIllegalAddress,)
    assert "constant segment" in str(stream_of(stream).error)


def test_freed_rodata_fail_the_launch(world):
    """Device memory is read when the kernel starts: freed by then, it is IllegalAddress on the stream."""
    rodata = tops.check(tops.topsMalloc(64))
    stream = tops.check(tops.topsStreamCreate())
    latch = Latch(world.device)
    latch.hold(stream_of(stream))
    own = entry(constants, 0, struct.pack("Q", memory()), rodata=rodata, rodata_size=64)
    tops.check(launch([own], 1, stream=stream))
    world.device.context.memory.free(world.device.buffer_at(rodata, 64).allocation, "the test")
    latch.open()
    assert tops.topsStreamSynchronize(stream) == (tops.topsErrorIllegalAddress,)


def test_it_stays_within_the_default_bundle(world):
    """A cluster that the bundle does not have is refused, one that it has is valid."""
    using(create("PG", pg_mask=0b10))
    assert launch([entry(idle, 0)], 1) == (INVALID,)
    tops.check(launch([entry(idle, 1)], 1))
    tops.check(tops.topsDeviceSynchronize())


def test_a_fault_of_one_kernel_ends_them_all(world):
    """The other waits at the grid barrier, and is ended; the failure names the kernel's block."""

    @k.kernel
    def fails():
        raise RuntimeError("on purpose")

    out = memory()
    stream = tops.check(tops.topsStreamCreate())
    tops.check(launch([entry(left, 0, struct.pack("Qi", out, 1)), entry(fails, 1)], 2, stream=stream))
    assert tops.topsStreamSynchronize(stream) == (tops.topsErrorLaunchFailure,)
