"""Turn exceptions into result codes, and codes back into exceptions: `check`.

An error has a code of its own. Where a function's documentation does not list it, INSTEAD may name one that it does.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeVar, TypeVarTuple, overload

from atops.base.errors import AtopsError, InvalidOption, InvalidType, PriorLaunchFailure
from atops.base.result_codes import Result, explain
from atops.tops.bridge.last_error import explain_rtc, last
from atops.tops.tables.function import Function
from atops.tops.types.error_codes import topsError_t, topsrtcResult

__all__ = ("CodeError", "Overrides", "check", "code_of", "error_for", "rtc_code_of")

log = logging.getLogger("atops.tops")

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


def code_of(error: BaseException, function: Function, overrides: Overrides) -> topsError_t:
    """Return the code that `function` answers an exception with. An unexpected one is Unknown, and logged."""
    code = _inner(error, function)
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
    log.error("%s met an unexpected error", function.name, exc_info=error)
    return Result.Unknown


def error_for(code: topsError_t | topsrtcResult, message: str) -> AtopsError:
    """Return the exception for a failure's code: of the class that has this code, if there is one."""
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


Code = topsError_t | topsrtcResult
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
        reason = _reason(code) if isinstance(code, topsError_t) else explain_rtc(code)
        raise error_for(code, f"{code.name}: {reason}" if reason else code.name)
    return None if not results else results[0] if len(results) == 1 else tuple(results)


def _reason(code: topsError_t) -> str:
    """Return the message of the last failure of this context if it had this code, else what the code means."""
    stored = last()
    return stored.message if stored is not None and stored.code is code else explain(code)
