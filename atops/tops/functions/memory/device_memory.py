"""Device memory: allocated, freed, and asked for its size and place (TOPS Runtime API, 2.6)."""

from __future__ import annotations

from atops.base.errors import InvalidValue, NotSupported, WouldDeadlock
from atops.device.memory.host_memory import SLOT_SHIFT
from atops.runtime.current_driver import current_driver
from atops.runtime.device import Device
from atops.runtime.memory.buffer import Buffer
from atops.tops.bridge.aliases import Alias, add_alias, alias_at, remove_alias
from atops.tops.bridge.arguments import flags_in, size_of
from atops.tops.bridge.call import call
from atops.tops.bridge.context import current_device
from atops.tops.bridge.pointers import (
    address_of,
    bad_pointer,
    device_memory,
    disown,
    find_device,
    give_back,
    is_null,
    known_memory,
    own,
)
from atops.tops.bridge.waiting import until
from atops.tops.types.constants import topsMallocForbidMergeMove, topsMallocPreferHighSpeedMem, topsMallocTopDown

__all__ = (
    "CodecName", "topsExtCodecMemHandle", "topsExtMallocWithFlags", "topsFree", "topsMalloc", "topsMemGetAddressRange",
    "topsMemGetInfo", "topsMemPtrGetInfo",
)  # fmt: skip

FLAGS = topsMallocTopDown | topsMallocForbidMergeMove | topsMallocPreferHighSpeedMem


@call
def topsMalloc(size: int) -> int:
    """Return a pointer to new memory of the current device; size 0 too has one of its own.

    OutOfMemory; InvalidValue: not a size.
    """
    return own(current_device().allocate(size_of(size))).address


@call
def topsExtMallocWithFlags(sizeBytes: int, flags: int) -> int:
    """As topsMalloc, by flags: topsMallocTopDown takes the highest address that fits.

    topsMallocForbidMergeMove is always true, and topsMallocPreferHighSpeedMem has no effect;
    topsPointerGetAttributes tells all flags. OutOfMemory; InvalidValue: not a size, or other flags.
    """
    nbytes = size_of(sizeBytes, "sizeBytes")
    word = flags_in(flags, FLAGS)
    return own(current_device().allocate(nbytes, top_down=bool(word & topsMallocTopDown), flags=word)).address


@call
async def topsFree(ptr: int | None) -> None:
    """Free device memory, after an implicit topsDeviceSynchronize of its device; null is fine.

    InvalidDevicePointer: interior, host or dead pointers, and memory of other functions. A failure that the
    synchronisation finds is answered, and the memory freed all the same; in a callback of the device it is refused.
    """
    driver = current_driver()
    if is_null(ptr):
        return
    address = address_of(ptr, "ptr")
    alias = alias_at(driver, address)
    if alias is not None:
        await _free_name(alias, address)
        return
    allocation = find_device(driver, address, "ptr")
    if address != allocation.address:
        raise bad_pointer(f"ptr must be the first address of {allocation!r}, got {address:#x}")
    if allocation.device is None and not allocation.managed:
        raise bad_pointer(f"ptr {address:#x} is of {allocation!r}; call topsHostFree or topsHostUnregister instead")
    buffer = disown(allocation)
    if buffer is None:
        raise bad_pointer(
            f"ptr {address:#x} is of {allocation!r}, which belongs to the object API (its close() frees it), or which "
            "another call frees now"
        )
    await give_back(buffer, Device(allocation.device, driver))


async def _free_name(alias: Alias, address: int) -> None:
    """Free a second name, if its owner can: scatter memory and codec handles."""
    free = getattr(alias.owner, "free_name", None)
    if free is None or address != alias.address:
        raise bad_pointer(f"ptr {address:#x} is a second name of memory; call the function that ends the name instead")
    try:
        await until(Device((address >> SLOT_SHIFT) >> 1, current_driver()))  # the device in whose space the name is
    except WouldDeadlock:
        raise
    except BaseException:
        free(alias)
        raise
    free(alias)


@call
def topsMemGetInfo() -> tuple[int, int]:
    """Return the free and the total bytes of the current device. InvalidDevice: the board has none."""
    return current_device().memory_info()


@call
def topsMemPtrGetInfo(ptr: int) -> int:
    """Return the size of the memory that a pointer, of whatever kind, points into. InvalidValue: it is unknown."""
    driver = current_device().driver
    address = address_of(ptr, "ptr")
    alias = alias_at(driver, address)
    return known_memory(address).allocation.size if alias is None else alias.size


@call
def topsMemGetAddressRange(dptr: int) -> tuple[int, int]:
    """Return the first address and the size of the memory that a device pointer points into. InvalidDevicePointer."""
    driver = current_driver()
    address = address_of(dptr, "dptr")
    found = alias_at(driver, address) or find_device(driver, address, "dptr")
    return found.address, found.size


WITH_CODEC = 300  # the architecture whose codecs take such names


@call
def topsExtCodecMemHandle(dev_addr: int, size: int) -> int:
    """Return another pointer for `size` bytes at `dev_addr` of the current device; topsFree releases only the name.

    Size 0 too has a pointer of its own. NotSupported: on gcu210. InvalidValue: bytes that are not inside one live
    allocation of the current device. OutOfMemory: no addresses are left.
    """
    device = current_device()
    if device.arch.gcu_arch != WITH_CODEC:
        raise NotSupported(f"{device!r} has no codec memory handles; gcu300 has")
    nbytes = size_of(size)
    memory = device_memory(dev_addr, nbytes, "dev_addr", device=device.ordinal)
    if memory.device is None:
        raise InvalidValue(f"dev_addr must be memory of device {device.ordinal}, got {memory.allocation!r}")
    name = CodecName(memory)
    return add_alias(device.context, nbytes, name.resolve, name).address


class CodecName:
    """A codec's name for a range of one allocation: the same bytes for as long as the memory lives."""

    __slots__ = ("memory",)

    def __init__(self, memory: Buffer) -> None:
        self.memory = memory

    def resolve(self, offset: int, nbytes: int) -> Buffer:
        """Return bytes of the range. Raises CodeError when the memory was freed, InvalidValue beyond the range."""
        if not self.memory.is_live:
            raise bad_pointer(f"a codec's name is of {self.memory!r}, freed by {self.memory.allocation.freed_by}")
        return self.memory[offset : offset + nbytes]

    def free_name(self, alias: Alias) -> None:
        """Release the name, which topsFree was given; the memory stays. Raises CodeError when that was done before."""
        if not remove_alias(current_driver(), alias):
            raise bad_pointer(f"the codec's name {alias.address:#x} was released by another thread")
