"""`atops run`: a Python program as it stands, strict, from a seed, on another board, or with its trace written."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import io
import os
import pkgutil
import sys
import threading
from collections.abc import Mapping, Sequence
from functools import partial
from importlib.machinery import ModuleSpec, SourceFileLoader
from types import CodeType, ModuleType, TracebackType
from typing import NoReturn

from atops.base.errors import NotSupported, UsageError
from atops.base.options import ARCHITECTURE_NAMES, VARIABLES, EmulatorOptions
from atops.kernels.source.files import is_cxx_file
from atops.runtime.driver_board import STARTS, Board
from atops.runtime.profiling import Profile

__all__ = ("add_arguments", "main")

USAGE = """\
atops run [OPTIONS] SCRIPT [ARGS ...]
       atops run [OPTIONS] -m MODULE [ARGS ...]
       atops run [OPTIONS] PROGRAM.cpp [ARGS ...]"""
EPILOG = """\
OPTIONS stand before SCRIPT; whatever is behind it belongs to the program, which runs as `python SCRIPT [ARGS ...]`
runs it: the same __main__, sys.argv, sys.path, tracebacks and exit code. The options are defaults for every board that
the program makes, and its child processes: what the program itself gives, as in EmulatorOptions(seed=3), holds, and
a note says so. The same is had without this command from ATOPS_STRICT, ATOPS_DETECT, ATOPS_SEED, ATOPS_ARCH,
ATOPS_DEVICES, ATOPS_WORKERS and ATOPS_TRACE in the environment. Exit code 2: a mistake in OPTIONS, no such program, or
a trace that could not be written at the end of a program that went well.

A file that ends in .cpp, .cc, .cxx, .cu or .tops is a C++ program with kernels and a `main`: it is compiled, and runs
in a process of its own. Exit code 1: it does not compile; 128 and a signal's number: it crashed."""
VALUED = frozenset({"--seed", "--arch", "--devices", "--workers", "--trace", "-I"})
REPLACED: list[ModuleType] = []  # the __main__ of before: its functions go on


class _NoProgramError(Exception):
    """There is nothing to run."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    parser.usage, parser.epilog = USAGE, EPILOG
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.allow_abbrev = False
    add = parser.add_argument
    add("--strict", action="store_true", help="raise where the default only warns; poison what is not yet copied")
    add("--detect", action="store_true", help="report races: accesses to the same bytes that nothing orders")
    add("--seed", type=int, metavar="N", help="choose the order of steps from a seed: the same one, the same run")
    add("--arch", choices=ARCHITECTURE_NAMES, help="architecture")
    add("--devices", metavar="N", help="devices on the board, 0 to 8")
    add("--workers", metavar="W", help="threads for the blocks of kernels, or sip: one for each SIP thread")
    add("--trace", metavar="FILE", help="write the trace at the end: .json, .html, or any name; see `atops trace`")
    add("-I", dest="folders", action="append", default=[], metavar="FOLDER", help="C++: include texts of FOLDER, too")
    add("--profile", action="store_true", help="print a timeline and figures at the end, to the standard error")


def main(arguments: Sequence[str]) -> int:
    """Run a program. Returns 0 or 2; what the program raises, SystemExit too, comes out as the interpreter shows it."""
    parser = argparse.ArgumentParser(prog="atops run", description="Run a program under chosen options.")
    add_arguments(parser)
    options, program = _split(arguments)
    chosen = parser.parse_args(options)
    if not program or program == ["-m"]:
        parser.error("there is no program: expected SCRIPT, or -m MODULE")
    given = _given(chosen)
    before = {VARIABLES[name].name: os.environ.get(VARIABLES[name].name) for name in given}
    try:
        os.environ.update({VARIABLES[name].name: text for name, text in given.items()})
        EmulatorOptions.from_environment()
        if is_cxx_file(program[0]):
            command = importlib.import_module("atops.tops.program.command")  # half of atops, which others do not need
            code: int = command.run_cxx(program[0], program[1:], chosen.trace, chosen.profile, chosen.folders)
            return code
        profile = Profile(chosen.trace)
        module, compiled = _module(program[1], program[2:]) if program[0] == "-m" else _script(program[0], program[1:])
    except (UsageError, NotSupported, OSError, _NoProgramError) as error:
        for variable, text in before.items():
            os.environ.pop(variable) if text is None else os.environ.update({variable: text})
        said = f"{error.strerror}: {error.filename!r}" if isinstance(error, OSError) else str(error)
        for name in given:  # the program's caller wrote the option, and not the variable that stands for it here
            said = said.replace(f"{VARIABLES[name].name} is", f"--{name} is")
        parser.error(said)
    except SyntaxError as error:  # of the program, as Python tells it
        _raise(error, None)
    _tell_misplaced(program[2:] if program[0] == "-m" else program[1:])
    return _run(module, compiled, profile, given, chosen.profile)


def _split(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the command's options, and the program with its arguments: from the first word that is no option on."""
    at = 0
    while at < len(arguments) and arguments[at].startswith("-") and arguments[at] not in ("-", "--"):
        if arguments[at].startswith("-m"):
            joined = arguments[at][2:]  # -mMODULE
            return [*arguments[:at]], ["-m", *([joined] if joined else []), *arguments[at + 1 :]]
        at += 2 if arguments[at] in VALUED else 1
    return [*arguments[:at]], [*arguments[at + (arguments[at : at + 1] == ["--"]) :]]


