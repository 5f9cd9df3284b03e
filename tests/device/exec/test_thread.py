"""A kernel thread: how it is made, and where it waits, the innermost await that is not this package's own."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from atops.device.exec.thread import KernelThread, make_threads
from tests.device.kernel_host import Host, line_of, signal


def test_where_is_the_innermost_await():
    """Through coroutines and awaitables that kernels define."""
    host = Host()

    async def inner():
        await signal(0, "eq", 1)

    class Wrapped:
        def __await__(self):
            yield from inner().__await__()

    async def kernel(thread):
        if thread.linear == 0:
            await inner()
        else:
            await Wrapped()

    grid = host.submit(host.grid(kernel, 1, 2))
    host.drain()
    places = [f"{file}:{line}" for file, line in (thread.where() for thread in grid.blocks[0].threads)]
    assert places[0] == line_of(inner, "await signal")
    assert places[1] in (line_of(inner, "await signal"), line_of(Wrapped, "yield from"))
    host.chips[0].signals.set(0, 1)
    host.drain()
    assert grid.done


def test_a_thread_that_has_not_begun_waits_nowhere():
    """Before its first turn there is no line to name."""
    host = Host()

    async def kernel():
        await signal(0, "eq", 1)

    grid = host.submit(host.grid(kernel, 1, 1))
    thread = grid.blocks[0].threads[0]
    assert thread.where() == ("?", 0)
    assert thread.stands_at() is None
    host.drain()
    assert thread.stands_at() == "signal 0 for eq 1 (now 0)"
    host.chips[0].signals.set(0, 1)
    host.drain()


def test_a_thread_is_made_whole():
    """`make_threads` sets every attribute but those that come with the start, and is the only way to make one."""
    sip = SimpleNamespace(sync="at block", grid_sync="at grid")
    grid = SimpleNamespace(cooperative=True, turns=5, thread_indices=[(0, 0, 0), (1, 0, 0)])
    threads = make_threads("the block", grid, [sip, sip])
    assert [(each.linear, each.index, each.turns, each.grid_sync) for each in threads] == [
        (0, (0, 0, 0), 5, "at grid"), (1, (1, 0, 0), 5, "at grid")
    ]  # fmt: skip
    missing = {name for name in KernelThread.__slots__ if not hasattr(threads[0], name)}
    assert missing == {"send", "task"}
    grid.cooperative = False
    assert make_threads("the block", grid, [sip, sip])[1].grid_sync is None
    with pytest.raises(TypeError):
        KernelThread("the block", grid, 0, (0, 0, 0), sip)
