"""Programs of streams with one edge too few, each beside its correct twin: the bug is named, the twin is silent.

A program takes the device and whether to be right. What differs between the two is the line with `right`.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import threading
import time
import weakref
from array import array
from collections.abc import Callable, Coroutine
from contextlib import suppress
from itertools import pairwise
from mmap import mmap
from typing import Any

import anyio
import numpy as np
import pytest
from anyio.lowlevel import checkpoint

import atops
from atops import kernels as k
from atops.runtime.driver import board_of
from tests.runtime.boards import board

N = 1024
ONES = np.ones(N, np.float32)
BIG = 40_000  # elements of a source that is not taken at the call

Program = Callable[[atops.Device, bool], Coroutine[Any, Any, None]]
PROGRAMS: dict[str, Program] = {}


def program(function: Program) -> Program:
    PROGRAMS[function.__name__] = function
    return function


def pair(device: atops.Device, **options: Any) -> tuple[atops.Stream, atops.Stream]:
    return device.create_stream(name="one", **options), device.create_stream(name="two", **options)


async def over(*streams: atops.Stream) -> None:
    """Wait for streams, one of which may find its memory freed, or have a kernel that does."""
    for stream in streams:
        with suppress(atops.errors.IllegalAddress, atops.errors.LaunchFailure):
            await stream


# ---- events


@program
async def a_wait_for_a_word_that_is_not_allocated_yet(device: atops.Device, right: bool) -> None:
    """It may see what was in the memory before."""
    one, two = pair(device)
    word = one.zeros(1, np.uint32)
    if right:
        two.wait(one.record())
    two.wait_value(word, 1)
    one.write_value(word, 1)
    await device.wait()


@program
async def two_copies_to_one_buffer(device: atops.Device, right: bool) -> None:
    one, two = pair(device)
    x = device.empty(N)
    one.copy(x, ONES)
    if right:
        two.wait(one.record())
    two.copy(x, ONES)
    await device.wait()


@program
async def read_before_the_event(device: atops.Device, right: bool) -> None:
    one, two = pair(device)
    x = device.empty(N)
    event = None if right else one.record()
    one.fill(x, 1.0)
    two.wait(event or one.record())
    await two.fetch(x)
    await one


@program
async def the_wrong_record_of_an_event(device: atops.Device, right: bool) -> None:
    one, two = pair(device)
    x, event = device.empty(N), device.create_event()
    one.record(event)
    if not right:
        two.wait(event)
    one.fill(x, 1.0)
    one.record(event)
    if right:
        two.wait(event)
    two.fill(x, 2.0)
    await device.wait()


@program
async def never_recorded(device: atops.Device, right: bool) -> None:
    one, two = pair(device)
    x, event = device.empty(N), device.create_event()
    one.fill(x, 1.0)
    if right:
        one.record(event)
    two.wait(event)
    two.fill(x, 2.0)
    await device.wait()


@program
async def waited_for_in_another_stream(device: atops.Device, right: bool) -> None:
    one, two = pair(device)
    three = device.create_stream(name="three")
    x = device.empty(N)
    one.fill(x, 1.0)
    (two if right else three).wait(one.record())
    two.fill(x, 2.0)
    await device.wait()


@program
async def a_chain_of_events(device: atops.Device, right: bool) -> None:
    streams = [device.create_stream() for _ in range(5)]
    x = device.empty(N)
    streams[0].fill(x, 1.0)
    for before, after in pairwise(streams):
        if right or after is not streams[3]:
            after.wait(before.record())
    streams[-1].fill(x, 2.0)
    await device.wait()


@program
async def a_diamond(device: atops.Device, right: bool) -> None:
    one, two = pair(device)
    three = device.create_stream(name="three")
    x = device.zeros((2, N))
    start = one.record()
    for row, stream in enumerate((two, three)):
        stream.wait(start)
        stream.fill(x[row], 1.0)
    one.wait(two.record())
    if right:
        one.wait(three.record())
    await one.fetch(x)
    await device.wait()


@program
async def the_event_of_the_round_before(device: atops.Device, right: bool) -> None:
    one, two = pair(device)
    rows = [device.zeros(N) for _ in range(3)]
    await device.wait()
    events = []
    for row in rows:
        one.fill(row, 1.0)
        events.append(one.record())
    for turn, row in enumerate(rows):
        two.wait(events[turn if right else max(0, turn - 1)])
        two.fill(row, 2.0)
    await device.wait()


@program
async def one_of_two_that_are_needed(device: atops.Device, right: bool) -> None:
    one, two = pair(device)
    three = device.create_stream(name="three")
    x, y = device.zeros(N), device.zeros(N)
    await device.wait()
    one.fill(x, 1.0)
    two.fill(y, 2.0)
    three.wait(one.record())
    if right:
        three.wait(two.record())
    three.copy(x, y)
    await device.wait()


@program
async def an_accumulator_cleared_while_it_is_fetched(device: atops.Device, right: bool) -> None:
    one, two = pair(device)
    total = device.zeros(N)
    await device.wait()
    for _ in range(2):
        one.fill(total, 0.0)
        two.wait(one.record())
        two.fetch(total)
        if right:
            one.wait(two.record())
    await device.wait()


@program
async def a_task_that_awaits_the_first_of_two(device: atops.Device, right: bool) -> None:
    one, two = pair(device)
    x = device.zeros(N)
    await device.wait()
    first, second = one.fill(x[:4], 1.0), one.fill(x, 2.0)
    await (second if right else first)
    two.fill(x, 3.0)
    await device.wait()


@program
async def overlapping_halves(device: atops.Device, right: bool) -> None:
    one, two = pair(device)
    x = device.empty(N)
    one.fill(x[: N // 2], 1.0)
    two.fill(x[N // 2 if right else N // 2 - 1 :], 2.0)
    await device.wait()


@program
async def a_wait_for_a_stream_too_early(device: atops.Device, right: bool) -> None:
    one, two = pair(device)
    x = device.empty(N)
    if not right:
        two.wait(one)
    one.fill(x, 1.0)
    if right:
        two.wait(one)
    two.fill(x, 2.0)
    await device.wait()


@program
async def a_wait_for_another_completion(device: atops.Device, right: bool) -> None:
    one, two = pair(device)
    x, y = device.empty(N), device.empty(N)
    first = one.fill(y, 1.0)
    second = one.fill(x, 1.0)
    two.wait(second if right else first)
    two.fill(x, 2.0)
    await device.wait()


@program
async def ping_pong(device: atops.Device, right: bool) -> None:
    load, work = pair(device)
    buffers, free = [device.empty(N), device.empty(N)], [device.create_event(), device.create_event()]
    for step in range(6):
        if right:
            load.wait(free[step % 2])
        load.copy(buffers[step % 2], ONES)
        work.wait(load.record())
        work.copy(device.empty(N), buffers[step % 2])
        work.record(free[step % 2])
    await device.wait()


# ---- the null stream


@program
async def nonblocking_beside_the_null_stream(device: atops.Device, right: bool) -> None:
    stream = device.create_stream(nonblocking=not right)
    x = device.empty(N)
    stream.fill(x, 1.0)
    device.null_stream.fill(x, 2.0)
    await device.wait()


@program
async def nonblocking_after_the_null_stream(device: atops.Device, right: bool) -> None:
    stream = device.create_stream(nonblocking=not right)
    x = device.empty(N)
    device.null_stream.fill(x, 1.0)
    stream.fill(x, 2.0)
    await device.wait()


@program
async def ordered_by_the_null_stream(device: atops.Device, right: bool) -> None:
    one, two = pair(device)
    x = device.empty(N)
    one.fill(x, 1.0)
    if right:
        device.null_stream.fill(device.empty(4), 1.0)
    two.fill(x, 2.0)
    await device.wait()


# ---- what the host waits for


def host_wait(wait: Callable[[Any, atops.Stream], Any], name: str) -> None:
    async def waits(device: atops.Device, right: bool) -> None:
        one, two = pair(device)
        x = device.empty(N)
        item = one.fill(x, 1.0)
        if right:
            found = wait(item, one)
            if found is not None:
                await found
        two.fill(x, 2.0)
        await device.wait()

    PROGRAMS[f"host_{name}"] = waits


async def polled(thing: Any) -> None:
    while not thing():  # polling is what is tried
        await checkpoint()


async def called_back(item: Any) -> None:
    over = anyio.Event()
    item.add_done_callback(lambda _: over.set())
    await over.wait()


async def left(stream: atops.Stream) -> None:
    async with stream:
        pass


HOST_WAITS: dict[str, Callable[[Any, atops.Stream], Any]] = {
    "await_completion": lambda item, _: item,
    "await_stream": lambda _, stream: stream,
    "join": lambda _, stream: stream.join(),
    "aclose": lambda _, stream: stream.aclose(),
    "block": lambda _, stream: left(stream),
    "event": lambda _, stream: stream.record(),
    "device": lambda _, stream: stream.device.wait(),
    "done": lambda item, _: polled(item.done),
    "is_done": lambda item, _: polled(lambda: item.is_done),
    "state": lambda item, _: polled(lambda: item.state == "done"),
    "stream_is_done": lambda _, stream: polled(lambda: stream.is_done),
    "qsize": lambda _, stream: polled(lambda: stream.qsize() == 0),
    "device_is_idle": lambda _, stream: polled(lambda: stream.device.is_idle),
    "done_callback": lambda item, _: called_back(item),
    "later_command": lambda _, stream: stream.fill(stream.device.empty(4), 1.0),
    "fetch": lambda _, stream: stream.fetch(stream.device.zeros(4)),
    "record_of_a_waiting_stream": lambda item, _: waited_elsewhere(item),
}


async def waited_elsewhere(item: Any) -> None:
    other = item.stream.device.create_stream()
    other.wait(item)
    await other


for _name, _wait in HOST_WAITS.items():
    host_wait(_wait, _name)


BLOCKING: dict[str, Callable[[Any, atops.Stream], object]] = {
    "wait_sync": lambda item, _: item.wait_sync(),
    "result_with_timeout": lambda item, _: item.result(None),
    "exception_with_timeout": lambda item, _: item.exception(None),
    "stream_sync": lambda _, stream: stream.sync(),
    "event_sync": lambda _, stream: stream.record().sync(),
    "event_result": lambda _, stream: stream.record().result(timeout=None),
    "device_sync": lambda _, stream: stream.device.sync(),
    "null_stream_sync": lambda _, stream: stream.device.null_stream.sync(),
}


# ---- tasks, calls, awaitables


@program
async def two_tasks(device: atops.Device, right: bool) -> None:
    one, two = pair(device)
    x = device.empty(N)
    done = anyio.Event()

    async def produce() -> None:
        item = one.fill(x, 1.0)
        if right:
            await item
        done.set()

    async with anyio.create_task_group() as group:
        group.start_soon(produce)
        await done.wait()
        two.fill(x, 2.0)
    await device.wait()


@program
async def a_call_that_enqueues(device: atops.Device, right: bool) -> None:
    one, two = pair(device)
    x = device.empty(N)
    if right:
        one.fill(x, 1.0)
    one.call(lambda: two.fill(x, 2.0) and None)
    if not right:
        one.fill(x, 1.0)
    await one
    await device.wait()


@program
async def a_stream_that_waits_for_a_coroutine(device: atops.Device, right: bool) -> None:
    one, two = pair(device)
    x = device.empty(N)
    item = one.fill(x, 1.0)

    async def over() -> None:
        if right:
            await item

    two.wait(over())
    two.fill(x, 2.0)
    await device.wait()


@program
async def a_coroutine_in_a_stream(device: atops.Device, right: bool) -> None:
    one, two = pair(device)
    x = device.empty(N)
    item = one.fill(x, 1.0)

    async def over() -> None:
        if right:
            await item

    two.create_task(over())
    two.fill(x, 2.0)
    await device.wait()


# ---- values


@program
async def a_value_that_is_written_too_early(device: atops.Device, right: bool) -> None:
    one, two = pair(device)
    x, word = device.empty(N), device.zeros(1, np.uint32)
    if not right:
        one.write_value(word, 1)
    one.fill(x, 1.0)
    if right:
        one.write_value(word, 1)
    two.wait_value(word, 1)
    two.fill(x, 2.0)
    await device.wait()


@program
async def a_ring_that_is_filled_again_too_early(device: atops.Device, right: bool) -> None:
    """The producer is far ahead by luck: what the consumer's wait has seen is more than what it waits for."""
    one, two = pair(device)
    slots, words = device.zeros((2, 4)), device.zeros(2, np.uint32)
    await device.wait()
    filled, taken = words[:1], words[1:]
    for turn in range(12):
        if right and turn >= 2:
            one.wait_value(taken, turn - 1)
        one.fill(slots[turn % 2], 1.0)
        one.write_value(filled, turn + 1)
    for turn in range(12):
        two.wait_value(filled, turn + 1)
        two.copy(device.empty(4), slots[turn % 2])
        two.write_value(taken, turn + 1)
    await device.wait()


