"""Error handling: TOPS Runtime API, 2.3."""

from __future__ import annotations

from typing import Any

from atops.tops.bridge.call import call
from atops.tops.bridge.last_error import forget, last
from atops.tops.types.error_codes import topsError_t

__all__ = ("name_of", "topsGetErrorName", "topsGetErrorString", "topsGetLastError", "topsPeekAtLastError")


@call
def topsGetLastError() -> topsError_t | None:
    """Answer the last failure of this context, and reset it. A success in between does not erase it."""
    error = last()
    forget()
    return None if error is None else error.code


@call
def topsPeekAtLastError() -> topsError_t | None:
    """Answer the last failure of this context, and keep it."""
    error = last()
    return None if error is None else error.code


@call
def topsGetErrorName(tops_error: Any) -> str:
    """Return the name of a code: "topsErrorUnknown" for what is none."""
    return name_of(tops_error)


@call
def topsGetErrorString(topsError: Any) -> str:
    """Return the name of a code, as topsGetErrorName does; `atops.base.result_codes.explain` explains it."""
    return name_of(topsError)


def name_of(code: Any) -> str:
    """Return the name of a code, or of topsErrorUnknown."""
    try:
        return topsError_t(code).name
    except ValueError:
        return topsError_t.topsErrorUnknown.name
