"""Which devices may use a pool's memory, as a table of its own. It knows no memory."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import TypeAlias

from atops.base.errors import InvalidDevice, InvalidValue

__all__ = ("Access", "AccessTable", "Flags", "access_of")


class Access(IntEnum):
    """What a device may do with a pool's memory, with the values of topsMemAccessFlags."""

    none = 0
    read = 1
    readwrite = 3


Flags: TypeAlias = "Access | int | str"


class AccessTable:
    """The rights of `devices` devices to the memory of device `owner`, which has all rights and keeps them."""

    __slots__ = ("_devices", "_granted", "_owner")

    def __init__(self, owner: int, devices: int) -> None:
        self._owner = owner
        self._devices = devices
        self._granted: dict[int, Access] = {}

    def set(self, ordinals: int | Iterable[int], flags: Flags) -> None:
        """Give devices exactly these rights; all of them or none when one cannot be.

        Raises InvalidDevice for an unknown device, more devices than there are, or less than "readwrite" for the owner;
        InvalidValue for other flags.
        """
        access = access_of(flags)
        chosen = [ordinals] if isinstance(ordinals, int) else list(ordinals)
        if len(chosen) > self._devices:
            raise InvalidDevice(f"access for {len(chosen)} devices; the board has {self._devices}")
        for ordinal in chosen:
            self._check(ordinal)
            if ordinal == self._owner and access is not Access.readwrite:
                raise InvalidDevice(f"device {ordinal} owns the pool and keeps 'readwrite', not {access.name!r}")
        self._granted.update(dict.fromkeys(chosen, access))

    def get(self, ordinal: int) -> Access:
        """Return what a device may do. Raises InvalidDevice for an unknown one."""
        self._check(ordinal)
        return Access.readwrite if ordinal == self._owner else self._granted.get(ordinal, Access.none)

    def _check(self, ordinal: int) -> None:
        if not isinstance(ordinal, int) or not 0 <= ordinal < self._devices:
            raise InvalidDevice(f"there is no device {ordinal!r}; 0 to {self._devices - 1} are right")


def access_of(flags: Flags) -> Access:
    """Return the rights by name or by value. Raises InvalidValue."""
    try:
        return Access[flags] if isinstance(flags, str) else Access(flags)
    except (KeyError, ValueError):
        raise InvalidValue(f"access {flags!r}; 'none', 'read' or 'readwrite' is right") from None
