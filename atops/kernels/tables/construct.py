"""One row of the language's tables: a construct of the text, its Python name, and what differs. Knows no code."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ("Construct",)


@dataclass(frozen=True, slots=True)
class Construct:
    """A construct of the language text (TOPS C++, `section`) and its counterpart here.

    `cpp` is its C++ spelling and `python` what a kernel writes, `summary` one sentence on what it does. `types` are the
    permitted types in the text's words, empty where none are named. `differs` says what is not as in C++ and why, and
    is empty where it is the same. `gcu_arch` is the first architecture that has it: 210 or 300.
    """

    section: str
    cpp: str
    python: str
    summary: str
    types: tuple[str, ...] = ()
    differs: str = ""
    gcu_arch: int = 210
