"""The set of bytes of a scratchpad, against one of Python's."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atops.device.races.rectangles import Rectangle
from atops.device.races.unwritten import ByteRanges

PLACES = st.integers(0, 40)


@pytest.mark.slow
@given(st.lists(st.tuples(st.sampled_from(["add", "remove", "common"]), PLACES, PLACES), max_size=40), st.data())
def test_it_is_a_set_of_bytes(steps: list[tuple[str, int, int]], data: st.DataObject) -> None:
    """It has what a set has, in order, neighbours as one range; of a rectangle, the runs that meet it."""
    ranges, model = ByteRanges(), set[int]()
    for what, one, other in steps:
        start, stop = min(one, other), max(one, other)
        if what == "add":
            ranges.add(start, stop)
            model |= set(range(start, stop))
        elif what == "remove":
            ranges.remove(start, stop)
            model -= set(range(start, stop))
        found = ranges.common(start, stop)
        assert [byte for first, last in found for byte in range(first, last)] == sorted(set(range(start, stop)) & model)
        assert len(ranges) == sum(byte - 1 not in model for byte in model)
    for rows in (3, 12):  # looked up one by one, and all at once
        pitch = data.draw(st.integers(2, 5))
        row = Rectangle(data.draw(PLACES), data.draw(st.integers(1, pitch)), pitch, rows)
        assert ranges.runs(row) == [start for start in row.starts if model & set(range(start, start + row.run))]


def test_rows_grow_into_one_range() -> None:
    """A tile that is taken row by row, in any order, is one range in the end."""
    ranges = ByteRanges()
    for row in (3, 1, 0, 2):
        ranges.add(64 * row, 64 * row + 64)
    assert len(ranges) == 1
    assert ranges.common(200, 300) == [(200, 256)]
    ranges.remove(100, 200)
    assert ranges.common(0, 300) == [(0, 100), (200, 256)]
