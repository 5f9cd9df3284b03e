"""The memory of a device as a program reaches it: allocations outside any stream's order, pools, pinned host memory."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, overload

import numpy as np
import numpy.typing as npt

from atops.base.dtypes import DTypeLike, Scalar, Typed, as_dtype
from atops.base.errors import (
    InvalidHandle,
    InvalidType,
    InvalidValue,
    OutOfMemory,
)
from atops.base.neighbours import keywords
from atops.base.options import whole
from atops.device.call_site import caller
from atops.device.memory.allocation import Allocation
from atops.kernels.memory.device_variables import Variable
from atops.runtime.board.context import DeviceContext
from atops.runtime.board.deferred_free import free_when_idle
from atops.runtime.board.symbols import Symbol, symbol
from atops.runtime.core.future import InProcess
from atops.runtime.driver_board import Board
from atops.runtime.memory.buffer import Buffer, DeviceArray, extents_of, shape_and_dtype
from atops.runtime.memory.copy_ends import check_unmasked, host_array
from atops.runtime.memory.host_array import HostArray
from atops.runtime.owning_queue import OwningQueue
from atops.runtime.pools.pool import MemoryPool
from atops.runtime.queues.host_functions import CALLS, warn_in_host_function
from atops.runtime.stream_memory import Shape

__all__ = ("DeviceMemoryVerbs", "MemoryInfo")


class MemoryInfo(NamedTuple):
    """How many bytes of a device's memory are free, and how many it has."""

    free: int
    total: int


