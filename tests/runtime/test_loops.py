"""Loops and threads around one board: many at once, some that close too early, and waits that could never end."""

from __future__ import annotations

import asyncio
import errno
import gc
import os
import threading
import weakref
from collections.abc import Callable
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import anyio
import numpy as np
import pytest
import trio
from anyio.lowlevel import checkpoint

from atops import kernels as k
from atops.base.errors import LaunchFailure, LoopClosed, StreamAborted, WouldDeadlock
from atops.base.waiting.current_loop import current_loop_adapter
from atops.runtime.device import Device
from tests.runtime.boards import PATIENCE, Latch, abandon_an_asyncio_loop, device, leftovers, works

anyio_test = pytest.mark.anyio


class Threads:
    """Threads of a test: started together, joined with a limit, their errors raised in the test."""

    def __init__(self) -> None:
        self._threads: list[threading.Thread] = []
        self._errors: list[BaseException] = []

    def start(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Run `function(*arguments)` in a thread."""

        def run() -> None:
            try:
                function(*arguments)
            except BaseException as error:
                self._errors.append(error)

        thread = threading.Thread(target=run, daemon=True)
        self._threads.append(thread)
        thread.start()

    def join(self) -> None:
        """Wait for all threads. Fails when one does not end, or has raised."""
        for thread in self._threads:
            thread.join(PATIENCE)
            assert not thread.is_alive(), "a thread did not end"
        if self._errors:
            raise self._errors[0]


RUNNERS = {"asyncio": asyncio.run, "trio": lambda main: trio.run(lambda: main)}


@pytest.mark.parametrize("first", RUNNERS)
@pytest.mark.parametrize("second", RUNNERS)
def test_two_loops_await_one_event(first: str, second: str) -> None:
    """Two loops in two threads, of one kind or of both, wait for the same event; one write wakes both."""
    with device() as board:
        latch, threads, woken = Latch(board), Threads(), []
        stream = board.create_stream()
        latch.hold(stream)
        event = stream.record()
        parked = threading.Barrier(3)

        async def main(name: str) -> None:
            async with anyio.create_task_group() as tasks:
                for number in range(10):
                    tasks.start_soon(wait, (name, number))
                await checkpoint()
                await anyio.to_thread.run_sync(parked.wait)

        async def wait(name: Any) -> None:
            await event
            woken.append(name)

        threads.start(lambda: RUNNERS[first](main("one")))
        threads.start(lambda: RUNNERS[second](main("two")))
        parked.wait(PATIENCE)
        assert woken == []
        latch.open()
        threads.join()
        assert sorted(woken) == [(name, number) for name in ("one", "two") for number in range(10)]


@pytest.mark.slow
def test_many_loops_and_threads_at_once() -> None:
    """Loops that come and go, and plain threads, wait for the same work a hundred times over; every wait ends."""
    with device() as board:
        threads = Threads()
        stream = board.create_stream()
        array = stream.upload(np.arange(64))

        async def main() -> None:
            for _ in range(20):
                async with anyio.create_task_group() as tasks:
                    for _ in range(5):
                        tasks.start_soon(fetch)

        async def fetch() -> None:
            assert (await stream.fetch(array) == np.arange(64)).all()
            await stream.record()

        def block() -> None:
            for _ in range(100):
                assert (stream.fetch(array).wait_sync(PATIENCE) == np.arange(64)).all()
                stream.record().sync(PATIENCE)

        for _ in range(2):
            threads.start(lambda: asyncio.run(main()))
            threads.start(lambda: trio.run(main))
            threads.start(block)
        threads.join()
        stream.close()
        assert leftovers(board.driver) == {}


def test_a_loop_closed_while_it_awaits() -> None:
    """A waiter whose loop has gone is dropped quietly: the work ends, and other waiters get their result."""
    with device() as board:
        latch = Latch(board)
        stream = board.create_stream()
        array = stream.upload(np.arange(10))
        latch.hold(stream)
        fetched = stream.fetch(array)

        async def wait() -> Any:
            return await fetched

        abandon_an_asyncio_loop(wait)
        latch.open()
        assert (fetched.wait_sync(PATIENCE) == np.arange(10)).all()
        assert works(board.driver)


class Deaf(asyncio.SelectorEventLoop):
    """A loop that watches no files for others, as there are."""

    def add_reader(self, fd: Any, callback: Any, *args: Any) -> None:
        raise NotImplementedError  # what asyncio's own loops raise that watch none


def test_a_loop_that_watches_no_files() -> None:
    """It is woken by its own means."""
    with device() as board:
        stream = board.create_stream()

        async def main() -> Any:
            return await stream.call(lambda: 7)

        loop = Deaf()
        try:
            assert loop.run_until_complete(asyncio.wait_for(main(), PATIENCE)) == 7
        finally:
            loop.close()


@pytest.mark.slow
def test_a_loop_leaves_no_file_open() -> None:
    """What wakes a loop from other threads goes with it, and a loop that is closed hears nothing any more."""
    with device() as board:
        stream = board.create_stream()
        counts = []
        gc.collect()  # of loops that other tests left
        for _ in range(5):
            asyncio.run(asyncio.wait_for(wrapped(stream.call(lambda: None)), PATIENCE))
            gc.collect()
            counts.append(len(os.listdir("/proc/self/fd")))
        assert counts[-1] <= counts[0]
        loop = asyncio.new_event_loop()
        adapter = loop.run_until_complete(own_home())
        assert adapter.deliver(loop.stop)
        loop.run_forever()
        loop.close()
        assert not adapter.deliver(lambda: None) and adapter.closed()


def test_a_loop_keeps_nothing_of_its_first_task() -> None:
    """What wakes a loop lives as long as it does, and keeps no context of the task that asked for it first."""
    held = ContextVar[Any]("held")
    with device() as board:
        stream = board.create_stream()

        async def first() -> Any:
            held.set(thing := Latch(board))
            await stream.call(lambda: None)
            return weakref.ref(thing)

        async def main() -> None:
            kept = await asyncio.create_task(first())
            while kept() is not None:  # the callback's thread may be in its last steps
                await asyncio.to_thread(gc.collect)

        asyncio.run(asyncio.wait_for(main(), PATIENCE))


def open_files() -> set[tuple[str, str]]:
    """Return the numbers and targets of this process's open files."""
    files = Path("/proc/self/fd")
    return {(name, os.readlink(files / name)) for name in os.listdir(files) if (files / name).is_symlink()}


@pytest.mark.parametrize("refuses", ["eventfd", "add_reader"])
def test_a_loop_without_a_file_to_spare(monkeypatch: pytest.MonkeyPatch, refuses: str) -> None:
    """Where no file can be opened or watched for it, a loop is woken by its own means, and none is left open."""
    with device() as board:
        stream = board.create_stream()

        def refuse(*arguments: Any) -> None:
            raise OSError(errno.EMFILE if refuses == "eventfd" else errno.ENOSPC, "no more")

        async def main() -> Any:
            gc.collect()  # of loops that other tests left
            before = open_files()
            with monkeypatch.context() as patch:
                if refuses == "eventfd":
                    patch.setattr(os, "eventfd", refuse)
                else:
                    patch.setattr(asyncio.get_running_loop(), "add_reader", refuse)
                assert await stream.call(lambda: 7) == 7
            assert open_files() <= before  # fewer, where a loop of another test went meanwhile
            return await stream.call(lambda: 8)

        assert asyncio.run(asyncio.wait_for(main(), PATIENCE)) == 8


async def wrapped(waited: Any) -> Any:
    """Await on this loop."""
    return await waited


async def own_home() -> Any:
    """Return the adapter of the loop that runs this."""
    return current_loop_adapter()


async def never() -> None:
    """Wait for ever on whatever loop this is."""
    await anyio.sleep_forever()


def enqueue_and_go(runner: str, board: Device, function: Callable[[], Any]) -> Any:
    """Enqueue a host coroutine from a loop that ends at once, in the way that `runner` ends loops."""
    completions = []

    async def main() -> None:
        completions.append(board.create_stream().call(function))
        for _ in range(5):
            await checkpoint()

    if runner == "abandoned":
        abandon_an_asyncio_loop(main, 10)
    else:
        RUNNERS[runner](main())
    return completions[0]


@pytest.mark.parametrize("runner", ["abandoned", *RUNNERS])
def test_a_loop_closed_while_it_owes_a_coroutine(runner: str) -> None:
    """The completion fails with LoopClosed however the loop came to its end, and the stream can go on after that."""
    with device() as board:
        completion = enqueue_and_go(runner, board, never)
        with pytest.raises(LoopClosed, match="never"):
            completion.wait_sync(PATIENCE)
        stream = completion.stream
        with pytest.raises(LoopClosed):
            stream.sync(PATIENCE)
        stream.clear_error()
        stream.sync(PATIENCE)
        assert works(board.driver)


@pytest.mark.parametrize("runner", RUNNERS)
def test_a_loop_that_ends_as_its_coroutine_would_begin(runner: str) -> None:
    """Loops that end in the very moment in which a coroutine is handed to them end well, again and again."""
    with device() as board:
        completions = []

        async def main() -> None:
            completions.append(board.create_stream().call(never))

        for _ in range(100):
            RUNNERS[runner](main())
        for completion in completions:
            with pytest.raises(LoopClosed):
                completion.wait_sync(PATIENCE)


@pytest.mark.parametrize("runner", ["abandoned", *RUNNERS])
def test_a_loop_closed_before_its_coroutine_began(runner: str) -> None:
    """A coroutine that is still behind other work when its loop closes fails when its turn comes."""
    with device() as board:
        latch, completions = Latch(board), []

        async def main() -> None:
            stream = board.create_stream()
            latch.hold(stream)
            completions.append(stream.call(never))
            await checkpoint()

        if runner == "abandoned":
            abandon_an_asyncio_loop(main)
        else:
            RUNNERS[runner](main())
        latch.open()
        with pytest.raises(LoopClosed):
            completions[0].wait_sync(PATIENCE)


@anyio_test
async def test_blocking_inside_a_running_loop() -> None:
    """A blocking wait inside a coroutine ends although the loop stands still: the driver needs no loop of ours."""
    with device() as board:
        stream = board.create_stream()
        array = stream.upload(np.arange(1 << 20))
        event = stream.record()
        stream.call(lambda: None)
        for wait in (stream.sync, board.sync, event.sync):
            wait(PATIENCE)
        assert (stream.fetch(array).wait_sync(PATIENCE) == np.arange(1 << 20)).all()


@anyio_test
async def test_blocking_a_loop_that_owes() -> None:
    """Blocking a loop until work is done that waits for a coroutine of this very loop raises; awaiting it works."""
    with device() as board:
        latch = Latch(board)
        done: list[str] = []

        async def host() -> None:
            await held
            done.append("host")

        async with board.create_stream() as stream, board.create_stream() as second, board.create_stream() as free:
            held = latch.hold(free)
            stream.call(host)
            event = stream.record()
            second.wait(event)
            last = second.record()
            for wait in (stream.sync, event.sync, last.sync, second.sync, board.sync):
                with pytest.raises(WouldDeadlock):
                    wait(PATIENCE)
            assert done == []
            latch.open()
            free.sync(PATIENCE)  # not upstream of what is owed: blocking is allowed
            with anyio.fail_after(PATIENCE):
                await last
            assert done == ["host"]
            stream.sync(PATIENCE)


@anyio_test
async def test_another_loop_may_block_for_a_debt() -> None:
    """A thread that owes nothing may block until a coroutine of another thread's loop is over."""
    with device() as board:

        async def host() -> int:
            await checkpoint()
            return 7

        async with board.create_stream() as stream:
            completion = stream.call(host)
            with anyio.fail_after(PATIENCE):
                assert await anyio.to_thread.run_sync(lambda: completion.wait_sync(PATIENCE)) == 7


def test_blocking_in_a_callback() -> None:
    """A callback that waits for what waits for it is told so; waiting for another stream's work is allowed."""
    with device() as board:
        stream, other = board.create_stream(), board.create_stream(nonblocking=True)
        seen: list[str] = []

        def callback() -> None:
            for wait in (stream.sync, board.sync, later.wait_sync):
                try:
                    wait(PATIENCE)
                except WouldDeadlock:
                    seen.append("refused")
            assert (other.fetch(other.zeros(5)).wait_sync(PATIENCE) == 0).all()
            seen.append("other")

        latch = Latch(board)
        latch.hold(stream)
        called = stream.call(callback)
        later = stream.record()._record  # the completion, enqueued after the call
        assert later is not None
        latch.open()
        called.wait_sync(PATIENCE)
        assert seen == ["refused"] * 3 + ["other"]
        stream.sync(PATIENCE)


def test_blocking_in_a_detached_callback() -> None:
    """A callback that does not hold its stream still may not wait for the device: synchronising waits for callbacks."""
    with device() as board:
        stream = board.create_stream()
        seen: list[type[BaseException]] = []

        def callback(error: object) -> None:
            try:
                stream.sync(PATIENCE)
            except WouldDeadlock as refused:
                seen.append(type(refused))

        stream.add_callback(callback).wait_sync(PATIENCE)
        assert seen == [WouldDeadlock]


def test_blocking_in_a_kernel() -> None:
    """A kernel runs on the runtime's own thread: a blocking wait there fails the launch and nothing else."""
    with device() as board:
        other = board.create_stream()
        latch = Latch(board)
        held = latch.hold(other)

        @k.kernel
        def waits() -> None:
            held.wait_sync(PATIENCE)

        stream = board.create_stream()
        with pytest.raises(LaunchFailure) as failure:
            stream.launch(waits, (1, 1)).wait_sync(PATIENCE)
        causes = []
        error: BaseException | None = failure.value
        while error is not None:
            causes.append(type(error))
            error = error.__cause__
        assert WouldDeadlock in causes
        latch.open()
        held.wait_sync(PATIENCE)


def test_blocking_in_a_done_callback() -> None:
    """Done-callbacks run where they may block: here one waits for work that it enqueues itself."""
    with device() as board:
        latch, stream = Latch(board), board.create_stream()
        results: list[Any] = []
        over = threading.Event()

        def then(completion: Any) -> None:
            results.append(stream.fetch(array).wait_sync(PATIENCE).sum())
            over.set()

        array = stream.zeros(10)
        held = latch.hold(stream)
        held.add_done_callback(then)
        latch.open()
        assert over.wait(PATIENCE)
        assert results == [0]


@anyio_test
async def test_a_failure_is_told_to_every_waiter_afresh() -> None:
    """Waiters on one failed completion get exceptions of their own, with the same cause."""
    with device() as board:
        stream = board.create_stream()
        latch = Latch(board)
        latch.hold(stream)
        fetched = stream.fetch(stream.zeros(5))
        errors: list[StreamAborted] = []

        async def wait() -> None:
            with pytest.raises(StreamAborted) as caught:
                await fetched
            errors.append(caught.value)

        async with anyio.create_task_group() as tasks:
            for _ in range(20):
                tasks.start_soon(wait)
            await checkpoint()
            stream.abort()
        assert len({id(error) for error in errors}) == 20
        assert len({str(error) for error in errors}) == 1


def test_timeouts_end_the_wait_only() -> None:
    """A blocking wait with a timeout raises TimeoutError, forgets its waiter, and leaves the work alone."""
    with device() as board:
        latch, stream = Latch(board), board.create_stream()
        held = latch.hold(stream)
        event = stream.record()
        for wait in (held.wait_sync, stream.sync, board.sync, event.sync):
            with pytest.raises(TimeoutError):
                wait(0.001)
        latch.open()
        stream.sync(PATIENCE)
        assert event.is_done
