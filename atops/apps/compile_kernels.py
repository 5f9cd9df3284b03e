"""`atops compile`: kernel source in Python or TOPS C++, its mistakes in the file's own lines, and what it has."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from atops.base.errors import CompilationError, InvalidOption, NotSupported
from atops.kernels.compile.program import Program
from atops.kernels.target import TARGETS
from atops.tops.program.command import headers_of

__all__ = ("add_arguments", "main")

EPILOG = """\
A file is C++ by its name (.tops, .cpp, .cu, ...) or by what it contains, else Python. It may include the headers of its
folder. Exit code 1: it does not compile; 2: bad options, no such file, or no compiler where one is needed."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    parser.epilog = EPILOG
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add = parser.add_argument
    add("file", metavar="FILE", type=Path, help="kernel source")
    add("-o", "--output", metavar="IMAGE", type=Path, help="write a code image: sources and names, no machine code")
    add("--arch", choices=sorted(TARGETS), default="gcu300", help="architecture (gcu300)")
    add("-D", dest="defines", metavar="NAME[=VALUE]", action="append", default=[], help="define a macro")
    add("-e", dest="expressions", metavar="NAME", action="append", default=[], help="a kernel: scale<float>")
    add("-w", dest="quiet", action="store_true", help="no warnings")
    add("-Werror", dest="strict", action="store_true", help="warnings are errors")


def main(arguments: argparse.Namespace) -> int:
    """Compile, print the kernels, and write the image. Returns the exit code."""
    path: Path = arguments.file
    options = [f"--gpu-architecture={arguments.arch}", *(f"-D{each}" for each in arguments.defines)]
    options += ["-w"] * arguments.quiet + ["-Werror"] * arguments.strict
    try:
        program = Program(path.read_text(encoding="utf-8"), path.name, headers_of(path.parent))
        for each in arguments.expressions:
            program.add_name_expression(each)
        compiled = program.compile(options)
        if arguments.output is not None:
            compiled.image().save(arguments.output)
    except CompilationError as error:
        print(error, file=sys.stderr)
        return 1
    except (InvalidOption, NotSupported, OSError, UnicodeDecodeError) as error:
        print(f"atops compile: {error}", file=sys.stderr)
        return 2
    if len(compiled.log):
        print(compiled.log, file=sys.stderr)
    print("\n".join(compiled.described()) or f"{path.name} has no kernel")
    return 0
