"""A source text as Python takes it: parsed and compiled, then a unit, whose steps make a namespace of it.

Python's errors and warnings become diagnostics at their places.
"""

from __future__ import annotations
import __future__

import ast
import hashlib
import linecache
import threading
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import PurePath
from types import CodeType, FunctionType, ModuleType
from typing import Protocol, TypeVar

from atops.base.locks import fork_safe
from atops.base.python_ast import module_tree
from atops.kernels.inspection import plain_function
from atops.kernels.kernel import Kernel
from atops.kernels.memory.device_variables import Variable
from atops.kernels.source.diagnostics import DiagnosticLog, Located, SourcePosition, SourceText
from atops.kernels.source.names import BUILTINS

__all__ = (
    "TOO_DEEP", "Bind", "Definitions", "Include", "PythonUnit", "Run", "Unit", "UnitStep", "compile_definition",
    "module_of", "parse",
)  # fmt: skip

T = TypeVar("T")

TOO_DEEP = "nested too deeply to be compiled"
MOST_SYNTAX_ERRORS = 10
ANNOTATIONS = __future__.annotations.compiler_flag  # they stay texts, which are read and not run

_warning = fork_safe(threading.Lock())  # Python's list of warning filters is one for the process


@dataclass(frozen=True, slots=True)
class Bind:
    """Give a name to a value: a constant, or a module that was imported."""

    name: str
    value: object


@dataclass(frozen=True, slots=True)
class Run:
    """Run the code of one definition: a function, or the declaration of a variable. `node` is where it stands."""

    code: CodeType
    node: Located


@dataclass(frozen=True, slots=True)
class Include:
    """Take names from a header: `names` maps each to the header's; `whole` is the name of the header itself here."""

    unit: PythonUnit
    names: Mapping[str, str]
    whole: str = ""


UnitStep = Bind | Run | Include


@dataclass(frozen=True, slots=True)
class Definitions:
    """What a unit defines: kernels, the functions that they call, and device variables, each by its name."""

    kernels: Mapping[str, Kernel] = field(default_factory=dict)
    functions: Mapping[str, Callable[..., object]] = field(default_factory=dict)
    variables: Mapping[str, Variable] = field(default_factory=dict)


class Unit(Protocol):
    """A text that was read without an error, in either language."""

    @property
    def language(self) -> str:
        """What it is written in."""

    def execute(self) -> Definitions:
        """Return fresh definitions: one set for each loaded module."""


class PythonUnit:
    """The steps of one text. Each execution makes variables of its own and executes each header once."""

    language = "Python"

    def __init__(self, source: SourceText, predefined: Mapping[str, object], steps: tuple[UnitStep, ...]) -> None:
        self.source = source
        self.predefined = predefined
        self.steps = steps

    def execute(self) -> Definitions:
        """Return fresh definitions, with variables of their own: one set for each loaded module."""
        made: dict[int, dict[str, object]] = {}
        namespace = self.namespace(made)
        files = {_file_name(unit.source) for unit in self.units()}
        values = {name: value for name, value in namespace.items() if name not in self.predefined}
        functions = {name: each for name, each in values.items() if isinstance(each, FunctionType)}
        functions = {name: each for name, each in functions.items() if _defined_in(each, files)}
        kernels = {each.name: each for each in values.values() if isinstance(each, Kernel)}
        variables = {name: each for name, each in values.items() if isinstance(each, Variable)}
        whole = {step.whole for step in self.steps if isinstance(step, Include)}
        for name, each in values.items():
            if isinstance(each, ModuleType) and name in whole:
                variables |= {f"{name}.{n}": v for n, v in vars(each).items() if isinstance(v, Variable)}
        return Definitions(kernels, functions, variables)

    def namespace(self, made: dict[int, dict[str, object]]) -> dict[str, object]:
        """Return a fresh namespace after all steps. `made` are those of the headers executed so far."""
        space = self.fresh()
        for step in self.steps:
            self.take(step, space, made)
        return space

    def fresh(self) -> dict[str, object]:
        """Return the namespace before the first step, and let tracebacks find the text."""
        _remember(self.source)
        name = PurePath(self.source.name).stem
        builtins = {**BUILTINS, "__import__": __import__}  # numpy loads parts of itself with it
        return {"__name__": name, "__builtins__": builtins, **self.predefined}

    def take(self, step: UnitStep, space: dict[str, object], made: dict[int, dict[str, object]]) -> None:
        """Do one step in a namespace."""
        if isinstance(step, Bind):
            space[step.name] = step.value
        elif isinstance(step, Run):
            exec(step.code, space)
        else:
            if id(step.unit) not in made:
                made[id(step.unit)] = step.unit.namespace(made)
            taken = made[id(step.unit)]
            space.update({name: taken[theirs] for name, theirs in step.names.items()})
            if step.whole:
                space[step.whole] = module_of(step.whole, taken)

    def units(self) -> list[PythonUnit]:
        """Return the units of all headers, each after those that it needs itself, and this one last."""
        found: list[PythonUnit] = []
        for step in self.steps:
            if isinstance(step, Include):
                found += [each for each in step.unit.units() if each not in found]
        return [*found, self]


def module_of(name: str, names: Mapping[str, object]) -> ModuleType:
    """Return the names of a header as a module, which cannot be imported elsewhere."""
    module = ModuleType(name)
    vars(module).update({key: value for key, value in names.items() if not key.startswith("__")})
    return module


def _file_name(source: SourceText) -> str:
    """Return the file name of a text in tracebacks: its name, and a digest that sets texts of one name apart."""
    digest = hashlib.sha256(source.text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"<{source.name} {digest}>"


def _remember(source: SourceText) -> None:
    """Let tracebacks and `inspect` find the lines of a text, for ever: a kernel may outlive its program."""
    name = _file_name(source)
    if name not in linecache.cache:
        lines = [f"{line}\n" for line in source.lines]
        linecache.cache[name] = (len(source.text), None, lines, name)  # without a time it is not looked for on disk


def _defined_in(function: FunctionType, files: set[str]) -> bool:
    """Return whether one of the texts defines a function."""
    inner = plain_function(function)
    return inner is not None and inner.__code__.co_filename in files


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
        tree = _quietly(partial(module_tree, text, _file_name(source)), source, log, errors)
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
        lambda: compile(tree, _file_name(source), "exec", ANNOTATIONS, dont_inherit=True), source, log, errors
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
