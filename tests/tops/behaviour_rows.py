"""The table of behaviours that users of HIP and CUDA rely on: its rows, and which tests carry a row's id.

A test carries an id in front of its name (`test_b11_...`), of its case ("B9 destroyed") or of its parameters. Rows
without a test have a reason here, which `make conformance` prints.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

__all__ = ("ROWS", "UNTESTED", "carried")

TESTS = Path(__file__).parent.parent
# The numbers of each letter; a row that is gone left a gap.
NUMBERS = {
    "A": "2-5 8-12 15-20",
    "B": "2-4 8-12 15-19 21-22 24-27 30",
    "C": "1-4 6 8 10-11",
    "D": "1 3 5-11 14-15",
    "E": "1 3-4 6-7 10-11 14-20 22 24-25 27",
    "F": "2-5 7-11 14-22 24 26-28 30-31 33-38",
    "G": "1-3 7-10 12-13 15-16 18 21-23 27-29 31-34 36",
    "H": "1-2 4 6-8 10-13 15-16 20-25 27-32",
    "I": "2-4 6-7 9-12 15 17-18 23 26-31 33-34 38 40",
    "J": "2-3 6-7 12",
    "K": "1-2 8 11 14-15 17-19 21-22 24 26 28 30-33",
    "L": "4 6 8-9 11-18 20-25 28-31 33 35-37",
    "M": "1-2 6-11 13-16",
}


def _numbers(ranges: str) -> list[int]:
    """Return the numbers of "2-4 8"."""
    ends = [part.partition("-") for part in ranges.split()]
    return [number for first, _, last in ends for number in range(int(first), int(last or first) + 1)]


ROWS = tuple(f"{letter}{number}" for letter, ranges in NUMBERS.items() for number in _numbers(ranges))

HIP = "a call of HIP alone, which TOPS does not have: the row is for a compatibility layer over the object API"
UNTESTED: Mapping[str, str] = {
    **dict.fromkeys(("A8", "A9", "A10", "A15", "A16", "A17"), HIP),
    **dict.fromkeys(("D9", "G13", "G15", "H15", "H30", "H31", "I3", "J12", "K24", "L28"), HIP),
    "A12": "torch clamps priorities in its own class; the object API refuses them (A11)",
    "K18": "the table asks nothing: topsGetErrorName knows every code (K17, K19)",
    "K30": "the table asks nothing: a device has one context",
    "L29": "the table asks nothing: TOPS launches on one device, and the object API has launch_together",
}


def carried(folder: Path = TESTS) -> dict[str, list[str]]:
    """Return the tests' names, and the strings in front of cases and parameters, by the ids that they carry."""
    found: dict[str, list[str]] = {}
    for path in sorted(folder.rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        for name, ids in re.findall(r"def (test((?:_[a-m]\d{1,2})+)(?:_\w*)?)\(", text):
            for each in ids.split("_")[1:]:
                found.setdefault(each.upper(), []).append(name)
        for string, ids in re.findall(r'"(((?:[A-M]\d{1,2}\b ?)+)[^"\n]*)"', text):
            for each in ids.split():
                found.setdefault(each, []).append(string)
    return found
