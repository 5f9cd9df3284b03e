"""What a run of the demo ends in: its outcome as a value, the report of it, and the progress bar on the way there.

`sequence` gives the order of a trace without its times: what two runs have in common when one replays the other.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from types import TracebackType

import numpy as np
import numpy.typing as npt
from rich import box
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, TaskProgressColumn, TextColumn, TransferSpeedColumn
from rich.progress import Progress as Bar
from rich.table import Table
from rich.text import Text

from atops.apps.histogram import VALUES
from atops.base.trace.records import COPIES, Kind, Trace, TraceRecord
from atops.trace.summary import summary
from atops.trace.text import render_text
from atops.trace.words import format_ns

__all__ = ("Counts", "Mismatch", "Outcome", "ProgressBar", "report", "sequence")

# ---- the outcome

Counts = npt.NDArray[np.int64]

TIMES = frozenset(("submitted_ns", "started_ns", "finished_ns"))
FIELDS = tuple(field for field in TraceRecord._fields if field not in TIMES)


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A chunk that the device counted wrong: its number, the first byte value concerned, and both counts of it."""

    chunk: int
    value: int
    counted: int
    expected: int


@dataclass(slots=True)
class Outcome:
    """The result of a run of the demo. `seconds` go from the first byte read to the last result checked."""

    files: int
    bytes: int = 0
    chunks: int = 0
    mismatches: list[Mismatch] = field(default_factory=list)
    counts: Counts = field(default_factory=lambda: np.zeros(VALUES, np.int64))
    seconds: float = 0.0
    trace: Trace = field(default_factory=Trace)

    def add(self, chunk: int, size: int, counted: Counts, expected: Counts) -> None:
        """Take in what the device counted in a chunk of `size` bytes, and what it should have counted."""
        wrong = np.flatnonzero(counted != expected)
        if wrong.size:
            value = int(wrong[0])
            self.mismatches.append(Mismatch(chunk, value, int(counted[value]), int(expected[value])))
        self.counts += counted
        self.bytes += size
        self.chunks += 1

    @property
    def entropy(self) -> float:
        """The entropy of the bytes in bits a byte: 0.0 where all are equal or there are none, 8.0 at most."""
        if not self.bytes:
            return 0.0
        share = self.counts[self.counts > 0] / self.bytes
        return max(0.0, -float(share @ np.log2(share)))

    def commonest(self, count: int) -> list[tuple[int, int]]:
        """Return the `count` commonest byte values that occur, as (value, how often); of equals the smaller first."""
        order = np.argsort(-self.counts, kind="stable")[:count]
        return [(int(value), int(self.counts[value])) for value in order if self.counts[value] > 0]


def sequence(records: Iterable[TraceRecord]) -> str:
    """Return the records as lines of `field=value`, in the order in which their commands ended, times left out."""
    lines = [" ".join(f"{field}={_plain(getattr(record, field))}" for field in FIELDS) for record in records]
    return "".join(f"{line}\n" for line in lines)


def _plain(value: object) -> object:
    """Return how a value is written: an enumeration's member by its name."""
    return getattr(value, "name", value)


# ---- the report

WIDEST = 120  # columns used, however wide the terminal is
NARROWEST = 40  # columns that a timeline needs
COMMONEST = 10
SHOWN = 5  # mismatches
SHORTEST = 4  # characters of the longest bar, for bars to say anything
UNITS = (1e6, "MB/s"), (1e3, "kB/s"), (1.0, "B/s")
CONTROL = {0: "null", 9: "tab", 10: "newline", 13: "return", 27: "escape", 32: "space", 127: "delete"}


def report(console: Console, outcome: Outcome, what: str, setting: str) -> None:
    """Print what the demo found in `what` (a name for the input, or nothing), run as `setting` says."""
    width = min(console.width, WIDEST)
    work = [record for record in outcome.trace.records if record.kind in COPIES or record.kind is Kind.LAUNCH]
    plain = console.options.ascii_only
    console.print(_figures(outcome, work, what, setting, plain))
    if outcome.bytes:
        console.print()
        if outcome.counts.any():
            console.print(_commonest(outcome, width, "#" if plain else "━"))
            console.print()
        if width >= NARROWEST:
            text = render_text(work, width, names=outcome.trace.names, figures=False)
            console.print(Text.from_ansi(text.replace("µ", "u") if plain else text), soft_wrap=True)
            console.print()
    _verdict(console, outcome)


