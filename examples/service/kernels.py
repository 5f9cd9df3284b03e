"""What the service computes: photographs to unit vectors, by a network of two layers whose weights stay on the device.

It knows nothing of requests or batches. Look at: `dense`, where each thread makes some columns for all photographs of
the batch, so that a weight crosses the chip once a batch and not once a photograph.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from types import TracebackType
from typing import Any, TypeAlias

import numpy as np

import atops
from atops import kernels as k

__all__ = ("Array", "Layer", "Network", "dense", "normalise", "random_layers")

Array: TypeAlias = np.ndarray[Any, np.dtype[np.float32]]
Floats: TypeAlias = k.Span[np.float32]
Layer: TypeAlias = tuple[Array, Array]  # weights of (inputs, outputs), bias of (outputs,)

SIDE = 32  # of a photograph, in pixels
SIZES = (SIDE * SIDE, 256, 64)  # pixels, hidden units, dimensions of the answer
COLUMNS = 16  # of a layer's output, made by a thread at once
HIGH = 16  # photographs that are multiplied at once: numpy would share out more to threads, and wait for these
ROWS = 4  # photographs that a thread normalises at once
GRID = (1, 12)  # a cluster for each batch: two batches run beside each other


@k.kernel
async def dense(y: Floats, x: Floats, weights: Floats, bias: Floats, activate: np.int32) -> None:
    """Store x @ weights + bias into y, through SiLU if `activate`. x is (photographs, inputs)."""
    count, inputs = x.shape
    columns = list(k.tiles(y.shape[1], COLUMNS))
    if not columns:
        return
    pixels = k.local((count, inputs), np.float32)
    panel, shift = k.local((inputs, COLUMNS), np.float32), k.local((1, COLUMNS), np.float32)
    total, slope = k.local((count, COLUMNS), np.float32), k.local((count, COLUMNS), np.float32)
    with k.dte_scope() as fetch, k.dte_scope() as dte:
        pixels_here = k.memcpy_async(fetch, pixels, x)
        for part in columns:
            k.slice(dte, panel, weights, (0, part.start))
            k.slice(dte, shift, bias.reshape(1, bias.size), (0, part.start))
            await pixels_here
            for first in range(0, count, HIGH):
                last = min(first + HIGH, count)
                np.matmul(pixels[first:last], panel, out=total[first:last])
            np.add(total, shift, out=total)
            if activate:
                np.negative(total, out=slope)
                np.exp(slope, out=slope)
                np.add(slope, 1, out=slope)
                np.divide(total, slope, out=total)
            width = part.stop - part.start
            if width < COLUMNS:  # the last columns; a transfer takes no part with gaps
                edge = k.local((count, width), np.float32)
                k.slice(dte, edge, total, (0, 0))
                k.deslice(dte, y, edge, (0, part.start))
            else:
                k.deslice(dte, y, total, (0, part.start))


@k.kernel
def normalise(y: Floats) -> None:
    """Divide each row of y by its length."""
    rows, squares = (k.local((ROWS, y.shape[1]), np.float32) for _ in range(2))
    length = k.local((ROWS, 1), np.float32)
    with k.dte_scope() as dte:
        for part in k.tiles(y.shape[0], ROWS):
            count = part.stop - part.start
            k.memcpy(dte, rows, y[part])
            np.square(rows[:count], out=squares[:count])
            np.sum(squares[:count], axis=1, keepdims=True, out=length[:count])
            np.sqrt(length[:count], out=length[:count])
            np.divide(rows[:count], length[:count], out=rows[:count])
            k.memcpy(dte, y[part], rows[:count])


def random_layers(seed: int) -> tuple[Layer, ...]:
    """Return layers that keep what is alike near to each other; a program with a trained network loads its own."""
    generator = np.random.default_rng(seed)
    return tuple(
        (
            generator.standard_normal((inputs, outputs), np.float32) / np.float32(np.sqrt(inputs)),
            generator.standard_normal(outputs, np.float32),
        )
        for inputs, outputs in pairwise(SIZES)
    )


class Network:
    """The layers in device memory, for as long as the `async with` block lasts, and the launches that use them."""

    def __init__(self, device: atops.Device, layers: Sequence[Layer]) -> None:
        self.device = device
        self._layers = layers
        self._resident: list[tuple[atops.DeviceArray, atops.DeviceArray]] = []

    async def __aenter__(self) -> Network:
        try:
            async with self.device.create_stream(name="weights") as stream:
                for layer in self._layers:
                    weights, bias = (self.device.empty(host.shape, host.dtype) for host in layer)
                    self._resident.append((weights, bias))
                    stream.copy(weights, layer[0])
                    stream.copy(bias, layer[1])
                await stream
        except BaseException:
            self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give the weights' memory back, once work that was enqueued before no longer needs it. Idempotent."""
        for arrays in self._resident:
            for array in arrays:
                array.close()
        self._resident.clear()

    async def embed(self, stream: atops.Stream, photographs: Sequence[Array]) -> Array:
        """Return a row of length 1 for each photograph, all of them computed by the same three launches."""
        x = stream.upload(np.stack(photographs))
        for number, (weights, bias) in enumerate(self._resident, start=1):
            y = stream.empty((len(photographs), bias.size))
            stream.launch(dense, GRID, y, x, weights, bias, int(number < len(self._resident)))
            x = y
        stream.launch(normalise, GRID, x)
        result: Array = await stream.fetch(x)
        return result
