"""Whether a pipeline overlaps, found by its times: work on chunks with one buffer, and with two.

Look at: nothing is measured. Under the virtual clock copies take what the host link needs, and kernels what their
transfers and their arithmetic need: the two runs are exact, and the gain can be computed by hand. With one buffer a
chunk waits until the one before was worked on; with two, all copies but the first are hidden behind the kernels.
"""

from __future__ import annotations

import numpy as np

import atops
from atops import kernels as k

CHUNKS, SIZE, TILE = 6, 1 << 20, 8192
FLOPS = 2000  # operations for each element, which numpy does not tell the clock


@k.kernel
async def work(x: k.Span) -> None:
    """Work on a chunk, tile by tile."""
    tile = k.local(TILE, np.float32)
    with k.dte_scope() as dte:
        for part in k.tiles(x.size, TILE):
            await k.memcpy_async(dte, tile, x[part])
            np.sqrt(tile, out=tile)
            k.cost(flops=FLOPS * TILE)
            await k.memcpy_async(dte, x[part], tile)


async def pipeline(buffers: int) -> tuple[int, int, int, str]:
    """Work on all chunks through so many buffers.

    Returns the nanoseconds of it all, of a copy and of a kernel, and a picture of the streams.
    """
    device = atops.Device(0)
    host = np.arange(CHUNKS * SIZE, dtype=np.float32).reshape(CHUNKS, SIZE)
    async with device.create_stream(name="up") as up, device.create_stream(name="work") as run:
        rooms = [device.empty(SIZE, np.float32) for _ in range(buffers)]
        left: list[atops.Event] = []
        with atops.profile() as profile:
            for turn in range(CHUNKS):
                room = rooms[turn % buffers]
                if turn >= buffers:
                    up.wait(left[turn - buffers])  # the chunk before has been worked on
                copied = up.copy(room, host[turn])
                run.wait(up.record())
                worked = run.launch(work, (2, 12), room)
                left.append(run.record())
            await run
        assert np.allclose(await run.fetch(room), np.sqrt(host[-1]))

    times = {each.seq: each for each in profile.records}
    copy, kernel = times[copied.seq], times[worked.seq]
    return kernel.finished_ns, copy.duration_ns, kernel.duration_ns, str(profile)


def main() -> None:
    """Run with one buffer and with two."""
    options = atops.EmulatorOptions(clock="virtual")
    single, copy, kernel, _ = atops.run(pipeline, options, 1)
    double, _, _, picture = atops.run(pipeline, options, 2)
    print(f"a copy takes {copy} ns and a kernel {kernel} ns")
    print(f"{CHUNKS} chunks take {single} ns through one buffer, {double} ns through two")
    print(picture)
    assert single == CHUNKS * (copy + kernel)
    assert double == copy + (CHUNKS - 1) * max(copy, kernel) + kernel


if __name__ == "__main__":
    main()
