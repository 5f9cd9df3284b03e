"""The launch of a kernel by host code in C++: its arguments are bytes."""

from __future__ import annotations

from contextlib import closing

import numpy as np

import atops
from atops.kernels.cxx.kernel import ProgramKernel


def test_all_memory_that_the_arguments_name_is_known() -> None:
    """Stores to it wake what waits for a value there, whichever argument names it."""
    with closing(atops.Driver()) as driver:
        device = atops.Device(0, driver)
        buffers = [device.zeros(4, np.int32) for _ in range(7)]
        sizes = [8, 2, *[8] * 6]
        none = [False] * 8
        kernel = ProgramKernel(lambda chip, watched: NotImplemented, "f", sizes, none, False, lambda _: None, list)
        addresses = [each.address for each in buffers]
        given = np.uint64(addresses[0]).tobytes() + b"ab" + np.array(addresses[1:], np.uint64).tobytes()
        launch = kernel.bind((given,))
        launch.resolve(lambda allocation: True)
        chip = driver._board.context(0).chip
        assert [each.address for each in launch.named(chip, False)] == addresses
        assert list(np.frombuffer(launch._memory, np.uint64)[[0, 4]]) == addresses[:2]
