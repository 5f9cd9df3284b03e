"""An `async` device function that is not awaited is reported as a forgotten request, and costs other calls nothing."""

from __future__ import annotations

import asyncio
import gc
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from atops import kernels as k
from atops.base.errors import KernelDeadlock, LaunchFailure, MissingAwait
from tests.kernel_bench import Bench

WORKERS = pytest.mark.parametrize("workers", [1, "sip"])


@k.device
async def meet(value: int = 3) -> int:
    """Meet the block's threads and give a value back."""
    await k.syncthreads()
    return value


@k.host
@k.device
async def everywhere() -> int:
    """Give a value on both sides."""
    return 5


def line_in(function: Callable[..., Any], text: str) -> str:
    """Return the place of a function's line that has `text`, as messages name it."""
    code = function.__code__
    with open(code.co_filename) as file:
        lines = file.read().splitlines()
    found = next(number for number, line in enumerate(lines, 1) if number > code.co_firstlineno and text in line)
    return f"test_device_call.py:{found}"


@pytest.mark.slow
@WORKERS
@pytest.mark.parametrize("how", ["dropped", "kept", "in a plain kernel", "before a request", "of both sides"])
def test_a_call_without_an_await_is_named_with_its_line(make_bench: Callable[..., Bench], workers: Any, how: str):
    """Dropped or kept, it fails the launch at the next request or the end, and Python has nothing to warn of."""

    async def dropped():
        meet(1)

    async def kept():
        call = meet(1)  # noqa: F841  # kept to the end

    def plain():
        meet(1)

    async def before():
        meet(1)
        await k.syncthreads()

    async def both():
        everywhere()

    bodies = {"dropped": dropped, "kept": kept, "in a plain kernel": plain, "before a request": before}
    body = bodies.get(how, both)
    name = "everywhere" if body is both else "meet"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        error = make_bench(workers=workers).attempt(k.kernel(body), (1, 1)).error
        gc.collect()
    assert type(error) is MissingAwait
    said = f"asked for device function {name} at {line_in(body, f'{name}(')} and never awaited it; write `await`"
    assert said in str(error)


def test_a_call_that_is_awaited_gives_its_result(bench: Bench):
    """Results, arguments and their errors are the function's own; a call of a function of both sides too."""
    x = bench.empty(3, np.int32)

    @k.kernel
    async def entry(x):
        x[0] = await meet()
        x[1] = await meet(value=4)
        x[2] = await everywhere()

    bench.launch(entry, (1, 1), x)
    assert x.host.tolist() == [3, 4, 5] and asyncio.run(everywhere()) == 5

    @k.kernel
    async def wrong():
        await meet(1, 2)

    with pytest.raises(LaunchFailure, match=r"raised TypeError: meet\(\) takes from 0 to 1 positional arguments"):
        bench.launch(wrong, (1, 1))


def test_a_deadlock_names_the_line_inside_of_the_function(bench: Bench):
    """Where a thread stands is its innermost await."""

    @k.kernel
    async def uneven():
        if k.threadIdx.x:
            await meet()

    with pytest.raises(KernelDeadlock, match=f"thread 1 waits at syncthreads, {line_in(meet.__wrapped__, 'await')}"):
        bench.launch(uneven, (1, 2))


def test_a_second_thing_that_is_owed_is_a_warning(bench: Bench):
    """A thread owes one request: a call that is dropped while another waits to be awaited is warned of."""

    @k.kernel
    async def entry():
        request = k.syncthreads()
        meet()
        await request

    with pytest.warns(RuntimeWarning, match=r"kernel entry: device function meet at .*never awaited"):
        bench.launch(entry, (1, 1))


def test_a_launch_that_fails_says_why_and_nothing_of_calls(bench: Bench):
    """A call that was not awaited because the kernel raised is no fault."""

    @k.kernel
    async def entry():
        call = meet()
        raise KeyError(call)

    error = bench.attempt(entry, (1, 1)).error
    assert "raised KeyError" in str(error) and not isinstance(error, MissingAwait)
