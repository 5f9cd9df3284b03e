"""`atops trace`: what a trace file holds, as figures and text, or as a file for Perfetto or a browser."""

from __future__ import annotations

import argparse
import os
import shutil
import sys

from atops.base.errors import InvalidValue
from atops.base.trace.records import Trace
from atops.trace.awaited import awaited
from atops.trace.chrome import write_chrome
from atops.trace.compare import compare
from atops.trace.file import load, write_page
from atops.trace.summary import summary
from atops.trace.text import render_text
from atops.trace.words import races_text

__all__ = ("add_arguments", "main")

NARROWEST, WIDEST = 40, 200  # columns of a timeline
EPILOG = """\
FILE is what `with atops.profile(FILE)`, `atops run --trace FILE` or ATOPS_TRACE=FILE wrote: .json, any other name, or
either with .gz. Without an option the timeline and the figures are printed. Exit code 2: the file is missing or no
trace, or OUT cannot be written."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    parser.epilog = EPILOG
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("file", metavar="FILE", help="a trace")
    forms = parser.add_mutually_exclusive_group()
    forms.add_argument("--summary", action="store_true", help="print figures: idle time, streams, kinds, kernels")
    forms.add_argument("--text", action="store_true", help="print a timeline: a line for each stream")
    forms.add_argument("--perfetto", metavar="OUT", help="write what ui.perfetto.dev and chrome://tracing open")
    forms.add_argument("--compare", metavar="OTHER", help="print where another trace differs")
    forms.add_argument("--html", metavar="OUT", help="write a page for the browser, which needs nothing else")


def main(arguments: argparse.Namespace) -> int:
    """Show or convert a trace. Returns 0, or 2 when the file is no trace or cannot be read or written."""
    try:
        trace = load(arguments.file)
        other = load(arguments.compare) if arguments.compare else None
    except OSError as error:
        return _refused(f"cannot read {error.filename or arguments.file!r}: {error.strerror or error}")
    except InvalidValue as error:
        return _refused(str(error))
    if other is not None:
        print(compare(trace, other))
        return 0
    target = arguments.perfetto or arguments.html
    if target is None:
        _print(trace, arguments.summary, arguments.text)
        return 0
    try:
        if arguments.html:
            write_page(target, trace, os.path.basename(arguments.file))
        else:
            write_chrome(
                target, trace.records, counters=trace.counters, names=trace.names, steps=trace.steps,
                anchor_ns=trace.anchor_ns, races=trace.races,
            )  # fmt: skip
    except OSError as error:
        return _refused(f"cannot write {target!r}: {error.strerror or error}")
    return 0


def _print(trace: Trace, figures: bool, text: bool) -> None:
    """Print the figures, the timeline, or both if neither is asked for."""
    if not figures:
        width = min(max(shutil.get_terminal_size((100, 24)).columns, NARROWEST), WIDEST)
        colour = sys.stdout is not None and sys.stdout.isatty() and "NO_COLOR" not in os.environ
        print(render_text(trace.records, width, colour, names=trace.names, figures=False))
    if not text:
        print(end="" if figures else "\n")
        print(summary(trace.records, trace.names))
        if trace.waits:
            print(f"\n{awaited(trace)}")
    if trace.races:
        print()
        print(races_text(trace.races, trace.names))
    if trace.dropped:
        print(f"\n{trace.dropped:,} earlier records were lost: the ring was full")


def _refused(why: str) -> int:
    print(f"atops trace: error: {why}", file=sys.stderr)
    return 2
