"""The demo's report: it fits its width, says what is true, and says clearly when a count is wrong."""

from __future__ import annotations

import io
from collections.abc import Sequence

import numpy as np
import pytest
from rich.console import Console

from atops.apps.demo_report import report
from atops.apps.histogram import VALUES
from atops.apps.outcome import Counts, Outcome
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
