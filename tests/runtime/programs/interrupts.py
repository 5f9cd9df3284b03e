"""A program that is interrupted with Ctrl-C while it waits. It says `waiting`, gets SIGINT, tells what is left."""

from __future__ import annotations

import asyncio
import signal
import sys

import atops
from atops import kernels as k
from atops.base.errors import HostCallFailure
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


def kernel_is_interrupted() -> None:
    """Run a kernel inline that is never suspended; one interrupt ends it and the program, whose `finally` runs."""

    async def main() -> None:
        async with atops.Device(0).create_stream() as stream:
            launched = stream.launch(spinning, (2, 3))
            try:
                await launched
            finally:
                print(type(launched.exception().__cause__).__name__, flush=True)

    try:
        atops.run(main)
    except KeyboardInterrupt:
        print("interrupted", signal.getsignal(signal.SIGINT) is signal.default_int_handler, flush=True)


def unseen_kernel_is_interrupted() -> None:
    """The same of a kernel without a waiter: the user pressed the keys and knows why, so nothing is logged."""

    async def main() -> None:
        stream = atops.Device(0).create_stream()
        stream.launch(spinning, (2, 3))
        await asyncio.Event().wait()

    try:
        atops.run(main)
    except KeyboardInterrupt:
        print("interrupted", flush=True)


def call_is_interrupted() -> None:
    """The same of a host call, while the program blocks."""

    def spin() -> None:
        print("waiting", flush=True)
        while True:
            pass

    async def main() -> None:
        stream = atops.Device(0).create_stream()
        stream.call(spin)
        try:
            stream.sync()
        except HostCallFailure as failure:
            print(type(failure.__cause__).__name__, flush=True)
        await asyncio.sleep(0)

    try:
        atops.run(main)
    except KeyboardInterrupt:
        print("interrupted", flush=True)


@k.kernel
def spinning() -> None:
    """Never end and never be suspended."""
    print("waiting", flush=True)
    while True:
        pass


WAYS = {
    "sync": sync_is_interrupted,
    "loop": loop_is_interrupted,
    "kernel": kernel_is_interrupted,
    "unseen kernel": unseen_kernel_is_interrupted,
    "call": call_is_interrupted,
}

if __name__ == "__main__":
    WAYS[sys.argv[1]]()
