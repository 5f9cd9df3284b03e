"""`%load_ext atops_widgets`: `%%timeline`, `%%kernel`, `%%schedules`, `%atops`, failures with the kernel's lines."""

from __future__ import annotations

import shlex
import sys
from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from IPython.core.error import UsageError
from IPython.display import display

from atops.base.errors import InvalidOption
from atops.base.trace.event_log import Closable
from atops.base.trace.records import Trace
from atops.device.call_site import NAMERS
from atops.kernels.programs.program import compile_source
from atops.runtime.driver import Driver, board_of, default_driver
from atops.runtime.driver_board import BOARDS, Board
from atops.runtime.stream_reports import describe
from atops.trace.awaited import awaited
from atops.trace.words import format_bytes
from atops_widgets.drawing.base import cell_shown
from atops_widgets.feed.columns import plural
from atops_widgets.magics.checking import check_cell
from atops_widgets.magics.failure_text import SHOWN, show_failure
from atops_widgets.timeline.timeline import Timeline

if TYPE_CHECKING:
    from IPython.core.interactiveshell import ExecutionInfo, InteractiveShell

__all__ = (
    "CellTimeline", "Extension", "as_comment", "compile_cell", "in_flight", "load_ipython_extension",
    "status", "unload_ipython_extension",
)  # fmt: skip

STREAMS = 8  # named of each device; more are counted


def status() -> str:
    """Return the state of every open driver, those with the most devices last. It starts none."""
    found = sorted((each for each in list(BOARDS) if each.closed is None), key=lambda each: each.devices)
    if not found:
        return "no driver runs yet: the first use of a device starts one"
    return "\n".join(line for board in found for line in _board(board))


def in_flight(driver: Driver) -> int:
    """Return how many commands of a driver are not over."""
    if driver.closed is not None:
        return 0
    return sum(len(driver.device(context.ordinal).outstanding()) for context in board_of(driver).contexts)


def _board(board: Board) -> list[str]:
    held = board.tracer.statistics().held
    lines = [f"{board.arch.name}, {plural(board.devices, 'device')}, {held:,} records held"]
    used = {context.ordinal: context for context in board.contexts}
    for ordinal in range(board.devices):
        if ordinal not in used:
            lines.append(f"  device {ordinal}: not used yet")
            continue
        figures = board.device(ordinal).statistics()
        memory = figures.memory
        lines.append(
            f"  device {ordinal}: {format_bytes(memory.used)} of {format_bytes(memory.total)} taken,"
            f" {plural(memory.live, 'allocation')}, peak {format_bytes(memory.peak)};"
            f" {figures.active_streams or 'no'} stream{'s' * (figures.active_streams != 1)} at work,"
            f" {figures.poisoned_streams or 'none'} failed"
        )
        with board.lock:
            streams = [each for each in board.active_streams() if each.context.ordinal == ordinal]
        lines += [f"    {describe(each)}" for each in streams[:STREAMS]]
        lines += [f"    and {len(streams) - STREAMS} more"] if len(streams) > STREAMS else []
    return lines


MAGIC: Final = "%%timeline"


class CellTimeline:
    """Watches the cells of one shell that begin with `%%timeline`. `before` and `after` are called around each cell.

    `%%timeline` means the default driver, `%%timeline board` the one that the notebook calls `board`, which the cell
    itself may make.
    """

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell
        self._named: str | None = None  # what stands behind the magic of the cell that runs; None for other cells
        self._driver: Driver | None = None
        self._position = self._began = 0
        self._hold: Closable | None = None  # of the waits of the cell

    def before(self, info: ExecutionInfo) -> None:
        """Note where the driver's trace ends as a cell begins."""
        self._named = _argument(info.raw_cell or "")
        self._driver, self._position, self._began = None, 0, 0
        self._let_go()
        if self._named is not None:
            self._driver = self._found() if self._named else default_driver()
        if self._driver is not None:
            tracer = self._driver.tracer
            self._position, self._began = tracer.statistics().emitted, tracer.clock.now()
            if tracer.capacity:
                self._hold = tracer.hold(tracer.capacity)

    def after(self, _result: object = None) -> None:
        """Show what ended while the cell ran, and say how much is still under way."""
        named, self._named = self._named, None
        if named is None:
            return
        driver = self._driver or self._found(named)
        if driver is None:
            print(f"{MAGIC} {named}: the notebook has no driver called {named!r}", file=sys.stderr)
            return
        trace = _since(driver, self._position, self._began)
        self._let_go()
        if trace.records:
            display(Timeline(trace))  # type: ignore[no-untyped-call]  # IPython has no types
        if trace.waits:
            display(awaited(trace))  # type: ignore[no-untyped-call]
        for remark in _remarks(trace, driver):
            print(remark)

    def _let_go(self) -> None:
        hold, self._hold = self._hold, None
        if hold is not None:
            hold.close()

    def _found(self, name: str | None = None) -> Driver | None:
        found = self._shell.user_ns.get(name or self._named or "")
        return found if isinstance(found, Driver) else None


def as_comment(lines: list[str]) -> list[str]:
    """Return the lines of a cell with `%%timeline` at their head as a comment: lines keep their numbers."""
    return [f"# {lines[0]}", *lines[1:]] if lines and _argument(lines[0]) is not None else lines


