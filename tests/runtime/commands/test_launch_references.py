"""A launch that is over: nothing of it is left to the collector."""

from __future__ import annotations

import gc
from typing import Any

import pytest

import atops
from atops import kernels as k
from atops.base.errors import NotSupported
from atops.base.options import EmulatorOptions
from atops.device.exec.grid import Grid
from atops.device.native.toolchain import find_toolchain
from atops.device.races.clocks import BlockClock
from atops.device.races.detector import LaunchDetector

SOURCE = 'extern "C" __global__ void meet() { __syncthreads(); }'


@k.kernel
async def meet() -> None:
    """Meet once."""
    await k.syncthreads()


def _native() -> Any:
    try:
        find_toolchain()
    except NotSupported as error:
        pytest.skip(str(error))
    return k.compile(SOURCE).function("meet")


@pytest.mark.parametrize("options", [{}, {"detect": True}, {"strict": True}], ids=str)
@pytest.mark.parametrize("language", ["python", "cxx"])
def test_a_launch_that_is_over_waits_for_no_collector(language: str, options: dict[str, Any]) -> None:
    """Its grid goes with its last reference, as does what the detectors know of it, and with both the arguments."""
    kernel: Any = meet if language == "python" else _native()

    async def main() -> list[int]:
        stream = atops.Device(0).create_stream()
        await stream.launch(kernel, (2, 3))
        gc.collect()
        gc.disable()
        try:
            for _ in range(5):
                await stream.launch(kernel, (2, 3))
            left = [type(each) for each in gc.get_objects()]
            return [left.count(kind) for kind in (Grid, LaunchDetector, BlockClock)]
        finally:
            gc.enable()

    grids, detectors, clocks = atops.run(main, EmulatorOptions(**options))
    assert grids <= 1 and detectors <= 1 and clocks <= 2  # the last launch may still be on its way out
