"""Three-dimensional extents and indices, as kernels and launches count them: x runs fastest."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from typing import NamedTuple, SupportsIndex

from atops.base.errors import InvalidType, InvalidValue

__all__ = ("Dim3", "DimLike")


class Dim3(NamedTuple):
    """An extent or an index in three dimensions. Missing dimensions of an extent are 1 (TOPS C++, 8.5)."""

    x: int
    y: int = 1
    z: int = 1

    @classmethod
    def of(cls, value: DimLike, what: str = "dimensions") -> Dim3:
        """Make an extent of an int or of one to three ints.

        Raises InvalidType when `value` is neither, and InvalidValue when a dimension is below 1; both name `what`.
        """
        parts: Sequence[SupportsIndex] = value if isinstance(value, Sequence) else (value,)
        if not 1 <= len(parts) <= 3:
            raise InvalidValue(f"{what} has {len(parts)} dimensions: {value!r}; one to three are right")
        try:
            extents = [operator.index(part) for part in parts]
        except TypeError:
            raise InvalidType(f"{what} is {value!r}; an int or one to three ints are right") from None
        if min(extents) < 1:
            raise InvalidValue(f"{what} is {value!r}; each dimension is at least 1")
        return cls(*extents)

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
        rest, x = divmod(linear, self.x)
        z, y = divmod(rest, self.y)
        return x, y, z

    def indices(self) -> Iterator[tuple[int, int, int]]:
        """Yield every index within this extent, x fastest."""
        for z in range(self.z):
            for y in range(self.y):
                for x in range(self.x):
                    yield x, y, z


DimLike = SupportsIndex | Sequence[SupportsIndex]
