"""The syntax trees of the whole project are let go after the tests that look at them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.architecture import source_tree


@pytest.fixture(autouse=True, scope="package")
def forgotten_trees() -> Iterator[None]:
    """Forget what the rules have parsed: the collector would go through its 600,000 nodes for ever."""
    yield
    source_tree.forget()
