"""The public header for programs in C++: enumerations, flags, structs and functions, written from the tables.

`python -m atops.tops.header.cxx` writes `kernels/cxx/include/tops/host_api.h`, which the rooms below this one read. A
function is called through a table of the program that runs the host code; in a module of kernels there is none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import Field, fields
from enum import EnumType, IntEnum
from typing import Any, cast

from atops.bridge.declarations import CParameter, Function
from atops.bridge.structs import Struct
from atops.kernels.cxx.declarations import BARE
from atops.kernels.cxx.unit import INCLUDE
from atops.tops.header import constants, enumerations, error_codes, structs
from atops.tops.header.functions import FUNCTIONS

__all__ = ("PLACE", "cxx_header")

PLACE = INCLUDE / "tops" / "host_api.h"
LINE = 120
LETTERS = {"?": "bool", "B": "unsigned char", "i": "int", "I": "unsigned", "q": "long", "Q": "size_t"}
HANDLES = (
    "topsStream_t", "topsEvent_t", "topsModule_t", "topsFunction_t", "topsExecutable_t", "topsResource_t",
    "topsrtcProgram",
)  # fmt: skip
POINTERS = frozenset(("device_pointer", "host_pointer", "func", "args", "rodata", "tensor_table"))
OF_THE_LANGUAGE = frozenset(("dim3", "uint3"))  # structs that every text has
STREAMS = frozenset(("topsStreamPerThread",))

_HEAD = """\
// The TOPS runtime API for host code in C++, written from tables by `python -m atops.tops.header.cxx`.
#pragma once

