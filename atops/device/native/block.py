"""A block whose threads are fibers of the native runtime: one step runs all of them to their end.

The blocks of a cooperative launch run together, on the OS thread that steps the last one to be placed. Which thread is
next is chosen by the runtime, from the launch's seed where there is one.
"""

from __future__ import annotations

import ctypes
import struct
import threading
from array import array
from collections.abc import Iterable, Sequence
from functools import partial
from signal import Signals
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from atops.base.agenda import Agenda, Step
from atops.base.choice import THREAD
from atops.base.errors import (
    AtopsError,
    CompilationError,
    DteError,
    ExecutionError,
    IllegalAddress,
    KernelAssert,
    KernelDeadlock,
    LaunchFailure,
    LaunchOutOfResources,
    OutOfMemory,
    StreamAborted,
)
from atops.base.log_fields import message_of
from atops.device.call_site import file_shown
from atops.device.chip import Cluster, Scratch, Sip
from atops.device.exec.block import Block, Progress, Task
from atops.device.exec.grid import Grid
from atops.device.exec.thread import KernelThread
from atops.device.native.library import (
    CHOOSE,
    FIND,
    PRINT,
    VERSION,
    Dim,
    NativeModule,
    Run,
    private_ranges,
    runtime_library,
)
from atops.device.native.watching import Watching

if TYPE_CHECKING:
    from atops.device.memory.allocation import Allocation

__all__ = ("NativeBlock", "NativeEntry", "NativeLoaded")

NEAR = 1 << 28  # bytes around an allocation that are told as such
NAGGING = 0.005  # seconds between two attempts to end a run that does not end by itself
KINDS: dict[int, type[AtopsError]] = {
    1: LaunchFailure, 2: DteError, 3: IllegalAddress, 4: KernelDeadlock, 5: LaunchOutOfResources, 6: KernelAssert,
}  # fmt: skip


STOPPED, ENDED = 7, 9  # Fault::stopped, Fault::process_ended


class NativeLoaded(Protocol):
    """A module on one chip, and the memory of its variables there."""

    @property
    def module(self) -> NativeModule:
        """The copy of the module that runs there."""

    @property
    def allocations(self) -> tuple[Allocation, ...]:
        """The memory of its variables."""

    @property
    def constants(self) -> tuple[Allocation, ...]:
        """That of its constants."""


class NativeEntry(Protocol):
    """A native kernel with the arguments of one launch."""

    name: str
    arguments: Any
    plan: _Plan | None  # of the grid that runs it, once a block of it has begun

    def on(self, chip: object, watched: bool) -> tuple[NativeLoaded, int]:
        """Return the module as it is on a chip, and where the kernel begins. Raises OutOfMemory for its variables.

        `watched`: the one whose every access is seen. Raises CompilationError where the compiler does not make it.
        """

    def named(self, chip: object, watched: bool) -> Sequence[Allocation]:
        """Return the memory that the arguments name, to which the kernel may store.

        `watched`: and the host's that it may reach by name, so that what is registered of the module's own is known.
        """

    def find(self, address: int, chip: object) -> Allocation | None:
        """Return the live memory of the chip that an address of the host is in."""


