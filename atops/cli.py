"""The command line: `atops demo`, `atops info`, `atops bench`."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version

__all__ = ("installed_version", "main", "parser")


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command. Returns its exit code: 0 if all is well, 1 for a wrong result, 2 for bad input."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:1] == ["bench"]:  # it parses its own options
        code: int = importlib.import_module("atops.apps.bench").main(arguments[1:])
        return code
    parsed = parser().parse_args(arguments)
    chosen: int = importlib.import_module(f"atops.apps.{parsed.command}").main(parsed)
    return chosen


def parser() -> argparse.ArgumentParser:
    """Return the parser. Each command's module says what it takes."""
    top = argparse.ArgumentParser(prog="atops", description="An emulated GCU accelerator and its async Python runtime.")
    top.add_argument("--version", action="version", version=f"atops {installed_version()}")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, summary in (
        ("demo", "count the bytes of files on the device, through an awaitable pipeline"),
        ("info", "show devices, memory and architecture"),
    ):
        module = importlib.import_module(f"atops.apps.{name}")
        module.add_arguments(commands.add_parser(name, help=summary, description=summary))
    commands.add_parser("bench", help="measure everything against its budget", add_help=False)
    return top


def installed_version() -> str:
    """Return the version of the installed package."""
    try:
        return version("atops")
    except PackageNotFoundError:
        return "(not installed)"
