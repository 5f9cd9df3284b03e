"""Waits that cannot end: a blocking one is refused; streams that all stand still for a second are reported.

A command waits for others, and room in a stream with a capacity for enough of those that have places there. Coroutines
and functions of streams have places, too, while they wait: what they stand for, they may stand in the way of.
"""

from __future__ import annotations

import math
import time
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple
from weakref import ref

from atops.base.choice import Name
from atops.base.errors import AtopsError, WouldDeadlock
from atops.base.log_fields import first_line, get_logger
from atops.base.waiting.current_loop import running_loop_adapter
from atops.device.exec.grid import Grid
from atops.runtime.commands.awaited import WaitAwaited
from atops.runtime.commands.call import CALLBACKS, Call
from atops.runtime.commands.events import WaitEvent
from atops.runtime.commands.launch import Launch
from atops.runtime.commands.memory import Alloc, Free
from atops.runtime.commands.values import WaitValue, WriteValue, meets
from atops.runtime.core.capacity import Room
from atops.runtime.core.commands import ROWS
from atops.runtime.core.completion import Completion, driver_fields, fields_of, seen, verb
from atops.runtime.executors.executor import HERE
from atops.runtime.queues.host_functions import Stand, behind, is_host_function, stands

if TYPE_CHECKING:
    from atops.runtime.driver_board import Board
    from atops.runtime.queues.queue import StreamQueue

__all__ = ("StallWatch", "check_awaiting", "check_blocking", "why")

log = get_logger("atops.stall")

PATIENCE_NS = 1_000_000_000
SKIPPED = 64  # commands, the newest, that a stream skipped after a failure
SHOWN = 3  # of the commands that would store to a word


LINKED = frozenset((Call, WaitAwaited, WaitEvent))  # what waits for more than the commands before it and its `deps`
LOOK = 4_000  # commands to look at before the time is looked at


class _Upstream:
    """A search through all that must be over before given commands are: every queue once, whatever leads to it.

    `goals` are the commands that are looked for. When `time.monotonic` says `end` it gives up, and finds none. `via`,
    if given, gets the command that waits for each one that was come to.
    """

    def __init__(
        self, goals: Collection[Completion], end: float = math.inf, via: dict[Completion, Completion] | None = None
    ) -> None:
        self._goals, self._end, self._via = goals, end, via
        self._seen: set[Completion] = set()
        self._todo: list[Completion] = []
        self._queues: dict[StreamQueue, tuple[tuple[Completion, ...], tuple[Completion, ...]]] = {}
        self._ordered: dict[StreamQueue, int] = {}  # up to which of its commands a stream was looked through
        self._lined: dict[StreamQueue, int] = {}  # and its calls, which wait for each other

    def goal(self, targets: Iterable[Completion]) -> tuple[Completion, Completion] | None:
        """Return one of the goals that must be over before one of `targets` is, and that one; None without one."""
        looked, todo = 0, self._todo
        for target in targets:
            todo.append(target)
            while todo:
                item = todo.pop()
                if item in self._seen:
                    continue
                self._seen.add(item)
                if item.over:
                    if item.instead is not None:
                        self._come_to(item.instead, item)
                    continue
                if item in self._goals:
                    return item, target
                looked += self._look_before(item)
                self._follow(item)
                if looked > LOOK:
                    if time.monotonic() > self._end:
                        return None
                    looked = 0
        return None

    def _come_to(self, item: Completion, waits: Completion) -> None:
        self._todo.append(item)
        if self._via is not None:
            self._via.setdefault(item, waits)

    def _look_before(self, item: Completion) -> int:
        """Look through the commands before one in its queue. Returns how many were new."""
        goals, since = self._goals, self._ordered.get(item.queue, 0)
        if item.seq <= since:
            return 1
        self._ordered[item.queue] = item.seq
        before = _between(self._parts(item.queue)[1], since, item.seq)
        for each in [
            each for each in before if each.deps is not None or each.command.__class__ in LINKED or each in goals
        ]:
            if not getattr(each.command, "holds", True):  # a call that holds nothing only has to begin
                self._follow_deps(each, item)
            elif each.command.__class__ is Call or each in goals:
                self._come_to(each, item)
            else:
                if self._via is not None:
                    self._via.setdefault(each, item)
                self._follow(each)
        return len(before) + 1

    def _follow(self, item: Completion) -> None:
        """Come to what a command waits for beside the order of its stream."""
        command = item.command
        if item.deps is not None:
            self._follow_deps(item, item)
        if command.__class__ is WaitEvent:
            record = command.record
            if record is not None and record.seq > self._ordered.get(record.queue, 0):
                self._come_to(record, item)
        elif command.__class__ is WaitAwaited:
            self._follow_awaits(item)
        elif command.__class__ is Call:
            self._follow_awaits(item)
            since = self._lined.get(item.queue, 0)
            self._lined[item.queue] = max(since, item.seq)
            for part in self._parts(item.queue):
                for each in _between(part, since, item.seq):
                    if each.command.__class__ is Call:
                        self._come_to(each, item)

    def _follow_awaits(self, item: Completion) -> None:
        for each in item.awaits:
            if not isinstance(each, Room):  # a wait for room is one of the goals, as long as it stands
                self._come_to(each, item)

    def _follow_deps(self, item: Completion, waits: Completion) -> None:
        """Come to what must be over before a command starts, for which `waits` does."""
        ordered = self._ordered
        for dep in item.deps or ():
            if dep.seq > ordered.get(dep.queue, 0) or dep.command.__class__ is Call:
                self._come_to(dep, waits)

    def _parts(self, stream: StreamQueue) -> tuple[tuple[Completion, ...], tuple[Completion, ...]]:
        """Return the detached commands of a stream and its queue, as they were at the first look."""
        if (parts := self._queues.get(stream)) is None:
            parts = self._queues[stream] = stream.snapshot()
        return parts


