"""Declarations of C++ among tokens: where one ends, what it declares, and whether it is a template.

And names that a header has at the top on the chip, and in a namespace here: enumerators of the runtime API called INT8,
FLOAT or REDUCE_MAX, and vectors called vint or vfloatx4. A program that declares the name keeps it; where it declares
none, what it uses is qualified.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable
from functools import cache
from pathlib import Path

from atops.kernels.cxx.tokens import Cursor, closing

__all__ = (
    "BARE", "OF_TYPES", "QUALIFIERS", "Declarations", "noted_kernels", "of_headers", "taken_alignment", "used_bare",
)  # fmt: skip

OF_TYPES = frozenset(("unsigned", "signed", "char", "short", "int", "long", "float", "__fp16", "__bf16", "bool"))
QUALIFIERS = frozenset(("const", "volatile", "static", "constexpr", "alignas", "struct", "class", "typename", "inline"))
BARE = "atops::bare"
# After these a name is no declaration's.
_NO_TYPES = frozenset(("return", "else", "case", "do", "sizeof", "goto", "new", "delete", "and", "or", "not"))
_KERNEL = re.compile(r"(?:__global__\b[^;{}]*?\bvoid|\bvoid\s+__global__)\s+(\w+)\s*\(")
_VECTORS = ("char", "uchar", "short", "ushort", "int", "uint", "half", "bfloat", "float")
_HEADER = Path(__file__).parent / "include" / "tops" / "host_api.h"
_ENUMERATION = re.compile(rf"namespace {BARE} {{\nenum \w+ {{([^}}]*)}};\n}}")


class Declarations(Cursor):
    """Tokens of which some are declarations."""

    def qualified(self, place: int, words: Collection[str]) -> tuple[int, list[str], bool] | None:
        """Return the place behind a name such as a::b, its parts among `words`, and whether `::` stands before it.

        None where it goes on with what stands before it.
        """
        mark = self._place_before(place)
        from_top = mark >= 0 and self.given[mark].text == "::"
        before = self._place_before(mark) if from_top else -1
        if before >= 0 and (self.given[before].kind == "name" or self.given[before].text == ">"):
            return None
        names, end = [self.given[place].text], place + 1
        while self._text(mark := self._next(end)) == "::" and self._text(self._next(mark + 1)) in words:
            end = self._next(mark + 1) + 1
            names.append(self.given[end - 1].text)
        return end, names, from_top

    def behind_arguments(self, at: int) -> int | None:
        """Return the place behind the arguments of a template that begin at `at`; None where these are none."""
        depth = 0
        while at < len(self.given):
            text = self._text(at)
            if text in (";", "{", "}", "<<<"):
                return None
            depth += (text == "<") - (text == ">") - 2 * (text == ">>")
            at += 1
            if depth <= 0:
                break
        return at

    def launch_at(self, place: int) -> int | None:
        """Return where `<<<` is, if the name at `place` begins what is launched."""
        at = self.behind_name(place)
        if self._text(at) == "<":
            if (end := self.behind_arguments(at)) is None:
                return None
            at = self._next(end)
        return at if self._text(at) == "<<<" and self._before(place) != "::" else None

    def behind_name(self, place: int) -> int:
        """Return the place of the first token behind a::b."""
        at = self._next(place + 1)
        while self._text(at) == "::":
            at = self._next(self._next(at + 1) + 1)
        return at

    def value_at(self, place: int, arguments: int) -> int | None:
        """Return the place behind `name<arguments>`, if that is neither declared nor called here."""
        ahead = self._place_before(place)
        if ahead >= 0 and self._is_type(ahead):
            return None
        if self._text(ahead) in ("::", ".", "->", ">", "*") or (end := self.behind_arguments(arguments)) is None:
            return None
        return None if self._text(self._next(end)) in ("(", "::") else end

    def is_plain_call(self, place: int) -> bool:
        """Whether a statement calls what is named here, without `<<<...>>>`."""
        at = self._next(place + 1)
        if self._text(at) == "<":
            at = self._next(self.behind_arguments(at) or at)
        return self._text(at) == "(" and self._before(place) in (";", "{", "}", ")", "else")

    def declares(self, place: int, at_top: bool) -> bool:
        """Whether a name declares something: a type stands before it, perhaps with * or & between.

        `x * name` is a product, too. It declares at the top, where parameters are, and in a function behind the end of
        a statement, where a product would be of no use, as a parameter of a lambda, and before `=` and `:`.
        """
        before = kind = self._place_before(place)
        if self._text(before) == "*" and self._before(before) == "(" and self._text(self._next(place + 1)) == ")":
            kind = self._place_before(self._place_before(before))  # void (*name)(int)
            behind = self._next(self._next(place + 1) + 1)
            return self._text(behind) == "(" and kind >= 0 and self._is_type(kind)
        while kind >= 0 and self._text(kind) in ("*", "&"):
            kind = self._place_before(kind)
        if kind < 0 or not self._is_type(kind):
            return False
        if kind == before or at_top:
            return True
        start = kind
        while start >= 0 and (self.given[start].kind == "name" or self.given[start].text == "::"):
            if self.given[start].text in _NO_TYPES:
                return False
            start = self._place_before(start)
        if start < 0 or self._text(start) not in ("(", ","):
            return start < 0 or self._text(start) in (";", "{", "}")
        behind = self._next(place + 1)
        if self._text(behind) in ("=", ":"):
            return self._text(behind + 1) != "="  # no comparison
        depth = 0
        while start >= 0 and (depth or self._text(start) != "("):
            depth += (self._text(start) == ")") - (self._text(start) == "(")
            start = self._place_before(start)
        return start > 0 and self._before(start) == "]"

    def _is_type(self, place: int) -> bool:
        return self.given[place].kind == "name" and self.given[place].text not in _NO_TYPES

    def declares_alone(self, place: int) -> bool:
        """Whether a name declares something without a type right before it.

        It is a second declarator, a part of a structured binding, what a lambda captures, or an enumerator.
        """
        before = self._before(place)
        start, opening = self._beginning(place)
        ahead = self._place_before(start)
        if opening == "[":  # of a subscript an operand stands before it
            operand = self._text(ahead) in (")", "]") or (ahead >= 0 and self.given[ahead].kind in ("name", "number"))
            return not operand or self._text(ahead) in ("auto", *_NO_TYPES)
        if opening == "{" and before in ("{", ",") and self._enum_before(ahead) is not None:
            return True
        if before != "," or (opening == "(" and self._text(ahead) != "for"):
            return False
        first = self._next(start + 1)
        end = self.end_of_declaration(first)
        named = None if end is None else self.declared_name(first, end)
        if end is None or named is None or named >= place or not self.declares(named, False):
            return False
        return any(start <= place and self._next(start) == place for start, _ in self.declarators(named, end))

    def is_label(self, place: int) -> bool:
        """Whether a label stands here, whose name is none of anything else."""
        before = self._before(place)
        return before == "goto" or (before in (";", "{", "}") and self._text(self._next(place + 1)) == ":")

    def _beginning(self, place: int) -> tuple[int, str]:
        """Return where the bracket or the end of a statement is that a place comes first behind, and its text."""
        depth, at = 0, place - 1
        while at >= 0:
            text = self.given[at].text
            if text in (")", "]", "}"):
                if text == "}" and not depth and self._text(self._next(at + 1)) not in (",", "="):
                    break  # the end of a block, not of an initialiser
                depth += 1
            elif depth and text in ("(", "[", "{"):
                depth -= 1
            elif not depth and text in ("(", "[", "{", ";"):
                break
            at -= 1
        return at, self._text(at) if at >= 0 else ""

    def _enum_before(self, at: int) -> int | None:
        """Return the place of the `enum` whose brace is behind a place; None for another brace."""
        while at >= 0 and self.given[at].text not in (";", "{", "}", ")", "="):
            if self.given[at].text == "enum":
                return at
            at -= 1
        return None

    def end_of_declaration(self, place: int) -> int | None:
        """Return the place of the semicolon that ends a declaration; None where this is a cast or a parameter."""
        depth = 0
        for at in range(place, len(self.given)):
            text = self.given[at].text
            if self.given[at].kind != "mark":
                continue
            if text in ("(", "[", "{"):
                depth += 1
            elif text in (")", "]", "}"):
                depth -= 1
                if depth < 0:
                    return None
            elif text == ";" and depth == 0:
                return at
        return None

    def is_pointer(self, first: int, end: int) -> bool:
        """Whether what is declared points to that memory, and is none itself."""
        depth = 0
        for at in range(first, end):
            text = self.given[at].text
            if text in ("(", "[", "{", "<"):
                depth += 1
            elif text in (")", "]", "}", ">"):
                depth -= 1
            elif depth == 0 and text in ("=", ","):
                return False
            elif depth == 0 and text in ("*", "&"):
                return True
        return False

    def declared_name(self, first: int, end: int) -> int | None:
        """Return the place of the first name that is declared: the one before `[`, `(`, `{`, `=`, `,` or the end."""
        depth, last, behind = 0, None, first
        for at in range(first, end + 1):
            token = self.given[at]
            if at < behind:
                continue  # what stands in the brackets of an attribute
            if token.text in ("__attribute__", "alignas"):
                behind = closing(self.given, self._next(at + 1)) + 1
            elif token.text == "<":
                depth += 1
            elif token.text in (">", ">>>") and depth:
                depth -= 1
            elif depth == 0 and (at == end or token.text in ("[", "(", "{", "=", ",")):
                return last
            elif depth == 0 and token.kind == "name" and token.text not in QUALIFIERS:
                last = at
        return None

    def declarators(self, first: int, end: int) -> list[tuple[int, int]]:
        """Return where each declarator begins and ends."""
        found, depth, start = [], 0, first
        for at in range(first, end):
            text = self.given[at].text
            if text in ("(", "[", "{", "<"):
                depth += 1
            elif text in (")", "]", "}", ">"):
                depth -= 1
            elif text == "," and depth == 0:
                found.append((start, at))
                start = at + 1
        found.append((start, end))
        return found

    def is_variable(self, at: int) -> bool:
        """Whether what `__device__` begins is a variable."""
        depth, behind = 0, at
        for place in range(at, len(self.given)):
            text = self.given[place].text
            if place < behind:
                continue
            if text == "[" and self._text(self._next(place + 1)) == "[":
                behind = closing(self.given, place) + 1  # an attribute
            elif text == "<":
                depth += 1
            elif text == ">" and depth:
                depth -= 1
            elif depth == 0 and text in ("(", "operator"):
                return False
            elif depth == 0 and text in (";", "=", "[", "{"):
                return True
        return False

    def default_at(self, start: int, stop: int) -> int:
        """Return where the default of a parameter begins, or where it ends."""
        return next((at for at in range(start, stop) if self.given[at].text == "="), stop)

    def is_template(self, place: int) -> bool:
        """Whether `template <...>` stands before the declaration that goes on at `place`."""
        at = place - 1
        while at >= 0 and self.given[at].text not in (";", "}", "{"):
            if self.given[at].text == "template":
                return True
            at -= 1
        return False

    def parameter_names(self, opening: int, end: int) -> tuple[str, ...]:
        """Return the names of parameters; one that has none is called after its place."""
        names: list[str] = []
        for start, stop in self.declarators(opening + 1, end):
            last, words = "", 0
            for each in self.given[start:stop]:
                if each.text in ("=", "["):
                    break
                if each.kind == "name" and each.text not in QUALIFIERS:
                    last, words = each.text, words + 1
            if words:
                names.append(last if words > 1 and last not in OF_TYPES else f"p{len(names)}")
        return tuple(names) if names != ["p0"] or self._join(opening + 1, end).strip() not in ("", "void") else ()


@cache
def _elsewhere() -> dict[str, str]:
    """Return the names that are at the top on the chip, with the namespace that has them here."""
    bodies = _ENUMERATION.findall(_HEADER.read_text(encoding="utf-8"))
    return {
        **{name: BARE for body in bodies for name in re.findall(r"(\w+) =", body)},
        **{f"v{kind}{width}": "tops" for kind in _VECTORS for width in ("", "x2", "x4")},
    }


def used_bare(parts: Iterable[str]) -> dict[str, str]:
    """Return which of the names a program's own texts use without declaring them, with the namespace that has each."""
    text = "\n".join(parts)
    used = _elsewhere().keys() & re.findall(r"\b[A-Za-z][A-Za-z0-9_]+\b", text)
    return {name: _elsewhere()[name] for name in used if not _declares(text, name)}


