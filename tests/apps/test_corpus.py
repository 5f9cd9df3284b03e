"""The demo's input: which files are found, in which order, and that their bytes come in chunks with none lost."""

from __future__ import annotations

import os
import sysconfig
from pathlib import Path

import numpy as np
import pytest

from atops.apps.corpus import files_of, read, size_of, standard_library


def tree(root: Path, files: dict[str, bytes]) -> list[Path]:
    """Write files below a folder and return their paths as given."""
    for name, data in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    return [root / name for name in files]


def test_the_standard_library():
    """It has what every Python has, sub-packages too, many megabytes, sorted by folder, and nothing installed."""
    found = standard_library()
    root = Path(sysconfig.get_path("stdlib"))
    names = [path.relative_to(root) for path in found]
    assert {Path("os.py"), Path("json", "decoder.py"), Path("asyncio", "base_events.py")} <= set(names)
    assert {path.suffix for path in found} == {".py"}
    assert not [name for name in names if {"site-packages", "dist-packages"} & set(name.parts)]
    assert [name for name in names if len(name.parts) == 1] == sorted(name for name in names if len(name.parts) == 1)
    assert size_of(found) > 5_000_000
    assert found == standard_library()


def test_installed_packages_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """What lies in a folder for installed packages is none of the standard library's."""
    tree(tmp_path, {"b.py": b"", "a/x.py": b"", "a/x.txt": b"", "site-packages/p.py": b"", "a/dist-packages/q.py": b""})
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path))
    assert standard_library() == [tmp_path / "b.py", tmp_path / "a" / "x.py"]


def test_files_and_folders(tmp_path: Path):
    """Files come as they are named; a folder gives every file below it, sorted, whatever its name."""
    tree(tmp_path, {"z.bin": b"1", "d/b": b"2", "d/a.py": b"3", "d/e/c": b"4", "d/.hidden": b"5"})
    names = ["d/.hidden", "d/a.py", "d/b", "d/e/c"]
    found = files_of([str(tmp_path / "z.bin"), str(tmp_path / "d"), str(tmp_path / "z.bin")])
    assert found == [tmp_path / name for name in ["z.bin", *names, "z.bin"]]
    assert size_of(found) == 6


def test_links_and_strange_files_in_a_folder(tmp_path: Path):
    """A link that leads nowhere, a link that leads back and a pipe are left out; none of them is waited for."""
    (kept,) = tree(tmp_path, {"d/a": b"1"})
    (tmp_path / "d" / "nowhere").symlink_to(tmp_path / "gone")
    (tmp_path / "d" / "back").symlink_to(tmp_path / "d")
    os.mkfifo(tmp_path / "d" / "pipe")
    assert files_of([str(tmp_path / "d")]) == [kept]


def test_what_is_not_there(tmp_path: Path):
    """A missing path and a pipe are refused by name."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FileNotFoundError, match="gone"):
        files_of([str(tmp_path / "gone")])
    with pytest.raises(OSError, match="pipe is neither a file nor a folder"):
        files_of([str(tmp_path / "pipe")])


@pytest.mark.parametrize("size", [1, 2, 3, 7, 10, 11, 100])
def test_chunks(tmp_path: Path, size: int):
    """Small files share chunks, large ones are cut, empty ones add nothing; only the last chunk is shorter."""
    contents = [b"abc", b"", b"d", b"efghij", b""]
    files = tree(tmp_path, {str(number): data for number, data in enumerate(contents)})
    chunks = list(read(files, size))
    whole = b"".join(contents)
    assert b"".join(chunk.tobytes() for chunk in chunks) == whole
    assert [chunk.size for chunk in chunks[:-1]] == [size] * ((len(whole) - 1) // size)
    assert all(chunk.dtype == np.uint8 for chunk in chunks)


def test_chunks_do_not_share_memory(tmp_path: Path):
    """Each chunk is an array of its own: it is still being copied while the next is read."""
    first, second = read(tree(tmp_path, {"a": b"aabb"}), 2)
    second[:] = 0
    assert first.tobytes() == b"aa"


@pytest.mark.parametrize("files", [{}, {"a": b"", "b": b""}], ids=["no file", "empty files"])
def test_nothing_to_read(tmp_path: Path, files: dict[str, bytes]):
    """No bytes make no chunk."""
    assert list(read(tree(tmp_path, files), 4)) == []


def test_a_file_that_vanished(tmp_path: Path):
    """What was there when it was found and is not there when it is read is named."""
    kept, gone = tree(tmp_path, {"a": b"aa", "b": b"bb"})
    gone.unlink()
    pieces = read([kept, gone], 2)
    assert next(pieces).tobytes() == b"aa"
    with pytest.raises(FileNotFoundError, match="b"):
        next(pieces)
