"""A program: a source text with a name and headers, compiled to kernels or loaded from a code image.

TOPS Runtime API, 2.8 and 2.10. Loading an image runs nothing: its text is compiled when a function is first asked for,
and must then define what the image says.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any

from atops.base.dtypes import element_name
from atops.base.errors import (
    AtopsError,
    CompilationError,
    IllegalState,
    InvalidImage,
    InvalidOption,
    InvalidType,
    InvalidValue,
    NotFound,
)
from atops.base.python_ast import expression_tree
from atops.kernels.compile.image import CodeImage, FunctionEntry, VariableEntry
from atops.kernels.compile.kernel_attributes import function_attributes
from atops.kernels.compile.module import Module, lowered_name, lowered_name_of, name_expression
from atops.kernels.kernel import Kernel
from atops.kernels.memory.device_variables import Variable, set_aside
from atops.kernels.source.diagnostics import DiagnosticLog, SourceText, nearest
from atops.kernels.source.front_end import LANGUAGE, read_source
from atops.kernels.source.options import CompileOptions, parse_options
from atops.kernels.source.python_unit import Definitions, PythonUnit
from atops.kernels.target import TARGETS

__all__ = ("CompiledProgram", "Program", "compile_source", "load_module")

Options = CompileOptions | Sequence[str]


class Program:
    """A source text to compile: `Program(text, "scale.py").compile(["-DTILE=64"]).module()`.

    `headers` are texts that it may import, by name: {"tiles.py": text} for `from tiles import ...`. Nothing is read
    from disk. `log` has the diagnostics of the last compilation.
    """

    def __init__(self, source: str, name: str = "program", headers: Mapping[str, str] | None = None) -> None:
        """Take the text; it is read when it is compiled. Raises InvalidType and InvalidValue for another."""
        for what, value in (("source", source), ("name", name)):
            if not isinstance(value, str):
                raise InvalidType(f"{what} expects a text, got {value!r}")
        if not name or not name.isprintable():
            raise InvalidValue(f"name expects the name of a file, which need not exist, got {name!r}")
        given = {} if headers is None else headers
        if not isinstance(given, Mapping) or not all(type(each) is str for pair in given.items() for each in pair):
            raise InvalidType(f"headers expects texts by name, such as {{'tiles.py': text}}, got {headers!r}")
        self.source = source
        self.name = name
        self.headers = dict(given)
        self.log = DiagnosticLog()
        self._expressions: list[str] = []
        self._compiled: CompiledProgram | None = None
        self._tried = False

    def add_name_expression(self, expression: str) -> None:
        """Ask for the lowered name of a kernel or a variable: `scale` or `&scale` (2.10, topsrtcAddNameExpression).

        Raises IllegalState after the first compilation, InvalidType and InvalidValue for what names nothing.
        """
        if not isinstance(expression, str):
            raise InvalidType(f"name expression expects a text, got {expression!r}")
        if not _is_expression(name_expression(expression)):
            raise InvalidValue(f"name expression expects a name such as 'scale' or '&scale', got {expression!r}")
        if self._tried:
            raise IllegalState(f"program {self.name} was compiled; name expressions are added before")
        if expression not in self._expressions:
            self._expressions.append(expression)

    def compile(self, options: Options = ()) -> CompiledProgram:
        """Compile the text, as often as wanted; the last time counts (2.10, topsrtcCompileProgram).

        `options` are those of `parse_options`. Raises CompilationError with the log, InvalidOption where an option is
        wrong, InvalidType where options are no sequence of texts.
        """
        self._tried, self._compiled = True, None
        self.log = log = DiagnosticLog()
        parsed = parse_options(options, self.name, log)
        if parsed is None:
            raise InvalidOption(str(log))
        self.log = log = DiagnosticLog(parsed.no_warnings, parsed.warnings_as_errors)
        unit = read_source(SourceText(self.name, self.source), self.headers, parsed, log)
        if unit is None:
            raise CompilationError(str(log))
        contents = Module(self.name, parsed.target, partial(_set_aside, unit))
        lowered = self._lowered(contents, log)
        if log.errors:
            raise CompilationError(str(log))
        self._compiled = CompiledProgram(
            self.name, self.source, tuple(sorted(self.headers.items())), LANGUAGE, parsed, log,
            MappingProxyType(lowered), unit, contents,
        )  # fmt: skip
        return self._compiled

    def lowered_name(self, expression: str) -> str:
        """Return the lowered name of a name expression that was added (2.10, topsrtcGetLoweredName).

        Raises NotFound where it was not added, CompilationError before compiling and after a failure.
        """
        compiled = self._needed("has lowered names")
        found = compiled.lowered.get(expression)
        if found is None:
            hint = nearest(expression, compiled.lowered) if isinstance(expression, str) else ""
            raise NotFound(f"name expression {expression!r} was not added to program {self.name}{hint}")
        return found

    def module(self) -> Module:
        """Return a module of the compiled program. Raises CompilationError before compiling and after a failure."""
        return self._needed("has a module").module()

    def image(self) -> CodeImage:
        """Return the code image of the compiled program (2.10, topsrtcGetCode). Raises as `module` does."""
        return self._needed("has an image").image()

    def _needed(self, what: str) -> CompiledProgram:
        if self._compiled is None:
            why = f"its compilation failed:\n{self.log}" if self._tried else "it was not compiled yet"
            raise CompilationError(f"program {self.name} {what} once it is compiled; {why}")
        return self._compiled

    def _lowered(self, contents: Module, log: DiagnosticLog) -> dict[str, str]:
        """Return the lowered name of each name expression; one that names nothing is an error of the program."""
        found = {}
        known = {name: lowered_name_of(each) for name, each in contents.kernels.items()}
        known |= {name: lowered_name(name, None) for name in contents.variables}
        for expression in self._expressions:
            name = name_expression(expression)
            if name in known:
                found[expression] = known[name]
            else:
                hint = nearest(name, known)
                log.error(f"name expression '{expression}' names no kernel and no variable{hint}", self.name)
        return found

    def __repr__(self) -> str:
        state = "compiled" if self._compiled else "failed" if self._tried else "not compiled"
        return f"<Program {self.name}, {state}>"


@dataclass(frozen=True, slots=True)
class CompiledProgram:
    """The result of a compilation: `module()` loads it, `image()` makes it portable. `log` has its warnings.

    `lowered` are the lowered names of the name expressions; `headers` the named texts, in the order of their names.
    """

    name: str
    source: str = field(repr=False)
    headers: tuple[tuple[str, str], ...] = field(repr=False)
    language: str
    options: CompileOptions
    log: DiagnosticLog
    lowered: Mapping[str, str]
    unit: PythonUnit = field(repr=False)
    contents: Module = field(repr=False)

    def module(self) -> Module:
        """Return a module with kernels and variables of its own."""
        return Module(self.name, self.options.target, self.unit.execute)

    @property
    def kernels(self) -> Mapping[str, Kernel]:
        """Return the kernels by name; they, the functions and the variables are those of one module."""
        return self.contents.kernels

    @property
    def functions(self) -> Mapping[str, Callable[..., Any]]:
        """Return the functions that kernels may call, by name."""
        return self.contents.functions

    @property
    def variables(self) -> Mapping[str, Variable]:
        """Return the device variables by name."""
        return self.contents.variables

    def image(self) -> CodeImage:
        """Return the program as a code image."""
        target, functions = self.options.target, []
        for name, kernel in sorted(self.kernels.items()):
            figures = function_attributes(kernel, target)
            functions.append(FunctionEntry(
                name, lowered_name_of(kernel), kernel.cooperative, figures.dynamic_shared, figures.shared_bytes,
                figures.local_bytes, figures.private_bytes, figures.constant_bytes,
            ))  # fmt: skip
        variables = [
            VariableEntry(name, lowered_name(name, None), element_name(each.dtype), each.nbytes, each.is_constant)
            for name, each in sorted(self.variables.items())
        ]
        return CodeImage(
            self.name, self.language, target.name, self.options.arguments(), tuple(self.lowered), tuple(functions),
            tuple(variables), self.headers, self.source,
        )  # fmt: skip


def _set_aside(unit: PythonUnit) -> Definitions:
    """Make the definitions of the program itself: by name, the variables of its modules come first."""
    definitions = unit.execute()
    set_aside(definitions.variables.values())
    return definitions


def _is_expression(text: str) -> bool:
    """Return whether a text can name something: an expression, for kernels may be called `scale-2`, not a constant."""
    try:
        return not isinstance(expression_tree(text).body, ast.Constant)
    except (SyntaxError, ValueError):
        return False


def compile_source(
    source: str, name: str = "program", options: Options = (), headers: Mapping[str, str] | None = None
) -> CompiledProgram:  # fmt: skip
    """Compile a source text: `k.compile_source(text, "scale.py", ["-DTILE=64"]).module().function("scale")`.

    Raises as `Program` and `Program.compile` do.
    """
    return Program(source, name, headers).compile(options)


def load_module(image: CodeImage | bytes | bytearray | memoryview | str | os.PathLike[str]) -> Module:
    """Return the module of an image: the image itself, its bytes, or the path of its file (2.8, topsModuleLoad).

    Raises InvalidImage for what is none, here or when a function of it is first asked for; OSError where the file
    cannot be read; InvalidType for anything else.
    """
    if isinstance(image, str | os.PathLike):
        image = CodeImage.load(image)
    elif isinstance(image, bytes | bytearray | memoryview):
        image = CodeImage.from_bytes(image)
    elif not isinstance(image, CodeImage):
        raise InvalidType(f"image expects a code image, its bytes or the path of its file, got {image!r}")
    target = TARGETS.get(image.arch)
    if target is None:
        raise InvalidImage(f"code image {image.name} is for {image.arch}; {', '.join(TARGETS)} are known")
    return Module(image.name, target, lambda: _definitions(image))


def _definitions(image: CodeImage) -> Definitions:
    """Compile the text of an image and compare what it defines with what the image says."""
    try:
        program = Program(image.source, image.name, dict(image.headers))
        for expression in image.expressions:
            program.add_name_expression(expression)
        compiled = program.compile(image.options)
        found = compiled.image()
    except AtopsError as error:
        raise InvalidImage(f"code image {image.name}: its text does not compile:\n{error}") from None
    for what in ("arch", "language", "options", "expressions", "functions", "variables", "headers"):
        says, is_so = getattr(image, what), getattr(found, what)
        if says != is_so:
            raise InvalidImage(f"code image {image.name} says that its {what} are {says}; its text has {is_so}")
    return compiled.unit.execute()
