"""The DTE's operations against oracles that move one element at a time, found by index arithmetic alone."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atops.device.transforms import OPERATIONS

Array = np.ndarray[Any, Any]
Cells = dict[tuple[int, ...], bytes]

KINDS = [np.dtype(kind) for kind in (np.uint8, np.bool_, np.float16, np.float32, np.int64, ml_dtypes.bfloat16)]
ODD_KINDS = [np.dtype(np.complex128), np.dtype([("a", np.int16), ("b", np.uint8)]), np.dtype("M8[s]")]

kinds = st.sampled_from(KINDS + ODD_KINDS)
shapes = st.lists(st.integers(0, 5), min_size=1, max_size=4).map(tuple)
drawing = st.data()


def make(data: st.DataObject, shape: tuple[int, ...], kind: np.dtype[Any]) -> Array:
    """Draw an array of random bytes: contiguous, or a view that strides through or turns a larger one."""
    manner = data.draw(st.sampled_from(["plain", "strided", "fortran", "reversed"]), label="manner")
    whole = tuple(2 * extent + 1 for extent in shape) if manner == "strided" else shape
    whole = whole[::-1] if manner == "fortran" else whole
    seed = data.draw(st.integers(0, 2**32 - 1), label="seed")
    size = int(np.prod(whole)) * kind.itemsize
    octets = np.random.default_rng(seed).integers(0, 2 if kind == np.bool_ else 256, size, np.uint8)
    array = octets.view(kind).reshape(whole)
    if manner == "strided":
        array = array[tuple(slice(1, None, 2) for _ in shape)]
    elif manner == "fortran":
        array = array.T
    elif manner == "reversed" and shape:
        array = array[::-1]
    assert array.shape == shape
    return array


def cells(array: Array) -> Cells:
    """Return the bytes of each element by its index."""
    return {index: array[index].tobytes() for index in np.ndindex(array.shape)}


def value_bytes(value: Any, kind: np.dtype[Any]) -> bytes:
    """Return the bytes of one value of an element type."""
    return np.array(value, kind).tobytes()


def draw_value(data: st.DataObject, kind: np.dtype[Any]) -> Any:
    """Draw a value that every element type has, as a fill."""
    return data.draw(st.sampled_from([0, 1, True]), label="value") if kind.fields is None and kind.kind != "M" else 0


def layouts(rank: int) -> st.SearchStrategy[tuple[int, ...]]:
    """Draw permutations of the dimensions."""
    return st.permutations(range(rank)).map(tuple)


def extents_like(data: st.DataObject, rank: int, least: int = 0, most: int = 5) -> tuple[int, ...]:
    """Draw one number for each dimension."""
    return tuple(data.draw(st.lists(st.integers(least, most), min_size=rank, max_size=rank)))


def cut(source: Cells, shape: tuple[int, ...], offsets: tuple[int, ...], fill: bytes) -> Cells:
    """Return the window of `shape` at `offsets`; what is not in `source` is `fill`."""
    return {
        index: source.get(tuple(i + offset for i, offset in zip(index, offsets, strict=True)), fill)
        for index in np.ndindex(shape)
    }


def turned(source: Cells, layout: tuple[int, ...]) -> Cells:
    """Return `source` with dimension layout[i] become dimension i."""
    return {tuple(index[axis] for axis in layout): cell for index, cell in source.items()}


def pasted(below: Cells, source: Cells, offsets: tuple[int, ...]) -> Cells:
    """Return `below` with `source` over its window at `offsets`."""
    over = {tuple(i + offset for i, offset in zip(index, offsets, strict=True)): c for index, c in source.items()}
    return {**below, **over}


def run(name: str, dst: Array, src: Array | None, expected: Cells, **parameters: Any) -> None:
    """Run an operation; compare dst with the oracle's cells, and src with itself before."""
    before = None if src is None else cells(src)
    OPERATIONS[name](dst, src, **parameters)
    assert cells(dst) == expected
    assert src is None or cells(src) == before


