"""One emulated GCU as a program sees it: its properties, its streams, its memory, its peers."""

from __future__ import annotations

import operator
import threading
from dataclasses import dataclass
from types import TracebackType
from typing import SupportsIndex

from atops.base.errors import (
    InvalidHandle,
    InvalidType,
    InvalidValue,
    NotInitialized,
    NotSupported,
    PeerAccessAlreadyEnabled,
    PeerAccessNotEnabled,
    StreamAborted,
)
from atops.base.html_table import bar, html_table
from atops.base.neighbours import answers, keywords, methods_of, refuse_await
from atops.base.options import check_flag, whole
from atops.device.arch import Architecture
from atops.device.memory.memory_reports import MemoryStatistics
from atops.runtime.board.context import DeviceContext
from atops.runtime.board.current_device import current_ordinal, current_stream, enter, leave, use_device
from atops.runtime.board.deferred_free import close_when_over
from atops.runtime.board.printing import Printing
from atops.runtime.board.signals import Signals
from atops.runtime.core.completion import Completion, look_at, over
from atops.runtime.core.event import EVENT_OPTIONS, Event
from atops.runtime.core.order import EVERYTHING, NOTHING
from atops.runtime.device_memory import DeviceMemoryVerbs
from atops.runtime.driver import Driver, board_of, current_board
from atops.runtime.driver_board import Board
from atops.runtime.owning_queue import OwningQueue
from atops.runtime.properties import DeviceProperties, properties_of
from atops.runtime.queues.host_functions import CALLS, warn_in_host_function
from atops.runtime.stream import Stream, queue_of
from atops.trace.words import format_bytes

__all__ = ("Device", "DeviceStatistics", "ThreadStreams")


class ThreadStreams(threading.local):
    """The per-thread streams of one thread: by device, for as long as the device is not reset."""

    def __init__(self) -> None:
        self.streams: list[Stream] = []


THREAD = ThreadStreams()


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


