"""Rows that are run as one case: all are tried, and each that fails is named."""

from __future__ import annotations

import inspect

import pytest

from tests.every import every, failures


def test_every_row_is_tried_and_each_failure_named() -> None:
    """The rows after a failure are tried, too; the message counts and names what failed."""
    seen = []

    @every("number, text", [(1, "a"), (2, "b"), (3, "c")])
    def check(number: int, text: str) -> None:
        seen.append(number)
        assert number == 2, text

    with pytest.raises(pytest.fail.Exception, match=r"(?s)2 of 3 rows failed:\n\[1-'a'\] AssertionError: a.*\[3-'c'\]"):
        check()
    assert seen == [1, 2, 3]


def test_rows_multiply_and_fixtures_are_left_to_pytest() -> None:
    """Two tables above a test are all their pairs; pytest sees only the parameters that no table gives."""
    seen = []

    @every("first", [1, 2], ids=str)
    @every("second", "ab")
    def check(fixture: int, first: int, second: str) -> None:
        seen.append((fixture, first, second))

    assert list(inspect.signature(check).parameters) == ["fixture"]
    check(fixture=7)
    assert seen == [(7, 1, "a"), (7, 1, "b"), (7, 2, "a"), (7, 2, "b")]


def test_a_table_without_rows_is_refused() -> None:
    """A test that would check nothing is an error where it is written."""
    with pytest.raises(ValueError, match="no rows for number"):
        every("number", [])
    assert failures(int, [("1",), ("x",)]) == [
        "[('x',)] ValueError: invalid literal for int() with base 10: 'x'"
    ]
