"""The detector of a launch: what its threads and their transfers access, and what nothing orders.

Accesses to global memory are logged and compared when the launch is over, or all its threads have met; those to shared
memory at each barrier of the block. Local memory is one thread's: there only transfers in flight matter, which are
looked at in each access. A transfer is an access from its issue to its wait.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from types import CodeType
from typing import TYPE_CHECKING, Final, TypeAlias
from weakref import WeakKeyDictionary

from atops.device.call_site import Site, calling_place
from atops.device.races.access_log import AccessLog, Entry, Found
from atops.device.races.clocks import (
    NOTHING,
    SIGNAL,
    Change,
    Changes,
    GridClock,
    Known,
    Met,
    SignalStores,
    Store,
    ThreadClock,
    before,
    joined,
)
from atops.device.races.race import Race, merged
from atops.device.races.rectangles import Rect
from atops.device.races.thread_races import ThreadRaces
from atops.device.races.unwritten import Unwritten
from atops.device.races.wording import Side, advice, at_once, flown_over, race_in, race_of, reach, site_of

if TYPE_CHECKING:
    from atops.device.exec.block import Block
    from atops.device.exec.thread import KernelThread
    from atops.device.memory.allocation import Allocation

__all__ = ("LAST", "MOST_PARTS", "BlockRaces", "LaunchDetector", "Touched")

LAST: Final = 1 << 30  # the part of a launch that its end ends
CONTEXT: Final = "one DTE context, no order"
OWN_CONTEXTS: Final = "give each thread a context of its own, or let them use this one in turns, a barrier between them"
UNWRITTEN: Final = "read of unwritten memory"  # told last: a load that comes too early is a race first

# An allocation, bytes of it, whether they were stored to, a line, whether the program says that it may meet others, and
# the part of the launch in which it was over.
Touched: TypeAlias = "tuple[Allocation, int, int, bool, Site | None, bool, int]"
MOST_PARTS: Final = 64  # of a launch: what comes behind that many signals is one


class LaunchDetector:
    """The accesses of a launch, or of all that meet at one grid barrier. `races` has one for each pair of lines.

    `lock` is a leaf: where each kernel thread has an OS thread, they meet here.
    """

    __slots__ = (
        "_advice",
        "_blocks",
        "_changes",
        "_given",
        "_told",
        "_touched",
        "_users",
        "accesses",
        "at_end",
        "clock",
        "escapes",
        "lock",
        "log",
        "memories",
        "on_signal",
        "parts",
        "races",
        "relaxed",
        "same_value",
        "signals",
        "stored",
        "unread",
        "unwritten",
    )  # fmt: skip

    def __init__(self) -> None:
        self.clock = GridClock()
        self.lock = threading.RLock()
        self.escapes: dict[str, None] = {}  # what was not seen, in words
        self.accesses = 0  # of blocks that have ended
        self.relaxed = self.same_value = 0  # pairs that nothing orders, and that are no races: counted
        self.races: list[Race] = []
        self.log = AccessLog(keeps_uses=True)  # of global memory
        self.memories: dict[int, Allocation] = {}  # in which it lies, by address
        self._touched: list[Touched] = []
        self._advice: dict[object, str] = {}  # by the two places, and how they meet there
        self._told: dict[object, int] = {}  # by lines: how far apart the threads were that met there
        self._given: dict[object, Known] = {}  # what was released, by what: a signal, a barrier's phase
        self._changes: dict[object, Changes[Known]] = {}  # of signals
        self.signals = SignalStores()
        self._users: WeakKeyDictionary[object, Entry] | None = None  # of each context, the last
        self._blocks = 0
        self.at_end: list[Callable[[], None]] = []  # what tells the rest, when all blocks are over
        self.unwritten = Unwritten()  # of global memory, by address, what nothing had stored to when the launch began
        # Of each memory that has such bytes, stores that `unwritten` knows nothing of yet: most are never loaded from.
        self.stored: dict[int, list[Sequence[Rect]]] = {}
        self.unread: dict[tuple[Allocation, CodeType | None, int, bool], list[tuple[int, int]]] = {}  # and was loaded
        self.parts = 0  # that have ended
        # Told of signals that are written, by how they change, and of those that are seen: what has ended a wait.
        self.on_signal: Callable[[int, Change | None, Met | None], None] | None = None

    def opened(self, block: Block) -> None:
        """Take in a block and its threads."""
        with self.lock:
            block.races = races = BlockRaces(self, block, self._blocks)
            self._blocks += 1
            for thread in block.threads:
                thread.race = ThreadRaces(races, thread, races.clock.thread())

    def pass_grid_barrier(self) -> None:
        """Note that all threads of all blocks have met."""
        with self.lock:
            self._report(self.log.compare())
            self.clock.pass_barrier()

    def over(self) -> None:
        """Compare what is left, when the last block has ended, and let go of all threads."""
        with self.lock:
            for tell in self.at_end:
                tell()
            self.at_end.clear()
            self._report(self.log.compare())
            sites: dict[tuple[int, int], Site | None] = {}  # one for each line, which is quickly compared with itself
            for start, stop, write, row in self.log.footprint():
                entry = row[5]
                place = id(entry.code), entry.instruction
                if place not in sites:
                    sites[place] = site_of(entry)
                while start < stop:  # memories that lie side by side are one range in the log
                    allocation = self._allocation_at(start)
                    base = allocation.address
                    end = min(stop, base + max(allocation.size, start - base + 1))
                    found = allocation, start - base, end - base, write, sites[place], entry.relaxed, entry.part or LAST
                    self._touched.append(found)
                    start = end
            self.log = AccessLog(keeps_uses=True)
            self.memories.clear()
            self._given.clear()
            self._users = self.on_signal = None

    def _allocation_at(self, address: int) -> Allocation:
        """Return the memory that an address of an access lies in."""
        return self.memories[max(each for each in self.memories if each <= address)]

    def begins_unwritten(self, memory: Allocation, ranges: Sequence[tuple[int, int]]) -> None:
        """Note bytes of a memory that nothing has stored to when the launch begins."""
        self.stored[memory.address] = []
        for start, stop in ranges:
            self.unwritten.bytes.add(memory.address + start, memory.address + stop)

    def look_at_unwritten(self, memory: Allocation, rows: Sequence[Rect], write: bool, entry: Entry) -> None:
        """Take note of stores to a memory with such bytes, and of loads that come before any."""
        unwritten, base = self.unwritten, memory.address
        with self.lock:
            if (stored := self.stored.get(base)) is None:
                return
            while stored:  # one by one: other threads may add to it
                unwritten.store(stored.pop())
            if write:
                unwritten.store(rows)
            elif found := unwritten.load(rows):
                ranges = self.unread.setdefault((memory, entry.code, entry.instruction, entry.relaxed), [])
                ranges += [(start - base, stop - base) for start, stop in found]
                unwritten.store(rows)  # told of once
            if not unwritten.bytes.meets(base, base + memory.size):
                del self.stored[base]

    def take_unread(self) -> list[Touched]:
        """Return the loads of what nothing had stored to, a line at a time; nothing a second time."""
        unread, self.unread = self.unread, {}
        return [
            (memory, start, stop, False, None if code is None else Site(code, instruction), relaxed, LAST)
            for (memory, code, instruction, relaxed), ranges in unread.items() for start, stop in merged(ranges)
        ]  # fmt: skip

    def touched(self, memory: Allocation, start: int, size: int, write: bool) -> None:
        """Note what something else than a kernel's thread has touched: a graph, which runs as a launch does."""
        self._touched.append((memory, start, start + size, write, None, False, LAST))

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
            mine = Entry(thread, "uses the context", clock.stamp(), 0, code, instruction)
            if self._users is None:
                self._users = WeakKeyDictionary()
            last = self._users.get(context)
            self._users[context] = mine
            if last is not None and last.begin.thread != mine.begin.thread and not before(last.begin, mine.begin):
                device = thread.grid.chip.ordinal
                self.tell(race_of(CONTEXT, (last, True), (mine, True), repr(context), device, (), OWN_CONTEXTS))

    def make_room(self) -> None:
        """Compare the oldest accesses to global memory: there are very many."""
        with self.lock:
            if len(self.log) >= self.log.most:
                self._report(self.log.make_room())

    def release(self, what: object, clock: ThreadClock, change: Change | None = None) -> None:
        """Note that a thread signals: what it did until now comes before what others do that have seen it."""
        with self.lock:
            given = self._given.get(what, NOTHING)
            if change is not None:
                self._changes.setdefault(what, Changes()).note(change, given)
            self._given[what] = joined((given, clock.release()))
        if self.on_signal is not None and what.__class__ is tuple and what[0] == SIGNAL:
            self.on_signal(what[1], change, None)

    def store_signal(self, signal: int, store: Store) -> None:
        """Note that a thread stores into a signal, and what of that is not seen."""
        with self.lock:
            if unseen := self.signals.add(signal, store):
                self.escapes.setdefault(unseen)

    def acquire(self, what: object, clock: ThreadClock, met: Met | None = None) -> None:
        """Note that a thread has seen what others released by the same thing; `met` has ended its wait for that."""
        with self.lock:
            if (given := self._given.get(what)) is not None:
                changes = self._changes.get(what)
                clock.acquire(given if met is None or changes is None else changes.until(met, given))
        if self.on_signal is not None and what.__class__ is tuple and what[0] == SIGNAL:
            self.on_signal(what[1], None, met)

    def end_part(self) -> int:
        """End a part of the launch, at a signal: what comes next is apart. Returns the number of the part.

        What is over by now has this number or a lower one. The parts of a launch are so many at most; then it is
        the same number again, and no part ends.
        """
        with self.lock:
            if self.parts < MOST_PARTS:
                self.parts += 1
                self.log.end_part(self.parts)
            return self.parts

    def tell(self, race: Race) -> None:
        """Hand on a race, unless the same two lines have been told of.

        Where they meet within a thread or a block and farther apart, too, the latter is told: it needs a wider barrier.
        """
        key, far = race.key, reach(race)
        if key not in self._told:
            self.races.append(race)
        elif far > self._told[key]:
            self.races = [race if each.key == key else each for each in self.races]
        else:
            return
        self._told[key] = far

    def pairs(self, found: list[Found]) -> dict[tuple[Side, Side], list[tuple[int, int]]]:
        """Return the bytes of each pair of accesses that race; count what is relaxed, or stores one value twice."""
        whole: dict[tuple[Side, Side], list[tuple[int, int]]] = {}
        for earlier, later, start, stop in found:
            first, second = earlier[5], later[5]
            if first.relaxed and second.relaxed:
                self.relaxed += 1
            elif first.value is not None and bool(first.value == second.value) and at_once(first):
                self.same_value += 1
            else:
                whole.setdefault(((first, earlier[4]), (second, later[4])), []).append((start, stop))
        return whole

    def tell_unwritten(
        self, unwritten: Unwritten, ranges: list[tuple[int, int]], entry: Entry, memory: str
    ) -> None:  # fmt: skip
        """Tell of a load from memory that nothing has stored to, once for each pair of lines."""
        thread: KernelThread = entry.actor  # type: ignore[assignment]  # all loads are a thread's
        code, instruction = unwritten.place(ranges[0][0])
        taken = Entry(thread, "takes the memory, which nothing has stored to", entry.begin, 0, code, instruction)
        remedy = "store to these bytes before they are read: a scratchpad begins with what the last kernel left there"
        device = thread.grid.chip.ordinal
        self.tell(race_of(UNWRITTEN, (taken, False), (entry, False), memory, device, ranges, remedy))
        for start, stop in ranges:
            unwritten.bytes.remove(start, stop)  # told of once

    def advised(self, log: AccessLog, first: Side, second: Side) -> str:
        """Say what would order two accesses in a log: for two places the first answer, which saw how they began."""
        one, other = first[0], second[0]
        how = first[1], second[1], one.begin.block == other.begin.block, flown_over(one, other)
        key = one.code, one.instruction, other.code, other.instruction, one.begin.thread == other.begin.thread, *how
        if (found := self._advice.get(key)) is None:
            found = self._advice[key] = advice(first, second, log.history())
        return found

    def _report(self, found: list[Found]) -> None:
        advised = partial(self.advised, self.log)
        for (first, second), ranges in self.pairs(found).items():
            allocation = self._allocation_at(ranges[0][0])
            base = allocation.address
            places = [(begin - base, end - base) for begin, end in ranges]
            name, device, offset = repr(allocation), allocation.device or 0, allocation.offset
            self.tell(race_in("global", first, second, name, device, places, advised, offset))


