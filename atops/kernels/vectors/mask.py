"""Masks: vectors of truth values, which comparisons give. TOPS C++, 8.3."""

from __future__ import annotations

from typing import Any

import numpy as np

from atops.base.errors import InvalidType, InvalidValue
from atops.kernels.vectors.lanes import exact
from atops.kernels.vectors.vector import Vector
from atops.kernels.vectors.vector_thread import here

__all__ = ("Mask",)


class Mask(Vector):
    """A vector of one truth value for each lane: `__vector4 bool int` and its like (TOPS C++, 8.3).

    Its two names, `bool int` and `bool unsigned int`, are one type, which comparing float gives too; `__fp16` and
    `__bf16` give `bool short`. It has the operators & | ^ ~ (those of 64-bit lanes have comparisons only). What follows
    is not in the text, which has no other use for a mask.
    """

    __slots__ = ()

    def any(self) -> bool:
        """Tell whether a lane is true; of an array of masks, a lane of any of them."""
        return bool(self.values.any())

    def all(self) -> bool:
        """Tell whether every lane is true; of an array of masks, every lane of all of them."""
        return bool(self.values.all())

    def count(self) -> int:
        """Return how many lanes are true; of an array of masks, in all of them together."""
        return int(np.count_nonzero(self.values))

    def select(self, x: Any, y: Any) -> Vector:
        """Return a vector with the lanes of `x` where this mask is true and those of `y` elsewhere.

        One of them is a vector that this mask fits, the other of the same type or a scalar that its elements hold
        exactly. Raises InvalidType for others, InvalidValue for arrays of unlike counts.
        """
        vector = x if isinstance(x, Vector) else y
        if not isinstance(vector, Vector) or vector.type.mask is not self.type:
            raise InvalidType(f"{here()}a {self.type.name} selects of {x!r} and {y!r}; a vector that it fits is right")
        kind = vector.type
        values = [each.values if isinstance(each, Vector) and each.type is kind else exact(kind.element, each, role)
                  for role, each in (("x of select", x), ("y of select", y))]  # fmt: skip
        try:
            return kind.wrap(np.where(self.values, *values))
        except ValueError:
            raise InvalidValue(f"{here()}select of arrays of unlike counts; a vector for each mask is right") from None
