"""Random stream programs against a small model of their own: the order in which commands end, and how each ends.

The model knows the rules and nothing of the runtime. It says which commands must be over before which others start (or,
for what a wait waits for, before it ends); the times that the driver's one clock stamped must obey.
"""

from __future__ import annotations

import random
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import atops
from atops import kernels as k
from atops.base.errors import AtopsError, HostCallFailure, PriorLaunchFailure
from atops.runtime.driver import board_of
from tests.runtime.hosts import board
from tests.runtime.latch import StreamLatch

NULL, BLOCKING, FREE = (0,), (1, 2), (3, 4)  # stream numbers of a program
STREAMS = (*NULL, *BLOCKING, *FREE)
EVENTS = range(3)
LARGE = 128 << 10  # bytes: copied on a copy thread
CALLS = ("call", "detached", "fail")
PLAIN = ("call", "detached", "fill", "copy", "large", "kernel", "write", "nothing")
PATIENCE = 20.0  # seconds that no passing test waits

stream_numbers = st.sampled_from(STREAMS)
operations = st.one_of(
    st.tuples(st.sampled_from(PLAIN), stream_numbers),
    st.tuples(st.sampled_from(("record", "wait")), stream_numbers, st.sampled_from(EVENTS)),
    st.tuples(st.just("wait_value"), stream_numbers, st.integers(0, 9)),
    st.tuples(st.sampled_from(("call", "call", "fail")), stream_numbers),
)


@dataclass
class Step:
    """One command of a program: what the model says of it, and what was seen."""

    kind: str
    stream: int
    target: int | None = None  # event of a record or wait; word of a write or value wait
    cause: int | None = None  # of a wait: the step that satisfies it
    outcome: type[AtopsError] | None = None
    item: Any = None
    started: int = -1
    finished: int = -1

    @property
    def nothing(self) -> bool:
        """Whether it does nothing: a copy of no bytes, a wait for an event that was never recorded."""
        return self.kind == "nothing" or (self.kind == "wait" and self.cause is None)


def interpret(program: list[tuple[Any, ...]]) -> list[Step]:
    """Resolve what every wait waits for and how every command ends; leave out waits that nothing would end."""
    steps, records, writes, poisoned = [], {}, [], set()
    for kind, stream, *rest in program:
        step = Step(kind, stream)
        number = len(steps)
        if kind in ("record", "wait"):
            step.target = rest[0]
            step.cause = records.get(rest[0]) if kind == "wait" else None
        if kind == "write":
            step.target = len(writes)
            writes.append(number)
        if kind == "wait_value":
            if not writes:
                continue
            step.target = rest[0] % len(writes)
            step.cause = writes[step.target]
            if steps[step.cause].outcome is not None:
                continue  # its word is never written
        if stream in poisoned:
            step.outcome = PriorLaunchFailure
        elif kind == "fail":
            step.outcome = HostCallFailure
        elif kind == "wait" and step.cause is not None and steps[step.cause].outcome is not None:
            step.outcome = PriorLaunchFailure
        if step.outcome is not None:
            poisoned.add(stream)
        if kind == "record":
            records[step.target] = number
        steps.append(step)
    return steps


def precedes(first: Step, second: Step) -> bool:
    """Tell whether `first`, submitted earlier, must be over before `second` starts.

    Null-stream order (a device's own, row by row): a wait in a blocking stream waits for no null work; else it is a
    command of its stream; a wait in the null stream is a command as others; what does nothing takes no part.
    """
    if first.stream == second.stream:
        # A detached call holds nothing but the calls after it.
        return first.kind != "detached" or second.kind in CALLS
    sides = {first.stream in NULL, second.stream in NULL}
    if len(sides) == 1 or first.stream in FREE or second.stream in FREE or first.nothing or second.nothing:
        return False
    return first.kind != "detached" and (second.kind != "wait" or second.stream in NULL)


def check(steps: list[Step]) -> None:
    """Compare what was seen with the model."""
    for number, step in enumerate(steps):
        error = step.item.exception()
        assert (None if error is None else type(error)) is step.outcome, (number, step, error)
        for earlier in steps[:number]:
            if precedes(earlier, step):
                assert earlier.finished <= step.started, (earlier, step)
        if step.cause is not None and step.outcome is None:
            cause = steps[step.cause]  # a value wait ends with the store itself, while the write is still being settled
            assert (cause.started if step.kind == "wait_value" else cause.finished) <= step.finished, (cause, step)


@k.kernel
async def two_turns(x):
    """Store, meet, store."""
    x[int(k.thread_id())] = 1
    await k.syncthreads()
    x[int(k.thread_id())] = 2


