"""Memory of devices, and host memory that devices reach (TOPS Runtime API, 2.6); banks and the prefetch buffer (2.11).

gcu300 has an L2 prefetch buffer; elsewhere the functions of the cache succeed without effect. Strict mode reports what
is read after it was written, without an invalidation in between.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from atops.base.errors import InvalidValue, NotSupported
from atops.base.result_codes import Result
from atops.bridge.arguments import flags_in, index_in, listed, member, size_of, whole
from atops.bridge.codes import CodeError
from atops.bridge.handles import current_board, current_device, live
from atops.bridge.pointers import (
    Alias,
    add_alias,
    address_of,
    alias_at,
    bad_pointer,
    bytes_at,
    device_memory,
    disown,
    find_device,
    find_host,
    free_after,
    give_back,
    host_pointer,
    is_device_address,
    is_null,
    lendable,
    own,
    reached_memory,
    remove_alias,
)
from atops.device.arch import Architecture
from atops.device.memory.allocation import Allocation
from atops.device.memory.host_memory import SLOT_SHIFT
from atops.device.memory.memory_reports import BankStatistics
from atops.runtime.device import Device
from atops.runtime.memory.buffer import Buffer
from atops.runtime.memory.copy_ends import host_bytes
from atops.runtime.memory.prefetch import PrefetchBuffer
from atops.runtime.resources.bundle import ResourceBundle, bundle_of
from atops.runtime.resources.placement import near_banks
from atops.tops.functions.api import call
from atops.tops.header.constants import (
    topsExtHostRegisterCoarseGrained,
    topsHostMallocCoherent,
    topsHostMallocMapped,
    topsHostMallocNonCoherent,
    topsHostMallocNumaUser,
    topsHostMallocPortable,
    topsHostMallocWriteCombined,
    topsHostRegisterIoMemory,
    topsHostRegisterMapped,
    topsHostRegisterPortable,
    topsMallocForbidMergeMove,
    topsMallocPreferHighSpeedMem,
    topsMallocTopDown,
)
from atops.tops.header.enumerations import (
    topsMemAccessFlags,
    topsMemAllocationHandleType,
    topsMemoryType,
    topsPointer_attribute,
)
from atops.tops.header.structs import topsPointerAttribute_t

__all__ = (
    "ORIGINS", "topsDrvPointerGetAttributes", "topsExtCodecMemHandle", "topsExtGetMcAvailableMemSize",
    "topsExtMallocWithAffinity", "topsExtMallocWithBank", "topsExtMallocWithBankV2", "topsExtMallocWithFlags",
    "topsFree", "topsGetAffinityBankList", "topsGetAffinityBankListV2", "topsGetMemUsageInfo", "topsHostFree",
    "topsHostGetDevicePointer", "topsHostGetFlags", "topsHostMalloc", "topsHostRegister", "topsHostUnregister",
    "topsMalloc", "topsMemCacheInvalidate", "topsMemCachePrefetch", "topsMemGetAddressRange", "topsMemGetInfo",
    "topsMemGetInfoExt", "topsMemPtrGetInfo", "topsPointerGetAttribute", "topsPointerGetAttributes",
)  # fmt: skip

# ---- device memory

BANK_FLAGS: Final = topsMallocTopDown | topsMallocForbidMergeMove
DEVICE_FLAGS: Final = BANK_FLAGS | topsMallocPreferHighSpeedMem
GCU300: Final = 300  # the architecture with codecs that take names, and with a prefetch buffer


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
    return _allocate(sizeBytes, None, flags, DEVICE_FLAGS, "sizeBytes")


def _allocate(
    size: object, bank: int | None, flags: object, permitted: int = BANK_FLAGS, what: str = "the size"
) -> int:
    nbytes, word = size_of(size, what), flags_in(flags, permitted)
    down = bool(word & topsMallocTopDown)
    return own(current_device().allocate(nbytes, bank=bank, top_down=down, flags=word)).address


@call
async def topsFree(ptr: int | None) -> None:
    """Free device memory, after an implicit topsDeviceSynchronize of its device; null is fine.

    InvalidDevicePointer: interior, host or dead pointers, and memory of other functions. A failure that the
    synchronisation finds is answered, and the memory freed all the same; in a callback of the device it is refused.
    """
    board = current_board()
    if is_null(ptr):
        return
    address = address_of(ptr, "ptr")
    alias = alias_at(board, address)
    if alias is not None:
        await _free_name(alias, address)
        return
    allocation = find_device(board, address, "ptr")
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
    await give_back(buffer, Device(allocation.device))


async def _free_name(alias: Alias, address: int) -> None:
    """Free a second name, if its owner can: scatter memory and codec handles."""
    free = getattr(alias.owner, "free_name", None)
    if free is None or address != alias.address:
        raise bad_pointer(f"ptr {address:#x} is a second name of memory; call the function that ends the name instead")
    home = Device((address >> SLOT_SHIFT) >> 1)  # in whose space the name is
    await free_after(partial(free, alias), home)


@call
def topsMemGetInfo() -> tuple[int, int]:
    """Return the free and the total bytes of the current device. InvalidDevice: the board has none."""
    return current_device().memory_info()


@call
def topsMemPtrGetInfo(ptr: int) -> int:
    """Return the size of the memory that a pointer, of whatever kind, points into. InvalidValue: it is unknown."""
    board = current_board()
    current_device()  # there is one
    address = address_of(ptr, "ptr")
    alias = alias_at(board, address)
    return reached_memory(address, 0, "ptr").allocation.size if alias is None else alias.size


@call
def topsMemGetAddressRange(dptr: int) -> tuple[int, int]:
    """Return the first address and the size of the memory that a device pointer points into. InvalidDevicePointer."""
    board = current_board()
    address = address_of(dptr, "dptr")
    found = alias_at(board, address) or find_device(board, address, "dptr")
    return found.address, found.size


@call
def topsExtCodecMemHandle(dev_addr: int, size: int) -> int:
    """Return another pointer for `size` bytes at `dev_addr` of the current device; topsFree releases only the name.

    Size 0 too has a pointer of its own. NotSupported: on gcu210. InvalidValue: bytes that are not inside one live
    allocation of the current device. OutOfMemory: no addresses are left.
    """
    device = current_device()
    if device.arch.gcu_arch != GCU300:
        raise NotSupported(f"{device!r} has no codec memory handles; gcu300 has")
    nbytes = size_of(size)
    memory = device_memory(dev_addr, nbytes, "dev_addr", device=device.ordinal)
    if memory.device_id is None:
        raise InvalidValue(f"dev_addr must be memory of device {device.ordinal}, got {memory.allocation!r}")
    name = _CodecName(memory)
    return add_alias(device.context, nbytes, name.resolve, name).address


class _CodecName:
    """A codec's name for a range of one allocation: the same bytes for as long as the memory lives."""

    __slots__ = ("memory",)

    def __init__(self, memory: Buffer) -> None:
        self.memory = memory

    def resolve(self, offset: int, nbytes: int) -> Buffer:
        """Return bytes of the range. Raises CodeError when the memory was freed, InvalidValue beyond the range."""
        if not self.memory.is_live:
            raise bad_pointer(f"a codec's name is of {self.memory!r}, freed by {self.memory.allocation.freed_by}")
        if offset + nbytes > self.memory.nbytes:
            raise InvalidValue(f"bytes {offset} to {offset + nbytes} of a codec's name for {self.memory!r}; too many")
        return self.memory[offset : offset + nbytes]

    def free_name(self, alias: Alias) -> None:
        """Release the name, which topsFree was given; the memory stays. Raises CodeError when that was done before."""
        if not remove_alias(current_board(), alias):
            raise bad_pointer(f"the codec's name {alias.address:#x} was released by another thread")


