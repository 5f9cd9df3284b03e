"""A feed reads a driver or a trace: all of it, once, in order; it counts what it misses and gives back its wishes."""

from __future__ import annotations

import asyncio
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import atops
from atops import kernels as k
from atops.base.errors import InvalidValue
from atops.base.trace.records import (
    AllocationEvent,
    Change,
    CommandEvent,
    Kind,
    MemoryUse,
    Phase,
    ThreadEvent,
    ThreadState,
    Trace,
    TraceRecord,
)
from atops.trace.file import save
from atops_widgets import Feed, MemoryMap, Timeline, feed_of, watch
from atops_widgets.drawing.scene import Window
from atops_widgets.feed.feed import Marks
from tests.widgets.traces import double_buffering


async def work(items: int = 3) -> None:
    """Run some commands on the current driver."""
    async with atops.Device(0).create_stream(name="worker") as stream:
        x = stream.zeros(64, np.int32)
        for _ in range(items):
            stream.fill(x, 1)
        await stream.fetch(x)


def test_a_trace_is_held_whole() -> None:
    """Records, counters and names of a trace come back, and its first moment is the origin."""
    trace = double_buffering()
    feed = Feed(trace)
    assert feed.trace() == trace
    assert (feed.origin_ns, feed.live, feed.version) == (0, False, 1)
    assert feed.trace(newest=3).records == trace.records[-3:]
    assert (feed.axis().first, feed.axis().last) == (0, 364_000)


def test_details_are_held_too() -> None:
    """Moments, changes, steps and uses of a trace come back as they were."""
    moment = CommandEvent(5, 1, Phase.PARKED, Kind.LAUNCH, 0, 2, 7, 64, "scale", 3, 0, 4096)
    change = AllocationEvent(6, 0, 256, 1024, 1, Change.REUSED, 9, 2048, 3, 2)
    step = ThreadEvent(7, 1, 0, 3, ThreadState.BARRIER, 0, 3, 128, 256)
    uses = (MemoryUse(3, 0, 0, 9),)
    trace = replace(double_buffering(), moments=(moment,), changes=(change,), steps=(step,), uses=uses)
    assert Feed(trace).trace() == trace


def test_a_file_is_read(tmp_path: Path) -> None:
    """The path of a trace file gives the feed of its trace; another file is refused by name."""
    save(tmp_path / "a.trace.gz", double_buffering())
    assert feed_of(tmp_path / "a.trace.gz").trace() == double_buffering()
    (tmp_path / "b").write_text("{}")
    with pytest.raises(InvalidValue, match=r"b: this is no trace"):
        feed_of(str(tmp_path / "b"))


def test_nothing_else_is_shown() -> None:
    """What is no driver, trace, path or feed is refused with its value."""
    with pytest.raises(InvalidValue, match="got 7"):
        feed_of(7)  # type: ignore[arg-type]


@pytest.mark.asyncio
async def test_a_driver_has_one_feed_that_reads_everything_once() -> None:
    """The current driver's feed is shared; portions add up to its records; an empty poll changes nothing."""
    async with atops.Driver() as driver:
        feed = feed_of()
        assert feed is feed_of(driver) and feed.driver is driver
        await work(20)
        counts = [feed.poll(limit=8) for _ in range(10)]
        assert counts[-1] == 0 and max(counts) == 8
        assert feed.trace().records == tuple(driver.tracer.records())
        version = feed.version
        assert feed.poll() == 0 and feed.version == version
        assert "worker" in feed.names.streams.values()


@pytest.mark.asyncio
async def test_what_is_missed_is_counted() -> None:
    """Records that the ring lost before they were read are missed; those from before the feed are not."""
    async with atops.Driver(atops.EmulatorOptions(trace=16)) as driver:
        await work(40)
        feed = feed_of(driver)
        feed.poll()
        assert (len(feed.records), feed.missed) == (16, 0)
        before = driver.tracer.statistics().emitted
        await work(40)
        feed.poll()
        assert feed.missed == driver.tracer.statistics().emitted - before - 16


@pytest.mark.asyncio
async def test_a_paused_feed_reads_nothing() -> None:
    """While paused nothing is read; afterwards it goes on where it was."""
    async with atops.Driver() as driver:
        feed = feed_of(driver)
        feed.pause()
        await work()
        assert feed.poll() == 0 and feed.paused
        feed.resume()
        assert feed.poll() == len(driver.tracer.records()) > 0