@k.kernel
async def fills(slot: k.Span[np.float32], filled: np.int32, taken: np.int32, right: bool) -> None:
    for turn in range(4):
        if right:
            await k.signal_wait(taken, turn)
        slot[0] = turn
        k.signal_write(filled, turn + 1)


@k.kernel
async def takes(slot: k.Span[np.float32], out: k.Span[np.float32], filled: np.int32, taken: np.int32) -> None:
    for turn in range(4):
        await k.signal_wait(filled, turn + 1)
        out[turn] = slot[0]
        k.signal_write(taken, turn + 1)


@program
async def a_slot_that_a_kernel_fills_again_too_early(device: atops.Device, right: bool) -> None:
    """Two kernels that run at once, with signals: the first is far ahead by luck."""
    one, two = pair(device)
    filled, taken = device.signals.allocate(), device.signals.allocate()
    slot, out = device.zeros(1), device.zeros(4)
    await device.wait()
    one.launch(fills, (1, 1), slot, filled, taken, right)
    two.launch(takes, (1, 1), slot, out, filled, taken)
    await device.wait()


@program
async def a_wait_that_what_was_there_has_ended(device: atops.Device, right: bool) -> None:
    """The word is 0 before anything is written, and that is what is waited for."""
    one, two = pair(device)
    x, word = device.zeros(4), device.zeros(1, np.uint32)
    await device.wait()
    one.fill(x, 1.0)
    one.write_value(word, 1)
    two.wait_value(word, 1 if right else 0)
    two.fill(x, 2.0)
    await device.wait()