# ---- host memory

MALLOC_COHERENCE = topsHostMallocCoherent | topsHostMallocNonCoherent
MALLOC_FLAGS = (
    topsHostMallocPortable | topsHostMallocMapped | topsHostMallocWriteCombined | topsHostMallocNumaUser
    | MALLOC_COHERENCE
)  # fmt: skip
REGISTER_FLAGS = (
    topsHostRegisterPortable | topsHostRegisterMapped | topsHostRegisterIoMemory | topsExtHostRegisterCoarseGrained
)


@call
def topsHostMalloc(size: int, flags: int) -> int:
    """Return a host pointer to new pinned memory that every device reaches; 0 (null) for size 0.

    `host_view` gives its bytes as an array. All of it is mapped, portable and coherent; topsHostGetFlags tells the
    flags. OutOfMemory; InvalidValue: not a size, other flags, or Coherent and NonCoherent at once.
    """
    nbytes = size_of(size)
    word = flags_in(flags, MALLOC_FLAGS)
    if word & MALLOC_COHERENCE == MALLOC_COHERENCE:
        raise InvalidValue(f"flags must not have Coherent and NonCoherent at once, got {word:#x}")
    device = current_device()
    if nbytes == 0:
        return 0
    array = device.host_malloc(nbytes, flags=word)
    _keep(array, device, registered=False)
    return array.host_address


