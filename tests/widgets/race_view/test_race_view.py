"""Races as pictures: from reports, traces and programs; sides, lines, bytes, and the order that is missing."""

from __future__ import annotations

import asyncio
import logging
import re
from pathlib import Path

import numpy as np
import pytest

import atops
from atops import kernels as k
from atops.base.errors import InvalidValue
from atops.trace.file import save
from atops_widgets import RaceView
from atops_widgets.race_view.sightings import Mend, Sided, Sighting, excerpts, mend_of
from tests.every import every
from tests.widgets.host import Host
from tests.widgets.pictures import keep

NOWHERE = Sided("a", "writes", True, "", 0, "")


@k.kernel
async def spread(out):
    """Read what thread 0 stores, without a barrier."""
    s, me = k.shared(12, np.int32), int(k.threadIdx.x)
    if me == 0:
        s[:] = 7
    out[me] = s[me]


@k.kernel
async def hasty(out):
    """Use what a transfer brings before it is there."""
    mine = k.local(4, np.int32)
    with k.dte_scope() as dte:
        event = k.memcpy_async(dte, mine, out)
        out[0] = mine[1]
        await event


async def racing() -> None:
    """Race two threads of a kernel, a copy with a fill, and a thread with its own transfer."""
    device = atops.Device(0)
    async with device.create_stream(name="load") as load, device.create_stream(name="work") as work:
        work.launch(spread, (1, 12), work.zeros(12, np.int32))
        x = device.empty(1024)
        load.copy(x, np.ones(1024, np.float32))
        work.fill(x[16:128], 2.0)
        work.launch(hasty, (1, 1), work.zeros(4, np.int32))


async def quiet() -> None:
    """Race nothing."""
    async with atops.Device(0).create_stream() as stream:
        await stream.fetch(stream.zeros(4))


def test_a_run_is_shown_with_its_schedule() -> None:
    """Each race has its kind, both sides with place, bytes, lines, and what the advice comes to."""
    view = RaceView.of(racing)
    mends = {race.kind: mend_of(race) for race in view.races}
    assert mends["race in shared memory"] == Mend("barrier", "await k.syncthreads()", 0)
    assert mends["data race"] == Mend("event", "event = load.record(); work.wait(event)", 0)
    flight = mends["transfer in flight"]
    assert flight is not None and flight.how == "wait"
    [race] = [race for race in view.races if race.kind == "data race"]
    assert (race.ranges, race.size) == (((64, 512),), 4096)
    places = [f"test_race_view.py:{line}" for line in lines_of("load.copy", "work.fill")]
    assert [side.place for side in race.sides] == places
    assert view.schedule is not None
    assert RaceView.of(racing, view.schedule).races == view.races
    atops.run(racing, atops.EmulatorOptions(detect=True, schedule=view.schedule, clock="virtual"))
    assert RaceView().races == view.races


def test_what_the_picture_says_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Races that a view of a run shows are not in the log as well; what else the run logs is."""

    async def telling() -> None:
        await racing()
        logging.getLogger("atops.stream").warning("something else")

    assert RaceView.of(telling).races
    assert [record.name for record in caplog.records] == ["atops.stream"]
    caplog.clear()
    atops.run(racing, atops.EmulatorOptions(detect=True, clock="virtual"))
    assert {record.name for record in caplog.records} == {"atops.races"}


def lines_of(*texts: str) -> list[int]:
    """Return the numbers of the first lines of this file that begin with texts."""
    own = Path(__file__).read_text("utf-8").splitlines()
    return [next(at for at, line in enumerate(own, 1) if line.strip().startswith(text)) for text in texts]


def test_reports_traces_and_files_show_the_same(tmp_path: Path) -> None:
    """A report, the trace and its file have the same races, without words that only one of them has."""

    async def main() -> None:
        await racing()
        save(tmp_path / "run.gz", atops.current_driver().tracer.snapshot())

    atops.run(main, atops.EmulatorOptions(detect=True, clock="virtual"))
    report, saved = RaceView(), RaceView(tmp_path / "run.gz")
    both = [[(race.kind, race.ranges, [side[:2] for side in race.sides]) for race in view.races]
            for view in (report, saved)]  # fmt: skip
    assert sorted(both[0]) == sorted(both[1]) and len(both[0]) == 3
    assert report.races == RaceView(atops.report()).races
    with pytest.raises(InvalidValue, match="source expects a report"):
        RaceView(5)  # type: ignore[arg-type]


def test_the_page_has_both_pictures_and_needs_no_script(tmp_path: Path) -> None:
    """A dashed edge for each race, an order for each that has one, the bytes, the lines, marked, and all as text."""
    view = RaceView.of(racing)
    page = view.to_html(tmp_path / "races.html")
    assert "<script" not in page and page in (tmp_path / "races.html").read_text("utf-8")
    assert page.count('data-race="missing"') == page.count('data-race="order"') == 3
    assert page.count('data-race="bytes"') >= 1 and page.count("<details open>") == 1
    assert len(re.findall(r"<mark>  1 +\d+ +load\.copy", page)) == 1
    assert f"<code>{view.schedule}</code>" in page
    text = view.to_text()
    assert all(each in text for each in ("s[:] = 7", "work.fill(x[16:128], 2.0)", "await k.syncthreads()"))


def test_nothing_found_and_runs_that_fail_say_so() -> None:
    """Where there is no race it says so; an error that ends the run is told, in strict mode the race's own."""
    assert RaceView.of(quiet).to_text().startswith("no race was found") and "no race" in RaceView.of(quiet).to_html()

    async def failing() -> None:
        await quiet()
        raise ValueError("<oh>")

    view = RaceView.of(failing)
    assert "ValueError: <oh>" in view.to_text() and "ValueError: &lt;oh&gt;" in view.to_html()

    async def hurried() -> None:
        async with atops.Device(0).create_stream() as one, atops.Device(0).create_stream() as two:
            row = atops.Device(0).zeros(4)
            one.fill(row, 7)
            await two.fetch(row)

    strict = RaceView.of(hurried, options=atops.EmulatorOptions(strict=True))
    assert "DataRace" in strict.ended and strict.races


