"""Host memory that devices can reach (pinned, registered, managed), and the address space of a board.

There is one host memory a board; all devices see it alike.

Pinned and registered memory has a device address apart from its host address, in windows of the 40-bit device space
that no device's own memory uses; managed memory has one address for both.
"""

from __future__ import annotations

import ctypes
import mmap
import operator
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import SupportsIndex

import numpy as np
from sortedcontainers import SortedDict

from atops.base.errors import IllegalAddress, InvalidType, InvalidValue, NotInitialized, OutOfMemory
from atops.base.locks import attempt, check_entry, make_lock
from atops.base.result_codes import Result
from atops.device.call_site import caller
from atops.device.memory.allocation import Allocation, Bytes
from atops.device.memory.banks import Banks, NoRoom
from atops.device.memory.device_memory import DeviceMemory

__all__ = ("SLOT_SHIFT", "WINDOWS", "AddressSpace", "HostMemory", "HostStatistics", "device_base")

PAGE = mmap.PAGESIZE
SLOT_SHIFT = 36
SLOT = 1 << SLOT_SHIFT
# Device d owns slot 2 * d + 1 of the 40-bit space; host memory has the even slots, the first from 4 GiB up.
WINDOWS = ((4 << 30, SLOT), *((2 * slot * SLOT, (2 * slot + 1) * SLOT) for slot in range(1, 8)))
NONE: SortedDict[int, Allocation] = SortedDict()  # of the boards that have no host memory, which are most: stays empty


def device_base(device: int) -> int:
    """Return the first address of device `device`: slot 2 * device + 1 of 64 GiB each, so that 8 fit in 40 bits."""
    return 2 * device + 1 << SLOT_SHIFT


class _Kind(Enum):
    PINNED = "pinned"
    REGISTERED = "registered"
    MANAGED = "managed"


@dataclass(frozen=True, slots=True)
class HostStatistics:
    """Host memory that devices can reach, in bytes; `live` counts allocations of all three kinds."""

    pinned: int
    registered: int
    managed: int
    live: int


