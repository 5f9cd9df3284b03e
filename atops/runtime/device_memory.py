"""The memory of one device in a program's hands: what is allocated, registered and named outside any stream's order."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from atops.base.dtypes import DTypeLike, as_dtype
from atops.base.errors import InvalidHandle, InvalidType, InvalidValue, OutOfMemory
from atops.base.options import whole
from atops.device.call_site import caller
from atops.device.memory.allocation import Allocation
from atops.kernels.memory.device_variables import Variable
from atops.runtime.board.context import DeviceContext
from atops.runtime.board.deferred_free import free_when_idle
from atops.runtime.driver import Driver
from atops.runtime.memory.buffer import Buffer, DeviceArray, extents_of
from atops.runtime.memory.host_array import HostArray
from atops.runtime.pools.pool import MemoryPool
from atops.runtime.stream import Stream
from atops.runtime.symbols import Symbol, symbol

__all__ = ("DeviceMemory",)


class DeviceMemory:
    """The half of `Device` that makes and finds memory. What it makes lives until it is closed or collected."""

    __slots__ = ("driver", "ordinal")

    driver: Driver
    ordinal: int

    @property
    def context(self) -> DeviceContext:
        """What the driver keeps of this device."""
        return self.driver.context(self.ordinal)

    # ---- making

    def create_pool(self, *, max_size: int | None = None, name: str = "") -> MemoryPool:
        """Create a memory pool on this device (TOPS Runtime API, 2.6 topsMemPoolCreate)."""
        return MemoryPool(self.context, max_size=max_size, name=name)

    def allocate(
        self, nbytes: int, *, bank: int | None = None, top_down: bool = False, flags: int = 0, label: str = ""
    ) -> Buffer:
        """Allocate device memory now, outside any stream's order. `bank` and `top_down` say where; `flags` are kept.

        `close` gives it back once the work enqueued on the device by then is over. Raises OutOfMemory, InvalidValue
        (TOPS Runtime API, 2.6 topsMalloc, topsExtMallocWithFlags).
        """
        if bank is not None and not whole(bank):
            raise InvalidType(f"the bank is {bank!r}; expected an int, or None for any")
        context = self.driver.context(self.ordinal)
        memory = context.memory
        context.asker = site = caller(1, context.asker)
        try:
            allocation = memory.allocate(nbytes, bank=bank, top_down=top_down, flags=flags, site=site, label=label)
        except OutOfMemory:
            if not context.trim_pools():
                raise
            allocation = memory.allocate(nbytes, bank=bank, top_down=top_down, flags=flags, site=site, label=label)
        try:
            release = context.release
            if release is None:
                self.driver.executor.start()
                context.release = release = partial(free_when_idle, context, memory.free)
            return Buffer(allocation, 0, nbytes, release, self.driver)
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
            raise InvalidType(f"the current pool of device {self.ordinal} is {pool!r}; expected a MemoryPool")
        context = self.context
        with self.driver.lock:
            if pool.context is not context or pool.is_destroyed:
                whose = f"is of {pool.context.driver!r}, device {pool.context.ordinal}"
                why = "is destroyed" if pool.is_destroyed else whose
                raise InvalidHandle(f"the current pool of device {self.ordinal}: {pool!r} {why}")
            context.pool = None if pool is context.default_pool else pool

    def empty(self, shape: int | tuple[int, ...], dtype: DTypeLike = "float32") -> DeviceArray:
        """Allocate an array now, outside any stream's order."""
        dtype = as_dtype(dtype)
        shape = extents_of(shape)
        size = math.prod(shape) * dtype.itemsize
        buffer = self.allocate(size)
        array = DeviceArray(buffer.allocation, 0, dtype, shape, None, self.driver)
        array.take_over(buffer)
        return array

    async def upload(self, host: Any) -> DeviceArray:
        """Allocate an array for `host` (anything np.asarray takes) that no stream owns, copy it, and wait for the copy.

        For what outlives streams, such as the weights of a model. The copy has a stream of its own and is ordered with
        nothing: once it is awaited, every stream sees the data. Cancelled, or refused, it leaves nothing allocated.
        Raises OutOfMemory, InvalidType for what device memory cannot hold.
        """
        source = np.ascontiguousarray(host) if np.ndim(host) else np.asarray(host)
        array = self.empty(source.shape, source.dtype)
        stream = Stream(self.context, nonblocking=True)
        try:
            await stream.copy(array, source)
        except BaseException:
            array.close()
            raise
        finally:
            stream.close()
        return array

    def host_malloc(self, shape: int | tuple[int, ...], dtype: DTypeLike = "uint8", *, flags: int = 0) -> HostArray:
        """Allocate pinned host memory that every device reaches; `flags` are kept (Runtime API, 2.6 topsHostMalloc)."""
        return self._host_array(partial(self.driver.host.allocate, flags=flags), shape, dtype)

    def malloc_managed(self, shape: int | tuple[int, ...], dtype: DTypeLike = "uint8") -> HostArray:
        """Allocate managed memory: one pointer for the host and every device."""
        return self._host_array(self.driver.host.managed, shape, dtype)

    def register(self, array: Any, *, flags: int = 0) -> HostArray:
        """Let every device reach a writable numpy array or buffer; `close` ends that and leaves the bytes alone.

        Its device pointer differs from the host's. Raises InvalidType, or InvalidValue when it is read-only, empty,
        registered already or an array in another order than C's (TOPS Runtime API, 2.6 topsHostRegister).
        """
        if isinstance(array, np.ndarray) and array.flags.f_contiguous and not array.flags.c_contiguous:
            raise InvalidValue(
                f"an array of shape {array.shape} in Fortran's order cannot be registered; its transpose `.T` can, or "
                "np.ascontiguousarray(...)"
            )
        context, host = self.context, self.driver.host
        allocation = host.register(array, flags)  # which says what is wrong with what is no writable buffer
        view = array if isinstance(array, np.ndarray) else np.frombuffer(array, np.uint8)
        release = partial(free_when_idle, context, host.unregister)
        self.driver.executor.start()
        return HostArray(allocation, view.dtype, view.shape, release, view, self.driver)

    def _host_array(
        self, make: Callable[[int], Allocation], shape: int | tuple[int, ...], dtype: DTypeLike
    ) -> HostArray:
        dtype = as_dtype(dtype)
        shape = extents_of(shape)
        size = math.prod(shape) * dtype.itemsize
        release = partial(free_when_idle, self.context, self.driver.host.free)
        self.driver.executor.start()
        return HostArray(make(size), dtype, shape, release, None, self.driver)

    def symbol(self, variable: Variable | str) -> Symbol:
        """Return this device's instance of a declared variable, given itself or its name, as an array to copy.

        `address` and `nbytes` say where it is; it owns nothing. Raises NotFound, InvalidValue or InvalidType for what
        names no one variable (TOPS Runtime API, 2.6 topsGetSymbolAddress, topsMemcpyToSymbol).
        """
        return symbol(self.context, variable)

    # ---- queries

    def memory_info(self) -> tuple[int, int]:
        """Return (free, total) bytes of device memory (TOPS Runtime API, 2.6 topsMemGetInfo)."""
        figures = self.context.memory.statistics()
        return figures.free, figures.total

    def buffer_at(self, address: int, nbytes: int) -> Buffer:
        """Return the bytes at a device address, owning nothing. Raises IllegalAddress naming the nearest allocation."""
        for what, value in (("address", address), ("number of bytes", nbytes)):
            if not whole(value):
                raise InvalidType(f"the {what} is {value!r}; expected an int")
        allocation = self.driver.space.find(address)
        offset = address - allocation.address
        allocation.check(offset, nbytes, f"buffer_at on device {self.ordinal}")
        buffer = Buffer(allocation, offset, nbytes)
        buffer.driver = self.driver
        return buffer
