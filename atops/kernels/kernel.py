"""Kernels as objects: what `@kernel` makes of a function, and what it refuses. TOPS C++, 8.1."""

from __future__ import annotations

import functools
import inspect
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NoReturn, overload

import numpy as np

from atops.base.dims import DimLike
from atops.base.errors import IllegalState, InvalidType, InvalidValue
from atops.base.html_table import columns, html_table
from atops.base.neighbours import answers
from atops.device.arch import Architecture
from atops.device.call_site import file_shown
from atops.device.exec.thread import maybe_current_thread
from atops.kernels.arguments import Parameter, parameter
from atops.kernels.bound import BoundKernel
from atops.kernels.execution_spaces import ExecutionSpace, execution_space
from atops.kernels.inspection import constants_of, dynamic_shared_lines, uses_dynamic_shared, variables_of
from atops.kernels.launch_config import LaunchConfig
from atops.kernels.stores import check_stores
from atops.kernels.target import compile_target

__all__ = ("Kernel", "cooperative", "kernel")

Function = Callable[..., Any]

# The parameters of a kernel's function, for type checkers. With its default a bare `Kernel` is complete, too.
if TYPE_CHECKING:
    from typing_extensions import ParamSpec

    P = ParamSpec("P", default=...)
else:
    from typing import ParamSpec

    P = ParamSpec("P")

SPELLINGS = (  # of annotations: a text, a type of the language, numpy's types and those that it lacks
    (r": '([^']*)'", r": \1"),
    (r"\batops\.[\w.]*\.(\w+)", r"k.\1"),
    (r"\bnumpy\.", "np."),
    (r"\bdtype\('(\w+)'\)", r"np.\1"),
    (r"\bdtype\((\w+)\)", r'"\1"'),
)
MOST_CONFIGURED = 64  # geometries that a kernel caches