@program
async def a_value_that_a_copy_writes(device: atops.Device, right: bool) -> None:
    one, two = pair(device)
    x, word = device.empty(N), device.zeros(1, np.uint32)
    if right:
        one.fill(x, 1.0)
    one.copy(word, np.ones(1, np.uint32))
    if not right:
        one.fill(x, 1.0)
    two.wait_value(word, 1)
    two.fill(x, 2.0)
    await device.wait()


@program
async def a_word_that_is_cleared_by_another_stream(device: atops.Device, right: bool) -> None:
    one, two = pair(device)
    word = two.zeros(1, np.uint32)
    if right:
        one.wait(two)
    one.write_value(word, 1)
    await one
    await two


# ---- memory


@program
async def freed_while_in_use(device: atops.Device, right: bool) -> None:
    one, two = pair(device)
    x = one.zeros(N)
    two.wait(one)
    two.fill(x, 1.0)
    if right:
        one.wait(two)
    one.free(x)
    await over(one, two)


@program
async def used_before_it_is_allocated(device: atops.Device, right: bool) -> None:
    one, two = pair(device)
    x = one.empty(N)
    if right:
        two.wait(one)
    two.fill(x, 1.0)
    await device.wait()


@program
async def freed_by_another_stream(device: atops.Device, right: bool) -> None:
    one, two = pair(device)
    x = one.zeros(N)
    if right:
        two.wait(one)
    two.free(x)
    await over(one, two)


