"""The kernels of this folder in TOPS C++: `NAME.tops` beside each, held against the same expression of numpy.

`python in_cxx.py softmax` checks one and says its time, `python in_cxx.py` all. It needs a C++ compiler. A pointer has
no shape, so a launch passes the extents, too.
"""

from __future__ import annotations

import asyncio
import importlib
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from measured import Array, Measured

import atops
from atops import kernels as k

__all__ = ("PROGRAMS", "example")

HERE = Path(__file__).resolve().parent
CHIP = (2, 12)
NEEDS_GCU300 = frozenset(("convolution", "elementwise", "matrix_multiply"))  # as those with vectors in Python, too
Program = Callable[..., Awaitable[Array]]
PROGRAMS: dict[str, Program] = {}


def program(run: Program) -> Program:
    """Note the program of the file that is called as it is."""
    PROGRAMS[run.__name__] = run
    return run


@cache
def compiled(name: str, arch: str) -> Any:
    """Compile a file for a chip. Raises CompilationError with the compiler's words."""
    text = (HERE / f"{name}.tops").read_text(encoding="utf-8")
    return k.compile_source(text, f"{name}.tops", (f"--gpu-architecture={arch}",))


def kernel(name: str, function: str | None = None) -> Any:
    """Return a file's kernel, for the current device."""
    arch = atops.current_driver().options.arch
    return compiled(name, arch).module().function(function or name)


async def launched(name: str, function: str, like: Any, *arguments: Any) -> Array:
    """Upload arrays, launch on the whole chip with a result of the given kind first, and fetch that."""
    async with atops.Device(0).create_stream() as stream:
        y = stream.empty(like.shape, like.dtype)
        given = [stream.upload(each) if isinstance(each, np.ndarray) else each for each in arguments]
        stream.launch(kernel(name, function), CHIP, y, *given)
        return await stream.fetch(y)


@program
async def elementwise(x: Array) -> Array:
    """As numpy's x / (1 + exp(-x))."""
    return await launched("elementwise", "silu", x, x, x.size)


@program
async def reduction(x: Array) -> Array:
    """As numpy's sum over rows."""
    return await launched("reduction", "row_sums", x[:, 0], x, *x.shape)


@program
async def softmax(x: Array) -> Array:
    """As numpy's, of each row."""
    return await launched("softmax", "softmax", x, x, *x.shape)


@program
async def layer_norm(x: Array, gamma: Array, beta: Array, epsilon: Any) -> Array:
    """As numpy's, of each row."""
    return await launched("layer_norm", "layer_norm", x, x, gamma, beta, float(epsilon), *x.shape)


@program
async def matrix_multiply(a: Array, b: Array) -> Array:
    """As numpy's a @ b."""
    like = np.empty((a.shape[0], b.shape[1]), np.float32)
    return await launched("matrix_multiply", "multiply", like, a, b, *a.shape, b.shape[1])


@program
async def transposed_bias(x: Array, bias: Array) -> Array:
    """As numpy's x.T + bias."""
    return await launched("transposed_bias", "add_bias", x.T, x, bias, *x.shape)


@program
async def convolution(x: Array, filters: Array) -> Array:
    """As numpy's correlation of images with filters of 3 x 3."""
    count, inputs, height, width = x.shape
    like = np.empty((count, len(filters), height, width), np.float32)
    return await launched("convolution", "convolve", like, x, filters, count, inputs, height, width, len(filters))


@program
async def rotary_embedding(x: Array, positions: Array, frequencies: Array) -> Array:
    """As numpy's turning of pairs."""
    return await launched("rotary_embedding", "rotary_embedding", x, x, positions, frequencies, *x.shape)


@program
async def key_value_cache(keys: Array, values: Array, fresh: Array, length: int, latest: int) -> Array:
    """As numpy's slices of caches."""
    heads, capacity, dim = keys.shape
    like = np.empty((2, heads, latest, dim), keys.dtype)
    numbers = length, heads, capacity, dim, fresh.shape[2], latest
    return await launched("key_value_cache", "append_and_read", like, keys, values, fresh, *numbers)


@program
async def cooperative_standardise(x: Array) -> Array:
    """As numpy's, of the whole array."""
    workspace = np.zeros((24, 2))
    return await launched("cooperative_standardise", "standardise", x, x, workspace, x.size)


@program
async def bitonic_sort(x: Array) -> Array:
    """As numpy's sort. The run of a block is dynamic shared memory."""
    chunks, size = 16, 1
    while 2 * chunks * size < x.size:
        size *= 2
    async with atops.Device(0).create_stream() as stream:
        given, runs = stream.upload(x), stream.empty((2, chunks, size), np.int32)
        y = stream.empty_like(given)
        launch = (*CHIP, chunks * size * 4)
        stream.launch(kernel("bitonic_sort"), launch, y, given, runs, x.size, size)
        return await stream.fetch(y)


def example(name: str) -> Measured:
    """Return what runs, tests and times a file: the example in Python, with the program in C++ in its place."""
    python: Measured = importlib.import_module(name).EXAMPLE
    chips = ("gcu300",) if name in NEEDS_GCU300 else python.chips
    return replace(python, name=f"C++ {python.name.partition(',')[0]}", program=PROGRAMS[name], chips=chips)


def main(*names: str) -> None:
    """Check and measure as a program, and print a line for each."""
    for name in names or PROGRAMS:
        print(asyncio.run(example(name).measure()))


if __name__ == "__main__":
    main(*sys.argv[1:])
