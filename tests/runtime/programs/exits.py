"""Ends of a program that left work behind. Each way prints its name and returns without tidying up."""

from __future__ import annotations

import asyncio
import os
import sys
import threading

import numpy as np

import atops
from atops.runtime.driver import Driver
from tests.runtime.boards import add_one, never_suspended, suspended_forever


def work_in_flight() -> None:
    """Leave copies, fills and kernels in four streams."""
    device = atops.Device(0)
    for _ in range(4):
        stream = device.create_stream()
        for _ in range(50):
            array = stream.upload(np.zeros(1 << 18, np.int32))
            stream.launch(add_one, (2, 12), array[:24])
            stream.fetch(array)


def parked_wait() -> None:
    """Leave a wait for a value that is never written, and one for its event."""
    first, second = atops.Device(0).create_stream(), atops.Device(0).create_stream()
    word = first.empty(1, "uint32")
    first.fill(word, 0)
    first.wait_value(word, 1, "Eq")
    second.wait(first.record())


def polled_wait() -> None:
    """Leave a wait for a value in pinned memory, which a timer polls."""
    device = atops.Device(0)
    device.create_stream().wait_value(device.host_malloc(1, "uint32"), 1, "Eq")


def endless_kernel() -> None:
    """Leave a kernel that is suspended again and again but never ends."""
    atops.Device(0).create_stream().launch(suspended_forever, (2, 12))


def busy_kernel() -> None:
    """Leave a kernel that never ends and is never suspended, once it runs."""
    device = atops.Device(0)
    stream = device.create_stream()
    completion = stream.launch(never_suspended, (1, 1))
    while completion.state != "running":
        pass


def busy_kernels_of_every_worker() -> None:
    """Leave such kernels on all threads of a board that has one for each SIP."""
    driver = Driver(atops.EmulatorOptions(workers="sip"))
    atops.Device(0, driver).create_stream().launch(never_suspended, (2, 12))


def callback_running() -> None:
    """Leave a callback that waits for what never comes."""
    began = threading.Event()

    def callback() -> None:
        began.set()
        threading.Event().wait()

    atops.Device(0).create_stream().call(callback)
    began.wait()


def subscriber_running() -> None:
    """Leave a trace subscriber that never returns."""
    began = threading.Event()

    def subscriber(records: object) -> None:
        began.set()
        threading.Event().wait()

    driver = atops.default_driver()
    driver.tracer.subscribe(subscriber)
    atops.Device(0).create_stream().record()
    began.wait()


def loop_ended_with_debts() -> None:
    """Leave a coroutine that the loop still owes to a stream."""

    async def main() -> None:
        async def owed() -> None:
            await asyncio.Event().wait()

        atops.Device(0).create_stream().call(owed)
        await asyncio.sleep(0)

    asyncio.run(main())


def many_drivers() -> None:
    """Leave six drivers open, each with work."""
    for _ in range(6):
        driver = Driver()
        atops.Device(0, driver).create_stream().launch(suspended_forever, (2, 12))


def uncaught_error() -> None:
    """Leave by SystemExit inside a stream's scope."""

    async def main() -> None:
        async with atops.Device(0).create_stream() as stream:
            stream.launch(suspended_forever, (2, 12))
            sys.exit(0)

    asyncio.run(main())


def closing_twice_at_exit() -> None:
    """Close the driver just before the end, so that its threads are ending while the interpreter does."""
    work_in_flight()
    atops.default_driver().close()
    atops.default_driver().close()


def forked_child() -> None:
    """Leave work in a parent and in a forked child; the child ends as programs end."""
    work_in_flight()
    if os.fork() == 0:
        work_in_flight()
        return
    _, status = os.wait()
    assert os.waitstatus_to_exitcode(status) == 0


def busy_inline_run_of_a_thread() -> None:
    """Leave a thread that runs a program inline, which has work in flight and goes round for ever."""
    inside = threading.Event()

    async def program() -> None:
        async with atops.Device(0).create_stream() as stream:
            stream.zeros(4, np.int32)
            inside.set()
            while True:
                pass

    threading.Thread(target=atops.run, args=(program,), daemon=True).start()
    inside.wait()


WAYS = {
    way.__name__: way
    for way in (
        work_in_flight,
        parked_wait,
        polled_wait,
        endless_kernel,
        busy_kernel,
        busy_kernels_of_every_worker,
        busy_inline_run_of_a_thread,
        callback_running,
        subscriber_running,
        loop_ended_with_debts,
        many_drivers,
        uncaught_error,
        closing_twice_at_exit,
        forked_child,
    )
}

if __name__ == "__main__":
    for name in sys.argv[1:]:
        WAYS[name]()
        print(name, flush=True)
