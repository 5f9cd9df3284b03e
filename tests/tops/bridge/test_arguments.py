"""Reading plain arguments: what passes, and errors that name the argument and what is right."""

from __future__ import annotations

import numpy as np
import pytest

import atops.tops as tops
from atops.base.dims import Dim3
from atops.base.errors import AtopsError, InvalidType, InvalidValue
from atops.base.result_codes import Result
from atops.tops.bridge.arguments import dims_of, flags_in, member, numbers, size_of, whole


def test_ints():
    """Ints and int-like objects pass; bools, floats, text and None do not."""
    assert whole(5, "n") == whole(np.uint8(5), "n") == whole(tops.topsMemcpyDefault, "n") + 1 == 5
    for wrong in (True, 1.0, "1", None, np.array([1, 2]), np.bool_(True)):
        with pytest.raises(InvalidType, match=r"n is .*; an int is right"):
            whole(wrong, "n")


def test_sizes():
    """A size is what size_t can hold."""
    assert size_of(0) == 0
    assert size_of((1 << 64) - 1) == (1 << 64) - 1
    for wrong in (-1, 1 << 64):
        with pytest.raises(InvalidValue, match="count is"):
            size_of(wrong, "count")


def test_flag_words():
    """Only the permitted bits pass."""
    assert flags_in(3, 7) == 3
    for wrong, permitted, right in ((8, 7, "bits of 0x7 are right"), (1, 0, "0 is right"), (-1, 7, "bits of 0x7")):
        with pytest.raises(InvalidValue, match=right):
            flags_in(wrong, permitted)


def test_members():
    """A member or its value passes; anything else has the code that the caller names."""
    kind = tops.topsMemcpyKind
    assert member(kind, 1, "kind") is member(kind, kind.topsMemcpyHostToDevice, "kind") is tops.topsMemcpyHostToDevice
    for wrong in (-1, 5, None, "x", 1.0):
        with pytest.raises(AtopsError, match=r"kind is .*; a topsMemcpyKind is right") as caught:
            member(kind, wrong, "kind", Result.InvalidMemcpyDirection)
        assert caught.value.code is Result.InvalidMemcpyDirection


def test_extents():
    """A dim3, an int and one to three ints are extents of at least 1."""
    assert dims_of(tops.dim3(2, 3), "grid") == dims_of((2, 3), "grid") == Dim3(2, 3, 1)
    assert dims_of(4, "grid") == Dim3(4, 1, 1)
    assert dims_of(np.int32(4), "grid") == dims_of([np.int64(4)], "grid") == dims_of(Dim3(4), "grid") == Dim3(4, 1, 1)
    for wrong in (0, tops.dim3(1, 0, 1), (1, 2, 3, 4), (), None):
        with pytest.raises(AtopsError, match="grid"):
            dims_of(wrong, "grid")
    for wrong in (True, (True,), b"\1", memoryview(b"\1\1"), "1", 1.0, (1, None), {1: 1}, np.array([1, 1])):
        with pytest.raises(InvalidType, match="grid"):
            dims_of(wrong, "grid")


def test_sequences_and_their_counts():
    """A count is None or the length of the sequence beside it."""
    assert numbers([2, 3], None, "dims") == numbers(np.array([2, 3]), 2, "dims") == (2, 3)
    with pytest.raises(InvalidValue, match="dims has 2 elements and its count is 3"):
        numbers([2, 3], 3, "dims")
    for wrong in (5, "23", None, [1.5]):
        with pytest.raises(InvalidType):
            numbers(wrong, None, "dims")
