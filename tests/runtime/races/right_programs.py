"""Right programs of all kinds, in none of which two accesses lack an order: the detectors must not say so of any."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

import anyio
import numpy as np
from anyio.lowlevel import checkpoint

import atops
from atops import kernels as k
from atops import tops

N = 256
ONES = np.ones(N, np.float32)

Program = Callable[[atops.Device], Coroutine[Any, Any, None]]
RIGHT: dict[str, Program] = {}
CODE_STYLE: dict[str, Callable[[], None]] = {}  # plain functions over C-style calls
THREADED: set[str] = set()  # those that need threads of their own, or asyncio


def right(function: Program) -> Program:
    RIGHT[function.__name__] = function
    return function


def threaded(function: Program) -> Program:
    THREADED.add(function.__name__)
    return right(function)


def pair(device: atops.Device, **options: Any) -> tuple[atops.Stream, atops.Stream]:
    return device.create_stream(name="one", **options), device.create_stream(name="two", **options)


@k.kernel
def set_all(x: k.Span[np.float32], value: int) -> None:
    x[k.blockIdx.x * k.blockDim.x + k.threadIdx.x] = value


@k.kernel
def store_and_flag(x: k.Span[np.float32], flag: k.Span[np.uint32]) -> None:
    x[0] = 5
    flag[0] = 1


@k.kernel
async def store_and_signal(x: k.Span[np.float32], signal: int) -> None:
    x[0] = 5
    k.signal_write(signal, 1)


@k.kernel
async def wait_and_store(x: k.Span[np.float32], signal: int) -> None:
    await k.signal_wait(signal, 1)
    x[0] = 6


@k.kernel
async def forth(x: k.Span[np.float32], ping: int, pong: int) -> None:
    for turn in range(1, 4):
        x[0] += 1
        k.signal_write(ping, turn)
        await k.signal_wait(pong, turn)


@k.kernel
async def back(x: k.Span[np.float32], ping: int, pong: int) -> None:
    for turn in range(1, 4):
        await k.signal_wait(ping, turn)
        x[0] += 1
        k.signal_write(pong, turn)


@k.kernel
async def exchange(x: k.Span[np.float32], y: k.Span[np.float32]) -> None:
    x[k.blockIdx.x] = 1
    await k.syncblocks()
    y[k.blockIdx.x] = x[(k.blockIdx.x + 1) % k.gridDim.x]


@k.kernel
async def over_devices(mine: k.Span[np.float32], theirs: k.Span[np.float32]) -> None:
    mine[0] = 1
    await k.syncblocks()
    theirs[1] = 2


# ---- words that the host reads, waits for, writes


@right
async def the_host_polls_a_word_by_fetch(device: atops.Device) -> None:
    one, two = pair(device)
    x, word = device.zeros(N), device.zeros(1, np.uint32)
    await device.wait()
    one.fill(x, 1.0)
    one.write_value(word, 1)
    while (await two.fetch(word))[0] != 1:
        await checkpoint()
    two.fill(x, 2.0)
    await device.wait()


@right
async def memory_of_the_device_is_freed_in_null_stream_order(device: atops.Device) -> None:
    stream, null = device.create_stream(nonblocking=False), device.null_stream
    x, y = device.zeros(N), device.zeros(N)
    null.fill(x, 1.0)
    stream.free(x)
    stream.fill(y, 1.0)
    null.free(y)
    await stream
    await null


@right
async def the_host_polls_a_mapped_word(device: atops.Device) -> None:
    one, two = pair(device)
    x, word = device.zeros(N), device.host_malloc(1, np.uint32)
    word.array[0] = 0
    await device.wait()
    one.fill(x, 1.0)
    one.write_value(word, 1)
    while word.array[0] != 1:
        await checkpoint()
    two.fill(x, 2.0)
    await device.wait()


@right
async def the_host_polls_a_word_that_a_copy_writes(device: atops.Device) -> None:
    one, two = pair(device)
    x, flag, word = device.zeros(N), device.zeros(1, np.uint32), device.host_malloc(1, np.uint32)
    word.array[0] = 0
    await device.upload(np.ones(1, np.uint32))
    one.fill(flag, 1)
    one.fill(x, 1.0)
    one.copy(word, flag)
    while word.array[0] != 1:
        await checkpoint()
    two.fill(x, 2.0)
    await device.wait()


@right
async def the_host_polls_a_mapped_word_of_a_kernel(device: atops.Device) -> None:
    one, two = pair(device)
    x, word = device.zeros(N), device.host_malloc(1, np.uint32)
    word.array[0] = 0
    await device.wait()
    one.launch(store_and_flag, (1, 1), x, word)
    while word.array[0] != 1:
        await checkpoint()
    two.fill(x, 2.0)
    await device.wait()


@right
async def the_host_stores_a_mapped_word(device: atops.Device) -> None:
    one, two = pair(device)
    x, word = device.zeros(N), device.host_malloc(1, np.uint32)
    word.array[0] = 0
    two.wait_value(word, 1)
    two.fill(x, 2.0)
    await one.fill(x, 1.0)
    word.array[0] = 1
    await device.wait()


@right
async def a_chain_of_words(device: atops.Device) -> None:
    one, two = pair(device)
    three = device.create_stream()
    x, words = device.zeros(N), device.zeros(2, np.uint32)
    await device.wait()
    one.fill(x, 1.0)
    one.write_value(words[:1], 1)
    two.wait_value(words[:1], 1)
    two.write_value(words[1:], 1)
    three.wait_value(words[1:], 1, "eq")
    three.fill(x, 2.0)
    await device.wait()


@right
async def a_word_counts_up(device: atops.Device) -> None:
    one, two = pair(device)
    x, word = device.zeros(N), device.zeros(2, np.uint32)
    await device.wait()
    for turn in range(1, 4):
        one.wait_value(word[1:], turn - 1)
        one.fill(x, float(turn))
        one.write_value(word[:1], turn)
        two.wait_value(word[:1], turn)
        two.fill(x, float(-turn))
        two.write_value(word[1:], turn)
    await device.wait()


@right
async def a_word_that_the_host_clears(device: atops.Device) -> None:
    one, two = pair(device)
    x, word = device.zeros(N), device.zeros(1, np.uint32)
    await device.wait()
    for turn in range(2):
        one.fill(x, float(turn))
        one.write_value(word, 1)
        two.wait_value(word, 1, "eq")
        await two.fill(x, 7.0)
        await one.fill(word, 0)


# ---- kernel signals


@right
async def a_signal_from_one_launch_to_another(device: atops.Device) -> None:
    one, two = pair(device)
    x, signal = device.zeros(N), device.signals.allocate()
    await device.wait()
    two.launch(wait_and_store, (1, 1), x, signal)
    one.launch(store_and_signal, (1, 1), x, signal)
    await device.wait()


@right
async def a_signal_from_an_earlier_launch(device: atops.Device) -> None:
    one, two = pair(device)
    x, signal = device.zeros(N), device.signals.allocate()
    await device.wait()
    one.launch(store_and_signal, (1, 1), x, signal)
    two.launch(wait_and_store, (1, 1), x, signal)
    await device.wait()


@right
async def launches_that_talk_both_ways(device: atops.Device) -> None:
    one, two = pair(device)
    x, ping, pong = device.zeros(N), device.signals.allocate(), device.signals.allocate()
    await device.wait()
    one.launch(forth, (1, 1), x, ping, pong)
    two.launch(back, (1, 1), x, ping, pong)
    await device.wait()


@right
async def a_command_behind_a_launch_that_was_told(device: atops.Device) -> None:
    """What comes next in the stream comes after what the launch has heard of, too."""
    one, two = pair(device)
    x, y, signal = device.zeros(N), device.zeros(N), device.signals.allocate()
    await device.wait()
    two.launch(wait_and_store, (1, 1), y, signal)
    two.fill(x, 2.0)
    one.launch(store_and_signal, (1, 1), x, signal)
    await device.wait()


@k.kernel
async def count_forth(x: k.Span[np.float32], ping: int, pong: int, rounds: int) -> None:
    me = k.threadIdx.x
    for turn in range(1, rounds + 1):
        x[me] += 1
        await k.syncthreads()
        if me == 0:
            k.signal_write(ping, turn)
            await k.signal_wait(pong, turn)
        await k.syncthreads()


@k.kernel
async def count_back(x: k.Span[np.float32], ping: int, pong: int, rounds: int) -> None:
    for turn in range(1, rounds + 1):
        await k.signal_wait(ping, turn)
        x[:3] += 1
        k.signal_write(pong, turn)


@right
async def launches_that_talk_very_often(device: atops.Device) -> None:
    """More often than what they do between two signals is told apart."""
    one, two = pair(device)
    x, ping, pong = device.zeros(N), device.signals.allocate(), device.signals.allocate()
    await device.wait()
    one.launch(count_forth, (1, 3), x, ping, pong, 50)
    two.launch(count_back, (1, 1), x, ping, pong, 50)
    await device.wait()


@right
async def the_host_waits_for_a_signal(device: atops.Device) -> None:
    one, two = pair(device)
    x, signal = device.zeros(N), device.signals.allocate()
    await device.wait()
    one.launch(store_and_signal, (1, 1), x, signal)
    await device.signals.wait(signal, 1)
    two.fill(x, 2.0)
    await device.wait()


@right
async def the_host_reads_a_signal(device: atops.Device) -> None:
    one, two = pair(device)
    x, signal = device.zeros(N), device.signals.allocate()
    await device.wait()
    one.launch(store_and_signal, (1, 1), x, signal)
    while device.signals.read(signal) != 1:
        await checkpoint()
    two.fill(x, 2.0)
    await device.wait()


@right
async def the_host_writes_a_signal(device: atops.Device) -> None:
    one, two = pair(device)
    x, signal = device.zeros(N), device.signals.allocate()
    await device.wait()
    two.launch(wait_and_store, (1, 1), x, signal)
    await one.fill(x, 1.0)
    device.signals.write(signal, 1)
    await device.wait()


@right
async def a_signal_of_a_callback(device: atops.Device) -> None:
    one, two = pair(device)
    x, signal = device.zeros(N), device.signals.allocate()
    await device.wait()
    two.launch(wait_and_store, (1, 1), x, signal)
    one.fill(x, 1.0)
    one.call(device.signals.write, signal, 1)
    await device.wait()


# ---- events, null streams, waits


@right
async def an_event_used_again(device: atops.Device) -> None:
    one, two = pair(device)
    x, event = device.empty(N), device.create_event()
    for turn in range(4):
        first, second = (one, two) if turn % 2 else (two, one)
        first.fill(x, float(turn))
        first.record(event)
        second.wait(event)
        second.fill(x, float(-turn))
    await device.wait()


@right
async def an_event_recorded_again_after_the_wait(device: atops.Device) -> None:
    one, two = pair(device)
    x, y, event = device.empty(N), device.empty(N), device.create_event()
    one.fill(x, 1.0)
    one.record(event)
    two.wait(event)
    one.fill(y, 1.0)
    one.record(event)
    two.fill(x, 2.0)
    await device.wait()


@right
async def one_event_many_streams(device: atops.Device) -> None:
    source = device.create_stream()
    x = device.empty(N)
    source.fill(x, 1.0)
    event = source.record()
    streams = [device.create_stream() for _ in range(5)]
    results = []
    for stream in streams:
        stream.wait(event)
        results.append(stream.fetch(x))
    for stream in streams:
        source.wait(stream)
    source.fill(x, 2.0)
    for result in results:
        await result
    await source


@right
async def the_null_stream_between(device: atops.Device) -> None:
    one, two = pair(device)
    x, y = device.empty(N), device.empty(4)
    for turn in range(3):
        one.fill(x, float(turn))
        device.null_stream.fill(y, 0.0)
        two.fill(x, float(turn))
        device.null_stream.fill(y, 0.0)
    await device.wait()


@right
async def events_of_the_null_stream(device: atops.Device) -> None:
    one, _ = pair(device, nonblocking=True)
    x = device.empty(N)
    device.null_stream.fill(x, 1.0)
    one.wait(device.null_stream.record())
    one.fill(x, 2.0)
    device.null_stream.wait(one)
    device.null_stream.fill(x, 3.0)
    await device.null_stream


@right
async def start_and_stop_events(device: atops.Device) -> None:
    one, two = pair(device)
    x, start, stop = device.empty(4), device.create_event(), device.create_event()
    one.launch(set_all, (1, 4), x, 1, start=start, stop=stop)
    two.wait(stop)
    two.fill(x, 2.0)
    await stop
    one.fill(x, 3.0) if stop.is_done and not await two else None
    await device.wait()


@right
async def an_any_order_launch_after_a_wait(device: atops.Device) -> None:
    one, _ = pair(device)
    x = device.empty(4)
    await one.launch(set_all, (1, 4), x, 1)
    one.launch(set_all, (1, 4), x, 2, any_order=True)
    await one


@right
async def a_wait_for_a_gather(device: atops.Device) -> None:
    one, two = pair(device)
    three = device.create_stream()
    x = device.empty((2, N))
    items = [one.fill(x[0], 1.0), two.fill(x[1], 1.0)]

    async def both() -> None:
        for item in items:
            await item

    three.wait(both())
    three.fill(x, 2.0)
    await device.wait()


@right
async def a_wait_for_a_threads_future(device: atops.Device) -> None:
    one, two = pair(device)
    x, future = device.empty(N), Future[None]()
    one.fill(x, 1.0).add_done_callback(lambda _: future.set_result(None))
    two.wait(future)
    two.fill(x, 2.0)
    await device.wait()


# ---- callbacks, calls, tasks


@right
async def a_callback_enqueues(device: atops.Device) -> None:
    one, two = pair(device)
    x, told = device.empty(N), anyio.Event()

    def then(_: object) -> None:
        two.fill(x, 2.0)
        told.set()

    one.fill(x, 1.0).add_done_callback(then)
    await told.wait()
    await device.wait()


@right
async def add_callback_enqueues(device: atops.Device) -> None:
    one, two = pair(device)
    x = device.empty(N)
    one.fill(x, 1.0)
    await one.add_callback(lambda _: two.fill(x, 2.0) and None, holds=True)
    await device.wait()


@right
async def a_call_hands_over(device: atops.Device) -> None:
    one, two = pair(device)
    x, future = device.empty(N), Future[None]()
    one.fill(x, 1.0)
    one.call(future.set_result, None)
    two.wait(future)
    two.fill(x, 2.0)
    await device.wait()


@right
async def a_coroutine_hands_over(device: atops.Device) -> None:
    one, two = pair(device)
    x, told = device.empty(N), anyio.Event()

    async def tell() -> None:
        told.set()

    one.fill(x, 1.0)
    one.create_task(tell())
    two.wait(told.wait())
    two.fill(x, 2.0)
    await device.wait()


@right
async def tasks_with_a_lock(device: atops.Device) -> None:
    x, lock = device.empty(N), anyio.Lock()

    async def work(value: float) -> None:
        stream = device.create_stream()
        async with lock:
            await stream.fill(x, value)

    async with anyio.create_task_group() as group:
        for value in range(4):
            group.start_soon(work, float(value))


@right
async def a_queue_of_arrays(device: atops.Device) -> None:
    one, two = pair(device)
    send, receive = anyio.create_memory_object_stream[tuple[Any, Any]](4)

    async def produce() -> None:
        async with send:
            for value in range(4):
                x = one.empty(N)
                one.fill(x, float(value))
                await send.send((x, one.record()))

    async with anyio.create_task_group() as group:
        group.start_soon(produce)
        async with receive:
            async for x, event in receive:
                two.wait(event)
                await two.fetch(x)
    await device.wait()


@threaded
async def asyncio_wait_first(device: atops.Device) -> None:
    one, two = pair(device)
    x, y = device.empty(N), device.empty(N)
    waiting = {one.fill(x, 1.0): x, two.fill(y, 1.0): y}
    three = device.create_stream()
    while waiting:
        done, _ = await asyncio.wait(set(waiting), return_when=asyncio.FIRST_COMPLETED)
        for item in done:
            three.fill(waiting.pop(item), 2.0)
    await device.wait()


@threaded
async def threads_with_a_lock(device: atops.Device) -> None:
    x, lock = device.empty(N), threading.Lock()

    def work(value: float) -> None:
        stream = device.create_stream()
        with lock:
            stream.fill(x, value)
            stream.sync()

    threads = [threading.Thread(target=work, args=(float(value),)) for value in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        await anyio.to_thread.run_sync(thread.join)


@threaded
async def work_in_a_thread(device: atops.Device) -> None:
    one, two = pair(device)
    x = device.empty(N)
    await anyio.to_thread.run_sync(lambda: one.fill(x, 1.0).wait_sync())
    await two.fill(x, 2.0)


# ---- memory


@right
async def a_pool_gives_out_again(device: atops.Device) -> None:
    one, two = pair(device)
    pool = device.create_pool()
    for turn in range(6):
        stream, other = (one, two) if turn % 2 else (two, one)
        x = stream.empty(N, pool=pool)
        stream.fill(x, 1.0)
        other.wait(stream)
        other.fill(x, 2.0)
        stream.wait(other)
        stream.free(x)
    await device.wait()


@right
async def a_block_scope(device: atops.Device) -> None:
    one, two = pair(device)
    for _ in range(3):
        async with one.upload(ONES) as x:
            two.wait(one)
            item = two.fetch(x)
            one.wait(two)
        await item
    await device.wait()


@right
async def dropped_buffers(device: atops.Device) -> None:
    one, two = pair(device)
    for turn in range(8):
        x = one.empty(N)
        one.fill(x, float(turn))
        two.wait(one)
        one.wait(two.fetch(x))
        del x
    await device.wait()


@right
async def freed_after_a_host_wait(device: atops.Device) -> None:
    one, two = pair(device)
    x = one.zeros(N)
    two.wait(one)
    await two.fetch(x)
    one.free(x)
    await device.wait()


@right
async def device_memory_again(device: atops.Device) -> None:
    one, two = pair(device)
    for stream in (one, two, one):
        x = device.empty(N)
        stream.fill(x, 1.0)
        await stream
        x.close()
    await device.wait()


@right
async def double_buffers(device: atops.Device) -> None:
    load, work = pair(device)
    buffers = [device.empty(N) for _ in range(2)]
    free: list[Any] = [None, None]
    for turn in range(6):
        slot = turn % 2
        if free[slot] is not None:
            load.wait(free[slot])
        load.copy(buffers[slot], ONES * turn)
        work.wait(load.record())
        work.launch(set_all, (1, 4), buffers[slot], turn)
        free[slot] = work.record()
    await device.wait()


@right
async def a_pipeline(device: atops.Device) -> None:
    def set_two(stream: atops.Stream, x: Any) -> Any:
        stream.launch(set_all, (1, 4), x, 2)
        return x

    async with atops.pipeline([ONES * each for each in range(5)], set_two, streams=3, device=device) as results:
        async for _ in results:
            pass


@right
async def pinned_both_ways(device: atops.Device) -> None:
    one, two = pair(device)
    x, host = device.empty(N), device.host_malloc(N, np.float32)
    host.array[:] = 3
    await one.copy(x, host)
    host.array[:] = 4
    two.copy(host, x)
    await two
    assert host.array[0] == 3
    host.array[:] = 5
    await one.copy(x, host)


@right
async def managed_memory(device: atops.Device) -> None:
    one, two = pair(device)
    x = device.malloc_managed(N, np.float32)
    x.array[:] = 0
    await one.launch(set_all, (1, 4), x, 3)
    x.array[0] = 5
    await two.launch(set_all, (1, 4), x, 4)


@right
async def a_host_array_again(device: atops.Device) -> None:
    one, two = pair(device)
    x, big = device.empty(40_000), np.ones(40_000, np.float32)
    for stream in (one, two):
        await stream.copy(x, big)
        big[:] = 2
        await stream.copy(big, x)
        big[:] = 3


# ---- devices


@right
async def peers(device: atops.Device) -> None:
    other = atops.Device(1, device.driver)
    device.enable_peer_access(other)
    one, two = device.create_stream(), other.create_stream()
    x, y = device.empty(N), other.empty(N)
    one.fill(x, 1.0)
    one.copy(y, x)
    two.wait(one)
    two.launch(set_all, (1, 4), y, 2)
    one.wait(two)
    one.copy(x, y)
    await one
    await two


@right
async def a_device_that_has_waited_for_another(device: atops.Device) -> None:
    other = atops.Device(1, device.driver)
    one, two = device.create_stream(), other.create_stream()
    three = other.create_stream()
    x, y = other.empty(N), device.empty(N)
    for last in (False, True):
        two.fill(x, 1.0)
        one.wait(two.record())
        if last:
            one.fill(y, 1.0)
        await device.wait()
        three.fill(x, 2.0)
        await other.wait()


@right
async def a_null_stream_after_a_polled_word(device: atops.Device) -> None:
    one, two = device.create_stream(nonblocking=True), device.create_stream()
    x, word = device.empty(N), device.zeros(1, np.uint32)
    await device.wait()
    one.fill(x, 1.0)
    one.write_value(word, 1)
    while (await two.fetch(word))[0] != 1:
        await checkpoint()
    device.null_stream.fill(x, 2.0)
    await device.wait()


@right
async def null_streams_of_two_devices(device: atops.Device) -> None:
    other = atops.Device(1, device.driver)
    x = other.empty(N)
    device.null_stream.copy(x, device.zeros(N))
    await device.wait()
    other.null_stream.fill(x, 1.0)
    await other.wait()


@right
async def a_cooperative_launch(device: atops.Device) -> None:
    one, two = pair(device)
    x, y = device.zeros(4), device.zeros(4)
    await device.wait()
    one.launch(exchange, (2, 1), x, y, cooperative=True)
    two.wait(one)
    await two.fetch(y)


@right
async def a_cooperative_launch_over_devices(device: atops.Device) -> None:
    other = atops.Device(1, device.driver)
    device.enable_peer_access(other)
    other.enable_peer_access(device)
    one, two = device.create_stream(), other.create_stream()
    x, y = device.zeros(2), other.zeros(2)
    await device.wait()
    await other.wait()
    atops.launch_together(
        [(one, over_devices, (1, 1), x, y), (two, over_devices, (1, 1), y, x)], cooperative=True
    )  # fmt: skip
    two.wait(one)
    one.wait(two)
    one.fill(x, 0.0)
    two.fill(y, 0.0)
    await one
    await two


@right
async def an_external_stream(device: atops.Device) -> None:
    one, two = pair(device)
    x = device.empty(N)
    same = atops.ExternalStream(one)
    same.fill(x, 1.0)
    one.fill(x, 2.0)
    two.wait(same)
    two.fill(x, 3.0)
    await device.wait()


@right
async def after_an_abort(device: atops.Device) -> None:
    one, two = pair(device)
    x, word = device.empty(N), device.zeros(1, np.uint32)
    await device.wait()
    one.fill(x, 1.0)
    one.wait_value(word, 1)
    one.fill(x, 2.0)
    one.abort()
    while not one.is_done:
        await checkpoint()
    two.fill(x, 3.0)
    await two


@right
async def after_a_failure(device: atops.Device) -> None:
    one, two = pair(device)
    x = device.empty(N)
    one.fill(x, 1.0)
    failed = one.call(lambda: 1 // 0)
    one.fill(x, 2.0)
    with suppress(atops.errors.AtopsError):
        await failed
    with suppress(atops.errors.AtopsError):
        await one
    one.clear_error()
    two.fill(x, 3.0)
    await device.wait()


@right
async def a_cancelled_command(device: atops.Device) -> None:
    one, two = pair(device)
    x, word = device.empty(N), device.zeros(1, np.uint32)
    await device.wait()
    wait = one.wait_value(word, 1)
    item = one.fill(x, 1.0)
    two.wait(one)
    two.fill(x, 2.0)
    wait.cancel()
    await item
    await device.wait()


@right
async def a_device_that_is_reset(device: atops.Device) -> None:
    one = device.create_stream()
    one.fill(device.empty(N), 1.0)
    await device.reset()
    two = device.create_stream()
    await two.fill(device.empty(N), 2.0)


@right
async def rooms(device: atops.Device) -> None:
    one, two = device.create_stream(capacity=1), device.create_stream()
    x = device.empty(N)
    async with one.room():
        one.fill(x, 1.0)
    async with one.room():
        two.fill(x, 2.0)
    await device.wait()


# ---- C-style functions


def code_style(function: Callable[[], None]) -> Callable[[], None]:
    CODE_STYLE[function.__name__] = function
    return function


def good(answer: Any) -> Any:
    code, *values = answer if isinstance(answer, tuple) else (answer,)
    assert code == tops.topsSuccess, code
    return values[0] if len(values) == 1 else tuple(values)


@code_style
def c_memcpy_orders() -> None:
    one, two = good(tops.topsStreamCreate()), good(tops.topsStreamCreate())
    x, host = good(tops.topsMalloc(64)), np.zeros(16, np.float32)
    good(tops.topsMemsetAsync(x, 1, 64, one))
    good(tops.topsStreamSynchronize(one))
    good(tops.topsMemsetAsync(x, 2, 64, two))
    good(tops.topsMemcpy(host, x, 64, tops.topsMemcpyDeviceToHost))
    good(tops.topsMemset(x, 3, 64))
    good(tops.topsFree(x))


@code_style
def c_waits_for_a_word() -> None:
    one, two = good(tops.topsStreamCreate()), good(tops.topsStreamCreate())
    x, word = good(tops.topsMalloc(64)), good(tops.topsMalloc(4))
    good(tops.topsMemset(word, 0, 4))
    good(tops.topsMemsetAsync(x, 1, 64, one))
    good(tops.topsStreamWriteValue32Async(word, 1, 0, one))
    good(tops.topsStreamWaitValue32(word, 1, 0))
    good(tops.topsMemsetAsync(x, 2, 64, two))
    good(tops.topsDeviceSynchronize())


@code_style
def c_polls_a_word() -> None:
    one = good(tops.topsStreamCreateWithFlags(tops.topsStreamNonBlocking))
    two = good(tops.topsStreamCreateWithFlags(tops.topsStreamNonBlocking))
    x, word, host = good(tops.topsMalloc(64)), good(tops.topsMalloc(4)), np.zeros(1, np.uint32)
    good(tops.topsMemset(word, 0, 4))
    good(tops.topsDeviceSynchronize())
    good(tops.topsMemsetAsync(x, 1, 64, one))
    good(tops.topsStreamWriteValue32Async(word, 1, 0, one))
    while host[0] != 1:
        good(tops.topsMemcpyWithStream(host, word, 4, tops.topsMemcpyDeviceToHost, two))
    good(tops.topsMemsetAsync(x, 2, 64, two))
    good(tops.topsDeviceSynchronize())


@code_style
def c_the_host_writes_a_word() -> None:
    one, two = good(tops.topsStreamCreate()), good(tops.topsStreamCreate())
    x, word = good(tops.topsMalloc(64)), good(tops.topsMalloc(4))
    good(tops.topsMemset(word, 0, 4))
    good(tops.topsStreamWaitValue32Async(word, 1, 0, two))
    good(tops.topsMemsetAsync(x, 2, 64, two))
    good(tops.topsMemsetAsync(x, 1, 64, one))
    good(tops.topsStreamSynchronize(one))
    good(tops.topsStreamWriteValue32(word, 1, 0))
    good(tops.topsDeviceSynchronize())


@code_style  # where threads run: its loops wait for nothing
def c_queries() -> None:
    one, two = good(tops.topsStreamCreate()), good(tops.topsStreamCreate())
    x, event = good(tops.topsMalloc(64)), good(tops.topsEventCreate())
    good(tops.topsMemsetAsync(x, 1, 64, one))
    good(tops.topsEventRecord(event, one))
    while tops.topsEventQuery(event)[0] != tops.topsSuccess:
        pass
    good(tops.topsMemsetAsync(x, 2, 64, two))
    while tops.topsStreamQuery(two)[0] != tops.topsSuccess:
        pass
    good(tops.topsMemsetAsync(x, 3, 64, one))
    good(tops.topsStreamWaitEvent(two, event, 0))
    good(tops.topsEventSynchronize(event))
    good(tops.topsStreamSynchronize(one))
    good(tops.topsMemsetAsync(x, 4, 64, two))
    good(tops.topsStreamDestroy(one))
    good(tops.topsStreamDestroy(two))
    good(tops.topsDeviceSynchronize())


@code_style
def c_null_stream() -> None:
    one = good(tops.topsStreamCreate())
    x = good(tops.topsMalloc(64))
    good(tops.topsMemsetAsync(x, 1, 64, one))
    good(tops.topsMemsetAsync(x, 2, 64, 0))
    good(tops.topsMemsetAsync(x, 3, 64, one))
    good(tops.topsDeviceSynchronize())


@code_style
def c_callback() -> None:
    one, two = good(tops.topsStreamCreate()), good(tops.topsStreamCreate())
    x = good(tops.topsMalloc(64))
    good(tops.topsMemsetAsync(x, 1, 64, one))
    good(tops.topsStreamAddCallback(one, lambda *_: good(tops.topsMemsetAsync(x, 2, 64, two)), None, 0))
    good(tops.topsStreamSynchronize(one))
    good(tops.topsDeviceSynchronize())
