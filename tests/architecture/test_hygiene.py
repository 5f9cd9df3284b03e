"""The tree works wherever it is cloned: no path of one machine, no host of packages or scripts, no tool's cache."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.source_tree import ROOT

PICTURES = {".png"}
NOT_OURS = {".git", "build", "dist", "out", "node_modules", "__pycache__"}

# Paths and hosts are kept in pieces, so that this file does not hold what it looks for.
FOLDERS = ("home", "root", "tmp", "work")
ABSOLUTE_PATH = re.compile(rf"(?<![\w.~/:<-])/(?:{'|'.join(FOLDERS)})(?=$|[/\s\"'`),.;:])", re.MULTILINE)
PACKAGE_HOSTS = [("pypi", "org"), ("pythonhosted", "org"), ("npmjs", "org"), ("crates", "io"), ("anaconda", "org")]
SCRIPT_HOSTS = [("jsdelivr", "net"), ("unpkg", "com"), ("esm", "sh"), ("skypack", "dev"), ("cdnjs", "cloudflare")]
HOSTS = [".".join(host) for host in PACKAGE_HOSTS + SCRIPT_HOSTS]
HOST = re.compile("|".join(re.escape(host) for host in HOSTS))


def files(root: Path) -> Iterator[tuple[Path, bytes]]:
    """Yield every file of the project with what is in it; environments, caches and builds are not the project's."""
    for folder, folders, names in os.walk(root):
        hidden = {name for name in folders if name.startswith(".") and name != ".ci"}
        folders[:] = sorted(set(folders) - hidden - NOT_OURS)
        for name in sorted({*names} - {".git"}):  # in a linked work tree a file, which names the repository
            path = Path(folder, name)
            yield path.relative_to(root), path.read_bytes()


def texts(root: Path) -> Iterator[tuple[Path, str]]:
    """Yield every text file of the project with its text."""
    return ((path, data.decode("utf-8")) for path, data in files(root) if b"\0" not in data)


def occurrences(root: Path, pattern: re.Pattern[str]) -> list[str]:
    """Return where the pattern occurs, as file, line and text."""
    return [
        f"{path}:{text.count(chr(10), 0, match.start()) + 1}: {match.group()}"
        for path, text in texts(root)
        for match in pattern.finditer(text)
    ]


@pytest.mark.slow
def test_no_path_of_one_machine():
    """No file names a folder outside the project."""
    assert not (faults := occurrences(ROOT, ABSOLUTE_PATH)), "\n" + "\n".join(faults)


@pytest.mark.slow
def test_no_host_that_packages_come_from():
    """No file says where packages or scripts are fetched: the user's own set-up knows, and nothing needs a network."""
    assert not (faults := occurrences(ROOT, HOST)), "\n" + "\n".join(faults)


def test_files_are_texts_or_pictures():
    """Nothing that a tool keeps for itself, and that no one reads, lies among the sources."""
    assert not [str(path) for path, data in files(ROOT) if b"\0" in data and path.suffix not in PICTURES]


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_path_is_seen(tmp_path: Path, folder: str):
    """A path is found in quotes, at the end of a line and bare; a relative path and a web address are not."""
    (tmp_path / "a.md").write_text(f"ok\nopen('/{folder}/x')\ncd /{folder}\n", encoding="utf-8")
    (tmp_path / "b.md").write_text(f"docs/{folder}/x ./{folder} http://a.b/{folder}/ /{folder}s\n", encoding="utf-8")
    (tmp_path / "c.bin").write_bytes(f"\0/{folder}/x".encode())
    (tmp_path / ".git").write_text(f"gitdir: /{folder}/x", encoding="utf-8")
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / "d.md").write_text(f"/{folder}/x", encoding="utf-8")
    assert occurrences(tmp_path, ABSOLUTE_PATH) == [f"a.md:2: /{folder}", f"a.md:3: /{folder}"]


def test_a_host_is_seen(tmp_path: Path):
    """The address of every package index and script host is found."""
    (tmp_path / "a.toml").write_text("\n".join(f"https://www.{host}/x" for host in HOSTS), encoding="utf-8")
    assert occurrences(tmp_path, HOST) == [f"a.toml:{line}: {host}" for line, host in enumerate(HOSTS, start=1)]
