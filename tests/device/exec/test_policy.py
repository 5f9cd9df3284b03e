"""Policies choose positions among the ready threads."""

from __future__ import annotations

import random

from atops.device.exec.policy import RoundRobin, Seeded


def test_round_robin_takes_the_oldest():
    """Whatever the number, position 0."""
    assert [RoundRobin().choose(ready) for ready in (1, 5, 12)] == [0, 0, 0]


def test_seeded_is_reproducible_and_in_range():
    """The same seed, or a generator in the same state, gives the same choices; each lies among the ready."""
    sizes = [1 + index % 12 for index in range(200)]
    runs = [[policy.choose(size) for size in sizes] for policy in (Seeded(7), Seeded(7), Seeded(random.Random(7)))]
    assert runs[0] == runs[1] == runs[2]
    assert all(0 <= choice < size for choice, size in zip(runs[0], sizes, strict=True))
    assert [Seeded(8).choose(size) for size in sizes] != runs[0]
    assert len({*runs[0]}) == 12