@answers("Device")
class Device(DeviceMemoryVerbs):
    """Device `ordinal` (the current one unless told) of `driver` (the current one unless told).

    The same object each time: `Device(0) is Device(0)`. In `with device:` it is the current device, and its driver the
    current one. Raises InvalidDevice when the board has no such device, InvalidType for an ordinal that is no int.
    """

    __slots__ = ()

    def __new__(cls, ordinal: int | None = None, driver: Driver | None = None) -> Device:
        """Return the object of the device that the driver keeps."""
        if driver is not None and not isinstance(driver, Driver):
            raise InvalidType(f"the driver of a device is {driver!r}; expected a Driver, or None for the current one")
        board = current_board() if driver is None else board_of(driver)
        if ordinal is None:
            ordinal = current_ordinal(board.serial)
        ordinal = ordinal if type(ordinal) is int else _whole(ordinal)
        board.context(ordinal)
        return board.device(ordinal)

    def __copy__(self) -> Device:
        return self

    @classmethod
    def _of(cls, board: Board, ordinal: int) -> Device:
        """Return device `ordinal`, which there is, of a board that may be closed."""
        device = object.__new__(cls)
        device._board, device._ordinal = board, ordinal
        return device

    @staticmethod
    def all(driver: Driver | None = None) -> list[Device]:
        """Return every device of the board, in order."""
        board = current_board() if driver is None else board_of(driver)
        return [Device(ordinal, board.driver) for ordinal in range(board.devices)]

    @staticmethod
    def count(driver: Driver | None = None) -> int:
        """Return how many devices the board has (TOPS Runtime API, 2.2 topsGetDeviceCount)."""
        return (current_board() if driver is None else driver).devices

    @property
    def driver(self) -> Driver:
        """The driver of its board."""
        return self._board.driver

    @property
    def ordinal(self) -> int:
        """Its number on the board, from 0 on."""
        return self._ordinal

    @property
    def arch(self) -> Architecture:
        """The figures of its architecture."""
        return self._board.arch

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

    @property
    def properties(self) -> DeviceProperties:
        """All figures that C-style calls tell of it, with Python's names."""
        return properties_of(self.ordinal, self.name, self.geometry, self.context.memory.total)

    # ---- choosing

    def set_current(self) -> None:
        """Make it the current device of this task, or of this thread outside of tasks, until another is.

        Its driver is the current one with it. Inside a block, `with device:` or `with stream:`, until the block is
        left. In a notebook it holds in later cells, too (TOPS Runtime API, 2.2 topsSetDevice).
        """
        use_device(self._board, self.ordinal)

    def use(self) -> Device:
        """As `set_current`. Returns the device."""
        self.set_current()
        return self

    def __enter__(self) -> Device:
        enter(self, self._board, self.ordinal)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        leave(self)

    # ---- making things

    @keywords(
        non_blocking="nonblocking=True", flags="nonblocking=True", stream_flags="nonblocking=True",
        options="its fields: create_stream(nonblocking=True, priority=-1)", label="name", maxsize="capacity",
        device="the create_stream() of that device", is_nonblocking="nonblocking=True", stream_priority="priority",
    )  # fmt: skip
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
        check_flag("nonblocking", nonblocking)
        warn_in_host_function(self._board, CALLS, "create_stream()")
        return OwningQueue(
            self.context, priority=priority, nonblocking=nonblocking, capacity=capacity, name=name,
            cluster_mask=cluster_mask, sip_mask=sip_mask,
        ).stream  # fmt: skip

    @property
    def null_stream(self) -> Stream:
        """The legacy default stream: it waits for all earlier work of blocking streams, and they for it."""
        context = self.context
        if context.null_stream is None:
            queue = OwningQueue(context, null=True)
            with self._board.lock:
                if context.null_stream is None:
                    context.null_queue, context.null_stream = queue, queue.stream
        found = context.null_stream
        assert found is not None
        return found

    @property
    def default_stream(self) -> Stream:
        """As `null_stream`."""
        return self.null_stream

    @property
    def per_thread_stream(self) -> Stream:
        """This thread's own stream here: a blocking stream, made when first used and after each reset.

        C-style calls know it by the handle 2 (topsStreamPerThread).
        """
        context = self.context
        streams = THREAD.streams
        for stream in streams:
            if queue_of(stream).context is context:
                return stream
        name = f"per-thread stream of {threading.current_thread().name}"
        stream = OwningQueue(context, name=name, per_thread=True).stream
        THREAD.streams = [*(each for each in streams if queue_of(each).context.dead is None), stream]
        return stream

    @property
    def current_stream(self) -> Stream:
        """The stream of the innermost `with stream:` or `stream.use()` of this task here, else the null stream.

        For functions that take none. A task begins with its parent's, a thread with the null stream.
        """
        return current_stream(self.context) or self.null_stream

    @keywords(**EVENT_OPTIONS)
    def create_event(self, *, timing: bool = True, once: bool = False, queryable: bool = True) -> Event:
        """Create an event of this device. See `Event`. Raises InvalidValue for an option that is no bool."""
        warn_in_host_function(self._board, CALLS, "create_event()")
        return Event(self.context, timing=timing, once=once, queryable=queryable)

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
        refuse_await("`await device.wait()`")
        context = self.context
        context.free_dropped()
        given = self._board.seq
        if context.active:
            self._board.wait_all(self.outstanding(), timeout)
        self.end_wait(context, given)

    async def wait(self) -> None:
        """Wait until all work of the device is over, then raise the first failure of one of its streams."""
        context = self.context
        context.free_dropped()
        given = self._board.seq
        await over(self.outstanding() if context.active else ())
        self.end_wait(context, given)

    def end_wait(self, context: DeviceContext | None = None, given: int = 0) -> None:
        """Do what follows the wait for all work: give back what pools keep too much, raise the first failure.

        `given` is the number of the newest command that was waited for.
        """
        context = context or self.context
        context.check_survived()
        if (detector := self._board.detector) is not None:
            detector.device_over(self.ordinal, given)
        context.synchronised((NOTHING, EVERYTHING, self._board.seq) if context.order.host_asked else None)
        if context.has_failed:
            self.raise_error()

    @property
    def is_idle(self) -> bool:
        """Whether no stream of the device has work: a snapshot."""
        given = self._board.seq
        if self.context.active:
            return False
        if (detector := self._board.detector) is not None:
            detector.device_over(self.ordinal, given)
        return True

    def outstanding(self) -> list[Completion]:
        """Return what the device still has to finish: a snapshot."""
        context = self.context
        with self._board.lock:
            streams = list(context.active)
        return [item for stream in streams for item in stream.outstanding()]

    def raise_error(self) -> None:
        """Raise a fresh exception for the first stream of the device that has failed."""
        if not self.context.poisoned:
            return
        with self._board.lock:
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
            await over(items)
        finally:  # when the wait is cancelled the driver does the rest
            close_when_over(old, items)

    def reset_sync(self) -> None:
        """As `reset`, blocking. Raises WouldDeadlock where the wait could never end; nothing has changed then."""
        self._board.guard_blocking(self.outstanding())
        old, items = self._retire()
        try:
            self._board.wait_all(items)
        finally:
            close_when_over(old, items)

    def _retire(self) -> tuple[DeviceContext, list[Completion]]:
        old = self._board.replace_context(self.ordinal)
        old.fail_all(StreamAborted(f"device {self.ordinal} was reset"))
        with self._board.lock:
            streams = list(old.active)
        return old, [item for stream in streams for item in stream.outstanding()]

    # ---- peers

    def can_access_peer(self, other: Device) -> int:
        """Return the access word from this device to another: 0 without a link (TOPS Runtime API, 2.7)."""
        return self._board.topology.access_word(self.ordinal, self._peer(other))

    def enable_peer_access(self, other: Device) -> None:
        """Let kernels of this device reach another's memory.

        Raises NotSupported without a link, PeerAccessAlreadyEnabled, InvalidValue for the device itself.
        """
        if self._peer(other) == self.ordinal:
            raise InvalidValue(f"device {self.ordinal} is no peer of itself")
        if not self.can_access_peer(other):
            raise NotSupported(f"device {self.ordinal} has no link to device {other.ordinal}")
        peers = self.context.peers
        with self._board.lock:
            if other.ordinal in peers:
                raise PeerAccessAlreadyEnabled(f"device {self.ordinal} reaches device {other.ordinal} already")
            peers.add(other.ordinal)

    def disable_peer_access(self, other: Device) -> None:
        """Take the access back. Raises PeerAccessNotEnabled when there is none."""
        peer = self._peer(other)
        with self._board.lock:
            if peer not in self.context.peers:
                raise PeerAccessNotEnabled(f"device {self.ordinal} does not reach device {peer}")
            self.context.peers.discard(peer)

    def _peer(self, other: Device) -> int:
        if not isinstance(other, Device):
            raise InvalidType(f"a peer of {self!r} is {other!r}; expected a Device")
        if other._board is not self._board:
            raise InvalidHandle(f"{other!r} is of {other.driver!r}; {self!r} is of {self.driver!r}")
        return other.ordinal

    # ---- queries

    def statistics(self) -> DeviceStatistics:
        """Return a snapshot of memory, streams and peers."""
        context = self.context
        with self._board.lock:
            active, peers = list(context.active), tuple(sorted(context.peers))
            poisoned = len(context.failed_streams())
        pending = sum(len(stream.pending()) for stream in active)
        memory = context.memory.statistics()
        return DeviceStatistics(
            self.ordinal, self.arch.name, memory, len(active), pending, poisoned, self.arch.clusters, peers
        )

    @property
    def id(self) -> int:
        """Its ordinal, as `int(device)` and `ordinal`."""
        return self.ordinal

    def __int__(self) -> int:
        return self.ordinal

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and (other.ordinal, other._board) == (self.ordinal, self._board)

    def __hash__(self) -> int:
        return hash((self.ordinal, id(self._board)))

    def __repr__(self) -> str:
        title = self._board.title
        of = f" of {title}" if title else ""
        return f"<Device {self.ordinal}{of}: {self.name}>"

    def _repr_html_(self) -> str:
        title, arch = f"Device {self.ordinal}: {self.name}", self.arch
        try:
            state = self.statistics()
        except NotInitialized as error:
            return html_table(title, [("architecture", arch.name), ("state", error)])
        memory = state.memory
        queued = f"{state.active_streams} with {state.pending_commands} commands"
        full = f"{format_bytes(memory.used)} of {format_bytes(memory.total)} in {memory.live} allocations"
        return html_table(title, (
            ("architecture", arch.name),
            ("clusters", f"{arch.clusters} of {arch.sips_per_cluster} SIPs"),
            ("scratchpads", f"{format_bytes(arch.l1_usable)} L1 a SIP, {format_bytes(arch.l2_usable)} L2 a cluster"),
            ("memory", bar(memory.used, memory.total, full)),
            ("peak", format_bytes(memory.peak)),
            ("banks", f"{len(memory.banks)} of {format_bytes(memory.banks[0].total)}" if memory.banks else None),
            ("fragmentation", f"{memory.fragmentation:.0%}" if memory.fragmentation else None),
            ("quarantined", format_bytes(memory.quarantined) if memory.quarantined else None),
            ("streams", queued if state.active_streams else "idle"),
            ("failed streams", state.poisoned_streams or None),
            ("peers", ", ".join(f"device {ordinal}" for ordinal in state.peers) or None),
        ))  # fmt: skip


methods_of(Device, DeviceMemoryVerbs)
Board.device_type = Device


def _whole(ordinal: object) -> int:
    """Return an ordinal as an int. Raises InvalidType for what is none: 1.0 and True are equal to one and none."""
    if isinstance(ordinal, SupportsIndex) and not isinstance(ordinal, bool):
        return operator.index(ordinal)
    raise InvalidType(f"the ordinal of a device is {ordinal!r}; expected an int, as in Device(0)")
