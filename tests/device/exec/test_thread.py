"""A kernel thread: how it is made, and where it waits, the innermost await that is not this package's own."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pytest

from atops import kernels as k
from atops.base.errors import IllegalState
from atops.device.exec.thread import (
    THREAD_SLOT,
    KernelThread,
    Request,
    current_thread,
    make_threads,
    maybe_current_thread,
    slot_here,
)
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
    block = SimpleNamespace(cost=None)
    threads = make_threads(block, grid, [sip, sip])
    assert [(each.linear, each.index, each.turns, each.grid_sync) for each in threads] == [
        (0, (0, 0, 0), 5, "at grid"), (1, (1, 0, 0), 5, "at grid")
    ]  # fmt: skip
    missing = {name for name in KernelThread.__slots__ if not hasattr(threads[0], name)}
    assert missing == {"name", "send", "task", "turn"}
    grid.cooperative = False
    assert make_threads(block, grid, [sip, sip])[1].grid_sync is None
    with pytest.raises(TypeError):
        KernelThread("the block", grid, 0, (0, 0, 0), sip)


def test_the_host_has_no_kernel_thread():
    """The name says where it has a meaning."""
    assert maybe_current_thread() is None
    with pytest.raises(IllegalState, match="on the host; it has a meaning only inside a kernel"):
        current_thread()


@pytest.mark.parametrize(
    ("use", "name"),
    [(lambda: k.tops_dte_ctx_t(), "tops_dte_ctx_t"), (lambda: k.local(1, np.int8), "local"),
     (lambda: k.pointer(np.zeros(3)), "pointer"), (lambda: k.signal_read(1), "signal_read"),
     (lambda: k.dte_scope(), "dte_scope"), (lambda: k.thread_id(), "thread_id"),
     (lambda: k.threadIdx.x, "x of <built-in variable threadIdx of kernels>")],
)  # fmt: skip
def test_the_host_is_told_what_it_used_and_where(use: Callable[[], object], name: str):
    """The message begins with the program's line and names the function that the program called."""
    line = use.__code__.co_firstlineno
    with pytest.raises(IllegalState, match=rf"^test_thread.py:{line} in <lambda>: {name} was used on the host"):
        use()


def test_a_context_copied_to_another_thread_gets_its_own_cell():
    """asyncio.to_thread copies the context; the cell in it stays that of its own OS thread."""
    mine = slot_here()
    assert slot_here() is mine
    found = []
    copied = contextvars.copy_context()
    thread = threading.Thread(target=lambda: copied.run(lambda: found.append((THREAD_SLOT.get(), slot_here()))))
    thread.start()
    thread.join()
    inherited, own = found[0]
    assert inherited is mine
    assert own is not mine


def test_a_plain_function_may_ask_for_its_thread():
    """Functions that a kernel calls see the kernel's thread."""
    host = Host()
    seen = []

    def helper():
        return current_thread().linear

    def kernel():
        seen.append(helper())

    host.run(host.grid(kernel, 1, 3))
    assert seen == [0, 1, 2]


def test_a_request_that_noted_nothing_has_no_line():
    """Only requests that were owed know where they were made."""
    assert Request().line() == ("?", 0)
