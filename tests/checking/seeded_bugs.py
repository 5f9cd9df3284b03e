"""Programs with a bug that a schedule shows, each with its twin that has none: `BUGS`, by name.

Most say by an assertion what they expect; others deadlock, or the runtime refuses what they do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import atops
from atops import kernels as k

Program = Callable[..., Coroutine[Any, Any, object]]


class Bug(NamedTuple):
    """A program, its twin, and how it fails."""

    wrong: Program
    right: Program
    kind: str
    data_race: bool


BUGS: dict[str, Bug] = {}


def seeded(kind: str = "assertion", data_race: bool = True) -> Callable[[Program], Program]:
    """Keep a program that takes `right`: whether it is the twin."""

    def keep(program: Program) -> Program:
        name = program.__name__
        BUGS[name] = Bug(partial(program, False), partial(program, True), kind, data_race)
        return program

    return keep


# ---- tasks of the host


@seeded("deadlock", data_race=False)
async def locks_in_two_orders(right: bool) -> None:
    """Two tasks take two locks, one of them the other way round."""
    first, second = asyncio.Lock(), asyncio.Lock()

    async def take(one: asyncio.Lock, other: asyncio.Lock) -> None:
        async with one:
            await asyncio.sleep(0)
            async with other:
                pass

    await asyncio.gather(take(first, second), take(first, second) if right else take(second, first))


@seeded()
async def update_over_an_await(right: bool) -> None:
    """A counter is loaded, and stored after an await."""
    total, lock = [0], asyncio.Lock()

    async def add() -> None:
        value = total[0]
        await asyncio.sleep(0)
        total[0] = value + 1

    async def add_locked() -> None:
        async with lock:
            await add()

    await asyncio.gather(*(add_locked() if right else add() for _ in range(3)))
    assert total[0] == 3


@seeded("deadlock", data_race=False)
async def wake_up_before_the_wait(right: bool) -> None:
    """A condition is notified once, perhaps before the other task waits, which asks for no reason to wait."""
    condition, ready = asyncio.Condition(), []

    async def consume() -> None:
        async with condition:
            if right:
                await condition.wait_for(lambda: ready)
            else:
                await condition.wait()

    async def produce() -> None:
        async with condition:
            ready.append(1)
            condition.notify_all()

    await asyncio.gather(consume(), produce())


@seeded("deadlock", data_race=False)
async def event_cleared_too_late(right: bool) -> None:
    """An event is cleared between the look at the work and the wait, with a wake-up for new work in between."""
    event, work, done = asyncio.Event(), [], []

    async def consume() -> None:
        while len(done) < 2:
            if right:
                event.clear()
            if not work:
                await asyncio.sleep(0)
                if not right:
                    event.clear()
                await event.wait()
                continue
            done.append(work.pop())

    async def produce(item: int) -> None:
        await asyncio.sleep(0)
        work.append(item)
        event.set()

    await asyncio.gather(consume(), produce(1), produce(2))


@seeded("exception")
async def last_item_taken_twice(right: bool) -> None:
    """Two tasks see the last item, and both take it."""
    items = [1, 2, 3]

    async def take() -> None:
        while items:
            if not right:
                await asyncio.sleep(0)
            items.pop()
            await asyncio.sleep(0)

    await asyncio.gather(take(), take())


@seeded("deadlock", data_race=False)
async def full_stream_and_who_opens_it(right: bool) -> None:
    """What a coroutine in a stream waits for comes behind the wait for room in that stream."""
    gate = asyncio.Event()
    x = atops.Device(0).zeros(4)
    async with atops.Device(0).create_stream(capacity=2) as stream:
        stream.create_task(gate.wait())
        for _ in range(4):
            if right:
                gate.set()
            async with stream.room():
                stream.fill(x, 1)
        gate.set()
        await stream


@seeded()
async def made_twice(right: bool) -> None:
    """What is made at first use is made by two tasks."""
    cache, made, lock = {}, [], asyncio.Lock()

    async def get() -> object:
        if "value" not in cache:
            await asyncio.sleep(0)
            made.append(1)
            cache["value"] = object()
        return cache["value"]

    async def get_locked() -> object:
        async with lock:
            return await get()

    await asyncio.gather(*(get_locked() if right else get() for _ in range(3)))
    assert len(made) == 1


@seeded(data_race=False)
async def gathering_one_too_few(right: bool) -> None:
    """The meeting of three tasks opens when two are there."""
    arrived, opened, parts = [], asyncio.Event(), []

    async def work(part: int) -> None:
        await asyncio.sleep(0)
        parts.append(part)
        arrived.append(part)
        if len(arrived) >= (3 if right else 2):
            opened.set()
        await opened.wait()
        assert len(parts) == 3

    await asyncio.gather(*map(work, range(3)))


@seeded("deadlock", data_race=False)
async def full_queue_both_ways(right: bool) -> None:
    """Two tasks answer each other through queues of one place."""
    there, back = asyncio.Queue(1), asyncio.Queue(0 if right else 1)

    async def ask() -> None:
        for number in range(4):
            await there.put(number)
        for _ in range(4):
            await back.get()

    async def answer() -> None:
        for _ in range(4):
            await back.put(await there.get())

    await asyncio.gather(ask(), answer())


# ---- streams


@seeded()
async def stores_of_two_streams(right: bool) -> None:
    """Two streams fill the same word, and the program expects the second one's value."""
    device = atops.Device(0)
    async with device.create_stream() as one, device.create_stream() as two:
        word = device.zeros(1, np.int32)
        one.fill(word, 1)
        if right:
            two.wait(one)
        two.fill(word, 2)
        await one
        await two
        assert int((await one.fetch(word))[0]) == 2


