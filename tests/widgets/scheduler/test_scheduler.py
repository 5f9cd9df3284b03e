"""Being the scheduler in Python: picks, going back and forth, schedules as strings, and finding one that fails."""

from __future__ import annotations

import asyncio
import json
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

import atops
from atops.base.errors import IllegalState, InvalidType, InvalidValue
from atops.checking.stepper import Stepper
from atops_widgets import Scheduler
from atops_widgets.scheduler.player import Player
from atops_widgets.scheduler.told import Trail, state_told, trail_told
from tests.widgets.scheduler_programs import late


def heard(scheduler: Scheduler) -> list[dict[str, Any]]:
    """Return a list to which the frames that a page would get are appended."""
    frames: list[dict[str, Any]] = []
    scheduler.send = lambda content, buffers=None: frames.append(content)  # type: ignore[method-assign]
    return frames


def says(scheduler: Scheduler, **message: Any) -> None:
    """Have a page say something, and return when that is done and nothing is left to look ahead at."""
    scheduler._handle_custom_msg(message, [])
    if (thread := scheduler._player._thread) is not None:
        thread.join(10)


def test_first_come_passes_and_the_string_repeats_it() -> None:
    """Left to itself it passes; the schedule is a trait, runs the program again, and leads another widget there."""
    scheduler = Scheduler(late)
    seen: list[str] = []
    scheduler.observe(lambda change: seen.append(change["new"]), "verdict")
    assert scheduler.verdict == "waits for a choice" and scheduler.schedule == ""
    assert scheduler.finish() == "passed" and seen == ["passed"]
    assert atops.run(late, atops.EmulatorOptions(schedule=scheduler.schedule)) == 12
    again = Scheduler(late, scheduler.schedule)
    assert (again.verdict, again.schedule) == ("passed", scheduler.schedule)
    assert again.stepper.picks == scheduler.stepper.picks


def test_back_and_forth() -> None:
    """Picks that were taken back can be made again, until another one is picked."""
    scheduler = Scheduler(late)
    scheduler.finish("random", seed=3)
    picks, end = scheduler.stepper.picks, scheduler.verdict
    assert len(scheduler.back(2)) > 1 and scheduler.stepper.picks == picks[:-2]
    scheduler.forward()
    assert scheduler.stepper.picks == picks[:-1]
    scheduler.forward(99)
    assert scheduler.stepper.picks == picks and scheduler.verdict == end
    scheduler.go(1)
    other = next(each for each in scheduler.choices() if each.name != picks[1])
    scheduler.pick(other)
    scheduler.forward()
    assert scheduler.stepper.picks == (picks[0], other.name)
    scheduler.back(99)
    assert scheduler.stepper.picks == ()


def test_one_that_breaks_it_is_found_and_loaded() -> None:
    """A search ends at a schedule that fails, which is then where the widget stands."""
    scheduler = Scheduler(late)
    report = scheduler.search()
    assert report.verdict == "failed" and scheduler.schedule == report.schedule
    assert scheduler.verdict.startswith("failed: assertion") and not scheduler.choices()
    with pytest.raises(AssertionError, match="too late"):
        atops.run(late, atops.EmulatorOptions(schedule=scheduler.schedule))


def test_refusals_leave_it_where_it_stands() -> None:
    """What makes no sense raises, names what would, and changes nothing."""
    scheduler = Scheduler(late)
    with pytest.raises(InvalidValue, match="what could come is"):
        scheduler.pick("nobody")
    with pytest.raises(InvalidValue, match="'first come', 'same' or 'random'"):
        scheduler.finish("last come")  # type: ignore[arg-type]
    with pytest.raises(InvalidValue):
        scheduler.load("v1.nonsense")
    assert scheduler.stepper.picks == () and len(scheduler.choices()) > 1
    scheduler.finish()
    with pytest.raises(IllegalState, match="is over: passed"):
        scheduler.pick(0)
    with pytest.raises(InvalidType):
        Scheduler(5)  # type: ignore[arg-type]


def test_a_page_picks_by_number_and_a_page_that_is_behind_does_not() -> None:
    """A message picks where the page stands; an older page's pick, and what is not understood, does nothing."""
    scheduler = Scheduler(late)
    frames = heard(scheduler)
    first = scheduler.choices()
    says(scheduler, type="pick", option=1, at=0)
    assert scheduler.stepper.picks == (first[1].name,)
    for message in ({"option": 0, "at": 0}, {"option": 99, "at": 1}, {"option": "0", "at": 1}):
        says(scheduler, type="pick", **message)
    scheduler._handle_custom_msg("what?", [])
    assert scheduler.stepper.picks == (first[1].name,)
    says(scheduler, type="step", by=-1)
    assert scheduler.stepper.picks == ()
    says(scheduler, type="step", by=1)
    assert scheduler.stepper.picks == (first[1].name,)
    says(scheduler, type="load", schedule="v1.nonsense")
    assert any("v1.nonsense" in frame["say"] for frame in frames)
    says(scheduler, type="finish", policy="same")
    run = frames[-1]["run"]
    assert run["over"] and run["verdict"] == scheduler.verdict and run["position"] == run["known"]


def test_what_is_closed_looks_no_further_ahead() -> None:
    """Its page asks no more what a choice would do, so no other choice is tried."""
    runs: list[int] = []

    async def program() -> None:
        runs.append(len(runs))
        if len(runs) == 2:  # the first one that looks ahead
            player.close()
        async with asyncio.TaskGroup() as group:
            for _ in range(3):
                group.create_task(asyncio.sleep(0))

    player = Player(program, {}, lambda: None)
    player.ask("do", player.begin)
    if (thread := player._thread) is not None:
        thread.join(10)
    assert len(runs) == 3, "one to the first choice, and two that look at one of those"
    scheduler = Scheduler(late)
    scheduler.close()
    assert scheduler._player.closed and len(scheduler.choices()) > 1, "in Python it goes on"