@pytest.mark.asyncio
async def test_details_come_when_asked_for() -> None:
    """Moments say which line enqueued a command; stopping gives the wish for details back."""
    async with atops.Driver() as driver:
        feed = feed_of(driver)
        feed.ask_details()
        assert driver.tracer.detail == 1
        await work()
        feed.poll()
        fill = next(record for record in feed.records.values(TraceRecord) if record.kind is Kind.FILL)
        feed.selection.select(fill.seq)
        assert "test_feed.py" in feed.marks().place and "work" in feed.marks().place
        feed.stop()
        assert driver.tracer.detail == 0


@pytest.mark.asyncio
async def test_a_closed_widget_costs_nothing() -> None:
    """When the last widget of a feed is closed, nothing reads the driver and details are not recorded."""
    async with atops.Driver() as driver:
        widget = Timeline(driver)
        widget.feed.ask_details()
        widget.close()
        widget.close()
        assert widget.feed.watchers() == []
        assert driver.tracer.detail == 0


@pytest.mark.asyncio
async def test_it_ends_with_its_driver() -> None:
    """When the driver is closed, the rest is read and the feed stops; a new feed of the driver is another."""
    async with atops.Driver() as driver:
        feed = feed_of(driver)
        await work()
    assert feed.poll() > 0 and feed.live
    assert feed.poll() == 0 and not feed.live
    feed.stop()


def test_marks_tell_the_neighbours() -> None:
    """The selected operation is told in a sentence, with what it waited for and what waits for it."""
    feed = Feed(double_buffering())
    assert feed.marks() == Marks()
    feed.selection.select(11)
    feed.selection.look_at(5000)
    marks = feed.marks()
    assert (marks.seq, marks.cursor_ns, marks.place) == (11, 5000, "")
    assert 8 in marks.before and 14 in marks.after
    assert marks.text.startswith("kernel scale, at ")
    feed.selection.select(12345)
    assert feed.marks() == Marks(12345, 5000)


def test_marks_tell_what_memory_was_given() -> None:
    """The sentence of a launch counts its ranges and the bytes that they reach together; a copy's does not."""
    ranges = ((3, 0, 0, 1024), (3, 0, 512, 1024), (3, 0, 0, 1024), (3, 1, 0, 512), (4, 0, 0, 1))
    uses = tuple(MemoryUse(*each) for each in ranges)
    feed = Feed(replace(double_buffering(), uses=uses))
    feed.selection.select(3)
    assert feed.marks().text == "kernel scale, at 40 µs for 45 µs (number 3); uses 3 ranges, 2 KiB"
    feed.selection.select(0)
    assert "uses" not in feed.marks().text


@pytest.mark.asyncio
async def test_the_origin_is_the_first_moment_of_all() -> None:
    """What was allocated or enqueued before the first command began is not told to be before the origin."""
    async with atops.Driver() as driver:
        feed = feed_of(driver)
        feed.ask_details()
        feed.pause()
        feed.resume()  # which is news, but no moment
        await work()
        feed.poll()
        first = int(feed.changes["at_ns"].min())
        assert first <= int(feed.records["submitted_ns"].min()) and feed.origin_ns == first
        await work()
        feed.poll()
        assert feed.origin_ns == first == Feed(feed.trace()).origin_ns


@pytest.mark.asyncio
async def test_uses_come_with_the_details() -> None:
    """What launches were given is read once, with names of kernels as before."""

    @k.kernel
    def take(data: k.Span[np.int32]) -> None:
        """Take a buffer."""

    async with atops.Driver() as driver:
        feed = feed_of(driver)
        feed.ask_details()
        async with atops.Device(0).create_stream() as stream:
            x = stream.zeros(64, np.int32)
            items = [stream.launch(take, (1, 1), part) for part in (x, x[:4])]
            await stream
            feed.poll()
            start = x.allocation.offset
        rows = [MemoryUse(items[0].seq, 0, start, 256), MemoryUse(items[1].seq, 0, start, 16)]
        assert feed.uses.values(MemoryUse) == rows == list(feed.trace().uses)
        feed.selection.select(items[0].seq)
        assert feed.marks().text.endswith("; uses 1 range, 256 B")
        assert feed.poll() >= 0 and len(feed.uses) == 2
        feed.stop()


def test_an_empty_trace_is_shown() -> None:
    """A trace without records has a span of nothing and no marks."""
    feed = Feed(Trace())
    feed.selection.select(0)
    assert (feed.axis().first, feed.axis().last, feed.marks().before, len(feed.records)) == (0, 0, (), 0)


@pytest.mark.asyncio
async def test_reading_holds_no_loop(loop_guard: None) -> None:
    """A feed can be read, asked and stopped on an event loop without blocking it."""
    async with atops.Driver() as driver:
        feed = feed_of(driver)
        await work()
        feed.poll()
        await asyncio.sleep(0)
        feed.stop()


