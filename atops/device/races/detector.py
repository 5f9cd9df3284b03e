"""The detector of a launch: what its threads and their transfers access, and what nothing orders.

Accesses to global memory are logged and compared when the launch is over, or all its threads have met; those to shared
memory at each barrier of the block. Local memory is one thread's: there only transfers in flight matter, which are
looked at in each access. A transfer is an access from its issue to its wait.
"""

from __future__ import annotations

import threading
from types import CodeType
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

import numpy as np

from atops.device.call_site import Site, calling_place
from atops.device.geometry import Array, Key
from atops.device.races.access_log import AccessLog, Entry, Found
from atops.device.races.clocks import GridClock, Known, ThreadClock, before, joined
from atops.device.races.race import Access, Race, merged
from atops.device.races.rectangles import Rectangle, rectangles, selected
from atops.device.races.unwritten import Unwritten

if TYPE_CHECKING:
    from atops.device.exec.block import Block
    from atops.device.exec.thread import KernelThread
    from atops.device.memory.allocation import Allocation

__all__ = ("Accessed", "BlockRaces", "Flight", "LaunchDetector", "ThreadRaces")

UNWRITTEN: Final = "read of unwritten memory"  # told last: a load that comes too early is a race first
NUMBERS: Final = (int, float, complex, np.generic)
VERBS: Final = {"load": "loads", "store": "stores"}


class Accessed:
    """One end of a transfer, or what is accessed: the bytes, and the memory that they lie in."""

    __slots__ = ("allocation", "array", "space")

    def __init__(self, array: Array, allocation: Allocation | None, space: str) -> None:
        self.array = array
        self.allocation = allocation
        self.space = space  # "global", "shared" or "local"


Touched = tuple[Any, int, int, bool, Site | None]  # an allocation, bytes of it, whether they were stored to, a line


