"""What numpy's functions and methods do to an array's bytes: the tables that a span looks up. Knows no memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ("READING", "SHAPE_ONLY", "STORES_FIRST", "reading_method")

# numpy functions that read only shapes and types, or give another view: no access to the bytes.
SHAPE_ONLY = frozenset(
    (np.shape, np.ndim, np.size, np.empty_like, np.zeros_like, np.ones_like, np.full_like, np.transpose, np.swapaxes,
     np.moveaxis, np.expand_dims, np.squeeze, np.broadcast_to, np.flip)
)  # fmt: skip
# numpy functions that store into their first argument.
STORES_FIRST = frozenset((np.copyto, np.put, np.place, np.putmask, np.put_along_axis, np.fill_diagonal))

# What an array's methods may do to a span as well: they read it, and return something that is no view of it.
READING = frozenset((
    "all", "any", "argmax", "argmin", "argsort", "astype", "clip", "copy", "cumprod", "cumsum", "dot", "max",
    "mean", "min", "nonzero", "prod", "round", "std", "sum", "tobytes", "tolist", "trace", "var",
))  # fmt: skip


def reading_method(name: str) -> Callable[..., Any]:
    """Return the method of a span that calls an array's of the same name: it reads the elements."""

    def method(self: Any, *args: Any, **named: Any) -> Any:
        return getattr(self.touch("load"), name)(*args, **named)

    method.__name__, method.__doc__ = name, f"Return what numpy's ndarray.{name} makes of the elements, which are read."
    return method
