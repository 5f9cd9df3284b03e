"""Latches that hold a stream until the test lets it go. None of them sleeps, and none needs a clock to be right."""

from __future__ import annotations

import threading
from typing import Any

import anyio

import atops
from atops import kernels as k

TURN = 0.001  # seconds a latch kernel waits in one turn; it gives up the interpreter meanwhile, unlike a spin


class StreamLatch:
    """Holds streams of a device, on every host: each waits for a word, which `release` stores from a stream apart."""

    def __init__(self, device: atops.Device) -> None:
        self._device = device
        self._opener = device.create_stream(nonblocking=True, name="latch opener")
        self._words: list[atops.Buffer] = []

    def hold(self, stream: atops.Stream) -> atops.Completion:
        """Enqueue a wait that ends with `release`."""
        word = self._device.allocate(4)
        word.allocation.data[:] = 0
        self._words.append(word)
        return stream.wait_value(word, 1, "Eq")

    def release(self) -> None:
        """Let everything go that is held so far."""
        while self._words:
            self._opener.write_value(self._words.pop(0), 1)

    async def passed(self, *launches: atops.Completion) -> None:
        """Return when the driver has looked at everything enqueued before: what can run by then has begun.

        Name launches that must have come to the clusters: the thread that steps kernels starts some of them, and it may
        come to an earlier launch later than the driver's thread to a later one.
        """
        turns = 0
        while turns < 3 or any(item.state == "pending" for item in launches):
            await self._opener.write_value(self._device.allocate(4), 0)
            turns += 1  # a command may need a step for its predecessor's end and one for itself

    def passed_sync(self, *launches: atops.Completion) -> None:
        """As `passed`, for plain code."""
        anyio.run(lambda: self.passed(*launches))


def hold(stream: atops.Stream) -> StreamLatch:
    """Hold one stream, and return the latch."""
    latch = StreamLatch(stream.device)
    latch.hold(stream)
    return latch


class KernelLatch:
    """A kernel that goes on until `release`, and can be suspended between any two turns."""

    def __init__(self) -> None:
        self.started = threading.Event()
        self.gate = threading.Event()
        self.closed = 0  # threads that were closed at their suspension
        maker = threading.get_ident()

        @k.kernel
        async def latch():
            self.started.set()
            turn = 0 if threading.get_ident() == maker else TURN  # inline the gate's keeper needs this very thread
            try:
                while not self.gate.wait(turn):
                    await k.syncthreads()
            except GeneratorExit:
                self.closed += 1
                raise

        self.kernel = latch

    def hold(self, stream: atops.Stream, config: Any = (1, 1)) -> atops.Completion:
        """Enqueue the kernel."""
        return stream.launch(self.kernel, config)

    def release(self) -> None:
        """Let the kernel return."""
        self.gate.set()


class StubbornLatch:
    """A kernel that never suspends: it blocks its executor thread until `release`. For threaded drivers only."""

    def __init__(self) -> None:
        self.started = threading.Event()
        self.gate = threading.Event()
        self.left = threading.Event()

        @k.kernel
        def stubborn(x):
            self.started.set()
            self.gate.wait()
            self.left.set()

        self.kernel = stubborn

    def hold(self, stream: atops.Stream, argument: Any, config: Any = (1, 1)) -> atops.Completion:
        """Enqueue the kernel with an argument that it never touches."""
        return stream.launch(self.kernel, config, argument)

    def release(self) -> None:
        """Let the kernel return."""
        self.gate.set()
