"""`atops bench`: measure the budgets beside primitives and peers, print them as a table, report them as JSON.

Each module of `benchmarks.rows` yields the figures of one family of rows.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from rich.console import Console

from benchmarks.measuring.figures import Figure, Skipped
from benchmarks.measuring.measure import Effort
from benchmarks.measuring.report import Report
from benchmarks.measuring.report_table import show
from benchmarks.rows.allocation import allocate_and_free
from benchmarks.rows.barriers import barrier_round, grid_barrier_round
from benchmarks.rows.c_calls import c_calls
from benchmarks.rows.cluster import cluster
from benchmarks.rows.commands import await_command, large_copies, launch_and_await, submit
from benchmarks.rows.kernels import detectors, example_kernels
from benchmarks.rows.many_streams import detected_commands, idle_streams
from benchmarks.rows.native import (
    compile_times,
    native_barriers,
    native_kernels,
    native_launch,
    native_vector_add,
    native_watched,
)
from benchmarks.rows.processes import import_time, numba_peer
from benchmarks.rows.schedules import schedules
from benchmarks.rows.switched_off import detectors_off, tracing_cost
from benchmarks.rows.transforms import transforms
from benchmarks.rows.vector_add import busy_vector_add, vector_add
from benchmarks.rows.vectors import vector_operations
from benchmarks.rows.virtual_time import virtual_time
from benchmarks.rows.widgets import widgets

__all__ = ("BENCHMARKS", "WIDTH", "main", "measure", "positive")

Benchmark = Callable[[Effort], Iterator[Figure]]

BENCHMARKS: Mapping[str, Benchmark] = {
    "submit": submit,
    "await": await_command,
    "launch": launch_and_await,
    "barrier": barrier_round,
    "grid-barrier": grid_barrier_round,
    "vector-add": vector_add,
    "busy": busy_vector_add,
    "kernels": example_kernels,
    "detectors": detectors,
    "detectors-off": detectors_off,
    "native-vector-add": native_vector_add,
    "native-watched": native_watched,
    "native-barriers": native_barriers,
    "native-launch": native_launch,
    "native-kernels": native_kernels,
    "native-compile": compile_times,
    "vectors": vector_operations,
    "transforms": transforms,
    "copy": large_copies,
    "streams": idle_streams,
    "detected-commands": detected_commands,
    "schedules": schedules,
    "allocate": allocate_and_free,
    "c-calls": c_calls,
    "tracing": tracing_cost,
    "import": import_time,
    "widgets": widgets,
    "virtual-time": virtual_time,
    "cluster": cluster,
    "numba": numba_peer,
}
WIDTH = 100  # columns where no terminal says how many there are


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmarks that `argv` asks for. Returns 0 if every budget holds, else 1; a smoke run judges none."""
    options = _parser().parse_args(argv)
    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDTH)
    report = measure(list(dict.fromkeys(options.only or BENCHMARKS)), Effort(options.smoke, options.repeat))
    if options.json is not None:
        text = json.dumps(report.as_json(), indent=2, ensure_ascii=False) + "\n"
        if str(options.json) == "-":
            sys.stdout.write(text)
        else:
            options.json.write_text(text, encoding="utf-8")
    if str(options.json) != "-":
        show(report, console)
    return 0 if report.held else 1


def _parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = argparse.ArgumentParser(
        prog="atops bench",
        description="Measure the budgets beside primitives and peers timed in the same run.",
        epilog=f"benchmarks: {', '.join(BENCHMARKS)}",
    )
    made.add_argument("--smoke", action="store_true", help="run everything once with tiny sizes and judge nothing")
    made.add_argument("--json", metavar="FILE", type=_target, help="write the report as JSON (-: print it instead)")
    made.add_argument("--only", metavar="NAME", action="append", choices=BENCHMARKS, help="run this one (repeatable)")
    made.add_argument("--repeat", metavar="N", type=positive, default=7, help="pairs of each row (default 7)")
    return made


def _target(text: str) -> Path:
    """Return the path to write to. Raises ArgumentTypeError, before anything is measured, when it cannot be there."""
    path = Path(text)
    if text != "-" and (path.is_dir() or not path.parent.is_dir()):
        raise argparse.ArgumentTypeError(f"expected a file in a folder that exists, got {text!r}")
    return path


def positive(text: str) -> int:
    """Return the number that an argument stands for. Raises ArgumentTypeError below 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a number of at least 1, got {text!r}")
    return int(text)


def measure(names: Sequence[str], effort: Effort) -> Report:
    """Run benchmarks one after the other. One that raises is reported, and the others go on."""
    report = Report(effort)
    progress = Console(stderr=True)  # lines and no spinner, whose thread would take its share of the interpreter lock
    start = time.perf_counter()
    for name in names:
        if progress.is_terminal:
            progress.print(f"measuring {name} ...", highlight=False)
        try:
            report.figures[name] = list(BENCHMARKS[name](effort))
        except Skipped as why:
            report.skipped[name] = str(why)
        except Exception:
            report.failed[name] = traceback.format_exc()
    report.seconds = time.perf_counter() - start
    return report
