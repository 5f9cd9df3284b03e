"""The page of a trace in a browser: offline, without an error, with the rows, the waits and what was found."""

from __future__ import annotations

from pathlib import Path

import pytest

from atops.base.trace.records import CounterSample, Kind, Status, Trace, TraceNames
from atops.trace.file import write_page
from tests.runtime.trace_records import record
from tests.widgets.host import Host

pytestmark = pytest.mark.slow

TRACE = Trace(
    (
        record(0, Kind.COPY_H2D, 0, 40_000, bytes=4096, engine=1),
        record(1, Kind.RECORD, 40_000, 40_000),
        record(2, Kind.WAIT_EVENT, 0, 40_000, stream=1, correlation=1),
        record(3, Kind.LAUNCH, 40_000, 90_000, stream=1, name="scale", engine=0),
        record(4, Kind.LAUNCH, 90_000, 100_000, stream=1, name="<img src=x>", status=Status.FAILED),
    ),
    (CounterSample(10, 0, 4096),),
    TraceNames(streams={(0, 0): "load", (0, 1): "compute"}),
)


def test_the_page_of_a_trace(host: Host, tmp_path: Path) -> None:
    """A wait is chosen and leads to what ended it; zoom and search show what they should; themes change the colours."""
    write_page(tmp_path / "trace.html", TRACE, "a run")
    host.open(tmp_path / "trace.html")
    told = host.evaluate("() => { choose(2); return $('told').innerText; }")
    assert "wait for event" in told and "in compute" in told and "waited for record event in load" in told
    host.evaluate("() => document.querySelector('#told button').click()")
    assert host.evaluate("() => view.chosen") == 1
    host.evaluate("() => { $('find').value = 'SCALE'; $('find').oninput(); }")
    assert host.evaluate("() => $('found').textContent") == "1 found"
    whole = host.evaluate("() => view.end - view.start")
    host.evaluate("() => $('in').click()")
    assert host.evaluate("() => view.end - view.start") == pytest.approx(whole / 2)
    host.evaluate("() => $('all').click()")
    assert host.evaluate("() => view.end - view.start") == pytest.approx(whole)
    at = "([ns, label]) => { const l = lines.find((each) => each.label === label); \
        return under({offsetX: x(ns), offsetY: l.top + 12 + AXIS - chart.scrollTop}); }"
    places = ([60_000, "compute"], [95_000, "compute"], [60_000, "load"])
    assert [host.evaluate(at, place) for place in places] == [3, 4, -1]
    page = "() => getComputedStyle(document.body).backgroundColor"
    colours = {host.evaluate(page)}
    for _ in range(3):
        host.evaluate("() => $('theme').click()")
        colours.add(host.evaluate(page))
    assert len(colours) == 2
    drawn = "() => [...new Uint8Array($('lines').getContext('2d').getImageData(0, 0, 900, 200).data)].some((v) => v)"
    assert host.evaluate(drawn)


@pytest.mark.parametrize("trace", [Trace(), Trace(TRACE.records[1:2])])
def test_a_page_with_little(host: Host, tmp_path: Path, trace: Trace) -> None:
    """A page without records says so; one whose records take no time is drawn."""
    write_page(tmp_path / "trace.html", trace)
    host.open(tmp_path / "trace.html")
    assert ("No records" in host.evaluate("() => $('told').innerText")) is (not trace.records)
