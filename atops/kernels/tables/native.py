"""What becomes of each construct of the language in a kernel in C++ (`atops/kernels/cxx`): docs/cxx.md is made from it.

A construct that is not named here is there as the text has it. The tests compile a text for each.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from atops.kernels.tables.constructs import Construct

__all__ = ("DIFFERENT", "MISSING", "REFUSED", "status")

_SPACES = "pointers have no space: every cast between spaces compiles, and what lies elsewhere is found where the DTE \
or a watched access uses it"

# By the construct's spelling: the compiler refuses it, as the text demands.
REFUSED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "`void`, the result of a `__global__` function": "a kernel that returns a value is an error, with its line",
        "a `__global__` function is no member of a class": "one that is a member, or in a function, is an error",
        "__global__ __device__": "a function is not both, in either order",
        "__global__ __host__": "a function is not both, in either order",
    }
)

# It is not there, and the compiler says so.
MISSING: Final[Mapping[str, str]] = MappingProxyType(
    {
        "__constant__ char* p; char* q = p;": "constant memory has no pointers of its own: `const char *p = x;`",
        "topsKernelSignalRead": "signals of kernels are for the host, and for kernels in Python",
        "topsKernelSignalWrite": "signals of kernels are for the host, and for kernels in Python",
    }
)

# It is there, and not quite as the text has it.
DIFFERENT: Final[Mapping[str, str]] = MappingProxyType(
    {
        "f<<<grid, block, bytes>>>(x)": "host code of a whole program only; a module's kernels are launched with "
        "`stream.launch`, and a kernel that launches is a fault. One that is called as a function is an error, "
        "if nothing else in the text may have its name",
        "the call of a `__global__` function is asynchronous": "as above",
        "__device__ T f(T x)": "the host's code may call it, too",
        "__host__ T f(T x)": "a kernel may call it, too, if it calls nothing of the runtime API",
        "`T f(T x)`, without a specifier": "both sides may call it",
        "#if __AGCU_ARCH__ >= 300 ... #elif !defined(__AGCU_ARCH__)": "host code is compiled with it, once: the "
        "macro is defined there, too",
        "`T x; T x[n];` (automatic)": "on a stack of 1 MiB for each thread; more is a fault",
        "`void f(T* x)` (parameters)": "a parameter that names a space is not refused",
        "topsMemcpyToSymbol(&x, &v, n); topsMemcpyFromSymbol": "in whole programs; the object API and the C-style "
        "functions reach variables by name",
        "extern __device__ T x;": "defined in the same text",
        "__local__ char* p; char* q = p;": _SPACES,
        "char* p; __local__ char* q = (__local__ char*) p;": _SPACES,
        "__local__ char* p; (__shared__ char*) p": f"not refused: {_SPACES}",
        "__local__ __vector float v[128];": "addresses of vectors need no alignment",
            "[x]": "an index outside the lanes is a fault",
        "sizeof(x)": "a mask has a byte for each lane",
        "compilation for `AGCU200` or `AGCU300`": "for the processor of this machine, with the macros and limits of "
        "the chip",
        "tops::mdspan x(space, address, shape);": "a space that the memory does not lie in is a fault",
        "int printf(const char* format, ...)": "the compiler warns of arguments that do not fit",
        "void __syncblocks()": "the blocks of a cooperative launch are on one device",
        "enum BarrierScope { SIP = 0, CLUSTER = 1 }": "both count arrivals of the block's threads",
    }
)


def status(row: Construct) -> tuple[str, str]:
    """Return (yes, differs, refused or no; what there is to say, or nothing) of a construct."""
    for word, table in (("differs", DIFFERENT), ("refused", REFUSED), ("no", MISSING)):
        if row.cpp in table:
            return word, table[row.cpp]
    return "yes", ""