@seeded()
async def copy_of_what_is_not_there_yet(right: bool) -> None:
    """A stream copies what another one fills."""
    device = atops.Device(0)
    async with device.create_stream() as one, device.create_stream() as two:
        source, target = device.zeros(8, np.int32), device.zeros(8, np.int32)
        one.fill(source, 7)
        if right:
            two.wait(one.record())
        two.copy(target, source)
        await one
        await two
        assert (await one.fetch(target)).tolist() == [7] * 8


@seeded()
async def event_recorded_too_early(right: bool) -> None:
    """The record stands before the last of the commands that it is to cover."""
    device = atops.Device(0)
    async with device.create_stream() as one, device.create_stream() as two:
        source, target = device.zeros(8, np.int32), device.zeros(8, np.int32)
        one.fill(source, 1)
        event = None if right else one.record()
        one.fill(source, 2)
        two.wait(one.record() if event is None else event)
        two.copy(target, source)
        await one
        await two
        assert (await two.fetch(target)).tolist() == [2] * 8


@seeded()
async def wait_for_the_wrong_stream(right: bool) -> None:
    """Three streams; the third waits for the first only, and needs both."""
    device = atops.Device(0)
    async with device.create_stream() as one, device.create_stream() as two, device.create_stream() as three:
        parts, target = device.zeros(2, np.int32), device.zeros(2, np.int32)
        one.fill(parts[:1], 1)
        two.fill(parts[1:], 2)
        three.wait(one)
        if right:
            three.wait(two)
        three.copy(target, parts)
        for stream in (one, two, three):
            await stream
        assert (await three.fetch(target)).tolist() == [1, 2]


@seeded()
async def host_reads_before_the_copy_is_over(right: bool) -> None:
    """The target of a copy is looked at after another stream's wait."""
    device = atops.Device(0)
    async with device.create_stream() as one, device.create_stream() as two:
        source, host = device.zeros(8, np.int32), np.zeros(8, np.int32)
        one.fill(source, 3)
        one.copy(host, source)
        await two.call(lambda: None)
        if right:
            await one
        assert host.tolist() == [3] * 8


@seeded()
async def source_rewritten_by_the_host(right: bool) -> None:
    """A row is sent, and written anew for the next one before it has gone."""
    device = atops.Device(0)
    async with device.create_stream() as stream:
        target, row = device.zeros((2, 4), np.int32), device.host_malloc((4,), np.int32)
        for number in range(2):
            row.array[:] = number + 1
            stream.copy(target[number], row)
            if right:
                await stream
            else:
                await asyncio.sleep(0)
        assert (await stream.fetch(target)).tolist() == [[1] * 4, [2] * 4]


@seeded()
async def sum_over_fetch_and_upload(right: bool) -> None:
    """Two tasks fetch a word, add one, and copy it back, each on a stream of its own."""
    device = atops.Device(0)
    async with device.create_stream() as one, device.create_stream() as two:
        word, lock = device.zeros(1, np.int32), asyncio.Lock()

        async def add(stream: atops.Stream) -> None:
            value = await stream.fetch(word)
            await stream.copy(word, value + 1)

        async def add_locked(stream: atops.Stream) -> None:
            async with lock:
                await add(stream)

        await asyncio.gather(*((add_locked if right else add)(each) for each in (one, two)))
        assert int((await one.fetch(word))[0]) == 2


