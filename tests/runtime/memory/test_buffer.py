"""Device memory in a program's hands: its shapes, and what it refuses to be."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import numpy as np
import pytest

from atops.base.errors import InvalidType, InvalidValue
from atops.device.call_site import Site
from atops.runtime.device import Device
from atops.runtime.memory.buffer import Buffer
from tests.runtime.boards import device


@pytest.fixture(scope="module")
def chip() -> Iterator[Device]:
    """Device 0 of a board of this module's own."""
    with device() as chip:
        yield chip


@pytest.mark.parametrize("shape", [(2, 3), ((2, 3),), (6,), ((1, 6, 1),)])
def test_reshape_takes_ints_or_a_tuple(chip: Device, shape: tuple):
    """As numpy does: both spellings give the shape, and rows of it can be taken."""
    array = chip.empty(6, np.float32).reshape(*shape)
    assert array.shape == np.empty(6).reshape(*shape).shape
    assert array[0].nbytes == 24 // len(array)


@pytest.mark.parametrize("shape", [(4,), (-1, 4), (-1, -1), (-2, -3), ((5, 2),)])
def test_reshape_refuses_another_size(chip: Device, shape: tuple):
    """A shape of another size is refused, and so is one with a negative extent."""
    with pytest.raises(InvalidValue, match="6 elements"):
        chip.empty(6, np.float32).reshape(*shape)


def test_device_memory_is_no_array(chip: Device):
    """The error says to fetch an array where one is needed; pinned memory is an array."""
    for memory in (chip.empty(6, np.float32), chip.allocate(16)):
        with pytest.raises(InvalidType, match=r"stream\.fetch"):
            np.asarray(memory)
    assert np.asarray(chip.host_malloc(6, np.int16)).shape == (6,)


@pytest.mark.slow
def test_a_closed_buffer_is_no_garbage(chip: Device):
    """Closing makes no reference cycle: of a program that allocates and frees the collector finds nothing."""
    gc.collect()
    gc.disable()
    try:
        for _ in range(100):
            chip.allocate(16).close()
            chip.empty((2, 3)).close()
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        sites = [each.allocation.site for each in gc.garbage if isinstance(each, Buffer)]
        ours = [site for site in sites if isinstance(site, Site) and site.path == __file__]  # not what others leave
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert not ours


@pytest.mark.anyio
async def test_the_scope_of_a_buffer_gives_the_buffer(chip: Device):
    """`async with` binds the object itself, whatever its class, and gives the memory back at the end."""
    async with chip.host_malloc(6, np.int16) as pinned, chip.empty(6) as array:
        pinned.array[:] = 1
        assert array.is_live
    await chip.wait()
    assert not pinned.is_live and not array.is_live
