"""Many rows in one test: each is tried, and those that fail are listed together."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

__all__ = ("every", "failures")

MOST_SHOWN = 12  # of the rows that failed
MOST_CHARACTERS = 600  # of what one row failed with

Test = Callable[..., None]
Label = Callable[[Any], object]


def failures(check: Callable[..., object], rows: Iterable[Sequence[Any]], label: Label = repr) -> list[str]:
    """Call `check(*row)` for each row. Return what failed, a text a row that begins with the row's label."""
    found = []
    for row in rows:
        try:
            check(*row)
        except (Exception, pytest.fail.Exception) as error:
            text = f"{type(error).__name__}: {error}"
            found.append(f"[{label(row)}] {text[:MOST_CHARACTERS]}")
    return found


def every(names: str, rows: Iterable[Any], ids: Label | Sequence[object] | None = None) -> Callable[[Test], Test]:
    """Run a test for each of `rows`, as `pytest.mark.parametrize` does, but as one case: for thousands of quick rows.

    `names` are the parameters, separated by commas; `ids` names the rows in messages. Fixtures are made once for all
    rows. It may stand several times above a test. Raises ValueError where there are no rows.
    """
    parameters = [name.strip() for name in names.split(",")]
    table = [each if len(parameters) > 1 else (each,) for each in rows]
    if not table:
        raise ValueError(f"no rows for {names}")
    labels = list(ids) if isinstance(ids, Sequence) else None

    def told(row: Sequence[Any]) -> object:
        if labels is not None:
            return labels[table.index(row)]
        return "-".join(str(ids(each)) if callable(ids) else repr(each) for each in row)

    def decorate(test: Test) -> Test:
        @functools.wraps(test)
        def run(*fixtures: Any, **named: Any) -> None:
            def once(*row: Any) -> None:
                test(*fixtures, **named, **dict(zip(parameters, row, strict=True)))

            found = failures(once, table, told)
            if found:
                shown = "\n".join(found[:MOST_SHOWN])
                pytest.fail(f"{len(found)} of {len(table)} rows failed:\n{shown}", pytrace=len(found) == len(table))

        signature = inspect.signature(test)
        rest = [each for name, each in signature.parameters.items() if name not in parameters]
        run.__signature__ = signature.replace(parameters=rest)  # type: ignore[attr-defined]  # pytest reads it
        return run

    return decorate
