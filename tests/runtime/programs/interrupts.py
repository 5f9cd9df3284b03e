"""A program that is interrupted with Ctrl-C while it waits. It says `waiting`, gets SIGINT, tells what is left."""

from __future__ import annotations

import asyncio
import sys

import atops
from atops.runtime.device import Device
from tests.runtime.boards import Latch


def sync_is_interrupted() -> None:
    """Block in `sync`; the interrupt ends the wait, the work goes on and can be waited for again."""
    device = Device(0)
    stream, latch = device.create_stream(), Latch(device)
    latch.hold(stream)
    fetched = stream.fetch(stream.zeros(100))
    for wait in (stream.sync, device.sync, fetched.wait_sync, stream.record().sync):
        try:
            print("waiting", flush=True)
            wait()
        except KeyboardInterrupt:
            print("interrupted", fetched.state, flush=True)
    latch.open()
    print("result", fetched.wait_sync().sum(), flush=True)


def loop_is_interrupted() -> None:
    """Await on a loop; the interrupt aborts the scope, and the board still works."""

    async def main() -> None:
        async with atops.Device(0).create_stream() as stream:
            word = stream.zeros(1, "uint32")
            held = stream.wait_value(word, 1, "Eq")
            print("waiting", flush=True)
            await held

    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    stream = Device(0).create_stream()
    print("result", stream.fetch(stream.zeros(5)).wait_sync().sum(), flush=True)


if __name__ == "__main__":
    {"sync": sync_is_interrupted, "loop": loop_is_interrupted}[sys.argv[1]]()