class _Plan:
    """What the runs of all blocks of a grid have in common, and what that refers to."""

    __slots__ = ("_apart", "_entry", "_head", "_ranges", "grid", "loaded", "memory", "watching")

    def __init__(self, grid: Grid, entry: NativeEntry) -> None:
        """Plan. Raises OutOfMemory for the module's variables, CompilationError as `NativeEntry.on`."""
        self.grid, self._entry = grid, entry
        self.loaded, enter = entry.on(grid.chip, grid.detector is not None)
        module = self.loaded.module
        self.memory = (*entry.named(grid.chip, grid.detector is not None), *self.loaded.allocations)
        ranges = sorted({_range(each) for each in self.memory if each.alive}) if self.memory else ()
        self._ranges = array("Q", [end for each in ranges for end in each])
        at, count_of_ranges = self._ranges.buffer_info()
        cooperative = 2 if grid.barrier.expected > 1 else grid.cooperative
        self._head = _HEAD.pack(  # of one block, with no seed
            VERSION, grid.arch.gcu_arch, module.address, enter, entry.arguments.buffer_info()[0], *grid.grid_dim,
            *grid.block_dim, 1, cooperative, 0, grid.shared_bytes, grid.options.seed is not None, 0,
            grid.options.dte == "eager", grid.options.strict, module.library_heap, 0, at, count_of_ranges // 2, *_CALLS,
            module.text_low, module.text_high,
        ) + _OUTCOME  # fmt: skip
        # In a process of its own; what is watched is seen here, and held to its memory before it is used.
        self._apart = grid.options.native_process and grid.detector is None and grid.agenda is None
        if self._apart:
            _check_shared(self.memory)
        self.watching: Watching | None = None
        if grid.detector is not None:
            self.watching = Watching(grid, module, self.found, self.loaded.constants)
            grid.detector.at_end.append(self._over)

    def run_of(self, blocks: Sequence[NativeBlock], seed: int) -> tuple[array[int], object]:
        """Return the memory of a run of these blocks, with their places behind it, and what keeps their scratchpads.

        A grid that is abandoned gets other scratchpads, while its threads may still store to these.
        """
        packed, kept, agenda = self._head, [], self.grid.agenda
        for each in blocks:
            pads = _pads(each.cluster, each.sips)
            packed += _INDEX.pack(*each.index) + pads.packed
            kept.append(pads)
        data = array("B", packed)
        if len(blocks) > 1 or seed or self._apart or agenda is not None or self.watching is not None:
            run = Run.from_buffer(data)
            run.blocks, run.seed, run.apart = len(blocks), seed, self._apart
            if agenda is not None:
                run.choose = _CHOOSE
            if self.watching is not None:  # None: not watched, or the grid was abandoned
                run.shadow = self.watching.address
        return data, kept

    def _over(self) -> None:
        """Report what was watched. A run of an abandoned grid keeps its own reference to it."""
        if (watching := self.watching) is not None:
            self.watching = None
            watching.tell()

    def found(self, address: int) -> Allocation | None:
        """Return the live memory that an address of the host is in."""
        for each in self.memory:
            low, high = _range(each)
            if low <= address < high and each.alive:
                return each
        known: Allocation | None = self._entry.find(address, self.grid.chip)
        return known


