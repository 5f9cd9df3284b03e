"""The demo's input: which files are found, in which order, and that their bytes come in chunks with none lost."""

from __future__ import annotations

import os
import sysconfig
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atops.apps.demo import files_of, read, size_of, standard_library


def tree(root: Path, files: dict[str, bytes]) -> list[Path]:
    """Write files below a folder and return their paths as given."""
    for name, data in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    return [root / name for name in files]


@pytest.mark.slow
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


@pytest.mark.slow
@given(contents=st.lists(st.binary(max_size=40), max_size=6), size=st.integers(1, 50))
def test_every_byte_once_and_in_order(tmp_path_factory: pytest.TempPathFactory, contents: list[bytes], size: int):
    """Whatever the files, the chunks put together are the files put together, and none is empty."""
    files = tree(tmp_path_factory.mktemp("any"), {str(number): data for number, data in enumerate(contents)})
    chunks = [chunk.tobytes() for chunk in read(files, size)]
    assert b"".join(chunks) == b"".join(contents)
    assert [len(chunk) for chunk in chunks[:-1]] == [size] * (len(chunks) - 1)
    assert all(chunks)


def test_a_file_that_grows_while_it_is_read(tmp_path: Path):
    """What is appended before its end is reached is read too, and the next file follows."""
    files = tree(tmp_path, {"a": b"0123", "b": b"last"})
    chunks = read(files, 2)
    assert next(chunks).tobytes() == b"01"
    with files[0].open("ab") as file:
        file.write(b"45678")
    assert [chunk.tobytes() for chunk in chunks] == [b"23", b"45", b"67", b"8l", b"as", b"t"]


def test_a_file_that_shrinks_while_it_is_read(tmp_path: Path):
    """What is cut off before it is reached is not read, and the next file follows."""
    files = tree(tmp_path, {"a": b"0123456789", "b": b"last"})
    chunks = read(files, 2)
    assert next(chunks).tobytes() == b"01"
    os.truncate(files[0], 3)
    assert [chunk.tobytes() for chunk in chunks] == [b"2l", b"as", b"t"]


class Broken:
    """An open file whose disk fails."""

    def __init__(self, name: Path) -> None:
        self.name = name

    def __enter__(self) -> Broken:
        return self

    def __exit__(self, *_: object) -> None:
        """Close nothing."""

    def readinto(self, _: memoryview) -> int:
        """Fail as the system does: without a name."""
        raise OSError(5, "Input/output error")


def test_a_disk_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """An error in the middle of a file names the file, which the system does not."""
    (file,) = tree(tmp_path, {"a": b"0123"})
    monkeypatch.setattr(Path, "open", lambda path, *arguments, **options: Broken(path))
    with pytest.raises(OSError, match="Input/output error") as refused:
        list(read([file], 4))
    assert refused.value.filename == file


def test_a_folder_that_cannot_be_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A folder that may not be read is an error that names it: its files are not left out in silence."""
    tree(tmp_path, {"closed/a": b"1", "b": b"2"})
    listed = os.scandir

    def scandir(path: str) -> object:
        if Path(path) == tmp_path / "closed":
            raise PermissionError(13, "Permission denied", path)
        return listed(path)

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(PermissionError, match="closed"):
        files_of([str(tmp_path)])


def test_an_empty_name_is_no_folder():
    """An empty argument, as an unset variable of a shell leaves it, is refused and does not mean the folder here."""
    with pytest.raises(FileNotFoundError, match="''"):
        files_of([""])
