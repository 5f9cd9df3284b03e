"""What a text may read while it is compiled: headers of the language and of the C++ library, and texts of its program.

Looked at twice: names in the text before the preprocessor sees it, and the files that it says it has read. Only the
second knows names that macros make; only the first can keep a text from finding out which files there are.
"""

from __future__ import annotations

import errno
import os
import posixpath
import re
from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from itertools import accumulate
from pathlib import Path, PurePosixPath

from atops.base.errors import InvalidValue
from atops.device.native.toolchain import Toolchain
from atops.kernels.cxx.tokens import unescaped
from atops.kernels.source.diagnostics import SourceText

__all__ = ("ONLY", "Texts", "names_included", "outside", "read_outside", "system_folders")

ONLY = "only headers of the language and texts of the program are read; headers= and -I name more"
_SPLICE = re.compile(r"\\[ \t\f\v]*\r?\n")
_SKIP = r"(?:[ \t\f\v]|/\*.*?\*/)*"
_BEGIN = rf"^(?:[^\n]*?\*/)?{_SKIP}(?:#|%:){_SKIP}"
_NAME = re.compile(rf"{_BEGIN}(?:include|include_next|import)\b{_SKIP}(?:\"([^\"\n]*)\"|<([^>\n]*)>)", re.M | re.S)
_EMBED = re.compile(rf"{_BEGIN}embed\b", re.M | re.S)
_LINE = re.compile(rf"{_BEGIN}(?:line\b(?P<given>[^\n]*)|\d+{_SKIP}\")", re.M | re.S)
_OWN_LINE = re.compile(r"[ \t]*\d+[ \t]*(?:\"(?P<name>[^\"\n]*)\"[ \t]*)?(?://.*|/\*.*)?")
_PROBE = re.compile(r"\b__has_(?:include(?:_next)?|embed)(?:__)?\b(?P<rest>[^\n]*)")
_PROBED = re.compile(rf"{_SKIP}\({_SKIP}(?:\"(?P<quoted>[^\"\n]*)\"|<(?P<angled>[^>\n]*)>)", re.S)
_ASKED = re.compile(r"(?:\bdefined[ \t]*\(?|#[ \t]*(?:ifn?|elifn?)def)[ \t]*$")
_MARKER = re.compile(r'^# \d+ "((?:\\.|[^"\\\n])*)"[ \d]*$', re.MULTILINE)
_PRAGMA = re.compile(
    rf"\b(?:GCC|clang)\b{_SKIP}(dependency|system_header|pch_preprocess|section|include_alias)\b", re.S
)
# Of the compilers' own: for loops, for warnings, for how code is made. No function gets another one's name.
_ALLOWED = "unroll|ivdep|diagnostic|warning|error|loop|fp|optimize|target|push_options|pop_options|visibility"
_REFUSED = re.compile(
    rf"(?:#|%:){_SKIP}pragma\b{_SKIP}(?:(?:GCC|clang)\b{_SKIP}(?!(?:{_ALLOWED})\b)(\w+)|(redefine_extname|weak)\b)",
    re.S,
)
_OPERATOR = re.compile(
    rf'\b_Pragma\b(?!\s*\(\s*"(?:once|unroll|nounroll|STDC|omp simd|(?:GCC|clang) (?:{_ALLOWED}))\b[^"\\\n]*"\s*\))'
)
# Compilers take some of these for blanks, and a return alone for the end of a line.
_CONTROL = re.compile(r"[\0-\x08\x0e-\x1f\x7f]|\r(?!\n)")
_WORD = re.compile(r"(?<![#\w])[A-Za-z_]\w{3,}")


def outside(text: str, names: Collection[str], folder: str = "") -> list[tuple[int, str]]:
    """Return what in a text would read, or find, files that are not its program's, each with its line and why not.

    `names` are those of the program's texts; `folder` is where it lies among them.
    """
    pieces = _SPLICE.split(text)
    ends = list(accumulate(map(len, pieces[:-1])))  # where in the joined text lines were joined
    spliced = "".join(pieces)
    found = [*_named(spliced, names, folder), *_lines(spliced, names), *_probes(spliced, names, folder)]
    found += [
        (each.start(), f"the pragma {each[1]} is not there for programs: {ONLY}") for each in _PRAGMA.finditer(spliced)
    ]
    found += [
        (each.start(), f"the pragma {each[1] or each[2]} is not there for programs")
        for each in _REFUSED.finditer(spliced) if not _PRAGMA.search(each[0])
    ]
    found += [
        (each.start(), f"the character {each[0]!r} stands in no program") for each in _CONTROL.finditer(spliced)
    ]
    found += [
        (each.start(), "expected _Pragma of a plain text, of a pragma for loops")
        for each in _OPERATOR.finditer(spliced)
    ]
    return sorted((spliced.count("\n", 0, at) + bisect_right(ends, at) + 1, message) for at, message in found)


def names_included(text: str) -> list[str]:
    """Return the names of files that a text includes, by `#include` with the name itself."""
    return [each[1] if each[1] is not None else each[2] for each in _NAME.finditer("".join(_SPLICE.split(text)))]


