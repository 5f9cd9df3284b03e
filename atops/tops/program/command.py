"""Compile a C++ program with kernels and a `main`, and run it in a process of its own: `atops run PROGRAM.cpp`."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import traceback
from collections.abc import Callable, Collection, Sequence
from pathlib import Path, PurePosixPath

from atops.base.errors import CompilationError, InvalidOption, InvalidValue
from atops.base.options import EmulatorOptions
from atops.kernels.cxx.unit import CxxUnit, read_cxx
from atops.kernels.source.diagnostics import DiagnosticLog, SourceText
from atops.kernels.source.files import HEADERS, PROGRAMS
from atops.kernels.source.options import parse_options
from atops.tops.program.worker import run_main
from atops.trace.file import check_target

__all__ = ("built", "included", "run_cxx")

MOST_HEADERS = 1000


def built(path: Path, options: list[str], folders: Sequence[str] = (), watched: bool = False) -> CxxUnit:
    """Compile a program, with the texts of its folder and of `folders`. `options` are those of any compilation.

    `watched`: every access of its kernels is seen, for strict mode and the detectors.

    Raises CompilationError with the compiler's words in the file's own lines, InvalidOption, InvalidValue for a folder
    that is none, NotSupported without a compiler, OSError.
    """
    log = DiagnosticLog()
    parsed = parse_options(options, path.name, log)
    if parsed is None:
        raise InvalidOption(str(log))
    log = DiagnosticLog(parsed.no_warnings, parsed.warnings_as_errors)
    source = SourceText(path.name, path.read_text(encoding="utf-8"))
    unit = read_cxx(source, included(path, source.text, folders), parsed, log, program=True, watched=watched)
    if unit is None:
        raise CompilationError(str(log))
    return unit


def included(
    path: Path, text: str, folders: Sequence[str] = (), suffixes: Collection[str] = HEADERS | PROGRAMS
) -> dict[str, str]:  # fmt: skip
    """Return the texts that a file may include, by the names by which it does, as far as they are mentioned.

    They lie in its folder and in `folders`, and below: `../utils.h` is one of the folder above, if that is given.

    Raises InvalidValue where one of `folders` is none.
    """
    near = _texts_of(path.parent, suffixes)
    near.pop(path.name, None)
    for folder in map(Path, folders):
        if not folder.is_dir():
            raise InvalidValue(f"-I expects a folder, got {str(folder)!r}")
        for name, each in _texts_of(folder, suffixes).items():
            near.setdefault(name, each)
            near.setdefault(Path(os.path.relpath(folder / name, path.parent)).as_posix(), each)
    found: dict[str, str] = {}
    texts = [text]
    while texts:
        text = texts.pop()
        for name in [each for each in near if each not in found and _mention(each) in text]:
            found[name] = near[name]
            texts.append(near[name])
    return found


def _mention(name: str) -> str:
    path = PurePosixPath(name)
    return path.name if path.suffix in PROGRAMS else path.stem


def _texts_of(folder: Path, suffixes: Collection[str]) -> dict[str, str]:
    """Return the texts that lie in a folder and below it, the nearest first."""
    found: dict[str, str] = {}
    for path in sorted(folder.rglob("*"), key=lambda each: (len(each.parts), each)):
        if path.suffix in suffixes and path.is_file() and len(found) < MOST_HEADERS:
            found[path.relative_to(folder).as_posix()] = path.read_text(encoding="utf-8", errors="replace")
    return found


def run_cxx(
    path: str, arguments: Sequence[str], trace: str | None = None, profile: bool = False, folders: Sequence[str] = ()
) -> int:  # fmt: skip
    """Compile and run. Returns what the program's `main` returns; 1 where it does not compile; 128 and more: a crash.

    `trace` is the file that its trace is written to, `profile`: figures are printed at the end. In strict mode and with
    the detectors, as the environment asks, its kernels are watched. It may include texts of `folders`, too.

    Raises NotSupported without a compiler, InvalidValue for a folder that is none, OSError where the file cannot be
    read.
    """
    options = EmulatorOptions.from_environment()
    if trace is not None:
        check_target(trace)
    try:
        arch = [f"--gpu-architecture={options.arch}"]
        unit = built(Path(path), arch, folders, options.strict or options.detect)
    except CompilationError as error:
        print(error, file=sys.stderr)
        return 1
    parent = os.getpid()

    def run() -> int:
        if trace is not None:
            os.environ["ATOPS_TRACE"] = os.path.abspath(trace)
        return run_main(parent, unit.path, path, arguments, profile)

    child = _begun(run)
    while True:
        try:
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            break
        except KeyboardInterrupt:
            continue  # the terminal has told the program, too
    if code >= 0:
        return code
    if code != -signal.SIGINT:
        print(f"atops run: {path} was ended by {signal.Signals(-code).name}", file=sys.stderr)
    return 128 - code


def _begun(run: Callable[[], int]) -> int:
    """Begin a process that ends with what `run` returns, or with 1 where it raises. Returns its number.

    It is forked, not started anew, for all that it needs is imported here; and no thread runs here yet.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        code = run()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        ctypes.CDLL(None).fflush(None)
        os._exit(code)
