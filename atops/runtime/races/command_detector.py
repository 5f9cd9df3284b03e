"""What finds races between commands: each, as it begins, is compared with those that nothing puts before it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from weakref import ref

from atops.base.errors import AtopsError, DataRace, KernelDeadlock, LaunchFailure
from atops.device.call_site import Site, calling_place
from atops.device.memory.allocation import Allocation
from atops.device.memory.value_wait import Watch
from atops.device.races.clocks import Change, Met
from atops.device.races.detector import LaunchDetector, Touched
from atops.device.races.race import Access, Race, merged
from atops.runtime.commands.awaited import WaitAwaited
from atops.runtime.commands.call import Call
from atops.runtime.commands.copy import Copy, CopyCompletion
from atops.runtime.commands.fill import Fill
from atops.runtime.commands.launch import Launch
from atops.runtime.commands.memory import Alloc, Free
from atops.runtime.commands.values import WaitValue, WriteValue
from atops.runtime.core.commands import ROWS, Ended, Run, Touch
from atops.runtime.core.completion import Completion, as_failure
from atops.runtime.races.byte_history import ByteHistory
from atops.runtime.races.command_clock import (
    HOST,
    Epoch,
    Waited,
    before,
    everything_in,
    group_in,
    joined,
    known,
    with_entry,
)
from atops.runtime.races.command_order import CommandOrder
from atops.runtime.races.deadlocks import deadlock_of
from atops.runtime.races.fresh_memory import FreshMemory
from atops.runtime.races.inversions import WAITS, Inversions
from atops.runtime.races.report import Findings
from atops.runtime.races.signal_writes import SignalWrites
from atops.runtime.races.stalls import Stalls, ended_by, note_write, races_of, side_of
from atops.runtime.races.stream_clocks import StreamClock
from atops.runtime.races.wording import FREE, access_of, advice_for, kind_of, left_out, unseen

if TYPE_CHECKING:
    from atops.device.exec.grid import Grid
    from atops.runtime.driver_board import Board
    from atops.runtime.queues.queue import StreamQueue

__all__ = ("CommandDetector",)

# By memory, the earlier command, whether it wrote, the later one, and whether it does: the bytes.
_Found: TypeAlias = dict[tuple[int, Epoch, bool, Epoch, bool], tuple[Allocation | str, list[tuple[int, int]]]]

ENQUEUEING: Final = 3  # frames that are always the package's own: `submitted`, `append`, and its caller
WORDS: Final = {Fill: "fill", Copy: "copy"}  # of the commonest kinds, which have one name
WORD: Final = 8  # bytes: what is no longer may be a word that is polled
HOST_ACTS: Final = frozenset((Call, WaitAwaited, WaitValue))  # in a stream's order with what the host does
FLAGS: Final = 64  # bytes: what is no larger, of memory that the host sees, is there to be polled while kernels run


def _race_error(races: list[Race]) -> DataRace:
    """Return what strict mode raises for races."""
    error = DataRace("\n".join(map(str, races)))
    error.races = tuple(races)
    return error


class CommandDetector(CommandOrder):
    """The detector of one board. Every method may be called from any thread; none calls the program."""

    def __init__(self, board: Board) -> None:
        super().__init__(Findings(board, self._standing))
        self.strict = board.options.strict
        self._histories: dict[int, tuple[ByteHistory, ref[Allocation]]] = {}  # by serial
        self._signals = SignalWrites()
        self._fresh = FreshMemory(self.findings, self._in_a_kernel)
        self._stalls = Stalls()
        self._inversions = Inversions()

    def close(self) -> None:
        """Forget what commands have touched. What was found stays, with what still stands."""
        self.findings.add(self._standing())
        with self._lock:
            self._histories.clear()

    # ---- commands

    def submitted(self, item: Completion) -> None:
        """Note where a command was enqueued, and what the host knew then. With the driver's lock held."""
        queue = item.queue
        device = queue.context.ordinal
        clock, place = queue.clock or self._clock(queue), calling_place(ENQUEUEING)
        item.epoch = epoch = Epoch(clock.order, item.seq, device, queue.blocking, self.host, place, queue.label)
        command = item.command
        kind = command.__class__
        if kind is Free and (owner := command.allocation.owner) is not None:
            epoch.dropped = owner() is None
        if item.deps is not None:
            epoch.after = item.deps if not queue.null else command.after if kind is Alloc else ()
        if kind is Copy and command.size:
            self._host_end(epoch, command)
        elif kind in HOST_ACTS:
            self._memory.see_pinned = False  # what the host stores there may be in order

    def _host_end(self, epoch: Epoch, command: Copy) -> None:
        """Note what a copy's source in host memory is, and poison a target there in strict mode."""
        with self._lock:
            if isinstance(command.src, memoryview):
                self._memory.given(epoch, command.src, command.size, command.checksum)
            elif isinstance(command.src, Allocation):
                self._memory.given_pinned(epoch, command.src, command.src_offset, command.size)
            if self.strict and isinstance(command.dst, memoryview):
                self._memory.poison(command.dst[command.dst_offset :], command.size)

    def watching(self, runs: Mapping[type, Run]) -> Mapping[type, Run]:
        """Return how commands run that are looked at first. A duty is done, whatever is found of it."""
        begin = self.begin

        def looked_at(run: Run) -> Run:
            def look_and_run(command: object, item: Completion) -> bool:
                if not item.duty:
                    begin(item)
                    return run(command, item)
                try:
                    begin(item)
                except DataRace:
                    run(command, item)
                    raise
                return run(command, item)

            return look_and_run

        return {kind: run if kind is Ended else looked_at(run) for kind, run in runs.items()}

    def begin(self, item: Completion) -> None:
        """Note that a command begins, and compare what it touches. Raises DataRace in strict mode."""
        epoch, command = item.epoch, item.command
        if epoch is None:
            return
        kind = command.__class__
        row = ROWS[kind]
        found: _Found = {}
        with self._lock:
            epoch.words = WORDS.get(kind) or row.words(command)
            self._advance(item, epoch, kind, row.effect)
            if (note := NOTES.get(kind)) is not None:
                note(self, epoch, command, found)
            findings = self.findings
            findings.commands += 1
            for touch in row.touches(command):
                memory, start, stop, write = touch
                findings.bytes += stop - start
                if isinstance(memory, Allocation):
                    if memory.host_visible:
                        self._show(epoch, memory, write and stop - start <= WORD, kind is Copy)
                    polls = kind is Copy and not write and stop - start <= WORD
                    noted = self._polling(epoch, touch) if polls else self._freeing(epoch) if kind is Free else epoch
                    self._note(noted, memory, start, stop, write, found)
                    if kind is Alloc:
                        self._note_alloc(epoch, memory, found)
                elif isinstance(memory, memoryview):
                    self._note_host(epoch, touch, found)
            if self._fresh and kind is not Alloc:
                self._late += self._fresh.begins(epoch, kind, [*row.touches(command)])
            changed = self._memory.begins(epoch) if kind is Copy else None
        if (self._inversions.waits or kind in WAITS) and (inverted := self._inversions.begins(item)):
            with self._lock:
                self._late += inverted
        if found or changed is not None or self._late:
            self._tell(item, found, changed)

    def _freeing(self, epoch: Epoch) -> Epoch:
        """Return a free as what comes after all commands, if no reference to the memory was left: each has one.

        After all that there was when its stream left a wait out, if it has: the memory is kept for as long, and
        what the wait was for is not known. The stream learns nothing of this.
        """
        seq = epoch.seq if epoch.dropped else epoch.left_at
        if seq == 0:
            return epoch
        last = copy(epoch)
        for ordinal in self._devices:
            last.own = with_entry(last.own, everything_in(ordinal), seq)
        return last

    def freeing(self, queue: StreamQueue, memory: Allocation) -> Callable[[], None]:
        """Note that memory is given back in a stream's order by no command of it. Returns what notes that it is.

        With the driver's lock held.
        """
        clock, place, ordinal = queue.clock or self._clock(queue), calling_place(ENQUEUEING), queue.context.ordinal
        epoch = Epoch(clock.order, queue.board.seq, ordinal, queue.blocking, self.host, place, queue.label)
        epoch.words = FREE
        return partial(self._freed, queue, clock, epoch, memory)

    def _freed(self, queue: StreamQueue, clock: StreamClock, epoch: Epoch, memory: Allocation) -> None:
        found: _Found = {}
        with self._lock:
            if (last := clock.last) is not None:
                epoch.come_after(last)
            device = self._device(epoch.device)
            if queue.null:
                device.join_blocking(epoch.seq)
                epoch.own = with_entry(joined(epoch.own, device.blocking), group_in(epoch.device), epoch.seq)
            elif queue.blocking and device.null is not None:
                epoch.come_after(device.null)
            epoch.left_at = max(epoch.left_at, clock.left_at)
            self._note(self._freeing(epoch), memory, 0, memory.size, True, found)
        self.findings.add(self._races_of(found))

    def allocated(self, memory: Allocation) -> None:
        """Note that memory was allocated, in no stream's order: nothing has stored to it."""
        with self._lock:
            self._fresh.allocated(memory)

    def cleared(self, memory: Allocation) -> None:
        """Note that all bytes of memory were made 0, in no stream's order."""
        with self._lock:
            self._fresh.stored(memory, 0, memory.size)

    def _in_a_kernel(self, memory: Allocation) -> bool:
        """Tell whether a kernel that runs was given memory: what it has stored there is not known before its end."""
        return any(memory in memories for _, memories in self._running.values())

    def _polling(self, epoch: Epoch, touch: Touch) -> Epoch:
        """Return a copy of one word as what looks at it: it comes after the `write_value` that it sees.

        So a host, or a stream, that asks for a word until it has changed is in order with what wrote it.
        """
        memory, start, stop, _ = touch
        assert isinstance(memory, Allocation), "asked"
        for writer in self._told_by_word(memory, start, stop):
            epoch.come_after(writer)
            self._device(epoch.device).learned[epoch.order] = epoch
        look = copy(epoch)
        look.signal = True
        return look

    def _told_by_word(self, memory: Allocation, start: int, stop: int) -> list[Epoch]:
        return [writer for writer in self._writers(memory, start, stop) if writer.signal]

    def moving(self, item: Completion, action: Callable[[], None]) -> Callable[[], None]:
        """Return `action`, which moves a copy's bytes: one of a word sees what is there then, not when it began."""
        command, epoch = item.command, item.epoch
        if command.__class__ is not Copy or command.size > WORD or epoch is None:
            return action
        if not isinstance(memory := command.src, Allocation):
            return action

        def look() -> None:
            with self._lock:
                if told := self._told_by_word(memory, command.src_offset, command.src_offset + command.size):
                    epoch.told = [*(epoch.told or ()), *told]
            action()

        return look

    def _show(self, epoch: Epoch, memory: Allocation, word: bool, copied: bool = False) -> None:
        """Note that a command uses memory that numpy, or another process, may use at any time without being seen.

        A word that it stores there may be polled: from now on the host may know of it.
        """
        if not (copied and self._memory.looks_at(memory)):
            self.findings.escaped(unseen(memory))
        if word:
            self._host_knows(epoch)

    def begin_run(self, run: list[CopyCompletion]) -> tuple[list[CopyCompletion], AtopsError | None]:
        """Note that short copies begin that are carried out in a row. Returns those up to a race, in strict mode."""
        for place, item in enumerate(run):
            try:
                self.begin(item)
            except DataRace as race:
                return run[:place], race
        return run, None

    def launched(self, item: Completion, grid: Grid, failure: AtopsError | None) -> AtopsError | None:
        """Compare what a kernel has touched, at its end. Returns what the launch fails with, perhaps a DataRace."""
        try:
            return self._launched(item, grid, failure)
        except Exception as error:  # the launch must end
            return failure or as_failure(error, item, "looking for races of ")

    def _launched(self, item: Completion, grid: Grid, failure: AtopsError | None) -> AtopsError | None:
        epoch, kernels = item.epoch, grid.detector
        assert kernels is not None, "a board that has a detector gives each launch one"
        inside = kernels.take()
        self.findings.add(inside, item)
        self._take_counts(kernels)
        self._note_failure(item, grid, failure)
        if inside and self.strict and failure is None:
            failure = _race_error(inside)
        if epoch is None or not epoch.words:
            self._running.pop(item.seq, None)
            return failure
        found: _Found = {}
        with self._lock:
            self.findings.launches += 1
            epoch.complete()  # those that it met have begun by now
            lines: dict[tuple[Site | None, bool, int], Epoch] = {}
            footprint = kernels.footprint()
            self._polled(epoch, footprint)
            parts = epoch.before_signals()
            for memory, start, stop, write, line, relaxed, part in footprint:
                if (at := lines.get((line, relaxed, part))) is None:
                    at = lines[line, relaxed, part] = copy(parts)
                    at.line, at.signal, at.part = line, relaxed, part
                self._note(at, memory, start, stop, write, found, late=True)
            for memory in _freed_under(item, footprint) if failure is not None else ():
                self._note(epoch, memory, 0, memory.size, False, found, late=True)
            if parts is not epoch:
                epoch.come_after_heard()
                self._device(epoch.device).learned[epoch.order] = epoch
            self._running.pop(item.seq, None)  # with its stores noted: a wait for a value finds it either way
            if self._fresh:
                self._late += self._fresh.launched(epoch, footprint, kernels.take_unread(), lines)
        try:
            if found or self._late:
                self._tell(item, found)
        except DataRace as race:
            return failure or race
        return failure

    def _note_failure(self, item: Completion, grid: Grid, failure: AtopsError | None) -> None:
        """Report a kernel whose threads wait for each other; of one that fails otherwise not all was seen."""
        if isinstance(failure, KernelDeadlock):
            self.stalled([(item, f"stands: {failure}")], "threads")
        elif isinstance(failure, LaunchFailure):
            self.findings.escaped(left_out(grid.name))

    def _take_counts(self, kernels: LaunchDetector) -> None:
        """Take what a launch has seen, and what it could not see."""
        with self._lock:
            counted = kernels.take_counts()
            self.findings.accesses += counted[0]
            self.findings.relaxed += counted[1]
            self.findings.same_value += counted[2]
        for escape in kernels.escapes:
            self.findings.escaped(escape)

    def _polled(self, epoch: Epoch, footprint: list[Touched]) -> None:
        """Have a launch come after each `write_value` of a word that its threads look at inside `k.relaxed`."""
        for memory, start, stop, write, _, relaxed, _ in footprint:
            if relaxed and not write:
                for writer in self._history(memory).writers(start, stop):
                    if writer.signal and writer.order != epoch.order:
                        epoch.come_after(writer)
                        self._device(epoch.device).learned[epoch.order] = epoch

    def _note(
        self, epoch: Epoch, memory: Allocation, start: int, stop: int, write: bool, found: _Found, late: bool = False
    ) -> None:
        """Note an access, and put what it clashes with into `found`."""
        if write and memory.device is None:
            self._memory.stored(memory)
        held = self._histories.get(memory.serial)
        history = self._history(memory) if held is None else held[0]
        for earlier, wrote, low, high in history.note(start, stop, write, epoch, late):
            if epoch.seq <= earlier.left_at and earlier.words == FREE:
                continue  # it begins late, and the memory is kept for it
            found.setdefault((memory.serial, earlier, wrote, epoch, write), (memory, []))[1].append((low, high))

    def _note_launch(self, epoch: Epoch, command: Launch, found: _Found) -> None:
        """Note that a kernel may use the memory that it is given from now on."""
        memories = command.bound.allocations
        self._running[epoch.seq] = epoch, memories
        for memory in memories:
            if memory.host_visible:
                self._show(epoch, memory, memory.size <= FLAGS)

    def _note_call(self, epoch: Epoch, command: Call, found: _Found) -> None:
        """Note that the host runs: it knows what the stream comes after."""
        self._host_knows(epoch)

    def _note_write_value(self, epoch: Epoch, command: WriteValue, found: _Found) -> None:
        """Note what is stored to a word that may be waited for."""
        epoch.signal = True
        note_write(self._history(command.dst), command, epoch)

    def _note_wait(self, epoch: Epoch, command: WaitValue, found: _Found) -> None:
        """Note a wait for a value. It clashes with no store, but what allocates the memory has to come before it."""
        memory, start = command.src, command.offset
        history = self._history(memory)
        history.waits[epoch.order] = epoch
        if (made := history.made) is not None and not before(made, epoch):
            found[memory.serial, made, True, epoch, False] = memory, [(start, start + command.width // 8)]

    def _note_alloc(self, epoch: Epoch, memory: Allocation, found: _Found) -> None:
        """Note what allocates memory, in which a word may be waited for already."""
        history = self._history(memory)
        history.made = epoch
        self._fresh.allocated(memory)
        for wait in history.waits.values():
            if not before(wait, epoch):
                found[memory.serial, wait, False, epoch, True] = memory, [(0, memory.size)]

    def _note_host(self, epoch: Epoch, touch: Touch, found: _Found) -> None:
        """Note an access to host memory."""
        view, start, stop, write = touch
        assert isinstance(view, memoryview), "asked"
        if write:
            self._memory.written(view)
        if (place := self._memory.place(view)) is None:
            return
        at = place.start
        for earlier, wrote, low, high in place.history.note(at + start, at + stop, write, epoch):
            key = id(place.history), earlier, wrote, epoch, write
            found.setdefault(key, (place.name, []))[1].append((low, high))

    def tasks_stand(self, sides: list[Access]) -> None:
        """Report tasks of the program that nothing can let go on."""
        self.findings.add([deadlock_of(sides, "tasks")])

    def stalled(
        self, items: Iterable[tuple[Completion, str]], among: str = "streams", perhaps: bool = False,
        tasks: Iterable[Access] = (),
    ) -> None:  # fmt: skip
        """Report commands that wait for each other, each with what it waits for, or for what cannot come.

        `perhaps`: what they wait for may come yet. `tasks` of the program wait, too.
        """
        with self._lock:
            sides = [side_of(item, why, self._history_of_word(item)) for item, why in items]
            if perhaps:
                self._stalls.add(sides)
                return
        self.findings.add(races_of(sides, among, tasks))

    def _history_of_word(self, item: Completion) -> ByteHistory | None:
        command = item.command
        return self._history(command.src) if command.__class__ is WaitValue else None

    def given_up(self, queue: StreamQueue) -> None:
        """Note that the program aborts a stream, and so what stands still there."""
        with self._lock:
            self._stalls.given_up(queue)

    def _standing(self) -> list[Race]:
        """Return the deadlocks of what stands still and may yet go on."""
        with self._lock:
            return self._stalls.races()

    def _history(self, memory: Allocation) -> ByteHistory:
        serial = memory.serial
        found = self._histories.get(serial)
        if found is None:
            histories = self._histories
            found = histories[serial] = ByteHistory(), ref(memory, lambda _: histories.pop(serial, None))
        return found[0]

    def _tell(self, item: Completion, found: _Found, changed: Race | None = None) -> None:
        """Report clashes. Raises DataRace in strict mode."""
        races = [*([] if changed is None else [changed]), *self._races_of(found)]
        self.findings.add(races, item)
        self._tell_late()
        if self.strict and races:
            raise _race_error(races)

    def _races_of(self, found: _Found) -> list[Race]:
        races = list[Race]()
        for (_, earlier, wrote, later, write), (memory, ranges) in found.items():
            device = -1 if isinstance(memory, str) or memory.device is None else memory.device
            if later.seq <= earlier.seq:  # it ran first by luck: the program has them the other way round
                earlier, wrote, later, write = later, write, earlier, wrote
            first, second = access_of(earlier, wrote, device), access_of(later, write, device)
            offset = -1 if isinstance(memory, str) or memory.device is None else memory.offset
            name, kind = memory if isinstance(memory, str) else repr(memory), kind_of(earlier, later)
            races += [Race(kind, first, second, name, device, merged(ranges), advice_for(kind, earlier, later), offset)]
        return races

    # ---- kernel signals

    def started(self, item: Completion, grid: Grid) -> None:
        """Have a launch tell of the kernel signals that it writes, and of those that it has seen."""
        if grid.detector is not None and item.epoch is not None:
            detector, signals = grid.detector, item.queue.context.chip.signals
            detector.on_signal = partial(self._signalled, item.epoch, signals, detector)
            with self._lock:
                self._fresh.launches(item.command.bound.allocations, detector)

    def _signalled(
        self, epoch: Epoch, signals: object, kernels: LaunchDetector, index: int, change: Change | None, met: Met | None
    ) -> None:  # fmt: skip
        """Note that a kernel writes a signal, a `change` of it, or has seen it; `met` has ended its wait for that."""
        with self._lock:
            if change is not None:
                self._signals.by_kernel((signals, index), change, epoch, kernels)
            else:
                self._signals.seen_by_kernel((signals, index), met, epoch, kernels)

    def signalled_by_host(self, signals: object, index: int, change: Change) -> None:
        """Note that the host writes a signal: kernels that see it come after what the host knows."""
        with self._lock:
            self._signals.by_host((signals, index), change, self.host, calling_place(1))
            self._memory.see_pinned = False

    def saw_signal(self, signals: object, index: int) -> None:
        """Note that the host has seen a signal: what it enqueues comes after the launches that wrote it."""
        with self._lock:
            self._host_knows(*self._signals.launches((signals, index)))
        self._tell_late()

    def satisfied(self, item: Completion, wait: Watch) -> None:
        """Note that the wait for a value is over: its stream comes after what has ended it.

        A kernel tells of its stores at its end, so those that run count as writers, too.
        """
        with self._lock:
            if (epoch := item.epoch) is None:
                return
            memory = wait.allocation
            writers = [*ended_by(self._history(memory), wait), *self._storing_to(memory)]
            told = [*(epoch.told or ()), *writers]
            if (clock := item.queue.clock) is not None:
                clock.waited = Waited(epoch.place, None, tuple(each.place for each in writers))
            epoch.told = [*told, self.host] if memory.host_visible else told
            if written := self._history(memory).written.get(wait.offset):
                written[-1].seen = True

    def saw_word(self, wait: Watch) -> None:
        """Note that the host has waited for a value: it was told by what has ended that."""
        with self._lock:
            self._host_knows(*ended_by(self._history(wait.allocation), wait), *self._storing_to(wait.allocation))
        self._tell_late()

    def _writers(self, memory: Allocation, start: int, stop: int) -> list[Epoch]:
        return self._history(memory).writers(start, stop) + self._storing_to(memory)

    def _storing_to(self, memory: Allocation) -> list[Epoch]:
        return [each for each, memories in self._running.values() if memory in memories]

    def host_wrote(self, memory: Allocation, offset: int, size: int) -> None:
        """Note that the host stores a word at once: waits for it come after what the host knows."""
        found: _Found = {}
        with self._lock:
            seq = known(self.host, HOST) + 1
            epoch = Epoch(HOST, seq, -1, False, self.host, calling_place(1), "the host")
            epoch.words, epoch.signal = "write of a word", True
            self._learn(with_entry(self.host, HOST, seq))
            self._fresh.stored(memory, offset, offset + size)
            self._note(epoch, memory, offset, offset + size, True, found)
        self.findings.add(self._races_of(found))


# Of kinds of commands, what is noted as one begins beside what it touches.
NOTES: Final[Mapping[type, Callable[[CommandDetector, Epoch, Any, _Found], None]]] = {
    Launch: CommandDetector._note_launch, Call: CommandDetector._note_call,
    WriteValue: CommandDetector._note_write_value, WaitValue: CommandDetector._note_wait,
}  # fmt: skip


def _freed_under(item: Completion, footprint: list[Touched]) -> list[Allocation]:
    """Return the memory that a failed launch was given, which was freed before a thread could touch it."""
    touched = [memory for memory, *_ in footprint]
    given: tuple[Allocation, ...] = item.command.bound.allocations
    return [memory for memory in given if not memory.alive and not any(each is memory for each in touched)]
