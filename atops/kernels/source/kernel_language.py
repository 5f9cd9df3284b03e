"""What a source text finds without asking, and what it may import: the names of the language, and nothing else.

This keeps a text to what a device has, and its meaning to the text alone. It is no sandbox: a kernel that is launched
is Python code with the rights of the process.
"""

from __future__ import annotations

import builtins
import math
import sys
from collections.abc import Mapping
from types import MappingProxyType, ModuleType, SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np

from atops.kernels.device_function import device
from atops.kernels.host_function import host
from atops.kernels.kernel import cooperative, kernel

__all__ = ("BUILTINS", "DECORATORS", "importable", "language", "predefined")

# What Python offers a kernel: numbers, sequences, iteration, printing and errors. No files, no imports, no evaluation.
_FUNCTIONS = (
    "abs all any ascii bin bool bytearray bytes callable chr complex dict divmod enumerate filter float format "
    "frozenset getattr hasattr hash hex id int isinstance issubclass iter len list map max memoryview min next object "
    "oct ord pow print range repr reversed round set slice sorted str sum tuple type zip Ellipsis NotImplemented"
)
BUILTINS: Mapping[str, Any] = MappingProxyType(
    {name: getattr(builtins, name) for name in _FUNCTIONS.split()}
    | {name: each for name, each in vars(builtins).items() if isinstance(each, type) and issubclass(each, Exception)}
)

DECORATORS: Mapping[str, Any] = MappingProxyType(
    {"kernel": kernel, "cooperative": cooperative, "device": device, "host": host}
)


def language() -> ModuleType:
    """Return the language itself: the package that this module is a part of, and cannot import without a circle."""
    return sys.modules["atops.kernels"]


def predefined() -> dict[str, Any]:
    """Return the names that every source text has: `k`, `np`, and the decorators."""
    return {"k": language(), "np": np, **DECORATORS}


def importable() -> dict[str, Any]:
    """Return the modules that a source text may import, so that the same text can be an ordinary module as well."""
    offered = SimpleNamespace(kernels=language())
    typing_names = SimpleNamespace(Any=Any)
    known = {"numpy": np, "math": math, "ml_dtypes": ml_dtypes, "atops.kernels": language()}
    return {**known, "atops": offered, "typing": typing_names}
