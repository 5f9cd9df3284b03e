"""A board of two devices for each test, current in its thread, with no error and no flag left from another test."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from atops.base.options import EmulatorOptions
from atops.runtime.board.current_device import restore_ordinal, set_ordinal
from atops.runtime.driver import CURRENT, Driver
from tests.tops.conformance import World, fresh


@pytest.fixture
def world() -> Iterator[World]:
    """Two devices of a gcu300 board; device 0 is current."""
    driver = Driver(EmulatorOptions(devices=2, abort_grace=0.2, trace=256))
    token = CURRENT.set(driver)
    saved = set_ordinal(driver.serial, 0)
    fresh()
    try:
        yield World(driver)
    finally:
        fresh()
        restore_ordinal(saved)
        CURRENT.reset(token)
        driver.close()


@pytest.fixture
def elsewhere(tmp_path, monkeypatch, caplog) -> None:
    """Run in a folder of its own, for functions that write files, and say nothing of what random calls do."""
    monkeypatch.chdir(tmp_path)
    caplog.set_level(logging.CRITICAL, "atops")
