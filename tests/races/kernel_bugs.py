"""Kernels with a race each, and their correct twins: one text, which takes `right` and then has what orders it.

The two lines that race are marked `# 1` and `# 2`; one that races with itself has both.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from atops import kernels as k

__all__ = ("BUGS", "UNWRITTEN", "Bug")

F = TypeVar("F", bound=Callable[..., Any])
SCOPE = next(iter(k.BarrierScope))
SHARED, GLOBAL, FLIGHT, CONTEXT = "race in shared", "race in global", "transfer in flight", "one DTE context"
UNWRITTEN = "read of unwritten memory"


@dataclass(frozen=True)
class Bug:
    """A kernel `kernel(out, right)`; `kind` is how the race's kind begins, `advice` what its advice speaks of."""

    name: str
    kernel: Any
    config: Any
    size: int
    kind: str
    advice: str

    def lines(self) -> set[int]:
        """Return the lines that race, in the file."""
        return {*self._line_of("1"), *self._line_of("2")}

    def advised(self) -> str:
        """Return what the advice speaks of, where {1} and {2} are the numbers of the lines."""
        return self.advice.format(0, *self._line_of("1"), *self._line_of("2"))

    def _line_of(self, mark: str) -> list[int]:
        text, first = inspect.getsourcelines(self.kernel.function)
        return [first + number for number, line in enumerate(text) if re.search(rf"# (1 )?{mark}\b", line)]


BUGS: dict[str, Bug] = {}


def bug(kind: str, advice: str, config: Any = (1, 12), size: int = 64, cooperative: bool = False) -> Callable[[F], F]:
    """Enter a kernel into the table."""

    def entered(function: F) -> F:
        made = (k.cooperative if cooperative else k.kernel)(function)
        BUGS[function.__name__] = Bug(function.__name__, made, config, size, kind, advice)
        return function

    return entered


# ---- shared memory


@bug(SHARED, "syncthreads")
async def fill_by_one(out: Any, right: int) -> None:
    """Thread 0 fills what all read."""
    s, me = k.shared(12, np.int32), k.threadIdx.x
    if me == 0:
        s[:] = 7  # 1
    if right:
        await k.syncthreads()
    out[me] = s[me]  # 2


@bug(SHARED, "syncthreads")
async def neighbour(out: Any, right: int) -> None:
    """Each reads what the next one stores."""
    s, me = k.shared(12, np.int32), k.threadIdx.x
    s[me] = me  # 1
    if right:
        await k.syncthreads()
    out[me] = s[(me + 1) % 12]  # 2


@bug(SHARED, "`await k.syncthreads()` behind line {2}, before line {1} comes again")
async def second_round(out: Any, right: int) -> None:
    """The next round stores while the last one is still read."""
    s, me = k.shared(12, np.int32), k.threadIdx.x
    for turn in range(2):
        s[me] = me + turn  # 1
        await k.syncthreads()
        out[me] = s[(me + 5) % 12]  # 2
        if right:
            await k.syncthreads()


@bug(SHARED, "syncthreads")
async def lost_update(out: Any, right: int) -> None:
    """All add to one counter; the twin has one for each, and thread 0 adds them."""
    s, me = k.shared(12, np.int32), k.threadIdx.x
    if me == 0:
        s[:] = 0
    await k.syncthreads()
    if right:
        s[me] += 1
        await k.syncthreads()
        if me == 0:
            out[0] = np.sum(s)
    else:
        s[0] += 1  # 1 2


@bug(SHARED, "syncthreads")
async def scan_in_place(out: Any, right: int) -> None:
    """A scan adds its left neighbour's sum while that one may have added already."""
    s, me = k.shared(12, np.int32), k.threadIdx.x
    s[me] = 1
    await k.syncthreads()
    left = s[me - 1] if me else 0  # 1
    if right:
        await k.syncthreads()
    s[me] += left  # 2


@bug(SHARED, "syncthreads")
async def tree(out: Any, right: int) -> None:
    """A reduction halves its threads without a barrier between the steps."""
    s, me = k.shared(8, np.int32), k.threadIdx.x
    if me < 8:
        s[me] = me
    await k.syncthreads()
    for half in (4, 2, 1):
        if me < half:
            s[me] += s[me + half]  # 1 2
        if right:
            await k.syncthreads()


@bug(SHARED, "and both store: the bytes overlap; give each thread bytes of its own")
async def overlapping_slices(out: Any, right: int) -> None:
    """The part of each thread is one element too long."""
    s, me = k.shared(64, np.int32), k.threadIdx.x
    s[4 * me : 4 * me + 5 - right] = me  # 1 2
    await k.syncthreads()


