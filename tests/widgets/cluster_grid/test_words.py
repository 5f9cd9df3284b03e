"""Waiting threads in words, and the source lines of a launch: of kernels that ran, and of steps made by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from atops.base.trace.records import Place, Status, ThreadEvent, ThreadState, Trace, TraceNames
from atops_widgets import ClusterGrid, Feed
from atops_widgets.cluster_grid.history import History
from atops_widgets.cluster_grid.scene import sections
from atops_widgets.cluster_grid.words import counts, numbers, stuck, waits
from tests.widgets.cluster_grid_traces import deadlocked, divergent, summing
from tests.widgets.traces import double_buffering

HERE = "cluster_grid_traces.py"


def told(trace: Trace, position: int | None = None) -> tuple[list[str], str]:
    """Return the waits of a trace's launch at a position, as lines, and what is wrong."""
    widget = ClusterGrid(trace)
    if position is not None:
        widget.heard({"type": "step", "to": position})
    scene = widget.scene(widget.window)
    return [" / ".join(each[:4]) for each in scene.told["waits"]], scene.told["verdict"]


def by_hand(*steps: tuple[int, int, ThreadState, int]) -> Trace:
    """Return a trace of one launch with these steps: block, thread, turn, number."""
    return Trace((), steps=tuple(ThreadEvent(at, 7, *step) for at, step in enumerate(steps)))


def test_a_trace_without_a_launch_says_so() -> None:
    """It is not told to record threads, of which it would have none."""
    widgets = ClusterGrid(Trace()), ClusterGrid(double_buffering())
    none, threads = (each.scene(each.window).told["say"] for each in widgets)
    assert none == "This trace holds no launch of a kernel." and "threads=True" in threads
    records = double_buffering().records
    dropped = ClusterGrid(Trace(tuple(each._replace(status=Status.ABORTED) for each in records)))
    assert dropped.scene(dropped.window).told["say"] == "None of the kernels that were launched has begun."


def test_numbers_read_as_people_write_them() -> None:
    """Runs of numbers are ranges; many runs are cut."""
    assert numbers("thread", [3]) == "thread 3"
    assert numbers("thread", [0, 1, 2, 7]) == "threads 0-2, 7"
    assert numbers("block", list(range(0, 40, 2))).endswith("12, 14 and more")


def test_a_deadlock_names_what_will_never_come() -> None:
    """Where the launch failed, the block's waiting threads, their line and the one that left the kernel are named."""
    lines, verdict = told(deadlocked())
    assert lines == [
        f"block 0: threads 0-1, 3 / syncthreads, {HERE}:38 / thread 2 (ended) / will never come: it cannot open"
    ]
    assert verdict == "Deadlock: a barrier can never open"
    after, same = told(deadlocked(), 10**6)
    assert (after, same) == (lines, verdict)  # when all were closed, it is still told how they stood


def test_a_divergent_barrier_is_told_though_it_opens() -> None:
    """Threads that meet at different lines of one barrier are told, with both lines."""
    lines, verdict = told(divergent(), 6)
    assert f"syncthreads, {HERE}:46" in lines[0] and "may still come" in lines[0]
    lines, verdict = told(divergent(), 7)
    assert verdict == "Divergent barrier: threads of one block meet at different lines"
    assert f"syncthreads, {HERE}:46, {HERE}:48 (divergent: several lines)" in lines[0]


@pytest.mark.slow
def test_a_barrier_that_opened_has_no_waiters() -> None:
    """Threads that a barrier let go and that did not run on yet wait for no thread, though others have ended."""
    for position in range(289):
        assert "never" not in told(summing(), position)[1]


def test_blocks_that_stand_alike_are_one_line() -> None:
    """Two blocks with the same threads at the same line are told together; one that stands otherwise alone."""
    steps = [(block, thread, ThreadState.RUNS, -1) for block in range(3) for thread in range(2)]
    steps += [(0, 0, ThreadState.BARRIER, 0), (1, 0, ThreadState.BARRIER, 1), (2, 1, ThreadState.BARRIER, 2)]
    lines, _ = told(by_hand(*steps))
    assert [line.split(" / ")[0] for line in lines] == ["blocks 0-1: thread 0", "block 2: thread 1"]


