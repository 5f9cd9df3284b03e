"""What the pytest plugin stands on: a board for one test, and what a test has left behind.

The plugin itself is the module `_atops_pytest` beside this package, so that pytest can load it without the runtime.
"""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Callable, Coroutine, Iterable
from weakref import WeakKeyDictionary, WeakSet

from atops.base.errors import AtopsError, InvalidValue, LoopClosed
from atops.base.options import EmulatorOptions
from atops.base.trace.records import Change
from atops.base.trace.tracer import Tracer
from atops.base.waiting.parking_lot import Ending
from atops.device.call_site import Site, caller, file_shown
from atops.device.memory.allocation import Allocation
from atops.runtime.board.context import MADE, DeviceContext
from atops.runtime.board.current_device import DEFAULT
from atops.runtime.core.completion import UNSEEN, over
from atops.runtime.driver import Driver, board_of
from atops.runtime.driver_board import BOARDS, Board
from atops.runtime.executors.cycle_collector import collecting_by_steps
from atops.runtime.executors.inline import InlineExecutor
from atops.runtime.interrupts import Interrupts
from atops.runtime.queues.queue import StreamQueue
from atops.runtime.schedules.host import inline_executor
from atops.runtime.stream import Stream, queue_of
from atops.trace.words import format_bytes

__all__ = ("BoardForTest", "Key", "Leaks")

Key = tuple[str, int, int]  # memory, streams, failures and drivers, each by numbers that do not come again
PATIENCE = 2.0  # seconds that work which a test has left may take before it is called a leak
MARGIN = 2.0  # seconds beyond the abort grace that the end of a driver may take
ENDLESS: WeakSet[StreamQueue] = WeakSet()  # whose work was waited for in vain
PER_THREAD = "per-thread stream of "  # how their labels begin: they live as long as their threads


class BoardForTest:
    """A driver for one test, which is the process's default driver until it is closed.

    `inline`: driver and test share one loop and one thread, so that a seed repeats the run; then `run` runs the test.
    """

    def __init__(self, options: EmulatorOptions, name: str, inline: bool) -> None:
        if inline and options.workers != 1:
            raise InvalidValue(f"workers is {options.workers!r}; a test that runs inline has one thread, workers=1")
        executor: InlineExecutor | None = None
        if inline:
            executor = self._executor = inline_executor(options)
            loop = executor.loop
            self._loop = asyncio.Runner(loop_factory=lambda: loop)
        self.inline = inline
        self.driver = Driver(options, name=name, executor=executor)
        self._before = DEFAULT[:]
        self._board = board_of(self.driver)
        DEFAULT[:] = [self._board]

    def run(self, test: Callable[..., Coroutine[object, None, object]], arguments: dict[str, object]) -> None:
        """Run a coroutine function to its end on the board's own loop. For an inline board."""

        async def program() -> None:
            await test(**arguments)

        with Interrupts() as interrupts, collecting_by_steps():
            self._loop.run(interrupts.watch(interrupts.note_return(program()), self._executor))

    def end(self, stream: Stream, passed: bool) -> None:
        """End the stream of a test that is over: its work is waited for or, where the test failed, dropped.

        Work that does not end leaves it open, which is told as a leak.
        """
        if not passed:
            stream.abort()
        try:
            if self.inline:
                self._loop.run(_within_patience(over(queue_of(stream).outstanding())))
            else:
                self._board.wait_all(queue_of(stream).outstanding(), PATIENCE)
        except (AtopsError, TimeoutError):
            ENDLESS.add(queue_of(stream))
        else:
            stream.close()

    def restore(self) -> None:
        """Let the default driver be the one that was before."""
        DEFAULT[:] = self._before

    def close(self) -> None:
        """End the driver, wait for that, and close the loop."""
        if self.inline:
            try:
                self._loop.run(self.driver.aclose())
            finally:
                self._loop.close()
        elif (closing := self.driver.close()) is not None and not closing.is_done:
            self._board.executor.block(closing, self.driver.options.abort_grace + MARGIN)


async def _within_patience(wait: Coroutine[object, None, object]) -> None:
    await asyncio.wait_for(wait, PATIENCE)


