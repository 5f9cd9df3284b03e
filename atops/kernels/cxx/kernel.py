"""Native kernels: what a compiled module has, launched as any other kernel.

Arguments are checked as those of kernels in Python, and copied at the launch: one block of memory has them all, with a
table of pointers to them.
"""

from __future__ import annotations

import ctypes
import struct
import sys
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, NoReturn

import numpy as np

from atops.base.errors import IllegalAddress, InvalidType, InvalidValue, NotSupported
from atops.device.memory.allocation import Allocation
from atops.device.native.block import NativeBlock
from atops.device.native.library import KernelRow, ParameterRow, private_ranges
from atops.kernels.arguments import MemoryArgument, Parameter
from atops.kernels.bound import BoundKernel
from atops.kernels.cxx.variables import Loaded, LoadedModule, dtype_of, entry_of
from atops.kernels.kernel import Kernel
from atops.kernels.target import compile_target

if TYPE_CHECKING:
    from atops.device.chip import Chip
    from atops.kernels.cxx.registration import CxxKernel

__all__ = ("NativeKernel", "NativeLaunch", "PointerParameter", "ProgramKernel", "ProgramLaunch", "StructParameter")

WORD = 16  # arguments are aligned as the largest that C++ has
NOTHING = array("Q")


class _Layout(NamedTuple):
    """Where the arguments of a launch lie in their memory."""

    struct: struct.Struct
    offsets: tuple[int, ...]

    @classmethod
    def of(cls, pieces: Sequence[tuple[str, int]]) -> _Layout:
        """Return that of so many bytes each, given with the code by which each is packed."""
        room = [size + -size % WORD for _, size in pieces]
        codes = [f"{code}{-size % WORD}x" for code, size in pieces]
        return cls(struct.Struct("=" + "".join(codes)), tuple(sum(room[:each]) for each in range(len(room))))


class NativeLaunch(BoundKernel):
    """A native kernel with the arguments of one launch."""

    __slots__ = ("_memory", "arguments", "plan")

    native = NativeBlock

    def __init__(self, kernel: Kernel[...], values: Mapping[str, object]) -> None:
        """Bind what each parameter got."""
        super().__init__(kernel, values)
        self.arguments = self._memory = NOTHING  # until they are laid out
        self.plan: Any = None

    def resolve(self, can_access: Callable[[Allocation], bool]) -> None:
        """Lay out the arguments, just before the launch runs. Raises as of any kernel."""
        kernel: Any = self.kernel
        packed: list[object] = []
        for value, dtype in zip(self.values.values(), kernel.dtypes, strict=True):
            if isinstance(value, MemoryArgument):
                self._check(value, can_access)
                packed.append(value.allocation.host_address + value.offset)
            elif value is None:
                packed.append(0)
            else:
                packed.append((value if isinstance(value, np.generic) else np.asarray(value, dtype)).tobytes())
        self._lay_out(kernel.layout, packed)

    def _lay_out(self, layout: _Layout, packed: Sequence[object]) -> None:
        """Keep the arguments where they stay, and a table of where each is."""
        self._memory = memory = array("B", layout.struct.pack(*packed))
        base, _ = memory.buffer_info()
        self.arguments = array("Q", [base + each for each in layout.offsets])

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

    def named(self, chip: Chip, watched: bool) -> Sequence[Allocation]:
        """Return the memory that the arguments name, to which the kernel may store."""
        return self.allocations

    def start(self, thread: object) -> NoReturn:
        """Refuse: its threads are no coroutines."""
        raise NotSupported(f"kernel {self.name} is native; a grid of several kernels runs those in Python")


class NativeKernel(Kernel[...]):
    """A kernel of a module of machine code. `row` is what the module says of it."""

    bound_as = NativeLaunch
    share = "for (int i = threadIdx.x; i < n; i += blockDim.x)"
    needs_dynamic_shared = False  # a launch of it may do without; what uses it all the same is a fault
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
        self.dtypes = [None if chr(kind.kind) == "P" else _dtype(kind) for kind in self.kinds]
        self.layout = _Layout.of(
            [("Q" if chr(kind.kind) == "P" else f"{kind.bytes}s", kind.bytes) for kind in self.kinds]
        )

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


