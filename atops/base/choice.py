"""Choices of a run under a schedule: the names of what could come next, choosers, and the record of what was chosen.

Everything that a run decides is one call, `choose(kind, names)`. A name says the same thing in every process and under
every seed; it begins with its kind:

    ("thread", launch, block, thread)         a turn of a kernel thread; launch is "2 of stream 1"
    ("transfer", launch, block, thread, nth)  the effect of a transfer, the nth that the thread issued
    ("stream", device, number)                the next command of a stream
    ("engine", actor, nth)                    what a copy engine does, the nth for that stream or task
    ("callback", actor, nth)                  a host function, an observer, or the oldest callback of the loop
    ("task", path)                            a step of one of the program's tasks: "0", "0.1" is a task that "0" made
    ("timer", actor, nth)                     the end of a command, or of a sleep, whose time has come
    ("time", "goes on")                       virtual time goes on to the next of those, though something is ready
    ("step", actor, nth)                      something else that the driver does

Nothing here knows what the names stand for.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

from atops.base.errors import InvalidValue

__all__ = (
    "NEXT", "PASSING", "STREAM", "TASK", "THREAD", "TIME", "TRANSFER", "Choice", "ChoiceLog", "Chooser", "Drawing",
    "Name", "Plain", "Random", "Replay", "named", "told",
)  # fmt: skip

Name: TypeAlias = tuple[str | int, ...]

NEXT = "next"  # the kind of a choice among names of several kinds

THREAD, TRANSFER, STREAM, TASK, TIME = "thread", "transfer", "stream", "task", "time"
PASSING: Name = (TIME, "goes on")

# A random run prefers one actor to another by this factor at most, for so many choices. The factor is large, as a
# kernel of 24 threads has hundreds of turns where a stream has three commands, and either may have to come first.
MOST_PREFERRED = 32.0
SHORTEST, LONGEST = 4, 32
# Of a hundred seeds, so many prefer some actors, give all equal chances, or give each a rank. What has the highest rank
# falls behind after so many choices in a row: it may be polling for what others do.
PREFERRING, EQUAL, RANKED = 50, 35, 15
MOST_IN_A_ROW = 256
LAST = 1e-9  # the rank of time: chosen where nothing else could come, or all else has fallen behind
MOST_RANKS = 10_000  # then all are drawn anew: most are of launches and tasks that are over
_first = itemgetter(0)


@runtime_checkable
class Chooser(Protocol):
    """Choose what comes next."""

    def choose(self, kind: str, names: Sequence[Name], /) -> int:
        """Return the position of one of `names`: at least one, all different, in the order in which they became ready.

        `kind` is theirs, or "next" where they are of several. `names` belongs to the caller, who changes it after.
        """


class Drawing(Chooser, Protocol):
    """A chooser that may have turns of kernel threads and their transfers drawn: they are most of all choices."""

    def drawing(self) -> Random | None:
        """Return what draws them for now, as `choose` would have chosen; None to be asked about each."""


class Plain:
    """First come, first served; time goes on when nothing else could come."""

    def choose(self, kind: str, names: Sequence[Name], /) -> int:
        """Return the first position, but not that of time where something else could come."""
        return 1 if names[0][0] == TIME and len(names) > 1 else 0


class Random:
    """Choose at random, the same way for the same seed.

    By some seeds what is to be done for each stream, task and launch has equal chances. By others some are preferred
    for a while; how long that is differs from seed to seed, so that in some runs a stream is far ahead of the others
    and of the kernels. By the rest each stream and task has a rank, and so have the callbacks, engines and timers of
    each: what has the highest goes on, until it has so often in a row that it falls behind all others. So in some runs
    one comes as late as it can. The threads of kernels have equal chances among themselves.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.draw = draw = random.Random(seed).random  # all threads of kernels that could go on have equal chances
        kind = 100 * draw()
        self._preferred = 1.0 if PREFERRING <= kind < PREFERRING + EQUAL else MOST_PREFERRED
        self._ranked = kind >= PREFERRING + EQUAL
        longest = MOST_IN_A_ROW if self._ranked else LONGEST
        self._while = self._left = int(SHORTEST * (longest / SHORTEST) ** draw())  # choices
        self._weights: dict[object, float] = {}
        self._actors: dict[Name, object] = {}
        self._by_actor: dict[Name, float] = {}  # the rank of each,
        self._ranks: dict[Name, float] = {}  # and of each name since one fell behind
        self._lowest = 0.0
        self._highest = 0.0  # the rank of what has gone on last,
        self._in_a_row = 0  # and how often in a row

    def drawing(self) -> Random:
        """Return itself."""
        return self

    def choose(self, kind: str, names: Sequence[Name], /) -> int:
        """Return any position."""
        if kind == THREAD or len(names) == 1:
            return int(self.draw() * len(names))
        kinds: list[Any] = list(map(_first, names))
        transfers = kinds.count(TRANSFER)
        if kinds.count(THREAD) + transfers == len(kinds):
            return self.among_kernels(names, transfers)
        if self._ranked:
            return self._by_rank(names)
        self._look()
        actors = self._actors
        found = [actors.get(name) or self._actor_of(name) for name in names]
        chosen = self._prefer(found)
        places = [place for place, each in enumerate(found) if each == chosen]
        return places[int(self.draw() * len(places))] if len(places) > 1 else places[0]

    def among_kernels(self, names: Sequence[Name], transfers: int) -> int:
        """Return any position among turns of kernel threads and so many of their transfers."""
        total, draw = len(names), self.draw
        if not 0 < transfers < total:
            return int(draw() * total)
        self._look()
        weights = self._weights
        weight, other = weights.get(THREAD) or self._weight(THREAD), weights.get(TRANSFER) or self._weight(TRANSFER)
        if draw() * (weight + other) < weight:
            kind, count = THREAD, total - transfers
        else:
            kind, count = TRANSFER, transfers
        if 2 * count >= total:
            while True:  # faster than to look at each
                place = int(draw() * total)
                if names[place][0] == kind:
                    return place
        left = int(draw() * count)
        for place, name in enumerate(names):
            if name[0] == kind:
                if not left:
                    return place
                left -= 1
        raise AssertionError("there are as many as was said")

    def _by_rank(self, names: Sequence[Name]) -> int:
        """Return the position of what has the highest rank; a random one where several have it."""
        ranks = self._ranks
        try:
            found = [ranks[name] for name in names]
        except KeyError:
            found = [ranks.get(name) or self._rank_of(name) for name in names]
        best = max(found)
        count, all_of_them = found.count(best), len(found)
        self._in_a_row = self._in_a_row + 1 if best == self._highest else 1
        self._highest = best
        if self._in_a_row > self._while and count < all_of_them:
            self._lowest -= 1
            self._by_actor[_ranked(names[found.index(best)])] = self._lowest
            ranks.clear()
            return self._by_rank(names)
        if count == 1:
            return found.index(best)
        while True:  # they are most, as a rule
            place = int(self.draw() * all_of_them)
            if found[place] == best:
                return place

    def _rank_of(self, name: Name) -> float:
        """Return the rank of what a step is done for, and of the step's kind."""
        known, actor = self._by_actor, _ranked(name)
        if max(len(known), len(self._ranks)) == MOST_RANKS:
            known.clear()
            self._ranks.clear()
        rank = known.get(actor)
        if rank is None:
            rank = known[actor] = self.draw() if name[0] != TIME else LAST
        self._ranks[name] = rank
        return rank

    def _look(self) -> None:
        """Prefer others, once those that are preferred have been for so many choices."""
        self._left -= 1
        if not self._left:
            self._left = self._while
            self._weights.clear()

    def _actor_of(self, name: Name) -> object:
        """Return the actor of a step: the same for a stream's next command and what an engine does for the stream."""
        kind = name[0]
        actor = self._actors[name] = " ".join(map(str, name)) if kind in (STREAM, TASK) else name[1]
        return actor

    def _prefer(self, kinds: list[object]) -> object:
        """Return one of the kinds or actors, as they are preferred now."""
        known = self._weights
        weights = {each: known.get(each) or self._weight(each) for each in dict.fromkeys(kinds)}
        left = self.draw() * sum(weights.values())
        for each, weight in weights.items():
            left -= weight
            if left < 0:
                return each
        return kinds[-1]

    def _weight(self, group: object) -> float:
        """Return how often this kind, or what is done for this actor, is chosen beside others."""
        weight = self._weights.get(group)
        if weight is None:
            weight = self._weights[group] = self._preferred ** (2 * self.draw() - 1)
        return weight