class HostMemory:
    """The pinned, registered and managed memory of one board. Safe from every thread.

    All of it is `host_visible`: the host can store into it without the runtime knowing. As with device memory, `free`
    and `unregister` never wait for the lock, so that finalizers may call them.
    """

    def __init__(self, shared: bool = False) -> None:
        """Start with nothing; windows of device addresses are opened as they are needed.

        `shared`: with processes that are forked from this one, which is how native kernels run apart.
        """
        self._shared = shared
        self._lock = make_lock()
        self._windows: list[Banks] = []  # opened as they are needed
        self._live: dict[int, tuple[_Kind, Allocation]] = {}
        self._returned: deque[tuple[_Kind, Allocation]] = deque()
        self._by_device = self._by_host = NONE  # each board's own from its first allocation on
        self._bytes = dict.fromkeys(_Kind, 0)
        self._closed = False

    # ---- lifecycle

    def close(self, by: object = None) -> None:
        """Free and unregister everything and refuse new requests. Idempotent."""
        by = caller() if by is None else by
        self._closed = True
        with self._lock:
            ended = list(self._leaving())
            self._returned.extend(ended)
            self._settle()
        for _, allocation in ended:
            allocation.end(by)

    def _leaving(self) -> Iterator[tuple[_Kind, Allocation]]:
        while self._live:
            yield self._live.popitem()[1]

    def disown(self) -> None:
        """Refuse new requests in a forked child, whatever lock was held when it forked."""
        self._closed = True
        self._lock = make_lock()

    # ---- allocate, register and free

    def allocate(self, size: int, flags: int = 0, *, site: object = None, label: str = "") -> Allocation:
        """Make `size` bytes of pinned memory, page-aligned and zero, with a device address of its own.

        Size 0 gives distinct addresses and no bytes. Raises InvalidValue for a negative size, OutOfMemory.
        """
        data, view, host = _pages(size, self._shared)
        return self._enter(_Kind.PINNED, data, view, host, flags, caller() if site is None else site, label)

    def managed(self, size: int, flags: int = 0, *, site: object = None, label: str = "") -> Allocation:
        """Make `size` bytes, page-aligned and zero, that have one address for the host and for every device.

        Raises as `allocate` does.
        """
        data, view, host = _pages(size, self._shared)
        return self._enter(_Kind.MANAGED, data, view, host, flags, caller() if site is None else site, label)

    def register(self, buffer: object, flags: int = 0, *, site: object = None, label: str = "") -> Allocation:
        """Give the bytes of `buffer` a device address and keep the buffer alive until they are unregistered.

        `buffer` is a contiguous writable object with the buffer protocol, or (address, size) of memory that the
        caller keeps. The device address has the same offset within its page as the host address. Raises InvalidType
        for other objects, and InvalidValue for empty, read-only, scattered or already registered memory.
        """
        data = _bytes_of(buffer)
        host = int(data.__array_interface__["data"][0])
        site = caller() if site is None else site
        return self._enter(_Kind.REGISTERED, data, data.data, host, flags, site, label)

    def free(self, allocation: Allocation, by: object = None) -> None:
        """End pinned or managed memory. `by` says what frees it (default: the caller).

        Raises IllegalAddress naming what freed it first, and InvalidValue for memory that is not of this kind or board.
        """
        self._retire(allocation, (_Kind.PINNED, _Kind.MANAGED), caller() if by is None else by)

    def unregister(self, allocation: Allocation, by: object = None) -> None:
        """Take the device address of registered memory away and let its buffer go. Raises as `free` does."""
        self._retire(allocation, (_Kind.REGISTERED,), caller() if by is None else by)

    # ---- questions

    def find(self, address: int, user: object = "") -> Allocation:
        """Return the live allocation that the device address `address` lies in. Raises IllegalAddress."""
        return self._find(self._by_device, address, user, "device address of host memory")

    def find_host(self, address: int, user: object = "") -> Allocation:
        """Return the live allocation that the host address `address` lies in. Raises IllegalAddress."""
        return self._find(self._by_host, address, user, "host address known to the devices")

    @property
    def host_used(self) -> bool:
        """Whether there is any host memory that devices reach."""
        return bool(self._live)

    def host_at(self, address: int) -> Allocation | None:
        """As `find_host`, and None where that raises: what a copy asks of memory that it was given."""
        return self._look(self._by_host, address) if self._by_host else None

    def live(self) -> list[Allocation]:
        """Return the live allocations, oldest first."""
        return [allocation for _, allocation in self._live.copy().values()]

    def statistics(self) -> HostStatistics:
        """Return a snapshot of sizes and counts."""
        check_entry(self._lock, "the figures of host memory were asked for")
        with self._lock:
            self._settle()
            pinned, registered, managed = (self._bytes[kind] for kind in _Kind)
            return HostStatistics(pinned, registered, managed, len(self._live))

    def __repr__(self) -> str:
        return f"<HostMemory: {len(self._live)} allocations{', closed' if self._closed else ''}>"

    # ---- bookkeeping

    def _enter(
        self, kind: _Kind, data: Bytes, view: memoryview, host: int, flags: int, site: object, label: str
    ) -> Allocation:
        check_entry(self._lock, "host memory was asked for")
        with self._lock:
            if self._closed:
                raise NotInitialized("the host memory of this board is closed")
            self._settle()
            if self._by_host is NONE:
                self._by_device, self._by_host = SortedDict(), SortedDict()
            near = self._below(self._by_host, host + max(data.size, 1) - 1)
            if near is not None and host < near.host_address + max(near.size, 1):
                error = InvalidValue(f"{data.size} bytes at host address {host:#x} overlap {near!r}; memory is "
                                     "registered once")
                error.code = Result.HostMemoryAlreadyRegistered  # type: ignore[misc]  # this one carries its own code
                raise error
            address = host if kind is _Kind.MANAGED else self._device_address(host, data.size)
            allocation = Allocation(
                address, data.size, None, 0, 0, flags, (data, view), site, label, host, True, kind is _Kind.MANAGED
            )
            self._by_device[address] = allocation
            self._by_host[host] = allocation
            self._bytes[kind] += data.size
            self._live[allocation.serial] = kind, allocation
            return allocation

    def _device_address(self, host: int, size: int) -> int:
        inside = host % PAGE
        for number, (start, end) in enumerate(WINDOWS):
            if number == len(self._windows):
                self._windows.append(Banks(end - start, 1, PAGE))
            try:
                return start + self._windows[number].allocate(inside + size) + inside
            except NoRoom:
                continue
        raise OutOfMemory(f"no window of device addresses has {inside + size} bytes left for host memory")

    def _retire(self, allocation: Allocation, kinds: tuple[_Kind, ...], by: object) -> None:
        entry = self._live.get(allocation.serial)
        if entry is not None and entry[0] not in kinds:
            right = "unregister" if entry[0] is _Kind.REGISTERED else "free"
            raise InvalidValue(f"{allocation!r} is {entry[0].value} memory; use {right}()")
        entry = self._live.pop(allocation.serial, None)
        if entry is None:
            if not allocation.alive or self._by_host.get(allocation.host_address) is allocation:
                raise allocation.freed_twice(by)
            raise InvalidValue(f"{allocation!r} is not host memory of this board")
        # In this order: once the bytes are gone the system may give their address to another thread's allocation, which
        # must find this one in the deque, and with it out of the index.
        self._returned.append(entry)
        allocation.end(by)
        attempt(self._lock, self._settle)

    def _settle(self) -> None:
        while self._returned:
            kind, allocation = self._returned.popleft()
            del self._by_device[allocation.address]
            del self._by_host[allocation.host_address]
            self._bytes[kind] -= allocation.size
            if kind is not _Kind.MANAGED:
                inside = allocation.address % PAGE
                first = allocation.address - inside
                number = next(number for number, (start, end) in enumerate(WINDOWS) if start <= first < end)
                self._windows[number].free(first - WINDOWS[number][0], inside + allocation.size)

    def _find(self, index: SortedDict[int, Allocation], address: int, user: object, what: str) -> Allocation:
        if (found := self._look(index, address)) is not None:
            return found
        with self._lock:
            nearest = self._below(index, address)
        near = "" if nearest is None else f"; the nearest below is {nearest!r}"
        raise IllegalAddress(f"{str(user) + ': ' if user else ''}{address:#x} is no {what}{near}")

    def _look(self, index: SortedDict[int, Allocation], address: int) -> Allocation | None:
        """Return the live allocation that an address lies in, or None."""
        found: Allocation | None = index.get(address)
        if found is not None and found.alive:
            return found
        check_entry(self._lock, "host memory was looked for")
        with self._lock:
            self._settle()
            found = self._below(index, address)
        if found is None or not found.alive:
            return None
        start = found.address if index is self._by_device else found.host_address
        return found if address < start + found.size or address == start else None

    @staticmethod
    def _below(index: SortedDict[int, Allocation], address: int) -> Allocation | None:
        position = index.bisect_right(address) - 1
        return None if position < 0 else index.peekitem(position)[1]


