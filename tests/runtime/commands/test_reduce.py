"""The arithmetic of reductions."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from atops.runtime.commands.reduce import OPERATIONS, combine


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_narrow_types_are_computed_in_float32(operation, dtype):
    """Each result is the float32 result rounded once, for many random bit patterns."""
    bits = np.random.default_rng(11).integers(0, 1 << 16, (2, 4096), np.uint16)
    lhs, rhs = bits.view(dtype)
    with np.errstate(all="ignore"):
        wide = OPERATIONS[operation](lhs.astype(np.float32), rhs.astype(np.float32)).astype(dtype)
    found = combine(operation, lhs, rhs)
    assert found.dtype == dtype
    assert np.array_equal(found.astype(np.float32), wide.astype(np.float32), equal_nan=True)


def test_integers_wrap():
    """127 + 1 is -128, and -128 * -1 is itself."""
    top, bottom, one = (np.array([value], np.int8) for value in (127, -128, 1))
    assert combine("sum", top, one)[0] == -128
    assert combine("product", bottom, -one)[0] == -128
