"""Element types: what is accepted, what is refused, and the names."""

from __future__ import annotations

import threading
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from atops.base.dtypes import ELEMENTS, SPELLINGS, as_dtype, element_name, quietly, spelling, strictly
from atops.base.errors import InvalidType
from tests.every import every
from tests.interruption import every_point, interrupted


@every(
    "value, expected",
    [
        (np.dtype(np.int16), np.int16), (np.float32, np.float32), (int, np.int64), (float, np.float64),
        (bool, np.bool_), ("uint8", np.uint8), ("f4", np.float32), ("half", np.float16), ("fp16", np.float16),
        ("__fp16", np.float16), ("fp32", np.float32), ("fp64", np.float64), ("bfloat16", ml_dtypes.bfloat16),
        ("bf16", ml_dtypes.bfloat16), ("__bf16", ml_dtypes.bfloat16), (ml_dtypes.bfloat16, ml_dtypes.bfloat16),
        ("float8_e4m3fn", ml_dtypes.float8_e4m3fn), ("float8_e5m2", ml_dtypes.float8_e5m2),
    ],
)  # fmt: skip
def test_spellings_of_a_type_mean_the_type(value: Any, expected: Any) -> None:
    """Types, dtypes, Python's numbers and names give the numpy dtype."""
    assert as_dtype(value) == np.dtype(expected)


def test_structures_are_element_types() -> None:
    """A structure of plain bytes can be stored, and is named field by field."""
    pair = as_dtype([("index", np.int32), ("weight", np.float32)])
    assert pair.itemsize == 8
    assert "index" in element_name(pair)


@every(
    "value",
    [None, "no such type", "float7", object, dict, [1, 2], 3, "S", "U", "V0", ">f4", "(2,)f4", "O,i4", ("i4", 3)],
)
def test_what_device_memory_cannot_hold_is_refused(value: Any) -> None:
    """The error is a TypeError and names the value."""
    with pytest.raises(InvalidType) as caught:
        as_dtype(value)
    assert isinstance(caught.value, TypeError)
    assert repr(value) in str(caught.value)


def test_every_element_has_a_name_a_size_and_a_spelling() -> None:
    """The table agrees with numpy, and names lead back to their row."""
    for name, row in ELEMENTS.items():
        assert (row.name, element_name(row.dtype), row.bytes) == (name, name, row.dtype.itemsize)
        assert as_dtype(name) == row.dtype
        assert spelling(row.dtype) == row.spelling
        assert SPELLINGS[row.spelling] == row.dtype
    assert {row.bytes for row in ELEMENTS.values()} == {1, 2, 4, 8}


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("float16", "__fp16"), ("bfloat16", "__bf16"), ("uint32", "unsigned int"), ("int8", "char"), ("float32", "float")],
)
def test_tops_spelling(kind: str, expected: str) -> None:
    """TOPS C++ has its own words."""
    assert spelling(kind) == expected


def test_a_type_without_a_tops_spelling_is_refused() -> None:
    """The message names the type."""
    with pytest.raises(InvalidType, match="complex64"):
        spelling(np.complex64)


MANY = np.full(5000, 3e38, np.float32)


def test_computing_is_silent() -> None:
    """Overflow gives its values and no warning, on any OS thread at once, and the caller's setting stays."""

    def body() -> None:
        for _ in range(20):
            results.append(bool(np.isinf(quietly(np.multiply, MANY, MANY)).all()))

    results: list[bool] = []
    threads = [threading.Thread(target=body) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 80
    with pytest.warns(RuntimeWarning, match="overflow"):
        np.multiply(MANY, MANY)


def test_overflow_is_raised() -> None:
    """Where a value must fit, what does not is an error, whatever the caller's setting is."""
    with np.errstate(all="ignore"), pytest.raises(FloatingPointError):
        strictly(np.multiply, MANY, MANY)
    assert strictly(np.add, 1, 2) == 3


@pytest.mark.parametrize("call", [quietly, strictly])
def test_ctrl_c_changes_no_setting(call) -> None:
    """Wherever it comes, numpy's setting is the caller's afterwards."""

    def use() -> None:
        call(np.add, 1, 2)

    before = np.geterr()
    for points in every_point(use):
        interrupted(points, use)
        assert np.geterr() == before