@program
async def memory_of_the_device_freed_by_another_stream(device: atops.Device, right: bool) -> None:
    one, two = pair(device)
    x = device.zeros(N)
    one.fill(x, 1.0)
    if right:
        two.wait(one)
    two.free(x)
    await over(one, two)


@program
async def used_where_it_was_uploaded(device: atops.Device, right: bool) -> None:
    one, two = pair(device)
    x = one.upload(ONES)
    if right:
        two.wait(one)
    host = two.fetch(x)
    await device.wait()
    await host


@program
async def a_reduction_of_what_another_stream_writes(device: atops.Device, right: bool) -> None:
    from atops import tops

    one, two = pair(device)
    x, y, z = device.zeros(N), device.zeros(N), device.zeros(N)
    await device.wait()
    one.fill(x, 1.0)
    if right:
        two.wait(one)
    two.copy(z, x)
    two.copy(y, z)
    assert tops
    await device.wait()


# ---- kernels


@k.kernel
def double(y: k.Span[np.float32], x: k.Span[np.float32]) -> None:
    at = k.blockIdx.x * 4 + k.threadIdx.x
    y[at] = x[at] * 2


@k.kernel
def told(x: k.Span[np.float32], word: k.Span[np.uint32]) -> None:
    x[0] = 5
    word[0] = 1


@k.kernel
async def polls(x: k.Span[np.float32], word: k.Span[np.uint32], declared: bool) -> None:
    while declared:
        with k.relaxed("a word that the stream writes"):
            if word[0]:
                break
        await k.syncthreads()
    while not declared and not word[0]:
        await k.syncthreads()
    x[0] += 1


@program
async def a_kernel_that_polls_a_word(device: atops.Device, right: bool) -> None:
    """What it uses behind the word is in order with what came before the write, either way."""
    one, two = pair(device)
    x, word = device.zeros(8), device.zeros(1, np.uint32)
    await device.wait()
    two.launch(polls, (1, 1), x, word, right)
    one.fill(x, 2.0)
    one.write_value(word, 1)
    await device.wait()


@program
async def a_kernel_that_polls_a_word_that_comes_too_early(device: atops.Device, right: bool) -> None:
    one, two = pair(device)
    x, word = device.zeros(8), device.zeros(1, np.uint32)
    await device.wait()
    two.launch(polls, (1, 1), x, word, True)
    if right:
        one.fill(x, 2.0)
    one.write_value(word, 1)
    if not right:
        one.fill(x, 2.0)
    await device.wait()


@program
async def a_kernel_beside_a_copy(device: atops.Device, right: bool) -> None:
    one, two = pair(device)
    x, y = device.zeros(8), device.zeros(8)
    await device.wait()
    one.copy(x, ONES[:8])
    if right:
        two.wait(one)
    two.launch(double, (2, 4), y, x)
    await device.wait()


@program
async def a_copy_of_what_a_kernel_makes(device: atops.Device, right: bool) -> None:
    one, two = pair(device)
    x, y = device.zeros(8), device.zeros(8)
    await device.wait()
    item = one.launch(double, (2, 4), y, x)
    if right:
        await item
    host = two.fetch(y)
    await device.wait()
    await host


@program
async def two_kernels_on_overlapping_parts(device: atops.Device, right: bool) -> None:
    one, two = pair(device)
    x, y = device.zeros(12), device.zeros(12)
    await device.wait()
    one.launch(double, (1, 4), y[:4], x)
    two.launch(double, (1, 4), y[4:8] if right else y[3:7], x)
    await device.wait()


@program
async def two_kernels_that_read_the_same(device: atops.Device, right: bool) -> None:
    one, two = pair(device)
    x, y, z = device.zeros(8), device.zeros(8), device.zeros(8)
    await device.wait()
    one.launch(double, (2, 4), y, x)
    two.launch(double, (2, 4), z, x if right else y)
    await device.wait()


@program
async def a_kernel_touches_less_than_it_is_given(device: atops.Device, right: bool) -> None:
    one, two = pair(device)
    x, y = device.zeros(64), device.zeros(64)
    await device.wait()
    one.launch(double, (1, 4), y, x)
    two.fill(y[4:] if right else y[3:], 1.0)
    await device.wait()


@program
async def freed_while_a_kernel_uses_it(device: atops.Device, right: bool) -> None:
    one, two = pair(device)
    x, y = one.zeros(8), one.zeros(8)
    two.wait(one)
    two.launch(double, (2, 4), y, x)
    if right:
        one.wait(two)
    one.free(x)
    one.free(y)
    await over(one, two)


@program
async def a_value_that_a_kernel_writes(device: atops.Device, right: bool) -> None:
    one, two = pair(device)
    x, word = device.zeros(1), device.zeros(1, np.uint32)
    await device.wait()
    one.launch(told, (1, 1), x, word)
    if right:
        two.wait_value(word, 1)
    two.fill(x, 2.0)
    await device.wait()


@k.kernel
async def told_by_signal(x: k.Span[np.float32], signal: int) -> None:
    x[0] = 5
    k.signal_write(signal, 1)


@k.kernel
async def waits_for_signal(x: k.Span[np.float32], signal: int, waits: bool) -> None:
    if waits:
        await k.signal_wait(signal, 1)
    x[0] = 6


@program
async def a_signal_between_launches(device: atops.Device, right: bool) -> None:
    one, two = pair(device)
    x, signal = device.zeros(1), device.signals.allocate()
    await device.wait()
    two.launch(waits_for_signal, (1, 1), x, signal, right)
    one.launch(told_by_signal, (1, 1), x, signal)
    await device.wait()


