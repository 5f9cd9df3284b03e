"""What learners write for the lessons' tasks: right in another way, or wrong and not by one missing wait.

Each is a lesson's number, how its check fails ("" where it passes), and the text.
"""

from __future__ import annotations

from atops.lessons.source import sources

__all__ = ("ATTEMPTS", "SLIPS")


def edited(name: str, what: str, old: str, new: str) -> str:
    """Return the solution of a lesson with one thing changed, named `what`. Raises ValueError where it is not once."""
    (solution,) = [each.text_of("solution").lstrip() for each in sources() if each.name == name]
    before, after = solution.split(old)
    return f"# {what}\n{before}{new}{after}"


ATTEMPTS: list[tuple[int, str, str]] = [
    (
        1,
        "not the task",
        """\
# host only
async def keep_history(device, board):
    return [row.copy() for row in board]
""",
    ),
    (
        2,
        "not the task",
        """\
# one stream
async def add_and_subtract(device, host_x, host_y):
    async with device.create_stream(name="left") as left:
        x, y, total, difference = (device.empty(host_x.size, np.float32) for _ in range(4))
        left.copy(x, host_x)
        left.copy(y, host_y)
        left.launch(add, (1, 4), total, x, y)
        left.launch(subtract, (1, 4), difference, x, y)
        return await left.fetch(total), await left.fetch(difference)
""",
    ),
    (
        2,
        "not the task",
        """\
# host await event
async def add_and_subtract(device, host_x, host_y):
    async with device.create_stream(name="left") as left, device.create_stream(name="right") as right:
        x, y, total, difference = (device.empty(host_x.size, np.float32) for _ in range(4))
        left.copy(x, host_x)
        right.copy(y, host_y)
        await left.record()
        await right.record()
        left.launch(add, (1, 4), total, x, y)
        right.launch(subtract, (1, 4), difference, x, y)
        return await left.fetch(total), await right.fetch(difference)
""",
    ),
    (
        3,
        "",
        """\
# taskgroup
import asyncio
async def roots(device, data):
    results = [None] * len(data)
    async def one(i):
        async with device.create_stream() as s:
            x = s.upload(data[i])
            s.launch(root, (1, 12), x)
            results[i] = await s.fetch(x)
    async with asyncio.TaskGroup() as tg:
        for i in range(len(data)):
            tg.create_task(one(i))
    return results
""",
    ),
    (
        3,
        "assertion",
        """\
# order lost
import asyncio
async def roots(device, data):
    results = []
    async def one(chunk):
        async with device.create_stream() as s:
            x = s.upload(chunk)
            s.launch(root, (1, 12), x)
            results.append(await s.fetch(x))
    await asyncio.gather(*[one(c) for c in data])
    return results
""",
    ),
    (
        3,
        "not the task",
        """\
# dummy small kernel host rest
async def roots(device, data):
    async with device.create_stream() as s:
        x = s.upload(data[0])
        s.launch(root, (1, 12), x)
        first = await s.fetch(x)
    return [first] + [np.sqrt(c) for c in data[1:]]
""",
    ),
    (
        3,
        "not the task",
        """\
# one kernel for all
async def roots(device, data):
    async with device.create_stream() as s:
        x = s.upload(data)
        s.launch(root, (1, 12), x.reshape(-1))
        return list(await s.fetch(x))
""",
    ),
    (
        4,
        "not the task",
        edited(
            "04_double_buffering",
            "two at once, then one after the other",
            "load.wait(saved[now])",
            "load.wait(save.record() if number > 1 else saved[now])",
        ),
    ),
    (
        4,
        "",
        """\
# free list
import asyncio
async def doubled(device, data):
    free = asyncio.Queue()
    for _ in range(2):
        free.put_nowait(device.empty(data.shape[1], np.float32))
    out = [None] * len(data)
    async def one(i):
        b = await free.get()
        async with device.create_stream() as s:
            s.copy(b, data[i])
            s.launch(double, (1, 4), b)
            out[i] = await s.fetch(b)
        free.put_nowait(b)
    await asyncio.gather(*(one(i) for i in range(len(data))))
    return out
""",
    ),
    (
        4,
        "not the task",
        """\
# three buffers all
async def doubled(device, data):
    async with device.create_stream() as load, device.create_stream() as compute, device.create_stream() as save:
        out = []
        for chunk in data:
            b = device.empty(data.shape[1], np.float32)
            load.copy(b, chunk)
            compute.wait(load.record())
            compute.launch(double, (1, 4), b)
            save.wait(compute.record())
            out.append(save.fetch(b))
        return [await o for o in out]
""",
    ),
    (
        4,
        "not the task",
        """\
# one stream
async def doubled(device, data):
    async with device.create_stream() as s:
        b = [device.empty(data.shape[1], np.float32) for _ in range(2)]
        out = []
        for i, c in enumerate(data):
            s.copy(b[i % 2], c)
            s.launch(double, (1, 4), b[i % 2])
            out.append(s.fetch(b[i % 2]))
        return [await o for o in out]
""",
    ),
    (
        5,
        "",
        """\
# leaving first, two tiles ahead
@k.kernel
async def triple(y, x, times_three):
    inputs, outputs = k.local((2, TILE), np.float32), k.local((2, TILE), np.float32)
    arriving, leaving = [k.event(), k.event()], [k.event(), k.event()]
    with k.dte_scope() as in0, k.dte_scope() as in1, k.dte_scope() as out0, k.dte_scope() as out1:
        reader, writer = (in0, in1), (out0, out1)
        tiles = list(k.tiles(x.size, TILE))
        for i, part in enumerate(tiles[:2]):
            arriving[i] = k.memcpy_async(reader[i], inputs[i, : x[part].size], x[part])
        for turn, part in enumerate(tiles):
            now, count = turn % 2, x[part].size
            await leaving[now]
            await arriving[now]
            times_three(outputs[now, :count], inputs[now, :count])
            leaving[now] = k.memcpy_async(writer[now], y[part], outputs[now, :count])
            for following in tiles[turn + 2 : turn + 3]:
                arriving[now] = k.memcpy_async(reader[now], inputs[now, : x[following].size], x[following])
        for each in leaving:
            await each
""",
    ),
    (
        5,
        "",
        """\
# three buffers, computed in place
import contextlib
@k.kernel
async def triple(y, x, times_three):
    buffers = k.local((3, TILE), np.float32)
    arriving, leaving = [k.event() for _ in range(3)], [k.event() for _ in range(3)]
    with contextlib.ExitStack() as stack:
        reader, writer = ([stack.enter_context(k.dte_scope()) for _ in range(3)] for _ in range(2))
        tiles = list(k.tiles(x.size, TILE))
        for turn in range(len(tiles) + 1):
            for coming in tiles[turn : turn + 1]:
                now = turn % 3
                await leaving[now]
                arriving[now] = k.memcpy_async(reader[now], buffers[now, : x[coming].size], x[coming])
            for part in tiles[turn - 1 : turn] if turn else ():
                now = (turn - 1) % 3
                tile = buffers[now, : x[part].size]
                await arriving[now]
                times_three(tile, tile)
                leaving[now] = k.memcpy_async(writer[now], y[part], tile)
        for each in leaving:
            await each
""",
    ),
    (
        5,
        "",
        """\
# a buffer for each tile
import contextlib
@k.kernel
async def triple(y, x, times_three):
    parts = list(k.tiles(x.size, TILE))
    with contextlib.ExitStack() as stack:
        tiles = [k.local(x[part].size, np.float32) for part in parts]
        engines = [stack.enter_context(k.dte_scope()) for part in parts]
        coming = [k.memcpy_async(*each) for each in zip(engines, tiles, [x[part] for part in parts])]
        going = []
        for engine, tile, part, event in zip(engines, tiles, parts, coming):
            await event.wait()
            times_three(tile, tile)
            going.append(k.memcpy_async(engine, y[part], tile))
        for event in going:
            await k.wait(event)
""",
    ),
    *(
        (
            5,
            kind,
            f"""\
# one thing after the other, {what}
@k.kernel
async def triple(y, x, times_three):
    tile, spare = k.local({size}, np.float32), k.local({size}, np.float32)
    spare[:] = 1
    with k.dte_scope() as dte:
        for part in k.tiles(x.size, {size}):
            n = x[part].size
            arriving = k.memcpy_async(dte, tile[:n], x[part])
            {before}
            await arriving
            {behind}
            await k.memcpy_async(dte, y[part], tile[:n])
""",
        )
        for kind, what, size, before, behind in (
            ("too slow", "as it is meant", "TILE", "pass", "times_three(tile[:n], tile[:n])"),
            ("assertion", "without times_three", "TILE", "pass", "tile[:n] *= 3"),
            ("assertion", "other numbers", "TILE", "times_three(spare[:n], spare[:n])", "tile[:n] *= 3"),
            ("exception", "large tiles", "8 * TILE", "pass", "times_three(tile[:n], tile[:n])"),
        )
    ),
    (
        5,
        "too slow",
        edited(
            "05_asynchronous_dma",
            "sent and waited for",
            "leaving[now] = k.memcpy_async(writer[now]",
            "await k.memcpy_async(writer[now]",
        ),
    ),
    (
        5,
        "exception",
        """\
# no dte
@k.kernel
async def triple(y, x, times_three):
    for part in k.tiles(x.size, TILE):
        y[part] = 3 * x[part]
""",
    ),
    (
        10,
        "not the task",
        """\
# nothing freed
async def rounds(device, data):
    async with device.create_stream(name="main") as main, device.create_stream(name="helper") as helper:
        results = []
        for row in data:
            x, y = main.empty(row.size, np.float32), main.empty(row.size, np.float32)
            main.copy(x, row)
            helper.wait(main.record())
            helper.launch(square_and_one, (1, 4), y, x)
            results.append(helper.fetch(y))
            main.wait(helper.record())
        return [await result for result in results]
""",
    ),
    (
        10,
        "",
        """\
# freed by the helper
async def rounds(device, data):
    async with device.create_stream(name="main") as main, device.create_stream(name="helper") as helper:
        results = []
        for row in data:
            x, y = main.empty(row.size, np.float32), main.empty(row.size, np.float32)
            main.copy(x, row)
            helper.wait(main.record())
            helper.launch(square_and_one, (1, 4), y, x)
            results.append(helper.fetch(y))
            helper.free(x)
            helper.free(y)
        return [await result for result in results]
""",
    ),
    (
        6,
        "never ends",
        """\
# spin shared
@k.kernel
async def add_up(sums, x):
    me, at = k.threadIdx.x, k.blockIdx.x * 8 + k.threadIdx.x
    page = k.shared(9, np.int32)
    page[me] = x[at] if at < x.size else 0
    page[8] += 1
    while page[8] < 8:
        pass
    if me == 0:
        sums[k.blockIdx.x] = sum(int(v) for v in page[:8])
""",
    ),
    (
        8,
        "",
        """\
# kernel
from atops import kernels as k
@k.kernel
def plus(cell, amount):
    if k.thread_id() == 0:
        cell[0] += amount
async def transfer(source, target, amount):
    source.stream.launch(plus, (1, 1), source.cell, -amount)
    target.stream.launch(plus, (1, 1), target.cell, amount)
""",
    ),
    (
        8,
        "",
        """\
# global lock
import asyncio
LOCK = asyncio.Lock()
async def transfer(source, target, amount):
    async with LOCK:
        await source.write(await source.read() - amount)
        await target.write(await target.read() + amount)
""",
    ),
    (
        8,
        "",
        """\
# polling
import asyncio
async def transfer(source, target, amount):
    while True:
        async with source.lock:
            if not target.lock.locked():
                async with target.lock:
                    await source.write(await source.read() - amount)
                    await target.write(await target.read() + amount)
                    return
        await asyncio.sleep(0)
""",
    ),
    (
        8,
        "deadlock",
        """\
# sleep between
import asyncio
async def transfer(source, target, amount):
    await asyncio.sleep(0.001 * amount)
    async with source.lock:
        held = await source.read()
        async with target.lock:
            await source.write(held - amount)
            await target.write(await target.read() + amount)
""",
    ),
    (
        8,
        "assertion",
        """\
# sleep no lock
import asyncio
async def transfer(source, target, amount):
    await asyncio.sleep(0.001 * amount)
    await source.write(await source.read() - amount)
    await target.write(await target.read() + amount)
""",
    ),
    (
        9,
        "",
        """\
# lockstep
async def hand_over(device, rows, slots):
    count, size = rows.shape
    source, result = await device.upload(rows), device.empty(rows.shape, np.int32)
    slot = device.empty((slots, size), np.int32)
    turn = device.zeros(1, np.int32)
    async with device.create_stream() as p, device.create_stream() as c:
        for n in range(count):
            p.wait_value(turn, 2 * n, "Eq")
            p.copy(slot[n % slots], source[n])
            p.write_value(turn, 2 * n + 1)
            c.wait_value(turn, 2 * n + 1, "Eq")
            c.copy(result[n], slot[n % slots])
            c.write_value(turn, 2 * n + 2)
        return await c.fetch(result)
""",
    ),
    (
        9,
        "not the task",
        """\
# all slots
async def hand_over(device, rows, slots):
    count, size = rows.shape
    source, result = await device.upload(rows), device.empty(rows.shape, np.int32)
    slot = device.empty((count, size), np.int32)
    filled = device.zeros(1, np.int32)
    async with device.create_stream() as p, device.create_stream() as c:
        for n in range(count):
            p.copy(slot[n], source[n])
            p.write_value(filled, n + 1)
        for n in range(count):
            c.wait_value(filled, n + 1, "Gte")
            c.copy(result[n], slot[n])
        return await c.fetch(result)
""",
    ),
    *(
        (
            9,
            "not the task",
            f"""\
# {what}
async def hand_over(device, rows, slots):
    count, size = rows.shape
    source, result = await device.upload(rows), device.empty(rows.shape, np.int32)
    slot = device.empty((slots, size), np.int32)
    async with device.create_stream() as p, device.create_stream() as c:
        for n in range(count):
            {fills}
            {empties}
        return await c.fetch(result)
""",
        )
        for what, fills, empties in (
            ("one stream", "c.copy(slot[n % slots], source[n])", "c.copy(result[n], slot[n % slots])"),
            ("awaits", "await p.copy(slot[n % slots], source[n])", "await c.copy(result[n], slot[n % slots])"),
        )
    ),
    (
        9,
        "race",
        """\
# uninitialised
async def hand_over(device, rows, slots):
    count, size = rows.shape
    source, result = await device.upload(rows), device.empty(rows.shape, np.int32)
    slot = device.empty((slots, size), np.int32)
    filled, taken = device.empty(1, np.int32), device.empty(1, np.int32)
    async with device.create_stream() as p, device.create_stream() as c:
        for n in range(count):
            p.wait_value(taken, n - slots + 1, "Gte")
            p.copy(slot[n % slots], source[n])
            p.write_value(filled, n + 1)
        for n in range(count):
            c.wait_value(filled, n + 1, "Gte")
            c.copy(result[n], slot[n % slots])
            c.write_value(taken, n + 1)
        return await c.fetch(result)
""",
    ),
    (
        11,
        "not the task",
        """\
# fill not launch
async def play(device, frames, size):
    async with device.create_stream() as left, device.create_stream() as right, device.create_stream() as count:
        x, y = left.empty((frames, size), np.int32), right.empty((frames, size), np.int32)
        firsts = count.empty((frames, 2), np.int32)
        for f in range(frames):
            left.fill(x[f], f)
            right.fill(y[f], 2 * f)
        count.wait(left.record()); count.wait(right.record())
        for f in range(frames):
            count.copy(firsts[f][:1], x[f][:1])
            count.copy(firsts[f][1:], y[f][:1])
        return await left.fetch(x), await right.fetch(y), await count.fetch(firsts)
""",
    ),
    (
        11,
        "not the task",
        """\
# gathered by the host
async def play(device, frames, size):
    async with device.create_stream() as left, device.create_stream() as right:
        x, y = left.empty((frames, size), np.int32), right.empty((frames, size), np.int32)
        for f in range(frames):
            left.launch(step, (1, 4), x[f], f)
            right.launch(step, (1, 4), y[f], 2 * f)
        a, b = await left.fetch(x), await right.fetch(y)
        return a, b, np.stack([a[:, 0], b[:, 0]], 1)
""",
    ),
    (
        12,
        "",
        """\
# workers
async def serve(device, pool, requests, batch):
    async def worker():
        while True:
            taken = [await requests.get()]
            try:
                while len(taken) < batch and not requests.empty():
                    taken.append(requests.get_nowait())
                async with device.create_stream() as s:
                    x = s.empty(6 * len(taken), np.int32, pool=pool)
                    s.copy(x, np.concatenate([n for n, _ in taken]))
                    s.launch(add_one, (1, 4), x)
                    got = await s.fetch(x)
                for (_, a), r in zip(taken, got.reshape(-1, 6)):
                    if not a.done():
                        a.set_result(r)
            finally:
                for _, a in taken:
                    a.cancel()
    try:
        async with asyncio.TaskGroup() as g:
            for _ in range(2):
                g.create_task(worker())
    finally:
        while not requests.empty():
            requests.get_nowait()[1].cancel()
""",
    ),
    (
        12,
        "not the task",
        """\
# one by one
async def serve(device, pool, requests, batch):
    waiting = []
    try:
        async with device.create_stream() as s:
            while True:
                waiting = []
                n, a = await requests.get()
                waiting = [a]
                x = s.empty(6, np.int32, pool=pool)
                s.copy(x, n)
                s.launch(add_one, (1, 4), x)
                got = s.fetch(x)
                s.free(x)
                r = await got
                if not a.done():
                    a.set_result(r)
    finally:
        for a in waiting:
            a.cancel()
        while not requests.empty():
            requests.get_nowait()[1].cancel()
""",
    ),
    (
        12,
        "assertion",
        """\
# not the pool
async def serve(device, pool, requests, batch):
    waiting = []
    try:
        async with device.create_stream() as s:
            while True:
                waiting = []
                taken = [await requests.get()]
                waiting = [taken[0][1]]
                while len(taken) < batch and not requests.empty():
                    taken.append(requests.get_nowait())
                    waiting.append(taken[-1][1])
                x = s.upload(np.concatenate([n for n, _ in taken]))
                s.launch(add_one, (1, 4), x)
                results = (await s.fetch(x)).reshape(-1, 6)
                for (_, a), r in zip(taken, results):
                    if not a.done():
                        a.set_result(r)
    finally:
        for a in waiting:
            a.cancel()
        while not requests.empty():
            requests.get_nowait()[1].cancel()
""",
    ),
    (
        12,
        "assertion",
        edited(
            "12_a_batching_service",
            "a place after the first of a batch",
            """\
                await places.acquire()
                taken = [await requests.get()]
""",
            """\
                taken = [await requests.get()]
                await places.acquire()
""",
        ),
    ),
    (
        12,
        "not the task",
        edited("12_a_batching_service", "all that there are", "len(taken) < batch and not requests", "not requests"),
    ),
]

