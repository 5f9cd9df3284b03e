"""A report as a table for the terminal: one row a figure."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from atops.apps.info import versions
from benchmarks.measuring.figures import Figure
from benchmarks.measuring.report import Report, usable_cpus

__all__ = ("show",)


def show(report: Report, console: Console) -> None:
    """Print the table, and below it what was skipped, what raised and how many budgets were missed."""
    known = versions()
    title = f"atops {known['atops']}, Python {known['python']}, numpy {known['numpy']}, {usable_cpus()} CPUs"
    table = Table(title=title, box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    longest = max((len(figure.what) for figures in report.figures.values() for figure in figures), default=0)
    table.add_column("what", no_wrap=True, min_width=longest)  # where there is no room for all, figures are cut
    for heading in ("measured", "beside", "", "ratio", "budget"):
        table.add_column(heading, justify="left" if heading == "beside" else "right", no_wrap=True)
    table.add_column("")
    for figures in report.figures.values():
        for figure in figures:
            table.add_row(*_cells(figure, report.effort.smoke))
    console.print(table)
    for name, why in report.skipped.items():
        console.print(f"skipped {name}: {why}", markup=False, highlight=False)
    for name, why in report.failed.items():
        console.print(f"[red]{name} raised:[/]")
        console.print(why, markup=False, highlight=False)
    console.print(_verdict(report))


def _cells(figure: Figure, smoke: bool) -> tuple[str, ...]:
    """Return the row of a figure."""
    theirs = "" if figure.reference_value is None else _written(figure.reference_value, figure.unit)
    ratio = "" if figure.ratio is None else f"{_digits(figure.ratio)} ×"
    budget = mark = ""
    if figure.budget is not None:
        sense = "≤" if figure.budget.sense == "<=" else "≥"
        limit = figure.budget.limit
        budget = f"{sense} {f'{limit:g} ×' if figure.budget.of == 'ratio' else _written(limit, figure.unit)}"
        mark = "" if smoke else "[green]ok[/]" if figure.held else "[bold red]MISS[/]"
    return figure.what, _written(figure.value, figure.unit), figure.reference, theirs, ratio, budget, mark


def _written(value: float, unit: str) -> str:
    """Write a value with its unit."""
    if unit == "/s":
        return f"{_digits(value / 1e3)} k/s"
    return f"{_digits(value)} {unit}".rstrip()


def _digits(value: float) -> str:
    """Write a number with three figures, or all of those before the point."""
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"


def _verdict(report: Report) -> str:
    """Return the last line."""
    took = f"in {report.seconds:.0f} s"
    if report.failed:
        return f"[bold red]{len(report.failed)} benchmark{'s' * (len(report.failed) != 1)} raised[/] {took}"
    if report.effort.smoke:
        return f"everything ran {took}; a smoke run judges no figure"
    judged = sum(figure.budget is not None for figures in report.figures.values() for figure in figures)
    if report.missed:
        return f"[bold red]{len(report.missed)} of {judged} budget{'s' * (judged != 1)} missed[/] {took}"
    what = f"all {judged} budgets hold" if judged != 1 else "the one budget holds"
    return f"[green]{what}[/] {took}"