class NativeBlock(Block):
    """A block of a native kernel; the last one of a cooperative grid to be placed runs them all."""

    __slots__ = (
        "_chosen", "_ending", "_plan", "_run", "_running", "_turn", "_watching", "sips",
    )  # fmt: skip

    def __init__(self, grid: Grid, linear: int, cluster: Cluster, sips: list[Sip]) -> None:
        self._run: array[int] | None = None  # its memory; changes under the grid barrier's lock, as the next two do
        self._running = self._ending = False
        self._plan: _Plan | None = None
        self._watching: Watching | None = None
        self._chosen: _Choosing | None = None
        self._turn: Step | None = None  # on the agenda
        self.sips = sips  # one for each thread, or more
        Block.__init__(self, grid, linear, cluster, sips, None)  # quicker than by super()

    def tasks(self) -> list[Task]:
        """Return the block, unless another one runs it, too."""
        grid = self.grid
        if grid.cooperative and self.linear != max(grid.blocks, default=self.linear):
            return []
        if grid.cooperative and len(grid.blocks) < grid.total_blocks:
            return []
        if grid.agenda is not None:
            self._turn = partial(self.step, 0)
            grid.agenda.add((THREAD, grid.label, self.linear, 0), self._turn)
            return []
        return [self]

    @property
    def ahead(self) -> int:
        """0: it does not wait for a virtual clock."""
        return 0

    def step(self, budget: int) -> Progress:
        """Run all threads to their end; AGAIN, where the block then is the next one of its grid."""
        grid = self.grid
        blocks = self._together() if grid.cooperative or grid.agenda is not None else [self]
        if grid.error is None:
            try:
                self._go(blocks)
            except BaseException as error:  # the schedule's: the run is at its end
                grid.stop(LaunchFailure(f"kernel {grid.name}: {message_of(error)}"))
                self._end(blocks)
                raise
            if grid.next_block(self):
                return Progress.AGAIN  # what is as urgent has a turn first
        self._end(blocks)
        return Progress.DONE

    def _end(self, blocks: Sequence[NativeBlock]) -> None:
        for each in blocks:
            each.left = each.size
            each.over()
        if not self.grid.remaining:
            entry: Any = self.grid.entry
            entry.plan = None  # which refers to the grid, and that to the entry: a circle, left to the collector

    def _together(self) -> list[NativeBlock]:
        """Return the blocks that take turns with this one, and this one, in their order."""
        grid = self.grid
        with grid.barrier.lock:
            found: list[Any] = [block for _, block in sorted(grid.blocks.items())]  # all are of this class
        return found if grid.cooperative else self._with_neighbours(found)

    def _with_neighbours(self, blocks: Sequence[NativeBlock]) -> list[NativeBlock]:
        """Return this block and the next ones that have their clusters and have not begun: their threads take turns."""
        agenda = self.grid.agenda
        assert agenda is not None, "asked"
        together = [self]
        for each in blocks:
            if each.linear == together[-1].linear + 1:
                if each._turn is None or not agenda.drop(each._turn):
                    break
                together.append(each)
        return together

    def _go(self, blocks: Sequence[NativeBlock]) -> None:
        grid = self.grid
        entry: Any = grid.entry
        seed = 0 if grid.options.seed is None else grid.rng.getrandbits(63) ^ self.linear
        try:
            plan = entry.plan
            if plan is None or plan.grid is not grid:
                plan = self._planned(entry)
            data, kept = plan.run_of(blocks, seed)
        except (OutOfMemory, CompilationError, IllegalAddress) as error:
            return grid.stop(_failure(type(error), f"kernel {grid.name}: {error}"))
        except Exception as error:  # a module that cannot be loaded, a cache that cannot be written
            return grid.stop(_failure(LaunchFailure, f"kernel {grid.name}: {type(error).__name__}: {error}"))
        self._plan, self._watching = plan, plan.watching
        if grid.agenda is not None:
            self._chosen = _Choosing(grid.agenda, grid.label, blocks)
        lock = grid.barrier.lock
        with lock:
            if grid.error is not None:
                return  # stopped meanwhile: to compile takes a while
            self._run, self._running = data, True
        outer, HERE.block = HERE.block, self
        try:
            fault = runtime_library().atops_run(data.buffer_info()[0])
        finally:
            HERE.block = outer
            with lock:
                self._running = False
        del kept  # these, the plan and the entry have to stay while it runs
        self._tell_used(blocks, data)
        if self._chosen is not None:
            chosen, self._chosen = self._chosen, None
            if chosen.error is not None:
                raise chosen.error
        if fault:
            self._fail(Run.from_buffer(data), fault)
        self._watching = None

    def _tell_used(self, blocks: Sequence[NativeBlock], data: array[int]) -> None:
        """Tell of the memory that the run may have stored to, and of the scratchpads how much it has used."""
        assert self._plan is not None, "it ran"
        for allocation in self._plan.memory:
            if allocation.alive:
                allocation.wrote(0, allocation.size)
        for place, each in enumerate(blocks):
            l2_used, l1_used = _USED.unpack_from(data, _RUN_BYTES + (place + 1) * _PLACE_BYTES - _USED.size)
            if l2_used:
                _used(each.cluster.l2, l2_used)
            if l1_used:
                for sip in each.sips[: each.size]:
                    _used(sip.l1, l1_used)

    def _planned(self, entry: NativeEntry) -> _Plan:
        """Return the plan of the grid; blocks that are watched have one in common, whichever comes first."""
        grid = self.grid
        if grid.detector is None:
            entry.plan = plan = _Plan(grid, entry)
            return plan
        with grid.detector.lock:
            if (known := entry.plan) is None or known.grid is not grid:
                entry.plan = known = _Plan(grid, entry)
            return known

    def found(self, address: int) -> tuple[int, int] | None:
        """Return the live memory that an address is in."""
        entry: Any = self.grid.entry
        known = entry.find(address, self.grid.chip)
        return None if known is None else _range(known)

    def choose(self, threads: Sequence[int]) -> int:
        """Return the place of the thread that goes on."""
        assert self._chosen is not None and self._run is not None, "it runs"
        return self._chosen.choose(threads, Run.from_buffer(self._run))

    def show(self, text: bytes) -> None:
        """Print what a thread prints."""
        self.grid.chip.print_fifo.put(text.decode("utf-8", "replace"), self.grid.entry)

    def _tell_place(self, at: str) -> None:
        """Say where an abort has stopped a thread, unless another block has: they stop in OS threads of their own."""
        grid = self.grid
        with grid.barrier.lock:
            error = grid.error
            if type(error) is StreamAborted and not grid.place_told:
                grid.place_told = True
                grid.error = StreamAborted(f"{error}: {at}")  # other commands of the stream have the abort's own
                grid.error.__cause__ = error.__cause__

    def _fail(self, run: Run, fault: int) -> None:
        """End the grid with what a thread did wrong."""
        grid = self.grid
        kind = KINDS.get(fault)
        if grid.error is not None:  # it was stopped, and the grid knows why, but not where
            unsaid = type(grid.error) is StreamAborted and not grid.place_told
            if fault == STOPPED and unsaid and (where := self._where(run)):
                self._tell_place(f"thread {_shown(run.fault_thread)} of block {_shown(run.fault_block)} was at {where}")
            return
        if fault == ENDED:
            return grid.stop(LaunchFailure(f"kernel {grid.name}: {_end_of(run)}"))
        if kind is None:
            kind, run.told.contents.text = LaunchFailure, b"stopped by a signal"
        block, thread = _index(run.fault_block), _index(run.fault_thread)
        told = run.told.contents
        where = self._where(run)
        said = told.text.decode("utf-8", "replace")
        subject = f"thread {_shown(run.fault_thread)} of block {_shown(run.fault_block)} of kernel {grid.name}"
        if said == "access":
            said = self._access(run)
        elif kind is IllegalAddress and (said == "address" or (run.fault_bytes and not run.fault_where)):
            said = self._address(run, said)
        if kind is KernelDeadlock:
            text = f"kernel {grid.name} cannot go on: {said}"
        elif kind is KernelAssert:
            text = f"{subject} at {where}: assertion `{said}` failed"
        else:
            text = f"{subject}{f' at {where}' if where else ''}: {said}"
        failure = _failure(kind, text)
        failure.block, failure.thread = block, thread
        grid.stop(failure)

    def _where(self, run: Run) -> str:
        """Return file and line of what a thread did; "" where they are not known."""
        told = run.told.contents
        where = f"{told.file.decode('utf-8', 'replace')}:{run.fault_line}" if run.fault_line else ""
        if run.fault_where:
            assert self._watching is not None, "it ran"
            site = self._watching.place(run.fault_where)
            return where if site is None else f"{file_shown(site.path)}:{site.line}"
        if run.fault_pc:
            assert self._plan is not None, "it ran"
            where = self._plan.loaded.module.line_of([run.fault_pc, *run.fault_callers]) or where
        return where

    def _address(self, run: Run, said: str) -> str:
        """Say what lies at an address."""
        address, size = run.fault_address, run.fault_bytes
        near, nearest = None, (1 << 20) + 1  # bytes
        assert self._plan is not None, "it ran"
        for allocation in self._plan.memory:
            low, high = _range(allocation)
            if (apart := max(low - address, address - high + 1, 0)) < nearest:
                near, nearest = (allocation, address - low), apart
        if said == "address":
            what = {1: "stored to", 0: "read from"}.get(run.fault_write, "used")
            place = "a null pointer" if address < 4096 else f"{address:#x}, where no memory of the kernel is"
            text = f"{what} {place}"
        else:
            text = f"{said} has {size} bytes at {address:#x}, which no live memory of the kernel holds"
        if near is not None:
            allocation, offset = near
            if said != "address" and allocation.alive and 0 <= offset < allocation.size:
                past = offset + size - allocation.size
                return f"{said} has {size} bytes, {past} past the end of {allocation!r}, at offset {offset}"
            text += f"; nearest is {allocation!r}, at offset {offset}"
        return text

    def _access(self, run: Run) -> str:
        """Say what is wrong with a load or a store outside of live memory."""
        low, size = run.fault_address, run.fault_bytes
        said = f"{'stores' if run.fault_write else 'reads'} {size} bytes"
        assert self._plan is not None, "it ran"
        near = [(each, *_range(each)) for each in self._plan.memory if each.alive]
        beyond = max((each for each in near if each[1] <= low), key=lambda each: each[1], default=None)
        ahead = min((each for each in near if each[1] > low), key=lambda each: each[1], default=None)
        if beyond is not None and low < beyond[2] + NEAR:
            allocation, base, end = beyond
            return f"{said}, {low + size - end} past the end of {allocation!r}, at offset {low - base}"
        if ahead is not None and low >= ahead[1] - NEAR:
            return f"{said}, {ahead[1] - low} before the beginning of {ahead[0]!r}"
        return f"{said} at {low:#x}, where no memory of the kernel is"

    # ---- what other blocks do for their threads, the runtime does here

    def make_ready(self, threads: Iterable[KernelThread]) -> bool:
        """Nothing waits here."""
        return False

    def cancel(self) -> bool:
        """Have the run end."""
        return True

    def reschedule(self) -> None:
        """Have the run end: the thread that is in it is interrupted until it has left."""
        with self.grid.barrier.lock:
            if not self._running or self._ending:
                return
            self._ending = True
        self._interrupt()
        threading.Thread(target=self._nag, name="atops-interrupt", daemon=True).start()

    def _interrupt(self) -> bool:
        with self.grid.barrier.lock:
            if self._running and self._run is not None:
                runtime_library().atops_interrupt(Run.from_buffer(self._run))
            return self._running

    def _nag(self) -> None:
        pause = threading.Event()
        while self._interrupt():
            pause.wait(NAGGING)

    def open_barrier(self) -> None:
        """Nothing: the runtime opens it."""

    def arrive_at_grid(self) -> None:
        """Nothing: the runtime does."""

    def running(self) -> list[KernelThread]:
        """Return none: its threads are no objects of Python."""
        return []


