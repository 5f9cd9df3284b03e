"""The language that kernels are written in: `from atops import kernels as k`. TOPS C++ in Python.

    @k.kernel                   a function that runs in every thread of a launch; `async def` where it can be suspended
    k.device, k.host            functions that only kernels, or only the host, call
    k.threadIdx, k.tiles(...)   the place of a thread, and its share of the work
    k.local, k.shared           memory in L1 and L2; global memory arrives as k.Span
    k.device_variable           variables of the device, and `k.constant`
    k.dte_scope(), k.memcpy     data moved by the DTE, at once or `_async` with an event to await
    k.vector4[np.float32]       vectors and their masks; k.exp(v) and 28 more functions (gcu300)
    await k.syncthreads()       barriers; each point where a thread can be suspended is an `await`
    k.relaxed("why")            accesses that need no order, told to the detector of races
    k.printf, k.assert_         output and assertions of a kernel
    k.cost(flops=..., bytes=...)  time that a virtual clock cannot see

It depends on the device alone, not on streams or launches. What a program names is right in this folder; behind it are

    tables/    the language as tables, which the reference, the checks and the tests read
    memory/    arrays, device variables and pointers; vectors/: vectors and functions
    source/    from a source text to kernels; programs/: compiled programs, images and modules
    kernel     what `@k.kernel` makes; bound, arguments: a kernel with its arguments; launch_config: its geometry
    dte        the DTE's contexts and operations; sync: barriers and signals; output: printf and assertions
    timing     what a kernel says of its own time
    builtin_variables, execution_spaces: the place of a thread; `k.device` and `k.host`
    inspection what a kernel's code and text show before it runs; stores: assignments that store nothing
    target     chips that a kernel is compiled for, macros
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from atops.base.neighbours import cure, import_of
from atops.device.geometry import Space
from atops.device.span.span import Span
from atops.kernels import dte
from atops.kernels.arguments import restrict
from atops.kernels.bound import BoundKernel
from atops.kernels.builtin_variables import blockDim, blockIdx, gridDim, thread_count, thread_id, threadIdx, tiles
from atops.kernels.dte import *  # noqa: F403  # what it lists: contexts, events and operations
from atops.kernels.execution_spaces import device, host
from atops.kernels.kernel import Kernel, cooperative, kernel
from atops.kernels.launch_config import LaunchConfig
from atops.kernels.memory.arrays import (
    Constant,
    Generic,
    Global,
    Local,
    Private,
    Shared,
    dynamic_shared,
    local,
    local_variable,
    mdspan,
    private,
    shared,
    shared_variable,
)
from atops.kernels.memory.device_variables import Variable, constant, device_variable
from atops.kernels.memory.pointer import Pointer, generic, pointer
from atops.kernels.output import assert_, printf
from atops.kernels.sync import (
    BarrierScope,
    CountedBarrier,
    __syncblocks,
    __syncthreads,
    barrier,
    relaxed,
    signal_add,
    signal_read,
    signal_wait,
    signal_write,
    syncblocks,
    syncthreads,
)
from atops.kernels.target import MACROS, macro
from atops.kernels.timing import cost
from atops.kernels.vectors import functions
from atops.kernels.vectors.functions import *  # noqa: F403  # the 29 functions
from atops.kernels.vectors.vector import Mask, Vector
from atops.kernels.vectors.vector_type import VectorType, sizeof, vector, vector2, vector4

if TYPE_CHECKING:
    from atops.kernels.programs.image import CodeImage
    from atops.kernels.programs.kernel_attributes import FunctionAttributes, function_attributes
    from atops.kernels.programs.program import CompiledProgram, Module, Program, compile, compile_source, load_module
    from atops.kernels.source.diagnostics import Diagnostic, DiagnosticLog, Severity
    from atops.kernels.source.options import CompileOptions

    GCU_ARCH: int | None
    AGCU_ARCH: int | None
    __GCU_ARCH__: int | None
    __AGCU_ARCH__: int | None

# The compiler of source texts is loaded when it is first used, as most programs never use it.
COMPILING = {
    name: f"atops.kernels.{module}"
    for module, names in {
        "programs.image": ("CodeImage",),
        "programs.kernel_attributes": ("FunctionAttributes", "function_attributes"),
        "programs.program": ("CompiledProgram", "Module", "Program", "compile", "compile_source", "load_module"),
        "source.diagnostics": ("Diagnostic", "DiagnosticLog", "Severity"),
        "source.options": ("CompileOptions",),
    }.items()
    for name in names
}


def _named_late(name: str) -> Any:
    """Return a name of the compiler, or k.GCU_ARCH and k.AGCU_ARCH: numbers in a kernel, None on the host.

    Raises AttributeError with the nearest name of the language.
    """
    if name in COMPILING:
        return getattr(import_module(COMPILING[name]), name)
    if name in MACROS:
        return macro(name)
    if name.endswith(("__syncthreads", "__syncblocks")):
        own = name.rpartition("__")[2]
        raise AttributeError(
            f"module 'atops.kernels' has no attribute {name!r}: inside a class Python renames k.__{own}; write k.{own}"
        )
    if (found := None if name.startswith("__") else cure("k", name)) is not None:
        if import_of(sys._getframe(1)):
            raise ImportError(found, name=name)
        raise AttributeError(found, name=name)
    # Importers and inspectors read dunder names often: for those nothing is loaded or searched.
    hint = "" if name.startswith("__") else import_module("atops.kernels.source.diagnostics").nearest(name, __all__)
    raise AttributeError(f"module 'atops.kernels' has no attribute {name!r}{hint}")


if not TYPE_CHECKING:  # checkers are to refuse a name that does not exist
    __getattr__ = _named_late


def __dir__() -> list[str]:
    """List the names of the language, and what every module has."""
    return sorted({*__all__, *MACROS, *(name for name in globals() if name.startswith("__"))})


__all__: tuple[str, ...] = (
    "BarrierScope", "BoundKernel", "CodeImage", "CompileOptions", "CompiledProgram", "Constant", "CountedBarrier",
    "Diagnostic", "DiagnosticLog", "FunctionAttributes", "Generic", "Global", "Kernel", "LaunchConfig", "Local",
    "Mask", "Module", "Pointer", "Private", "Program", "Severity", "Shared", "Space", "Span", "Variable", "Vector",
    "VectorType", "__syncblocks", "__syncthreads", "assert_", "barrier", "blockDim", "blockIdx", "compile",
    "compile_source", "constant", "cooperative", "cost", "device", "device_variable", "dynamic_shared",
    "function_attributes", "generic", "gridDim", "host", "kernel", "load_module", "local", "local_variable", "mdspan",
    "pointer", "printf", "private", "relaxed", "restrict", "shared", "shared_variable", "signal_add", "signal_read",
    "signal_wait", "signal_write", "sizeof", "syncblocks", "syncthreads", "threadIdx", "thread_count", "thread_id",
    "tiles", "vector", "vector2", "vector4",
)  # fmt: skip
__all__ = tuple(sorted((*__all__, *dte.__all__, *functions.__all__)))
