"""Errors as result codes, and codes as errors (`check`): the same for every API of C-style functions.

An error has a code of its own. Where a function's documentation does not list it, INSTEAD may name one that it does.
An API's `CodeTable` says which of its members stands for which code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import IntEnum
from typing import Any, Final, Generic, TypeVar, TypeVarTuple, overload

from atops.base.errors import AtopsError, InvalidHandle, InvalidType, PriorLaunchFailure
from atops.base.log_fields import get_logger
from atops.base.result_codes import Result
from atops.bridge.declarations import Function

__all__ = ("CodeError", "CodeTable", "NullHandle", "Overrides", "check", "result_of")

C = TypeVar("C", bound=IntEnum)
Overrides = Mapping[Result, Any]  # by the code of an error: the Result, or the member, to answer in its place

# Codes in whose place the first of these that the function lists is answered, else the last.
INSTEAD: Final[Mapping[Result, tuple[Result, ...]]] = {
    Result.InvalidDevice: (Result.InvalidDevice, Result.InvalidValue),
    Result.NoDevice: (Result.NoDevice, Result.InvalidDevice, Result.NoDevice),
    Result.InvalidDevicePointer: (Result.InvalidDevicePointer, Result.InvalidValue),
    Result.InvalidConfiguration: (Result.InvalidConfiguration, Result.InvalidValue),
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


def result_of(error: BaseException) -> Result:
    """Return the code of an exception, whichever function answers it: Unknown of an unexpected one.

    1. Skipped work answers with the failure of its stream (TOPS Runtime API, 2.5, failures).
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
    return Result.Unknown


class CodeTable(Generic[C]):
    """How one API answers: `codes` are its members by the code of an error, `other` is for codes that it lacks.

    `name` is that of its log.

    `listed` tells whether its functions answer only codes of their own documentation where INSTEAD has another for
    them; `classes` gives members to classes of errors; `reason` returns the message of the last failure with a code, or
    None. Making the table lets `check` take the API's codes.
    """

    def __init__(
        self, name: str, kind: type[C], codes: Mapping[Result, C], other: C, reason: Callable[[C], str | None], *,
        listed: bool = True, classes: Mapping[type[AtopsError], C] | None = None,
    ) -> None:  # fmt: skip
        self._log = get_logger(name)
        self._codes = codes
        self._other = other
        self._listed = listed
        self._classes = classes or {}
        self.reason = reason
        self._results: dict[C, Result] = {}
        for result, code in codes.items():
            self._results.setdefault(code, result)
        TABLES[kind] = self

    def code_of(self, error: BaseException, function: Function, overrides: Overrides) -> C:
        """Return the code that `function` answers an exception with; `overrides` come before all else."""
        for kind, member in self._classes.items():
            if isinstance(error, kind):
                return member
        code = result_of(error)
        if code is Result.Unknown and not isinstance(error, AtopsError):
            self._log.error(
                "%s met an unexpected error", function.name, exc_info=error, extra={"function": function.name}
            )
        if self._listed and isinstance(error, NullHandle) and code not in function.codes:
            code = Result.InvalidValue
        if code in overrides:
            instead = overrides[code]
            return self._codes[instead] if isinstance(instead, Result) else instead
        if self._listed:
            for each in INSTEAD.get(code, ()):
                code = each
                if each in function.codes:
                    break
        return self._codes.get(code, self._other)

    def error_for(self, code: C, message: str) -> AtopsError:
        """Return the exception for a code: of the class that has it, if any."""
        result = self._results.get(code, Result.Unknown)
        kind = CLASSES.get(result) if self._listed else None
        return kind(message) if kind is not None else CodeError(result, message)


TABLES: Final[dict[type[IntEnum], CodeTable[Any]]] = {}


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
def check(answer: tuple[IntEnum]) -> None: ...
@overload
def check(answer: tuple[IntEnum, T]) -> T: ...
@overload
def check(answer: tuple[IntEnum, T, U, *Ts]) -> tuple[T, U, *Ts]: ...
@overload
def check(answer: object) -> Any: ...
def check(answer: object) -> Any:
    """Return the results of a call: nothing, one value or a tuple. Raises the exception for the code of a failure.

    `answer` is what the call returned, or a code alone. The exception is of the class of `atops.base.errors` that has
    this code, and says why the call failed. Raises InvalidType for other arguments.
    """
    code, *results = answer if isinstance(answer, tuple) and answer else (answer,)
    table = TABLES.get(type(code))  # of what is no code there is none
    if table is None:
        raise InvalidType(f"check() expects what a C-style function returned, got {answer!r}")
    if code:
        reason = table.reason(code)
        raise table.error_for(code, f"{code.name}: {reason}" if reason else code.name)
    return None if not results else results[0] if len(results) == 1 else tuple(results)
