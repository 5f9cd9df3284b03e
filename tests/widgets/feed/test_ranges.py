"""Ranges of memory that commands were given: each once, by address, counted together where they overlap."""

from __future__ import annotations

import numpy as np

from atops.base.trace.records import MemoryUse
from atops_widgets.feed.columns import USES, Columns, Texts
from atops_widgets.feed.ranges import Ranges, union


def table(*rows: MemoryUse) -> Columns:
    """Return a table of uses."""
    columns = Columns(USES, 100, Texts())
    columns.extend(rows)
    return columns


def test_the_ranges_of_one_command() -> None:
    """In the order of devices and addresses, whatever order they were told in; twice the same is once."""
    told = ((5, 1, 0, 64), (5, 0, 512, 256), (4, 0, 0, 9), (5, 0, 256, 300), (5, 0, 512, 256))
    uses = table(*(MemoryUse(*each) for each in told))
    ranges = Ranges.of(uses, 5)
    assert ranges.places() == [(0, 256, 556), (0, 512, 768), (1, 0, 64)]
    assert ranges.nbytes == 512 + 64
    assert ranges.brief() == "uses 3 ranges, 576 B"
    assert Ranges.of(uses, 4).brief() == "uses 1 range, 9 B"


def test_a_command_without_any() -> None:
    """Nothing is said of it, and the number that stands for no command has none, in an empty table too."""
    odd = table(MemoryUse(-1, 0, 0, 9))
    for ranges in (Ranges.of(odd, 7), Ranges.of(odd, -1), Ranges.of(table(), 1)):
        assert (ranges.places(), ranges.nbytes, ranges.brief()) == ([], 0, "")


def test_the_ranges_of_many() -> None:
    """Those of some rows of the table: by command, then by address."""
    uses = table(MemoryUse(5, 0, 512, 1), MemoryUse(4, 0, 0, 1), MemoryUse(5, 0, 0, 1))
    ranges = Ranges.among(uses, np.arange(3))
    assert ranges.seq.tolist() == [4, 5, 5] and ranges.start.tolist() == [0, 0, 512]


def test_union() -> None:
    """Bytes in several ranges count once."""
    assert union(np.array([10, 0, 40]), np.array([30, 20, 50])) == 40
    assert union(np.zeros(0, np.int64), np.zeros(0, np.int64)) == 0
