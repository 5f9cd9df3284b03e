"""A board of two devices for each test, current in its thread, with no error and no flag left from another test."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from tests.tops.conformance import World, new_world


@pytest.fixture
def world() -> Iterator[World]:
    """Two devices of a gcu300 board; device 0 is current."""
    with new_world() as made:
        yield made


@pytest.fixture
def elsewhere(tmp_path, monkeypatch, caplog) -> None:
    """Run in a folder of its own, for functions that write files, and say nothing of what random calls do."""
    monkeypatch.chdir(tmp_path)
    caplog.set_level(logging.CRITICAL, "atops")
