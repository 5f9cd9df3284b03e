"""The timeline as text: fixed output, readable without colour, safe with any name, told in sentences too."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atops.base.errors import InvalidValue
from atops.base.trace.records import Kind, Status, TraceNames, TraceRecord
from atops.trace.summary import summary
from atops.trace.text import GLYPHS, describe, render_text
from atops.trace.words import format_bytes, format_ns, shortened
from tests.every import every
from tests.runtime.trace_records import free_records, record

US = 1000


def pipeline() -> list[TraceRecord]:
    """Return a short trace: a copy on one stream, a wait and a kernel on another, a failure on a second device."""
    return [
        record(0, Kind.COPY_H2D, 5_000_000, 5_000_000 + 40 * US, stream=1, bytes=1 << 20),
        record(1, Kind.RECORD, 5_000_000 + 40 * US, 5_000_000 + 40 * US, stream=1),
        record(2, Kind.WAIT_EVENT, 5_000_000, 5_000_000 + 40 * US, stream=2, correlation=1),
        record(3, Kind.LAUNCH, 5_000_000 + 40 * US, 5_000_000 + 100 * US, stream=2, name="scale"),
        record(4, Kind.FILL, 5_000_000, 5_000_000 + 10 * US, device=1, stream=3, status=Status.FAILED, bytes=64),
    ]


EXPECTED = """\
           0           20 µs       40 µs       60 µs       80 µs
           +-----------+-----------+-----------+-----------+------------
device 0
  load     >>>>>>>>>>>>>>>>>>>>>>>>>
  stream 2 ........................#scale###############################
device 1
  stream 3 !!!!!!!
legend: > copy host to device; # kernel; . wait for event;
        ! failed, skipped or aborted