def _between(items: tuple[Completion, ...], since: int, until: int) -> tuple[Completion, ...]:
    """Return the part of commands in order whose numbers are above `since` and below `until`."""
    return items[bisect_right(items, since, key=_seq) : bisect_left(items, until, key=_seq)]


_seq = attrgetter("seq")


class _Standing:
    """The commands that cannot go on while others, `ends`, do not: those that wait for room which these keep, too.

    `rooms` says which command's coroutine or function waits for room in which stream. When `time.monotonic` says `end`
    no more is found.
    """

    def __init__(self, ends: set[Completion], rooms: Mapping[Room, Completion], end: float = math.inf) -> None:
        self._ends, self._all, self._end = ends, ends, end
        self._waits: list[tuple[Completion, Room]] = []
        waits = [(item, room) for room, item in rooms.items() if item not in ends]
        while len(waits) != len(self._waits):  # those that are left keep places from each other, or the ends do
            self._waits = waits
            self._all = {*ends, *(item for item, _ in waits)}
            waits = [each for each in waits if self._step(each[1])]

    def way(self, source: Sequence[Completion] | Room) -> list[Completion | Room]:
        """Return what leads from a wait for any of some commands, or for room, to one of the ends, which is the last.

        Nothing where there is no such way.
        """
        way = self._step(source)
        while way and way[-1] not in self._ends:
            following = next(room for item, room in self._waits if item is way[-1])
            if following in way:  # these keep places from each other alone, as was reported
                return []
            way += self._step(following)
        return way

    def _step(self, source: Sequence[Completion] | Room) -> list[Completion | Room]:
        """As `way`, to any command that cannot go on."""
        if not isinstance(source, Room):
            return [*self._chain(source)]
        stream, capacity = source.queue, source.queue.places
        way: list[Completion | Room] = []
        kept = 0
        for part in () if source.is_done else _in_order(stream):
            holders = [item for item in part if item.place is not None]
            if chain := self._chain(holders):
                way = way or [source, *chain]
                kept += len(holders) - holders.index(chain[0])  # what is behind one that stands does so, too
        assert capacity is not None, "there is room in it"
        return way if way and capacity.limit - kept < capacity.most_until(source) else []

    def _chain(self, items: Sequence[Completion]) -> list[Completion]:
        if _Upstream(self._all, self._end).goal(items) is None:
            return []
        via: dict[Completion, Completion] = {}
        found = _Upstream(self._all, self._end, via).goal(items)
        if found is None:  # it is over by now
            return []
        chain = [found[0]]
        while chain[-1] is not found[1]:
            chain.append(via[chain[-1]])
        return chain[::-1]


