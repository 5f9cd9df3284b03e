"""What one kernel thread accesses: the part of the race detector that runs at every access."""

from __future__ import annotations

from collections.abc import Sequence
from types import CodeType
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from atops.base.log_fields import get_logger
from atops.device.call_site import Site, calling_place, file_shown
from atops.device.geometry import Array, Key, Space, is_basic
from atops.device.races.access_log import Entry, Flight, Row
from atops.device.races.clocks import SIGNAL, Change, Met, Stamp, Store, ThreadClock
from atops.device.races.race import merged
from atops.device.races.rectangles import Rect, layout, selected, starts
from atops.device.races.unwritten import Unwritten
from atops.device.races.wording import race_of

if TYPE_CHECKING:
    from atops.device.exec.thread import KernelThread
    from atops.device.memory.allocation import Allocation
    from atops.device.races.detector import BlockRaces
    from atops.device.span.span import Span

__all__ = ("Accessed", "ThreadRaces")

log = get_logger("atops.kernel")
STORES: Final = 65_536  # to a memory that had unwritten bytes, before they are looked at
NEVER_WAITED: Final = "transfer never waited for"
ALIKE: Final = 50_000  # loads in a row, before a thread is asked whether it spins
SPINS: Final = 10  # how often it is found to, one time after the other, before that is said
NUMBERS: Final = (int, float, complex, np.generic)
LOCAL, SHARED = Space.LOCAL, Space.SHARED  # an enumeration's member takes long to find
WHOLE: Final[Key] = ...


class Accessed:
    """What is accessed: the bytes, and the memory that they lie in.

    `start` is the first of them, of the allocation or the scratchpad, where they have no gaps and that is known.
    """

    __slots__ = ("allocation", "array", "space", "start")

    def __init__(self, array: Array, allocation: Allocation | None, space: Space, start: int | None) -> None:
        self.array = array
        self.allocation = allocation
        self.space = space
        self.start = start


Near = tuple[int, int, Sequence[Rect], bool, Flight]  # first byte and end, all bytes, whether stored to, by what


