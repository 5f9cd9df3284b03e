"""The declaration of one C-style function, read from its row of the tables. Knows no implementation."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from typing import NamedTuple

from atops.base.result_codes import Result

__all__ = ("Function", "Parameter", "family")

RETURNS = "topsError_t"
# The words before the name are "waits", if the function may, and what it returns, if that is not a topsError_t.
ROW = re.compile(r"(waits )?((?:const char \*|topsrtcResult) )?(\w+)\(([^)]*)\)(?: -> (.*))?")
DECLARED = re.compile(r"(out )?(.*?)(\w+)(?: = (\w+))?")


class Parameter(NamedTuple):
    """One parameter of the C function: its name, its C type without the name, and the C default if it has one."""

    name: str
    type: str
    default: str | None = None


class Function(NamedTuple):
    """One function of the TOPS Runtime API as Python has it.

    `parameters` are the arguments; `results` are out-parameters of the C function, which follow the code in the tuple
    that a call returns (only those: an array's count stays an argument beside its sequence). `codes` are documented
    failures; `waits` tells whether the call can block, and so has an awaitable twin.
    """

    family: str
    section: str
    name: str
    returns: str
    parameters: tuple[Parameter, ...]
    results: tuple[Parameter, ...]
    codes: frozenset[Result]
    waits: bool

    @property
    def outs(self) -> int:
        """Return how many values follow the code: the out-parameters, or the text that C returns in place of a code."""
        return len(self.results) or int(self.returns.startswith("const char"))


def family(name: str, section: str, rows: str) -> Iterator[Function]:
    """Yield the functions of a family: one declaration a row, continued on lines that are indented further."""
    for row in re.split(r"\n(?! )", textwrap.dedent(rows).strip()):
        yield _read(name, section, re.sub(r"\s+", " ", row))


def _read(name: str, section: str, row: str) -> Function:
    """Read one row. Raises ValueError for one that is no declaration."""
    match = ROW.fullmatch(row)
    if match is None:
        raise ValueError(f"{row!r} is no declaration of a function")
    waits, returns, function, declared, codes = match.groups()
    parameters: list[Parameter] = []
    results: list[Parameter] = []
    for part in declared.split(", ") if declared else ():
        found = DECLARED.fullmatch(part)
        if found is None:
            raise ValueError(f"{part!r} in {row!r} is no declaration of a parameter")
        out, type_, parameter, default = found.groups()
        (results if out else parameters).append(Parameter(parameter, type_.strip(), default))
    documented = frozenset(Result[code] for code in (codes or "").split())
    returned = (returns or RETURNS).strip()
    return Function(name, section, function, returned, tuple(parameters), tuple(results), documented, bool(waits))