def _ranked(name: Name) -> Name:
    """Return the part of a name that has one rank: a stream, a task, or one kind of step for one actor."""
    return name if name[0] in (STREAM, TASK) else name[:2]


class Choice(NamedTuple):
    """What was chosen: its name, its position among those that could have come, and how many those were."""

    name: Name
    position: int
    options: int


class ChoiceLog:
    """Ask a chooser, and keep what it chose, unless the chooser does so itself."""

    def __init__(self, chooser: Chooser) -> None:
        self.chooser = chooser
        self._choose = chooser.choose
        self.taken: list[tuple[Name, int, int]]  # of each Choice its members: to make one costs more than to ask
        if (taken := getattr(chooser, "taken", None)) is None:
            self.taken = []
        else:
            self.taken = taken
            self.choose = chooser.choose  # type: ignore[method-assign]  # nothing is left to do

    def choose(self, kind: str, names: Sequence[Name], /) -> int:
        """Return what the chooser does. Raises InvalidValue where that is no position among the names."""
        index = self._choose(kind, names)
        count = len(names)
        if not 0 <= index < count:
            raise self.refused(index, count)
        self.taken.append((names[index], index, count))
        return index

    def refused(self, index: object, count: int) -> InvalidValue:
        """Return the error for a position that none of so many names has."""
        return InvalidValue(f"{self.chooser!r} chose {index!r} of {count} names; expected 0 to {count - 1}")

    @property
    def choices(self) -> list[Choice]:
        """What was chosen, in order, also where there was no choice."""
        return list(map(Choice._make, self.taken))

    def newest(self, count: int) -> list[Choice]:
        """Return the last choices, so many at most."""
        return list(map(Choice._make, self.taken[-count:]))

    @property
    def names(self) -> list[Name]:
        """The names of what was chosen."""
        return [name for name, _, _ in self.taken]

    def __len__(self) -> int:
        return len(self.taken)


