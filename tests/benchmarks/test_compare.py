"""The comparison of two trees: which ratios it forms from neighbouring runs, and that it runs both trees."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.compare import compare, main

TREE = Path(__file__).resolve().parents[2]


def figure(what: str, value: float, unit: str = "µs", reference: str = "noop", reference_value: float = 1.0) -> Any:
    """Return a figure as a report has it."""
    return {"what": what, "value": value, "unit": unit, "reference": reference, "reference_value": reference_value}


def test_ratios_are_medians_of_neighbours():
    """A load that hits both runs of a pair cancels; rates are turned round, so that above 1 is always slower."""
    times = [([figure("copy", mine)], [figure("copy", other)]) for mine, other in ((2, 1), (20, 10), (300, 10))]
    assert compare(times) == [["copy", "20 µs", "10 µs", "2.000", "2.00-16.00", "2.000"]]
    rates = [([figure("rate", 500, "/s")], [figure("rate", 1000, "/s")])]
    assert compare(rates) == [["rate", "500 /s", "1,000 /s", "2.000", "", "2.000"]]


def test_the_ratio_to_the_reference_needs_the_same_reference():
    """Where the machine was half as fast during one run, its reference says so; another reference says nothing."""
    slow = figure("copy", 10, reference_value=2.0)
    assert compare([([slow], [figure("copy", 5)])]) == [["copy", "10 µs", "5 µs", "2.000", "", "1.000"]]
    assert compare([([figure("copy", 10, reference="other")], [figure("copy", 5)])])[0][-1] == ""


def test_what_has_no_ratio_is_listed_without():
    """A figure of one tree only, and a difference of two times that is below 0, have a line and no ratio."""
    runs = [([figure("new", 1), figure("less", -1)], [figure("less", 2)])]
    assert compare(runs) == [["new", "1 µs", "-"], ["less", "-1 µs", "2 µs", "", "", ""]]


@pytest.mark.slow
def test_both_trees_are_run(capsys: pytest.CaptureFixture[str]):
    """This tree against itself has a line for each figure of the row."""
    assert main([str(TREE), "--only", "import", "--repeat", "1", "--inner", "1"]) == 0
    assert "import atops" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [("/nowhere",), (str(TREE), "--only", "nothing"), ()], ids=" ".join)
def test_wrong_arguments_are_refused(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]):
    """A folder without a checkout, an unknown row and a missing tree end with code 2 and a message."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert "error" in capsys.readouterr().err
