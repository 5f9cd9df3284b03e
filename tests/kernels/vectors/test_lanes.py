"""What numbers and sequences become as lanes, and what is lost to none of them unsaid."""

from __future__ import annotations

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atops.base.errors import InvalidType, InvalidValue
from atops.kernels.vectors.lanes import converted, exact, lanes_of, shift_count
from tests.every import every

FLOAT, HALF, BRAIN = np.dtype(np.float32), np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)
INT, BYTE, LONG, BOOL = np.dtype(np.int32), np.dtype(np.uint8), np.dtype(np.int64), np.dtype(np.bool_)


@every(
    "element, value",
    [(FLOAT, 2), (FLOAT, 0.5), (FLOAT, np.float64(0.25)), (FLOAT, math.inf), (FLOAT, -0.0), (FLOAT, 1 << 24),
     (FLOAT, ml_dtypes.bfloat16(2)), (FLOAT, np.array(2.5)), (HALF, 65504), (BRAIN, 3.0), (BRAIN, np.float32(256)),
     (INT, -(1 << 31)), (INT, 7.0), (INT, np.array(4, np.int16)), (BYTE, 255), (BYTE, np.int64(3)), (BYTE, True),
     (LONG, (1 << 63) - 1), (BOOL, True), (BOOL, np.bool_(False)), (BOOL, 1)],
)  # fmt: skip
def test_a_number_that_fits_is_taken(element: np.dtype, value: object):
    """Ints, floats, bools, numpy scalars and arrays without dimensions become scalars of the element type."""
    made = exact(element, value, "y")
    assert type(made) is element.type and made.item() == value and converted(element, value, "y") == value
    assert math.copysign(1, made) == math.copysign(1, value)


def test_nan_is_a_float():
    """Every float type holds NaN; an int and a bool do not."""
    for element in (FLOAT, HALF, BRAIN):
        assert math.isnan(exact(element, math.nan, "y")) and math.isnan(exact(element, np.float64(math.nan), "y"))
    for element in (INT, BOOL):
        with pytest.raises(InvalidValue, match="y is nan"):
            exact(element, math.nan, "y")


@every(
    "element, value, match",
    [(FLOAT, 0.1, r"0\.1, which float cannot hold exactly; float32\(0\.1\) rounds it"), (FLOAT, 1e300, "which float"),
     (FLOAT, (1 << 24) + 1, "16777217, which float"), (FLOAT, np.int64((1 << 53) + 1), "float"),
     (HALF, 65520, "__fp16"), (BRAIN, 257, r"257, which __bf16 .*bfloat16\(257\)"), (BRAIN, 10**400, "__bf16"),
     (INT, 2.5, r"2\.5, which int cannot hold exactly$"), (INT, 1 << 31, "int"), (INT, math.inf, "int"),
     (BYTE, -1, "-1, which unsigned char"), (BYTE, np.int64(256), "unsigned char"), (LONG, 1 << 63, "long"),
     (BOOL, 2, "bool")],
)  # fmt: skip
def test_a_number_that_does_not_fit_is_refused(element: np.dtype, value: object, match: str):
    """What would be rounded or wrapped is an error that shows the value and the type."""
    with pytest.raises(InvalidValue, match=match):
        exact(element, value, "y of x+y")


@pytest.mark.parametrize("value", ["3", None, 1j, b"1", Fraction(1, 2), object(), np.str_("3"), np.complex64(1), [1]])
def test_what_is_no_number_is_refused(value: object):
    """Only ints, floats and bools are numbers of lanes."""
    for make in (exact, converted, shift_count):
        for element in (FLOAT, INT):
            with pytest.raises(InvalidType, match=r"y of x<<y expects .*a number that (float|int) holds, got"):
                make(element, value, "y of x<<y")


@pytest.mark.slow
@given(st.floats(width=64))
def test_conversion_rounds_as_numpy_does(value: float):
    """A float stored in a float lane is the nearest one; an exact one is the same either way."""
    for element in (FLOAT, HALF, BRAIN):
        lane = np.empty(1, element)
        with np.errstate(all="ignore"):
            lane[0] = converted(element, value, "y")
            expected = np.array([value]).astype(element)[0]
        assert lane[0] == expected or (math.isnan(value) and math.isnan(lane[0]))


def test_conversion_to_integers_loses_nothing():
    """C++ would cut a fraction off; here it is an error."""
    with pytest.raises(InvalidValue, match=r"2\.5, which int cannot hold"):
        converted(INT, 2.5, "y")
    with pytest.raises(InvalidValue, match="which float cannot hold"):
        converted(FLOAT, 10**400, "y")


def test_shift_counts():
    """A count beyond the width is the width, a negative one or a fraction an error."""
    for count in (0, 3, 8, np.uint8(200), np.int64(5), 2.0, True):
        assert shift_count(BYTE, count, "y") == min(count, 8) or type(count) is np.uint8
    assert shift_count(BYTE, 300, "y") == 8 and shift_count(np.dtype(np.uint64), 10**30, "y") == 64
    for count in (-1, 2.5, math.nan, math.inf, np.int8(-3)):
        with pytest.raises(InvalidValue, match="a count of 0 or more"):
            shift_count(BYTE, count, "y")


def test_lanes_are_new_and_of_the_type():
    """A scalar fills, values are copied, rows make several vectors."""
    given_lanes = np.arange(4, dtype=np.float32)
    for values, shape in ((2, (4,)), (given_lanes, (4,)), ([1, 2, 3, 4], (4,)), (np.ones((3, 4), np.float32), (3, 4))):
        made = lanes_of(FLOAT, 4, values, "value")
        assert made.shape == shape and made.dtype == FLOAT and not np.shares_memory(made, values)
    wide = np.array([0, 1, -(1 << 31), (1 << 31) - 1], np.int64)
    assert (lanes_of(INT, 4, wide, "value") == wide).all()
    assert lanes_of(BRAIN, 4, np.array([1, 2, 257, 1e300]), "value").astype(float).tolist() == [1, 2, 256, math.inf]
    assert lanes_of(FLOAT, 4, np.ones(4, BRAIN), "value").dtype == FLOAT
    with pytest.raises(InvalidValue, match="unsigned char cannot hold exactly"):
        lanes_of(BYTE, 4, np.array([0, 1, 2, math.nan]), "value")
    with pytest.raises(InvalidValue, match=r"has shape \(2, 3\); expected \(4,\), or \(count, 4\)"):
        lanes_of(INT, 4, np.zeros((2, 3), np.int32), "value")
