"""The awaitable twin of every C-style function that can block: `(err,) = await aio.topsStreamSynchronize(stream)`.

They take and return what the functions do, on asyncio and trio. The loop runs meanwhile; a cancellation ends the wait
and never the work.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from atops.tops.bridge.call import TWINS
from atops.tops.bridge.waiting import Work
from atops.tops.functions.device import device
from atops.tops.functions.executable import launch as executable_launch
from atops.tops.functions.executable import refit as executable_refit
from atops.tops.functions.extension import const_buffers, resource_bundle, scatter
from atops.tops.functions.memory import copy as memory_copy
from atops.tops.functions.memory import device_memory as memory
from atops.tops.functions.memory import fill as memory_set
from atops.tops.functions.memory import host_memory, peer, symbols
from atops.tops.functions.stream import event, stream

P = ParamSpec("P")
R = TypeVar("R")


def _twin(plain: Callable[P, R]) -> Callable[P, Work[R]]:
    """Return the twin of a function that may block, with the same arguments and results for type checkers."""
    return TWINS[plain.__name__]  # type: ignore[return-value]  # made of the same implementation


topsDeviceReset = _twin(device.topsDeviceReset)
topsDeviceSynchronize = _twin(device.topsDeviceSynchronize)
topsStreamSynchronize = _twin(stream.topsStreamSynchronize)
topsStreamWaitValue32 = _twin(stream.topsStreamWaitValue32)
topsEventSynchronize = _twin(event.topsEventSynchronize)
topsHostFree = _twin(host_memory.topsHostFree)
topsHostUnregister = _twin(host_memory.topsHostUnregister)
topsFree = _twin(memory.topsFree)
topsMemcpy = _twin(memory_copy.topsMemcpy)
topsMemcpyAsync = _twin(memory_copy.topsMemcpyAsync)
topsMemcpyDtoD = _twin(memory_copy.topsMemcpyDtoD)
topsMemcpyDtoH = _twin(memory_copy.topsMemcpyDtoH)
topsMemcpyDtoHAsync = _twin(memory_copy.topsMemcpyDtoHAsync)
topsMemcpyHtoD = _twin(memory_copy.topsMemcpyHtoD)
topsMemcpyHtoDAsync = _twin(memory_copy.topsMemcpyHtoDAsync)
topsMemcpyWithStream = _twin(memory_copy.topsMemcpyWithStream)
topsMemset = _twin(memory_set.topsMemset)
topsMemsetD8 = _twin(memory_set.topsMemsetD8)
topsMemsetD16 = _twin(memory_set.topsMemsetD16)
topsMemsetD32 = _twin(memory_set.topsMemsetD32)
topsMemcpyFromSymbol = _twin(symbols.topsMemcpyFromSymbol)
topsMemcpyFromSymbolAsync = _twin(symbols.topsMemcpyFromSymbolAsync)
topsMemcpyToSymbol = _twin(symbols.topsMemcpyToSymbol)
topsMemcpyToSymbolAsync = _twin(symbols.topsMemcpyToSymbolAsync)
topsConstBufferGet = _twin(const_buffers.topsConstBufferGet)
topsMemcpyPeer = _twin(peer.topsMemcpyPeer)
topsMemcpyPeerExt = _twin(peer.topsMemcpyPeerExt)
topsCreateResource = _twin(resource_bundle.topsCreateResource)
topsCreateResourceForExecutable = _twin(resource_bundle.topsCreateResourceForExecutable)
topsScatterClearSubMemory = _twin(scatter.topsScatterClearSubMemory)
topsScatterInplace = _twin(scatter.topsScatterInplace)
topsLaunchExecutable = _twin(executable_launch.topsLaunchExecutable)
topsLaunchExecutableWithConstData = _twin(executable_launch.topsLaunchExecutableWithConstData)
topsExecutableLoadConstData = _twin(executable_refit.topsExecutableLoadConstData)

__all__ = tuple(sorted(TWINS))
