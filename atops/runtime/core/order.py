"""Which commands of other streams are known to be over before the next command of a stream: what pools reuse memory by.

An order has a number: that of its stream, or `~ordinal` for the null stream of a device. A clock maps orders to the
number of the newest command known to come before; one key stands for all blocking streams of a device. What is known
here decides which memory is given out without a new wait. The stream that gets it comes after its free in any case.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from atops.runtime.core.completion import Completion
    from atops.runtime.owning_queue import OwningQueue
    from atops.runtime.queues.queue import StreamQueue

__all__ = (
    "EVERYTHING", "NOTHING", "REMEMBERED", "NullOrder", "Over", "Seen", "after_wait", "before_end", "group_of",
    "order_of", "seen_at_record", "seen_by", "synchronised_with",
)  # fmt: skip

EVERYTHING: Final = -(1 << 48)  # a key: all commands of the board
BLOCKING: Final = -(1 << 40)  # keys below no order
REMEMBERED: Final = 256  # orders that a clock holds


class Seen(NamedTuple):
    """What comes before a point of a stream: what its clocks say, and null-stream order of one device up to `null`."""

    clocks: tuple[dict[int, int], ...]
    null: int
    ordinal: int

    def newest(self, order: int, group: int) -> int:
        """Return the number of the newest command of an order that comes before, 0 for none. `group`: its group."""
        found = self.null if self.null and (order == ~self.ordinal or group == _everything_in(self.ordinal)) else 0
        for clock in self.clocks:
            found = max(found, clock.get(order, 0), clock.get(group, 0) if group else 0)
        return found

    def merge(self, clock: dict[int, int], order: int, seq: int) -> None:
        """Add to a clock what is seen here, and command `seq` of an order: the newest entry, which is kept longest."""
        for each in self.clocks:
            for other, known in list(each.items()):  # at once: another thread may add to it
                if known > clock.get(other, 0):
                    clock[other] = known
        if self.null:
            for other in (~self.ordinal, _everything_in(self.ordinal)):
                clock[other] = max(self.null, clock.pop(other, 0))
        known = clock.pop(order, 0)
        clock[order] = seq if seq > known else known
        if len(clock) > REMEMBERED:  # those learned of longest ago are of streams that may be gone
            for other in list(clock)[: REMEMBERED // 2]:
                clock.pop(other, None)


Over: TypeAlias = tuple[Seen, int, int]  # what comes before a command, its order, and its number
NOTHING: Final = Seen((), 0, 0)
new_tuple = tuple.__new__  # what a named tuple does, without the Python frame that it puts before it


class NullOrder:
    """What null-stream order and the host have waited for on one device, as clocks.

    `null_seq`: the number of the null stream's newest command. `blocking`: what comes before the newest wait of any
    blocking stream, `null` those before that command, `host` what the host does, where a pool asks (`host_asked`).
    """

    __slots__ = ("blocking", "host", "host_asked", "null", "null_seq")

    def __init__(self) -> None:
        self.null_seq = 0
        self.blocking: dict[int, int] = {}
        self.null = self.blocking
        self.host: dict[int, int] = {}
        self.host_asked = False


def order_of(stream: StreamQueue) -> int:
    """Return a number for a stream's order: its own, and one below 0 for the null stream of each device."""
    return stream.number or ~stream.context.ordinal


def _everything_in(ordinal: int) -> int:
    """Return the key of all blocking streams of a device."""
    return BLOCKING - ordinal


def group_of(stream: StreamQueue) -> int:
    """Return the key of the streams with which one is in null-stream order; 0 for none."""
    return _everything_in(stream.context.ordinal) if stream.blocking else 0


def seen_by(stream: OwningQueue) -> Seen:
    """Return what comes before the next command of a stream."""
    context, own = stream.context, stream.waited
    if stream.null:  # it waits for all that blocking streams have been given, and so for what they wait for
        known = context.order.blocking
        return Seen((known,) if known else (), context.board.seq, context.ordinal)
    if not stream.blocking or not context.order.null_seq:
        return Seen((own,), 0, 0) if own else NOTHING
    clocks = [each for each in (own, context.order.null) if each]
    return Seen(tuple(clocks), context.order.null_seq, context.ordinal)


def seen_at_record(stream: OwningQueue) -> Seen | None:
    """As `seen_by`, for a record to keep: its clocks do not change any more. None where nothing is seen."""
    if not stream.board.frees:
        return None  # what comes before a record is of use for frees that come before it
    if stream.waited is None and not stream.null and not (stream.blocking and stream.context.order.null_seq):
        return None
    stream.waited_kept = True
    if stream.null:
        stream.context.order.null = stream.context.order.blocking
    elif not stream.context.order.null_seq or not stream.blocking:
        seen: Seen = new_tuple(Seen, ((stream.waited,), 0, 0))
        return seen
    return seen_by(stream)


def _before_record(record: Completion) -> Over:
    """Return what is over once a record is."""
    seen, stream = getattr(record.command, "seen", None) or NOTHING, record.queue
    if stream.null:
        seen = Seen(seen.clocks, record.seq, stream.context.ordinal)
    return seen, stream.number or order_of(stream), record.seq


def synchronised_with(record: Completion) -> None:
    """Do what follows when the host has waited for a record."""
    context = record.queue.context
    context.synchronised(_before_record(record) if context.order.host_asked else None)


def before_end(stream: OwningQueue) -> Over:
    """Return what is over once everything that a stream was given is over."""
    return seen_by(stream), order_of(stream), stream.board.seq


def after_wait(stream: OwningQueue, record: Completion) -> None:
    """Note that what a stream is given from now on comes after a record."""
    seen, order, seq = _before_record(record)
    waited = stream.waited
    if waited is None or stream.waited_kept:
        waited = stream.waited = {} if waited is None else waited.copy()
        stream.waited_kept = False
    seen.merge(waited, order, seq)
    if not stream.blocking:
        return
    other, context = record.queue, stream.context
    if other.blocking and other.context is context and not stream.null:
        return  # null-stream order has it already, and all that the other one has waited for
    if context.order.null is context.order.blocking:
        context.order.blocking = context.order.blocking.copy()
    seen.merge(context.order.blocking, order, seq)
    if stream.null:
        context.order.null = context.order.blocking
