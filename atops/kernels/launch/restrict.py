"""Parameters that promise to have no alias: `T* __restrict__` (TOPS C++, 8.2), and who breaks the promise."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Generic, get_origin

from atops.device.span.spaces import Element
from atops.device.span.span import Span

if TYPE_CHECKING:
    from atops.kernels.launch.arguments import MemoryArgument

__all__ = ("aliases", "restrict", "restricted_type")


class restrict(Span, Generic[Element]):  # the language's own name
    """An annotation: device memory that no other argument of the launch reaches. It arrives as a Span.

    `x: k.restrict`, or `x: k.restrict[np.float32]` for elements of this type only. Nothing checks it by default; strict
    mode reports a launch that breaks it (TOPS C++, 8.2, `__restrict__`).
    """

    __slots__ = ()


def restricted_type(annotation: Any) -> tuple[bool, Any]:
    """Return whether an annotation is `restrict`, and the element type it names or None."""
    if annotation is restrict:
        return True, None
    if get_origin(annotation) is restrict:
        return True, annotation.__args__[0]
    return False, None


def aliases(kernel: str, restricted: Iterable[MemoryArgument], memory: Sequence[MemoryArgument]) -> list[str]:
    """Say in words which other arguments reach bytes of a restricted one, each pair once."""
    found: list[str] = []
    seen: set[frozenset[str]] = set()
    for one in restricted:
        for other in memory:
            pair = frozenset((one.name, other.name))
            if len(pair) < 2 or pair in seen or not one.overlaps(other):
                continue
            seen.add(pair)
            found.append(
                f"kernel {kernel}: parameter {one.name} is restrict, and parameter {other.name} reaches its bytes: "
                f"{one!r} and {other!r}"
            )
    return found
