"""The service's batcher: what shares a batch, what is refused or leaves, what fails, and that nothing is ever left."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import anyio
import anyio.lowlevel
import numpy as np
import pytest

import atops
from atops import kernels as k
from atops.base.errors import InvalidValue, KernelAssert
from examples.service.batcher import Batcher, BatchFailed, DeadlineMissed, QueueFull, Refusal, ShuttingDown

pytestmark = pytest.mark.usefixtures("loop_guard")

BAD = 13.0
LONG = 3600.0  # seconds that no test waits for: what has this delay leaves for another reason


@k.kernel
def double(x: k.Span) -> None:
    """Double each element in place; assert that none is the bad one."""
    tile = k.local(x.size, np.float32)
    with k.dte_scope() as dte:
        k.memcpy(dte, tile, x)
        k.assert_(not np.any(tile == BAD), "no bad luck")
        np.multiply(tile, 2, out=tile)
        k.memcpy(dte, x, tile)


class Bench:
    """A device whose batches stand at a gate until it is opened, and a note of what was in each."""

    def __init__(self, device: atops.Device, *, held: bool) -> None:
        self.device = device
        self.batches: list[list[float]] = []
        self.gate = device.empty(1, np.int32)
        self.keeper = device.create_stream(name="keeper")
        self.keeper.fill(self.gate, 0 if held else 1)

    async def work(self, stream: atops.Stream, items: Sequence[float]) -> list[float]:
        """Double the items behind the gate."""
        self.batches.append(list(items))
        stream.wait_value(self.gate, 1, "Eq")
        x = stream.upload(np.array(items, np.float32))
        stream.launch(double, (1, 1), x)
        return list(await stream.fetch(x))

    def open(self) -> None:
        """Let all batches pass from now on."""
        self.keeper.write_value(self.gate, 1)


@asynccontextmanager
async def bench(*, held: bool = False) -> AsyncIterator[Bench]:
    """Give a bench on the current driver, and see at the end that nothing is left of what was done on it."""
    device = atops.Device(0)
    made = Bench(device, held=held)
    with anyio.fail_after(20):
        yield made
        await made.keeper.aclose()
        await device.wait()
    figures = device.statistics()
    assert (figures.memory.live, figures.active_streams, figures.poisoned_streams) == (1, 0, 0)
    made.gate.close()


async def until(true: Callable[[], bool]) -> None:
    """Let the others have their turns until something is true."""
    while not true():
        await anyio.lowlevel.checkpoint()


class Caller:
    """A caller in a task of its own, and what it came back with."""

    def __init__(self, tasks: anyio.abc.TaskGroup, batcher: Batcher[float, float], item: float, **named: Any) -> None:
        self.scope, self.came = anyio.CancelScope(), False
        self.answer: float | None = None
        self.error: Refusal | None = None
        self.over = False
        tasks.start_soon(partial(self._call, batcher, item, **named))

    async def _call(self, batcher: Batcher[float, float], item: float, **named: Any) -> None:
        with self.scope:
            self.came = True  # and what follows, until it is queued or refused, has no suspension
            try:
                self.answer = await batcher.submit(item, **named)
            except Refusal as error:
                self.error = error
        self.over = True


async def queued(tasks: anyio.abc.TaskGroup, batcher: Batcher[float, float], item: float, **named: Any) -> Caller:
    """Start a caller, and see it come before another is started: a loop may run new tasks in any order."""
    caller = Caller(tasks, batcher, item, **named)
    await until(lambda: caller.came)
    return caller


@pytest.mark.anyio
async def test_each_caller_gets_its_own_answer():
    """Many callers, several batches, on two lanes: each gets its own answer."""
    async with atops.Driver(), bench() as made:
        async with Batcher(made.device, made.work, size=5, delay=0) as batcher, anyio.create_task_group() as tasks:
            callers = [Caller(tasks, batcher, float(item)) for item in range(100, 140)]
        assert [caller.answer for caller in callers] == [2.0 * item for item in range(100, 140)]
        assert sorted(item for batch in made.batches for item in batch) == list(range(100, 140))
        assert max(map(len, made.batches)) == 5


@pytest.mark.anyio
async def test_a_busy_device_makes_full_batches():
    """What comes while the lane is busy goes together, in order of arrival, at most `size` at a time."""
    async with (
        atops.Driver(),
        bench(held=True) as made,
        Batcher(made.device, made.work, size=3, delay=0, lanes=1) as batcher,
        anyio.create_task_group() as tasks,
    ):
        Caller(tasks, batcher, 0.0)
        await until(lambda: batcher.running == 1)
        for item in range(1, 8):
            await queued(tasks, batcher, float(item))
        made.open()
    assert made.batches == [[0], [1, 2, 3], [4, 5, 6], [7]]


@pytest.mark.anyio
async def test_a_full_batch_waits_for_no_time():
    """With a delay that never passes, the last of `size` callers is what starts the batch."""
    async with (
        atops.Driver(),
        bench() as made,
        Batcher(made.device, made.work, size=4, delay=LONG) as batcher,
        anyio.create_task_group() as tasks,
    ):
        callers = [Caller(tasks, batcher, float(item)) for item in range(4)]
        await until(lambda: all(caller.over for caller in callers))
    assert list(map(len, made.batches)) == [4]


def test_a_batch_leaves_when_its_first_has_waited_long_enough():
    """On the virtual clock: after the delay of the first, or half of the shortest deadline, and what a batch takes."""

    async def main() -> list[float]:
        times = []
        async with bench() as made, Batcher(made.device, made.work, size=9, delay=0.5) as batcher:
            for waits in ((LONG, LONG), (LONG, 0.2), (0.4, LONG)):
                began = anyio.current_time()
                async with anyio.create_task_group() as tasks:
                    Caller(tasks, batcher, 1.0, within=waits[0])
                    await anyio.sleep(0.125)
                    Caller(tasks, batcher, 2.0, within=waits[1])
                times.append(anyio.current_time() - began)
            assert made.batches == [[1, 2]] * 3
        return times

    assert atops.run(main, atops.EmulatorOptions(clock="virtual")) == pytest.approx([0.5, 0.225, 0.2], abs=1e-5)


@pytest.mark.anyio
async def test_a_full_queue_refuses_at_once():
    """One more than may wait is told when to come again, and is not kept; a place that is free is taken."""
    async with atops.Driver(), bench(held=True) as made:
        async with (
            Batcher(made.device, made.work, size=1, delay=0, capacity=2, lanes=1) as batcher,
            anyio.create_task_group() as tasks,
        ):
            callers = [Caller(tasks, batcher, 0.0)]
            await until(lambda: batcher.running == 1)
            callers += [await queued(tasks, batcher, 1.0), await queued(tasks, batcher, 2.0)]
            with pytest.raises(QueueFull, match="2 items wait") as refused:
                await batcher.submit(3.0)
            assert refused.value.retry_after >= 0
            callers[1].scope.cancel()
            await until(lambda: batcher.waiting == 1)
            callers.append(await queued(tasks, batcher, 4.0))
            made.open()
        assert [caller.answer for caller in callers] == [0, None, 4, 8]
    assert made.batches == [[0], [2], [4]]


def test_when_to_come_again_follows_from_what_batches_take():
    """A batch of two took 2 s, and five items wait: in three batches' time they are gone. Nothing is known at first."""

    async def main() -> None:
        async with (
            bench(held=True) as made,
            Batcher(made.device, made.work, size=2, delay=0, capacity=5, lanes=1) as batcher,
            anyio.create_task_group() as tasks,
        ):
            assert batcher.retry_after() == 0
            for _ in range(2):
                Caller(tasks, batcher, 1.0)
            await until(lambda: batcher.running == 2)
            await anyio.sleep(2)
            made.open()
            await until(lambda: batcher.running == 0)
            made.keeper.fill(made.gate, 0)
            for _ in range(2):
                Caller(tasks, batcher, 1.0)
            await until(lambda: batcher.running == 2)
            for _ in range(5):
                Caller(tasks, batcher, 1.0)
            await until(lambda: batcher.waiting == 5)
            with pytest.raises(QueueFull) as refused:
                await batcher.submit(1.0)
            assert refused.value.retry_after == pytest.approx(6, abs=1e-4)
            made.open()

    atops.run(main, atops.EmulatorOptions(clock="virtual"))


