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
# What these say is done by the assembler, the linker or the loader. Compilers pass over those that they do not know.
_NO_ATTRIBUTES = frozenset((
    "alias", "code_seg", "constructor", "copy", "cpu_dispatch", "cpu_specific", "destructor", "fentry_name",
    "fentry_section", "ifunc", "init_priority", "init_seg", "patchable_function_entry", "section", "symver",
    "target_clones", "weakref",
))  # fmt: skip


class Refusals(Scopes):
    """Declarations and their scopes, and what of them is refused."""

    def refusal(self, place: int, program: bool) -> str:
        """Return why the name at a place is refused; "" where it is not. Host code of a `program` has exceptions."""
        text = self._text(place)
        if text in _REFUSED and not (program and text in ("throw", "try")):
            return _REFUSED[text]
        return ""

    def refused_attributes(self, place: int) -> str:
        """Return why the attributes that begin at a place are refused; "" where they are not, or none begin."""
        text, behind = self._text(place), self._next(place + 1)
        if text in ("__attribute__", "__attribute"):
            place = behind
        elif text == "<" and self._text(place + 1) == ":":  # a digraph of [
            return "attributes are written with [[ and ]]" if self._text(self._next(place + 2)) in ("<", "[") else ""
        elif text != "[" or self._text(behind) not in ("[", "<"):
            return ""
        elif self._text(behind) == "<":
            return "attributes are written with [[ and ]]" if self._text(behind + 1) == ":" else ""
        depth, end = 0, closing(self.given, place)
        if end == len(self.given):
            return "attributes end in the file in which they begin"
        for at in range(place, end):
            token = self.given[at]
            depth += (token.text in ("(", "[", "{")) - (token.text in (")", "]", "}"))
            name = token.text.strip("_")
            if token.kind != "name" or depth != 2:
                continue
            if name in _NO_ATTRIBUTES:
                return f"the attribute {token.text} is not there for programs"
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