def _check_shared(memory: Iterable[Allocation]) -> None:
    """Raise IllegalAddress for memory of this process alone: what another one stored to it would be lost."""
    if not (given := [each for each in memory if each.device is None and each.alive and each.size]):
        return
    alone = private_ranges()
    for each in given:
        if any(low <= each.host_address < high for low, high in alone):
            raise IllegalAddress(f"it runs in a process of its own, which cannot reach {each!r}: use pinned memory")


def _end_of(run: Run) -> str:
    """Say how the process of a run ended before its end; what it had stored is stored."""
    if run.fault_address:
        how = f"was ended by {Signals(run.fault_address).name}"
    else:
        how = f"ended with code {run.fault_bytes}"
    return f"the process that it ran in {how}; the next launch runs in another one"


def _failure(kind: type[AtopsError], text: str) -> Any:
    """Return a LaunchFailure; that of another execution error has its code, and any other error is its cause."""
    if issubclass(kind, LaunchFailure):
        return kind(text)
    inner = kind(text)
    failure = LaunchFailure(text)
    if isinstance(inner, ExecutionError):
        failure.__dict__["code"] = inner.code  # an illegal address stays one at the C edge
    failure.__cause__ = inner
    return failure


class _Choosing:
    """Which thread goes on in a run under a schedule: each is named as one of a kernel in Python is."""

    __slots__ = ("_agenda", "_names", "error")

    def __init__(self, agenda: Agenda, label: str | int, blocks: Sequence[Block]) -> None:
        self._agenda = agenda
        self._names = [(THREAD, label, each.linear, thread) for each in blocks for thread in range(each.size)]
        self.error: BaseException | None = None  # what ended the choices
        chooser: Any = agenda.chooser
        if hasattr(chooser, "coarse"):
            chooser.coarse = True

    def choose(self, threads: Sequence[int], run: Run) -> int:
        """Return the place of one of the threads; the first, with the run told to stop, once the choices are over."""
        if self.error is None:
            try:
                return self._agenda.choose_inside([self._names[each] for each in threads])
            except BaseException as error:
                self.error = error
        run.stop = 1
        return 0