@given(drawing, kinds, kinds, shapes, st.lists(st.integers(0, 5), min_size=1, max_size=3).map(tuple))
def test_memcpy(data: st.DataObject, dst_kind: Any, src_kind: Any, src_shape: Any, tail: Any) -> None:
    """All bytes of src go to the first bytes of dst, whatever the types; the rest of dst stays."""
    src = make(data, src_shape, src_kind)
    row = int(np.prod(tail)) * dst_kind.itemsize
    if dst_kind == np.bool_:  # arbitrary bytes are no booleans
        dst_kind = np.dtype(np.uint8)
    dst = make(data, (-(-src.nbytes // row) if row else 0, *tail), dst_kind)
    if src.nbytes > dst.nbytes:
        return
    moved, old = list(b"".join(cells(src).values())), list(b"".join(cells(dst).values()))
    expected = bytes(moved + old[len(moved) :])
    OPERATIONS["memcpy"](dst, src)
    assert b"".join(cells(dst).values()) == expected


@given(drawing, kinds, shapes)
def test_memset(data: st.DataObject, kind: Any, shape: Any) -> None:
    """Every element becomes the value."""
    dst, value = make(data, shape, kind), draw_value(data, kind)
    run("memset", dst, None, dict.fromkeys(np.ndindex(shape), value_bytes(value, kind)), value=value)


@given(drawing, kinds, shapes)
def test_slice(data: st.DataObject, kind: Any, shape: Any) -> None:
    """The window of dst's shape, with the value beyond src, however far beyond it begins."""
    src = make(data, shape, kind)
    dst = make(data, extents_like(data, len(shape), 0, 6), kind)
    offsets, value = extents_like(data, len(shape), 0, 7), draw_value(data, kind)
    expected = cut(cells(src), dst.shape, offsets, value_bytes(value, kind))
    run("slice", dst, src, expected, offsets=offsets, value=value)


@given(drawing, kinds, shapes)
def test_deslice(data: st.DataObject, kind: Any, shape: Any) -> None:
    """Src lands at the offsets, and the rest of dst stays."""
    src = make(data, shape, kind)
    offsets, beyond = extents_like(data, len(shape), 0, 3), extents_like(data, len(shape), 0, 3)
    dst = make(data, tuple(map(sum, zip(offsets, shape, beyond, strict=True))), kind)
    run("deslice", dst, src, pasted(cells(dst), cells(src), offsets), offsets=offsets)


@given(drawing, kinds, shapes)
def test_transpose(data: st.DataObject, kind: Any, shape: Any) -> None:
    """Dimension i of dst is dimension layout[i] of src."""
    src, layout = make(data, shape, kind), data.draw(layouts(len(shape)))
    dst = make(data, tuple(shape[axis] for axis in layout), kind)
    run("transpose", dst, src, turned(cells(src), layout), layout=layout)


@given(drawing, kinds, shapes)
def test_slice_transpose(data: st.DataObject, kind: Any, shape: Any) -> None:
    """Slice first, transpose then: dst.shape[i] is the slice's extent layout[i]."""
    src, layout = make(data, shape, kind), data.draw(layouts(len(shape)))
    window, offsets = extents_like(data, len(shape), 0, 6), extents_like(data, len(shape), 0, 6)
    dst, value = make(data, tuple(window[axis] for axis in layout), kind), draw_value(data, kind)
    expected = turned(cut(cells(src), window, offsets, value_bytes(value, kind)), layout)
    run("slice_transpose", dst, src, expected, offsets=offsets, layout=layout, value=value)


@given(drawing, kinds, shapes)
def test_transpose_deslice(data: st.DataObject, kind: Any, shape: Any) -> None:
    """Transpose first, deslice then: offsets count in dst."""
    src, layout = make(data, shape, kind), data.draw(layouts(len(shape)))
    offsets, beyond = extents_like(data, len(shape), 0, 3), extents_like(data, len(shape), 0, 3)
    dst = make(data, tuple(offsets[i] + shape[axis] + beyond[i] for i, axis in enumerate(layout)), kind)
    expected = pasted(cells(dst), turned(cells(src), layout), offsets)
    run("transpose_deslice", dst, src, expected, offsets=offsets, layout=layout)


@given(drawing, kinds, shapes, st.booleans())
def test_pad(data: st.DataObject, kind: Any, shape: Any, spread: bool) -> None:
    """Low before, mid between neighbours, high after; in each dimension apart."""
    rank = len(shape)
    src, value = make(data, shape, kind), draw_value(data, kind)
    low, high = extents_like(data, rank, 0, 2), extents_like(data, rank, 0, 2)
    mid = extents_like(data, rank, 0, 2) if spread else (0,) * rank
    grown = tuple(low[i] + n + max(n - 1, 0) * mid[i] + high[i] for i, n in enumerate(shape))
    dst = make(data, grown, kind)
    expected = dict.fromkeys(np.ndindex(grown), value_bytes(value, kind))
    for index, cell in cells(src).items():
        expected[tuple(low[i] + x * (mid[i] + 1) for i, x in enumerate(index))] = cell
    run("pad", dst, src, expected, low=low, high=high, mid=mid, value=value)


@given(drawing, kinds, shapes)
def test_mirror_tb(data: st.DataObject, kind: Any, shape: Any) -> None:
    """The last axis is reversed."""
    src, dst = make(data, shape, kind), make(data, shape, kind)
    expected = {(*index[:-1], shape[-1] - 1 - index[-1]): cell for index, cell in cells(src).items()}
    run("mirror_tb", dst, src, expected)


@given(drawing, kinds, st.lists(st.integers(0, 5), min_size=2, max_size=4).map(tuple))
def test_mirror_lr(data: st.DataObject, kind: Any, shape: Any) -> None:
    """The last axis but one is reversed."""
    src, dst = make(data, shape, kind), make(data, shape, kind)
    expected = {(*i[:-2], shape[-2] - 1 - i[-2], i[-1]): cell for i, cell in cells(src).items()}
    run("mirror_lr", dst, src, expected)


@given(drawing, kinds, shapes)
def test_broadcast(data: st.DataObject, kind: Any, shape: Any) -> None:
    """Dimensions that src lacks or has once are repeated."""
    added = data.draw(st.integers(0, len(shape)), label="dimensions that src lacks")
    kept = [data.draw(st.sampled_from([1, extent])) for extent in shape[added:]]
    src, dst = make(data, tuple(kept), kind), make(data, shape, kind)
    source = cells(src)
    expected = {
        index: source[tuple(0 if n == 1 else i for i, n in zip(index[added:], kept, strict=True))]
        for index in np.ndindex(shape)
    }
    run("broadcast", dst, src, expected)


LARGE: list[tuple[str, tuple[int, ...], dict[str, Any], Callable[[Any], Any]]] = [
    ("memcpy", (300, 512), {}, lambda a: a),
    ("transpose", (512, 300), {"layout": (1, 0)}, lambda a: a.T),
    ("transpose", (3, 512, 100), {"layout": (0, 2, 1)}, lambda a: a.transpose(0, 2, 1)),
    ("slice_transpose", (512, 300), {"offsets": (0, 0), "layout": (1, 0)}, lambda a: a.T),
    ("mirror_tb", (300, 512), {}, lambda a: a[:, ::-1]),
    ("mirror_lr", (300, 512), {}, lambda a: a[::-1]),
]


@pytest.mark.parametrize("kind", [np.float32, np.float64, ml_dtypes.bfloat16])
@pytest.mark.parametrize(("name", "shape", "parameters", "view"), LARGE)
def test_large_arrays_move_alike(name: str, shape: Any, parameters: Any, view: Any, kind: Any) -> None:
    """What is moved in blocks of rows, because its rows alias in the cache, is moved whole all the same."""
    src = np.arange(shape[0] * int(np.prod(shape[1:])), dtype=np.uint32).astype(np.float32).reshape(shape)
    src = src.view(np.uint32).astype(f"u{np.dtype(kind).itemsize}").view(kind)
    for dst in (np.zeros(shape, kind), np.zeros(shape, kind, order="F")):
        moved = dst if view(src).shape == shape else dst.reshape(view(src).shape)
        OPERATIONS[name](moved, src, **parameters)
        assert moved.tobytes() == view(src).tobytes()


def test_slice_without_value_fills_with_zero() -> None:
    """The default of the fill is 0."""
    dst = np.full(4, 9, np.float32)
    OPERATIONS["slice"](dst, np.array([1, 2], np.float32), offsets=(1,))
    assert dst.tolist() == [2, 0, 0, 0]


def test_mirrors_are_the_way_round_that_the_text_has() -> None:
    """The text names the axes, and they are not the ones that the names suggest; docstrings begin with them."""
    src = np.arange(6).reshape(2, 3)
    dst = np.zeros_like(src)
    OPERATIONS["mirror_tb"](dst, src)
    assert dst.tolist() == [[2, 1, 0], [5, 4, 3]]
    OPERATIONS["mirror_lr"](dst, src)
    assert dst.tolist() == [[3, 4, 5], [0, 1, 2]]
    assert str(OPERATIONS["mirror_tb"].apply.__doc__).startswith("Last axis:")
    assert str(OPERATIONS["mirror_lr"].apply.__doc__).startswith("Last axis but one:")


def test_bits_are_moved_not_converted() -> None:
    """A signalling NaN and a negative zero arrive as they were."""
    src = np.array([0x7FA00001, 0x80000000], np.uint32).view(np.float32)
    dst = np.zeros((2, 2), np.float32)
    OPERATIONS["broadcast"](dst, src)
    assert dst.view(np.uint32).tolist() == [[0x7FA00001, 0x80000000]] * 2


def test_the_table_has_the_eleven_operations_of_every_architecture() -> None:
    """Names, parameters and defaults are those of the functions, and each row can be shown to a reader."""
    assert [name for name, row in OPERATIONS.items() if row.gcu_arch == 210] == [
        "memcpy", "memset", "slice", "deslice", "transpose", "slice_transpose", "transpose_deslice", "pad", "mirror_tb",
        "mirror_lr", "broadcast",
    ]  # fmt: skip
    for name, row in OPERATIONS.items():
        assert row.name == name
        assert row.summary and row.section
        assert row.reads_source is (name != "memset")
        for function in (row.check, row.apply):
            keywords = [p for p in inspect.signature(function).parameters.values() if p.kind is p.KEYWORD_ONLY]
            assert tuple(p.name for p in keywords) == row.parameters
        assert {p.name: p.default for p in keywords if p.default is not p.empty} == dict(row.defaults)


def test_same_operations_on_rank_zero() -> None:
    """An array without dimensions has one element, and moves like any other."""
    for name, parameters in itertools.product(["slice", "deslice"], [{"offsets": ()}]):
        dst, src = np.zeros((), np.int32), np.array(7, np.int32)
        OPERATIONS[name](dst, src, **parameters)
        assert dst[()] == 7
