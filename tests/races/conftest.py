"""What programs that run in a test's own process must not leave behind."""

from __future__ import annotations

import os
from collections.abc import Iterator
from unittest.mock import patch

import pytest


@pytest.fixture(autouse=True)
def same_environment() -> Iterator[None]:
    """Put the environment back: an example may set how many devices its board has."""
    with patch.dict(os.environ):
        yield
