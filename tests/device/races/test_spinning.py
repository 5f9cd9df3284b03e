"""A thread that loads one place again and again, and awaits nothing: no other thread of its block can change it."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import numpy as np
import pytest

import atops
from atops import kernels as k
from atops.base.options import EmulatorOptions
from atops.device.races import thread_races


@k.kernel
async def asks_memory(x: Any) -> None:
    """Load one place often, and nothing else."""
    for _ in range(70_000):
        x[0]


@k.kernel
async def asks_a_signal(x: Any) -> None:
    """As before, for a signal."""
    for _ in range(70_000):
        k.signal_read(3)


@k.kernel
async def sums_one_place(x: Any) -> None:
    """Load one place often, and another one in between."""
    for _ in range(40_000):
        x[1] += x[0]


async def _run(kernel: Any) -> None:
    async with atops.Device(0).create_stream() as stream:
        await stream.launch(kernel, (1, 1), stream.zeros(4, np.int32))


@pytest.mark.slow
@pytest.mark.parametrize(
    "kernel, what",
    [
        (asks_memory, r"at test_spinning.py:\d+ in asks_memory has loaded the same 4 bytes 50,000 times"),
        (asks_a_signal, "has read signal 3 50,000 times"),
        (sums_one_place, None),
    ],
)
def test_a_thread_that_seems_to_spin_is_told_of(
    kernel: Any, what: str | None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Once, with its line and what to await instead; it goes on, for what it does on its own is not seen."""
    monkeypatch.setattr(thread_races, "SPINS", 1)
    atops.run(partial(_run, kernel), EmulatorOptions(detect=True))
    told = [record.getMessage() for record in caplog.records if record.name == "atops.kernel"]
    assert len(told) == (what is not None)
    if what is not None:
        assert re.match(rf"thread \(0,0,0\) of block \(0,0,0\) .* {what} in a row: if it spins, .*signal_wait", told[0])
