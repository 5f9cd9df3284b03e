"""Runtime compilation: TOPS Runtime API, 2.10. A program's language is Python; one in C++ is refused in its log."""

from __future__ import annotations

from collections.abc import Sequence

from atops.base.errors import CompilationError, InvalidValue
from atops.base.result_codes import Result
from atops.kernels.compile.program import Program
from atops.tops.bridge.arguments import listed, text_of
from atops.tops.bridge.call import rtc_call
from atops.tops.bridge.handles import live, register, take
from atops.tops.bridge.pointers import is_null
from atops.tops.types.constants import RTC_VERSION
from atops.tops.types.error_codes import topsrtcResult

__all__ = (
    "topsrtcAddNameExpression", "topsrtcCompileProgram", "topsrtcCreateProgram", "topsrtcDestroyProgram",
    "topsrtcGetCode", "topsrtcGetCodeSize", "topsrtcGetErrorString", "topsrtcGetLoweredName", "topsrtcGetProgramLog",
    "topsrtcGetProgramLogSize", "topsrtcVersion",
)  # fmt: skip

Text = str | bytes


@rtc_call
def topsrtcGetErrorString(result: object) -> str:
    """Return the name of a code; "Invalid TOPSRTC error code" for other values."""
    try:
        return topsrtcResult(result).name  # type: ignore[arg-type]  # ValueError for other types too
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

    `headers` are texts that it may import, by the names that `include_names` has in the same order; both may be None.
    INVALID_INPUT: not texts, or another count.
    """
    texts, names = _texts(headers, num_headers, "headers"), _texts(include_names, num_headers, "include_names")
    if len(texts) != len(names) or len(set(names)) < len(names):
        raise InvalidValue(f"include_names must have a name of its own for each of {len(texts)} headers, got {names}")
    called = "program" if is_null(name) else text_of(name, "name")
    return register(Program(text_of(source, "source"), called, dict(zip(names, texts, strict=True))), None)


@rtc_call
def topsrtcDestroyProgram(program: int) -> None:
    """End a program. INVALID_INPUT: null; INVALID_PROGRAM: not a live program."""
    if is_null(program):
        raise InvalidValue("program is null")
    take(program, Program)


@rtc_call.instead({Result.IllegalState: topsrtcResult.TOPSRTC_ERROR_INVALID_INPUT})
def topsrtcAddNameExpression(program: int, name_expression: Text) -> None:
    """Ask for the lowered name of a kernel or a variable, as "scale" or "&scale", before the program is compiled.

    INVALID_INPUT: null, not a name, or after the compilation; INVALID_PROGRAM.
    """
    live(program, Program).add_name_expression(text_of(name_expression, "name_expression"))


@rtc_call
def topsrtcCompileProgram(program: int, num_options: int | None, options: Sequence[Text] | None) -> None:
    """Compile a program. The log has the errors, each with its place.

    COMPILATION: errors in the text; INVALID_OPTION; INVALID_INPUT: not texts, or another count;
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
    return live(program, Program).lowered_name(text_of(name_expression, "name_expression"))


@rtc_call
def topsrtcGetProgramLog(program: int) -> str:
    """Return the log of the last compilation, "" if it is empty. INVALID_PROGRAM."""
    return str(live(program, Program).log)


@rtc_call
def topsrtcGetProgramLogSize(program: int) -> int:
    """Return the size of the log in bytes, with the end of the text in C. INVALID_PROGRAM."""
    return len(str(live(program, Program).log).encode(errors="replace")) + 1


@rtc_call
def topsrtcGetCode(program: int) -> bytes:
    """Return the code image of the compiled program. COMPILATION: not compiled, or with errors; INVALID_PROGRAM."""
    return live(program, Program).image().to_bytes()


@rtc_call
def topsrtcGetCodeSize(program: int) -> int:
    """Return the size of the code image in bytes. COMPILATION: not compiled, or with errors; INVALID_PROGRAM."""
    return len(live(program, Program).image().to_bytes())


def _first_error(program: Program) -> str:
    """Return the first error of a program's log, with its line, and how many follow it."""
    first, *others = program.log.errors
    more = f"\n{len(others)} more in topsrtcGetProgramLog" if others else ""
    return f"{first}{more}"


def _texts(values: object, count: object, what: str) -> list[str]:
    """Return texts whose count stands beside them, none for null. Raises InvalidType, InvalidValue."""
    return [text_of(each, f"one of {what}") for each in listed(() if is_null(values) else values, count, what)]