# Slips that every learner makes, and words of the verdict that name them.
SLIPS: list[tuple[int, str, str]] = [
    (1, "is it an `async def`?", "def keep_history(device, board):\n    return list(board)\n"),
    (
        1,
        "not over after 20,000 steps; it came to slip.py:6 again and again",
        """\
async def keep_history(device, board):
    async with device.create_stream() as stream:
        x, history = stream.empty(board.shape[1], np.float32), []
        while len(history) < len(board):
            stream.copy(x, board[0])
            await stream.fetch(x)
""",
    ),
    (
        6,
        "asked for syncthreads at slip.py:5 and never awaited it; write `await`",
        """\
@k.kernel
async def add_up(sums, x):
    page, at = k.shared(8, np.int32), k.blockIdx.x * 8 + k.threadIdx.x
    page[k.threadIdx.x] = x[at] if at < x.size else 0
    k.syncthreads()
    if k.threadIdx.x == 0:
        sums[k.blockIdx.x] = page.sum()
    await k.syncthreads()
""",
    ),
    (
        6,
        "first served: deadlock: no thread can go on: kernel add_up",
        """\
@k.kernel
async def add_up(sums, x):
    if k.threadIdx.x < 4:
        await k.syncthreads()
""",
    ),
    (
        8,
        "`write()` at slip.py:4 was called and not awaited, so that it never ran: `await` it",
        """\
async def transfer(source, target, amount):
    first, second = sorted((source, target), key=lambda account: account.number)
    async with first.lock, second.lock:
        source.write(await source.read() - amount)
        await target.write(await target.read() + amount)
""",
    ),
    (
        6,
        "object tuple can't be used in 'await' expression (slip.py:4); kernels may only await kernel requests",
        """\
@k.kernel
async def add_up(sums, x):
    page = k.shared(8, np.int32)
    await (k.syncthreads(), page)
""",
    ),
    (
        5,
        "kernel triple: loads, at slip.py:6 in triple",  # and not in the judge, which computes
        """\
@k.kernel
async def triple(y, x, times_three):
    tile, part = k.local(TILE, np.float32), slice(0, TILE)
    with k.dte_scope() as dte:
        k.memcpy_async(dte, tile, x[part])
        times_three(tile, tile)
""",
    ),
    (
        8,
        "a run is blocked in a call that does not return, and lets nothing else go on; it was at slip.py:4",
        """\
import threading
LOCK = threading.Lock()
async def transfer(source, target, amount):
    with LOCK:
        await source.write(await source.read() - amount)
""",
    ),
    (12, "the service returned, and clients wait", "async def serve(device, pool, requests, batch):\n    pass\n"),
    (
        12,
        "was cancelled: `done()` says so",
        """\
async def serve(device, pool, requests, batch):
    while True:
        numbers, answer = await requests.get()
        await asyncio.sleep(0)
        answer.set_result(numbers + 1)
""",
    ),
    (8, "is it a `with` there?", "async def transfer(source, target, amount):\n    with source.lock:\n        pass\n"),
    (8, "nothing was written", "async def transfer(source, target, amount):\n    pass\n"),
    (
        2,
        "`()` is missing behind its name",
        "async def add_and_subtract(device, x, y):\n    device.null_stream.wait(device.null_stream.record)\n",
    ),
    (3, "The task has a `yield`", "async def roots(device, data):\n    yield data\n"),
    (10, "expected a list of 2 arrays, got None", "async def rounds(device, data):\n    pass\n"),
]