#include "atops/host.h"
"""

_BESIDE = """
// What the text does not have and published programs call: the same, less asynchronous.
template <class T> inline topsError_t topsMallocAsync(T **ptr, size_t size, topsStream_t, unsigned = 0) {
    return topsMalloc(reinterpret_cast<void **>(ptr), size);
}
inline topsError_t topsFreeAsync(void *ptr, topsStream_t stream) {
    topsError_t done = topsStreamSynchronize(stream);
    return done == topsSuccess ? topsFree(ptr) : done;
}
// Names of another runtime. The advice is the compiler's error where one is called.
template <class... T> __attribute__((error("the function is topsHostMalloc"))) topsError_t topsMallocHost(T &&...);
template <class... T> __attribute__((error("the function is topsHostFree"))) topsError_t topsFreeHost(T &&...);
template <class... T>
__attribute__((error("there is no managed memory: call topsMalloc and topsMemcpy, or topsHostMalloc")))
topsError_t topsMallocManaged(T &&...);
// A kernel is its function, as the text has it, or the pointer to it.
template <class... P>
inline topsError_t topsLaunchKernel(void (*kernel)(P...), dim3 grid, dim3 block, void **args, size_t shared = 0,
                                    topsStream_t stream = nullptr) {
    return topsLaunchKernel(reinterpret_cast<const void *>(kernel), grid, block, args, shared, stream);
}
template <class... P>
inline topsError_t topsLaunchCooperativeKernel(void (*kernel)(P...), dim3 grid, dim3 block, void **args,
                                               size_t shared = 0, topsStream_t stream = nullptr) {
    return topsLaunchCooperativeKernel(reinterpret_cast<const void *>(kernel), grid, block, args, shared, stream);
}
template <class... P>
inline topsError_t topsFuncGetAttributes(topsFuncAttributes *attributes, void (*kernel)(P...)) {
    return topsFuncGetAttributes(attributes, reinterpret_cast<const void *>(kernel));
}
// A variable of the device is named by its address, as the text has it, or by itself.
template <class T>
concept topsSymbol = !std::is_pointer_v<T> && !std::is_array_v<T> && !std::is_null_pointer_v<T>;
template <topsSymbol T, class... Rest>
inline topsError_t topsMemcpyToSymbol(const T &symbol, const void *src, size_t size, Rest... rest) {
    return topsMemcpyToSymbol(static_cast<const void *>(&symbol), src, size, rest...);
}
template <topsSymbol T, class... Rest>
inline topsError_t topsMemcpyToSymbolAsync(const T &symbol, const void *src, size_t size, Rest... rest) {
    return topsMemcpyToSymbolAsync(static_cast<const void *>(&symbol), src, size, rest...);
}
template <topsSymbol T, class... Rest>
inline topsError_t topsMemcpyFromSymbol(void *dst, const T &symbol, size_t size, Rest... rest) {
    return topsMemcpyFromSymbol(dst, static_cast<const void *>(&symbol), size, rest...);
}
template <topsSymbol T, class... Rest>
inline topsError_t topsMemcpyFromSymbolAsync(void *dst, const T &symbol, size_t size, Rest... rest) {
    return topsMemcpyFromSymbolAsync(dst, static_cast<const void *>(&symbol), size, rest...);
}
template <class A, topsSymbol T>
inline topsError_t topsGetSymbolAddress(A **address, const T &symbol) {
    return topsGetSymbolAddress(address, static_cast<const void *>(&symbol));
}
template <topsSymbol T>
inline topsError_t topsGetSymbolSize(size_t *size, const T &symbol) {
    return topsGetSymbolSize(size, static_cast<const void *>(&symbol));
}
"""


def cxx_header() -> str:
    """Return the text of the header."""
    return "\n".join([_HEAD, *_enumerations(), "", *_types(), *_structs(), *_flags(), "", *_functions(), _BESIDE])


def _enumerations() -> Iterator[str]:
    found = [each for module in (error_codes, enumerations) for each in vars(module).values()]
    kinds = [cast("type[IntEnum]", each) for each in found if isinstance(each, EnumType)]
    for each in dict.fromkeys(kinds):
        if not each.__members__:
            continue  # what enumerations are made of
        bare = not all(name.startswith(("tops", "TOPS")) for name in each.__members__)
        if bare:  # a program may have the names, too
            yield f"namespace {BARE} {{"
        yield f"enum {each.__name__} {{"
        yield from (f"    {name} = {int(member)}," for name, member in each.__members__.items())
        yield "};"
        if bare:
            yield f"}}\nusing {BARE}::{each.__name__};"


def _types() -> Iterator[str]:
    for name in HANDLES:
        yield f"typedef struct {name.removesuffix('_t')}_handle *{name};"
    yield "typedef int topsDevice_t;"
    yield "typedef void *topsDeviceptr_t;"
    yield "typedef void (*topsStreamCallback_t)(topsStream_t stream, topsError_t status, void *userData);"


def _structs() -> Iterator[str]:
    known = [each for each in vars(structs).values() if isinstance(each, type) and issubclass(each, Struct)]
    for each in known:
        if each is Struct or each.__name__ in OF_THE_LANGUAGE or not hasattr(each, "SIZE"):
            continue
        yield f"struct {each.__name__} {{"
        union: dict[object, str] = {}  # by what chooses it, the members that share their place with the others
        members: Sequence[Field[Any]] = fields(cast(Any, each))
        for member in members:
            text = f"{_member(each, member.name, member.metadata['c'])};"
            if member.name in getattr(each, "UNION", ()):
                mode = each.UNION[member.name]  # type: ignore[attr-defined]
                union[mode] = f"{union.get(mode, '')} {text}"
            else:
                yield f"    {text}"
        if union:
            yield "    union {"
            yield from (f"        struct {{{inside} }};" for inside in union.values())
            yield "    };"
        yield "};"
        yield f"static_assert(sizeof({each.__name__}) == {each.SIZE});"


def _member(kind: type[Struct], name: str, letters: str) -> str:
    """Return the declaration of a field."""
    default = getattr(kind(), name)
    count, letter = letters[:-1], letters[-1]
    if isinstance(default, Struct):
        plain = f"{type(default).__name__} {name}"
        return plain if int(count) == default.SIZE else f"union {{ {plain}; char {name}_bytes[{count}]; }}"
    if letter == "s":
        return f"char {name}[{count}]"
    if name in POINTERS:
        return f"void *{name}"
    return f"{LETTERS[letter]} {name}" + (f"[{count}]" if count else "")


def _flags() -> Iterator[str]:
    for name, value in vars(constants).items():
        if name in STREAMS:
            yield f"#define {name} (reinterpret_cast<topsStream_t>({value}))"
        elif name.startswith("TOPS_LAUNCH_PARAM_"):  # among the pointers of `extra`
            yield f"#define {name} (reinterpret_cast<void *>({value}))"
        elif name.startswith(("tops", "TOPS")) and isinstance(value, int):
            kind = "unsigned" if value >= 0 else "int"
            yield f"constexpr {kind} {name} = {value}{'u' if value > 0x7FFFFFFF else ''};"


def _functions() -> Iterator[str]:
    for number, function in enumerate(FUNCTIONS.values()):
        last = function.declared[-1:]
        if last and last[0].type == "topsStream_t" and last[0].default is None and len(function.declared) > 1:
            function = function._replace(declared=(*function.declared[:-1], last[0]._replace(default="0")))
        parameters = [_spelled(each) for each in function.declared]
        types = ", ".join(each.type for each in function.declared)
        names = ", ".join(each.name for each in function.declared)
        returns = function.returns
        yield f"inline {returns} {function.name}({', '.join(parameters)}) {{"
        called = f"atops::host_function<{returns} (*)({types})>({number}, \"{function.name}\")"
        yield f"    return {called}({names});"
        yield "}"
        yield from _of_any_pointer(function)


def _of_any_pointer(function: Function) -> Iterator[str]:
    """Yield the overload for a pointer to a pointer of any type, where C wants `void **` first."""
    if not function.declared or function.declared[0].type != "void **":
        return
    first, *others = function.declared
    others = [each._replace(default=each.default or "0") if each.name == "flags" else each for each in others]
    shown = ", ".join([f"T **{first.name}", *map(_spelled, others)])
    given = ", ".join([f"reinterpret_cast<void **>({first.name})", *(each.name for each in others)])
    yield f"template <class T> inline {function.returns} {function.name}({shown}) {{"
    yield f"    return {function.name}({given});"
    yield "}"


def _spelled(parameter: CParameter) -> str:
    """Return a parameter as C++ declares it."""
    space = "" if parameter.type.endswith(("*", "&")) else " "
    default = "" if parameter.default is None else f" = {_default(parameter)}"
    return f"{parameter.type}{space}{parameter.name}{default}"


def _default(parameter: CParameter) -> str:
    given = str(parameter.default)
    if parameter.type in HANDLES:
        return "nullptr" if given in ("0", "NULL", "nullptr") else given
    if re.fullmatch(r"\d+", given) and parameter.type.startswith("tops"):
        return f"{parameter.type}({given})"
    return given


if __name__ == "__main__":
    PLACE.write_text(cxx_header(), encoding="utf-8")
