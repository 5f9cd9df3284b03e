"""What a range of the timeline sums, and which commands a text finds: pure functions."""

from __future__ import annotations

from atops.base.trace.records import Kind
from atops_widgets import Feed
from atops_widgets.feed.host import HOST, PROGRAM_WAITS
from atops_widgets.timeline.scene import Timetable, following, sums
from tests.every import every
from tests.widgets.traces import double_buffering, with_host

ROWS = [
    ((0, 40_000), "40 µs: 2 records, copies 40 µs, 1 MiB copied"),
    ((0, 100_000), "100 µs: 11 records, kernels 55 µs, copies 90 µs, 2 MiB copied, 45 µs of both at once"),
    ((500_000, 600_000), "100 µs: nothing happened"),
]


@every("span, told", ROWS)
def test_a_range_sums_what_lies_in_it(span: tuple[int, int], told: str) -> None:
    """Times are cut at its ends; bytes are of copies that ended in it; what begins at its end is not in it."""
    assert sums(Feed(double_buffering()).records, *span) == told


@every("span, told", [(ROWS[0][0], f"{ROWS[0][1]}; 1 of all records is missing"),
                      ((500_000, 600_000), "100 µs: nothing is held; 1 of all records is missing")])  # fmt: skip
def test_a_range_says_what_is_missing(span: tuple[int, int], told: str) -> None:
    """What is not held may have been in it: nothing is known, where nothing is held."""
    assert sums(Feed(double_buffering()).records, *span, 1) == told


@every("text, count", [("scal", 6), ("SCALE", 6), ("host to", 6), ("load", 12), ("nothing", 0)])
def test_names_of_kernels_kinds_and_streams_are_found(text: str, count: int) -> None:
    """In the order of their starts, whatever the case."""
    feed = Feed(double_buffering())
    seqs = Timetable(feed).found(text)
    assert len(seqs) == count
    begun = [int(feed.records["started_ns"][feed.links().row(seq)]) for seq in seqs]
    assert begun == sorted(begun)


def test_calls_and_waits_of_the_host_are_found() -> None:
    """By the name of the call and the line that waits, and by their kind; each once."""
    feed = Feed(with_host())
    host = feed.host.rows
    kinds = {int(seq): int(kind) for seq, kind in zip(host["seq"], host["kind"], strict=True)}
    for text, kind in (("api", Kind.API), ("program waits", PROGRAM_WAITS), ("main.py:7", PROGRAM_WAITS)):
        found = Timetable(feed).found(text)
        assert found and {kinds[seq] for seq in found} == {kind}
        assert len(found) == len(set(found))
        assert found == sorted(found, key=lambda seq: int(host["started_ns"][seq - HOST]))


@every("chosen, by, expected", [(-1, 1, 3), (3, 0, 3), (3, 1, 7), (9, 1, 3), (3, -1, 9)])
def test_the_next_goes_around_the_end(chosen: int, by: int, expected: int) -> None:
    """The first where none of them is chosen."""
    assert following([3, 7, 9], chosen, by) == expected
