"""A Python source text that was understood: the steps that make a namespace of it, and the definitions found there."""

from __future__ import annotations

import hashlib
import inspect
import linecache
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath
from types import CodeType, FunctionType, ModuleType
from typing import Any

from atops.kernels.kernel import Kernel
from atops.kernels.memory.device_variables import Variable
from atops.kernels.source.diagnostics import Located, SourceText
from atops.kernels.source.front_end import Definitions
from atops.kernels.source.names import BUILTINS

__all__ = ("Bind", "Include", "PythonUnit", "Run", "UnitStep", "file_name", "module_of")


@dataclass(frozen=True, slots=True)
class Bind:
    """Give a name to a value: a constant, or a module that was imported."""

    name: str
    value: Any


@dataclass(frozen=True, slots=True)
class Run:
    """Run the code of one definition: a function, or the declaration of a variable. `node` is where it stands."""

    code: CodeType
    node: Located


@dataclass(frozen=True, slots=True)
class Include:
    """Take names from a header: `names` maps each to the header's; `whole` is what the header itself is called here."""

    unit: PythonUnit
    names: Mapping[str, str]
    whole: str = ""


UnitStep = Bind | Run | Include


class PythonUnit:
    """The steps of one text. Each execution has variables of its own; headers are executed once in it."""

    def __init__(self, source: SourceText, predefined: Mapping[str, Any], steps: tuple[UnitStep, ...]) -> None:
        self.source = source
        self.predefined = predefined
        self.steps = steps

    def execute(self) -> Definitions:
        """Return fresh definitions. Raises what a definition raises: a text without errors has none that does."""
        made: dict[int, dict[str, Any]] = {}
        namespace = self.namespace(made)
        files = {file_name(unit.source) for unit in self.units()}
        values = {name: value for name, value in namespace.items() if name not in self.predefined}
        functions = {name: each for name, each in values.items() if _defined_in(each, files)}
        kernels = [each for each in values.values() if isinstance(each, Kernel)]
        variables = {name: each for name, each in values.items() if isinstance(each, Variable)}
        whole = {step.whole for step in self.steps if isinstance(step, Include)}
        for name, each in values.items():
            if isinstance(each, ModuleType) and name in whole:
                variables |= {f"{name}.{n}": v for n, v in vars(each).items() if isinstance(v, Variable)}
        return Definitions({each.name: each for each in kernels}, functions, variables)

    def namespace(self, made: dict[int, dict[str, Any]]) -> dict[str, Any]:
        """Return a fresh namespace after all steps. `made` are those of the headers executed so far."""
        space = self.fresh()
        for step in self.steps:
            self.take(step, space, made)
        return space

    def fresh(self) -> dict[str, Any]:
        """Return the namespace before the first step, and let tracebacks find the text."""
        _remember(self.source)
        name = PurePath(self.source.name).stem
        builtins = {**BUILTINS, "__import__": __import__}  # numpy loads parts of itself with it when first needed
        return {"__name__": name, "__builtins__": builtins, **self.predefined}

    def take(self, step: UnitStep, space: dict[str, Any], made: dict[int, dict[str, Any]]) -> None:
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


def module_of(name: str, names: Mapping[str, Any]) -> ModuleType:
    """Return the names of a header as a module, which nobody else can import."""
    module = ModuleType(name)
    vars(module).update({key: value for key, value in names.items() if not key.startswith("__")})
    return module


def file_name(source: SourceText) -> str:
    """Return what tracebacks call a text: its name, and a digest that sets texts of one name apart."""
    digest = hashlib.sha256(source.text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"<{source.name} {digest}>"


def _remember(source: SourceText) -> None:
    """Let tracebacks and `inspect` find the lines of a text, for good: a kernel may outlive the program it is from."""
    name = file_name(source)
    if name not in linecache.cache:
        lines = [f"{line}\n" for line in source.lines]
        linecache.cache[name] = (len(source.text), None, lines, name)  # without a time it is never looked for on disk


def _defined_in(value: Any, files: set[str]) -> bool:
    """Return whether a value is a function, not a kernel, that one of the texts defines."""
    inner = inspect.unwrap(value) if isinstance(value, FunctionType) else None
    return isinstance(inner, FunctionType) and inner.__code__.co_filename in files
