"""The progress bar: drawn on a terminal without a thread, silent elsewhere, and gone when it is over."""

from __future__ import annotations

import io
import threading

import pytest
from rich.console import Console

from atops.apps.progress import Progress


def console(terminal: bool, term: str = "xterm") -> tuple[Console, io.StringIO]:
    """Return a console and what is written to it."""
    written = io.StringIO()
    made = Console(file=written, force_terminal=terminal, width=60, _environ={"TERM": term})
    return made, written


def test_on_a_terminal():
    """The bar says how much is done, no thread draws it, and in the end its line is cleared."""
    terminal, written = console(True)
    progress = Progress(terminal)
    progress.begin(2_000_000)
    threads = threading.active_count()
    with progress:
        progress.advance(500_000)
        assert threading.active_count() == threads
        assert "25%" in written.getvalue()
        progress.advance(1_500_000)
    assert progress.done == 2_000_000
    assert "100%" in written.getvalue()
    assert written.getvalue().endswith("\x1b[2K")


@pytest.mark.parametrize(("terminal", "term"), [(False, "xterm"), (True, "dumb")], ids=["file", "dumb terminal"])
def test_elsewhere(terminal: bool, term: str):
    """Where no bar can be drawn nothing is written, and bytes are still counted."""
    target, written = console(terminal, term)
    progress = Progress(target)
    progress.begin(10)
    with progress:
        progress.advance(4)
    assert (progress.done, written.getvalue()) == (4, "")


def test_an_error_leaves_a_clean_terminal():
    """A failure inside the block clears the line and shows the cursor again."""
    terminal, written = console(True)
    with pytest.raises(ZeroDivisionError), Progress(terminal) as progress:
        progress.advance(1)
        raise ZeroDivisionError
    assert "\x1b[?25h" in written.getvalue()
    assert written.getvalue().endswith("\x1b[2K")


def test_an_interrupt_at_the_very_beginning(monkeypatch: pytest.MonkeyPatch):
    """Ctrl-C while the bar is drawn for the first time shows the cursor again, as at any other time."""
    terminal, written = console(True)
    progress = Progress(terminal)
    draw = terminal.print

    def interrupted(*arguments: object, **options: object) -> None:
        monkeypatch.setattr(terminal, "print", draw)
        raise KeyboardInterrupt

    monkeypatch.setattr(terminal, "print", interrupted)
    with pytest.raises(KeyboardInterrupt), progress:
        pass
    assert "\x1b[?25l" in written.getvalue()
    assert written.getvalue().rindex("\x1b[?25h") > written.getvalue().rindex("\x1b[?25l")
