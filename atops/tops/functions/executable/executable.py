"""Executables: made of bytes or files, saved, destroyed (TOPS Runtime API, 2.11). Opening one runs nothing."""

from __future__ import annotations

import os

from atops.base.errors import InvalidValue
from atops.base.result_codes import Result
from atops.runtime.board.context import DeviceContext
from atops.runtime.executables.executable import Executable
from atops.runtime.executables.file import MOST_BYTES
from atops.runtime.resources.bundle import ResourceBundle, bundle_of
from atops.tops.bridge.arguments import contents_of, listed, numbers, path_of, size_of
from atops.tops.bridge.call import call
from atops.tops.bridge.codes import CodeError
from atops.tops.bridge.context import current_driver
from atops.tops.bridge.handles import live, register, take
from atops.tops.bridge.pointers import host_copy, is_null

__all__ = (
    "bundle_for", "executable_of", "pointers_in", "shapes_in", "topsCreateExecutable", "topsCreateExecutableFromFile",
    "topsDestroyExecutable", "topsExecutableSaveToFile",
)  # fmt: skip


@call
def topsCreateExecutable(bin: object, size: int) -> int:
    """Open the executable in `size` bytes of host memory, such as `Executable.to_bytes` returns.

    InvalidImage: not an executable, or a damaged one. InvalidValue: null, or memory of fewer bytes. NotSupported: the
    package onnx is not installed.
    """
    nbytes = size_of(size)
    if is_null(bin):
        raise InvalidValue("bin must be the bytes of an executable, got null")
    return _open(host_copy(bin, nbytes, "bin"))


@call
def topsCreateExecutableFromFile(filepath: str | bytes | os.PathLike[str]) -> int:
    """Open the executable in a file.

    FileNotFound: it cannot be read. InvalidImage: not an executable, or damaged. InvalidValue: not a path.
    NotSupported: the package onnx is not installed.
    """
    return _open(contents_of(filepath, "filepath", MOST_BYTES))


@call
def topsDestroyExecutable(exe: int) -> None:
    """End an executable. Launches that are enqueued keep what they use, and pointers of loaded constants stay valid.

    InvalidHandle.
    """
    take(exe, Executable).close()


@call
def topsExecutableSaveToFile(exe: int, path: str | bytes | os.PathLike[str]) -> None:
    """Write an executable to a file, with its constants as they are.

    IllegalState: constants were refitted, and topsExecutableUpdateConstantKey was not called since. OperatingSystem:
    the file cannot be written. InvalidValue: not a path. InvalidHandle.
    """
    found = executable_of(exe)
    target = path_of(path, "path")
    try:
        found.save(target)
    except OSError as error:
        raise CodeError(Result.OperatingSystem, f"cannot write path {target!r}: {error.strerror}") from None


def _open(data: bytes) -> int:
    current_driver()
    return register(Executable.from_bytes(data), None)


# ---- shared by the functions of executables


def executable_of(handle: object) -> Executable:
    """Return the executable of a handle, or one of the object API itself. Raises InvalidHandle."""
    return handle if isinstance(handle, Executable) else live(handle, Executable)


def bundle_for(res: object, context: DeviceContext) -> ResourceBundle | None:
    """Return the bundle of a handle; None for null, which means the caller's default. Raises InvalidHandle."""
    return None if is_null(res) else bundle_of(context, live(res, ResourceBundle))


def pointers_in(values: object, count: object, wanted: int, what: str) -> list[object]:
    """Return a list of pointers, of the number that is wanted; `count` is None or their number.

    Raises InvalidType, InvalidValue.
    """
    found = listed(values, count, f"{what}s")
    if len(found) != wanted:
        raise InvalidValue(f"expected {wanted} {what}s, got {len(found)}")
    return found


def shapes_in(dims: object, ranks: object, count: int) -> list[tuple[int, ...]]:
    """Return shapes, given as a flat list of extents and a list of ranks. Raises InvalidType, InvalidValue."""
    flat, lengths = numbers(dims, None, "input_dims"), numbers(ranks, None, "input_rank")
    if len(lengths) != count or any(each < 0 for each in lengths) or sum(lengths) != len(flat):
        raise InvalidValue(
            f"input_rank must have a rank for each of {count} inputs, and input_dims that many extents in all, "
            f"got {lengths} and {len(flat)} extents"
        )
    if any(each < 0 for each in flat):
        raise InvalidValue(f"input_dims must not be negative, got {flat}")
    rest = iter(flat)
    return [tuple(next(rest) for _ in range(length)) for length in lengths]