class AddressSpace:
    """All device addresses of one board: each device's memory in its slot, host and managed memory elsewhere."""

    __slots__ = ("_host", "_slots")

    def __init__(self, memories: Sequence[DeviceMemory], host: HostMemory) -> None:
        """Know the memories of the board, one to a slot."""
        self._slots = {memory.base_address >> SLOT_SHIFT: memory for memory in memories}
        self._host = host

    def find(self, address: int, user: object = "") -> Allocation:
        """Return the live allocation that `address` lies in, on any device or on the host.

        Raises IllegalAddress naming the address, the `user` and what lies near it.
        """
        memory = self._slots.get(address >> SLOT_SHIFT)
        return self._host.find(address, user) if memory is None else memory.find(address, user)

    def __repr__(self) -> str:
        return f"<AddressSpace of {len(self._slots)} devices>"


def _pages(size: int, shared: bool) -> tuple[Bytes, memoryview, int]:
    """Map `size` zero bytes, of this process alone unless `shared`; they go when the last view of them dies."""
    size = operator.index(size)
    if size < 0:
        raise InvalidValue(f"an allocation of {size} bytes; expected 0 or more")
    try:
        pages = mmap.mmap(-1, size or 1, flags=(mmap.MAP_SHARED if shared else mmap.MAP_PRIVATE) | mmap.MAP_ANONYMOUS)
    except (OSError, OverflowError) as error:
        raise OutOfMemory(f"the system has no {size} bytes of host memory: {error}") from error
    data: Bytes = np.frombuffer(pages, np.uint8)
    return data[:size], memoryview(pages)[:size], int(data.__array_interface__["data"][0])


def _bytes_of(buffer: object) -> Bytes:
    """Return the bytes of a buffer or of (address, size), without a copy."""
    if isinstance(buffer, tuple):
        return _range(buffer)
    if isinstance(buffer, np.ndarray) and buffer.dtype.hasobject:
        raise InvalidType("an array of Python objects cannot be registered; expected numbers")
    if isinstance(buffer, np.ndarray) and buffer.size:
        array = np.asarray(buffer)
        array = array.T if array.flags.f_contiguous else array
        if not array.flags.c_contiguous:
            raise InvalidValue("an array whose bytes are scattered cannot be registered; expected a contiguous one")
        data = array.reshape(-1).view(np.uint8)
    else:
        try:
            data = np.frombuffer(buffer, np.uint8)  # type: ignore[call-overload]  # numpy tells what is no buffer
        except (TypeError, AttributeError) as error:
            raise InvalidType(f"{type(buffer).__name__} cannot be registered; expected a writable buffer") from error
        except (ValueError, BufferError) as error:
            raise InvalidValue(f"this {type(buffer).__name__} cannot be registered: {error}") from error
    if not data.size:
        raise InvalidValue("an empty buffer cannot be registered")
    if not data.flags.writeable:
        raise InvalidValue(f"this {type(buffer).__name__} is read-only; registered memory must be writable")
    return data


def _range(given: tuple[SupportsIndex, ...]) -> Bytes:
    try:
        address, size = (operator.index(number) for number in given)
    except (TypeError, ValueError) as error:
        raise InvalidType(f"{given!r} cannot be registered; expected (address, size)") from error
    if address <= 0 or size <= 0:
        raise InvalidValue(f"{size} bytes at host address {address:#x}; expected a positive address and size")
    return np.frombuffer(memoryview((ctypes.c_uint8 * size).from_address(address)), np.uint8)
