"""The tracer: bounded, ordered, exact about what it lost, and harmless to the run it describes."""

from __future__ import annotations

import logging
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atops.base.clock import VirtualClock, WallClock
from atops.base.errors import InvalidValue
from atops.base.trace.records import Kind, Status, TraceRecord, TraceTuple
from atops.base.trace.tracer import Tracer


def raw(seq: int, name: int = 0) -> TraceTuple:
    """Return an emitted tuple for a fill of 64 bytes."""
    return (seq, Kind.FILL, 0, 3, seq, seq + 1, seq + 4, Status.DONE, 64, 0, 256, -1, -1, -1, name, 2)


def tracer(capacity: int = 1000) -> Tracer:
    """Return a tracer on a clock that stands still."""
    return Tracer(VirtualClock(), capacity)


def seqs(records: list[TraceRecord]) -> list[int]:
    """Return the numbers of commands in records."""
    return [record.seq for record in records]


def test_a_record_says_what_was_emitted() -> None:
    """Each number of the emitted tuple comes back under its field's name, with kind, status and name resolved."""
    trace = tracer()
    number = trace.intern("scale")
    trace.emit((7, Kind.LAUNCH, 1, 3, 10, 20, 50, Status.FAILED, 4096, 1, 256, 0, 512, 5, number, 2))
    (record,) = trace.records()
    assert record == TraceRecord(7, Kind.LAUNCH, 1, 3, 10, 20, 50, Status.FAILED, 4096, 1, 256, 0, 512, 5, "scale", 2)
    assert (record.kind, record.status) == (Kind.LAUNCH, Status.FAILED)
    assert isinstance(record.kind, Kind)
    assert isinstance(record.status, Status)


def test_interning_gives_one_number_a_name() -> None:
    """The same name has the same number, another name another, and no name is 0."""
    trace = tracer()
    first, second = trace.intern("a"), trace.intern("b")
    assert trace.intern("a") == first != second
    assert trace.intern("") == 0
    trace.emit(raw(0, second))
    assert trace.records()[0].name == "b"


@pytest.mark.slow
@given(st.integers(0, 20), st.lists(st.one_of(st.integers(1, 600), st.just("read"), st.just("clear")), max_size=12))
def test_the_ring_is_a_window_on_all_that_was_emitted(capacity: int, steps: list[int | str]) -> None:
    """Whatever is emitted, read and cleared, the ring holds the last `capacity` and counts exactly what it lost."""
    trace = tracer(capacity)
    emitted, held, dropped = 0, 0, 0
    for step in steps:
        if isinstance(step, int):
            for _ in range(step):
                trace.emit(raw(emitted))
                emitted += 1
            dropped += max(0, held + step - capacity)
            held = min(capacity, held + step)
        elif step == "clear":
            trace.clear()
            held = dropped = 0
        assert seqs(trace.records()) == list(range(emitted - held, emitted))
        figures = trace.statistics()
        assert (figures.emitted, figures.held, figures.dropped) == (emitted, held, dropped)


@pytest.mark.slow
@given(st.integers(1, 20), st.lists(st.integers(0, 40), max_size=12))
def test_a_streaming_reader_gets_each_record_once_or_knows_it_missed_it(capacity: int, steps: list[int]) -> None:
    """Reading from the position of the batch before gives every record in order; what was overwritten is counted."""
    trace = tracer(capacity)
    emitted = position = 0
    for step in steps:
        for _ in range(step):
            trace.emit(raw(emitted))
            emitted += 1
        batch = trace.since(position)
        assert batch.missed == max(0, step - capacity)
        assert seqs(batch.records) == list(range(position + batch.missed, emitted))
        position = batch.next
    assert position == emitted


def test_positions_go_on_after_a_clear() -> None:
    """A reader that held a position before a clear sees only what came after."""
    trace = tracer()
    trace.emit(raw(0))
    position = trace.since(0).next
    trace.clear()
    trace.emit(raw(1))
    assert seqs(trace.since(position).records) == [1]
    assert trace.since(position).missed == 0


