"""The names that a source text has without a definition, and the check that it uses no unknown one.

This keeps a text to what a device has, and its meaning to the text alone. It is no sandbox: a kernel that is launched
is Python code with the rights of the process.
"""

from __future__ import annotations

import builtins
import dis
import math
import sys
from collections.abc import Iterable, Mapping
from types import CodeType, MappingProxyType, ModuleType, SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np

from atops.base.neighbours import instead_of
from atops.kernels.execution_spaces import device, host
from atops.kernels.inspection import codes_of
from atops.kernels.kernel import cooperative, kernel
from atops.kernels.source.diagnostics import DiagnosticLog, SourceText, nearest

__all__ = ("BUILTINS", "DECORATORS", "check_names", "importable", "language", "predefined")

# The built-in names that a kernel has: numbers, sequences, iteration, printing and errors; no files, imports or eval.
_FUNCTIONS = (
    "abs all any ascii bin bool bytearray bytes callable chr complex dict divmod enumerate filter float format "
    "frozenset getattr hasattr hash hex id int isinstance issubclass iter len list map max memoryview min next object "
    "oct ord pow print range repr reversed round set slice sorted str sum tuple type zip Ellipsis NotImplemented"
)
BUILTINS: Mapping[str, object] = MappingProxyType(
    {name: getattr(builtins, name) for name in _FUNCTIONS.split()}
    | {name: each for name, each in vars(builtins).items() if isinstance(each, type) and issubclass(each, Exception)}
)

DECORATORS: Mapping[str, object] = MappingProxyType(
    {"kernel": kernel, "cooperative": cooperative, "device": device, "host": host}
)


def language() -> ModuleType:
    """Return the package of the language, which this module is a part of and cannot import without a cycle."""
    return sys.modules["atops.kernels"]


def predefined() -> dict[str, object]:
    """Return the names that every source text has: `k`, `np`, and the decorators."""
    return {"k": language(), "np": np, **DECORATORS}


def importable() -> dict[str, ModuleType | SimpleNamespace]:
    """Return the modules that a source text may import, so that the same text can be an ordinary module as well."""
    offered = SimpleNamespace(kernels=language())
    typing_names = SimpleNamespace(Any=Any)
    known = {"numpy": np, "math": math, "ml_dtypes": ml_dtypes, "atops.kernels": language()}
    return {**known, "atops": offered, "typing": typing_names}


class _Position:
    """The place of an instruction, as a node of the text has one."""

    def __init__(self, found: dis.Positions | None, line: int, width: int = 0) -> None:
        self.lineno = (found and found.lineno) or line
        self.col_offset = (found and found.col_offset) or 0
        self.end_lineno = found and found.end_lineno
        self.end_col_offset = found and found.end_col_offset
        if width and self.end_col_offset is not None:  # of an attribute, only its name
            self.col_offset = max(self.col_offset, self.end_col_offset - width)


def check_names(code: CodeType, names: Mapping[str, object], source: SourceText, log: DiagnosticLog) -> None:
    """Report each global name, and each name of a module, that functions in the code load without a definition."""
    _, *functions = codes_of(code)
    for function in functions:
        owner, spelled = None, ""
        for each in dis.get_instructions(function):
            if each.opname == "LOAD_GLOBAL":
                owner, spelled = names.get(each.argval), str(each.argval)
                if spelled not in names and spelled not in BUILTINS:
                    _report(each, function, names, source, log)
            elif each.opname in ("LOAD_ATTR", "LOAD_METHOD"):
                if _lacks(owner, each.argval):
                    _report(each, function, getattr(owner, "__all__", vars(owner)), source, log, spelled)
                owner, spelled = vars(owner).get(each.argval) if _is_module(owner) else None, f"{spelled}.{each.argval}"
            elif each.opname not in ("CACHE", "PUSH_NULL", "EXTENDED_ARG"):
                owner = None


def _is_module(owner: object) -> bool:
    return isinstance(owner, ModuleType | SimpleNamespace)


def _lacks(owner: object, name: str) -> bool:
    return _is_module(owner) and name not in dir(owner)


def _report(
    each: dis.Instruction,
    function: CodeType,
    known: Iterable[str],
    source: SourceText,
    log: DiagnosticLog,
    owner: str = "",
) -> None:
    """Report a name that is not defined: a global one, or one of the module that is spelled `owner`."""
    place = _Position(each.positions, function.co_firstlineno, len(each.argval) if owner else 0)
    if owner:
        instead = instead_of("k", each.argval) if owner == "k" else None
        meant = nearest(each.argval, known) if instead is None else f"; use {instead}"
        log.error(f"'{owner}' has no name '{each.argval}'{meant}", source, place)
        return
    others = [*known, *BUILTINS, *function.co_varnames, *function.co_freevars, *function.co_cellvars]
    log.error(f"undefined name '{each.argval}'{nearest(each.argval, others)}", source, place)


