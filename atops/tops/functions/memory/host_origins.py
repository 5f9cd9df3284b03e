"""Where the host memory of the C-style functions came from: which device was current, and whether it was registered."""

from __future__ import annotations

from typing import NamedTuple
from weakref import WeakKeyDictionary

from atops.device.memory.allocation import Allocation

__all__ = ("ORIGINS", "HostOrigin")


class HostOrigin(NamedTuple):
    """The device that was current when host memory was allocated or registered, and which of both it was."""

    device: int
    registered: bool


ORIGINS: WeakKeyDictionary[Allocation, HostOrigin] = WeakKeyDictionary()
