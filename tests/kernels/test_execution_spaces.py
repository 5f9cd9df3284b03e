"""From where a function may be called: host, device, both; kernels are never called."""

from __future__ import annotations

import asyncio
import functools
import sys

import numpy as np
import pytest

from atops import kernels as k
from atops.base.errors import IllegalState, InvalidType, LaunchFailure
from atops.kernels.execution_spaces import ExecutionSpace, device, execution_space, host
from tests.kernel_bench import Bench


def twice(x):
    """Twice x."""
    return 2 * x


def test_a_host_function_is_the_hosts(bench: Bench):
    """The host calls it; a kernel that does fails, naming thread, kernel, line and function."""
    log = host(twice)
    assert log(2) == 4 and log.__doc__ == "Twice x."

    @k.kernel
    def wrong():
        if k.threadIdx.x == 1:
            log(2)  # here

    said = (
        r"thread \(1,0,0\) of block \(0,0,0\) of kernel wrong raised IllegalState at test_execution_spaces.py:\d+ .*: "
        "host function twice"
    )
    with pytest.raises(LaunchFailure, match=said) as caught:
        bench.launch(wrong, (1, 2))
    assert isinstance(caught.value.__cause__, IllegalState)


def test_a_device_function_is_the_devices(bench: Bench):
    """Kernels and device functions call it, the host is refused."""
    x = bench.empty(1, np.int32)
    inner = device(twice)
    outer = device(lambda value: inner(value) + 1)

    @k.kernel
    def call(x):
        x[0] = outer(10)

    bench.launch(call, (1, 1), x)
    assert x.host[0] == 21
    with pytest.raises(IllegalState, match="device function twice was called on the host"):
        inner(1)


@pytest.mark.parametrize("both", [lambda f: host(device(f)), lambda f: device(host(f))], ids=["host outside", "inside"])
def test_both_together_are_both(bench: Bench, both):
    """A function that is host and device is called from both sides, in whichever order it was decorated."""
    double = both(twice)
    assert double(3) == 6 and double.__name__ == "twice"
    assert execution_space(double) == ExecutionSpace.HOST | ExecutionSpace.DEVICE
    x = bench.empty(1, np.int32)

    @k.kernel
    def call(x):
        x[0] = double(4)

    bench.launch(call, (1, 1), x)
    assert x.host[0] == 8


def test_a_decorator_in_between_keeps_the_inner_space():
    """Only the function itself gains a space: what wraps a device function is not taken for it."""

    def wrapped(function):
        @functools.wraps(function)
        def call(*args):
            return function(*args)

        return call

    with pytest.raises(IllegalState, match="called on the host"):
        host(wrapped(device(twice)))(1)


def test_an_async_host_function_is_awaited():
    """The host awaits what it returns."""

    @host
    async def later():
        return 5

    assert asyncio.run(later()) == 5


@pytest.mark.parametrize("space", [host, device, lambda f: host(device(f))], ids=["host", "device", "both"])
def test_a_kernel_has_no_other_space(space):
    """A kernel is neither host nor device, in either order, and a cooperative one is no more."""
    for make in (k.kernel, k.cooperative, k.kernel(cooperative=True)):
        with pytest.raises(InvalidType, match=r"is @(host|device).* already; a kernel has no other"):
            make(space(twice))
        with pytest.raises(InvalidType, match=r"<.*kernel twice\(x\)> cannot be @(host|device) as well"):
            space(make(twice))


@pytest.mark.parametrize("space", [host, device])
@pytest.mark.parametrize("what", [3, print, None, int])
def test_what_is_no_function_is_refused(space, what: object):
    """Numbers, builtins and classes have no execution space."""
    with pytest.raises(InvalidType, match="expects a function, got"):
        space(what)


def test_spaces_are_spelled_as_they_are_written():
    """A space's text is its decorators; functions without one have none."""
    both = ExecutionSpace.HOST | ExecutionSpace.DEVICE
    assert [str(each) for each in (*ExecutionSpace, both)] == ["@host", "@device", "@kernel", "@host @device"]
    assert execution_space(twice) is None and execution_space(k.kernel(twice)) is ExecutionSpace.GLOBAL


@pytest.mark.slow
def test_a_recursive_device_function_is_collected():
    """Marking a function keeps nothing alive: a local one goes with its scope."""
    import gc
    import weakref

    def scope():
        @device
        def fact(n):
            return 1 if n == 0 else n * fact(n - 1)

        return weakref.ref(fact)

    gone = scope()
    gc.collect()
    assert gone() is None and sys.getrefcount(twice) < 100
