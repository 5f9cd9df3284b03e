"""What a second buffer gains, in nanoseconds of the chips and not of this machine.

Look at: the virtual clock, under which copies take the time that the links of the architecture need. Chunks go up to
device 0 and on to device 1. Through one buffer each waits until the one before has left it; with two, a chunk arrives
while the other leaves, so all but the first uploads are hidden behind the slower ring. Both runs are exact.
"""

from __future__ import annotations

import numpy as np

import atops

CHUNKS, SIZE = 8, 1 << 20


async def relay(buffers: int) -> tuple[int, int, int]:
    """Send chunks through so many buffers. Returns the nanoseconds of it all, of one upload, and of one hop."""
    device, other = atops.Device(0), atops.Device(1)
    host = np.arange(CHUNKS * SIZE).astype(np.uint8).reshape(CHUNKS, SIZE)
    async with device.create_stream(name="up") as up, device.create_stream(name="on") as on:
        rooms, target = device.empty((buffers, SIZE), np.uint8), other.empty((CHUNKS, SIZE), np.uint8)
        left: list[atops.Event] = []
        for turn in range(CHUNKS):
            room = rooms[turn % buffers]
            if turn >= buffers:
                up.wait(left[turn - buffers])  # the chunk before has left this buffer
            uploaded = up.copy(room, host[turn])
            on.wait(up.record())
            sent = on.copy(target[turn], room)
            left.append(on.record())
        await left[-1]
        assert np.array_equal(await on.fetch(target), host)

    times = {each.seq: each for each in device.driver.tracer.records()}
    upload, hop = times[uploaded.seq], times[sent.seq]
    return hop.finished_ns, upload.finished_ns - upload.started_ns, hop.finished_ns - hop.started_ns


def main() -> None:
    """Relay with one buffer and with two."""
    options = atops.EmulatorOptions(devices=2, clock="virtual")
    single, upload, hop = atops.run(relay, options, 1)
    double, _, _ = atops.run(relay, options, 2)
    print(f"an upload takes {upload} ns and a hop to the other device {hop} ns")
    print(f"{CHUNKS} chunks take {single} ns through one buffer, {double} ns through two")
    assert (single, double) == (CHUNKS * (upload + hop), upload + CHUNKS * hop)


if __name__ == "__main__":
    main()
