"""Locks that know their holder."""

from __future__ import annotations

import threading

import pytest

from atops.base.errors import IllegalState
from atops.base.locks import OwnedLock, attempt, check_entry, make_lock, reentered, take_patiently
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
    """The holding thread gets IllegalState, which says what came and how; another thread does not."""
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


def test_a_long_wait_gets_it_in_the_end() -> None:
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


def test_no_attempt_keeps_the_lock_when_ctrl_c_comes() -> None:
    """It comes before the lock is taken, or where the block gives it back."""
    lock = make_lock()

    def use() -> None:
        attempt(lock, lambda: check_entry(make_lock(), "nothing"))

    for points in every_point(use):
        interrupted(points, use)
        assert free(lock)
