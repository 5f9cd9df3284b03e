"""Windows, spacings and permutations as indices."""

from __future__ import annotations

import ctypes
import itertools

import numpy as np
import pytest

from atops.base.errors import InvalidValue
from atops.device.geometry import byte_count, check_overlap, inverse, may_overlap, mirrored, spread, window


def test_a_window_is_a_view() -> None:
    """Of any rank, also of none, an index gives a view and not a copy or a scalar."""
    square = np.arange(12).reshape(3, 4)
    assert square[window((1, 2), (2, 2))].tolist() == [[6, 7], [10, 11]]
    assert square[window((2, 3), (5, 5))].tolist() == [[11]]
    none = np.array(5)
    assert np.shares_memory(none[window((), ())], none)


def test_mirrored_reverses_one_axis_of_a_view() -> None:
    """Counted from the last axis, of any rank, without a copy."""
    for rank in range(1, 5):
        array = np.arange(2**rank).reshape((2,) * rank)
        for axis in range(-rank, 0):
            turned = mirrored(array, axis)
            assert np.array_equal(turned, np.flip(array, axis)) and np.shares_memory(turned, array)


def test_spread_leaves_out_ends_and_gaps() -> None:
    """Low, high and the gaps between are not part of the index."""
    assert np.arange(10)[spread((1,), (10,), (2,), (2,))].tolist() == [1, 4, 7]
    assert np.arange(3)[spread((0,), (3,), (0,), (0,))].tolist() == [0, 1, 2]
    assert np.arange(3)[spread((1,), (3,), (2,), (0,))].tolist() == []


@pytest.mark.parametrize("layout", list(itertools.permutations(range(3))))
def test_inverse_undoes_a_layout(layout: tuple[int, ...]) -> None:
    """Transposing by a layout and by its inverse gives the array back."""
    cube = np.arange(24).reshape(2, 3, 4)
    assert np.array_equal(cube.transpose(layout).transpose(inverse(layout)), cube)


def test_byte_count() -> None:
    """Elements times their size, one element where there is no dimension."""
    assert byte_count(np.zeros((3, 4), np.int16)) == 24
    assert byte_count(np.zeros((), np.int64)) == 8


def test_owners_and_bounds_tell_arrays_apart() -> None:
    """Arrays that may share a byte are never called apart, through whatever views they are seen."""
    line = np.arange(16, dtype=np.uint8)
    assert may_overlap(line[4:], line[:5])
    assert may_overlap(line[::-1][:4], line[12:])
    assert not may_overlap(line[4:], line[:4])
    assert not may_overlap(line, line.copy())
    seen = np.frombuffer(memoryview(line)[8:], np.uint8)
    assert may_overlap(seen[2:], line[10:11])
    assert not may_overlap(seen, line[:8])


def test_foreign_memory_may_be_mapped_twice() -> None:
    """Two owners that numpy did not make are compared by address."""
    pages = (ctypes.c_uint8 * 16)()
    again = (ctypes.c_uint8 * 8).from_address(ctypes.addressof(pages) + 8)
    first, second = np.frombuffer(pages, np.uint8), np.frombuffer(again, np.uint8)
    assert may_overlap(first, second)
    assert not may_overlap(first[:8], second)
    assert not may_overlap(first, np.zeros(16, np.uint8))


def test_interleaved_views_do_not_overlap() -> None:
    """Views whose bounds cross are compared element by element."""
    square = np.zeros((64, 64), np.uint8)
    check_overlap("memcpy", square[:, ::2], square[:, ::2], square[:, 1::2])
    with pytest.raises(InvalidValue, match="overlap"):
        check_overlap("memcpy", square[:, ::2], square[:, ::2], square[:, ::3][:, :32])