@answers("Kernel")
class Kernel(Generic[P]):
    """A function that runs once in every thread of a launch: `__global__` (TOPS C++, 8.1).

    `name` is what traces and errors call it, `signature` the function's, `cooperative` whether all blocks start
    together, `is_async` whether it can be suspended, `target` what it is compiled for (None: the chip it runs on),
    `restricted` the parameters that promise to have no alias. Start it with
    `stream.launch(kernel, (grid, block), *arguments)`.
    """

    # Finds the stream that an index names, or the current one for None. Put here by the runtime.
    find_stream: ClassVar[list[Callable[[Any], Any]]] = []
    __execution_space__ = ExecutionSpace.GLOBAL
    # Bytes by space, of one whose function does not tell; None is not known.
    static_memory: ClassVar[Mapping[str, int | None] | None] = None
    bound_as: ClassVar[type[BoundKernel]] = BoundKernel  # what it is with the arguments of one launch
    # Returns what another process makes it of, for one that a compiled text defines.
    pickled: Callable[[], tuple[Any, ...]] | None = None

    def __init__(
        self, function: Callable[P, object], name: str | None = None, cooperative: bool = False, arch: str | None = None
    ) -> None:
        """Make a kernel of `function`.

        Raises InvalidType for what is no function, a method, a generator, annotated with a result, or a host or device
        function; InvalidValue where it asks for dynamic shared memory on two lines, and for an unknown `arch`.
        """
        if (space := execution_space(function)) is not None:
            raise InvalidType(f"{function!r} is {space} already; a kernel has no other execution space")
        if isinstance(function, staticmethod | classmethod) or not inspect.isfunction(function):
            raise InvalidType(f"@kernel expects a function, got {function!r}")
        if not isinstance(name, str | None):
            raise InvalidType(f"name of kernel {function.__name__} expects a text or None, got {name!r}")
        self.name = name or function.__name__
        _check_form(function, self.name)
        functools.update_wrapper(self, function)
        self.function: Function = function
        self.signature = inspect.signature(function)
        self.cooperative = cooperative
        self.arch = arch
        # Not cached properties: up to Python 3.11 these lock their class, and a fork may copy the lock as taken.
        self._uses_dynamic_shared: bool | None = None
        self._constant_bytes: int | None = None
        self.target = None if arch is None else compile_target(arch)
        self.is_async = inspect.iscoroutinefunction(function)
        self.parameters: Mapping[str, Parameter] = {
            each.name: parameter(self.name, each, functools.partial(_evaluate, function))
            for each in self.signature.parameters.values()
        }
        keyword_only = (each.name for each in self.signature.parameters.values() if each.kind is each.KEYWORD_ONLY)
        self.keyword_only = frozenset(keyword_only)
        self.restricted = frozenset(name for name, each in self.parameters.items() if each.restrict)
        self._configured: dict[object, LaunchConfig] = {}

    def bind(self, args: tuple[object, ...], kwargs: Mapping[str, object] | None = None) -> BoundKernel:
        """Return the kernel with its arguments, each converted to the type of its parameter.

        Raises InvalidType for a wrong number or type of arguments, InvalidValue for one out of its type's range.
        """
        if not kwargs and len(args) == len(self.parameters) and not self.keyword_only:
            values = {}
            for each, value in zip(self.parameters.values(), args):  # noqa: B905  # of one length, as was just seen
                values[each.name] = each.take(value)
            return self.bound_as(self, values)
        try:
            bound = self.signature.bind(*args, **(kwargs or {}))
        except TypeError as error:
            count = self._count(len(args) + len(kwargs or ()))
            raise InvalidType(f"kernel {self._spelled()}: {error}{count}") from None
        bound.apply_defaults()
        given = bound.arguments
        return self.bound_as(self, {name: self.parameters[name].take(value) for name, value in given.items()})

    def _spelled(self) -> str:
        """Return name and signature as they are written: annotations may be texts, and are shown where types are."""
        text = str(self.signature)
        for found, written in SPELLINGS:
            text = re.sub(found, written, text)
        return self.name + text

    def _count(self, given: int) -> str:
        """Return a hint on how many arguments were given and expected; nothing where the number fits."""
        most = len(self.parameters)
        least = sum(each.default is each.empty for each in self.signature.parameters.values())
        if least <= given <= most:
            return ""
        wanted = f"{least}" if least == most else f"{least} to {most}"
        return f"; {given} argument{'s' if given != 1 else ''} given, {wanted} expected"

    def held_to(self, arch: str) -> Kernel[P]:
        """Return the same kernel, compiled for an architecture."""
        return Kernel(self.function, self.name, self.cooperative, arch)

    def configure(
        self, config: LaunchConfig | Sequence[DimLike], arch: Architecture, shared: int | None = None,
        cooperative: bool | None = None,
    ) -> LaunchConfig:  # fmt: skip
        """Return a launch's geometry as `arch` runs it: `config` overridden by `shared` and `cooperative`, validated.

        A program launches a kernel in few shapes and often, so valid ones are cached. Raises as
        `LaunchConfig.of` and `LaunchConfig.validate` do.
        """
        key, hashable = (config, _kinds(config), arch.name, shared, cooperative), True
        try:
            known = self._configured.get(key)
        except TypeError:  # lists are valid, but cannot be hashed
            hashable, known = False, None
        if known is not None:
            return known
        geometry = LaunchConfig.of(config)
        if shared is not None or cooperative is not None:
            geometry = LaunchConfig(
                geometry.grid,
                geometry.block,
                geometry.shared if shared is None else shared,
                geometry.cooperative if cooperative is None else cooperative,
            )
        geometry = geometry.validate(arch, self)
        if hashable and len(self._configured) < MOST_CONFIGURED:
            self._configured[key] = geometry
        return geometry

    @property
    def uses_dynamic_shared(self) -> bool:
        """Tell whether the kernel, or a device function that it calls by name, asks for dynamic shared memory."""
        if self._uses_dynamic_shared is None:
            self._uses_dynamic_shared = uses_dynamic_shared(self.function)
        return self._uses_dynamic_shared

    @property
    def share(self) -> str:
        """How a thread takes a share of the elements, in its language: advice for a launch of too many threads."""
        return "k.tiles(x.size, 1024)"

    @property
    def needs_dynamic_shared(self) -> bool:
        """Whether it has to be launched with a size of dynamic shared memory."""
        return self.uses_dynamic_shared

    @property
    def constant_bytes(self) -> int:
        """Return the bytes of the constants that the kernel, or a function that it calls by name, refers to by name."""
        if self._constant_bytes is None:
            self._constant_bytes = sum(each.nbytes for each in constants_of(self.function))
        return self._constant_bytes

    def __getitem__(self, configuration: object) -> Callable[..., Any]:
        """Return what launches the kernel when called with its arguments: `kernel[grid, block, stream, shared](*args)`.

        As `stream.launch(kernel, (grid, block), *args, shared=shared)`, and gives the same completion. Without a
        stream, or with 0 or None, it is the current one of the current device. A LaunchConfig may stand for grid and
        block, any object with `__tops_stream__` for the stream. Raises InvalidType for another form, and as `launch`.
        """
        parts = configuration if isinstance(configuration, tuple) else (configuration,)
        whole = bool(parts) and isinstance(parts[0], LaunchConfig)
        geometry, rest = (parts[0], parts[1:]) if whole else (parts[:2], parts[2:])
        stream, shared = (*rest, None, None)[:2]
        if len(rest) > 2 or (isinstance(geometry, tuple) and len(geometry) < 2):
            raise InvalidType(f"{self.name}[{configuration!r}]; expected {self.name}[grid, block, stream, shared](...)")
        named: Any = None if type(stream) is int and stream == 0 else stream
        if named is not None and not hasattr(type(named), "__tops_stream__"):
            raise InvalidType(f"{self.name}[...] expects a Stream in the third place, got {stream!r}")
        if not self.find_stream:
            raise IllegalState(f"{self.name}[...] has no stream to launch on; import atops first")
        stream = self.find_stream[0](named)
        return functools.partial(stream.launch, self, geometry, **({} if shared is None else {"shared": shared}))

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> NoReturn:
        """Refuse: a kernel is launched. Raises IllegalState."""
        thread = maybe_current_thread()
        if thread is not None:
            raise IllegalState(f"{thread} called kernel {self.name}; kernels call functions, made by @device")
        raise IllegalState(
            f"kernel {self.name} was called; it is launched: stream.launch({self.name}, (grid, block), *arguments)"
        )

    def __reduce_ex__(self, protocol: object) -> str | tuple[Any, ...]:
        """Be pickled as a function is: by its name where another process can import it, else as cloudpickle does."""
        if self.pickled is not None:
            return self.pickled()
        found: Any = None if self.__module__ == "__main__" else sys.modules.get(self.__module__)
        qualified: str = self.function.__qualname__
        for name in qualified.split("."):
            found = getattr(found, name, None)
        if found is self:
            return qualified
        return _made_again, (self.function, self.name, self.cooperative, self.arch)

    def __copy__(self) -> Kernel[P]:
        return self  # as a function does

    def __deepcopy__(self, memo: object) -> Kernel[P]:
        return self

    def __repr__(self) -> str:
        return f"<{'cooperative ' if self.cooperative else ''}kernel {self._spelled()}>"

    def _repr_html_(self) -> str:
        code = self.function.__code__
        return html_table(f"Kernel {self.name}", (
            ("signature", self._spelled()),
            ("parameters", columns(("name", "type", ""), [
                (name, _described(each), "no alias" if each.restrict else "")
                for name, each in self.parameters.items()
            ]) if self.parameters else "none"),
            ("blocks", "start together (cooperative)" if self.cooperative else "run in any order"),
            ("suspends", "yes" if self.is_async else "no"),
            ("compiled for", self.arch or "the chip it runs on"),
            ("dynamic shared memory", "yes" if self.uses_dynamic_shared else "no"),
            ("constants", f"{self.constant_bytes} bytes" if self.constant_bytes else None),
            ("defined at", f"{file_shown(code.co_filename)}:{code.co_firstlineno}"),
            ("says", inspect.getdoc(self.function)),
        ))  # fmt: skip


