"""The order of a run without its times: what two runs of one program have in common when one replays the other."""

from __future__ import annotations

from collections.abc import Iterable

from atops.base.trace.records import TraceRecord

__all__ = ("sequence",)

TIMES = frozenset(("submitted_ns", "started_ns", "finished_ns"))
FIELDS = tuple(field for field in TraceRecord._fields if field not in TIMES)


def sequence(records: Iterable[TraceRecord]) -> str:
    """Return the records as lines of `field=value`, in the order in which their commands ended, times left out."""
    lines = [" ".join(f"{field}={_plain(getattr(record, field))}" for field in FIELDS) for record in records]
    return "".join(f"{line}\n" for line in lines)


def _plain(value: object) -> object:
    """Return how a value is written: an enumeration's member by its name."""
    return getattr(value, "name", value)