@k.kernel
async def gives(x: k.Span[np.float32], signal: int, right: bool) -> None:
    """The block stores, and one thread says so: in the wrong one before the last thread has."""
    me = k.threadIdx.x
    if right or me < 3:
        x[me] = me
    await k.syncthreads()
    if me == 0:
        k.signal_write(signal, 1)
    if not right:
        await k.syncthreads()
        if me == 3:
            x[me] = me


@program
async def a_signal_before_the_last_of_the_data(device: atops.Device, right: bool) -> None:
    one, two = pair(device)
    x, y, signal = device.zeros(4), device.zeros(1), device.signals.allocate()
    await device.wait()
    two.launch(take_when_told, (1, 1), y, x, signal)
    one.launch(gives, (1, 4), x, signal, right)
    await device.wait()


@k.kernel
async def take_when_told(y: k.Span[np.float32], x: k.Span[np.float32], signal: int) -> None:
    await k.signal_wait(signal, 1)
    y[0] = np.sum(x)


@k.kernel
async def take_by_dte(y: k.Span[np.float32], x: k.Span[np.float32], signal: int, done: int, right: bool) -> None:
    """Load by DTE, and say that it is done: in the wrong one while the load is under way."""
    tile = k.local(4, np.float32)
    with k.dte_scope() as dte:
        await k.signal_wait(signal, 1)
        event = k.memcpy_async(dte, tile, x)
        if right:
            await event
        k.signal_write(done, 1)
        await event
    y[0] = np.sum(tile)


@k.kernel
async def give_twice(x: k.Span[np.float32], signal: int, done: int) -> None:
    x[:] = 1
    k.signal_write(signal, 1)
    await k.signal_wait(done, 1)
    x[:] = 2


@program
async def a_source_given_back_while_it_is_read(device: atops.Device, right: bool) -> None:
    one, two = pair(device)
    x, y, signals = device.zeros(4), device.zeros(1), [device.signals.allocate() for _ in range(2)]
    await device.wait()
    two.launch(take_by_dte, (1, 1), y, x, *signals, right)
    one.launch(give_twice, (1, 1), x, *signals)
    await device.wait()


@k.kernel
async def take_too_early(y: k.Span[np.float32], x: k.Span[np.float32], signal: int, right: bool) -> None:
    if not right:
        y[0] = np.sum(x)
    await k.signal_wait(signal, 1)
    if right:
        y[0] = np.sum(x)


@program
async def a_load_before_the_wait_for_a_signal(device: atops.Device, right: bool) -> None:
    one, two = pair(device)
    x, y, signal = device.zeros(4), device.zeros(1), device.signals.allocate()
    await device.wait()
    two.launch(take_too_early, (1, 1), y, x, signal, right)
    one.launch(gives, (1, 4), x, signal, True)
    await device.wait()


@program
async def the_host_writes_a_signal(device: atops.Device, right: bool) -> None:
    one, two = pair(device)
    x, signal = device.zeros(1), device.signals.allocate()
    await device.wait()
    two.launch(waits_for_signal, (1, 1), x, signal, True)
    item = one.fill(x, 1.0)
    if right:
        await item
    device.signals.write(signal, 1)
    await device.wait()


@program
async def the_host_polls_a_word(device: atops.Device, right: bool) -> None:
    one, two = pair(device)
    x, word = device.zeros(N), device.zeros(1, np.uint32)
    await device.wait()
    if not right:
        one.write_value(word, 1)
    one.fill(x, 1.0)
    if right:
        one.write_value(word, 1)
    while (await two.fetch(word))[0] != 1:
        await checkpoint()
    two.fill(x, 2.0)
    await device.wait()


# ---- the host's own arrays


@program
async def a_source_that_is_written_in_flight(device: atops.Device, right: bool) -> None:
    one, _ = pair(device)
    host = np.ones(BIG, np.float32)
    item = one.copy(device.empty(BIG), host)
    if right:
        await item
    host[5000:5003] = 2.0
    await one


@program
async def a_source_that_another_stream_fetches_to(device: atops.Device, right: bool) -> None:
    one, two = pair(device)
    host, x = np.ones(BIG, np.float32), device.zeros(BIG)
    await device.wait()
    one.copy(device.zeros(BIG), host)
    if right:
        two.wait(one)
    two.copy(host, x)
    await device.wait()


@program
async def two_fetches_to_one_array(device: atops.Device, right: bool) -> None:
    one, two = pair(device)
    host, x = np.ones(N, np.float32), device.zeros(N)
    await device.wait()
    one.copy(host[:20], x[:20])
    two.copy(host[20:40] if right else host[19:39], x[:20])
    await device.wait()


# ---- devices


@program
async def a_copy_between_devices(device: atops.Device, right: bool) -> None:
    other = atops.Device(1, device.driver)
    one, two = device.create_stream(name="one"), other.create_stream(name="two")
    x, y = device.empty(N), other.empty(N)
    one.fill(x, 1.0)
    if right:
        two.wait(one.record())
    two.copy(y, x)
    await device.wait()
    await other.wait()


