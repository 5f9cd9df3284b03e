"""Calls with numpy's floating-point errors silent, or raised: nobody else's setting changes."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from atops.base.fp_errors import quietly, strictly
from tests.interruption import every_point, interrupted

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
