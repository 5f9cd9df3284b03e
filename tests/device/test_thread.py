"""A kernel thread knows where it waits: the innermost await that is not this package's own."""

from __future__ import annotations

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