def _named(text: str, names: Collection[str], folder: str) -> Iterator[tuple[int, str]]:
    """Yield the places where a file is named that is read, with why not."""
    for each in _NAME.finditer(text):
        name = each[1] if each[1] is not None else each[2]
        if _leaves(folder, name, names):
            yield each.end(), f"#include of {name!r}: {ONLY}"
    for each in _EMBED.finditer(text):
        yield each.end(), f"#embed is not there: {ONLY}"


def _lines(text: str, names: Collection[str]) -> Iterator[tuple[int, str]]:
    """Yield the places where lines are said to be of another file."""
    for each in _LINE.finditer(text):
        own = None if each["given"] is None else _OWN_LINE.fullmatch(each["given"])
        if own is None or (own["name"] is not None and own["name"] not in names):
            yield each.end(), "expected #line with a number, or with the name of one of the program's texts"


def _probes(text: str, names: Collection[str], folder: str) -> Iterator[tuple[int, str]]:
    """Yield the places where a file is looked for that is not the program's, or may be."""
    for each in _PROBE.finditer(text):
        probed = _PROBED.match(each["rest"])
        if probed is not None:
            name = probed["quoted"] if probed["quoted"] is not None else probed["angled"]
            if _leaves(folder, name, names):
                yield each.start(), f"a look for {name!r}: {ONLY}"
        elif not _ASKED.search(text[text.rfind("\n", 0, each.start()) + 1 : each.start()]):
            yield each.start(), 'expected __has_include(<NAME>) or __has_include("NAME")'
    if "##" in text or "%:%:" in text:
        for each in _WORD.finditer(text):
            if "_" in each[0] and each[0] in "__has_include_next":
                yield each.start(), f"{each[0]} could become a part of __has_include by ##"
            elif each[0] in "_Pragma" and each[0] != "_Pragma":
                yield each.start(), f"{each[0]} could become a part of _Pragma by ##"


def _leaves(folder: str, name: str, names: Collection[str]) -> bool:
    """Whether a name leads out of the folder of the program's texts, and to none of them."""
    if not posixpath.normpath(name).startswith(".."):
        return name.startswith("/")
    found = posixpath.normpath(posixpath.join(folder, name))
    return found.startswith("..") and found not in names


@cache
def system_folders(toolchain: Toolchain) -> tuple[str, ...]:
    """Return the folders of the C++ library's headers and of those beside them, as the compiler searches them."""
    said = toolchain.run(["-x", "c++", "-E", "-v", "-"], "").stderr
    listed = re.search(r"^#include <\.\.\.> search starts here:\n(.*?)^End of search list", said, re.M | re.S)
    folders = [] if listed is None else [line.strip().split(" (")[0] for line in listed[1].splitlines()]
    return tuple(dict.fromkeys(os.path.realpath(each) for each in folders))


def read_outside(preprocessed: str, known: Collection[str], ours: tuple[str, ...], toolchain: Toolchain) -> list[str]:
    """Return the files that were read and are neither `known`, nor below `ours`, nor of the C++ library."""
    folders = tuple(f"{each}/" for each in (*system_folders(toolchain), *map(os.path.realpath, ours)))
    names = dict.fromkeys(map(unescaped, _MARKER.findall(preprocessed)))
    return [
        name for name in names
        if name not in known and not name.startswith("<") and not os.path.realpath(name).startswith(folders)
    ]  # fmt: skip


class Texts:
    """The program's own texts: its source, and the headers as files of a folder that is gone afterwards."""

    def __init__(self, source: SourceText, headers: Mapping[str, str], root: Path) -> None:
        up = max((PurePosixPath(name).parts.count("..") for name in headers), default=0)
        below = "below"
        while any(below in name for name in headers):
            below += "_"
        self.source, self.folder = source, root.joinpath(*[below] * up)  # where `../` still is in `root`
        self.folder.mkdir(parents=True, exist_ok=True)
        self.texts = {source.name: source}
        self.stand_ins: set[str] = set()  # headers that were put where the chip's are missing
        files: dict[Path, SourceText] = {}
        for name, text in headers.items():
            parts = PurePosixPath(name)
            if parts.is_absolute():
                continue  # no name of a header: an include of it finds nothing
            path = Path(posixpath.normpath(self.folder / parts))
            files[path] = self.texts[str(path)] = self.texts[str(parts)] = SourceText(name, text)  # as it is found
        written: dict[str, Path] = {}
        for path, header in files.items():
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                if header.text in written:
                    os.link(written[header.text], path)  # by another name; `#pragma once` knows it again
                else:
                    path.write_text(header.text)
                    written[header.text] = path
            except (FileExistsError, NotADirectoryError, IsADirectoryError):
                raise InvalidValue(f"headers: {header.name!r} is a text, or lies below one, and a folder") from None
            except (OSError, ValueError) as error:  # a ValueError: of a null character
                if isinstance(error, OSError) and error.errno != errno.ENAMETOOLONG:
                    raise
                raise InvalidValue(f"headers: {header.name[:60]!r} can be the name of no file") from None

    @property
    def names(self) -> list[str]:
        """The names by which line markers know them."""
        return list(self.texts)

    def of(self, file: str) -> SourceText | str:
        """Return the text of a file; its name where it is none of the program's."""
        return self.texts.get(posixpath.normpath(file), file)