def _figures(outcome: Outcome, work: list[TraceRecord], what: str, setting: str, plain: bool) -> Table:
    """Return the totals, one a line, `plain` in ASCII alone."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold cyan", no_wrap=True)
    table.add_column(overflow="fold")
    files = f"{outcome.files:,} file{'s' * (outcome.files != 1)}, {_bytes(outcome.bytes)}"
    table.add_row("input", f"{what}: {files}" if what else files)
    table.add_row("run", setting)
    if not outcome.bytes:
        return table
    table.add_row("entropy", f"{outcome.entropy:.3f} of 8 bits a byte")
    chunks = f"{outcome.chunks:,} chunk{'s' * (outcome.chunks != 1)}"
    table.add_row("throughput", f"{_speed(outcome)}: {outcome.seconds:.2f} s to read, count and check {chunks}")
    if work:
        times = summary(work)
        devices = len({record.device for record in work})
        busy = "busy" if devices == 1 else f"busy, summed over {devices} devices"
        launches = times.counts.get(Kind.LAUNCH, 0)
        kernels, copies, beside = (
            format_ns(spent).replace("µ", "u" if plain else "µ")
            for spent in (times.kernel_ns, times.copy_ns, times.overlap_ns)
        )
        table.add_row("kernels", f"{kernels} {busy}, {launches:,} launch{'es' * (launches != 1)}")
        table.add_row("copies", f"{copies} {busy}, {beside} of it ({times.overlap:.0%}) while a kernel ran")
    if outcome.trace.dropped:
        table.add_row("trace", f"the last {len(outcome.trace.records):,} records; {outcome.trace.dropped:,} are gone")
    return table


def _bytes(count: int) -> str:
    return f"{count:,} byte{'s' * (count != 1)}"


def _speed(outcome: Outcome) -> str:
    """Return bytes a second, in the largest unit of which there is a tenth."""
    rate = outcome.bytes / outcome.seconds
    size, unit = next(each for each in UNITS if rate >= each[0] / 10 or each is UNITS[-1])
    return f"{rate / size:,.0f} {unit}" if rate >= 10 * size else f"{rate / size:.2g} {unit}"


def _commonest(outcome: Outcome, width: int, mark: str) -> Table:
    """Return the commonest bytes with a bar for each, the longest as long as there is room; without room no bars."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1), header_style="bold")
    table.add_column("byte", no_wrap=True)
    table.add_column("is", no_wrap=True)
    table.add_column("times", justify="right", no_wrap=True)
    table.add_column("share", justify="right", no_wrap=True)
    rows = outcome.commonest(COMMONEST)
    names = [_form(value) for value, _ in rows]
    most = rows[0][1]
    room = width - 27 - max(map(len, names)) - len(f"{most:,}")
    if bars := room >= SHORTEST:
        table.add_column("", style="cyan", no_wrap=True)
    for name, (value, times) in zip(names, rows, strict=True):
        bar = [mark * max(1, round(room * times / most))] if bars else []
        table.add_row(f"0x{value:02x}", name, f"{times:,}", f"{times / outcome.bytes:.1%}", *bar)
    return table


def _form(value: int) -> str:
    """Return how a byte looks in ASCII."""
    return CONTROL.get(value) or (f"'{chr(value)}'" if 32 < value < 127 else "control" if value < 32 else "not ASCII")


def _verdict(console: Console, outcome: Outcome) -> None:
    """Say whether the device counted as numpy does, and where it did not."""
    if not outcome.mismatches:
        what = f"all {outcome.chunks:,} chunks agree" if outcome.chunks != 1 else "the one chunk agrees"
        console.print(
            f"[bold green]{what} with numpy.bincount[/]" if outcome.chunks else "there was nothing to count",
            highlight=False,
        )
        return
    count = len(outcome.mismatches)
    console.print(f"[bold red]MISMATCH: {count:,} of {outcome.chunks:,} chunks differ from numpy.bincount[/]")
    for wrong in outcome.mismatches[:SHOWN]:
        console.print(
            f"  chunk {wrong.chunk:,}: byte 0x{wrong.value:02x} counted {wrong.counted:,} times, "
            f"numpy counts {wrong.expected:,}", highlight=False,
        )  # fmt: skip
    if count > SHOWN:
        console.print(f"  and {count - SHOWN:,} more", highlight=False)


# ---- the progress bar

EVERY = 0.05  # seconds between two drawings: a thread that draws would take its share of the interpreter lock


class ProgressBar:
    """A bar on `console` while the `with` block runs, drawn when work advances, by no thread of its own.

    Where that is no terminal, it only counts: see `done`.
    """

    def __init__(self, console: Console) -> None:
        self.done = 0  # bytes
        self._bar = Bar(
            TextColumn("counting"),
            BarColumn(bar_width=None),
            TaskProgressColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            console=console,
            auto_refresh=False,
            expand=True,
            transient=True,
            disable=not console.is_terminal or console.is_dumb_terminal,
        )
        self._task = self._bar.add_task("bytes", total=None)
        self._drawn = 0.0

    def begin(self, total: int) -> None:
        """Say how many bytes there are."""
        self._bar.update(self._task, total=total)

    def advance(self, size: int) -> None:
        """Count `size` bytes more, and draw the bar if that was not done just now."""
        self.done += size
        self._bar.update(self._task, completed=self.done)
        if (now := time.monotonic()) - self._drawn >= EVERY:
            self._drawn = now
            self._bar.refresh()

    def __enter__(self) -> ProgressBar:
        try:
            self._bar.start()
        except BaseException:
            self._bar.stop()  # Ctrl-C just now: the cursor is hidden already
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._bar.stop()
