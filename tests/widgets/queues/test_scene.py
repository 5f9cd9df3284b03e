"""What the queues show of a feed: rows, tokens, words, marks, saved moments; live, without details, and how fast."""

from __future__ import annotations

import re
import time

import numpy as np
import pytest

from atops.base.errors import AtopsError
from atops.base.trace.records import Kind, Phase, Status, Trace, TraceNames, TraceRecord
from atops_widgets.drawing.scene import Window
from atops_widgets.feed.feed import Feed, feed_of
from atops_widgets.queues.queues import Queues
from atops_widgets.queues.scene import MOST_ROWS, Board
from tests.runtime.boards import device
from tests.runtime.latch import StreamLatch
from tests.widgets.frames import FROZEN_MS
from tests.widgets.queue_traces import COMPUTE, LOAD, STORE, US, Story, standing


def many_streams(count: int) -> Trace:
    """Return a trace of many streams, of which every tenth holds a command."""
    story = Story()
    for stream in range(100, 100 + count):
        story.ran(1, 2, Kind.FILL, stream, size=16)
    for stream in range(100, 100 + count, 10):
        story.submit(3, Kind.LAUNCH, stream, name="late")
    return story.trace()


def rows(feed: Feed, **options: object) -> dict[str, dict[str, object]]:
    """Return the rows of a scene by their labels."""
    return {row["label"]: row for row in Board(feed).scene(Window(options=options)).told["rows"]}


def test_every_reason_is_told_in_words() -> None:
    """What waits for what: event, its stream and what is before it; value and address; cluster; and what failed."""
    found = rows(Feed(standing(50).trace()))
    reasons = {label: str(row["reason"]) for label, row in found.items()}
    assert reasons["load"] == "copy host to device of 64 MiB (number 10) runs since 101 µs"
    assert reasons["compute"] == (
        "number 21 [pipeline.py:12] waits since 110 µs for the event of number 12 in load, behind 2 commands; "
        "load runs copy host to device of 64 MiB (number 10)"
    )
    assert reasons["wait for host"] == "number 30 [pipeline.py:14] waits since 115 µs for a value at 0x1040 of device 0"
    assert reasons["normalise"].endswith("for a free cluster: kernel matmul (number 32) in backlog runs there")
    assert reasons["debug"] == ""
    assert found["debug"]["failure"] == "kernel probe (number 84) failed; 3 skipped behind it"
    assert [(row["open"], row["capacity"]) for row in found.values()][:3] == [(11, 16), (3, 0), (6, 6)]


def test_other_reasons() -> None:
    """Null-stream order, a call behind a call, a busy copy engine, a cooperative launch, an abort."""
    story = Story()
    first = story.submit(1, Kind.COPY_H2D, LOAD, size=1 << 20)
    story.phase(2, first, Phase.STARTED)
    behind = story.submit(3, Kind.FILL, 0)
    story.phase(4, behind, Phase.PARKED, first)
    copy = story.submit(5, Kind.COPY_H2D, STORE, size=1 << 20)
    story.phase(6, copy, Phase.PARKED)
    call = story.submit(7, Kind.CALL, COMPUTE, name="slow")
    story.phase(7, call, Phase.STARTED)
    after = story.submit(8, Kind.CALL, COMPUTE, name="next")
    story.phase(8, after, Phase.PARKED, call)
    grid = story.submit(9, Kind.LAUNCH, 20, name="half")
    story.phase(9, grid, Phase.PARKED)
    gone = story.submit(10, Kind.FILL, 21)
    story.end(11, gone, 11, Status.ABORTED)
    found = rows(Feed(story.trace()))
    assert found["stream 0"]["reason"] == (
        "fill (number 2) waits since 3 µs behind copy host to device of 1 MiB (number 1) in load: "
        "order of the null stream"
    )
    assert found["store"]["reason"] == (
        "copy host to device of 1 MiB (number 3) [pipeline.py:13] waits since 5 µs for a free copy engine or link: "
        "copy host to device of 1 MiB (number 1) in load runs there"
    )
    assert found["compute"]["reason"] == "host call slow (number 4) runs since 6 µs"
    assert "or for the other grids of a cooperative launch" in str(found["stream 20"]["reason"])
    assert found["stream 21"]["failure"] == "1 aborted, the last fill (number 7)"
    scene = Board(Feed(story.trace())).scene(Window())
    states = dict(zip(scene.columns["seq"].tolist(), scene.columns["state"].tolist(), strict=True))
    causes = dict(zip(scene.columns["seq"].tolist(), scene.columns["cause"].tolist(), strict=True))
    assert (states[call], states[after], causes[after], causes[copy]) == (1, 2, call, first)


