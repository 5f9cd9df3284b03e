"""Notes that a profiler shows with the work of a compilation: topsExtSetProfileMeta (TOPS Runtime API, 2.11)."""

from __future__ import annotations

from atops.base.errors import InvalidValue
from atops.tops.bridge.arguments import size_of, whole
from atops.tops.bridge.call import call
from atops.tops.bridge.context import current_driver
from atops.tops.bridge.pointers import host_copy

__all__ = ("topsExtSetProfileMeta",)


@call
def topsExtSetProfileMeta(meta: object, size: int, compilation_id: int) -> None:
    """Keep a copy of `size` bytes under a compilation id; the last one wins, and size 0 removes.

    Trace records that are called "compilation <id>" carry the bytes, as text if they are UTF-8. InvalidValue: not host
    memory of so many bytes, a size of more than 32 bits, an id of more than 64.
    """
    nbytes, number = size_of(size, "size", 32), whole(compilation_id, "compilation_id")
    if not -(1 << 63) <= number < 1 << 63:
        raise InvalidValue(f"compilation_id must be in 64 bits, got {number}")
    note = b"" if meta is None and not nbytes else host_copy(meta, nbytes, "meta")
    current_driver().tracer.annotate(f"compilation {number}", note)
