"""`atops check`: a program under many schedules, until one fails."""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import runpy
import shlex
import sys
from collections.abc import Iterator
from dataclasses import replace
from types import CodeType
from typing import get_args

from atops.base.errors import InvalidValue, UsageError
from atops.base.options import VARIABLES
from atops.checking.check import MOST_STEPS, Checking, StrategyName
from atops.checking.runner import Program
from atops.checking.search import Failure
from atops.kernels.source.files import is_cxx_file
from atops.runtime.schedules.host import Backend

__all__ = ("add_arguments", "main", "program_of")

EPILOG = """\
SCRIPT runs as `python SCRIPT` does, once for each schedule, in one thread and on the virtual clock: what it gives to
atops.run or asyncio.run, or its blocking calls. SCRIPT:NAME calls a function of it, a coroutine function or a plain
one, without arguments. What it prints is not shown. --detect is a default, as ATOPS_DETECT=1 in the environment is:
what the program itself gives, as in EmulatorOptions(detect=False), holds. Exit code 0: it passed under all schedules
that were run; 1: it failed, and the report says under which schedule; 2: a mistake in the arguments; 3:
inconclusive."""
FAILED, BAD, INCONCLUSIVE = 1, 2, 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    parser.epilog = EPILOG
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add = parser.add_argument
    add("script", metavar="SCRIPT[:NAME]", help="the program, and a function of it")
    add("--schedules", type=int, default=500, metavar="N", help="schedules to run at most (default: %(default)s)")
    add(
        "--strategy", default="random", metavar="NAME",
        help=f"which schedules: {', '.join(get_args(StrategyName))}, or the one of a report, as it prints it "
             "(default: %(default)s)",
    )  # fmt: skip
    add("--seed", type=int, default=0, metavar="N", help="the seed of random and pct (default: %(default)s)")
    add("--steps", type=int, default=MOST_STEPS, metavar="N", help="steps that a run may make (default: %(default)s)")
    add("--same-result", action="store_true", help="fail where NAME returns something else than in the first run")
    add("--backend", choices=get_args(Backend), default="asyncio", help="what runs NAME (default: %(default)s)")
    add(
        "--detect", action=argparse.BooleanOptionalAction,
        help="fail by races that the detectors report, too (default: by ATOPS_DETECT)",
    )  # fmt: skip
    add("--json", action="store_true", help="print the report as JSON")


def main(arguments: argparse.Namespace) -> int:
    """Check a program. Returns 0, 1 if it fails, 2 for bad input, 3 if it cannot be told."""
    with _detecting(arguments.detect):
        return _checked(arguments)


@contextlib.contextmanager
def _detecting(asked: bool | None) -> Iterator[None]:
    """Have the environment ask for the detectors, or for none, as boards that the program makes look there."""
    variable = VARIABLES["detect"].name
    before = os.environ.get(variable)
    if asked is not None:
        os.environ[variable] = str(int(asked))
    try:
        yield
    finally:
        if before is not None:
            os.environ[variable] = before
        else:
            os.environ.pop(variable, None)


def _checked(arguments: argparse.Namespace) -> int:
    path, name = _split(arguments.script)
    try:
        program = program_of(path, name)
        checking = Checking(
            program, arguments.schedules, arguments.strategy, (), None, arguments.seed, 2, arguments.steps,
            arguments.same_result, 300, arguments.backend,
        )  # fmt: skip
    except (InvalidValue, OSError, SyntaxError, UsageError) as error:
        said = f"{error.strerror}: {error.filename!r}" if isinstance(error, OSError) else str(error)
        print(f"atops check: error: {said}", file=sys.stderr)
        return BAD
    with contextlib.redirect_stdout(io.StringIO()):
        report = checking.run()
    if report.schedule is not None:
        report = replace(report, command=_repeating(arguments, report.schedule, report.failure))
    print(report.to_json() if arguments.json else report)
    if report.found.choices == 0 and report:
        print(f"atops check: note: nothing in {path} runs on a device or a loop", file=sys.stderr)
    return 0 if report else FAILED if report.verdict == "failed" else INCONCLUSIVE


def _repeating(arguments: argparse.Namespace, schedule: str, failure: Failure | None) -> str:
    """Return the command that runs a schedule again, with all else as it was; the whole check for different results."""
    words = ["python", "-m", "atops", "check", arguments.script, "--strategy"]
    if failure is not None and failure.kind == "different results":  # of two runs: one has nothing to be compared with
        many, seed = str(arguments.schedules), str(arguments.seed)
        words += [arguments.strategy, "--schedules", many, "--seed", seed, "--same-result"]
    else:
        words.append(schedule)
    if arguments.steps != MOST_STEPS:
        words += ["--steps", str(arguments.steps)]
    if arguments.backend != "asyncio":
        words += ["--backend", arguments.backend]
    if arguments.detect is not None:
        words.append("--detect" if arguments.detect else "--no-detect")
    return shlex.join(words)


def program_of(path: str, name: str) -> Program:
    """Return a function of a script, or one that runs all of it, named after the file, for no name.

    The script's folder is where it imports from. Raises UsageError for a C++ program, OSError, SyntaxError,
    InvalidValue where there is no such function, and what the script itself raises as it is read for one.
    """
    if is_cxx_file(path):
        raise UsageError(
            f"{path} is a C++ program, which runs in a process of its own, in whatever order its threads take: "
            "`atops run --detect` reports its races in one run. To check its kernels under many schedules, launch them "
            "from Python: `module = atops.kernels.compile_source(text)`"
        )
    with open(path, "rb") as file:
        code = compile(file.read(), os.path.abspath(path), "exec", dont_inherit=True)
    sys.path.insert(0, os.path.dirname(os.path.realpath(path)))
    if name:
        return _function(path, name)
    program = _script(code, path)
    program.__name__ = os.path.basename(path)
    return program


def _split(script: str) -> tuple[str, str]:
    """Return the path, and the name of a function or nothing."""
    path, colon, name = script.rpartition(":")
    return (path, name) if colon and name.isidentifier() and not os.path.exists(script) else (script, "")


def _script(code: CodeType, path: str) -> Program:
    """Return a function that runs a script as its own main program."""

    def program() -> None:
        before = sys.argv[:]
        sys.argv[:] = [path]
        try:
            exec(code, {"__name__": "__main__", "__file__": os.path.abspath(path), "__builtins__": __builtins__})
        except SystemExit as ended:
            if ended.code not in (None, 0):
                raise
        finally:
            sys.argv[:] = before

    return program


def _function(path: str, name: str) -> Program:
    """Return a function of a script, which is run once, with another name than a main program's."""
    with contextlib.redirect_stdout(io.StringIO()):
        found: object = runpy.run_path(path, run_name="__atops_check__").get(name)
    if not callable(found):
        raise InvalidValue(f"{path} has no function {name!r}")
    return found
