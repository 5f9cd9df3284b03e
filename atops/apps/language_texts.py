"""What the language's reference says in sentences: an introduction a section, and the names that no construct has.

It knows the text's sections and the names that kernels are written with; it knows no table and no Markdown table.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

__all__ = ("BESIDE", "HEAD", "INTRODUCTIONS", "OTHER_NAMES", "TITLES")

HEAD = """\
# The language, construct by construct

Every construct of the TOPS C++ language extensions, sections 8.1 to 8.8, with what a kernel writes here. This page is
made from the tables in `atops/kernels/tables`, which the tests prove row by row and from which the checks of the types
are read: `python -m atops.apps.language_reference` writes it. [kernels.md](kernels.md) explains the language with
programs, [porting.md](porting.md) ports kernels line by line.

`k` is `from atops import kernels as k`, `np` is numpy, `T` any element type and `n` a number of elements. Where nothing
is said to differ, nothing does. "Not said" marks what the text leaves open and what is done here.
"""

TITLES: Mapping[str, str] = MappingProxyType(
    {
        "8.1": "Function execution space specifiers",
        "8.2": "Variable memory space specifiers",
        "8.3": "Built-in vector types and operators",
        "8.4": "Mathematical functions",
        "8.5": "Built-in variables",
        "8.6": "Built-in macro definitions",
        "8.7": "Data transformation engine",
        "8.8": "Synchronization mechanism",
    }
)

INTRODUCTIONS: Mapping[str, str] = MappingProxyType(
    {
        "8.1": """\
A decorator is a function's specifier. A function in which a thread can be suspended is an `async def`, any other one a
`def`; the decorators take both.""",
        "8.2": """\
A declaration is a call that stands where C++ has the declaration, and gives an array. Global memory is a `k.Span`, in
strict mode local and shared memory too. The element type `T` is numpy's: `np.float32`, `np.int32`, `"bfloat16"`. Only
vector types take the text's spellings as well, for `float` and `int` are 64-bit types in Python and numpy.""",
        "8.3": """\
A vector type is its keyword indexed by its element: `k.vector4[np.float32]`, `k.vector4["unsigned int"]`,
`k.vector4["bool int"]`. Calling it makes a vector, `load` reads one from memory. Operators give new vectors and permit
exactly the types that their rows name: any other one is an InvalidType which names the permitted ones.""",
        "8.4": """\
Each function works on every lane, and on a whole array of vectors at once. `ulp` bounds its error in units of the last
place of the exact result, for each floating type: 0 is exact, 0.5 the nearest value. The text states no accuracy; what
is not exact is computed in the next wider type and rounded once, and the tests measure it.""",
        "8.5": """\
Each has `.x`, `.y` and `.z`, and unpacks: `x, y, z = k.threadIdx`. On the host they raise IllegalState.""",
        "8.6": """\
A kernel is compiled for the chip that runs it, unless it says otherwise.""",
        "8.7": """\
Every operation has its destination first and its dimensions outermost first, and moves bits: element types are equal,
but for `memcpy`, `slice_expand` and `shrink_deslice`. It is over when it returns; its `_async` form returns an event to
await. What does not fit is a DteError, which names thread, line, dimension and extents. Both chips have all of it, but
for the operations marked gcu300.""",
        "8.8": """\
Waits are awaited. A wait that can never end is a KernelDeadlock, and a request that is never awaited a MissingAwait,
both with threads and lines.""",
    }
)

BESIDE = """\
Sections 8.1 to 8.8 name `printf` in examples only, and the other functions of this table not at all. Error codes and
the host's side of kernel signals are those of the TOPS Runtime API, 2.3 and 2.11."""

# Why a name is no construct of the text, and the names.
OTHER_NAMES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "What constructs make and take: their types, for annotations and `isinstance`.": (
            "BoundKernel", "CountedBarrier", "Kernel", "LaunchConfig", "Mask", "Pointer", "Space", "Variable",
            "Vector", "VectorType",
        ),
        "Memory spaces that pointers and mdspans name beside `k.Global`, `k.Shared` and `k.Local`.": (
            "Constant", "Generic", "Private",
        ),
        "The arithmetic on the built-in variables with which nearly every kernel begins.": (
            "thread_count", "thread_id", "tiles",
        ),
        "Kernels from source texts and code images, and what is known of them: TOPS Runtime API, 2.8 and 2.10.": (
            "CodeImage", "CompileOptions", "CompiledProgram", "Diagnostic", "DiagnosticLog", "FunctionAttributes",
            "Module", "Program", "Severity", "compile_source", "function_attributes", "load_module",
        ),
    }
)  # fmt: skip
