"""Native kernels: what a compiled module has, launched as any other kernel.

Arguments are checked as those of kernels in Python, and copied at the launch: one block of memory has them all, with a
table of pointers to them.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import numpy as np

from atops.base.errors import IllegalAddress, InvalidType, InvalidValue, NotSupported
from atops.device.memory.allocation import Allocation
from atops.device.native.block import NativeBlock
from atops.device.native.library import KernelRow, ParameterRow
from atops.kernels.arguments import MemoryArgument, Parameter
from atops.kernels.bound import BoundKernel
from atops.kernels.cxx.variables import Loaded, LoadedModule, dtype_of, entry_of
from atops.kernels.kernel import Kernel
from atops.kernels.target import compile_target

if TYPE_CHECKING:
    from atops.device.chip import Chip
    from atops.kernels.cxx.registration import CxxKernel

__all__ = ("NativeKernel", "NativeLaunch", "ProgramKernel", "ProgramLaunch", "StructParameter")

WORD = 16  # arguments are aligned as the largest that C++ has


class NativeKernel(Kernel[...]):
    """A kernel of a module of machine code. `row` is what the module says of it."""

    static_memory: ClassVar[Mapping[str, int | None] | None] = {"shared": None, "local": None, "private": None}

    def __init__(self, module: LoadedModule, row: KernelRow, found: CxxKernel, arch: str | None = None) -> None:
        """Make a kernel of a row."""
        self.module, self.row, self.found = module, row, found
        self.kinds = [row.parameters[each] for each in range(row.count)]
        name = found.name.removeprefix("::")
        names = _names(found.parameters, row.count)
        super().__init__(_stand_in(name, names), name, found.cooperative, arch)
        self.parameters = {given: _parameter(name, given, kind) for given, kind in zip(names, self.kinds, strict=True)}
        self._uses_dynamic_shared = found.dynamic_shared
        self._constant_bytes = module.constant_bytes
        self.target = None if arch is None else compile_target(arch)

    def held_to(self, arch: str) -> NativeKernel:
        """As of any kernel."""
        return NativeKernel(self.module, self.row, self.found, arch)

    def on(self, chip: Chip, watched: bool) -> tuple[Loaded, int]:
        """Return the module as it is on a chip, and where the kernel begins. Raises OutOfMemory for its variables.

        `watched`: the one whose every access is seen. Raises CompilationError where the compiler does not make it.
        """
        loaded = self.module.on(chip, watched)
        plain = loaded.module is self.module.module
        return loaded, (self.row.enter or 0) if plain else entry_of(loaded.module, self.row)

    def bind(self, args: tuple[object, ...], kwargs: Mapping[str, object] | None = None) -> NativeLaunch:
        """As of any kernel."""
        bound = super().bind(args, kwargs)
        return NativeLaunch(self, bound.values)


class NativeLaunch(BoundKernel):
    """A native kernel with the arguments of one launch."""

    __slots__ = ("_memory", "arguments", "plan")

    native: Callable[..., Any] | None = NativeBlock

    def __init__(self, kernel: NativeKernel, values: Mapping[str, object]) -> None:
        """Bind what each parameter got."""
        super().__init__(kernel, values)
        self.arguments: Any = None
        self.plan: Any = None
        self._memory: Any = None

    def resolve(self, can_access: Callable[[Allocation], bool]) -> None:
        """Lay out the arguments, just before the launch runs. Raises as of any kernel."""
        kernel: Any = self.kernel
        data = bytearray(WORD * (1 + len(self.values)) + sum(each.bytes for each in kernel.kinds))
        places = []
        end = 0
        for value, kind in zip(self.values.values(), kernel.kinds, strict=True):
            end += -end % WORD
            if isinstance(value, MemoryArgument):
                self._span(value, can_access)
                address = value.allocation.data.__array_interface__["data"][0] + value.offset
                packed = address.to_bytes(8, "little")
            else:
                packed = np.asarray(value, dtype_of(kind, kind.bytes)).tobytes()
            data[end : end + len(packed)] = packed
            places.append(end)
            end += kind.bytes
        self._memory = (ctypes.c_char * len(data)).from_buffer(data)
        base = ctypes.addressof(self._memory)
        self.arguments = (ctypes.c_void_p * max(1, len(places)))(*[base + place for place in places])

    def on(self, chip: Chip, watched: bool) -> tuple[Loaded, int]:
        """As the kernel says."""
        kernel: Any = self.kernel
        found: tuple[Loaded, int] = kernel.on(chip, watched)
        return found

    def find(self, address: int, chip: Chip) -> Allocation | None:
        """Return the live memory of the chip that an address of the host is in, where its arena lies at home."""
        try:
            found: Allocation = chip.memory.find(address)
        except IllegalAddress:
            return None
        return found

    def named(self, chip: Chip) -> Sequence[Allocation]:
        """Return the memory that the arguments name, to which the kernel may store."""
        return self.allocations

    def start(self, thread: object) -> NoReturn:
        """Refuse: its threads are no coroutines."""
        raise NotSupported(f"kernel {self.name} is native; a grid of several kernels runs those in Python")


class ProgramKernel(NativeKernel):
    """A kernel that host code in C++ launches: where it is on a chip, and how many bytes each of its arguments has."""

    def __init__(
        self, on: Callable[[Chip, bool], tuple[Loaded, int]], name: str, sizes: Sequence[int], cooperative: bool
    ) -> None:  # fmt: skip
        self._on, self.sizes = on, tuple(sizes)
        Kernel.__init__(self, _stand_in(name, ["arguments"]), name, cooperative, None)
        given = np.dtype(f"V{max(1, sum(sizes))}")
        self.parameters = {"arguments": StructParameter(name, "arguments", given, False)}
        self._uses_dynamic_shared = False  # none is needed
        self._constant_bytes = 0
        self.target = None

    def on(self, chip: Chip, watched: bool) -> tuple[Loaded, int]:
        """As of any native kernel."""
        return self._on(chip, watched)

    def held_to(self, arch: str) -> ProgramKernel:
        """Itself: it is compiled for the program's devices."""
        return self

    def bind(self, args: tuple[object, ...], kwargs: Mapping[str, object] | None = None) -> ProgramLaunch:
        """As of any kernel; the one argument is the bytes of all."""
        return ProgramLaunch(self, Kernel.bind(self, args, kwargs).values)


