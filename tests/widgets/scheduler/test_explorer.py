"""Watching a check: counts while it runs, the failing run beside the small one, and how it ends early."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

import pytest

import atops
from atops.base.errors import InvalidType, InvalidValue
from atops.checking.actors import owner
from atops.checking.check_report import CheckReport
from atops.checking.search import Progress
from atops_widgets import Explorer
from atops_widgets.scheduler.told import runs_told, search_told
from tests.widgets.host import Host
from tests.widgets.pictures import keep
from tests.widgets.scheduler_programs import late, long


def over(explorer: Explorer) -> CheckReport:
    """Return the report, once pages have been told of it, too."""
    report = explorer.wait(30)
    assert report is not None
    return report


def test_it_is_the_check() -> None:
    """The report is that of `atops.check` with the same arguments; the counts are those of its runs."""
    explorer = Explorer(late, 50, "random", seed=3)
    report, same = over(explorer), atops.check(late, 50, "random", seed=3)
    assert (report.schedule, report.runs, str(report)) == (same.schedule, same.runs, str(same))
    assert explorer.verdict == "failed" and explorer.to_text() == str(same)
    found = explorer._found()
    assert (found["runs"], found["asked"], found["replays"]) == (report.runs, 50, report.replays)
    scheduler = explorer.scheduler()
    assert scheduler.schedule == report.schedule and scheduler.verdict.startswith("failed")


def test_both_runs_have_their_forced_choices_and_the_same_order_of_lanes() -> None:
    """As it was found and made small: steps by lanes, and what was forced in words."""
    report = atops.check(late, 50, "random", seed=3)
    first, small = runs_told(report, {("stream", 0, 1): "load"})
    assert (first["title"], small["title"]) == ("As it was found", "Made small")
    assert report.original is not None and first["schedule"] == report.original.schedule
    for told, run in ((first, report.original), (small, report)):
        trail = told["trail"]
        assert trail["picked"] == [each.position for each in run.forced] == [at for at, _ in told["forced"]]
        lanes = Counter(trail["actors"][lane] for lane, *_ in trail["steps"])
        assert sorted(lanes.values()) == sorted(Counter(map(owner, run.names)).values())
        assert "load" in trail["actors"] and ", not " in told["forced"][0][1]
    both = [each for each in first["trail"]["actors"] if each in small["trail"]["actors"]]
    assert both == [each for each in small["trail"]["actors"] if each in both]


def test_one_that_passes_shows_no_runs() -> None:
    """Where nothing fails there is no run to show; the sentence says what was done."""

    async def quiet() -> None:
        atops.Device(0).empty(4)

    explorer = Explorer(quiet, strategy="dpor")
    assert over(explorer).verdict == "proved" and explorer._runs == [] and "proved" in repr(explorer)
    assert "<script" not in explorer.to_html() and explorer._found()["sentence"] in explorer.to_html()
    assert explorer.scheduler().verdict in ("passed", "waits for a choice")


def test_it_ends_early() -> None:
    """A page's Stop, `cancel` and closing end the check after the run that goes on."""
    for end in (Explorer.cancel, Explorer.close, lambda each: each._handle_custom_msg({"type": "cancel"}, [])):
        explorer = Explorer(late, 100_000, "random", options=None, same_result=False)
        end(explorer)
        assert over(explorer).runs < 1_000


def test_it_tells_while_it_runs() -> None:
    """Frames come during the check, with counts that only grow, and the last one has the runs."""
    gate = threading.Event()
    frames: list[dict[str, Any]] = []

    async def slow() -> None:
        if len(frames) < 3:
            gate.wait(0.05)
        await late()

    explorer = Explorer(slow, 400, "random")
    explorer.send = lambda content, buffers=None: frames.append(content)  # type: ignore[method-assign]
    over(explorer)
    counts = [frame["found"]["runs"] for frame in frames]
    assert len(counts) >= 2 and counts == sorted(counts)
    assert frames[0]["found"]["on"] and not frames[-1]["found"]["on"]
    assert (frames[0]["state"], frames[-1]["state"]) == ("live", "ended")
    assert [run["title"] for run in next(frame["runs"] for frame in frames if frame.get("runs"))][-1] == "Made small"


def test_refusals() -> None:
    """What `atops.check` refuses is refused at once."""
    with pytest.raises(InvalidType):
        Explorer(5)  # type: ignore[arg-type]
    with pytest.raises(InvalidValue, match="strategy"):
        Explorer(late, strategy="luck")
    with pytest.raises(InvalidValue):
        Explorer(late, 0)


def test_counts_are_json() -> None:
    """What pages are told of a check has numbers and texts only, and no rate of what took no time."""
    assert search_told(Progress(asked=5), None, 0.0)["rate"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_picture(host: Host, theme: str) -> None:
    """The page shows the share that was run, kinds, and both runs; a step and a bar say what they are."""
    explorer = Explorer(late, 50, "random", seed=3)
    shown = host.show(explorer, theme)
    over(explorer)
    shown.until("view.runs && view.runs.length === 2 && view.rects.some((rect) => rect.trail === view.runs[1].trail)")
    shown.until("view.stop.hidden && view.say.textContent.startsWith('late fails under')")
    forced = shown.get("view.rects.filter((rect) => rect.picked).length")
    assert forced == sum(shown.get("view.runs.map((run) => run.forced.length)"))
    bar = shown.get("view.rects.find((rect) => rect.kind === 'thread')")
    shown.click(bar["x"] + 4, bar["y"] + 4)
    assert shown.get("view.say.textContent").startswith("kernel thread: ")
    assert shown.get("view.choices.querySelectorAll('li').length") == forced
    keep(shown, "explorer", theme)


@pytest.mark.slow
def test_long_runs_are_drawn_thin_and_scroll(host: Host) -> None:
    """Of a thousand steps those that fit are drawn; arrows move on, Stop ends the check."""

    async def fails() -> None:
        await long()
        raise ValueError("always")

    explorer = Explorer(fails, 3)
    shown = host.show(explorer)
    over(explorer)
    shown.until("view.rects.filter((rect) => rect.trail).length > 100")
    times = shown.get("Array.from({length: 30}, () => (view.draw(), view.drawMs)).sort((a, b) => a - b)")
    assert times[15] < 1000 / 30
    first = shown.get("Math.min(...view.rects.filter((rect) => rect.trail).map((rect) => rect.step))")
    shown.press("ArrowRight", "ArrowRight")
    shown.until("Math.min(...view.rects.filter((rect) => rect.trail).map((rect) => rect.step)) >= argument", first + 40)