@pytest.mark.anyio
async def test_a_deadline_missed_in_the_queue_spares_the_device():
    """The caller is told in time, though the device stands still, and its item is never seen by the work."""
    async with atops.Driver(), bench(held=True) as made:
        async with (
            Batcher(made.device, made.work, size=4, delay=0, lanes=1) as batcher,
            anyio.create_task_group() as tasks,
        ):
            first = Caller(tasks, batcher, 0.0)
            await until(lambda: batcher.running == 1)
            with pytest.raises(DeadlineMissed, match="in the queue"):
                await batcher.submit(1.0, within=0.005)
            with pytest.raises(DeadlineMissed, match="before the item came"):
                await batcher.submit(2.0, within=0)
            assert batcher.waiting == 0
            last = Caller(tasks, batcher, 3.0)
            made.open()
        assert (first.answer, last.answer) == (0, 6)
    assert made.batches == [[0], [3]]


@pytest.mark.anyio
async def test_a_lane_that_is_faster_than_the_news_of_a_deadline_looks_at_the_time():
    """The loop was busy over a deadline: the lane has its turn before the caller has, and takes the item nowhere."""
    seen: list[float] = []
    callers: list[Caller] = []

    async def work(stream: atops.Stream, items: Sequence[float]) -> Sequence[float]:
        seen.extend(items)
        await until(lambda: batcher.waiting == 1 or (len(callers) == 2 and callers[1].over))
        over = anyio.current_time() + 0.01
        while anyio.current_time() < over:
            pass  # what a loop should not do, and some program does
        return items

    async with atops.Driver(), bench() as made, Batcher(made.device, work, delay=0, lanes=1) as batcher:
        async with anyio.create_task_group() as tasks:
            callers.append(Caller(tasks, batcher, 1.0))
            await until(lambda: batcher.running == 1)
            callers.append(Caller(tasks, batcher, 2.0, within=0.01))
        late = callers[1].error
        assert isinstance(late, DeadlineMissed) and "in the queue" in str(late)
    assert seen == [1]


