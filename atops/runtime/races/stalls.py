"""Waits that stand still: those that cannot end, those that may yet, and wake-ups that were lost.

Where threads run, or a timer does, a host that sleeps may still end what has stood still for a second. Such a stall is
a deadlock only as long as none of its waits ends, and not where the program itself aborts what stands.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from atops.base.errors import IllegalAddress, StreamAborted
from atops.device.memory.value_wait import Watch, satisfied
from atops.device.races.race import Access, Race
from atops.runtime.commands.values import WaitValue, WriteValue
from atops.runtime.core.completion import Completion, verb
from atops.runtime.races.byte_history import ByteHistory, Written
from atops.runtime.races.command_clock import Epoch
from atops.runtime.races.deadlocks import deadlock_of
from atops.runtime.races.wording import access_of, api_of, line_of

if TYPE_CHECKING:
    from atops.runtime.queues.queue import StreamQueue

__all__ = ("LOST", "Side", "Stalls", "ended_by", "note_write", "races_of", "side_of")

LOST: Final = "lost wake-up"
KEPT: Final = 8  # stores to one word, the newest


class Side(NamedTuple):
    """A command that stands still, how it is told, and the wake-up that it has lost, if it has."""

    item: Completion
    access: Access
    lost: Race | None

    @property
    def stands(self) -> bool:
        """Whether what it waited for has not come: an abort, or the end of its memory, may have ended it."""
        item = self.item
        return not item.over or isinstance(item.failure, StreamAborted | IllegalAddress)


class Stalls:
    """Stalls of one board that may yet end. The detector's lock guards all of it."""

    def __init__(self) -> None:
        self._found: list[list[Side]] = []

    def add(self, sides: Iterable[Side]) -> None:
        """Note what stands still."""
        self._found.append([*sides])

    def given_up(self, queue: StreamQueue) -> None:
        """Note that the program aborts what a stream was given: that ends a wait as the program wants it."""
        self._found = [[side for side in sides if side.item.queue is not queue] for sides in self._found]

    def races(self) -> list[Race]:
        """Return the deadlocks among them by now."""
        left = ([side for side in sides if side.stands] for sides in self._found)
        self._found = [sides for sides in left if sides]
        return [race for sides in self._found for race in races_of(sides)]


def races_of(sides: Iterable[Side], among: str = "streams", tasks: Iterable[Access] = ()) -> list[Race]:
    """Return the reports of commands of which none can end, and of tasks of the program that wait for them."""
    sides = list(sides)
    lost = [side.lost for side in sides if side.lost is not None]
    return [deadlock_of([*(side.access for side in sides), *tasks], among, bool(lost)), *lost]


def side_of(item: Completion, why: str, history: ByteHistory | None) -> Side:
    """Return a command that stands still as it is told; `history` is that of the memory in which it awaits a word."""
    site = None if item.epoch is None else item.epoch.site
    access = Access(item.queue.label, f"{verb(item)} {why}", False, site, f"command {item.seq}", item.seq)
    return Side(item, access, None if history is None else _lost(item, history))


def note_write(history: ByteHistory, command: WriteValue, epoch: Epoch) -> None:
    """Keep what is to be stored to a word, and what is there before."""
    at, width = command.offset, command.width
    stop = at + width // 8
    before = int.from_bytes(command.dst.view[at:stop], "little")
    writes = history.written.setdefault(at, [])
    writes.append(Written(epoch, width, command.value % (1 << width), before, history.writers(at, stop)))
    del writes[:-KEPT]


def ended_by(history: ByteHistory, wait: Watch) -> list[Epoch]:
    """Return what has ended a wait for a value: what wrote the word last, or what an earlier write of it had found.

    A wait says that the word has met its condition, and not when. Where it has since several writes, the wait could
    have ended at the first of them: so it comes after that one, and not after the others.
    """
    writers = history.writers(wait.offset, wait.offset + wait.width // 8)
    for write in reversed(history.written.get(wait.offset, ())):
        met = write.width == wait.width and satisfied(write.before, wait.wanted, wait.condition, wait.mask, wait.width)
        if not met or writers != [write.epoch]:
            break
        writers = write.after
    return writers


def _lost(item: Completion, history: ByteHistory) -> Race | None:
    """Return the store that would have ended a wait for a value, and the one that came before the wait has seen it."""
    command, epoch = item.command, item.epoch
    assert isinstance(command, WaitValue), "it awaits a word"
    if epoch is None:
        return None
    written = history.written.get(command.offset, [])
    for write, later in reversed([*pairwise(written)]):
        if satisfied(write.value, command.value, command.condition, command.mask, command.width):
            if write.seen:
                return None
            gte = f"{api}StreamWaitValueGte" if (api := api_of(epoch.site)) else "Gte"
            first, second = (access_of(each.epoch, True, command.src.device or 0) for each in (write, later))
            return Race(
                LOST, first, second, repr(command.src), command.src.device or 0,
                ((command.offset, command.offset + command.width // 8),),
                f"the first would have ended the wait at {line_of(epoch.site)}, which began behind the second: have the"
                f" second come after the wait, or count upwards and wait for `{gte}`", command.src.offset,
            )  # fmt: skip
    return None