def test_a_chain_of_waits_is_followed_to_its_root() -> None:
    """A stream that waits for one that waits for a value is told what it comes down to, a ring of waits ends."""
    story = Story()
    value = story.submit(1, Kind.WAIT_VALUE, LOAD, size=4, word=0x80)
    story.phase(1, value, Phase.PARKED)
    record = story.submit(2, Kind.RECORD, LOAD)
    waits = story.submit(3, Kind.WAIT_EVENT, COMPUTE)
    story.phase(3, waits, Phase.PARKED, record)
    reason = rows(Feed(story.trace()))["compute"]["reason"]
    assert reason == (
        "number 3 [pipeline.py:12] waits since 2 µs for the event of number 2 in load, behind 1 command; "
        "at the root of it, load: number 1 [pipeline.py:11] waits for a value at 0x80 of device 0"
    )
    story.phase(4, value, Phase.PARKED, waits)
    assert "number 1 [pipeline.py:11] waits" in str(rows(Feed(story.trace()))["load"]["reason"])


def test_the_cursor_shows_that_moment() -> None:
    """At a moment of the past exactly what had been submitted and not ended is held; later failures are not known."""
    feed = Feed(standing(50).trace())
    feed.selection.look_at(feed.origin_ns + 25 * US)
    found = rows(feed)
    assert {label: (row["open"], row["over"]) for label, row in found.items()} == {
        "load": (1, 1), "compute": (1, 0),
    }  # fmt: skip
    feed.selection.look_at(feed.origin_ns + 92 * US)
    assert rows(feed)["debug"]["failure"] == ""


def test_without_details_the_records_give_the_past() -> None:
    """Without moments only what ended is known, which is said; waits name the record that satisfied them."""
    names = TraceNames(streams={(0, 1): "one", (0, 2): "two"})
    records = (
        TraceRecord(1, Kind.LAUNCH, 0, 1, 1000, 2000, 9000, Status.DONE, name="k"),
        TraceRecord(2, Kind.RECORD, 0, 1, 1000, 9000, 9000, Status.DONE),
        TraceRecord(3, Kind.WAIT_EVENT, 0, 2, 1500, 3000, 9100, Status.DONE, correlation=2),
    )
    feed = Feed(Trace(records, names=names))
    feed.selection.look_at(5000)
    scene = Board(feed).scene(Window())
    found = {row["label"]: row["reason"] for row in scene.told["rows"]}
    assert "only commands that ended are known" in scene.told["note"]
    assert "only commands that ended are known" in scene.told["say"]
    assert found["two"].startswith("number 3 waits since 1 µs for the event of number 2 in one, behind 1 command")
    records += (
        TraceRecord(4, Kind.WAIT_VALUE, 0, 2, 9200, 9300, 9800, Status.DONE, 4, -1, -1, 0, 0x20, 5),
        TraceRecord(5, Kind.WRITE_VALUE, 0, 1, 9700, 9750, 9760, Status.DONE, 4, 0, 0x20),
    )
    later = Feed(Trace(records, names=names))
    later.selection.look_at(9500)
    assert str(rows(later)["two"]["reason"]).endswith(
        "for a value at 0x20 of device 0, which write value of 4 B (number 5) in one writes"
    )
    feed.selection.look_at(None)
    over = Board(feed).scene(Window()).told
    assert (over["fullest"], over["say"].startswith("when most was queued, at ")) == (True, True)


def test_many_streams_are_thinned_visibly() -> None:
    """Streams with work come first, the rest is counted, a page further down is another, the selected one stays."""
    feed = Feed(many_streams(400))
    told = Board(feed).scene(Window()).told
    assert (len(told["rows"]), told["streams"]) == (MOST_ROWS, 400)
    assert all(row["open"] for row in told["rows"])
    assert "16 of 400 streams" in told["note"]
    assert not rows(feed, first=16).keys() & rows(feed).keys()
    feed.selection.select(3)
    assert "stream 102" in rows(feed)
    assert rows(feed, first=10**9) and rows(feed, first="x") and rows(feed, first=-5)


def test_what_is_pointed_at_is_always_drawn() -> None:
    """A command deep in a long queue is among the tokens when it is selected, with its place and its neighbours."""
    story = standing(10_000)
    feed = Feed(story.trace())
    feed.selection.select(5000)
    scene = Board(feed).scene(Window())
    at = scene.columns["seq"].tolist().index(5000)
    assert (scene.columns["position"][at], scene.columns["kept"][at]) == (5000 - 32, 1)
    assert scene.told["linked"] == {"before": [4999], "after": [5001]}