@seeded()
async def value_written_before_the_data(right: bool) -> None:
    """The word that says "full" is written before the slot."""
    device = atops.Device(0)
    async with device.create_stream() as one, device.create_stream() as two:
        slot, word, target = device.zeros(4, np.int32), device.zeros(1, np.int32), device.zeros(4, np.int32)
        two.wait_value(word, 1, "Eq")
        two.copy(target, slot)
        if right:
            one.fill(slot, 5)
        one.write_value(word, 1)
        if not right:
            one.fill(slot, 5)
        await one
        await two
        assert (await two.fetch(target)).tolist() == [5] * 4


@seeded("deadlock", data_race=False)
async def values_in_a_circle(right: bool) -> None:
    """Each of two streams waits for the word that the other one writes after its own wait."""
    device = atops.Device(0)
    async with device.create_stream() as one, device.create_stream() as two:
        words = device.zeros(2, np.int32)
        if right:
            one.write_value(words[1:], 1)
        one.wait_value(words[:1], 1, "Eq")
        if not right:
            one.write_value(words[1:], 1)
        two.wait_value(words[1:], 1, "Eq")
        two.write_value(words[:1], 1)
        waits = [one.record().wait(), two.record().wait()]
        try:
            await asyncio.gather(*waits)
        finally:
            one.abort()
            two.abort()


@seeded()
async def coroutine_of_another_stream(right: bool) -> None:
    """A host coroutine in one stream's order reads what another stream's has not appended yet."""
    device, seen = atops.Device(0), []

    async def append(value: int) -> None:
        await asyncio.sleep(0)
        seen.append(value)

    async with device.create_stream() as one, device.create_stream() as two:
        one.create_task(append(1))
        if right:
            two.wait(one)
        two.create_task(append(2))
        await one
        await two
    assert seen == [1, 2]


# ---- kernels


@k.kernel
async def reversing(y: Any, x: Any, right: Any) -> None:
    row = k.shared(12, np.int32)
    row[k.threadIdx.x] = x[k.threadIdx.x]
    if right:
        await k.syncthreads()
    y[k.threadIdx.x] = row[11 - k.threadIdx.x]


@k.kernel
async def doubling(y: Any, right: Any) -> None:
    row = k.shared(4, np.int32)
    row[k.threadIdx.x] = k.threadIdx.x
    await k.syncthreads()
    for _ in range(2):
        left = row[(k.threadIdx.x + 1) % 4]
        if right:
            await k.syncthreads()
        row[k.threadIdx.x] = left
        await k.syncthreads()
    y[k.threadIdx.x] = row[k.threadIdx.x]


@k.kernel
async def adding_by_dte(x: Any, done: Any, right: Any) -> None:
    ctx = k.tops_dte_ctx_t()
    mine = k.local(1, np.int32)
    if right:
        await k.signal_wait(done, k.blockIdx.x * k.blockDim.x + k.threadIdx.x)
    with k.dte_scope(ctx):
        await k.memcpy_async(ctx, mine, x)
        mine[0] += 1
        await k.memcpy_async(ctx, x, mine)
    k.signal_add(done)


@k.kernel
async def overwriting_the_source(x: Any, right: Any) -> None:
    ctx = k.tops_dte_ctx_t()
    mine = k.local(4, np.int32)
    mine[:] = 1
    with k.dte_scope(ctx):
        event = k.memcpy_async(ctx, x, mine)
        if right:
            await event
        mine[:] = 2
        if not right:
            await event


@k.kernel
async def reading_the_target(y: Any, x: Any, right: Any) -> None:
    ctx = k.tops_dte_ctx_t()
    mine = k.local(4, np.int32)
    mine[:] = 0
    with k.dte_scope(ctx):
        event = k.memcpy_async(ctx, mine, x)
        if right:
            await event
        y[:4] = mine[:4] * 2
        if not right:
            await event


@k.kernel
async def signalling_first(y: Any, word: Any, flag: Any, right: Any) -> None:
    ctx = k.tops_dte_ctx_t()
    if k.threadIdx.x == 0:
        mine = k.local(1, np.int32)
        mine[0] = 9
        with k.dte_scope(ctx):
            if not right:
                k.signal_write(flag, 1)
            await k.memcpy_async(ctx, word, mine)
            k.signal_write(flag, 1)
    else:
        await k.signal_wait(flag, 1)
        y[0] = word[0]


@k.kernel
async def meeting_too_few(y: Any, right: Any) -> None:
    barrier = k.barrier(k.BarrierScope.SIP, 4 if right else 3)
    row = k.shared(4, np.int32)
    row[k.threadIdx.x] = 0
    await k.syncthreads()
    row[k.threadIdx.x] = 1
    token = barrier.arrive()
    if right or k.threadIdx.x < 3:
        await barrier.wait(token)
    y[k.threadIdx.x] = row[:].sum()