@call
def topsHostGetDevicePointer(hostPtr: object, flags: int) -> int:
    """Return the device pointer for a pointer into pinned or registered memory. It is the same on every device.

    InvalidValue: other memory, or flags that are not 0.
    """
    flags_in(flags, 0)
    host, offset = find_host(hostPtr, "hostPtr")
    return host.address + offset


@call
def topsHostGetFlags(hostPtr: object) -> int:
    """Return the flags that pinned memory was allocated with, or registered. InvalidValue: other memory."""
    host, _ = find_host(hostPtr, "hostPtr")
    if host.managed:
        raise InvalidValue(f"hostPtr must be in memory of topsHostMalloc or topsHostRegister, got {host!r}")
    return host.flags


@call
def topsHostRegister(hostPtr: object, sizeBytes: int, flags: int) -> None:
    """Let devices reach host memory: a writable array or buffer, or an address, whose memory the caller keeps.

    It is mapped and portable, whatever the flags; topsExtHostRegisterCoarseGrained has no effect. OutOfMemory;
    InvalidValue: null, read-only or not memory, size 0 or too large, other flags; HostMemoryAlreadyRegistered: some of
    it is; NotSupported: topsHostRegisterIoMemory.
    """
    nbytes = size_of(sizeBytes, "sizeBytes")
    word = flags_in(flags, REGISTER_FLAGS)
    if word & topsHostRegisterIoMemory:
        raise CodeError(Result.NotSupported, "topsHostRegisterIoMemory is not supported: there is no such memory here")
    if is_null(hostPtr) or nbytes == 0:
        raise InvalidValue(f"expected 1 byte or more at a pointer that is not null, got {nbytes} at {hostPtr!r}")
    device = current_device()
    if hasattr(hostPtr, "__index__") and not isinstance(hostPtr, np.ndarray):
        address = whole(hostPtr, "hostPtr")
        if is_device_address(current_board(), address):  # its bytes may be mapped in this process, but not for long
            raise InvalidValue(f"hostPtr must be host memory, got {address:#x}, an address of device memory")
        found = bytes_at(address, nbytes)
    else:
        view = host_bytes(hostPtr, "hostPtr")
        if nbytes > view.nbytes:
            raise InvalidValue(f"sizeBytes must be at most {view.nbytes}, the size of hostPtr, got {nbytes}")
        found = np.frombuffer(view[:nbytes], np.uint8)
    _keep(device.register(found, flags=word), device, registered=True)


@call
async def topsHostUnregister(hostPtr: object) -> None:
    """End a registration, by its first address, array or buffer, once the work that all devices have now is over.

    InvalidValue: null, or not a pointer; HostMemoryNotRegistered: topsHostRegister was not called for it.
    """
    if is_null(hostPtr):
        raise InvalidValue("hostPtr must be a pointer given to topsHostRegister, got null")
    ours, board = current_device(), current_board()
    others = (board.device(ordinal) for ordinal in range(board.devices) if ordinal != ours.ordinal)
    await give_back(_taken(hostPtr, registered=True), ours, *others)


@call
async def topsHostFree(ptr: int | None) -> None:
    """Free memory of topsHostMalloc, after an implicit topsDeviceSynchronize of the current device; null is fine.

    InvalidValue: interior, device, registered or dead pointers. A failure that the synchronisation finds is
    answered, and the memory freed all the same; in a callback of the device the call is refused.
    """
    device = None if is_null(ptr) else current_device()
    if device is None:
        current_board()
        return
    await give_back(_taken(ptr, registered=False), device)


def _keep(array: Buffer, device: Device, *, registered: bool) -> None:
    ORIGINS[array.allocation] = _HostOrigin(device.ordinal, registered)
    own(array)


