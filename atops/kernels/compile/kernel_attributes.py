"""The attributes of a kernel before it runs: threads, memory, registers, versions. TOPS Runtime API, 2.8.

Every figure is computed from the kernel's text, its compiled code and the architecture; None where they do not tell it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FunctionType, ModuleType

from atops.base.errors import InvalidType
from atops.device.arch import Architecture
from atops.kernels.compile.static_memory import static_memory
from atops.kernels.inspection import codes_of, plain_function, variables_of
from atops.kernels.kernel import Kernel
from atops.kernels.memory.arrays import ALIGNMENT
from atops.kernels.source.options import DEFAULT_TARGET
from atops.kernels.target import CompileTarget, compile_target

__all__ = ("FunctionAttributes", "function_attributes")


@dataclass(frozen=True, slots=True)
class FunctionAttributes:
    """The attributes of a kernel, as topsFuncGetAttributes names them; sizes in bytes, None where not known.

    `max_threads_per_block` is the architecture's. `shared_bytes` is what the kernel takes of its block's L2 beside
    dynamic shared memory, `local_bytes` what each thread takes of L1, `private_bytes` of its stack; branches that a
    constant does not decide are all counted. `constant_bytes` are those of the constants it refers to.
    `max_dynamic_shared_bytes` is the L2 that is left for dynamic shared memory, which `dynamic_shared` says it uses.

    `registers` counts the slots of the interpreter's frame: variables and the deepest expression, of the kernel and of
    the longest chain of functions that it calls. It depends on the version of Python, as it does on a compiler's.
    `binary_version` is that of the code (21 and 30 for the chips, 20 and 30 for abstract ones), `virtual_version` of
    the abstract architecture (20, 30).
    """

    max_threads_per_block: int
    shared_bytes: int | None
    local_bytes: int | None
    private_bytes: int | None
    constant_bytes: int
    max_dynamic_shared_bytes: int | None
    dynamic_shared: bool
    registers: int
    binary_version: int
    virtual_version: int


def function_attributes(
    kernel: Kernel, target: CompileTarget | Architecture | str | None = None
) -> FunctionAttributes:  # fmt: skip
    """Return the attributes of a kernel on an architecture, or as it was compiled for a target, by name too: "gcu300".

    Without `target` they are those of the target that the kernel names, or of gcu300. Raises InvalidType for what is
    no kernel and no target, InvalidValue for an unknown name.
    """
    if not isinstance(kernel, Kernel):
        raise InvalidType(f"function_attributes() expects a kernel, got {kernel!r}")
    target = _target(target if target is not None else kernel.target or DEFAULT_TARGET)
    chip = target.figures
    memory = static_memory(kernel.function)
    left = chip.l2_usable if memory.shared is not None else None
    if memory.shared:  # dynamic shared memory comes first, and what follows it is aligned
        left = max(0, chip.l2_usable - memory.shared) // ALIGNMENT * ALIGNMENT
    return FunctionAttributes(
        max_threads_per_block=chip.max_threads_per_block,
        shared_bytes=memory.shared,
        local_bytes=memory.local,
        private_bytes=memory.private,
        constant_bytes=kernel.constant_bytes,
        max_dynamic_shared_bytes=left,
        dynamic_shared=kernel.uses_dynamic_shared,
        registers=_registers(kernel.function, []),
        binary_version=(target.agcu_arch if target.gcu_arch is None else target.gcu_arch) // 10,
        virtual_version=target.agcu_arch // 10,
    )


def _target(given: CompileTarget | Architecture | str) -> CompileTarget:
    """Return what a target, an architecture or the name of either stands for."""
    if isinstance(given, CompileTarget):
        return given
    if not isinstance(given, Architecture | str):
        raise InvalidType(f"target expects an Architecture, a CompileTarget or a name such as 'gcu300', got {given!r}")
    return compile_target(given if isinstance(given, str) else given.name)


def _registers(function: Callable[..., object], chain: list[FunctionType]) -> int:
    """Return the slots of a function's frame and of the longest chain of calls below it; a circle counts once."""
    plain = plain_function(function)
    if plain is None or plain in chain:
        return 0
    code = plain.__code__
    variables = {*code.co_varnames, *code.co_cellvars, *code.co_freevars}
    own = len(variables) + code.co_stacksize
    return own + max((_registers(each, [*chain, plain]) for each in _called(plain)), default=0)


def _called(function: FunctionType) -> Iterator[Callable[..., object]]:
    """Yield the functions of the program whose names a function's code has; those of the language are hardware."""
    variables = variables_of(function)
    for code in codes_of(function.__code__):
        values = [variables.get(name) for name in (*code.co_names, *code.co_freevars)]
        for header in [each for each in values if isinstance(each, ModuleType)]:
            values += [vars(header).get(name) for name in code.co_names]
        for value in values:
            plain = plain_function(value) if isinstance(value, FunctionType) else None
            if plain is not None and not plain.__module__.startswith(("atops.kernels", "atops.device", "numpy")):
                yield plain
