"""A loaded module: the kernels, functions and variables of a compiled program, by name. TOPS Runtime API, 2.8 and 2.10.

Each module has variables of its own. A lowered name is a C identifier made of a kernel's name and the types of its
parameters: `_T5scale_any_any_float32` is `scale` with three, the last a float32. No two names have the same.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from atops.base.dtypes import element_name
from atops.base.errors import InvalidHandle, InvalidType, NotFound
from atops.base.fork_locks import fork_safe
from atops.device.arch import Architecture
from atops.kernels.arguments import Parameter
from atops.kernels.compile.kernel_attributes import FunctionAttributes, function_attributes
from atops.kernels.kernel import Kernel
from atops.kernels.memory.device_variables import Variable
from atops.kernels.source.diagnostics import nearest
from atops.kernels.source.python_unit import Definitions
from atops.kernels.target import CompileTarget

__all__ = ("Module", "lowered_name", "lowered_name_of", "name_expression")

_C_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def lowered_name(name: str, parameters: Iterable[Parameter] | None) -> str:
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
    return lowered_name(kernel.name, kernel.parameters.values())


def name_expression(text: str) -> str:
    """Return the name that a name expression is about: `scale` and `&scale` are about scale."""
    return text.strip().removeprefix("&").strip()


def _type_code(parameter: Parameter) -> str:
    if parameter.memory:
        return "span" if parameter.elements is None else f"span{element_name(parameter.elements)}"
    if parameter.dtype is None:
        return "any"
    if isinstance(parameter.dtype, type):
        return parameter.dtype.__name__
    dtype: np.dtype[np.generic] = parameter.dtype
    return f"struct{dtype.itemsize}" if dtype.fields else element_name(dtype)


class Module:
    """The definitions of a program, by name. Made by `program.module()` and `load_module(image)`.

    The definitions are made when they are first asked for.
    """

    def __init__(self, name: str, target: CompileTarget, define: Callable[[], Definitions]) -> None:
        """Take what makes the definitions. `name` is the program's."""
        self.name = name
        self.target = target
        self._define: Callable[[], Definitions] | None = define
        self._made: Definitions | None = None
        self._making = fork_safe(threading.RLock())

    def function(self, name: str) -> Kernel:
        """Return the kernel of this name, plain or lowered (TOPS Runtime API, 2.8, topsModuleGetFunction).

        Raises NotFound, naming the nearest kernel, InvalidType for what is no text, InvalidHandle after `unload`.
        """
        definitions = self._definitions()
        kernels = definitions.kernels
        found = kernels.get(_text(name))
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
            found = next((each for key, each in variables.items() if lowered_name(key, None) == name), None)
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
                self._made = Definitions(kernels, made.functions, made.variables)
            return self._made or Definitions()

    def _held(self, kernel: Kernel) -> Kernel:
        """Return a kernel that runs on the chips of the module's target, unless it named one of its own."""
        return Kernel(kernel.function, kernel.name, kernel.cooperative, kernel.arch or self.target.name)

    def __repr__(self) -> str:
        if self._define is None:
            return f"<Module {self.name}, unloaded>"
        made = self._made
        names = "not compiled yet" if made is None else ", ".join([*made.kernels, *made.variables]) or "empty"
        return f"<Module {self.name} for {self.target.name}: {names}>"


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
