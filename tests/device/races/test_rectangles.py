"""Rectangles of bytes, against the bytes that a store marks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atops.device.races.rectangles import Rectangle, rectangles, selected

Array = np.ndarray[Any, Any]
SHAPES = st.lists(st.integers(0, 5), min_size=0, max_size=4)
KINDS = st.sampled_from([np.uint8, np.int16, np.float32, np.float64])


def spread(found: list[Rectangle], size: int) -> list[int]:
    """Count how often each byte is in one of the rectangles."""
    counts = [0] * size
    for start, run, pitch, count in found:
        for row in range(count):
            for byte in range(start + row * pitch, start + row * pitch + run):
                counts[byte] += 1
    return counts


@st.composite
def views(draw: Any) -> tuple[Array, Array]:
    """Return some memory and a view of it: cut, stepped over, reversed, permuted."""
    kind, shape = np.dtype(draw(KINDS)), draw(SHAPES)
    memory = np.zeros(int(np.prod(shape)) * kind.itemsize, np.uint8)
    view: Array = memory.view(kind).reshape(shape)
    for axis, extent in enumerate(shape):
        start = draw(st.integers(0, extent))
        stop = draw(st.integers(start, extent))
        step = draw(st.sampled_from([1, 1, 2, 3, -1, -2]))
        view = view[(slice(None),) * axis + (slice(start, stop),)][(slice(None),) * axis + (slice(None, None, step),)]
    if view.ndim:
        view = view.transpose(draw(st.permutations(range(view.ndim))))
    return memory, view


def marked(memory: Array, view: Array, key: Any = ...) -> list[bool]:
    """Return which bytes a store to all the elements of a part of the view changes."""
    memory[:] = 0
    view[key] = np.frombuffer(b"\x01" * view.itemsize, view.dtype)[0]
    return [bool(each) for each in memory]


@pytest.mark.slow
@given(views())
def test_a_view_has_the_bytes_that_a_store_changes(drawn: tuple[Array, Array]) -> None:
    """Each of them once, and no other."""
    memory, view = drawn
    origin = memory.__array_interface__["data"][0]
    found = rectangles(view, origin)
    assert spread(found, memory.size) == [int(each) for each in marked(memory, view)]


@pytest.mark.slow
@given(views(), st.data())
def test_a_selection_has_the_bytes_that_a_store_changes(drawn: tuple[Array, Array], data: st.DataObject) -> None:
    """By a mask, and by an index array with repeats."""
    memory, view = drawn
    origin = memory.__array_interface__["data"][0]
    chosen = data.draw(st.lists(st.booleans(), min_size=view.size, max_size=view.size))
    keys: list[Any] = [np.array(chosen, bool).reshape(view.shape)]
    if view.ndim and len(view):
        keys.append(np.array(data.draw(st.lists(st.integers(-len(view), len(view) - 1), max_size=6)), np.int64))
    for key in keys:
        counts = spread(selected(view, key, origin), memory.size)
        assert [bool(each) for each in counts] == marked(memory, view, key)


def test_a_window_of_a_matrix_is_one_rectangle() -> None:
    """However many rows it has."""
    matrix = np.zeros((1000, 64), np.float32)
    origin = matrix.__array_interface__["data"][0]
    assert rectangles(matrix[10:900, 3:7], origin) == [Rectangle(10 * 256 + 12, 16, 256, 890)]
    assert rectangles(matrix[10:20], origin) == [Rectangle(2560, 2560, 0, 1)]
    assert rectangles(matrix[::-1, ::-1], origin) == [Rectangle(0, 256_000, 0, 1)]
