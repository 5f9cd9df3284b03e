"""Host memory that the device can reach: pinned, registered or managed, with a numpy view of the same bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from atops.base.dtypes import DType, Scalar_co
from atops.device.memory.allocation import Allocation
from atops.runtime.memory.buffer import DeviceArray, Release

if TYPE_CHECKING:
    from atops.runtime.driver import Driver

__all__ = ("HostArray",)


class HostArray(DeviceArray[Scalar_co]):
    """An array in host memory that copies, fills, value waits, DTE and kernels of every device can use.

    `array` is a numpy view of the same bytes: what the host stores there, devices see, and the other way round. A value
    wait notices such a store at most a millisecond late.
    """

    __slots__ = ("array",)

    def __init__(
        self,
        allocation: Allocation,
        dtype: DType,
        shape: tuple[int, ...],
        release: Release | None = None,
        array: npt.NDArray[Any] | None = None,
        driver: Driver | None = None,
    ) -> None:
        super().__init__(allocation, 0, dtype, shape, release, driver)
        if array is None:
            array = allocation.data[: self.nbytes].view(dtype).reshape(shape)
        self.array: npt.NDArray[Scalar_co] = array

    @property
    def host_address(self) -> int:
        """The address of the first byte in this process. Equal to `address` for managed memory."""
        return self.allocation.host_address

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return np.array(self.array, dtype=dtype, copy=copy)

    def __repr__(self) -> str:
        fate = "" if self.allocation.alive else ", freed"
        return f"<HostArray {self.shape} {self.dtype} at {self.address:#x}, {self.allocation.where}{fate}>"
