"""How kernel code finds its own thread, and what it may ask of whoever runs it.

Which kernel thread runs is kept once per OS thread; a kernel's code and the functions it calls read it from there.
"""

from __future__ import annotations

import sys
from contextvars import ContextVar
from threading import get_ident

from atops.base.errors import IllegalState
from atops.device.call_site import PACKAGE, Site
from atops.device.exec.cooperative import Reach
from atops.device.exec.thread import KernelThread, Request, missing_await

__all__ = (
    "THREAD_SLOT",
    "Reach",
    "Request",
    "ThreadSlot",
    "current_thread",
    "get_slot",
    "maybe_current_thread",
    "missing_await",
    "slot_here",
)  # fmt: skip


class ThreadSlot:
    """Where one OS thread keeps which kernel thread it is running: a slot is the cheapest thread-local there is."""

    __slots__ = ("owner", "thread")

    def __init__(self) -> None:
        self.owner = get_ident()
        self.thread: KernelThread | None = None


THREAD_SLOT: ContextVar[ThreadSlot | None] = ContextVar("atops_kernel_cell", default=None)
get_slot = THREAD_SLOT.get  # looked up by name, a method of an imported object is made anew for each call


def slot_here() -> ThreadSlot:
    """Return this OS thread's cell. A context copied from another OS thread brings that one's cell; it is replaced."""
    cell = THREAD_SLOT.get()
    if cell is None or cell.owner != get_ident():
        cell = ThreadSlot()
        THREAD_SLOT.set(cell)
    return cell


def maybe_current_thread() -> KernelThread | None:
    """Return the kernel thread that is running here, or None on the host."""
    cell = get_slot()
    return None if cell is None else cell.thread


def current_thread() -> KernelThread:
    """Return the kernel thread that is running here. Raises IllegalState on the host, naming what was used there."""
    cell = get_slot()
    if cell is None or cell.thread is None:
        raise _used_on_host()
    return cell.thread


def _used_on_host() -> IllegalState:
    """Return the error that names the function of this package which the program used, and the program's line."""
    used, frame = None, sys._getframe(1)
    while frame.f_code.co_filename.startswith(PACKAGE) and frame.f_back is not None:
        used, frame = frame, frame.f_back
    name = "this name"
    if used is not None and used.f_code is not current_thread.__code__:
        owner, _, name = used.f_code.co_qualname.rpartition(".")
        if owner and "self" in used.f_locals:
            one = used.f_locals["self"]
            name = type(one).__name__ if name == "__init__" else f"{name} of {one!r}"
    site = Site(frame.f_code, frame.f_lasti)
    return IllegalState(f"{site}: {name} was used on the host; it has a meaning only inside a kernel")