@bug(SHARED, "and both store: the bytes overlap; give each thread bytes of its own")
async def columns(out: Any, right: int) -> None:
    """Two threads store into one column of a matrix."""
    s, me = k.shared((8, 12), np.int32), k.threadIdx.x
    s[:, me if right else me // 2] = me  # 1 2
    await k.syncthreads()


@bug(SHARED, "and both store: the bytes overlap; give each thread bytes of its own")
async def every_other(out: Any, right: int) -> None:
    """The twin's threads store the even and the odd elements; the bug's all the even ones."""
    s, me = k.shared(64, np.int32), k.threadIdx.x
    if me < 2:
        s[me * right :: 2] = me  # 1 2
    await k.syncthreads()


@bug(SHARED, "and both store: the bytes overlap; give each thread bytes of its own")
async def masked(out: Any, right: int) -> None:
    """Index arrays of two threads have an element in common."""
    s, me = k.shared(64, np.int32), k.threadIdx.x
    if me < 2:
        s[np.array([0, 5, 9]) + 10 * me * right + 4 * me] = me  # 1 2
    await k.syncthreads()


@bug(SHARED, "`await k.syncthreads()` behind line {2}, before line {1} comes again")
async def reuse_of_a_tile(out: Any, right: int) -> None:
    """A tile is fetched again by one thread while others still read the last one."""
    s, me = k.shared(12, np.int32), k.threadIdx.x
    with k.dte_scope() as dte:
        for turn in range(2):
            if me == 0:
                k.memcpy(dte, s, out[12 * turn : 12 * turn + 12])  # 1
            await k.syncthreads()
            out[24 + me] = s[me]  # 2
            if right:
                await k.syncthreads()


@bug(SHARED, "between them", config=(1, 4))
async def counted_too_few(out: Any, right: int) -> None:
    """A counted barrier lets go before the last thread has come."""
    s, me = k.shared(4, np.int32), k.threadIdx.x
    bar = k.barrier(SCOPE, 4 if right else 2)
    s[me] = me  # 1
    await bar.arrive_and_wait()
    out[me] = s[(me + 1) % 4]  # 2


@bug(SHARED, "syncthreads")
async def barrier_after(out: Any, right: int) -> None:
    """The barrier stands behind the read instead of before it."""
    s, me = k.shared(12, np.int32), k.threadIdx.x
    s[11 - me] = me  # 1
    if right:
        await k.syncthreads()
    out[me] = s[me]  # 2
    await k.syncthreads()


@bug(SHARED, "syncthreads")
async def dynamic(out: Any, right: int) -> None:
    """Dynamic shared memory, stored and read by others."""
    s, me = k.dynamic_shared(np.int32), k.threadIdx.x
    s[me] = me  # 1
    if right:
        await k.syncthreads()
    out[me] = s[11 - me]  # 2


# ---- global memory


@bug(GLOBAL, "blocks", config=(2, 1))
async def lost_update_by_dte(out: Any, right: int) -> None:
    """Two blocks fetch, add and store one number."""
    one = k.local(1, np.int32)
    with k.dte_scope() as dte:
        part = out[k.blockIdx.x * right : k.blockIdx.x * right + 1]
        k.memcpy(dte, one, part)  # 1
        one += 1
        k.memcpy(dte, part, one)  # 2


@bug(GLOBAL, "syncthreads")
async def counter(out: Any, right: int) -> None:
    """Twelve threads add to one element."""
    out[k.threadIdx.x * right] += 1  # 1 2


@bug(GLOBAL, "second kernel, or use `k.signal_add`", config=(2, 12))
async def counter_of_blocks(out: Any, right: int) -> None:
    """Thread 0 of each block adds to one element."""
    if k.threadIdx.x == 0:
        out[k.blockIdx.x * right] += 1  # 1 2


@bug(GLOBAL, "syncblocks", config=(2, 12), cooperative=True)
async def two_phases(out: Any, right: int) -> None:
    """The second phase reads what threads of another block have stored: a barrier of the block is not enough."""
    me = k.thread_id()
    out[me] = me  # 1
    if right:
        await k.syncblocks()
    else:
        await k.syncthreads()
    out[32 + me] = out[23 - me]  # 2


@bug(GLOBAL, "blocks", config=(2, 12))
async def halo(out: Any, right: int) -> None:
    """A stencil in place reads the edge of the neighbour's part; the twin stores elsewhere."""
    if k.threadIdx.x == 0:
        first = 12 * k.blockIdx.x
        edge = out[12]  # 1
        out[first + 36 * right] = edge  # 2


@bug(GLOBAL, "and both store: the bytes overlap; give each thread bytes of its own")
async def deslice_windows(out: Any, right: int) -> None:
    """Windows of two threads overlap in a column."""
    me, tile = k.threadIdx.x, k.local((2, 2), np.int32)
    if me < 2:
        tile[:] = me
        with k.dte_scope() as dte:
            k.deslice(dte, out.reshape(8, 8), tile, (0, me * (1 + right)))  # 1 2


@bug(GLOBAL, "syncthreads", config=(1, 2))
async def signal_before_data(out: Any, right: int) -> None:
    """A flag is raised before the data is there."""
    if k.threadIdx.x == 0:
        if right:
            out[0] = 7
        k.signal_write(3, 1)
        if not right:
            out[0] = 7  # 1
    else:
        await k.signal_wait(3, 1)
        out[8] = out[0]  # 2


@bug(GLOBAL, "syncthreads", config=(1, 2))
async def not_waited_signal(out: Any, right: int) -> None:
    """A signal is raised and nothing waits for it."""
    if k.threadIdx.x == 0:
        out[0] = 7  # 1
        k.signal_write(3, 1)
    else:
        if right:
            await k.signal_wait(3, 1)
        out[8] = out[0]  # 2


@bug(GLOBAL, "and both store: the bytes overlap; give each thread bytes of its own")
async def guard(out: Any, right: int) -> None:
    """The last thread's part goes into the first one's, for the index wraps too early."""
    out[k.threadIdx.x % (12 if right else 11)] = 1 + k.threadIdx.x  # 1 2


@bug(GLOBAL, "and both store: the bytes overlap; give each thread bytes of its own")
async def transposed_index(out: Any, right: int) -> None:
    """Rows and columns are mixed up, so threads meet on the diagonal's neighbours."""
    me = k.threadIdx.x
    row, column = me // 4, me % 4
    out[row * 4 + column if right else row * 3 + column] = 5 + me  # 1 2


# ---- transfers in flight


@bug(FLIGHT, "await", config=(1, 1))
async def early_read(out: Any, right: int) -> None:
    """The destination is read before the wait."""
    tile = k.local(8, np.int32)
    with k.dte_scope() as dte:
        event = k.memcpy_async(dte, tile, out[:8])  # 1
        if right:
            await event
        out[8] = tile[0]  # 2
        await event


@bug(FLIGHT, "await", config=(1, 1))
async def source_overwritten(out: Any, right: int) -> None:
    """The source is stored into before the wait."""
    tile = k.local(8, np.int32)
    tile[:] = 1
    with k.dte_scope() as dte:
        event = k.memcpy_async(dte, out[:8], tile)  # 1
        if right:
            await event
        tile[0] = 2  # 2
        await event


@bug(FLIGHT, "await", config=(1, 1))
async def global_source_overwritten(out: Any, right: int) -> None:
    """A source in global memory is stored into before the wait."""
    tile = k.local(8, np.int32)
    with k.dte_scope() as dte:
        event = k.memcpy_async(dte, tile, out[:8])  # 1
        if right:
            await event
        out[3] = 2  # 2
        await event


@bug(FLIGHT, "await", config=(1, 1))
async def two_transfers(out: Any, right: int) -> None:
    """A second transfer reads what the first one still writes."""
    tile = k.local(8, np.int32)
    with k.dte_scope() as dte, k.dte_scope() as back:
        event = k.memcpy_async(dte, tile, out[:8])  # 1
        if right:
            await event
        other = k.memcpy_async(back, out[8:16], tile)  # 2
        await other
        await event


@bug(FLIGHT, "before the barrier or signal that the other access comes behind")
async def barrier_is_no_wait(out: Any, right: int) -> None:
    """A barrier stands between a transfer and its readers, and its wait behind both."""
    s, me = k.shared(12, np.int32), k.threadIdx.x
    with k.dte_scope() as dte:
        event = None
        if me == 0:
            event = k.memcpy_async(dte, s, out[:12])  # 1
            if right:
                await event
        await k.syncthreads()
        out[12 + me] = s[me]  # 2
        if event is not None:
            await event


@bug(FLIGHT, "await", config=(1, 1))
async def ping_pong(out: Any, right: int) -> None:
    """Of two buffers the wrong one is waited for."""
    tiles = k.local((2, 4), np.int32)
    with k.dte_scope() as one, k.dte_scope() as two:
        arriving = [k.memcpy_async(one, tiles[0], out[:4]), k.memcpy_async(two, tiles[1], out[4:8])]  # 1
        await arriving[0 if right else 1]
        out[8] = tiles[0, 0]  # 2
        await arriving[0]
        await arriving[1]


@bug(FLIGHT, "await", config=(1, 1))
async def numpy_on_a_target(out: Any, right: int) -> None:
    """A function of numpy reads what a transfer still writes."""
    tile, sums = k.local(8, np.int32), k.local(8, np.int32)
    with k.dte_scope() as dte:
        event = k.memcpy_async(dte, tile, out[:8])  # 1
        if right:
            await event
        np.add(tile, 1, out=sums)  # 2
        await event


# ---- contexts


@bug(CONTEXT, "give each thread a context of its own, or")
async def shared_context(out: Any, right: int) -> None:
    """Threads use the block's one context one after the other, but nothing says which first."""
    ctx, me = k.shared_dte_ctx(), k.threadIdx.x
    if me == 0:
        k.tops_init_dte(ctx)
    await k.syncthreads()
    s = k.shared(12, np.int32)
    for each in range(12):
        if each == me:
            k.memcpy(ctx, s[me : me + 1], out[me : me + 1])  # 1 2
        if right:
            await k.syncthreads()
    await k.syncthreads()
    if me == 0:
        k.tops_destroy_dte(ctx)


@bug(GLOBAL, "syncblocks", config=(2, 4), cooperative=True)
async def the_barrier_of_blocks(out: Any, right: int) -> None:
    """Threads of a block meet as those of two blocks do: a barrier of the block would not be enough."""
    me = k.thread_id()
    out[me] = me  # 1
    if right:
        await k.syncblocks()
    out[16 + me] = np.sum(out[:8])  # 2


# ---- signals


@bug(GLOBAL, "syncthreads", config=(1, 4))
async def one_too_few_waited_for(out: Any, right: int) -> None:
    """Three threads store, and the fourth waits for two of them: by luck all three have come before it looks."""
    me = k.threadIdx.x
    if me < 3:
        out[me] = me + 1  # 1
        k.signal_add(0)
    else:
        await k.signal_wait(0, 2 + right)
        out[8] = np.sum(out[:3])  # 2


@bug(
    GLOBAL,
    "`k.signal_add` behind line {2}, and `await k.signal_wait` for it before line {1} comes again",
    config=(1, 2),
)
async def refilled_too_early(out: Any, right: int) -> None:
    """A slot is filled again while it may still be read, by a thread that is far ahead."""
    for turn in range(4):
        if k.threadIdx.x == 0:
            if right and turn:
                await k.signal_wait(1, turn)
            out[0] = turn  # 1
            k.signal_write(0, turn + 1)
        else:
            await k.signal_wait(0, turn + 1)
            out[8 + turn] = out[0]  # 2
            k.signal_add(1)


# ---- memory that nothing has stored to


@bug(UNWRITTEN, "store to these bytes", config=(1, 1))
async def tail_of_a_tile(out: Any, right: int) -> None:
    """A sum over a whole tile, of which only a part was fetched."""
    tile = k.local(8, np.int32)  # 1
    with k.dte_scope() as dte:
        k.memcpy(dte, tile[:5], out[:5])
        if right:
            tile[5:] = 0
        out[0] = np.sum(tile)  # 2


@bug(UNWRITTEN, "store to these bytes", config=(1, 1))
async def accumulator(out: Any, right: int) -> None:
    """A sum begins with whatever was there."""
    total = k.local(1, np.int32)  # 1
    if right:
        total[0] = 0
    total[0] += 1  # 2
    out[0] = total[0]


@bug(UNWRITTEN, "store to these bytes")
async def one_too_few(out: Any, right: int) -> None:
    """The last thread stores nothing, and its element is read."""
    s, me = k.shared(12, np.int32), k.threadIdx.x  # 1
    if right or me < 11:
        s[me] = me
    await k.syncthreads()
    out[me] = s[11 - me]  # 2


@bug(UNWRITTEN, "store to these bytes", config=(1, 1))
async def column_left_out(out: Any, right: int) -> None:
    """A window leaves a column of the tile out, and all of it goes back."""
    tile = k.local((4, 4), np.int32)  # 1
    tile[:, : 3 + right] = 1
    with k.dte_scope() as dte:
        k.memcpy(dte, out[:16], tile)  # 2
