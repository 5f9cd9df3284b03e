"""`make conformance`: what tests the C-style functions, by family, counted in the tables that the tests run from.

It runs nothing and knows no function: a row that is counted here is one that pytest runs, and there is no other list.
Beside that it tells which rows of the table of behaviours have no test, and why.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from tests.aml import test_documented_codes as aml_codes
from tests.tops.behaviour_rows import ROWS, UNTESTED, carried
from tests.tops.conformance import FUNCTIONS, Conformance

__all__ = ("KINDS", "Family", "aml_areas", "classes", "families", "main", "show", "show_behaviours")

# What a column counts: the rows of a test. The first column counts functions, the last ones codes.
KINDS: Mapping[str, str] = {
    "good": "test_success",
    "by name": "test_keywords",
    "awaited": "test_twin",
    "count": "test_wrong_count",
    "type": "test_wrong_type",
    "null": "test_null",
    "device": "test_wrong_device",
    "dead": "test_destroyed",
    "failure": "test_failure",
}
MEANINGS = (
    "good: a call that succeeds; by name: with the arguments' names; awaited: the twin, on asyncio and trio; count: "
    "too few and too many arguments; type: an object of no use, argument by argument; null: null pointers and handles; "
    "device: numbers of no device; dead: destroyed handles; failure: cases of their own, with the exact code. codes: "
    "documented; covered: by such a case; listed: below."
)
WIDTH = 120  # columns where no terminal says how many there are


@dataclass
class Family:
    """What is known of the functions of one family."""

    functions: list[str] = field(default_factory=list)
    untested: list[str] = field(default_factory=list)  # functions that no class is about
    rows: Counter[str] = field(default_factory=Counter)  # by kind
    documented: set[tuple[str, IntEnum]] = field(default_factory=set)
    covered: set[tuple[str, IntEnum]] = field(default_factory=set)  # documented codes that a case meets
    unreachable: dict[tuple[str, IntEnum], str] = field(default_factory=dict)

    @property
    def open(self) -> set[tuple[str, IntEnum]]:
        """Return the documented codes that no case meets, without a reason. The tests allow none."""
        return self.documented - self.covered - set(self.unreachable)

    def as_json(self) -> dict[str, Any]:
        """Return what the JSON report says of it."""
        return {
            "functions": len(self.functions),
            "untested": self.untested,
            "rows": {kind: self.rows[kind] for kind in KINDS},
            "codes": {"documented": len(self.documented), "covered": len(self.covered)},
            "unreachable": [
                {"function": name, "code": code.name, "why": why} for (name, code), why in self.unreachable.items()
            ],
            "open": [{"function": name, "code": code.name} for name, code in sorted(self.open)],
        }


def classes() -> list[type[Conformance]]:
    """Return the conformance classes of every test file of the facades."""
    found: dict[type[Conformance], None] = {}
    folder = Path(__file__).parent
    for path in sorted(path for each in (folder, folder.parent / "hip") for path in each.rglob("test_*.py")):
        name = ".".join(path.relative_to(Path(__file__).parents[2]).with_suffix("").parts)
        for each in vars(importlib.import_module(name)).values():
            if isinstance(each, type) and issubclass(each, Conformance) and each is not Conformance:
                found[each] = None
    return list(found)


def families(found: Iterable[type[Conformance]]) -> dict[str, Family]:
    """Return each family of the table of functions, with what the classes have for it."""
    result: dict[str, Family] = {}
    for function in FUNCTIONS.values():
        family = result.setdefault(function.family, Family())
        family.functions.append(function.name)
        family.documented |= {(function.name, code) for code in function.codes}
    tested: set[str] = set()
    for each in found:
        rows = each.rows()
        tested |= {name for name, *_ in rows["test_success"]} | each.never
        for kind, test in KINDS.items():
            for name, *_ in rows[test]:
                result[FUNCTIONS[name].family].rows[kind] += 1
        for name, code in each.met() & each.documented():
            result[FUNCTIONS[name].family].covered.add((name, code))
        for (name, code), why in each.unreachable.items():
            result[FUNCTIONS[name].family].unreachable[name, code] = why
    for family in result.values():
        family.untested = [name for name in family.functions if name not in tested]
    return result


def aml_areas() -> Family:
    """Return the family of AML's functions, which have tables of their own."""
    family = Family(list(aml_codes.DOCUMENTED), unreachable=dict(aml_codes.UNREACHABLE))
    family.rows["failure"] = len(aml_codes.FAILURES)
    family.documented = {(name, code) for name, codes in aml_codes.DOCUMENTED.items() for code in codes}
    family.covered = {(row.function, row.code) for row in aml_codes.FAILURES}
    return family


