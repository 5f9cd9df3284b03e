"""The DTE's operations: one row each, from which everything else about them is made. TOPS C++, 8.7.

A row is a declaration, and has no body: its name, its parameters with their types and defaults, and its documentation
are the operation's. The decorator says what the operation is made of, how C++ spells its parameters, what differs from
there, and which architecture has it first. Made from the rows are the functions and methods of kernels
(kernels/dte.py), their checks, and the rows of the language reference. A new operation needs a row here and
its names there.

The destination comes first, shapes are outermost first; offsets, shapes, widths and strides have an int for each
dimension. Nothing is converted: dst and src have one element type unless the row says otherwise. dst and src may be the
same memory only where no byte would be written before it is read.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Generic, ParamSpec

from atops.device.dte.stages import (
    ALL,
    EXPAND,
    MIRROR_X,
    MIRROR_Y,
    PADDED,
    PERMUTE,
    PLAIN,
    REPEATED,
    REPLACE,
    SHRINK,
    STRIDE,
    WHOLE,
    Memcpy,
    Memset,
    Parameters,
    Stages,
    Work,
    landing_window,
    taken_window,
)
from atops.device.geometry import Array, Ints, Shaped

if TYPE_CHECKING:
    from atops.device.dte.context import DteContext
    from atops.device.dte.transfer import Operand

__all__ = (
    "OPERATIONS", "Operation", "broadcast", "deslice", "memcpy", "memset", "memset_deslice", "mirror_lr",
    "mirror_lr_deslice", "mirror_lr_pad", "mirror_tb", "mirror_tb_deslice", "mirror_tb_pad", "pad", "shrink_deslice",
    "slice", "slice_broadcast", "slice_deslice", "slice_expand", "slice_pad", "slice_transpose", "sub_sample",
    "transpose", "transpose_deslice",
)  # fmt: skip

P = ParamSpec("P")

_rows: dict[str, Operation[...]] = {}


class Operation(Generic[P]):
    """One DTE operation, made from its row.

    `check(dst, src, parameters)` raises InvalidValue before anything moves; it reads shapes and element types, and
    places where both are arrays. `apply(dst, src, parameters)` writes into the array `dst` and trusts the check.
    `parameters` are the names beside dst and src in order; those in `defaults` may be left out. `takes_source` is False
    where there is no src. `respelled` are the parameters by the names that the text has for them, where it has others.
    `summary` is the first paragraph of the documentation. `gcu_arch` is the first architecture
    that has it, 210 or 300; `cpp` its parameters in C++, `differs` what is not as there; `section` where it is
    specified.
    """

    section = "8.7"

    def __init__(self, declared: Callable[P, None], work: Work, cpp: str, differs: str, gcu_arch: int) -> None:
        self.name = declared.__name__
        self.work = work
        # Both take a src that is None only where the operation takes none.
        self.check: Callable[[Shaped, Shaped | None, Parameters], None] = partial(work.check, self.name)
        self.apply: Callable[[Array, Array | None, Parameters], None] = work.apply  # type: ignore[assignment]  # as above
        self.cpp, self.differs, self.gcu_arch = cpp, differs, gcu_arch
        self.signature = inspect.signature(declared)
        self.takes_source = "src" in self.signature.parameters
        given = [each for name, each in self.signature.parameters.items() if name not in ("ctx", "dst", "src")]
        self.parameters = tuple(each.name for each in given)
        self.defaults = {each.name: each.default for each in given if each.default is not each.empty}
        spelled = dict(zip(cpp.split(", "), self.signature.parameters, strict=False))
        self.respelled = {text: own for text, own in spelled.items() if text != own}
        self.documentation = inspect.getdoc(declared) or ""
        self.summary = self.documentation.partition("\n\n")[0].replace("\n", " ")

    def __call__(self, dst: Array, src: Array | None, **parameters: object) -> None:
        """Check, then apply. Raises what the check raises; then nothing has moved."""
        self.check(dst, src, parameters)
        self.apply(dst, src, parameters)

    def __repr__(self) -> str:
        return f"<DTE operation {self.name}>"


def _row(
    work: Work, cpp: str, differs: str = "", gcu_arch: int = 210
) -> Callable[[Callable[P, None]], Operation[P]]:  # fmt: skip
    """Return the decorator that makes an operation of a declaration and enters it into the table."""

    def made(declared: Callable[P, None]) -> Operation[P]:
        _rows[declared.__name__] = operation = Operation(declared, work, cpp, differs, gcu_arch)
        return operation

    return made


_OFFSET = "`offset` is `offsets`, one int for each dimension"
_FILL = f"{_OFFSET}; what lies beyond `src` is `value`, which may be left out and is then 0"
_PADDING = "`pad_low`, `pad_high`, `pad_mid` are `low`, `high`, `mid`, one int for each dimension"
_PAD_VALUE = f"{_PADDING}; `pad_value` is `value`, which may be left out and is then 0"
_MIRROR_PAD = f"{_PADDING}; `value` may be left out and is then 0"
_TAKEN = taken_window("src_offsets", "slice_shape")
_LANDING = landing_window("dst_offsets")


@_row(Memcpy(), "ctx, dst, src")
def memcpy(ctx: DteContext, dst: Operand, src: Operand) -> None:
    """Copy all bytes of `src`, in row-major order, to the first bytes of `dst`; the types may differ.

    `dst` has at least as many bytes.
    """


@_row(Memset(), "ctx, dst, const_value", "`const_value` is `value`, a value of dst's element type")
def memset(ctx: DteContext, dst: Operand, value: object) -> None:
    """Set every element of `dst` to `value`, a value of its element type."""


@_row(Stages(taken_window("offsets"), PLAIN, WHOLE), "ctx, dst, src, offset", _FILL)
def slice(ctx: DteContext, dst: Operand, src: Operand, offsets: Ints, value: object = 0) -> None:
    """Copy the window of `dst`'s shape at `offsets` of `src`; what lies beyond `src` becomes `value`.

    `offsets` has an int, not negative, for each dimension, outermost first.
    """


@_row(Stages(ALL, PLAIN, landing_window("offsets")), "ctx, dst, src, offset", _OFFSET)
def deslice(ctx: DteContext, dst: Operand, src: Operand, offsets: Ints) -> None:
    """Copy `src` over the window of its shape at `offsets` of `dst`; the rest of `dst` stays.

    The window lies inside `dst`.
    """


@_row(Stages(ALL, PERMUTE, WHOLE), "ctx, dst, src, layout")
def transpose(ctx: DteContext, dst: Operand, src: Operand, layout: Ints) -> None:
    """Copy `src` with its dimensions permuted: `dst.shape[i] == src.shape[layout[i]]`, as numpy.transpose.

    `layout` is a permutation of the dimensions.
    """


@_row(Stages(taken_window("offsets"), PERMUTE, WHOLE), "ctx, dst, src, offset, layout", _FILL)
def slice_transpose(
    ctx: DteContext, dst: Operand, src: Operand, offsets: Ints, layout: Ints, value: object = 0
) -> None:  # fmt: skip
    """Cut a window at `offsets` of `src` and transpose it by `layout` into `dst`; beyond `src` is `value`.

    The window has the shape `s` with `dst.shape[i] == s[layout[i]]`.
    """


@_row(Stages(ALL, PERMUTE, landing_window("offsets")), "ctx, dst, src, offset, layout", _OFFSET)
def transpose_deslice(ctx: DteContext, dst: Operand, src: Operand, offsets: Ints, layout: Ints) -> None:
    """Transpose `src` by `layout` and copy it over the window at `offsets` of `dst`; the rest stays.

    The window lies inside `dst`.
    """


@_row(Stages(ALL, PLAIN, PADDED), "ctx, dst, src, pad_low, pad_high, pad_mid, pad_value", _PAD_VALUE)
def pad(ctx: DteContext, dst: Operand, src: Operand, low: Ints, high: Ints, mid: Ints, value: object = 0) -> None:
    """Copy `src` with `value` around it and between its elements.

    Per dimension: `low` before, `mid` between neighbours, `high` after, none negative; `dst` has
    low + n + (n - 1) * mid + high.
    """


@_row(Stages(ALL, MIRROR_X, WHOLE), "ctx, dst, src")
def mirror_tb(ctx: DteContext, dst: Operand, src: Operand) -> None:
    """Last axis reversed: copy `src` mirrored along X, the last entry of its shape."""


@_row(Stages(ALL, MIRROR_Y, WHOLE), "ctx, dst, src")
def mirror_lr(ctx: DteContext, dst: Operand, src: Operand) -> None:
    """Last axis but one reversed: copy `src` mirrored along Y, the last but one entry of its shape."""


@_row(Stages(ALL, PLAIN, REPEATED), "ctx, dst, src")
def broadcast(ctx: DteContext, dst: Operand, src: Operand) -> None:
    """Copy `src`, repeated along the dimensions that it lacks or has once, to `dst`'s shape.

    As numpy.broadcast_to: each extent of `src`, counted from the last, is 1 or `dst`'s.
    """


@_row(Stages(_TAKEN, PLAIN, PADDED), "ctx, dst, src, src_offsets, slice_shape, pad_low, pad_high, pad_mid, pad_value",
      _PAD_VALUE, 300)  # fmt: skip
def slice_pad(
    ctx: DteContext, dst: Operand, src: Operand, src_offsets: Ints, slice_shape: Ints, low: Ints, high: Ints, mid: Ints,
    value: object = 0,
) -> None:  # fmt: skip
    """Copy a window of `src` with `value` around it and between its elements; what lies beyond `src` is `value` too.

    The window has `slice_shape` and begins at `src_offsets`, an int for each dimension, not negative. It is padded as
    by `pad`: `dst` has low + n + (n - 1) * mid + high in each dimension, n being `slice_shape`'s.
    """


@_row(Stages(_TAKEN, PLAIN, _LANDING), "ctx, dst, src, src_offsets, slice_shape, dst_offsets", "", 300)
def slice_deslice(
    ctx: DteContext, dst: Operand, src: Operand, src_offsets: Ints, slice_shape: Ints, dst_offsets: Ints
) -> None:  # fmt: skip
    """Copy the window of `slice_shape` at `src_offsets` of `src` over that at `dst_offsets` of `dst`; the rest stays.

    What lies beyond `src` becomes 0; the window lies inside `dst`.
    """


@_row(Stages(_TAKEN, PLAIN, REPEATED), "ctx, dst, src, src_offsets, slice_shape", "", 300)
def slice_broadcast(ctx: DteContext, dst: Operand, src: Operand, src_offsets: Ints, slice_shape: Ints) -> None:
    """Copy the window of `slice_shape` at `src_offsets` of `src`, repeated to `dst`'s shape; beyond `src` is 0.

    Each extent of `slice_shape`, counted from the last, is 1 or `dst`'s, as in numpy.broadcast_to.
    """


@_row(Stages(_TAKEN, EXPAND, WHOLE), "ctx, dst, src, src_offsets, slice_shape, phase, ratio", "", 300)
def slice_expand(
    ctx: DteContext, dst: Operand, src: Operand, src_offsets: Ints, slice_shape: Ints, phase: int, ratio: int
) -> None:  # fmt: skip
    """Copy the window of `slice_shape` at `src_offsets` of `src` to part `phase` of `dst`'s elements; all else is 0.

    `dst` has `slice_shape`, and elements of 2 ** (ratio + 1) times as many bytes as `src`'s: twice with `ratio` 0, four
    times with 1. `phase` counts their parts from the low bytes. Bits are moved; beyond `src` is 0.
    """


@_row(Stages(ALL, SHRINK, _LANDING), "ctx, dst, src, phase, ratio, dst_offsets", "", 300)
def shrink_deslice(ctx: DteContext, dst: Operand, src: Operand, phase: int, ratio: int, dst_offsets: Ints) -> None:
    """Copy part `phase` of `src`'s elements over the window of its shape at `dst_offsets` of `dst`; the rest stays.

    `src` has elements of 2 ** (ratio + 1) times as many bytes as `dst`'s: twice with `ratio` 0, four times with 1.
    `phase` counts their parts from the low bytes. Bits are moved; the window lies inside `dst`.
    """


@_row(Stages(ALL, REPLACE, _LANDING), "ctx, dst, src, dst_offsets, value", "", 300)
def memset_deslice(ctx: DteContext, dst: Operand, src: Operand, dst_offsets: Ints, value: object) -> None:
    """Set the window of `src`'s shape at `dst_offsets` of `dst` to `value`; the rest stays.

    Of `src` only shape and type count: it is neither read nor written. The window lies inside `dst`.
    """


@_row(Stages(ALL, MIRROR_X, PADDED), "ctx, dst, src, pad_low, pad_high, pad_mid, value", _MIRROR_PAD, 300)
def mirror_tb_pad(
    ctx: DteContext, dst: Operand, src: Operand, low: Ints, high: Ints, mid: Ints, value: object = 0
) -> None:  # fmt: skip
    """Last axis reversed: copy `src` mirrored along X, with `value` around it and between its elements as by `pad`.

    `dst` has low + n + (n - 1) * mid + high in each dimension.
    """


@_row(Stages(ALL, MIRROR_Y, PADDED), "ctx, dst, src, pad_low, pad_high, pad_mid, value", _MIRROR_PAD, 300)
def mirror_lr_pad(
    ctx: DteContext, dst: Operand, src: Operand, low: Ints, high: Ints, mid: Ints, value: object = 0
) -> None:  # fmt: skip
    """Last axis but one reversed: copy `src` mirrored along Y, with `value` around and between as by `pad`.

    `dst` has low + n + (n - 1) * mid + high in each dimension.
    """


@_row(Stages(ALL, MIRROR_X, _LANDING), "ctx, dst, src, dst_offsets", "", 300)
def mirror_tb_deslice(ctx: DteContext, dst: Operand, src: Operand, dst_offsets: Ints) -> None:
    """Last axis reversed: copy `src` mirrored along X over a window of `dst`; the rest stays.

    The window has `src`'s shape, begins at `dst_offsets` and lies inside `dst`.
    """


@_row(Stages(ALL, MIRROR_Y, _LANDING), "ctx, dst, src, dst_offsets", "", 300)
def mirror_lr_deslice(ctx: DteContext, dst: Operand, src: Operand, dst_offsets: Ints) -> None:
    """Last axis but one reversed: copy `src` mirrored along Y over a window of `dst`; the rest stays.

    The window has `src`'s shape, begins at `dst_offsets` and lies inside `dst`.
    """


@_row(Stages(ALL, STRIDE, WHOLE), "ctx, dst, src, dim_stride", "", 300)
def sub_sample(ctx: DteContext, dst: Operand, src: Operand, dim_stride: Ints) -> None:
    """Copy each `dim_stride`-th element of `src` in each dimension, from the first: `src[::s0, ::s1, ...]`.

    `dim_stride` has a positive int for each dimension; `dst` has ceil(n / stride) in each.
    """


OPERATIONS: Mapping[str, Operation[...]] = MappingProxyType(_rows)