class ProgramLaunch(NativeLaunch):
    """A launch of such a kernel."""

    __slots__ = ()

    def resolve(self, can_access: Callable[[Allocation], bool]) -> None:
        """Lay out the arguments. What memory their pointers are in is found when it is asked for."""
        kernel: Any = self.kernel
        given = memoryview(np.asarray(self.values["arguments"]).tobytes())
        data = bytearray(WORD + sum(size + WORD for size in kernel.sizes))
        places, end, taken = [], 0, 0
        for size in kernel.sizes:
            data[end : end + size] = given[taken : taken + size]
            places.append(end)
            end, taken = end + size + -size % WORD, taken + size
        self._memory = (ctypes.c_char * len(data)).from_buffer(data)
        base = ctypes.addressof(self._memory)
        self.arguments = (ctypes.c_void_p * max(1, len(places)))(*[base + place for place in places])

    def named(self, chip: Chip) -> Sequence[Allocation]:
        """Return the memory that a word of the arguments points to."""
        data: Any = self._memory
        words = np.frombuffer(data, np.uint64, len(data) // WORD)
        found = (self.find(int(each), chip) for each in words if each)
        return list(dict.fromkeys(each for each in found if each is not None))


class StructParameter(Parameter):
    """A parameter of a class: the bytes that C has of it, or what numpy and ctypes have as a struct of its size."""

    __slots__ = ()

    def take(self, value: object) -> object:
        """As of any parameter. Raises InvalidType for what is no struct, InvalidValue for one of another size."""
        if isinstance(value, ctypes.Structure | ctypes.Union | bytes | bytearray | memoryview):
            given = bytes(value)
        elif isinstance(value, np.void | np.ndarray) and value.ndim == 0 and value.dtype.kind == "V":
            given = value.tobytes()
        else:
            expected = "bytes, a ctypes.Structure or a record of numpy"
            raise InvalidType(
                f"kernel {self.kernel}: parameter {self.name} is a class; it expects {expected}, got {value!r}"
            )
        assert isinstance(self.dtype, np.dtype), "it is made with one"
        if len(given) != self.dtype.itemsize:
            raise InvalidValue(
                f"kernel {self.kernel}: parameter {self.name} has {self.dtype.itemsize} bytes, got {len(given)}"
            )
        return np.frombuffer(given, self.dtype)[0]


def _parameter(kernel: str, name: str, kind: ParameterRow) -> Parameter:
    letter = chr(kind.kind)
    if letter == "P":
        return Parameter(kernel, name, None, True)
    if letter == "V":
        return StructParameter(kernel, name, np.dtype(f"V{kind.bytes}"), False)
    return Parameter(kernel, name, dtype_of(kind, kind.bytes), False)


def _names(given: Sequence[str], count: int) -> list[str]:
    """Return so many names, all different and of Python."""
    names: list[str] = []
    for place in range(count):
        name = given[place] if place < len(given) else f"p{place}"
        name = name if name.isidentifier() and name not in names else f"p{place}"
        names.append(f"{name}_" if name in ("None", "True", "False", "lambda", "in", "is", "from", "def") else name)
    return names


def _stand_in(name: str, parameters: Sequence[str]) -> Any:
    """Return a function that has the kernel's signature, for whoever looks at it; it is never called."""
    space: dict[str, Any] = {}
    exec(f"def kernel({', '.join(parameters)}):\n    raise AssertionError('never called')", space)
    function = space["kernel"]
    function.__name__ = function.__qualname__ = name.rpartition("::")[2]
    function.__module__ = "tops"
    return function
