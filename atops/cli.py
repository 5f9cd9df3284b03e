"""The command line: `atops run`, `compile`, `check`, `mcp`, `trace`, `learn`, `demo`, `info`, `bench`.

The modules of the commands declare their arguments, and only that of the command that runs is loaded.
"""

from __future__ import annotations

import argparse
import importlib
import io
import os
import sys
from collections.abc import Sequence
from typing import Protocol

import atops

__all__ = ("main",)

SUMMARIES = {
    "run": "run a Python program: strict, from a seed, on another board, or with its trace written",
    "compile": "compile a file of kernels, in TOPS C++ or Python; show its mistakes, or write its code image",
    "check": "run a Python program under many schedules, until one fails; make that one small, and show it",
    "mcp": "serve tools over the Model Context Protocol that check programs, and step through their schedules",
    "trace": "show a trace file: figures, a timeline, a page for the browser or Perfetto",
    "learn": "list the lessons, open one, grade what learners made of them",
    "demo": "count the bytes of files on the device, through an awaitable pipeline",
    "info": "show devices, memory and architecture",
    "bench": "measure everything against its budget",
}
# The modules that have another name than their command.
MODULES = {"compile": "compile_file", "mcp": "mcp_server", "trace": "show_trace"}


class _Command(Protocol):
    """The module of a command."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...

    def main(self, arguments: object) -> int: ...


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command. Returns its exit code: 0 if all is well, 1 for a wrong result, 2 for bad input.

    A reader that goes away early, as in `atops info | head -1`, ends the command without a word, and with 1; Ctrl-C
    with 130; output that cannot be written, to a full disk say, with 2.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:1] == ["run"]:  # its program has the process to itself: output, Ctrl-C, what it raises
        return _module("run").main(arguments[1:])
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # an encoding may lack a character
    try:
        code = _run(arguments)
        print(end="", flush=True)  # `sys.stdout` is None where the output is closed
        return code
    except KeyboardInterrupt:
        return 130  # the command did not handle it
    except BrokenPipeError:
        _give_up_output()
        return 1
    except OSError as error:
        _give_up_output()
        print(f"atops: error: {error}", file=sys.stderr)
        return 2


def _give_up_output() -> None:
    """Discard the output that is not written yet: the flush at exit would fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(arguments: list[str]) -> int:
    """Hand over to the command's module."""
    if arguments[:1] == ["bench"]:  # which parses its own options
        return _bench(arguments[1:])
    parsed = _parser(next((word for word in arguments if word in SUMMARIES), "")).parse_args(arguments)
    return _module(parsed.command).main(parsed)


def _module(command: str) -> _Command:
    """Return the module of a command."""
    found: _Command = importlib.import_module(f"atops.apps.{MODULES.get(command, command)}")
    return found


def _bench(arguments: list[str]) -> int:
    """Measure the budgets. The benchmarks are part of the source tree and not of an installed package."""
    try:
        bench = importlib.import_module("benchmarks.bench")
    except ModuleNotFoundError as error:
        if error.name not in ("benchmarks", "benchmarks.bench"):
            raise
        print("atops: error: the benchmarks are in the source tree; run `make bench` there", file=sys.stderr)
        return 2
    code: int = bench.main(arguments)
    return code


def _parser(asked: str) -> argparse.ArgumentParser:
    """Return the parser, to which the module of the command that is asked for adds its arguments."""
    top = argparse.ArgumentParser(prog="atops", description="An emulated GCU accelerator and its async Python runtime.")
    top.add_argument("--version", action="version", version=f"atops {atops.__version__}")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, summary in SUMMARIES.items():
        sentence = f"{summary[0].upper()}{summary[1:]}."
        command = commands.add_parser(name, help=summary, description=sentence)
        if name == asked:
            _module(name).add_arguments(command)
    return top
