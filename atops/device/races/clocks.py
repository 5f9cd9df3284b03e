"""Which of two accesses of kernel threads comes first, whatever the order of turns: clocks that barriers move.

Nearly all order in a kernel comes from barriers, so a clock is a phase of the launch and a phase of the block. Only
where a thread hands something to another by itself (a signal, a counted barrier, an event) it knows more: `Known`, how
far it has seen other threads and other blocks. A `Stamp` is a thread's clock at one moment; it changes only where
threads synchronise, so all accesses between two such points share one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import CodeType
from typing import Final, Generic, NamedTuple, TypeVar

from atops.device.call_site import Site

__all__ = (
    "NOTHING", "SIGNAL", "BlockClock", "Change", "Changes", "GridClock", "Known", "Met", "SignalStores", "Stamp",
    "Store", "ThreadClock", "before", "joined",
)  # fmt: skip

# Of a thread, by its number: the last tick that is known. Of a block, by the inverse of its number: all that its
# threads did before this phase.
Known = Mapping[int, int]
NOTHING: Known = {}

Change = tuple[int, int]  # of a signal: its value before, and behind it
Met = Callable[[int], bool]  # of the value of a signal: whether it ends a wait

SIGNAL: Final = "signal"  # what is released and acquired is (SIGNAL, its number)

T = TypeVar("T")
KEPT: Final = 16  # changes of a signal, the newest


class Changes(Generic[T]):
    """The newest changes of a signal, each with what those knew that saw it before: a `T`."""

    __slots__ = ("_past",)

    def __init__(self) -> None:
        self._past: list[tuple[Change, T]] = []

    def note(self, change: Change, given: T) -> None:
        """Note a change. `given` is what was known by then."""
        self._past.append((change, given))
        del self._past[:-KEPT]

    def until(self, met: Met, given: T) -> T:
        """Return what is known by the first change since which `met` is true; `given` is what is by the last one.

        A wait that `met` ends could have ended there, so what came later is not before what follows it.
        """
        now = None
        for (old, new), earlier in reversed(self._past):
            if now not in (None, new) or not met(old):
                break  # something else has changed it, or this one ends the wait
            given, now = earlier, old
        return given


class Stamp:
    """The clock of one thread at one moment. Nothing in it changes."""

    __slots__ = ("block", "block_phase", "grid_phase", "known", "thread", "tick")

    def __init__(self, thread: int, block: int, grid_phase: int, block_phase: int, tick: int, known: Known) -> None:
        self.thread = thread
        self.block = block
        self.grid_phase = grid_phase
        self.block_phase = block_phase
        self.tick = tick
        self.known = known

    def __repr__(self) -> str:
        return f"<Stamp of thread {self.thread}: {self.grid_phase}.{self.block_phase}.{self.tick}>"


def before(earlier: Stamp, later: Stamp) -> bool:
    """Tell whether what one thread did at `earlier` comes before what another does at `later`, in every order of turns.

    Within one thread the program says so; it is not asked here.
    """
    if earlier.grid_phase != later.grid_phase:
        return earlier.grid_phase < later.grid_phase
    if earlier.block == later.block and earlier.block_phase < later.block_phase:
        return True
    known = later.known
    if not known:
        return False
    return known.get(earlier.thread, -1) >= earlier.tick or known.get(~earlier.block, 0) > earlier.block_phase


class GridClock:
    """The clock that all blocks of a launch share, of all launches that meet at one grid barrier."""

    __slots__ = ("blocks", "phase", "threads")

    def __init__(self) -> None:
        self.phase = 0
        self.blocks: dict[int, BlockClock] = {}  # those whose threads still run
        self.threads = 0  # given out

    def block(self, number: int) -> BlockClock:
        """Return the clock of a new block. `number` is its own among those of the launch."""
        made = self.blocks[number] = BlockClock(self, number)
        return made

    def pass_barrier(self) -> None:
        """Note that all threads of all blocks have met: what they did before comes before all that they do now."""
        self.phase += 1
        for block in self.blocks.values():
            block.know(NOTHING)


class BlockClock:
    """The clock that the threads of a block share."""

    __slots__ = ("grid", "number", "phase", "threads")

    def __init__(self, grid: GridClock, number: int) -> None:
        self.grid = grid
        self.number = number
        self.phase = 0
        self.threads: list[ThreadClock] = []

    def thread(self) -> ThreadClock:
        """Return the clock of a new thread."""
        made = ThreadClock(self, self.grid.threads)
        self.grid.threads += 1
        self.threads.append(made)
        return made

    def pass_barrier(self) -> None:
        """Note that all threads of the block have met: each knows what any of them knew."""
        self.phase += 1
        self.know(joined(each.known for each in self.threads))

    def know(self, known: Known) -> None:
        """Let every thread know this, and nothing else."""
        for each in self.threads:
            each.known = known
            each.now = None

    def over(self) -> None:
        """Note that all threads of the block have ended."""
        self.grid.blocks.pop(self.number, None)
        self.threads = []  # which refer to the block: without this neither went before the collector came


class ThreadClock:
    """The clock of one thread. `now` is its stamp, made when it is first asked for after a change."""

    __slots__ = ("block", "known", "now", "number", "tick")

    def __init__(self, block: BlockClock, number: int) -> None:
        self.block = block
        self.number = number
        self.tick = 0
        self.known: Known = NOTHING
        self.now: Stamp | None = None

    def stamp(self) -> Stamp:
        """Return the clock as it is."""
        now = self.now
        if now is None:
            block = self.block
            now = self.now = Stamp(self.number, block.number, block.grid.phase, block.phase, self.tick, self.known)
        return now

    def release(self) -> Known:
        """Return what a thread knows that learns of this one now: all that it did until now, and what it knew."""
        block = self.block
        given = {**self.known, self.number: self.tick, ~block.number: block.phase}
        self.tick += 1
        self.now = None
        return given

    def acquire(self, given: Known) -> None:
        """Learn what another thread released. What comes from now on comes after it."""
        self.known = joined((self.known, given))
        self.now = None


def joined(parts: Iterable[Known]) -> Known:
    """Return all that is known by one or the other, each as far as any knows it. What is equal is shared."""
    whole: dict[int, int] | None = None
    first: Known = NOTHING
    for part in parts:
        if not part or part is first:
            continue
        if not first:
            first = part
            continue
        if whole is None:
            whole = dict(first)
        for key, value in part.items():
            if value > whole.get(key, -1):
                whole[key] = value
    return first if whole is None else whole


class Store(NamedTuple):
    """A thread's store into a signal: from where it has read that, if it has, to the store."""

    begin: Stamp
    end: Stamp
    overwrites: bool  # it has read the signal, and its store is not one step with that
    place: tuple[CodeType, int]

    def meets(self, other: Store) -> bool:
        """Whether nothing but the signal itself orders this and another thread's, and one of them overwrites it."""
        if not (self.overwrites or other.overwrites):
            return False
        return not (before(self.end, other.begin) or before(other.end, self.begin))


class SignalStores:
    """The newest stores of each thread of a launch into each signal, and those that overwrite it. Under its lock.

    What another thread stores between a read and such a store is lost. No run shows it, as both are one turn.
    """

    __slots__ = ("_overwritten", "_stores", "_told")

    def __init__(self) -> None:
        self._stores: dict[int, dict[tuple[int, bool], Store]] = {}  # by signal, thread, and whether it overwrites that
        self._overwritten: set[int] = set()
        self._told: set[int] = set()

    def add(self, signal: int, store: Store) -> str:
        """Note a store. Returns what it does not see, in words, where it meets that of another thread; else ""."""
        if signal in self._told:
            return ""
        if store.overwrites:
            self._overwritten.add(signal)
        stores = self._stores.setdefault(signal, {})
        thread = store.end.thread
        found = None
        if signal in self._overwritten:
            found = next((each for (by, _), each in stores.items() if by != thread and store.meets(each)), None)
        stores[thread, store.overwrites] = store
        if found is None:
            return ""
        self._told.add(signal)
        site = Site(*(store if store.overwrites else found).place)
        return (
            f"what other threads store to signal {signal} between the read and the store at {site}: nothing but the "
            "signal itself orders them; k.signal_add is one step"
        )
