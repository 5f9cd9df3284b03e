"""A driver as programs have it, and which one is current."""

from __future__ import annotations

import operator
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING

import anyio

from atops.base.clock import Clock
from atops.base.errors import AtopsError, IllegalState, InvalidType, NotInitialized
from atops.base.neighbours import answers, keywords, refuse_await
from atops.base.options import EmulatorOptions
from atops.base.trace.tracer import Tracer
from atops.base.waiting.current_loop import checkpoint, current_loop_adapter
from atops.device.arch import Architecture
from atops.device.topology import Topology
from atops.runtime.board.current_device import DEFAULT, chosen_board, enter, leave
from atops.runtime.core.future import InProcess
from atops.runtime.driver_board import DEFAULT_LOCK, Board, Closing
from atops.runtime.executors.executor import Executor
from atops.runtime.races.report import CLOSED, OFF, Report

if TYPE_CHECKING:
    from atops.runtime.device import Device

__all__ = ("Driver", "board_of", "current_board", "current_driver", "default_driver", "options_of", "report",
    "report_of",
)  # fmt: skip


@answers("Driver")
class Driver(InProcess):
    """One board of 0 to 8 devices, isolated from every other driver of the process.

    `async with Driver(options) as driver:` makes it the current one inside the block and closes it afterwards;
    `atops.Device(0)` then means this board's device 0. Without one, a process-wide default driver starts on first use.
    Its number in the process and its `name` tell it from others in messages.
    """

    __slots__ = ("__weakref__", "_board", "_entered")

    @keywords(**{each: f"atops.Driver(atops.EmulatorOptions({each}=...))" for each in EmulatorOptions.__match_args__})
    def __init__(self, options: EmulatorOptions | None = None, *, name: str = "", executor: Executor | None = None):
        if not isinstance(name, str):
            raise InvalidType(f"the name of a driver is {name!r}; expected a str")
        self._entered = False
        self._board = Board(self, options_of(options), str.__str__(name), executor)
        self._board.announce()

    # ---- lifecycle

    async def __aenter__(self) -> Driver:
        if self._entered:
            raise IllegalState(f"{self!r} was entered already; leave that `async with` first")
        self._entered = True
        enter(self, self._board)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._entered = False
        leave(self)
        await self.aclose()

    async def aclose(self) -> None:
        """Drop what is queued, end what runs, free all memory and stop the threads; wait until that is done.

        Completions that are not over fail with StreamAborted. Idempotent; takes no longer than `abort_grace` and a
        second, whatever a kernel does, and so a cancellation of anyio or trio does not end it.
        """
        closing = self._board.close()
        if closing is not None and not closing.is_done:
            with anyio.CancelScope(shield=True):
                await current_loop_adapter().park(closing)
        else:
            await checkpoint()

    def close(self) -> Closing | None:
        """As `aclose`, without waiting, from anywhere. Returns what can be waited for, None in a forked child."""
        refuse_await("`await driver.aclose()`")
        return self._board.close()

    @property
    def closed(self) -> AtopsError | None:
        """What its devices raise once it was closed, or in a forked child of its process; None as long as it works."""
        return self._board.closed

    # ---- parts

    @property
    def devices(self) -> int:
        """How many devices the board has."""
        return self._board.devices

    def device(self, ordinal: int) -> Device:
        """Return device `ordinal`, the same object each time; of a closed driver, too. Raises InvalidDevice."""
        return self._board.device(ordinal)

    @property
    def tracer(self) -> Tracer:
        """What writes down what the board does: records, counters, subscriptions."""
        self._board.executor.sees_order("the trace")
        return self._board.tracer

    @property
    def topology(self) -> Topology:
        """The links between its devices."""
        return self._board.topology

    @property
    def clock(self) -> Clock:
        """The clock of its traces, events and timeouts."""
        return self._board.clock

    def report(self) -> Report:
        """Return what the race detectors have found so far, and what they have observed: `print(driver.report())`.

        Where they are off (`EmulatorOptions.detect`) its verdict is "inconclusive".
        """
        return report_of(self._board)

    # ---- as it was made: these cannot be set

    @property
    def inline(self) -> bool:
        """Whether it runs in the loop of its program, as in `atops.run`, and not in threads of its own."""
        return self._board.inline

    @property
    def schedule(self) -> str | None:
        """What an inline run under a schedule has chosen until now, as a string; None for any other driver.

        Whole once the run is over: as `EmulatorOptions(schedule=...)` it repeats the run, in another process too.
        """
        return self._board.executor.schedule

    @property
    def options(self) -> EmulatorOptions:
        """The options that it was made with."""
        return self._board.options

    @property
    def arch(self) -> Architecture:
        """The figures of its devices' architecture."""
        return self._board.arch

    @property
    def name(self) -> str:
        """Its name, "" for none."""
        return self._board.name

    @property
    def number(self) -> int:
        """Its number in the process, from 1 on: `driver` in records of the log."""
        return self._board.serial

    def __repr__(self) -> str:
        return repr(self._board)


board_of: Callable[[Driver], Board] = operator.attrgetter("_board")  # what a Driver stands in front of


def report_of(board: Board) -> Report:
    """Return the report of a board."""
    if board.detector is None:
        return Report(repr(board), escapes=(OFF,), _said=board.executor.said())
    return board.detector.findings.report()


def options_of(options: EmulatorOptions | None) -> EmulatorOptions:
    """Return the options of a driver: what was given, or the environment's. Raises InvalidType for what is neither."""
    if options is None:
        return EmulatorOptions.from_environment()
    if not isinstance(options, EmulatorOptions):
        raise InvalidType(f"the options of a driver are {options!r}; expected EmulatorOptions(...), or None")
    return options


def current_driver() -> Driver:
    """Return the driver of the innermost `async with driver:`, `with device:` or `with stream:`, or of `atops.run`.

    A device or stream that was chosen there brings its own (`Device.use`). Else it is the process-wide default driver.
    """
    return current_board().driver


def default_driver() -> Driver:
    """Return the process-wide driver, made on first use with the options of the environment."""
    return _default_board().driver


def report() -> Report:
    """Return the report of the current driver, as `Driver.report` does.

    Where none was chosen, after `atops.run` say, and the process-wide one has no detectors: that of the driver with
    detectors that was closed last. Raises NotInitialized where there is none of these.
    """
    board = chosen_board() or (DEFAULT[0] if DEFAULT else None)
    if CLOSED and (board is None or board.detector is None) and chosen_board() is None:
        return CLOSED[-1]
    if board is None:
        raise NotInitialized("no driver with detectors has worked yet; set ATOPS_DETECT=1, or give EmulatorOptions("
                             "detect=True) to atops.run or Driver, and ask after the work")  # fmt: skip
    return report_of(board)


def current_board() -> Board:
    """Return the board of the current driver."""
    return chosen_board() or _default_board()


def _default_board() -> Board:
    if DEFAULT and DEFAULT[0].closed is None:
        return DEFAULT[0]
    with DEFAULT_LOCK:
        if not DEFAULT or DEFAULT[0].closed is not None:
            DEFAULT[:] = [board_of(Driver())]
        return DEFAULT[0]
