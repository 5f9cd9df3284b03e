"""DTE contexts and events as a kernel writes them. TOPS C++, 8.7; what they do is on the chip's floor."""

from __future__ import annotations

from types import TracebackType
from typing import TypeAlias

from atops.base.errors import InvalidType
from atops.device.call_site import caller
from atops.device.dte.operands import no_context
from atops.device.dte.transfer import DteEvent
from atops.device.exec.thread import Request, current_thread
from atops.kernels.dte.operations import tops_dte_ctx_t
from atops.kernels.memory.sharing import shared_object

__all__ = (
    "dte_scope",
    "event",
    "shared_dte_ctx",
    "tops_destroy_dte",
    "tops_dte_ctx_t",
    "tops_init_dte",
    "wait",
)

event: TypeAlias = DteEvent


def shared_dte_ctx() -> tops_dte_ctx_t:
    """Return the block's context of this line, one and the same for all its threads: `__shared__ tops_dte_ctx_t ctx`.

    One thread initialises it; it moves between global and shared memory, for one thread at a time (TOPS C++, 8.7).
    """
    thread = current_thread()
    return shared_object(thread, lambda: tops_dte_ctx_t.of_block(thread.block))


def tops_init_dte(ctx: tops_dte_ctx_t) -> None:
    """Make a context ready for use, as `ctx.init()` does. Raises DteError on another thread's (TOPS C++, 8.7)."""
    _context(ctx, "tops_init_dte").init()


def tops_destroy_dte(ctx: tops_dte_ctx_t) -> None:
    """Give a context back, as `ctx.destroy()` does. Raises DteError while a transfer is in flight (TOPS C++, 8.7)."""
    _context(ctx, "tops_destroy_dte").destroy()


def wait(event: DteEvent) -> Request:
    """Return the request that waits for an asynchronous operation: `await k.wait(event)`, or just `await event`.

    An event may be waited for once or many times. Raises InvalidType for anything else (TOPS C++, 8.7, `tops::wait`).
    """
    if not isinstance(event, DteEvent):
        raise InvalidType(f"wait() at {caller()} expects what an asynchronous DTE operation returned, got {event!r}")
    return event.made_by(current_thread())


class dte_scope:  # the language's own name
    """Initialise a context for a `with` block and destroy it at the end: `tops::dte_scope`.

    Without an argument the context is a private one of its own. At the end of the block no transfer may be in flight
    (DteError), unless an exception is already under way. The text does not have it, published kernels do (beside
    TOPS C++, 8.7).
    """

    __slots__ = ("_ctx",)

    def __init__(self, ctx: tops_dte_ctx_t | None = None) -> None:
        """Take a context, or make a private one."""
        self._ctx = tops_dte_ctx_t() if ctx is None else _context(ctx, "dte_scope")

    def __enter__(self) -> tops_dte_ctx_t:
        self._ctx.init()
        return self._ctx

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if kind is None:
            self._ctx.destroy()


def _context(ctx: object, asked: str) -> tops_dte_ctx_t:
    if not isinstance(ctx, tops_dte_ctx_t):
        raise no_context(current_thread(), ctx, asked)
    return ctx