class _Here(threading.local):
    """Which block this OS thread runs."""

    block: NativeBlock | None = None


HERE = _Here()


def _find(address: int, found: Any) -> int:
    block = HERE.block
    known = None if block is None else block.found(address)
    if known is None:
        return 0
    found[0].low, found[0].high = known
    return 1


def _show(text: Any, count: int) -> None:
    if (block := HERE.block) is not None:
        block.show(ctypes.string_at(text, count))


def _choose(threads: Any, count: int) -> int:
    block = HERE.block
    return 0 if block is None else block.choose(threads[:count])


# One for all runs: to make one takes as long as an empty launch.
_FIND, _PRINT, _CHOOSE = FIND(_find), PRINT(_show), CHOOSE(_choose)
_CALLS = tuple(ctypes.cast(each, ctypes.c_void_p).value for each in (_FIND, _PRINT))

# `Run` up to what comes of it, a `BlockPlace`, and its last fields: packed, as to set one field of a structure after
# the other takes ten times as long.
_HEAD, _USED = (struct.Struct(each) for each in ("@II3P6IiiPQiQiiiiPi2P2Q", "@QQ"))
_INDEX, _PADS = struct.Struct("@3I4x"), struct.Struct("@PQPQQ")  # together a `BlockPlace`
_PLACE_BYTES = _INDEX.size + _PADS.size
_RUN_BYTES = ctypes.sizeof(Run)
_OUTCOME = bytes(_RUN_BYTES - _HEAD.size)


