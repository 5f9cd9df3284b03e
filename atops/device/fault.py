"""What a kernel raised, as the failure of its launch: the kernel's own traceback, and where it was in words."""

from __future__ import annotations

from types import TracebackType

from atops.base.errors import ExecutionError, LaunchFailure
from atops.device.call_site import PACKAGE
from atops.device.thread import KernelThread

__all__ = ("failure_of",)

FOREIGN_LOOPS = ("asyncio", "trio", "anyio", "sniffio", "curio")


def failure_of(thread: KernelThread, error: BaseException) -> LaunchFailure:
    """Return the LaunchFailure for `error` of `thread`; the error is its cause, with the kernel's frames only.

    A LaunchFailure's own class is kept, and so is the result code of any other execution error.
    """
    kind = type(error) if isinstance(error, LaunchFailure) else LaunchFailure
    failure = kind(_message(thread, error))
    if isinstance(error, ExecutionError):
        failure.__dict__["code"] = error.code  # an illegal address stays one at the C edge
    failure.block = thread.block.index
    failure.thread = thread.index
    failure.__cause__ = error.with_traceback(_kernel_frames(error.__traceback__) or error.__traceback__)
    return failure


def _message(thread: KernelThread, error: BaseException) -> str:
    said, who = str(error), str(thread)
    if isinstance(error, LaunchFailure):
        text = said if who in said else f"{who}: {said}"
    else:
        text = f"{who} raised {type(error).__name__}: {said}" if said else f"{who} raised {type(error).__name__}"
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


def _in_a_foreign_loop(frames: TracebackType | None) -> bool:
    """Return whether the error was raised inside an event loop's package, which a kernel has no use for."""
    while frames is not None:
        module = frames.tb_frame.f_globals.get("__name__", "")
        if isinstance(module, str) and module.partition(".")[0] in FOREIGN_LOOPS:
            return True
        frames = frames.tb_next
    return False