def test_inside_a_running_loop() -> None:
    """A notebook's cell runs inside a loop."""

    async def cell() -> int:
        return len(RaceView.of(racing).races)

    assert asyncio.run(cell()) == 3


@every("advice, kind, sides, expected", [
    ("nothing orders them", "data race", "ab", None),
    ("enqueue what is waited for; `x`", "deadlock", "ab", None),
    ("`event = b.record(); a.wait(event)` would", "use after free", "ab", ("event", 1)),
    ("`topsEventRecord(event, b); topsStreamWaitEvent(a, event, 0)` would", "use after free", "ab", ("event", 1)),
    ("`hipEventRecord(event, 0); hipStreamWaitEvent(a, event, 0)` would", "", ["a", "null stream"], ("event", 1)),
    ("`event = a_1.record(); b.wait(event)` would", "data race", ["a 1", "b"], ("event", 0)),
    ("`await` the event of the transfer of f.py:3 before", "transfer in flight", "aa", ("wait", 0)),
    ("blocks run in any order: launch cooperatively and `await k.syncblocks()` between", "race", "ab", ("barrier", 0)),
])  # fmt: skip
def test_what_advice_comes_to(advice: str, kind: str, sides: list[str], expected: tuple[str, int] | None) -> None:
    """A barrier, an event from the stream that records, a wait; none where no order is missing."""
    one, two = (NOWHERE._replace(actor=each) for each in sides)
    found = mend_of(Sighting(kind, "memory", (), advice, (one, two)))
    assert (found and (found.how, found.of)) == expected


def test_lines_close_together_are_shown_once(tmp_path: Path) -> None:
    """Two sides within eight lines share an excerpt, others have their own, unknown files none."""
    path = tmp_path / "program.py"
    path.write_text("".join(f"line {number}\n" for number in range(1, 41)), "utf-8")

    def at(line: int) -> Sided:
        return NOWHERE._replace(file=str(path), line=line, function="main")

    [near] = excerpts([at(14), at(10)])
    assert [line for line, _, _ in near.lines] == list(range(8, 17))
    assert [sides for _, _, sides in near.lines if sides] == ["2", "1"]
    assert len(excerpts([at(1), at(40)])) == 2 and excerpts([NOWHERE, at(99)]) == []
    assert [sides for _, _, sides in excerpts([at(5), at(5)])[0].lines if sides] == ["1 2"]


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_picture(host: Host, theme: str, tmp_path: Path) -> None:
    """In a browser the first race is open, the others open by keys, and no text is cut by a line or a shape."""
    RaceView.of(racing).to_html(tmp_path / "races.html", "light" if theme == "light" else "dark")
    host.open(tmp_path / "races.html")
    assert host.evaluate("() => [...document.querySelectorAll('details')].map((each) => each.open)") == [
        True, False, False]  # fmt: skip
    host.evaluate("() => document.querySelectorAll('summary')[1].focus()")
    host.thread.call(host.page.keyboard.press, "Enter")
    assert host.evaluate("() => document.querySelectorAll('details')[1].open")
    wide = host.evaluate("() => [...document.querySelectorAll('svg text')].map((each) => each.getBBox())"
                         ".filter((box) => box.width && (box.x < 0 || box.x + box.width > 461)).length")  # fmt: skip
    assert wide == 0
    keep(host.shown("section.atops"), "races", theme)