def _in_order(stream: StreamQueue) -> tuple[list[Completion], list[Completion]]:
    """Return the calls that a stream does not wait for, and the rest of its queue: each waits for those before it."""
    detached, queue = stream.snapshot()
    loose, held = list(detached), list[Completion]()
    for item in queue:
        (held if getattr(item.command, "holds", True) else loose).append(item)
    return loose, held


def check_blocking(
    source: Sequence[Completion] | Room, holds_a_lock: bool, timeout: float, rooms: Mapping[Room, Completion]
) -> None:
    """Raise WouldDeadlock if blocking this thread, until commands are over or there is room, blocks what that needs.

    In plain code, and in a loop that owes no coroutine, nothing is looked through; else for no longer than the wait's
    `timeout`, in seconds. `rooms` says which command's coroutine or function waits for room in which stream.

    1. A thread that holds a lock of the board, which the work may need, never blocks. Only a finalizer or a signal
       handler can be there: it runs in the middle of another call, which may hold one.
    2. The runtime's own threads never block.
    3. A callback must not wait for a command that waits for the callback, nor for room whose places such commands have.
    4. A loop must not be blocked by a wait for a coroutine that it runs itself.
    """
    if not isinstance(source, Room) and not source:
        return
    what = source if isinstance(source, Room) else source[0]
    if holds_a_lock:
        raise WouldDeadlock(
            f"a finalizer or a signal handler waits for {what!r} in the middle of a call that its thread was "
            "making; the work may need what that call holds: wait when it is over, or in another thread"
        )
    if HERE.role is not None and HERE.role != "callback":
        raise WouldDeadlock(f"a blocking wait for {what!r} on the runtime's own {HERE.role} thread would never end")
    adapter = running_loop_adapter()
    callback = HERE.callback
    if adapter is None and callback is None:
        return
    ends = set() if adapter is None else set(filter(_is_open, list(adapter.owed)))
    if callback is not None:
        ends.add(callback)
    if not ends:
        return
    newest_first = source if isinstance(source, Room) else sorted(source, key=_seq, reverse=True)
    way = _Standing(ends, rooms, time.monotonic() + timeout).way(newest_first)
    if not way:
        return
    if way[-1] is callback:
        raise WouldDeadlock(
            f"a callback waits for {way[0]!r}, which waits for the callback, or what a signal handler came in the "
            f"middle of: {callback!r}"
        )
    raise WouldDeadlock(
        f"blocking this event loop until {way[0]!r} is done would never end: the loop itself must run {way[-1]!r}; "
        "await it"
    )


def check_awaiting(
    coroutine: Completion, target: Completion | Room, refuse: bool, rooms: Mapping[Room, Completion]
) -> None:
    """Raise WouldDeadlock, or log a report, if the command or room that a coroutine in a stream awaits waits for it.

    No later one can change that: what comes before a command is known when it is enqueued, but for what coroutines
    await; and they are looked at one by one, when each begins to. `rooms` is as for `check_blocking`.
    """
    way = _Standing({coroutine}, rooms).way(target if isinstance(target, Room) else (target,))
    if not way:
        return
    words = [f"{each!r}, which waits for " for each in way[:-1]]
    text = (
        f"the coroutine {coroutine.command.name} in {coroutine.queue.label} awaits what waits for it: {coroutine!r} "
        f"awaits {''.join(words)}{coroutine!r}"
    )
    items = [item for item in dict.fromkeys((coroutine, *way)) if isinstance(item, Completion)]
    if (detector := coroutine.queue.board.detector) is not None:
        detector.stalled([(item, why(item)) for item in items])
    if refuse:
        raise WouldDeadlock(f"{text}; await it outside of the coroutine, or enqueue it in another stream")
    lines = [f"  {item.queue.label}: {item!r} {why(item)}" for item in items]
    fields = fields_of(coroutine.queue, coroutine.seq)
    log.warning("%s", f"{text}; none of these can end:\n" + "\n".join(lines), extra=fields)