def test_a_caller_that_leaves_a_batch_on_the_device_ends_no_other():
    """One is late, one is cancelled, the third gets its answer: the batch is the same."""

    async def main() -> None:
        async with bench(held=True) as made:
            async with (
                Batcher(made.device, made.work, size=3, delay=LONG, lanes=1) as batcher,
                anyio.create_task_group() as tasks,
            ):
                late = Caller(tasks, batcher, 1.0, within=4)
                gone, stays = Caller(tasks, batcher, 2.0), Caller(tasks, batcher, 3.0)
                await until(lambda: batcher.running == 3)
                gone.scope.cancel()
                await anyio.sleep(5)
                assert isinstance(late.error, DeadlineMissed) and "on the device" in str(late.error)
                made.open()
            assert gone.over and (gone.answer, gone.error, stays.answer) == (None, None, 6)
            assert made.batches == [[1, 2, 3]]

    atops.run(main, atops.EmulatorOptions(clock="virtual"))


@pytest.mark.anyio
async def test_a_failed_batch_fails_its_own_callers_only():
    """They are told what the kernel asserted, each by an exception of its own; the next batch is as if nothing was."""
    async with atops.Driver(), bench() as made:
        async with (
            Batcher(made.device, made.work, size=2, delay=LONG, lanes=1) as batcher,
            anyio.create_task_group() as tasks,
        ):
            callers = [await queued(tasks, batcher, item) for item in (1.0, 2.0, 3.0, BAD, 5.0, 6.0)]
            await until(lambda: all(caller.over for caller in callers))
        assert [caller.answer for caller in callers] == [2, 4, None, None, 10, 12]
        errors = [callers[2].error, callers[3].error]
        assert all(isinstance(error, BatchFailed) and isinstance(error.__cause__, KernelAssert) for error in errors)
        assert "no bad luck" in str(errors[0]) and errors[0] is not errors[1]


@pytest.mark.anyio
@pytest.mark.parametrize("answers", [1, 3])
async def test_work_that_gives_another_number_of_answers_has_failed(answers: int):
    """No caller gets an answer that may be another's."""

    async def work(stream: atops.Stream, items: Sequence[float]) -> list[float]:
        return [0.0] * answers

    async with atops.Driver(), bench() as made, Batcher(made.device, work, size=2, delay=LONG) as batcher:
        async with anyio.create_task_group() as tasks:
            callers = [Caller(tasks, batcher, 1.0) for _ in range(2)]
            await until(lambda: all(caller.over for caller in callers))
        assert all(f"for each of 2 items, got {answers}" in str(caller.error) for caller in callers)


@pytest.mark.anyio
async def test_an_answer_may_be_none():
    """What the work returns is the caller's affair."""

    async def work(stream: atops.Stream, items: Sequence[float]) -> list[None]:
        return [None] * len(items)

    async with atops.Driver(), bench() as made, Batcher(made.device, work, delay=0) as batcher:
        assert await batcher.submit(1.0) is None


