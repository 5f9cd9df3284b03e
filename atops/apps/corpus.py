"""What the demo reads: which files, and their bytes as chunks of one size. It knows no device and no event loop."""

from __future__ import annotations

import os
import sysconfig
from collections.abc import Iterator, Sequence
from errno import ENOENT
from io import FileIO
from pathlib import Path

import numpy as np
import numpy.typing as npt

__all__ = ("Chunk", "files_of", "read", "size_of", "standard_library")

Chunk = npt.NDArray[np.uint8]

INSTALLED = frozenset(("site-packages", "dist-packages"))  # folders of what does not come with Python


def standard_library() -> list[Path]:
    """Return every Python source file of the running Python's standard library, always in the same order."""
    root = Path(sysconfig.get_path("stdlib"))
    return [path for path in _below(root, INSTALLED) if path.suffix == ".py"]


def files_of(paths: Sequence[str]) -> list[Path]:
    """Return the files that are named and those in folders that are named, each folder's always in the same order.

    Raises OSError for a path that is not there, that is neither a file nor a folder, or whose folder cannot be read.
    """
    found: list[Path] = []
    for name in paths:
        path = Path(name)
        if not name:
            raise FileNotFoundError(ENOENT, os.strerror(ENOENT), name)  # a Path of nothing would be the folder here
        if path.is_dir():
            found += _below(path)
        elif path.is_file():
            found.append(path)
        else:
            if name == "-":
                raise OSError("-: the standard input is not read; pass files and folders")
            path.stat()  # raises where there is nothing
            raise OSError(f"{path} is neither a file nor a folder")
    return found


def size_of(files: Sequence[Path]) -> int:
    """Return the bytes of all files together. Raises OSError."""
    return sum(path.stat().st_size for path in files)


def read(files: Sequence[Path], size: int) -> Iterator[Chunk]:
    """Yield the bytes of all files, one after another, in new arrays of `size` bytes; the last may be shorter.

    It blocks while it reads. Raises OSError, naming the file, for one that cannot be read.
    """
    chunk, filled = np.empty(size, np.uint8), 0
    for path in files:
        with path.open("rb", buffering=0) as file:
            while got := _fill(chunk.data[filled:], file):
                filled += got
                if filled == size:
                    yield chunk
                    chunk, filled = np.empty(size, np.uint8), 0
    if filled:
        yield chunk[:filled]


def _fill(room: memoryview, file: FileIO) -> int:
    """Read what there is, and no more than there is room. Raises OSError naming the file, 0 is its end."""
    try:
        return file.readinto(room) or 0
    except OSError as error:
        error.filename = file.name  # the system names it only where it cannot be opened
        raise


def _below(folder: Path, without: frozenset[str] = frozenset()) -> Iterator[Path]:
    """Yield every regular file below a folder, but those in folders called as in `without`. Links are not followed."""
    for place, folders, names in os.walk(folder, onerror=_refuse):
        folders[:] = sorted(set(folders) - without)
        yield from (path for name in sorted(names) if (path := Path(place, name)).is_file())


def _refuse(error: OSError) -> None:
    """Raise what kept a folder from being listed; os.walk alone would leave the folder out."""
    raise error
