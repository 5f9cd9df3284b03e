"""What the failure of a launch says: thread, line and cause, each once, and what was expected."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from atops import kernels as k
from atops.base.errors import DteError, IllegalAddress, IllegalState, KernelAssert, LaunchFailure
from tests.device.kernel_host import line_of
from tests.kernel_bench import Bench, benches

THREAD = "thread (0,0,0) of block (0,0,0) of kernel body"


@pytest.fixture
def bench() -> Iterator[Bench]:
    """A gcu210 bench, whose kernels cannot reach global memory."""
    made = benches()
    yield next(made)(arch="gcu210")
    for _ in made:
        pass


def failure_of(bench: Bench, body: Callable[..., object], *arguments: object) -> LaunchFailure:
    """Return what a launch of one thread fails with."""
    error = bench.attempt(k.kernel(body), (1, 1), *arguments).error
    assert isinstance(error, LaunchFailure)
    return error


def test_a_fault_of_the_chip_names_the_thread_once(bench: Bench):
    """Thread, line and cause, in one sentence; the kernel's line is there, whole."""

    def body(x):
        x[0]

    error = failure_of(bench, body, bench.upload(np.zeros(4)))
    line = body.__code__.co_firstlineno + 1
    assert str(error).startswith(f"{THREAD} raised IllegalAddress at test_failures.py:{line} in ")
    assert str(error).count("thread (") == 1
    assert f"({line_of(body, 'x[0]')})" in str(error)
    assert isinstance(error.__cause__, IllegalAddress)


def test_a_message_that_begins_with_the_thread(bench: Bench):
    """It is not named again before it."""

    @k.kernel
    def other():
        """Be called."""

    def body():
        other()

    error = failure_of(bench, body)
    assert isinstance(error.__cause__, IllegalState)
    assert str(error).startswith(f"IllegalState: {THREAD} called kernel other")
    assert str(error).count("thread (") == 1


def test_a_message_that_names_no_thread(bench: Bench):
    """The thread comes first."""

    def body():
        raise KeyError("a key")

    error = failure_of(bench, body)
    assert str(error).startswith(f"{THREAD} raised KeyError: 'a key' (")

    def silent():
        raise KeyError

    assert "raised KeyError (" in str(failure_of(bench, silent))


def test_a_fault_of_the_dte_names_the_thread_once(bench: Bench):
    """Errors that are launch failures themselves keep class and text."""

    def body():
        with k.dte_scope() as dte:
            k.memcpy(dte, k.local(1, np.float32), k.local(2, np.float32))

    error = failure_of(bench, body)
    assert type(error) is DteError
    assert str(error).count("thread (") == 1


ADVICE = "a synchronous DTE operation is over when it returns and needs no await: k.memcpy_async is what is awaited"


def test_awaiting_a_synchronous_operation(bench: Bench):
    """Python says that None cannot be awaited; the failure says what to do."""

    async def body():
        a, b = k.local(4, np.float32), k.local(4, np.float32)
        with k.dte_scope() as dte:
            await k.memcpy(dte, a, b)

    error = failure_of(bench, body)
    assert "raised TypeError" in str(error)
    assert str(error).endswith(f"; {ADVICE}")
    assert line_of(body, "await k.memcpy") in str(error)


@pytest.mark.parametrize("what", [5, k.syncthreads, [1]], ids=["number", "function", "list"])
def test_awaiting_what_is_no_awaitable(bench: Bench, what: object):
    """A number or a barrier that was not called: kernels await requests. Nothing is said of the DTE."""

    async def body():
        await what

    error = failure_of(bench, body)
    assert "kernels may only await kernel requests" in str(error)
    assert "DTE" not in str(error)


def test_a_type_error_of_another_kind_gets_no_advice(bench: Bench):
    """Advice is for awaits only."""

    def body():
        return None + 1

    said = r"raised TypeError: unsupported operand.*test_failures.py:\d+\)$"
    assert re.search(said, str(failure_of(bench, body)))


def test_what_numpy_asserts_stands_in_the_kernels_line(bench: Bench):
    """A check of numpy's that fails is an assertion of the kernel, at the line that calls it."""

    def body():
        np.testing.assert_array_equal([1, 2], [1, 3])

    error = failure_of(bench, body)
    assert type(error) is KernelAssert
    assert str(error).startswith(f"{THREAD} at test_failures.py:{body.__code__.co_firstlineno + 1} in ")
    assert "Mismatched elements" in str(error)
