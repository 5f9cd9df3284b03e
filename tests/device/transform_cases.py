"""Cases of the DTE's operations: a small fixed one of each, and strategies that draw geometries and arrays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
from hypothesis import strategies as st

Array = np.ndarray[Any, Any]
Ints = tuple[int, ...]
Draw = Callable[..., Any]
FLOAT32: np.dtype[Any] = np.dtype(np.float32)

# Element types by their size: those of the language, and some that numpy has beside them.
KINDS: dict[int, list[np.dtype[Any]]] = {
    1: [np.dtype(np.uint8), np.dtype(np.int8), np.dtype(np.bool_)],
    2: [np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16), np.dtype(np.int16)],
    3: [np.dtype([("a", np.int16), ("b", np.uint8)])],
    4: [np.dtype(np.float32), np.dtype(np.int32)],
    6: [np.dtype([("a", np.int32), ("b", np.uint16)])],
    8: [np.dtype(np.float64), np.dtype(np.int64), np.dtype(np.complex64), np.dtype("M8[s]")],
    16: [np.dtype(np.complex128)],
}
ALL_KINDS = [kind for kinds in KINDS.values() for kind in kinds]
PARTS = [(size, ratio) for size in KINDS for ratio in (0, 1) if (2 << ratio) * size in KINDS]

MOST_ELEMENTS = 256


@dataclass(frozen=True)
class Case:
    """One call of an operation: shapes and element types of its operands, and its parameters."""

    dst: Ints
    src: Ints | None
    parameters: dict[str, Any] = field(default_factory=dict)
    dst_kind: np.dtype[Any] = FLOAT32
    src_kind: np.dtype[Any] = FLOAT32


_PADS = {"low": (1, 0), "high": (0, 2), "mid": (1, 0), "value": 7}

# Each partly beyond src where it can be, and with something of dst that stays where something does.
EXAMPLES: dict[str, Case] = {
    "memcpy": Case((5,), (2, 2)),
    "memset": Case((5,), None, {"value": 1.5}),
    "slice": Case((4, 3), (2, 3), {"offsets": (1, 0), "value": 2}),
    "deslice": Case((4, 4), (2, 3), {"offsets": (2, 1)}),
    "transpose": Case((3, 2), (2, 3), {"layout": (1, 0)}),
    "slice_transpose": Case((4, 1), (2, 3), {"offsets": (0, 1), "layout": (1, 0), "value": 3}),
    "transpose_deslice": Case((4, 4), (2, 3), {"offsets": (1, 2), "layout": (1, 0)}),
    "pad": Case((4, 5), (2, 3), _PADS),
    "mirror_tb": Case((2, 3), (2, 3)),
    "mirror_lr": Case((3, 2), (3, 2)),
    "broadcast": Case((2, 4, 3), (4, 1)),
    "slice_pad": Case((6, 4), (4, 3), {"src_offsets": (2, 1), "slice_shape": (3, 2), **_PADS}),
    "slice_deslice": Case((4, 4), (2, 3), {"src_offsets": (1, 0), "slice_shape": (2, 3), "dst_offsets": (2, 1)}),
    "slice_broadcast": Case((2, 4, 3), (3, 3), {"src_offsets": (2, 1), "slice_shape": (1, 3)}),
    "slice_expand": Case((2, 3), (2, 3), {"src_offsets": (1, 1), "slice_shape": (2, 3), "phase": 1, "ratio": 0},
                         src_kind=np.dtype(np.int16)),
    "shrink_deslice": Case((3, 4), (2, 3), {"phase": 2, "ratio": 1, "dst_offsets": (1, 0)},
                           dst_kind=np.dtype(np.uint8)),
    "memset_deslice": Case((4, 4), (2, 3), {"dst_offsets": (1, 1), "value": -1}),
    "mirror_tb_pad": Case((4, 5), (2, 3), _PADS),
    "mirror_lr_pad": Case((4, 5), (2, 3), _PADS),
    "mirror_tb_deslice": Case((4, 4), (2, 3), {"dst_offsets": (2, 1)}),
    "mirror_lr_deslice": Case((4, 4), (2, 3), {"dst_offsets": (2, 1)}),
    "sub_sample": Case((3, 2), (5, 4), {"dim_stride": (2, 3)}),
}  # fmt: skip


def random_array(shape: Ints, kind: np.dtype[Any], seed: int = 1) -> Array:
    """Return an array of random bytes; of booleans only true and false."""
    size = int(np.prod(shape, dtype=int)) * kind.itemsize
    octets = np.random.default_rng(seed).integers(0, 2 if kind == np.bool_ else 256, size, np.uint8)
    return octets.view(kind).reshape(shape)


def draw_array(draw: Draw, shape: Ints, kind: np.dtype[Any]) -> Array:
    """Draw an array of random bytes: contiguous, or a view that strides through, cuts or turns a larger one."""
    manner, seed = draw(st.sampled_from(["plain", "strided", "inner", "fortran", "reversed"])), draw(st.integers(0, 99))
    if manner == "strided":
        whole = random_array(tuple(2 * extent + 1 for extent in shape), kind, seed)
        return whole[tuple(slice(1, None, 2) for _ in shape)]
    if manner == "inner":
        whole = random_array(tuple(extent + 2 for extent in shape), kind, seed)
        return whole[tuple(slice(1, -1) for _ in shape)]
    if manner == "fortran":
        return random_array(shape[::-1], kind, seed).T
    array = random_array(shape, kind, seed)
    return np.flip(array) if manner == "reversed" else array


def draw_case(draw: Draw, name: str) -> Case:
    """Draw a case of an operation: rank 1 to 8, extents from 0, all element sizes."""
    return _DRAWN[name](draw)


def _rank(draw: Draw, least: int = 1) -> int:
    return max(least, draw(st.sampled_from((1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 5, 6, 8))))


def _kind(draw: Draw) -> np.dtype[Any]:
    return draw(st.sampled_from(ALL_KINDS))


def _shape(draw: Draw, rank: int, most: int = 5, elements: int = MOST_ELEMENTS) -> Ints:
    """Draw extents, rarely 0, of which there are not too many elements."""
    extents = []
    for _ in range(rank):
        extent = draw(st.sampled_from(range(min(most, elements) + 1))) or draw(st.sampled_from((0, 1, 1)))
        extents.append(extent)
        elements //= max(extent, 1)
    return tuple(extents)


def _numbers(draw: Draw, rank: int, most: int) -> Ints:
    return tuple(draw(st.lists(st.integers(0, most), min_size=rank, max_size=rank)))


def _value(draw: Draw, kind: np.dtype[Any]) -> Any:
    return draw(st.sampled_from([0, 1, True])) if kind.fields is None and kind.kind != "M" else 0


def _around(draw: Draw, window: Ints) -> tuple[Ints, Ints]:
    """Draw offsets of a window and a shape that holds it there."""
    most = 3 if len(window) < 4 else 1
    offsets = _numbers(draw, len(window), most)
    beyond = _numbers(draw, len(window), most)
    return offsets, tuple(map(sum, zip(offsets, window, beyond, strict=True)))


def _layout(draw: Draw, rank: int) -> Ints:
    return tuple(draw(st.permutations(range(rank))))


def _padding(draw: Draw, shape: Ints, kind: np.dtype[Any]) -> tuple[dict[str, Any], Ints]:
    """Draw widths and a value, and return them with the padded shape."""
    widths: list[Ints] = []
    grown, room = [], 2 * MOST_ELEMENTS
    for extent in shape:
        low, high, mid = _numbers(draw, 3, 2) if room > 8 else (0, 0, 0)
        widths.append((low, high, mid))
        grown.append(low + extent + mid * max(extent - 1, 0) + high)
        room //= max(grown[-1], 1)
    low, high, mid = zip(*widths, strict=True)
    return {"low": low, "high": high, "mid": mid, "value": _value(draw, kind)}, tuple(grown)


def _memcpy(draw: Draw) -> Case:
    dst, src = (_shape(draw, _rank(draw)) for _ in range(2))
    dst_kind, src_kind = _kind(draw), _kind(draw)
    if dst_kind == np.bool_:  # arbitrary bytes are no booleans
        dst_kind = np.dtype(np.uint8)
    row, size = int(np.prod(dst[1:])) * dst_kind.itemsize, int(np.prod(src)) * src_kind.itemsize
    src = src if row else (0, *src[1:])
    return Case((-(-size // row) + dst[0] if row else 0, *dst[1:]), src, {}, dst_kind, src_kind)


def _memset(draw: Draw) -> Case:
    kind = _kind(draw)
    return Case(_shape(draw, _rank(draw)), None, {"value": _value(draw, kind)}, kind, kind)


def _slice(draw: Draw) -> Case:
    kind, rank = _kind(draw), _rank(draw)
    parameters = {"offsets": _numbers(draw, rank, 6), "value": _value(draw, kind)}
    return Case(_shape(draw, rank, 6), _shape(draw, rank), parameters, kind, kind)


def _slice_transpose(draw: Draw) -> Case:
    case = _slice(draw)
    layout = _layout(draw, len(case.dst))
    dst = tuple(case.dst[axis] for axis in layout)
    return Case(dst, case.src, {**case.parameters, "layout": layout}, case.dst_kind, case.src_kind)


def _transpose(draw: Draw) -> Case:
    kind, src = _kind(draw), _shape(draw, _rank(draw))
    layout = _layout(draw, len(src))
    return Case(tuple(src[axis] for axis in layout), src, {"layout": layout}, kind, kind)


def _transpose_deslice(draw: Draw) -> Case:
    case = _transpose(draw)
    offsets, dst = _around(draw, case.dst)
    return Case(dst, case.src, {**case.parameters, "offsets": offsets}, case.dst_kind, case.src_kind)


def _deslice(name: str, least: int = 1) -> Callable[[Draw], Case]:
    def drawn(draw: Draw) -> Case:
        kind, src = _kind(draw), _shape(draw, _rank(draw, least))
        offsets, dst = _around(draw, src)
        return Case(dst, src, {name: offsets}, kind, kind)

    return drawn


def _pad(least: int = 1) -> Callable[[Draw], Case]:
    def drawn(draw: Draw) -> Case:
        kind, src = _kind(draw), _shape(draw, _rank(draw, least), 4, 64)
        parameters, dst = _padding(draw, src, kind)
        return Case(dst, src, parameters, kind, kind)

    return drawn


def _mirror(least: int) -> Callable[[Draw], Case]:
    def drawn(draw: Draw) -> Case:
        kind, shape = _kind(draw), _shape(draw, _rank(draw, least))
        return Case(shape, shape, {}, kind, kind)

    return drawn


def _broadcast(draw: Draw) -> Case:
    kind, dst = _kind(draw), _shape(draw, _rank(draw))
    own = dst[draw(st.integers(0, len(dst))) :]
    return Case(dst, tuple(draw(st.sampled_from((1, extent))) for extent in own), {}, kind, kind)


def _window(draw: Draw, window: Ints) -> tuple[Ints, dict[str, Any]]:
    """Draw a src and where in it the window is, perhaps in part or wholly beyond."""
    rank = len(window)
    src = tuple(map(sum, zip(window, _numbers(draw, rank, 2 if rank < 4 else 1), strict=True)))
    if draw(st.booleans()):
        src = _shape(draw, rank)
    return src, {"src_offsets": _numbers(draw, rank, draw(st.sampled_from((0, 2, 5)))), "slice_shape": window}


def _slice_pad(draw: Draw) -> Case:
    kind, window = _kind(draw), _shape(draw, _rank(draw), 4, 64)
    padding, dst = _padding(draw, window, kind)
    src, cut = _window(draw, window)
    return Case(dst, src, {**cut, **padding}, kind, kind)


def _slice_deslice(draw: Draw) -> Case:
    kind, window = _kind(draw), _shape(draw, _rank(draw))
    offsets, dst = _around(draw, window)
    src, cut = _window(draw, window)
    return Case(dst, src, {**cut, "dst_offsets": offsets}, kind, kind)


def _slice_broadcast(draw: Draw) -> Case:
    case = _broadcast(draw)
    assert case.src is not None
    src, cut = _window(draw, case.src)
    return Case(case.dst, src, cut, case.dst_kind, case.src_kind)


def _parts(draw: Draw) -> tuple[np.dtype[Any], np.dtype[Any], dict[str, int]]:
    """Draw a small type, a large one, and phase and ratio of the small in the large."""
    size, ratio = draw(st.sampled_from(PARTS))
    factor = 2 << ratio
    small, large = (draw(st.sampled_from(KINDS[each])) for each in (size, size * factor))
    return small, large, {"phase": draw(st.integers(0, factor - 1)), "ratio": ratio}


def _slice_expand(draw: Draw) -> Case:
    small, large, parts = _parts(draw)
    window = _shape(draw, _rank(draw))
    src, cut = _window(draw, window)
    return Case(window, src, {**cut, **parts}, large, small)


def _shrink_deslice(draw: Draw) -> Case:
    small, large, parts = _parts(draw)
    src = _shape(draw, _rank(draw))
    offsets, dst = _around(draw, src)
    return Case(dst, src, {**parts, "dst_offsets": offsets}, small, large)


def _memset_deslice(draw: Draw) -> Case:
    case = _deslice("dst_offsets")(draw)
    kind = case.dst_kind
    return Case(case.dst, case.src, {**case.parameters, "value": _value(draw, kind)}, kind, kind)


def _sub_sample(draw: Draw) -> Case:
    kind, src = _kind(draw), _shape(draw, _rank(draw), 7)
    strides = tuple(draw(st.integers(1, 4)) for _ in src)
    return Case(tuple(-(-n // s) for n, s in zip(src, strides, strict=True)), src, {"dim_stride": strides}, kind, kind)


_DRAWN: dict[str, Callable[[Draw], Case]] = {
    "memcpy": _memcpy, "memset": _memset, "slice": _slice, "deslice": _deslice("offsets"), "transpose": _transpose,
    "slice_transpose": _slice_transpose, "transpose_deslice": _transpose_deslice, "pad": _pad(),
    "mirror_tb": _mirror(1), "mirror_lr": _mirror(2), "broadcast": _broadcast, "slice_pad": _slice_pad,
    "slice_deslice": _slice_deslice, "slice_broadcast": _slice_broadcast, "slice_expand": _slice_expand,
    "shrink_deslice": _shrink_deslice, "memset_deslice": _memset_deslice, "mirror_tb_pad": _pad(),
    "mirror_lr_pad": _pad(2), "mirror_tb_deslice": _deslice("dst_offsets"),
    "mirror_lr_deslice": _deslice("dst_offsets", 2), "sub_sample": _sub_sample,
}  # fmt: skip
