"""Parsing and compiling with Python, whose errors and warnings become diagnostics at their places."""

from __future__ import annotations
import __future__

import ast
import threading
import warnings
from collections.abc import Callable
from functools import partial
from types import CodeType
from typing import TypeVar

from atops.base.fork_locks import fork_safe
from atops.base.python_ast import module_tree
from atops.kernels.source.diagnostics import DiagnosticLog, SourcePosition, SourceText
from atops.kernels.source.python_unit import file_name

__all__ = ("TOO_DEEP", "compile_definition", "parse")

T = TypeVar("T")

TOO_DEEP = "nested too deeply to be compiled"
MOST_SYNTAX_ERRORS = 10
ANNOTATIONS = __future__.annotations.compiler_flag  # they stay texts, which are read and not run

_warning = fork_safe(threading.Lock())  # Python's list of warning filters is one for the process


def parse(source: SourceText, log: DiagnosticLog) -> ast.Module | None:
    """Return the syntax tree of a text, or None where it has an error.

    The parser stops at its first error. The definition around it is blanked and the rest read again, so that the
    errors of several definitions are reported at once.
    """
    if "\0" in source.text:
        before = source.text[: source.text.index("\0")]
        place = SourcePosition(before.count("\n") + 1, len(before) - before.rfind("\n"))
        log.error("the text has a null character", source, place)
        return None
    lines = list(source.lines)
    for attempt in range(MOST_SYNTAX_ERRORS):
        text = "\n".join(lines)
        errors: list[SyntaxError] = []
        tree = _quietly(partial(module_tree, text, file_name(source)), source, log, errors)
        if not errors:
            return tree if attempt == 0 else None
        _report(errors[0], source, log)
        _blank(lines, errors[0].lineno or 1, isinstance(errors[0], IndentationError))
    return None


def compile_definition(node: ast.stmt, source: SourceText, log: DiagnosticLog, known: bool) -> CodeType | None:
    """Compile one statement. Where an error is `known`, the compiler's error would repeat it and is dropped."""
    errors: list[SyntaxError] = []
    tree = ast.Module([node], [])
    code = _quietly(
        lambda: compile(tree, file_name(source), "exec", ANNOTATIONS, dont_inherit=True), source, log, errors
    )  # fmt: skip
    if errors and not known:
        _report(errors[0], source, log)
    return code


def _quietly(make: Callable[[], T], source: SourceText, log: DiagnosticLog, errors: list[SyntaxError]) -> T | None:
    """Return what `make` makes, or None; a syntax error goes to `errors`, all else to the log."""
    made: T | None = None
    with _warning, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            made = make()
        except SyntaxError as error:
            errors.append(error)
        except UnicodeEncodeError:
            log.error("the text has half a character (a lone surrogate)", source)
        except (RecursionError, MemoryError):
            log.error(TOO_DEEP, source)
        except (ValueError, OverflowError) as error:
            log.error(str(error), source)
    for each in caught:
        log.warning(str(each.message), source, SourcePosition(each.lineno))
    return made


def _report(error: SyntaxError, source: SourceText, log: DiagnosticLog) -> None:
    line, column = error.lineno or 1, max(1, error.offset or 1)
    end = error.end_offset if error.end_lineno == error.lineno and error.end_offset else column + 1
    log.error(error.msg, source, SourcePosition(line, column, max(1, end - column)))


def _blank(lines: list[str], line: int, unindented: bool = False) -> None:
    """Empty the lines of the definition around `line` (from 1), its decorators included.

    Where `unindented` says that an indented line was missed, and `line` begins anew, it is the definition before it:
    its head has no body. The line itself is valid, or the first line of a body, and read again.
    """
    def begins(index: int) -> bool:
        return bool(lines[index]) and not lines[index][0].isspace() and lines[index][0] not in ")]}#"

    last = first = min(line, len(lines)) - 1
    if unindented and first > 0 and begins(first):
        first -= 1
    else:
        last += 1
    while first > 0 and not begins(first):
        first -= 1
    while last < len(lines) and not begins(last):
        last += 1
    above = first
    while above > 0 and (lines[above - 1].startswith("@") or not lines[above - 1].strip()):
        above -= 1
        if lines[above].startswith("@"):
            first = above
    lines[first:last] = [""] * (last - first)
