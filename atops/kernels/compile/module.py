"""A loaded module: the kernels, functions and device variables of a compiled program, found by name.

Each module has variables of its own. It knows no device: a variable makes its instance on each that uses it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from atops.base.errors import InvalidHandle, InvalidType, NotFound
from atops.base.fork_locks import fork_safe
from atops.device.arch import Architecture
from atops.kernels.compile.kernel_attributes import FunctionAttributes, function_attributes
from atops.kernels.compile.lowered_names import lowered_name, lowered_name_of
from atops.kernels.kernel import Kernel
from atops.kernels.launch.target import CompileTarget
from atops.kernels.memory.device_variables import Variable
from atops.kernels.source.front_end import Definitions
from atops.kernels.source.nearest import nearest

__all__ = ("Module",)


class Module:
    """What a program defines, by name. Made by `program.module()` and `load_module(image)`.

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
        variable: Variable = found
        return variable

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
        raise InvalidType(f"name is {name!r}; a text is right")
    return name


def _instead(name: str, definitions: Definitions) -> str:
    """Say what there is instead of a kernel that was asked for."""
    if name in definitions.functions:
        return "; it is a function, which kernels call and nobody launches"
    if name in definitions.variables:
        return "; it is a variable"
    return nearest(name, definitions.kernels)
