"""Profiles: what every board of the process did in a block of a program, as figures, text and a file."""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

import anyio

from atops.base.clock import VirtualClock
from atops.base.errors import IllegalState, InvalidValue
from atops.base.options import trace_file, whole
from atops.base.trace.event_log import Closable, Detailing
from atops.base.trace.records import DetailBatch, Position, Trace, TraceNames, TraceRecord
from atops.base.trace.tracer import Tracer
from atops.base.waiting.current_loop import checkpoint
from atops.runtime.board.current_device import known_board
from atops.runtime.driver_board import BOARDS, STARTS, STARTS_LOCK, Board
from atops.trace.awaited import Awaited, awaited
from atops.trace.file import check_target, write
from atops.trace.join import BoardTrace, join
from atops.trace.summary import Summary, summary
from atops.trace.text import render_text

__all__ = ("Profile", "profile", "profile_process")

MOST = 1_000_000  # records of one board, unless told otherwise: 400 bytes each
COUNTED = "\n\nkernels by the virtual clock: transfers, barriers, vectors and k.cost; numpy on L1 and L2 is not counted"
STRICTLY_COUNTED = COUNTED.replace("is not counted", "by its accesses")
WHOLE: list[Profile] = []  # the one that ATOPS_TRACE asks for


NO_DETAILS: Final = DetailBatch([], [], [], [], (0, 0, 0, 0), 0)


class _Profiled(NamedTuple):
    """A board that is watched: its tracer, and where that stood when the watch began."""

    tracer: Tracer
    hold: Closable
    start: int  # position of the first record
    start_ns: int
    label: str
    devices: int
    detailing: Detailing | None = None
    details: Position | None = None  # of the first detail

    def read(self) -> BoardTrace:
        """Return what the board has done since."""
        batch = self.tracer.since(self.start)
        counters = tuple(sample for sample in self.tracer.counters() if sample.at_ns >= self.start_ns)
        anchor = self.tracer.anchor_ns
        races = tuple(race for race in self.tracer.races() if race.at_ns >= self.start_ns)
        waits = tuple(wait for wait in self.tracer.waits() if wait.started_ns >= self.start_ns)
        found = NO_DETAILS if self.detailing is None else self.tracer.details_since(self.details)
        trace = Trace(tuple(batch.records), counters, self.tracer.names(), batch.missed, tuple(found.moments),
                      tuple(found.changes), tuple(found.steps), tuple(found.uses), anchor, races, waits)  # fmt: skip
        return BoardTrace(trace, self.label, self.devices, isinstance(self.tracer.clock, VirtualClock))


