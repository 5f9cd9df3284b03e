"""How kernel code finds its own thread, and what it may ask of whoever runs it.

Which kernel thread runs is kept once per OS thread; a kernel's code and the functions it calls read it from there.
"""

from __future__ import annotations

from contextvars import ContextVar
from threading import get_ident

from atops.base.errors import IllegalState
from atops.device.grid_barrier import Reach
from atops.device.thread import KernelThread, Request, missing_await

__all__ = ("CELL", "Cell", "Reach", "Request", "cell_here", "current_thread", "maybe_current_thread", "missing_await")


class Cell:
    """Where one OS thread keeps which kernel thread it is running: a slot is the cheapest thread-local there is."""

    __slots__ = ("owner", "thread")

    def __init__(self) -> None:
        self.owner = get_ident()
        self.thread: KernelThread | None = None


CELL: ContextVar[Cell | None] = ContextVar("atops_kernel_cell", default=None)


def cell_here() -> Cell:
    """Return this OS thread's cell. A context copied from another OS thread brings that one's cell; it is replaced."""
    cell = CELL.get()
    if cell is None or cell.owner != get_ident():
        cell = Cell()
        CELL.set(cell)
    return cell


def maybe_current_thread() -> KernelThread | None:
    """Return the kernel thread that is running here, or None on the host."""
    cell = CELL.get()
    return None if cell is None else cell.thread


def current_thread() -> KernelThread:
    """Return the kernel thread that is running here. Raises IllegalState on the host (TOPS C++, 8.5)."""
    cell = CELL.get()
    if cell is None or cell.thread is None:
        raise IllegalState("this name has a meaning only inside a kernel (TOPS C++, 8.5); it was used on the host")
    return cell.thread
