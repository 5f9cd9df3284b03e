"""Boards to break: small drivers that end with their test, what may be left of them, kernels that hold a stream."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import anyio

from atops import kernels as k
from atops.base.errors import ExecutionError
from atops.base.options import EmulatorOptions
from atops.runtime.board.current_device import enter, leave
from atops.runtime.device import Device
from atops.runtime.driver import Driver, board_of
from atops.runtime.memory.buffer import DeviceArray
from atops.runtime.stream import Stream

PATIENCE = 20.0  # seconds after which a wait that should be short counts as a hang; no passing test takes as long


@contextmanager
def board(**options: Any) -> Iterator[Driver]:
    """Have a driver of its own for the block, and close it in any case."""
    driver = Driver(EmulatorOptions(**{"abort_grace": 0.2, "trace": 0, **options}))
    try:
        yield driver
    finally:
        driver.close()


@contextmanager
def device(**options: Any) -> Iterator[Device]:
    """Have device 0 of a board for the block."""
    with board(**options) as driver:
        yield Device(0, driver)


@contextmanager
def current_device(**options: Any) -> Iterator[Device]:
    """Have device 0 of a board that is the current one for the block."""
    with board(**options) as driver:
        enter(driver, board_of(driver))
        try:
            yield Device(0)
        finally:
            leave(driver)


class Latch:
    """Holds a stream until it is opened: a value wait that another stream satisfies."""

    def __init__(self, device: Device) -> None:
        self._opener = device.create_stream(nonblocking=True, name="latch opener")
        self.word: DeviceArray = device.empty(1, "uint32")
        self._opener.fill(self.word, 0).wait_sync(PATIENCE)

    def hold(self, stream: Stream) -> Any:
        """Enqueue a wait that ends when the latch is opened."""
        return stream.wait_value(self.word, 1, "Eq")

    def open(self) -> None:
        """Let every held stream go on."""
        self._opener.write_value(self.word, 1).wait_sync(PATIENCE)

    def close(self) -> None:
        """Give the word back."""
        self.word.close()


def abandon_an_asyncio_loop(
    start: Callable[[], Any], turns: int = 3, loop: asyncio.AbstractEventLoop | None = None
) -> None:
    """Run a task on a loop for a few turns, then close the loop without cancelling anything."""
    loop = loop or asyncio.new_event_loop()
    loop.set_exception_handler(lambda loop, context: None)
    begun: list[asyncio.Task[Any]] = []

    async def main() -> None:
        begun.append(loop.create_task(start()))
        for _ in range(turns):
            await asyncio.sleep(0)

    loop.run_until_complete(main())
    for task in asyncio.all_tasks(loop):  # the point is that they are never ended: no complaints about that
        task._log_destroy_pending = False
        coroutine = task.get_coro()
        if inspect.iscoroutine(coroutine) and inspect.getcoroutinestate(coroutine) == inspect.CORO_CREATED:
            coroutine.close()
    loop.close()


def waiters(driver: Driver) -> int:
    """Return how many waits of any kind have begun for what the board has to do."""
    contexts = board_of(driver).contexts
    items = [item for context in contexts for stream in list(context.active) for item in stream.pending()]
    return sum(len(item.waiters or ()) for item in items)


def settle(driver: Driver) -> None:
    """Wait until nothing that was enqueued is left, well or not, and what finalizers asked for is done."""
    for context in board_of(driver).contexts:
        probe = Device(context.ordinal, driver).create_stream(nonblocking=True, name="probe")
        for _ in range(2):  # steps that were posted before the probe's are over when it is
            probe.record().sync(PATIENCE)
        probe.launch(nothing, (1, 1)).wait_sync(PATIENCE)  # so are the lane's, which wake waiters, too
    for context in board_of(driver).contexts:
        while items := Device(context.ordinal, driver).outstanding():
            board_of(driver).wait_all(items, PATIENCE)


async def settled(driver: Driver) -> None:
    """As `settle`, where a loop runs that may owe a coroutine. Returns with nothing left, or fails the test."""
    with anyio.fail_after(PATIENCE):
        for context in board_of(driver).contexts:
            while items := Device(context.ordinal, driver).outstanding():
                for item in items:
                    with suppress(ExecutionError):
                        await item


def leftovers(driver: Driver) -> dict[str, Any]:
    """Return what a board still holds: nothing at all, if everybody has tidied up. Waits for what is enqueued."""
    settle(driver)
    found: dict[str, Any] = {}
    for context in board_of(driver).contexts:
        figures = Device(context.ordinal, driver).statistics()
        pool = context.default_pool.statistics()
        place = f"device {context.ordinal}"
        found[f"{place}: active streams"] = figures.active_streams
        found[f"{place}: pending commands"] = figures.pending_commands
        found[f"{place}: pool bytes in use"] = pool.used_current
        found[f"{place}: bytes outside the pool"] = figures.memory.used - pool.reserved_current
        found[f"{place}: quarantined bytes"] = figures.memory.quarantined
    found["host allocations"] = board_of(driver).host.statistics().live
    return {what: amount for what, amount in found.items() if amount}


def works(driver: Driver) -> bool:
    """Tell whether the board still does what it is for: a copy up, a kernel, a copy down."""
    stream = Device(0, driver).create_stream(name="afterwards")
    array = stream.zeros(24, "int32")
    stream.launch(add_one, (2, 12), array)
    result = stream.fetch(array).wait_sync(PATIENCE)
    stream.close()
    return bool((result == 1).all())


@k.kernel
def nothing():
    """Do nothing."""


@k.kernel
def add_one(x):
    """Add one to every element, each thread to its share."""
    with k.dte_scope() as dte:
        for part in k.tiles(x.size, 1):
            tile = k.local(1, x.dtype)
            k.memcpy(dte, tile, x[part])
            tile += 1
            k.memcpy(dte, x[part], tile)


@k.kernel
async def suspended_forever():
    """Never end, but be suspended again and again."""
    while True:
        await k.syncthreads()


@k.kernel
def never_suspended():
    """Never end and never be suspended: nothing but giving it up helps."""
    while True:
        pass


@k.kernel
def broken():
    """Fail at once."""
    raise RuntimeError("a kernel that fails")


class Foreign:
    """A stream of another library, or what only looks like one."""

    def __init__(self, answer):
        self.answer = answer

    def __tops_stream__(self):
        """Say what the test wants."""
        return self.answer
