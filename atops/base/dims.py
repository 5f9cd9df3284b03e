"""Three-dimensional extents and indices, as kernels and launches count them: x runs fastest."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Self, SupportsIndex

from atops.base.errors import InvalidType, InvalidValue

__all__ = ("Dim3", "DimLike")


class _Extents(NamedTuple):
    """The three dimensions of an extent, as fields."""

    x: int
    y: int = 1
    z: int = 1


class Dim3(_Extents):
    """An extent in three dimensions, each at least 1, which is what missing ones are (TOPS C++, 8.5)."""

    __slots__ = ()

    def __new__(cls, x: SupportsIndex, y: SupportsIndex = 1, z: SupportsIndex = 1) -> Self:
        """Make an extent. Raises InvalidType where a dimension is no int, InvalidValue where one is below 1."""
        return super().__new__(cls, *_checked((x, y, z), (x, y, z), "Dim3"))

    @classmethod
    def of(cls, value: DimLike, what: str = "dimensions") -> Dim3:
        """Make an extent of an int or of one to three ints.

        Raises InvalidType when `value` is neither, and InvalidValue when a dimension is below 1; both name `what`.
        """
        # The quick ones first.
        parts: Sequence[SupportsIndex] = value if isinstance(value, (tuple, list, Sequence)) else (value,)
        if not 1 <= len(parts) <= 3:
            raise InvalidValue(f"{what} has {len(parts)} dimensions: {value!r}; expected one to three")
        return super().__new__(cls, *_checked(parts, value, what))

    @property
    def volume(self) -> int:
        """Return x * y * z."""
        return self.x * self.y * self.z

    def linear(self, index: tuple[int, int, int]) -> int:
        """Return the position of `index` within this extent, x fastest."""
        x, y, z = index
        return x + self.x * (y + self.y * z)

    def index(self, linear: int, /, *_: int) -> tuple[int, int, int]:  # type: ignore[override]  # an extent is no list
        """Return the index at position `linear` within this extent, x fastest."""
        if linear < self.x:
            return linear, 0, 0
        rest, x = divmod(linear, self.x)
        z, y = divmod(rest, self.y)
        return x, y, z

    def indices(self) -> Iterator[tuple[int, int, int]]:
        """Yield every index within this extent, x fastest."""
        for z in range(self.z):
            for y in range(self.y):
                for x in range(self.x):
                    yield x, y, z


def _checked(parts: Sequence[SupportsIndex], value: object, what: str) -> list[int]:
    """Return dimensions as ints. Raises InvalidType and InvalidValue, which name `what` and show `value`."""
    try:
        extents = [operator.index(part) for part in parts]
    except TypeError:
        raise InvalidType(f"{what} is {value!r}; expected an int or one to three ints") from None
    if min(extents) < 1:
        raise InvalidValue(f"{what} is {value!r}; each dimension is at least 1")
    return extents


DimLike = SupportsIndex | Sequence[SupportsIndex]
