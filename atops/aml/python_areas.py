"""Areas in Python's form: a scope whose memory goes with it."""

from __future__ import annotations

from types import TracebackType

import numpy as np

from atops.aml.codes import (
    AML_AREA_HIP_FLAG_ALLOC_GLOBAL,
    AML_AREA_HIP_FLAG_ALLOC_HOST,
    AML_AREA_HIP_FLAG_ALLOC_MAPPED,
    AML_AREA_HIP_FLAG_ALLOC_UNIFIED,
    host_flags,
)
from atops.base.errors import InvalidHandle, InvalidValue
from atops.bridge.arguments import size_of
from atops.bridge.handles import current_device, device_at
from atops.runtime.device import Device
from atops.runtime.memory.buffer import Buffer, DeviceArray
from atops.runtime.memory.copy_ends import host_bytes

__all__ = ("Area",)


class Area:
    """Memory of one kind: on a device, or where the flags say. Leaving the scope releases what is left of it.

    `device` is the number of a device; None is the one that is current when memory is mapped. `unified` is managed
    memory, `host` pinned memory, `mapped` host memory of the program's own, which `mmap` is given; `everywhere` makes
    it visible to all devices, which host memory is in any case. The flags are those of `aml_area_hip_create`.
    """

    def __init__(
        self,
        device: int | None = None,
        *,
        host: bool = False,
        unified: bool = False,
        mapped: bool = False,
        everywhere: bool = False,
    ) -> None:
        self.device = None if device is None else device_at(device)
        self.flags = (
            host * AML_AREA_HIP_FLAG_ALLOC_HOST
            | unified * AML_AREA_HIP_FLAG_ALLOC_UNIFIED
            | mapped * AML_AREA_HIP_FLAG_ALLOC_MAPPED
            | everywhere * AML_AREA_HIP_FLAG_ALLOC_GLOBAL
        )
        self._mapped: dict[int, DeviceArray[np.uint8]] = {}  # by address
        self._closed = False

    def mmap(self, size: int, host: object = None) -> DeviceArray[np.uint8]:
        """Return `size` new bytes: an array in device memory, or one that the host sees too, as the flags say.

        An area of mapped memory without `host=True` needs host memory: a writable array or buffer of `size` bytes or
        more, which stays the program's. Raises InvalidValue where it is missing, too small or not asked for, or for a
        size below 1; OutOfMemory; InvalidHandle once the scope was left.
        """
        if self._closed:
            raise InvalidHandle(f"cannot map memory: {self!r} was left; make another area")
        if size_of(size) == 0:
            raise InvalidValue("size must be 1 byte or more, got 0")
        memory = self._allocate(current_device() if self.device is None else self.device, size, host)
        self._mapped[memory.address] = memory
        return memory

    def munmap(self, memory: Buffer) -> None:
        """Release memory of this area now; work that still uses it keeps it until it is over.

        Raises InvalidValue for other memory, or memory that was released.
        """
        if self._mapped.get(memory.address) is not memory:
            raise InvalidValue(f"{memory!r} is not mapped by {self!r}")
        del self._mapped[memory.address]
        memory.close()

    def _allocate(self, device: Device, size: int, host: object) -> DeviceArray[np.uint8]:
        flags = self.flags
        if (flags & ~AML_AREA_HIP_FLAG_ALLOC_GLOBAL) == AML_AREA_HIP_FLAG_ALLOC_MAPPED:
            if host is None:
                raise InvalidValue(f"{self!r} maps host memory, and got none; pass it, or make the area with host=True")
            found = np.frombuffer(host_bytes(host, "host", writable=True), np.uint8)
            if found.size < size:
                raise InvalidValue(f"host must have {size} bytes or more, got {found.size}")
            return device.register(found[:size], flags=host_flags(flags))
        if host is not None:
            raise InvalidValue(f"{self!r} makes memory of its own; host is for areas with mapped=True alone")
        if flags & AML_AREA_HIP_FLAG_ALLOC_UNIFIED:
            return device.malloc_managed(size, np.uint8)
        if flags & AML_AREA_HIP_FLAG_ALLOC_HOST:
            return device.host_malloc(size, np.uint8, flags=host_flags(flags))
        return device.empty(size, np.uint8)

    def __enter__(self) -> Area:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._closed = True
        while self._mapped:
            self._mapped.popitem()[1].close()

    def __repr__(self) -> str:
        where = "the current device" if self.device is None else f"device {self.device.ordinal}"
        kinds = {
            "host": AML_AREA_HIP_FLAG_ALLOC_HOST,
            "unified": AML_AREA_HIP_FLAG_ALLOC_UNIFIED,
            "mapped": AML_AREA_HIP_FLAG_ALLOC_MAPPED,
            "everywhere": AML_AREA_HIP_FLAG_ALLOC_GLOBAL,
        }
        said = "".join(f", {name}" for name, bit in kinds.items() if self.flags & bit)
        return f"<Area of {where}{said}: {len(self._mapped)} mapped{', left' if self._closed else ''}>"
