"""Diagnostics of a source text: errors, warnings and notes with their place, printed as gcc and clang do."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Protocol

__all__ = ("Diagnostic", "DiagnosticLog", "Located", "Severity", "SourcePosition", "SourceText", "nearest")

_END_OF_LINE = re.compile("\r\n|\r|\n")  # as Python counts lines; `str.splitlines` knows more ends
MOST_ERRORS = 50  # of those that are printed


class Severity(StrEnum):
    """The severity: an error stops the compilation, a warning does not, a note belongs to the message before it."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Located(Protocol):
    """A node of a syntax tree, as the parser places it: lines from 1, columns in bytes from 0."""

    @property
    def lineno(self) -> int:
        """The first line."""

    @property
    def col_offset(self) -> int:
        """The column in it."""

    @property
    def end_lineno(self) -> int | None:
        """The last line."""

    @property
    def end_col_offset(self) -> int | None:
        """The column behind its last character."""


@dataclass(frozen=True, slots=True)
class SourcePosition:
    """A place in a source text: the line and the column of its first character, both from 1, and how wide it is.

    The column is 0 where only the line is known.
    """

    line: int
    column: int = 1
    width: int = 1


class SourceText:
    """A named text and its lines. `name` is its name in diagnostics; no file of that name need exist."""

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.text = text
        self.lines = _END_OF_LINE.split(text)

    def line(self, number: int) -> str:
        """Return a line without its end, counted from 1; empty where the text has no such line."""
        return self.lines[number - 1] if 0 < number <= len(self.lines) else ""

    def place(self, node: Located) -> SourcePosition:
        """Return where a node stands, its columns turned from bytes into characters; a long one ends with its line."""
        data = self.line(node.lineno).encode("utf-8", "replace")
        column = len(data[: node.col_offset].decode("utf-8", "replace"))
        end = node.end_col_offset if node.end_lineno == node.lineno else None
        width = len(data[node.col_offset : end].decode("utf-8", "replace").rstrip())
        return SourcePosition(node.lineno, column + 1, max(1, width))


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One message. `line` and `column` count from 1; both are 0 where it concerns the whole text, the column where it
    concerns all of the line. `text` is the line.
    """

    severity: Severity
    message: str
    name: str
    line: int = 0
    column: int = 0
    width: int = 1
    text: str = ""

    def __str__(self) -> str:
        """Print `name:line:column: severity: message`, the line, and a caret under the place."""
        where = ":".join([self.name, *(str(each) for each in (self.line, self.column) if each)])
        head = f"{where}: {self.severity.value}: {self.message}"
        if not self.text.strip():
            return head
        if not self.column:
            return f"{head}\n{self.text}"
        before = "".join("\t" if each == "\t" else " " for each in self.text[: self.column - 1])
        width = max(1, min(self.width, len(self.text) - self.column + 1))
        return f"{head}\n{self.text}\n{before}^{'~' * (width - 1)}"


class DiagnosticLog:
    """The diagnostics of one compilation, in the order of the text. `str` is the log as a compiler prints it.

    `quiet` drops warnings, `strict` makes errors of them.
    """

    def __init__(self, quiet: bool = False, strict: bool = False) -> None:
        self.quiet = quiet
        self.strict = strict
        self._groups: list[list[Diagnostic]] = []  # each a message and the notes that belong to it
        self._notes: list[Diagnostic] = []  # the group that a note would join

    def error(self, message: str, source: SourceText | str, where: SourcePosition | Located | None = None) -> None:
        """Report an error, which stops the compilation. `source` is the text, or just its name."""
        self._open(_diagnostic(Severity.ERROR, message, source, where))

    def warning(self, message: str, source: SourceText | str, where: SourcePosition | Located | None = None) -> None:
        """Report a probable mistake."""
        severity = Severity.ERROR if self.strict else Severity.WARNING
        if self.quiet:
            self._notes = []
        else:
            self._open(_diagnostic(severity, message, source, where))

    def note(self, message: str, source: SourceText | str, where: SourcePosition | Located | None = None) -> None:
        """Add to the message before it."""
        self._notes.append(_diagnostic(Severity.NOTE, message, source, where))

    def again(self, entries: Iterable[Diagnostic]) -> None:
        """Report what another compilation of the same texts reported."""
        for each in entries:
            if each.severity is Severity.NOTE:
                self._notes.append(each)
            else:
                self._open(each)

    @property
    def entries(self) -> tuple[Diagnostic, ...]:
        """Return every diagnostic: by text in the order in which texts were first named, then by line and column."""
        names = list(dict.fromkeys(group[0].name for group in self._groups))
        ordered = sorted(self._groups, key=lambda group: (names.index(group[0].name), group[0].line, group[0].column))
        return tuple(each for group in ordered for each in group)

    @property
    def errors(self) -> tuple[Diagnostic, ...]:
        """Return the errors."""
        return tuple(each for each in self.entries if each.severity is Severity.ERROR)

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """Return the warnings."""
        return tuple(each for each in self.entries if each.severity is Severity.WARNING)

    def __iter__(self) -> Iterator[Diagnostic]:
        return iter(self.entries)

    def __len__(self) -> int:
        return sum(map(len, self._groups))

    def __str__(self) -> str:
        """Return the whole log, its last line counting errors and warnings; empty without any."""
        errors, warnings = len(self.errors), len(self.warnings)
        lines, shown = [], 0
        for each in self.entries:
            shown += each.severity is Severity.ERROR
            if shown > MOST_ERRORS:
                lines.append(f"{each.name}: note: {errors - MOST_ERRORS} more errors are not shown")
                break
            lines.append(str(each))
        counts = [_count(errors, "error")] * bool(errors) + [_count(warnings, "warning")] * bool(warnings)
        return "\n".join([*lines, f"{' and '.join(counts)} generated."] if counts else lines)

    def __repr__(self) -> str:
        return f"<DiagnosticLog: {_count(len(self.errors), 'error')}, {_count(len(self.warnings), 'warning')}>"

    def _open(self, diagnostic: Diagnostic) -> None:
        """Begin a message, unless it was said before."""
        known = any(group[0] == diagnostic for group in self._groups)
        self._notes = [] if known else [diagnostic]  # notes of a repeated message are repetitions too
        if not known:
            self._groups.append(self._notes)


def _diagnostic(
    severity: Severity, message: str, source: SourceText | str, where: SourcePosition | Located | None
) -> Diagnostic:  # fmt: skip
    if isinstance(source, str):
        return Diagnostic(severity, message, source)
    found = Diagnostic(severity, message, source.name)
    if where is None:
        return found
    place = where if isinstance(where, SourcePosition) else source.place(where)
    text = source.line(place.line)
    return replace(found, line=place.line, column=place.column, width=place.width, text=text)


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


# Names of C++, CUDA and numpy for what has another name in the kernel language.
CALLED_OTHERWISE: Mapping[str, str] = MappingProxyType(
    {
        "atomicAdd": "signal_add", "atomic_add": "signal_add", "fabs": "abs", "fmod": "mod", "log": "ln", "logf": "ln",
        "pow": "power", "powf": "power", "rcp": "rec", "reciprocal": "rec", "__constant__": "constant",
        "__device__": "device", "__global__": "kernel", "__local__": "local", "__shared__": "shared",
    }
)  # fmt: skip


def nearest(name: str, known: Iterable[str]) -> str:
    """Return "; did you mean 'x'?" with the name that is meant or the nearest known one, "" where none is near."""
    known = tuple(known)
    meant = CALLED_OTHERWISE.get(name)
    if meant in known:
        return f"; did you mean '{meant}'?"
    found = difflib.get_close_matches(name, [each for each in known if not each.startswith("__")], 1, 0.6)
    return f"; did you mean '{found[0]}'?" if found else ""
