"""Which kernel thread runs here: kept for each OS thread, never seen from another."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable

import numpy as np
import pytest

from atops import kernels as k
from atops.base.errors import IllegalState
from atops.device.exec.current import THREAD_SLOT, Request, current_thread, maybe_current_thread, slot_here
from tests.device.kernel_host import Host


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
    with pytest.raises(IllegalState, match=rf"^test_current.py:{line} in <lambda>: {name} was used on the host"):
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
