"""Second names: device addresses beyond a device's own memory, which stand for bytes that lie elsewhere.

A peer region, an imported allocation, scatter memory and a codec's name have such addresses. The maker of a name
resolves it to bytes; this module hands out addresses and finds the name that an address lies in.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

from sortedcontainers import SortedDict

from atops.base.errors import OutOfMemory
from atops.base.fork_locks import fork_safe
from atops.device.memory.allocator.banks import Banks, NoRoom
from atops.device.memory.host_memory import SLOT_SHIFT, device_base
from atops.runtime.board.context import DeviceContext
from atops.runtime.driver import Driver
from atops.runtime.memory.buffer import Buffer

__all__ = ("Alias", "Names", "add_alias", "alias_at", "has_aliases", "remove_alias")

GRANULE: Final = 256


class Alias(NamedTuple):
    """A range of addresses of one device, and what finds the bytes behind it.

    `resolve(offset, nbytes)` returns them as a Buffer or raises: CodeError for what is gone, InvalidValue for a range
    that leaves them. `owner` is the object behind the name: topsFree calls its `free_name`, if it has one, and its
    `memory_type`, if any, is reported in place of the type of the memory behind the name.
    """

    address: int
    size: int
    resolve: Callable[[int, int], Buffer]
    owner: object


class Names:
    """The aliases in the space of one device."""

    def __init__(self, context: DeviceContext) -> None:
        first = device_base(context.ordinal) + context.memory.total
        self.first = first + -first % GRANULE  # addresses in `free` count from here
        self.lock = threading.Lock()
        self.free = Banks(device_base(context.ordinal) + (1 << SLOT_SHIFT) - self.first, 1, GRANULE)
        self.by_address: SortedDict[int, Alias] = SortedDict()


NAMES: WeakKeyDictionary[DeviceContext, Names] = WeakKeyDictionary()  # a reset takes the context, and so all of them
LOCK = fork_safe(threading.Lock())


def add_alias(context: DeviceContext, size: int, resolve: Callable[[int, int], Buffer], owner: object) -> Alias:
    """Give `size` bytes an address of their own in the space of a device; size 0 too. Raises OutOfMemory.

    `resolve` must not keep the device's context alive other than weakly or through a Buffer that is itself removed.
    """
    with LOCK:
        names = NAMES.get(context) or NAMES.setdefault(context, Names(context))
    with names.lock:
        try:
            address = names.first + names.free.allocate(size)
        except NoRoom:
            left = f"device {context.ordinal} has too few addresses left for second names"
            raise OutOfMemory(f"cannot name {size} bytes: {left}") from None
        alias = names.by_address[address] = Alias(address, size, resolve, owner)
    return alias


def alias_at(driver: Driver, address: int) -> Alias | None:
    """Return the alias that an address lies in, or None."""
    if not NAMES:
        return None
    slot = address >> SLOT_SHIFT
    if not slot & 1 or slot >> 1 >= driver.devices:
        return None
    names = NAMES.get(driver.context(slot >> 1))
    if names is None:
        return None
    with names.lock:
        position = names.by_address.bisect_right(address) - 1
        alias = None if position < 0 else names.by_address.peekitem(position)[1]
    return alias if alias is not None and address < alias.address + max(alias.size, 1) else None


def has_aliases() -> bool:
    """Tell whether any device has had one since its reset."""
    return bool(NAMES)


def remove_alias(driver: Driver, alias: Alias) -> bool:
    """Take an alias away. Of several calls at once exactly one returns True."""
    names = NAMES.get(driver.context((alias.address >> SLOT_SHIFT) >> 1))
    if names is None:
        return False
    with names.lock:
        if names.by_address.get(alias.address) is not alias:
            return False
        del names.by_address[alias.address]
        names.free.free(alias.address - names.first, alias.size)
    return True
