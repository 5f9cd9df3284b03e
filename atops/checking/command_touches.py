"""What the steps of streams, engines and tasks touch, told to the footprint of a run: so strategies know what commutes.

The next command of a stream needs two things: that it was enqueued, and that the command before it has left the queue.
A wait for an event needs the record, too, if that is over; if it is not, the wait is parked, which has the same effect
as coming later. A step of which nothing is told here depends on every other, as do the steps of tasks. Where two steps
could depend on each other in a way that is not seen, such as copies that wait for each other's engine, the run begins
anew with nothing told of streams, engines and tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TYPE_CHECKING

from atops.base.agenda import Agenda
from atops.base.choice import STREAM, Name
from atops.base.footprint import RUNTIME, Footprint
from atops.base.trace.records import Kind
from atops.checking.task_calls import TaskCalls
from atops.device.copy_engine import Direction
from atops.device.memory.allocation import Allocation
from atops.device.races.touches import HOST, MEMORY
from atops.kernels.bound import BoundKernel
from atops.runtime.commands.call import Call
from atops.runtime.commands.copy import Copy
from atops.runtime.commands.events import Record, WaitEvent
from atops.runtime.commands.fill import Fill
from atops.runtime.commands.launch import PLAIN_LAUNCH, Launch
from atops.runtime.commands.memory import Alloc, Free
from atops.runtime.commands.values import WaitValue, WriteValue
from atops.runtime.core.commands import Command, row_of
from atops.runtime.core.completion import DONE, PENDING, Completion
from atops.runtime.core.event import Event
from atops.runtime.stream import Stream

if TYPE_CHECKING:
    from atops.runtime.board.context import DeviceContext
    from atops.runtime.driver_board import Board
    from atops.runtime.queues.queue import StreamQueue

__all__ = ("CommandTouches",)

Place = tuple[Name, int]  # of a command: its stream, and how many came before it there


class CommandTouches:
    """Tells what the steps of one board touch; those of kernels tell it themselves."""

    def __init__(self, footprint: Footprint, agenda: Agenda) -> None:
        self._footprint, self._agenda = footprint, agenda
        self._board: Board | None = None
        self._seq = 0  # the newest command that is known
        self._queues: dict[StreamQueue, tuple[int, int]] = {}  # commands that each was given, and that have left it
        self._places: dict[int, Place] = {}  # by number
        self._copying: set[str | int] = set()  # the actors whose copy is under way
        self._engines: dict[DeviceContext, set[StreamQueue]] = {}  # which streams have used those of a device
        footprint.complete = self._complete
        self._calls = TaskCalls(footprint, self._asked)

    def begin_board(self, board: Board) -> None:
        """Take the board whose steps they are."""
        if self._board is not None:
            self._footprint.refuse("a second driver")
        self._board = board

    # ---- steps

    def added(self, name: Name, step: Callable[[], object]) -> None:
        """Note a step that could come. Memory that nothing refers to is freed at once, unless it gets scarce."""
        owner = getattr(step, "__self__", None)
        if isinstance(owner, Allocation) and owner.device is not None and owner.watches is None:
            assert self._board is not None, "it has memory"
            context = self._board.context(owner.device) if self._board.closed is None else None
            if context is not None and context.memory.used * 2 > context.arch.l3_bytes:
                self._footprint.refuse("memory that is scarce")
            self._footprint.at_once.add(name)

    def begin(self, step: Callable[[], object]) -> None:
        """Tell what the step that begins now touches, where that is known before: the next command of a stream."""
        name, owner = self._agenda.current, getattr(step, "__self__", None)
        if name[0] == STREAM:
            self._begin_stream(name, owner)
        elif name[1] in self._copying:  # it has its engine, its time is over, or its bytes move, which is told then
            self._footprint.begin(name)
        elif owner is not None and self._board is not None and owner is self._board.closing:
            with self._board.lock:
                active = self._board.active_streams()
            if not active:
                self._footprint.begin(name)
                self._footprint.write(RUNTIME)
                self._footprint.write(HOST)

    def _begin_stream(self, name: Name, queue: StreamQueue | None) -> None:
        if queue is None or queue.board is not self._board:
            return
        _, items = queue.snapshot()
        if not items or items[0].stage != PENDING:
            self._footprint.begin(name)  # it does nothing
        elif (place := self._places.get(items[0].seq)) is not None and self._head(items[0], place):
            self._footprint.begin(name)

    def _head(self, item: Completion, place: Place) -> bool:
        """Tell what the first command of a queue touches when it is taken. Returns whether that is all."""
        footprint = self._footprint
        tracer = item.queue.board.tracer
        if tracer.detail or tracer.observed or tracer.pending:
            footprint.refuse("what reads the trace")
            return False
        stream, nth = place
        footprint.need(("given", *place))
        if nth:
            footprint.need(("over", stream, nth - 1))
        for each in item.deps or ():
            if not (parks := self._needs(each.instead or each)) and parks is not None:
                continue
            return parks is not None
        look = _HEADS.get(item.command.__class__)
        return look is not None and look(self, item.command, item)

    def _needs(self, item: Completion) -> bool | None:
        """Tell that the end of another command is needed. Returns whether it is still to come; None if unknown."""
        place = self._places.get(item.seq)
        if item.queue.board is not self._board or place is None:
            return None
        if item.stage < DONE:
            return True
        self._footprint.need(("over", *place))
        return False

    def _wait(self, command: WaitEvent, item: Completion) -> bool:
        return command.record is None or self._needs(command.record) is not None

    def _fill(self, command: Fill, item: Completion) -> bool:
        return command.dst.device is not None

    def _copy(self, command: Copy, item: Completion) -> bool:
        return command.kind != Kind.COPY_PEER or command.link is not None

    def _record(self, command: Record, item: Completion) -> bool:
        return command.event.shared is None

    def _value(self, command: WriteValue | WaitValue, item: Completion) -> bool:
        memory = command[0]
        self.touch(command)
        if isinstance(command, WaitValue):
            self._tell(memory, command.offset, command.offset + command.width // 8, False)
        return memory.device is not None and not memory.host_visible

    def _alloc(self, command: Alloc, item: Completion) -> bool:
        return not command.after

    def _free(self, command: Free, item: Completion) -> bool:
        memory = command.allocation
        self._footprint.write(("pool", memory.device))
        self._footprint.write(("life", memory.address))
        self.touch(command)
        return memory.device is not None and memory.watches is None

    def _launch(self, command: Launch, item: Completion) -> bool:
        bound = command.bound
        if command.options is not PLAIN_LAUNCH or type(bound) is not BoundKernel or bound.native is not None:
            return False
        self._footprint.write(RUNTIME)
        for memory in bound.allocations:
            self._footprint.read(("life", memory.address))
        return True

    # ---- tasks

    def task_begins(self) -> None:
        """Tell what the step of a task sees, which begins now."""
        if self._board is not None and self._board.frees:
            return  # which memory there is to be given out depends on what streams have freed
        self._footprint.begin(self._agenda.current)
        self._calls.begin()

    def task_over(self) -> None:
        """Note that no task has its turn."""
        self._calls.end()

    def _asked(self, thing: object) -> None:
        """Tell that a task asks whether something is over: which comes first makes a difference."""
        if isinstance(thing, Stream):
            self._asked_stream(thing._queue)
            return
        item = thing.completion if isinstance(thing, Event) and thing.shared is None else thing
        if item is None:
            return
        if not isinstance(item, Completion) or item.queue.board is not self._board:
            self._footprint.opaque()
        elif (place := self._places.get(item.seq)) is not None:
            self._footprint.read(("done", *place))
        elif item.seq <= self._seq:  # else it was enqueued in this step, and cannot be over
            self._footprint.opaque()

    def _asked_stream(self, queue: StreamQueue) -> None:
        given, _ = self._queues.get(queue, (0, 0))
        detached, items = queue.snapshot()
        if queue.board is not self._board or detached or queue.null:
            self._footprint.opaque()
        elif given and not (items and items[-1].seq > self._seq):
            self._footprint.read(("done", queue.choice, given - 1))

    # ---- copies

    def copying(
        self, item: Completion, context: DeviceContext, direction: Direction, action: Callable[[], None]
    ) -> Callable[[], None]:
        """Tell that a command asks for a copy engine. Returns what tells what it does, and does it."""
        actor = " ".join(map(str, item.queue.choice))
        self._copying.add(actor)
        self._shares_link(item, context, direction)

        def move() -> None:
            self._copying.discard(actor)
            self.touch(item.command)
            self._shares_link(item, context, direction)
            action()

        return move

    def _shares_link(self, item: Completion, context: DeviceContext, direction: Direction) -> None:
        """Tell that an engine is asked for, or given back: copies of one direction share the link."""
        engines, users = context.engines, self._engines.setdefault(context, set())
        users.add(item.queue)
        if item.share is not None or len(users) > engines.engines:
            self._footprint.refuse("copies that wait for an engine")
        if not engines.quiet(direction):  # who gets it next, and with whom, depends on who waits
            self._footprint.write(("queue of the link", context.ordinal))
        self._footprint.group(("link", context.ordinal), direction)

    def touch(self, command: Command) -> None:
        """Tell the bytes that a command reads and writes."""
        for thing, start, stop, write in row_of(command).touches(command):
            self._tell(thing, start, stop, write)

    def _tell(self, thing: object, start: int, stop: int, write: bool) -> None:
        where: tuple[Hashable, int, int] = (HOST, 0, 1)
        if isinstance(thing, Allocation) and thing.device is not None:
            where = MEMORY, thing.address + start, thing.address + stop
            if thing.host_visible:
                self._footprint.opaque()
        (self._footprint.write if write else self._footprint.read)(*where)

    # ---- what a step leaves

    def _complete(self) -> None:
        """Tell which commands were enqueued in the step that is over, and which have left their queues."""
        board, footprint = self._board, self._footprint
        if board is None:
            return
        if board.seq != self._seq:
            self._given(board)
        for queue, (given, gone) in self._queues.items():
            left = given - len(queue.snapshot()[1])
            if queue.failure is not None or queue.lost is not None or left < gone:
                footprint.refuse("a stream that has failed")
            if left > gone:
                self._queues[queue] = given, left
                for nth in range(gone, left):
                    footprint.give(("over", queue.choice, nth))
                    footprint.write(("done", queue.choice, nth))

    def _given(self, board: Board) -> None:
        seq, self._seq = self._seq, board.seq
        with board.lock:
            queues: Iterable[StreamQueue] = board.active_streams()
        for queue in queues:
            given, gone = self._queues.get(queue, (0, 0))
            if queue.null:
                self._footprint.refuse("the null stream")
            for item in queue.snapshot()[1]:
                if item.seq > seq:
                    for memory, *_ in row_of(item.command).touches(item.command):
                        if isinstance(memory, Allocation):
                            self._footprint.read(("life", memory.address))
                    place = queue.choice, given
                    given += 1
                    self._footprint.give(("given", *place))
                    if item.command.__class__ is not Call:  # it may leave the queue before it is over
                        self._places[item.seq] = place
            self._queues[queue] = given, gone


_HEADS: dict[type, Callable[..., bool]] = {  # each for its own kind of command
    WaitEvent: CommandTouches._wait,
    Fill: CommandTouches._fill,
    Copy: CommandTouches._copy,
    Record: CommandTouches._record,
    WaitValue: CommandTouches._value,
    WriteValue: CommandTouches._value,
    Alloc: CommandTouches._alloc,
    Free: CommandTouches._free,
    Launch: CommandTouches._launch,
}