class _Pads(NamedTuple):
    """The L2 and the L1s of a block, and what keeps them."""

    packed: bytes  # the fields of a `BlockPlace` behind its index
    kept: object


def _pads(cluster: Cluster, sips: list[Sip]) -> _Pads:
    """Return those of these SIPs of a cluster; where it is all of them, they are at hand."""
    if sips is not cluster.sips:
        return _pads_of(cluster, sips)
    known: _Pads | None = cluster.native
    if known is None:
        cluster.native = known = _pads_of(cluster, sips)
    return known


def _pads_of(cluster: Cluster, sips: list[Sip]) -> _Pads:
    memories = (cluster.l2, *[sip.l1 for sip in sips])
    l1 = array("Q", [number for each in memories[1:] for number in _pad(each)])
    return _Pads(_PADS.pack(*_pad(cluster.l2), l1.buffer_info()[0], 0, 0), (l1, memories))


def _pad(memory: Scratch) -> tuple[int, int]:
    return memory.__array_interface__["data"][0], memory.nbytes


def _used(memory: Scratch, end: int) -> None:
    memory.used = max(memory.used, end)


def _range(allocation: Allocation) -> tuple[int, int]:
    low = allocation.host_address
    return low, low + allocation.size


def _shown(dim: Dim) -> str:
    return f"({dim.x},{dim.y},{dim.z})"


def _index(dim: Dim) -> tuple[int, int, int]:
    return dim.x, dim.y, dim.z
