"""`atops bench`: measure the budgets beside primitives and peers, print them as a table, report them as JSON.

It knows no figure: each file in `benchmarks` yields those of one family of rows, and says how it gets them.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from atops.apps.benchmarks.allocation import allocate_and_free
from atops.apps.benchmarks.barriers import barrier_round, grid_barrier_round
from atops.apps.benchmarks.figures import Figure, Skipped
from atops.apps.benchmarks.import_time import import_time
from atops.apps.benchmarks.large_copies import large_copies
from atops.apps.benchmarks.many_streams import idle_streams
from atops.apps.benchmarks.measure import Effort
from atops.apps.benchmarks.numba_peer import numba_peer
from atops.apps.benchmarks.round_trips import await_command, launch_and_await
from atops.apps.benchmarks.submission import submit
from atops.apps.benchmarks.tracing_cost import tracing_cost
from atops.apps.benchmarks.vector_add import busy_vector_add, vector_add

__all__ = ("BENCHMARKS", "Report", "main", "measure")

Benchmark = Callable[[Effort], Iterator[Figure]]

BENCHMARKS: Mapping[str, Benchmark] = {
    "submit": submit,
    "await": await_command,
    "launch": launch_and_await,
    "barrier": barrier_round,
    "grid-barrier": grid_barrier_round,
    "vector-add": vector_add,
    "busy": busy_vector_add,
    "copy": large_copies,
    "streams": idle_streams,
    "allocate": allocate_and_free,
    "tracing": tracing_cost,
    "import": import_time,
    "numba": numba_peer,
}
SCHEMA = 1  # of the JSON; it grows by new keys, and by one when a key changes its meaning
WIDTH = 100  # columns where no terminal says how many there are


@dataclass(slots=True)
class Report:
    """What a run found: figures by benchmark, what was skipped and why, what raised."""

    effort: Effort
    figures: dict[str, list[Figure]] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def missed(self) -> list[Figure]:
        """The figures that do not keep their budget. A smoke run judges none."""
        if self.effort.smoke:
            return []
        return [figure for figures in self.figures.values() for figure in figures if figure.held is False]

    @property
    def held(self) -> bool:
        """Whether nothing raised and every budget that was judged holds."""
        return not self.failed and not self.missed

    def as_json(self) -> dict[str, Any]:
        """Return the report: versions and machine, one object a figure, in the order of the table."""
        figures = [{"benchmark": name, **each.as_json()} for name, made in self.figures.items() for each in made]
        if self.effort.smoke:
            figures = [{**figure, "held": None} for figure in figures]
        return {
            "schema": SCHEMA,
            "versions": versions(),
            "machine": {"platform": platform.platform(), "cpus": os.cpu_count(), "usable_cpus": usable_cpus()},
            "smoke": self.effort.smoke,
            "repeat": self.effort.repeat,
            "seconds": self.seconds,
            "held": self.held,
            "figures": figures,
            "skipped": self.skipped,
            "failed": self.failed,
        }


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmarks that `argv` asks for. Returns 0 if every budget holds, else 1; a smoke run judges none."""
    options = parser().parse_args(argv)
    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDTH)
    report = measure(options.only or list(BENCHMARKS), Effort(options.smoke, options.repeat), console)
    if options.json is not None:
        text = json.dumps(report.as_json(), indent=2, ensure_ascii=False) + "\n"
        if str(options.json) == "-":
            sys.stdout.write(text)
        else:
            options.json.write_text(text, encoding="utf-8")
    if str(options.json) != "-":
        show(report, console)
    return 0 if report.held else 1


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = argparse.ArgumentParser(
        prog="atops bench",
        description="Measure the budgets beside primitives and peers timed in the same run.",
        epilog=f"benchmarks: {', '.join(BENCHMARKS)}",
    )
    made.add_argument("--smoke", action="store_true", help="run everything once with tiny sizes and judge nothing")
    made.add_argument("--json", metavar="FILE", type=Path, help="write the report as JSON (- for the standard output)")
    made.add_argument("--only", metavar="NAME", action="append", choices=BENCHMARKS, help="run this one (repeatable)")
    made.add_argument("--repeat", metavar="N", type=positive, default=7, help="pairs of each row (default 7)")
    return made


