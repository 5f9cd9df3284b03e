"""Errors as result codes and codes as errors (`check`), and the last error of each context.

An error has a code of its own. Where a function's documentation does not list it, INSTEAD may name one that it does.

The last error is what topsPeekAtLastError keeps and topsGetLastError resets. A context is an asyncio or trio task, or a
thread outside of tasks. A task does not see what another one that still runs has failed with; what a finished task left
behind is read in its thread, so that an error of one notebook cell can be asked for in the next.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from typing import Any, Final, NamedTuple, TypeVar, TypeVarTuple, overload
from weakref import ref

from atops.base.errors import AtopsError, InvalidHandle, InvalidOption, InvalidType, PriorLaunchFailure
from atops.base.log_fields import get_logger
from atops.base.result_codes import Result, explain
from atops.tops.header.error_codes import topsError_t, topsrtcResult
from atops.tops.header.functions import Function

__all__ = (
    "CodeError", "LastError", "NullHandle", "Overrides", "ThreadError", "check", "code_of", "forget", "last",
    "remember", "rtc_code_of", "running_task",
)  # fmt: skip

Code = topsError_t | topsrtcResult

# ---- the last error of a task or thread


class LastError(NamedTuple):
    """A failure: its code, the call and the reason as text, and the task that made the call, if any."""

    code: topsError_t
    message: str
    owner: ref[Any] | None


class ThreadError(threading.local):
    """The newest failure of one thread, in whichever of its tasks."""

    error: LastError | None = None


OWN: ContextVar[LastError | None] = ContextVar("atops_tops_last_error", default=None)
THREAD = ThreadError()
# The last failure of runtime compilation, which `check` explains. It is no last error.
RTC_REASON: ContextVar[tuple[topsrtcResult, str] | None] = ContextVar("atops_tops_rtc_reason", default=None)


def remember(code: Code, message: str) -> None:
    """Store a failure for this context. NotReady is none; one of runtime compilation is stored for `check` alone."""
    if isinstance(code, topsrtcResult):
        RTC_REASON.set((code, message))
        return
    if code is topsError_t.topsErrorNotReady:
        return
    task = running_task()
    error = LastError(code, message, None if task is None else ref(task))
    OWN.set(error)
    THREAD.error = error


def last() -> LastError | None:
    """Return the last failure of this context since the last reset, or None."""
    task = running_task()
    own = OWN.get()
    if own is not None and _task_of(own) is task and (task is not None or own is THREAD.error):
        return own
    left = THREAD.error
    if left is None:
        return None
    owner = _task_of(left)
    return left if owner is task or owner is None or _is_over(owner) else None


def forget() -> None:
    """Reset the last failure of this context."""
    if (error := last()) is not None:
        OWN.set(None)
        if THREAD.error is error:
            THREAD.error = None


def running_task() -> Any:
    """Return the task of asyncio or trio that runs here, or None in plain code."""
    try:
        if (task := asyncio.current_task()) is not None:
            return task
    except RuntimeError:
        pass
    trio = sys.modules.get("trio")
    try:
        return None if trio is None else trio.lowlevel.current_task()
    except RuntimeError:
        return None


def _task_of(error: LastError) -> Any:
    return None if error.owner is None else error.owner()


def _is_over(task: Any) -> bool:
    """Return whether a task of asyncio or trio has ended."""
    if isinstance(task, asyncio.Future):
        return task.done()
    nursery = task.parent_nursery
    return nursery is None or task not in nursery.child_tasks


# ---- codes

log = get_logger("atops.tops")

Overrides = Mapping[Result, Result]
TOPS: Final = {int(code): code for code in topsError_t}

# Codes in whose place the first of these that the entry lists is answered, else the last.
INSTEAD: Final[Mapping[Result, tuple[Result, ...]]] = {
    Result.InvalidDevice: (Result.InvalidDevice, Result.InvalidValue),
    Result.NoDevice: (Result.NoDevice, Result.InvalidDevice, Result.NoDevice),
    Result.InvalidDevicePointer: (Result.InvalidDevicePointer, Result.InvalidValue),
    Result.InvalidConfiguration: (Result.InvalidConfiguration, Result.InvalidValue),
}
RTC: Final[Mapping[Result, topsrtcResult]] = {
    Result.InvalidValue: topsrtcResult.TOPSRTC_ERROR_INVALID_INPUT,
    Result.OutOfMemory: topsrtcResult.TOPSRTC_ERROR_OUT_OF_MEMORY,
    Result.InvalidHandle: topsrtcResult.TOPSRTC_ERROR_INVALID_PROGRAM,
    Result.InvalidSource: topsrtcResult.TOPSRTC_ERROR_COMPILATION,
    Result.NotFound: topsrtcResult.TOPSRTC_ERROR_NAME_EXPRESSION_NOT_VALID,
    Result.IllegalState: topsrtcResult.TOPSRTC_ERROR_COMPILATION,
}


class CodeError(AtopsError):
    """A failure without a class of its own, with the code that a C-style function answers for it."""

    def __init__(self, code: Result, message: str) -> None:
        super().__init__(code, message)
        self.code = code  # type: ignore[misc]  # of the instance, not of the class

    def __str__(self) -> str:
        return str(self.args[1])


class NullHandle(InvalidHandle):
    """A null in the place of a handle: InvalidHandle where the function's own list has that, else InvalidValue."""


