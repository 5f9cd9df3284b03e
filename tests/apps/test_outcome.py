"""What a run of the demo adds up: totals, entropy, the commonest bytes, chunks counted wrong, and its order."""

from __future__ import annotations

import numpy as np
import pytest

from atops.apps.histogram import VALUES
from atops.apps.outcome import FIELDS, Mismatch, Outcome, sequence
from atops.base.trace.records import Kind, Status, TraceRecord


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


def test_the_commonest_bytes():
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


def record(**changes: object) -> TraceRecord:
    """Return a record with these fields changed."""
    plain = TraceRecord(4, Kind.COPY_H2D, 0, 2, 10, 20, 30, Status.DONE, 512, 0, 256, -1, 0, -1, "", 1)
    return plain._replace(**changes)


def test_a_line_for_each_record():
    """Each field is there by its name, enumerations by their members' names; the times are not."""
    text = sequence([record(), record(seq=5, kind=Kind.LAUNCH, status=Status.FAILED, name="scale")])
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
    assert sequence([record(submitted_ns=1, started_ns=2, finished_ns=3)]) == sequence([record()])
    for field in FIELDS:
        other = {"kind": Kind.FILL, "status": Status.ABORTED, "name": "x"}.get(field, 77)
        assert sequence([record(**{field: other})]) != sequence([record()]), field