class LaunchDetector:
    """The accesses of a launch, or of all that meet at one grid barrier. `races` has one for each pair of lines.

    `lock` is a leaf: where each kernel thread has an OS thread, they meet here.
    """

    def __init__(self) -> None:
        self.clock = GridClock()
        self.lock = threading.RLock()
        self.escapes: dict[str, None] = {}  # what was not seen, in words
        self.accesses = 0
        self.relaxed = self.same_value = 0  # pairs that nothing orders, and that are no races: counted
        self.races: list[Race] = []
        self._touched: list[Touched] = []
        self._told: set[object] = set()
        self._global = AccessLog(keeps_uses=True)
        self._memories: dict[int, Allocation] = {}  # of global memory, by address
        self._given: dict[object, Known] = {}  # what was released, by what: a signal, a barrier's phase
        self._users: WeakKeyDictionary[object, Entry] = WeakKeyDictionary()  # of each context, the last
        self._blocks = 0

    def opened(self, block: Block) -> None:
        """Take in a block and its threads."""
        with self.lock:
            races = BlockRaces(self, block, self._blocks)
            self._blocks += 1
        for thread in block.threads:
            thread.race = ThreadRaces(races, thread, races.clock.thread())
        block.races = races

    def pass_grid_barrier(self) -> None:
        """Note that all threads of all blocks have met."""
        with self.lock:
            self._report(self._global.compare())
            self.clock.pass_barrier()

    def over(self) -> None:
        """Compare what is left, when the last block has ended, and let go of all threads."""
        with self.lock:
            self._report(self._global.compare())
            for start, stop, write, entry in self._global.footprint():
                allocation = self._allocation_at(start)
                base = allocation.address
                self._touched.append((allocation, start - base, stop - base, write, _access_of(entry).site))
            self._global = AccessLog(keeps_uses=True)
            self._memories.clear()
            self._given.clear()
            self._users.clear()

    def _allocation_at(self, address: int) -> Allocation:
        """Return the memory that an address of an access lies in."""
        return self._memories[max(each for each in self._memories if each <= address)]

    def footprint(self) -> list[Touched]:
        """Return what all of it used of global memory, once it is over, loads and stores apart; nothing a second time.

        Launches that meet at one barrier have one footprint: it is that of the last to end.
        """
        found, self._touched = self._touched, []
        return found

    def take(self) -> list[Race]:
        """Return the races that were found since the last time."""
        with self.lock:
            found, self.races = self.races, []
        return sorted(found, key=lambda race: race.kind == UNWRITTEN)

    def take_counts(self) -> tuple[int, int, int]:
        """Return how many accesses were seen since the last time, and pairs: relaxed ones, stores of one value."""
        with self.lock:
            counted = self.accesses, self.relaxed, self.same_value
            self.accesses = self.relaxed = self.same_value = 0
        return counted

    def used(self, context: object, clock: ThreadClock, thread: KernelThread, code: CodeType, instruction: int) -> None:
        """Note that a thread uses a DTE context that others of its block may use: one after the other, in an order."""
        with self.lock:
            mine = Entry(thread, "uses the context", True, clock.stamp(), 0, code, instruction)
            last = self._users.get(context)
            self._users[context] = mine
            if last is not None and last.begin.thread != mine.begin.thread and not before(last.begin, mine.begin):
                self.tell(
                    "one DTE context, no order", last, mine, repr(context), thread.grid.chip.ordinal, [],
                    f"{_advice(last, mine)}; or give each thread a context of its own",
                )  # fmt: skip

    def note_global(self, operand: Accessed, rows: list[Rectangle], entry: Entry) -> None:
        """Enter an access to global memory; rows have addresses of the device."""
        allocation = operand.allocation
        assert allocation is not None
        with self.lock:
            self._memories[allocation.address] = allocation
            if found := self._global.add(rows, entry):
                self._report(found)

    def release(self, what: object, clock: ThreadClock) -> None:
        """Note that a thread signals: what it did until now comes before what others do that have seen it."""
        with self.lock:
            self._given[what] = joined((self._given.get(what, {}), clock.release()))

    def acquire(self, what: object, clock: ThreadClock) -> None:
        """Note that a thread has seen what others released by the same thing."""
        with self.lock:
            if (given := self._given.get(what)) is not None:
                clock.acquire(given)

    def tell(
        self, kind: str, first: Entry, second: Entry, memory: str, device: int, ranges: list[tuple[int, int]],
        advice: str, offset: int = -1,
    ) -> None:  # fmt: skip
        """Hand on a race, unless the same two lines have been told of."""
        race = Race(kind, _access_of(first), _access_of(second), memory, device, merged(ranges), advice, offset)
        if race.key not in self._told:
            self._told.add(race.key)
            self.races.append(race)

    def pairs(self, found: list[Found]) -> dict[tuple[Entry, Entry], list[tuple[int, int]]]:
        """Return the bytes of each pair of accesses that race; count what is relaxed, or stores one value twice."""
        whole: dict[tuple[Entry, Entry], list[tuple[int, int]]] = {}
        for first, second, start, stop in found:
            if first.relaxed and second.relaxed:
                self.relaxed += 1
            elif first.value is not None and bool(first.value == second.value) and _at_once(first):
                self.same_value += 1
            else:
                whole.setdefault((first, second), []).append((start, stop))
        return whole

    def tell_unwritten(
        self, unwritten: Unwritten, ranges: list[tuple[int, int]], entry: Entry, memory: str
    ) -> None:  # fmt: skip
        """Tell of a load from memory that nothing has stored to, once for each pair of lines."""
        thread: KernelThread = entry.actor  # type: ignore[assignment]  # all loads are a thread's
        code, instruction = unwritten.place(ranges[0][0])
        taken = Entry(thread, "takes the memory, which nothing has stored to", False, entry.begin, 0, code, instruction)
        self.tell(
            UNWRITTEN, taken, entry, memory, thread.grid.chip.ordinal, ranges,
            "store to these bytes before they are read: a scratchpad begins with whatever the last kernel left there",
        )  # fmt: skip
        for start, stop in ranges:
            unwritten.bytes.remove(start, stop)  # told of once

    def _report(self, found: list[Found]) -> None:
        for (first, second), ranges in self.pairs(found).items():
            allocation = self._allocation_at(ranges[0][0])
            base = allocation.address
            places = [(begin - base, end - base) for begin, end in ranges]
            name = repr(allocation)
            kind = "transfer in flight" if _flown_over(first, second) else "race in global memory"
            advice, device = _advice(first, second), allocation.device or 0
            self.tell(kind, first, second, name, device, places, advice, allocation.offset)


