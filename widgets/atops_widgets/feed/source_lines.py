"""Source lines in words, as all widgets tell them."""

from __future__ import annotations

from atops.base.trace.records import TraceNames
from atops.device.call_site import source_name

__all__ = ("line_of",)


def line_of(names: TraceNames, site: int) -> str:
    """Return a place of the program, "reduce.py:31 in main"; empty where it is not known."""
    place = names.sites.get(site)
    return f"{source_name(place.file)}:{place.line} in {place.function}" if place is not None else ""