class Board:
    """The streams, events and memory that a program runs on."""

    def __init__(self, device: atops.Device) -> None:
        self.device = device
        self.streams = {number: device.create_stream() for number in BLOCKING}
        self.streams |= {number: device.create_stream(nonblocking=True) for number in FREE}
        self.streams[0] = device.null_stream
        self.events = [device.create_event() for _ in EVENTS]
        self.words = device.empty(256, np.uint32)
        self.words.allocation.data[:] = 0
        self.x, self.y = (device.empty(LARGE, np.uint8) for _ in range(2))
        self.latch = StreamLatch(device)

    def hold(self, streams: list[int]) -> list[StreamLatch]:
        """Hold these streams, each by a latch of its own."""
        latches = []
        for number in streams:
            latches.append(StreamLatch(self.device))
            latches[-1].hold(self.streams[number])
        return latches

    def submit(self, step: Step) -> None:
        """Enqueue one step."""
        stream, x, y = self.streams[step.stream], self.x, self.y
        now = board_of(self.device.driver).now

        def call() -> None:
            step.started = now()
            if step.kind == "fail":
                raise RuntimeError("on purpose")

        verbs = {
            "call": lambda: stream.call(call),
            "fail": lambda: stream.call(call),
            "detached": lambda: stream.call(call, holds=False),
            "fill": lambda: stream.fill(x[:64], 1),
            "copy": lambda: stream.copy(x[:64], y[64:128]),
            "nothing": lambda: stream.copy(x[:0], y[:0]),
            "large": lambda: stream.copy(x, y),
            "kernel": lambda: stream.launch(two_turns, (1, 2), x),
            "write": lambda: stream.write_value(self.words[step.target : step.target + 1], 1),
            "wait_value": lambda: stream.wait_value(self.words[step.target : step.target + 1], 1, "Eq"),
            "record": lambda: stream.record(self.events[step.target]).completion,
            "wait": lambda: stream.wait(self.events[step.target]),
        }
        step.item = verbs[step.kind]()

    def observe(self, steps: list[Step]) -> None:
        """Take the times from the trace; calls that ran have noted their own start."""
        records = {record.seq: record for record in self.device.driver.tracer.records()}
        for step in steps:
            record = records[step.item.seq]
            step.finished = record.finished_ns
            if step.started < 0:
                step.started = record.started_ns
        for stream in self.streams.values():
            stream.clear_error()


programs = st.lists(operations, min_size=2, max_size=30)
held = st.lists(stream_numbers, unique=True)


@pytest.mark.slow
@given(program=programs, held=held, order=st.randoms(use_true_random=False))
def test_programs_on_threads(program: list[Any], held: list[int], order: random.Random):
    """Threaded: streams are held while the program is submitted, then let go one after another."""
    steps = interpret(program)
    with board() as device:
        place = Board(device)
        latches = place.hold(held)
        for step in steps:
            place.submit(step)
        order.shuffle(latches)
        for latch in latches:
            latch.release()
        board_of(device.driver).wait_all([step.item for step in steps], PATIENCE)
        place.observe(steps)
    check(steps)


@pytest.mark.slow
@given(program=programs, held=held, seed=st.none() | st.integers(0, 1 << 16), order=st.randoms(use_true_random=False))
def test_programs_inline(program: list[Any], held: list[int], seed: int | None, order: random.Random):
    """Inline: the same in one thread, in order and in random orders."""
    steps = interpret(program)

    async def main() -> None:
        place = Board(atops.Device(0))
        latches = place.hold(held)
        for step in steps:
            place.submit(step)
        order.shuffle(latches)
        for latch in latches:
            latch.release()
            await latch.passed()
        for stream in place.streams.values():
            with suppress(AtopsError):
                await stream
        place.observe(steps)

    atops.run(main, atops.EmulatorOptions(seed=seed))
    check(steps)


