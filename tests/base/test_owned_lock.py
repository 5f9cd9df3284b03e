"""Locks that know who holds them."""

from __future__ import annotations

import ast
import threading
from pathlib import Path

import pytest

import atops
from atops.base.errors import IllegalState
from atops.base.owned_lock import OwnedLock, attempt, check_entry, make_lock, reentered, take_patiently
from tests.interruption import every_point, interrupted


def elsewhere(action) -> None:
    """Run an action in another thread, and wait for its end."""
    thread = threading.Thread(target=action)
    thread.start()
    thread.join()


def free(lock: OwnedLock) -> bool:
    """Tell whether another thread can have the lock."""
    found: list[bool] = []

    def look() -> None:
        found.append(lock.acquire(False))
        if found[0]:
            lock.release()

    elsewhere(look)
    return found[0]


def test_an_entry_is_refused_to_the_holder_alone() -> None:
    """Who holds it finds IllegalState, which says what came and how; another thread does not."""
    lock = make_lock()
    check_entry(lock, "a thing was asked for")
    with lock:
        with pytest.raises(IllegalState, match="a thing was asked for by a finalizer or a signal handler"):
            check_entry(lock, "a thing was asked for")
        elsewhere(lambda: check_entry(lock, "a thing was asked for"))
    assert isinstance(reentered("x"), IllegalState)


def test_an_attempt_takes_what_is_free() -> None:
    """Once where the lock is free; not at all where this thread or another one holds it."""
    lock = make_lock()
    times = 0

    def use() -> None:
        nonlocal times
        times += 1
        assert not free(lock)

    attempt(lock, use)
    assert (times, free(lock)) == (1, True)
    with lock:
        attempt(lock, use)
        elsewhere(lambda: attempt(lock, use))
    assert (times, free(lock)) == (1, True)
    with pytest.raises(ZeroDivisionError):
        attempt(lock, lambda: 1 // 0)
    assert free(lock)


def test_who_is_patient_gets_it_in_the_end() -> None:
    """A lock that is free is taken at once, one that is held when it is given back."""
    lock = make_lock()
    take_patiently(lock)
    taken = threading.Event()

    def take() -> None:
        take_patiently(lock)
        taken.set()
        lock.release()

    thread = threading.Thread(target=take)
    thread.start()
    assert not taken.is_set()
    lock.release()
    thread.join()
    assert taken.is_set()


LOCKS = ("driver.lock", "self.lock", "self._lock")
LOOPS = (ast.For, ast.While, ast.ListComp, ast.SetComp, ast.DictComp)
# Functions that only the driver's own threads call, where no signal handler runs.
ELSEWHERE = {"_must_wait", "_watch"}


def loops_under_the_lock(source: str) -> list[str]:
    """Return the functions that have a loop right under `with ...driver.lock:` or the like."""
    return [
        function.name
        for function in ast.walk(ast.parse(source))
        if isinstance(function, ast.FunctionDef) and function.name not in ELSEWHERE
        for block in ast.walk(function)
        if isinstance(block, ast.With) and ast.unparse(block.items[0].context_expr).endswith(LOCKS)
        if any(isinstance(part, LOOPS) for statement in block.body for part in ast.walk(statement))
    ]


def test_no_loop_stands_right_under_a_lock_that_knows_its_owner() -> None:
    """Ctrl-C at a jump backward would keep the lock: CPython 3.12 and 3.13 have no entry for those in their tables."""
    assert loops_under_the_lock("def f():\n    with self.lock:\n        for each in all: each()") == ["f"]
    texts = {file: file.read_text("utf-8") for file in sorted(Path(atops.__file__).parent.rglob("*.py"))}
    owned = {file.name: text for file, text in texts.items() if "make_lock()" in text or "driver.lock" in text}
    assert {"driver.py", "tracing.py", "global_memory.py", "stream_queue.py"} <= owned.keys()
    assert {name: loops for name, text in owned.items() if (loops := loops_under_the_lock(text))} == {}


def test_no_attempt_keeps_the_lock_when_ctrl_c_comes() -> None:
    """It comes before the lock is taken, or where the block gives it back."""
    lock = make_lock()

    def use() -> None:
        attempt(lock, lambda: check_entry(make_lock(), "nothing"))

    for points in every_point(use):
        interrupted(points, use)
        assert free(lock)
