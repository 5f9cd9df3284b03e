"""Cache prefetch and invalidate (TOPS Runtime API, 2.11)."""

from __future__ import annotations

import ctypes
from typing import ClassVar

import numpy as np
import pytest

import atops
import atops.tops as tops
from atops.base.options import EmulatorOptions
from atops.base.result_codes import Result
from atops.runtime.board.current_device import enter, leave
from atops.runtime.driver import Driver, board_of
from tests.runtime.boards import PATIENCE, add_one
from tests.tops.conformance import Case, Conformance

INVALID = tops.topsErrorInvalidValue
PREFETCH, INVALIDATE = tops.topsMemCachePrefetch, tops.topsMemCacheInvalidate
BOTH = ("topsMemCachePrefetch", "topsMemCacheInvalidate")


def memory(offset=0, size=256, of=256):
    """Return the arguments for a range of a new allocation."""
    return lambda world: (tops.check(tops.topsMalloc(of)) + offset, size)


def entered(offset, size):
    """Return the arguments for a range of memory whose bytes 64 to 128 are entered."""

    def make(world):
        pointer = tops.check(tops.topsMalloc(256))
        tops.check(PREFETCH(pointer + 64, 64))
        return pointer + offset, size

    return make


def host(world):
    """Return the arguments for pinned host memory."""
    array = world.device.host_malloc(256)
    world.keep.append(array)
    return array.address, 256


def too_large(world):
    """Return the arguments for more than the buffer holds."""
    capacity = world.driver.arch.l2_reserved
    return tops.check(tops.topsMalloc(capacity + 1)), capacity + 1


class TestCache(Conformance):
    """Both functions, by their rows."""

    good: ClassVar = dict.fromkeys(BOTH, memory())
    bad = (
        *(Case(name, "over the end", memory(size=257), INVALID) for name in BOTH),
        *(Case(name, "host memory", host, INVALID) for name in BOTH),
        *(Case(name, "no memory", (4711, 1), INVALID) for name in BOTH),
        *(Case(name, "negative size", memory(size=-1), INVALID) for name in BOTH),
        Case("topsMemCachePrefetch", "overlaps from the left", entered(0, 65), INVALID),
        Case("topsMemCachePrefetch", "overlaps from the right", entered(127, 2), INVALID),
        Case("topsMemCachePrefetch", "around", entered(0, 256), INVALID),
        Case("topsMemCachePrefetch", "over capacity", too_large, tops.topsErrorMemoryAllocation),
    )
    unreachable: ClassVar = {
        ("topsMemCacheInvalidate", Result.MemoryAllocation): "dropping entries allocates nothing",
    }


def entries(world):
    """Return the ranges that device 0 has entered."""
    return [(each.start, each.end) for each in world.device.context.prefetched.entries()]


def test_neighbours_are_no_overlap_and_invalidate_drops_what_it_touches(world):
    """Ranges may touch; one byte of an entry is enough to drop it whole; memory keeps its contents."""
    stream = world.device.create_stream()
    array = stream.upload(np.arange(200, dtype=np.uint8))
    stream.sync(PATIENCE)
    for start in (0, 50, 100, 150):
        tops.check(PREFETCH(array.address + start, 50))
    tops.check(INVALIDATE(array.address + 99, 2))
    assert entries(world) == [(0, 50), (150, 200)]
    tops.check(INVALIDATE(array.address + 60, 40))
    assert entries(world) == [(0, 50), (150, 200)]
    tops.check(PREFETCH(array.address + 50, 100))
    assert (stream.fetch(array).wait_sync(PATIENCE) == np.arange(200)).all()


def test_the_capacity_is_the_reserved_part_of_l2(world):
    """Exactly so many bytes fit; one more is MemoryAllocation until something is invalidated."""
    capacity = world.driver.arch.l2_reserved
    pointer = tops.check(tops.topsMalloc(capacity + 1))
    tops.check(PREFETCH(pointer, capacity - 1))
    tops.check(PREFETCH(pointer + capacity - 1, 1))
    assert PREFETCH(pointer + capacity, 1) == (tops.topsErrorMemoryAllocation,)
    tops.check(INVALIDATE(pointer + capacity - 1, 1))
    assert PREFETCH(pointer + capacity, 1) == (tops.topsSuccess,)


def test_freeing_drops_entries(world):
    """The room of freed memory is there again, and so it is after a reset."""
    capacity = world.driver.arch.l2_reserved
    for _ in range(2):
        pointer = tops.check(tops.topsMalloc(capacity))
        tops.check(PREFETCH(pointer, capacity))
        tops.check(tops.topsFree(pointer))
    tops.check(PREFETCH(tops.check(tops.topsMalloc(capacity)), capacity))
    tops.check(tops.topsDeviceReset())
    assert entries(world) == []


def test_nothing_is_a_range_of_nothing(world):
    """0 bytes enter and drop nothing."""
    pointer = tops.check(tops.topsMalloc(64))
    tops.check(PREFETCH(pointer, 64))
    assert PREFETCH(pointer, 0) == (tops.topsSuccess,)
    assert INVALIDATE(pointer, 0) == (tops.topsSuccess,)
    assert entries(world) == [(0, 64)]


