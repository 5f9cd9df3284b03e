"""A process that forks while its board is at work. The child reports through its exit code: 0, or a traceback and 1."""

from __future__ import annotations

import asyncio
import faulthandler
import os
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np

import atops
import atops.tops
from atops import kernels as k
from atops.base.errors import NotInitialized
from atops.runtime.device import Device
from atops.runtime.driver import Driver
from tests.runtime.boards import PATIENCE, Latch, add_one, leftovers, works
from tests.runtime.child import LIMIT


def in_child(work: Callable[[], None]) -> int:
    """Run `work` in a forked child, which ends as programs end, and return its exit code."""
    if (child := os.fork()) == 0:
        faulthandler.dump_traceback_later(0.8 * LIMIT, exit=True)
        try:
            work()
        except BaseException:
            traceback.print_exc()
            sys.exit(1)
        sys.exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def refused(call: Callable[[], object]) -> None:
    """Expect NotInitialized."""
    try:
        answer = call()
    except NotInitialized:
        return
    raise AssertionError(f"{call} of the parent's answered {answer!r} in the child")


def objects() -> None:
    """The child may not use the parent's objects and makes a board of its own; the parent goes on unharmed."""
    device = Device(0)
    stream, latch = device.create_stream(capacity=1000), Latch(device)
    array = stream.upload(np.arange(24, dtype=np.int32))
    stream.sync()
    latch.hold(stream)
    event = stream.record()
    fetched = stream.fetch(array)

    def child() -> None:
        for call in (
            lambda: stream.fill(array, 0),
            lambda: stream.copy(array, np.zeros(24, np.int32)),
            lambda: stream.launch(add_one, (1, 1), array),
            lambda: stream.zeros(5),
            lambda: stream.free(array),
            lambda: stream.record(),
            lambda: stream.call(print),
            lambda: stream.add_callback(print),
            lambda: stream.sync(),
            lambda: device.sync(),
            lambda: device.create_stream(),
            lambda: device.statistics(),
            lambda: event.sync(),
            lambda: fetched.wait_sync(),
            lambda: asyncio.run(awaited(stream)),
            lambda: asyncio.run(awaited(fetched)),
            lambda: asyncio.run(awaited(event)),
            lambda: Device(0, device.driver),
        ):
            refused(call)
        array.close()
        stream.close()
        device.driver.close()
        assert works(atops.default_driver())
        assert atops.default_driver() is not device.driver
        assert leftovers(atops.default_driver()) == {}

    assert in_child(child) == 0
    latch.open()
    assert (fetched.wait_sync(PATIENCE) == np.arange(24)).all()
    assert works(device.driver)


async def awaited(thing: object) -> None:
    """Await anything."""
    await thing  # type: ignore[misc]  # the point is that it raises


def busy() -> None:
    """Fork while other threads hold the runtime's locks most of the time; `held` forks while they hold each of them."""
    driver = atops.default_driver()
    device = Device(0, driver)
    streams = [device.create_stream() for _ in range(4)]
    array = device.empty(1000)
    stop = False

    def feed(error: object, stream: object) -> None:
        if not stop:
            for _ in range(50):
                stream.fill(array, 1)  # type: ignore[attr-defined]
                stream.zeros(1000).close()  # type: ignore[attr-defined]
            stream.add_callback(feed, stream)  # type: ignore[attr-defined]

    for stream in streams:
        stream.add_callback(feed, stream)
    for _ in range(3):
        assert in_child(lambda: fresh_board()) == 0
    stop = True
    device.sync(PATIENCE)
    assert works(driver)


def fresh_board() -> None:
    """Work with a board of the child's own."""
    driver = Driver()
    assert works(driver)
    driver.close()


def memory() -> None:
    """What the child drops, frees and collects takes nothing away from the parent's live memory."""
    driver = Driver(atops.EmulatorOptions(warm_bytes=0))
    device = Device(0, driver)
    stream = device.create_stream()
    held = [device.allocate(1 << 20) for _ in range(8)] + [stream.allocate(1 << 20) for _ in range(8)]
    for buffer in held:
        stream.fill(buffer, 0x5A)
    stream.sync()

    def child() -> None:
        while held:
            held.pop().close()

    assert in_child(child) == 0
    for buffer in held:
        assert (stream.fetch(buffer).wait_sync(PATIENCE) == 0x5A).all()


def held() -> None:
    """Fork while another thread holds every lock of the package's modules and classes: the child needs them all."""
    locks = module_locks()
    assert len(locks) >= 10
    taken, over = threading.Event(), threading.Event()

    def hold() -> None:
        for lock in locks:
            lock.acquire()
        taken.set()
        over.wait(LIMIT)
        for lock in locks:
            lock.release()

    thread = threading.Thread(target=hold)
    thread.start()
    taken.wait(LIMIT)
    try:
        assert in_child(use_every_lock) == 0
    finally:
        over.set()
        thread.join()
    use_every_lock()


def module_locks() -> list[Any]:
    """Return the locks that modules of the package and their classes hold."""
    kinds = (type(threading.Lock()), type(threading.RLock()))
    found = {}
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "atops":
            for value in list(vars(module).values()):
                for each in (value, *(vars(value).values() if isinstance(value, type) else ())):
                    lock = getattr(each, "lock", each)  # a cached property has one up to Python 3.11
                    if isinstance(lock, kinds):
                        found[id(lock)] = lock
    return list(found.values())


calls = k.device_variable(np.int32, 41)


@k.kernel
async def shares(x: Any) -> None:
    """Use a device variable, shared memory, and two chained contexts."""
    sums = k.shared(1, np.int32)
    a, b = k.local(1, np.int32), k.local(1, np.int32)
    with k.dte_scope() as one, k.dte_scope() as two:
        one.connect(two)
        one.config_memcpy(a, x)
        two.config_memcpy(b, a)
        one.trigger()
        await two.trigger()
    sums[0] = b[0] + calls[...]
    x[0] = sums[0]


def use_every_lock() -> None:
    """Compile and run a kernel that uses what modules lock."""
    program = k.Program("@kernel\ndef one(x):\n    x[0] = 1\n", "one.py")
    program.compile()
    one = program.module().function("one")
    driver = Driver(atops.EmulatorOptions())
    stream = Device(0, driver).create_stream()
    array = stream.zeros(1, "int32")
    stream.launch(one, (1, 1), array)
    stream.launch(shares, (1, 1), array)
    assert stream.fetch(array).wait_sync(PATIENCE)[0] == 42
    driver.close()
    assert works(atops.default_driver())


if __name__ == "__main__":
    {"objects": objects, "busy": busy, "memory": memory, "held": held}[sys.argv[1]]()
    print("ok", flush=True)
