"""Giving memory back as the C-style functions do: after an implicit synchronisation, and by one caller only."""

from __future__ import annotations

from atops.base.errors import AtopsError, WouldDeadlock
from atops.runtime.device import Device
from atops.runtime.memory.buffer import Buffer
from atops.tops.bridge.pointers import own
from atops.tops.bridge.waiting import until

__all__ = ("give_back",)


async def give_back(buffer: Buffer, *devices: Device) -> None:
    """Wait for all work of some devices, then free `buffer`, which the caller has just disowned.

    A failure of that work, or a wait that is cancelled, does not keep the memory: it goes once nothing uses it. Where
    the wait could never end (in a callback of the device) nothing changes. Raises what the work failed with first,
    WouldDeadlock.
    """
    failure: AtopsError | None = None
    try:
        for device in devices:
            try:
                await until(device)
            except WouldDeadlock:
                raise
            except AtopsError as error:
                failure = failure or error
    except WouldDeadlock:
        own(buffer)
        raise
    except BaseException:
        buffer.close()
        raise
    buffer.close()
    if failure is not None:
        raise failure