def _taken(pointer: object, *, registered: bool) -> Buffer:
    """Return the owner of the host memory that begins at a pointer; of several calls at once exactly one gets it.

    Raises CodeError InvalidValue for other memory, HostMemoryNotRegistered where it should be registered.
    """
    missing = Result.HostMemoryNotRegistered if registered else Result.InvalidValue
    try:
        host, offset = find_host(pointer, "hostPtr")
    except InvalidValue as error:
        raise CodeError(missing, str(error)) from None
    origin = ORIGINS.get(host)
    buffer = disown(host) if offset == 0 and origin is not None and origin.registered == registered else None
    if buffer is None:
        maker = "topsHostRegister" if registered else "topsHostMalloc"
        raise CodeError(missing, f"expected a pointer of {maker}, got one {offset} bytes into {host!r}")
    return buffer


class _HostOrigin(NamedTuple):
    """The device that was current when host memory was allocated or registered, and which of the two it was."""

    device: int
    registered: bool


ORIGINS: WeakKeyDictionary[Allocation, _HostOrigin] = WeakKeyDictionary()


# ---- attributes

Attribute = topsPointer_attribute

# None: the memory has no such attribute. Attributes without an entry are of contexts, tokens and pools, which have no
# handles here.
VALUES: Final[dict[topsPointer_attribute, Callable[[_Facts], int | None]]] = {
    Attribute.TOPS_POINTER_ATTRIBUTE_MEMORY_TYPE: lambda facts: topsMemoryType(facts.memory_type),
    Attribute.TOPS_POINTER_ATTRIBUTE_DEVICE_POINTER: lambda facts: facts.device_pointer,
    Attribute.TOPS_POINTER_ATTRIBUTE_HOST_POINTER: lambda facts: facts.host_pointer or None,
    Attribute.TOPS_POINTER_ATTRIBUTE_SYNC_MEMOPS: lambda facts: False,
    Attribute.TOPS_POINTER_ATTRIBUTE_BUFFER_ID: lambda facts: facts.serial,
    Attribute.TOPS_POINTER_ATTRIBUTE_IS_MANAGED: lambda facts: facts.managed,
    Attribute.TOPS_POINTER_ATTRIBUTE_DEVICE_ORDINAL: lambda facts: facts.device,
    Attribute.TOPS_POINTER_ATTRIBUTE_IS_LEGACY_TOPS_IPC_CAPABLE: lambda facts: facts.lendable,
    Attribute.TOPS_POINTER_ATTRIBUTE_RANGE_START_ADDR: lambda facts: facts.start,
    Attribute.TOPS_POINTER_ATTRIBUTE_RANGE_SIZE: lambda facts: facts.size,
    Attribute.TOPS_POINTER_ATTRIBUTE_MAPPED: lambda facts: True,
    Attribute.TOPS_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES: lambda facts: (
        topsMemAllocationHandleType.topsMemHandleTypeNone
    ),
    Attribute.TOPS_POINTER_ATTRIBUTE_IS_GCU_DIRECT_RDMA_CAPABLE: lambda facts: False,
    Attribute.TOPS_POINTER_ATTRIBUTE_ACCESS_FLAGS: lambda facts: facts.access,
    Attribute.TOPS_POINTER_ATTRIBUTE_MEM_BANK: lambda facts: facts.bank,
}


@call
def topsPointerGetAttributes(ptr: object) -> topsPointerAttribute_t:
    """Return what is known of a pointer into memory of any kind.

    Host memory tells the device that was current when it was allocated or registered, and both its pointers.
    InvalidValue: null, or memory that the runtime does not know; InvalidDevice: the board has none.
    """
    facts = _facts_of(ptr)
    return topsPointerAttribute_t(
        int(facts.memory_type), facts.device, facts.device_pointer, facts.host_pointer, int(facts.managed), facts.flags
    )


@call
def topsPointerGetAttribute(attribute: topsPointer_attribute, ptr: object) -> int:
    """Return one fact about a pointer.

    BUFFER_ID never repeats in a process; MEM_BANK is the physical bank; ACCESS_FLAGS is what the current device may do.
    InvalidValue: unknown memory, not an attribute, one that this memory lacks (the host pointer of device memory), or
    one of contexts, tokens and pools; InvalidDevice: the board has none.
    """
    which = member(topsPointer_attribute, attribute, "attribute")
    value = _value(which, _facts_of(ptr))
    if value is None:
        raise InvalidValue(f"the memory at {ptr!r} has no {which.name}")
    return value


