"""Which tests carry the id of a row of `tests/behaviours.md`, the table of what users of HIP and CUDA rely on.

A test carries an id in front of its name (`test_b11_...`), of its case ("B9 destroyed") or of its parameters. Rows
without a test have a reason here, which `make conformance` prints.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

__all__ = ("ROWS", "UNTESTED", "carried")

TESTS = Path(__file__).parent.parent
ROWS = tuple(re.findall(r"^\| ([A-M]\d+) \|", (TESTS / "behaviours.md").read_text(encoding="utf-8"), re.MULTILINE))

HIP = "a call of HIP which is not among those here, and which TOPS does not have"
UNTESTED: Mapping[str, str] = {
    **dict.fromkeys(("G13", "G15", "H15", "H30", "H31", "K24"), HIP),
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