def why(item: Completion) -> str:
    """Say in words what a command waits for now."""
    command = item.command
    awaits = f", which awaits {', '.join(map(repr, item.awaits))} at {item.awaits_at}" if item.awaits else ""
    if isinstance(command, WaitEvent):
        if isinstance(command.event, Completion):
            return f"waits for {command.event!r}"
        return f"waits for {command.event!r}, recorded by {command.record!r}"
    if isinstance(command, WaitValue):
        return f"waits for a value: {item.parked!r}{_writers_to_come(item, command)}"
    if isinstance(command, Call) and _is_held(item):
        return f"waits for {item.parked!r} (null-stream order)"
    if is_host_function(item):
        seconds = (item.queue.board.now() - item.started_ns) / 1e9
        place = stands((item,)).get(item)
        stand = "" if place is None else f", which waits {place.text}"
        return f"has run the host function {command.name} for {seconds:.1f} s{stand}{behind(item)}"
    if isinstance(command, Call):
        return f"waits for the host callable {command.name}{awaits}"
    if isinstance(command, WaitAwaited):
        return f"waits for {command.awaited!r}{awaits}"
    if isinstance(item.parked, Completion):
        cause = "its memory" if isinstance(command, Alloc) and item.parked in command.after else "null-stream order"
        return f"waits for {item.parked!r} ({cause})"
    if isinstance(command, Launch):
        waits = [] if (grid := item.parked) is None else grid.waits()
        if holders := {} if grid is None else item.queue.context.clusters.holders(grid):
            many = grid.cooperative and grid.total_blocks > 1
            wanted = f"{grid.total_blocks} clusters at once" if many else "a cluster"
            return f"waits for {wanted}: {_held_by(item, holders)}"
        return f"runs kernel {command.bound.name}" + "".join(f"; {wait}" for wait in waits)
    return f"waits for {item.parked!r}" if item.parked is not None else item.state


def _held_by(item: Completion, holders: Mapping[int, Grid]) -> str:
    """Say which launches hold the clusters that a launch waits for."""
    places: dict[Grid, list[int]] = {}
    for place, grid in sorted(holders.items()):
        places.setdefault(grid, []).append(place)
    launches = {each.parked: each for stream in [*item.queue.context.active] for each in stream.pending()[:1]}
    words = []
    for grid, held in places.items():
        launch = launches.get(grid)
        line = "" if launch is None or launch.epoch is None else f" ({launch.epoch.site})"
        where = "" if launch is None else f" of {launch.queue.label}{line}"
        many = len(held) > 1
        which = f"cluster{'s' if many else ''} {', '.join(map(str, held))} {'are' if many else 'is'}"
        if many and len(places) == 1:
            which = "both are" if len(held) == 2 else f"all {len(held)} are"
        words.append(f"{which} held by kernel {grid.name}{where}")
    return ", ".join(words)


class _Skipped(NamedTuple):
    """A command that would have stored something, and was skipped after a failure of its stream."""

    what: str
    stores: tuple[tuple[ref[object], int, int], ...]
    value: int | None  # that it would have written, if that is known
    said: str  # by the failure
    failure: ref[AtopsError]  # it has the frames of the program

    def ends(self, wait: WaitValue) -> bool:
        """Whether it would have ended a wait, as far as that is known, and the program has not seen the failure."""
        failure = self.failure()
        if failure is None or seen(failure):
            return False
        if not _reaches(((memory(), low, high) for memory, low, high in self.stores), wait):
            return False
        return self.value is None or meets(self.value, wait)


def _stores(item: Completion) -> list[tuple[object, int, int]]:
    """Return which bytes a command stores, as far as that is known."""
    kind = item.command.__class__
    if kind in (Alloc, Free):
        return []
    return [(memory, low, high) for memory, low, high, write in ROWS[kind].touches(item.command) if write]


