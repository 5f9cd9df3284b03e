"""What numpy's functions and methods do to an array's bytes: the tables that a span looks up."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, NoReturn

import numpy as np

if TYPE_CHECKING:
    from atops.device.span.span import Span

__all__ = ("SHAPE_ONLY", "STORES_FIRST", "add_array_methods", "out_of")

# numpy functions that read only shapes and types, or give another view: no access to the bytes.
SHAPE_ONLY = frozenset(
    (np.shape, np.ndim, np.size, np.empty_like, np.zeros_like, np.ones_like, np.full_like, np.transpose, np.swapaxes,
     np.diagonal, np.moveaxis, np.expand_dims, np.squeeze, np.broadcast_to, np.flip)
)  # fmt: skip
# numpy functions that store into their first argument, and what they call it.
STORES_FIRST: Mapping[Callable[..., object], str] = MappingProxyType(
    {
        np.copyto: "dst",
        np.put: "a",
        np.place: "arr",
        np.putmask: "a",
        np.put_along_axis: "arr",
        np.fill_diagonal: "a",
    }
)

# What an array's methods may do to a span as well: they read it, and return something that is no array.
VALUES = frozenset((
    "dump", "dumps", "item", "tobytes", "tofile", "tolist", "__complex__", "__contains__", "__deepcopy__", "__index__",
))  # fmt: skip
# Those that return an array: a copy, or in some cases a view, which comes back as a span. They take spans, and `out`.
READING = frozenset((
    "all", "any", "argmax", "argmin", "argpartition", "argsort", "astype", "choose", "clip", "compress", "copy",
    "cumprod", "cumsum", "dot", "flatten", "max", "mean", "min", "nonzero", "prod", "repeat", "round", "searchsorted",
    "std", "sum", "take", "trace", "var", "__copy__",
))  # fmt: skip
# Those that return a view wherever they can, which is no access; the copy that they make elsewhere is one.
VIEWING = frozenset(("conj", "conjugate", "diagonal", "getfield", "ravel", "squeeze", "swapaxes"))
VIEWS = frozenset(("imag", "mT", "real"))  # attributes of that kind
# What else an array has, and what a program uses of a span instead.
REFUSED: Mapping[str, str] = MappingProxyType(
    {
        "base": "x.allocation is what it is a view of",
        "byteswap": "x.copy().byteswap(), or x[...] = x.copy().byteswap() to store it",
        "ctypes": "x.address is its device address; np.asarray(x) is the plain array, whose accesses are not checked",
        "data": "np.asarray(x) is the plain array, whose accesses are not checked",
        "device": "x.space and x.allocation say where it lies",
        "flat": "x.reshape(-1) is a view of one dimension, and iterates",
        "partition": "x[...] = np.partition(x, kth)",
        "put": "x.reshape(-1)[indices] = values",
        "resize": "a view cannot grow: x[:n] is a shorter one, np.resize(x, shape) a copy",
        "setfield": "x.view(dtype)[...] = value",
        "setflags": "a span's flags never change",
        "sort": "x[...] = np.sort(x)",
        "to_device": "the DTE moves data: k.memcpy(dte, destination, x)",
    }
)


def out_of(function: Callable[..., object], args: tuple[object, ...], named: Mapping[str, object]) -> object:
    """Return what a call of one of numpy's functions is to store into: its `out`, named or by its place, or None."""
    if "out" in named or len(args) < 2:
        return named.get("out")
    place = _place_of_out(function)
    return args[place] if place is not None and place < len(args) else None


@lru_cache(maxsize=256)
def _place_of_out(function: Callable[..., object]) -> int | None:
    """Return which positional argument is `out`; an array's method takes them as numpy's function of its name does."""
    try:
        parameters = inspect.signature(getattr(np, function.__name__, function)).parameters
    except (TypeError, ValueError):  # one that does not tell
        return None
    out = parameters.get("out")
    return None if out is None or out.kind is out.KEYWORD_ONLY else [*parameters].index("out")


class _Refused:
    """An attribute of arrays that spans lack: looking it up raises an AttributeError that tells what would be right."""

    __slots__ = ("instead", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.instead = REFUSED[name]

    def __get__(self, span: object, owner: type) -> NoReturn:
        raise AttributeError(f"a Span has no {self.name!r} as numpy's arrays have; right for a Span x: {self.instead}")


def add_array_methods(span: type) -> None:
    """Give the class of spans what arrays have that only reads or views, and an error that helps for the rest.

    No `__getattr__` does it: its mere presence would slow every attribute of a span.
    """
    for names, make in ((VALUES, _value), (READING, _reading), (VIEWING, _viewing)):
        for name in names:
            method = make(name, getattr(np.ndarray, name))
            method.__name__, method.__doc__ = name, f"Return what numpy's ndarray.{name} makes of the elements."
            setattr(span, name, method)
    for name in VIEWS:
        setattr(span, name, property(_viewing(name, getattr(np.ndarray, name).__get__)))
    for name in REFUSED:
        setattr(span, name, _Refused(name))


def _value(name: str, function: Callable[..., object]) -> Callable[..., object]:
    def method(self: Span, *args: object, **named: object) -> object:
        return function(self.touch("load"), *args, **named)

    return method


def _reading(name: str, function: Callable[..., object]) -> Callable[..., object]:
    def method(self: Span, *args: object, **named: object) -> object:
        if not args and not named:
            return self._wrapped(function(self.touch("load")))
        return self.__array_function__(function, (), (self, *args), named)

    return method


def _viewing(name: str, function: Callable[..., object]) -> Callable[..., object]:
    def method(self: Span, *args: object, **named: object) -> object:
        view = self._wrapped(function(self.array, *args, **named))
        return view if isinstance(view, type(self)) else function(self.touch("load"), *args, **named)

    return method
