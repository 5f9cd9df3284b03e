"""Compile a C++ program with kernels and a `main`, and run it in a process of its own: `atops run PROGRAM.cpp`."""

from __future__ import annotations

import ctypes
import os
import re
import signal
import sys
import traceback
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import NoReturn

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
_COMPUTED = re.compile(r"^[ \t]*#[ \t]*include[ \t]+\w", re.MULTILINE)  # by a macro, which may add the end of a name
_MENTIONED = re.compile(r'["<]([^"<>\n]+)[">]|[\w./+-]+')


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
    for folder in folders:
        if not Path(folder).is_dir():
            raise InvalidValue(f"-I expects a folder, got {folder!r}")
    roots = [Path(os.path.abspath(each)) for each in (str(path.parent), *folders)]
    found: dict[str, str] = {}
    taken = {roots[0] / path.name}
    stems = {root: _by_stem(root, suffixes) for root in roots}
    texts = [(roots[0], text)]
    while texts:
        place, text = texts.pop()
        mentioned = _mentioned(text)
        if _COMPUTED.search(text):
            mentioned += [each for root in roots for name in mentioned for each in stems[root].get(name, ())]
        for name in mentioned:
            for file in (Path(os.path.normpath(base / name)) for base in (place, *roots)):
                if file in taken or file.suffix not in suffixes or len(taken) >= MOST_HEADERS or not _is_file(file):
                    continue
                taken.add(file)
                if names := _names_of(file, roots):
                    texts.append((file.parent, file.read_text(encoding="utf-8", errors="replace")))
                    for each in names:
                        found.setdefault(each, texts[-1][1])
    return found


def _by_stem(folder: Path, suffixes: Collection[str]) -> dict[str, list[str]]:
    """Return the names of files in a folder, by what stands before their ends."""
    found: dict[str, list[str]] = {}
    for name in sorted(os.listdir(folder)):
        stem, dot, end = name.rpartition(".")
        if dot + end in suffixes:
            found.setdefault(stem, []).append(name)
    return found


def _mentioned(text: str) -> list[str]:
    """Return what may be names of files in a text: of headers, in whatever macro, and of Python's modules."""
    mentions = dict.fromkeys(each[1] or each[0] for each in _MENTIONED.finditer(text))
    modules = [f"{each.replace('.', '/')}.py" for each in mentions if each.replace(".", "").isidentifier()]
    return [*mentions, *modules]


def _names_of(file: Path, roots: Sequence[Path]) -> list[str]:
    """Return the names by which texts find a file: from each folder that it lies below, and from the program's."""
    within = [file.relative_to(root).as_posix() for root in roots if file.is_relative_to(root)]
    return [*within, Path(os.path.relpath(file, roots[0])).as_posix()] if within else []


def _is_file(file: Path) -> bool:
    try:
        return file.is_file()
    except (OSError, ValueError):  # a mention that can be no name of a file
        return False


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

    def run() -> NoReturn:
        if trace is not None:
            os.environ["ATOPS_TRACE"] = os.path.abspath(trace)
        run_main(parent, unit.path, path, arguments, profile)

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


def _begun(run: Callable[[], NoReturn]) -> int:
    """Begin a process that `run` ends, with 1 where it raises. Returns its number.

    It is forked, not started anew, for all that it needs is imported here; and no thread runs here yet.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child:
        return child
    try:
        run()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        ctypes.CDLL(None).fflush(None)
        os._exit(1)
