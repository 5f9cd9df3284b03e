"""A program: a source text with a name and headers, compiled or loaded from a code image, and its modules.

TOPS Runtime API, 2.8 and 2.10. Loading an image runs nothing: its text is compiled when a function is first asked for,
and must then define what the image says. Each module has variables of its own. A lowered name is a C identifier made
of a kernel's name and the types of its parameters: `_T5scale_any_any_float32` is `scale` with three, the last a
float32. No two names have the same.
"""

from __future__ import annotations

import ast
import inspect
import os
import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from types import MappingProxyType
from typing import Any

import numpy as np

from atops.base.dtypes import element_name
from atops.base.errors import (
    AtopsError,
    CompilationError,
    IllegalState,
    InvalidHandle,
    InvalidImage,
    InvalidOption,
    InvalidType,
    InvalidValue,
    NotFound,
)
from atops.base.locks import fork_safe
from atops.base.python_ast import expression_tree
from atops.device.arch import Architecture
from atops.kernels.arguments import Parameter
from atops.kernels.cxx.tokens import spelled
from atops.kernels.kernel import Kernel
from atops.kernels.memory.device_variables import Variable, set_aside
from atops.kernels.programs.image import CodeImage, FunctionEntry, VariableEntry
from atops.kernels.programs.kernel_attributes import FunctionAttributes, function_attributes
from atops.kernels.source.diagnostics import DiagnosticLog, SourceText, nearest
from atops.kernels.source.front_end import is_cxx, read_source
from atops.kernels.source.options import DEFAULT_TARGET, CompileOptions, parse_options
from atops.kernels.source.python_unit import Definitions, Unit
from atops.kernels.target import TARGETS, CompileTarget
from atops.trace.words import format_bytes

__all__ = ("CompiledProgram", "Module", "Program", "compile", "compile_source", "load_module", "lowered_name_of")

Options = CompileOptions | Sequence[str]

_INSTANCE = re.compile(r"(?:::)?[A-Za-z_][\w:]*(?:<[\w\s:,*&<>()+-]*>)?", re.ASCII)  # of a template of C++, too
_C_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