@k.kernel
async def waiting_for_each_other(right: Any) -> None:
    if right:
        k.signal_write(k.threadIdx.x, 1)
    await k.signal_wait(1 - k.threadIdx.x, 1)
    k.signal_write(k.threadIdx.x, 1)


@k.kernel
async def leaving_before_the_barrier(y: Any, right: Any) -> None:
    if k.threadIdx.x == 3 and not right:
        return
    await k.syncthreads()
    y[k.threadIdx.x] = 1


@k.kernel
async def taking_a_broken_lock(x: Any, lock: Any, ticket: Any, right: Any) -> None:
    ctx = k.tops_dte_ctx_t()
    mine, flag = k.local(1, np.int32), k.local(1, np.int32)
    with k.dte_scope(ctx):
        if right:
            await k.signal_wait(ticket, k.threadIdx.x)
        else:
            while True:
                await k.memcpy_async(ctx, flag, lock)
                if flag[0] == 0:
                    break
            flag[0] = 1
            await k.memcpy_async(ctx, lock, flag)
        await k.memcpy_async(ctx, mine, x)
        mine[0] += 1
        await k.memcpy_async(ctx, x, mine)
        flag[0] = 0
        await k.memcpy_async(ctx, lock, flag)
    k.signal_add(ticket)


async def launched(kernel: Any, config: Any, size: int, right: bool, *more: object) -> list[int]:
    """Run a kernel of `y`, and what else it takes; return what it leaves in `y`."""
    device = atops.Device(0)
    async with device.create_stream() as stream:
        y = device.zeros(size, np.int32)
        arguments = [device.zeros(1, np.int32) if each is None else each for each in more]
        stream.launch(kernel, config, y, *arguments, int(right))
        result: list[int] = (await stream.fetch(y)).tolist()
        return result


@seeded()
async def missing_barrier(right: bool) -> None:
    """A block reverses a row through shared memory."""
    device = atops.Device(0)
    async with device.create_stream() as stream:
        x, y = stream.upload(np.arange(12, dtype=np.int32)), device.zeros(12, np.int32)
        stream.launch(reversing, (1, 12), y, x, int(right))
        assert (await stream.fetch(y)).tolist() == list(range(11, -1, -1))


@seeded()
async def missing_second_barrier(right: bool) -> None:
    """A ring of four moves its values on; a store of the next round may come before a load of this one."""
    assert await launched(doubling, (1, 4), 4, right) == [2, 3, 0, 1]


@seeded()
async def update_lost_between_threads(right: bool) -> None:
    """Threads add to a word by way of their L1."""
    assert await launched(adding_by_dte, (1, 3), 1, right, 1) == [3]


@seeded()
async def update_lost_between_blocks(right: bool) -> None:
    """So do blocks."""
    assert await launched(adding_by_dte, (3, 1), 1, right, 1) == [3]


@seeded()
async def source_overwritten_in_flight(right: bool) -> None:
    """The source of a transfer is stored to before its wait."""
    assert await launched(overwriting_the_source, (1, 1), 4, right) == [1] * 4


@seeded()
async def target_read_too_early(right: bool) -> None:
    """The target of a transfer is read before its wait."""
    device = atops.Device(0)
    async with device.create_stream() as stream:
        x, y = stream.upload(np.full(4, 3, np.int32)), device.zeros(4, np.int32)
        stream.launch(reading_the_target, (1, 1), y, x, int(right))
        assert (await stream.fetch(y)).tolist() == [6] * 4


@seeded()
async def signal_before_the_data(right: bool) -> None:
    """A thread says that a word is there before its transfer is over."""
    assert await launched(signalling_first, (1, 2), 1, right, None, 2) == [9]


@seeded("deadlock", data_race=False)
async def counted_barrier_too_small(right: bool) -> None:
    """A barrier opens when three of four threads have arrived; the fourth waits for ever, if it is one that waits."""
    assert await launched(meeting_too_few, (1, 4), 4, right) == [4] * 4


@seeded("deadlock", data_race=False)
async def circle_of_signals(right: bool) -> None:
    """Two threads wait for the signal that the other one gives after its own wait."""
    device = atops.Device(0)
    async with device.create_stream() as stream:
        await stream.launch(waiting_for_each_other, (1, 2), int(right))


@seeded("deadlock", data_race=False)
async def early_exit(right: bool) -> None:
    """A thread leaves before the barrier of its block."""
    assert await launched(leaving_before_the_barrier, (1, 4), 4, right) == [1] * 4


@seeded()
async def broken_lock(right: bool) -> None:
    """A lock is looked at by one transfer, and taken by another one."""
    assert await launched(taking_a_broken_lock, (1, 3), 1, right, None, 3) == [3]