@program
async def the_target_on_another_device(device: atops.Device, right: bool) -> None:
    other = atops.Device(1, device.driver)
    one, two = device.create_stream(name="one"), other.create_stream(name="two")
    x, y = device.zeros(N), other.empty(N)
    await device.wait()
    item = one.copy(y, x)
    if right:
        await item
    two.fill(y, 2.0)
    await device.wait()
    await other.wait()


@program
async def only_one_device_was_waited_for(device: atops.Device, right: bool) -> None:
    other = atops.Device(1, device.driver)
    one, two = device.create_stream(name="one"), other.create_stream(name="two")
    x = device.empty(N)
    two.copy(x, other.empty(N))
    await (other if right else device).wait()
    one.fill(x, 2.0)
    await device.wait()
    await other.wait()


# ---- how they are run

SEEDS = (None, 0, 1, 2, 3, 4, 5)


def found_inline(name: str, right: bool, seed: int | None, **options: Any) -> atops.Report:
    async def main() -> atops.Report:
        device = atops.Device(0)
        await PROGRAMS[name](device, right)
        return device.driver.report()

    return atops.run(main, atops.EmulatorOptions(detect=True, devices=2, seed=seed, **options))


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_bug_is_named_under_every_seed_and_its_twin_is_silent(name: str) -> None:
    """Inline, at the first run: whatever order the seed chooses, what is not ordered is named, and nothing else."""
    for seed in SEEDS:
        wrong, right = found_inline(name, False, seed), found_inline(name, True, seed)
        assert wrong.verdict == "race", f"seed {seed}"
        assert not right.races, f"seed {seed}: {right}"
        assert right.verdict == "clean"


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_same_where_threads_run(name: str, backend: str) -> None:
    """With a driver's own threads, under both loops."""

    async def found(right: bool) -> atops.Report:
        async with atops.Driver(atops.EmulatorOptions(detect=True, devices=2)) as driver:
            await PROGRAMS[name](atops.Device(0), right)
            return driver.report()

    if name != "a_call_that_enqueues":  # whether its call comes before the next line is for the threads to say
        assert anyio.run(found, False, backend=backend).verdict == "race"
    assert not (report := anyio.run(found, True, backend=backend)).races, report


def test_a_command_that_ends_while_it_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program has seen the end where `is_done` answers so, though the command ran when it began to look."""
    with board(detect=True) as driver:
        device = atops.Device(0, driver)
        one, two = pair(device)
        x, gate = device.empty(N), threading.Event()
        one.call(gate.wait)
        item = one.fill(x, 1.0)

        def end(asked: Any) -> None:
            gate.set()
            while not item.over:  # which counts as no question
                time.sleep(0.001)

        monkeypatch.setattr(board_of(driver), "asked_in_vain", end)
        assert item.is_done
        two.fill(x, 2.0).wait_sync()
        assert not driver.report().races


@pytest.mark.parametrize("wait", BLOCKING.values(), ids=BLOCKING)
@pytest.mark.parametrize("inline", [False, True])
def test_every_blocking_wait_is_an_edge(wait: Callable[[Any, atops.Stream], object], inline: bool) -> None:
    """What plain code enqueues after it has blocked comes after what it waited for."""

    def enqueue(device: atops.Device, right: bool) -> atops.Report:
        one, two = pair(device)
        x = device.empty(N)
        item = one.fill(x, 1.0)
        if right:
            wait(item, one)
        two.fill(x, 2.0)
        device.sync()
        return device.driver.report()

    async def main(right: bool) -> atops.Report:
        return enqueue(atops.Device(0), right)

    options = atops.EmulatorOptions(detect=True)
    for right, verdict in ((False, "race"), (True, "clean")):
        if inline:
            report = atops.run(main, options, right)
        else:
            with_threads = atops.Driver(options)
            report = enqueue(atops.Device(0, with_threads), right)
            with_threads.close()
        assert report.verdict == verdict, report


def test_waits_of_other_libraries_are_edges() -> None:
    """asyncio.wait, gather, as_completed, wrap_future, and concurrent.futures in plain code."""

    async def waited(how: Callable[[Any], Any]) -> atops.Report:
        async with atops.Driver(atops.EmulatorOptions(detect=True)) as driver:
            one, two = pair(atops.Device(0))
            x = atops.Device(0).empty(N)
            item = one.fill(x, 1.0)
            await how(item)
            two.fill(x, 2.0)
            await two
            return driver.report()

    async def first(item: Any) -> None:
        for each in asyncio.as_completed([item]):
            await each

    ways: tuple[Callable[[Any], Any], ...] = (
        lambda item: asyncio.wait({item}), lambda item: asyncio.gather(item), first, asyncio.wrap_future,
        lambda item: asyncio.wait_for(item, 60), lambda item: asyncio.create_task(item.wait()),
    )  # fmt: skip
    for how in ways:
        assert not (report := asyncio.run(waited(how))).races, report


def test_a_thread_of_the_program_is_the_host_too() -> None:
    """One thread waits, and tells another by an event of its own: what that one enqueues comes after."""
    driver = atops.Driver(atops.EmulatorOptions(detect=True))
    device = atops.Device(0, driver)
    one, two = pair(device)
    x, over = device.empty(N), threading.Event()
    item = one.fill(x, 1.0)

    def wait() -> None:
        item.wait_sync()
        over.set()

    thread = threading.Thread(target=wait)
    thread.start()
    over.wait()
    two.fill(x, 2.0)
    device.sync()
    thread.join()
    assert driver.report().verdict == "clean"
    driver.close()


def test_a_changed_source_says_which_bytes() -> None:
    """Pages of it, and the line of the copy: which line changed them is not known."""
    report = found_inline("a_source_that_is_written_in_flight", False, None)
    (race,) = report.races
    assert race.kind == "host memory changed in flight" and race.ranges == ((16384, 20480),)
    assert race.second.site is not None and race.first.site is None and race.device == -1


def _buffer(kind: str) -> Any:
    """Return writable memory that is no array of numpy's."""
    match kind:
        case "bytearray":
            return bytearray(4 * BIG)
        case "array":
            return array("B", bytes(4 * BIG))
        case "mmap":
            return mmap(-1, 4 * BIG)
        case _:
            return np.frombuffer(bytearray(4 * BIG), np.uint8)


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("kind", ["bytearray", "array", "mmap", "frombuffer"])
def test_a_source_of_another_kind_is_looked_at(kind: str, right: bool) -> None:
    """What has the buffer protocol and may know no weak references."""

    async def main() -> None:
        async with atops.Device(0).create_stream() as stream:
            host = _buffer(kind)
            item = stream.copy(atops.Device(0).allocate(4 * BIG), host)
            if right:
                await item
            host[5000:5003] = b"abc" if kind in ("bytearray", "mmap") else array("B", b"abc")
            await stream

    atops.run(main, atops.EmulatorOptions(detect=True))
    assert [race.kind for race in atops.report().races] == ([] if right else ["host memory changed in flight"])