class Module:
    """The definitions of a program, by name. Made by `program.module()` and `load_module(image)`.

    The definitions are made when they are first asked for. A kernel or a variable whose name is none of this class's is
    an attribute, too: `module.scale`.
    """

    def __init__(
        self, name: str, target: CompileTarget, define: Callable[[], Definitions], image: Callable[[], CodeImage]
    ) -> None:
        """Take what makes the definitions, and the image, as which kernels are pickled. `name` is the program's."""
        self.name = name
        self.target = target
        self._define: Callable[[], Definitions] | None = define
        self._image = image
        self._made: Definitions | None = None
        self._making = fork_safe(threading.RLock())

    def function(self, name: str) -> Kernel:
        """Return the kernel of this name, plain or lowered (TOPS Runtime API, 2.8, topsModuleGetFunction).

        Raises NotFound, naming the nearest kernel, InvalidType for what is no text, InvalidHandle after `unload`.
        """
        definitions = self._definitions()
        kernels = definitions.kernels
        found = kernels.get(_text(name)) or kernels.get(spelled(name))
        if found is None:
            found = next((each for each in kernels.values() if lowered_name_of(each) == name), None)
        if found is None:
            raise NotFound(f"module {self.name} has no kernel '{name}'{_instead(name, definitions)}")
        return found

    def variable(self, name: str) -> Variable:
        """Return the device variable or constant of this name, plain or lowered (2.6, topsModuleGetGlobal).

        On the host `device.symbol(variable)` is its instance. Raises as `function` does.
        """
        variables = self.variables
        found = variables.get(_text(name))
        if found is None:
            found = next((each for key, each in variables.items() if _lowered_name(key, None) == name), None)
        if found is None:
            raise NotFound(f"module {self.name} has no variable '{name}'{nearest(name, variables)}")
        return found

    def attributes(self, name: str, arch: Architecture | str | None = None) -> FunctionAttributes:
        """Return the attributes of a kernel (2.8, topsFuncGetAttributes), on `arch` if given.

        Raises as `function` and `function_attributes` do.
        """
        return function_attributes(self.function(name), self.target if arch is None else arch)

    @property
    def kernels(self) -> Mapping[str, Kernel]:
        """Return every kernel by its plain name."""
        return MappingProxyType(dict(self._definitions().kernels))

    @property
    def functions(self) -> Mapping[str, Callable[..., Any]]:
        """Return every function that kernels may call, by name."""
        return MappingProxyType(dict(self._definitions().functions))

    @property
    def variables(self) -> Mapping[str, Variable]:
        """Return every device variable and constant, by name."""
        return MappingProxyType(dict(self._definitions().variables))

    def __getattr__(self, name: str) -> Any:
        """Return the kernel or the variable of this name. Raises AttributeError, naming the nearest one."""
        if (name.startswith("__") and name.endswith("__")) or "_define" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__} has no {name}")
        definitions = self._definitions()
        found = definitions.kernels.get(name) or definitions.variables.get(name)
        if found is None:
            raise AttributeError(f"module {self.name} has no kernel '{name}'{_instead(name, definitions)}")
        return found

    def unload(self) -> None:
        """Forget the definitions (2.8, topsModuleUnload). Launches that are enqueued keep theirs.

        Raises InvalidHandle the second time.
        """
        self._definitions(make=False)
        with self._making:
            self._define = self._made = None

    def _definitions(self, make: bool = True) -> Definitions:
        with self._making:
            if self._define is None:
                raise InvalidHandle(f"module {self.name} was unloaded")
            if self._made is None and make:
                made = self._define()
                kernels = {name: self._held(each) for name, each in made.kernels.items()}
                for name, each in kernels.items():
                    each.pickled = partial(_pickled, self._image, name)
                self._made = Definitions(kernels, made.functions, made.variables)
            return self._made or Definitions()

    def _held(self, kernel: Kernel) -> Kernel:
        """Return a kernel that runs on the chips of the module's target, unless it named one of its own."""
        return kernel.held_to(kernel.arch or self.target.name)

    def __reduce__(self) -> tuple[Any, ...]:
        """Be pickled as the image that it is of, which the process that reads it compiles. Raises InvalidHandle."""
        self._definitions(make=False)
        return _module_of, (self._image().to_bytes(),)

    def __repr__(self) -> str:
        if self._define is None:
            return f"<Module {self.name}, unloaded>"
        made = self._made
        names = "not compiled yet" if made is None else ", ".join([*made.kernels, *made.variables]) or "empty"
        return f"<Module {self.name} for {self.target.name}: {names}>"


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
        named = _named_by(expression)
        if not (_is_expression(named) or (_INSTANCE.fullmatch(named) and is_cxx(SourceText(self.name, self.source)))):
            raise InvalidValue(f"name expression expects a name such as 'scale' or '&scale', got {expression!r}")
        if self._tried:
            raise IllegalState(f"program {self.name} was compiled; name expressions are added before")
        if expression not in self._expressions:
            self._expressions.append(expression)

    def compile(self, options: Options = (), *, target: str = DEFAULT_TARGET) -> CompiledProgram:
        """Compile the text, as often as wanted; the last time counts (2.10, topsrtcCompileProgram).

        `options` are those of `parse_options`; `target` is the architecture where they name none.
        Raises CompilationError with the log, InvalidOption where an option is
        wrong, InvalidType where options are no sequence of texts.
        """
        self._tried, self._compiled = True, None
        self.log = log = DiagnosticLog()
        parsed = parse_options(options, self.name, log, target)
        if parsed is None:
            raise InvalidOption(str(log))
        self.log = log = DiagnosticLog(parsed.no_warnings, parsed.warnings_as_errors)
        uses = [_named_by(each) for each in self._expressions]
        unit = _read(SourceText(self.name, self.source), self.headers, parsed, log, uses)
        if unit is None:
            raise CompilationError(str(log))
        contents = Module(self.name, parsed.target, partial(_set_aside, unit), self.image)
        lowered = self._lowered(contents, log)
        if log.errors:
            raise CompilationError(str(log))
        self._compiled = CompiledProgram(
            self.name, self.source, tuple(sorted(self.headers.items())), unit.language, parsed, log,
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
        known |= {name: _lowered_name(name, None) for name in contents.variables}
        for expression in self._expressions:
            name = _named_by(expression)
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
    unit: Unit = field(repr=False)
    contents: Module = field(repr=False)

    def module(self) -> Module:
        """Return a module with kernels and variables of its own."""
        return Module(self.name, self.options.target, self.unit.execute, self.image)

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

    def summary(self) -> str:
        """Return what the text defines: a line for each kernel, with the L1 and L2 that it takes, if known."""
        lines = []
        for kernel in self.kernels.values():
            figures = self.contents.attributes(kernel.name)
            sizes = {"L1 a thread": figures.local_bytes, "L2 a block": figures.shared_bytes}
            takes = [f"{format_bytes(size)} of {what}" for what, size in sizes.items() if size]
            parameters = ", ".join(inspect.signature(kernel.function).parameters)
            lines.append(f"{kernel.name}({parameters}){': ' * bool(takes)}{', '.join(takes)}")
        if others := [*self.functions, *self.variables]:
            lines.append(f"and {', '.join(others)}")
        return "\n".join(lines)

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
            VariableEntry(name, _lowered_name(name, None), element_name(each.dtype), each.nbytes, each.is_constant)
            for name, each in sorted(self.variables.items())
        ]
        return CodeImage(
            self.name, self.language, target.name, self.options.arguments(), tuple(self.lowered), tuple(functions),
            tuple(variables), self.headers, self.source,
        )  # fmt: skip


