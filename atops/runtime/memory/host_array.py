"""Host memory that the device can reach: pinned, registered or managed, with a numpy view of the same bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

import numpy as np
import numpy.typing as npt

from atops.base.dtypes import DType, Scalar_co
from atops.base.errors import InvalidType
from atops.base.neighbours import answers
from atops.device.memory.allocation import Allocation
from atops.runtime.memory.buffer import DeviceArray, Release, alive

if TYPE_CHECKING:
    from atops.runtime.driver_board import Board

__all__ = ("HostArray",)


@answers("HostArray")
class HostArray(DeviceArray[Scalar_co]):
    """An array in host memory that copies, fills, value waits, DTE and kernels of every device can use.

    `array` is a numpy view of the same bytes: what the host stores there, devices see, and the other way round. A value
    wait notices such a store at most a millisecond late. numpy, memoryview (from Python 3.12 on) and every library that
    knows DLPack share the bytes too: `np.asarray(x)`, `torch.from_dlpack(x)`; `x[...] = values` stores there now.
    """

    __slots__ = ("array",)

    def __init__(
        self,
        allocation: Allocation | None = None,
        dtype: DType | None = None,
        shape: tuple[int, ...] = (),
        release: Release | None = None,
        array: npt.NDArray[Any] | None = None,
        board: Board | None = None,
        offset: int = 0,
    ) -> None:
        if dtype is None or not isinstance(allocation, Allocation):  # a call of the program's
            raise InvalidType(f"HostArray({allocation!r}, ...) makes no memory; use device.host_malloc(shape, dtype)")
        super().__init__(allocation, offset, dtype, shape, release, board)
        if array is None:
            array = allocation.data[offset : offset + self.nbytes].view(dtype).reshape(shape)
        self.array: npt.NDArray[Scalar_co] = array

    @property
    def host_address(self) -> int:
        """The address of the first byte in this process. Equal to `address` for managed memory."""
        return self.allocation.host_address

    def _view(self, offset: int, dtype: DType, shape: tuple[int, ...]) -> HostArray:
        return self._part(HostArray(self.allocation, dtype, shape, offset=offset))

    def __setitem__(self, index: Any, value: Any) -> None:
        """Store into the bytes now, as numpy does, in no stream's order. Raises InvalidHandle once it was freed."""
        alive(self)
        self.array[index] = value

    def __dlpack__(self, **options: Any) -> Any:
        """Share the bytes with another library, as numpy does. Raises InvalidHandle once it was freed, BufferError."""
        alive(self)
        return self.array.__dlpack__(**options)  # type: ignore[misc]  # numpy says which types DLPack has

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return DLPack's name of host memory, (1, 0)."""
        return 1, 0

    def __buffer__(self, flags: int, /) -> memoryview:
        """Share the bytes as a memoryview. Python asks from 3.12 on. Raises InvalidHandle once it was freed."""
        alive(self)
        return self.array.data

    @overload
    def __array__(self, dtype: None = None, copy: bool | None = None) -> npt.NDArray[Scalar_co]: ...
    @overload
    def __array__(self, dtype: Any, copy: bool | None = None) -> npt.NDArray[Any]: ...
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return np.array(self.array, dtype=dtype, copy=copy)

    def __repr__(self) -> str:
        fate = "" if self.allocation.alive else ", freed"
        return f"<HostArray {self.shape} {self.dtype} at {self.address:#x}, {self.allocation.where}{fate}>"