class Leaks(logging.Handler):
    """What is alive on the boards of this process: device and host memory, streams, failures, boards.

    Made once; from then on it notes where streams are made, and the failures that the runtime logs because nothing
    has looked at them.
    """

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self._streams: WeakKeyDictionary[StreamQueue, Site] = WeakKeyDictionary()
        self._unseen: list[str] = []
        self._newest: dict[int, int] = {}  # of each board, the number of its newest command when the test began
        MADE.append(self._made)
        logging.getLogger("atops.stream").addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Note a failure that was never looked at."""
        if record.msg == UNSEEN:
            self._unseen.append(record.getMessage())

    def begin(self) -> None:
        """Forget the failures that were logged so far, and note how far the boards are."""
        self._unseen.clear()
        self._newest = {board.serial: board.seq for board in BOARDS}

    def alive(self) -> set[Key]:
        """Return what there is now."""
        return set(self._found(BOARDS))

    def left(self, before: set[Key], let_go: Callable[[], object]) -> list[str]:
        """Return what is there now and was not `before`, each with the line that made it where that is known.

        What nothing refers to any more is no leak: if there seems to be one, `let_go` is called to let go of the test's
        values, the collector runs, and the work enqueued has two seconds to end.
        """
        boards = [board for board in BOARDS if board.closed is None]
        for board in boards:
            if board.seq != self._newest.get(board.serial, 0):
                _settle(board)
        if self._found(boards).keys() - before:
            let_go()
            gc.collect()
            for board in boards:
                _settle(board)
        found = self._found(boards)
        unseen, self._unseen = self._unseen, []
        return [text for key, text in sorted(found.items()) if key not in before] + unseen

    def _made(self, stream: StreamQueue) -> None:
        if not stream.null and not stream.label.startswith(PER_THREAD):
            self._streams[stream] = caller(1)

    def _found(self, boards: Iterable[Board]) -> dict[Key, str]:
        boards = [board for board in boards if board.closed is None]
        found: dict[Key, str] = {}
        for board in boards:
            stacks = _stacks(board.tracer)
            if board not in DEFAULT:
                found["driver", board.serial, 0] = f"{board!r} is not closed"
            for context in board.contexts:
                held = {id(each.allocation) for each in list(context.chip.variables.values())}  # lasting, by contract
                _add_memory(found, [each for each in context.memory.live() if id(each) not in held], stacks)
                _add_failures(found, board, context)
            _add_memory(found, board.host.live(), stacks)
        for stream, site in list(self._streams.items()):
            if stream.board in boards and not stream.closed and stream.context.dead is None:
                key = "stream", stream.board.serial, stream.number
                found[key] = f"{_named(stream)} is open{_busy(stream)}; made at {site}"
        return found


def _stacks(tracer: Tracer) -> Callable[[Allocation], str]:
    """Return what tells the functions that led to where an allocation was made; "" where details were not recorded."""
    log = tracer.details
    if not len(log.changes):
        return lambda _: ""
    names = tracer.names()
    begun = {each.generation: each.site for each in tracer.details_since().changes if each.change is not Change.FREED}

    def led_to(allocation: Allocation) -> str:
        callers = names.stack(begun.get(log.generation(allocation.serial), -1))[1:]
        lines = ", ".join(f"{file_shown(place.file)}:{place.line} in {place.function}" for place in callers)
        return f", called at {lines}" if lines else ""

    return led_to


def _add_memory(found: dict[Key, str], allocations: Iterable[Allocation], led_to: Callable[[Allocation], str]) -> None:
    for each in allocations:
        if each.freed_by is None:
            where = "host memory" if each.device is None else f"memory of device {each.device}"
            label = f" ({each.label})" if each.label else ""
            size = format_bytes(each.size)
            found["memory", each.serial, 0] = f"{size} of {where}{label} are held; made at {each.site}{led_to(each)}"


def _add_failures(found: dict[Key, str], board: Board, context: DeviceContext) -> None:
    for stream in list(context.poisoned):
        failure = stream.failure
        if failure is not None and not getattr(failure, "_seen", False) and not isinstance(failure, LoopClosed):
            found["failure", board.serial, stream.number] = UNSEEN % (_named(stream), failure)


def _named(stream: StreamQueue) -> str:
    return stream.label if stream.label in ("null stream", f"stream {stream.number}") else f"stream {stream.label!r}"


def _busy(stream: StreamQueue) -> str:
    left = stream.pending()
    return f", {len(left)} of its commands not over, the first {left[0]!r}" if left else ""


def _settle(board: Board) -> None:
    """Let what the collector gave back be freed: it is posted to the board, and freed behind the work that uses it."""
    for _ in range(2):
        _turn(board)
        with board.lock:
            streams = [stream for stream in board.active_streams() if stream not in ENDLESS]
            items = [item for stream in streams for item in stream.ends()]
        try:
            board.wait_all(items, PATIENCE)
        except (AtopsError, TimeoutError):  # it is told as a stream that is busy
            return
    _turn(board)
    if not board.inline:  # a callback thread logs the failures of what was collected
        done = Ending("the callbacks before it")
        board.run_callback(done.end)
        board.executor.block(done, PATIENCE)


def _turn(board: Board) -> None:
    """Wait until the steps that are posted have run."""
    turn = Ending("the steps before it")
    try:
        board.post(turn.end)
        board.executor.block(turn, PATIENCE)
    except AtopsError:  # it runs inline in another thread, which has its own test
        pass
