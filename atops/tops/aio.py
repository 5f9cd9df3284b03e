"""The awaitable twin of every C-style function that can block: `(err,) = await aio.topsStreamSynchronize(stream)`.

They take and return what the functions do, on asyncio and trio. The loop runs meanwhile; a cancellation ends the wait
and never the work.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from atops.bridge.call import Work
from atops.tops.functions import copy, device, executable, memory, module, peer, resources, scatter, stream
from atops.tops.functions.api import TWINS

P = ParamSpec("P")
R = TypeVar("R")


def _twin(plain: Callable[P, R]) -> Callable[P, Work[R]]:
    """Return the twin of a function that may block, with the same arguments and results for type checkers."""
    return TWINS[plain.__name__]  # type: ignore[return-value]  # made of the same implementation


topsDeviceReset = _twin(device.topsDeviceReset)
topsDeviceSynchronize = _twin(device.topsDeviceSynchronize)
topsStreamSynchronize = _twin(stream.topsStreamSynchronize)
topsStreamWaitValue32 = _twin(stream.topsStreamWaitValue32)
topsEventSynchronize = _twin(stream.topsEventSynchronize)
topsHostFree = _twin(memory.topsHostFree)
topsHostUnregister = _twin(memory.topsHostUnregister)
topsFree = _twin(memory.topsFree)
topsMemcpy = _twin(copy.topsMemcpy)
topsMemcpyAsync = _twin(copy.topsMemcpyAsync)
topsMemcpyDtoD = _twin(copy.topsMemcpyDtoD)
topsMemcpyDtoH = _twin(copy.topsMemcpyDtoH)
topsMemcpyDtoHAsync = _twin(copy.topsMemcpyDtoHAsync)
topsMemcpyHtoD = _twin(copy.topsMemcpyHtoD)
topsMemcpyHtoDAsync = _twin(copy.topsMemcpyHtoDAsync)
topsMemcpyWithStream = _twin(copy.topsMemcpyWithStream)
topsMemset = _twin(copy.topsMemset)
topsMemsetD8 = _twin(copy.topsMemsetD8)
topsMemsetD16 = _twin(copy.topsMemsetD16)
topsMemsetD32 = _twin(copy.topsMemsetD32)
topsMemcpyFromSymbol = _twin(module.topsMemcpyFromSymbol)
topsMemcpyFromSymbolAsync = _twin(module.topsMemcpyFromSymbolAsync)
topsMemcpyToSymbol = _twin(module.topsMemcpyToSymbol)
topsMemcpyToSymbolAsync = _twin(module.topsMemcpyToSymbolAsync)
topsConstBufferGet = _twin(resources.topsConstBufferGet)
topsMemcpyPeer = _twin(peer.topsMemcpyPeer)
topsMemcpyPeerExt = _twin(peer.topsMemcpyPeerExt)
topsCreateResource = _twin(resources.topsCreateResource)
topsCreateResourceForExecutable = _twin(resources.topsCreateResourceForExecutable)
topsScatterClearSubMemory = _twin(scatter.topsScatterClearSubMemory)
topsScatterInplace = _twin(scatter.topsScatterInplace)
topsLaunchExecutable = _twin(executable.topsLaunchExecutable)
topsLaunchExecutableWithConstData = _twin(executable.topsLaunchExecutableWithConstData)
topsExecutableLoadConstData = _twin(executable.topsExecutableLoadConstData)

__all__ = tuple(sorted(TWINS))
