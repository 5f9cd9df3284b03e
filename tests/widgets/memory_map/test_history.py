"""The lives of allocations, memory in use over time, and L1 and L2 at a moment."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from atops.base.trace.records import AllocationEvent, Change, ThreadEvent, ThreadState
from atops.device.memory.allocation import Allocation
from atops.runtime.driver import board_of
from atops_widgets.feed.columns import CHANGES, STEPS, Columns, Texts
from atops_widgets.feed.feed import Feed
from atops_widgets.memory_map.history import NEVER, History, Steps, free_at, largest_gap, scratch_at, thin_steps
from atops_widgets.memory_map.scene import MemoryPicture
from tests.runtime.boards import board
from tests.widgets.memory_map_traces import KIB, MIB, Ledger

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


def test_a_life_has_a_beginning_an_end_and_what_ended_it() -> None:
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


def test_every_peak_survives_the_thinning() -> None:
    """A peak that lasts one of a million steps is in some pixel's high, and a dip in a low."""
    value = np.full(1_000_000, 500)
    value[123_456], value[777_777] = 9_000, 3
    curve = thin_steps(Steps.of(np.arange(1_000_000), value), np.linspace(0, 1_000_000, 481).astype(np.int64))
    assert int(curve.high.max()) == 9_000 and int(curve.low[1:].min()) == 3
    assert curve.last.tolist() == [500] * 480


def test_a_figure_holds_until_the_next() -> None:
    """Pixels without a step have what was before them; before the first there is nothing."""
    steps = Steps.of(np.array([10, 50]), np.array([7, 2]))
    curve = thin_steps(steps, np.arange(0, 101, 10) + (np.arange(11) == 10))
    assert curve.last.tolist() == [0, 7, 7, 7, 7, 2, 2, 2, 2, 2]
    assert curve.high.tolist() == [0, 7, 7, 7, 7, 7, 2, 2, 2, 2]
    assert [steps.at(at) for at in (9, 10, 49, 50, None)] == [0, 7, 7, 2, 2]
    assert steps.peak() == (7, 10)
    nothing = Steps.of(np.zeros(0, np.int64), np.zeros(0, np.int64))
    assert thin_steps(nothing, np.array([0, 25, 50, 75, 101])).high.tolist() == [0] * 4 and nothing.peak() == (0, 0)


def test_moments_told_by_two_threads_keep_their_order() -> None:
    """A step that comes too early is put to the one before it."""
    assert Steps.of(np.array([5, 9, 8, 12]), np.arange(4)).at_ns.tolist() == [5, 9, 9, 12]


def test_largest_gap() -> None:
    """The longest run that no range holds, the edges included; overlapping ranges are one."""
    starts, stops = np.array([30, 10, 12]), np.array([40, 20, 15])
    assert largest_gap(starts, stops, 0, 100) == 60
    assert largest_gap(starts, stops, 0, 41) == 10
    assert largest_gap(starts, stops, 10, 20) == 0
    assert largest_gap(starts[:0], stops[:0], 5, 25) == 20


def test_the_figures_are_those_of_the_memory() -> None:
    """Used bytes, peak and the largest free range from changes alone equal the device's own statistics."""
    with board(trace=1000) as driver:
        feed, memory = Feed(driver=driver), board_of(driver).context(0).memory
        feed.ask_details()
        draw = np.random.default_rng(5)
        live: list[Allocation] = []
        for _ in range(300):
            if live and draw.random() < 0.4:
                memory.free(live.pop(int(draw.integers(len(live)))))
            else:
                bank = int(draw.integers(4)) if draw.random() < 0.5 else None
                live.append(memory.allocate(int(draw.integers(1, 3 * MIB)), bank=bank))
        feed.poll()
        picture = MemoryPicture(feed)
        picture.update()
        truth, steps, capacity = memory.statistics(), picture.steps(0), picture.extent(0).capacity
        assert (steps.at(None), steps.peak()[0], capacity) == (truth.used, truth.peak, truth.used + truth.free)
        assert free_at(picture.history, 0, None, truth.used, capacity) == truth.largest_free
        assert len(picture.history.standing(0, None, truth.used, 9).live) == truth.live
        feed.stop()


