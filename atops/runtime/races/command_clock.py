"""What is ordered before a command: clocks that are shared until they change.

A clock says of each order, a stream's by its number, up to which command it is known to be over. It is an immutable
value, in pages of 32 orders, so that a clock of a thousand streams is changed by copying two small dicts, and two
clocks that have most in common are joined by looking at what differs. A command has two: what its stream has learned by
events, and what the host knew when it enqueued the command, which is one object for all that the host enqueues between
two of its waits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, TypeAlias

from atops.device.call_site import Site

if TYPE_CHECKING:
    from atops.runtime.commands.launch import Rendezvous
    from atops.runtime.core.completion import Completion

__all__ = (
    "NOTHING",
    "Clock",
    "Epoch",
    "before",
    "everything_in",
    "group_in",
    "joined",
    "known",
    "newer",
    "with_entry",
    "without",
)  # fmt: skip

Clock: TypeAlias = Mapping[int, Mapping[int, int]]  # by page, by order: the number of the newest command that is over

PAGE: Final = 5  # bits: 32 orders a page
MARKS: Final = -1  # the page of the keys below, which are no orders
VERSION: Final = -32  # of what the host knows: a count of its changes
FLOOR: Final = -31  # all commands of the board up to this number
NOTHING: Final[Clock] = {}


def group_in(device: int) -> int:
    """Return the key of all commands in null-stream order on a device."""
    return -1 - 2 * device


def everything_in(device: int) -> int:
    """Return the key of all commands of a device."""
    return -2 - 2 * device


def known(clock: Clock, key: int) -> int:
    """Return up to which command of an order a clock knows it to be over; 0 for none."""
    page = clock.get(key >> PAGE)
    return 0 if page is None else page.get(key, 0)


def with_entry(clock: Clock, key: int, seq: int) -> Clock:
    """Return a clock that knows this, too: the same one where it did."""
    page = clock.get(key >> PAGE)
    if page is None:
        return {**clock, key >> PAGE: {key: seq}}
    if page.get(key, 0) >= seq:
        return clock
    return {**clock, key >> PAGE: {**page, key: seq}}


def joined(clock: Clock, other: Clock) -> Clock:
    """Return a clock that knows what either does: `clock` itself where the other one adds nothing."""
    if clock is other or not other:
        return clock
    if not clock:
        return other
    changed: dict[int, Mapping[int, int]] = {}
    for number, page in other.items():
        mine = clock.get(number)
        if mine is page:
            continue
        if mine is None:
            changed[number] = page
            continue
        more = {key: seq for key, seq in page.items() if seq > mine.get(key, 0)}
        if more:
            changed[number] = {**mine, **more}
    return {**clock, **changed} if changed else clock


def without(clock: Clock, other: Clock) -> Clock:
    """Return what a clock knows and another one does not."""
    left: dict[int, Mapping[int, int]] = {}
    for number, page in clock.items():
        theirs = other.get(number)
        if theirs is page:
            continue
        kept = page if theirs is None else {key: seq for key, seq in page.items() if seq > theirs.get(key, 0)}
        if kept:
            left[number] = kept
    return left


def newer(clock: Clock, other: Clock) -> Clock:
    """Return the later of two states of what the host knew: it never forgets."""
    if clock is other:
        return clock
    return clock if known(clock, VERSION) >= known(other, VERSION) else other


class Epoch:
    """One command as a point in time: its place in its stream, what came before it, and what to call it.

    `own` is what its stream has learned, `host` what the host knew at the call; `told` is what its end adds to that,
    where it is a wait: `complete` does it. `group` is whether it takes part in null-stream order. `signal` is True of a
    store that only tells others something, `meeting` what grids that run together share.
    """

    __slots__ = (
        "after", "device", "group", "host", "label", "meeting", "order", "own", "seq", "signal", "site", "told",
        "words",
    )  # fmt: skip

    def __init__(
        self, order: int, seq: int, device: int, group: bool, host: Clock, site: Site | None, label: str
    ) -> None:
        self.order = order
        self.seq = seq
        self.device = device
        self.group = group
        self.own: Clock = NOTHING
        self.host = host
        self.site = site
        self.label = label  # the stream's
        self.words = ""  # the command's
        self.signal = False
        self.meeting: Rendezvous | None = None
        self.told: list[Epoch | Clock] | None = None  # a clock: what the host knew
        self.after: tuple[Completion, ...] = ()  # of other streams, known when it was enqueued; until it begins

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

    def __repr__(self) -> str:
        return f"<Epoch {self.seq}: {self.words or 'command'} in {self.label} at {self.site}>"


def before(earlier: Epoch, later: Epoch) -> bool:
    """Return whether a command is over before another one begins, which is noted after it."""
    if earlier.order == later.order:
        return True
    order, seq = earlier.order, earlier.seq
    for clock in (later.own, later.host):
        if (page := clock.get(order >> PAGE)) is not None and page.get(order, 0) >= seq:
            return True
        if (marks := clock.get(MARKS)) is not None:
            device = earlier.device
            if marks.get(FLOOR, 0) >= seq or marks.get(-2 - 2 * device, 0) >= seq:
                return True
            if earlier.group and marks.get(-1 - 2 * device, 0) >= seq:
                return True
    return earlier.meeting is not None and earlier.meeting is later.meeting
