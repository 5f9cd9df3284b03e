"""One emulated GCU as a program sees it: its properties, its streams, its peers; its memory is `DeviceMemory`."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, SupportsIndex

from atops.base.errors import (
    InvalidHandle,
    InvalidType,
    InvalidValue,
    NotSupported,
    PeerAccessAlreadyEnabled,
    PeerAccessNotEnabled,
    StreamAborted,
)
from atops.base.options import whole
from atops.base.waiting.current_loop import current_loop_adapter
from atops.device.arch import Architecture
from atops.device.memory.device_memory import MemoryStatistics
from atops.runtime.board.context import DeviceContext
from atops.runtime.board.current_device import current_ordinal, current_stream, restore_ordinal, set_ordinal
from atops.runtime.board.printing import Printing
from atops.runtime.board.signals import Signals
from atops.runtime.core.completion import Completion
from atops.runtime.core.event import Event
from atops.runtime.core.failures import look_at
from atops.runtime.core.html_reports import device_html
from atops.runtime.device_memory import DeviceMemory
from atops.runtime.driver import Driver, current_driver
from atops.runtime.executors.executor import StepWaiter
from atops.runtime.stream import Stream

__all__ = ("Device", "DeviceStatistics", "close_when_over")

RESET = "a reset of its device"  # what has freed memory, in messages


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


class Device(DeviceMemory):
    """Device `ordinal` (the current one unless told) of `driver` (the current one unless told).

    A handle: making two for one device makes one device. Raises InvalidDevice when the board has no such device,
    InvalidType for an ordinal that is no int.
    """

    __slots__ = ("_saved",)
    _repr_html_ = device_html

    def __init__(self, ordinal: int | None = None, driver: Driver | None = None) -> None:
        if driver is not None and not isinstance(driver, Driver):
            raise InvalidType(f"the driver of a device is {driver!r}; expected a Driver, or None for the current one")
        self.driver = current_driver() if driver is None else driver
        if ordinal is None:
            ordinal = current_ordinal(self.driver.serial)
        self.ordinal = ordinal if type(ordinal) is int else _whole(ordinal)
        self._saved: list[Any] = []
        self.driver.context(self.ordinal)

    @staticmethod
    def count(driver: Driver | None = None) -> int:
        """Return how many devices the board has (TOPS Runtime API, 2.2 topsGetDeviceCount)."""
        return (current_driver() if driver is None else driver).devices

    @property
    def arch(self) -> Architecture:
        """The figures of its architecture."""
        return self.driver.arch

    @property
    def geometry(self) -> Architecture:
        """Its figures with the clusters and SIPs that this process has reserved; without a reservation `arch`."""
        resources = self.context.resources
        reserved: Architecture = self.arch if resources is None else resources.geometry
        return reserved

    @property
    def name(self) -> str:
        """The product's name."""
        return f"Enflame {self.arch.product} ({self.arch.name}, emulated)"

    # ---- choosing

    def set_current(self) -> None:
        """Make it the current device of this task, and the default of this thread."""
        set_ordinal(self.driver.serial, self.ordinal)

    def __enter__(self) -> Device:
        self._saved.append(set_ordinal(self.driver.serial, self.ordinal))
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
            if mask is not None and not (whole(mask) and 0 < mask < 1 << count):
                raise InvalidValue(f"{what} is {mask!r}; expected 1 to {(1 << count) - 1:#x}, a bit each of {count}")
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

    @property
    def current_stream(self) -> Stream:
        """The stream of the innermost `with stream:` of this task on this device, else the null stream.

        For functions that take none. A task begins with its parent's, a thread with the null stream.
        """
        found = current_stream(self.context)
        assert found is None or isinstance(found, Stream)
        return found or self.null_stream

    def create_event(self, *, timing: bool = True, once: bool = False, queryable: bool = True) -> Event:
        """Create an event of this device. See `Event`."""
        event = Event(self.ordinal, timing=timing, once=once, queryable=queryable)
        event.belong_to(self.driver)
        return event

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
        if context.active:
            self.driver.wait_all(self.outstanding(), timeout)
        self.settle(context)

    async def wait(self) -> None:
        """Wait until all work of the device is over, then raise the first failure of one of its streams."""
        context = self.context
        if context.active:
            for item in self.outstanding():
                await current_loop_adapter().park(item)
        self.settle(context)

    def settle(self, context: DeviceContext | None = None) -> None:
        """Do what follows the wait for all work: give back what pools keep too much, raise the first failure."""
        context = context or self.context
        context.check_survived()
        context.release_excess()
        self.raise_error()

    @property
    def is_idle(self) -> bool:
        """Whether no stream of the device has work: a snapshot."""
        return not self.context.active

    def outstanding(self) -> list[Completion]:
        """Return what the device still has to finish: a snapshot."""
        context = self.context
        with self.driver.lock:
            streams = list(context.active)
        return [item for stream in streams for item in stream.outstanding()]

    def raise_error(self) -> None:
        """Raise a fresh exception for the first stream of the device that has failed."""
        if not self.context.poisoned:
            return
        with self.driver.lock:
            failed = self.context.failed_streams()
            error = next((stream.failure for stream in failed if stream.failure is not None), None)
        if error is not None:
            look_at(error)
            raise error.fresh()

    async def reset(self) -> None:
        """Drop queued work, end running kernels at their next suspension, and free all memory of the device.

        Waiting callers get StreamAborted; streams, buffers and pools made before are dead. Returns when the device is
        fresh (TOPS Runtime API, 2.2 topsDeviceReset).
        """
        old, items = self._retire()
        try:
            for item in items:
                await current_loop_adapter().park(item)
        finally:  # when the wait is cancelled the driver does the rest
            close_when_over(old, items)

    def reset_sync(self) -> None:
        """As `reset`, blocking. Raises WouldDeadlock where the wait could never end; nothing has changed then."""
        for item in self.outstanding():
            self.driver.guard_blocking(item)
        old, items = self._retire()
        try:
            self.driver.wait_all(items)
        finally:
            close_when_over(old, items)

    def _retire(self) -> tuple[DeviceContext, list[Completion]]:
        old = self.driver.replace_context(self.ordinal)
        old.fail_all(StreamAborted(f"device {self.ordinal} was reset"))
        with self.driver.lock:
            streams = list(old.active)
        return old, [item for stream in streams for item in stream.outstanding()]

    # ---- peers

    def can_access_peer(self, other: Device) -> int:
        """Return the access word from this device to another: 0 without a link (TOPS Runtime API, 2.7)."""
        return self.driver.topology.access_word(self.ordinal, self._peer(other))

    def enable_peer_access(self, other: Device) -> None:
        """Let kernels of this device reach another's memory.

        Raises NotSupported without a link, PeerAccessAlreadyEnabled, InvalidValue for the device itself.
        """
        if self._peer(other) == self.ordinal:
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
        peer = self._peer(other)
        with self.driver.lock:
            if peer not in self.context.peers:
                raise PeerAccessNotEnabled(f"device {self.ordinal} does not reach device {peer}")
            self.context.peers.discard(peer)

    def _peer(self, other: Device) -> int:
        if not isinstance(other, Device):
            raise InvalidType(f"a peer of {self!r} is {other!r}; expected a Device")
        if other.driver is not self.driver:
            raise InvalidHandle(f"{other!r} is of {other.driver!r}; {self!r} is of {self.driver!r}")
        return other.ordinal

    # ---- queries

    def statistics(self) -> DeviceStatistics:
        """Return a snapshot of memory, streams and peers."""
        context = self.context
        with self.driver.lock:
            active, peers = list(context.active), tuple(sorted(context.peers))
            poisoned = len(context.failed_streams())
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


def close_when_over(old: DeviceContext, items: list[Completion]) -> None:
    """Free the memory of a device that was reset: now if all that ran there is over, else as soon as it is."""
    step = partial(close_when_over, old, items)
    if not any(item.add_waiter(StepWaiter(old.driver.post, step)) for item in items):
        old.close_memory(RESET)
        with old.driver.lock:
            old.driver.retired.pop(old, None)


def _whole(ordinal: object) -> int:
    """Return an ordinal as an int. Raises InvalidType for what is none: 1.0 and True are equal to one and none."""
    if isinstance(ordinal, SupportsIndex) and not isinstance(ordinal, bool):
        return operator.index(ordinal)
    raise InvalidType(f"the ordinal of a device is {ordinal!r}; expected an int, as in Device(0)")
