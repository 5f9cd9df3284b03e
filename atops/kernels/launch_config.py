"""The geometry of a launch, and the limits that architecture and kernel set to it. TOPS Runtime API, 2.8."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from atops.base.dims import Dim3, DimLike
from atops.base.errors import (
    CooperativeLaunchTooLarge,
    InvalidType,
    InvalidValue,
    LaunchOutOfResources,
    NotSupported,
)
from atops.base.result_codes import Result
from atops.device.arch import Architecture

if TYPE_CHECKING:
    from atops.kernels.kernel import Kernel

__all__ = ("LaunchConfig",)

MOST_THREADS = 1 << 32  # in each dimension of the whole grid


@dataclass(frozen=True, slots=True, weakref_slot=True)
class LaunchConfig:
    """How many blocks and threads a launch has, its dynamic shared memory in bytes, and whether blocks start together.

    `grid` counts blocks, `block` counts threads; each is an int or one to three ints, x first.
    """

    grid: Dim3
    block: Dim3
    shared: int = 0
    cooperative: bool = False

    def __init__(self, grid: DimLike, block: DimLike, shared: int = 0, cooperative: bool = False) -> None:
        """Take the geometry. Raises InvalidType and InvalidValue for what is invalid on every chip."""
        try:
            shared = operator.index(shared)
        except TypeError:
            raise InvalidType(f"shared expects a number of bytes, got {shared!r}") from None
        if shared < 0:
            raise InvalidValue(f"shared expects 0 bytes or more, got {shared}")
        for name, value in (
            ("grid", Dim3.of(grid, "grid")), ("block", Dim3.of(block, "block")), ("shared", shared),
            ("cooperative", bool(cooperative)),
        ):  # fmt: skip
            object.__setattr__(self, name, value)

    @classmethod
    def of(cls, value: LaunchConfig | Sequence[DimLike]) -> LaunchConfig:
        """Make a geometry of `(grid, block)` or `(grid, block, shared)`; a LaunchConfig is returned as it is.

        Raises InvalidType for anything else.
        """
        if isinstance(value, LaunchConfig):
            return value
        if not isinstance(value, tuple | list) or not 2 <= len(value) <= 3:
            raise InvalidType(f"launch configuration expects (grid, block), such as (2, 12), got {value!r}")
        return cls(*value)

    def validate(self, arch: Architecture, kernel: Kernel) -> LaunchConfig:
        """Return the configuration as `arch` runs it with `kernel`, cooperative where either is.

        Raises InvalidValue for dimensions that the chip cannot have and for dynamic shared memory without a size,
        LaunchOutOfResources for too many threads or bytes, CooperativeLaunchTooLarge for more cooperative blocks
        than clusters or more shared memory than theirs, NotSupported for a chip that the kernel is not compiled for.
        Each names the limit.
        """
        _check_target(arch, kernel)
        for axis, blocks, threads in zip("xyz", self.grid, self.block, strict=True):
            if blocks * threads >= MOST_THREADS:
                raise InvalidValue(f"{kernel.name}: grid * block is {blocks * threads} in {axis}; expected below 2**32")
        _check_extents(kernel, "grid", self.grid, arch.max_grid, arch)
        if self.block.volume > arch.max_threads_per_block:
            raise LaunchOutOfResources(
                f"{kernel.name}: block {tuple(self.block)} has {self.block.volume} threads; {arch.name} has "
                f"{arch.max_threads_per_block} at most: let each take a share of the elements, {kernel.share}"
            )
        _check_extents(kernel, "block", self.block, arch.max_block, arch)
        together = self.cooperative or kernel.cooperative
        if self.shared > arch.l2_usable:
            raise (CooperativeLaunchTooLarge if together else LaunchOutOfResources)(
                f"{kernel.name}: {self.shared} bytes of dynamic shared memory; {arch.name} has {arch.l2_usable} at most"
            )
        if kernel.constant_bytes > arch.constant_bytes:
            raise LaunchOutOfResources(
                f"{kernel.name} refers to {kernel.constant_bytes} bytes of constants; {arch.name} has "
                f"{arch.constant_bytes} for each kernel"
            )
        if not self.shared and kernel.needs_dynamic_shared:
            raise InvalidValue(f"{kernel.name} uses dynamic shared memory; give a size, as (grid, block, bytes)")
        if together and self.grid.volume > arch.clusters:
            raise CooperativeLaunchTooLarge(
                f"{kernel.name} is cooperative with {self.grid.volume} blocks; {arch.name} has {arch.clusters} clusters"
            )
        return self if together == self.cooperative else replace(self, cooperative=True)


def _check_extents(kernel: Kernel, what: str, given: Dim3, most: Dim3, arch: Architecture) -> None:
    for axis, extent, limit in zip("xyz", given, most, strict=True):
        if extent > limit:
            raise InvalidValue(f"{kernel.name}: {what}.{axis} is {extent}; {arch.name} has {limit} at most")


def _check_target(arch: Architecture, kernel: Kernel) -> None:
    target = kernel.target
    if target is not None and arch.name not in target.runs_on:
        chips = " and ".join(target.runs_on)
        error = NotSupported(f"{kernel.name} is compiled for {target.name}, which runs on {chips}; this is {arch.name}")
        error.code = Result.NoBinaryForGcu  # type: ignore[misc]  # this one carries its own code
        raise error
