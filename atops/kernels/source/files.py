"""Files of C++, by the ends of their names."""

from __future__ import annotations

from pathlib import Path

__all__ = ("HEADERS", "PROGRAMS", "is_cxx_file")

PROGRAMS = frozenset((".cpp", ".cc", ".cxx", ".cu", ".tops"))
HEADERS = frozenset((".h", ".hh", ".hpp", ".hxx", ".cuh", ".inc", ".inl"))


def is_cxx_file(path: str) -> bool:
    """Tell whether a file is a program in C++, by its name."""
    return Path(path).suffix in PROGRAMS
