"""Mistakes that a type checker finds: exactly the lines that end in `# refused`. Never run."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

import atops
from atops import kernels as k


@k.kernel
def scale(x: k.Span[np.float32], by: float) -> None:
    """Multiply in place."""
    x[:] = x[:] * by


def total(values: npt.NDArray[np.float32]) -> float:
    """Host work that has a result."""
    return float(values.sum())


def stage(stream: atops.Stream, x: atops.DeviceArray[np.float32]) -> atops.DeviceArray[np.float32]:
    """Do nothing."""
    return x


async def main(stream: atops.Stream) -> None:
    """Make one mistake a line."""
    x, whole = stream.zeros(4), stream.zeros(4, np.int32)
    stream.call(len, 3)  # refused
    stream.call(total)  # refused
    stream.call(total, await stream.fetch(whole))  # refused
    stream.launch(scale, (1, 1), x)  # refused
    stream.launch(scale, (1, 1), whole, 2.0)  # refused
    stream.launch(scale, (1, 1), x, 2.0, 3)  # refused
    stream.launch(scale, (1, 1), x, x)  # refused
    stream.launch(scale, (1, 1), x, "2")  # refused
    stream.launch(scale, (1, 1), np.zeros(4, np.float32), 2.0)  # refused
    stream.launch(total, (1, 1), x)  # refused
    words: npt.NDArray[np.int32] = await stream.fetch(x)  # refused
    text: str = await stream.call(total, np.zeros(4, np.float32))  # refused
    nothing: int = await stream.launch(scale, (1, 1), x, 2.0)  # refused
    stream.wait(3)  # refused
    atops.pipeline([np.zeros(4, np.int32)], stage)  # refused
    async for each in atops.pipeline([np.zeros(4, np.float32)], stage):
        word: str = each  # refused
        print(words, text, nothing, word)
    atops.Strema()  # refused
    k.syncthread()  # refused
    stream.fetch(x).result("soon")  # refused


atops.run(main)  # refused
atops.run(main, None, 3)  # refused
