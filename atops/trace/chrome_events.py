"""Pieces of the Chrome trace event format that every part of an export needs: exact times, and names of tracks."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

__all__ = ("Event", "micros", "track")

Event: TypeAlias = dict[str, Any]


def track(place: tuple[int, int], label: str) -> list[Event]:
    """Return the events that name the track at (process, track), and put it where its number says."""
    pid, tid = place
    return [
        {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": label}},
        {"ph": "M", "name": "thread_sort_index", "pid": pid, "tid": tid, "args": {"sort_index": tid}},
    ]


def micros(ns: int) -> float:
    """Return microseconds that give exactly `ns` again when multiplied by 1000 and cut to an integer."""
    value = ns / 1000
    return value if int(value * 1000) == ns else math.nextafter(value, math.inf)
