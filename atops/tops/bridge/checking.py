"""From codes back to exceptions: the one funnel for programs that would rather have those."""

from __future__ import annotations

from typing import Any, TypeVar, TypeVarTuple, overload

from atops.base.errors import InvalidType
from atops.base.result_codes import explain
from atops.tops.bridge.codes import error_for
from atops.tops.bridge.last_error import explain_rtc, last
from atops.tops.types.error_codes import topsError_t, topsrtcResult

__all__ = ("check",)

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
def check(answer: Any) -> Any:
    """Return the results of a call: nothing, one value or a tuple. Raises the exception for a code that is no success.

    `answer` is what the call returned, or a code alone. The exception is of the class of `atops.base.errors` that has
    this code, and says why the call failed. InvalidType for what is no answer.
    """
    code, *results = answer if isinstance(answer, tuple) and answer else (answer,)
    if not isinstance(code, topsError_t | topsrtcResult):
        raise InvalidType(f"check of {answer!r}; what a C-style function returned is right")
    if code:
        reason = _reason(code) if isinstance(code, topsError_t) else explain_rtc(code)
        raise error_for(code, f"{code.name}: {reason}" if reason else code.name)
    return None if not results else results[0] if len(results) == 1 else tuple(results)


def _reason(code: topsError_t) -> str:
    """Return what the last failure of this context said, if it was this one, else what the code means."""
    stored = last()
    return stored.message if stored is not None and stored.code is code else explain(code)
