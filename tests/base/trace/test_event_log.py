"""A ring holds the last things, numbers all of them, and can be added to during a read."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atops.base.trace.event_log import Ring


@pytest.mark.slow
@given(st.integers(1, 20), st.lists(st.one_of(st.integers(1, 600), st.just("read"), st.just("clear")), max_size=12))
def test_the_ring_is_a_window_on_all_that_was_added(capacity: int, steps: list[int | str]) -> None:
    """Whatever is added, read and cleared, it holds the last `capacity` and counts exactly what it lost."""
    ring: Ring[int] = Ring(capacity)
    added = held = dropped = position = seen = missed = 0
    for step in steps:
        if isinstance(step, int):
            for _ in range(step):
                ring.add(added)
                added += 1
            dropped += max(0, held + step - capacity)
            held = min(capacity, held + step)
        elif step == "read":
            things, position, lost = ring.since(position)
            assert things == list(range(added - len(things), added))
            seen, missed = seen + len(things), missed + lost
        else:
            ring.clear()
            held = dropped = 0
    assert (len(ring), ring.dropped) == (held, dropped)
    things, _, lost = ring.since(position)
    assert seen + len(things) + missed + lost == added


def test_any_part_can_be_read() -> None:
    """From whatever position and however much: the same as of a list, near the oldest and near the newest."""
    ring: Ring[int] = Ring(40)
    ring.add_all(range(100))
    for position in (0, 59, 60, 61, 75, 85, 99, 100, 120):
        for limit in (None, 0, 1, 7, 40, 50):
            begin = min(max(position, 60), 100)
            end = 100 if limit is None else min(100, begin + limit)
            assert ring.since(position, limit) == (list(range(begin, end)), end, max(0, begin - position))


def test_adding_does_not_wait_for_a_reader() -> None:
    """A thread that holds the lock holds no other up, and what was added meanwhile is there afterwards."""
    ring: Ring[int] = Ring(10_000)
    with ring.lock:
        adder = threading.Thread(target=lambda: [ring.add(number) for number in range(1000)])
        adder.start()
        adder.join(5)
        assert not adder.is_alive()
    assert ring.since(0)[0] == list(range(1000))


def test_many_threads_lose_nothing() -> None:
    """What four threads add at once is all there, each thread's own in its order."""
    ring: Ring[tuple[int, int]] = Ring(10_000)

    def add(sender: int) -> None:
        for number in range(2000):
            ring.add((sender, number))

    threads = [threading.Thread(target=add, args=(sender,)) for sender in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    things, end, missed = ring.since(0)
    assert (end, missed) == (8000, 0)
    for sender in range(4):
        assert [number for one, number in things if one == sender] == list(range(2000))
