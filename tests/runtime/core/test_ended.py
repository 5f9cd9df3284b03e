"""A completion that is over keeps its result and its error, and nothing that its command was given."""

from __future__ import annotations

import asyncio
import gc
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any
from weakref import ref

import numpy as np
import pytest

import atops
from atops import executable
from atops import kernels as k
from atops.base.errors import AtopsError
from atops.runtime.commands.copy import ScatteredCopy
from atops.runtime.commands.events import Cancelled
from atops.runtime.commands.memory import Alloc, Free
from atops.runtime.commands.reduce import Reduce
from atops.runtime.core.commands import ENDED, Ended
from atops.runtime.core.completion import Completion
from atops.runtime.stream import queue_of
from tests.every import every
from tests.runtime.boards import PATIENCE, add_one, device
from tests.runtime.executable_models import linear
from tests.runtime.hosts import on_hosts
from tests.runtime.latch import hold

Made = tuple[Completion, list[Any]]  # a command, and what it was given


class Thing:
    """An argument."""

    def __call__(self, *_: object) -> None:
        """Be called as a host function."""


class Host(np.ndarray):
    """A host array that can be referenced weakly."""


def words(count: int = 4) -> Any:
    """Return a host array."""
    return np.zeros(count, np.float32).view(Host)


def copy_up(stream: atops.Stream) -> Made:
    """From host memory."""
    host, array = words(), stream.empty(4)
    return stream.copy(array, host), [host, array, array.allocation]


def copy_long(stream: atops.Stream) -> Made:
    """From host memory, on a copy thread."""
    host, array = words(1 << 16), stream.empty(1 << 16)
    return stream.copy(array, host), [host, array, array.allocation]


def copy_between(stream: atops.Stream) -> Made:
    """From device memory to device memory."""
    one, two = stream.empty(4), stream.empty(4)
    return stream.copy(one, two), [one, two, one.allocation, two.allocation]


def fetch(stream: atops.Stream) -> Made:
    """To host memory, which is the result."""
    array = stream.empty(4)
    return stream.fetch(array), [array, array.allocation]


def fill(stream: atops.Stream) -> Made:
    """A pattern."""
    array = stream.empty(4)
    return stream.fill(array, 1), [array, array.allocation]


def reduce(stream: atops.Stream) -> Made:
    """Three ends."""
    ends = [stream.empty(4) for _ in range(3)]
    places = [(each.allocation, 0) for each in ends]
    command = Reduce("sum", np.dtype(np.float32), 4, *places)
    return queue_of(stream).submit(command), [*ends, *(each.allocation for each in ends)]


def call(stream: atops.Stream) -> Made:
    """A function object and its arguments."""
    function, argument, array = Thing(), Thing(), stream.empty(4)
    return stream.call(function, argument, array), [function, argument, array]


def call_aside(stream: atops.Stream) -> Made:
    """Which the stream does not wait for."""
    function, argument = Thing(), Thing()
    return stream.call(function, argument, holds=False), [function, argument]


def launch(stream: atops.Stream) -> Made:
    """A kernel of its own, with memory and other arguments."""
    arrays = stream.empty(4), stream.empty(4)
    things = Thing(), Thing()

    def function(x: Any, y: Any, thing: Any) -> None:
        things[0]()

    kernel = k.kernel(function)
    made = stream.launch(kernel, (1, 1), *arrays, things[1])
    return made, [*arrays, *things, kernel, function, *(each.allocation for each in arrays)]


def graph(stream: atops.Stream) -> Made:
    """An executable."""
    exe = executable.build(linear(), ranges={"n": (2, 8)}, name="layer")
    x, y = stream.empty((5, 4)), stream.empty((5, 3))
    return exe.launch(stream, [x], [y]), [x, y, x.allocation, y.allocation]


def record(stream: atops.Stream) -> Made:
    """An event."""
    event = stream.device.create_event()
    stream.record(event)
    made = event.completion
    assert made is not None
    return made, [event]


def wait_for_an_event(stream: atops.Stream) -> Made:
    """Of another stream."""
    other = stream.device.create_stream(nonblocking=True)
    event = other.record()
    event.sync(PATIENCE)
    made = stream.wait(event)
    return made, [event, other, event.completion]


def wait_for_a_future(stream: atops.Stream) -> Made:
    """Of threads."""
    future: Future[None] = Future()
    future.set_result(None)
    return stream.wait(future), [future]


def wait_value(stream: atops.Stream) -> Made:
    """A word that is there."""
    word = stream.device.empty(1, np.uint32)
    return stream.wait_value(word, 0, "gte"), [word, word.allocation]


def write_value(stream: atops.Stream) -> Made:
    """A word."""
    word = stream.device.empty(1, np.uint32)
    return stream.write_value(word, 1), [word, word.allocation]


def scattered(stream: atops.Stream) -> Made:
    """A copy to memory in parts."""
    host, array = words(), stream.empty(4)
    command = ScatteredCopy(array.allocation, 0, memoryview(host).cast("B"), 0, 16, 1)
    return queue_of(stream).submit(command), [host, array, array.allocation]


BUILDS: list[Callable[[atops.Stream], Made]] = [
    copy_up, copy_long, copy_between, fetch, fill, reduce, call, call_aside, launch, graph, record, wait_for_an_event,
    wait_for_a_future, wait_value, write_value, scattered,
]  # fmt: skip


def end_well(stream: atops.Stream, build: Any) -> Made:
    """Run it."""
    made = build(stream)
    stream.sync(PATIENCE)
    return made  # type: ignore[no-any-return]


def end_traced(stream: atops.Stream, build: Any) -> Made:
    """Run it where each command is recorded."""
    return end_well(stream, build)


