"""The memory spaces of TOPS C++, 8.2: their order, and the space that a thread's memory lies in.

`Space` of the device has the spaces that a DTE and a span tell apart; the language has three more, and a name for the
global memory of declared variables, which kernels reach on every chip.
"""

from __future__ import annotations

import reprlib
from enum import Enum
from typing import TypeAlias

import numpy as np

from atops.base.errors import IllegalAddress, InvalidType
from atops.device.call_site import caller
from atops.device.dte.transfer import PRIVATE_ARRAYS
from atops.device.exec.thread import KernelThread
from atops.device.geometry import Array, Space, root_of
from atops.device.span.span import Span

__all__ = ("AnySpace", "LanguageSpace", "common_space", "is_below", "located", "space_in")


class LanguageSpace(Enum):
    """A memory space that only the language has: no DTE reaches it (TOPS C++, 8.2)."""

    GENERIC = "generic"
    CONSTANT = "constant"
    PRIVATE = "private"
    DECLARED = "global (declared)"  # of spans: global memory that kernels reach by name, also without direct access

    def __str__(self) -> str:
        return self.value


AnySpace: TypeAlias = Space | LanguageSpace


def is_below(space: AnySpace, parent: AnySpace) -> bool:
    """Tell whether a pointer into `space` converts to one into `parent` implicitly (TOPS C++, 8.2).

    That is its own space, and the generic one for every space except the constant one.
    """
    return space is parent or (parent is LanguageSpace.GENERIC and space is not LanguageSpace.CONSTANT)


def common_space(one: AnySpace, other: AnySpace) -> AnySpace | None:
    """Return the space to which pointers into both convert implicitly, if there is one."""
    if is_below(one, other):
        return other
    return one if is_below(other, one) else None


def located(array: Array) -> tuple[Array, int]:
    """Return the memory that an array is a part of, and the byte at which it begins there."""
    root = root_of(array)
    return root, array.__array_interface__["data"][0] - root.__array_interface__["data"][0]


def space_in(thread: KernelThread, memory: object, what: str) -> AnySpace:
    """Return the space that a span or an array of `thread` lies in.

    Raises InvalidType, naming thread, line and `what`, for what is neither, and IllegalAddress for an array outside
    the thread's memories.
    """
    if isinstance(memory, Span):
        if memory.allocation is not None:
            declared: AnySpace = memory.space
            return Space.GLOBAL if declared is LanguageSpace.DECLARED else declared
        memory = memory.array
    if not isinstance(memory, np.ndarray):
        raise InvalidType(
            f"{thread} at {caller()}: {what} expects a span, a variable or an array of k.local, k.shared or k.private, "
            f"got {reprlib.repr(memory)}"
        )
    root = root_of(memory)
    if root is thread.sip.l1:
        return Space.LOCAL
    if root is thread.block.cluster.l2:
        return Space.SHARED
    if thread.sites is not None and any(root is each() for each in thread.sites.get(PRIVATE_ARRAYS, ())):
        return LanguageSpace.PRIVATE
    raise IllegalAddress(f"{thread} at {caller()}: {what} of an array outside this thread's memories")
