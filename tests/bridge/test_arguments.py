"""Reading plain arguments: what passes, and errors that name the argument and what it must be."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import atops.tops as tops
from atops.base.dims import Dim3
from atops.base.errors import AtopsError, InvalidType, InvalidValue
from atops.base.result_codes import Result
from atops.bridge.arguments import (
    contents_of,
    dims_of,
    flags_in,
    index_in,
    instance,
    member,
    numbers,
    path_of,
    size_of,
    text_of,
    whole,
)
from atops.bridge.codes import CodeError


def test_ints():
    """Ints and int-like objects pass; bools, floats, text and None do not."""
    assert whole(5, "n") == whole(np.uint8(5), "n") == whole(tops.topsMemcpyDefault, "n") + 1 == 5
    for wrong in (True, 1.0, "1", None, np.array([1, 2]), np.bool_(True)):
        with pytest.raises(InvalidType, match="n must be an int, got "):
            whole(wrong, "n")


def test_sizes():
    """A size is what size_t can hold."""
    assert size_of(0) == 0
    assert size_of((1 << 64) - 1) == (1 << 64) - 1
    for wrong in (-1, 1 << 64):
        with pytest.raises(InvalidValue, match="count must be 0 or more, in 64 bits, got"):
            size_of(wrong, "count")


def test_flag_words():
    """Only the permitted bits pass."""
    assert flags_in(3, 7) == 3
    for wrong, permitted, told in ((8, 7, "flags must be bits of 0x7, got 0x8"), (1, 0, "be 0, got"), (-1, 7, "0x7")):
        with pytest.raises(InvalidValue, match=told):
            flags_in(wrong, permitted)


def test_members():
    """A member or its value passes; anything else has the code that the caller names."""
    kind = tops.topsMemcpyKind
    assert member(kind, 1, "kind") is member(kind, kind.topsMemcpyHostToDevice, "kind") is tops.topsMemcpyHostToDevice
    for wrong in (-1, 5, None, "x", 1.0):
        with pytest.raises(AtopsError, match="kind must be a topsMemcpyKind, got ") as caught:
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
    with pytest.raises(InvalidValue, match="the count of dims must be None or 2, their number, got 3"):
        numbers([2, 3], 3, "dims")
    for wrong in (5, "23", None, [1.5]):
        with pytest.raises(InvalidType):
            numbers(wrong, None, "dims")


def test_words_of_fewer_bits():
    """A word has the bits that the caller says."""
    assert size_of((1 << 32) - 1, "value", 32) == (1 << 32) - 1
    with pytest.raises(InvalidValue, match="value must be 0 or more, in 32 bits, got 4294967296"):
        size_of(1 << 32, "value", 32)


def test_indices():
    """An index is below the number of things."""
    assert index_in(np.int8(2), 3, "mc") == 2
    for wrong in (-1, 3):
        with pytest.raises(InvalidValue, match=f"mc must be one of 0 to 2, got {wrong}"):
            index_in(wrong, 3, "mc")


def test_texts():
    """A text or its UTF-8 bytes pass."""
    assert text_of("\N{SNOWMAN}", "name") == text_of("\N{SNOWMAN}".encode(), "name") == "\N{SNOWMAN}"
    with pytest.raises(ValueError, match="utf-8"):
        text_of(b"\xff", "name")
    with pytest.raises(InvalidType, match="name must be a str, got 5"):
        text_of(5, "name")


def test_objects():
    """An argument that must be a struct is returned if it is one."""
    shape = tops.topsShape_t()
    assert instance(shape, tops.topsShape_t, "shape") is shape
    with pytest.raises(InvalidType, match="shape must be a topsShape_t, got None"):
        instance(None, tops.topsShape_t, "shape")


def test_files(tmp_path: Path):
    """A path is text, bytes or path-like; of a file that is too long one byte too many is read."""
    file = tmp_path / "image"
    file.write_bytes(b"abcdef")
    assert path_of(file, "fname") == str(file)
    assert contents_of(str(file), "fname", 6) == b"abcdef"
    assert contents_of(str(file).encode(), "fname", 2) == b"abc"
    for wrong in (None, "", 5):
        with pytest.raises(InvalidType, match="fname must be the path of a file"):
            path_of(wrong, "fname")
    with pytest.raises(CodeError, match=r"cannot read fname .*missing.*: No such file") as caught:
        contents_of(tmp_path / "missing", "fname", 6)
    assert caught.value.code is Result.FileNotFound