class BlockRaces:
    """The accesses of a block to its shared memory."""

    def __init__(self, launch: LaunchDetector, block: Block, number: int) -> None:
        self.launch = launch
        self.block = block
        self.clock = launch.clock.block(number)
        self._shared = AccessLog()
        self.unwritten = Unwritten(block.cluster.l2)

    def pass_barrier(self) -> None:
        """Note that all threads of the block have met."""
        with self.launch.lock:
            self._report(self._shared.compare())
            self.clock.pass_barrier()

    def over(self) -> None:
        """Compare what is left, when the block has ended."""
        with self.launch.lock:
            self._report(self._shared.compare())
            self.clock.over()
        for thread in self.block.threads:
            thread.race = None
        self.block.races = None

    def note_shared(self, rows: list[Rectangle], entry: Entry) -> None:
        """Enter an access; rows are counted from the first byte of L2."""
        with self.launch.lock:
            if found := self._shared.add(rows, entry):
                self._report(found)
            if self.unwritten.bytes:
                if entry.write:
                    self.unwritten.store(rows)
                elif unwritten := self.unwritten.load(rows):
                    self.launch.tell_unwritten(
                        self.unwritten, unwritten, entry, f"shared memory of block {self.block.index}"
                    )

    def taken(self, start: int, stop: int) -> None:
        """Note that the running thread takes these bytes of L2: they are another memory from now on."""
        with self.launch.lock:
            self._report(self._shared.forget(start, stop))
            self.unwritten.take(start, stop, *calling_place(1))

    def escaped(self, rows: list[Rectangle]) -> None:
        """Note that stores to these bytes are not seen from now on."""
        with self.launch.lock:
            self.unwritten.store(rows)

    def _report(self, found: list[Found]) -> None:
        name = f"shared memory of block {self.block.index}"
        for (first, second), ranges in self.launch.pairs(found).items():
            kind = "transfer in flight" if _flown_over(first, second) else "race in shared memory"
            self.launch.tell(kind, first, second, name, self.block.grid.chip.ordinal, ranges, _advice(first, second))


class Flight:
    """A transfer in flight: its two entries, and where it touches the thread's local memory."""

    __slots__ = ("entries", "local", "name", "over", "owner", "shared")

    def __init__(self, owner: ThreadRaces, name: str, shared: bool) -> None:
        self.owner = owner
        self.name = name
        self.shared = shared  # its context is a block's
        self.over = False
        self.entries: list[Entry] = []
        self.local: list[tuple[int, int, list[Rectangle], Entry]] = []  # first byte and end, all of it


