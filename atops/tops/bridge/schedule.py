"""How blocking waits of a device pass their time: the flags of topsSetDeviceFlags, kept per device until its reset."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from atops.runtime.board.context import DeviceContext
from atops.tops.types.constants import topsDeviceScheduleSpin

__all__ = ("flags_of", "set_flags", "spins")

FLAGS: WeakKeyDictionary[DeviceContext, int] = WeakKeyDictionary()


def flags_of(context: DeviceContext) -> int:
    """Return the schedule flag of a device: 0 (topsDeviceScheduleAuto) until it is set."""
    return FLAGS.get(context, 0)


def set_flags(context: DeviceContext, flags: int) -> None:
    """Set the schedule flag of a device."""
    FLAGS[context] = flags


def spins(context: DeviceContext) -> bool:
    """Return whether waits for this device poll. Auto is Yield: they sleep."""
    return FLAGS.get(context) == topsDeviceScheduleSpin
