"""The front end for kernels written in Python: text in, unit out, everything wrong reported with its place.

Reading executes nothing of the text: it is parsed, its constants are folded and its functions compiled; last, the
definitions that were found right are made once, so that what only the language's own objects can tell is told too.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from types import CodeType
from typing import Any

from atops.base.python_ast import expression_tree
from atops.kernels.source.constant_folding import NotConstant, fold
from atops.kernels.source.diagnostics import DiagnosticLog, SourceText
from atops.kernels.source.function_checks import FunctionChecks
from atops.kernels.source.module_level import Declaration, Headers, ModuleReader
from atops.kernels.source.names import check_names, predefined
from atops.kernels.source.options import CompileOptions
from atops.kernels.source.python_unit import Bind, Include, PythonUnit, Run, UnitStep
from atops.kernels.source.syntax import TOO_DEEP, compile_definition, parse

__all__ = ("PythonFrontEnd",)


class PythonFrontEnd:
    """Compiles Python text in which `k` and `np` are there without an import."""

    language = "Python"
    extensions: tuple[str, ...] = (".py", ".pyk")

    def claims(self, text: str) -> bool:
        """Claim nothing: what no other language claims is Python."""
        return False

    def compile(
        self, source: SourceText, headers: Mapping[str, str], options: CompileOptions, log: DiagnosticLog
    ) -> PythonUnit | None:
        """Read a text and its headers. Returns None where `log` has an error."""
        before = len(log.errors)
        macros: dict[str, Any] = dict(options.built_in)
        for name, text in options.defines:
            macros[name] = _macro(name, text, source, log)
        try:
            unit = _Reader(source, log, macros, Headers(headers)).unit()
            if unit is not None and len(log.errors) == before:
                _make_once(unit, log)
        except (RecursionError, MemoryError):
            log.error(TOO_DEEP, source)
            return None
        return unit if len(log.errors) == before else None


class _Reader(ModuleReader):
    """Reads a whole text: parses it, reads its statements, checks and compiles its functions."""

    def unit(self) -> PythonUnit | None:
        """Return the text as a unit; None where it has an error."""
        before = len(self.log.errors)
        tree = parse(self.source, self.log)
        if tree is None:
            return None
        self.read(tree.body)
        steps: list[UnitStep] = []
        for step in self.steps:
            if isinstance(step, Bind | Include | Run):
                steps.append(step)
                continue
            node = step.node if isinstance(step, Declaration) else step
            code = self._compiled(node)
            if code is not None:
                steps.append(Run(code, node))
        if len(self.log.errors) > before:
            return None
        return PythonUnit(self.source, self.predefined, tuple(steps))

    def read_header(self, name: str, text: str) -> PythonUnit | None:
        """Read a header as a text of its own, with the same macros."""
        macros = {each: value for each, value in self.predefined.items()}
        reader = _Reader(SourceText(name, text), self.log, macros, self.headers)
        unit = reader.unit()
        self.headers.names[name.removesuffix(".py").replace("/", ".")] = reader.names
        return unit

    def _compiled(self, node: ast.stmt) -> CodeType | None:
        """Check and compile one definition."""
        before = len(self.log.errors)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            FunctionChecks(node, self.names, self.source, self.log).run()
        code = compile_definition(node, self.source, self.log, known=len(self.log.errors) > before)
        if code is not None and not self.incomplete:
            check_names(code, self.names, self.source, self.log)
        return code


def _macro(name: str, text: str, source: SourceText, log: DiagnosticLog) -> Any:
    """Return the value of a macro of the command line: a constant of Python."""
    try:
        return fold(expression_tree(text.strip()).body, {**predefined(), "true": True, "false": False})
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        log.error(f"macro {name}={text} is no constant; a number, a text in quotes or a tuple is right", source)
    except NotConstant as error:
        log.error(f"macro {name}={text}: {error}", source)
    return 0


def _make_once(unit: PythonUnit, log: DiagnosticLog) -> None:
    """Make the definitions, so that what they refuse themselves becomes a diagnostic at their line."""
    made: dict[int, dict[str, Any]] = {}
    for each in unit.units():
        space = made[id(each)] = each.fresh()
        for step in each.steps:
            try:
                each.take(step, space, made)
            except Exception as error:
                if isinstance(step, Run):  # a name that a header lacks now was reported there
                    log.error(str(error), each.source, step.node)
    for space in made.values():
        space.clear()  # a circle of functions and their names: variables that were declared go at once
