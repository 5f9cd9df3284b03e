"""Copies, of plain memory and of scatter memory: how their bytes move, and on which threads and engines.

Small ones run where they stand, large ones on a copy thread, when an engine and the link are free.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from atops.base.choice import Name
from atops.base.errors import AtopsError, ExecutionError
from atops.base.log_fields import said_of
from atops.base.trace.records import Kind
from atops.base.waiting.parking_lot import ThreadWaiter
from atops.device.copy_engine import CopyEngines, CopyJob, Direction
from atops.device.memory.allocation import Allocation, move
from atops.runtime.board.context import DeviceContext
from atops.runtime.commands.cost_model import copy_legs, legs_ns
from atops.runtime.core import command_trace
from atops.runtime.core.commands import Described, Ended, ReadRange, Touch, UsedRange, define, never, nothing, place
from atops.runtime.core.completion import Completion, as_failure
from atops.runtime.executors.executor import Lane
from atops.runtime.memory.scatter import ranges_of, read_from, touches_of, write_to

if TYPE_CHECKING:
    from atops.device.topology import Link
    from atops.runtime.driver_board import Board

__all__ = (
    "COPIED",
    "COPIES",
    "COPY_D2D",
    "COPY_D2H",
    "COPY_H2D",
    "DIRECT",
    "DIRECTIONS",
    "HALVES",
    "PAGE",
    "Copy",
    "CopyCompletion",
    "ScatteredCopy",
    "carry_out",
    "changed_ranges",
    "checksum",
    "ending",
    "run_here_or_beside",
    "run_on_engine",
)

COPIED = Ended("copy")
COPIES = Lane("copy")
HALVES = Lane("copy half")
SCATTERED = "scatter memory"  # its name in traces
SPLIT = 8 << 20  # from here on two threads share a copy
DIRECT = 64 << 10  # up to here a copy costs less than the hop to a copy thread; its host source is taken at the call
PAGE = 4096  # of a host source, each with a checksum
KEEPS_GIL = 128 << 10  # up to here a memoryview moves bytes faster than numpy, and does not give up the GIL
COPY_D2D, COPY_D2H, COPY_H2D = int(Kind.COPY_D2D), int(Kind.COPY_D2H), int(Kind.COPY_H2D)
DIRECTIONS: dict[int, Direction] = {
    Kind.COPY_H2D: Direction.HOST_TO_DEVICE,
    Kind.COPY_D2H: Direction.DEVICE_TO_HOST,
}


class Copy(NamedTuple):
    """Move `size` bytes. Either end is an allocation, or host bytes (a memoryview) with no address of their own."""

    dst: Allocation | memoryview
    dst_offset: int
    src: Allocation | memoryview | bytes
    src_offset: int
    size: int
    kind: int
    checksum: tuple[int, ...] | None = None  # in strict mode, of each page of a host source at the call
    link: Link | None = None  # between two devices; None where none joins them

    def part(self, start: int, size: int) -> Copy:
        """Return the copy of `size` bytes of it from byte `start` on, whose source is not checked again."""
        return Copy(self.dst, self.dst_offset + start, self.src, self.src_offset + start, size, self.kind)


class CopyCompletion(Completion[Any]):
    """The outcome of a copy. It holds the fields of its Copy itself, under the same names.

    Copies are the commonest commands, and a record beside each would cost as much as the completion. `command` makes
    the record when it is read; enqueueing, and carrying out short copies, reads the fields.
    """

    __slots__ = ("checksum", "dst", "dst_offset", "kind", "link", "size", "src", "src_offset")

    dst: Any  # an allocation or host bytes, as of a Copy; None, as `src`, once it is over
    dst_offset: int
    src: Any
    src_offset: int
    size: int
    kind: int
    checksum: tuple[int, ...] | None
    link: Link | None

    @property
    def command(self) -> Any:
        """The copy as a record, or what is left of it."""
        dst, src = self.dst, self.src
        if dst is None or src is None:
            return COPIED
        return Copy(dst, self.dst_offset, src, self.src_offset, self.size, self.kind, self.checksum, self.link)

    @command.setter
    def command(self, command: Any) -> None:
        if isinstance(command, Ended):
            self.dst = self.src = self.checksum = None
        else:  # its second half, where it goes over the host
            self.dst, self.dst_offset, self.src, self.src_offset, *rest = command
            self.size, self.kind, self.checksum, self.link = rest


class ScatteredCopy(NamedTuple):
    """Move `size` bytes from or to scatter memory. Otherwise as a Copy; `kind` is that of the trace record."""

    dst: Allocation | memoryview
    dst_offset: int
    src: Allocation | memoryview | bytes
    src_offset: int
    size: int
    kind: int
    link: Link | None = None


# ---- how they run


def _run_copy(command: Copy, item: Completion) -> bool:
    """Copy here if it is short and nothing holds the link the other way; else when an engine is free."""
    board = item.queue.board
    if command.kind == Kind.COPY_PEER and command.link is None:
        return _stage_through_host(command, item, timed=False)
    direction = DIRECTIONS.get(command.kind, Direction.NONE)
    context = _copying_context(command, item)
    if command.size <= DIRECT and context.engines.quiet(direction):
        carry_out(command)
        return True
    alone = command.size < SPLIT or board.inline
    action = partial(carry_out, command) if alone else partial(_carry_out_halves, command, board)
    run_on_engine(context, item, direction, action, partial(_end_copy, item))
    return False


def _run_timed_copy(command: Copy, item: Completion) -> bool:
    """Copy on an engine, however short; between devices without a link in two halves, on an engine of each."""
    if command.kind == Kind.COPY_PEER and command.link is None:
        return _stage_through_host(command, item, timed=True)
    context = _copying_context(command, item)
    direction = DIRECTIONS.get(command.kind, Direction.NONE)
    takes = partial(_copy_ns, context, command)
    run_on_engine(context, item, direction, partial(carry_out, command), item.finish, takes)
    return False


def _run_scattered(command: ScatteredCopy, item: Completion) -> bool:
    """Copy here, or on a copy thread when it is large."""
    return run_here_or_beside(item, partial(_carry_out_scattered, command), command.size <= DIRECT)


def _run_timed_scattered(command: ScatteredCopy, item: Completion) -> bool:
    """Copy on an engine; a fill of scatter memory is such a copy, too."""
    context = _copying_context(command, item)
    direction = DIRECTIONS.get(command.kind, Direction.NONE)
    action, takes = partial(_carry_out_scattered, command), partial(_copy_ns, context, command)
    run_on_engine(context, item, direction, action, item.finish, takes)
    return False


def _copy_ns(context: DeviceContext, command: Copy | ScatteredCopy) -> int:
    """Return the nanoseconds of a device's engine that a copy takes."""
    return legs_ns(copy_legs(context, command))


