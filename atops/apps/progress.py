"""A progress bar over bytes, drawn when work advances, by no thread of its own, and only on a terminal."""

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, TaskProgressColumn, TextColumn, TransferSpeedColumn
from rich.progress import Progress as Bar

__all__ = ("Progress",)

EVERY = 0.05  # seconds between two drawings: a thread that draws would take its share of the interpreter lock


class Progress:
    """A bar on `console` while the `with` block runs. Where that is no terminal, it only counts: see `done`."""

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

    def __enter__(self) -> Progress:
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
