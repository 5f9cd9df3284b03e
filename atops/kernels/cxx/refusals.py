"""What no kernel may have, by the name that begins it, which the compiler of C++ would take; and unknown intrinsics."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from atops.kernels.cxx.scopes import Scopes
from atops.kernels.cxx.tokens import closing

__all__ = ("Refusals",)

_INTRINSICS = ("__dtu_", "__gcu_", "__builtin_gcu", "__builtin_dtu", "tcle_dtu_")
# What kernels cannot do, by the name that begins it: the compiler would take it.
_REFUSED = {
    "asm": "inline assembly is for the chip's processor, which this is not",
    "__asm__": "inline assembly is for the chip's processor, which this is not",
    "__asm": "inline assembly is for the chip's processor, which this is not",
    "throw": "a kernel has no exceptions",
    "try": "a kernel has no exceptions",
}
# Attributes whose texts the compiler hands to the assembler as they are.
_SYMBOLS = frozenset(("section", "alias", "symver", "weakref", "ifunc"))
_SYMBOL = re.compile(r'"[\w.$@]*"', re.ASCII)


class Refusals(Scopes):
    """Declarations and their scopes, and what of them is refused."""

    def refusal(self, place: int, program: bool) -> str:
        """Return why the name at a place is refused; "" where it is not. Host code of a `program` has exceptions."""
        text = self._text(place)
        if text in _REFUSED and not (program and text in ("throw", "try")):
            return _REFUSED[text]
        if text.strip("_") in _SYMBOLS and self._text(self._next(place + 1)) == "(":
            return self._symbol(place)
        return ""

    def _symbol(self, place: int) -> str:
        """Refuse a text in an attribute, or in what is called like one, that the assembler would take for its own.

        A section or a symbol is a name; with the end of a line in it, what follows is an instruction.
        """
        opening = self._next(place + 1)
        for token in self.given[opening : closing(self.given, opening)]:
            if token.kind == "text" and not _SYMBOL.fullmatch(token.text) and self.in_attribute(place):
                return f"{self._text(place)} expects a name of letters, digits, '.' and '_'"
        return ""

    def refused_parameter(self, opening: int, end: int) -> str:
        """Return what parameters no kernel can have; "" for what one can."""
        for start, stop in self.declarators(opening + 1, end):
            words = [each.text for each in self.given[start : self.default_at(start, stop)] if each.text.strip()]
            if words == ["..."]:
                return "takes any number of arguments; a kernel names each parameter"
            array = words.index("(") + 1 if "(" in words else 0  # int (&a)[4]
            if any(each in ("&", "&&") for each in [*words[-2:], *words[array : array + 1]]):
                name = words[array + 1] if array else words[-1].strip("&")
                return f"takes {name or 'an argument'} by reference; a kernel takes values, pointers"
        return ""

    def is_unknown_intrinsic(self, place: int) -> bool:
        """Whether an intrinsic is called that the headers do not define."""
        text = self._text(place)
        return text.startswith(_INTRINSICS) and text not in _known() and self._text(self._next(place + 1)) == "("


@cache
def _known() -> frozenset[str]:
    """Return the intrinsics that the headers define."""
    header = Path(__file__).parent / "include" / "atops" / "published.h"
    return frozenset(re.findall(r"\b__dtu_\w+", header.read_text(encoding="utf-8")))
