"""Copies that take an engine, from their turn to their end."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import atops
from atops.runtime.commands import copy


@pytest.fixture
def no_collector():
    """Have the collector off."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def test_a_copy_that_is_over_is_let_go_of_at_once(no_collector):
    """Its turn refers to nothing that refers back to it: what it held need not wait for the collector."""

    async def main() -> list[object]:
        async with atops.Device(0).create_stream() as stream:
            stream.upload(np.zeros(8))
            await stream
        return [each for each in gc.get_objects() if isinstance(each, copy._Turn)]

    assert atops.run(main, atops.EmulatorOptions(clock="virtual")) == []