def _reaches(stores: Iterable[tuple[object, int, int]], wait: WaitValue) -> bool:
    """Whether one of these bytes is of the word that is waited for."""
    start, stop = wait.offset, wait.offset + wait.width // 8
    return any(memory is wait.src and low < stop and start < high for memory, low, high in stores)


def _writers_to_come(item: Completion, wait: WaitValue) -> str:
    """Say which commands that are enqueued would store to a word that is waited for, as far as that is known."""
    writers = [
        f"{each!r} behind {pending[0]!r}" if each is not pending[0] else repr(each)
        for context in item.queue.board.contexts
        for stream in [*context.active]
        for pending in [stream.pending()]
        for each in pending
        if _reaches(_stores(each), wait)
    ]
    if not writers:
        if (skipped := item.queue.board.stall.skipped_for(wait)) is None:
            return "; no command that is enqueued stores there"
        return f"; {skipped.what} would have stored there, and was skipped after a failure: {skipped.said}"
    more = f" and {len(writers) - SHOWN} more" if len(writers) > SHOWN else ""
    return f"; to be stored by {', '.join(writers[:SHOWN])}{more}"


def _is_open(item: Completion) -> bool:
    """Whether its loop must run before a command can be over: it must not end a future that is done already."""
    return not item.over and item.command.adapter is not None


def _is_held(item: Completion) -> bool:
    """Whether a command has not begun, because null-stream order has it wait for another one."""
    return isinstance(item.parked, Completion)


def _is_call(item: Completion) -> bool:
    return isinstance(item.command, Call) and item.command.adapter is None and not _is_held(item)


