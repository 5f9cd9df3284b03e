"""The demo's input: files, read piece by piece into chunks, without ever blocking an event loop."""

from __future__ import annotations

import sysconfig
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

import anyio.to_thread
import numpy as np
import numpy.typing as npt

__all__ = ("Chunk", "chunks", "files_of", "python_files", "read", "standard_library")

Chunk = npt.NDArray[np.uint8]


def standard_library() -> list[Path]:
    """Return every Python source file of the running Python's standard library, sorted; installed packages excepted."""
    root = Path(sysconfig.get_paths()["stdlib"])
    return [path for path in python_files(root) if "site-packages" not in path.relative_to(root).parts]


def files_of(paths: Sequence[str]) -> list[Path]:
    """Return the files that are named, and all those inside folders that are named, in order.

    Raises FileNotFoundError for a path that is not there.
    """
    found: list[Path] = []
    for path in map(Path, paths):
        if path.is_dir():
            found += sorted(each for each in path.rglob("*") if each.is_file())
        elif path.exists():
            found.append(path)
        else:
            raise FileNotFoundError(f"{path} is not there")
    return found


def python_files(root: Path) -> list[Path]:
    """Return the Python sources below a folder, sorted."""
    return sorted(path for path in root.rglob("*.py") if path.is_file())


async def chunks(files: Sequence[Path], size: int, threads: bool) -> AsyncIterator[Chunk]:
    """Yield the bytes of all files, one after another, in chunks of `size` bytes; the last one is shorter.

    With `threads` they are read on a worker thread; without, where a run must have one thread only, in place.
    """
    pieces = read(files, size)
    while True:
        piece = await anyio.to_thread.run_sync(next, pieces, None) if threads else next(pieces, None)
        if piece is None:
            return
        yield np.frombuffer(piece, np.uint8)


def read(files: Sequence[Path], size: int) -> Iterator[bytes]:
    """Yield the bytes of all files in pieces of `size`. Raises OSError naming the file that cannot be read."""
    held = bytearray()
    for path in files:
        with path.open("rb") as file:
            while piece := file.read(size):
                held += piece
                while len(held) >= size:
                    yield bytes(held[:size])
                    del held[:size]
    if held:
        yield bytes(held)
