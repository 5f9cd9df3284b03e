"""Element-wise with ping-pong: compute on one tile while the DTE brings the next and takes away the one before.

Look at: two contexts and two buffers in each direction, because a context has one transfer in flight. Each is
configured once. In its turn a thread patches an offset and triggers the next tile, waits for this one, computes, and
triggers the way out; for that it waits two turns later.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from measured import Array, Measured

import atops
from atops import kernels as k

TILE = 8192  # float32: 32 KiB, and four of them in L1


@k.kernel
async def silu(y: k.Span, x: k.Span) -> None:
    """Store x / (1 + exp(-x)) of each element into y: the activation that is called SiLU."""
    inputs, outputs = k.local((2, TILE), np.float32), k.local((2, TILE), np.float32)
    arriving, leaving = [k.event(), k.event()], [k.event(), k.event()]  # of no transfer yet: over when awaited
    parts = list(k.tiles(x.size, TILE))
    with k.dte_scope() as in0, k.dte_scope() as in1, k.dte_scope() as out0, k.dte_scope() as out1:
        readers, writers = (in0, in1), (out0, out1)
        for side in range(2):
            readers[side].config_slice(inputs[side], x, (0,))  # fills what lies beyond x with zeros
            writers[side].config_deslice(y, outputs[side], (0,))

        for turn in range(-1, len(parts)):
            now, other = turn % 2, (turn + 1) % 2
            for following in parts[turn + 1 : turn + 2]:  # if there is one
                readers[other].set_src_offset(0, following.start)
                arriving[other] = readers[other].trigger()
            if turn < 0:
                continue  # so far only the first tile is on its way
            await arriving[now]  # this turn's tile is here
            await leaving[now]  # and what was computed two turns ago has left its buffer
            activate(inputs[now], outputs[now])
            writers[now].set_dst_offset(0, parts[turn].start)
            if (size := parts[turn].stop - parts[turn].start) < TILE:  # the last tile is cut to fit
                writers[now].config_deslice(y, outputs[now, :size], (parts[turn].start,))
            leaving[now] = writers[now].trigger()

        await leaving[0]
        await leaving[1]


@k.device
def activate(x: k.Span, y: k.Span) -> None:
    """Compute one tile."""
    np.negative(x, out=y)
    np.exp(y, out=y)
    np.add(y, 1, out=y)
    np.divide(x, y, out=y)


def problem(generator: np.random.Generator, count: int) -> tuple[Any, ...]:
    """Return numbers of both signs."""
    return (generator.standard_normal(count, np.float32),)


def reference(x: Array) -> Array:
    """Do the same in numpy."""
    result = np.negative(x)
    np.exp(result, out=result)
    result += 1
    return np.divide(x, result, out=result)


async def program(host: Array) -> Array:
    """Upload, launch on the whole chip, fetch."""
    async with atops.Device(0).create_stream() as stream:
        x = stream.upload(host)
        y = stream.empty_like(x)
        stream.launch(silu, (2, 12), y, x)
        return await stream.fetch(y)


EXAMPLE = Measured(
    "element-wise, ping-pong",
    program,
    reference,
    problem,
    size=(1 << 20,),
    others=((1,), (TILE,), (24 * TILE + 5,), (100_003,)),
    tolerance=1e-6,
)

if __name__ == "__main__":
    EXAMPLE.main()
