"""Pointers: ints that name bytes on a device or in host memory, resolved to memory, its second names and its owners.

A device pointer is a 40-bit address, a host pointer the address of pinned or registered memory in this process. Other
host operands are numpy arrays and whatever else has the buffer protocol.

A second name (an alias) is a device address beyond the device's own memory that stands for bytes elsewhere: a peer
region, an imported allocation, scatter memory and a codec's name have one. Its maker resolves it to bytes.
"""

from __future__ import annotations

import ctypes
import mmap
import threading
from collections.abc import Callable
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from sortedcontainers import SortedDict

from atops.base.errors import AtopsError, IllegalAddress, InvalidType, InvalidValue, OutOfMemory, WouldDeadlock
from atops.base.locks import fork_safe
from atops.base.result_codes import Result
from atops.bridge.arguments import whole
from atops.bridge.call import until
from atops.bridge.codes import CodeError
from atops.device.memory.allocation import Allocation, Bytes
from atops.device.memory.banks import Banks, NoRoom
from atops.device.memory.host_memory import SLOT_SHIFT, device_base
from atops.runtime.board.context import DeviceContext
from atops.runtime.device import Device
from atops.runtime.driver import current_board
from atops.runtime.driver_board import Board
from atops.runtime.memory.buffer import Buffer
from atops.runtime.memory.copy_ends import end_of, host_bytes
from atops.runtime.memory.scatter import Scattered

__all__ = (
    "Alias", "Names", "add_alias", "address_of", "alias_at", "bad_pointer", "bytes_at", "check_range", "contents",
    "device_memory", "disown", "find_device", "find_host", "free_after", "give_back", "has_aliases", "host_address",
    "host_copy", "host_pointer", "host_view", "is_device_address", "is_null", "known_address", "lendable",
    "memory_from", "operand", "own", "owned", "pinned_at", "pointed", "reached_memory", "remove_alias",
)  # fmt: skip

# ---- second names

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


def alias_at(board: Board, address: int) -> Alias | None:
    """Return the alias that an address lies in, or None."""
    if not NAMES:
        return None
    slot = address >> SLOT_SHIFT
    if not slot & 1 or slot >> 1 >= board.devices:
        return None
    names = NAMES.get(board.context(slot >> 1))
    if names is None:
        return None
    with names.lock:
        position = names.by_address.bisect_right(address) - 1
        alias = None if position < 0 else names.by_address.peekitem(position)[1]
    return alias if alias is not None and address < alias.address + max(alias.size, 1) else None


def has_aliases() -> bool:
    """Tell whether any device has had one since its reset."""
    return bool(NAMES)


def remove_alias(board: Board, alias: Alias) -> bool:
    """Take an alias away. Of several calls at once exactly one returns True."""
    names = NAMES.get(board.context((alias.address >> SLOT_SHIFT) >> 1))
    if names is None:
        return False
    with names.lock:
        if names.by_address.get(alias.address) is not alias:
            return False
        del names.by_address[alias.address]
        names.free.free(alias.address - names.first, alias.size)
    return True


OWNED: dict[int, tuple[Allocation, Buffer]] = {}  # by the allocation's serial, which no two ever share
KEPT: Final = 64  # dead entries up to this many are not looked for; each may keep a closed board alive
SWEEP = [KEPT]


# ---- resolving

ARRAY: Final = "__cuda_array_interface__"


def address_of(pointer: object, what: str = "the pointer") -> int:
    """Return a pointer as an int: one, an int-like object, or device memory of the object API.

    Raises CodeError InvalidDevicePointer (InvalidValue where the entry does not list that) for null and other types.
    """
    if type(pointer) is int:
        address = pointer
    elif isinstance(pointer, Buffer):
        return pointer.address
    elif hasattr(pointer, "__index__") and not isinstance(pointer, bool | np.ndarray):
        address = pointer.__index__()
    elif pointer is None:
        address = 0
    else:
        raise bad_pointer(f"{what} must be the int that an allocation returned, got {pointer!r}")
    if address <= 0:
        raise bad_pointer(f"{what} is null" if address == 0 else f"{what} must be an address, got {address}")
    return address


def known_address(pointer: object, what: str = "the pointer") -> int:
    """As `address_of`; an array or a writable buffer in pinned or registered memory stands for its own pointer.

    Raises as `address_of` does, also for pageable memory.
    """
    if pointer is None or isinstance(pointer, Buffer) or _is_number(pointer):
        return address_of(pointer, what)
    try:
        address = host_pointer(pointer, what)
    except InvalidType:
        return address_of(pointer, what)  # which raises
    if pinned_at(address) is None:
        raise bad_pointer(
            f"{what} is pageable host memory ({type(pointer).__name__}); register it with topsHostRegister, or pass "
            "memory that the runtime allocated"
        )
    return address


