"""A batcher: items of many callers gathered into one batch of device work, by size and by time, in bounded memory.

It uses atops streams and nothing of HTTP. Look at where a ticket is removed. A caller that gives up takes its own away
in a `finally`; a lane takes a whole batch away without an `await` in between. So a ticket is always in exactly one
place.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Generic, TypeAlias, TypeVar, cast

import anyio

import atops
from atops.base.errors import InvalidValue

__all__ = ("BatchFailed", "Batcher", "DeadlineMissed", "QueueFull", "Refusal", "ShuttingDown", "Ticket", "Work")

Item = TypeVar("Item")
Answer = TypeVar("Answer")
Work: TypeAlias = Callable[[atops.Stream, Sequence[Item]], Awaitable[Sequence[Answer]]]

LOG = logging.getLogger("service.batcher")
INHERITANCE = 0.25  # how much the newest batch counts in the mean time of a batch


class Refusal(Exception):
    """An item that gets no answer; the class says why."""


class QueueFull(Refusal):
    """As many items wait as may; after `retry_after` seconds there should be room."""

    def __init__(self, message: str, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class ShuttingDown(Refusal):
    """The batcher takes no more items, or its grace ended before this one was done."""


class DeadlineMissed(Refusal):
    """The item's time was over before its answer was there."""


class BatchFailed(Refusal):
    """The batch that the item was in failed; `__cause__` is what it failed with, shared by all of the batch."""


@dataclass(eq=False, slots=True)
class Ticket(Generic[Item, Answer]):
    """One item in the queue or in a batch. Times are those of the loop's clock, in seconds."""

    item: Item
    deadline: float
    leave_by: float  # when a batch leaves for its sake, full or not
    over: anyio.Event = field(default_factory=anyio.Event)
    started: bool = False
    answer: Answer | None = None
    error: BaseException | None = None