def _read(
    source: SourceText, headers: Mapping[str, str], options: CompileOptions, log: DiagnosticLog, uses: Sequence[str]
) -> Unit | None:  # fmt: skip
    """Read a text in the language that it is written in. `uses` are the names that are asked for."""
    if is_cxx(source):
        from atops.kernels.cxx.unit import read_cxx  # most programs need no compiler

        unit = read_cxx(source, headers, options, log, uses)
        if unit is None and not is_cxx(SourceText("program", source.text)):
            extension = os.path.splitext(source.name)[1]
            log.note(f"the name's {extension} says C++; without it the text is read as Python", source.name)
        return unit
    return read_source(source, headers, options, log)


def _set_aside(unit: Unit) -> Definitions:
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


def compile(
    source: str, name: str = "program", options: Options = (), headers: Mapping[str, str] | None = None, *,
    arch: str | None = None,
) -> Module:  # fmt: skip
    """Compile a source text and return its module: `k.compile(text, arch="gcu300").scale` is a kernel of it.

    `arch` is the option `--gpu-architecture`. Raises as `compile_source` does.
    """
    given = options.arguments() if isinstance(options, CompileOptions) else tuple(options)
    chosen = given if arch is None else (*given, f"--gpu-architecture={arch}")
    return compile_source(source, name, chosen, headers).module()


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
    return Module(image.name, target, lambda: _definitions(image), lambda: image)


def _pickled(image: Callable[[], CodeImage], name: str) -> tuple[Any, ...]:
    return _kernel_of, (image().to_bytes(), name)


def _kernel_of(image: bytes, name: str) -> Kernel:
    """Return a kernel that was pickled: all those of one image are of one module."""
    return _module_of(image).function(name)


@lru_cache(maxsize=64)
def _module_of(image: bytes) -> Module:
    return load_module(image)


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


def _lowered_name(name: str, parameters: Iterable[Parameter] | None) -> str:
    """Return the lowered name of a kernel with these parameters, or of a variable, which has None."""
    if _C_NAME.fullmatch(name):
        coded = f"_T{len(name)}{name}"
    else:  # a C identifier has ASCII only
        digits = name.encode("utf-8", "surrogatepass").hex()
        coded = f"_Tu{len(digits)}{digits}"
    if parameters is None:
        return coded
    return "_".join([coded, *([_type_code(each) for each in parameters] or ["void"])])


def lowered_name_of(kernel: Kernel) -> str:
    """Return the lowered name of a kernel."""
    return _lowered_name(kernel.name, kernel.parameters.values())


def _named_by(text: str) -> str:
    """Return the name that a name expression is about: `scale` and `&scale` are about scale."""
    named = text.strip().removeprefix("&").strip()
    return spelled(named) if "<" in named or "::" in named else named


def _type_code(parameter: Parameter) -> str:
    if parameter.memory:
        return "span" if parameter.elements is None else f"span{element_name(parameter.elements)}"
    if parameter.dtype is None:
        return "any"
    if isinstance(parameter.dtype, type):
        return parameter.dtype.__name__
    dtype: np.dtype[np.generic] = parameter.dtype
    return f"struct{dtype.itemsize}" if dtype.fields else element_name(dtype)


def _text(name: str) -> str:
    if not isinstance(name, str):
        raise InvalidType(f"name expects a text, got {name!r}")
    return name


def _instead(name: str, definitions: Definitions) -> str:
    """Return a hint on what the module has of this name, or the nearest kernel's name."""
    if name in definitions.functions:
        return "; it is a function, which kernels call and which cannot be launched"
    if name in definitions.variables:
        return "; it is a variable"
    return nearest(name, definitions.kernels)
