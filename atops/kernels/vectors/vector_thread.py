"""Who may make vectors: a running kernel thread, on a chip that has vector types. TOPS C++, 8.3."""

from __future__ import annotations

from atops.base.errors import IllegalState, NotSupported
from atops.device.call_site import caller
from atops.device.exec.thread import THREAD_SLOT, KernelThread, maybe_current_thread

__all__ = ("here", "vector_thread")


def vector_thread(name: str) -> KernelThread:
    """Return the running thread, which makes a vector of type `name`.

    Raises IllegalState on the host, and NotSupported, naming the thread and its line, on a chip without vector types.
    """
    cell = THREAD_SLOT.get()
    thread = None if cell is None else cell.thread
    if thread is None:
        raise IllegalState(f"a {name} was asked for on the host; vectors are made inside a kernel (TOPS C++, 8.3)")
    if not thread.grid.arch.vector_types:
        raise NotSupported(f"{here()}{name} needs gcu300, which has vector types; this is {thread.grid.arch.name}")
    return thread


def here() -> str:
    """Return how a message begins that speaks of the running thread and its line; nothing on the host."""
    thread = maybe_current_thread()
    return "" if thread is None else f"{thread} at {caller()}: "