def pointed(value: object) -> object:
    """Return the address that a `void *` of ctypes, or an array with `__cuda_array_interface__`, stands for.

    Other values come back as they are. Raises InvalidType for an interface without an address.
    """
    if isinstance(value, ctypes.c_void_p):
        return value.value or 0
    if isinstance(value, int):
        return value
    try:
        interface = getattr(value, ARRAY, None)
        return value if interface is None else whole(interface["data"][0], "the address")
    except Exception as error:
        raise InvalidType(f"{ARRAY} of {value!r} must tell an address, the first of its data: {error}") from error


def is_null(pointer: object) -> bool:
    """Tell whether a pointer is null: None, an int that is 0, or a `void *` of ctypes that is. It never raises."""
    if pointer is None or type(pointer) is int:
        return not pointer
    if isinstance(pointer, ctypes.c_void_p):
        return not pointer.value
    try:
        return _is_number(pointer) and not isinstance(pointer, bool) and whole(pointer, "the pointer") == 0
    except InvalidType:  # a class has the method, too, and is no number
        return False


def device_memory(
    pointer: object, nbytes: int, what: str = "the pointer", *, device: int | None = None, plain: bool = True
) -> Buffer:
    """Return `nbytes` at a device pointer: on any device, or of mapped, registered or managed host memory.

    `device` is the ordinal that it must lie on, if any; host memory is on all. With `plain` scatter memory is refused:
    kernels take its parts. Raises CodeError InvalidDevicePointer (or InvalidValue) for what is no live memory,
    InvalidValue for a range that leaves its allocation.
    """
    board = current_board()
    address = address_of(pointer, what)
    buffer = _at(board, address, alias_at(board, address), nbytes, what)
    if plain and isinstance(buffer.allocation, Scattered):
        raise InvalidValue(f"{what} {address:#x} is scatter memory; pass memory in one place, such as one of its parts")
    return _on(device, buffer, address, what)


def reached_memory(pointer: object, nbytes: int, what: str = "the pointer", *, device: int | None = None) -> Buffer:
    """As `device_memory`, of all memory that devices reach: by host pointers and registered arrays too, and scattered.

    Raises as `device_memory` and `known_address` do.
    """
    address = known_address(pointer, what)
    return _on(device, _known(current_board(), address, nbytes, what), address, what)


def memory_from(pointer: object, what: str = "the pointer") -> Buffer:
    """Return all memory from a pointer to the end of its allocation, or of its second name: what a kernel gets.

    Host pointers that the runtime knows, and arrays in such memory, are accepted too. Raises CodeError
    InvalidDevicePointer (or InvalidValue).
    """
    board = current_board()
    address = known_address(pointer, what)
    if (alias := alias_at(board, address)) is not None:
        return device_memory(address, alias.address + alias.size - address, what)
    if (found := _host_at(board, address)) is not None:
        start = found.host_address
    else:
        found = _live(board, address, what)
        start = found.address
    return Buffer(found, address - start, board=board)


def operand(pointer: object, nbytes: int, what: str, *, writable: bool = False) -> Buffer | memoryview:
    """Return `nbytes` at one end of a copy: device memory, or host memory of any kind.

    An int is looked for among device addresses, then among host pointers known to the runtime; a buffer or an array
    must have at least `nbytes`; a numpy integer is an int. Host memory that the runtime knows comes back as a Buffer,
    pageable memory as a memoryview. Raises CodeError InvalidDevicePointer or InvalidValue, InvalidType.
    """
    if _is_number(pointer) or pointer is None:
        try:
            return _known(current_board(), address_of(pointer, what), nbytes, what)
        except CodeError as error:
            if not isinstance(pointer, np.integer):
                raise
            cure = "is a numpy integer, which is taken for an address; np.asarray(...) of it passes its value"
            raise bad_pointer(f"{what} {pointer!r} {cure} ({error})") from None
    if isinstance(pointer, Buffer):
        if nbytes > pointer.nbytes:
            raise InvalidValue(f"{what} must have {nbytes} bytes, got {pointer!r}")
        return pointer if nbytes == pointer.nbytes else Buffer.__getitem__(pointer, slice(0, nbytes))
    if type(pointer) is np.ndarray and (pointer.flags.c_contiguous or not writable):
        view = end_of(pointer, what, False)[0]
    else:
        view = host_bytes(pointer, what, writable)
    assert isinstance(view, memoryview)
    if writable and view.readonly:
        raise InvalidValue(f"{what} must be a writable buffer, got a read-only one")
    if nbytes > view.nbytes:
        raise InvalidValue(f"{what} must have {nbytes} bytes, got {view.nbytes}")
    return view[:nbytes]


