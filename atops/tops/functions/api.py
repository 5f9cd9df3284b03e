"""TOPS as one API of `atops.bridge`: the decorators `call` and `rtc_call`, its codes, its last error, its twins."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final

from atops.base.errors import InvalidOption
from atops.base.result_codes import Result, explain
from atops.bridge.call import Bridge, Twins
from atops.bridge.codes import CodeTable
from atops.bridge.last_error import LastError, LastErrors
from atops.tops.header.error_codes import topsError_t, topsrtcResult
from atops.tops.header.functions import FUNCTIONS

__all__ = ("CODES", "TWINS", "call", "forget", "last", "reason", "remember", "rtc_call")

NAME: Final = "atops.tops"  # of its log
ERRORS: Final[LastErrors[topsError_t]] = LastErrors("atops_tops")
last = ERRORS.last
# What `forget` has forgotten last, which may still be asked for its reason.
FORGOTTEN: ContextVar[LastError[topsError_t] | None] = ContextVar("atops_tops_forgotten", default=None)
# The last failure of runtime compilation, which `check` explains. It is no last error.
RTC_REASON: ContextVar[tuple[topsrtcResult, str] | None] = ContextVar("atops_tops_rtc_reason", default=None)


def remember(code: topsError_t, message: str) -> None:
    """Store a failure for this context. NotReady is none."""
    if code is not topsError_t.topsErrorNotReady:
        ERRORS.remember(code, message)


def forget() -> None:
    """Reset the last failure of this context."""
    if (error := last()) is not None:
        FORGOTTEN.set(error)
    ERRORS.forget()


def _remember_rtc(code: topsrtcResult, message: str) -> None:
    RTC_REASON.set((code, message))


def reason(code: topsError_t) -> str | None:
    """Return the message of the last failure of this context that had this code, else what the code means."""
    for stored in (last(), FORGOTTEN.get()):
        if stored is not None and stored.code is code:
            return stored.message
    return explain(code)


def _rtc_reason(code: topsrtcResult) -> str | None:
    said = RTC_REASON.get()
    return said[1] if said is not None and said[0] is code else None


CODES: Final = CodeTable(
    NAME, topsError_t, {Result(int(code)): code for code in topsError_t}, topsError_t.topsErrorUnknown, reason
)
RTC_CODES: Final = CodeTable(
    NAME,
    topsrtcResult,
    {
        Result.InvalidValue: topsrtcResult.TOPSRTC_ERROR_INVALID_INPUT,
        Result.OutOfMemory: topsrtcResult.TOPSRTC_ERROR_OUT_OF_MEMORY,
        Result.InvalidHandle: topsrtcResult.TOPSRTC_ERROR_INVALID_PROGRAM,
        Result.InvalidSource: topsrtcResult.TOPSRTC_ERROR_COMPILATION,
        Result.NotFound: topsrtcResult.TOPSRTC_ERROR_NAME_EXPRESSION_NOT_VALID,
        Result.IllegalState: topsrtcResult.TOPSRTC_ERROR_COMPILATION,
    },
    topsrtcResult.TOPSRTC_ERROR_INTERNAL_ERROR,
    _rtc_reason,
    listed=False,
    classes={InvalidOption: topsrtcResult.TOPSRTC_ERROR_INVALID_OPTION},
)
TWINS: Final[Twins] = {}
call: Final = Bridge(NAME, FUNCTIONS, TWINS, topsError_t.topsSuccess, CODES.code_of, remember, {})
rtc_call: Final = Bridge(NAME, FUNCTIONS, TWINS, topsrtcResult.TOPSRTC_SUCCESS, RTC_CODES.code_of, _remember_rtc, {})
