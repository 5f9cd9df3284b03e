"""What the host did: calls and waits, the lanes they stand in, and the commands they are joined to."""

from __future__ import annotations

import numpy as np

import atops
from atops.base.trace.records import HostWait, Kind, Status, Trace, TraceRecord
from atops.trace.join import BoardTrace, join
from atops_widgets import Feed, Timeline
from atops_widgets.feed.host import HOST, LANES, PROGRAM_WAITS, WAIT_LANES
from tests.widgets.traces import with_host


def marks(feed: Feed, seq: int) -> tuple[list[int], list[int], str]:
    """Select something; return what is marked of the host, or of commands where that is the host's, and the text."""
    feed.selection.select(seq)
    found = feed.marks()
    of_host = [[each for each in seqs if (each >= HOST) != (seq >= HOST)] for seqs in (found.before, found.after)]
    return of_host[0], of_host[1], found.text


def test_calls_and_waits_are_joined_to_commands() -> None:
    """A call marks what it enqueued, a wait what it waited for; these mark them; all of it is told in words."""
    feed = Feed(with_host())
    rows = feed.host.rows
    assert rows["kind"].tolist() == [Kind.API] * 4 + [PROGRAM_WAITS] * 2
    assert rows["stream"].tolist() == [0, 0, 0, 0, WAIT_LANES, WAIT_LANES + 1]
    assert marks(feed, HOST + 1)[:2] == ([], [8])
    assert "API call topsMemcpyAsync, at 46 µs for 6 µs; it enqueued number 8" in marks(feed, HOST + 1)[2]
    assert marks(feed, HOST + 3)[:2] == ([], [])
    assert marks(feed, HOST + 4)[:2] == ([3], [])
    assert marks(feed, HOST + 4)[2] == "the program waits at main.py:7 in main, at 20 µs for 66 µs; for number 3"
    assert marks(feed, 8)[:2] == ([HOST + 1], []) and marks(feed, 8)[2].endswith("; by the call topsMemcpyAsync")
    assert marks(feed, 3)[:2] == ([], [HOST + 4]) and "the program waits for it at main.py:7" in marks(feed, 3)[2]
    assert marks(feed, 7)[:2] == ([], []) and marks(feed, HOST + 99) == ([], [], "")
    assert feed.trace() == with_host()


def test_a_command_is_of_the_innermost_call() -> None:
    """Of calls that went on at once the first to end with a command so new; what was over, or came later, is none."""

    def call(start: int, end: int, newest: int) -> TraceRecord:
        return TraceRecord(-1, Kind.API, 0, -1, start, start, end, Status.DONE, correlation=newest)

    calls = [call(20, 40, 5), call(50, 60, 6), call(0, 100, 7), call(0, 100, 7), call(90, 100, 7)]
    commands = [
        TraceRecord(seq, Kind.FILL, 0, 1, at, at, 200, Status.DONE) for seq, at in ((4, 5), (5, 30), (6, 55), (7, 95))
    ]
    host = Feed(Trace((*calls, *commands))).host
    seqs, submitted = np.array([4, 5, 6, 7, 8]), np.array([5, 30, 55, 95, 96])
    assert host.calls_of(seqs, submitted).tolist() == [-1, HOST, HOST + 1, HOST + 4, -1]


def test_lanes_hold_what_goes_on_at_once() -> None:
    """Nothing overlaps in a lane but the last; what ends as another begins shares its lane."""
    waits = (HostWait(0, 10, 1, -1), HostWait(10, 20, 1, -1), *(HostWait(15, 30, 1, -1) for _ in range(9)))
    lanes = Feed(Trace(waits=waits)).host.rows["stream"] - WAIT_LANES
    assert lanes.tolist() == [0, 0, 1, 2, 3, 4, *[LANES - 1] * 5]


def test_joined_traces_keep_the_links_of_calls() -> None:
    """The commands of a second board are numbered anew, and its calls still tell theirs."""
    both = join([BoardTrace(with_host(), label, 1, False) for label in "ab"])
    newest = {record.correlation for record in both.records if record.kind is Kind.API}
    assert newest == {-1, 0, 8, 16, 48, 56, 64}


def test_waits_are_noted_while_a_timeline_looks() -> None:
    """Live: from when it is made until it is closed; a program that nobody looks at notes none."""

    async def main() -> None:
        driver = atops.current_driver()
        stream = atops.Device(0).create_stream(name="work")
        x = stream.upload(np.arange(4, dtype=np.int32))
        await stream.fill(x, 1)
        assert not driver.tracer.notes_waits and driver.tracer.waits() == []
        widget = Timeline(driver)
        await stream.fill(x, 3)
        widget.feed.poll()
        assert len(widget.feed.trace().waits) == 1
        assert "test_host.py" in widget.feed.texts.all[widget.feed.host.rows["name"][0]]
        assert "awaited here" in widget.to_text() and "waits" in widget.to_svg()
        widget.close()
        assert not driver.tracer.notes_waits

    atops.run(main, atops.EmulatorOptions(clock="virtual"))
