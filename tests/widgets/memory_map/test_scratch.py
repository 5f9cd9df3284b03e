"""L1 and L2 of a kernel at a moment, from the steps of its threads."""

from __future__ import annotations

from atops.base.trace.records import ThreadEvent, ThreadState
from atops_widgets.feed.columns import STEPS, Columns, Texts
from atops_widgets.memory_map.scratch import scratch_at


def told(*rows: ThreadEvent) -> Columns:
    """Return steps as columns."""
    steps = Columns(STEPS, 100, Texts())
    steps.extend(rows)
    return steps


STEPS_TOLD = told(
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
    assert scratch_at(STEPS_TOLD, 9) is None and scratch_at(told(), None) is None