def code_of(error: BaseException, function: Function, overrides: Overrides) -> topsError_t:
    """Return the code that `function` answers an exception with. An unexpected one is Unknown, and logged."""
    code = _inner(error, function)
    if isinstance(error, NullHandle) and code not in function.codes:
        code = Result.InvalidValue
    if code in overrides:
        return TOPS[overrides[code]]
    for instead in INSTEAD.get(code, ()):
        code = instead
        if instead in function.codes:
            break
    return TOPS[code]


def rtc_code_of(error: BaseException, function: Function, overrides: Mapping[Result, topsrtcResult]) -> topsrtcResult:
    """Return the code that a function of runtime compilation answers an exception with."""
    if isinstance(error, InvalidOption):
        return topsrtcResult.TOPSRTC_ERROR_INVALID_OPTION
    code = _inner(error, function)
    return overrides.get(code) or RTC.get(code, topsrtcResult.TOPSRTC_ERROR_INTERNAL_ERROR)


def _inner(error: BaseException, function: Function) -> Result:
    """Return the code of an exception, whichever function answers it.

    1. Skipped work answers with the failure of its stream (2.5, failures).
    2. An error of this package has a code.
    3. Python's own errors about arguments are InvalidValue; MemoryError is OutOfMemory.
    """
    while isinstance(error, PriorLaunchFailure) and isinstance(error.__cause__, AtopsError):
        error = error.__cause__
    if isinstance(error, AtopsError):
        return error.code
    if isinstance(error, MemoryError):
        return Result.OutOfMemory
    if isinstance(error, TypeError | ValueError | OverflowError):
        return Result.InvalidValue
    log.error("%s met an unexpected error", function.name, exc_info=error, extra={"function": function.name})
    return Result.Unknown


def _error_for(code: Code, message: str) -> AtopsError:
    if isinstance(code, topsrtcResult):
        result = next((result for result, rtc in RTC.items() if rtc is code), Result.Unknown)
        return CodeError(result, message)
    result = Result(int(code))
    kind = CLASSES.get(result)
    return kind(message) if kind is not None else CodeError(result, message)


def _classes(kind: type[AtopsError]) -> Iterator[type[AtopsError]]:
    yield kind
    for each in kind.__subclasses__():
        if each.__module__ == AtopsError.__module__:
            yield from _classes(each)


# Of the classes that have a code the one that is named after it, else the one nearest to the root.
CLASSES: Final[dict[Result, type[AtopsError]]] = {}
for _kind in sorted(_classes(AtopsError), key=lambda kind: (kind.__name__ != kind.code.name, len(kind.__mro__))):
    if _kind.code is not Result.Unknown and not issubclass(_kind, PriorLaunchFailure):
        CLASSES.setdefault(_kind.code, _kind)


T = TypeVar("T")
U = TypeVar("U")
Ts = TypeVarTuple("Ts")


@overload
def check(answer: tuple[Code]) -> None: ...
@overload
def check(answer: tuple[Code, T]) -> T: ...
@overload
def check(answer: tuple[Code, T, U, *Ts]) -> tuple[T, U, *Ts]: ...
@overload
def check(answer: object) -> Any: ...
def check(answer: object) -> Any:
    """Return the results of a call: nothing, one value or a tuple. Raises the exception for the code of a failure.

    `answer` is what the call returned, or a code alone. The exception is of the class of `atops.base.errors` that has
    this code, and says why the call failed. Raises InvalidType for other arguments.
    """
    code, *results = answer if isinstance(answer, tuple) and answer else (answer,)
    if not isinstance(code, topsError_t | topsrtcResult):
        raise InvalidType(f"check() expects what a C-style function returned, got {answer!r}")
    if code:
        reason = _reason(code)
        raise _error_for(code, f"{code.name}: {reason}" if reason else code.name)
    return None if not results else results[0] if len(results) == 1 else tuple(results)


def _reason(code: Code) -> str | None:
    """Return the message of the last failure of this context if it had this code, else what the code means."""
    if isinstance(code, topsrtcResult):
        said = RTC_REASON.get()
        return said[1] if said is not None and said[0] is code else None
    stored = last()
    return stored.message if stored is not None and stored.code is code else explain(code)
