"""What the operators compute, lane by lane, on arrays of one element type. TOPS C++, 8.3.

Which types an operator takes is read from the language's tables. It knows lanes, not vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from atops.base.errors import InvalidType
from atops.base.fp_errors import quietly
from atops.kernels.tables.vectors import FORMS, OPERATORS, TYPE_SETS, VectorForm
from atops.kernels.vectors.vector_thread import here

__all__ = ("Compute", "Operators")

Compute = Callable[..., Any]

# By the text's spelling. The combined operators (x&~y) are two of these in turn.
COMPUTE: Mapping[str, Compute] = {
    "x+y": np.add,
    "x-y": np.subtract,
    "x*y": np.multiply,
    "x<<y": np.left_shift,  # numpy's shifts give 0 where the count is the width or more
    "x>>y": np.right_shift,
    "-x": np.negative,
    "++x": np.add,
    "--x": np.subtract,
    "x==y": np.equal,
    "x!=y": np.not_equal,
    "x<y": np.less,
    "x<=y": np.less_equal,
    "x>y": np.greater,
    "x>=y": np.greater_equal,
    "x&y": np.bitwise_and,
    "x|y": np.bitwise_or,
    "x^y": np.bitwise_xor,
    "~x": np.invert,
}

class Operators(dict[str, Compute]):
    """The operators that a vector type has, by the text's spelling; asking for another raises InvalidType."""

    __slots__ = ("_form",)

    def __init__(self, form: VectorForm) -> None:
        self._form = form
        floats = form.spelling in ("float", "__fp16", "__bf16")
        for row in OPERATORS:
            if row.cpp in COMPUTE and any(form.cpp in TYPE_SETS[words] for words in row.types):
                run = COMPUTE[row.cpp]
                self[row.cpp] = partial(quietly, run) if floats else run

    def __missing__(self, cpp: str) -> Compute:
        words = next(row.types for row in OPERATORS if row.cpp == cpp)
        alike = ", ".join(
            form.cpp
            for form in FORMS
            if form.keyword == self._form.keyword and any(form.cpp in TYPE_SETS[each] for each in words)
        )
        raise InvalidType(f"{here()}{cpp} is not for {self._form.cpp}; it is for {' and '.join(words)}: {alike}")
