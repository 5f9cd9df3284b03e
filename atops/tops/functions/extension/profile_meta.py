"""What a profiler shows with the work of a compilation: topsExtSetProfileMeta (TOPS Runtime API, 2.11)."""

from __future__ import annotations

from typing import Any, Final

from atops.base.errors import InvalidValue
from atops.runtime.memory.buffer import Buffer
from atops.tops.bridge.arguments import whole
from atops.tops.bridge.call import call
from atops.tops.bridge.context import current_driver
from atops.tops.bridge.pointers import operand

__all__ = ("topsExtSetProfileMeta",)

ID_LIMIT: Final = 1 << 63


@call
def topsExtSetProfileMeta(meta: Any, size: int, compilation_id: int) -> None:
    """Keep a copy of `size` bytes under a compilation id; the last one wins, and size 0 removes.

    Trace records that are called "compilation <id>" carry the bytes, as text if they are UTF-8. InvalidValue: no host
    memory of so many bytes, a size of more than 32 bits, an id of more than 64.
    """
    nbytes, number = whole(size, "size"), whole(compilation_id, "compilation_id")
    if not 0 <= nbytes < 1 << 32:
        raise InvalidValue(f"size is {nbytes}; 0 or more, in 32 bits, is right")
    if not -ID_LIMIT <= number < ID_LIMIT:
        raise InvalidValue(f"compilation_id is {number}; 64 bits are right")
    note = b"" if meta is None and not nbytes else _host_bytes(meta, nbytes)
    current_driver().tracer.annotate(f"compilation {number}", note)


def _host_bytes(meta: Any, nbytes: int) -> bytes:
    found = operand(meta, nbytes, "meta")
    if not isinstance(found, Buffer):
        return bytes(found)
    if found.device is not None:
        raise InvalidValue(f"meta is in {found!r}; host memory is right")
    return bytes(found.allocation.view[found.offset : found.offset + nbytes])
