"""Executables: made of bytes or files, saved, destroyed (TOPS Runtime API, 2.11). Opening one runs nothing."""

from __future__ import annotations

import os
from typing import Any

from atops.base.errors import InvalidType, InvalidValue
from atops.base.result_codes import Result
from atops.runtime.executables.executable import Executable
from atops.runtime.executables.file import MOST_BYTES
from atops.runtime.memory.buffer import Buffer
from atops.tops.bridge.arguments import size_of
from atops.tops.bridge.call import call
from atops.tops.bridge.codes import CodeError
from atops.tops.bridge.context import current_driver
from atops.tops.bridge.handles import register, take
from atops.tops.bridge.pointers import is_null, operand
from atops.tops.functions.executable.arguments import executable_of

__all__ = (
    "topsCreateExecutable",
    "topsCreateExecutableFromFile",
    "topsDestroyExecutable",
    "topsExecutableSaveToFile",
)


@call
def topsCreateExecutable(bin: Any, size: int) -> int:
    """Open the executable that `size` bytes of host memory are; what `Executable.to_bytes` returns is one.

    InvalidImage: they are none, or a damaged one. InvalidValue: null, or memory of fewer bytes. NotSupported: the
    package onnx is not installed.
    """
    nbytes = size_of(size)
    if is_null(bin):
        raise InvalidValue("bin is null; the bytes of an executable are right")
    found = operand(bin, nbytes, "bin")
    if not isinstance(found, Buffer):
        return _open(bytes(found))
    if found.device is not None:
        raise InvalidValue(f"bin is in {found!r}; host memory is right")
    return _open(bytes(found.allocation.view[found.offset : found.offset + nbytes]))


@call
def topsCreateExecutableFromFile(filepath: str | bytes | os.PathLike[str]) -> int:
    """Open the executable in a file.

    FileNotFound: it cannot be read. InvalidImage: it is none, or damaged. InvalidValue: no path. NotSupported: the
    package onnx is not installed.
    """
    try:
        with open(_path(filepath, "filepath"), "rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise CodeError(Result.FileNotFound, f"filepath is {filepath!r}: {error.strerror}") from None
    return _open(data)


@call
def topsDestroyExecutable(exe: int) -> None:
    """Let an executable be gone. Launches that are enqueued keep what they use; so do pointers of loaded constants.

    InvalidHandle.
    """
    take(exe, Executable).close()


@call
def topsExecutableSaveToFile(exe: int, path: str | bytes | os.PathLike[str]) -> None:
    """Write an executable to a file, with its constants as they are.

    IllegalState: constants were refitted, and topsExecutableUpdateConstantKey was not called since. OperatingSystem:
    the file cannot be written. InvalidValue: no path. InvalidHandle.
    """
    found = executable_of(exe)
    target = _path(path, "path")
    try:
        found.save(target)
    except OSError as error:
        raise CodeError(Result.OperatingSystem, f"path is {path!r}: {error.strerror}") from None


def _open(data: bytes) -> int:
    current_driver()
    return register(Executable.from_bytes(data), None)


def _path(value: Any, what: str) -> str | bytes:
    if not isinstance(value, str | bytes | os.PathLike) or not os.fspath(value):
        raise InvalidType(f"{what} is {value!r}; the path of a file is right")
    return os.fspath(value)
