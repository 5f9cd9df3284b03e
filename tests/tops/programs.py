"""The programs that the tests of modules, launches and runtime compilation compile and launch."""

from __future__ import annotations

from typing import Any

import numpy as np

import atops.tops as tops
from atops import kernels as k
from atops.bridge.pointers import device_memory
from atops.kernels.programs.program import compile_source
from tests.tops.conformance import World

__all__ = ("EMPTY", "IMAGE", "SOURCE", "add", "contents", "function", "memory", "module", "nothing", "scratch")

SOURCE = '''\
calls = k.device_variable(np.int32, 7)
weights = k.constant(np.float32, [1, 2, 3])


def twice(value):
    return 2 * value


@k.kernel
async def fill(y: k.Span[np.float32], value: np.float32, count: np.int32):
    for i in range(count):
        y[i] = twice(value)


@k.kernel
async def count(x: k.Span):
    calls[...] = calls[...] + x.size


@k.kernel
async def empty():
    pass
'''
IMAGE = compile_source(SOURCE, "programs.py").image().to_bytes()
EMPTY = (1, 1, 1)


@k.kernel
def add(y: k.Span[np.float32], amount: np.float32, flag: np.bool_, wide: np.float64) -> None:
    """Add numbers to each element, in one thread."""
    if k.threadIdx.x == 0 and k.blockIdx.x == 0:
        y[:] = np.asarray(y) + (amount + wide if flag else 0)


@k.kernel
def nothing() -> None:
    """Do nothing."""


@k.kernel
def scratch(y: k.Span[np.int32]) -> None:
    """Tell how much dynamic shared memory there is."""
    y[0] = k.dynamic_shared(np.uint8).size


def module(_: World) -> int:
    """Return the handle of a fresh module of `SOURCE`."""
    return tops.check(tops.topsModuleLoadData(IMAGE))


def function(world: World, name: str = "empty") -> int:
    """Return the handle of a function of a fresh module."""
    return tops.check(tops.topsModuleGetFunction(module(world), name))


def memory(world: World, count: int = 8, dtype: Any = np.float32) -> int:
    """Return a pointer to zeros on the current device, which live as long as the test."""
    array = world.device.empty(count, dtype)
    world.device.null_stream.fill(array, 0)
    world.keep.append(array)
    return array.address


def contents(world: World, pointer: int, count: int = 8, dtype: Any = np.float32) -> list[Any]:
    """Return what memory has once the device's null stream is done."""
    found = device_memory(pointer, count * np.dtype(dtype).itemsize)
    host = np.empty(count, dtype)
    world.device.null_stream.copy(host, found.view(dtype)).wait_sync(10)
    return host.tolist()