def steps_table(*rows: ThreadEvent) -> Columns:
    """Return steps as columns."""
    steps = Columns(STEPS, 100, Texts())
    steps.extend(rows)
    return steps


STEPS_TOLD = steps_table(
    ThreadEvent(10, 4, 0, 0, ThreadState.RUNS),
    ThreadEvent(20, 4, 0, 0, ThreadState.BARRIER, 0, -1, 512, 4096),
    ThreadEvent(22, 4, 0, 1, ThreadState.RUNS, -1, -1, 0, 4096),
    ThreadEvent(25, 4, 1, 0, ThreadState.DTE, 0, -1, 256, 128),
    ThreadEvent(30, 4, 0, 0, ThreadState.ENDED, -1, -1, 0, 0),
    ThreadEvent(40, 9, 0, 0, ThreadState.RUNS, -1, -1, 64, 32),
)


def test_each_thread_has_what_its_newest_step_tells() -> None:
    """Up to the moment and not beyond; of the launch that took a step last."""
    found = scratch_at(STEPS_TOLD, 26)
    assert found is not None and found.launch == 4
    assert list(zip(found.block.tolist(), found.thread.tolist(), found.l1_bytes.tolist(), strict=True)) == [
        (0, 0, 512), (0, 1, 0), (1, 0, 256),
    ]  # fmt: skip
    numbers, sizes = found.blocks()
    assert (numbers.tolist(), sizes.tolist()) == ([0, 1], [4096, 128])
    assert not found.over.any()


def test_threads_that_ended_are_told() -> None:
    """After its last step a thread is over and holds nothing."""
    found = scratch_at(STEPS_TOLD, 35)
    assert found is not None and found.over.tolist() == [True, False, False] and found.l1_bytes[0] == 0


def test_a_chosen_launch_comes_first_and_nothing_is_nothing() -> None:
    """The selected launch if it has steps, else the newest; None before any step."""
    newest, chosen, other = scratch_at(STEPS_TOLD, None), scratch_at(STEPS_TOLD, None, 4), scratch_at(STEPS_TOLD, 35, 9)
    assert newest is not None and chosen is not None and other is not None
    assert (newest.launch, chosen.launch, other.launch) == (9, 4, 4)
    assert scratch_at(STEPS_TOLD, 9) is None and scratch_at(steps_table(), None) is None


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 3), st.booleans(), st.booleans()), max_size=30),
       st.integers(1, 7))  # fmt: skip
def test_what_stands_now_is_what_stands_at_the_last_moment(
    wishes: list[tuple[int, int, bool, bool]], portion: int
) -> None:
    """Ranges that come, go into a pool or back, and come again, are told of now as of any moment, however read."""
    rows: list[AllocationEvent] = []
    held: dict[tuple[int, int], int] = {}
    kept = dict.fromkeys(range(2), 0)
    for number, (device, place, free, keeps) in enumerate(wishes):
        key, at = (device, place), 10 * number
        if not free and key not in held:
            held[key] = number
        elif free and key in held:
            kept[device] += keeps
            used = (sum(each[0] == device for each in held) - 1 + kept[device]) * 1024
            rows.append(AllocationEvent(at, device, place * 1024, 1024, 0, FREED, held.pop(key), used, 0, 1))
            continue
        else:
            continue
        used = (sum(each[0] == device for each in held) + kept[device]) * 1024
        rows.append(AllocationEvent(at, device, place * 1024, 1024, 0, ALLOCATED, number, used, 0, 1))
    changes, history = Columns(CHANGES, 1000, Texts()), History(most=12)
    for first in range(0, len(rows), portion):
        changes.extend(rows[first : first + portion])
        history.update(changes)
    for device in range(2):
        now, then = (history.standing(device, at, 4096, 64) for at in (None, NEVER - 1))
        for field in ("live", "kept", "freed"):
            assert sorted(getattr(now, field).tolist()) == sorted(getattr(then, field).tolist()), field
