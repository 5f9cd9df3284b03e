"""Launch geometries: how they are written, and what an architecture refuses."""

from __future__ import annotations

import numpy as np
import pytest

from atops import kernels as k
from atops.base.errors import (
    CooperativeLaunchTooLarge,
    InvalidConfiguration,
    InvalidType,
    InvalidValue,
    LaunchOutOfResources,
)
from atops.device.arch import architecture
from atops.kernels.launch_config import LaunchConfig

ARCH = architecture("gcu300")


@k.kernel
def nothing():
    """Do nothing."""


def test_a_geometry_has_several_spellings():
    """Ints, one to three of them, a size, and a LaunchConfig give the same geometry."""
    wanted = LaunchConfig((2, 1, 1), (12, 1, 1))
    for value in ((2, 12), ((2,), 12), [(2, 1), (12, 1, 1)], (np.int64(2), 12), wanted):
        assert LaunchConfig.of(value) == wanted
    assert LaunchConfig.of((1, 2, 64)).shared == 64
    assert LaunchConfig.of(wanted) is wanted
    assert (wanted.grid.x, wanted.block.x, wanted.shared, wanted.cooperative) == (2, 12, 0, False)


@pytest.mark.parametrize("value", [2, (2,), (2, 12, 0, 1), "2x12", None, (2, "12"), (2, 12, "big")])
def test_other_values_are_refused(value: object):
    """What is no geometry is an InvalidType that shows the value."""
    with pytest.raises(InvalidType):
        LaunchConfig.of(value)


@pytest.mark.parametrize("value", [(0, 12), (2, 0), (2, (1, -1)), (2, (1, 1, 1, 1)), (2, 12, -1)])
def test_values_without_meaning_are_refused(value: object):
    """Dimensions below 1, too many of them and a negative size are InvalidValue."""
    with pytest.raises(InvalidValue):
        LaunchConfig.of(value)


@pytest.mark.parametrize(
    ("grid", "block", "error", "why"),
    [
        (65537, 1, InvalidValue, "grid.x is 65537; gcu300 has 65536 at most"),
        ((1, 257), 1, InvalidValue, "grid.y is 257"),
        ((1, 1, 257), 1, InvalidValue, "grid.z is 257"),
        (1, 13, LaunchOutOfResources, "has 13 threads; gcu300 has 12 at most: .*tiles"),
        (1, (4, 4), LaunchOutOfResources, "has 16 threads"),
        (1 << 30, 4, InvalidValue, r"grid \* block is 4294967296 in x; expected below 2\*\*32"),
    ],
)
def test_geometry_the_chip_cannot_have(grid: object, block: object, error: type[Exception], why: str):
    """Each limit names the kernel, the dimension, the value and the architecture's figure."""
    with pytest.raises(error, match=f"nothing: .*{why}") as caught:
        LaunchConfig(grid, block).validate(ARCH, nothing)
    assert not isinstance(caught.value, InvalidConfiguration)


def test_the_largest_geometry_is_allowed():
    """The limits themselves are fine, the maximum of shared memory too."""
    LaunchConfig((65536, 256, 256), (1, 12)).validate(ARCH, nothing)
    LaunchConfig(1, (2, 3, 2), ARCH.l2_usable).validate(ARCH, nothing)
    with pytest.raises(LaunchOutOfResources, match=f"nothing: {ARCH.l2_usable + 1} bytes of dynamic shared memory"):
        LaunchConfig(1, 1, ARCH.l2_usable + 1).validate(ARCH, nothing)


def test_cooperative_launches_fit_the_clusters():
    """A cooperative kernel or configuration has at most as many blocks as clusters, and comes out cooperative."""
    together = k.cooperative(nothing)
    assert LaunchConfig(2, 12).validate(ARCH, together).cooperative
    assert LaunchConfig(2, 12, 0, True).validate(ARCH, nothing).cooperative
    assert not LaunchConfig(3, 12).validate(ARCH, nothing).cooperative
    for config, kernel in ((LaunchConfig(3, 1), together), (LaunchConfig(3, 1, 0, True), nothing)):
        with pytest.raises(CooperativeLaunchTooLarge, match="with 3 blocks; gcu300 has 2 clusters"):
            config.validate(ARCH, kernel)
    for config, kernel in ((LaunchConfig(1, 1, 1 << 30), together), (LaunchConfig(1, 1, 1 << 30, True), nothing)):
        with pytest.raises(CooperativeLaunchTooLarge, match="bytes of dynamic shared memory"):
            config.validate(ARCH, kernel)


def test_dynamic_shared_memory_needs_a_size():
    """A kernel that uses it is launched with a size; a size without use is allowed."""

    @k.kernel
    def stage():
        k.dynamic_shared(np.int8)

    LaunchConfig(1, 1, 64).validate(ARCH, stage)
    LaunchConfig(1, 1, 64).validate(ARCH, nothing)
    with pytest.raises(InvalidValue, match="stage uses dynamic shared memory; give a size"):
        LaunchConfig(1, 1).validate(ARCH, stage)