@overload
def kernel(function: Callable[P, object], /) -> Kernel[P]: ...
@overload
def kernel(
    *, name: str | None = None, cooperative: bool = False, arch: str | None = None
) -> Callable[[Callable[P, object]], Kernel[P]]: ...
def kernel(
    function: Function | None = None, /, *, name: str | None = None, cooperative: bool = False, arch: str | None = None
) -> Kernel[...] | Callable[[Function], Kernel[...]]:
    """Make a kernel of an `async def`, or of a plain `def` that never suspends: `__global__` (TOPS C++, 8.1).

    Use it as `@kernel` or as `@kernel(name=..., cooperative=True)`. Parameters annotated with an element type get
    numpy scalars of it, device memory arrives as spans. `arch` says what it is compiled for: a chip, "gcu210" or
    "gcu300", or an abstract architecture, "agcu200" or "agcu300" (8.6). It runs on these chips only, with the
    features that all of them have; without `arch` it is compiled for the chip that runs it. Raises as `Kernel` does.
    """
    if function is None:
        return lambda later: Kernel(later, name, cooperative, arch)
    return Kernel(function, name, cooperative, arch)


def cooperative(function: Callable[P, object] | Kernel[P]) -> Kernel[P]:
    """Make a cooperative kernel: its blocks start together and may use syncblocks (TOPS C++, 8.1, `__cooperative__`).

    Use it as `@cooperative`, alone or above `@kernel`.
    """
    if isinstance(function, Kernel):
        return Kernel(function.function, function.name, True, function.arch)
    return Kernel(function, None, True)


