"""The actor that a name of a schedule belongs to, names shortened for a reader, and places in the program."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from functools import lru_cache, partial

from atops.base.choice import Name, named, told
from atops.device.call_site import PACKAGE, file_shown
from atops.device.exec.thread import KernelThread
from atops.runtime.executors.standing import stands_at

__all__ = ("owner", "place_of", "raised_at", "short")

LIBRARIES = ("asyncio", "/trio/", "/concurrent/")


def short(name: Name, others: Collection[Name] = ()) -> str:
    """Return a short form of a name: a block or a launch that all the others share is left out."""
    match name:
        case ("thread", launch, block, thread):
            threads = [each for each in (name, *others) if each[0] == "thread" and len(each) == 4]
            parts = [f"thread {thread}"]
            if len({each[1:3] for each in threads}) > 1:
                parts.insert(0, f"block {block}")
            if len({each[1] for each in threads}) > 1:
                parts.insert(0, f"launch {launch}")
            return " ".join(parts)
        case ("transfer", _, block, thread, nth):
            return f"{short(('thread', *name[1:4]), others)}, DTE {nth}"
        case (str(kind), str(), int(nth)) if owner(name) != name:
            return f"{short(owner(name), others)}, {kind} {nth}"
        case ("stream", 0, number, *_):
            return f"stream {number}"
        case _:
            return told(name)


@lru_cache(maxsize=4096)
def owner(name: Name) -> Name:
    """Return the actor that a name belongs to: a transfer to its thread, a copy to its stream, and so on."""
    match name:
        case ("transfer", launch, block, thread, _):
            return "thread", launch, block, thread
        case ("engine" | "callback" | "timer" | "step", str(maker), int()) if " " in maker:
            return named(maker)
        case ("stream", device, number, _):  # another step of it, ready beside the first
            return "stream", device, number
        case _:
            return name


def place_of(step: object) -> str:
    """Return the file and line of the program at which a step goes on; empty where it has none."""
    if isinstance(step, partial) and step.args and isinstance(thread := step.args[-1], KernelThread):  # its turn
        return "" if thread.coro is None else _shown(*thread.where())
    task = getattr(getattr(step, "_callback", None), "__self__", step)  # trio's tasks are steps themselves
    return stands_at(task) if isinstance(task, asyncio.Task) or hasattr(task, "coro") else ""


def raised_at(error: BaseException) -> str:
    """Return the innermost file and line of the program that an error has come through; empty where there is none."""
    place, traceback = "", error.__traceback__
    while traceback is not None:
        file = traceback.tb_frame.f_code.co_filename
        if not file.startswith((PACKAGE, "<frozen")) and not any(each in file for each in LIBRARIES):
            place = _shown(file, traceback.tb_lineno)
        traceback = traceback.tb_next
    return place


def _shown(file: str, line: int) -> str:
    return f"{file_shown(file).rpartition('/')[2]}:{line}" if line else ""
