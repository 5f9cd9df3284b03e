"""The C++ compiler: which one it is, how it is called, and where its results are kept.

Results are kept in a folder of the user's own (mode 0700), named after a digest of all that they depend on. Each has
the digest of its bytes beside it, which is compared before the result is loaded. The folder has a size: those that were
not used for longest are removed.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from atops.base.errors import CompilationError, IllegalState, NotSupported

__all__ = ("FLAGS", "Kept", "Toolchain", "cache_folder", "find_toolchain", "keep", "kept", "key_of", "processor")

NAMED = "ATOPS_CXX"  # in the environment: the compiler to use
FOLDER = "ATOPS_CACHE"  # in the environment: where results are kept
SIZE = "ATOPS_CACHE_SIZE"  # in the environment: of how many bytes they may be
DEFAULT_SIZE = "1G"
_SIZE = re.compile(r"(\d+)([kMG]?)")
_UNITS = {"": 1, "k": 2**10, "M": 2**20, "G": 2**30}
# Each of some 16 results that are kept lets the folder be counted, by its key: counting takes as long as a compiler's
# preprocessing where there are 30,000.
COUNTED = ("0",)
LEFT = 0.8  # of the size, once results are removed
SECONDS = 300  # that a compiler may take
NEED_GCC = 11  # concepts and class types as template arguments

# u8"..." is of plain characters, as in the C++17 of texts for the chip. The processor's own floating contraction and
# exceptions stay out: results do not depend on who compiled.
FLAGS = (
    "-std=c++20", "-fno-char8_t", "-fPIC", "-fvisibility=hidden", "-fno-exceptions", "-fno-rtti",
    "-fno-strict-aliasing", "-ffp-contract=off", "-fno-stack-protector", "-fstack-clash-protection", "-fwrapv",
    "-fno-delete-null-pointer-checks", "-pipe", "-fno-elide-type",
)  # fmt: skip


ZIG = (sys.executable, "-m", "ziglang")  # of the wheel of that name


@dataclass(frozen=True, slots=True)
class Toolchain:
    """A compiler: the words that call it, and the version that it says.

    That of the `ziglang` wheel is a clang++ which checks for undefined behaviour unless told not to. The first thing
    that it links on a machine takes it most of a minute: it builds its C++ library.
    """

    command: tuple[str, ...]
    version: str
    clang: bool
    zig: bool = False

    @property
    def preprocessed(self) -> str:
        """The language of a text that was preprocessed, as the compiler calls it."""
        return "c++" if self.zig else "c++-cpp-output"

    def run(
        self, arguments: Sequence[str], source: str | None = None, folder: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Call it, in a folder. `source` is its standard input. Raises CompilationError where it does not come back."""
        always = ["-fno-sanitize=undefined"] if self.zig else []
        always += [] if self.clang else ["-fdiagnostics-column-unit=byte"]  # as clang++ counts them
        try:
            return subprocess.run(
                [*self.command, *always, *arguments], input=source, capture_output=True, text=True, timeout=SECONDS,
                check=False, errors="replace", env={**os.environ, "LC_ALL": "C"}, cwd=folder,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise CompilationError(f"{self.command[0]} did not end within {SECONDS} s") from None

    def library(self, sources: Sequence[Path], target: Path, flags: Sequence[str] = ()) -> str:
        """Compile sources and link them into a shared library. Returns what the compiler says; empty where all is well.

        Raises CompilationError with what it says where it fails.
        """
        result = self.run([*FLAGS, "-shared", "-O2", *flags, *map(str, sources), "-o", str(target)])
        if result.returncode:
            raise CompilationError(result.stderr.strip() or f"{self.command[0]} ended with {result.returncode}")
        return result.stderr


def find_toolchain(named: str | None = None) -> Toolchain:
    """Return the compiler: `named`, or ATOPS_CXX, or g++ from 11 on, or clang++, or that of the wheel `ziglang`.

    Raises NotSupported where there is none, naming what to install, and on systems that native kernels do not run on.
    """
    if sys.platform != "linux" or platform.machine() not in ("x86_64", "aarch64"):
        here = f"{sys.platform}, {platform.machine()}"
        raise NotSupported(f"kernels in C++ run on Linux, x86-64 or aarch64; this is {here}")
    chosen = named or os.environ.get(NAMED)
    if chosen:
        found = _zig() if chosen == ZIG[-1] else _asked((chosen,))
        if found is None:
            raise NotSupported(f"{chosen!r} is no C++ compiler that can be called; set {NAMED} to one, or to nothing")
        return found
    found = _first()
    if found is None:
        raise NotSupported(
            "kernels in C++ need a compiler, and there is none: install g++ (11 or later) or clang++ (14 or later), or "
            "pip install 'atops[cxx]', which brings one"
        )
    return found


@cache
def _first() -> Toolchain | None:
    """Return the best compiler that is there."""
    gcc = _asked(("g++",))
    return gcc if gcc is not None and _major(gcc) >= NEED_GCC else _asked(("clang++",)) or _zig()


@cache
def _zig() -> Toolchain | None:
    """Return the compiler of the wheel `ziglang`, if it is installed."""
    found = _asked((*ZIG, "c++")) if find_spec(ZIG[-1]) else None
    return None if found is None else replace(found, zig=True)


@cache
def _asked(command: tuple[str, ...]) -> Toolchain | None:
    """Return the compiler that these words call, if it says its version."""
    if shutil.which(command[0]) is None:
        return None
    try:
        said = subprocess.run([*command, "--version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    if said.returncode:
        return None
    version = said.stdout.strip().splitlines()[0] if said.stdout.strip() else command[0]
    return Toolchain(command, version, "clang" in said.stdout.lower())


def _major(found: Toolchain) -> int:
    """Return the major version: the number before the first dot of the last word that has one."""
    for word in reversed(found.version.split()):
        head = word.split(".")[0]
        if head.isdigit() and "." in word:
            return int(head)
    return 0


@cache
def processor() -> str:
    """Return what the machine code depends on: the kind of processor and its features."""
    with open("/proc/cpuinfo") as file:
        lines = [line for line in file if line.startswith(("flags", "Features", "model name"))]
    return platform.machine() + "".join(sorted(set(lines)))


def cache_folder() -> Path:
    """Return the folder of results, made if it is not there.

    Raises IllegalState where it is another user's, or cannot be made.
    """
    named = os.environ.get(FOLDER)
    base = Path(named) if named else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "atops"
    folder = base / "native"
    try:
        for each in (base, folder):
            each.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise IllegalState(
            f"what the compiler makes is kept in {folder}, which cannot be made ({error.strerror}): set {FOLDER}"
        ) from None
    # Who may write the outer one could put another in the inner one's place. Its group is often the user's own.
    for each, owners, bits in ((folder, (os.getuid(),), 0o022), (base, (os.getuid(), 0), 0o002)):
        seen = each.stat()
        kept_apart = each is base and seen.st_mode & stat.S_ISVTX  # the sticky bit: each removes only what is its own
        if seen.st_uid not in owners or (stat.S_IMODE(seen.st_mode) & bits and not kept_apart):
            raise IllegalState(
                f"{each} can be written by others; machine code is kept where only you write: "
                f"set {FOLDER}, or chmod 700"
            )
    return folder


def key_of(parts: Iterable[str | bytes]) -> str:
    """Return the digest of everything that a result depends on."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()[:40]


class Kept(NamedTuple):
    """A result that is kept, and what was written down about it."""

    path: Path
    notes: str


def kept(key: str) -> Kept | None:
    """Return the result that is kept under a key, once its bytes were compared with their digest; None without one."""
    path = cache_folder() / f"{key}.so"
    if path.is_symlink() or path.with_suffix(".sum").is_symlink():
        return None  # what it leads to may be written by others
    try:
        digest, _, notes = path.with_suffix(".sum").read_text().partition("\n")
        if _digest(key, path.read_bytes(), notes) != digest:
            return None
        with suppress(OSError):  # where the folder is for reading only
            os.utime(path)  # it is used now
        return Kept(path, notes)
    except (OSError, UnicodeDecodeError):
        return None


def keep(key: str, made: Path, notes: str = "") -> Path:
    """Keep a result under a key: written aside and renamed, so that nothing sees a half of it.

    Raises IllegalState for a size in the environment that is none.
    """
    size = _most_bytes()
    path, data = cache_folder() / f"{key}.so", made.read_bytes()
    about = f"{_digest(key, data, notes)}\n{notes}".encode()
    for target, content in ((path, data), (path.with_suffix(".sum"), about)):
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            try:
                file.write(content)
                file.flush()
                os.replace(file.name, target)
            except OSError:
                os.unlink(file.name)
                raise
    if size and key.startswith(COUNTED):
        _trim(path.parent, size, key)
    return path


def _most_bytes() -> int:
    """Return how many bytes results may have together; 0 for any number."""
    given = os.environ.get(SIZE) or DEFAULT_SIZE
    if (found := _SIZE.fullmatch(given)) is None:
        raise IllegalState(f"{SIZE} is {given!r}; expected a number of bytes such as 500M or 2G, or 0 for any number")
    return int(found[1]) * _UNITS[found[2]]


def _trim(folder: Path, size: int, new: str) -> None:
    """Remove the results that were not used for longest, but `new`, where all of them have more bytes than `size`.

    Other processes may use, write and remove results meanwhile: what is gone counts as removed, a result of which one
    file is left is none (`kept`), and one that is loaded stays loaded.
    """
    results: dict[str, list[str]] = {}
    used: dict[str, float] = {}
    sizes: dict[str, int] = {}
    with os.scandir(folder) as entries:
        for each in entries:
            with suppress(OSError):
                seen = each.stat(follow_symlinks=False)
                key = each.name.partition(".")[0]
                results.setdefault(key, []).append(each.path)
                used[key] = max(used.get(key, 0.0), seen.st_mtime)
                sizes[key] = sizes.get(key, 0) + seen.st_size
    total = sum(sizes.values())
    for key in sorted(used, key=used.__getitem__) if total > size else ():
        if total <= LEFT * size:
            break
        if key == new:
            continue
        with suppress(OSError):
            if max(os.lstat(path).st_mtime for path in results[key]) > used[key]:
                continue  # it was used meanwhile
        for path in results[key]:
            with suppress(OSError):
                os.unlink(path)
        total -= sizes[key]


def _digest(key: str, data: bytes, notes: str) -> str:
    """Return the digest of a result under its key: under another one it is none."""
    return key_of([key, data, notes])