def test_each_device_has_its_own_buffer(world):
    """The memory's device counts, not the current one."""
    array = world.second.empty(64, "uint8")
    tops.check(PREFETCH(array.address, 64))
    assert entries(world) == []
    assert len(world.second.context.prefetched.entries()) == 1


def test_gcu210_has_no_such_buffer():
    """Both succeed without effect."""
    driver = Driver(EmulatorOptions(arch="gcu210", trace=0))
    enter(driver, board_of(driver))
    try:
        pointer = tops.check(tops.topsMalloc(1 << 20))
        for _ in range(2):
            assert PREFETCH(pointer, 1 << 20) == (tops.topsSuccess,)
        assert INVALIDATE(pointer, 1 << 20) == (tops.topsSuccess,)
        assert board_of(driver).context(0).prefetched.entries() == []
    finally:
        leave(driver)
        driver.close()


@pytest.fixture
def strict():
    """A board in strict mode, which is current."""
    driver = Driver(EmulatorOptions(devices=1, strict=True))
    enter(driver, board_of(driver))
    yield driver
    leave(driver)
    driver.close()


def read(pointer, size=64):
    """Copy memory to the host."""
    tops.check(tops.topsMemcpy(np.zeros(size, np.uint8), pointer, size, tops.topsMemcpyDeviceToHost))


def reduce(pointer):
    """Read memory in a reduction."""
    result = tops.check(tops.topsMalloc(64))
    tops.check(tops.topsMemoryReduceAsync(result, pointer, result, tops.REDUCE_SUM, tops.UINT8, 64, None))
    tops.check(tops.topsDeviceSynchronize())


def launch(pointer):
    """Give memory to a kernel, which adds one to each element."""
    tops.check(tops.topsLaunchKernel(add_one, 1, 1, [ctypes.c_void_p(pointer)]))
    tops.check(tops.topsDeviceSynchronize())


def copy(pointer):
    """Copy within the device, with a large copy, too."""
    tops.check(tops.topsMemcpy(tops.check(tops.topsMalloc(64)), pointer, 64, tops.topsMemcpyDeviceToDevice))
    tops.check(tops.topsDeviceSynchronize())


def stale(caplog):
    """Return how many reads were reported."""
    return sum(record.name == "atops.cache" for record in caplog.records)


@pytest.mark.parametrize("reader", [read, reduce, launch, copy])
@pytest.mark.parametrize("again", [False, True], ids=["stale", "invalidated"])
def test_strict_mode_reports_what_is_read_after_a_write(strict, caplog, reader, again):
    """Once for an entry, for all its readers; not after topsMemCacheInvalidate, which is what a program should do."""
    pointer = tops.check(tops.topsMalloc(256))
    tops.check(tops.topsMemset(pointer, 1, 256))
    tops.check(tops.topsDeviceSynchronize())
    tops.check(PREFETCH(pointer, 64))
    read(pointer)
    tops.check(tops.topsMemset(pointer + 64, 9, 64))
    read(pointer + 64)
    tops.check(tops.topsMemset(pointer + 8, 2, 4))
    if again:
        tops.check(INVALIDATE(pointer, 1))
    assert stale(caplog) == 0
    reader(pointer)
    assert stale(caplog) == (not again)
    read(pointer)
    assert stale(caplog) == (not again)


def test_strict_mode_sees_what_kernels_write(strict, caplog):
    """A kernel's own stores count as any others; there is no check without strict mode, or at what is freed."""
    pointer = tops.check(tops.topsMalloc(64))
    tops.check(tops.topsMemset(pointer, 0, 64))
    tops.check(tops.topsDeviceSynchronize())
    tops.check(PREFETCH(pointer, 64))
    launch(pointer)
    assert stale(caplog) == 0
    read(pointer, 4)
    assert stale(caplog) == 1
    tops.check(tops.topsFree(pointer))
    read(tops.check(tops.topsMalloc(64)))
    assert stale(caplog) == 1


def test_nothing_is_reported_without_strict_mode(world, caplog):
    """The data are coherent, so the program is correct here."""
    pointer = tops.check(tops.topsMalloc(64))
    tops.check(PREFETCH(pointer, 64))
    tops.check(tops.topsMemset(pointer, 3, 64))
    read(pointer)
    assert stale(caplog) == 0


# ---- virtual time

MIB = 1 << 20
L2, L3 = 2_150_400_000_000, 672_000_000_000  # bytes per second of gcu300