def main(argv: Sequence[str] | None = None) -> int:
    """Print the report. Returns 1 while a function has no class, a code or a behaviour is open, else 0."""
    parser = argparse.ArgumentParser(prog="make conformance", description=main.__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(argv)
    report, behaviours = {**families(classes()), "AML areas": aml_areas()}, carried()
    missing = [row for row in ROWS if row not in behaviours and row not in UNTESTED]
    if options.json:
        found: dict[str, Any] = {name: family.as_json() for name, family in report.items()}
        found["behaviours"] = {"rows": len(ROWS), "untested": dict(UNTESTED), "open": missing}
        json.dump(found, sys.stdout, indent=2)
        sys.stdout.write("\n")
    else:
        console = Console()
        console = console if console.is_terminal else Console(width=WIDTH)
        show(report, console)
        show_behaviours(missing, console)
    return int(bool(missing) or any(family.untested or family.open for family in report.values()))


def show(report: Mapping[str, Family], console: Console) -> None:
    """Print a table of the families, then what no test reaches, by reason, and what is still open."""
    table = Table(title="Conformance of the C-style functions", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("family", no_wrap=True)
    for heading in ("functions", *KINDS, "codes", "covered", "listed"):
        table.add_column(heading, justify="right", no_wrap=True)
    counts = {name: _counts(family) for name, family in report.items()}
    for name, numbers in counts.items():
        table.add_row(name, *map(str, numbers), end_section=name == list(counts)[-1])
    table.add_row("all", *(str(sum(column)) for column in zip(*counts.values(), strict=True)), style="bold")
    console.print(table)
    console.print(MEANINGS, style="dim")
    _show_unreachable(report, console)
    for name, family in report.items():
        for each in family.untested:
            console.print(f"[red]no class is about {each}[/] ({name})")
        for each, code in sorted(family.open):
            console.print(f"[red]no case meets {code.name} of {each}[/] ({name})")


def _counts(family: Family) -> list[int]:
    rows = [family.rows[kind] for kind in KINDS]
    return [len(family.functions), *rows, len(family.documented), len(family.covered), len(family.unreachable)]


def _show_unreachable(report: Mapping[str, Family], console: Console) -> None:
    """Print the codes that no call can meet, reasons together that many functions share."""
    table = Table(title="Documented codes that are listed, for no call of a test can meet them", box=SIMPLE_HEAD)
    for heading in ("code", "why", "functions"):
        table.add_column(heading)
    reasons: dict[tuple[str, str], list[str]] = {}
    for family in report.values():
        for (name, code), why in family.unreachable.items():
            reasons.setdefault((code.name, why), []).append(name)
    for (code, why), names in sorted(reasons.items()):
        table.add_row(code, why, ", ".join(names))
    console.print(table)


def show_behaviours(missing: Sequence[str], console: Console) -> None:
    """Print the rows of the table of behaviours that no test has in its name, rows together that share a reason."""
    tested = len(ROWS) - len(UNTESTED) - len(missing)
    title = f"Behaviours of HIP and CUDA: {tested} of {len(ROWS)} rows are tests that carry their id; the others"
    table = Table(title=title, box=SIMPLE_HEAD)
    table.add_column("rows")
    table.add_column("why")
    for why in dict.fromkeys(UNTESTED.values()):
        table.add_row(", ".join(row for row, each in UNTESTED.items() if each == why), why)
    console.print(table)
    for row in missing:
        console.print(f"[red]no test carries row {row}[/]")


if __name__ == "__main__":
    sys.exit(main())
