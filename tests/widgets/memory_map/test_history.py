"""Lives of allocations, from changes that may come twice, late, or not at all."""

from __future__ import annotations

import numpy as np

from atops.base.trace.records import AllocationEvent, Change
from atops_widgets.feed.columns import CHANGES, Columns, Texts
from atops_widgets.memory_map.history import NEVER, History
from tests.widgets.memory_map_traces import KIB, Ledger

ALLOCATED, FREED, REUSED = Change


def told(*rows: AllocationEvent, history: History | None = None, capacity: int = 1000) -> tuple[History, Columns]:
    """Return a history that has read these changes, and their columns."""
    changes = Columns(CHANGES, capacity, Texts())
    changes.extend(rows)
    known = History() if history is None else history
    known.update(changes)
    return known, changes


def change(at: int, number: int, what: Change, used: int, offset: int = 0, size: int = 1024) -> AllocationEvent:
    """Return a change of device 0, bank 0."""
    return AllocationEvent(at, 0, offset, size, 0, what, number, used, number, 1)


def test_a_life_has_a_beginning_an_end_and_who_ended_it() -> None:
    """What is allocated stands until it is freed, at each moment between."""
    history, _ = told(change(10, 7, ALLOCATED, 1024), change(30, 7, FREED, 0)._replace(site=5))
    row = history.row(7)
    assert [int(history[name][row]) for name in ("born_ns", "died_ns", "site", "freed_site")] == [10, 30, 7, 5]
    assert [len(history.standing(0, at, 1024, 4).live) for at in (9, 10, 29, 30, None)] == [0, 1, 1, 0, 0]
    assert history.standing(0, 30, 0, 4).freed.tolist() == [row]
    assert history.standing(0, 30, 0, 0).freed.tolist() == []
    assert (history.row(8), history.devices()) == (-1, [0])


def test_what_is_told_twice_counts_once() -> None:
    """A late viewer is told again of what stands: neither a second life nor a second end comes of it."""
    once = change(10, 1, ALLOCATED, 1024), change(20, 1, FREED, 0)
    history, changes = told(*once, change(25, 1, ALLOCATED, 0), change(26, 1, FREED, 0))
    history.update(changes)
    assert len(history) == 1
    assert (int(history["born_ns"][0]), int(history["died_ns"][0])) == (10, 20)
    unknown, _ = told(change(20, 9, FREED, 0))
    assert len(unknown) == 0


def test_a_kept_range_is_known_by_the_bytes_that_stay_in_use() -> None:
    """Freed into a pool: kept until it is reused; freed for good: not kept, whatever the mark says."""
    rows = change(1, 0, ALLOCATED, 1024), change(2, 1, ALLOCATED, 2048, 4096), change(3, 0, FREED, 2048)
    history, _ = told(*rows)
    standing = history.standing(0, None, 2048, 4)
    assert (standing.kept.tolist(), standing.freed.tolist()) == ([0], [])
    assert history.standing(0, None, 1024, 4).kept.tolist() == []  # the pool has given it back since
    history, _ = told(*rows, change(4, 2, REUSED, 2048, 0, 512), change(5, 1, FREED, 1024, 4096))
    assert history.standing(0, None, 1024, 4).kept.tolist() == []
    assert history.standing(0, 3, 2048, 4).kept.tolist() == [0]
    assert bool(history["again"][history.row(2)])


def test_reading_in_portions_is_reading_at_once() -> None:
    """Lives, and what took their places, do not depend on how the changes came in."""
    book, draw = Ledger(), np.random.default_rng(3)
    live: list[int] = []
    for at in range(400):
        if live and draw.random() < 0.45:
            book.free(at, live.pop(int(draw.integers(len(live)))), kept=bool(draw.random() < 0.5))
        else:
            live.append(book.take(at, int(draw.integers(16)) * 64 * KIB, 32 * KIB, 0, again=bool(draw.random() < 0.3)))
    whole, _ = told(*book.changes)
    parts, changes = History(), Columns(CHANGES, 1000, Texts())
    for first in range(0, 400, 7):
        changes.extend(book.changes[first : first + 7])
        parts.update(changes)
    for field in ("generation", "born_ns", "died_ns", "renewed_ns", "kept", "freed_site"):
        assert np.array_equal(whole[field], parts[field]), field


def test_what_was_dropped_before_it_was_read_is_counted() -> None:
    """A full feed loses its oldest rows; those that were read stay known."""
    changes = Columns(CHANGES, 4, Texts())
    history = History()
    changes.extend([change(at, at, ALLOCATED, 1024 * at, at * 4096) for at in range(3)])
    history.update(changes)
    changes.extend([change(at, at, ALLOCATED, 1024 * at, at * 4096) for at in range(3, 12)])
    history.update(changes)
    assert (len(history), history.lost) == (3 + 4, 5)


def test_too_many_lives_lose_the_oldest_that_are_over() -> None:
    """What lives is never forgotten, what is over is, oldest first, and is counted."""
    rows = [change(0, 1000, ALLOCATED, 1024, 1 << 30)]
    for number in range(40):
        rows += [change(number + 1, number, ALLOCATED, 2048), change(number + 1, number, FREED, 1024)]
    history, _ = told(*rows, history=History(most=20))
    assert history.row(1000) >= 0 and history.row(39) >= 0 and history.row(0) == -1
    assert int(history["died_ns"][history.row(1000)]) == NEVER
    assert len(history) + history.forgotten == 41
