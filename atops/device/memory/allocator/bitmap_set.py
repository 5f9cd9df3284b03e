"""An ordered set of small integers as a ladder of bitmaps: members, neighbours and ends in a few dictionary steps.

The allocator keeps the sizes and the starts of ranges in it.
"""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ("IntegerSet",)

SHIFT = 10
FAN_OUT = 1 << SHIFT
LOW = FAN_OUT - 1
BIT = tuple(1 << position for position in range(FAN_OUT))
UP_TO = tuple((2 << position) - 1 for position in range(FAN_OUT))


class IntegerSet:
    """Hold integers in [0, bound). Every operation takes at most two steps for each ten bits of the bound.

    Level 0 maps `i >> 10` to a word of 1024 bits; level n holds the keys of level n - 1 in the same way. A word that
    would be 0 is absent, so that a set costs what its members cost, not what its bound is.
    """

    __slots__ = ("_levels",)

    def __init__(self, bound: int) -> None:
        """Make an empty set for integers below `bound`."""
        self._levels: list[dict[int, int]] = [{}]
        while bound > FAN_OUT:
            bound = (bound + LOW) >> SHIFT
            self._levels.append({})

    def add(self, member: int) -> None:
        """Put `member` in; a member already there stays."""
        for level in self._levels:
            key = member >> SHIFT
            word = level.get(key, 0)
            level[key] = word | BIT[member & LOW]
            if word:
                return
            member = key

    def remove(self, member: int) -> None:
        """Take `member` out. It must be there."""
        for level in self._levels:
            key = member >> SHIFT
            word = level[key] ^ BIT[member & LOW]
            if word:
                level[key] = word
                return
            del level[key]
            member = key

    def at_most(self, bound: int) -> int:
        """Return the greatest member that is at most `bound`, or -1."""
        for height, level in enumerate(self._levels):
            if bound < 0:
                return -1
            key = bound >> SHIFT
            word = level.get(key, 0) & UP_TO[bound & LOW]
            if word:
                found = key << SHIFT | word.bit_length() - 1
                for below in reversed(self._levels[:height]):
                    found = found << SHIFT | below[found].bit_length() - 1
                return found
            bound = key - 1
        return -1

    def at_least(self, bound: int) -> int:
        """Return the least member that is at least `bound`, or -1."""
        word = self._levels[0].get(bound >> SHIFT, 0) >> (bound & LOW)
        if word:  # the next one is near, as it mostly is
            return bound + (word & -word).bit_length() - 1
        for height, level in enumerate(self._levels):
            key = bound >> SHIFT
            word = level.get(key, 0) >> (bound & LOW)
            if word:
                found = bound + (word & -word).bit_length() - 1
                for below in reversed(self._levels[:height]):
                    word = below[found]
                    found = found << SHIFT | (word & -word).bit_length() - 1
                return found
            bound = key + 1
        return -1

    def __contains__(self, member: int) -> bool:
        """Tell whether `member` is in the set."""
        return bool(self._levels[0].get(member >> SHIFT, 0) & BIT[member & LOW])

    def __iter__(self) -> Iterator[int]:
        """Yield the members in ascending order."""
        member = self.at_least(0)
        while member >= 0:
            yield member
            member = self.at_least(member + 1)

    def __bool__(self) -> bool:
        """Tell whether the set has a member."""
        return bool(self._levels[0])
