"""Whether all that a kernel touches is told: its memory and the requests of the kernel language, and nothing else.

A kernel that reads or changes an object of the program, a list that all threads append to, say, touches what no hook
sees. Its functions are looked at, and what they name; where it is not certain the answer is no.
"""

from __future__ import annotations

import builtins
import dis
import enum
from functools import lru_cache
from types import CodeType, EllipsisType, FunctionType, ModuleType
from typing import NamedTuple

import numpy as np

__all__ = ("self_contained",)

PLAIN = (int, float, complex, str, bytes, type(None), EllipsisType, range, slice, np.generic, np.dtype, enum.Enum)
MODULES = frozenset(("math", "cmath", "operator", "numpy"))
LANGUAGE = ("atops.kernels", "atops.device")
STATEFUL = frozenset(("random", "load", "save", "savez", "loadtxt", "savetxt", "memmap", "fromfile", "seterr"))
HARMLESS = frozenset((
    "abs", "all", "any", "bool", "bytes", "complex", "dict", "divmod", "enumerate", "filter", "float", "frozenset",
    "getattr", "hasattr", "int", "isinstance", "issubclass", "iter", "len", "list", "map", "max", "min", "next",
    "ord", "chr", "pow", "range", "reversed", "round", "set", "slice", "sorted", "str", "sum", "super", "tuple", "type",
    "zip", "__build_class__",
))  # fmt: skip


CHANGES = frozenset(("STORE_GLOBAL", "DELETE_GLOBAL", "IMPORT_NAME", "STORE_NAME", "STORE_ATTR", "DELETE_ATTR"))
UNSEEN = frozenset(("array", "allocation", "ctypes", "__array_interface__", "__dict__", "__globals__"))
OF_DECORATORS = frozenset(("__wrapped__", "__execution_space__"))  # what they leave in a function


class _Named(NamedTuple):
    """What a code object, with those inside it, does with names."""

    globals: frozenset[str]
    attributes: frozenset[str]
    stores: frozenset[str]  # of an outer function's variables
    changes: bool  # globals or attributes, or it imports


def self_contained(entry: object) -> bool:
    """Return whether what a launch runs touches memory and requests only."""
    kernel = getattr(entry, "kernel", None)
    function = getattr(kernel, "function", None) or getattr(entry, "function", None)
    values = getattr(entry, "values", None)
    if not isinstance(function, FunctionType):
        return False
    seen: set[int] = set()
    arguments = values.values() if isinstance(values, dict) else ()
    return _function(function, seen) and all(_argument(each, seen) for each in arguments)


def _argument(value: object, seen: set[int]) -> bool:
    """Return whether an argument of a launch is memory, or a value that nothing changes."""
    return type(value).__name__ == "MemoryArgument" or _value(value, seen)


def _function(function: FunctionType, seen: set[int]) -> bool:  # noqa: C901  # one question after the other
    if id(function) in seen:
        return True
    seen.add(id(function))
    if (module := function.__module__ or "").startswith(LANGUAGE) or module.split(".")[0] == "numpy":
        return True
    code = function.__code__
    named = _named(code)
    if named.changes or named.stores & {*code.co_freevars} or named.attributes & UNSEEN:
        return False
    if not function.__dict__.keys() <= OF_DECORATORS:  # it may keep something there
        return False
    defaults = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
    if not all(_value(each, seen) for each in defaults):
        return False
    for cell in function.__closure__ or ():
        try:
            if not _value(cell.cell_contents, seen):
                return False
        except ValueError:  # not there yet
            return False
    modules = False
    for name in named.globals:
        if name in function.__globals__:
            value = function.__globals__[name]
            modules = modules or isinstance(value, ModuleType)
            if not _value(value, seen):
                return False
        elif name not in HARMLESS and not _is_exception(name):
            return False
    return not (modules and named.attributes & STATEFUL)


def _is_exception(name: str) -> bool:
    value = getattr(builtins, name, None)
    return isinstance(value, type) and issubclass(value, BaseException)


def _value(value: object, seen: set[int]) -> bool:
    """Return whether an object that a function names is one that nothing changes, or is looked into here."""
    if isinstance(value, PLAIN):
        return True
    if isinstance(value, tuple | frozenset):
        return all(_value(each, seen) for each in value)
    if isinstance(value, ModuleType):
        name = value.__name__
        return name.startswith(LANGUAGE) or name.split(".")[0] in MODULES
    if isinstance(value, FunctionType):
        return _function(value, seen)
    if isinstance(value, type):
        module = value.__module__
        return module == "builtins" or module.startswith(LANGUAGE) or module.split(".")[0] in MODULES
    if isinstance(value, np.ufunc) or (callable(value) and type(value).__name__ == "builtin_function_or_method"):
        return str(getattr(value, "__module__", "") or "numpy").split(".")[0] in MODULES
    module = type(value).__module__
    if module.startswith("atops.kernels") and isinstance(inner := getattr(value, "function", None), FunctionType):
        return _function(inner, seen)
    return False


@lru_cache(maxsize=1024)
def _named(code: CodeType) -> _Named:
    """Return what a code object does with names."""
    names: set[str] = set()
    attributes: set[str] = set()
    stores: set[str] = set()
    changes = False
    for instruction in dis.get_instructions(code):
        what, name = instruction.opname, instruction.argval
        if what in ("LOAD_GLOBAL", "LOAD_NAME"):
            names.add(name)
        elif what in ("LOAD_ATTR", "LOAD_METHOD"):
            attributes.add(str(name))
        elif what in ("STORE_DEREF", "DELETE_DEREF"):
            stores.add(name)
        elif what in CHANGES:
            changes = True
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            inner = _named(constant)
            names |= inner.globals
            attributes |= inner.attributes
            stores |= inner.stores & {*constant.co_freevars}
            changes = changes or inner.changes
    return _Named(frozenset(names), frozenset(attributes), frozenset(stores), changes)
