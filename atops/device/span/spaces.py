"""The memory spaces that a kernel thread's views lie in, and what an observer is told of an access."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

__all__ = ("Access", "Element", "Space")

# The element type that `Span[np.float32]` tells to a type checker. With its default `Span` alone is complete, too.
if TYPE_CHECKING:
    from typing_extensions import TypeVar

    Element = TypeVar("Element", default=Any)
else:
    from typing import TypeVar

    Element = TypeVar("Element")


class Space(Enum):
    """The memory space that a view lies in (TOPS C++, 8.2)."""

    GLOBAL = "global"
    SHARED = "shared"
    LOCAL = "local"

    def __str__(self) -> str:
        return self.value


class Access(NamedTuple):
    """What an observer is told of one access: bytes from `offset` of a device's memory, or of a thread's L1 or L2."""

    space: Space
    device: int | None  # None where the memory is the host's
    offset: int
    size: int
