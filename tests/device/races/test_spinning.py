"""A thread that loads one place again and again, and awaits nothing: no other thread of its block can change it."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import atops
from atops import kernels as k
from atops.base.errors import LaunchFailure
from atops.base.options import EmulatorOptions
from atops.device.races import thread_races


@k.kernel
async def spin_on_memory(x: Any) -> None:
    """Wait for what the other thread stores, and never let it."""
    if k.threadIdx.x == 0:
        while x[0] == 0:
            pass
    else:
        x[0] = 1


@k.kernel
async def spin_on_a_signal(x: Any) -> None:
    """As before, for a signal."""
    if k.threadIdx.x == 0:
        while k.signal_read(3) == 0:
            pass
    else:
        k.signal_write(3, 1)


@k.kernel
async def sum_one_place(x: Any) -> None:
    """Load one place often, and another one in between."""
    for _ in range(100_000):
        x[1] += x[0]


async def _run(kernel: Any) -> None:
    async with atops.Device(0).create_stream() as stream:
        await stream.launch(kernel, (1, 2 if kernel is not sum_one_place else 1), stream.zeros(4, np.int32))


@pytest.mark.parametrize(
    "kernel, what", [(spin_on_memory, "loaded the same 4 bytes"), (spin_on_a_signal, "read signal 3")]
)
def test_a_thread_that_spins_is_ended(kernel: Any, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The failure names the thread, what it asks for in vain, and what to await instead."""
    monkeypatch.setattr(thread_races, "SPINS", 1)
    with pytest.raises(LaunchFailure, match=rf"thread \(0,0,0\) .*has {what} 50,000 times.*signal_wait"):
        atops.run(partial(_run, kernel), EmulatorOptions(detect=True))


def test_a_thread_that_does_something_else_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """However often it loads one place."""
    monkeypatch.setattr(thread_races, "SPINS", 1)
    atops.run(partial(_run, sum_one_place), EmulatorOptions(detect=True))
