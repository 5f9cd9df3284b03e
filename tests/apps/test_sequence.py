"""The order of a run as text: everything but the times."""

from __future__ import annotations

from atops.apps.sequence import FIELDS, sequence
from atops.base.trace.records import Kind, Status, TraceRecord


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
