"""How threads stand after any number of steps, and when they met: the same as by going through the steps one by one."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atops.base.trace.records import ThreadEvent, ThreadState
from atops_widgets.cluster_grid import history as cluster_grid_history
from atops_widgets.cluster_grid.history import NOT_BEGUN, NOT_KNOWN, RELEASED, History
from atops_widgets.feed.columns import STEPS, Columns, Texts
from tests.widgets.frames import FROZEN_MS

BARRIERS = (ThreadState.BARRIER, ThreadState.GRID_BARRIER, ThreadState.COUNTED_BARRIER)
ANY = st.lists(
    st.builds(
        ThreadEvent, st.just(0), st.integers(7, 8), st.integers(0, 2), st.integers(0, 3), st.sampled_from(ThreadState),
        st.integers(0, 1), st.integers(-1, 3), st.integers(0, 99), st.integers(0, 99), st.integers(-1, 1),
    ), max_size=60,
)  # fmt: skip


def table(steps: list[ThreadEvent], capacity: int = 1000) -> Columns:
    """Return steps as a feed holds them."""
    columns = Columns(STEPS, capacity, Texts())
    columns.extend(steps)
    return columns


def meeting(threads: int, on: int = 0, rounds: int = 1, late: int = 0) -> list[ThreadEvent]:
    """Return threads that meet at a barrier; the last `late` of them leave it when the others are back already."""
    steps: list[ThreadEvent] = []
    owed: list[ThreadEvent] = []
    for _ in range(rounds):
        prompt = threads - late if owed else threads
        steps += [ThreadEvent(0, 7, 0, thread, ThreadState.BARRIER, on) for thread in range(prompt)]
        for leave in owed:
            steps += [leave, ThreadEvent(0, 7, 0, leave.thread, ThreadState.BARRIER, on)]
        owed = [ThreadEvent(0, 7, 0, thread, ThreadState.RUNS) for thread in range(threads - late, threads)]
        steps += [ThreadEvent(0, 7, 0, thread, ThreadState.RUNS) for thread in range(threads - late)]
    return steps + owed


@pytest.mark.slow
@given(ANY, st.lists(st.integers(1, 9), max_size=4))
def test_any_position_is_that_of_going_through_the_steps(steps: list[ThreadEvent], cuts: list[int]) -> None:
    """Whatever the steps and however they come, each thread's last step before the position tells how it stands."""
    columns, history = table([]), History(7)
    at = 0
    for cut in [*cuts, len(steps)]:
        columns.extend(steps[at : at + cut])
        history.update(columns)
        at += cut
    own = [step for step in steps if step.launch == 7]
    assert history.count == len(own)
    for position in range(len(own) + 1):
        last = {(step.block, step.thread): step for step in own[:position]}
        found = history.at(position, columns)
        assert sorted(zip(found.block.tolist(), found.thread.tolist(), strict=True)) == sorted(
            {(step.block, step.thread) for step in own}
        )
        for place, thread in enumerate(zip(found.block.tolist(), found.thread.tolist(), strict=True)):
            step, turn = last.get(thread), int(found.turn[place])
            if step is None:
                assert turn == NOT_BEGUN
            else:
                assert turn == step.turn or (turn == RELEASED and step.turn in BARRIERS)
                assert (found.on[place], found.site[place]) == (step.on, step.site)
                assert (found.l1_bytes[place], found.l2_bytes[place]) == (step.l1_bytes, step.l2_bytes)


@pytest.mark.slow
@given(ANY)
def test_checkpoints_do_not_show(steps: list[ThreadEvent]) -> None:
    """With a checkpoint every three steps the picture, the meetings and the first failure are the same."""
    columns, whole, cut = table(steps), History(7), History(7)
    whole.update(columns)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cluster_grid_history, "CHUNK", 3)
        cut.update(columns)
        assert (cut.failed_at, cut.meetings.all().tolist()) == (whole.failed_at, whole.meetings.all().tolist())
        for position in range(cut.count + 1):
            assert cut.at(position, columns).turn.tolist() == whole.at(position, columns).turn.tolist()


def test_a_barrier_meets_when_the_last_one_has_arrived() -> None:
    """The meeting is after the last arrival, also in a later round, and threads that have not run on yet are let go."""
    columns, history = table(meeting(3, rounds=2)), History(7)
    history.update(columns)
    assert history.meetings.all().tolist() == [3, 9]
    assert (history.meetings.after(0), history.meetings.after(3), history.meetings.after(9)) == (3, 9, None)
    assert (history.meetings.before(9), history.meetings.before(3)) == (3, None)
    assert history.at(2, columns).turn.tolist() == [ThreadState.BARRIER, ThreadState.BARRIER, NOT_BEGUN]
    assert history.at(3, columns).turn.tolist() == [RELEASED] * 3
    assert history.at(4, columns).turn.tolist() == [ThreadState.RUNS, RELEASED, RELEASED]


def test_a_thread_that_leaves_late_makes_no_meeting() -> None:
    """A thread that runs on when the others stand at the next barrier already leaves the meeting before."""
    steps = meeting(3, rounds=2, late=1)
    columns, history = table(steps), History(7)
    history.update(columns)
    assert history.meetings.all().tolist() == [3, 9]
    assert history.at(7, columns).turn.tolist() == [ThreadState.BARRIER, ThreadState.BARRIER, RELEASED]


def test_a_barrier_that_never_opens_has_no_meeting() -> None:
    """Threads that arrive and are closed there have met no other."""
    states = (ThreadState.BARRIER, ThreadState.FAILED)
    steps = [ThreadEvent(0, 7, 0, thread, state) for state in states for thread in range(2)]
    columns, history = table(steps), History(7)
    history.update(columns)
    assert (len(history.meetings), history.failed_at) == (0, 2)
    assert history.at(2, columns).turn.tolist() == [ThreadState.BARRIER] * 2


def test_dropped_steps_are_not_known() -> None:
    """A thread whose last step left the table is said to be not known; positions go on."""
    columns, history = table([], capacity=4), History(7)
    for first in range(0, 8, 2):
        columns.extend([ThreadEvent(first + n, 7, 0, n if first < 6 else n + 5, ThreadState.RUNS) for n in range(2)])
        history.update(columns)
    assert history.count == 8 and columns.start == 4
    assert history.at(4, columns).turn.tolist() == [NOT_KNOWN, NOT_KNOWN, NOT_BEGUN, NOT_BEGUN]
    assert history.at(8, columns).turn.tolist() == [ThreadState.RUNS] * 4
    assert (history.step(4, columns), history.step(5, columns)) == (-1, 0)
    assert history.until(6, columns) == 7


@pytest.mark.slow
def test_a_million_steps_are_quick() -> None:
    """Any position among a million steps of ten thousand threads is found without going through the steps."""
    count = 1_000_000
    random = np.random.default_rng(3)
    columns, history = Columns(STEPS, count, Texts()), History(7)
    columns.extend_columns({
        "at_ns": np.arange(count), "launch": np.full(count, 7), "block": random.integers(0, 800, count),
        "thread": random.integers(0, 12, count), "turn": random.integers(0, 6, count), "on": np.zeros(count),
        "site": random.integers(0, 9, count), "l1_bytes": np.ones(count), "l2_bytes": np.ones(count),
        "cluster": np.zeros(count),
    })  # fmt: skip
    history.update(columns)
    seconds = []
    for position in (1, 65_535, 500_000, 777_777, count):
        began = time.thread_time()
        standing = history.at(position, columns)
        seconds.append(time.thread_time() - began)
        assert len(standing.turn) == history.threads == 9600
    assert min(seconds) < FROZEN_MS / 1000