class StallWatch:
    """A check, once a second while a stream of the driver is parked, whether any stream has moved."""

    choice: Name = ("timer", "of the watch for streams that stand still")  # the same whichever stream is parked first

    def __init__(self, board: Board) -> None:
        self.rooms: dict[Room, Completion] = {}  # for which room a command's coroutine or function waits
        self._driver = board
        self.looking = False
        self._last: tuple[int, ...] = ()
        self._reported: tuple[int, ...] = ()
        self._stands: dict[Completion, Stand] = {}  # of host functions, at the last look
        self._skipped: deque[_Skipped] = deque(maxlen=SKIPPED)
        self._calls = self._crowd = -1  # how many host calls had begun at the last look, and at the last report

    def note_skipped(self, item: Completion, failure: AtopsError) -> None:
        """Note that a command is skipped after a failure: others may wait for what it would have stored."""
        if stores := tuple((ref(memory), low, high) for memory, low, high in _stores(item)):
            site = "" if item.epoch is None else f", at {item.epoch.site},"
            what = f"{verb(item)} of {item.queue.label}{site}"
            value = item.command.value if isinstance(item.command, WriteValue) else None
            self._skipped.append(_Skipped(what, stores, value, first_line(failure), ref(failure)))

    def skipped_for(self, wait: WaitValue) -> _Skipped | None:
        """Return the first command that would have ended a wait, and was skipped after a failure not seen yet."""
        return next((each for each in [*self._skipped] if each.ends(wait)), None)

    def look_later(self) -> None:
        """Start looking. Called when a head parks; cheap when looking already."""
        if not self.looking:
            self.looking = True
            self._driver.executor.later(PATIENCE_NS, self._look)

    def _look(self) -> None:
        streams = [stream for context in self._driver.contexts for stream in self._active(context.active)]
        heads = [(stream, item) for stream in streams for item in _heads(stream)]
        self.looking = bool(heads)
        if not heads:
            self._last = self._reported = ()
            self._stands = {}
            return
        self._look_for_threads(heads)
        standing = tuple(sorted(item.seq for _, item in heads))
        parked = self._all_stand(heads)
        if parked and standing == self._last:
            if standing != self._reported:
                self._reported = standing
                self._stalled(report := self.report(heads), heads, told=True)
                log.warning("%s", report, extra=driver_fields(self._driver))
            self.looking = False  # reported; the next head that parks starts it again
            return
        if all(item.parked is not None or isinstance(item.command, Call) for _, item in heads):
            self._stalled(self.report(heads), heads)
        self._last = standing if parked else ()
        self._driver.executor.later(PATIENCE_NS, self._look)

    def _all_stand(self, heads: list[tuple[StreamQueue, Completion]]) -> bool:
        """Return whether nothing of the board moves.

        A host function stands where it waits for another thread, as it did at the last look; beside it a coroutine does
        not count. One that nothing waits for is none of the board's business.
        """
        items = [item for _, item in heads]
        before, self._stands = self._stands, stands(items)
        calls = [item for item in items if _is_call(item)]
        for item in calls:
            stand = self._stands.get(item)
            if stand is None or before.get(item, stand).key != stand.key:
                return False
        if len(items) == len(calls) == 1 and not behind(calls[0]):
            return False
        others = [item for item in items if not isinstance(item.command, Call) or _is_held(item)] if calls else items
        return all(item.parked is not None and not self._moves(item) for item in others)

    def _look_for_threads(self, heads: list[tuple[StreamQueue, Completion]]) -> None:
        """Report host calls that wait for a thread, where no call has begun since the last look."""
        waiting, begun = self._driver.executor.crowd(CALLBACKS)
        if waiting and begun == self._calls != self._crowd:
            self._crowd = begun
            most = self._driver.options.callback_threads
            lines = [f"  {stream.label}: {item!r} {why(item)}" for stream, item in heads if _is_call(item)]
            log.warning(
                "host calls that have not ended for a second have all %d threads, and %d more wait for one; if the "
                "first wait for these, raise EmulatorOptions(callback_threads=%d):\n%s",
                most, waiting, most, "\n".join(lines), extra=driver_fields(self._driver),
            )  # fmt: skip
        self._calls = begun

    def _stalled(self, report: str, heads: list[tuple[StreamQueue, Completion]], told: bool = False) -> None:
        """Have the executor end what awaits streams that cannot go on; where that is so, the detector reports it.

        `told`: it was so a second ago, too, and the host may yet end it.
        """
        commands = [item.command for _, item in heads]
        outside = [command.awaited.thing for command in commands if isinstance(command, WaitAwaited)]
        skipped = [self.skipped_for(command) for command in commands if isinstance(command, WaitValue)]
        cause = next((each.failure() for each in skipped if each is not None), None)
        tasks = self._driver.executor.stalled(report, self._driver.host_tasks.runs, outside, cause)
        sure = tasks is not None
        if (sure or told) and (detector := self._driver.detector) is not None:
            detector.stalled([(item, why(item)) for _, item in heads], perhaps=not sure, tasks=tasks or ())

    def _active(self, streams: dict[StreamQueue, None]) -> list[StreamQueue]:
        with self._driver.lock:
            return list(streams)

    def _moves(self, item: Completion) -> bool:
        command = item.command
        if isinstance(command, WaitAwaited):  # a loop or a thread may end it, or else one of the streams
            return not item.awaits and not command.awaited.stands
        if not isinstance(command, Launch):
            return False
        grid = item.parked  # None where it has just ended; a command where null-stream order holds it
        return grid is None or (isinstance(grid, Grid) and grid.moves())

    def report(self, heads: list[tuple[StreamQueue, Completion]]) -> str:
        """Say for each stream what its head waits for."""
        lines = [f"  {stream.label}: {item!r} {why(item)}" for stream, item in heads]
        if any(is_host_function(item) and behind(item) for _, item in heads):
            lines.append(
                "what comes behind a host function in its stream begins when it is over: one must not wait for it; "
                "enqueue what it waits for in another stream, or have the stream wait, stream.wait(...)"
            )
        return "every stream stands still:\n" + "\n".join(lines)


def _heads(stream: StreamQueue) -> list[Completion]:
    """Return what of a stream is due: the head of its queue, and the first of the calls that have left it."""
    return [part[0] for part in stream.snapshot() if part]
