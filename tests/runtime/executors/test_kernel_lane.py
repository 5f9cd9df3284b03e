"""The kernel lane of a device: where woken blocks are stepped, on its one thread or through the queue."""

from __future__ import annotations

import threading
from collections import deque
from typing import Any

import pytest

import atops
from atops import kernels as k
from atops.base.errors import LaunchFailure, PriorLaunchFailure, StreamAborted
from atops.base.options import EmulatorOptions
from atops.device.exec.block import Progress
from atops.device.memory.value_wait import Condition
from atops.kernels.sync import signal_wait, signal_write
from atops.runtime.cooperative_launch import launch_together
from atops.runtime.device import Device
from atops.runtime.executors.kernel_lane import KernelLane
from atops.runtime.executors.ready import TURNS
from tests.runtime.boards import PATIENCE, board, device, works

OPTIONS = EmulatorOptions()


class Queue:
    """An executor of one lane that runs its work when told to."""

    def __init__(self, inline: bool = False) -> None:
        self.inline = inline
        self.work: deque[Any] = deque()
        self.abandoned = 0

    def widen(self, lane: str, threads: int) -> None:
        """Take no note of it."""

    def run(self, lane: str, work: Any, priority: int = 0, ahead: int = 0) -> None:
        """Queue work."""
        self.work.append(work)

    go_on = run

    def abandon(self, lane: str) -> None:
        """Count it."""
        self.abandoned += 1

    def turn(self) -> None:
        """Run the first piece of work."""
        self.work.popleft()()


class Task:
    """A task that notes its steps, and in its first one does what it is told to."""

    ahead = 0

    def __init__(self, name: str, steps: list[str], first: Any = None, again: int = 0, priority: int = 0) -> None:
        self.name, self.steps, self.first, self.again, self.priority = name, steps, first, again, priority

    def step(self, budget: int) -> Progress:
        """Note the step."""
        self.steps.append(self.name)
        first, self.first = self.first, None
        if first is not None:
            first()
        self.again -= 1
        return Progress.AGAIN if self.again >= 0 else Progress.DONE


class Stream(Task):
    """A stream with such a drain."""

    def __init__(self, drain: Any, priority: int = 0) -> None:
        super().__init__("stream", [], drain, priority=priority)
        self.drain = drain


def test_what_a_step_wakes_is_stepped_by_the_same_thread() -> None:
    """A task that another wakes does not pass the queue."""
    queue, steps = Queue(), list[str]()
    lane = KernelLane(queue, 0, 1, OPTIONS)  # type: ignore[arg-type]  # as much of an executor as it uses
    lane.resume(Task("first", steps, lambda: lane.resume(Task("second", steps))))
    assert len(queue.work) == 1
    queue.turn()
    assert steps == ["first", "second"]
    assert not queue.work


def test_what_a_drain_places_is_stepped_after_it() -> None:
    """The blocks of a launch are stepped where the launch was made, once the drain is over."""
    queue, steps = Queue(), list[str]()
    lane = KernelLane(queue, 0, 1, OPTIONS)  # type: ignore[arg-type]  # as above
    lane.run_drain(Stream(lambda: (lane.resume(Task("block", steps, again=2)), steps.append("drained"))))
    queue.turn()
    assert steps == ["drained", "block", "block", "block"]


def test_the_most_urgent_is_stepped_first() -> None:
    """Whatever a step leaves, and whatever came before: by urgency, and among equals the first to come."""
    queue, steps = Queue(), list[str]()
    lane = KernelLane(queue, 0, 1, OPTIONS)  # type: ignore[arg-type]  # as above

    def more() -> None:
        lane.offer(lambda: steps.append("give"), 0)
        lane.run_drain(Stream(lambda: lane.resume(Task("block", steps, priority=-2)), -2))

    lane.resume(Task("low", steps))
    lane.resume(Task("mid", steps, priority=-1))
    lane.resume(Task("top", steps, more, priority=-2))
    lane.resume(Task("low 2", steps, again=1))
    while queue.work:
        queue.turn()
    assert steps == ["top", "block", "mid", "low", "low 2", "give", "low 2"]


def test_kernels_that_go_on_let_others_have_turns() -> None:
    """One that polls for what a less urgent one is to do waits some turns for it, and not for ever."""
    queue, steps = Queue(), list[str]()
    lane = KernelLane(queue, 0, 1, OPTIONS)  # type: ignore[arg-type]  # as above
    for priority in (-2, -1, 0):
        lane.resume(Task(str(priority), steps, again=20 * TURNS, priority=priority))
    queue.turn()
    turns = {name: steps[: 10 * TURNS].count(name) for name in ("-2", "-1", "0")}
    assert sorted((turns["-1"], turns["0"])) == [4, 5] and turns["-2"] > 9 * TURNS
    assert len(steps) == 3 * (20 * TURNS + 1)


def test_an_abandoned_thread_leaves_what_it_was_handed() -> None:
    """What a step woke goes to the queue when that step never comes back."""
    queue, steps = Queue(), list[str]()
    lane = KernelLane(queue, 0, 1, OPTIONS)  # type: ignore[arg-type]  # as above

    def stuck() -> None:
        lane.resume(Task("second", steps))
        lane.abandon()
        assert len(queue.work) == 1
        queue.turn()  # the thread that took its place
        assert steps == ["stuck", "second"]

    lane.resume(Task("stuck", steps, stuck))
    queue.turn()
    assert steps == ["stuck", "second"]
    assert queue.abandoned == 1