class ThreadRaces:
    """What one thread does: its accesses, its transfers, what it learns of others."""

    __slots__ = ("block", "clock", "flights", "relaxed", "thread", "turn", "unwritten")

    def __init__(self, block: BlockRaces, thread: KernelThread, clock: ThreadClock) -> None:
        self.block = block
        self.thread = thread
        self.clock = clock
        self.turn = 0
        self.flights: list[Flight] = []  # those that touch its local memory
        self.relaxed = 0  # inside how many blocks of k.relaxed
        self.unwritten = Unwritten(thread.sip.l1)

    def taken(self, start: int, stop: int) -> None:
        """Note that the thread takes these bytes of its L1."""
        self.unwritten.take(start, stop, *calling_place(1))

    def access(
        self, kind: str, array: Array, allocation: Allocation | None, space: str, key: Key, basic: bool,
        value: object = None,
    ) -> None:  # fmt: skip
        """Enter a load or a store by the running thread: of all of `array`, or of the part at `key`."""
        if kind == "escape":
            self._escape(array, allocation, space)
            return
        if key is not ... and basic:
            array, key = _part_of(array, key), ...
        write = kind == "store"
        if space == "local":
            self.block.launch.accesses += 1
            self.turn += 1
            if self.flights or self.unwritten.bytes:
                origin = self.unwritten.origin
                self._look_at_local(
                    rectangles(array, origin) if key is ... else selected(array, key, origin), write
                )  # fmt: skip
            return
        entry = self._entry(self.thread, VERBS[kind], write, *calling_place(1))
        if isinstance(value, NUMBERS):
            entry.value = value, array.dtype.char
        origin = self._origin(array, allocation)
        rows = rectangles(array, origin) if key is ... else selected(array, key, origin)
        self._enter(Accessed(array, allocation, space), rows, entry)

    def issued(
        self, event: Any, write: Accessed | None, read: Accessed | None, code: CodeType, instruction: int
    ) -> Flight:
        """Enter a transfer that the thread issues: it is in flight until `waited`."""
        flight = Flight(self, event.operation.name, event.context.shared)
        for operand, verb, changes in ((read, "reads", False), (write, "writes", True)):
            if operand is None or not operand.array.size:
                continue
            entry = self._entry(self.thread, f"{flight.name} {verb}", changes, code, instruction)
            if (chain := event.context.chain) is not None:
                entry.context, entry.chain = event.context, chain.connected()
            else:  # what it moves onto itself is in order
                entry.context, entry.chain = flight, frozenset((flight,))
            if operand.space == "local":
                rows = rectangles(operand.array, self.unwritten.origin)
                if self.flights or self.unwritten.bytes:
                    self._look_at_local(rows, changes, entry)
                flight.local.append((*_bounds(rows), rows, entry))
            else:
                entry.end = None
                rows = rectangles(operand.array, self._origin(operand.array, operand.allocation))
                self._enter(operand, rows, entry)
            flight.entries.append(entry)
        if flight.local:
            self.flights.append(flight)
        return flight

    def waited(self, flight: Flight) -> None:
        """Note that the thread has waited for a transfer: its own, or another's, of a context that they share."""
        launch = self.block.launch
        if flight.over:
            launch.acquire(flight, self.clock)
            return
        flight.over = True
        flight.local = []
        if flight in flight.owner.flights:
            flight.owner.flights.remove(flight)
        now = self.clock.stamp()
        at_once = self is flight.owner and flight.entries and self.turn == flight.entries[-1].begin_turn
        self.turn += 1
        for entry in flight.entries:
            if entry.end is None:
                entry.end, entry.end_turn = now, entry.begin_turn if at_once and now is entry.begin else self.turn
        if flight.shared:  # others may wait for it, too, and know then that it is over
            launch.release(flight, self.clock)

    def _entry(self, actor: object, what: str, write: bool, code: CodeType, instruction: int) -> Entry:
        self.turn = turn = self.turn + 1
        self.block.launch.accesses += 1
        entry = Entry(actor, what, write, self.clock.stamp(), turn, code, instruction)
        entry.relaxed = self.relaxed > 0
        return entry

    def _origin(self, array: Array, allocation: Allocation | None) -> int:
        """Return what the places in memory are counted from: the device's address 0, or the first byte of L2."""
        if allocation is None:
            return self.block.unwritten.origin
        start: int = allocation.data.__array_interface__["data"][0]
        return start - allocation.address

    def _enter(self, operand: Accessed, rows: list[Rectangle], entry: Entry) -> None:
        if operand.allocation is not None:
            self.block.launch.note_global(operand, rows, entry)
        else:
            self.block.note_shared(rows, entry)

    def release(self, what: object) -> None:
        """Hand on what the thread did until now, to those that see `what`: a signal, a phase of a barrier."""
        self.block.launch.release(what, self.clock)

    def acquire(self, what: object) -> None:
        """Learn what others did before they handed on `what`."""
        self.block.launch.acquire(what, self.clock)

    def uses(self, context: object, code: CodeType, instruction: int) -> None:
        """Note that the thread uses a DTE context of its block."""
        self.block.launch.used(context, self.clock, self.thread, code, instruction)

    def _escape(self, array: Array, allocation: Allocation | None, space: str) -> None:
        """Note that a plain array of some memory was handed out: what is done through it is not seen."""
        self.block.launch.escapes.setdefault(f"np.asarray of a span at {Site(*calling_place(2))}")
        if space == "local":
            self.unwritten.store(rectangles(array, self.unwritten.origin))
        elif allocation is None:
            self.block.escaped(rectangles(array, self._origin(array, None)))

    def _look_at_local(self, rows: list[Rectangle], write: bool, mine: Entry | None = None) -> None:
        """Tell of transfers of the thread's own that are in flight over local memory that it accesses, and of loads
        of what nothing has stored to. `mine` is a transfer's; that of a load or a store is made where it is told of.
        """
        low, high = _bounds(rows)
        for flight in self.flights:
            for first, last, others, flown in flight.local:
                if first < high and low < last and (write or flown.write) and (ranges := _shared_bytes(rows, others)):
                    mine = mine or self._local_entry(write)
                    if flown.context not in mine.chain:
                        self.block.launch.tell(
                            "transfer in flight", flown, mine, self._memory(), self.thread.grid.chip.ordinal, ranges,
                            f"`await` the event of that {flight.name} before this line",
                        )  # fmt: skip
        if self.unwritten.bytes:
            if write:
                self.unwritten.store(rows)
            elif found := self.unwritten.load(rows):
                with self.block.launch.lock:
                    entry = mine or self._local_entry(write)
                    self.block.launch.tell_unwritten(self.unwritten, found, entry, self._memory())

    def _local_entry(self, write: bool) -> Entry:
        verb = VERBS["store" if write else "load"]
        return Entry(self.thread, verb, write, self.clock.stamp(), self.turn, *calling_place(2))

    def _memory(self) -> str:
        return f"local memory of {self.thread}"