def skip(stream: atops.Stream, build: Any) -> Made:
    """Fail it as what comes behind a failure."""
    latch = hold(stream)
    stream.call(lambda: 1 / 0)
    made = build(stream)
    latch.release()
    with pytest.raises(AtopsError):
        stream.sync(PATIENCE)
    stream.clear_error()
    return made  # type: ignore[no-any-return]


def cancel(stream: atops.Stream, build: Any) -> Made:
    """Drop this one."""
    latch = hold(stream)
    made = build(stream)
    assert made[0].cancel()
    latch.release()
    stream.sync(PATIENCE)
    return made  # type: ignore[no-any-return]


def abort(stream: atops.Stream, build: Any) -> Made:
    """Drop all."""
    hold(stream)
    made = build(stream)
    stream.abort()
    stream.sync(PATIENCE)
    return made  # type: ignore[no-any-return]


ENDS = (end_well, end_traced, skip, cancel, abort)


def _tidy(place: atops.Device, stream: atops.Stream) -> None:
    """Collect what refers to itself, and have done what that gave up."""
    for _ in range(2):
        gc.collect()
        stream.sync(PATIENCE)
        place.null_stream.sync(PATIENCE)
    stream.record().sync(PATIENCE)


@pytest.fixture(scope="module")
def little_to_collect() -> None:
    """Have the collector pass over what other tests have left: here it runs some thousand times."""
    gc.collect()
    gc.freeze()


@pytest.mark.slow
@pytest.mark.usefixtures("little_to_collect")
@every("build", BUILDS)
@every("end", ENDS)
def test_what_is_over_keeps_nothing_that_it_was_given(build: Any, end: Any) -> None:
    """While the completion is kept: host arrays, device memory, functions and their arguments, events."""
    with device(trace=64 if end is end_traced else 0) as place:
        stream = place.create_stream(name="load")
        completion, given = end(stream, build)
        assert completion.done() and completion.cancelled() == (end is cancel)
        kinds = [(type(each).__name__, ref(each)) for each in given]
        given = None
        _tidy(place, stream)
        assert repr(completion).startswith(f"<Completion {completion.seq}: ") and " on load, " in repr(completion)
        left = [(kind, each) for kind, each in kinds if each() is not None]
        assert not {kind for kind, _ in left} - {"Allocation", "Buffer"}, f"{completion!r} keeps {left}"
        said, completion = repr(completion), None
        _tidy(place, stream)
        kept = [kind for kind, each in left if each() is None]  # of the rest, pools keep some
        assert not kept, f"{said} keeps {kept}"
        stream.close()


def test_every_kind_of_command_is_in_the_table() -> None:
    """A new kind gets a line of it; allocations, frees and stand-ins give no completion to the program."""
    with device() as place:
        stream = place.create_stream()
        latch = hold(stream)
        kinds = {type(build(stream)[0].command) for build in BUILDS}
        latch.release()
        stream.sync(PATIENCE)
    assert set(ENDED) - kinds == {Alloc, Free, Ended, Cancelled}


@pytest.mark.slow
@on_hosts("asyncio", "inline")
async def test_coroutines_keep_nothing_that_they_were_given(device):
    """Done, cancelled while they run, dropped before they begin."""
    stream = device.create_stream()

    async def work(thing: Thing, gate: asyncio.Event) -> None:
        await gate.wait()

    for end in ("done", "cancelled", "aborted", "dropped"):
        thing, gate = Thing(), asyncio.Event()
        latch = hold(stream) if end == "dropped" else None
        task, called = stream.create_task(work(thing, gate)), stream.call(work, thing, gate)
        await asyncio.sleep(0)
        if end == "done":
            gate.set()
            await called
        elif end == "cancelled":
            assert task.cancel() and called.cancel()
        else:
            stream.abort()
        if latch is not None:
            latch.release()
        await asyncio.wait({task, called})
        await stream
        await stream.record()  # the threads that ended them have done something else since
        left, thing = ref(thing), None
        for _ in range(5):
            await asyncio.sleep(0)
        gc.collect()
        assert left() is None, (end, task, called)


def test_a_call_that_raised_keeps_what_its_traceback_has() -> None:
    """As any exception does: the frames of the function, and none of the runtime's, which have the arguments."""
    with device() as place:
        stream = place.create_stream()
        thing = Thing()
        left = ref(thing)

        def raises() -> None:
            raise ValueError("on purpose")

        in_c = stream.call(int, thing)
        with pytest.raises(AtopsError, match="raised TypeError"):
            in_c.wait_sync(PATIENCE)
        stream.clear_error()
        in_python = stream.call(lambda: raises())
        failure = in_python.exception(PATIENCE)
        assert failure is not None and failure.__cause__ is not None
        names = [each.name for each in traceback.extract_tb(failure.__cause__.__traceback__)]
        assert names == ["<lambda>", "raises"]
        thing = None
        gc.collect()
        assert left() is None


def test_a_kernel_that_was_aborted_keeps_nothing() -> None:
    """While it runs, and once it has ended."""
    with device() as place:
        stream, began = place.create_stream(), threading.Event()
        array, thing = stream.empty(4), Thing()
        refs = ref(array), ref(thing)

        @k.kernel
        async def spins(x: Any, thing: Any) -> None:
            began.set()
            while True:
                await k.syncthreads()

        made = stream.launch(spins, (1, 1), array, thing)
        assert began.wait(PATIENCE)
        stream.abort()
        stream.sync(PATIENCE)
        array = thing = None
        assert isinstance(made.exception(), AtopsError)
        for _ in range(3):  # the lane's thread has let go of it once it has run others
            stream.launch(add_one, (1, 1), stream.zeros(1, np.int32)).wait_sync(PATIENCE)
            gc.collect()
        assert [each() for each in refs] == [None, None]