def test_a_step_that_raises_loses_nothing() -> None:
    """An error of the runtime itself ends the turn, and what was handed over goes to the queue."""
    queue, steps = Queue(), list[str]()
    lane = KernelLane(queue, 0, 1, OPTIONS)  # type: ignore[arg-type]  # as above

    def broken() -> None:
        lane.resume(Task("second", steps))
        raise IndexError("a bug")

    lane.resume(Task("first", steps, broken))
    with pytest.raises(IndexError, match="a bug"):
        queue.turn()
    queue.turn()
    assert steps == ["first", "second"]


@pytest.mark.parametrize(("width", "inline"), [(2, False), (1, True)])
def test_several_threads_and_policies_share_through_the_queue(width: int, inline: bool) -> None:
    """Where several threads serve the lane, or a policy chooses, everything passes the queue."""
    queue, steps = Queue(inline), list[str]()
    lane = KernelLane(queue, 0, width, OPTIONS)  # type: ignore[arg-type]  # as above
    lane.resume(Task("first", steps, lambda: lane.resume(Task("second", steps)), again=1))
    queue.turn()
    assert steps == ["first"]
    assert len(queue.work) == 2
    queue.turn()
    queue.turn()
    assert steps == ["first", "second", "first"]


def test_the_drain_after_a_kernel_is_the_same_threads() -> None:
    """What follows a kernel in its stream is drained where the kernel ended; `free` says what would go before it."""
    queue, steps = Queue(), list[str]()
    lane = KernelLane(queue, 0, 1, OPTIONS)  # type: ignore[arg-type]  # as above

    def ended() -> None:
        steps.append(f"free {[lane.free(priority) for priority in (-2, -1, 0)]}")
        lane.run_drain(Stream(lambda: steps.append("drained"), -1))

    lane.resume(Task("kernel", steps, ended))
    queue.turn()
    assert steps == ["kernel", "free [True, True, True]", "drained"] and not queue.work
    steps.clear()
    lane.resume(Task("kernel", steps, ended))
    lane.resume(Task("other", steps))
    queue.turn()
    assert steps == ["kernel", "free [True, True, False]", "drained", "other"]


def test_a_stream_goes_on_under_a_kernel_that_never_suspends() -> None:
    """A kernel that satisfies another stream's wait keeps its thread: the driver drains that stream, and it goes on."""
    seen = threading.Event()

    @k.kernel
    def tell_and_stay(word: k.Span) -> None:
        word[0] = 1
        assert seen.wait(PATIENCE)

    with device() as here:
        word, copied = here.empty(1, "uint32"), here.empty(1, "uint32")
        kernels, waits = here.create_stream(), here.create_stream(nonblocking=True)
        waits.fill(word, 0).wait_sync(PATIENCE)
        waits.wait_value(word, 1, Condition.Eq)
        waits.copy(copied, word)
        waits.call(seen.set)
        kernels.launch(tell_and_stay, (1, 1), word).wait_sync(PATIENCE)
        assert waits.fetch(copied).wait_sync(PATIENCE)[0] == 1


def test_what_an_abandoned_kernel_wakes_is_stepped() -> None:
    """A kernel that was given up still runs: what it wakes then goes to the thread that took its place."""
    inside, poke, end = threading.Event(), threading.Event(), threading.Event()

    @k.kernel
    def stuck() -> None:
        inside.set()
        assert poke.wait(PATIENCE)
        signal_write(3, 1)
        end.wait(PATIENCE)

    @k.kernel
    async def waits() -> None:
        await signal_wait(3, 1, "eq")

    with device(abort_grace=0.01) as here:
        first, second = (here.create_stream(nonblocking=True) for _ in range(2))
        given_up = first.launch(stuck, (1, 1))
        assert inside.wait(PATIENCE)
        first.abort()
        with pytest.raises(StreamAborted):
            given_up.wait_sync(PATIENCE)
        woken = second.launch(waits, (1, 1))
        here.create_stream(nonblocking=True).launch(nothing, (1, 1)).wait_sync(PATIENCE)  # so the first is parked
        poke.set()
        woken.wait_sync(PATIENCE)
        end.set()


@pytest.mark.parametrize("devices", [1, 2])
def test_a_sibling_that_is_stopped_waits_for_no_kernel_of_others(devices: int) -> None:
    """Of two cooperative grids one faults and then blocks: both fail, and their streams go on once it has ended."""
    inside, end = threading.Event(), threading.Event()

    @k.kernel
    async def faults() -> None:
        if k.threadIdx.x:
            raise ValueError("on purpose")
        try:
            await k.syncthreads()
        finally:
            inside.set()
            end.wait(PATIENCE)

    @k.kernel
    async def other() -> None:
        await k.syncblocks()

    with board(devices=devices) as driver:
        here, there = Device(0, driver), Device(devices - 1, driver)
        one, two = (each.create_stream(nonblocking=True) for each in (here, there))
        failed = launch_together([(one, faults, (1, 2)), (two, other, (1, 1))], cooperative=True)
        after = two.call(int)
        assert inside.wait(PATIENCE)
        end.set()
        with pytest.raises(PriorLaunchFailure):
            after.wait_sync(PATIENCE)
        for each in failed:
            with pytest.raises(LaunchFailure):
                each.wait_sync(PATIENCE)
        for stream in (one, two):
            stream.clear_error()
        assert works(driver)


def test_a_run_inside_a_kernel_has_its_own_lane() -> None:
    """An inline run on the thread of a kernel gives nothing to that kernel's lane."""
    results: list[int] = []

    async def main() -> None:
        stream = atops.Device(0).create_stream()
        stream.launch(nothing, (1, 1))
        results.append(await stream.call(lambda: 5))

    @k.kernel
    def outer() -> None:
        atops.run(main)

    with device() as here:
        here.create_stream().launch(outer, (1, 1)).wait_sync(PATIENCE)
    assert results == [5]


@k.kernel
def nothing() -> None:
    """Be launched."""
