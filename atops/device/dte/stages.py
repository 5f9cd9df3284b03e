"""What DTE operations are made of: they take something of src, turn it, and land it in dst. TOPS C++, 8.7.

    take    ALL of src, or a taken_window
    turn    PLAIN, PERMUTE, MIRROR_X, MIRROR_Y, STRIDE, EXPAND, SHRINK, REPLACE
    land    WHOLE, in a landing_window, PADDED, REPEATED

`Stages` puts one of each together; `Memcpy` and `Memset` stand beside them. Checks read shapes and element types, and
places where both operands are arrays; they raise InvalidValue (InvalidType for what is no number), naming the dimension
and the extents, before anything moves. What moves trusts that the checks have passed. Bits are moved, never converted;
dimension 0 is the outermost. A window may leave src: then src has less than is taken, and the rest is filled.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from math import prod
from typing import Any, NamedTuple

import numpy as np

from atops.base.dtypes import element_name
from atops.base.errors import InvalidType, InvalidValue
from atops.device.dte.array_copy import WORDS, assign, copy_bytes, fill, fill_around, move, repeat, surround
from atops.device.geometry import (
    Array,
    Shaped,
    byte_count,
    check_extents,
    check_inside,
    check_kind,
    check_layout,
    check_numbers,
    check_overlap,
    check_rank,
    check_value,
    every,
    inverse,
    may_overlap,
    mirrored,
    part,
    repeated,
    spread,
    window,
)

__all__ = (
    "ALL", "EXPAND", "MIRROR_X", "MIRROR_Y", "PADDED", "PERMUTE", "PLAIN", "REPEATED", "REPLACE", "SHRINK", "STRIDE",
    "WHOLE", "Land", "Memcpy", "Memset", "Parameters", "Stages", "Take", "Turn", "Work", "landing_window",
    "taken_window",
)  # fmt: skip

Parameters = Mapping[str, Any]  # of one call, by their names
Extents = tuple[int, ...]
Extent = Callable[[str], str]  # an extent as an expression for readers: from "i" to "src.shape[i]"
Mover = Callable[[Array, Array, Parameters], None]


class Take(NamedTuple):
    """What of src is moved. None stands for all of it.

    `extents(dst, src, turn, given)` are what is taken, `check(op, dst, src, turn, given)` returns them, too, but raises
    first; `name` is for messages. `view(src, extents, given)` is what src has of them. `extent` is
    the rule for readers, None where extents are dst's. `offsets` is the parameter that tells where a window begins.
    """

    check: Callable[[str, Shaped, Shaped, Turn, Parameters], Extents] | None = None
    extents: Callable[[Shaped, Shaped, Turn, Parameters], Extents] | None = None
    view: Callable[[Array, Extents, Parameters], Array] | None = None
    extent: Extent | None = lambda i: f"src.shape[{i}]"
    name: str = "src"
    offsets: str | None = None


class Turn(NamedTuple):
    """What becomes of the elements that are taken. None stands for nothing.

    `check(op, dst, src, given)` raises; `extents(extents, given)` are what extents become, `undone` which become these.
    `view(array, given)` is the array turned. `pair(landing, source, given)` are the parts of both that hold the same
    bits in the end, `move(landing, source, given)` moves them. `extent` and `rules` are for readers. `converts` tells
    whether dst and src have different element types, `reads` whether src's elements count.
    """

    check: Callable[[str, Shaped, Shaped, Parameters], None] | None = None
    extents: Callable[[Extents, Parameters], Extents] | None = None
    undone: Callable[[Extents, Parameters], Extents] | None = None
    view: Callable[[Array, Parameters], Array] | None = None
    pair: Callable[[Array, Array, Parameters], tuple[Array, Array]] | None = None
    move: Mover | None = None
    extent: Callable[[Extent, str], str] = lambda before, i: before(i)
    rules: tuple[str, ...] = ()
    converts: bool = False
    reads: bool = True


def _first(array: Array, shape: Extents) -> Array:
    """Return the elements of `array` up to `shape`."""
    return array if array.shape == shape else array[window((0,) * array.ndim, shape)]


def _put(region: Array, source: Array, extents: Extents, mover: Mover | None, given: Parameters) -> None:
    if source.shape != region.shape:
        fill_around(region, (0,) * region.ndim, source.shape, given.get("value", 0))
        region = _first(region, source.shape)
    if mover is None:
        move(region, source)
    else:
        mover(region, source, given)


class Land(NamedTuple):
    """Where in dst the elements come to lie.

    `check(op, dst, extents, given, taken)` raises where dst has no room for `extents`; `taken` says for messages what
    they came of. `region(dst, extents, given)` is all that is written, None for all of dst. `landing(region, shape,
    extents, given)` is the part of it that receives elements where src has only `shape` of `extents`. `put(region,
    source, extents, move, given)` fills the rest with `value`, or 0, and moves. `rule` is for readers and holds for
    each dimension i. `same_rank` tells whether dst has as many dimensions as src; `offsets` is the parameter that tells
    where a window begins.
    """

    check: Callable[[str, Shaped, Extents, Parameters, tuple[str, Extents]], None]
    rule: Callable[[Extent], str]
    region: Callable[[Array, Extents, Parameters], Array] | None = None
    landing: Callable[[Array, Extents, Extents, Parameters], Array] = lambda region, shape, *_: _first(region, shape)
    put: Callable[[Array, Array, Extents, Mover | None, Parameters], None] = _put
    same_rank: bool = True
    offsets: str | None = None


# Take.

ALL = Take()


def taken_window(offsets: str, shape: str | None = None) -> Take:
    """Take a window of src: from the parameter `offsets` on, with the extents of the parameter `shape`, else of dst."""

    def check(op: str, dst: Shaped, src: Shaped, turn: Turn, given: Parameters) -> Extents:
        rank = len(src.shape)
        check_numbers(op, offsets, given[offsets], rank)
        if shape is not None:
            return check_numbers(op, shape, given[shape], rank)
        return dst.shape if turn.undone is None else turn.undone(dst.shape, given)

    def extents(dst: Shaped, src: Shaped, turn: Turn, given: Parameters) -> Extents:
        if shape is not None:
            return tuple(given[shape])
        return dst.shape if turn.undone is None else turn.undone(dst.shape, given)

    return Take(
        check=check,
        extents=extents,
        view=lambda src, extents, given: src[window(given[offsets], extents)],
        extent=None if shape is None else lambda i: f"{shape}[{i}]",
        name=shape or "dst",
        offsets=offsets,
    )


# Turn.


def _check_layout(op: str, dst: Shaped, src: Shaped, given: Parameters) -> None:
    check_layout(op, given["layout"], len(src.shape))


def _check_strides(op: str, dst: Shaped, src: Shaped, given: Parameters) -> None:
    check_numbers(op, "dim_stride", given["dim_stride"], len(src.shape), least=1)


def _check_parts(op: str, wide: str, large: Shaped, narrow: str, small: Shaped, given: Parameters) -> None:
    """Demand a ratio, elements of `large` that many times those of `small`, and a phase of it."""
    ratio = _check_number(op, "ratio", given["ratio"], range(2))
    factor = 2 << ratio
    if large.dtype.itemsize != factor * small.dtype.itemsize:
        raise InvalidValue(
            f"{op}: {wide} has elements of {element_name(large.dtype)}, {large.dtype.itemsize} bytes, and {narrow} of "
            f"{element_name(small.dtype)}, {small.dtype.itemsize}; expected {factor} times as many with ratio {ratio}"
        )
    _check_number(op, "phase", given["phase"], range(factor), f" with ratio {ratio}")


def _check_number(op: str, what: str, number: object, choice: range, when: str = "") -> int:
    """Return `number` as an int of `choice`. Raises InvalidType where it is none, InvalidValue where it is another."""
    try:
        value = operator.index(number)  # type: ignore[arg-type]  # this is what is asked here
    except TypeError:
        value = None
    if value is not None and value in choice:
        return value
    wrong = InvalidType if value is None else InvalidValue
    expected = f"{', '.join(map(str, choice[:-1]))} or {choice[-1]}"
    raise wrong(f"{op}: {what} is {number!r}; expected {expected}{when}")


def _widen(landing: Array, source: Array, given: Parameters) -> None:
    """Move to one part of each element, which is larger, and set the other parts to 0."""
    phase = given["phase"]
    if landing.itemsize in WORDS and source.itemsize in WORDS:  # integers are several times as fast as a stride
        landing = landing.view(WORDS[landing.itemsize])
        landing[...] = source.view(WORDS[source.itemsize])
        if phase:
            np.left_shift(landing, landing.dtype.type(8 * source.itemsize * phase), out=landing)
        return
    for each in range(landing.itemsize // source.itemsize):
        if each == phase:
            assign(part(landing, each, source.dtype), source)
        else:
            fill(part(landing, each, source.dtype), 0)


def _narrow(landing: Array, source: Array, given: Parameters) -> None:
    """Move one part of each element, which is larger."""
    if landing.itemsize in WORDS and source.itemsize in WORDS:
        shift = 8 * landing.itemsize * given["phase"]
        landing, source = landing.view(WORDS[landing.itemsize]), source.view(WORDS[source.itemsize])
        if shift:
            np.right_shift(source, source.dtype.type(shift), out=landing, casting="unsafe")
        else:
            landing[...] = source
        return
    assign(landing, part(source, given["phase"], landing.dtype))


def _mirror(axis: int) -> Turn:
    """Reverse one axis, which counts from the last as -1."""

    def check(op: str, dst: Shaped, src: Shaped, given: Parameters) -> None:
        if len(src.shape) < -axis:
            raise InvalidValue(f"{op}: src has shape {src.shape}; expected at least {-axis} dimensions")

    return Turn(
        check=check,
        view=lambda taken, given: mirrored(taken, axis),
        move=lambda landing, source, given: assign(landing, source),  # never one run
        rules=(f"src.ndim >= {-axis}",),
    )


PLAIN = Turn()
MIRROR_X, MIRROR_Y = _mirror(-1), _mirror(-2)
PERMUTE = Turn(  # dimension i is what `layout[i]` was
    check=_check_layout,
    extents=lambda extents, given: tuple([extents[axis] for axis in given["layout"]]),
    undone=lambda extents, given: tuple([extents[place] for place in inverse(given["layout"])]),
    view=lambda taken, given: taken.transpose(given["layout"]),
    extent=lambda before, i: before(f"layout[{i}]"),
)
STRIDE = Turn(  # each `dim_stride`-th element in each dimension, from the first
    check=_check_strides,
    extents=lambda extents, given: tuple([-(-n // s) for n, s in zip(extents, given["dim_stride"], strict=True)]),
    view=lambda taken, given: taken[every(given["dim_stride"])],
    extent=lambda before, i: f"-(-{before(i)} // dim_stride[{i}])",
)
EXPAND = Turn(  # each element is part `phase` of one that is 2 ** (ratio + 1) times as large, whose other parts are 0
    check=lambda op, dst, src, given: _check_parts(op, "dst", dst, "src", src, given),
    pair=lambda landing, source, given: (part(landing, given["phase"], source.dtype), source),
    move=_widen,
    converts=True,
    rules=("dst.itemsize == src.itemsize * 2 ** (ratio + 1)",),
)
SHRINK = Turn(  # part `phase` of each element, which is 2 ** (ratio + 1) times as large
    check=lambda op, dst, src, given: _check_parts(op, "src", src, "dst", dst, given),
    pair=lambda landing, source, given: (landing, part(source, given["phase"], landing.dtype)),
    move=_narrow,
    converts=True,
    rules=("src.itemsize == dst.itemsize * 2 ** (ratio + 1)",),
)
REPLACE = Turn(move=lambda landing, source, given: fill(landing, given["value"]), reads=False)


# Land.


def landing_window(offsets: str) -> Land:
    """Land in a window of dst, which begins at the parameter `offsets` and lies inside; the rest of dst stays."""

    def check(op: str, dst: Shaped, extents: Extents, given: Parameters, taken: tuple[str, Extents]) -> None:
        check_inside(op, dst, check_numbers(op, offsets, given[offsets], len(dst.shape)), extents)

    return Land(
        check=check,
        rule=lambda extent: f"{offsets}[i] + {extent('i')} <= dst.shape[i]",
        region=lambda dst, extents, given: dst[window(given[offsets], extents)],
        offsets=offsets,
    )


def _check_padded(op: str, dst: Shaped, extents: Extents, given: Parameters, taken: tuple[str, Extents]) -> None:
    rank = len(extents)
    low = check_numbers(op, "low", given["low"], rank)
    high = check_numbers(op, "high", given["high"], rank)
    mid = check_numbers(op, "mid", given["mid"], rank)
    parts = zip(low, extents, mid, high, strict=True)
    padded = tuple([before + n + max(n - 1, 0) * gap + after for before, n, gap, after in parts])
    if dst.shape != padded:
        check_extents(op, dst, padded, f"low {low} + n + (n - 1) * mid {mid} + high {high}, n", extents)


def _between(dst: Array, shape: Extents, extents: Extents, given: Parameters) -> Array:
    return _first(dst[spread(given["low"], dst.shape, given["high"], given["mid"])], shape)


def _put_padded(dst: Array, source: Array, extents: Extents, mover: Mover | None, given: Parameters) -> None:
    surround(dst, source, given["low"], given["high"], given["mid"], given.get("value", 0))


def _check_repeated(op: str, dst: Shaped, extents: Extents, given: Parameters, taken: tuple[str, Extents]) -> None:
    added, what = len(dst.shape) - len(extents), taken[0]
    if added < 0:
        raise InvalidValue(f"{op}: dst has shape {dst.shape} and {what} {extents}; expected no fewer dimensions")
    for axis, extent in enumerate(extents):
        if extent not in (1, dst.shape[added + axis]):
            raise InvalidValue(
                f"{op}: dimension {axis} of {what} has extent {extent}; expected 1 or {dst.shape[added + axis]}, "
                f"the extent of dimension {added + axis} of dst"
            )


def _repeating(dst: Array, shape: Extents, extents: Extents, given: Parameters) -> Array:
    return dst if shape == extents else _first(dst, repeated(shape, extents, dst.shape))


def _put_repeated(dst: Array, source: Array, extents: Extents, mover: Mover | None, given: Parameters) -> None:
    landing = _repeating(dst, source.shape, extents, given)
    if landing.shape != dst.shape:
        fill_around(dst, (0,) * dst.ndim, landing.shape, 0)
    repeat(landing, source)


def _check_whole(op: str, dst: Shaped, extents: Extents, given: Parameters, taken: tuple[str, Extents]) -> None:
    if dst.shape != extents:
        check_extents(op, dst, extents, *taken)


WHOLE = Land(
    check=_check_whole,
    rule=lambda extent: f"dst.shape[i] == {extent('i')}",
)
PADDED = Land(  # `low` before, `mid` between neighbours and `high` behind
    check=_check_padded,
    rule=lambda n: f"dst.shape[i] == low[i] + {n('i')} + max({n('i')} - 1, 0) * mid[i] + high[i]",
    landing=_between,
    put=_put_padded,
)
REPEATED = Land(  # along the dimensions that are lacking or have one element, as numpy.broadcast_to does
    check=_check_repeated,
    rule=lambda extent: f"{extent('-1 - i')} in (1, dst.shape[-1 - i])",
    landing=_repeating,
    put=_put_repeated,
    same_rank=False,
)


class Work:
    """What an operation demands and does.

    `rules` are its demands of shapes as expressions for readers, which hold for every dimension i of src. `offsets`
    has, by "dst" or "src", the parameter that tells where the window in it begins.
    """

    rules: tuple[str, ...] = ()
    offsets: Mapping[str, str] = {}

    def check(self, op: str, dst: Shaped, src: Shaped, given: Parameters) -> None:
        """Raise InvalidValue where the demands are not met, InvalidType for what is no number."""
        raise NotImplementedError

    def apply(self, dst: Array, src: Array, given: Parameters) -> None:
        """Move, after a check."""
        raise NotImplementedError

    def written(self, dst: Array, src: Array | None, given: Parameters) -> Array | None:
        """Return the part of dst that is written, after a check; None where src is moved onto itself."""
        return dst

    def read(self, dst: Array, src: Array | None, given: Parameters) -> Array | None:
        """Return the part of src that is read, after a check; None where nothing is."""
        return src

    def moved(self, dst: Array, src: Array | None, given: Parameters) -> tuple[int, int]:
        """Return how many bytes are read and written; a window counts as large as it is, whatever it has of src."""
        return (0, dst.nbytes) if src is None else (src.nbytes, src.nbytes)

    def footprint(self, dst: Array, src: Array | None, given: Parameters) -> tuple[Array, Array | None]:
        """Return the bytes that are written and those that are read, exactly, after a check: as views of dst and src.

        None where nothing is read. What is moved onto itself counts as both.
        """
        return dst, src


class Stages(Work):
    """Take, turn and land. What moves in its own way, EXPAND, SHRINK and REPLACE, lands in WHOLE or a window."""

    def __init__(self, take: Take = ALL, turn: Turn = PLAIN, land: Land = WHOLE) -> None:
        """Put stages together."""
        self.take, self.turn, self.land = take, turn, land
        offsets = {"src": take.offsets, "dst": land.offsets}
        self.offsets = {role: name for role, name in offsets.items() if name is not None}
        before = take.extent
        first = "dst.ndim == src.ndim" if before is None else land.rule(lambda i: turn.extent(before, i))
        self.rules = (first, *turn.rules)

    def extents(self, dst: Shaped, src: Shaped, given: Parameters) -> Extents:
        """Return the extents that land in dst."""
        taken = src.shape if self.take.extents is None else self.take.extents(dst, src, self.turn, given)
        return taken if self.turn.extents is None else self.turn.extents(taken, given)

    def check(self, op: str, dst: Shaped, src: Shaped, given: Parameters) -> None:
        """Compare types and shapes first, places last, for a window must exist to have a place."""
        take, turn, land = self.take, self.turn, self.land
        if dst.dtype is not src.dtype and not turn.converts:
            check_kind(op, dst, src)
        if land.same_rank and len(dst.shape) != len(src.shape):
            check_rank(op, dst, src)
        if turn.check is not None:
            turn.check(op, dst, src, given)
        taken = src.shape if take.check is None else take.check(op, dst, src, turn, given)
        extents = taken if turn.extents is None else turn.extents(taken, given)
        land.check(op, dst, extents, given, (take.name, taken))
        if "value" in given:
            check_value(op, given["value"], dst.dtype)
        if isinstance(dst, np.ndarray) and isinstance(src, np.ndarray) and may_overlap(dst, src) and turn.reads:
            source = src if take.view is None else take.view(src, taken, given)
            source = source if turn.view is None else turn.view(source, given)
            region = dst if land.region is None else land.region(dst, extents, given)
            landing = land.landing(region, source.shape, extents, given)
            if turn.pair is not None:
                landing, source = turn.pair(landing, source, given)
            check_overlap(op, region, landing, source)

    def apply(self, dst: Array, src: Array, given: Parameters) -> None:
        """Take, turn and land."""
        take, turn, land = self.take, self.turn, self.land
        if take.extents is None or take.view is None:
            source = src if turn.view is None else turn.view(src, given)
            extents = source.shape
        else:
            extents = take.extents(dst, src, turn, given)
            source = take.view(src, extents, given)
            if turn.view is not None:
                source = turn.view(source, given)
            if turn.extents is not None:
                extents = turn.extents(extents, given)
        region = dst if land.region is None else land.region(dst, extents, given)
        land.put(region, source, extents, turn.move, given)

    def moved(self, dst: Array, src: Array | None, given: Parameters) -> tuple[int, int]:
        """As of any work: all of src or its window, all of dst or its window."""
        if src is None:
            return 0, dst.nbytes
        take, turn = self.take, self.turn
        extents = src.shape if take.extents is None else take.extents(dst, src, turn, given)
        read = prod(extents) * src.itemsize if turn.reads else 0
        if self.land.region is None:
            return read, dst.nbytes
        return read, prod(extents if turn.extents is None else turn.extents(extents, given)) * dst.itemsize

    def written(self, dst: Array, src: Array | None, given: Parameters) -> Array | None:
        """Return all of dst, or its window: what src does not reach of it is filled."""
        if src is None:
            return dst
        land, source = self.land, self.read(dst, src, given)
        region = dst if land.region is None else land.region(dst, self.extents(dst, src, given), given)
        if source is None or not may_overlap(region, source):
            return region
        return None if np.shares_memory(region, source) else region

    def read(self, dst: Array, src: Array | None, given: Parameters) -> Array | None:
        """Return all of src, or its window."""
        if src is None or not self.turn.reads:
            return None
        take = self.take
        if take.view is None or take.extents is None:
            return src
        return take.view(src, take.extents(dst, src, self.turn, given), given)

    def footprint(self, dst: Array, src: Array | None, given: Parameters) -> tuple[Array, Array | None]:
        """Return dst or its window, and of src what reaches dst: of each element only the part that the turn takes."""
        if src is None:
            return dst, None
        turn, land, source = self.turn, self.land, self.read(dst, src, given)
        region = dst if land.region is None else land.region(dst, self.extents(dst, src, given), given)
        if not region.size:
            return region, None
        if source is not None and turn.view is not None:
            source = turn.view(source, given)
        if source is not None and turn.pair is not None:
            source = turn.pair(region, source, given)[1]
        return region, source


class Memcpy(Work):
    """All bytes of src, in row-major order, to the first bytes of dst."""

    rules = ("src.nbytes <= dst.nbytes",)

    def check(self, op: str, dst: Shaped, src: Shaped, given: Parameters) -> None:
        """Demand that all bytes of src fit into dst."""
        if dst.shape != src.shape or dst.dtype != src.dtype:
            size, room = byte_count(src), byte_count(dst)
            if size > room:
                raise InvalidValue(
                    f"{op}: dst {element_name(dst.dtype)}{list(dst.shape)} has {room} bytes and src "
                    f"{element_name(src.dtype)}{list(src.shape)} has {size}; expected room for all of src"
                )
        if isinstance(dst, np.ndarray) and isinstance(src, np.ndarray) and may_overlap(dst, src):
            if dst.flags.c_contiguous and src.flags.c_contiguous:  # of dst, only what receives bytes is written
                dst, src = dst.reshape(-1).view(np.uint8)[: src.nbytes], src.reshape(-1).view(np.uint8)
            check_overlap(op, dst, dst, src)

    def apply(self, dst: Array, src: Array, given: Parameters) -> None:
        """Move the bytes."""
        copy_bytes(dst, src)

    def written(self, dst: Array, src: Array | None, given: Parameters) -> Array | None:
        """Return as many bytes of dst as src has."""
        if src is None or (may_overlap(dst, src) and np.shares_memory(dst, src)):
            return None
        return dst.reshape(-1).view(np.uint8)[: src.nbytes]

    def footprint(self, dst: Array, src: Array | None, given: Parameters) -> tuple[Array, Array | None]:
        """Return as many bytes of dst, which has no gaps, as src has; and src."""
        if src is None or src.nbytes == dst.nbytes:
            return dst, src
        return dst.reshape(-1).view(np.uint8)[: src.nbytes], src


class Memset(Work):
    """One value to every element of dst; there is no src."""

    def check(self, op: str, dst: Shaped, src: Shaped, given: Parameters) -> None:
        """Demand a value of dst's element type."""
        check_value(op, given["value"], dst.dtype)

    def apply(self, dst: Array, src: Array, given: Parameters) -> None:
        """Fill."""
        fill(dst, given["value"])
