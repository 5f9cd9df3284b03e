"""Assertions in kernels: what they are called, where they stand, and that they stop the launch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from atops import kernels as k
from atops.base.errors import KernelAssert, LaunchFailure
from atops.base.result_codes import Result
from atops.kernels.output import assert_
from tests.kernel_bench import Bench


@k.kernel
def calls(limit):
    """Assert by a call."""
    me = k.threadIdx.x
    assert_(me < limit, f"{me} is too much")


@k.kernel
def calls_by_name(limit):
    """Assert by a call with names, over two lines."""
    assert_(
        message="why",
        condition=k.threadIdx.x
        < limit,
    )  # fmt: skip


@k.kernel
def states(limit):
    """Assert by Python's statement."""
    assert k.threadIdx.x < limit, "stated"


@k.device
def checks(value, limit):
    """Assert for a kernel."""
    assert_(value < limit)


@k.kernel
async def lets_check(limit):
    """Assert in a function that is called, while others wait."""
    if k.threadIdx.x == 2:
        checks(k.threadIdx.x, limit)
    await k.syncthreads()


FAILING: dict[str, tuple[Any, int, str]] = {
    "a call": (calls, 4, r"`me < limit` failed: 2 is too much"),
    "a call with names": (calls_by_name, 3, r"`k.threadIdx.x < limit` failed: why"),
    "a statement": (states, 3, r"`k.threadIdx.x < limit` failed: stated"),
    "a device function": (lets_check, 0, r"`value < limit` failed"),
}
LINES = {"a device function": checks.__wrapped__.__code__.co_firstlineno + 3}


@pytest.mark.parametrize("workers", [1, "sip"])
@pytest.mark.parametrize("case", FAILING)
def test_a_condition_that_does_not_hold(make_bench: Callable[..., Bench], case: str, workers: int | str):
    """The launch ends with topsErrorAssert; the message has the condition as written, line, block and thread."""
    kernel, after, why = FAILING[case]
    line = LINES.get(case, kernel.function.__code__.co_firstlineno + after)
    with pytest.raises(KernelAssert, match=why) as caught:
        make_bench(workers=workers).launch(kernel, (1, 3), 2)
    error = caught.value
    assert (error.code, error.block, error.thread) == (Result.Assert, (0, 0, 0), (2, 0, 0))
    assert f"thread (2,0,0) of block (0,0,0) of kernel {kernel.name} at test_assert.py:{line} in" in str(error)
    assert isinstance(error, LaunchFailure) and isinstance(error.__cause__, AssertionError)
    assert error.fresh().code is Result.Assert


@pytest.mark.parametrize("case", FAILING)
def test_a_condition_that_holds(bench: Bench, case: str):
    """Nothing happens."""
    assert bench.attempt(FAILING[case][0], (2, 3), 3).error is None


def test_the_cause_is_the_kernel_s_own_exception(bench: Bench):
    """Its traceback begins in the kernel, for a statement and in a function that it calls."""
    with pytest.raises(KernelAssert) as caught:
        bench.launch(lets_check, (1, 3), 1)
    names, frames = [], caught.value.__cause__.__traceback__
    while frames is not None:
        names.append(frames.tb_frame.f_code.co_name)
        frames = frames.tb_next
    assert names[0] == "lets_check" and "checks" in names


def test_the_other_threads_are_stopped(bench: Bench):
    """Waiting threads are closed; the launch has one error, the first."""
    closed: list[int] = []

    @k.kernel
    async def all_fail():
        try:
            await k.syncthreads()
            assert_(False)
        finally:
            closed.append(k.threadIdx.x)

    grid = bench.attempt(all_fail, (1, 4))
    assert isinstance(grid.error, KernelAssert) and grid.error.thread == (0, 0, 0)
    assert "`False` failed" in str(grid.error)
    assert sorted(closed) == [0, 1, 2, 3]


def test_an_assertion_error_of_a_library(bench: Bench):
    """It is one too: there is no condition to show, but its own words."""

    @k.kernel
    def compares():
        np.testing.assert_array_equal([1, 2], [1, 3])

    with pytest.raises(KernelAssert, match=r"assertion failed: \n?.*Arrays are not equal"):
        bench.launch(compares, (1, 1))


def test_a_caught_assertion_is_none(bench: Bench):
    """A kernel may catch it, as any exception."""

    @k.kernel
    def careful():
        with pytest.raises(AssertionError, match="`1 > 2` failed"):
            assert_(1 > 2)

    bench.launch(careful, (1, 1))


def test_on_the_host():
    """In a function of both sides it is a plain AssertionError."""
    assert_(True)
    with pytest.raises(AssertionError, match=r"test_assert.py:\d+ in .*assertion `\[\]` failed: nothing") as caught:
        assert_([], "nothing")
    assert not isinstance(caught.value, KernelAssert)
