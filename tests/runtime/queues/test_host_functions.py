"""Strict mode warns of what host functions do here and may not on a device, and of nothing else."""

import gc
import logging
import threading
from contextlib import suppress

import numpy as np

import atops
from atops.base.errors import IllegalState
from tests.every import every
from tests.runtime.boards import PATIENCE, device


def seen_of(caplog, work, strict=True):
    """Return the warnings of host functions that a program leaves."""
    with caplog.at_level(logging.WARNING, logger="atops.strict"), device(strict=strict) as place:
        work(place, place.create_stream(name="load"), place.create_stream(name="save"))
        place.sync(PATIENCE)
    return [each.getMessage() for each in caplog.records if each.name == "atops.strict"]


def waits_for_another(place, load, save):
    """A host function that waits for one of another stream, which ends when the first has begun; and again."""
    for _ in range(2):
        begun = threading.Event()
        other = save.call(begun.wait, PATIENCE)

        def waits(begun=begun, other=other):
            begun.set()
            other.wait_sync(PATIENCE)

        load.call(waits).wait_sync(PATIENCE)


def waits_for_a_stream(place, load, save):
    """A callback that synchronises another stream, which is busy."""
    gate = place.zeros(1, np.uint32)
    save.wait_value(gate, 1, "eq")

    def synchronises(error):
        opener.start()
        save.sync(PATIENCE)

    writer = place.create_stream(nonblocking=True)
    opener = threading.Timer(0, lambda: writer.write_value(gate, 1))
    load.add_callback(synchronises).wait_sync(PATIENCE)


def enqueues(place, load, save):
    """Verbs of another stream, twice."""
    x = place.zeros(4)

    def fills():
        save.fill(x, 1)
        save.copy(x, np.zeros(4, np.float32))

    load.call(fills).wait_sync(PATIENCE)


@every("work, said", [
    (waits_for_another, "host function waits_for_another.<locals>.waits of load waits for <Completion"),
    (waits_for_a_stream, "host function waits_for_a_stream.<locals>.synchronises of load waits for"),
    (enqueues, "host function enqueues.<locals>.fills of load calls a verb of save; on a device calls of the API"),
    (lambda place, load, save: load.call(save.record), "host function Stream.record of load calls a verb of save"),
    (lambda place, load, save: load.call(place.create_stream), "of load calls create_stream()"),
    (lambda place, load, save: load.call(place.create_event), "of load calls create_event()"),
    (lambda place, load, save: load.call(place.empty, 4), "of load calls allocate()"),
])  # fmt: skip
def test_one_warning_each(caplog, work, said):
    """Named, with the cure, and once for each function; without strict mode none."""
    caplog.clear()
    (warning,) = seen_of(caplog, work)
    assert said in warning and "coroutine function" in warning
    caplog.clear()
    assert not seen_of(caplog, work, strict=False)


def test_no_warning_in_correct_programs(caplog):
    """Host functions that compute, frees by the collector, questions, coroutines, and waits outside of them."""

    def correct(place, load, save):
        kept = [save.zeros(4)]
        event = save.record()
        load.call(kept.clear)
        load.call(lambda: (event.is_done, save.is_done, save.statistics(), place.memory_info()))
        load.add_callback(lambda error: None)
        save.wait(load.record())
        load.sync(PATIENCE)

    assert not seen_of(caplog, correct)

    async def main():
        stream, other = atops.Device(0).create_stream(), atops.Device(0).create_stream()

        async def copies():
            await other.fetch(other.zeros(4))

        await stream.call(copies)

    with caplog.at_level(logging.WARNING, logger="atops.strict"):
        atops.run(main, atops.EmulatorOptions(strict=True))
    assert not caplog.records


def test_a_finalizer_amid_a_warning_may_call(caplog):
    """Garbage is collected anywhere, while a host function is warned of too: what its finalizer does is warned of."""

    def work(place, load, save):
        collecting, called = threading.Event(), []

        class Garbage:
            def __init__(self):
                self.me = self

            def __del__(self):
                if collecting.is_set():
                    Garbage()  # for the next collection, which comes at the next allocation
                    with suppress(IllegalState):  # amid an enqueue
                        called.append(None)
                        save.record()

        def collects():
            Garbage()
            threshold = gc.get_threshold()
            collecting.set()
            gc.set_threshold(1)
            try:
                save.record()
            finally:
                gc.set_threshold(*threshold)
                collecting.clear()

        load.call(collects).wait_sync(PATIENCE)
        assert len(called) > 1

    assert len(seen_of(caplog, work)) == 1
