"""Functions of a C interface as declarations: name, parameters, documented codes, section.

The bridge, the exports and the tests are made from them. Out-parameters are marked `out`; the documented codes follow
`->`; `waits` stands in front of a function that can block; what it returns stands before its name where that is not
the code that the API's functions return.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from typing import NamedTuple

from atops.base.result_codes import Result

__all__ = ("CParameter", "Declarations", "Function")

DECLARED = re.compile(r"(out )?(.*?)(\w+)(?: = (\w+))?")


class CParameter(NamedTuple):
    """One parameter of the C function: its name, its C type without the name, and the C default if it has one."""

    name: str
    type: str
    default: str | None = None


class Function(NamedTuple):
    """One function of a C interface as Python has it.

    `parameters` are the arguments; `results` are out-parameters of the C function, which follow the code in the tuple
    that a call returns (only those: an array's count stays an argument beside its sequence). `codes` are documented
    failures; `waits` tells whether the call can block, and so has an awaitable twin.
    """

    family: str
    section: str
    name: str
    returns: str
    parameters: tuple[CParameter, ...]
    results: tuple[CParameter, ...]
    codes: frozenset[Result]
    waits: bool
    declared: tuple[CParameter, ...]  # all of them, in C's order

    @property
    def outs(self) -> int:
        """Return how many values follow the code: the out-parameters, or the text that C returns in place of a code."""
        return len(self.results) or int(self.returns.startswith("const char"))


class Declarations:
    """Reads the rows of one API, whose functions return `code`, or one of `others` where a row says so."""

    def __init__(self, code: str, others: tuple[str, ...] = ()) -> None:
        self._code = code
        returned = "|".join(map(re.escape, others)) or "(?!)"
        self._row = re.compile(rf"(waits )?((?:{returned}) )?(\w+)\(([^)]*)\)(?: -> (.*))?")

    def family(self, name: str, section: str, rows: str) -> Iterator[Function]:
        """Yield the functions of a family: one declaration a row, continued on lines that are indented further.

        Raises ValueError for a row that is no declaration.
        """
        for row in re.split(r"\n(?! )", textwrap.dedent(rows).strip()):
            yield self._read(name, section, re.sub(r"\s+", " ", row))

    def _read(self, name: str, section: str, row: str) -> Function:
        match = self._row.fullmatch(row)
        if match is None:
            raise ValueError(f"{row!r} is no declaration of a function")
        waits, returns, function, row_of_parameters, codes = match.groups()
        declared: list[CParameter] = []
        parameters: list[CParameter] = []
        results: list[CParameter] = []
        for part in row_of_parameters.split(", ") if row_of_parameters else ():
            found = DECLARED.fullmatch(part)
            if found is None:
                raise ValueError(f"{part!r} in {row!r} is no declaration of a parameter")
            out, type_, parameter, default = found.groups()
            declared.append(CParameter(parameter, type_.strip(), default))
            (results if out else parameters).append(declared[-1])
        documented = frozenset(Result[code] for code in (codes or "").split())
        returned = (returns or self._code).strip()
        lists = tuple(parameters), tuple(results), documented, bool(waits), tuple(declared)
        return Function(name, section, function, returned, *lists)