def _part_of(array: Array, key: Any) -> Array:
    """Return the part of an array at a basic key: a view, of one element, too."""
    keys = key if isinstance(key, tuple) else (key,)
    part: Array = array[key] if any(each is ... or isinstance(each, str) for each in keys) else array[(*keys, ...)]
    return part


def _bounds(rows: list[Rectangle]) -> tuple[int, int]:
    """Return the first byte of an access and the end of its last; of none, an empty range."""
    if len(rows) == 1:
        return rows[0].start, rows[0].stop
    return min((row.start for row in rows), default=0), max((row.stop for row in rows), default=0)


def _shared_bytes(rows: list[Rectangle], others: list[Rectangle]) -> list[tuple[int, int]]:
    """Return the bytes that two accesses to one scratchpad have in common."""
    found = []
    for row in rows:
        low, high = row.start, row.stop
        for other in others:
            if other.start < high and low < other.stop:
                theirs = [(start, start + other.run) for start in other.starts]
                found += [
                    (max(start, first), min(start + row.run, last))
                    for start in row.starts for first, last in theirs if start < last and first < start + row.run
                ]  # fmt: skip
    return list(merged(found))


def _at_once(entry: Entry) -> bool:
    """Tell whether an access is one moment, and no transfer in flight."""
    return entry.end is not None and entry.end_turn == entry.begin_turn


def _flown_over(first: Entry, second: Entry) -> bool:
    """Tell whether the first access is a transfer that is known to have been issued when the second one comes."""
    if _at_once(first):
        return False
    return first.begin.thread == second.begin.thread or before(first.begin, second.begin)


def _access_of(entry: Entry) -> Access:
    """Return one side of a race in words."""
    code = entry.code
    site = Site(code, entry.instruction) if isinstance(code, CodeType) else None
    thread: KernelThread = entry.actor  # type: ignore[assignment]  # a kernel has no others
    where = thread.block.linear, thread.linear
    return Access(str(thread), entry.what, entry.write, site, f"kernel {thread.grid.name}", -1, where)


def _advice(first: Entry, second: Entry) -> str:
    """Say what would order two accesses of threads."""
    one, other = first.actor, second.actor
    sites = [site for each in (first, second) if (site := _access_of(each).site) is not None]
    lines = " and ".join(dict.fromkeys(f"line {site.line}" for site in sites))
    if _flown_over(first, second):
        return f"`await` the event of the transfer of {_access_of(first).site} before the other access"
    same = getattr(one, "block", None) is getattr(other, "block", None)
    if same:
        return f"`await k.syncthreads()` between them ({lines}), in every thread, would order them"
    if getattr(getattr(one, "grid", None), "cooperative", False):
        return f"`await k.syncblocks()` between them ({lines}), in every thread, would order them"
    return (
        f"blocks of one launch run in any order ({lines}): give each block bytes of its own, launch a second kernel, "
        "or launch cooperatively and `await k.syncblocks()` between them"
    )
