"""What the demo shows: a progress bar while it runs, then figures, the commonest bytes and a timeline."""

from __future__ import annotations

from types import TracebackType

import numpy as np
import rich.progress
from rich.console import Console
from rich.table import Table
from rich.text import Text

from atops.apps.outcome import Outcome
from atops.runtime.timeline import summary
from atops.runtime.timeline_text import format_bytes, render_text

__all__ = ("Progress", "commonest", "entropy", "figures", "printable", "report")

COMMONEST = 8
BAR = 30  # columns of the longest bar
NAMES = {9: "tab", 10: "newline", 13: "return", 32: "space"}


class Progress:
    """A progress bar over bytes; nothing where the output is no terminal."""

    def __init__(self, console: Console, total: int) -> None:
        self._bar = rich.progress.Progress(
            rich.progress.TextColumn("counting bytes"),
            rich.progress.BarColumn(),
            rich.progress.DownloadColumn(binary_units=True),
            rich.progress.TransferSpeedColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task("bytes", total=total)

    def advance(self, size: int) -> None:
        """Count `size` more bytes."""
        self._bar.advance(self._task, size)

    def __enter__(self) -> Progress:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._bar.stop()


def report(console: Console, outcome: Outcome) -> None:
    """Print what the demo found."""
    console.print(figures(outcome))
    if outcome.bytes:
        console.print(commonest(outcome))
    text = render_text(
        outcome.trace.records, max(40, min(console.width, 140)), console.is_terminal, names=outcome.trace.names
    )
    console.print(Text.from_ansi(text), soft_wrap=True)
    if outcome.mismatches:
        shown = ", ".join(map(str, outcome.mismatches[:10]))
        console.print(f"[bold red]MISMATCH[/] with numpy.bincount in {len(outcome.mismatches)} chunks: {shown}")
    else:
        console.print(f"[bold green]all {outcome.chunks} chunks agree with numpy.bincount[/]", highlight=False)


def figures(outcome: Outcome) -> Table:
    """Return the totals as a table."""
    table = Table.grid(padding=(0, 2))
    rate = outcome.bytes / outcome.seconds / 1e6 if outcome.seconds else 0.0
    table.add_row("input", f"{outcome.files} files, {format_bytes(outcome.bytes)} in {outcome.chunks} chunks")
    table.add_row("entropy", f"{entropy(outcome):.3f} bits a byte")
    table.add_row("throughput", f"{rate:.0f} MB/s ({outcome.seconds:.2f} s, reading and checking included)")
    if outcome.trace.records:
        times = summary(outcome.trace.records)
        kernels, copies = times.kernel_ns / 1e6, times.copy_ns / 1e6
        table.add_row("device", f"kernels {kernels:.0f} ms, copies {copies:.0f} ms, {times.overlap:.0%} of them overlapped")
    return table


def entropy(outcome: Outcome) -> float:
    """Return the entropy of the bytes, in bits."""
    if not outcome.bytes:
        return 0.0
    share = outcome.counts[outcome.counts > 0] / outcome.bytes
    return float(-(share * np.log2(share)).sum()) + 0.0


def commonest(outcome: Outcome) -> Table:
    """Return the commonest bytes as a table with bars."""
    table = Table(box=None, padding=(0, 2, 0, 0), title="the commonest bytes", title_justify="left")
    for heading, side in (("byte", "left"), ("as", "left"), ("count", "right"), ("share", "right"), ("", "left")):
        table.add_column(heading, justify=side)  # type: ignore[arg-type]  # rich's literals
    order = np.argsort(-outcome.counts, kind="stable")[:COMMONEST]
    most = int(outcome.counts[order[0]])
    for value in map(int, order):
        count = int(outcome.counts[value])
        if count:
            bar = "█" * max(1, round(BAR * count / most))
            table.add_row(f"0x{value:02x}", printable(value), f"{count:,}", f"{count / outcome.bytes:.1%}", bar)
    return table


def printable(value: int) -> str:
    """Return how a byte is written."""
    return NAMES.get(value) or (repr(chr(value)) if 33 <= value < 127 else "")
