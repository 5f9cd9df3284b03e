"""What a report advises: the order that the program has in mind, whichever of the two happened to run first."""

from __future__ import annotations

import numpy as np

import atops
from atops import kernels as k
from atops.base.options import EmulatorOptions


@k.kernel
def slow() -> None:
    """Take long."""
    k.cost(flops=1_000_000)


async def reuse() -> None:
    """Load a buffer again that a slow stream still has to fetch; the second load runs before that fetch."""
    device = atops.Device(0)
    async with device.create_stream(name="load") as load, device.create_stream(name="save") as save:
        slot = load.zeros(4, np.int32)
        save.wait(load.record())
        save.launch(slow, (1, 1))
        result = save.fetch(slot)
        load.fill(slot, 2)
        assert (await result)[0] == 2


def test_the_command_that_was_enqueued_first_comes_first():
    """So the one that reuses the buffer is told to wait for the one that reads it, and not the other way round."""
    atops.run(reuse, EmulatorOptions(detect=True, clock="virtual"))
    (race,) = atops.report().races
    assert (race.first.actor, race.second.actor) == ("save", "load")
    assert "event = save.record(); load.wait(event)" in race.advice