def _given(chosen: argparse.Namespace) -> dict[str, str]:
    """Return the fields that the options set, as the environment has them."""
    found = {name: str(getattr(chosen, name)) for name in ("seed", "arch", "devices", "workers")}
    found |= {name: "1" for name in ("strict", "detect") if getattr(chosen, name)}
    return {name: text for name, text in found.items() if text != "None"}


def _tell_misplaced(arguments: Sequence[str]) -> None:
    """Note each option of this command behind the program: that one is the program's."""
    own = VALUED | {"--strict", "--detect", "--profile"}
    if misplaced := sorted({word.partition("=")[0] for word in arguments} & own):
        names = ", ".join(misplaced)
        note = f"{names} behind the program is the program's own; the options of `atops run` stand before it"
        print(f"atops run: note: {note}", file=sys.stderr)


# ---- the program, as Python finds it


def _script(path: str, arguments: Sequence[str]) -> tuple[ModuleType, CodeType]:
    """Put in place what `python PATH` runs, a file or the __main__.py of a folder or zip file, and return it."""
    importer = pkgutil.get_importer(path) if os.path.exists(path) else None
    if importer is not None:  # else it is no folder and no zip file
        spec = importer.find_spec("__main__")
        if spec is None:
            raise _NoProgramError(f"cannot run {path!r}: it has no __main__.py")
        return _placed(spec, [path, *arguments], os.path.abspath(path))
    full = os.path.abspath(path)
    with io.open_code(full) as file:
        source = file.read()
    code = compile(source, full, "exec", dont_inherit=True)
    module = ModuleType("__main__")
    module.__dict__.update(__file__=full, __cached__=None, __loader__=SourceFileLoader("__main__", full))
    _put(module, [path, *arguments], os.path.dirname(os.path.realpath(path)))
    return module, code


def _module(name: str, arguments: Sequence[str]) -> tuple[ModuleType, CodeType]:
    """Put in place what `python -m NAME` runs, and return it."""
    folder = os.getcwd()
    sys.argv[:] = ["-m", *arguments]  # while the packages above it are imported
    _set_first(folder)
    try:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = importlib.util.find_spec(f"{name}.__main__")
            if spec is None:
                raise _NoProgramError(f"cannot run {name}: it is a package without a __main__.py")
    except (ModuleNotFoundError, ValueError) as error:
        raise _NoProgramError(f"cannot run {name}: {error}") from None
    if spec is None:
        raise _NoProgramError(f"cannot run {name}: there is no module of this name")
    return _placed(spec, [spec.origin or name, *arguments], folder)


