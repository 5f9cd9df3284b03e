"""What runs inside the kernel around a notebook's cells: `begin()` before them, `end()` after them, which names what
they left behind or tried to hide. A failed background task leaves every cell green; this does not.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HIDDEN: list[str] = []  # what was reported where it is not read
MACHINERY = ("IPython", "ipykernel", "jupyter_client", "tornado", "zmq")  # packages that keep tasks of their own
LOOKS_AHEAD = "atops scheduler"  # the thread of a widget that runs, for its page, what each choice would do; it ends
MOST_SECONDS = 10.0  # that such a thread may take
NEAR = ("", "0.0.0.0", "127.0.0.1", "::1", "localhost", None)


class _Errors(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        """Keep an error that was logged."""
        HIDDEN.append(f"{record.name} logged: {record.getMessage()}")


def begin() -> None:
    """Listen to everything that fails beside the cells, and refuse connections to other hosts."""
    asyncio.get_event_loop().set_exception_handler(
        lambda _loop, context: HIDDEN.append(f"the event loop: {context['message']} {context.get('exception')!r}")
    )
    sys.unraisablehook = lambda found: HIDDEN.append(f"unraisable in {found.object!r}: {found.exc_value!r}")
    threading.excepthook = lambda found: HIDDEN.append(f"thread {found.thread}: {found.exc_value!r}")
    logging.getLogger().addHandler(_Errors(logging.ERROR))
    sys.addaudithook(_stay)


async def end() -> None:
    """Raise AssertionError that names what the cells left behind."""
    for thread in [each for each in threading.enumerate() if each.name == LOOKS_AHEAD]:
        await asyncio.to_thread(thread.join, MOST_SECONDS)
    gc.collect()  # what was dropped while it failed says so now
    await asyncio.sleep(0)
    found = [*_tasks(), *_device_work(), *HIDDEN]
    assert not found, "\n".join(["the notebook left behind:", *found])


def _stay(event: str, arguments: tuple[Any, ...]) -> None:
    """Refuse what would reach another host."""
    host = arguments[0] if event in ("socket.getaddrinfo", "socket.gethostbyname") else None
    if event == "socket.connect" and isinstance(arguments[1], tuple):
        host = arguments[1][0]
    if host not in NEAR:
        HIDDEN.append(f"a connection to {host} was wanted; notebooks are offline")
        raise OSError(f"notebooks are offline, and {host} is another host")


def _tasks() -> Iterator[str]:
    """Yield the tasks that still wait, and those that failed without anybody asking."""
    for task in asyncio.all_tasks():
        if task is not asyncio.current_task() and not _of_the_kernel(task):
            yield f"a task that is not over: {task!r}"
    for each in gc.get_objects():
        if isinstance(each, asyncio.Task) and each.done() and getattr(each, "_log_traceback", False):
            yield f"a task that failed, unseen: {each!r}"


def _of_the_kernel(task: asyncio.Task[Any]) -> bool:
    code = getattr(task.get_coro(), "cr_code", None)
    return code is not None and bool(set(Path(code.co_filename).parts) & set(MACHINERY))


def _device_work() -> Iterator[str]:
    """Yield what devices still do, streams that failed, and drivers that were never closed."""
    if "atops" not in sys.modules:
        return
    from atops.runtime.board.current_device import DEFAULT
    from atops.runtime.device import Device
    from atops.runtime.driver_board import BOARDS

    for board in [each for each in BOARDS if each.closed is None]:
        if board not in DEFAULT:
            yield f"a driver that was not closed: {board!r}"
        for context in board.contexts:
            device = Device(context.ordinal, board.driver)
            yield from (f"device work that is not over: {item!r}" for item in device.outstanding())
            if failed := device.statistics().poisoned_streams:
                yield f"{failed} failed streams on {device!r}"