def test_active_tells_whether_anybody_looks() -> None:
    """It is on with a ring or a subscriber, and off with neither."""
    assert tracer(1).active
    trace = tracer(0)
    assert not trace.active
    with trace.subscribe(lambda records: None):
        assert trace.active
    assert not trace.active
    trace.resize(4)
    assert trace.active


def test_resizing_keeps_the_newest() -> None:
    """A smaller ring keeps the newest records and counts the others as dropped; a negative size is refused."""
    trace = tracer(10)
    for seq in range(10):
        trace.emit(raw(seq))
    trace.resize(3)
    assert seqs(trace.records()) == [7, 8, 9]
    assert trace.dropped == 7
    with pytest.raises(InvalidValue, match="-1 records"):
        trace.resize(-1)
    with pytest.raises(InvalidValue, match="-1 records"):
        tracer(-1)


def test_counters_are_sampled_at_the_clock() -> None:
    """A sample carries the clock's time, the device and the bytes; the ring bounds them, clear forgets them."""
    clock = VirtualClock(100)
    trace = Tracer(clock, 2)
    for used in (10, 20, 30):
        trace.counter(1, used)
        clock.advance(5)
    assert trace.counters() == [(105, 1, 20), (110, 1, 30)]
    trace.clear()
    assert trace.counters() == []


def test_subscribers_get_what_is_new_in_batches() -> None:
    """A flush gives each subscriber the records emitted since it subscribed or was last called, once."""
    trace = tracer(0)
    early: list[list[int]] = []
    late: list[list[int]] = []
    with trace.subscribe(lambda records: early.append(seqs(records))):
        trace.emit(raw(0))
        assert trace.pending
        with trace.subscribe(lambda records: late.append(seqs(records))):
            trace.emit(raw(1))
            assert trace.flush() == 2
            assert not trace.pending
            assert trace.flush() == 0
        trace.emit(raw(2))
        trace.flush()
    trace.emit(raw(3))
    assert trace.flush() == 0
    assert early == [[0, 1], [2]]
    assert late == [[1]]
    assert trace.records() == []


def test_a_subscriber_that_raises_is_logged_and_removed(caplog: pytest.LogCaptureFixture) -> None:
    """Its error reaches the log only; the other subscribers still get the batch."""
    trace = tracer()
    seen: list[int] = []

    def broken(records: list[TraceRecord]) -> None:
        raise RuntimeError("no disk left")

    bad = trace.subscribe(broken)
    trace.subscribe(lambda records: seen.extend(seqs(records)))
    trace.emit(raw(0))
    with caplog.at_level(logging.ERROR, "atops.trace"):
        trace.flush()
    assert bad.closed
    assert seen == [0]
    assert "no disk left" in caplog.text
    assert "broken" in caplog.text
    caplog.clear()
    trace.emit(raw(1))
    trace.flush()
    assert (seen, caplog.text) == ([0, 1], "")


def test_a_subscriber_may_read_emit_flush_and_close() -> None:
    """A callback may read, emit and close, for it holds no lock; a flush inside a flush does nothing."""
    trace = tracer()
    seen: list[list[int]] = []

    def callback(records: list[TraceRecord]) -> None:
        seen.append(seqs(records))
        trace.emit(raw(100))
        assert trace.flush() == 0
        assert len(trace.records()) == 2
        subscription.close()
        subscription.close()

    subscription = trace.subscribe(callback)
    trace.emit(raw(0))
    trace.flush()
    trace.flush()
    assert seen == [[0]]
    assert subscription.closed


def test_a_flush_on_another_thread_leaves_its_records_to_the_one_that_delivers() -> None:
    """Callbacks are never called by two threads at once, and the last records are not left behind."""
    trace = tracer()
    seen: list[list[int]] = []
    answers: list[int] = []

    def elsewhere() -> None:
        trace.emit(raw(1))
        answers.append(trace.flush())

    def callback(records: list[TraceRecord]) -> None:
        if not seen:
            other = threading.Thread(target=elsewhere)
            other.start()
            other.join()
        seen.append(seqs(records))

    with trace.subscribe(callback):
        trace.emit(raw(0))
        assert trace.flush() == 2
    assert answers == [0]
    assert seen == [[0], [1]]