@pytest.mark.slow
def test_svg_and_text_tell_the_same(width: int = 100) -> None:
    """Both have every stream, reason and failure; long queues are counted; text keeps to its width."""
    widget = Queues(standing().trace())
    text, svg = widget.to_text(width), widget.to_svg(theme="dark")
    assert max(len(line) for line in text.splitlines()) <= width
    assert "0x1040 of device 0" in text and "0x1040 of device 0" in svg
    assert "+ 9,9" in text and "+ 9,9" in svg
    assert "! kernel probe" in text and "full" in svg
    assert text.count("\n") < 40 and svg.count("<rect") < 600
    assert "no commands" in Queues(Trace()).to_text() and Queues(Trace()).to_svg().startswith("<svg")


def test_a_saved_picture_has_its_moments() -> None:
    """What a saved page can go back to: so many moments, in order, the last one what was there in the end."""
    board = Board(Feed(standing(50).trace()))
    told = board.scene(Window(options={"frames": 10})).told
    assert len(told["frames"]) == 10
    assert [frame["at"] for frame in told["frames"]] == sorted(frame["at"] for frame in told["frames"])
    assert told["frames"][-1]["rows"] == told["rows"]
    assert board.scene(Window(options={"frames": True})).told.get("frames") is None


@pytest.mark.anyio
async def test_live_queues_are_seen() -> None:
    """A stream of a running driver that waits for a value: its head, why, the capacity, and after it goes nothing."""
    with device(trace=1000) as chip:
        feed = feed_of(chip.driver)
        feed.ask_details()
        stream, latch = chip.create_stream(capacity=4, name="held"), StreamLatch(chip)
        waiting = latch.hold(stream)
        event = stream.record()
        other = chip.create_stream(name="behind")
        other.wait(event)
        await latch.passed()
        feed.poll()
        board = Board(feed)
        found = {row["label"]: row for row in board.scene(Window()).told["rows"]}
        assert (found["held"]["open"], found["held"]["capacity"], found["held"]["waits"]) == (2, 4, True)
        reason = found["held"]["reason"]
        assert re.match(rf"number {waiting.seq} \[latch\.py:\d+\] waits", reason) and "for a value at 0x" in reason
        assert "in held, behind 1 command; at the root of it, held" in found["behind"]["reason"]
        latch.release()
        await other
        feed.poll()
        found = {row["label"]: row for row in board.scene(Window()).told["rows"]}
        assert (found["held"]["open"], found["held"]["over"], found["behind"]["over"]) == (0, 2, 1)
        feed.stop()


@pytest.mark.anyio
async def test_a_real_failure_is_told() -> None:
    """A call that raises, and what is skipped behind it, as the driver records them."""
    with device(trace=1000) as chip:
        feed = feed_of(chip.driver)
        feed.ask_details()
        stream = chip.create_stream(name="bad")

        def fail() -> None:
            raise ValueError("on purpose")

        first = stream.call(fail)
        behind = [stream.record().completion, stream.record().completion]
        for item in (first, *behind):
            assert item is not None
            with pytest.raises(AtopsError):
                await item
        feed.poll()
        failure = rows(feed)["bad"]["failure"]
        assert f"(number {first.seq}) failed; 2 skipped behind it" in str(failure)
        stream.clear_error()
        feed.stop()


def full_feed(count: int, streams: int, ended: float) -> Feed:
    """Return a feed of so many commands, of which a part has ended, with moments and records as columns."""
    feed = Feed()
    seq = np.arange(1, count + 1)
    zero, at = np.zeros(count, np.int64), seq * 100
    common = {"seq": seq, "kind": np.full(count, int(Kind.LAUNCH)), "device": zero, "stream": 1 + seq % streams,
              "bytes": zero, "name": zero}  # fmt: skip
    feed.moments.extend_columns(common | {"at_ns": at, "phase": zero})
    over = slice(0, int(count * ended))
    times = {"submitted_ns": at, "started_ns": at + 10, "finished_ns": at + 50, "status": zero}
    feed.records.extend_columns({field: values[over] for field, values in (common | times).items()})
    feed.version = 1
    return feed


@pytest.mark.slow
@pytest.mark.parametrize("ended", [0.0, 0.5, 0.999])
def test_a_million_commands_in_ten_thousand_streams_are_quick(ended: float) -> None:
    """A frame of a million records and 10,000 streams does not hang the page, at any moment."""
    feed = full_feed(1_000_000, 10_000, ended)
    board = Board(feed)
    board.scene(Window())
    seconds = []
    for part in (0.3, 0.9, 0.999, 0.5, 0.7, 0.2):
        feed.selection.look_at(int(part * 10**8))
        began = time.thread_time()
        scene = board.scene(Window(options={"first": int(part * 1000)}))
        seconds.append(time.thread_time() - began)
        assert len(scene.told["rows"]) == MOST_ROWS
    assert sorted(seconds)[1] < FROZEN_MS / 1000, seconds
