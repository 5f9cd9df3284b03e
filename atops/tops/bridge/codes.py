"""From exceptions to codes and back, in one place each way: exceptions live inside, codes only at the C edge.

The code of an error is its own. An entry's documented list wins over it where the table below says what else would do.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Final

from atops.base.errors import AtopsError, InvalidOption, PriorLaunchFailure
from atops.base.result_codes import Result
from atops.tops.tables.function import Function
from atops.tops.types.error_codes import topsError_t, topsrtcResult

__all__ = ("CodeError", "Overrides", "code_of", "error_for", "rtc_code_of")

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
    """A failure that only the C-style functions know, with the code that it has there, or that `check` was given."""

    def __init__(self, code: Result, message: str) -> None:
        super().__init__(code, message)
        self.code = code  # type: ignore[misc]  # this one carries its own code

    def __str__(self) -> str:
        return str(self.args[1])


def code_of(error: BaseException, function: Function, overrides: Overrides) -> topsError_t:
    """Return the code that `function` answers an exception with. What nobody expected is Unknown, and logged."""
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
    """Return the code of an exception, whoever answers it.

    1. Work that was skipped tells the fault that poisoned its stream (2.5, failures).
    2. An error of this package has a code.
    3. Python's own complaints about arguments are wrong arguments; MemoryError is no memory.
    """
    while isinstance(error, PriorLaunchFailure) and isinstance(error.__cause__, AtopsError):
        error = error.__cause__
    if isinstance(error, AtopsError):
        return error.code
    if isinstance(error, MemoryError):
        return Result.OutOfMemory
    if isinstance(error, TypeError | ValueError | OverflowError):
        return Result.InvalidValue
    log.error("%s met an error that it does not know", function.name, exc_info=error)
    return Result.Unknown


def error_for(code: topsError_t | topsrtcResult, message: str) -> AtopsError:
    """Return the exception for a code that is no success: of the class that has this code, if there is one."""
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
