"""Columns of diagnostics: the compiler counts them in a text whose macros are expanded and which was rewritten.

A name that the program's line has once is there. Else the two lines are compared token by token: what both have is
where the program has it; what stands for a name, as what a macro gives does, is where that name is; all else has no
column.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from difflib import SequenceMatcher

from atops.kernels.cxx.tokens import tokens, unescaped

__all__ = ("Columns", "column_of_byte")

_MARKER = re.compile(r'# (\d+) "((?:[^"\\]|\\.)*)"')
_DROPPED = re.compile(r"\b__(?:global|device|host|cooperative|constant)__\b")  # nothing stands for these
_NAME = re.compile(r"[^\W\d]")
_COMMENT = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'|/\*.*?(?:\*/|$)|//.*')


class Columns:
    """The lines of a text that the compiler reads, by the file and line that its markers say."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._lines: dict[tuple[str, int], list[tuple[int, str]]] = {}

    def column(self, file: str, line: int, byte: int, original: str, said: str) -> int:
        """Return the column, from 1, in the program's line `original` of what stands at a byte of the compiler's line.

        `said` is what is said of it. 0 where the column is not known.
        """
        pieces = self._pieces(file, line)  # the preprocessor breaks a line where a macro of a header was in it
        given = [each for piece in pieces for each in _words(piece)]
        first = 0
        found: dict[int, str] = {}
        for piece in pieces:
            words, column = _words(piece), column_of_byte(piece, byte)
            place = bisect_right(words, column, key=lambda each: each[0]) - 1
            if place >= 0 and (inside := column - words[place][0]) <= len(words[place][1]):  # or right behind it
                found[_original_column(given, first + place, inside, original)] = words[place][1]
            first += len(words)
        if len(found) > 1:  # of several pieces: the one that has what is spoken of
            found = {column: word for column, word in found.items() if f"'{word}'" in said}
        return next(iter(found)) if len(found) == 1 else 0

    def has(self, file: str, line: int, words: str) -> bool:
        """Whether a line of what the compiler reads has these words."""
        return any(words in each for each in self._pieces(file, line))

    def places(self, file: str, line: int) -> list[tuple[int, str]]:
        """Return the pieces of a line in what the compiler reads, each with where it begins."""
        if not self._lines:
            at, name, start = 1, "", 0
            for each in self._text.split("\n"):
                if marker := _MARKER.match(each):
                    at, name = int(marker[1]), unescaped(marker[2])
                else:
                    self._lines.setdefault((name, at), []).append((start, each))
                    at += 1
                start += len(each) + 1
        return self._lines.get((file, line), [])

    def _pieces(self, file: str, line: int) -> list[str]:
        return [each for _, each in self.places(file, line)]


def column_of_byte(line: str, byte: int) -> int:
    """Return the column of a character of a line, from 1, of its byte, from 1."""
    return len(line.encode("utf-8", "replace")[: byte - 1].decode("utf-8", "ignore")) + 1


def _words(line: str) -> list[tuple[int, str]]:
    """Return the tokens of a line, each with its column."""
    found, column = [], 1
    for each in tokens(line):
        if each.kind not in ("space", "line"):
            found.append((column, each.text))
        column += len(each.text)
    return found


def _original_column(given: list[tuple[int, str]], place: int, inside: int, original: str) -> int:
    """Return where the program's line has the token at a place of the compiler's; 0 where it has nothing for it."""
    plain = _COMMENT.sub(lambda at: at[0] if at[0][0] in "\"'" else " " * len(at[0]), original)
    own = _words(_DROPPED.sub(lambda at: " " * len(at[0]), plain))
    word = given[place][1]
    same = [column for column, each in own if each == word]
    if len(same) == 1 and _NAME.match(word):
        return same[0] + inside
    matched = SequenceMatcher(None, [word for _, word in own], [word for _, word in given], autojunk=False)
    for what, first, last, start, stop in matched.get_opcodes():
        if start <= place < stop and first < last:
            if what == "equal":
                return own[first + place - start][0] + inside
            return own[first][0] if _NAME.match(own[first][1]) else 0
    return 0
