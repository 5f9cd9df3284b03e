"""Runtime compilation as hip-python has it: `from atops.hip import hiprtc`.

A program is a text in TOPS C++, or in Python; what it may say is in docs/cxx.md and docs/kernels.md. Calls return
`(hiprtcResult, ...)`; the log and the code are stored in host memory that the caller has: a bytearray, say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from inspect import unwrap
from typing import Any, Final

import numpy as np

from atops.base.errors import InvalidOption, InvalidValue
from atops.base.result_codes import Result
from atops.bridge.arguments import listed, text_of
from atops.bridge.call import Bridge, Twins
from atops.bridge.codes import CodeTable
from atops.bridge.codes import check as check
from atops.bridge.handles import live
from atops.bridge.pointers import is_null
from atops.hip.functions.api import derived
from atops.hip.functions.host import host_bytes_of
from atops.hip.header.error_codes import hiprtcResult
from atops.hip.header.functions import RTC_FUNCTIONS
from atops.hip.header.pointers import Pointer
from atops.kernels.programs.program import Program
from atops.tops.functions import module as tops

NAME: Final = "atops.hip"  # of its log
REASON: ContextVar[tuple[hiprtcResult, str] | None] = ContextVar("atops_hip_rtc_reason", default=None)
Text = str | bytes

__all__ = (
    "check", "hiprtcAddNameExpression", "hiprtcCompileProgram", "hiprtcCreateProgram", "hiprtcDestroyProgram",
    "hiprtcGetCode", "hiprtcGetCodeSize", "hiprtcGetErrorString", "hiprtcGetLoweredName", "hiprtcGetProgramLog",
    "hiprtcGetProgramLogSize", "hiprtcResult", "hiprtcVersion",
)  # fmt: skip


def _remember(code: hiprtcResult, message: str) -> None:
    REASON.set((code, message))


def _reason(code: hiprtcResult) -> str | None:
    said = REASON.get()
    return said[1] if said is not None and said[0] is code else None


CODES: Final = CodeTable(
    NAME,
    hiprtcResult,
    {
        Result.InvalidValue: hiprtcResult.HIPRTC_ERROR_INVALID_INPUT,
        Result.OutOfMemory: hiprtcResult.HIPRTC_ERROR_OUT_OF_MEMORY,
        Result.InvalidHandle: hiprtcResult.HIPRTC_ERROR_INVALID_PROGRAM,
        Result.InvalidSource: hiprtcResult.HIPRTC_ERROR_COMPILATION,
        Result.NotFound: hiprtcResult.HIPRTC_ERROR_NAME_EXPRESSION_NOT_VALID,
        Result.NotSupported: hiprtcResult.HIPRTC_ERROR_BUILTIN_OPERATION_FAILURE,
        Result.IllegalState: hiprtcResult.HIPRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION,
    },
    hiprtcResult.HIPRTC_ERROR_INTERNAL_ERROR,
    _reason,
    listed=False,
    classes={InvalidOption: hiprtcResult.HIPRTC_ERROR_INVALID_OPTION},
)
TWINS: Final[Twins] = {}  # none of them waits
SUCCESS: Final = hiprtcResult.HIPRTC_SUCCESS
call: Final = Bridge(NAME, RTC_FUNCTIONS, TWINS, SUCCESS, CODES.code_of, _remember, {})
# Options of compilers that change nothing here: results do not depend on them.
WITHOUT_EFFECT: Final = ("-O", "-std=", "--std=", "-g", "-f", "-m", "-W", "-R", "-x", "--fmad=")
CHIP: Final = ("--offload-arch", "--gpu-architecture", "-arch", "-march")  # "gfx90a:xnack-": features are left out
AFTER: Final[Mapping[Any, Any]] = {
    Result.IllegalState: hiprtcResult.HIPRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION
}  # fmt: skip


@call
def hiprtcGetErrorString(result: object) -> bytes:
    """Return the name of a code; "Invalid HIPRTC error code" for other values."""
    try:
        return hiprtcResult(result).name.encode()  # type: ignore[arg-type]  # ValueError for other types too
    except ValueError:
        return b"Invalid HIPRTC error code"


hiprtcVersion = derived(tops.topsrtcVersion, call)
hiprtcAddNameExpression = derived(tops.topsrtcAddNameExpression, call.instead(AFTER))
hiprtcGetProgramLogSize = derived(tops.topsrtcGetProgramLogSize, call)
hiprtcGetCodeSize = derived(tops.topsrtcGetCodeSize, call)
hiprtcDestroyProgram = derived(tops.topsrtcDestroyProgram, call)


@call
def hiprtcCreateProgram(
    src: Text, name: Text | None, numHeaders: int, headers: Sequence[Text] | None, includeNames: Sequence[Text] | None
) -> int:
    """Return a program of a source text. `name` is what its log calls it.

    `headers` are texts that it may include, by the names that `includeNames` has in the same order; both may be None.
    INVALID_INPUT: not texts, or another count.
    """
    if is_null(src):
        raise InvalidValue("src must be a text, got null")
    made = unwrap(tops.topsrtcCreateProgram)(src, name, numHeaders, headers, includeNames)
    return Pointer(made)


@call
def hiprtcCompileProgram(prog: int, numOptions: int, options: Sequence[Text] | None) -> None:
    """Compile a program, for the current device's chip where no `--offload-arch` names another.

    Options are those of `parse_options`; optimisation and warnings are left out of account. COMPILATION: errors in the
    text, which the log has with their places; INVALID_OPTION; INVALID_INPUT; INVALID_PROGRAM.
    """
    given = listed(() if is_null(options) else options, numOptions, "options")
    texts = [text_of(each, "one of options") for each in given]
    kept = [each.split(":")[0] if each.startswith(CHIP) else each for each in texts if _has_effect(each)]
    kept.append("-D__HIPCC_RTC__=1")
    unwrap(tops.topsrtcCompileProgram)(prog, len(kept), kept)


@call
def hiprtcGetLoweredName(prog: int, name_expression: Text) -> bytes:
    """Return the name that the module has for a name expression, added before the compilation.

    NAME_EXPRESSION_NOT_VALID: not added, or it names nothing; NO_LOWERED_NAMES_BEFORE_COMPILATION; INVALID_PROGRAM.
    """
    lowered: str = unwrap(tops.topsrtcGetLoweredName)(prog, name_expression)
    return lowered.encode()


def _has_effect(option: str) -> bool:
    return option == "-Werror" or option.startswith(CHIP) or not option.startswith(WITHOUT_EFFECT)


@call
def hiprtcGetProgramLog(prog: int, log: object) -> None:
    """Store the log of the last compilation, with the zero that ends it, in `log`: hiprtcGetProgramLogSize bytes.

    INVALID_INPUT: too little room; INVALID_PROGRAM.
    """
    _store(str(live(prog, Program).log).encode(errors="replace") + b"\0", log, "log")


@call
def hiprtcGetCode(prog: int, code: object) -> None:
    """Store the code image of the compiled program in `code`, hiprtcGetCodeSize bytes, for hipModuleLoadData.

    COMPILATION: not compiled, or with errors; INVALID_INPUT: too little room; INVALID_PROGRAM.
    """
    _store(live(prog, Program).image().to_bytes(), code, "code")


def _store(data: bytes, target: object, what: str) -> None:
    host_bytes_of(target, len(data), what, writable=True)[: len(data)] = np.frombuffer(data, np.uint8)