@pytest.mark.anyio
async def test_leaving_finishes_what_was_accepted():
    """What is on the device and what waits is answered, without waiting for company; what comes then is refused."""
    async with atops.Driver(), bench(held=True) as made:
        async with (
            anyio.create_task_group() as tasks,
            Batcher(made.device, made.work, size=2, delay=LONG, lanes=1) as batcher,
        ):
            callers = [await queued(tasks, batcher, float(item)) for item in range(5)]
            await until(lambda: batcher.running == 2 and batcher.waiting == 3)
            batcher.close()
            assert not batcher.is_open
            with pytest.raises(ShuttingDown):
                await batcher.submit(9.0)
            made.open()
        assert [caller.answer for caller in callers] == [0, 2, 4, 6, 8]
    assert made.batches == [[0, 1], [2, 3], [4]]


def test_leaving_takes_no_longer_than_the_grace():
    """A device that never answers costs the grace and no more; everybody is told, and no memory is kept."""

    async def main() -> float:
        async with bench(held=True) as made:
            async with anyio.create_task_group() as tasks:
                async with Batcher(made.device, made.work, size=2, delay=0, lanes=1, grace=3) as batcher:
                    callers = [Caller(tasks, batcher, float(item)) for item in range(3)]
                    await until(lambda: batcher.running == 2)
                    began = anyio.current_time()
                took = anyio.current_time() - began
            assert [str(caller.error).partition(" this item ")[2] for caller in callers] == [
                "was on the device", "was on the device", "had its turn"
            ]  # fmt: skip
            assert (batcher.waiting, batcher.running) == (0, 0)
        return took

    assert atops.run(main, atops.EmulatorOptions(clock="virtual")) == pytest.approx(3, abs=1e-8)


@pytest.mark.anyio
async def test_leaving_by_an_error_does_not_wait():
    """The error comes out as it is, what was on the device is dropped, and its callers are told."""
    async with atops.Driver(), bench(held=True) as made:
        async with anyio.create_task_group() as tasks:
            with pytest.raises(KeyError):
                async with Batcher(made.device, made.work, delay=0, grace=LONG) as batcher:
                    caller = Caller(tasks, batcher, 1.0)
                    await until(lambda: batcher.running == 1)
                    raise KeyError
        assert isinstance(caller.error, ShuttingDown)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_no_order_of_events_loses_or_mixes_anything(seed: int):
    """Callers come, go, are late or fail, in an order that the seed decides: each gets its own result."""
    dice = np.random.default_rng(seed)
    deadlines: dict[float, float] = {}

    async def main() -> None:
        async def work(stream: atops.Stream, items: Sequence[float]) -> list[float]:
            assert all(deadlines[item] > anyio.current_time() for item in items)  # or the batch fails, for no bad luck
            await anyio.sleep(0.001)  # so that lanes and deadlines come at the same moments
            return await made.work(stream, items)

        async with bench() as made:
            async with (
                Batcher(made.device, work, size=3, delay=0.002, capacity=8) as batcher,
                anyio.create_task_group() as tasks,
            ):
                callers = []
                for number in range(40):
                    within = float(dice.choice([0.001, 0.003, LONG]))
                    deadlines[number] = anyio.current_time() + within
                    callers.append((number, Caller(tasks, batcher, float(number), within=within)))
                    if dice.random() < 0.3:
                        callers[dice.integers(len(callers))][1].scope.cancel()
                    if dice.random() < 0.4:
                        await anyio.sleep(float(dice.choice([0, 0.001])))
            assert (batcher.waiting, batcher.running) == (0, 0)
        seen = [item for batch in made.batches for item in batch]
        assert len(seen) == len(set(seen))
        for number, caller in callers:
            assert caller.over
            assert caller.answer in (None, 2.0 * number)
            assert isinstance(caller.error, QueueFull | DeadlineMissed | BatchFailed | None)
            if isinstance(caller.error, BatchFailed):
                assert any({BAD, float(number)} <= set(batch) for batch in made.batches), caller.error
            if caller.answer is not None or isinstance(caller.error, BatchFailed):
                assert number in seen
            if isinstance(caller.error, QueueFull):
                assert number not in seen
        assert any(caller.answer is not None for _, caller in callers)

    atops.run(main, atops.EmulatorOptions(clock="virtual", seed=seed))


@pytest.mark.anyio
@pytest.mark.parametrize("option", ["size", "capacity", "lanes", "delay", "grace"])
async def test_numbers_that_make_no_batcher_are_named(option: str):
    """Each is refused before anything runs."""
    async with atops.Driver(), bench() as made:
        with pytest.raises(InvalidValue, match=rf"{option} must be .*, got -1"):
            Batcher(made.device, made.work, **{option: -1})