@pytest.mark.slow
@pytest.mark.parametrize("round_", range(3))
def test_two_threads_agree_on_null_stream_order(tiny_switch_interval: None, round_: int):
    """Null and blocking work of two threads: everything ends, and each pair keeps the order of its numbers."""
    with board() as device:
        null, streams = device.null_stream, [device.create_stream() for _ in range(3)]
        x = device.empty(64, np.uint8)
        items: list[atops.Completion] = []
        ready = threading.Barrier(2)

        def submit(seed: int) -> None:
            chance = random.Random(seed)
            ready.wait()
            for _ in range(600):
                stream = null if chance.random() < 0.4 else chance.choice(streams)
                items.append(stream.call(int) if chance.random() < 0.2 else stream.fill(x, 1))

        threads = [threading.Thread(target=submit, args=(2 * round_ + number,)) for number in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        device.sync(PATIENCE)
        assert all(item.done() for item in items)
        records = {record.seq: record for record in device.driver.tracer.records()}
        over = {True: 0, False: 0}  # the latest end so far, of null and of blocking work
        for item in sorted(items, key=lambda item: item.seq):
            mine, record = item.stream is null, records[item.seq]
            assert over[not mine] <= record.started_ns, item
            over[mine] = max(over[mine], record.finished_ns)


@pytest.mark.parametrize("seed", range(4))
def test_programs_of_several_threads(tiny_switch_interval: None, seed: int):
    """Random programs submitted by three threads at once obey the model in the order in which they were numbered."""
    chance = random.Random(seed)
    kinds = ("call", "detached", "fill", "copy", "large", "kernel", "record", "wait", "nothing")
    with board() as device:
        place, ready = Board(device), threading.Barrier(3)
        parts: list[list[Step]] = [
            [Step(chance.choice(kinds), chance.choice(STREAMS), chance.choice(EVENTS)) for _ in range(60)]
            for _ in EVENTS
        ]
        for event, part in zip(EVENTS, parts, strict=True):
            for step in part:
                if step.kind == "record":
                    step.target = event  # a thread's own: whose record is whose would be lost else
        latches = place.hold(list(STREAMS))

        def submit(part: list[Step]) -> None:
            ready.wait()
            for step in part:
                place.submit(step)

        threads = [threading.Thread(target=submit, args=(part,)) for part in parts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        steps = sorted((step for part in parts for step in part), key=lambda step: step.item.seq)
        numbers = {step.item: number for number, step in enumerate(steps)}
        for step in steps:  # while the streams are held: of a wait that is over the record is forgotten
            if step.kind == "wait" and step.item.command.record is not None:
                step.cause = numbers[step.item.command.record]
        for latch in latches:
            latch.release()
        board_of(device.driver).wait_all([step.item for step in steps], PATIENCE)
        place.observe(steps)
    check(steps)


def long_program(chance: random.Random, length: int) -> list[Step]:
    """Return the steps of a random program whose waits all end, most of them of null-stream order."""
    kinds = ("fill", "copy", "call", "kernel", "nothing", "record", "record", "wait", "wait")
    streams = (0, 0, *STREAMS)
    return interpret([(chance.choice(kinds), chance.choice(streams), chance.choice(EVENTS)) for _ in range(length)])


def run_in_order(chance: random.Random, length: int) -> None:
    """Check that a program keeps the model's order: streams are held, and let go in random order."""
    steps = long_program(chance, length)
    with board() as device:
        place = Board(device)
        latches = place.hold(chance.sample(STREAMS, chance.randrange(4)))
        for step in steps:
            place.submit(step)
        chance.shuffle(latches)
        for latch in latches:
            latch.release()
        board_of(device.driver).wait_all([step.item for step in steps], PATIENCE)
        place.observe(steps)
    check(steps)


def run_freely(chance: random.Random, length: int) -> None:
    """Check that a program waits for nothing else: one stream stands still, what the model leaves free ends."""
    steps = long_program(chance, length)
    with board() as device:
        place = Board(device)
        number = chance.choice(STREAMS)
        (latch,) = place.hold([number])
        held = [Step("wait_value", number)]
        for step in steps:
            place.submit(step)
        free = []
        behind: set[int] = set()
        for index, step in enumerate(steps):
            if step.cause in behind or any(precedes(each, step) for each in held):
                held.append(step)
                behind.add(index)
            else:
                free.append(step)
        board_of(device.driver).wait_all([step.item for step in free], PATIENCE)
        assert not any(step.item.done() for step in held[1:])
        latch.release()
        board_of(device.driver).wait_all([step.item for step in steps], PATIENCE)
        place.observe(steps)
    check(steps)


@pytest.mark.slow
@pytest.mark.parametrize("run", [run_in_order, run_freely])
def test_null_stream_order_of_random_programs(run: Any):
    """4,000 commands of random programs, half of them with one stream that stands still."""
    chance = random.Random(run.__name__)
    for _ in range(50):
        run(chance, 40)


@pytest.mark.soak
@pytest.mark.parametrize("run", [run_in_order, run_freely])
def test_null_stream_order_of_very_many_random_programs(run: Any):
    """100,000 commands, other ones each time."""
    chance = random.Random(seed := random.randrange(1 << 32))
    print("seed", seed)
    for _ in range(1250):
        run(chance, 40)