def expected(entered, others):
    """Return the nanoseconds of so many bytes over L2 and then so many over L3."""
    return -(-10**9 * (entered * L3 + others * L2) // (L2 * L3))


def in_virtual_time(program, **options):
    """Run a program of C-style calls under the virtual clock; it gets a stream, and a function that times one call."""

    async def main():
        driver = atops.current_driver()
        stream = tops.check(tops.topsStreamCreate())

        def timed(function, *arguments):
            start, stop = (tops.check(tops.topsEventCreate()) for _ in range(2))
            tops.check(tops.topsDeviceSynchronize())
            began = board_of(driver).now()
            tops.check(tops.topsEventRecord(start, stream))
            tops.check(function(*arguments, stream))
            tops.check(tops.topsEventRecord(stop, stream))
            tops.check(tops.topsEventSynchronize(stop))
            elapsed = board_of(driver).now() - began
            assert tops.check(tops.topsEventElapsedTime(start, stop)) == pytest.approx(elapsed / 1e6, rel=1e-6)
            return elapsed

        program(timed)

    atops.run(main, EmulatorOptions(**{"clock": "virtual", **options}))


@pytest.mark.parametrize("strict", [False, True])
def test_prefetching_makes_copies_quicker_until_it_is_invalidated(strict):
    """Entered bytes of the source take the time of L2, and the others that of L3, as does all that is written."""

    def program(timed):
        source, target = (tops.check(tops.topsMalloc(2 * MIB)) for _ in range(2))

        def copied():
            return timed(tops.topsMemcpyDtoDAsync, target, source, 2 * MIB)

        assert copied() == expected(0, 4 * MIB) == 6242
        tops.check(PREFETCH(source, MIB))
        assert copied() == expected(MIB, 3 * MIB) == 5169
        tops.check(PREFETCH(source + MIB, MIB))
        assert copied() == expected(2 * MIB, 2 * MIB) == 4096
        tops.check(INVALIDATE(source, 1))
        assert copied() == 5169
        tops.check(INVALIDATE(source, 2 * MIB))
        assert copied() == 6242

    in_virtual_time(program, strict=strict)


def test_gcu210_has_nothing_to_be_quicker_with():
    """There a prefetch succeeds, and changes no time."""

    def program(timed):
        source, target = (tops.check(tops.topsMalloc(MIB)) for _ in range(2))
        times = [timed(tops.topsMemcpyDtoDAsync, target, source, MIB)]
        tops.check(PREFETCH(source, MIB))
        times.append(timed(tops.topsMemcpyDtoDAsync, target, source, MIB))
        assert times == [-(-2 * MIB * 10**9 // 819_000_000_000)] * 2

    in_virtual_time(program, arch="gcu210")


def test_reductions_read_both_operands():
    """From L2 what is entered of each, and then write; the result is there when that time is over."""

    def program(timed):
        lhs, rhs = (tops.check(tops.topsMalloc(MIB)) for _ in range(2))
        for pointer in (lhs, rhs):
            tops.check(tops.topsMemset(pointer, 1, MIB))
        arguments = (lhs, rhs, lhs, tops.REDUCE_SUM, tops.UINT8, MIB)
        assert timed(tops.topsMemoryReduceAsync, *arguments) == expected(0, 3 * MIB)
        tops.check(PREFETCH(lhs, MIB))
        assert timed(tops.topsMemoryReduceAsync, *arguments) == expected(MIB, 2 * MIB)
        tops.check(PREFETCH(rhs + 5, 77_777))
        assert timed(tops.topsMemoryReduceAsync, *arguments) == expected(MIB + 77_777, 2 * MIB - 77_777)
        assert timed(tops.topsMemoryReduceAsync, *arguments[:-1], 0) == 0
        found = np.zeros(MIB, np.uint8)
        tops.check(tops.topsMemcpyDtoH(found, lhs, MIB))
        assert (found == 4).all()

    in_virtual_time(program)


def test_scatter_memory_counts_the_bytes_of_its_parts():
    """A copy of it takes the time of any other; a part that is entered is read from L2, where the copy touches it."""

    def program(timed):
        memory = tops.check(tops.topsMallocScatter(MIB))  # 512 x 512 words: the left half, and the right one transposed
        tops.check(tops.topsMemorySetDims(memory, [512, 512], None))
        for bank, anchor, axes in ((0, [0, 0], [0, 1]), (1, [0, 256], [1, 0])):
            extents = [512, 256] if bank == 0 else [256, 512]
            tops.check(tops.topsScatterPopulateSub(memory, 4, bank, extents, anchor, axes, None))
        target, pinned = tops.check(tops.topsMalloc(MIB)), np.zeros(MIB, np.uint8)

        def copied():
            return timed(tops.topsMemcpyDtoDAsync, target, memory, MIB // 2)

        assert copied() == expected(0, MIB)
        assert timed(tops.topsMemsetAsync, memory, 1, MIB) == expected(0, MIB)
        assert timed(tops.topsMemcpyHtoDAsync, memory, pinned, MIB) == -(-MIB * 10**9 // 63_000_000_000)
        right = tops.check(tops.topsScatterGetSubMem(memory, 1))
        tops.check(PREFETCH(right, 100 * 512 * 4))  # a hundred columns of the whole, of whose rows the copy takes half
        assert copied() == expected(100 * 256 * 4, MIB - 100 * 256 * 4)
        tops.check(INVALIDATE(right, 1))
        assert copied() == expected(0, MIB)

    in_virtual_time(program)