def run_here_or_beside(item: Completion, action: Callable[[], None], short: bool) -> bool:
    """Run `action` here if it is short, else on a copy thread, which settles the command. Returns as `run` of a row."""
    if short:
        action()
        return True
    item.queue.board.executor.run(COPIES, ending(item, action), item.queue.priority)
    return False


def ending(item: Completion, action: Callable[[], None]) -> Callable[[], None]:
    """Return what runs `action` on a copy thread and settles the command."""

    def work() -> None:
        error = None
        try:
            action()
        except AtopsError as failure:
            error = failure
        _end_copy(item, error)

    return work


def _end_copy(item: Completion, error: AtopsError | None) -> None:
    """Settle a copy on its thread, which drains what follows in the stream unless other copies wait for the thread.

    To wake the driver would take longer than most of what follows. In an urgent stream what follows comes before other
    copies that wait: it may be the next copy.
    """
    stream = item.queue
    executor = stream.board.executor
    stream.finish(item, error, here=executor.agenda is None and (stream.priority < 0 or executor.backlog(COPIES)()))


def _carry_out_halves(command: Copy, board: Board) -> None:
    """Move a large copy on two threads: one does not saturate the memory. On a copy thread; raises as `carry_out`."""
    if command.checksum is not None:
        _check_source(command)
    half = (command.size // 2) & ~4095
    rest = command.part(half, command.size - half)
    gate, failures = ThreadWaiter(), list[Exception]()

    def other() -> None:
        try:
            carry_out(rest)
        except Exception as failure:
            failures.append(failure)
        finally:
            gate.wake()

    board.executor.run(HALVES, other)
    try:
        carry_out(command.part(0, half))
    finally:
        gate.wait()  # bounded: it moves bytes and nothing else
    if failures:
        raise failures[0]


def _copying_context(command: Copy | ScatteredCopy, item: Completion) -> DeviceContext:
    """Return the device whose engines carry the copy: the source's, the destination's, or the stream's."""
    context: DeviceContext = item.queue.context
    for end in (command.src, command.dst):
        if isinstance(end, Allocation) and end.device is not None and end.device != context.ordinal:
            owner: DeviceContext = item.queue.board.context(end.device)
            return owner
    return context


def run_on_engine(
    context: DeviceContext,
    item: Completion,
    direction: Direction,
    action: Callable[[], None],
    done: Callable[[AtopsError | None], None],
    takes: Callable[[], int] | None = None,
) -> None:
    """Run `action` on a copy thread once the link and an engine (of its resource bundle, if it has one) are free.

    Then tell `done`. `takes`, asked when it begins, says for how many nanoseconds of the driver's clock it then holds
    the engine; the bytes move at their end, as late as may be. An abort meanwhile lets it finish, as any begun copy.
    """
    share: CopyEngines | None = item.share if context is item.queue.context else None
    turn = _Turn(item, direction, context.engines, share, _observed(context, item, direction, action), done, takes)
    item.stop, item.parked = turn.cancel, context.engines if share is None else share
    if item.queue.board.tracer.detail and turn.waits():
        command_trace.park(item)
    turn.request()


def _observed(
    context: DeviceContext, item: Completion, direction: Direction, action: Callable[[], None]
) -> Callable[[], None]:  # fmt: skip
    """Return an action that is reported when it runs: to a check of schedules, and to the race detector."""
    board = item.queue.board
    if board.executor.touches is not None:
        action = board.executor.touches.copying(item, context, direction, action)
    return action if board.detector is None else board.detector.moving(item, action)


class _Turn(CopyJob):
    """The turn of one copy: first in its bundle's share of the engines, if that has one, then with the device's."""

    __slots__ = ("_action", "_done", "_engines", "_item", "_place", "_takes")

    def __init__(
        self,
        item: Completion,
        direction: Direction,
        engines: CopyEngines,
        share: CopyEngines | None,
        action: Callable[[], None],
        done: Callable[[AtopsError | None], None],
        takes: Callable[[], int] | None,
    ) -> None:
        super().__init__(item.queue.priority, item.seq, direction)
        self._item, self._action, self._done, self._takes = item, action, done, takes
        self._engines = engines
        self._place = None if share is None else _Place(self, engines, share)

    def waits(self) -> bool:
        """Say whether it has to wait for an engine or for the link: a snapshot."""
        engines, place = self._engines, self._place
        return engines.full or not engines.quiet(self.direction) or (place is not None and place.share.full)

    def request(self) -> None:
        """Start the copy now or when its turn comes."""
        if (place := self._place) is None:
            self._engines.request(self)
        else:
            place.share.request(place)

    @property
    def made_for(self) -> Name:
        """The stream of the copy, after which a schedule names its steps."""
        return self._item.queue.choice

    def start(self) -> None:
        """Run the copy on a copy thread; where the system gives none, it fails."""
        board = self._item.queue.board
        try:
            board.executor.run(COPIES, self.work, self.priority)
        except RuntimeError as failure:
            board.post(partial(self._end, as_failure(failure, self._item)))

    def work(self) -> None:
        """Begin the copy, which has its engine."""
        item, takes = self._item, self._takes
        board = item.queue.board
        item.engine = self.engine
        item.started_ns = board.now()  # until then it stood behind other copies
        if board.tracer.detail:
            command_trace.start(item, item.started_ns)
        if takes is not None and (duration := takes()):
            item.parked = None  # it moves: it waits for no other copy
            board.executor.spend(duration, self.move, self.priority)
        else:
            self.move()

    def move(self) -> None:
        """Move the bytes."""
        self._end(_failure_of(self._action))

    def _end(self, error: AtopsError | None) -> None:
        """Give back the engine to what is as urgent, tell how the copy ended, and let less urgent copies have it.

        First the engine: the next copy must not find the link held by one of which it was told that it is over. Last
        the less urgent ones, once the next command of the stream had its chance.
        """
        engines, place = self._engines, self._place
        engines.give_back(self)
        if place is not None:
            place.share.give_back(place)
        self._done(error)
        engines.give_later()
        if place is not None:
            place.share.give_later()

    def cancel(self, error: AtopsError) -> None:
        """Have the command fail, unless the copy has started."""
        if self._withdraw():
            self._item.finish(error)

    def _withdraw(self) -> bool:
        """Forget a copy that has not started. Returns False when it has."""
        place = self._place
        if place is not None and place.share.withdraw(place):
            return True
        if not self._engines.withdraw(self):
            return False
        if place is not None:
            place.share.release(place)
        return True


class _Place(CopyJob):
    """The place of a copy in its bundle's share of the engines: once it has that, it asks for an engine."""

    __slots__ = ("_engines", "_turn", "share")

    def __init__(self, turn: _Turn, engines: CopyEngines, share: CopyEngines) -> None:
        super().__init__(turn.priority, turn.ticket, Direction.NONE)
        self._turn, self._engines, self.share = turn, engines, share

    def start(self) -> None:
        """Ask for an engine."""
        self._engines.request(self._turn)


def _failure_of(action: Callable[[], None]) -> AtopsError | None:
    """Carry out a copy, and return what it failed with, if it did."""
    try:
        action()
    except AtopsError as failure:
        return failure
    except Exception as failure:
        error = ExecutionError(f"a copy failed: {said_of(failure)}")
        error.__cause__ = failure
        return error
    return None


def _stage_through_host(command: Copy, item: Completion, timed: bool) -> bool:
    """Copy between devices that have no link: to the host, then on. Each half holds its own device's link."""
    source, target = command.src, command.dst
    assert isinstance(source, Allocation) and isinstance(target, Allocation)
    assert source.device is not None and target.device is not None
    board = item.queue.board
    back, to = board.context(source.device), board.context(target.device)
    staging = memoryview(bytearray(command.size))
    down = Copy(staging, 0, source, command.src_offset, command.size, Kind.COPY_D2H)
    up = Copy(target, command.dst_offset, staging, 0, command.size, Kind.COPY_H2D)

    def half(context: DeviceContext, part: Copy, done: Callable[[AtopsError | None], None]) -> None:
        takes = partial(_copy_ns, context, part) if timed else None
        run_on_engine(context, item, DIRECTIONS[part.kind], partial(carry_out, part), done, takes)

    def half_way(error: AtopsError | None) -> None:
        error = error or board.trace_part(item, down)
        if error is not None:
            item.finish(error)
            return
        item.command, item.told = up, None  # what is left of it: its end is the second record
        half(to, up, partial(_end_copy, item))

    half(back, down, half_way)
    return False


# ---- how their bytes move


def carry_out(command: Copy) -> None:
    """Move the bytes of one copy. Raises IllegalAddress when an end is not live."""
    dst, src, size = command.dst, command.src, command.size
    if type(src) is Allocation:
        if type(dst) is Allocation:
            move(dst, command.dst_offset, src, command.src_offset, size)
            return
        src.check(command.src_offset, size, "copy to the host")
        _move_bytes(dst, command.dst_offset, src.view, command.src_offset, size)  # type: ignore[arg-type]  # host bytes
        return
    if command.checksum is not None:
        _check_source(command)
    if type(dst) is Allocation:
        dst.check(command.dst_offset, size, "copy from the host")
        _move_bytes(dst.view, command.dst_offset, src, command.src_offset, size)  # type: ignore[arg-type]  # host bytes
        dst.wrote(command.dst_offset, size)
    else:
        _move_bytes(dst, command.dst_offset, src, command.src_offset, size)  # type: ignore[arg-type]  # host bytes


def _check_source(command: Copy) -> None:
    """Raise ExecutionError when the host source of a copy is not what it was at the call (strict mode)."""
    assert command.checksum is not None, "asked for"
    if changed := changed_ranges(command.src, command.checksum):  # type: ignore[arg-type]  # only host bytes have one
        pages = ", ".join(f"{start} to {stop}" for start, stop in changed[:4])
        raise ExecutionError(
            f"the source of a copy changed after the call, in bytes {pages}; leave it alone until the copy is done"
        )


def _move_bytes(dst: memoryview, dst_offset: int, src: memoryview | bytes, src_offset: int, size: int) -> None:
    """Move bytes between two flat views."""
    if size <= KEEPS_GIL:
        dst[dst_offset : dst_offset + size] = src[src_offset : src_offset + size]
    else:
        target = np.frombuffer(dst, np.uint8, size, dst_offset)
        np.copyto(target, np.frombuffer(src, np.uint8, size, src_offset))


def checksum(source: memoryview | bytes) -> tuple[int, ...]:
    """Return a checksum of each page of a host source, by which a change is noticed before the copy is over."""
    return tuple(zlib.crc32(source[start : start + PAGE]) for start in range(0, len(source), PAGE))


def changed_ranges(source: memoryview | bytes, sums: tuple[int, ...]) -> list[tuple[int, int]]:
    """Return the pages of a source that have changed, as (first byte, end); adjacent pages are one range."""
    changed: list[tuple[int, int]] = []
    for page, (now, before) in enumerate(zip(checksum(source), sums, strict=True)):
        if now != before:
            start, stop = page * PAGE, min((page + 1) * PAGE, len(source))
            if changed and changed[-1][1] == start:
                changed[-1] = changed[-1][0], stop
            else:
                changed.append((start, stop))
    return changed


def _carry_out_scattered(command: ScatteredCopy) -> None:
    """Read all, then write all. Raises IllegalAddress for memory that was freed."""
    src, start, size = command.src, command.src_offset, command.size
    if isinstance(src, Allocation):
        data = read_from(src, start, size, "copy to scatter memory")
    else:
        data = np.frombuffer(src, np.uint8)[start : start + size]
    dst, offset = command.dst, command.dst_offset
    if isinstance(dst, Allocation):
        write_to(dst, offset, data, "copy from scatter memory")
    else:
        dst[offset : offset + size] = data.data


# ---- their rows


def _describe_copy(command: Copy, item: Completion) -> Described:
    """Describe a copy: its way, its bytes, both ends, and as its name the link between two devices."""
    ends = *place(command.dst, command.dst_offset), *place(command.src, command.src_offset)
    return (command.kind, command.size, *ends, -1, "" if command.link is None else command.link.name)


def _describe_scattered(command: ScatteredCopy, item: Completion) -> Described:
    """Describe a copy of scatter memory by name, for it lies in several places."""
    ends = *place(command.dst, command.dst_offset), *place(command.src, command.src_offset)
    name = SCATTERED if command.link is None else f"{SCATTERED}, {command.link.name}"
    return (command.kind, command.size, *ends, -1, name)


def _ranges_of_scattered(command: ScatteredCopy) -> Iterable[UsedRange]:
    """Return both ends of a copy or fill of scatter memory: the parts that hold some of the bytes."""
    ends = (command.dst, command.dst_offset), (command.src, command.src_offset)
    return ranges_of((*end, command.size) for end in ends)


def _source_of(command: Copy) -> Iterable[ReadRange]:
    """Return the bytes of device memory that a copy reads."""
    if isinstance(command.src, Allocation):
        return ((command.src, command.src_offset, command.src_offset + command.size),)
    return ()


def _touches_of_copy(command: Copy | ScatteredCopy) -> Iterable[Touch]:
    """Return both ends. Host bytes, too: two copies may meet there."""
    dst, dst_offset, src, src_offset, size, *_ = command
    if dst.__class__ is Allocation is src.__class__ and size:
        return (src, src_offset, src_offset + size, False), (dst, dst_offset, dst_offset + size, True)
    return (
        *touches_of(src, src_offset, size, False),
        *touches_of(dst, dst_offset, size, True),
    )


define(
    Copy,
    words=lambda _: "copy",
    run=_run_copy,
    run_timed=_run_timed_copy,
    describe=_describe_copy,
    uses=nothing,
    reads=_source_of,
    touches=_touches_of_copy,
    effect=lambda copy: copy.size > 0,
    waits=lambda item: item.engine < 0,
    silent=True,
    ended=COPIED,
)
define(
    ScatteredCopy,
    words=lambda _: "scattered_copy",
    run=_run_scattered,
    run_timed=_run_timed_scattered,
    describe=_describe_scattered,
    uses=_ranges_of_scattered,
    reads=nothing,
    touches=_touches_of_copy,
    effect=lambda copy: copy.size > 0,
    waits=never,
    silent=False,
    ended=Ended("scattered_copy"),
)
