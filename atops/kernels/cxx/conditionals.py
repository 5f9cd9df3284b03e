"""`c ? half : number`: a float on the chip, and ambiguous to the compiler, for which a half is a class.

Where it says so, both operands are wrapped: a half beside another number becomes the float that it is there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from atops.kernels.cxx.columns import Columns, column_of_byte
from atops.kernels.cxx.tokens import Token, tokens

__all__ = ("with_halves_widened", "wrapping_is_refused")

_AMBIGUOUS = re.compile(
    r"^([^:\n]+):(\d+):(\d+): error: (?:operands to '\?:' have different types|conditional expression is ambiguous)",
    re.MULTILINE,
)  # fmt: skip
_WRAPPED = "atops::arm<"
_BEHIND_NAME = re.compile(r"<[\w\s,:*&<>]*?>\s*[({:]")  # arguments of a template, whose commas end nothing
_STATEMENTS = re.compile(r"[\s(]*\(\s*\{")
_REFUSED = re.compile(r": error: .*\barm<")


def wrapping_is_refused(said: str) -> bool:
    """Whether the compiler speaks of what operands were wrapped in, of which no text knows."""
    return _REFUSED.search(said) is not None


def with_halves_widened(text: str, said: str) -> str:
    """Return the text with the operands wrapped of each conditional that the compiler calls ambiguous."""
    lines = Columns(text)
    places = {
        start + column_of_byte(line, int(byte)) - 1
        for file, number, byte in set(_AMBIGUOUS.findall(said))
        for start, line in lines.places(file, int(number))
    }
    for place in sorted(places, reverse=True):  # inner ones first
        if text[place : place + 1] == "?":
            text = _wrapped(text, place)
    return text


def _wrapped(text: str, place: int) -> str:
    """Return the text with the operands wrapped of the conditional whose `?` is at a place.

    One without a first operand, `half ?: 1`, and one of statements, `({ ... })`, which have no type in an argument of a
    template, stay as they are.
    """
    colon = _end(text, place + 1, ":")
    end = _end(text, colon + 1, "")
    first, second = text[place + 1 : colon], text[colon + 1 : end]
    if text[colon : colon + 1] != ":" or not first.strip() or first.lstrip().startswith(_WRAPPED):
        return text
    if _STATEMENTS.match(first) or _STATEMENTS.match(second):
        return text
    return (
        f"{text[: place + 1]} {_WRAPPED}decltype({_on_a_line(second)})>({first}) : "
        f"{_WRAPPED}decltype({_on_a_line(first)})>({second}){text[end:]}"
    )


def _on_a_line(operand: str) -> str:
    return "".join(" " if each.kind in ("space", "line") else each.text for each in tokens(operand)).strip()


def _end(text: str, start: int, mark: str) -> int:
    """Return where the operand ends that begins at a place: before the `:` of its conditional, or what ends it all."""
    depth = inner = behind = 0
    for at, each in _placed(text, start):
        if each.kind != "mark" or at < behind:
            continue
        if each.text == "<" and (found := _BEHIND_NAME.match(text, at)) is not None:
            behind = found.end() - 1
        elif each.text in ("(", "[", "{"):
            depth += 1
        elif depth:
            depth -= each.text in (")", "]", "}")
        elif each.text == "?":
            inner += 1
        elif each.text == ":" and inner:
            inner -= 1
        elif each.text in (mark, ":", ";", ",", ")", "]", "}") and not (mark and each.text == ","):
            return at
    return len(text)


def _placed(text: str, start: int) -> Iterator[tuple[int, Token]]:
    for each in tokens(text[start:]):
        yield start, each
        start += len(each.text)
