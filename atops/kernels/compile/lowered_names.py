"""Lowered names: C identifiers made of a kernel's name and the types of its parameters. TOPS Runtime API, 2.10.

`_T5scale_any_any_float32` is `scale` with three parameters, the last a float32. No two names have the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np

from atops.base.dtypes import element_name
from atops.kernels.kernel import Kernel
from atops.kernels.launch.arguments import Parameter

__all__ = ("lowered_name", "lowered_name_of", "name_expression")

_C_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def lowered_name(name: str, parameters: Iterable[Parameter] | None) -> str:
    """Return the lowered name of a kernel with these parameters, or of a variable, which has None."""
    if _C_NAME.fullmatch(name):
        coded = f"_T{len(name)}{name}"
    else:  # a C identifier has ASCII only
        digits = name.encode("utf-8", "surrogatepass").hex()
        coded = f"_Tu{len(digits)}{digits}"
    if parameters is None:
        return coded
    return "_".join([coded, *([_type_code(each) for each in parameters] or ["void"])])


def lowered_name_of(kernel: Kernel) -> str:
    """Return the lowered name of a kernel."""
    return lowered_name(kernel.name, kernel.parameters.values())


def name_expression(text: str) -> str:
    """Return the name that a name expression is about: `scale` and `&scale` are about scale."""
    return text.strip().removeprefix("&").strip()


def _type_code(parameter: Parameter) -> str:
    if parameter.memory:
        return "span" if parameter.elements is None else f"span{element_name(parameter.elements)}"
    if parameter.dtype is None:
        return "any"
    if isinstance(parameter.dtype, type):
        return parameter.dtype.__name__
    dtype: np.dtype[np.generic] = parameter.dtype
    return f"struct{dtype.itemsize}" if dtype.fields else element_name(dtype)