@call
def topsDrvPointerGetAttributes(
    numAttributes: int | None, attributes: Sequence[topsPointer_attribute], ptr: object
) -> list[int]:
    """Return several facts about a pointer, 0 for those that its memory lacks.

    InvalidValue: unknown memory, no attributes, one that does not exist, or another count than there are;
    InvalidDevice: the board has none.
    """
    given = listed(attributes, numAttributes, "attributes")
    chosen = [member(topsPointer_attribute, each, "attributes") for each in given]
    if not chosen:
        raise InvalidValue("attributes must have 1 element or more, got none")
    facts = _facts_of(ptr)
    return [_value(which, facts) or 0 for which in chosen]


def _value(which: topsPointer_attribute, facts: _Facts) -> int | None:
    return VALUES[which](facts) if which in VALUES else None


@dataclass(frozen=True, slots=True)
class _Facts:
    """What is known of a pointer. `host_pointer` is 0 for device memory, `bank` and `serial` None where there is none.

    `access` is what the current device may do there.
    """

    memory_type: int
    device: int
    device_pointer: int
    host_pointer: int
    managed: bool
    flags: int
    start: int
    size: int
    access: topsMemAccessFlags
    serial: int | None = None
    bank: int | None = None
    lendable: bool = False  # to other processes


def _facts_of(pointer: object) -> _Facts:
    """Look a pointer up. Raises CodeError InvalidDevicePointer (InvalidValue) for an unknown one."""
    ours = current_device().context
    bare = pointer is None or isinstance(pointer, Buffer) or hasattr(pointer, "__index__")
    address = address_of(pointer, "ptr") if bare and not isinstance(pointer, np.ndarray) else host_pointer(pointer)
    alias = alias_at(current_board(), address)
    kind = getattr(alias.owner, "memory_type", None) if alias is not None else None
    both, none = topsMemAccessFlags.topsMemAccessFlagsProtReadWrite, topsMemAccessFlags.topsMemAccessFlagsProtNone
    if alias is not None and kind is not None:
        return _Facts(kind, ours.ordinal, address, 0, False, 0, alias.address, alias.size, both)
    buffer = reached_memory(address, 0, "ptr")
    memory, offset = buffer.allocation, buffer.offset
    if memory.device is not None:
        imported = alias is not None and memory.address == alias.address  # its bank is known to the other process only
        owner = current_board().context(memory.device).memory
        return _Facts(
            topsMemoryType.topsMemoryTypeDevice, memory.device, memory.address + offset, 0, False, memory.flags,
            memory.address, memory.size, both if ours.reaches(memory) else none, memory.serial,
            None if imported else owner.bank_of(memory.address + offset),
            alias is None and lendable(current_board(), memory),
        )  # fmt: skip
    origin = ORIGINS.get(memory)
    kind = topsMemoryType.topsMemoryTypeUnified if memory.managed else topsMemoryType.topsMemoryTypeHost
    return _Facts(
        kind, ours.ordinal if origin is None else origin.device, memory.address + offset, memory.host_address + offset,
        memory.managed, memory.flags, memory.address, memory.size, both, memory.serial,
    )  # fmt: skip


# ---- banks (2.11)


@call
def topsExtMallocWithBank(size: int, bank: int) -> int:
    """Return a pointer to new memory on a physical bank of the current device; topsFree gives it back.

    OutOfMemory: the bank is too full; it never spills. InvalidValue: not a size, or no such bank.
    """
    return _allocate(size, whole(bank, "bank"), 0)


@call
def topsExtMallocWithBankV2(size: int, bank: int, flags: int) -> int:
    """As topsExtMallocWithBank, by flags: topsMallocTopDown takes the highest address of the bank that fits.

    topsMallocForbidMergeMove is always true. OutOfMemory; InvalidValue: not a size, no such bank, other flags.
    """
    return _allocate(size, whole(bank, "bank"), flags)


@call
def topsExtMallocWithAffinity(size: int, bank: int, flags: int) -> int:
    """As topsExtMallocWithBankV2, on a logical bank: entry `bank` of what topsGetAffinityBankList returns."""
    banks = _logical_banks(current_device())
    return _allocate(size, banks[index_in(bank, len(banks), "bank")], flags)


