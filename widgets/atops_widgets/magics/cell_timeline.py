"""`%%timeline`: the picture of what a driver did while one cell ran, shown when the cell ends, also when it raises.

The cell is not run from here: its first line becomes a comment, and IPython runs it as it runs every cell, with await.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from IPython.display import display

from atops.base.trace.records import Trace
from atops.runtime.driver import Driver, default_driver
from atops_widgets.magics.status_text import in_flight
from atops_widgets.timeline.timeline import Timeline

if TYPE_CHECKING:
    from IPython.core.interactiveshell import ExecutionInfo, InteractiveShell

__all__ = ("MAGIC", "CellTimeline", "as_comment")

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
        self._position = 0

    def before(self, info: ExecutionInfo) -> None:
        """Note where the driver's trace ends as a cell begins."""
        self._named = _argument(info.raw_cell or "")
        self._driver, self._position = None, 0
        if self._named is not None:
            self._driver = self._found() if self._named else default_driver()
        if self._driver is not None:
            self._position = self._driver.tracer.statistics().emitted

    def after(self, _result: object = None) -> None:
        """Show what ended while the cell ran, and say how much is still under way."""
        named, self._named = self._named, None
        if named is None:
            return
        driver = self._driver or self._found(named)
        if driver is None:
            print(f"{MAGIC} {named}: the notebook has no driver called {named!r}", file=sys.stderr)
            return
        trace = _since(driver, self._position)
        if trace.records:
            display(Timeline(trace))  # type: ignore[no-untyped-call]  # IPython has no types
        for remark in _remarks(trace, driver):
            print(remark)

    def _found(self, name: str | None = None) -> Driver | None:
        found = self._shell.user_ns.get(name or self._named or "")
        return found if isinstance(found, Driver) else None


def as_comment(lines: list[str]) -> list[str]:
    """Return the lines of a cell with `%%timeline` at their head as a comment: lines keep their numbers."""
    return [f"# {lines[0]}", *lines[1:]] if lines and _argument(lines[0]) is not None else lines


def _since(driver: Driver, position: int) -> Trace:
    """Return what a driver's tracer got since a position, with its samples of memory and its names."""
    batch, names = driver.tracer.since(position), driver.tracer.names()
    first = min((record.submitted_ns for record in batch.records), default=0)
    counters = tuple(sample for sample in driver.tracer.counters() if sample.at_ns >= first)
    seen = {record.seq for record in batch.records}
    names = replace(names, sites={seq: site for seq, site in names.sites.items() if seq in seen})
    return Trace(tuple(batch.records), counters, names, batch.missed)


def _argument(cell: str) -> str | None:
    """Return what stands behind `%%timeline` at the head of a cell; None where it does not stand there."""
    head = cell.lstrip().partition("\n")[0].split()
    return " ".join(head[1:]) if head[:1] == [MAGIC] else None


def _remarks(trace: Trace, driver: Driver) -> list[str]:
    """Return what the picture cannot show."""
    remarks = []
    if not driver.tracer.capacity:
        remarks.append("the driver keeps no trace; use EmulatorOptions(trace=n) with n above 0")
    elif not trace.records:
        remarks.append("no command ended in this cell")
    if trace.dropped:
        remarks.append(f"{trace.dropped:,} older records of this cell did not fit into the trace")
    if left := in_flight(driver):
        remarks.append(f"{left:,} command{'s' * (left != 1)} still under way: this is the picture as the cell ended")
    return remarks
