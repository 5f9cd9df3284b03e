"""Priority inversion: an urgent stream waits for a less urgent one, and what is between them goes first.

Urgent commands get engines and clusters first, but do not lend their priority to what they wait for. So where the less
urgent stream's command waits for an engine or a cluster behind work of a third stream, whose priority lies between the
two, the most urgent stream waits for that work, too, however long it is. Inversions are looked for where such work
begins, and where such a wait does.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from atops.base.locks import fork_safe
from atops.device.races.race import Access, Race
from atops.runtime.commands.copy import Copy, ScatteredCopy
from atops.runtime.commands.events import WaitEvent
from atops.runtime.commands.launch import Launch
from atops.runtime.commands.values import WaitValue, WriteValue, ends_wait
from atops.runtime.core.completion import Completion, verb
from atops.runtime.races.wording import api_of, line_of

if TYPE_CHECKING:
    from atops.runtime.queues.queue import StreamQueue

__all__ = ("INVERSION", "WAITS", "Inversions")

INVERSION: Final = "priority inversion"
COPIES: Final = (Copy, ScatteredCopy)
WAITS: Final = (WaitEvent, WaitValue)


class Inversions:
    """The waits of one board for less urgent streams.

    Its lock is taken before the board's, which looks at queues take, and that before the detector's, which is taken as
    commands are enqueued.
    """

    def __init__(self) -> None:
        self._lock = fork_safe(threading.RLock())  # again: a finalizer may come in the middle of it
        self.waits: list[Completion] = []  # perhaps over; where there are none, only a wait matters

    def begins(self, item: Completion) -> list[Race]:
        """Note that a command begins. Returns the inversions that it is part of. With neither lock held."""
        with self._lock:
            return self._begins(item)

    def _begins(self, item: Completion) -> list[Race]:
        kind = item.command.__class__
        if kind in WAITS:
            if item.queue.priority >= 0 or (kind is WaitEvent and not _is_urgent(item)):
                return []  # nothing is less urgent than 0
            self.waits.append(item)
            behind = [(item, low) for low in _standing(item)]
            return [
                _told(high, work, low)
                for high, low in behind for work in _at_work(low) if _between(high.queue, work.queue, low.queue)
            ]  # fmt: skip
        if not self.waits or (kind not in COPIES and kind is not Launch):
            return []
        self.waits = [each for each in self.waits if not each.over]
        return [
            _told(high, item, low)
            for high in self.waits for low in _standing(high)
            if _between(high.queue, item.queue, low.queue) and _compete(item, low)
        ]  # fmt: skip


def _at_work(low: Completion) -> Iterator[Completion]:
    """Yield what has what a command stands for."""
    for queue in [*low.queue.context.active]:
        for item in _due(queue):
            if item is not low and item.epoch is not None and item.epoch.words and _compete(item, low):
                yield item


def _is_urgent(wait: Completion) -> bool:
    """Tell whether a wait for an event is for a less urgent stream, which has not come there."""
    record = wait.command.record
    return record is not None and not record.over and record.queue.priority > wait.queue.priority


def _standing(high: Completion) -> list[Completion]:
    """Return the command that a wait comes down to, where it stands for an engine or a cluster."""
    wait, seen = high, {high.queue}
    while (end := _end_of(wait)) is not None:
        queue = end.queue
        due = [item for item in _due(queue) if item.seq <= end.seq]
        if queue in seen or not due:
            break
        seen.add(queue)
        wait = due[0]
        if wait.command.__class__ in WAITS:
            continue
        return [wait] if _stands(wait) else []
    return []


def _end_of(wait: Completion) -> Completion | None:
    """Return the command that ends a wait, which is not over; None where there is none, or one of several may.

    For a word that is the first `write_value` that is enqueued with such a value, if its stream alone has any.
    """
    command = wait.command
    if command.__class__ is WaitEvent:
        return None if (record := command.record) is None or record.over else record
    found: list[Completion] = [
        each for context in wait.queue.board.contexts for queue in [*context.active] for each in queue.pending()
        if each.command.__class__ is WriteValue and ends_wait(each.command, command)
    ]  # fmt: skip
    return found[0] if found and all(each.queue is found[0].queue for each in found) else None


def _due(queue: StreamQueue) -> list[Completion]:
    return [part[0] for part in queue.snapshot() if part]


def _stands(item: Completion) -> bool:
    context = item.queue.context
    if isinstance(item.command, Launch):
        return context.clusters.waits(item.seq)
    return isinstance(item.command, COPIES) and context.engines.waits(item.seq)


def _compete(one: Completion, other: Completion) -> bool:
    """Tell whether two commands want the same: engines of one device, or clusters."""
    if one.queue.context is not other.queue.context:
        return False
    kind, its = one.command.__class__, other.command.__class__
    return kind is its is Launch or (kind in COPIES and its in COPIES)


def _between(high: StreamQueue, middle: StreamQueue, low: StreamQueue) -> bool:
    return high.priority < middle.priority < low.priority


def _told(high: Completion, middle: Completion, low: Completion) -> Race:
    """Return the report of an inversion."""
    what = "clusters" if isinstance(low.command, Launch) else "copy engines"
    last, device, priority = low.queue.label, low.queue.context.ordinal, high.queue.priority
    api = "" if low.epoch is None else api_of(low.epoch.site)
    how = f"hipStreamCreateWithPriority(flags, {priority})" if api == "hip" else f"create_stream(priority={priority})"
    line = "" if low.epoch is None else f" ({line_of(low.epoch.site)})"
    return Race(
        INVERSION, _side(high, f"waits for what {last} of priority {low.queue.priority} is to do"),
        _side(middle, "goes before that"), f"the {what} of device {device}", device, (),
        f"{verb(low)} of {last}{line} stands for {what} behind what is more urgent than it, and so does all that waits "
        f"for it: make {last} as urgent as that, `{how}`, or enqueue it there",
    )  # fmt: skip


def _side(item: Completion, does: str) -> Access:
    queue, site = item.queue, None if item.epoch is None else item.epoch.site
    actor = f"{queue.label} of priority {queue.priority}"
    return Access(actor, f"{verb(item)} {does}", False, site, f"command {item.seq}", item.seq)
