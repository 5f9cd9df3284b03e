"""Which ready thread of a block the interpreter resumes next: in order of arrival, or at random from a seed."""

from __future__ import annotations

import random
from typing import Protocol

__all__ = ("Policy", "RoundRobin", "Seeded", "policy_of")


class Policy(Protocol):
    """Choose which thread runs next; `slice` is how many requests of it may be served before the next choice."""

    slice: int

    def choose(self, ready: int, /) -> int:
        """Return the position, from 0, of one of `ready` ready threads; they are in the order they became ready."""


class RoundRobin:
    """First come, first served: deterministic, and the interpreter's fast path, which never asks it.

    A thread whose request is served at once goes on at once, while what it touched is still in the cache.
    """

    slice = 1 << 30

    def choose(self, ready: int, /) -> int:
        """Return the oldest."""
        return 0


class Seeded:
    """Choose at random after every request. The same seed gives the same run wherever one OS thread runs the grid."""

    slice = 1

    def __init__(self, seed: int | random.Random) -> None:
        self._random = seed if isinstance(seed, random.Random) else random.Random(seed)

    def choose(self, ready: int, /) -> int:
        """Return any position."""
        return self._random.randrange(ready)


ROUND_ROBIN = RoundRobin()


def policy_of(seed: int | None, launch: int = 0) -> Policy:
    """Return the policy of a launch, by its number: round robin without a seed, else random from both."""
    return ROUND_ROBIN if seed is None else Seeded(seed * 1_000_003 + launch)