def host_copy(pointer: object, nbytes: int, what: str) -> bytes:
    """Return a copy of `nbytes` of host memory. Raises as `operand` does, and InvalidValue for memory of a device."""
    found = contents(pointer, nbytes, what)
    if isinstance(found, Buffer):
        raise InvalidValue(f"{what} must be host memory, got {found!r}")
    return found


def contents(pointer: object, nbytes: int, what: str) -> Buffer | bytes:
    """Return a copy of `nbytes` of host memory, or where they lie on a device. Raises as `operand` does."""
    found = operand(pointer, nbytes, what)
    if not isinstance(found, Buffer):
        return bytes(found)
    if found.device_id is not None:
        return found
    return bytes(found.allocation.view[found.offset : found.offset + nbytes])


def find_device(board: Board, address: int, what: str = "the pointer") -> Allocation:
    """Return the live allocation that a device address lies in. Raises CodeError InvalidDevicePointer."""
    slot = address >> SLOT_SHIFT
    try:
        if slot & 1 and slot >> 1 < board.devices:
            return board.context(slot >> 1).memory.find(address, what)
        return board.host.find(address, what)
    except IllegalAddress as error:
        raise bad_pointer(str(error)) from None


def find_host(pointer: object, what: str = "the host pointer") -> tuple[Allocation, int]:
    """Return the pinned, registered or managed memory that a host pointer lies in, and where; see `host_pointer`.

    Raises InvalidValue for null and for other memory, InvalidType for other types.
    """
    address = host_pointer(pointer, what)
    host = _host_at(current_board(), address) if address > 0 else None
    if host is None:
        raise InvalidValue(f"{what} {address:#x} is in no pinned or registered memory")
    return host, address - host.host_address


def host_pointer(pointer: object, what: str = "the host pointer") -> int:
    """Return a host pointer as an int: one, or the place where an array or a writable buffer begins.

    Raises InvalidType for anything else.
    """
    if isinstance(pointer, np.ndarray):
        return host_address(pointer)
    if hasattr(pointer, "__index__"):
        return whole(pointer, what)
    try:
        return host_address(pointer)
    except (TypeError, ValueError, BufferError):
        raise InvalidType(
            f"{what} must be a host pointer that the runtime returned, an array or a writable buffer, got {pointer!r}"
        ) from None


def is_device_address(board: Board, address: int) -> bool:
    """Tell whether an address lies in the space of a device of the board, allocated or not."""
    slot = address >> SLOT_SHIFT
    return slot & 1 == 1 and 0 <= slot >> 1 < board.devices


def pinned_at(address: int) -> Allocation | None:
    """Return the pinned, registered or managed memory that a host address lies in; None where there is none."""
    return _host_at(current_board(), address)


def host_view(pointer: int, nbytes: int) -> Bytes:
    """Return the bytes behind a pointer of topsHostMalloc, or of managed memory, as a numpy array of uint8.

    The array shares the memory until that is freed: `host_view(p, 4 * n).view("float32")`. Raises InvalidValue for
    other memory, or a range that leaves it.
    """
    host, offset = find_host(pointer)
    check_range(host, offset, nbytes, "the host pointer")
    return host.data[offset : offset + nbytes]


def host_address(buffer: object) -> int:
    """Return the address of the first byte of a writable array or buffer: what C would pass for it."""
    if isinstance(buffer, np.ndarray):
        return int(buffer.__array_interface__["data"][0])
    return ctypes.addressof(ctypes.c_char.from_buffer(buffer))  # type: ignore[arg-type]  # TypeError says so


LIBC = ctypes.CDLL(None, use_errno=True)
MS_ASYNC = 1  # msync of this kind only makes the system look each page up


def bytes_at(address: int, nbytes: int) -> Bytes:
    """Return `nbytes` from a host address as an array, which the caller of the C-style function keeps alive.

    Raises InvalidValue where some of them are in no memory of this process.
    """
    first = address // mmap.PAGESIZE * mmap.PAGESIZE
    end = address + nbytes
    if end >= 1 << 64 or LIBC.msync(ctypes.c_void_p(first), ctypes.c_size_t(end - first), MS_ASYNC):
        raise InvalidValue(f"{nbytes} bytes at host address {address:#x} are not all memory of this process")
    found: Bytes = np.frombuffer(memoryview((ctypes.c_uint8 * nbytes).from_address(address)), np.uint8)
    return found


def bad_pointer(message: str) -> CodeError:
    """Return the error for a pointer to no live memory: InvalidDevicePointer where the function lists it."""
    return CodeError(Result.InvalidDevicePointer, message)


