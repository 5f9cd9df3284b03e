"""Other processes to lend to and to borrow from, under a hard time limit: what the tests between processes start."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.architecture.source_tree import ROOT
from tests.runtime.child import environment

__all__ = ("Process", "processes")

LIMIT = 20.0


class Process:
    """One borrower, which does what it is told."""

    def __init__(self, **changes: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.tops.borrower"], cwd=ROOT,
            env=environment({"ATOPS_DEVICES": "2", **changes}), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True, bufsize=1,
        )  # fmt: skip

    def ready(self) -> Process:
        """Wait until it listens."""
        assert self.answer() == "ready"
        return self

    def do(self, what: str, **named: Any) -> Any:
        """Have one thing done, and return the answer."""
        self.begin(what, **named)
        return self.answer()

    def begin(self, what: str, **named: Any) -> None:
        """Have one thing done, without waiting for it."""
        self._process.stdin.write(json.dumps({"do": what, **named}) + "\n")
        self._process.stdin.flush()

    def answer(self) -> Any:
        """Return the next answer."""
        return json.loads(self.line())

    def line(self) -> str:
        """Return the next line. Fails at the limit."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            assert selector.select(LIMIT), "the other process does not answer"
        return self._process.stdout.readline()

    def kill(self) -> None:
        """End it as kill -9 does."""
        self._process.send_signal(signal.SIGKILL)
        os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)

    def end(self) -> None:
        """End it in any case."""
        self._process.kill()
        self._process.communicate()


@contextmanager
def processes(count: int, **changes: str) -> Iterator[list[Process]]:
    """Have some processes for the block."""
    started = [Process(**changes) for _ in range(count)]
    try:
        yield [each.ready() for each in started]
    finally:
        for each in started:
            each.end()
