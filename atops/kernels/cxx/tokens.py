"""The tokens of a preprocessed C++ text: names, literals, marks and what stands between them, nothing lost."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

__all__ = ("Cursor", "Token", "closing", "parts_of", "spelled", "tokens", "unescaped")


class Token(NamedTuple):
    """A piece of text: its kind is "name", "number", "text", "mark", "space" or "line" (a line marker)."""

    kind: str
    text: str


_PIECES = re.compile(
    r"""
    (?P<line>^[ \t]*\#[^\n]*$)
  | (?P<space>\s+)
  | (?P<raw>(?:u8|u|U|L)?R"(?P<fence>[^()\\\s]{0,16})\([\s\S]*?\)(?P=fence)")
  | (?P<text>(?:u8|u|U|L)?"(?:[^"\\\n]|\\.)*"|(?:u8|u|U|L)?'(?:[^'\\\n]|\\.)+')
  | (?P<number>\.?\d(?:[eEpP][+-]|'(?=\w)|[\w.])*)
  | (?P<name>[A-Za-z_$\u0080-\U0010ffff][\w$]*)
  | (?P<mark><<<|>>>|::|->|\.\.\.|[^\w\s])
    """,
    re.VERBOSE | re.MULTILINE,
)
_PAIRS = {"(": ")", "[": "]", "{": "}"}


def parts_of(text: str) -> list[tuple[str, int, str]]:
    """Return (file, line of the first, text) for each run of lines of one file; markers stay with what follows."""
    parts: list[tuple[str, int, str]] = []
    file, line, held = "", 1, list[str]()
    for each in text.splitlines(keepends=True):
        if each.startswith("# ") and each[2:3].isdigit():
            number, _, rest = each[2:].partition(" ")
            name = unescaped(rest[1 : rest.rfind('"')]) if rest.startswith('"') else file
            if name != file:
                parts.append((file, line, "".join(held)))
                file, line, held = name, int(number), []
        held.append(each)
    parts.append((file, line, "".join(held)))
    return parts


def unescaped(name: str) -> str:
    """Return the name of a file as it was before the preprocessor escaped quotes, backslashes and bytes of it."""
    if "\\" not in name:
        return name
    found = re.sub(rb"\\(?:([0-7]{3})|(.))", lambda at: bytes([int(at[1], 8)]) if at[1] else at[2], name.encode())
    return found.decode("utf-8", "replace")


def tokens(text: str) -> Iterator[Token]:
    """Yield the tokens of a text, without comments; joined they are the text."""
    for found in _PIECES.finditer(text):
        kind = found.lastgroup or "mark"
        if kind == "fence":
            kind = "raw"
        yield Token("text" if kind == "raw" else kind, found.group())


def spelled(name: str) -> str:
    """Return a qualified name, with the arguments of a template if it has some, as it is always spelled here.

    Spaces stay between words only: "scale<unsigned char,4>".
    """
    return re.sub(r"\s*([^\w\s]+)\s*", r"\1", " ".join(name.split())).removeprefix("::")


def closing(given: Sequence[Token], start: int) -> int:
    """Return the place of the bracket that closes the one at `start`; the number of tokens where none does."""
    depth = 0
    for place in range(start, len(given)):
        if given[place].kind != "mark":
            continue
        text = given[place].text
        if text in _PAIRS:
            depth += 1
        elif text in (")", "]", "}"):
            depth -= 1
            if depth == 0:
                return place
    return len(given)


class Cursor:
    """Tokens that are gone through, and the line that has been reached."""

    def __init__(self) -> None:
        self.given: list[Token] = []
        self.line = 1

    def _next(self, place: int) -> int:
        """Return the place of the first token from `place` on that is no space."""
        while place < len(self.given) and self.given[place].kind in ("space", "line"):
            place += 1
        return place

    def _text(self, place: int) -> str:
        return self.given[place].text if place < len(self.given) else ""

    def _place_before(self, place: int) -> int:
        """Return the place of the last token before `place` that is no space; -1 where there is none."""
        place -= 1
        while place >= 0 and self.given[place].kind in ("space", "line"):
            place -= 1
        return place

    def _before(self, place: int) -> str:
        """Return the last token before `place` that is no space."""
        place = self._place_before(place)
        return self.given[place].text if place >= 0 else ""

    def _join(self, start: int, end: int) -> str:
        return "".join(each.text for each in self.given[start:end])

    def _skip(self, start: int, end: int) -> str:
        """Return the ends of lines between two places, so that what follows stays on its line."""
        return "".join(each.text for each in self.given[start:end] if each.kind == "line") + "\n" * sum(
            each.text.count("\n") for each in self.given[start:end] if each.kind != "line"
        )

    def _count_lines(self, token: Token) -> None:
        if token.kind == "line":
            parts = token.text.lstrip("# \t").split(" ", 1)
            if parts[0].isdigit():
                self.line = int(parts[0]) - 1  # the end of the marker's own line counts
        self.line += token.text.count("\n")