def _placed(spec: ModuleSpec, argv: list[str], folder: str) -> tuple[ModuleType, CodeType]:
    """Return an empty `__main__` for a module that was found, put in place, and the module's code."""
    get_code = getattr(spec.loader, "get_code", None)  # that of zip files is no InspectLoader, though it has it
    code: CodeType | None = None if get_code is None else get_code(spec.name)
    if code is None:
        raise _NoProgramError(f"cannot run {spec.name}: it has no code")
    module = ModuleType("__main__")
    module.__dict__.update(
        __file__=spec.origin, __cached__=spec.cached, __loader__=spec.loader, __package__=spec.parent, __spec__=spec
    )
    _put(module, argv, folder)
    return module, code


def _put(module: ModuleType, argv: list[str], folder: str) -> None:
    """Make a module the program's: pickles and child processes look for `__main__` by name."""
    before = sys.modules["__main__"]
    REPLACED.append(before)
    if "__annotations__" in before.__dict__:  # every program has it, up to Python 3.13
        module.__dict__.setdefault("__annotations__", {})
    sys.modules["__main__"] = module
    sys.argv[:] = argv
    _set_first(folder)


def _set_first(folder: str) -> None:
    """Have imports look there first, instead of where `atops` itself was started; not so in safe mode (-P)."""
    if not sys.flags.safe_path:
        sys.path[0] = folder


# ---- its run


def _run(module: ModuleType, code: CodeType, profile: Profile, given: Mapping[str, str], show: bool) -> int:
    """Run the program inside its profile, and end as it ends."""
    boards: list[EmulatorOptions] = []
    seen = partial(_note_board, boards)
    STARTS.append(seen)
    ended: BaseException | None = None
    process = os.getpid()
    with_trace = show or profile.file is not None
    if with_trace:
        profile.__enter__()
    try:
        exec(code, module.__dict__)
    except BaseException as error:
        ended = error
    if ended is None or isinstance(ended, SystemExit):
        ended = _wait_for_threads() or ended
    STARTS.remove(seen)
    failed = False
    if os.getpid() == process:  # else it is a child that the program forked, which ends like the program
        failed = _finish(profile, show) if with_trace else False
        _tell_unused(boards, given)
    if failed and (ended is None or (isinstance(ended, SystemExit) and not ended.code)):
        return 2
    if ended is not None:
        _raise(ended, code)
    return 0


def _note_board(boards: list[EmulatorOptions], board: Board) -> None:
    boards.append(board.options)


def _wait_for_threads() -> BaseException | None:
    """Wait for the program's threads, as the interpreter does before it ends. Returns what interrupted it."""
    try:
        getattr(threading, "_shutdown", int)()  # multiprocessing calls it for the same purpose
    except BaseException as error:
        return error
    return None


def _finish(profile: Profile, show: bool) -> bool:
    """Write and print what was asked for. Returns whether a file could not be written."""
    try:
        profile.__exit__(None, None, None)
    except OSError as error:
        failed = True
        print(f"atops run: error: the trace was not written: {error}", file=sys.stderr)
    else:
        failed = False
        if profile.file is not None and sys.stderr is not None and sys.stderr.isatty():
            count = f"{len(profile.records):,} records"
            print(f"atops run: {count} are in {profile.file}; see `atops trace --help`", file=sys.stderr)
    if show:
        print(profile, file=sys.stderr)
    return failed


def _tell_unused(boards: Sequence[EmulatorOptions], given: Mapping[str, str]) -> None:
    """Note each option that a board did not take, because the program has its own."""
    asked = EmulatorOptions.from_environment({VARIABLES[name].name: text for name, text in given.items()})
    for name in given:
        own = sorted({repr(getattr(board, name)) for board in boards} - {repr(getattr(asked, name))})
        if own:
            values = ", ".join(own)
            print(f"atops run: note: the program gives {name}={values} itself, and that holds", file=sys.stderr)


def _raise(ended: BaseException, code: CodeType | None) -> NoReturn:
    """Raise what ended the program, shown from the program's first line on: by its own hook, or the interpreter's."""
    own = ended.__traceback__
    while own is not None and own.tb_frame.f_code is not code:
        own = own.tb_next
    hook = sys.excepthook

    def show(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
        sys.excepthook = hook
        if error is ended:
            traceback = own
            error.__traceback__ = own
        hook(kind, error, traceback)

    sys.excepthook = show
    raise ended