class ProgramLaunch(NativeLaunch):
    """A launch of such a kernel."""

    __slots__ = ("_can_access",)

    def resolve(self, can_access: Callable[[Allocation], bool]) -> None:
        """Lay out the arguments. What memory their pointers are in is found when it is asked for."""
        self._can_access = can_access
        kernel: Any = self.kernel
        given: Any = self.values["arguments"]
        parts = kernel.parts.unpack_from(given.tobytes())
        for place, part in enumerate(parts):
            if kernel.pointers[place]:
                self._check_pointer(place, int.from_bytes(part, sys.byteorder))
        self._lay_out(kernel.layout, parts)

    def _check_pointer(self, place: int, address: int) -> None:
        """Raise IllegalAddress for an argument that is the address of a variable or of `malloc`'s memory of the host.

        A pointer to the end of live memory is none, nor is one to memory that was freed: the kernel may not use it.
        """
        kernel: Any = self.kernel
        if not address or kernel.elsewhere(address) is not None or kernel.elsewhere(address - 1) is not None:
            return
        if any(low <= address < high for low, high in private_ranges(writable=True)):
            raise IllegalAddress(
                f"kernel {self.name}: argument {place + 1} is {address:#x}, an address of pageable host memory, which "
                "no kernel reaches: copy it to memory of topsMalloc, or have it in memory of topsHostMalloc"
            )

    def find(self, address: int, chip: Chip) -> Allocation | None:
        """Return the live memory that an address is in: of the chip, of a peer that it may access, or pinned."""
        kernel: Any = self.kernel
        found = super().find(address, chip) or kernel.elsewhere(address)
        return found if found is not None and self._can_access(found) else None

    def named(self, chip: Chip, watched: bool) -> Sequence[Allocation]:
        """Return the memory that a word of the arguments points to; `watched`: and what devices reach of the host's."""
        data: Any = self._memory
        kernel: Any = self.kernel
        words = np.frombuffer(data, np.uint64)
        found = (self.find(int(each), chip) for each in words if each)
        reached = [each for each in kernel.reached() if self._can_access(each)] if watched else []
        return list(dict.fromkeys([*(each for each in found if each is not None), *reached]))


class ProgramKernel(NativeKernel):
    """A kernel that host code in C++ launches: where it is on a chip, and how many bytes each of its arguments has.

    `pointers` tells which of them are declared as pointers. `elsewhere` finds the memory of the board at an address,
    `reached` all of the host that the board's devices reach.
    """

    bound_as = ProgramLaunch

    def __init__(
        self, on: Callable[[Chip, bool], tuple[Loaded, int]], name: str, sizes: Sequence[int],
        pointers: Sequence[bool], cooperative: bool, elsewhere: Callable[[int], Allocation | None],
        reached: Callable[[], Iterable[Allocation]],
    ) -> None:  # fmt: skip
        self._on, self.sizes, self.pointers = on, tuple(sizes), tuple(pointers)
        self.elsewhere, self.reached = elsewhere, reached
        Kernel.__init__(self, _stand_in(name, ["arguments"]), name, cooperative, None)
        given = np.dtype(f"V{max(1, sum(sizes))}")
        self.parameters = {"arguments": StructParameter(name, "arguments", given, False)}
        self._uses_dynamic_shared = False  # none is needed
        self._constant_bytes = 0
        self.target = None
        self.parts = struct.Struct("=" + "".join(f"{size}s" for size in sizes))
        self.layout = _Layout.of([(f"{size}s", size) for size in sizes])

    def on(self, chip: Chip, watched: bool) -> tuple[Loaded, int]:
        """As of any native kernel."""
        return self._on(chip, watched)

    def held_to(self, arch: str) -> ProgramKernel:
        """Itself: it is compiled for the program's devices."""
        return self


class PointerParameter(Parameter):
    """A parameter that is a pointer: device memory, or None for the null pointer."""

    __slots__ = ()

    def take(self, value: object) -> object:
        """As of any parameter of memory."""
        return None if value is None else super().take(value)


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
        return PointerParameter(kernel, name, None, True)
    return (StructParameter if letter == "V" else Parameter)(kernel, name, _dtype(kind), False)


def _dtype(kind: ParameterRow) -> np.dtype[np.generic]:
    return np.dtype(f"V{kind.bytes}") if chr(kind.kind) == "V" else dtype_of(kind, kind.bytes)


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
