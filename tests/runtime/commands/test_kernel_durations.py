"""How many virtual nanoseconds kernels take: by hand for each operation, route and barrier, whatever the order is."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import atops
from atops import kernels as k
from tests.every import every
from tests.runtime.virtual_time import taken, virtual

# The figures, as docs/tracing.md has them; each is looked up here and nowhere in the code under test.
LAUNCH, BARRIER, GRID_BARRIER, DTE, ACCESS = 3000, 100, 500, 200, 200
TICK = Fraction(10**9, 1_400_000_000)
L3, LINK, ENGINE = 672, 63, Fraction(896, 10)  # bytes in a nanosecond
L2 = Fraction(10752, 10)  # of a cluster
SIZE = 28 * 64 * 40  # bytes, of which 24 SIPs and an engine make whole numbers


def over(nbytes: int, sips: int = 1, rate: Fraction | int = L3) -> Fraction:
    """Return the nanoseconds of a transfer over L3, or something else that so many share, without latency."""
    return max(nbytes / ENGINE, Fraction(nbytes * sips) / rate)


def launched(kernel: k.Kernel, config: Any, *arguments: Any, **options: Any) -> int:
    """Return what a launch takes; arrays among the arguments are uploaded."""

    async def main() -> int:
        stream = atops.Device(0).create_stream()
        given = [stream.upload(each) if isinstance(each, np.ndarray) else each for each in arguments]
        item = stream.launch(kernel, config, *given)
        await item
        return taken(item)

    return int(virtual(main, **options))


def bytes_(size: int) -> Any:
    """Return so many zeros."""
    return np.zeros(size, np.uint8)


# ---- by hand


@k.kernel
def nothing() -> None:
    """Do nothing."""


@k.kernel
async def load(x: k.Span) -> None:
    """Bring all of x to L1."""
    tile = k.local(x.size, x.dtype)
    with k.dte_scope() as dte:
        await k.memcpy_async(dte, tile, x)


@k.kernel
def load_now(x: k.Span) -> None:
    """Bring all of x to L1 by a synchronous transfer."""
    tile = k.local(x.size, x.dtype)
    with k.dte_scope() as dte:
        k.memcpy(dte, tile, x)


@k.kernel
async def two_at_once(x: k.Span) -> None:
    """Start two transfers, and wait for the later one only; the other is waited for at the end."""
    one, two = k.local(x.size, x.dtype), k.local(x.size, x.dtype)
    with k.dte_scope() as first, k.dte_scope() as second:
        event = k.memcpy_async(first, one, x)
        await k.memcpy_async(second, two, x)
        await event


@k.kernel
async def within_l3(x: k.Span, y: k.Span) -> None:
    """Copy x to y, both in L3."""
    with k.dte_scope() as dte:
        await k.memcpy_async(dte, y, x)


@k.kernel
async def within_l1(size: int) -> None:
    """Copy from L1 to L1."""
    one, two = k.local(size, np.uint8), k.local(size, np.uint8)
    with k.dte_scope() as dte:
        await k.memcpy_async(dte, two, one)


@k.kernel
async def within_l2(size: int) -> None:
    """Copy from L2 to L2, each thread its part."""
    threads = k.blockDim.x
    one, two = k.shared((threads, size), np.uint8), k.shared((threads, size), np.uint8)
    with k.dte_scope() as dte:
        await k.memcpy_async(dte, two[k.threadIdx.x], one[k.threadIdx.x])


@k.kernel
async def from_l2(size: int) -> None:
    """Copy from L2 to L1."""
    shared, tile = k.shared(size, np.uint8), k.local(size, np.uint8)
    with k.dte_scope() as dte:
        await k.memcpy_async(dte, tile, shared)


@k.kernel
async def window(x: k.Span) -> None:
    """Take a window of 16 rows of 64 of x, and put it back over another one."""
    tile = k.local((16, 64), np.uint8)
    with k.dte_scope() as dte:
        await k.slice_async(dte, tile, x, (0, 0))
        await k.deslice_async(dte, x, tile, (16, 0))


@k.kernel
def set_l1(size: int) -> None:
    """Set L1 to a value."""
    tile = k.local(size, np.uint8)
    with k.dte_scope() as dte:
        k.memset(dte, tile, 7)


@k.kernel
async def chained(size: int) -> None:
    """Start the later of two connected transfers first."""
    one, two, three = (k.local(size, np.uint8) for _ in range(3))
    with k.dte_scope() as first, k.dte_scope() as second:
        first.connect(second)
        later = k.memcpy_async(second, three, two)
        k.memcpy_async(first, two, one)
        await later


@k.kernel
async def barriers(count: int) -> None:
    """Meet at the barrier of the block again and again."""
    for _ in range(count):
        await k.syncthreads()


@k.kernel
async def uneven() -> None:
    """Thread i has i ticks of work before a barrier, and 12 - i behind it."""
    flops = 40_000_000_000_000 // 24 // 1_000_000  # a microsecond of a SIP
    k.cost(flops=flops * k.threadIdx.x)
    await k.syncthreads()
    k.cost(flops=flops * (11 - k.threadIdx.x))


@k.cooperative
@k.kernel
async def grid_barriers(count: int) -> None:
    """Meet at the barrier of the grid, block 1 a microsecond late each time."""
    for _ in range(count):
        k.cost(bytes=56_000 * k.blockIdx.x)
        await k.syncblocks()


@k.kernel
async def counted(count: int) -> None:
    """Pass a counted barrier of all threads."""
    gate = k.barrier(k.BarrierScope.SIP, k.blockDim.x)
    for _ in range(count):
        await gate.arrive_and_wait()


@k.kernel
async def behind_a_token() -> None:
    """Arrive, do something else, and wait then."""
    gate = k.barrier(k.BarrierScope.SIP, k.blockDim.x)
    k.cost(bytes=56_000 * k.threadIdx.x)  # one microsecond for the other of two
    token = gate.arrive()
    k.cost(bytes=28_000)
    await gate.wait(token)


@k.kernel
def elements(x: k.Span) -> None:
    """Load an element of L3 and store it."""
    x[k.threadIdx.x] += 1


@k.kernel
def vectors(x: k.Span) -> None:
    """Load four vectors of L1, compute with them, and store them."""
    tile = k.local(512, np.float32)
    kind = k.vector4[np.float32]
    values = kind.load(tile, 0, 4)
    (k.exp(values + values) * 2.0).store(tile)


@k.kernel
def masked(x: k.Span) -> None:
    """Compare, choose and count."""
    values = k.vector4[np.int32](7)
    mask = values > 3
    mask.select(values, 0)
    assert mask.count() == 128


LOAD_1, LOAD_24 = DTE + over(SIZE), DTE + over(SIZE, 24)


@pytest.mark.slow
@every(
    "kernel, config, arguments, expected",
    [
        (nothing, (1, 1), (), 0),
        (nothing, (2, 12), (), 0),
        (load, (1, 1), (bytes_(SIZE),), LOAD_1),  # 64 bytes a tick of its engine, and no more
        (load, (1, 12), (bytes_(SIZE),), DTE + over(SIZE, 12)),
        (load, (2, 12), (bytes_(SIZE),), LOAD_24),  # its share of L3
        (load_now, (2, 12), (bytes_(SIZE),), LOAD_24),
        (load, (6, 12), (bytes_(SIZE),), 3 * LOAD_24),  # three blocks in turn on each cluster
        (load, (3, 12), (bytes_(SIZE),), 2 * LOAD_24),
        (two_at_once, (2, 12), (bytes_(SIZE),), 2 * LOAD_24),  # one engine, one after the other
        (within_l3, (1, 12), (bytes_(SIZE), bytes_(SIZE)), DTE + over(2 * SIZE, 12)),
        (within_l1, (1, 12), (SIZE,), DTE + SIZE / ENGINE),
        (within_l2, (1, 1), (SIZE,), DTE + SIZE / ENGINE),
        (within_l2, (1, 12), (SIZE,), DTE + 2 * SIZE * 12 / L2),
        (from_l2, (1, 12), (SIZE,), DTE + SIZE / ENGINE),
        (window, (1, 1), (np.zeros((64, 128), np.uint8),), 2 * (DTE + over(1024))),
        (set_l1, (1, 1), (SIZE,), DTE + SIZE / ENGINE),
        (chained, (1, 1), (SIZE,), 2 * (DTE + SIZE / ENGINE)),
        (barriers, (1, 12), (10,), 10 * BARRIER),
        (barriers, (1, 1), (10,), 10 * BARRIER),
        (barriers, (2, 12), (1000,), 1000 * BARRIER),  # beyond one slice
        (uneven, (1, 12), (), 11_000 + BARRIER + 11_000),
        (grid_barriers, (2, 12), (5,), 5 * (2000 + GRID_BARRIER)),
        (counted, (1, 12), (10,), 10 * BARRIER),
        (behind_a_token, (1, 2), (), 625 + max(Fraction(28_000) / ENGINE, BARRIER)),
        (elements, (1, 12), (bytes_(12),), 2 * (ACCESS + Fraction(1, 56))),
        (vectors, (1, 1), (bytes_(0),), (4 + 4 + 32 + 4 + 4) * TICK),
        (masked, (1, 1), (bytes_(0),), 3 * TICK),
    ],
)  # fmt: skip
def test_by_hand(kernel: k.Kernel, config: Any, arguments: Any, expected: Fraction | int) -> None:
    """What a kernel takes is the launch's latency and what it does, to the nanosecond."""
    took = launched(kernel, config, *arguments)
    assert 0 <= took - (LAUNCH + expected) < Fraction(11, 10), float(took - LAUNCH - expected)
