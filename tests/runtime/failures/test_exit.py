"""The end of a process: by itself, soon, with code 0 and without a word, whatever is still going on."""

from __future__ import annotations

import signal
import subprocess
import time
from typing import IO

import pytest

from tests.runtime.child import LIMIT, finish, run, start
from tests.runtime.programs.exits import WAYS

pytestmark = pytest.mark.slow

QUICK = 30.0  # seconds for a start, two imports and an end on a machine that is busy; abandoning a kernel alone takes 5


@pytest.mark.parametrize("way", WAYS)
def test_a_process_ends_by_itself(way: str) -> None:
    """A program may just end: nothing waits for its work, nothing is printed, nothing hangs."""
    started = time.monotonic()
    out = run("exits", way)
    assert out.split() == [way] * (2 if way == "forked_child" else 0 if way == "uncaught_error" else 1)
    assert time.monotonic() - started < QUICK


def test_everything_at_once() -> None:
    """All that can be left behind, left behind by one program."""
    ways = [way for way in WAYS if way not in ("uncaught_error", "forked_child", "closing_twice_at_exit")]
    ways.sort(key=lambda way: way.startswith("busy"))  # these slow down whatever is still to be begun
    assert run("exits", *ways).split() == ways


@pytest.mark.soak
@pytest.mark.parametrize("way", WAYS)
def test_fifty_ends(way: str) -> None:
    """The end is a race between threads that stop and an interpreter that goes: fifty of each kind."""
    for _ in range(50):
        run("exits", way)


def interrupt(process: subprocess.Popen[str], times: int) -> str:
    """Send Ctrl-C each time that the program says it waits, and return all that it printed afterwards."""
    output: IO[str] | None = process.stdout
    assert output is not None
    said = []
    for _ in range(times):
        while (line := output.readline()) != "waiting\n":
            assert line, finish(process)
            said.append(line)
        time.sleep(0.05)  # not to be right: an interrupt before the wait has begun would only test less
        process.send_signal(signal.SIGINT)
    out, err = finish(process, LIMIT)
    assert not err, err
    return "".join(said) + out


def test_an_interrupt_ends_the_wait_and_not_the_work() -> None:
    """Ctrl-C in each kind of blocking wait raises KeyboardInterrupt there; the work ends later, unharmed."""
    said = interrupt(start("interrupts", "sync"), 4).split("\n")
    assert said == ["interrupted pending"] * 4 + ["result 0.0", ""]


def test_an_interrupt_of_a_loop_aborts_the_scope() -> None:
    """Ctrl-C while a loop awaits leaves the stream's scope by an exception: its work is dropped, the board works."""
    assert interrupt(start("interrupts", "loop"), 1).split("\n") == ["interrupted", "result 0.0", ""]


def test_an_interrupt_ends_a_kernel_that_is_never_suspended() -> None:
    """Inline, one Ctrl-C ends such a kernel and the program, which cleans up; Python handles the next one."""
    assert interrupt(start("interrupts", "kernel"), 1).split("\n") == ["KeyboardInterrupt", "interrupted True", ""]


def test_an_interrupted_kernel_is_no_failure_to_be_logged() -> None:
    """The program gets its KeyboardInterrupt; that the kernel failed of it is not reported."""
    assert interrupt(start("interrupts", "unseen kernel"), 1).split("\n") == ["interrupted", ""]


def test_an_interrupt_ends_a_host_call() -> None:
    """Inline, one Ctrl-C ends a host call that holds the only thread, and then the program."""
    assert interrupt(start("interrupts", "call"), 1).split("\n") == ["KeyboardInterrupt", "interrupted", ""]
