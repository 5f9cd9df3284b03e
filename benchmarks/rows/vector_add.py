"""Add two vectors on 24 threads, alone and beside a busy Python thread, against bare coroutines and `numpy.add`."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import atops
from atops import kernels as k
from benchmarks.bare.add import BareAdd
from benchmarks.measuring.figures import Figure, at_most, compared
from benchmarks.measuring.measure import Effort, Times, board, interleave, timed

__all__ = ("Vectors", "add_shares", "add_slices", "add_tiles", "busy_vector_add", "vector_add")

GRID = (2, 12)
TILE = 8192  # elements: 32 KiB
SWITCH_INTERVAL = 1e-4  # seconds; the interpreter's own is 5e-3


@k.kernel
async def add_tiles(x: k.Span, y: k.Span, z: k.Span) -> None:
    """Add through L1, double-buffered: one pair of tiles is added, the next is on its way in, a sum on its way out.

    Each of the two sides has three tiles and a DTE context for each of them.
    """
    parts = list(k.tiles(x.size, TILE))
    if not parts:
        return
    a, b, c = (k.local((2, TILE), np.float32) for _ in "abc")
    contexts = [[k.tops_dte_ctx_t() for _ in "abc"] for _ in range(2)]
    for context in contexts[0] + contexts[1]:
        context.init()
    here, there = [(a[side], b[side], c[side], *contexts[side]) for side in range(2)]

    def load(side: tuple[Any, ...], part: slice) -> tuple[k.event, k.event]:
        tile_a, tile_b, _, of_a, of_b, _ = side
        size = part.stop - part.start
        if size < TILE:
            tile_a, tile_b = tile_a[:size], tile_b[:size]
        return k.memcpy_async(of_a, tile_a, x[part]), k.memcpy_async(of_b, tile_b, y[part])

    first, second = load(here, parts[0])
    before, leaving = k.event(), k.event()  # of no transfer yet
    for turn, part in enumerate(parts, 1):
        await first
        await second
        if turn < len(parts):
            first, second = load(there, parts[turn])
        await before  # the sum of two turns ago, whose tile is needed again
        tile_a, tile_b, tile_c, _, _, of_c = here
        size = part.stop - part.start
        if size < TILE:
            tile_a, tile_b, tile_c = tile_a[:size], tile_b[:size], tile_c[:size]
        np.add(tile_a, tile_b, out=tile_c)
        before, leaving = leaving, k.memcpy_async(of_c, z[part], tile_c)
        here, there = there, here
    await before
    await leaving
    for context in contexts[0] + contexts[1]:
        context.destroy()


@k.kernel
def add_slices(x: Any, y: Any, z: Any) -> None:
    """Add this thread's whole share at once, in global memory: what a gcu300 can and a gcu210 cannot."""
    share = -(-x.size // k.thread_count())
    for part in k.tiles(x.size, share):
        np.add(x[part], y[part], out=z[part])


@k.kernel
def add_shares(x: k.Span, y: k.Span, z: k.Span) -> None:
    """Add this thread's whole share through L1, one transfer after the other."""
    share = -(-x.size // k.thread_count())
    a, b = k.local(share, np.float32), k.local(share, np.float32)
    with k.dte_scope() as dte:
        for part in k.tiles(x.size, share):
            size = part.stop - part.start
            k.memcpy(dte, a[:size], x[part])
            k.memcpy(dte, b[:size], y[part])
            np.add(a[:size], b[:size], out=a[:size])
            k.memcpy(dte, z[part], a[:size])


class Vectors:
    """Two vectors and room for their sum, on the host and on a device; each way to add them checks its result."""

    def __init__(self, device: atops.Device, size: int) -> None:
        generator = np.random.default_rng(1)
        self.hosts = [generator.random(size, np.float32) for _ in range(2)]
        self.sum = np.empty(size, np.float32)
        self.stream = device.create_stream()
        self.x, self.y = (self.stream.upload(host) for host in self.hosts)
        self.z = self.stream.empty_like(self.sum)
        self.add_with_numpy()

    def add_with_numpy(self) -> None:
        """Add on the host."""
        np.add(self.hosts[0], self.hosts[1], out=self.sum)

    def launch(self, kernel: k.Kernel) -> None:
        """Add on the device, and block until it is done."""
        self.stream.launch(kernel, GRID, self.x, self.y, self.z).wait_sync()

    def check(self, kernel: k.Kernel) -> None:
        """Raise AssertionError unless a kernel gives numpy's sum."""
        self.stream.fill(self.z, -1)
        self.launch(kernel)
        result: Any = self.stream.fetch(self.z).wait_sync()
        assert np.array_equal(result, self.sum), f"{kernel!r} does not add"


def vector_add(effort: Effort) -> Iterator[Figure]:
    """Yield the times of three kernels against numpy.add, and of two against bare coroutines that do the same."""
    with board() as device:
        vectors = Vectors(device, effort.size(1 << 20, 1 << 12))
        for kernel in (add_tiles, add_slices, add_shares):
            vectors.check(kernel)
        x, y = vectors.hosts
        bare = BareAdd(x, y, GRID[0] * GRID[1], TILE)
        times = interleave(
            effort.times(5),
            numpy=timed(vectors.add_with_numpy),
            tiles=timed(lambda: vectors.launch(add_tiles)),
            bare_tiles=timed(bare.tiles),
            slices=timed(lambda: vectors.launch(add_slices)),
            bare_slices=timed(bare.slices),
            shares=timed(lambda: vectors.launch(add_shares)),
        )
        bare.close()
        assert np.array_equal(bare.result, vectors.sum), "the bare prototype does not add"
    rows = (
        ("vector add 1M, 32 KiB tiles by DTE", "tiles", "bare_tiles", at_most(1.3)),
        ("  tiles beside numpy", "tiles", "numpy", None),
        ("vector add 1M, 170 KiB slices", "slices", "bare_slices", at_most(2)),
        ("  slices beside numpy", "slices", "numpy", None),
        ("  170 KiB by DTE, one buffer", "shares", "numpy", None),
    )
    for what, side, other, budget in rows:
        reference = "numpy.add" if other == "numpy" else "bare coroutines"
        yield compared(what, times, side, other, reference=reference, unit="ms", count=1, budget=budget)


def busy_vector_add(effort: Effort) -> Iterator[Figure]:
    """Yield the times beside a busy Python thread, against the same kernel without one."""
    rows = (
        ("32 KiB tiles beside a busy thread", add_tiles, SWITCH_INTERVAL, at_most(30)),
        ("  170 KiB slices beside it", add_slices, SWITCH_INTERVAL, None),
        ("  32 KiB, switch interval 5 ms", add_tiles, None, None),
    )
    for what, kernel, interval, budget in rows:
        times = _quiet_and_busy(effort, kernel, interval)
        yield compared(what, times, "busy", "quiet", reference="quiet", unit="ms", count=1, budget=budget)


def _quiet_and_busy(effort: Effort, kernel: k.Kernel, interval: float | None) -> Times:
    """Return the times of a kernel with and without a busy thread, with this switch interval of the interpreter's."""
    with _switching(interval), board() as device:
        vectors = Vectors(device, effort.size(1 << 20, 1 << 12))
        quiet = timed(lambda: vectors.launch(kernel))

        def busy() -> float:
            with _busy_thread():
                return quiet()

        return interleave(effort.times(), quiet=quiet, busy=busy)


@contextmanager
def _switching(interval: float | None) -> Iterator[None]:
    """Set how often the process's Python threads take turns, for the length of the block; None leaves it alone."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(before if interval is None else interval)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


@contextmanager
def _busy_thread() -> Iterator[None]:
    """Keep a thread running Python code for the length of the block: it gives up the lock only when it is asked to."""
    started, over = threading.Event(), threading.Event()

    def spin() -> None:
        started.set()
        while not over.is_set():
            sum(range(1000))

    thread = threading.Thread(target=spin, name="busy", daemon=True)
    thread.start()
    started.wait()
    try:
        yield
    finally:
        over.set()
        thread.join()
