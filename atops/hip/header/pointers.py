"""What HIP functions return for a pointer or a handle: an int that can also do what hip-python's objects do."""

from __future__ import annotations

import ctypes
import math
from typing import Any, Self

import numpy as np

from atops.base.errors import InvalidType, InvalidValue
from atops.bridge.arguments import whole
from atops.bridge.pointers import ARRAY, host_pointer, pointed
from atops.runtime.memory.buffer import Buffer

__all__ = ("DeviceArray", "Pointer")


class Pointer(int):
    """A pointer, or the handle of a stream, an event, a pool: the int itself."""

    _owner: object = None  # of host memory

    @classmethod
    def fromObj(cls, pyobj: object) -> Pointer:
        """Return the pointer that an object is: None, an int, a `void *` of ctypes, or memory of a device or the host.

        Raises InvalidType for other objects. Memory of the host lives at least as long as the pointer.
        """
        found = pyobj.address if isinstance(pyobj, Buffer) else pointed(pyobj)
        if found is None or isinstance(found, int):
            return pyobj if isinstance(pyobj, cls) else cls(found or 0)
        made = cls(host_pointer(found, "pyobj"))
        made._owner = found
        return made

    def __getitem__(self, offset: Any) -> Pointer:
        """Return the pointer to what lies so many bytes behind."""
        return Pointer(int(self) + whole(offset, "the offset"))

    @property
    def is_ptr_null(self) -> bool:
        """Tell whether it is null."""
        return not self

    def createRef(self) -> Self:
        """Return what C has for `&pointer`: the calls here take the pointer itself."""
        return self

    def as_c_void_p(self) -> ctypes.c_void_p:
        """Return it as a `void *`."""
        return ctypes.c_void_p(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({int(self):#x})"


class DeviceArray(Pointer):
    """A pointer to device memory with the shape and the type of what lies there: bytes, until `configure`d.

    `array[i, j:k]` is the pointer to a part that is contiguous. Others read `__cuda_array_interface__`.
    """

    _dtype: np.dtype[Any] = np.dtype(np.uint8)
    _shape: tuple[int, ...] = (1,)
    nbytes: int = 1

    @classmethod
    def of(cls, address: int, nbytes: int) -> DeviceArray:
        """Return the pointer to so many bytes."""
        made = cls(address)
        made._shape, made.nbytes = (nbytes,), nbytes
        return made

    @classmethod
    def fromObj(cls, pyobj: object) -> DeviceArray:
        """As for a pointer; what has `__cuda_array_interface__` keeps its shape and type. They must be contiguous."""
        made = super().fromObj(pyobj)
        assert isinstance(made, DeviceArray)
        interface = getattr(pyobj, ARRAY, None)
        if made is not pyobj and isinstance(interface, dict):
            dtype, shape = np.dtype(interface["typestr"]), tuple(interface["shape"])
            if (interface.get("strides") or _strides(shape, dtype.itemsize)) != _strides(shape, dtype.itemsize):
                raise InvalidValue(f"{pyobj!r} of shape {shape} is not contiguous")
            made._dtype, made._shape, made.nbytes = dtype, shape, math.prod(shape) * dtype.itemsize
        return made

    @property
    def is_read_only(self) -> bool:
        """Whether its memory may not be written: it may."""
        return False

    @property
    def stream_as_int(self) -> int:
        """The stream that its memory has to be used in: none, so the null stream."""
        return 0

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents, outermost first."""
        return self._shape

    @property
    def rank(self) -> int:
        """The number of extents."""
        return len(self._shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self._shape)

    @property
    def itemsize(self) -> int:
        """The bytes of an element."""
        return self._dtype.itemsize

    @property
    def typestr(self) -> str:
        """The type of an element as numpy's interface of arrays writes it."""
        return self._dtype.str

    @property
    def __cuda_array_interface__(self) -> dict[str, object]:
        return {"data": (int(self), False), "shape": self._shape, "typestr": self.typestr, "strides": None,
                "stream": None, "version": 3}  # fmt: skip

    def configure(self, *, shape: int | tuple[int, ...] | None = None, typestr: str | None = None,
                  itemsize: int | None = None, _force: bool = False) -> Self:  # fmt: skip
        """Set what lies there, and return this pointer.

        `typestr` is a name of numpy's ("float32") or its own form ("<f4"); without a `shape` the array has one extent.
        `_force` permits another number of bytes than there are. Raises InvalidValue for that, and for an `itemsize`
        that is not that of the type; InvalidType for no type.
        """
        try:
            dtype = self._dtype if typestr is None else np.dtype(typestr)
        except TypeError:
            raise InvalidType(f"typestr must name a type of numpy, got {typestr!r}") from None
        if itemsize is not None and itemsize != dtype.itemsize:
            raise InvalidValue(f"itemsize must be {dtype.itemsize}, that of {dtype}, got {itemsize}")
        if shape is None:
            shape = (self.nbytes // dtype.itemsize,)
        extents = (shape,) if isinstance(shape, int) else tuple(shape)
        nbytes = math.prod(extents) * dtype.itemsize
        if nbytes != self.nbytes and not _force:
            raise InvalidValue(f"shape {extents} of {dtype} has {nbytes} bytes, and the memory {self.nbytes}")
        self._dtype, self._shape, self.nbytes = dtype, extents, nbytes
        return self

    def __getitem__(self, index: Any) -> DeviceArray:
        strides = _strides(self._shape, self.itemsize)
        shell = np.lib.stride_tricks.as_strided(np.empty(0, np.uint8), self._shape, strides)
        part = shell[index]
        if not isinstance(part, np.ndarray):  # one element
            part = shell[(*index, None) if isinstance(index, tuple) else (index, None)]
        if part.strides != _strides(part.shape, self.itemsize) and part.size > 1:
            raise InvalidValue(f"[{index!r}] of shape {self._shape} is not contiguous")
        offset = part.__array_interface__["data"][0] - shell.__array_interface__["data"][0]
        made = DeviceArray.of(int(self) + offset, part.size * self.itemsize)
        return made.configure(shape=part.shape, typestr=self.typestr)


def _strides(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Return the strides of an array in C's order."""
    return tuple(math.prod(shape[axis + 1 :]) * itemsize for axis in range(len(shape)))