5 records in 100 µs; 1 failed; copy host to device 1 MiB; kernels 60 µs;
0% of copy time beside a kernel
scale: built from graph 7"""


def test_the_timeline_looks_like_this() -> None:
    """A small trace gives exactly this drawing."""
    names = TraceNames(streams={(0, 1): "load"}, notes={"scale": "built from graph 7", "other": "unused"})
    assert render_text(pipeline(), 73, colour=False, names=names) == EXPECTED


def test_copies_without_kernels_lie_beside_none() -> None:
    """Where no kernel has run nothing is said of copies beside kernels, in text and in tables."""
    copies = [each for each in pipeline() if each.kind is not Kind.LAUNCH]
    for records, said in ((copies, False), (pipeline(), True)):
        assert ("beside a kernel" in render_text(records, 73, colour=False)) is said
        assert ("beside a kernel" in str(summary(records))) is said


def test_times_count_from_an_origin_that_others_use_too() -> None:
    """With an origin, axis and sentences tell moments since then; the drawing itself stays what it is."""
    first = min(min(each.started_ns, each.finished_ns) for each in pipeline())
    plain, shifted = (render_text(pipeline(), 73, colour=False, origin_ns=at) for at in (first, first - 5_000))
    assert plain == render_text(pipeline(), 73, colour=False)
    assert plain.splitlines()[2:] == shifted.splitlines()[2:] and plain.splitlines()[0] != shifted.splitlines()[0]
    assert shifted.splitlines()[0].split("  ")[0].strip() != "0"
    assert ", at 5 µs" in describe(pipeline(), origin_ns=first - 5_000)


def test_colour_adds_nothing_but_colour() -> None:
    """Without its escape sequences the coloured drawing is the plain one: no meaning is in colour alone."""
    coloured = render_text(pipeline(), 90)
    assert "\x1b[" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == render_text(pipeline(), 90, colour=False)


def test_every_kind_has_its_own_glyph() -> None:
    """Glyphs are distinct, one column wide, and no letters or digits, which names are written in."""
    assert set(GLYPHS) == set(Kind)
    assert len({*GLYPHS.values(), "!", " "}) == len(Kind) + 2
    assert all(len(glyph) == 1 and "!" < glyph <= "~" and not glyph.isalnum() for glyph in GLYPHS.values())


@pytest.mark.slow
@given(free_records(), st.integers(40, 130))
def test_any_trace_fits_its_width(records: list[TraceRecord], width: int) -> None:
    """Whatever happened and whatever things are called, lines fit, print, and are the same the second time."""
    text = render_text(records, width, colour=False)
    assert text == render_text(list(records), width, colour=False)
    for line in text.splitlines():
        assert len(line) <= width
        assert line.isprintable()
    assert all(line.isprintable() for line in describe(records).splitlines())


@pytest.mark.slow
@given(free_records())
def test_the_legend_explains_exactly_what_is_drawn(records: list[TraceRecord]) -> None:
    """Each glyph in the rows is in the legend, and nothing else is."""
    unnamed = [each._replace(name="", stream=max(each.stream, 0)) for each in records]
    lines = render_text(unnamed, 200, colour=False).splitlines()
    drawn = {glyph for line in lines if line.startswith("  stream") for glyph in line[lines[1].index("+") :]} - {" "}
    legend = next((line for line in lines if line.startswith("legend: ")), "legend: ")
    explained = {entry[0] for entry in legend.removeprefix("legend: ").split("; ") if entry}
    assert explained == drawn


def test_a_failure_is_seen_even_where_it_is_short() -> None:
    """One nanosecond of failure among a second of work shows as a failure."""
    short = record(1, Kind.FILL, 10**9, 10**9 + 1, status=Status.ABORTED)
    text = render_text([record(0, Kind.LAUNCH, 0, 10**9), short], 60, colour=False)
    assert "!" in text.splitlines()[3]


def test_more_streams_than_lines_are_counted() -> None:
    """Only `limit` lines are drawn, and the others are counted."""
    records = [record(seq, Kind.FILL, seq, seq + 1, stream=seq) for seq in range(10)]
    assert "and 7 more lines" in render_text(records, limit=3)


def test_a_terminal_too_narrow_is_refused() -> None:
    """Below 40 columns there is no timeline; no records give a sentence at any width."""
    with pytest.raises(InvalidValue, match="39 columns"):
        render_text(pipeline(), 39)
    assert render_text([], 80) == "timeline: no records"


def test_sentences_tell_the_same_story() -> None:
    """A screen reader gets every record in words: what, how much, when, for how long, why, how it ended."""
    text = describe(pipeline(), names=TraceNames(streams={(0, 1): "load"}, notes={"scale": "graph 7"}))
    assert text.splitlines()[1:] == [
        "Device 0, load: 2 records.",
        "  copy host to device, 1 MiB, at 0 ns for 40 µs (number 0)",
        "  record event, at 40 µs (number 1)",
        "Device 0, stream 2: 2 records.",
        "  wait for event, at 0 ns for 40 µs, satisfied by number 1 (number 2)",
        "  kernel scale [graph 7], at 40 µs for 60 µs (number 3)",
        "Device 1, stream 3: 1 record.",
        "  fill, 64 B, at 0 ns for 10 µs, failed (number 4)",
    ]
    assert describe(pipeline(), limit=2).endswith("3 more records are left out.")
    assert describe([]) == "No records."


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0 ns"), (99, "99 ns"), (1500, "1.5 µs"), (2 * 10**7, "20 ms"), (123_456, "123 µs"),
        (325 * 10**7, "3.25 s"), (999_499, "999 µs"), (999_500, "1 ms"), (999_999_999, "1 s"), (-999_999, "-1 ms"),
    ],
)  # fmt: skip
def test_times_are_short(ns: int, text: str) -> None:
    """Times have about three digits and a unit."""
    assert format_ns(ns) == text


@every("ns, apart, text", [
    (3_012_345_678, 0, "3.01 s"), (3_012_345_678, 10**6, "3.0123 s"), (3_012_345_678, 1, "3.012345678 s"),
    (3_010_000_000, 1000, "3.01 s"), (1500, 10**9, "1.5 µs"), (999_999_999, 10**6, "1 s"),
    (1_500, 1_000, "1.5 µs"), (2_500, 1_000, "2.5 µs"),
    (999_999_999, 1, "999.999999 ms"),
    (999_600_000, 100_000, "999.6 ms"), (0, 1, "0 ns"), (-2_000_500, 500, "-2.0005 ms"),
])  # fmt: skip
def test_times_have_the_digits_that_tell_them_apart(ns: int, apart: int, text: str) -> None:
    """As many as another one that is `apart` away takes, and three at least."""
    assert format_ns(ns, apart) == text


def test_ticks_and_sentences_late_in_a_run_tell_neighbours_apart() -> None:
    """Moments seconds from the origin differ in text as they do in nanoseconds; no label covers another one."""
    starts = [3_012_000_000 + 350 * US * at for at in range(9)]
    late = [record(number, Kind.FILL, at, at + 10) for number, at in enumerate(starts)]
    for width in (40, 73, 100, 200):
        head = render_text(late, width, colour=False, origin_ns=0).splitlines()[0]
        ticks = [each.strip() for each in re.split(r"(?<= s)", head) if each.strip()]
        assert all(re.fullmatch(r"3\.0\d+ s", each) for each in ticks) and len(set(ticks)) == len(ticks) > 1
    moments = re.findall(r", at (\S+ s)", describe(late, origin_ns=0))
    assert moments[:2] == ["3.012 s", "3.0124 s"] and len(set(moments)) == 9
    nearly = [record(0, Kind.FILL, 0, 5), record(1, Kind.FILL, 3_012_345_678, 3_012_345_679)]
    assert ", at 3.01 s" in describe(nearly)


def test_long_names_are_shortened_in_the_middle() -> None:
    """A stream, a device or a kernel of 600 letters takes no more than a line; both of its ends are there."""
    name = "begin" + "x" * 600 + "end"
    names = TraceNames(streams={(0, 2): name}, devices={0: name})
    records = [each._replace(name=name) if each.kind is Kind.LAUNCH else each for each in pipeline()]
    for text in (render_text(records, 100, colour=False, names=names), describe(records, names=names)):
        assert max(map(len, text.splitlines())) <= 160
        assert re.search(r"\bbeginx+~x+end\b", text)
    assert shortened("abcdefgh", 5) == "ab~gh" and shortened("abcde", 5) == "abcde"


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 B"), (512, "512 B"), (4096, "4 KiB"), (3 << 19, "1.5 MiB"), (48 << 30, "48 GiB")]
)
def test_sizes_are_binary(size: int, text: str) -> None:
    """Sizes have binary units and no needless digit."""
    assert format_bytes(size) == text
