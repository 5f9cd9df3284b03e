"""A kernel bound to its arguments: the value that a stream launches, and the entry of each of its threads."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any

from atops.base.errors import LaunchFailure, PeerAccessNotEnabled
from atops.device.dte.transfer import finish_transfers
from atops.device.memory.allocation import Allocation
from atops.device.span.span import Span
from atops.kernels.arguments import MemoryArgument, aliases
from atops.kernels.target import held_to

if TYPE_CHECKING:
    from atops.device.exec.grid import Grid
    from atops.device.exec.thread import KernelThread
    from atops.kernels.kernel import Kernel

__all__ = ("BoundKernel",)


class BoundKernel:
    """One launch's kernel and arguments. Only `Stream.launch` runs it."""

    __slots__ = ("_keywords", "_positional", "allocations", "context", "kernel", "make", "name", "prepares", "values")

    def __init__(self, kernel: Kernel, values: Mapping[str, object]) -> None:
        """Bind what each parameter got, in order."""
        self.kernel = kernel
        self.name = kernel.name
        self.values = values
        self.context = copy_context()  # of the launching task, for what the kernel prints
        memory = [value.allocation for value in values.values() if type(value) is MemoryArgument]
        self.allocations: tuple[Allocation, ...] = tuple(dict.fromkeys(memory)) if memory else ()
        self._positional: tuple[object, ...] = ()  # until it is resolved
        self._keywords: dict[str, object] = {}
        self.make: Callable[[], Coroutine[object, Any, None]] | None = None
        self.prepares = kernel.target is not None or bool(kernel.restricted)

    def resolve(self, can_access: Callable[[Allocation], bool]) -> None:
        """Make the spans that all threads of the launch get, just before they run.

        Raises IllegalAddress, naming the parameter, when an allocation is dead, and PeerAccessNotEnabled when
        `can_access` refuses one.
        """
        positional: list[object] = []
        for name, value in self.values.items():
            if isinstance(value, MemoryArgument):
                value = self._span(value, can_access)
            if name in self.kernel.keyword_only:
                self._keywords[name] = value
            else:
                positional.append(value)
        self._positional = tuple(positional)
        if self.kernel.is_async:
            self.make = partial(self.kernel.function, *positional, **self._keywords)

    def prepare(self, grid: Grid) -> None:
        """Restrict the launch to its compile target; in strict mode report aliases of restricted memory. Idempotent."""
        if self.kernel.target is not None:
            grid.arch = held_to(grid.chip.arch, self.kernel.target)
        if self.kernel.restricted and grid.options.strict:
            memory = [value for value in self.values.values() if isinstance(value, MemoryArgument)]
            restricted = (each for each in memory if each.name in self.kernel.restricted)
            grid.warnings += (each for each in aliases(self.name, restricted, memory) if each not in grid.warnings)

    def start(self, thread: KernelThread) -> Coroutine[object, Any, None] | None:
        """Return the thread's coroutine; run a plain kernel to its end and return None.

        Raises LaunchFailure when a plain kernel returns a value.
        """
        result = self.kernel.function(*self._positional, **self._keywords)
        if self.kernel.is_async:
            coroutine: Coroutine[object, Any, None] = result
            return coroutine
        if result is not None:
            raise self.returned(thread, result)
        return None

    def finish(self, thread: KernelThread, value: object) -> None:
        """Check the result of a thread, and finish its transfers.

        Raises LaunchFailure for a returned value, DteError in strict mode for transfers that were never waited for.
        """
        if value is not None:
            raise self.returned(thread, value)
        if thread.transfers:
            finish_transfers(thread)

    def returned(self, thread: KernelThread, result: object) -> LaunchFailure:
        """Return the error of a thread that returned a value (TOPS C++, 8.1)."""
        return LaunchFailure(f"{thread} returned {result!r}; a kernel returns nothing, it stores its results")

    def _span(self, value: MemoryArgument, can_access: Callable[[Allocation], bool]) -> Span:
        allocation = value.allocation
        if not allocation.alive:
            size = allocation.size - value.offset
            raise allocation.violation(value.offset, size, f"kernel {self.name}, parameter {value.name}")
        if not can_access(allocation):
            raise PeerAccessNotEnabled(
                f"kernel {self.name}: parameter {value.name} is memory of {allocation.where}; enable peer access to it "
                "or copy it first"
            )
        return value.span()

    def __repr__(self) -> str:
        arguments = ", ".join(f"{name}={value!r}" for name, value in self.values.items())
        return f"<BoundKernel {self.name}({arguments})>"