def _described(parameter: Parameter) -> str:
    """Return what a parameter takes, in words."""
    if parameter.memory:
        return "device memory" if parameter.elements is None else f"device memory of {parameter.elements}"
    return "device memory or a scalar" if parameter.dtype is None else str(np.dtype(parameter.dtype))


def _kinds(config: object) -> object:
    """Return the types of a configuration's numbers: 2.0 equals 2, but cannot be a number of blocks."""
    if type(config) is not tuple:
        return type(config)
    kinds = tuple(map(type, config))
    return tuple(map(_kinds, config)) if tuple in kinds else kinds


def _made_again(function: Function, name: str, cooperative: bool, arch: str | None) -> Kernel:
    """Return the kernel of a function that was pickled by value."""
    return Kernel(function, name, cooperative, arch)


def _check_form(function: Function, name: str) -> None:
    """Raise unless the function is one that a kernel can be made of."""
    scope = function.__qualname__.rpartition(".")[0]
    if scope and not scope.endswith("<locals>"):
        raise InvalidType(f"kernel {name} is a member of {scope}; a kernel is a plain function")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise InvalidType(f"kernel {name} is a generator; a kernel awaits and yields nothing")
    if inspect.signature(function).return_annotation not in (inspect.Signature.empty, None, "None"):
        raise InvalidType(f"kernel {name} is annotated with a result; a kernel returns nothing")
    check_stores(function, f"kernel {name}")
    lines = dynamic_shared_lines(function)
    if len(lines) > 1:
        raise InvalidValue(
            f"kernel {name} asks for dynamic shared memory {len(lines)} times, on lines {lines}; a kernel has one"
        )


def _evaluate(function: FunctionType, text: str) -> object:
    return eval(text, variables_of(function))