def _host_at(board: Board, address: int) -> Allocation | None:
    """Return the host memory that a host address lies in; None for a device address and for unknown memory."""
    return None if is_device_address(board, address) else board.host.host_at(address)


def _is_number(pointer: object) -> bool:
    """Tell whether a pointer is a number. An array of one element is memory, though it has `__index__`."""
    return type(pointer) is int or (hasattr(pointer, "__index__") and not isinstance(pointer, np.ndarray))


def _known(board: Board, address: int, nbytes: int, what: str) -> Buffer:
    """Return bytes at an address of any kind: a device's, or a host pointer that the runtime knows."""
    alias = alias_at(board, address)
    if alias is None and (host := _host_at(board, address)) is not None:
        return Buffer(host, check_range(host, address - host.host_address, nbytes, what), nbytes, board=board)
    return _at(board, address, alias, nbytes, what)


def _on(device: int | None, buffer: Buffer, address: int, what: str) -> Buffer:
    """Return memory that must lie on a device, if one is named; host memory is on all. Raises CodeError."""
    if device is not None and buffer.device_id not in (None, device):
        raise bad_pointer(f"{what} must lie on device {device}, got {address:#x} of device {buffer.device_id}")
    return buffer


def _live(board: Board, address: int, what: str) -> Allocation:
    """As `find_device`; for an address of the host the error says what to pass."""
    try:
        return find_device(board, address, what)
    except CodeError as error:
        if is_device_address(board, address):
            raise
        if board.host.host_at(address) is not None:
            cure = "it is a host pointer, whose device pointer topsHostGetDevicePointer returns"
        else:
            cure = "for pageable host memory pass the array itself to a copy, and topsHostRegister it for all else"
        raise bad_pointer(f"{error}; {cure}") from None


def _at(board: Board, address: int, alias: Alias | None, nbytes: int, what: str) -> Buffer:
    """Return bytes at a device address, which an alias may stand for. Raises as `device_memory` does."""
    if alias is None:
        found = _live(board, address, what)
        return Buffer(found, check_range(found, address - found.address, nbytes, what), nbytes, board=board)
    buffer = alias.resolve(address - alias.address, nbytes)
    buffer.driver = board.driver
    return buffer


def check_range(allocation: Allocation, offset: int, nbytes: int, what: str) -> int:
    """Return `offset`. Raises InvalidValue when the bytes leave the allocation."""
    if nbytes < 0 or offset + nbytes > allocation.size:
        past = "not inside" if nbytes < 0 else f"{offset + nbytes - allocation.size} past the end of"
        raise InvalidValue(f"{what}: {nbytes} bytes at offset {offset} are {past} {allocation!r}")
    return offset


# ---- owning


def own(buffer: Buffer) -> Buffer:
    """Keep a new allocation alive until `disown`, or until its device is reset. Returns it."""
    OWNED[buffer.allocation.serial] = buffer.allocation, buffer
    if len(OWNED) > SWEEP[0]:
        for serial, (allocation, _) in OWNED.copy().items():
            if not allocation.alive:
                OWNED.pop(serial, None)
        SWEEP[0] = 2 * len(OWNED) + KEPT
    return buffer


def owned(allocation: Allocation) -> Buffer | None:
    """Return the buffer by which the C-style functions own an allocation: None for one of the object API."""
    entry = OWNED.get(allocation.serial)
    return None if entry is None else entry[1]


def lendable(board: Board, allocation: Allocation) -> bool:
    """Tell whether other processes may borrow an allocation: one of topsMalloc, not empty, not of a pool."""
    device = allocation.device
    if device is None or not allocation.size or owned(allocation) is None:
        return False
    return not any(allocation in pool for pool in board.context(device).known_pools())


def disown(allocation: Allocation) -> Buffer | None:
    """Return an owned buffer for the caller to close; of several calls at once exactly one gets it, the others None."""
    entry = OWNED.pop(allocation.serial, None)
    return None if entry is None else entry[1]


async def give_back(buffer: Buffer, *devices: Device) -> None:
    """Free `buffer`, which the caller has just disowned, as `free_after` does; where it refuses, it is owned again."""
    try:
        await free_after(buffer.close, *devices)
    except WouldDeadlock:
        own(buffer)
        raise


async def free_after(free: Callable[[], object], *devices: Device) -> None:
    """Wait for all work of some devices, then call `free`.

    If that work fails, or the wait is cancelled, it is called all the same. Raises the first failure of the work;
    WouldDeadlock where the wait could never end (in a callback of the device), and then it is not called.
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
        raise
    except BaseException:
        free()
        raise
    free()
    if failure is not None:
        raise failure