class ThreadRaces:
    """What one thread does: its accesses, its transfers, what it learns of others."""

    __slots__ = (
        "asked", "asked_at", "block", "clock", "flights", "last", "read_signals", "relaxed", "seen", "spins", "thread",
        "turn", "unwritten",
    )  # fmt: skip

    def __init__(self, block: BlockRaces, thread: KernelThread, clock: ThreadClock) -> None:
        self.block = block
        self.thread = thread
        self.clock = clock
        self.turn = self.seen = self.spins = self.asked = 0
        self.asked_at: object = None  # what it learned of last, and in which turn, and how often in a row: `asked`
        self.flights: list[Near] = []  # ends of transfers that lie in its local memory
        self.last: Entry | None = None  # what it accessed last, of memory that others reach, or by a transfer
        self.relaxed = 0  # inside how many blocks of k.relaxed
        self.unwritten: Unwritten | None = None
        self.read_signals: dict[object, Stamp] = {}  # when it read each first, since it stored to that

    def taken(self, start: int, stop: int) -> None:
        """Note that the thread takes these bytes of its L1."""
        if self.unwritten is None:
            self.unwritten = Unwritten()
        self.unwritten.take(start, stop, *calling_place(1))

    def access(self, kind: str, span: Span, key: Key, value: object = None) -> None:
        """Note a load or a store by the running thread, of a span's part at `key`; or that the whole span escapes."""
        if kind == "escape":
            self._escape(span)
            return
        self.seen += 1
        write = kind == "store"
        if span.space is LOCAL:
            if self.flights or (self.unwritten is not None and self.unwritten.bytes.starts):
                low = span.offset
                if not span.contiguous or self._concerns(low, low + span.array.nbytes):
                    self._look_at_local(self._part(span, key), write)
            return
        rows = self._part(span, key)
        self.turn = turn = self.turn + 1
        self.last = entry = Entry(
            self.thread, "stores" if write else "loads", self.clock.now or self.clock.stamp(), turn, *calling_place(3)
        )
        entry.relaxed = self.relaxed > 0
        if write and isinstance(value, NUMBERS):
            entry.value = value, span.array.dtype.char
        self._enter(span.allocation, rows, write, entry)

    def _part(self, span: Span, key: Key) -> Sequence[Rect]:
        """Return the bytes of a span's part at a key, by device address or from the first byte of a scratchpad."""
        array, allocation, start = span.array, span.allocation, span.offset
        if allocation is not None:
            start += allocation.address
        elif (space := span.space) is not LOCAL and space is not SHARED:
            start = array.__array_interface__["data"][0] - self._pad(SHARED)  # constants: no byte of L2, but one of all
        kind = type(key)
        if key is WHOLE:
            if span.contiguous:
                return [(start, array.nbytes, 0, 1)] if array.nbytes else []
        elif kind is int and array.ndim == 1:
            return [(start + (key if key >= 0 else key + len(array)) * array.strides[0], array.itemsize, 0, 1)]
        elif kind is slice and span.contiguous and array.nbytes:
            first, last, step = key.indices(len(array))
            if step == 1:
                size = array.nbytes // len(array)
                return [(start + first * size, (last - first) * size, 0, 1)] if last > first else []
        elif kind is tuple and len(key) == array.ndim and all(type(each) is int for each in key):
            for place, extent, step in zip(key, array.shape, array.strides, strict=True):
                start += (place if place >= 0 else place + extent) * step
            return [(start, array.itemsize, 0, 1)]
        if not is_basic(key):
            return selected(array, key, array.__array_interface__["data"][0] - start)
        part = array if key is WHOLE else _part_of(array, key)
        if part is not array:
            start += part.__array_interface__["data"][0] - array.__array_interface__["data"][0]
        return _laid_out(part, start)

    def _pad(self, space: Space) -> int:
        """Return the address of the first byte of the thread's L1, or of its block's L2."""
        pad = self.thread.sip.l1 if space is LOCAL else self.thread.block.cluster.l2
        address: int = pad.__array_interface__["data"][0]
        return address

    def _bytes_of(self, operand: Accessed) -> Sequence[Rect]:
        """Return the bytes of a transfer's operand, as `_part` does."""
        array, allocation, start = operand.array, operand.allocation, operand.start
        if start is not None:
            return [(start if allocation is None else allocation.address + start, array.nbytes, 0, 1)]
        if allocation is None:
            origin = self._pad(operand.space)
        else:
            origin = allocation.data.__array_interface__["data"][0] - allocation.address
        return _laid_out(array, array.__array_interface__["data"][0] - origin)

    def issued(
        self, event: Any, write: Accessed | None, read: Accessed | None, code: CodeType, instruction: int
    ) -> Flight:
        """Enter a transfer that the thread issues: it is in flight until `waited`."""
        self.turn = turn = self.turn + 1
        self.last = flight = Flight(
            self.thread, event.operation.name, self.clock.now or self.clock.stamp(), turn, code, instruction
        )
        context = event.context
        flight.owner, flight.shared, flight.over = self, context.shared, False
        flight.end = None
        flight.relaxed = self.relaxed > 0
        if context.chain is not None:
            flight.context, flight.chain = context, context.chain.connected()
        near: list[Near] = []
        for operand, changes in ((read, False), (write, True)):
            if operand is None or not operand.array.size:
                continue
            self.seen += 1
            rows = self._bytes_of(operand)
            if operand.space is not LOCAL:
                self._enter(operand.allocation, rows, changes, flight)
                continue
            low, high = _bounds(rows)
            if (
                (self.flights or (self.unwritten is not None and self.unwritten.bytes.starts))
                and self._concerns(low, high)
            ):  # fmt: skip
                self._look_at_local(rows, changes, flight)
            near.append((low, high, rows, changes, flight))
        self.flights += near
        return flight

    def waited(self, flight: Flight) -> None:
        """Note that the thread has waited for a transfer: its own, or another's, of a context that they share."""
        if flight.over:
            self.block.launch.acquire(flight, self.clock)
            return
        flight.over = True
        owner: ThreadRaces = flight.owner  # type: ignore[assignment]  # as it was made
        if self is owner and self.flights:
            self.flights = [near for near in self.flights if near[4] is not flight]
        now = self.clock.now or self.clock.stamp()
        at_once = self is owner and self.turn == flight.begin_turn and now is flight.begin
        self.turn = turn = self.turn + 1
        flight.end, flight.end_turn = now, flight.begin_turn if at_once else turn
        if flight.shared:  # others may wait for it, too, and know then that it is over
            self.block.launch.release(flight, self.clock)

    def forgot(self, flight: Flight, transfer: str) -> None:
        """Note that the thread ends, or destroys the context, and has waited for no such transfer."""
        ends = Entry(self.thread, "goes on without it", self.clock.stamp(), self.turn, None, 0)
        remedy = f"`await` the event of that {flight.what} before the thread ends or its context is destroyed"
        launch, device = self.block.launch, self.thread.grid.chip.ordinal
        with launch.lock:
            launch.tell(race_of(NEVER_WAITED, (flight, True), (ends, False), f"the {transfer}", device, (), remedy))

    def _enter(self, allocation: Allocation | None, rows: Sequence[Rect], write: bool, entry: Entry) -> None:
        """Enter an access to global memory, or to shared memory."""
        block = self.block
        if allocation is None:
            log = block.log
            for start, run, pitch, count in rows:
                log.rows.append((start, run, pitch, count, write, entry))
            if len(log.rows) >= log.most:
                self._look_for_spin(log.rows)
                block.make_room()
            if (unwritten := block.unwritten) is not None and unwritten.bytes.starts:
                block.look_at_unwritten(rows, write, entry)
            return
        launch = block.launch
        launch.memories[allocation.address] = allocation
        if launch.stored and (stored := launch.stored.get(allocation.address)) is not None:
            if write and len(stored) < STORES:
                stored.append(rows)
            else:
                launch.look_at_unwritten(allocation, rows, write, entry)
        log = launch.log
        for start, run, pitch, count in rows:
            log.rows.append((start, run, pitch, count, write, entry))
        if len(log.rows) >= log.most:
            self._look_for_spin(log.rows)
            launch.make_room()

    def _look_for_spin(self, rows: Sequence[Row]) -> None:
        """Warn, once, of a thread that for long has loaded the same bytes in one line, and nothing else of a launch.

        It may spin: where one OS thread steps its block no other thread of that runs before it awaits something. Or it
        works on what is its own, which is not seen here. Called where a log is full, so by a thread that loads much.
        """
        *where, entry = rows[-1]
        stamp, code, instruction = entry.begin, entry.code, entry.instruction
        for *other, each in rows[-ALIKE:]:
            if each.begin is not stamp or each.instruction != instruction or each.code is not code or other != where:
                self.spins = 0
                return
        self.spins += 1
        if self.spins == SPINS and entry.what == "loads" and code is not None:
            self._warn(f"at {Site(code, instruction)} has loaded the same {where[1]} bytes {SPINS * ALIKE:,} times")

    def _warn(self, what: str) -> None:
        log.warning(
            "%s %s in a row: if it spins, no other thread of its block runs until it awaits something; wait with "
            "`await k.signal_wait(...)` or at a barrier", self.thread, what,
        )  # fmt: skip

    def last_access(self) -> str:
        """Say what the thread accessed last, and where."""
        last = self.last
        if last is None or last.code is None:
            return "no access to global or shared memory before"
        site = Site(last.code, last.instruction)
        return f"last access: {last.what}, {file_shown(site.path)}:{site.line}"

    def release(self, what: tuple[Any, ...], change: Change | None = None, atomic: bool = False) -> None:
        """Hand on what the thread did until now, to those that see `what`: a signal, a phase of a barrier.

        `change` has the value of a signal before and behind it; `atomic`: the latter comes of the former, in one step.
        """
        if what[0] == SIGNAL:
            now = self.clock.now or self.clock.stamp()
            begin = self._read_at(what, now)
            store = Store(begin or now, now, begin is not None and not atomic, calling_place(2))
            self.read_signals.pop(what, None)
            self.block.launch.store_signal(what[1], store)
        self.block.launch.release(what, self.clock, change)

    def acquire(self, what: tuple[object, ...], met: Met | None = None) -> None:
        """Learn what others did before they handed on `what`; of a signal, until `met` was true of its value.

        Warns, once, of a thread that for long has read a signal and nothing else of its launch.
        """
        if self.asked_at != (self.turn, what):
            self.asked_at, self.asked = (self.turn, what), 0
        self.asked += 1
        if self.asked == SPINS * ALIKE:
            self._warn(f"has read {' '.join(map(str, what))} {SPINS * ALIKE:,} times")
        if met is None and what[0] == SIGNAL:
            now = self.clock.now or self.clock.stamp()  # before it learns from the signal
            self.read_signals[what] = self._read_at(what, now) or now
        self.block.launch.acquire(what, self.clock, met)

    def _read_at(self, what: object, now: Stamp) -> Stamp | None:
        """Return when the thread read a signal first since it stored to that, and came to no barrier after; or None."""
        read = self.read_signals.get(what)
        same = read is not None and (read.grid_phase, read.block_phase) == (now.grid_phase, now.block_phase)
        return read if same else None

    def uses(self, context: object, code: CodeType, instruction: int) -> None:
        """Note that the thread uses a DTE context of its block."""
        self.block.launch.used(context, self.clock, self.thread, code, instruction)

    def _escape(self, span: Span) -> None:
        """Note that a plain array of some memory was handed out: what is done through it is not seen."""
        self.block.launch.escapes.setdefault(f"np.asarray of a span at {Site(*calling_place(3))}")
        if span.space is LOCAL:
            if self.unwritten is not None:
                self.unwritten.store(self._part(span, ...))
        elif span.allocation is None:
            self.block.escaped(self._part(span, ...))

    def _concerns(self, low: int, high: int) -> bool:
        """Tell whether these bytes of local memory may be in flight, or unwritten."""
        for first, last, _, _, _ in self.flights:
            if first < high and low < last:
                return True
        return self.unwritten is not None and self.unwritten.bytes.meets(low, high)

    def _look_at_local(self, rows: Sequence[Rect], write: bool, mine: Flight | None = None) -> None:
        """Tell of transfers of the thread's own that are in flight over local memory that it accesses, and of loads
        of what nothing has stored to. `mine` is a transfer's; that of a load or a store is made where it is told of.
        """
        low, high = _bounds(rows)
        launch = self.block.launch
        for first, last, others, stores, flown in self.flights:
            if first < high and low < last and (write or stores) and (ranges := _shared_bytes(rows, others)):
                entry = mine or self._local_entry(write)
                if flown.context is None or flown.context not in entry.chain:
                    device = self.thread.grid.chip.ordinal
                    remedy = f"`await` the event of that {flown.what} before this line"
                    sides = (flown, stores), (entry, write)
                    launch.tell(race_of("transfer in flight", *sides, self._memory(), device, ranges, remedy))
        unwritten = self.unwritten
        if unwritten is not None and unwritten.bytes.starts:
            if write:
                unwritten.store(rows)
            elif found := unwritten.load(rows):
                with launch.lock:
                    launch.tell_unwritten(unwritten, found, mine or self._local_entry(write), self._memory())

    def _local_entry(self, write: bool) -> Entry:
        what = "stores" if write else "loads"
        return Entry(self.thread, what, self.clock.stamp(), self.turn, *calling_place(2))

    def _memory(self) -> str:
        return f"local memory of {self.thread}"


