"""The memory that a program names: device arrays and spans in the local variables of its tasks and kernel threads."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Hashable, Iterable, Iterator
from functools import partial
from inspect import CO_OPTIMIZED
from types import FrameType
from typing import Any, NamedTuple

import numpy as np

from atops.base.agenda import Agenda
from atops.base.dtypes import element_name
from atops.checking.runner import Runner
from atops.device.call_site import PACKAGE
from atops.device.exec.grid import Grid
from atops.device.exec.thread import KernelThread
from atops.device.geometry import Array
from atops.device.memory.allocation import Allocation
from atops.device.races.touches import MEMORY
from atops.device.span.span import Span
from atops.runtime.core.completion import RUNNING
from atops.runtime.driver_board import Board
from atops.runtime.executors.standing import ASYNCIO
from atops.runtime.memory.buffer import Buffer, DeviceArray

__all__ = ("Variable", "program_frames", "threads_of", "variables")

DEEP = 3  # containers and objects inside each other that are looked into
MOST_INSIDE = 32  # elements of one of them
MOST = 400  # variables of a run
RUN = Runner.__call__.__code__  # what runs a program begins there
OTHERS = ("atops", "numpy", "asyncio", "trio")  # modules whose objects are not looked into


class Variable(NamedTuple):
    """Memory under the name by which the program knows it."""

    name: str
    where: str
    """"global", "shared" (L2), "local" (L1), or "host"."""
    owner: str
    """Of a block's or a thread's own memory, whose it is."""
    array: Array
    """Its bytes, as they are."""
    memory: Hashable = None
    """What a footprint calls the memory that it lies in; None where that has no name for it."""
    place: int = 0
    """Where it begins there."""

    @property
    def first(self) -> int:
        """The real address of its first byte."""
        return int(self.array.__array_interface__["data"][0])

    @property
    def type(self) -> str:
        """Its type, as kernels write it: "i32[2, 4]"."""
        return element_name(self.array.dtype) + str(list(self.array.shape))


Found = dict[tuple[int, int, str, str], Variable]


def threads_of(agenda: Agenda, board: Board) -> list[KernelThread]:
    """Return the threads of all kernels that run, in order."""
    grids: dict[Grid, None] = {}
    for step in agenda.steps:
        if isinstance(step, partial) and step.args and isinstance(thread := step.args[-1], KernelThread):
            grids[thread.grid] = None
    with board.lock:
        active = board.active_streams()
    for queue in sorted(active, key=lambda queue: queue.number):
        for item in (each for part in queue.snapshot() for each in part):
            if item.stage == RUNNING and isinstance(item.parked, Grid):
                grids[item.parked] = None
    return [
        thread for grid in grids for _, block in sorted(grid.blocks.items()) for thread in block.threads
        if thread.coro is not None and not thread.ended
    ]  # fmt: skip


def program_frames(threads: Iterable[KernelThread]) -> list[FrameType]:
    """Return the program's own frames: those that call what runs now, and those of its tasks, asyncio's or trio's.

    Frames of kernel `threads` are none of them.
    """
    kernels = {frame for thread in threads for frame in _frames(thread.coro)}
    trio = sys.modules.get("trio")
    libraries = (PACKAGE, ASYNCIO, *(() if trio is None else trio.__path__))
    frames: list[FrameType] = []
    frame: FrameType | None = sys._getframe().f_back  # not this one: kept in a list of its own it would live on
    while frame is not None and frame.f_code is not RUN:
        frames.append(frame)
        frame = frame.f_back
    if frame is None:
        frames.clear()  # of the program's tests, say
    frames.reverse()
    for awaited in _awaited(trio):
        frames += _frames(awaited)
    return [
        each for each in dict.fromkeys(frames)
        if each not in kernels and not each.f_code.co_filename.startswith(libraries)
    ]  # fmt: skip


def _awaited(trio: Any) -> list[Any]:
    """Return the coroutines of all tasks, the oldest first."""
    try:
        tasks = sorted(asyncio.all_tasks(), key=lambda task: getattr(task, "_number", 0))
        return [task.get_coro() for task in tasks]
    except RuntimeError:  # no loop of asyncio's
        pass
    found: list[Any] = []
    left = [] if trio is None or not trio.lowlevel.in_trio_run() else [trio.lowlevel.current_root_task()]
    while left:
        task = left.pop(0)
        if task is not None:
            found.append(task.coro)
            left += [each for nursery in task.child_nurseries for each in nursery.child_tasks]
    return found


def variables(frames: Iterable[FrameType], threads: Iterable[KernelThread]) -> list[Variable]:
    """Return the memory that a program's frames and its kernels' threads name, each range once, under its first name.

    Memory of the host is that of numpy arrays in the program's own frames.
    """
    found: Found = {}
    for frame in frames:
        for name, value in _locals(frame):
            _enter(found, name, value, None)
    for thread in threads:
        for frame in _frames(thread.coro):
            if not frame.f_code.co_filename.startswith(PACKAGE):
                for name, value in _locals(frame):
                    _enter(found, name, value, thread)
    return list(found.values())


def _frames(awaited: object) -> Iterator[FrameType]:
    while awaited is not None:
        frame = getattr(awaited, "cr_frame", None) or getattr(awaited, "gi_frame", None)
        if frame is None:
            return
        yield frame
        awaited = getattr(awaited, "cr_await", None) or getattr(awaited, "gi_yieldfrom", None)


def _locals(frame: FrameType) -> list[tuple[str, Any]]:
    """Return the local variables of a frame, and have it keep none of them: memory is given back by references."""
    values = frame.f_locals
    found = list(values.items())
    if type(values) is dict and frame.f_code.co_flags & CO_OPTIMIZED:  # a copy that the frame keeps
        values.clear()
    return found


def _enter(found: Found, name: str, value: object, thread: KernelThread | None, deep: int = 0) -> None:
    """Enter the memory that a value is, or has inside. Without a thread it is a value of the program's on the host."""
    if len(found) >= MOST or name.startswith(("@", "__")):
        return
    kind = type(value)
    variable: Variable | None = None
    if isinstance(value, Buffer):
        if not value.allocation.alive:
            return
        data = value.allocation.data[value.offset : value.offset + value.nbytes]
        array = data.view(value.dtype).reshape(value.shape) if isinstance(value, DeviceArray) else data
        variable = _global(name, array, value.allocation)
    elif isinstance(value, Span):
        if thread is None or value.allocation is not None:
            variable = _global(name, value.array, value.allocation)
        else:
            variable = _scratch(name, value.array, thread)
    elif isinstance(value, np.ndarray):
        if value.dtype.kind not in "biuf":
            return
        variable = Variable(name, "host", "", value) if thread is None else _scratch(name, value, thread)
    if variable is not None:
        found.setdefault((variable.first, variable.array.nbytes, variable.array.dtype.str, variable.owner), variable)
    elif deep < DEEP and not kind.__module__.startswith(OTHERS):
        for inside, each in _inside(value):
            _enter(found, name + inside, each, thread, deep + 1)


