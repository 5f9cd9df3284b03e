"""What names mean: shared memory that is declared at the top, and what functions and classes have of their own.

Each use of the former becomes a call that finds the memory. The latter is from its declaration to the end of its scope.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from atops.kernels.cxx.declarations import Declarations
from atops.kernels.cxx.tokens import closing

__all__ = ("Scopes", "Shared")

# What the declaration of a function or a statement goes on with behind a brace: more members that are initialised, the
# body, the other branch.
_GOES_ON = (",", "{", "else")


class _Hidden(NamedTuple):
    """The places from the declaration of a name to the end of its scope."""

    start: int
    end: int


class Scopes(Declarations):
    """Declarations, and what they hide."""

    def __init__(self) -> None:
        super().__init__()
        self._hidden: dict[str, list[_Hidden]] = {}  # by name

    def hide(self, place: int, at_top: bool) -> None:
        """Note that the name at a place is declared there. Places only grow: what has ended before it is dropped."""
        scope = _Hidden(place, self._end_of_scope(place, at_top))
        self._hidden = self._left(lambda each: each if place < each.end else None)
        self._hidden.setdefault(self._text(place), []).append(scope)

    def hides(self, place: int) -> bool:
        """Whether the name at a place is one that was declared in a scope that is still open."""
        return any(each.start <= place < each.end for each in self._hidden.get(self._text(place), ()))

    def _carry_over(self, before: int) -> None:
        """Take scopes along that are open at the end of a part of so many tokens: a text may be included in them."""
        scope = _Hidden(0, self._end(0, False))
        self._hidden = self._left(lambda each: scope if each.end >= before else None)

    def _within(self, place: int) -> dict[str, list[_Hidden]]:
        """Return what is hidden at a place, for tokens from there that are looked at by themselves."""
        scope = _Hidden(0, len(self.given))
        return self._left(lambda each: scope if each.start <= place < each.end else None)

    def _left(self, taken: Callable[[_Hidden], _Hidden | None]) -> dict[str, list[_Hidden]]:
        """Return what is taken of the scopes of each name."""
        found = {name: [*filter(None, map(taken, scopes))] for name, scopes in self._hidden.items()}
        return {name: scopes for name, scopes in found.items() if scopes}

    def _end_of_scope(self, place: int, at_top: bool) -> int:
        """Return where the scope ends in which the name at a place is declared."""
        at, depth = place - 1, 0
        while at >= 0 and (depth or self._text(at) not in ("(", "[", "{")):
            text, before = self._text(at), self._before(at) if self._text(at) == "<" else ""
            if not depth and before in ("]", "template") and (end := self.behind_arguments(at)) and end > place:
                return self._end(end, before == "template")  # parameters of a template, or of a lambda
            depth += (text in (")", "]", "}")) - (text in ("(", "[", "{"))
            at -= 1
        opening, ahead = self._text(at) if at >= 0 else "", self._place_before(at)
        if opening == "{" and (enum := self._enum_before(ahead)) is not None:
            scoped = self._text(self._next(enum + 1)) in ("class", "struct")
            return closing(self.given, at) if scoped else self._end_of_scope(enum, at_top)
        pointer = opening == "(" and self._text(self._next(at + 1)) == "*"  # void (*name)(int)
        if pointer or (opening == "[" and self._text(ahead) in ("auto", "&")):  # a binding
            return self._end_of_scope(at, at_top)
        if opening in ("(", "["):
            return self._end(closing(self.given, at) + 1, opening == "(" and not self._is_lambda(ahead))
        return self._end(place, True) if at_top else closing(self.given, at)

    def _is_lambda(self, at: int) -> bool:
        """Whether what ends at a place, before parameters, is what a lambda captures, or its template's parameters."""
        if self._text(at) == ">":
            while at >= 0 and self._text(at) not in ("<", ";"):
                at -= 1
            at = self._place_before(at)
        return self._text(at) == "]"

    def _end(self, at: int, goes_on: bool) -> int:
        """Return where the statement or function ends that goes on at a place; what is in brackets is passed over."""
        while at < len(self.given):
            text = self._text(at)
            if text in (")", "]", "}"):
                break
            if text in ("(", "[", "{"):
                at = closing(self.given, at)
            if text == "{" or (text == ";" and goes_on):
                behind = self._text(self._next(at + 1))
                if not goes_on or behind not in (_GOES_ON if text == "{" else ("else",)):
                    break
            at += 1
        return at


class Shared:
    """The names of shared memory at the top, and what stands for each use."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, ...], str] = {}  # by its namespaces and name
        self._used: set[str] = set()  # names behind a `using`
        self.words: set[str] = set()  # all namespaces and names

    def note(self, namespaces: Sequence[str], name: str, stands: str) -> None:
        """Note that memory is declared in a namespace."""
        key = *namespaces, name
        self._known[key] = stands
        self.words.update(key)

    def use(self, words: Iterable[str]) -> None:
        """Note what a `using` names: a namespace, or what is in it."""
        self._used.update(words)

    def find(self, namespaces: Sequence[str], names: Sequence[str], from_top: bool) -> str | None:
        """Return what stands for a name that is used in a namespace: what it is in the innermost one that has it.

        One by itself may be of another namespace, which a `using` names.
        """
        for depth in range(len(namespaces), -1, -1):
            if (known := self._known.get((*namespaces[:depth], *names))) is not None:
                return known
        if from_top or len(names) > 1:
            return None
        others = (key for key in reversed(self._known) if key[-1] == names[0] and not self._used.isdisjoint(key[-2:]))
        return next((self._known[key] for key in others), None)
