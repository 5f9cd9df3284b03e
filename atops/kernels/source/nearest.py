"""The hint that ends a message about an unknown name: the known name that is most like it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from types import MappingProxyType

__all__ = ("nearest",)

# What C++, CUDA or numpy call a thing that has another name in the kernel language, not one that is spelled alike.
CALLED_OTHERWISE: Mapping[str, str] = MappingProxyType(
    {
        "atomicAdd": "signal_add", "atomic_add": "signal_add", "fabs": "abs", "fmod": "mod", "log": "ln", "logf": "ln",
        "pow": "power", "powf": "power", "rcp": "rec", "reciprocal": "rec", "__constant__": "constant",
        "__device__": "device", "__global__": "kernel", "__local__": "local", "__shared__": "shared",
    }
)  # fmt: skip


def nearest(name: str, known: Iterable[str]) -> str:
    """Return "; did you mean 'x'?" for what is meant or the nearest of the known names, nothing where none is near."""
    known = tuple(known)
    meant = CALLED_OTHERWISE.get(name)
    if meant in known:
        return f"; did you mean '{meant}'?"
    found = difflib.get_close_matches(name, [each for each in known if not each.startswith("__")], 1, 0.6)
    return f"; did you mean '{found[0]}'?" if found else ""
