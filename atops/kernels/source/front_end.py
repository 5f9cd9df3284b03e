"""What a front end is: it reads a source text of its language, reports what is wrong, and hands back a unit.

A unit is text that was understood; only `execute` makes kernels of it, afresh each time. Knows no language.
"""

from __future__ import annotations

import os.path
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from atops.kernels.kernel import Kernel
from atops.kernels.source.diagnostics import DiagnosticLog, SourceText
from atops.kernels.source.options import CompileOptions

__all__ = ("Definitions", "FrontEnd", "MissingFrontEnd", "Unit")


@dataclass(frozen=True, slots=True)
class Definitions:
    """What a unit defines: kernels, the functions that they call, and device variables, each by its name."""

    kernels: Mapping[str, Kernel] = field(default_factory=dict)
    functions: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    variables: Mapping[str, Any] = field(default_factory=dict)


class Unit(Protocol):
    """A source text that was understood."""

    def execute(self) -> Definitions:
        """Return fresh definitions, with variables of their own: one instance a loaded module."""
        ...


class FrontEnd(Protocol):
    """The compiler's half that knows a language. `extensions` are those of its files, as ".py"."""

    language: str
    extensions: tuple[str, ...]

    def claims(self, text: str) -> bool:
        """Tell whether a text without a telling name is of this language beyond doubt."""
        ...

    def compile(
        self, source: SourceText, headers: Mapping[str, str], options: CompileOptions, log: DiagnosticLog
    ) -> Unit | None:
        """Read the text and report to `log`. Returns None where that has an error."""
        ...


class MissingFrontEnd:
    """A language that is known and cannot be compiled: it says so."""

    def __init__(self, language: str, extensions: tuple[str, ...], marks: Callable[[str], bool]) -> None:
        """Take what tells the language: the extensions of its files, and `marks` for texts."""
        self.language = language
        self.extensions = extensions
        self._marks = marks

    def claims(self, text: str) -> bool:
        """Tell whether the text has the language's marks."""
        return self._marks(text)

    def compile(
        self, source: SourceText, headers: Mapping[str, str], options: CompileOptions, log: DiagnosticLog
    ) -> None:
        """Report that there is no front end."""
        log.error(f"the {self.language} front end is not available; the source language is Python", source)
        suffix = os.path.splitext(source.name)[1]
        if suffix.lower() in self.extensions and not self.claims(source.text):
            log.note(f"it is the name's {suffix} that says {self.language}; without it the text is Python", source)