class DeviceMemoryVerbs(InProcess):
    """What a device does with memory, outside any stream's order.

    What is made here lives until it is closed, or until the last reference to it goes.
    """

    __slots__ = ("__weakref__", "_board", "_ordinal")

    _board: Board
    _ordinal: int

    @property
    def context(self) -> DeviceContext:
        """What the driver keeps of this device."""
        return self._board.context(self._ordinal)

    def create_pool(self, *, max_size: int | None = None, name: str = "") -> MemoryPool:
        """Create a memory pool on this device (TOPS Runtime API, 2.6 topsMemPoolCreate)."""
        return MemoryPool(self.context, max_size=max_size, name=name)

    @keywords(stream="stream.allocate(nbytes)", size="nbytes", bytesize="nbytes", dtype="device.empty(shape, dtype)")
    def allocate(
        self, nbytes: int, *, bank: int | None = None, top_down: bool = False, flags: int = 0, label: str = ""
    ) -> Buffer:
        """Allocate device memory now, outside any stream's order. `bank` and `top_down` say where; `flags` are kept.

        `close` gives it back once the work enqueued on the device by then is over. Raises OutOfMemory, InvalidValue
        (TOPS Runtime API, 2.6 topsMalloc, topsExtMallocWithFlags).
        """
        if bank is not None and not whole(bank):
            raise InvalidType(f"the bank is {bank!r}; expected an int, or None for any")
        board = self._board
        if board.checked:
            warn_in_host_function(board, CALLS, "allocate()")
        context = board.context(self._ordinal)
        memory = context.memory
        context.asker = site = caller(2, context.asker)  # this frame, and that of `keywords`
        try:
            allocation = memory.allocate(nbytes, bank=bank, top_down=top_down, flags=flags, site=site, label=label)
        except OutOfMemory:
            if not context.trim_pools():
                raise
            allocation = memory.allocate(nbytes, bank=bank, top_down=top_down, flags=flags, site=site, label=label)
        if board.detector is not None:
            board.detector.allocated(allocation)
        try:
            release = context.release
            if release is None:
                board.executor.start()
                context.release = release = partial(free_when_idle, context, memory.free)
            return Buffer(allocation, 0, nbytes, release, board)
        except BaseException:  # Ctrl-C: it would never be freed
            memory.free(allocation, "Ctrl-C")
            raise

    @property
    def default_pool(self) -> MemoryPool:
        """The pool that the device always has. Its attributes can be set, it cannot be destroyed."""
        pool = self.context.default_pool
        assert isinstance(pool, MemoryPool)
        return pool

    @property
    def current_pool(self) -> MemoryPool:
        """The pool of stream-ordered allocations that name none: the default one until another was set.

        Setting raises InvalidType for what is no pool, InvalidHandle for one that is destroyed or another device's.
        When it is destroyed, the default one is current again.
        """
        pool = self.context.current_pool
        assert isinstance(pool, MemoryPool)
        return pool

    @current_pool.setter
    def current_pool(self, pool: MemoryPool) -> None:
        if not isinstance(pool, MemoryPool):
            raise InvalidType(f"the current pool of device {self._ordinal} is {pool!r}; expected a MemoryPool")
        context = self.context
        with self._board.lock:
            if pool.context is not context or pool.is_destroyed:
                whose = f"is of {pool.context.board!r}, device {pool.context.ordinal}"
                why = "is destroyed" if pool.is_destroyed else whose
                raise InvalidHandle(f"the current pool of device {self._ordinal}: {pool!r} {why}")
            context.pool = None if pool is context.default_pool else pool

    @overload
    def zeros(self, shape: Shape) -> DeviceArray[np.float32]: ...
    @overload
    def zeros(self, shape: Shape, dtype: Typed[Scalar]) -> DeviceArray[Scalar]: ...
    @overload
    def zeros(self, shape: Shape, dtype: DTypeLike) -> DeviceArray: ...
    @keywords(stream="stream.zeros(shape, dtype)", device="the zeros() of that device")
    def zeros(self, shape: Shape, dtype: DTypeLike = np.float32) -> DeviceArray:
        """Allocate an array now, outside any stream's order, and make all its bytes 0."""
        array = self.empty(shape, dtype)
        self.context.memory.clear(array.allocation)
        if (detector := self._board.detector) is not None:
            detector.cleared(array.allocation)
        return array

    @overload
    def empty_like(self, other: DeviceArray[Scalar] | npt.NDArray[Scalar]) -> DeviceArray[Scalar]: ...
    @overload
    def empty_like(self, other: object) -> DeviceArray: ...
    def empty_like(self, other: object) -> DeviceArray:
        """Allocate an array of another's shape and dtype now, outside any stream's order."""
        return self.empty(*shape_and_dtype(other))

    @overload
    def empty(self, shape: Shape) -> DeviceArray[np.float32]: ...
    @overload
    def empty(self, shape: Shape, dtype: Typed[Scalar]) -> DeviceArray[Scalar]: ...
    @overload
    def empty(self, shape: Shape, dtype: DTypeLike) -> DeviceArray: ...
    @keywords(stream="stream.empty(shape, dtype)", device="the empty() of that device")
    def empty(self, shape: Shape, dtype: DTypeLike = np.float32) -> DeviceArray:
        """Allocate an array now, outside any stream's order."""
        dtype = as_dtype(dtype)
        shape = extents_of(shape)
        size = math.prod(shape) * dtype.itemsize
        buffer = self.allocate(size)
        array = DeviceArray(buffer.allocation, 0, dtype, shape, None, self._board)
        array.take_over(buffer)
        return array

    @overload
    async def upload(self, host: npt.NDArray[Scalar] | Scalar) -> DeviceArray[Scalar]: ...
    @overload
    async def upload(self, host: bytes | bytearray) -> DeviceArray[np.uint8]: ...
    @overload
    async def upload(self, host: object) -> DeviceArray: ...
    async def upload(self, host: object) -> DeviceArray:
        """Allocate an array for `host` (what `Stream.upload` takes) that no stream owns, copy it, and wait for it.

        For what outlives streams, such as the weights of a model. The copy has a stream of its own and is ordered with
        nothing: once it is awaited, every stream sees the data. Cancelled, or refused, it leaves nothing allocated.
        Raises OutOfMemory, InvalidType for what device memory cannot hold.
        """
        source = host_array(host)
        array = self.empty(source.shape, source.dtype)
        stream = OwningQueue(self.context, nonblocking=True).stream
        try:
            await stream.copy(array, source)
        except BaseException:
            array.close()
            raise
        finally:
            stream.close()
        return array

    @overload
    def host_malloc(self, shape: Shape, *, flags: int = 0) -> HostArray[np.uint8]: ...
    @overload
    def host_malloc(self, shape: Shape, dtype: Typed[Scalar], *, flags: int = 0) -> HostArray[Scalar]: ...
    @overload
    def host_malloc(self, shape: Shape, dtype: DTypeLike, *, flags: int = 0) -> HostArray: ...
    def host_malloc(self, shape: Shape, dtype: DTypeLike = np.uint8, *, flags: int = 0) -> HostArray:
        """Allocate pinned host memory that every device reaches; `flags` are kept (Runtime API, 2.6 topsHostMalloc)."""
        return self._host_array(partial(self._board.host.allocate, flags=flags), shape, dtype)

    @overload
    def malloc_managed(self, shape: Shape) -> HostArray[np.uint8]: ...
    @overload
    def malloc_managed(self, shape: Shape, dtype: Typed[Scalar]) -> HostArray[Scalar]: ...
    @overload
    def malloc_managed(self, shape: Shape, dtype: DTypeLike) -> HostArray: ...
    def malloc_managed(self, shape: Shape, dtype: DTypeLike = np.uint8) -> HostArray:
        """Allocate managed memory: one pointer for the host and every device."""
        return self._host_array(self._board.host.managed, shape, dtype)

    @overload
    def register(self, array: npt.NDArray[Scalar], *, flags: int = 0) -> HostArray[Scalar]: ...
    @overload
    def register(self, array: object, *, flags: int = 0) -> HostArray: ...
    def register(self, array: Any, *, flags: int = 0) -> HostArray:
        """Let every device reach a writable numpy array or buffer; `close` ends that and leaves the bytes alone.

        Its device pointer differs from the host's. Raises InvalidType, or InvalidValue when it is read-only, empty,
        registered already or an array in another order than C's (TOPS Runtime API, 2.6 topsHostRegister).
        """
        check_unmasked(array, "what is registered")
        if isinstance(array, np.ndarray) and array.flags.f_contiguous and not array.flags.c_contiguous:
            raise InvalidValue(
                f"an array of shape {array.shape} in Fortran's order cannot be registered; its transpose `.T` can, or "
                "np.ascontiguousarray(...)"
            )
        context, host = self.context, self._board.host
        allocation = host.register(array, flags)  # which says what is wrong with what is no writable buffer
        view = array if isinstance(array, np.ndarray) else np.frombuffer(array, np.uint8)
        release = partial(free_when_idle, context, host.unregister)
        self._board.executor.start()
        return HostArray(allocation, view.dtype, view.shape, release, view, self._board)

    def _host_array(
        self, make: Callable[[int], Allocation], shape: int | tuple[int, ...], dtype: DTypeLike
    ) -> HostArray:
        dtype = as_dtype(dtype)
        shape = extents_of(shape)
        size = math.prod(shape) * dtype.itemsize
        release = partial(free_when_idle, self.context, self._board.host.free)
        self._board.executor.start()
        return HostArray(make(size), dtype, shape, release, None, self._board)

    @overload
    def symbol(self, variable: Variable[Scalar]) -> Symbol[Scalar]: ...
    @overload
    def symbol(self, variable: str) -> Symbol: ...
    def symbol(self, variable: Variable | str) -> Symbol:
        """Return this device's instance of a declared variable, given itself or its name, as an array to copy.

        `address` and `nbytes` say where it is; it owns nothing. Raises NotFound, InvalidValue or InvalidType for what
        names no one variable (TOPS Runtime API, 2.6 topsGetSymbolAddress, topsMemcpyToSymbol).
        """
        return symbol(self.context, variable)

    def memory_info(self) -> MemoryInfo:
        """Return (free, total) bytes of device memory, also by name (TOPS Runtime API, 2.6 topsMemGetInfo)."""
        figures = self.context.memory.statistics()
        return MemoryInfo(figures.free, figures.total)

    def buffer_at(self, address: int, nbytes: int) -> Buffer:
        """Return the bytes at a device address, owning nothing. Raises IllegalAddress naming the nearest allocation."""
        for what, value in (("address", address), ("number of bytes", nbytes)):
            if not whole(value):
                raise InvalidType(f"the {what} is {value!r}; expected an int")
        allocation = self._board.space.find(address)
        offset = address - allocation.address
        allocation.check(offset, nbytes, f"buffer_at on device {self._ordinal}")
        buffer = Buffer(allocation, offset, nbytes)
        buffer.driver = self._board.driver
        return buffer
