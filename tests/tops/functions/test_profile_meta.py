"""topsExtSetProfileMeta (TOPS Runtime API, 2.11)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

import atops.tops as tops
from tests.tops.conformance import Case, Conformance

INVALID = tops.topsErrorInvalidValue
SET = tops.topsExtSetProfileMeta


class TestProfileMeta(Conformance):
    """The one function, by its rows."""

    good: ClassVar = {"topsExtSetProfileMeta": (b"meta", 4, 1)}
    bad = tuple(
        Case("topsExtSetProfileMeta", *row)
        for row in (
            ("less than its size", (b"meta", 5, 1), INVALID),
            ("negative size", (b"meta", -1, 1), INVALID),
            ("33 bits of size", (b"meta", 1 << 32, 1), INVALID),
            ("65 bits of id", (b"meta", 4, 1 << 63), INVALID),
            ("device memory", lambda w: (tops.check(tops.topsMalloc(4)), 4, 1), INVALID),
        )
    )


def notes(world):
    """Return what the trace shows with records, by their names."""
    return dict(world.driver.tracer.snapshot().names.notes)


def test_the_last_one_wins_and_size_zero_removes(world):
    """Bytes are copied at the call, kept under the id, replaced and removed; text if UTF-8, else hexadecimal."""
    data = bytearray(b"first, and more")
    tops.check(SET(data, 5, -7))
    data[:] = bytes(len(data))
    assert notes(world) == {"compilation -7": "first"}
    tops.check(SET(np.array([255, 254], np.uint8), 2, -7))
    tops.check(SET("grün".encode(), 5, 8))
    assert notes(world) == {"compilation -7": "fffe", "compilation 8": "grün"}
    tops.check(SET(None, 0, -7))
    assert notes(world) == {"compilation 8": "grün"}


def test_pinned_host_memory(world):
    """A pointer of topsHostMalloc is host memory too."""
    address = tops.check(tops.topsHostMalloc(4, 0))
    tops.host_view(address, 4)[:] = list(b"pins")
    tops.check(SET(address, 4, 1))
    assert notes(world) == {"compilation 1": "pins"}
