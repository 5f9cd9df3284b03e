"""Shared memory that is declared at the top of a text, and where its names mean something else.

Each use of such a name becomes a call that finds the memory, so the scopes of what hides it have to be known: a block's
own variables end with it, what is declared in parentheses (a parameter, the variable of a loop) with what comes behind
them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

__all__ = ("Shared",)

# What a block or a statement goes on with where the parentheses before it are not done with: the other branch, the next
# member of a list of initialisers, the body behind them.
_GOES_ON = (",", "{", "else")


class _Hidden(NamedTuple):
    """A name that is declared otherwise: how many braces and parentheses are open there."""

    name: str
    braces: int
    parentheses: int


class Shared:
    """The names of shared memory at the top, what stands for each use, and which of them are hidden now."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, ...], str] = {}  # by its namespaces and name
        self._used: set[str] = set()  # names behind a `using`
        self._hidden: list[_Hidden] = []
        self._parentheses = 0
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

    # ---- what hides them

    def hide(self, name: str, braces: int) -> None:
        """Note that the scope that is open has a name for something of its own."""
        self._hidden.append(_Hidden(name, braces, self._parentheses))

    def hides(self, name: str) -> bool:
        """Whether a name means something else here."""
        return any(each.name == name for each in self._hidden)

    def passed(self, mark: str, braces: int, behind: str) -> None:
        """Take a mark of the text, with the braces that are open now and what stands behind it."""
        if mark == "(":
            self._parentheses += 1
        elif mark == ")":
            self._parentheses -= 1
        elif self._hidden and mark in ("}", ";"):
            over = behind not in _GOES_ON
            self._hidden = [
                each for each in self._hidden if each.braces < braces
                or (each.braces == braces and not (over and each.parentheses > self._parentheses))
            ]  # fmt: skip

    def at_top(self) -> None:
        """Take the end of a declaration at the top: nothing is hidden behind it."""
        self._hidden.clear()
        self._parentheses = 0
