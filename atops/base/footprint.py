"""What one step of a run has touched, told by what it touches: by it strategies know which steps commute.

Two steps that are independent lead to the same state in either order, and neither makes the other possible. Where that
is not known for sure a step counts as dependent on all others: a step is known only if it says so with `begin`, and
then whatever it does has to be told here.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import NamedTuple, TypeAlias, TypeVar

from atops.base.choice import Name

__all__ = (
    "NOTHING", "RUNTIME", "UNKNOWN", "Footprint", "Range", "StepAccesses", "commute_now", "independent",
    "together",
)  # fmt: skip

Range: TypeAlias = tuple[Hashable, int, int]  # an object, and the bytes of it from a start to a stop
Group: TypeAlias = tuple[Hashable, Hashable]  # an object, and what is done to it
Arrival: TypeAlias = tuple[Hashable, int, int]  # an object, which arrival of its actor, how many are missing after it

T = TypeVar("T")

RUNTIME = "runtime"  # all that the runtime has besides memory; what touches it is in one order

FEW = 8  # ranges of one step that are kept as they came


class StepAccesses(NamedTuple):
    """What a step has touched. A step without any of it is one that touched nothing.

    - `reads`, `writes`: ranges. Two steps depend on each other where one writes what the other reads or writes.
    - `gives`, `needs`: one step needs what others have given, all of those that gave it, in every order: the arrivals
      at a barrier, and going on from it. Those that give the same commute, and so do those that need it.
    - `groups`: steps that do the same to an object commute, others do not.
    - `arrivals`: at objects of groups whose phases a number of arrivals ends: which of its actor's it is, and how many
      are missing after it. They commute as long as they all belong to one phase.
    - `unknown`: it may have touched anything.
    """

    reads: tuple[Range, ...] = ()
    writes: tuple[Range, ...] = ()
    gives: tuple[Hashable, ...] = ()
    needs: tuple[Hashable, ...] = ()
    groups: tuple[Group, ...] = ()
    arrivals: tuple[Arrival, ...] = ()
    unknown: bool = False


NOTHING = StepAccesses()
UNKNOWN = StepAccesses(unknown=True)


def independent(one: StepAccesses | None, other: StepAccesses | None) -> bool:
    """Return whether two steps of different actors commute, as far as their accesses say; None stands for UNKNOWN."""
    if one is None or other is None or one.unknown or other.unknown:
        return False
    if one.writes and (_meet(one.writes, other.writes) or _meet(one.writes, other.reads)):
        return False
    if other.writes and one.reads and _meet(other.writes, one.reads):
        return False
    if one.needs and other.gives and not set(one.needs).isdisjoint(other.gives):
        return False
    if one.gives and other.needs and not set(one.gives).isdisjoint(other.needs):
        return False
    return not (one.groups and other.groups) or not any(
        thing == its and what != does for thing, what in one.groups for its, does in other.groups
    )


def commute_now(waiting: StepAccesses | None, done: StepAccesses | None) -> bool:
    """Return whether a step that could come next would have led to the same state before the one that has come."""
    if waiting is None or done is None or not independent(waiting, done):
        return False
    for thing in {each[0] for each in waiting.arrivals}:
        left = min((each[2] for each in done.arrivals if each[0] == thing), default=None)
        if left is not None and left < len({each[1] for each in waiting.arrivals if each[0] == thing}):
            return False  # some of them would belong to the next phase
    return True


def together(one: StepAccesses | None, other: StepAccesses | None) -> StepAccesses | None:
    """Return what two parts of one step have touched."""
    if one is None or other is None:
        return None
    if one is NOTHING or one == other:
        return other
    if other is NOTHING:
        return one
    return StepAccesses(
        _joined(one.reads, other.reads), _joined(one.writes, other.writes), _joined(one.gives, other.gives),
        _joined(one.needs, other.needs), _joined(one.groups, other.groups), _joined(one.arrivals, other.arrivals),
        one.unknown or other.unknown,
    )  # fmt: skip


def _joined(one: tuple[T, ...], other: tuple[T, ...]) -> tuple[T, ...]:
    """Return what is in either, once."""
    return tuple(dict.fromkeys(one + other)) if one and other else one or other


def _meet(ranges: Iterable[Range], others: Iterable[Range]) -> bool:
    """Return whether any of `ranges` has a byte in common with any of `others`."""
    for thing, start, stop in ranges:
        for other, first, last in others:
            if start < last and first < stop and thing == other:
                return True
    return False


class Footprint:
    """Collects what the step that runs now touches. `take` hands it over when the next step is to be chosen."""

    __slots__ = (
        "_arrivals", "_gives", "_groups", "_looked", "_name", "_needs", "_reads", "_unknown", "_writers", "_writes",
        "at_once", "commands", "complete", "escaped", "in_use", "pending", "refused", "resumed", "unsplit", "within",
    )  # fmt: skip

    def __init__(self, commands: bool = False) -> None:
        """Begin. With `commands` the steps of streams and engines are told, too, and time is none of the choices."""
        self.commands = commands
        self.refused = ""  # what came up of which that cannot be told; the run is then to be made without `commands`
        self.pending: dict[Name, Callable[[], bool]] = {}  # what ends once its time is over, and whether it still will
        self.at_once: set[Name] = set()  # what comes as soon as it can: it makes no difference when
        self.complete: Callable[[], None] = _no_more  # tells what else the step has done that runs now
        self.in_use = False  # whether a run tells it what it touches
        self.escaped = False  # whether there is memory that steps may touch unseen, from now on
        self.unsplit = ""  # where a step looks at what it then overwrites, as others do: none of them comes between
        self._writers: dict[Hashable, dict[object, str]] = {}  # where each has done that, if it has
        self.within = False  # whether the next choice is one in the middle of the step
        self.resumed: Callable[[Name], None] = _nothing  # told of an actor that goes on without a choice
        self.clear()

    def clear(self) -> None:
        """Forget what was told."""
        self._name: Name | None = None
        self._unknown = False
        self._looked: set[Hashable] = set()
        self._reads: dict[Range, None] = {}
        self._writes: dict[Range, None] = {}
        self._gives: dict[Hashable, None] = {}
        self._needs: dict[Hashable, None] = {}
        self._groups: dict[Group, None] = {}
        self._arrivals: dict[Arrival, None] = {}

    def begin(self, name: Name) -> None:
        """Note that all that the step of this name touches will be told. A second step in one choice is unknown."""
        self._unknown = self._unknown or self._name not in (None, name)
        self._name = name

    def refuse(self, what: str) -> None:
        """Note that steps of streams and engines may depend on what is not told: `what` came up."""
        if self.commands and not self.refused:
            self.refused = what

    def opaque(self) -> None:
        """Note that the step touches what nothing tells of."""
        self._unknown = True

    def escape(self) -> None:
        """Note that memory was handed out so that accesses are not seen from now on, of whatever step."""
        self.escaped = True

    def read(self, thing: Hashable, start: int = 0, stop: int = 1) -> None:
        """Note a read of bytes of an object, or of all that there is to it."""
        self._reads[thing, start, stop] = None

    def write(self, thing: Hashable, start: int = 0, stop: int = 1) -> None:
        """Note a write, as `read`."""
        self._writes[thing, start, stop] = None

    def look(self, thing: Hashable) -> None:
        """Note that the step has asked for the value of an object, and may store into it by what it has seen."""
        self._looked.add(thing)

    def overwrite(self, thing: Hashable, actor: object, place: Callable[[], str]) -> None:
        """Note that an actor stores into an object, whatever is there by now. `place` says where, if that is asked."""
        writers = self._writers.setdefault(thing, {})
        if thing in self._looked:
            writers[actor] = place()
        else:
            writers.setdefault(actor, "")
        if len(writers) > 1 and not self.unsplit:
            self.unsplit = next(filter(None, writers.values()), "")

    def give(self, what: Hashable) -> None:
        """Note that others can need this step."""
        self._gives[what] = None

    def need(self, what: Hashable) -> None:
        """Note that the step could come only after all that gave this."""
        self._needs[what] = None

    def group(self, thing: Hashable, what: Hashable) -> None:
        """Note what is done to an object: the same commutes with itself, and with nothing else."""
        self._groups[thing, what] = None

    def arrive(self, thing: Hashable, nth: int, left: int) -> None:
        """Note the nth arrival of an actor in a phase that `left` more will end."""
        self._arrivals[thing, nth, left] = None

    def take(self, name: Name) -> StepAccesses:
        """Return what the step of this name has touched, and forget it."""
        self.complete()
        unknown = self._unknown or self._name != name or self.escaped
        if not unknown and not (self._reads or self._writes or self._gives or self._needs or self._groups):
            self._name = None
            return NOTHING
        found = StepAccesses(
            _merged(self._reads), _merged(self._writes), tuple(self._gives), tuple(self._needs), tuple(self._groups),
            tuple(self._arrivals), unknown,
        )  # fmt: skip
        self.clear()
        return found


def _no_more() -> None:
    """Tell nothing."""


def _nothing(name: Name) -> None:
    """Tell nothing."""


def _merged(ranges: Iterable[Range]) -> tuple[Range, ...]:
    """Return ranges; where there are many, neighbours as one."""
    found = list(ranges)
    if len(found) <= FEW:
        return tuple(found)
    of: dict[Hashable, list[tuple[int, int]]] = {}
    for thing, start, stop in found:
        of.setdefault(thing, []).append((start, stop))
    merged: list[Range] = []
    for thing, parts in of.items():
        parts.sort()
        low, high = parts[0]
        for start, stop in parts:
            if start > high:
                merged.append((thing, low, high))
                low, high = start, stop
            elif stop > high:
                high = stop
        merged.append((thing, low, high))
    return tuple(merged)
