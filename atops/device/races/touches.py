"""What a kernel thread touches, told to the footprint of the step that runs: by it strategies know what commutes.

It takes the detector's place, `thread.race`, and passes all on to the detector where both are asked for.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import partial
from types import CodeType
from typing import TYPE_CHECKING, Any, Final

from atops.base.footprint import RUNTIME, Footprint, Range
from atops.device.call_site import Site, calling_place
from atops.device.geometry import Array, Key, Space, is_basic
from atops.device.races.rectangles import Rect, layout, selected, starts

if TYPE_CHECKING:
    from atops.device.exec.thread import KernelThread
    from atops.device.memory.allocation import Allocation
    from atops.device.races.access_log import Flight
    from atops.device.races.clocks import Change, Met
    from atops.device.races.thread_races import Accessed, ThreadRaces
    from atops.device.span.span import Span

__all__ = ("Moved", "ThreadTouches")

MEMORY: Final = "memory"  # global memory of all devices: their addresses differ
HOST: Final = "host memory"  # as a whole: where it lies differs from run to run
MOST_RUNS: Final = 256  # of one access that are told apart


class Moved:
    """A transfer: what it reads and writes when it takes effect; and as the detector knows it, if there is one."""

    __slots__ = ("flight", "memory", "over", "plain", "reads", "writes")

    def __init__(self, flight: Flight | None, plain: bool) -> None:
        self.flight = flight
        self.plain = plain  # its context is the thread's own, and connected to no other
        self.over = False  # whether it has taken effect
        self.memory: Allocation | None = None  # that it writes
        self.reads: list[Range] = []
        self.writes: list[Range] = []

    def take_effect(self, footprint: Footprint) -> None:
        """Note that the running step moves the bytes."""
        self.over = True
        for thing, start, stop in self.reads:
            footprint.read(thing, start, stop)
        for thing, start, stop in self.writes:
            footprint.write(thing, start, stop)
        if self.memory is not None and self.memory.watches is not None:
            footprint.opaque()  # it may end waits of streams


class ThreadTouches:
    """What one thread does. `detector` is told the same."""

    __slots__ = ("_arrived", "_footprint", "_l1", "_l2", "_relaxed", "detector", "thread")

    def __init__(self, footprint: Footprint, thread: KernelThread, detector: ThreadRaces | None) -> None:
        self._footprint = footprint
        self.detector = detector
        self.thread = thread
        self._relaxed = 0
        self._arrived = 0  # times, at counted barriers
        block = thread.block
        device, cluster = thread.grid.chip.ordinal, block.cluster
        self._l1 = ("L1", device, cluster.ordinal, thread.sip.ordinal)
        self._l2 = ("L2", device, cluster.ordinal)

    @property
    def seen(self) -> int:
        """How many accesses the detector has seen of the thread."""
        return 0 if self.detector is None else self.detector.seen

    def last_access(self) -> str:
        """Say what the detector has seen last of the thread; "" without one."""
        return "" if self.detector is None else self.detector.last_access()

    @property
    def relaxed(self) -> int:
        """Inside how many blocks of k.relaxed the thread is."""
        return self._relaxed if self.detector is None else self.detector.relaxed

    @relaxed.setter
    def relaxed(self, count: int) -> None:
        self._relaxed = count
        if self.detector is not None:
            self.detector.relaxed = count

    def access(self, kind: str, span: Span, key: Key, value: object = None) -> None:
        """Note a load or a store; `escape` hands out a plain array, and nothing done through that is seen."""
        if kind == "escape":
            self._footprint.escape()
        else:
            write, array, allocation = kind == "store", span.array, span.allocation
            tell = self._footprint.write if write else self._footprint.read
            if not is_basic(key):
                memory = self._memory(allocation, span.space)
                ranges = _runs(selected(array, key, memory[1])) if memory[0] != HOST else [(0, 1)]
                found = [(memory[0], start, stop) for start, stop in ranges]
            else:
                keys = key if isinstance(key, tuple) else (key,)
                plain = any(each is ... or isinstance(each, str) for each in keys)
                part = array if key is ... else array[key] if plain else array[(*keys, ...)]
                found = self._ranges(part, allocation, span.space)
            for thing, start, stop in found:
                tell(thing, start, stop)
            if write and allocation is not None and allocation.watches is not None:
                self._footprint.opaque()  # it may end waits of streams
        if self.detector is not None:
            self.detector.access(kind, span, key, value)

    def _memory(self, allocation: Allocation | None, space: Space) -> tuple[Hashable, int]:
        """Return which memory an access goes to, and the address that its places are counted from."""
        if allocation is None:
            local = space is Space.LOCAL
            pad = self.thread.sip.l1 if local else self.thread.block.cluster.l2
            return self._l1 if local else self._l2, pad.__array_interface__["data"][0]
        if allocation.device is None:
            return HOST, 0
        return MEMORY, allocation.data.__array_interface__["data"][0] - allocation.address

    def _ranges(self, array: Array, allocation: Allocation | None, space: Space) -> list[Range]:
        """Return what an access to all of an array touches."""
        thing, origin = self._memory(allocation, space)
        if thing == HOST:
            return [(HOST, 0, 1)]
        first = array.__array_interface__["data"][0] - origin
        rows = layout(array.shape, array.strides, array.itemsize)
        return [(thing, first + start, first + stop) for start, stop in _runs(rows)]

    def forgot(self, flight: Moved, transfer: str) -> None:
        """Hand on that the thread has ended and waited for no such transfer."""
        if self.detector is not None and flight.flight is not None:
            self.detector.forgot(flight.flight, transfer)

    def issued(
        self, event: Any, write: Accessed | None, read: Accessed | None, code: CodeType, instruction: int
    ) -> Moved:
        """Note what a transfer will touch that the thread issues. In strict mode the issue itself touches it, too."""
        detector, context = self.detector, event.context
        flight = None if detector is None else detector.issued(event, write, read, code, instruction)
        moved = Moved(flight, not context.shared and context.chain is None)
        moved.memory = None if write is None else write.allocation
        strict = self.thread.grid.options.strict
        for operand, ranges, tell in (
            (read, moved.reads, self._footprint.read), (write, moved.writes, self._footprint.write),
        ):  # fmt: skip
            if operand is not None and operand.array.size:
                ranges += self._ranges(operand.array, operand.allocation, operand.space)
                for thing, start, stop in ranges if strict else ():
                    tell(thing, start, stop)
        if not moved.plain:
            self._footprint.opaque()
        return moved

    def waited(self, moved: Moved) -> None:
        """Note that the thread has waited for a transfer."""
        if not moved.plain:
            self._footprint.opaque()
        elif not moved.over:  # it takes effect here, at its wait
            moved.take_effect(self._footprint)
        if self.detector is not None and moved.flight is not None:
            self.detector.waited(moved.flight)

    def taken(self, start: int, stop: int) -> None:
        """Note that the thread takes these bytes of its L1."""
        if self.detector is not None:
            self.detector.taken(start, stop)

    def release(self, what: tuple[Any, ...], change: Change | None = None, atomic: bool = False) -> None:
        """Note that the thread stores into a signal, or arrives at a counted barrier: (barrier, phase).

        `atomic`: what is stored comes of the value before, in one step.
        """
        footprint = self._footprint
        if what[0] == "signal":
            if not atomic:
                footprint.overwrite((what, self.thread.grid), self.thread, partial(_told, what, *calling_place(2)))
            signals = self.thread.grid.chip.signals
            footprint.write(("signal", self.thread.grid.chip.ordinal, what[1]))
            footprint.read(RUNTIME)  # the clock
            if signals.host_waits(what[1]):
                footprint.opaque()
        else:
            barrier, phase = what
            footprint.give((barrier.name, phase))
            footprint.group(barrier.name, phase)
            self._arrived += 1
            footprint.arrive(barrier.name, self._arrived, barrier.missing - 1)
        if self.detector is not None:
            self.detector.release(what, change, atomic)

    def acquire(self, what: tuple[object, ...], met: Met | None = None) -> None:
        """Note that the thread looks at a signal. What a barrier's phase gives, the turn after the wait needs."""
        if what[0] == "signal":
            self._footprint.read(("signal", self.thread.grid.chip.ordinal, what[1]))
            self._footprint.read(RUNTIME)  # the clock
            if met is None:  # no wait for a value, behind which others have had their turns
                self._footprint.look((what, self.thread.grid))
        if self.detector is not None:
            self.detector.acquire(what, met)

    def uses(self, context: object, code: CodeType, instruction: int) -> None:
        """Note that the thread uses a DTE context of its block."""
        self._footprint.opaque()
        if self.detector is not None:
            self.detector.uses(context, code, instruction)


def _told(what: tuple[Any, ...], code: CodeType, instruction: int) -> str:
    """Say where a thread overwrites a signal that it has just read."""
    return (
        f"threads read signal {what[1]} and then overwrite it, at {Site(code, instruction)}: no schedule has another "
        "one between the two, and the chip may; k.signal_add is one step"
    )


def _runs(rows: Sequence[Rect]) -> list[tuple[int, int]]:
    """Return the runs of rectangles; of very many the bytes from the first to the last."""
    if sum(row[3] for row in rows) > MOST_RUNS:
        return [(min(row[0] for row in rows), max(row[0] + row[2] * (row[3] - 1) + row[1] for row in rows))]
    return [(start, start + row[1]) for row in rows for start in starts(row)]
