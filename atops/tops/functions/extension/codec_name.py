"""What a codec's name for device memory stands for: the bytes it means, and its end. It knows no function."""

from __future__ import annotations

from atops.runtime.current_driver import current_driver
from atops.runtime.memory.buffer import Buffer
from atops.tops.bridge.aliases import Alias, remove_alias
from atops.tops.bridge.pointers import bad_pointer

__all__ = ("CodecName",)


class CodecName:
    """A codec's name for a range of one allocation: the same bytes for as long as the memory lives."""

    __slots__ = ("memory",)

    def __init__(self, memory: Buffer) -> None:
        self.memory = memory

    def resolve(self, offset: int, nbytes: int) -> Buffer:
        """Return bytes of the range. Raises CodeError when the memory was freed, InvalidValue beyond the range."""
        if not self.memory.is_live:
            raise bad_pointer(f"a codec's name is of {self.memory!r}, freed by {self.memory.allocation.freed_by}")
        return self.memory[offset : offset + nbytes]

    def free_name(self, alias: Alias) -> None:
        """Release the name, which topsFree was given; the memory stays. Raises CodeError when that was done before."""
        if not remove_alias(current_driver(), alias):
            raise bad_pointer(f"the codec's name {alias.address:#x} was released by another thread")
