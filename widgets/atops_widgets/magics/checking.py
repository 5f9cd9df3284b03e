"""`%%schedules`: the code of a cell under many schedules."""

from __future__ import annotations

import ast
import inspect
import linecache
import threading
from collections.abc import Mapping
from typing import Any

from atops.base.errors import InvalidOption
from atops.checking.check import Checking
from atops.checking.check_report import CheckReport

__all__ = ("check_cell",)


def check_cell(line: str, source: str, name: str, namespace: Mapping[str, object]) -> CheckReport:
    """Check the `source` of a cell, which may await, under as many schedules as the `line` says: "200", "200 dpor".

    Each run has its own copy of `namespace`; what the cell's last line gives is not looked at. On a thread of its own,
    for a notebook's loop runs in this one. Raises InvalidOption for a line that says something else, SyntaxError for
    the source.
    """
    words = line.split()
    strategy = words.pop() if words and not words[-1].lstrip("-").isdecimal() else "random"
    try:
        schedules = int(words.pop(0)) if words else 500
    except ValueError:
        words.append("")
    if words:
        raise InvalidOption(f"%%schedules {line}: expected a number of schedules, and a strategy: %%schedules 200 pct")
    # Tracebacks show lines of the cell as its editor counts them, with the magic's own.
    text = "\n" + source
    code = compile(text, name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    linecache.cache[name] = len(text), None, text.splitlines(True), name

    async def cell() -> None:
        result = eval(code, dict(namespace))
        if inspect.isawaitable(result):
            await result

    checking = Checking(cell, schedules, strategy, (), None, 0, 2, 100_000, False, 300)
    checking.name = name
    done: list[Any] = []

    def work() -> None:
        try:
            done.append(checking.run())
        except BaseException as error:
            done.append(error)

    thread = threading.Thread(target=work, name="atops check", daemon=True)
    thread.start()
    try:
        thread.join()
    finally:
        checking.stopped = True
    if isinstance(done[0], BaseException):
        raise done[0]
    report: CheckReport = done[0]
    return report