def test_a_callback_stopped_by_an_interrupt_leaves_the_tracer_usable() -> None:
    """An interrupt passes through a flush, and the next flush delivers again."""
    trace = tracer()
    seen: list[int] = []

    def callback(records: list[TraceRecord]) -> None:
        seen.extend(seqs(records))
        if len(seen) == 1:
            raise KeyboardInterrupt

    with trace.subscribe(callback):
        trace.emit(raw(0))
        with pytest.raises(KeyboardInterrupt):
            trace.flush()
        trace.emit(raw(1))
        assert trace.flush() == 1
    assert seen == [0, 1]


@pytest.mark.slow
def test_a_slow_flush_is_bounded_and_says_what_was_missed() -> None:
    """A subscriber that is not flushed in time loses the oldest records and learns how many."""
    trace = tracer(0)
    seen: list[int] = []
    subscription = trace.subscribe(lambda records: seen.extend(seqs(records)))
    for seq in range(70_000):
        trace.emit(raw(seq))
    trace.flush()
    assert seen == list(range(70_000 - 65_536, 70_000))
    assert subscription.missed == 70_000 - 65_536


def test_emitting_never_waits_for_a_reader() -> None:
    """While a reader holds the lock, emits go through, and nothing is lost or reordered afterwards."""
    trace = tracer(2000)
    with trace._lock:  # what a reader holds while it copies
        for seq in range(1000):
            trace.emit(raw(seq))
    assert seqs(trace.records()) == list(range(1000))


def test_many_threads_emit_and_read_without_loss() -> None:
    """Records of several threads all arrive, each thread's in its order, while another thread reads."""
    trace, count, threads = tracer(100_000), 3000, 4
    start = threading.Barrier(threads + 1)

    def work(which: int) -> None:
        start.wait()
        for index in range(count):
            trace.emit(raw(which * count + index))

    workers = [threading.Thread(target=work, args=(which,)) for which in range(threads)]
    for worker in workers:
        worker.start()
    start.wait()
    seen: list[int] = []
    position = 0
    while len(seen) < threads * count:
        batch = trace.since(position)
        assert batch.missed == 0
        seen += seqs(batch.records)
        position = batch.next
    for worker in workers:
        worker.join()
    for which in range(threads):
        own = [seq for seq in seen if seq // count == which]
        assert own == list(range(which * count, (which + 1) * count))


def test_a_snapshot_holds_everything_as_a_value() -> None:
    """Records, counters, labels and notes come together and stay as they were; notes are text, or hexadecimal."""
    trace = tracer()
    trace.emit(raw(0))
    trace.counter(0, 64)
    trace.label_stream(0, 3, "loader")
    trace.annotate("net", "größe".encode())
    trace.annotate("raw", b"\xff\x00")
    trace.annotate("gone", b"x")
    trace.annotate("gone", b"")
    value = trace.snapshot()
    trace.emit(raw(1))
    trace.label_stream(0, 3, "other")
    assert seqs(list(value.records)) == [0]
    assert list(value.counters) == [(0, 0, 64)]
    assert value.names.streams == {(0, 3): "loader"}
    assert value.names.notes == {"net": "größe", "raw": "ff00"}


def test_labels_are_bounded() -> None:
    """A program that names streams for ever does not grow the table for ever; the newest names stay."""
    trace = tracer()
    for stream in range(20_000):
        trace.label_stream(0, stream, f"s{stream}")
    streams = trace.names().streams
    assert len(streams) == 16_384
    assert streams[0, 19_999] == "s19999"


def test_the_repr_gives_the_figures() -> None:
    """A look at a tracer says how full it is."""
    trace = tracer(2)
    for seq in range(3):
        trace.emit(raw(seq))
    assert repr(trace) == "<Tracer 2 of 2 records, 1 dropped>"


def test_the_anchor_is_the_time_of_day_at_the_clocks_zero() -> None:
    """A moment of the wall clock plus the anchor is the time of day; a virtual clock has none."""
    clock = WallClock()
    before = time.time_ns()
    trace = Tracer(clock, 10)
    anchor = trace.snapshot().anchor_ns
    assert anchor is not None and abs(anchor + clock.now() - before) < 1_000_000_000
    assert trace.snapshot().anchor_ns == anchor
    assert tracer().snapshot().anchor_ns is None
