"""One emulated GCU as a program sees it: its properties, its streams, its memory, its peers."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, SupportsIndex

import numpy as np

from atops.base.dtypes import as_dtype
from atops.base.errors import (
    InvalidType,
    InvalidValue,
    NotSupported,
    OutOfMemory,
    PeerAccessAlreadyEnabled,
    PeerAccessNotEnabled,
    StreamAborted,
)
from atops.base.loops import current_home
from atops.device.allocation import Allocation
from atops.device.arch import Architecture
from atops.device.call_site import caller
from atops.device.global_memory import MemoryStatistics
from atops.kernels.variables import Variable
from atops.runtime.buffer import Buffer, DeviceArray, extents_of
from atops.runtime.completion import Completion, look_at
from atops.runtime.context import DeviceContext
from atops.runtime.current import current_ordinal, restore_ordinal, set_ordinal
from atops.runtime.driver import Driver
from atops.runtime.drivers import current_driver
from atops.runtime.event import Event
from atops.runtime.host_array import HostArray
from atops.runtime.pool import MemoryPool
from atops.runtime.printing import Printing
from atops.runtime.reclaim import free_when_idle
from atops.runtime.signals import Signals
from atops.runtime.stream import Stream
from atops.runtime.symbols import Symbol, symbol

__all__ = ("Device", "DeviceStatistics")


@dataclass(frozen=True, slots=True)
class DeviceStatistics:
    """A snapshot of one device. Memory is in bytes."""

    ordinal: int
    arch: str
    memory: MemoryStatistics
    active_streams: int
    pending_commands: int
    poisoned_streams: int
    clusters: int
    peers: tuple[int, ...]


class Device:
    """Device `ordinal` (the current one unless told) of `driver` (the current one unless told).

    A handle: making two for one device makes one device. Raises InvalidDevice when the board has no such device,
    InvalidType for an ordinal that is no int.
    """

    __slots__ = ("_saved", "driver", "ordinal")

    def __init__(self, ordinal: int | None = None, driver: Driver | None = None) -> None:
        self.driver = current_driver() if driver is None else driver
        self.ordinal = current_ordinal() if ordinal is None else ordinal if type(ordinal) is int else _whole(ordinal)
        self._saved: list[Any] = []
        self.driver.context(self.ordinal)

    @staticmethod
    def count(driver: Driver | None = None) -> int:
        """Return how many devices the board has (TOPS Runtime API, 2.2 topsGetDeviceCount)."""
        return (current_driver() if driver is None else driver).devices

    @property
    def context(self) -> DeviceContext:
        """What the driver keeps of this device."""
        return self.driver.context(self.ordinal)

    @property
    def arch(self) -> Architecture:
        """The figures of its architecture."""
        return self.driver.arch

    @property
    def name(self) -> str:
        """The product's name."""
        return f"Enflame {self.arch.product} ({self.arch.name}, emulated)"

    # ---- choosing

    def set_current(self) -> None:
        """Make it the current device of this task, and the default of this thread."""
        set_ordinal(self.ordinal)

    def __enter__(self) -> Device:
        self._saved.append(set_ordinal(self.ordinal))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        restore_ordinal(self._saved.pop())

    # ---- making things

    def create_stream(
        self,
        *,
        priority: int = 0,
        nonblocking: bool = False,
        capacity: int | None = None,
        name: str = "",
        cluster_mask: int | None = None,
        sip_mask: int | None = None,
    ) -> Stream:
        """Create a stream.

        `priority`: -2 (most urgent) to 0. `nonblocking`: takes no part in null-stream order. `capacity`: how many
        commands it holds before StreamFull (`upload` and `zeros` are two each). `cluster_mask`, `sip_mask`: bits of the
        clusters, and of the SIPs of each, that its kernels may use. Raises InvalidValue naming the option.
        """
        for mask, count, what in (
            (cluster_mask, self.arch.clusters, "cluster_mask"),
            (sip_mask, self.arch.sips_per_cluster, "sip_mask"),
        ):
            if mask is not None and not (isinstance(mask, int) and 0 < mask < 1 << count):
                raise InvalidValue(f"{what} is {mask!r}; 1 to {(1 << count) - 1:#x} is right, a bit each of {count}")
        return Stream(
            self.context, priority=priority, nonblocking=nonblocking, capacity=capacity, name=name,
            cluster_mask=cluster_mask, sip_mask=sip_mask,
        )  # fmt: skip

    @property
    def null_stream(self) -> Stream:
        """The legacy default stream: it waits for all earlier work of blocking streams, and they for it."""
        context = self.context
        if context.null_stream is None:
            stream = Stream(context, null=True)
            with self.driver.lock:
                if context.null_stream is None:
                    context.null_stream = stream
        found = context.null_stream
        assert isinstance(found, Stream)
        return found

    def create_event(self, *, timing: bool = True, once: bool = False, queryable: bool = True) -> Event:
        """Create an event of this device. See `Event`."""
        event = Event(self.ordinal, timing=timing, once=once, queryable=queryable)
        event.driver = self.driver
        return event

    def create_pool(self, *, max_size: int | None = None, name: str = "") -> MemoryPool:
        """Create a memory pool on this device (TOPS Runtime API, 2.6 topsMemPoolCreate)."""
        return MemoryPool(self.context, max_size=max_size, name=name)

    def allocate(
        self, nbytes: int, *, bank: int | None = None, top_down: bool = False, flags: int = 0, label: str = ""
    ) -> Buffer:
        """Allocate device memory now, outside any stream's order. `bank` and `top_down` say where; `flags` are kept.

        `close` gives it back once the work enqueued on the device by then is over. Raises OutOfMemory, InvalidValue
        (TOPS Runtime API, 2.6 topsMalloc, topsExtMallocWithFlags).
        """
        context = self.driver.context(self.ordinal)
        memory = context.memory
        context.asker = site = caller(1, context.asker)
        try:
            allocation = memory.allocate(nbytes, bank=bank, top_down=top_down, flags=flags, site=site, label=label)
        except OutOfMemory:
            if not context.trim_pools():
                raise
            allocation = memory.allocate(nbytes, bank=bank, top_down=top_down, flags=flags, site=site, label=label)
        release = context.release
        if release is None:
            context.release = release = partial(free_when_idle, context, memory.free)
        buffer = Buffer(allocation, 0, nbytes, release)
        buffer.driver = self.driver
        return buffer

    def empty(self, shape: int | tuple[int, ...], dtype: Any = "float32") -> DeviceArray:
        """Allocate an array now, outside any stream's order."""
        dtype = as_dtype(dtype)
        shape = extents_of(shape)
        size = math.prod(shape) * dtype.itemsize
        buffer = self.allocate(size)
        release, buffer._release = buffer._release, None
        array = DeviceArray(buffer.allocation, 0, dtype, shape, release)
        array.driver = self.driver
        return array

    def host_malloc(self, shape: int | tuple[int, ...], dtype: Any = "uint8", *, flags: int = 0) -> HostArray:
        """Allocate pinned host memory that every device reaches; `flags` are kept (Runtime API, 2.6 topsHostMalloc)."""
        return self._host_array(partial(self.driver.host.allocate, flags=flags), shape, dtype)

    def malloc_managed(self, shape: int | tuple[int, ...], dtype: Any = "uint8") -> HostArray:
        """Allocate managed memory: one pointer for the host and every device."""
        return self._host_array(self.driver.host.managed, shape, dtype)

    def register(self, array: Any, *, flags: int = 0) -> HostArray:
        """Let every device reach a writable numpy array or buffer; `close` ends that and leaves the bytes alone.

        Its device pointer differs from the host's. Raises InvalidType, or InvalidValue when it is read-only, empty or
        registered already (TOPS Runtime API, 2.6 topsHostRegister).
        """
        context, host = self.context, self.driver.host
        allocation = host.register(array, flags)  # which says what is wrong with what is no writable buffer
        view = array if isinstance(array, np.ndarray) else np.frombuffer(array, np.uint8)
        registered = HostArray(
            allocation,
            view.dtype,
            view.shape,
            partial(free_when_idle, context, host.unregister),
            view,
        )
        registered.driver = self.driver
        return registered

    def _host_array(self, make: Callable[[int], Allocation], shape: int | tuple[int, ...], dtype: Any) -> HostArray:
        dtype = as_dtype(dtype)
        shape = extents_of(shape)
        size = math.prod(shape) * dtype.itemsize
        context = self.context
        array = HostArray(make(size), dtype, shape, partial(free_when_idle, context, self.driver.host.free))
        array.driver = self.driver
        return array

    def symbol(self, variable: Variable | str) -> Symbol:
        """Return this device's instance of a declared variable, given itself or its name, as an array to copy.

        `address` and `nbytes` say where it is; it owns nothing. Raises NotFound, InvalidValue or InvalidType for what
        names no one variable (TOPS Runtime API, 2.6 topsGetSymbolAddress, topsMemcpyToSymbol).
        """
        return symbol(self.context, variable)

    @property
    def printing(self) -> Printing:
        """Where what its kernels print goes, and how much of it is kept until then."""
        return self.context.printing

    @property
    def signals(self) -> Signals:
        """The kernel signals that host and kernels share (TOPS Runtime API, 2.11)."""
        return self.context.signals

    # ---- waiting

    def sync(self, timeout: float | None = None) -> None:
        """Block until all work of the device is over, then raise the first failure of one of its streams.

        Raises TimeoutError, WouldDeadlock where the wait could never end (TOPS Runtime API, 2.2 topsDeviceSynchronize).
        """
        context = self.context
        self.driver.wait_all(self.outstanding(), timeout)
        context.check_survived()
        context.release_excess()
        self.raise_error()

    async def wait(self) -> None:
        """Wait until all work of the device is over, then raise the first failure of one of its streams."""
        context = self.context
        for item in self.outstanding():
            await current_home().park(item)
        context.check_survived()
        context.release_excess()
        self.raise_error()

    def outstanding(self) -> list[Completion]:
        """Return what the device still has to finish: a snapshot."""
        context = self.context
        with self.driver.lock:
            streams = list(context.active)
        return [item for stream in streams for item in stream.outstanding()]

    def raise_error(self) -> None:
        """Raise a fresh exception for the first stream of the device that has failed."""
        with self.driver.lock:
            failed = sorted(self.context.poisoned, key=lambda stream: stream.number)
            error = next((stream._error for stream in failed if stream._error is not None), None)
        if error is not None:
            look_at(error)
            raise error.fresh()

    async def reset(self) -> None:
        """Drop queued work, end running kernels at their next suspension, and free all memory of the device.

        Waiting callers get StreamAborted; streams, buffers and pools made before are dead. Returns when the device is
        fresh (TOPS Runtime API, 2.2 topsDeviceReset).
        """
        old, items = self._retire()
        for item in items:
            await current_home().park(item)
        old.close_memory()

    def reset_sync(self) -> None:
        """As `reset`, blocking. Raises WouldDeadlock where the wait could never end; nothing has changed then."""
        for item in self.outstanding():
            self.driver.guard_blocking(item)
        old, items = self._retire()
        self.driver.wait_all(items)
        old.close_memory()

    def _retire(self) -> tuple[DeviceContext, list[Completion]]:
        old = self.driver.replace_context(self.ordinal)
        old.fail_all(StreamAborted(f"device {self.ordinal} was reset"))
        with self.driver.lock:
            streams = list(old.active)
        return old, [item for stream in streams for item in stream.outstanding()]

    # ---- peers

    def can_access_peer(self, other: Device) -> int:
        """Return the access word from this device to another: 0 without a link (TOPS Runtime API, 2.7)."""
        return self.driver.topology.access_word(self.ordinal, other.ordinal)

    def enable_peer_access(self, other: Device) -> None:
        """Let kernels of this device reach another's memory.

        Raises NotSupported without a link, PeerAccessAlreadyEnabled, InvalidValue for the device itself.
        """
        if other.ordinal == self.ordinal:
            raise InvalidValue(f"device {self.ordinal} is no peer of itself")
        if not self.can_access_peer(other):
            raise NotSupported(f"device {self.ordinal} has no link to device {other.ordinal}")
        peers = self.context.peers
        with self.driver.lock:
            if other.ordinal in peers:
                raise PeerAccessAlreadyEnabled(f"device {self.ordinal} reaches device {other.ordinal} already")
            peers.add(other.ordinal)

    def disable_peer_access(self, other: Device) -> None:
        """Take the access back. Raises PeerAccessNotEnabled when there is none."""
        with self.driver.lock:
            if other.ordinal not in self.context.peers:
                raise PeerAccessNotEnabled(f"device {self.ordinal} does not reach device {other.ordinal}")
            self.context.peers.discard(other.ordinal)

    # ---- queries

    def memory_info(self) -> tuple[int, int]:
        """Return (free, total) bytes of device memory (TOPS Runtime API, 2.6 topsMemGetInfo)."""
        figures = self.context.memory.statistics()
        return figures.free, figures.total

    def buffer_at(self, address: int, nbytes: int) -> Buffer:
        """Return the bytes at a device address, owning nothing. Raises IllegalAddress naming the nearest allocation."""
        if not isinstance(address, int):
            raise InvalidType(f"the address is {address!r}; an int is right")
        allocation = self.driver.space.find(address)
        offset = address - allocation.address
        allocation.check(offset, nbytes, f"buffer_at on device {self.ordinal}")
        buffer = Buffer(allocation, offset, nbytes)
        buffer.driver = self.driver
        return buffer

    def statistics(self) -> DeviceStatistics:
        """Return a snapshot of memory, streams and peers."""
        context = self.context
        with self.driver.lock:
            active, poisoned, peers = list(context.active), len(context.poisoned), tuple(sorted(context.peers))
        pending = sum(len(stream.pending()) for stream in active)
        memory = context.memory.statistics()
        return DeviceStatistics(
            self.ordinal, self.arch.name, memory, len(active), pending, poisoned, self.arch.clusters, peers
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and (other.ordinal, other.driver) == (self.ordinal, self.driver)

    def __hash__(self) -> int:
        return hash((self.ordinal, id(self.driver)))

    def __repr__(self) -> str:
        return f"<Device {self.ordinal}: {self.name}>"


def _whole(ordinal: object) -> int:
    """Return an ordinal as an int. Raises InvalidType for what is none: 1.0 and True are equal to one and none."""
    if isinstance(ordinal, SupportsIndex) and not isinstance(ordinal, bool):
        return operator.index(ordinal)
    raise InvalidType(f"the ordinal of a device is {ordinal!r}; an int, as in Device(0), is right")
