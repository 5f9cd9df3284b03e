"""The tokens of a preprocessed C++ text: names, literals, marks and what stands between them, nothing lost."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

__all__ = ("Token", "closing", "spelled", "tokens")


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