def _since(driver: Driver, position: int, began: int) -> Trace:
    """Return what a driver's tracer got since a position, with its samples, its names and the waits since `began`."""
    batch, names = driver.tracer.since(position), driver.tracer.names()
    first = min((record.submitted_ns for record in batch.records), default=0)
    counters = tuple(sample for sample in driver.tracer.counters() if sample.at_ns >= first)
    races = tuple(race for race in driver.tracer.races() if race.at_ns >= first) if batch.records else ()
    waits = tuple(wait for wait in driver.tracer.waits() if wait.started_ns >= began)
    return Trace(tuple(batch.records), counters, names, batch.missed, races=races, waits=waits)


def _argument(cell: str) -> str | None:
    """Return what stands behind `%%timeline` at the head of a cell; None where it does not stand there."""
    head = cell.lstrip().partition("\n")[0].split()
    return " ".join(head[1:]) if head[:1] == [MAGIC] else None


def _remarks(trace: Trace, driver: Driver) -> list[str]:
    remarks = []
    if not driver.tracer.capacity:
        remarks.append("the driver keeps no trace; use EmulatorOptions(trace=n) with n above 0")
    elif not trace.records:
        remarks.append("no command ended in this cell")
    if trace.dropped:
        remarks.append(f"{trace.dropped:,} older records of this cell did not fit into the trace")
    if left := in_flight(driver):
        remarks.append(f"{plural(left, 'command')} still under way: this is the picture as the cell ended")
    return remarks


def compile_cell(options: str, source: str, name: str, namespace: MutableMapping[str, object]) -> str:
    """Compile the `source` of a cell with the `options` of its first line, into `namespace`. Return what to print.

    Diagnostics count lines as the cell's editor does, the magic's own line too. Raises CompilationError with the log,
    InvalidOption where an option is wrong; then the namespace stays as it was.
    """
    try:
        words = shlex.split(options)
    except ValueError as error:
        raise InvalidOption(f"%%kernel {options}: {error}; expected options such as -DTILE=64") from None
    cxx = words[:1] == ["cxx"]
    compiled = compile_source("\n" + source, name, words[cxx:])
    if cxx and compiled.language == "Python":
        raise InvalidOption(f"%%kernel {options}: the cell is Python; expected TOPS C++, with a __global__ function")
    namespace.update({**compiled.variables, **compiled.functions, **compiled.kernels})
    lines = [str(compiled.log)] * bool(len(compiled.log)) + [compiled.summary()]
    return "\n".join(filter(None, lines)) or "the cell defines nothing"


MAGICS: Final = (("cell", "timeline"), ("cell", "kernel"), ("cell", "schedules"), ("line", "atops"))


class Extension:
    """The additions to one shell, which can be taken away again."""

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell
        self._timeline = CellTimeline(shell)
        self._before = shell.custom_exceptions, shell.CustomTB

    def add(self) -> None:
        """Add the magics, the watch over cells and the handler of failures."""
        shell = self._shell
        shell.input_transformers_cleanup.append(as_comment)
        shell.events.register("pre_run_cell", self._timeline.before)
        shell.events.register("post_run_cell", self._timeline.after)
        for kind, name in MAGICS:
            shell.magics_manager.register_function(getattr(self, name), kind, name)
        shell.set_custom_exc(SHOWN, show_failure)  # type: ignore[no-untyped-call]  # IPython has no types
        if cell_shown not in NAMERS:
            NAMERS.append(cell_shown)

    def remove(self) -> None:
        """Take all of it away."""
        shell = self._shell
        shell.input_transformers_cleanup.remove(as_comment)
        shell.events.unregister("pre_run_cell", self._timeline.before)
        shell.events.unregister("post_run_cell", self._timeline.after)
        for kind, name in MAGICS:
            shell.magics_manager.magics[kind].pop(name, None)
        shell.custom_exceptions, shell.CustomTB = self._before
        if cell_shown in NAMERS:
            NAMERS.remove(cell_shown)

    def timeline(self, _line: str, _cell: str) -> None:
        """Show what the device did while this cell ran: `%%timeline`, or `%%timeline board` for a driver of yours.

        The cell runs as without it, with await and all; the picture follows when it ends.
        """
        raise UsageError(f"{MAGIC} must be the first line of a cell, before other magics")

    def kernel(self, line: str, cell: str) -> None:
        """Compile this cell as kernel source: `%%kernel`, with options as in `%%kernel -DTILE=64`.

        It is Python, in which `k` and `np` are there without an import, or TOPS C++, as `%%kernel cxx` says for a
        reader. What the cell defines lands in the notebook's namespace.
        """
        print(compile_cell(line, cell, f"In[{self._shell.execution_count - 1}]", self._shell.user_ns))

    def schedules(self, line: str, cell: str) -> None:
        """Check this cell under many schedules: `%%schedules 200`, `%%schedules 200 pct`, or a schedule's string.

        Each run has the notebook's names, and keeps its own to itself. The report follows.
        """
        display(check_cell(line, cell, f"In[{self._shell.execution_count - 1}]", self._shell.user_ns))  # type: ignore[no-untyped-call]  # IPython has no types

    def atops(self, _line: str = "") -> None:
        """Show the drivers that are open, with devices, memory in use and the streams that have work."""
        print(status())


LOADED: WeakKeyDictionary[InteractiveShell, Extension] = WeakKeyDictionary()


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Add the extension to a shell. Once is enough."""
    if shell not in LOADED:
        LOADED[shell] = Extension(shell)
        LOADED[shell].add()


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """Take the extension away from a shell."""
    extension = LOADED.pop(shell, None)
    if extension is not None:
        extension.remove()