def test_a_source_is_not_kept() -> None:
    """What was uploaded is let go of as soon as its copy is over, though the host never waited for it."""

    async def main() -> None:
        stream = atops.Device(0).create_stream()
        host = np.ones(BIG, np.float32)
        gone = weakref.ref(host)
        stream.copy(atops.Device(0).empty(BIG), host)
        del host
        while gone() is not None:  # noqa: ASYNC110  # nothing tells
            await asyncio.sleep(0)

    atops.run(main, atops.EmulatorOptions(detect=True))


def test_a_target_is_poisoned_until_it_is_over() -> None:
    """In strict mode what is read too early is 0xA5; the source of an earlier copy is left alone."""

    async def main() -> None:
        device = atops.Device(0)
        stream = device.create_stream()
        host, x = np.ones(N, np.float32), device.zeros(N)
        await device.wait()
        item = stream.copy(host, x)
        assert (host.view(np.uint8) == 0xA5).all()
        await item
        assert not host.any()
        big, y = np.ones(BIG, np.float32), device.empty(BIG)
        stream.copy(y, big)
        stream.copy(big, y)
        await stream
        assert (big == 1).all()

    atops.run(main, atops.EmulatorOptions(strict=True))
    with pytest.raises(AssertionError):
        atops.run(main, atops.EmulatorOptions(detect=True))  # in strict mode alone


def test_in_strict_mode_the_later_command_fails() -> None:
    """With DataRace, which has the races; its stream skips what follows, frees run, and the driver goes on."""

    async def main() -> None:
        device = atops.Device(0)
        one, two = pair(device)
        x = device.empty(N)
        first, second = one.fill(x, 1.0), two.fill(x, 2.0)
        behind = [one.fill(device.empty(4), 1.0), two.fill(device.empty(4), 1.0)]
        failed = []
        for item in (first, second, *behind):
            try:
                await item
            except atops.errors.ExecutionError as error:
                failed.append(error)
        race, prior = failed
        assert isinstance(race, atops.DataRace) and len(race.races) == 1
        assert isinstance(prior, atops.errors.PriorLaunchFailure) and prior.__cause__ is not None
        for stream in (one, two):
            stream.clear_error()
        await device.wait()
        y = one.zeros(4)
        two.free(y)  # a race, too: it is freed all the same
        with pytest.raises(atops.DataRace):
            await over(one, two)
        assert not y.is_live

    for seed in (None, 1, 2):
        atops.run(main, atops.EmulatorOptions(strict=True, seed=seed))


def test_a_report_shows_itself() -> None:
    """As text, as a table and as JSON; where the detectors are off it says so."""
    report = found_inline("two_copies_to_one_buffer", False, None)
    text, page = str(report), report._repr_html_()
    lines = PROGRAMS["two_copies_to_one_buffer"].__code__.co_firstlineno
    for line in (lines + 4, lines + 7):
        assert f"test_seeded_bugs.py:{line}" in text and f"test_seeded_bugs.py:{line}" in page
    assert "one.record(); two.wait(event)" in text
    (race,) = json.loads(report.to_json())["races"]
    assert race["ranges"] == [[0, 4 * N]] and race["first"]["place"]["line"] == lines + 4
    with atops.Device(0, driver := atops.Driver()):
        assert atops.report().verdict == "inconclusive" and "detect=True" in str(atops.report())
    driver.close()


def test_a_race_is_logged_once_for_two_lines(caplog: pytest.LogCaptureFixture) -> None:
    """At once, by the logger atops.races, with the stream and the command as fields."""

    async def main() -> atops.Report:
        device = atops.Device(0)
        one, two = pair(device)
        for _ in range(5):
            x = device.empty(N)
            one.fill(x, 1.0)
            two.fill(x, 2.0)
        await device.wait()
        return device.driver.report()

    report = atops.run(main, atops.EmulatorOptions(detect=True))
    (record,) = [each for each in caplog.records if each.name == "atops.races"]
    assert len(report.races) == 1 and report.repeated == 4
    assert record.__dict__["stream"] == "two" and record.__dict__["command"] is not None


