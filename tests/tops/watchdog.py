"""Calls in threads of their own, watched: what may rightly wait is let go, what never comes back is named."""

from __future__ import annotations

import faulthandler
import sys
import threading
import time
from collections.abc import Callable, Iterable
from enum import IntEnum
from itertools import pairwise
from typing import Any

from atops.runtime.board.current_device import enter
from atops.runtime.device import Device
from atops.runtime.driver import Driver, board_of
from atops.tops.functions.api import last
from atops.tops.header.error_codes import topsError_t, topsrtcResult
from atops.tops.header.functions import FUNCTIONS
from tests.runtime.boards import PATIENCE
from tests.tops.conformance import implementation

__all__ = ("Watchdog", "books", "check_answer")

SHORT = 0.05  # seconds after which a call counts as one that waits
LOOK = 0.01
LIMIT = PATIENCE  # seconds after which a call counts as one that never returns
NOT_READY = topsError_t.topsErrorNotReady  # the one code that is no error, and not stored
UNEXPECTED = (topsError_t.topsErrorUnknown, topsrtcResult.TOPSRTC_ERROR_INTERNAL_ERROR)


class Watchdog:
    """Runs calls on a board and looks after them.

    A random call may wait for what no other one does: a value, a latch. Its streams are aborted then, and the devices
    reset if that does not help, as a program would do.
    """

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._calls: dict[int, tuple[str, float]] = {}
        self.let_go = 0  # how often something was aborted

    def call(self, name: str, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        """Call a function, and check what it answers. Raises AssertionError naming the call."""
        text = f"{name}{shown(arguments)}"
        me = threading.get_ident()
        self._calls[me] = text, time.monotonic()
        try:
            answer = implementation(name)(*arguments)
        except BaseException as error:
            raise AssertionError(f"{text} raised {error!r}") from error
        finally:
            del self._calls[me]
        check_answer(name, text, answer)
        return answer

    def run(self, *actions: Callable[[], None]) -> None:
        """Run actions at once, each in a thread where the board is current. Raises what the first to fail raised."""
        failures: list[BaseException] = []

        def guarded(action: Callable[[], None]) -> None:
            enter(self._driver, board_of(self._driver))
            try:
                action()
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=guarded, args=(each,), daemon=True) for each in actions]
        for thread in threads:
            thread.start()
        self._watch(threads)
        if failures:
            raise failures[0]

    def _watch(self, threads: Iterable[threading.Thread]) -> None:
        for thread in threads:
            while thread.is_alive():
                thread.join(LOOK)
                self._look()

    def _look(self) -> None:
        """Let go what waits. Raises AssertionError for what goes on all the same."""
        now = time.monotonic()
        waiting = [(now - since, text) for text, since in self._calls.copy().values() if now - since > SHORT]
        if not waiting:
            return
        longest, text = max(waiting)
        if longest > LIMIT:
            faulthandler.dump_traceback(sys.__stderr__, all_threads=True)
            raise AssertionError(f"{text} does not come back, though everything that it may wait for was aborted")
        self.let_go += 1
        self.abort(hard=longest > 20 * SHORT)

    def abort(self, hard: bool = False) -> None:
        """Abort all streams with work; `hard` resets the devices as well."""
        for context in board_of(self._driver).contexts:
            for stream in list(context.active.copy()):
                stream.abort()
            if hard:
                Device(context.ordinal, self._driver).reset_sync()


def check_answer(name: str, text: str, answer: Any) -> None:
    """Fail unless an answer has the shape that the table says: a code of the right kind, then the results or None."""
    kind: type[IntEnum] = topsrtcResult if name.startswith("topsrtc") else topsError_t
    assert type(answer) is tuple and answer, f"{text} answered {answer!r}; expected a tuple"
    assert type(answer[0]) is kind, f"{text} answered {answer!r}; expected a {kind.__name__} in front"
    outs = FUNCTIONS[name].outs
    assert len(answer) == 1 + outs, f"{text} answered {answer!r}; expected {outs} results"
    if answer[0]:
        why = error.message if (error := last()) is not None else ""
        assert answer[0] not in UNEXPECTED, f"{text} met an unexpected error: {answer!r} {why}"
        assert answer[1:] == (None,) * outs, f"{text} failed and has results: {answer!r}"
        stored = kind is topsrtcResult or answer[0] is NOT_READY or FUNCTIONS[name].family == "Error"
        assert stored or (error is not None and error.code is answer[0]), f"{text} left another last error: {error!r}"


def shown(arguments: tuple[Any, ...]) -> str:
    """Return arguments as a call shows them, long ones cut."""
    texts = [hex(each) if type(each) is int and each > 1 << 32 else repr(each) for each in arguments]
    return f"({', '.join(text if len(text) < 80 else f'{text[:76]} ...' for text in texts)})"


def books(driver: Driver) -> None:
    """Fail unless each device's figures are the sum of what is set aside, and nothing overlaps."""
    for context in board_of(driver).contexts:
        memory = context.memory
        with memory.lock:
            memory._settle()
            ranges = sorted((start, start + memory._rounded(memory._kept.get(start) or found.size))
                            for start, found in memory._at.items())  # fmt: skip
            used, quarantined, live = memory._banks.used, memory._quarantined, list(memory._live.values())
            pinned = set(memory._pinned)
        taken = sum(end - start for start, end in ranges)
        assert all(end <= start for (_, end), (start, _) in pairwise(ranges)), "ranges overlap"
        assert used == taken + quarantined, f"{used} bytes are used, {taken} are set aside, {quarantined} quarantined"
        begun = {start for start, _ in ranges}
        lost = [each for each in live if each.offset not in begun]
        assert not lost, f"live allocations without a range: {lost}"
        assert not pinned, f"ranges pinned without a user: {pinned}"
        assert context.memory.statistics().used == used
