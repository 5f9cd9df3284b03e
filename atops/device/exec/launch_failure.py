"""What a kernel raised, as the failure of its launch: the kernel's own traceback, and where it was in words."""

from __future__ import annotations

import re
from types import TracebackType

from atops.base.errors import ExecutionError, KernelAssert, LaunchFailure
from atops.device.call_site import NOT_THE_PROGRAM, PACKAGE, Site, source_name
from atops.device.exec.thread import KernelThread
from atops.device.source_text import asserted

__all__ = ("failure_of",)

FOREIGN_LOOPS = ("asyncio", "trio", "anyio", "sniffio", "curio")
# Modules through which tasks of the host wait, and no kernel does.
HOST_WAITS = tuple(
    f"atops.base.waiting.{name}" for name in ("loop_adapter", "asyncio_loop", "trio_loop", "current_loop")
)

REQUESTS_ONLY = "kernels may only await kernel requests"
HOSTS_WORK = f"""{REQUESTS_ONLY}: barriers, signals, asynchronous DTE operations. Await the host's work in the host's \
program; k.signal_wait lets a running kernel wait for what the host signals"""
NO_AWAIT = "; a synchronous DTE operation is over when it returns and needs no await: k.memcpy_async is what is awaited"
UNAWAITABLE = re.compile(r"can't be (used in 'await' expression|awaited)")  # as Python says it of an object's type


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
    """Return what kind of failure it is, and what to say of it: the thread is named once."""
    said, subject = str(error), str(thread)
    kind = type(error) if isinstance(error, LaunchFailure) else LaunchFailure
    if (awaited := _awaited_of_the_host(_kernel_frames(error.__traceback__))) is not None:
        return kind, f"{subject} awaited {awaited}; {HOSTS_WORK}"
    if kind is type(error):
        return kind, said if subject in said else f"{subject}: {said}"
    if isinstance(error, AssertionError) and (raised := _innermost(error.__traceback__)) is not None:
        code, instruction = raised.tb_frame.f_code, raised.tb_lasti
        if not code.co_filename.startswith(PACKAGE):  # one of our own would be a bug of ours
            condition = asserted(code, instruction)
            what = f"assertion `{condition}`" if condition else "assertion"
            return KernelAssert, f"{subject} at {Site(code, instruction)}: {what} failed{f': {said}' if said else ''}"
    name = type(error).__name__
    if said.startswith(f"{subject} at "):
        return kind, f"{subject} raised {name}{said[len(subject):]}"
    if subject in said:
        return kind, f"{name}: {said}"
    return kind, f"{subject} raised {name}{f': {said}' if said else ''}"


def _place(error: BaseException) -> str:
    """Return the kernel's line that raised, in brackets, and a hint where it awaited what no kernel awaits."""
    text = ""
    frames = _kernel_frames(error.__traceback__)
    if frames is None and error.__cause__ is not None:  # StopIteration of a coroutine becomes another exception
        frames = _kernel_frames(error.__cause__.__traceback__)
    if frames is not None:
        text += f" ({source_name(frames.tb_frame.f_code.co_filename)}:{frames.tb_lineno})"
    if isinstance(error, TypeError) and UNAWAITABLE.search(said := str(error)):
        text += NO_AWAIT if "NoneType" in said else f"; {REQUESTS_ONLY}"
    elif not isinstance(error, LaunchFailure) and _in_a_foreign_loop(frames):
        text += f"; {REQUESTS_ONLY}"
    return text


def _awaited_of_the_host(frames: TracebackType | None) -> str | None:
    """Return in words what of the host's a kernel awaited: a completion, a stream. None where it did not."""
    door = None  # the first frame of the package after the program's own
    while frames is not None:
        frame = frames.tb_frame
        if not frame.f_code.co_filename.startswith(PACKAGE):
            door = None
        elif door is None:
            door = frame
        if door is not None and str(frame.f_globals.get("__name__")).startswith(HOST_WAITS):
            return repr(door.f_locals["self"]) if "self" in door.f_locals else "what runs on the host"
        frames = frames.tb_next
    return None


def _kernel_frames(frames: TracebackType | None) -> TracebackType | None:
    """Return the traceback from the kernel's own frame on, the first outside this package; None without one."""
    while frames is not None and frames.tb_frame.f_code.co_filename.startswith(PACKAGE):
        frames = frames.tb_next
    return frames


def _innermost(frames: TracebackType | None) -> TracebackType | None:
    """Return the entry of a traceback where the error was raised; for what numpy raises, where numpy was called."""
    raised = frames
    while frames is not None:
        file = frames.tb_frame.f_code.co_filename
        if file.startswith(PACKAGE) or not file.startswith(NOT_THE_PROGRAM):
            raised = frames
        frames = frames.tb_next
    return raised


def _in_a_foreign_loop(frames: TracebackType | None) -> bool:
    """Return whether the error was raised inside an event loop's package, which a kernel has no use for."""
    while frames is not None:
        module = frames.tb_frame.f_globals.get("__name__", "")
        if isinstance(module, str) and module.partition(".")[0] in FOREIGN_LOOPS:
            return True
        frames = frames.tb_next
    return False
