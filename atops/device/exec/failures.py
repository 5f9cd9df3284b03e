"""What goes wrong in a grid, in words: the failure that a kernel's exception becomes, and the report of a deadlock."""

from __future__ import annotations

import dis
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING

from atops.base.errors import ExecutionError, KernelAssert, KernelDeadlock, LaunchFailure, MissingAwait
from atops.base.log_fields import message_of
from atops.device.call_site import NOT_THE_PROGRAM, PACKAGE, Site, asserted, file_shown, source_name
from atops.device.exec.thread import asked

if TYPE_CHECKING:
    from atops.device.exec.block import Block
    from atops.device.exec.grid import Grid
    from atops.device.exec.thread import KernelThread, Request

__all__ = ("block_deadlock", "deadlock", "failure_of", "waiting_lines")

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
    the kernel raised becomes a KernelAssert. A request that the thread had made and dropped is named as well: what
    comes behind it ran too early, and may have failed for that.
    """
    kind, text = _said(thread, error)
    text += _place(error)
    if thread.unawaited is not None and not isinstance(error, MissingAwait) and _dropped(thread.unawaited):
        kind = MissingAwait if kind is LaunchFailure else kind
        text += f"; before that it {asked(thread.unawaited)}"
    failure = _made(kind, text, thread, error)
    failure.__cause__ = BaseException.with_traceback(error, _kernel_frames(error.__traceback__) or error.__traceback__)
    return failure


def _dropped(request: Request) -> bool:
    """Whether the statement that made a request drops it, so that nothing can await it later."""
    frame = getattr(request, "frame", None)
    if frame is None:  # the call of a device function, which notes itself when it is dropped
        return True
    after = (each.opname for each in dis.get_instructions(frame.f_code) if each.offset > request.lasti)
    return next(after, "") == "POP_TOP"


def _made(kind: type[LaunchFailure], text: str, thread: KernelThread, error: BaseException) -> LaunchFailure:
    """Return a failure of this kind; a plain LaunchFailure where a kind of the program's own cannot be made and told.

    A kind that takes other arguments than a message is made without them. Whatever it raises, the launch must end.
    """
    for make in (kind, partial(kind.__new__, kind), LaunchFailure):
        with suppress(BaseException):
            failure = make(text)
            failure.block, failure.thread = thread.block.index, thread.index
            if isinstance(error, ExecutionError):
                with suppress(BaseException):
                    failure.__dict__["code"] = error.code  # an illegal address stays one at the C edge
            str(failure.fresh())  # as each waiter gets it
            return failure
    raise AssertionError("a LaunchFailure of our own can be made")


def _said(thread: KernelThread, error: BaseException) -> tuple[type[LaunchFailure], str]:
    """Return what kind of failure it is, and what to say of it: the thread is named once."""
    said, subject = message_of(error), str(thread)
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
    if isinstance(error, TypeError) and UNAWAITABLE.search(said := message_of(error)):
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


# ---- deadlocks: threads and blocks that wait alike are one group; the caller holds the barrier's lock


def deadlock(grids: Iterable[Grid]) -> KernelDeadlock:
    """Return the error for grids of which no thread can go on, naming all threads and what they wait at."""
    lines = [line for grid in grids for line in waiting_lines(grid)]
    return KernelDeadlock("deadlock, no thread can go on: " + "; ".join(lines))


def block_deadlock(block: Block) -> KernelDeadlock:
    """Return the error for one block whose threads can only wait for each other."""
    return KernelDeadlock(
        f"deadlock, no thread can go on: kernel {block.grid.name}, block {block.linear}: {_threads(block)}"
    )


def waiting_lines(grid: Grid) -> list[str]:
    """Return a line for each group of blocks that wait alike, and one each for those that are over or not placed."""
    groups: dict[str, list[int]] = {}
    for linear, block in sorted(grid.blocks.items()):
        if any(thread.stands_at() for thread in block.threads):
            groups.setdefault(_threads(block), []).append(linear)
    lines = [f"kernel {grid.name}, {_count('block', which)}: {how}" for how, which in groups.items()]
    ended = grid.total_blocks - grid.remaining
    if not lines:
        return [f"kernel {grid.name}: every block has left the kernel"] if not grid.remaining else []
    if ended:
        lines.append(f"{ended} of its {grid.total_blocks} blocks {'has' if ended == 1 else 'have'} left the kernel")
    stranded = grid.placement.stranded(grid) if grid.placement is not None else 0
    if stranded:
        lines.append(f"{_number('block', stranded)} of it cannot start: its own waiting blocks hold every cluster")
    return lines


def _threads(block: Block) -> str:
    """Say what each group of threads of a block waits at, and where; with the detectors, what it accessed last."""
    groups: dict[tuple[str, str], list[int]] = {}
    for thread in block.threads:
        last = "" if thread.race is None else thread.race.last_access()
        if thread.ended:
            what = "left the kernel"
        elif (what := thread.stands_at() or "") != "":
            file, line = thread.where()
            what = f"{what}, {file_shown(file)}:{line}"
        groups.setdefault((what, last), []).append(thread.linear)
    parts = []
    for (what, last), which in groups.items():
        one = len(which) == 1
        if what == "left the kernel":
            verb = "has left the kernel" if one else "have left the kernel"
        elif what:
            verb = f"{'waits' if one else 'wait'} at {what}"
        else:
            verb = "can run"
        parts.append(f"{_count('thread', which)} {verb}{last and f' ({last})'}")
    return "; ".join(parts)


def _count(noun: str, numbers: Sequence[int]) -> str:
    """Return "thread 3" or "threads 0-3, 7"."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    text = ", ".join("-".join(map(str, run)) for run in runs)
    return f"{noun} {text}" if len(numbers) == 1 else f"{noun}s {text}"


def _number(noun: str, count: int) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