@pytest.mark.asyncio
async def test_a_board_begins_when_it_is_called() -> None:
    """`watch()` shows what happens from then on, `since` seconds more, and no pause of an older board's."""
    async with atops.Driver() as driver:
        await work(5)
        emitted = driver.tracer.statistics().emitted
        old = watch(driver, since=math.inf)
        old.feed.poll()
        assert len(old.feed.records) == emitted
        old.paused = True
        new = watch(driver)
        assert not new.paused and feed_of(driver) is new.feed
        await work(5)
        new.feed.poll()
        assert len(new.feed.records) == driver.tracer.statistics().emitted - emitted and new.feed.missed == 0
        assert new.feed.records["seq"].min() > old.feed.records["seq"].max()
        more = watch(driver, since=3600)
        more.feed.poll()
        assert len(more.feed.records) == driver.tracer.statistics().emitted
    with pytest.raises(InvalidValue, match="since expects seconds, at least 0, got -1"):
        watch(since=-1)
    with pytest.raises(InvalidValue, match="share expects a part of one processor"):
        watch(share=0)


@pytest.mark.asyncio
async def test_nothing_of_an_earlier_run_is_shown() -> None:
    """Waits that ended after the newest command are not drawn, and no moment is before the call, not of memory either.

    What is allocated still is in use from the first moment on.
    """
    async with atops.Driver() as driver, atops.Device(0).create_stream() as stream:
        old = watch(driver)
        kept = stream.zeros(1024, np.int32)
        await stream.fetch(kept)
        await stream  # and this wait ends after all records
        old.feed.poll()
        called = driver.clock.now()
        assert old.feed.host.rows["finished_ns"].max() <= called
        new = watch(driver)
        new.feed.poll()
        stream.fill(kept, 1)
        await stream.fetch(kept)
        new.feed.poll()
        feed, memory = new.feed, new.widgets[2]
        assert isinstance(memory, MemoryMap) and (feed.changes["at_ns"] < called).any()
        assert feed.host.rows["started_ns"].min() >= called
        assert feed.folding().first >= feed.origin_ns >= called
        told = str(memory.scene(Window()).told)
        assert "'at 0 ns'" in told and "at -" not in told


@pytest.mark.asyncio
async def test_what_is_skipped_is_counted() -> None:
    """The newest are kept, and what was left out is missed."""
    async with atops.Driver() as driver:
        feed = feed_of(driver)
        feed.poll()
        await work(50)
        unread = feed.unread()
        feed.skip(10)
        assert (feed.unread(), feed.missed) == (10, unread - 10)
        assert feed.poll() == 10


@pytest.mark.asyncio
async def test_figures_say_what_is_missing() -> None:
    """Shown and missed are all commands, however many details were missed; the sentence, sums and a find say so."""
    async with atops.Driver() as driver:
        board = watch(driver)
        feed, timeline = board.feed, board.widgets[0]
        assert isinstance(timeline, Timeline)
        await work(3)
        feed.poll()
        assert timeline.scene(Window()).told["missing"] == ""
        await work(100)
        feed.skip(10)
        feed.poll()
        commands, held = driver.tracer.statistics().emitted, len(feed.records)
        assert 0 < held < commands and feed.missed_details > 0
        assert feed.missed == feed.missing == commands - held == feed.trace().dropped
        timeline.heard({"type": "range", "start": 0, "end": 10**12})
        timeline.heard({"type": "find", "text": "fill", "by": 0})
        told = timeline.scene(Window()).told
        assert told["note"].startswith(f"{held} records")
        assert feed.lost() == [f"{feed.missed} missed", f"{feed.missed_details} details missed"]
        missing = f"; {feed.missed} of all records are missing"
        assert told["missing"] == missing and told["say"].endswith(missing) and told["range"][2].endswith(missing)


def test_streams_of_one_name_are_told_apart() -> None:
    """A cell that ran twice made "load" twice: the older one keeps the name, in every picture."""
    trace = double_buffering(2)
    numbers = sorted(number for _, number in trace.names.streams)
    again = {(0, number): "load" for number in numbers} | {(1, numbers[0]): "load"}
    feed = Feed(replace(trace, names=replace(trace.names, streams=again)))
    assert [feed.names.streams[0, number] for number in numbers[:3]] == ["load", "load (2)", "load (3)"][: len(numbers)]
    assert feed.names.streams[1, numbers[0]] == "load" and len(numbers) > 1
    rows = Timeline(feed).scene(Window()).told["rows"]
    assert {"load", "load (2)"} <= {row[0] for row in rows}
