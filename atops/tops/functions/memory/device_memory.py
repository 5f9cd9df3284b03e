"""Device memory: allocated, freed, and asked for its size and place (TOPS Runtime API, 2.6)."""

from __future__ import annotations

from atops.base.errors import WouldDeadlock
from atops.device.memory.host_memory import SLOT_SHIFT
from atops.runtime.current_driver import current_driver
from atops.runtime.device import Device
from atops.tops.bridge.aliases import Alias, alias_at
from atops.tops.bridge.arguments import flags_in, size_of
from atops.tops.bridge.call import call
from atops.tops.bridge.context import current_device
from atops.tops.bridge.pointers import address_of, bad_pointer, disown, find_device, is_null, known_memory, own
from atops.tops.bridge.waiting import until
from atops.tops.functions.memory.free_waits import give_back
from atops.tops.types.constants import topsMallocForbidMergeMove, topsMallocPreferHighSpeedMem, topsMallocTopDown

__all__ = (
    "topsExtMallocWithFlags",
    "topsFree",
    "topsMalloc",
    "topsMemGetAddressRange",
    "topsMemGetInfo",
    "topsMemPtrGetInfo",
)

FLAGS = topsMallocTopDown | topsMallocForbidMergeMove | topsMallocPreferHighSpeedMem


@call
def topsMalloc(size: int) -> int:
    """Return a pointer to new memory of the current device; size 0 too has one of its own.

    OutOfMemory; InvalidValue: no size.
    """
    return own(current_device().allocate(size_of(size))).address


@call
def topsExtMallocWithFlags(sizeBytes: int, flags: int) -> int:
    """As topsMalloc, by flags: topsMallocTopDown takes the highest address that fits.

    topsMallocForbidMergeMove is always true, and no chip has the memory that topsMallocPreferHighSpeedMem prefers;
    topsPointerGetAttributes tells them all. OutOfMemory; InvalidValue: no size, or other flags.
    """
    nbytes = size_of(sizeBytes, "sizeBytes")
    word = flags_in(flags, FLAGS)
    return own(current_device().allocate(nbytes, top_down=bool(word & topsMallocTopDown), flags=word)).address


@call
async def topsFree(ptr: int | None) -> None:
    """Free device memory, after an implicit topsDeviceSynchronize of its device; null is fine.

    InvalidDevicePointer: interior, host or dead pointers, and what other functions own. What the synchronisation
    finds is answered, and the memory freed all the same; in a callback of the device the call is refused.
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
        raise bad_pointer(f"ptr {address:#x} is inside {allocation!r}; its first address is right")
    if allocation.device is None and not allocation.managed:
        raise bad_pointer(f"ptr {address:#x} is of {allocation!r}; topsHostFree, or topsHostUnregister, is right")
    buffer = disown(allocation)
    if buffer is None:
        raise bad_pointer(
            f"ptr {address:#x} is of {allocation!r}, which the object API owns (its close() frees it), or which "
            "another call frees now"
        )
    await give_back(buffer, Device(allocation.device, driver))


async def _free_name(alias: Alias, address: int) -> None:
    """Let the maker of a second name free it, as scatter memory and codec handles can."""
    free = getattr(alias.owner, "free_name", None)
    if free is None or address != alias.address:
        raise bad_pointer(f"ptr {address:#x} is a second name of memory; the function that ends such a name is right")
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
