"""What a kernel raised, as the failure of its launch: the kernel's own traceback, and where it was in words."""

from __future__ import annotations

from types import TracebackType

from atops.base.errors import ExecutionError, KernelAssert, LaunchFailure
from atops.device.call_site import PACKAGE, Site
from atops.device.source_text import asserted
from atops.device.thread import KernelThread

__all__ = ("failure_of",)

FOREIGN_LOOPS = ("asyncio", "trio", "anyio", "sniffio", "curio")


def failure_of(thread: KernelThread, error: BaseException) -> LaunchFailure:
    """Return the LaunchFailure for `error` of `thread`; the error is its cause, with the kernel's frames only.

    A LaunchFailure's own class is kept, and so is the result code of any other execution error. An AssertionError that
    the kernel raised becomes a KernelAssert.
    """
    kind, text = _said(thread, error)
    failure = kind(text + _place(error))
    if isinstance(error, ExecutionError):
        failure.__dict__["code"] = error.code  # an illegal address stays one at the C edge
    failure.block = thread.block.index
    failure.thread = thread.index
    failure.__cause__ = error.with_traceback(_kernel_frames(error.__traceback__) or error.__traceback__)
    return failure


def _said(thread: KernelThread, error: BaseException) -> tuple[type[LaunchFailure], str]:
    """Return what kind of failure it is, and what to say of it."""
    said, who = str(error), str(thread)
    if isinstance(error, LaunchFailure):
        return type(error), said if who in said else f"{who}: {said}"
    reason = f": {said}" if said else ""
    if isinstance(error, AssertionError) and (raised := _innermost(error.__traceback__)) is not None:
        code, instruction = raised.tb_frame.f_code, raised.tb_lasti
        if not code.co_filename.startswith(PACKAGE):  # one of our own would be a bug of ours
            condition = asserted(code, instruction)
            what = f"assertion `{condition}`" if condition else "assertion"
            return KernelAssert, f"{who} at {Site(code, instruction)}: {what} failed{reason}"
    return LaunchFailure, f"{who} raised {type(error).__name__}{reason}"


def _place(error: BaseException) -> str:
    """Return the kernel's line that raised, in brackets, and a hint where it stands in an event loop."""
    text = ""
    frames = _kernel_frames(error.__traceback__)
    if frames is None and error.__cause__ is not None:  # StopIteration of a coroutine becomes another exception
        frames = _kernel_frames(error.__cause__.__traceback__)
    if frames is not None:
        text += f" ({frames.tb_frame.f_code.co_filename}:{frames.tb_lineno})"
    if not isinstance(error, LaunchFailure) and _in_a_foreign_loop(frames):
        text += "; kernels may only await kernel requests"
    return text


def _kernel_frames(frames: TracebackType | None) -> TracebackType | None:
    """Return the traceback from the kernel's own frame on, the first outside this package; None without one."""
    while frames is not None and frames.tb_frame.f_code.co_filename.startswith(PACKAGE):
        frames = frames.tb_next
    return frames


def _innermost(frames: TracebackType | None) -> TracebackType | None:
    """Return the entry of a traceback where the error was raised."""
    while frames is not None and frames.tb_next is not None:
        frames = frames.tb_next
    return frames


def _in_a_foreign_loop(frames: TracebackType | None) -> bool:
    """Return whether the error was raised inside an event loop's package, which a kernel has no use for."""
    while frames is not None:
        module = frames.tb_frame.f_globals.get("__name__", "")
        if isinstance(module, str) and module.partition(".")[0] in FOREIGN_LOOPS:
            return True
        frames = frames.tb_next
    return False
