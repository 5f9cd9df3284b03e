"""Runtime compilation: TOPS Runtime API, 2.10. A program's language is Python; one in C++ is refused in its log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from atops.base.errors import CompilationError, InvalidType, InvalidValue
from atops.base.result_codes import Result
from atops.kernels.compile.program import Program
from atops.tops.bridge.arguments import whole
from atops.tops.bridge.call import rtc_call
from atops.tops.bridge.handles import live, register, take
from atops.tops.bridge.pointers import is_null
from atops.tops.types.constants import RTC_VERSION
from atops.tops.types.error_codes import topsrtcResult

__all__ = (
    "topsrtcAddNameExpression",
    "topsrtcCompileProgram",
    "topsrtcCreateProgram",
    "topsrtcDestroyProgram",
    "topsrtcGetCode",
    "topsrtcGetCodeSize",
    "topsrtcGetErrorString",
    "topsrtcGetLoweredName",
    "topsrtcGetProgramLog",
    "topsrtcGetProgramLogSize",
    "topsrtcVersion",
)

Text = str | bytes


@rtc_call
def topsrtcGetErrorString(result: Any) -> str:
    """Return the name of a code; "Invalid TOPSRTC error code" for what is none."""
    try:
        return topsrtcResult(result).name
    except ValueError:
        return "Invalid TOPSRTC error code"


@rtc_call
def topsrtcVersion() -> tuple[int, int]:
    """Return the major and the minor number of the version."""
    return RTC_VERSION


@rtc_call
def topsrtcCreateProgram(
    source: Text,
    name: Text | None,
    num_headers: int | None,
    headers: Sequence[Text] | None,
    include_names: Sequence[Text] | None,
) -> int:
    """Return a program of a source text. `name` is what its log calls it; None is "program".

    A name that ends as C++ does (.cu, .cpp, ...) says that the text is C++, which does not compile here.

    `headers` are texts that it may import, by the names that `include_names` has in the same order; both are None where
    there are none. INVALID_INPUT: no texts, or another count.
    """
    texts, names = _texts(headers, num_headers, "headers"), _texts(include_names, num_headers, "include_names")
    if len(texts) != len(names) or len(set(names)) < len(names):
        raise InvalidValue(f"{len(texts)} headers have the names {names}; a name of its own for each is right")
    called = "program" if is_null(name) else _text(name, "name")
    return register(Program(_text(source, "source"), called, dict(zip(names, texts, strict=True))), None)


@rtc_call
def topsrtcDestroyProgram(program: int) -> None:
    """Let a program be gone. INVALID_INPUT: null; INVALID_PROGRAM: no live program."""
    if is_null(program):
        raise InvalidValue("program is null")
    take(program, Program)


@rtc_call.instead({Result.IllegalState: topsrtcResult.TOPSRTC_ERROR_INVALID_INPUT})
def topsrtcAddNameExpression(program: int, name_expression: Text) -> None:
    """Ask for the lowered name of a kernel or a variable, as "scale" or "&scale", before the program is compiled.

    INVALID_INPUT: null, no name, or after the compilation; INVALID_PROGRAM.
    """
    live(program, Program).add_name_expression(_text(name_expression, "name_expression"))


@rtc_call
def topsrtcCompileProgram(program: int, num_options: int | None, options: Sequence[Text] | None) -> None:
    """Compile a program. The log says what was wrong, with its place.

    COMPILATION: the text is wrong; INVALID_OPTION: an option is; INVALID_INPUT: no texts, or another count;
    INVALID_PROGRAM.
    """
    found = live(program, Program)
    texts = _texts(options, num_options, "options")
    try:
        found.compile(texts)
    except CompilationError as error:  # InvalidOption is one
        raise type(error)(_first_error(found)) from None


@rtc_call
def topsrtcGetLoweredName(program: int, name_expression: Text) -> str:
    """Return the lowered name of a name expression that was added; topsModuleGetFunction takes it.

    NAME_EXPRESSION_NOT_VALID: it was not added; COMPILATION: not compiled, or with errors; INVALID_INPUT: null;
    INVALID_PROGRAM.
    """
    return live(program, Program).lowered_name(_text(name_expression, "name_expression"))


@rtc_call
def topsrtcGetProgramLog(program: int) -> str:
    """Return what the last compilation said: "" where it said nothing. INVALID_PROGRAM."""
    return str(live(program, Program).log)


@rtc_call
def topsrtcGetProgramLogSize(program: int) -> int:
    """Return the bytes of the log in C, the end of the text included. INVALID_PROGRAM."""
    return len(str(live(program, Program).log).encode(errors="replace")) + 1


@rtc_call
def topsrtcGetCode(program: int) -> bytes:
    """Return the code image of the compiled program. COMPILATION: not compiled, or with errors; INVALID_PROGRAM."""
    return live(program, Program).image().to_bytes()


@rtc_call
def topsrtcGetCodeSize(program: int) -> int:
    """Return the bytes of the code image. COMPILATION: not compiled, or with errors; INVALID_PROGRAM."""
    return len(live(program, Program).image().to_bytes())


def _first_error(program: Program) -> str:
    """Return the first error of a program's log, with its line, and how many follow it."""
    first, *others = program.log.errors
    more = f"\n{len(others)} more in topsrtcGetProgramLog" if others else ""
    return f"{first}{more}"


def _text(value: Any, what: str) -> str:
    """Return a text. Raises InvalidType for null and for other things, ValueError for bytes that are no UTF-8."""
    if isinstance(value, bytes):
        return value.decode()
    if not isinstance(value, str):
        raise InvalidType(f"{what} is {value!r}; a text is right")
    return value


def _texts(values: Any, count: Any, what: str) -> list[str]:
    """Return texts whose count stands beside them. Raises InvalidType, InvalidValue."""
    given = () if is_null(values) else values
    if isinstance(given, str | bytes) or not isinstance(given, Sequence):
        raise InvalidType(f"{what} are {values!r}; a sequence of texts, or None, is right")
    if count is not None and whole(count, f"the count of {what}") != len(given):
        raise InvalidValue(f"{what} are {len(given)}, and their count is {count}; None or {len(given)} is right")
    return [_text(each, f"one of {what}") for each in given]
