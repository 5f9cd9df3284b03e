"""A source text that was read: the steps that make a namespace of it, and the definitions in that namespace."""

from __future__ import annotations

import hashlib
import linecache
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from types import CodeType, FunctionType, ModuleType
from typing import Any

from atops.kernels.inspection import plain_function
from atops.kernels.kernel import Kernel
from atops.kernels.memory.device_variables import Variable
from atops.kernels.source.diagnostics import Located, SourceText
from atops.kernels.source.names import BUILTINS

__all__ = ("Bind", "Definitions", "Include", "PythonUnit", "Run", "UnitStep", "file_name", "module_of")


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
    functions: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    variables: Mapping[str, Variable] = field(default_factory=dict)


class PythonUnit:
    """The steps of one text. Each execution makes variables of its own and executes each header once."""

    def __init__(self, source: SourceText, predefined: Mapping[str, object], steps: tuple[UnitStep, ...]) -> None:
        self.source = source
        self.predefined = predefined
        self.steps = steps

    def execute(self) -> Definitions:
        """Return fresh definitions, with variables of their own: one set for each loaded module."""
        made: dict[int, dict[str, object]] = {}
        namespace = self.namespace(made)
        files = {file_name(unit.source) for unit in self.units()}
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


def file_name(source: SourceText) -> str:
    """Return the file name of a text in tracebacks: its name, and a digest that sets texts of one name apart."""
    digest = hashlib.sha256(source.text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"<{source.name} {digest}>"


def _remember(source: SourceText) -> None:
    """Let tracebacks and `inspect` find the lines of a text, for ever: a kernel may outlive its program."""
    name = file_name(source)
    if name not in linecache.cache:
        lines = [f"{line}\n" for line in source.lines]
        linecache.cache[name] = (len(source.text), None, lines, name)  # without a time it is not looked for on disk


def _defined_in(function: FunctionType, files: set[str]) -> bool:
    """Return whether one of the texts defines a function."""
    inner = plain_function(function)
    return inner is not None and inner.__code__.co_filename in files
