"""Host functions: where they stand, and what they do here and may not on a device.

Strict mode warns of the latter, once for each function and rule. Where one stands tells the report of a stall: what a
lock, an event or a queue of the program waits for is not known to the board.
"""

from __future__ import annotations

import linecache
import re
import sys
import threading
from collections.abc import Iterable, Mapping
from types import FrameType
from typing import TYPE_CHECKING, Final, NamedTuple
from weakref import WeakKeyDictionary

from atops.base.locks import fork_safe, make_lock
from atops.base.log_fields import get_logger
from atops.device.call_site import Site
from atops.runtime.commands.call import Call, result_of
from atops.runtime.core.completion import Completion, verb
from atops.runtime.executors.executor import HERE

if TYPE_CHECKING:
    from atops.runtime.driver_board import Board

__all__ = ("CALLS", "WAITS", "Stand", "behind", "is_host_function", "stands", "warn_in_host_function")

log = get_logger("atops.strict")

WAITS: Final = (
    "waits for %s; on a device host functions run one at a time and may not wait, so it would hang or be refused: let "
    "the stream wait first, stream.wait(...), or make it a coroutine function"
)
CALLS: Final = (
    "calls %s; on a device calls of the API are refused in a host function: do it where the function is enqueued, "
    "behind the function in its stream, or in a coroutine function"
)
WARNED: WeakKeyDictionary[Board, set[tuple[str, str]]] = WeakKeyDictionary()  # functions, and what they did
LOCK = fork_safe(make_lock())  # a finalizer may come in the middle, and warn, too


def warn_in_host_function(board: Board, rule: str, what: object) -> None:
    """Warn, in strict mode and inside a plain host function of a stream, of what breaks a rule. With no lock held."""
    item = HERE.callback
    if item is None or not board.options.strict:
        return
    command = item.command
    name = command.name if isinstance(command, Call) else repr(item)
    with LOCK:
        known = WARNED.setdefault(board, set())
        if (name, rule) in known:
            return
        known.add((name, rule))
    log.warning(f"host function %s of %s {rule}", name, item.queue.label, what)  # the rules are constants


# ---- where they stand

WAITING: Final = re.compile(r"(threading|queue|concurrent\.futures|multiprocessing|selectors|atops)($|\.)")  # modules
BLOCKING: Final = frozenset(("acquire", "wait", "wait_for", "get", "put", "join", "result"))
IN_C: Final = re.compile(rf"^(async )?with\b|\.({'|'.join(sorted(BLOCKING))})\(")  # on the line, where no frame is left
SHOWN = 3  # of the commands behind a host function


class Stand(NamedTuple):
    """A place in which a thread waits for another one: `key` is the same as long as it neither moves nor wakes."""

    key: tuple[int, int, int]
    text: str


def is_host_function(item: Completion) -> bool:
    """Return whether a command calls a plain function, not a coroutine function, and that runs now."""
    return (command := item.command).__class__ is Call and command.adapter is None and item.thread != 0


def stands(items: Iterable[Completion]) -> dict[Completion, Stand]:
    """Return where those of the running host functions stand that wait for a lock, an event, a queue or the board."""
    frames = sys._current_frames()
    found = {item: _stand(item, frames) for item in items if is_host_function(item)}
    return {item: stand for item, stand in found.items() if stand is not None}


def _stand(item: Completion, frames: Mapping[int, FrameType]) -> Stand | None:
    top = frame = frames.get(item.thread)
    if top is None or frame is None:
        return None
    while frame is not None and frame.f_code is not result_of.__code__ and WAITING.match(_module(frame)):
        frame = frame.f_back
    if frame is None:
        return None
    key = (id(top), top.f_lasti, _wake_ups(item.thread))
    if frame.f_code is result_of.__code__:  # the function itself is one of those
        called = getattr(command := item.command, "function", None)  # None: it has just ended
        own = called is not None and (top is not frame or getattr(called, "__name__", "") in BLOCKING)
        return Stand(key, f"in {command.name}") if own else None
    line = linecache.getline(frame.f_code.co_filename, frame.f_lineno, frame.f_globals).strip()
    if top is frame and not IN_C.search(line):
        return None
    return Stand(key, f"at {Site(frame.f_code, frame.f_lasti)}" + (f": `{line}`" if line else ""))


def _wake_ups(thread: int) -> int:
    """Return how often the system has switched from a thread: one that comes late to the interpreter lock wakes for it.

    0 where the system does not say. A clock of the thread would say more, but must not be asked once it has ended.
    """
    number = next((each.native_id for each in threading.enumerate() if each.ident == thread), None)
    try:
        with open(f"/proc/self/task/{number}/status", encoding="ascii") as file:
            return sum(int(line.split()[1]) for line in file if "ctxt_switches" in line)
    except (OSError, ValueError, IndexError):
        return 0


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))


def behind(item: Completion) -> str:
    """Say what is queued behind a host function in its stream; nothing where nothing is."""
    items = [each for each in item.queue.pending() if each.seq > item.seq]
    names = [f"{command.name} (command {each.seq})" if isinstance(command := each.command, Call) else verb(each)
             for each in items[:SHOWN]]  # fmt: skip
    more = f" and {len(items) - SHOWN} more" if len(items) > SHOWN else ""
    return f"; behind it: {', '.join(names)}{more}" if items else ""
