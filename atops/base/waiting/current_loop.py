"""Which loop is awaiting here: asyncio's, trio's or none."""

from __future__ import annotations

import asyncio
import importlib
import sys
from collections.abc import Callable
from types import ModuleType
from typing import cast
from weakref import WeakKeyDictionary, ref

from atops.base.waiting.asyncio_loop import AsyncioLoop
from atops.base.waiting.loop_adapter import LoopAdapter

__all__ = ("adapter_of", "checkpoint", "current_loop_adapter", "make_trio_loop", "running_loop_adapter", "trio_token")

# An adapter lives as long as its loop, so that all waiters of one loop share one mailbox.
ADAPTERS: WeakKeyDictionary[object, LoopAdapter] = WeakKeyDictionary()
LATEST: tuple[Callable[[], object], LoopAdapter | None] = (lambda: None, None)  # most calls ask for it again


def running_loop_adapter() -> LoopAdapter | None:
    """Return the adapter of the loop that runs in this thread, or None in plain code."""
    trio = sys.modules.get("trio")  # never imported here: a program without trio does not pay for it
    if trio is not None and (token := trio_token(trio)) is not None:
        return ADAPTERS.get(token) or ADAPTERS.setdefault(token, make_trio_loop(token))
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return None
    global LATEST
    latest, adapter = LATEST
    if latest() is not loop:
        adapter = adapter_of(loop)
        LATEST = ref(loop), adapter
    return adapter


def adapter_of(loop: asyncio.AbstractEventLoop) -> LoopAdapter:
    """Return the adapter of an asyncio loop, which may run in another thread, or not yet."""
    return ADAPTERS.get(loop) or ADAPTERS.setdefault(loop, AsyncioLoop(loop))


def current_loop_adapter() -> LoopAdapter:
    """Return the adapter of the loop that runs in this thread. Raises RuntimeError in plain code."""
    adapter = running_loop_adapter()
    if adapter is None:
        raise RuntimeError(
            "no asyncio or trio loop runs in this thread; await where one does, or block with wait_sync() or sync() in "
            "plain code"
        )
    return adapter


async def checkpoint() -> None:
    """Let a trio run go on and cancel the task, as trio wants of every await; elsewhere do nothing."""
    trio = sys.modules.get("trio")
    if trio is not None and trio_token(trio) is not None:
        await trio.lowlevel.checkpoint()


def trio_token(trio: ModuleType) -> object:
    """Return the token of the trio run that this code is a task of, or None."""
    try:
        trio.lowlevel.current_task()  # fails in asyncio code that hosts trio in guest mode, as it should
    except (RuntimeError, AttributeError):
        return None
    return trio.lowlevel.current_trio_token()


def make_trio_loop(token: object) -> LoopAdapter:
    """Return an adapter of the run of `token`; the module that imports trio is loaded only here."""
    return cast(LoopAdapter, importlib.import_module("atops.base.waiting.trio_loop").TrioLoop(token))
