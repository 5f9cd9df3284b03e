"""Compile a C++ program with kernels and a `main`, and run it in a process of its own: `atops run PROGRAM.cpp`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Collection, Sequence
from pathlib import Path

from atops.base.errors import CompilationError, InvalidOption
from atops.base.options import EmulatorOptions
from atops.kernels.cxx.unit import CxxUnit, read_cxx
from atops.kernels.source.diagnostics import DiagnosticLog, SourceText
from atops.kernels.source.options import parse_options
from atops.trace.file import check_target

__all__ = ("HEADERS", "built", "headers_of", "is_cxx", "run_cxx")

SUFFIXES = frozenset((".cpp", ".cc", ".cxx", ".cu", ".tops"))
HEADERS = frozenset((".h", ".hh", ".hpp", ".hxx", ".cuh", ".inc", ".inl"))
MOST_HEADERS = 1000


def built(path: Path, options: list[str], watched: bool = False) -> CxxUnit:
    """Compile a program, with the headers of its folder. `options` are those of any compilation.

    `watched`: every access of its kernels is seen, for strict mode and the detectors.

    Raises CompilationError with the compiler's words in the file's own lines, InvalidOption, NotSupported without a
    compiler, OSError.
    """
    log = DiagnosticLog()
    parsed = parse_options(options, path.name, log)
    if parsed is None:
        raise InvalidOption(str(log))
    log = DiagnosticLog(parsed.no_warnings, parsed.warnings_as_errors)
    source = SourceText(path.name, path.read_text(encoding="utf-8"))
    unit = read_cxx(source, headers_of(path.parent), parsed, log, program=True, watched=watched)
    if unit is None:
        raise CompilationError(str(log))
    return unit


def headers_of(folder: Path, suffixes: Collection[str] = HEADERS) -> dict[str, str]:
    """Return the texts that lie in a folder and below it, the nearest first, by how a program there includes them."""
    found: dict[str, str] = {}
    for path in sorted(folder.rglob("*"), key=lambda each: (len(each.parts), each)):
        if path.suffix in suffixes and path.is_file() and len(found) < MOST_HEADERS:
            found[path.relative_to(folder).as_posix()] = path.read_text(encoding="utf-8", errors="replace")
    return found


def is_cxx(path: str) -> bool:
    """Tell whether a program is one in C++, by its name."""
    return Path(path).suffix in SUFFIXES


def run_cxx(path: str, arguments: Sequence[str], trace: str | None = None, profile: bool = False) -> int:
    """Compile and run. Returns what the program's `main` returns; 1 where it does not compile; 128 and more: a crash.

    `trace` is the file that its trace is written to, `profile`: figures are printed at the end. In strict mode and with
    the detectors, as the environment asks, its kernels are watched.

    Raises NotSupported without a compiler, OSError where the file cannot be read.
    """
    options = EmulatorOptions.from_environment()
    if trace is not None:
        check_target(trace)
    try:
        unit = built(Path(path), [f"--gpu-architecture={options.arch}"], options.strict or options.detect)
    except CompilationError as error:
        print(error, file=sys.stderr)
        return 1
    how = "profile" if profile else "plain"
    command = [sys.executable, "-m", "atops.tops.program.worker", str(unit.path), how, path, *arguments]
    traced = {} if trace is None else {"ATOPS_TRACE": os.path.abspath(trace)}
    worker = subprocess.Popen(command, env={**os.environ, **traced})
    while True:
        try:
            code = worker.wait()
            break
        except KeyboardInterrupt:
            continue  # the terminal has told the program, too
    if code >= 0:
        return code
    if code != -signal.SIGINT:
        print(f"atops run: {path} was ended by {signal.Signals(-code).name}", file=sys.stderr)
    return 128 - code