def _part_of(array: Array, key: Any) -> Array:
    """Return the part of an array at a basic key: a view, of one element, too."""
    keys = key if isinstance(key, tuple) else (key,)
    part: Array = array[key] if any(each is ... or isinstance(each, str) for each in keys) else array[(*keys, ...)]
    return part


def _laid_out(array: Array, start: int) -> Sequence[Rect]:
    """Return the bytes of an array whose first element begins at `start`."""
    return [
        (start + first, run, pitch, count)
        for first, run, pitch, count in layout(array.shape, array.strides, array.itemsize)
    ]


def _bounds(rows: Sequence[Rect]) -> tuple[int, int]:
    """Return the first byte of an access and the end of its last; of none, an empty range."""
    if len(rows) == 1:
        start, run, pitch, count = rows[0]
        return start, start + pitch * (count - 1) + run
    ends = (start + pitch * (count - 1) + run for start, run, pitch, count in rows)
    return min((row[0] for row in rows), default=0), max(ends, default=0)


def _shared_bytes(rows: Sequence[Rect], others: Sequence[Rect]) -> list[tuple[int, int]]:
    """Return the bytes that two accesses to one scratchpad have in common."""
    found = []
    for row in rows:
        mine = [(start, start + row[1]) for start in starts(row)]
        for other in others:
            theirs = [(start, start + other[1]) for start in starts(other)]
            found += [
                (max(start, first), min(stop, last))
                for start, stop in mine for first, last in theirs if start < last and first < stop
            ]  # fmt: skip
    return list(merged(found))
