"""`python -m benchmarks.compare OTHER_TREE`: run rows of the bench in this tree and in another checkout, in turn.

Every run is a process of its own, in the folder of its tree, with the interpreter that runs this script. The trees take
turns at each row, so that neighbouring runs see the same load, and a ratio is the median of the ratios of neighbours.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.bench import BENCHMARKS, WIDTH, positive

__all__ = ("Runs", "compare", "main")

Measured = dict[str, Any]  # a figure as the bench's JSON report has it
Runs = Sequence[tuple[Sequence[Measured], Sequence[Measured]]]  # pairs of neighbours: this tree's figures, the other's


def main(argv: Sequence[str] | None = None) -> int:
    """Compare the rows that `argv` asks for and print a table. Returns 1 when a run failed, else 0."""
    options = _parser().parse_args(argv)
    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDTH)
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    for heading in ("times as long as in the other tree", "this", "other", "ratio", "quartiles", "to reference"):
        table.add_column(heading, justify="left" if not table.columns else "right", no_wrap=True)
    mine, other = Path(__file__).resolve().parents[1], options.tree
    for row in dict.fromkeys(options.only or BENCHMARKS):
        try:
            runs = [
                (_figures(mine, row, options.inner), _figures(other, row, options.inner)) for _ in range(options.repeat)
            ]
        except subprocess.CalledProcessError as error:
            console.print(f"[red]{row}:[/] the run failed", error.stderr, highlight=False)
            return 1
        for cells in compare(runs):
            table.add_row(*cells)
    console.print(table)
    return 0


def compare(runs: Runs) -> list[list[str]]:
    """Return the lines of the table for one row of the bench: a list of cells for each figure.

    A ratio above 1 means that this tree takes longer. The last cell has the ratio of the two trees' own ratios to their
    reference, which forgets more of the load. A figure that only one tree has, or that is not above 0 (a difference of
    two times may be), has no ratio.
    """
    sides = [[{figure["what"]: figure for figure in pair[side]} for pair in runs] for side in (0, 1)]
    lines = []
    for what in dict.fromkeys([*sides[0][0], *sides[1][0]]):
        mine, other = ([figures[what] for figures in side if what in figures] for side in sides)
        cells = [what, _typical(mine), _typical(other)]
        if len(mine) == len(other):
            rate = mine[0]["unit"].endswith("/s")
            ratios = _ratios(mine, other, lambda figure: figure["value"], rate)
            same = all(figure["reference"] == mine[0]["reference"] for figure in (*mine, *other))
            beside = _ratios(mine, other, _to_reference, rate) if same else []
            cells += [_median(ratios), _quartiles(ratios), _median(beside)]
        lines.append(cells)
    return lines


def _parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = argparse.ArgumentParser(prog="python -m benchmarks.compare", description="Compare this tree with another.")
    made.add_argument("tree", metavar="OTHER_TREE", type=_checkout, help="a checkout, as git worktree makes")
    made.add_argument("--only", metavar="ROW", action="append", choices=BENCHMARKS, help="this row (repeatable)")
    made.add_argument("--repeat", metavar="N", type=positive, default=5, help="pairs of runs of each row (default 5)")
    made.add_argument("--inner", metavar="N", type=positive, default=3, help="--repeat of each bench (default 3)")
    return made


def _checkout(text: str) -> Path:
    """Return the folder that an argument names. Raises ArgumentTypeError unless atops lies in it."""
    path = Path(text).resolve()
    if not (path / "atops" / "__main__.py").is_file():
        raise argparse.ArgumentTypeError(f"expected a folder with a checkout of atops, got {text!r}")
    return path


def _figures(tree: Path, row: str, inner: int) -> Sequence[Measured]:
    """Run one row in a tree and return its figures. Raises CalledProcessError unless the row was measured."""
    path = os.pathsep.join((str(tree), str(tree / "widgets")))
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [sys.executable, "-m", "atops", "bench", "--only", row, "--repeat", str(inner), "--json", str(report)]
        done = subprocess.run(command, cwd=tree, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True)
        found: Any = {"failed": {row: done.stderr}}
        if report.exists():
            found = json.loads(report.read_text(encoding="utf-8"))
    if found["failed"]:
        raise subprocess.CalledProcessError(done.returncode, command, stderr=f"in {tree}:\n{found['failed'][row]}")
    figures: Sequence[Measured] = found["figures"]
    return figures


def _ratios(
    mine: Sequence[Measured], other: Sequence[Measured], value: Callable[[Measured], float], rate: bool
) -> list[float]:
    """Return how many times as long this tree takes, pair by pair; nothing where a value is not above 0."""
    values = [(value(ours), value(theirs)) for ours, theirs in zip(mine, other, strict=True)]
    if any(min(pair) <= 0 for pair in values):
        return []
    return [theirs / ours if rate else ours / theirs for ours, theirs in values]


def _to_reference(figure: Measured) -> float:
    """Return the value in units of the reference's, or 0 where there is no reference."""
    return figure["value"] / figure["reference_value"] if figure["reference_value"] else 0.0


def _typical(figures: Sequence[Measured]) -> str:
    """Return the median of a figure with its unit, or a dash where a tree does not have it."""
    if not figures:
        return "-"
    value = statistics.median(figure["value"] for figure in figures)
    return f"{value:,.0f} {figures[0]['unit']}" if value >= 1000 else f"{value:.3g} {figures[0]['unit']}"


def _median(ratios: list[float]) -> str:
    return f"{statistics.median(ratios):.3f}" if ratios else ""


def _quartiles(ratios: list[float]) -> str:
    if len(ratios) < 2:
        return ""
    low, _, high = statistics.quantiles(ratios, n=4, method="inclusive")
    return f"{low:.2f}-{high:.2f}"


if __name__ == "__main__":
    sys.exit(main())
