"""What a run of the demo adds up, the report of it, and the progress bar."""

from __future__ import annotations

import io
import threading
from collections.abc import Sequence

import numpy as np
import pytest
from rich.console import Console

from atops.apps.demo_report import FIELDS, Counts, Mismatch, Outcome, ProgressBar, report, sequence
from atops.apps.histogram import VALUES
from atops.base.trace.records import Kind, Status, Trace, TraceRecord

MS = 1_000_000


def counts_of(data: bytes) -> Counts:
    """Return how often each value occurs."""
    return np.bincount(np.frombuffer(data, np.uint8), minlength=VALUES)


def record(kind: Kind, stream: int, start: int, end: int, device: int = 0) -> TraceRecord:
    """Return the record of a command that ran from `start` to `end`, in milliseconds."""
    return TraceRecord(start, kind, device, stream, 0, start * MS, end * MS, Status.DONE, name="")


# The kernel runs from 2 to 8 ms, copies from 0 to 4 and from 9 to 10: 2 of their 5 ms lie beside it.
RECORDS = (
    record(Kind.ALLOC, 1, 0, 0),
    record(Kind.COPY_H2D, 1, 0, 4),
    record(Kind.LAUNCH, 2, 2, 8),
    record(Kind.COPY_D2H, 2, 9, 10),
    record(Kind.FREE, 1, 10, 10),
)


def finished(data: bytes, records: Sequence[TraceRecord] = RECORDS, dropped: int = 0) -> Outcome:
    """Return the outcome of one chunk that was counted right, in half a second."""
    outcome = Outcome(2, seconds=0.5, trace=Trace(tuple(records), dropped=dropped))
    outcome.add(0, len(data), counts_of(data), counts_of(data))
    return outcome


def shown(outcome: Outcome, width: int = 80, what: str = "", encoding: str = "utf-8") -> list[str]:
    """Return the lines of the report as a file of this encoding gets them."""
    written = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="backslashreplace")
    report(Console(file=written, width=width, _environ={}), outcome, what, "gcu300 with 4 streams")
    written.flush()
    return written.buffer.getvalue().decode(encoding).splitlines()  # type: ignore[attr-defined]  # it is a BytesIO


def value(lines: list[str], key: str) -> str:
    """Return what the line of this key says."""
    (line,) = [line for line in lines if line.startswith(f"{key} ")]
    return line.removeprefix(key).strip()


@pytest.mark.slow
def test_the_figures():
    """Files, bytes, entropy, speed, and how long kernels and copies ran and ran beside each other."""
    lines = shown(finished(b"ab" * 5_000_000), what="some bytes")
    assert value(lines, "input") == "some bytes: 2 files, 10,000,000 bytes"
    assert value(lines, "run") == "gcu300 with 4 streams"
    assert value(lines, "entropy") == "1.000 of 8 bits a byte"
    assert value(lines, "throughput") == "20 MB/s: 0.50 s to read, count and check 1 chunk"
    assert value(lines, "kernels") == "6 ms busy, 1 launch"
    assert value(lines, "copies") == "5 ms busy, 2 ms of it (40%) while a kernel ran"
    assert lines[-1] == "the one chunk agrees with numpy.bincount"


@pytest.mark.parametrize(
    ("size", "said"), [(1, "2 B/s"), (49, "98 B/s"), (50, "0.1 kB/s"), (50_000, "0.1 MB/s"), (2_500_000, "5 MB/s")]
)
def test_small_input(size: int, said: str):
    """One byte is one byte, and a speed has a unit that it is at least a tenth of."""
    lines = shown(finished(b"a" * size))
    assert value(lines, "input") == f"2 files, {size:,} byte{'s' if size > 1 else ''}"
    assert value(lines, "throughput").startswith(f"{said}: 0.50 s")


def test_several_devices_are_added_up():
    """With two devices the times are sums, and the report says so."""
    lines = shown(finished(b"ab", [*RECORDS, record(Kind.LAUNCH, 3, 2, 8, device=1)]))
    assert value(lines, "kernels") == "12 ms busy, summed over 2 devices, 2 launches"
    assert {"device 0", "device 1"} <= set(lines)


def test_a_trace_that_was_full():
    """Where the trace lost its beginning the report says what it is about."""
    lines = shown(finished(b"ab", dropped=1234))
    assert value(lines, "trace") == "the last 5 records; 1,234 are gone"


