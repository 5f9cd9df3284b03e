"""Which indices choose a part without a copy, and which of them leave an array."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atops.base.errors import IllegalAddress
from atops.device.span.indexing import check_bounds, is_basic


@pytest.mark.parametrize("key", [3, np.int8(1), slice(2), ..., None, "field", (1, slice(0, 2)), (..., None), ()])
def test_basic_keys(key: object):
    """Integers, slices, the ellipsis, new axes, field names and tuples of them choose a part."""
    assert is_basic(key)


@pytest.mark.parametrize("key", [True, np.array([1]), [0, 1], (1, [0]), (slice(None), np.array(True)), 1.5, (1, False)])
def test_keys_that_gather(key: object):
    """Masks and index arrays make a copy."""
    assert not is_basic(key)


POSITIONS = st.integers(-12, 12)
EDGES = st.none() | POSITIONS
PARTS = st.one_of(POSITIONS, st.builds(slice, EDGES, EDGES, st.sampled_from([None, 1, 2, -1])))


@given(shape=st.lists(st.integers(0, 6), max_size=3), parts=st.lists(PARTS, max_size=3), at=st.integers(0, 3))
def test_what_passes_is_inside(shape: list[int], parts: list[object], at: int):
    """A key that passes is one numpy takes, and every position it names exists; any other is refused."""
    array = np.zeros(shape)
    key = tuple([*parts[:at], ..., *parts[at:]])
    axes = [*range(min(at, len(parts))), *range(len(shape) - max(0, len(parts) - at), len(shape))]
    fits = len(parts) <= len(shape)
    if fits:
        for part, axis in zip(parts, axes, strict=True):
            extent = shape[axis]
            named = [part] if isinstance(part, int) else [part.start, part.stop]
            last = extent - 1 if isinstance(part, int) else extent
            fits &= all(-extent <= each <= last for each in named if each is not None)
    if fits:
        check_bounds(array, key)
        array[key]
    else:
        with pytest.raises(IllegalAddress, match="dimension"):
            check_bounds(array, key)