class Profile:
    """What the boards of the process do while a block runs: `with atops.profile("run.json") as p:`, or `async with`.

    `p.summary()` has the figures, `print(p)` draws a line for each stream and prints them; both work
    inside the block, too. `p.save(path)` writes another file. See `profile`.
    """

    def __init__(
        self,
        file: str | os.PathLike[str] | None = None,
        *,
        records: int = MOST,
        details: bool = False,
        threads: bool = False,
    ) -> None:
        if not whole(records) or records < 1:
            raise InvalidValue(f"a profile of {records!r} records; expected a number, 1 or more")
        self.file: Path | None = None if file is None else check_target(file)
        self._most, self._detailed, self._threads = records, details or threads, threads
        self._boards: list[_Profiled] = []
        self._trace: Trace | None = None
        self._process = 0  # where it was entered; 0 before
        self._counted = ""  # what is in the times of kernels, where a clock was virtual

    def __enter__(self) -> Self:
        if self._process:
            raise IllegalState(f"{self!r} was entered already; make another one with atops.profile()")
        self._process = os.getpid()
        with STARTS_LOCK:
            for board in sorted(BOARDS, key=lambda board: board.serial):
                if board.closed is None:
                    self._watch(board)
            STARTS.append(self._watch)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stop()
        self._write(error)

    async def __aenter__(self) -> Self:
        await checkpoint()
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stop()
        current = known_board()
        if self.file is None or (current is not None and current.inline):  # whose run has one thread
            self._write(error)
            await checkpoint()
        else:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(self._write, error)

    @property
    def trace(self) -> Trace:
        """Everything as one value: the records of commands that were over when the block was left, or are now.

        Several boards are one trace: each device has its board's name, and devices and commands are numbered anew.
        """
        return self._read() if self._trace is None else self._trace

    @property
    def records(self) -> Sequence[TraceRecord]:
        """The records of the commands, in the order in which they ended."""
        return self.trace.records

    @property
    def names(self) -> TraceNames:
        """The names of streams and devices."""
        return self.trace.names

    def summary(self) -> Summary:
        """Return the figures: busy, waiting and idle time, overlap, kinds, kernels. `print` shows them as tables."""
        trace = self.trace
        return summary(trace.records, trace.names)

    def awaited(self) -> Awaited:
        """Return how long each line of the program waited for the device, and what the device did meanwhile."""
        return awaited(self.trace)

    def text(self, width: int = 100, *, colour: bool = False) -> str:
        """Return a timeline, a line for each stream, of `width` columns. Raises InvalidValue when that is below 40."""
        trace = self.trace
        return render_text(trace.records, width, colour, names=trace.names, figures=False)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a file in the form that its end asks for, as `profile` does. Raises OSError, InvalidType."""
        write(check_target(path), self.trace)

    def __str__(self) -> str:
        trace = self.trace
        if not trace.records:
            return "no records: nothing has ended in this profile's block"
        lost = f"\n\n{trace.dropped:,} earlier records are left out: more than profile(records=...) holds"
        waits = f"\n\n{self.awaited()}" if trace.waits else ""
        return f"{self.text()}\n\n{self.summary()}{waits}{self._counted}{lost if trace.dropped else ''}"

    def __repr__(self) -> str:
        state = "over" if self._trace is not None else "running" if self._process else "not entered"
        return f"<Profile{f' {str(self.file)!r}' if self.file else ''}: {state}, {len(self.records):,} records>"

    def _watch(self, board: Board) -> None:
        tracer = board.tracer
        board.executor.sees_order("the trace")
        if board.options.clock == "virtual":
            self._counted = STRICTLY_COUNTED if board.options.strict or board.options.detect else COUNTED
        label = f"board {board.serial}" + (f" {board.name!r}" if board.name else "")
        hold = tracer.hold(self._most)
        start = tracer.details_since().next if self._detailed else None
        detailing = tracer.detailed(self._threads) if self._detailed else None
        emitted = tracer.statistics().emitted
        self._boards.append(_Profiled(tracer, hold, emitted, board.now(), label, board.devices, detailing, start))

    def _read(self) -> Trace:
        with STARTS_LOCK:
            boards = list(self._boards)
        return join([board.read() for board in boards])

    def _stop(self) -> None:
        """Keep what there is, and have the boards hold no more than before."""
        with STARTS_LOCK:
            if self._watch in STARTS:
                STARTS.remove(self._watch)
        if self._trace is None:
            self._trace = self._read()
            for board in self._boards:
                board.hold.close()
                if board.detailing is not None:
                    board.detailing.close()
            self._boards.clear()

    def _write(self, error: BaseException | None) -> None:
        """Write the file. What the block raised goes on; that its trace was lost is then a note to it."""
        if self.file is None or self._process != os.getpid():  # a forked child has no part in its parent's file
            return
        try:
            write(self.file, self.trace)
        except OSError as failure:
            if error is None:
                raise
            error.add_note(f"its trace could not be written: {failure}")


def profile(
    file: str | os.PathLike[str] | None = None, *, records: int = MOST, details: bool = False, threads: bool = False
) -> Profile:
    """Record what every board of the process does in a block: `with atops.profile("run.json") as p:`, or `async with`.

    Boards that are made in the block are part of it, those of `atops.run` too. What is not over when the block is left
    is not in it, so synchronise inside. Of each board the last `records` are held; afterwards its tracer
    holds as many as before, or none (`EmulatorOptions(trace=0)`).

    With `details` the trace of a single board also tells what was queued and allocated when, which the memory map and
    `Allocations` draw; with `threads`, for the cluster grid, also what kernel threads did, which makes launches many
    times slower.

    With a `file` the trace is written when the block is left, also by an exception, in the form that the name asks for:
    `.json` opens at ui.perfetto.dev and chrome://tracing, `.html` is a page for the browser that needs nothing else,
    and any other name holds the trace alone; `.gz` behind it compresses. `python -m atops trace FILE` reads all but the
    page. Raises InvalidType or OSError at the call for a file that cannot be, OSError at the end when writing fails (a
    full disk); the profile then still has the trace. Blocks may overlap, in tasks and threads too.
    """
    return Profile(file, records=records, details=details, threads=threads)


def profile_process(board: Board) -> None:
    """Begin the profile of the whole process that ATOPS_TRACE asks for, from the first board to the end.

    At a later board there is nothing to do. Raises InvalidValue for a file that cannot be.
    """
    if WHOLE:
        return
    name = trace_file()
    try:
        begun = Profile(name.replace("%p", str(os.getpid())))
    except OSError as error:
        raise InvalidValue(f"ATOPS_TRACE is {name!r}; {error.strerror}: {error.filename!r}") from None
    WHOLE.append(begun)
    begun.__enter__()
    begun._watch(board)  # which is told of before it is listed
    atexit.register(partial(_end, begun))


def _end(begun: Profile) -> None:
    try:
        begun.__exit__(None, None, None)
    except OSError as error:
        print(f"atops: error: ATOPS_TRACE: {error}", file=sys.stderr)