def test_the_commonest_bytes():
    """Each has its code, a form that can be read, count, share and a bar; the longest bar belongs to the commonest."""
    data = b" " * 8 + b"e" * 4 + b"\n" * 3 + b"\x00" * 2 + b"\x01" * 2 + b"\xff"
    lines = shown(finished(data))
    start = next(number for number, line in enumerate(lines) if line.startswith("byte"))
    rows = [line.rsplit(None, 1) for line in lines[start + 2 : start + 8]]
    assert [" ".join(text.split()) for text, _ in rows] == [
        "0x20 space 8 40.0%", "0x65 'e' 4 20.0%", "0x0a newline 3 15.0%", "0x00 null 2 10.0%", "0x01 control 2 10.0%",
        "0xff not ASCII 1 5.0%",
    ]  # fmt: skip
    bars = [len(bar) for _, bar in rows]
    assert bars == sorted(bars, reverse=True)
    assert bars[1] == pytest.approx(bars[0] / 2, abs=1)


def test_the_timeline_has_a_row_for_each_stream():
    """Copies and kernels of each stream are drawn; allocations and frees are not."""
    lines = shown(finished(b"ab"))
    one, two = (next(line for line in lines if line.startswith(f"  stream {number}")) for number in (1, 2))
    assert set(one.split()[2]) == {">"}
    assert set("".join(two.split()[2:])) == {"#", "<"}
    (legend,) = [line for line in lines if line.startswith("legend")]
    assert legend == "legend: > copy host to device; < copy device to host; # kernel"


@pytest.mark.parametrize("width", [30, 40, 60, 80, 120, 200])
def test_it_fits(width: int):
    """No line is wider than the terminal, nor than 120 columns, and without a terminal there are no control codes."""
    lines = shown(finished(bytes(range(256)) * 1000), width, "Python's standard library")
    assert "…" not in "".join(lines) or width < 40
    assert max(map(len, lines)) <= min(width, 120)
    assert not [line for line in lines if not line.isprintable()]


def test_a_narrow_encoding():
    """Where only ASCII can be written the bars are of ASCII too, and nothing fails."""
    lines = shown(finished(b"ab", [record(Kind.LAUNCH, 1, 0, 1)._replace(finished_ns=2500)]), encoding="ascii")
    assert any(line.startswith("0x61") and line.rstrip().endswith("#####") for line in lines)
    assert value(lines, "kernels") == "2.5 us busy, 1 launch"
    assert any("1 us" in line for line in lines)  # of the timeline's axis
    assert "\\xb5" not in "".join(lines)


def test_nothing_counted():
    """An empty input is no failure: there is a line for it, and neither table nor timeline."""
    lines = shown(Outcome(1))
    assert value(lines, "input") == "1 file, 0 bytes"
    assert lines[-1] == "there was nothing to count"
    assert len(lines) == 3


def test_wrong_counts_are_told():
    """The first few chunks that differ are named with both counts, the others are counted."""
    outcome = finished(b"ab" * 50)
    for number in range(1, 8):
        outcome.add(number, 100, counts_of(b"a" * 100), counts_of(b"b" * 100))
    lines = shown(outcome)
    start = lines.index("MISMATCH: 7 of 8 chunks differ from numpy.bincount")
    assert lines[start + 1] == "  chunk 1: byte 0x61 counted 100 times, numpy counts 0"
    assert lines[start + 5].startswith("  chunk 5:")
    assert lines[start + 6] == "  and 2 more"
    assert not any("agree" in line for line in lines)


def outcome_of(*chunks: bytes) -> Outcome:
    """Return the outcome of chunks that were counted right."""
    outcome = Outcome(1)
    for number, chunk in enumerate(chunks):
        counts = np.bincount(np.frombuffer(chunk, np.uint8), minlength=VALUES)
        outcome.add(number, len(chunk), counts, counts)
    return outcome


def test_totals():
    """Chunks and bytes are counted, and the counts of all chunks are added up."""
    outcome = outcome_of(b"aab", b"ac")
    assert (outcome.chunks, outcome.bytes, outcome.mismatches) == (2, 5, [])
    found = {chr(value): times for value, times in enumerate(outcome.counts.tolist()) if times}
    assert found == {"a": 3, "b": 1, "c": 1}


@pytest.mark.parametrize(
    ("data", "bits"),
    [(b"", 0.0), (b"aaaa", 0.0), (b"ab", 1.0), (b"aabc", 1.5), (bytes(range(256)) * 3, 8.0)],
    ids=["nothing", "one value", "two", "three", "all"],
)
def test_entropy(data: bytes, bits: float):
    """Entropy is 0 for equal bytes, 8 for equally common ones, and never -0."""
    outcome = outcome_of(data)
    assert outcome.entropy == pytest.approx(bits)
    assert not np.signbit(outcome.entropy)


