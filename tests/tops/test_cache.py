"""Cache prefetch and invalidate (TOPS Runtime API, 2.11)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

import atops.tops as tops
from atops.base.options import EmulatorOptions
from atops.base.results import Result
from atops.runtime.driver import CURRENT, Driver
from atops.tops import cache
from tests.runtime.boards import PATIENCE
from tests.tops.conformance import Case, Conformance

INVALID = tops.topsErrorInvalidValue
PREFETCH, INVALIDATE = cache.topsMemCachePrefetch, cache.topsMemCacheInvalidate


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

    functions = cache.__all__
    good: ClassVar = dict.fromkeys(cache.__all__, memory())
    bad = (
        *(Case(name, "over the end", memory(size=257), INVALID) for name in cache.__all__),
        *(Case(name, "host memory", host, INVALID) for name in cache.__all__),
        *(Case(name, "no memory", (4711, 1), INVALID) for name in cache.__all__),
        *(Case(name, "negative size", memory(size=-1), INVALID) for name in cache.__all__),
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
    token = CURRENT.set(driver)
    try:
        pointer = tops.check(tops.topsMalloc(1 << 20))
        for _ in range(2):
            assert PREFETCH(pointer, 1 << 20) == (tops.topsSuccess,)
        assert INVALIDATE(pointer, 1 << 20) == (tops.topsSuccess,)
        assert driver.context(0).prefetched.entries() == []
    finally:
        CURRENT.reset(token)
        driver.close()
