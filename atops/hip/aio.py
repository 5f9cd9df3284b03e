"""The awaitable twin of every HIP function that can block: `(err,) = await aio.hipStreamSynchronize(stream)`.

They take and return what the functions do, on asyncio and trio. The loop runs meanwhile; a cancellation ends the wait
and never the work.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from atops.bridge.call import Work
from atops.hip.functions import copy, device, event, memory, module, stream
from atops.hip.functions.api import TWINS

P = ParamSpec("P")
R = TypeVar("R")


def _twin(plain: Callable[P, R]) -> Callable[P, Work[R]]:
    """Return the twin of a function that may block, with the same arguments and results for type checkers."""
    return TWINS[plain.__name__]  # type: ignore[return-value]  # made of the same implementation


hipDeviceReset = _twin(device.hipDeviceReset)
hipDeviceSynchronize = _twin(device.hipDeviceSynchronize)
hipStreamSynchronize = _twin(stream.hipStreamSynchronize)
hipEventSynchronize = _twin(event.hipEventSynchronize)
hipFree = _twin(memory.hipFree)
hipHostFree = _twin(memory.hipHostFree)
hipHostUnregister = _twin(memory.hipHostUnregister)
hipMemcpy = _twin(copy.hipMemcpy)
hipMemcpyAsync = _twin(copy.hipMemcpyAsync)
hipMemcpyWithStream = _twin(copy.hipMemcpyWithStream)
hipMemcpyHtoD = _twin(copy.hipMemcpyHtoD)
hipMemcpyDtoH = _twin(copy.hipMemcpyDtoH)
hipMemcpyDtoD = _twin(copy.hipMemcpyDtoD)
hipMemcpyHtoDAsync = _twin(copy.hipMemcpyHtoDAsync)
hipMemcpyDtoHAsync = _twin(copy.hipMemcpyDtoHAsync)
hipMemcpyPeer = _twin(copy.hipMemcpyPeer)
hipMemset = _twin(copy.hipMemset)
hipMemsetD8 = _twin(copy.hipMemsetD8)
hipMemsetD16 = _twin(copy.hipMemsetD16)
hipMemsetD32 = _twin(copy.hipMemsetD32)
hipMemcpyToSymbol = _twin(module.hipMemcpyToSymbol)
hipMemcpyToSymbolAsync = _twin(module.hipMemcpyToSymbolAsync)
hipMemcpyFromSymbol = _twin(module.hipMemcpyFromSymbol)
hipMemcpyFromSymbolAsync = _twin(module.hipMemcpyFromSymbolAsync)

__all__ = tuple(sorted(TWINS))