def _global(name: str, array: Array, allocation: Allocation | None) -> Variable:
    if allocation is None or allocation.device is None:
        return Variable(name, "host", "", array)
    ahead = int(array.__array_interface__["data"][0]) - int(allocation.data.__array_interface__["data"][0])
    return Variable(name, "global", "", array, MEMORY, allocation.address + ahead)


def _scratch(name: str, array: Array, thread: KernelThread) -> Variable | None:
    """Return what a kernel thread calls a part of its L1 or its block's L2; None for other arrays."""
    device, cluster = thread.grid.chip.ordinal, thread.block.cluster
    owner = f"block {thread.block.linear}" if thread.grid.total_blocks > 1 else ""
    first = int(array.__array_interface__["data"][0])
    for where, pad, mine, memory in (
        ("local", thread.sip.l1, f"{owner} thread {thread.linear}".strip(), ("L1", device, cluster.ordinal,
                                                                            thread.sip.ordinal)),
        ("shared", cluster.l2, owner, ("L2", device, cluster.ordinal)),
    ):  # fmt: skip
        place = first - int(pad.__array_interface__["data"][0])
        if 0 <= place < pad.nbytes:
            return Variable(name, where, mine, array, memory, place)
    return None


def _inside(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield what a container or an object of the program's has inside, without calling anything of it."""
    kind = type(value)
    if kind is list or kind is tuple:
        yield from ((f"[{number}]", each) for number, each in enumerate(value[:MOST_INSIDE]))
    elif kind is dict:
        yield from ((f"[{key!r}]", value[key]) for key in list(value)[:MOST_INSIDE] if type(key) in (str, int))
    elif kind.__module__ != "builtins" and isinstance(inside := getattr(value, "__dict__", None), dict):
        yield from ((f".{key}", each) for key, each in list(inside.items())[:MOST_INSIDE] if isinstance(key, str))