class Replay:
    """Choose what was chosen before; `departure` says where the run is another one, None as long as it is not.

    Names are looked for, wherever they stand now. Where the name is missing, or others could have come too, the run has
    departed, and goes on with `then`, first come, first served unless told.
    """

    def __init__(self, choices: Iterable[Choice], then: Chooser | None = None) -> None:
        self.choices = list(choices)
        self.then = then or Plain()
        self.done = 0  # choices that have come
        self.departure: str | None = None

    def choose(self, kind: str, names: Sequence[Name], /) -> int:
        """Return the position of what was chosen, as long as the run is the same."""
        nth = self.done
        self.done = nth + 1
        if self.departure is None:
            if nth < len(self.choices):
                recorded = self.choices[nth]
                if recorded.options == len(names) and recorded.name in names:
                    return names.index(recorded.name)
                self.departure = self._departs(nth, recorded, names)
            else:
                self.departure = f"choice {nth}: the schedule ends here, and the run goes on with {told(names[0])}"
        return self.then.choose(kind, names)

    def ended(self) -> str | None:
        """Return where the run has departed, now that it is over; None if it was the same."""
        if self.departure is None and self.done < len(self.choices):
            name = self.choices[self.done].name
            self.departure = f"choice {self.done}: the run is over, and the schedule goes on with {told(name)}"
        return self.departure

    @staticmethod
    def _departs(nth: int, recorded: Choice, names: Sequence[Name]) -> str:
        shown = ", ".join(map(told, names[:4])) + (", ..." if len(names) > 4 else "")
        expected = f"{told(recorded.name)}, one of {recorded.options}"
        return f"choice {nth}: the schedule has {expected}; what could come is {len(names)}: {shown}"


def told(name: Name) -> str:
    """Return a name in words: "thread 3 of block 0 of launch 1"."""
    match name:
        case ("thread", launch, block, thread):
            return f"thread {thread} of block {block} of launch {launch}"
        case ("transfer", launch, block, thread, nth):
            return f"transfer {nth} of thread {thread} of block {block} of launch {launch}"
        case ("stream", device, number, *_):  # behind the number: which one, where two of its steps are ready
            return f"stream {number}" + (f" of device {device}" if device else "")
        case (kind, str(actor), int(nth)):
            return f"{kind} {nth} of {told(named(actor))}" if actor else f"{kind} {nth}"
        case _:
            return " ".join(map(str, name))


def named(text: str) -> Name:
    """Return the name that was joined by spaces into `text`: as the name of a maker stands in that of its work."""
    kind, _, rest = text.partition(" ")
    if kind == "stream":
        device, number = rest.split(" ")
        return kind, int(device), int(number)
    if kind in (THREAD, TRANSFER):  # behind the name of a launch, which may have spaces
        launch, *numbers = rest.rsplit(" ", 2 if kind == THREAD else 3)
        return kind, launch, *map(int, numbers)
    return kind, rest
