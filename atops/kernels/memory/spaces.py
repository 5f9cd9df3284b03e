"""The memory spaces of TOPS C++, 8.2: which is below which, and which one a thread's memory lies in.

`Space` on the chip's floor names what a DTE and a span tell apart; the language has three more, and one of those two
faces: a declared device variable lies in global memory and is reached by name on every chip.
"""

from __future__ import annotations

import reprlib
from enum import Enum
from typing import TypeAlias

import numpy as np

from atops.base.errors import IllegalAddress, InvalidType
from atops.device.call_site import caller
from atops.device.dte.operands import PRIVATE_ARRAYS
from atops.device.exec.thread import KernelThread
from atops.device.span.span import Space, Span

__all__ = ("AnySpace", "LanguageSpace", "common_space", "is_below", "space_in")


class LanguageSpace(Enum):
    """A memory space that only the language has: no DTE moves there (TOPS C++, 8.2)."""

    GENERIC = "generic"
    CONSTANT = "constant"
    PRIVATE = "private"
    DECLARED = "global (declared)"  # of spans: global memory reached by name, where there is no direct access too

    def __str__(self) -> str:
        return self.value


AnySpace: TypeAlias = Space | LanguageSpace


def is_below(space: AnySpace, parent: AnySpace) -> bool:
    """Tell whether a pointer into `space` may become one into `parent` by itself (TOPS C++, 8.2).

    Into its own space, or into the generic one, which every space but the constant one lies below.
    """
    return space is parent or (parent is LanguageSpace.GENERIC and space is not LanguageSpace.CONSTANT)


def common_space(one: AnySpace, other: AnySpace) -> AnySpace | None:
    """Return the space that pointers into both convert to by themselves, if there is one."""
    if is_below(one, other):
        return other
    return one if is_below(other, one) else None


def space_in(thread: KernelThread, memory: object, who: str) -> AnySpace:
    """Return the space that a span or an array of `thread` lies in.

    Raises InvalidType, naming thread, line and `who`, for what is neither, and IllegalAddress for an array outside
    the thread's memories.
    """
    if isinstance(memory, Span):
        if memory.allocation is not None:
            declared: AnySpace = memory.space
            return Space.GLOBAL if declared is LanguageSpace.DECLARED else declared
        memory = memory.array
    if not isinstance(memory, np.ndarray):
        raise InvalidType(
            f"{thread} at {caller()}: {who} of {reprlib.repr(memory)}; a span, a variable or an array of k.local, "
            "k.shared or k.private is right"
        )
    root = memory if memory.base is None else memory.base
    if root is thread.sip.l1:
        return Space.LOCAL
    if root is thread.block.cluster.l2:
        return Space.SHARED
    if thread.sites is not None and any(root is each for each in thread.sites.get(PRIVATE_ARRAYS, ())):
        return LanguageSpace.PRIVATE
    raise IllegalAddress(f"{thread} at {caller()}: {who} of an array outside this thread's memories")