class BlockRaces:
    """The accesses of a block to its shared memory."""

    __slots__ = ("block", "clock", "launch", "log", "unwritten")

    def __init__(self, launch: LaunchDetector, block: Block, number: int) -> None:
        self.launch = launch
        self.block = block
        self.clock = launch.clock.block(number)
        self.log = AccessLog()  # bytes are counted from the first of L2
        self.unwritten: Unwritten | None = None

    def pass_barrier(self) -> None:
        """Note that all threads of the block have met."""
        with self.launch.lock:
            if found := self.log.compare():
                self._report(found)
            self.clock.pass_barrier()

    def over(self) -> None:
        """Compare what is left, when the block has ended."""
        with self.launch.lock:
            self._report(self.log.compare())
            self.clock.over()
            for thread in self.block.threads:
                if thread.race is not None:
                    self.launch.accesses += thread.race.seen
                    thread.race = None
        self.block.races = None

    def make_room(self) -> None:
        """Compare the oldest accesses: there are very many."""
        with self.launch.lock:
            if len(self.log) >= self.log.most:
                self._report(self.log.make_room())

    def look_at_unwritten(self, rows: Sequence[Rect], write: bool, entry: Entry) -> None:
        """Take note of stores to memory that nothing has stored to yet; tell of loads from it."""
        unwritten = self.unwritten
        assert unwritten is not None, "some is"
        with self.launch.lock:
            if write:
                unwritten.store(rows)
            elif found := unwritten.load(rows):
                self.launch.tell_unwritten(unwritten, found, entry, f"shared memory of block {self.block.index}")

    def taken(self, start: int, stop: int) -> None:
        """Note that the running thread takes these bytes of L2: they are another memory from now on."""
        with self.launch.lock:
            self._report(self.log.forget(start, stop))
            if self.unwritten is None:
                self.unwritten = Unwritten()
            self.unwritten.take(start, stop, *calling_place(1))

    def escaped(self, rows: Sequence[Rect]) -> None:
        """Note that stores to these bytes are not seen from now on."""
        if self.unwritten is not None:
            with self.launch.lock:
                self.unwritten.store(rows)

    def _report(self, found: list[Found]) -> None:
        name, device = f"shared memory of block {self.block.index}", self.block.grid.chip.ordinal
        advised = partial(self.launch.advised, self.log)
        for (first, second), ranges in self.launch.pairs(found).items():
            self.launch.tell(race_in("shared", first, second, name, device, ranges, advised))