@pytest.mark.parametrize(("turn", "on", "words"), [
    (ThreadState.GRID_BARRIER, 0, "2 threads of blocks 0-1 / syncblocks / 1 running / may still come"),
    (ThreadState.COUNTED_BARRIER, 4, "2 threads of blocks 0-1 / counted barrier 4 / more arrivals / may still come"),
    (ThreadState.SIGNAL, 9, "2 threads of blocks 0-1 / signal 9 / a write to it / may still come"),
])  # fmt: skip
def test_other_waits(turn: ThreadState, on: int, words: str) -> None:
    """The grid's barrier, counted barriers and signals are told with their numbers and the missing threads."""
    lines, verdict = told(by_hand((0, 0, turn, on), (1, 0, turn, on), (1, 1, ThreadState.RUNS, -1)))
    assert lines == [words] and verdict == ""


def test_no_thread_can_go_on() -> None:
    """If all that have not ended wait for signals, no thread can go on by itself; a transfer ends by itself."""
    _, verdict = told(by_hand((0, 0, ThreadState.SIGNAL, 1), (0, 1, ThreadState.ENDED, -1)))
    assert verdict == "No thread can go on by itself"
    _, verdict = told(by_hand((0, 0, ThreadState.SIGNAL, 1), (0, 1, ThreadState.DTE, 5)))
    assert verdict == ""


def test_a_thread_that_raised_is_named() -> None:
    """The first thread that failed while it ran is told, and that the others were closed by it."""
    barrier, runs, failed = ThreadState.BARRIER, ThreadState.RUNS, ThreadState.FAILED
    steps = ((0, 0, barrier, 0), (0, 1, runs, -1), (0, 1, failed, -1), (0, 0, failed, -1))
    assert told(by_hand(*steps))[1] == "Thread 1 of block 0 failed, which closed the others"


def test_waits_of_nothing() -> None:
    """A launch without steps has no waits, and is not stuck."""
    feed = Feed()
    standing = History(7).at(0, feed.steps)
    assert (waits(standing, str), counts(standing), stuck(standing, [])) == ([], {}, False)


def test_sections_are_whole_functions() -> None:
    """A place's function is shown from its decorator to its end, the one with most places first."""
    file = str(Path(__file__).parents[1] / HERE)
    text = Path(file).read_text(encoding="utf-8").splitlines()
    places = {0: Place(file, 38, "lost"), 1: Place(file, 25, "total"), 2: Place(file, 27, "total")}
    found = sections(places, places)
    assert [section.title for section in found] == [f"total, {HERE}", f"lost, {HERE}"]
    assert found[0].rows[0] == (18, "@k.kernel") and found[0].sites == (1, 2)
    assert all(text[line - 1] == row for section in found for line, row in section.rows)


def test_a_file_that_is_not_here_has_line_numbers_only(tmp_path: Path) -> None:
    """No text is made up for a file of another machine, for one that is shorter by now, or for what is no Python."""
    (tmp_path / "short.py").write_text("x = 1\n", encoding="utf-8")
    (tmp_path / "secret.txt").write_text("a\nb\nc\n", encoding="utf-8")
    for name in ("gone.py", "short.py", "secret.txt"):
        (section,) = sections([0, 1], {0: Place(str(tmp_path / name), 3, "f"), 1: Place(str(tmp_path / name), 2, "f")})
        assert section.rows == ((2, ""), (3, "")) and "not on this machine" in section.title


def test_long_functions_are_cut_about_the_lines_where_threads_stand(tmp_path: Path) -> None:
    """At most sixty lines are shown, among them the ones that matter; what does not parse has lines around."""
    body = "".join(f"    x = {n}\n" for n in range(200))
    (tmp_path / "long.py").write_text(f"def f():\n{body}", encoding="utf-8")
    (section,) = sections([0], {0: Place(str(tmp_path / "long.py"), 150, "f")})
    assert len(section.rows) <= 60 and (150, "    x = 148") in section.rows
    (tmp_path / "odd.py").write_text("%magic\n\tx = 1\n" * 9, encoding="utf-8")
    (section,) = sections([0], {0: Place(str(tmp_path / "odd.py"), 9, "f")})
    assert [line for line, _ in section.rows] == list(range(6, 13))
    assert (8, "    x = 1") in section.rows


def test_names_of_places_stay_in_their_line() -> None:
    """A file or function with control characters in its name cannot move a cursor."""
    names = TraceNames(sites={0: Place("a\x1b\n.py", 3, "f\x1b")})
    trace = Trace((), names=names, steps=(ThreadEvent(0, 7, 0, 0, ThreadState.BARRIER, 0, 0),))
    assert "\x1b" not in ClusterGrid(trace).to_text()