def test_a_deadlock_is_in_the_report() -> None:
    """Streams that wait for each other, or for a value that nothing writes: both sides with their lines."""

    async def main(right: bool) -> atops.Report:
        device = atops.Device(0)
        one, two = pair(device)
        words = device.zeros(2, np.uint32)
        await device.wait()
        if right:
            one.write_value(words[:1], 1)
        two.wait_value(words[:1], 1)
        two.write_value(words[1:], 1)
        one.wait_value(words[1:], 1)
        one.write_value(words[:1], 1)
        with suppress(atops.errors.WouldDeadlock):
            await one
        return device.driver.report()

    options = atops.EmulatorOptions(detect=True, clock="virtual")
    assert atops.run(main, options, True).verdict == "clean"
    (race,) = atops.run(main, options, False).races
    assert race.kind == "deadlock" and {race.first.actor, race.second.actor} == {"one", "two"}
    assert all(side.site is not None and "waits for a value" in side.what for side in (race.first, race.second))


def test_a_coroutine_that_awaits_its_own_stream_is_in_the_report() -> None:
    """With the command that waits for it."""

    async def main() -> atops.Report:
        device = atops.Device(0)
        one, _ = pair(device)

        async def itself() -> None:
            with suppress(atops.errors.WouldDeadlock):
                await one

        one.create_task(itself())
        await one.fill(device.empty(4), 1.0)
        return device.driver.report()

    (race,) = atops.run(main, atops.EmulatorOptions(detect=True)).races
    assert race.kind == "deadlock" and race.first.site is not None


def test_a_kernel_whose_threads_all_stand_is_in_the_report() -> None:
    """As its KernelDeadlock says it."""

    @k.kernel
    async def divergent() -> None:
        if k.threadIdx.x == 0:
            await k.syncthreads()

    async def main() -> atops.Report:
        device = atops.Device(0)
        item = device.create_stream().launch(divergent, (1, 2))
        with suppress(atops.errors.LaunchFailure):
            await item
        return device.driver.report()

    report = atops.run(main, atops.EmulatorOptions(detect=True))
    assert "deadlock" in [race.kind for race in report.races]


@pytest.mark.parametrize("workers", [1, "sip"])
def test_a_barrier_that_some_do_not_come_to_tells_what_each_did_last(workers: object) -> None:
    """The line of the last access of those that wait and of those that left."""

    @k.kernel
    async def divergent(x: k.Span[np.float32]) -> None:
        if k.threadIdx.x == 1:
            x[1] = 1  # left
            return
        if k.threadIdx.x == 2:
            with k.dte_scope() as ctx:
                await k.memcpy_async(ctx, x[4:8], x[8:12])  # moved
        if k.threadIdx.x >= 2:
            return
        x[0] = 2  # waits
        await k.syncthreads()

    async def main() -> str:
        async with atops.Driver(atops.EmulatorOptions(detect=True, workers=workers)) as driver:
            device = atops.Device(0, driver)
            one = device.create_stream()
            with suppress(atops.errors.LaunchFailure):
                await one.launch(divergent, (1, 4), one.zeros(N))
            (race,) = (race for race in driver.report().races if race.kind == "deadlock")
            return str(race)

    said, code = anyio.run(main), divergent.function.__code__
    lines, first = inspect.getsourcelines(code)
    at = {word: first + place for place, line in enumerate(lines) for word in ("left", "moved", "waits")
          if line.rstrip().endswith(f"# {word}")}  # fmt: skip
    assert f"thread 1 has left the kernel (last access: stores, test_seeded_bugs.py:{at['left']})" in said
    assert "thread 3 has left the kernel (no access to global or shared memory before)" in said
    assert f"last access: memcpy, test_seeded_bugs.py:{at['moved']}" in said
    assert f"last access: stores, test_seeded_bugs.py:{at['waits']}" in said


@pytest.mark.parametrize("held", [True, False])
def test_memory_that_no_reference_is_left_to_is_freed_behind_all_that_used_it(held: bool) -> None:
    """A command of another stream holds it until it is over; a free that the program writes comes when it comes."""

    async def main() -> atops.Report:
        device = atops.Device(0)
        one, two = pair(device)
        gate, array = one.zeros(1, np.uint32), one.upload(ONES)
        await one
        two.wait_value(gate, 1)
        two.fill(array, 3)
        if held:
            one.write_value(gate, 1)
            one.free(array)
        else:
            del array
            one.write_value(gate, 1)
        await over(one, two)
        return device.driver.report()

    report = atops.run(main, atops.EmulatorOptions(detect=True))
    assert bool(report.races) is held, str(report)


def test_memory_that_is_freed_under_a_launch_is_named_wherever_the_launch_stands() -> None:
    """Before it begins, before a thread has touched it, and later: in each order of the streams."""

    @k.kernel
    async def add(x: k.Span[np.float32]) -> None:
        x[k.threadIdx.x] += 1

    async def main() -> None:
        one, two = pair(atops.Device(0))
        x = one.zeros(N)
        await one
        two.launch(add, (1, 4), x)
        one.free(x)
        await over(one, two)

    for seed in range(20):
        atops.run(main, atops.EmulatorOptions(detect=True, schedule="random", seed=seed))
        (race,) = atops.report().races
        assert race.kind == "freed while in use" and {race.first.actor, race.second.actor} == {"one", "two"}
