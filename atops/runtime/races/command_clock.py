"""What is ordered before a command: clocks that are shared until they change.

A clock says of each order, a stream's or one of those below, up to which command it is known to be over. It is an
immutable value, in pages of 1,024 orders that are as long as they must be, so that clocks of a thousand streams are
joined in a microsecond, and what has not changed is shared. A stream that is gone leaves its order to another one, so
clocks are as long as there were streams at once. A command has two: what its stream has learned by events,
and what the host knew when it enqueued the command, which is one object for all that the host enqueues between two of
its waits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from types import CodeType
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from atops.device.call_site import Site

if TYPE_CHECKING:
    from atops.runtime.commands.launch import Rendezvous
    from atops.runtime.core.completion import Completion

__all__ = (
    "HOST",
    "NOTHING",
    "NULL_STREAMS",
    "STREAMS",
    "Clock",
    "Epoch",
    "Heard",
    "Waited",
    "before",
    "changed",
    "everything_in",
    "group_in",
    "joined",
    "known",
    "newer",
    "with_entries",
    "with_entry",
)

Page: TypeAlias = npt.NDArray[np.int64]  # by order: the number of the newest command that is over, 0 for none
Clock: TypeAlias = Mapping[int, Page]

BITS: Final = 10  # of a place in a page
PLACE: Final = (1 << BITS) - 1
STEP: Final = 64  # pages grow by so much
VERSION: Final = 0  # of what the host knows: a count of its changes; the first of the keys that are no orders
HOST: Final = 1  # the order of words that the host stores at once
NULL_STREAMS: Final = 32  # the orders of null streams, by device
STREAMS: Final = 64  # the first of the orders of other streams
NOTHING: Final[Clock] = {}


def group_in(device: int) -> int:
    """Return the key of all commands in null-stream order on a device."""
    return 2 + 2 * device


def everything_in(device: int) -> int:
    """Return the key of all commands of a device."""
    return 3 + 2 * device


def known(clock: Clock, key: int) -> int:
    """Return up to which command of an order a clock knows it to be over; 0 for none."""
    page, place = clock.get(key >> BITS), key & PLACE
    return 0 if page is None or place >= len(page) else int(page[place])


def with_entry(clock: Clock, key: int, seq: int) -> Clock:
    """Return a clock that knows this, too: the same one where it did."""
    page, place = clock.get(key >> BITS), key & PLACE
    if page is not None and place < len(page):
        if page[place] >= seq:
            return clock
        page = page.copy()
    else:
        page = _as_long(page, place // STEP * STEP + STEP)
    page[place] = seq
    return {**clock, key >> BITS: page}


def with_entries(clock: Clock, entries: Iterable[tuple[int, int]]) -> Clock:
    """As `with_entry` for many, which takes one copy of each page."""
    pages: dict[int, Page] = {}
    for key, seq in entries:
        number, place = key >> BITS, key & PLACE
        page = pages.get(number)
        if page is None:
            page = clock.get(number)
            page = page.copy() if page is not None and place < len(page) else page
        if page is None or place >= len(page):
            page = _as_long(page, place // STEP * STEP + STEP)
        pages[number] = page
        if page[place] < seq:
            page[place] = seq
    return {**clock, **pages} if pages else clock


def joined(clock: Clock, other: Clock) -> Clock:
    """Return a clock that knows what either does: `clock` itself where the other one adds nothing."""
    if clock is other or not other:
        return clock
    if not clock:
        return other
    more: dict[int, Page] = {}
    for number, page in other.items():
        mine = clock.get(number)
        if mine is page:
            continue
        if mine is None:
            more[number] = page
            continue
        if len(mine) != len(page):
            longest = max(len(mine), len(page))
            mine, page = _as_long(mine, longest), _as_long(page, longest)
        if (page > mine).any():
            more[number] = np.maximum(mine, page)
    return {**clock, **more} if more else clock


def _as_long(page: Page | None, length: int) -> Page:
    """Return a copy of a page with so many places."""
    longer = np.zeros(length, np.int64)
    if page is not None:
        longer[: len(page)] = page
    return longer


def newer(clock: Clock, other: Clock) -> Clock:
    """Return the later of two states of what the host knew: it never forgets."""
    if clock is other or not other:
        return clock
    return clock if clock and clock[0][VERSION] >= other[0][VERSION] else other


def changed(clock: Clock, before: Clock) -> Clock:
    """Return a new state of what the host knows, after another one."""
    return with_entry(clock, VERSION, known(before, VERSION) + 1)


Heard: TypeAlias = "tuple[Epoch, list[tuple[int, int]]]"  # a launch: a part of it, and the part that it comes before


class Waited(NamedTuple):
    """Where a stream waits for an event, and the order, number and place of the record, if there was one.

    Where it waits for a value of a word or a signal, `met` are the places of what wrote that, and is else None.
    """

    place: tuple[CodeType, int]
    record: tuple[int, int, tuple[CodeType, int]] | None
    met: tuple[tuple[CodeType, int], ...] | None = None


class Epoch:
    """One command as a point in time: its place in its stream, what came before it, and what to call it.

    `own` is what its stream has learned, `host` what the host knew at the call; `told` is what its end adds to that,
    where it is a wait: `complete` does it. `group` is whether it takes part in null-stream order. `signal` is True of a
    store that only tells others something, `dropped` of the free of memory whose last reference has gone; `meeting` is
    what grids that run together share. `left_at` is the newest command that there was when its stream, or one that it
    waits for, left a wait out. `heard` are the launches whose signals one that runs has seen, and `part` is
    that of a launch in which something was over.
    """

    # Defaults live in the class: most commands have none of these.
    own: Clock = NOTHING
    words = ""  # what the command is called, once it has begun
    line: Site | None = None  # of a kernel: where it touches these bytes
    signal = False
    dropped = False
    meeting: Rendezvous | None = None
    told: list[Epoch | Clock] | None = None  # a clock: what the host knew
    heard: dict[int, Heard] | None = None  # by number
    part = 0
    left_at = 0
    after: tuple[Completion, ...] = ()  # of other streams, known when it was enqueued; until it begins
    waited: Waited | None = None  # the newest wait in its stream, or in the kernel that it launches

    def __init__(
        self, order: int, seq: int, device: int, group: bool, host: Clock, place: tuple[CodeType, int], label: str
    ) -> None:
        self.order = order
        self.seq = seq
        self.device = device
        self.group = group
        self.host = host
        self.place = place  # code and instruction, where it was enqueued
        self.label = label  # the stream's

    @property
    def site(self) -> Site:
        """Where the program enqueued it."""
        return Site(*self.place)

    def complete(self) -> None:
        """Know what its end tells. Once it is over, and so what it waited for."""
        told, self.told = self.told, None
        for each in told or ():
            if isinstance(each, Epoch):
                self.come_after(each)
            else:
                self.host = newer(self.host, each)

    def come_after(self, over: Epoch) -> None:
        """Come after another command, and what that came after."""
        if over.told is not None:
            over.complete()
        self.own = with_entry(joined(self.own, over.own), over.order, over.seq)
        self.host = newer(self.host, over.host)
        self.left_at = max(self.left_at, over.left_at)
        if (heard := over.heard) is not None:
            over.heard = None  # they may have heard of this one
            self._come_after_all(heard)
            over.heard = heard

    def _come_after_all(self, heard: Mapping[int, Heard]) -> None:
        for seq, (launch, _) in heard.items():
            if seq != self.seq:
                self.come_after(launch)

    def come_after_heard(self) -> None:
        """Come after the launches that it has heard, at its end: so does what comes next in its stream."""
        if (heard := self.heard) is not None:
            self.heard = None
            self._come_after_all(heard)

    def before_signals(self) -> Epoch:
        """Return a launch as what comes after all that was before the launches that it has heard, and not those.

        It is itself where it has heard none.
        """
        if (heard := self.heard) is None:
            return self
        parts, self.heard = copy(self), None  # they may have heard this one
        for launch, _ in heard.values():
            past = copy(launch)
            past.seq -= 1  # whatever its stream had before
            parts.come_after(past)
        self.heard = heard
        return parts

    def hear(self, launch: Epoch, part: int, own_part: int) -> None:
        """Note that this launch, at the end of a part of its own, sees a signal that another gave at the end of one."""
        if self.heard is None:
            self.heard = {}
        parts = self.heard.setdefault(launch.seq, (launch, []))[1]
        if not parts or parts[-1][0] < part:
            parts.append((part, own_part))

    def __repr__(self) -> str:
        return f"<Epoch {self.seq}: {self.words or 'command'} in {self.label} at {self.site}>"


def before(earlier: Epoch, later: Epoch) -> bool:
    """Return whether a command is over before another one begins, which is noted after it."""
    order, seq = earlier.order, earlier.seq
    if order == later.order:
        return True
    number, place, device = order >> BITS, order & PLACE, earlier.device
    for clock in (later.own, later.host):
        page = clock.get(number)
        if page is not None and place < len(page) and page[place] >= seq:
            return True
        marks = clock.get(0)
        if marks is not None and (
            marks[3 + 2 * device] >= seq or (earlier.group and marks[2 + 2 * device] >= seq)
        ):  # fmt: skip
            return True
    if earlier.meeting is not None and earlier.meeting is later.meeting:
        return True
    parts = () if later.heard is None or seq not in later.heard else later.heard[seq][1]
    return any(earlier.part <= part and later.part > own for part, own in parts)