class Batcher(Generic[Item, Answer]):
    """Gather items, run `work(stream, items)` on each batch, and give every caller its own answer.

    `work` enqueues on the stream it is given and returns an answer for each item, in order; what it allocates on the
    stream is freed when the batch is over. `size` is the most items of a batch, `delay` how many seconds the first of
    them waits for others, `capacity` how many items wait at most, `lanes` how many batches are on the device at once,
    `grace` how many seconds leaving the `async with` block may take to finish what was accepted.

    Runs on asyncio and on trio. Raises InvalidValue for numbers that are out of range.
    """

    def __init__(
        self,
        device: atops.Device,
        work: Work[Item, Answer],
        *,
        size: int = 32,
        delay: float = 0.004,
        capacity: int = 256,
        lanes: int = 2,
        grace: float = 5.0,
    ) -> None:
        for name, count in (("size", size), ("capacity", capacity), ("lanes", lanes)):
            if count < 1:
                raise InvalidValue(f"{name} must be at least 1, got {count!r}")
        for name, seconds in (("delay", delay), ("grace", grace)):
            if not seconds >= 0:  # a NaN is not
                raise InvalidValue(f"{name} must be seconds, not negative, got {seconds!r}")
        self.device = device
        self.size, self.delay, self.capacity, self.lanes, self.grace = size, delay, capacity, lanes, grace
        self.running = 0  # items in batches on the device: at most size * lanes
        self._work = work
        self._waiting: dict[Ticket[Item, Answer], None] = {}  # in order of arrival; any of them leaves in O(1)
        self._open = False
        self._turn = anyio.Lock()  # one lane gathers, the others wait or work
        self._news = anyio.Event()  # a ticket came, or the batcher closed
        self._tasks: Any = None
        self._batch_seconds = 0.0

    # ---- lifecycle

    async def __aenter__(self) -> Batcher[Item, Answer]:
        self._tasks = anyio.create_task_group()
        await self._tasks.__aenter__()
        self._open = True
        for number in range(self.lanes):
            self._tasks.start_soon(self._lane, f"lane {number}", name=f"batcher lane {number}")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
        self._tasks.cancel_scope.deadline = anyio.current_time() + self.grace
        if kind is not None:
            self._tasks.cancel_scope.cancel()
        try:
            await self._tasks.__aexit__(None, None, None)  # the block's own error goes on without a group around it
        finally:
            for ticket in self._waiting:
                settle(ticket, ShuttingDown("the service ended before this item had its turn"))
            self._waiting.clear()

    def close(self) -> None:
        """Take no more items. Those that wait go to the device at once. Idempotent."""
        self._open = False
        self._notify()

    # ---- the caller's side

    async def submit(self, item: Item, within: float = math.inf) -> Answer:
        """Return the answer for one item, or raise DeadlineMissed after `within` seconds.

        Cancelled or too late, the caller gives up its place in the queue at once; an item that is on the device already
        stays in its batch, and its answer is dropped. Raises QueueFull, ShuttingDown or DeadlineMissed at the call,
        before anything is kept; ShuttingDown, DeadlineMissed or BatchFailed later.
        """
        if not self._open:
            raise ShuttingDown("the service is shutting down and takes no more items")
        if not within > 0:
            raise DeadlineMissed("the deadline was over before the item came")
        if len(self._waiting) >= self.capacity:
            raise QueueFull(f"{self.capacity} items wait, and no more may", self.retry_after())
        now = anyio.current_time()
        # Half of a short deadline is left for the device, however long the others would wait for company.
        ticket: Ticket[Item, Answer] = Ticket(item, now + within, now + min(self.delay, within / 2))
        self._waiting[ticket] = None
        self._notify()
        try:
            with anyio.CancelScope(deadline=ticket.deadline):
                await ticket.over.wait()
        finally:
            self._waiting.pop(ticket, None)
        if not ticket.over.is_set():
            where = "on the device" if ticket.started else "in the queue"
            raise DeadlineMissed(f"not done within {within:.3f} s: the item was still {where}")
        if isinstance(ticket.error, ShuttingDown):
            raise ticket.error
        if ticket.error is not None:  # the batch's own error is shared: each caller gets a fresh one around it
            raise BatchFailed(f"{type(ticket.error).__name__}: {ticket.error}") from ticket.error
        return cast(Answer, ticket.answer)

    @property
    def waiting(self) -> int:
        """How many items wait for a batch."""
        return len(self._waiting)

    @property
    def is_open(self) -> bool:
        """Whether items are taken."""
        return self._open

    def retry_after(self) -> float:
        """Estimate in how many seconds the items that wait now will have been taken to the device."""
        return self._batch_seconds * math.ceil(len(self._waiting) / (self.size * self.lanes))

    # ---- the device's side

    async def _lane(self, name: str) -> None:
        while batch := await self._gather():
            await self._run(batch, name)

    async def _gather(self) -> list[Ticket[Item, Answer]]:
        """Wait until a batch is full, or due, and take it. Returns none when the batcher is closed and empty."""
        async with self._turn:
            while True:
                due = min((ticket.leave_by for ticket in self._waiting), default=math.inf)
                full = len(self._waiting) >= self.size
                if full or not self._open or anyio.current_time() >= due:
                    batch = self._take()
                    if batch or not self._open:
                        return batch
                    continue  # all that was due had missed its deadline
                with anyio.CancelScope(deadline=due):
                    await self._news.wait()

    def _take(self) -> list[Ticket[Item, Answer]]:
        """Take the oldest items that can still be in time. No await: no caller can leave while a batch is made."""
        batch: list[Ticket[Item, Answer]] = []
        now = anyio.current_time()
        while self._waiting and len(batch) < self.size:
            ticket = next(iter(self._waiting))
            del self._waiting[ticket]
            if ticket.deadline > now:  # else its caller is about to wake and say so: the device is spared
                ticket.started = True
                batch.append(ticket)
        return batch

    async def _run(self, batch: list[Ticket[Item, Answer]], name: str) -> None:
        """Run one batch, and tell its callers. What fails is theirs alone."""
        began = anyio.current_time()
        self.running += len(batch)
        try:
            answers = await self._answers([ticket.item for ticket in batch], name)
            if len(answers) != len(batch):
                raise InvalidValue(f"the work must give an answer for each of {len(batch)} items, got {len(answers)}")
            for ticket, answer in zip(batch, answers, strict=True):
                ticket.answer = answer
                ticket.over.set()
        except Exception as error:
            LOG.exception("a batch of %d failed", len(batch))
            for ticket in batch:
                settle(ticket, error)
        finally:
            for ticket in batch:  # after a cancellation only: all others have been told
                settle(ticket, ShuttingDown("the service ended while this item was on the device"))
            self.running -= len(batch)
            taken = anyio.current_time() - began
            self._batch_seconds += (taken - self._batch_seconds) * (INHERITANCE if self._batch_seconds else 1)

    async def _answers(self, items: list[Item], name: str) -> Sequence[Answer]:
        """Work on a stream of its own, which is freed of everything, closed, and done with, however that ends."""
        stream = self.device.create_stream(name=name)
        try:
            async with stream:
                return await self._work(stream, items)
        except Exception:
            stream.raise_error()  # what failed first: a fetch behind that says only that it was skipped
            raise
        finally:
            stream.clear_error()  # the callers are told; the device should not go on reporting it

    def _notify(self) -> None:
        news, self._news = self._news, anyio.Event()
        news.set()


def settle(ticket: Ticket[Item, Answer], error: BaseException | None) -> None:
    """Give a ticket its error, unless it has its answer or error already."""
    if not ticket.over.is_set():
        ticket.error = error
        ticket.over.set()