def test_the_commonest_values():
    """They come by how often they occur, of equals the smaller first; a value that does not occur is not among them."""
    outcome = outcome_of(b"zzyyxbbb")
    assert outcome.commonest(3) == [(ord("b"), 3), (ord("y"), 2), (ord("z"), 2)]
    assert len(outcome.commonest(99)) == 4
    assert outcome_of().commonest(3) == []


def test_a_wrong_count_is_kept():
    """A chunk whose counts differ is noted with its number and the first value that differs."""
    outcome = outcome_of(b"a")
    wrong, right = np.zeros(VALUES, np.int64), np.zeros(VALUES, np.int64)
    wrong[[7, 9]], right[[7, 8]] = 5, (3, 5)
    outcome.add(1, 8, wrong, right)
    assert outcome.mismatches == [Mismatch(chunk=1, value=7, counted=5, expected=3)]
    assert outcome.chunks == 2


def ended(**changes: object) -> TraceRecord:
    """Return a record with these fields changed."""
    plain = TraceRecord(4, Kind.COPY_H2D, 0, 2, 10, 20, 30, Status.DONE, 512, 0, 256, -1, 0, -1, "", 1)
    return plain._replace(**changes)


def test_a_line_for_each_record():
    """Each field is there by its name, enumerations by their members' names; the times are not."""
    text = sequence([ended(), ended(seq=5, kind=Kind.LAUNCH, status=Status.FAILED, name="scale")])
    first, second = text.splitlines()
    assert first == (
        "seq=4 kind=COPY_H2D device=0 stream=2 status=DONE bytes=512 dst_device=0 dst_offset=256 src_device=-1 "
        "src_offset=0 correlation=-1 name= engine=1"
    )
    assert "kind=LAUNCH" in second and "status=FAILED" in second and "name=scale" in second
    assert text.endswith("\n")
    assert sequence([]) == ""


def test_times_do_not_matter_and_all_else_does():
    """Records that differ in their times only give the same text; a difference in any other field shows."""
    assert sequence([ended(submitted_ns=1, started_ns=2, finished_ns=3)]) == sequence([ended()])
    for field in FIELDS:
        other = {"kind": Kind.FILL, "status": Status.ABORTED, "name": "x"}.get(field, 77)
        assert sequence([ended(**{field: other})]) != sequence([ended()]), field


def console(terminal: bool, term: str = "xterm") -> tuple[Console, io.StringIO]:
    """Return a console and what is written to it."""
    written = io.StringIO()
    made = Console(file=written, force_terminal=terminal, width=60, _environ={"TERM": term})
    return made, written


def test_on_a_terminal():
    """The bar says how much is done, no thread draws it, and in the end its line is cleared."""
    terminal, written = console(True)
    progress = ProgressBar(terminal)
    progress.begin(2_000_000)
    threads = threading.active_count()
    with progress:
        progress.advance(500_000)
        assert threading.active_count() == threads
        assert "25%" in written.getvalue()
        progress.advance(1_500_000)
    assert progress.done == 2_000_000
    assert "100%" in written.getvalue()
    assert written.getvalue().endswith("\x1b[2K")


@pytest.mark.parametrize(("terminal", "term"), [(False, "xterm"), (True, "dumb")], ids=["file", "dumb terminal"])
def test_elsewhere(terminal: bool, term: str):
    """Where no bar can be drawn nothing is written, and bytes are still counted."""
    target, written = console(terminal, term)
    progress = ProgressBar(target)
    progress.begin(10)
    with progress:
        progress.advance(4)
    assert (progress.done, written.getvalue()) == (4, "")


def test_an_error_leaves_a_clean_terminal():
    """A failure inside the block clears the line and shows the cursor again."""
    terminal, written = console(True)
    with pytest.raises(ZeroDivisionError), ProgressBar(terminal) as progress:
        progress.advance(1)
        raise ZeroDivisionError
    assert "\x1b[?25h" in written.getvalue()
    assert written.getvalue().endswith("\x1b[2K")


def test_an_interrupt_at_the_very_beginning(monkeypatch: pytest.MonkeyPatch):
    """Ctrl-C while the bar is drawn for the first time shows the cursor again, as at any other time."""
    terminal, written = console(True)
    progress = ProgressBar(terminal)
    draw = terminal.print

    def interrupted(*arguments: object, **options: object) -> None:
        monkeypatch.setattr(terminal, "print", draw)
        raise KeyboardInterrupt

    monkeypatch.setattr(terminal, "print", interrupted)
    with pytest.raises(KeyboardInterrupt), progress:
        pass
    assert "\x1b[?25l" in written.getvalue()
    assert written.getvalue().rindex("\x1b[?25h") > written.getvalue().rindex("\x1b[?25l")