def positive(text: str) -> int:
    """Return the number that an argument stands for. Raises ArgumentTypeError below 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}; 1 or more is right")
    return int(text)


def measure(names: Sequence[str], effort: Effort, console: Console) -> Report:
    """Run benchmarks one after the other. One that raises is reported, and the others go on."""
    report = Report(effort)
    start = time.perf_counter()
    for name in names:
        if console.is_terminal:  # a line and no spinner, whose thread would take its share of the interpreter lock
            console.print(f"measuring {name} ...", end="\r", highlight=False)
        try:
            report.figures[name] = list(BENCHMARKS[name](effort))
        except Skipped as why:
            report.skipped[name] = str(why)
        except Exception:
            report.failed[name] = traceback.format_exc()
    report.seconds = time.perf_counter() - start
    return report


def show(report: Report, console: Console) -> None:
    """Print the table, and below it what was skipped, what raised and how many budgets were missed."""
    known = versions()
    title = f"atops {known['atops']}, Python {known['python']}, numpy {known['numpy']}, {usable_cpus()} CPUs"
    table = Table(title=title, box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    table.add_column("what", no_wrap=True)
    for heading in ("measured", "beside", "", "ratio", "budget"):
        table.add_column(heading, justify="left" if heading == "beside" else "right", no_wrap=True)
    table.add_column("")
    for figures in report.figures.values():
        for figure in figures:
            table.add_row(*cells(figure, report.effort.smoke))
    console.print(table)
    for name, why in report.skipped.items():
        console.print(f"skipped {name}: {why}")
    for name, why in report.failed.items():
        console.print(f"[red]{name} raised:[/]\n{why}", highlight=False)
    console.print(verdict(report))


def cells(figure: Figure, smoke: bool) -> tuple[str, ...]:
    """Return the row of a figure."""
    theirs = "" if figure.reference_value is None else written(figure.reference_value, figure.unit)
    ratio = "" if figure.ratio is None else f"{digits(figure.ratio)} ×"
    budget = mark = ""
    if figure.budget is not None:
        sense = "≤" if figure.budget.sense == "<=" else "≥"
        limit = figure.budget.limit
        budget = f"{sense} {f'{limit:g} ×' if figure.budget.of == 'ratio' else written(limit, figure.unit)}"
        mark = "" if smoke else "[green]ok[/]" if figure.held else "[bold red]MISS[/]"
    return figure.what, written(figure.value, figure.unit), figure.reference, theirs, ratio, budget, mark


def written(value: float, unit: str) -> str:
    """Write a value with its unit."""
    if unit == "/s":
        return f"{digits(value / 1e3)} k/s"
    return f"{digits(value)} {unit}".rstrip()


def digits(value: float) -> str:
    """Write a number with three figures, or all of those before the point."""
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"


def verdict(report: Report) -> str:
    """Return the last line."""
    took = f"in {report.seconds:.0f} s"
    if report.failed:
        return f"[bold red]{len(report.failed)} benchmarks raised[/] {took}"
    if report.effort.smoke:
        return f"everything ran {took}; a smoke run judges no figure"
    judged = sum(figure.budget is not None for figures in report.figures.values() for figure in figures)
    if report.missed:
        return f"[bold red]{len(report.missed)} of {judged} budgets missed[/] {took}"
    return f"[green]all {judged} budgets hold[/] {took}"


def versions() -> dict[str, str]:
    """Return the versions of what was measured, and of what it stands on."""
    try:
        own = importlib.metadata.version("atops")
    except importlib.metadata.PackageNotFoundError:
        own = "(not installed)"
    return {
        "atops": own,
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "numpy": np.__version__,
    }


def usable_cpus() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
