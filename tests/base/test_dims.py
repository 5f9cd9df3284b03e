"""Three-dimensional extents: how they are made and counted."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

from atops.base.dims import Dim3
from atops.base.errors import InvalidType, InvalidValue


@pytest.mark.parametrize(
    ("value", "expected"),
    [(5, (5, 1, 1)), (np.int32(5), (5, 1, 1)), ((2, 3), (2, 3, 1)), ([2, 3, 4], (2, 3, 4)), (Dim3(7), (7, 1, 1))],
)
def test_missing_dimensions_are_one(value: Any, expected: tuple[int, int, int]) -> None:
    """An extent is an int or one to three ints."""
    assert Dim3.of(value) == expected


@pytest.mark.parametrize("value", [(), (1, 2, 3, 4), 0, (3, -1), (1, 0, 1)])
def test_impossible_extents_are_refused(value: Any) -> None:
    """The message says what the extent was for."""
    with pytest.raises(InvalidValue, match="grid"):
        Dim3.of(value, "grid")


@pytest.mark.parametrize("value", ["2", 1.5, (2, "3"), None])
def test_what_is_no_extent_is_refused(value: Any) -> None:
    """Neither text nor fractions count anything."""
    with pytest.raises(InvalidType, match="block"):
        Dim3.of(value, "block")


@pytest.mark.parametrize(
    ("values", "error", "why"),
    [
        ((-1,), InvalidValue, r"\(-1, 1, 1\); each dimension is at least 1"),
        ((2, 0), InvalidValue, "at least 1"),
        ((2, 2, -5), InvalidValue, "at least 1"),
        ((1.5,), InvalidType, "1.5"),
        (("2",), InvalidType, "'2'"),
        ((None,), InvalidType, "None"),
    ],
)
def test_the_constructor_refuses_them_too(values: Any, error: type[Exception], why: str) -> None:
    """An extent that cannot be is refused where it is written, not where it is used."""
    with pytest.raises(error, match=f"Dim3.*{why}"):
        Dim3(*values)


def test_an_extent_is_a_tuple_of_ints() -> None:
    """It equals, hashes and unpacks as a tuple, takes names, and survives copies."""
    extent = Dim3(np.int64(4), z=2)
    assert extent == (4, 1, 2) and hash(extent) == hash((4, 1, 2)) and type(extent.x) is int
    assert repr(extent) == "Dim3(x=4, y=1, z=2)"
    assert pickle.loads(pickle.dumps(extent)) == copy.copy(extent) == extent
    assert type(copy.copy(extent)) is Dim3


def test_x_runs_fastest() -> None:
    """Position and index are each other's inverse, in the order in which indices are yielded."""
    extent = Dim3(3, 2, 2)
    indices = list(extent.indices())
    assert indices[:4] == [(0, 0, 0), (1, 0, 0), (2, 0, 0), (0, 1, 0)]
    assert len(indices) == extent.volume == 12
    assert [extent.linear(index) for index in indices] == list(range(12))
    assert [extent.index(position) for position in range(12)] == indices
