"""Who holds what a task waits for: the tasks that stand in a block of `async with` or `with` of it, and since where.

A lock of asyncio does not know who has taken it. But a coroutine that stands in a block has what leaves the block
among the values that it keeps, outermost first. So nothing is noted while a program runs.
"""

from __future__ import annotations

import dis
import gc
import inspect
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import pairwise
from types import AsyncGeneratorType, BuiltinMethodType, CodeType, FrameType, FunctionType, GeneratorType, MethodType
from typing import Any, Final

from atops.device.call_site import Site

__all__ = ("chain_of", "holders_of")

EXITS: Final = ("__aexit__", "__exit__")


def chain_of(coroutine: object) -> Iterator[tuple[object, FrameType]]:
    """Return each coroutine or generator in which a task stands, the outermost first, and its frame."""
    awaited = coroutine
    while awaited is not None:
        if type(awaited).__name__ in ("async_generator_asend", "async_generator_athrow"):  # which hides its generator
            awaited = next(filter(inspect.isasyncgen, gc.get_referents(awaited)), None)
        frame = _part(awaited, "frame")
        if frame is None:
            return
        yield awaited, frame
        awaited = _part(awaited, "await") or getattr(awaited, "gi_yieldfrom", None)


def holders_of(wanted: object, coroutines: Iterable[tuple[str, object]]) -> list[str]:
    """Return which of them, by name, stand in a block of what is wanted: "left took at file:line", for each."""
    found = (
        f"{name} took at {str(place).split(' in ')[0]}"
        for name, coroutine in coroutines
        for running, _ in chain_of(coroutine)
        for owner, place in _blocks(running)
        if _alike(owner, wanted)
    )
    return [*dict.fromkeys(found)]


def _blocks(running: object) -> Iterator[tuple[object, Site]]:
    """Return what the blocks are of in which it stands, and where each begins; of a contextmanager's, those in it."""
    frame = _part(running, "frame")
    places = [] if frame is None else _places(frame)
    for owner, place in zip(_left_by(running), places):  # noqa: B905  # the last may be about to be entered
        yield owner, place
        if isinstance(inner := getattr(owner, "gen", None), AsyncGeneratorType | GeneratorType):
            yield from _blocks(inner)


def _left_by(running: object) -> Iterator[object]:
    """Return the owners of the methods that leave its blocks, the outermost first."""
    exits = False  # whether the last was such a function, of whose owner the method was not made, from Python 3.14 on
    for each in gc.get_referents(running):
        if isinstance(each, MethodType | BuiltinMethodType) and each.__name__ in EXITS:
            yield each.__self__
        elif exits:
            yield each
        exits = isinstance(each, FunctionType) and each.__name__ in EXITS


def _places(frame: FrameType) -> list[Site]:
    """Return where the `with` and `async with` stand in whose blocks a frame is, the outermost first."""
    code, at, found = frame.f_code, frame.f_lasti, list[Site]()
    entries, leaves = _handlers(code)
    while (target := next((to for start, stop, to in entries if start <= at < stop), at)) != at:
        if target in leaves:
            found.append(Site(code, target))
        at = target
    return found[::-1]


@lru_cache(64)
def _handlers(code: CodeType) -> tuple[list[tuple[int, int, int]], set[int]]:
    """Return what handles an exception in which instructions, and which of these handlers leave a block."""
    table = getattr(dis.Bytecode(code), "exception_entries", ())
    entries = [(each.start, each.end, each.target) for each in table]
    names = [(each.offset, each.opname) for each in dis.get_instructions(code)]
    begins = {second: first for (first, _), (second, _) in pairwise(names)}
    return entries, {begins[offset] for offset, name in names if name == "WITH_EXCEPT_START"}


def _part(awaited: object, name: str) -> Any:
    """Return the frame of a coroutine or a generator, or what it awaits; None where it has none."""
    return next((found for kind in ("cr", "ag", "gi") if (found := getattr(awaited, f"{kind}_{name}", None))), None)


def _alike(owner: object, wanted: object) -> bool:
    """Whether two are one lock, or rooms in one stream."""
    if owner is wanted:
        return True
    queue = getattr(wanted, "queue", None) if type(owner) is type(wanted) else None
    return queue is not None and queue is getattr(owner, "queue", None)
