"""The report of `make conformance`: every function is in it, and it counts the rows that the tests run."""

from __future__ import annotations

import json
from collections import Counter
from typing import ClassVar

import pytest
from rich.console import Console

import atops.tops as tops
from atops.base.result_codes import Result
from tests.tops.behaviour_rows import ROWS, UNTESTED, carried
from tests.tops.conformance import FUNCTIONS, Case, Conformance
from tests.tops.conformance_report import KINDS, aml_areas, classes, families, main, show, show_behaviours


@pytest.fixture(scope="module")
def report():
    """What the classes of this folder have for the functions of the table."""
    return families(classes())


def test_every_function_is_tested_and_every_code_is_met_or_listed(report):
    """Each function of TOPS and HIP has a good call in one class, and a case or a reason for each documented code."""
    assert not [name for family in report.values() for name in family.untested]
    assert not [each for family in report.values() for each in family.open]
    good = Counter(name for each in classes() for name in (*each.good, *each.never))
    assert set(good) == set(FUNCTIONS)
    assert set(good.values()) == {1}, "a function belongs to one class"
    assert main([]) == 0


def test_all_families_and_codes_are_counted(report):
    """The families are those of the table, the documented codes its codes; each code is covered, listed or open."""
    assert {name: family.functions for name, family in report.items()} == {
        name: [each.name for each in FUNCTIONS.values() if each.family == name] for name in report
    }
    for family in report.values():
        assert family.documented == {(name, code) for name in family.functions for code in FUNCTIONS[name].codes}
        assert family.covered | set(family.unreachable) | family.open == family.documented
        assert not family.covered & set(family.unreachable)


def test_every_row_runs_and_what_fails_is_named():
    """A class goes through all rows of a test, each on a new board, and names those that fail."""

    class Wrong(Conformance):
        functions = ("topsMalloc", "topsFree")
        good: ClassVar = {"topsMalloc": (-1,), "topsFree": (None,)}
        bad = (Case("topsMalloc", "fine", (8,), tops.topsErrorInvalidValue),)

    with pytest.raises(AssertionError, match=r"(?s)1 of 2 rows failed:\n\[topsMalloc\] AssertionError: .*InvalidValue"):
        Wrong().test_success()
    with pytest.raises(AssertionError, match=r"(?s)1 of 1 rows failed:\n\[topsMalloc-fine\]"):
        Wrong().test_failure()
    Wrong().test_wrong_count()


def test_what_is_missing_is_told(capsys):
    """A documented code without case or reason, and a function without a class, are in the report."""

    class Half(Conformance):
        functions = ("topsMalloc", "topsFree")
        good: ClassVar = {"topsMalloc": (8,), "topsFree": (None,)}
        bad = (Case("topsMalloc", "negative", (-1,), tops.topsErrorInvalidValue),)

    memory = families([Half])["Memory"]
    assert memory.rows["good"] == memory.rows["count"] == 2
    assert memory.rows["failure"] == 1
    assert ("topsMalloc", Result.InvalidValue) not in memory.open
    assert ("topsFree", Result.InvalidDevicePointer) in memory.open
    assert "topsMemcpy" in memory.untested
    show({"Memory": memory}, Console(width=120))
    out = capsys.readouterr().out
    assert "no case meets InvalidDevicePointer of topsFree" in out
    assert "no class is about topsMemcpy (Memory)" in out


def test_a_reason_is_shown(report, capsys):
    """Each reason why a code cannot be met is printed, with the function and the code."""
    show(report, Console(width=400))
    out = capsys.readouterr().out
    for family in report.values():
        for (name, code), why in family.unreachable.items():
            assert name in out and code.name in out and why in out


def test_each_row_of_the_table_of_behaviours_is_a_test_or_has_a_reason():
    """A test carries its id, or it is listed; what is listed has no test, and a reason."""
    found = carried()
    assert [row for row in ROWS if row not in found and row not in UNTESTED] == []
    assert [row for row in UNTESTED if row in found or row not in ROWS or not UNTESTED[row]] == []
    assert len(ROWS) == len(set(ROWS)) == 233


def test_where_a_row_s_id_is_looked_for(tmp_path, capsys):
    """In front of names and of strings, several together as well; not behind other words. What is open is printed."""
    text = 'def test_a3_b10_null():\ndef test_of_b4(x):\nCase("f", "C1 C2 dead", 1)\nx = ("E7-cyclic", "see E9")\n'
    (tmp_path / "test_rows.py").write_text(text, encoding="utf-8")
    assert carried(tmp_path) == {
        "A3": ["test_a3_b10_null"], "B10": ["test_a3_b10_null"], "C1": ["C1 C2 dead"], "C2": ["C1 C2 dead"],
        "E7": ["E7-cyclic"],
    }  # fmt: skip
    show_behaviours(["A3"], Console(width=120))
    out = capsys.readouterr().out
    assert "no test carries row A3" in out and f"{len(ROWS) - len(UNTESTED) - 1} of {len(ROWS)} rows" in out


def test_json(report, capsys):
    """--json prints the same figures."""
    code = main(["--json"])
    printed = json.loads(capsys.readouterr().out)
    behaviours = printed.pop("behaviours")
    assert behaviours == {"rows": len(ROWS), "untested": dict(UNTESTED), "open": []}
    assert code == int(any(family.untested or family.open for family in report.values()))
    report = {**report, "AML areas": aml_areas()}
    assert set(printed) == set(report)
    for name, family in report.items():
        assert printed[name]["functions"] == len(family.functions)
        assert printed[name]["rows"] == {kind: family.rows[kind] for kind in KINDS}
        assert printed[name]["codes"] == {"documented": len(family.documented), "covered": len(family.covered)}
        assert len(printed[name]["unreachable"]) == len(family.unreachable)