@call
def topsGetAffinityBankList(bank_total: int) -> list[int]:
    """Return the physical banks of the current device, those nearest to the caller's default bundle first.

    Without such a bundle they are 0, 1, 2 and so on. InvalidValue: `bank_total` is not how many banks there are.
    """
    device = current_device()
    _check_total(device.arch, bank_total)
    return list(_logical_banks(device))


@call
def topsGetAffinityBankListV2(res: int, bank_total: int) -> list[int]:
    """Return the physical banks of a bundle's device, those nearest to its clusters first.

    InvalidHandle; InvalidValue: `bank_total` is not how many banks there are.
    """
    bundle = live(res, ResourceBundle)
    _check_total(bundle.context.arch, bank_total)
    return list(near_banks(bundle.context.arch, bundle.clusters))


@call
def topsMemGetInfoExt(bank_total: int) -> tuple[list[int], list[int], list[int], list[int]]:
    """Return used, free, largest free range and total, in bytes, of each bank of the current device.

    Used and free together are the total. InvalidDevice: the board has none. InvalidValue: another number of banks.
    """
    banks = _banks(bank_total)
    return (
        [bank.used for bank in banks],
        [bank.free for bank in banks],
        [bank.largest_free for bank in banks],
        [bank.total for bank in banks],
    )


@call
def topsGetMemUsageInfo(bank_total: int) -> tuple[list[int], list[int]]:
    """Return the bytes in use of each bank of the current device, and the most there were since its last reset.

    InvalidValue: `bank_total` is not how many banks there are.
    """
    banks = _banks(bank_total)
    return [bank.used for bank in banks], [bank.peak for bank in banks]


@call
def topsExtGetMcAvailableMemSize(mc: int) -> int:
    """Return the most bytes that can be allocated on a bank of the current device now. InvalidValue: no such bank."""
    banks = current_device().statistics().memory.banks
    return banks[index_in(mc, len(banks), "mc")].largest_free


def _banks(bank_total: object) -> tuple[BankStatistics, ...]:
    """Return the figures of the current device's banks. Raises InvalidValue unless `bank_total` is their number."""
    device = current_device()
    _check_total(device.arch, bank_total)
    return device.statistics().memory.banks


def _check_total(arch: Architecture, bank_total: object) -> None:
    if whole(bank_total, "bank_total") != arch.banks:
        raise InvalidValue(f"bank_total must be {arch.banks}, the number of banks, got {bank_total}")


def _logical_banks(device: Device) -> tuple[int, ...]:
    """Return the physical bank of each logical one: by nearness to the caller's default bundle, else 0, 1, 2 ...

    Raises InvalidHandle where the default bundle was destroyed.
    """
    bundle = bundle_of(device.context)
    return near_banks(device.arch, () if bundle is None else bundle.clusters)


# ---- the prefetch buffer (2.11)


@call
def topsMemCachePrefetch(dptr: int, size: int) -> None:
    """Enter a range of one live allocation into the prefetch buffer of its device; 0 bytes enter nothing.

    MemoryAllocation: it does not fit beside the other entries. InvalidValue: not device memory, a range that leaves its
    allocation or overlaps an entry.
    """
    if (found := _buffer_and_range(dptr, size)) is not None:
        prefetched, memory = found
        prefetched.enter(memory)


@call
def topsMemCacheInvalidate(dptr: int, size: int) -> None:
    """Drop every entry of the prefetch buffer that a range touches; memory keeps its contents.

    InvalidValue: not device memory, or a range that leaves its allocation.
    """
    if (found := _buffer_and_range(dptr, size)) is not None:
        prefetched, memory = found
        prefetched.drop(memory)


def _buffer_and_range(dptr: int, size: int) -> tuple[PrefetchBuffer, Buffer] | None:
    """Return the prefetch buffer and the memory of a call; None where there is no such buffer."""
    board = current_board()
    nbytes = size_of(size)
    if board.arch.gcu_arch != GCU300:
        return None
    memory = device_memory(dptr, nbytes, "dptr")
    if memory.device_id is None:
        raise InvalidValue(f"dptr must be memory of a device, got {memory.allocation!r}")
    return board.context(memory.device_id).prefetched, memory
