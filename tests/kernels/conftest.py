"""Benches for kernels: see tests/kernel_bench.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.kernel_bench import Bench, benches


@pytest.fixture
def make_bench() -> Iterator[Callable[..., Bench]]:
    """Make benches with options; their memory is given back afterwards."""
    yield from benches()


@pytest.fixture
def bench(make_bench: Callable[..., Bench]) -> Bench:
    """A gcu300 bench with default options."""
    return make_bench()
