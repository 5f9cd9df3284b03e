"""`atops compile`: what is wrong in a file of kernels, in TOPS C++ or Python, what it defines, and its code image."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from atops.base.errors import CompilationError, InvalidOption, InvalidValue, NotSupported
from atops.kernels.programs.program import compile_source
from atops.kernels.source.diagnostics import SourceText
from atops.kernels.source.files import HEADERS, PROGRAMS
from atops.kernels.source.front_end import is_cxx
from atops.kernels.source.options import DEFAULT_TARGET
from atops.kernels.target import TARGETS
from atops.tops.program.command import included

__all__ = ("add_arguments", "main")

EPILOG = """\
The file is TOPS C++ by its name (.tops, .cpp, .cu, ...) or by what it contains, else Python. It may include or import
the texts in its folder and below, and those of folders that -I names. Mistakes are told in the file's own lines; a
program with a `main` runs with `atops run FILE`. Exit code 0: it compiles; 1: it does not; 2: FILE cannot be read,
IMAGE cannot be written, an option is wrong, or there is no compiler for C++."""
FAILED, BAD = 1, 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    parser.epilog = EPILOG
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add = parser.add_argument
    add("file", metavar="FILE", help="a file of kernels")
    add("-o", dest="image", metavar="IMAGE", help="write a code image, as k.load_module and topsModuleLoad read it")
    add("--arch", choices=TARGETS, default=DEFAULT_TARGET, help="architecture to compile for (default: %(default)s)")
    add("-D", dest="defines", action="append", default=[], metavar="NAME[=VALUE]", help="define a macro")
    add("-I", dest="folders", action="append", default=[], metavar="FOLDER", help="take texts of FOLDER and below, too")
    add("-w", dest="silent", action="store_true", help="show no warnings")
    add("-Werror", dest="strict", action="store_true", help="take warnings for errors")


def main(arguments: argparse.Namespace) -> int:
    """Compile a file. Returns 0, 1 where it does not compile, 2 for bad input."""
    path = Path(arguments.file)
    options = [f"--gpu-architecture={arguments.arch}", *(f"-D{each}" for each in arguments.defines)]
    options += ["-w"] * arguments.silent + ["-Werror"] * arguments.strict
    try:
        text = path.read_text(encoding="utf-8")
        suffixes = HEADERS | PROGRAMS if is_cxx(SourceText(path.name, text)) else {".py"}
        texts = included(path, text, arguments.folders, suffixes)
        compiled = compile_source(text, path.name, options, texts)
        if arguments.image:
            compiled.image().save(arguments.image)
    except (NotSupported, InvalidValue) as error:
        return _refused(str(error))
    except CompilationError as error:
        print(error, file=sys.stderr)
        return BAD if isinstance(error, InvalidOption) else FAILED
    except OSError as error:
        return _refused(f"{error.strerror}: {error.filename!r}")
    except UnicodeDecodeError:
        return _refused(f"{arguments.file!r} is no text in UTF-8")
    if len(compiled.log):
        print(compiled.log, file=sys.stderr)
    print(compiled.summary() or f"{path.name} defines nothing")
    return 0


def _refused(message: str) -> int:
    print(f"atops compile: error: {message}", file=sys.stderr)
    return BAD