def test_frames_tell_names_memory_queues_and_what_a_pick_would_do() -> None:
    """Streams and variables have the program's names; what a pick writes is said before, and marked after."""
    scheduler = Scheduler(late)
    frames = heard(scheduler)
    says(scheduler, type="go", to=0)
    for _ in range(20):
        run = frames[-1]["run"]
        if any("row[0]" in each["would"] for each in run["options"]):
            break
        wanted = [each["words"].startswith("load") for each in run["options"]]
        at = wanted.index(True) if any(wanted) else len(wanted) - 1
        says(scheduler, type="pick", option=at, at=run["position"])
    assert {"load", "work"} >= {queue["name"] for queue in run["queues"]}
    [at] = [at for at, each in enumerate(run["options"]) if "row[0]: 0 to 7" in each["would"]]
    assert run["options"][at]["words"].startswith("load")
    says(scheduler, type="pick", option=at, at=run["position"])
    [row] = [each for each in frames[-1]["run"]["memory"] if each["name"] == "row"]
    assert (row["values"], row["changed"], row["was"]) == (("7", "7"), (0, 1), ("0", "0"))


def test_the_trail_is_told_once_per_run() -> None:
    """Going back sends no steps again; another pick does; a page that says hello gets all."""
    scheduler = Scheduler(late)
    scheduler.finish()
    frames = heard(scheduler)
    scheduler.back(2)
    assert frames and not any("trail" in frame for frame in frames)
    scheduler.pick(1)
    assert any("trail" in frame for frame in frames)
    says(scheduler, type="nothing")
    done = threading.Event()
    scheduler.send = lambda content, buffers=None: (frames.append(content), done.set())  # type: ignore[method-assign]
    scheduler._handle_custom_msg({"type": "hello", "frame": 0}, [])
    assert done.wait(10) and len(frames[-1]["trail"]["steps"]) == len(scheduler.stepper.names)


def test_steps_are_told_by_actor() -> None:
    """Of a step: whose lane, which kind, its words, its place."""
    names = (("task", "0"), ("stream", 0, 1), ("engine", "stream 0 1", 0), ("stream", 0, 2))
    told = trail_told(Trail(names, ("a.py:3", "", "", ""), (1, 3), {("stream", 0, 1): "load"}))
    assert told["actors"] == ["task 0", "load", "stream 2"] and told["picked"] == [1, 3]
    assert [[lane, kind, told["texts"][words], told["texts"][place]] for lane, kind, words, place in told["steps"]] == [
        [0, "task", "task 0", "a.py:3"], [1, "stream", "load", ""], [1, "engine", "load, engine 0", ""],
        [2, "stream", "stream 2", ""],
    ]  # fmt: skip


def test_inside_a_running_loop_and_from_an_observer() -> None:
    """Calls return when they are done in a notebook's loop, too, and an observer may pick."""

    async def cell() -> Scheduler:
        scheduler = Scheduler(late)
        scheduler.observe(lambda _: scheduler.back(), "verdict")
        scheduler.finish()
        return scheduler

    scheduler = asyncio.run(cell())
    assert scheduler.verdict == "waits for a choice" and scheduler.stepper.picks


def test_an_interrupt_ends_a_program_that_computes_for_ever() -> None:
    """Ctrl-C in the cell that waits ends the run, too: else its thread would compute until the process is gone."""
    ends: list[str] = []

    def endless() -> None:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        try:
            while True:
                pass
        except KeyboardInterrupt:
            ends.append("ended")
            raise

    with pytest.raises(KeyboardInterrupt):
        Scheduler(endless)
    board = Scheduler(late)  # on a thread that goes on
    assert ends == ["ended"] and board.verdict == "waits for a choice"
    board.close()


def test_an_interrupt_ends_what_its_cell_waits_for_alone() -> None:
    """What another asked for goes on, and what waits behind it is not done any more."""
    player = Player(late, {}, lambda: None)
    go_on, done = threading.Event(), list[str]()

    def first() -> None:
        while not player._requests:  # the second
            pass
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        assert go_on.wait(10)
        done.append("first")

    over = player.ask("page", first)
    with pytest.raises(KeyboardInterrupt):
        player.do(lambda: done.append("second"))
    go_on.set()
    assert over.wait(10)
    player.do(lambda: done.append("third"))
    assert done == ["first", "third"] and player.error == ""
    player.close()


def test_text_and_html_say_where_it_stands(tmp_path: Path) -> None:
    """Both have what could come, memory, queues and schedule; HTML has no script and escapes what programs say."""
    scheduler = Scheduler(late)
    assert "what could come next" in scheduler.to_text()
    page = scheduler.to_html()
    assert "What can come next" in page and "fill row with 7" in page and "<script" not in page
    assert scheduler._corner() == "live"
    scheduler.search()
    assert scheduler._corner() == "the run is over"
    scheduler.to_html(tmp_path / "run.html")
    assert scheduler.schedule in (tmp_path / "run.html").read_text("utf-8")
    assert "the fill came too late" in scheduler.to_text() and "late: failed" in repr(scheduler)
    scheduler.stop()
    assert scheduler._corner() == "ended" and set(scheduler._repr_mimebundle_()[0]) == {"text/html", "text/plain"}
    scheduler.close()
    scheduler.close()


def test_the_state_is_json() -> None:
    """A run's state at every place is told in a few kilobytes: a page gets one for each pick."""
    stepper = Stepper(late, looks=True)
    while stepper.choices():
        assert len(json.dumps(state_told(stepper, len(stepper.picks), 0, {}))) < 4_000
        stepper.pick(0)
