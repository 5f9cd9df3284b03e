"""The hint that ends a message about an unknown name: the known name that is most like it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = ("nearest",)


def nearest(name: str, known: Iterable[str]) -> str:
    """Return "; did you mean 'x'?" for the nearest of the known names, or nothing where none is near."""
    found = difflib.get_close_matches(name, [each for each in known if not each.startswith("__")], 1, 0.6)
    return f"; did you mean '{found[0]}'?" if found else ""