def _declares(text: str, name: str) -> bool:
    return any(
        re.search(pattern, text)
        for pattern in (
            rf"\benum\b[^;{{}}()]*{{[^}}]*\b{name}\b",
            rf"\btypedef\b[^;]*\b{name}\s*;",
            rf"(?<!\breturn)(?<!\bcase)(?<=[\w>*&])\s+{name}\s*[=;\[({{](?!=)",
            rf"(?<!\breturn)(?<!\bcase)(?<!\bsizeof)(?<=\w)\s+{name}\s*[,)]",  # a parameter
        )
    )


def noted_kernels(text: str, known: dict[str, bool]) -> dict[str, bool]:
    """Return the names of kernels, and whether they are nothing else: overloads, members, variables, our functions.

    Where one may be something else anywhere, in a scope of its own, only the compiler knows what a call is of.
    """
    kernels = Counter(_KERNEL.findall(text))
    made = dict(known)
    for name in {*known, *kernels}:
        declared = re.findall(rf"(?:\b(\w+)\s|[*&>.])[\s*&]*\b{name}\s*[()=;,{{\[:]", text)
        others = len(declared) - sum(each in _NO_TYPES for each in declared) > kernels[name]
        # In brackets, as a binding; behind a comma or a type in parentheses; by `using`.
        others |= bool(re.search(rf"\[[^][;]*\b{name}\b|[),]\s*{name}\s*[;=](?!=)|\busing\b[^;]*\b{name}\b", text))
        overloads = rf"__global__[^;{{}}]*\b{name}\s*\([^;{{}}]*\{{"
        others |= kernels[name] > 1 and len(re.findall(overloads, text)) > 1
        made[name] = made.get(name, name not in of_headers()) and not others
    return made


@cache
def of_headers() -> frozenset[str]:
    """Return the names that our headers call or define."""
    texts = (path.read_text(encoding="utf-8") for path in (Path(__file__).parent / "include" / "atops").glob("*.h"))
    return frozenset(name for text in texts for name in re.findall(r"\b(\w\w+)\(|\bX\((\w+)\)", text) for name in name)


def taken_alignment(out: list[str]) -> str:
    """Take `alignas(...)` off the end of a text, and return it: it is of the members that the declaration becomes."""
    if not out or out[-1] != ")" or "alignas" not in out:
        return ""
    start = len(out) - 1 - out[::-1].index("alignas")
    taken = "".join(out[start:])
    if taken.count("(") != taken.count(")") or ";" in taken:
        return ""
    del out[start:]
    return f"{taken} "
