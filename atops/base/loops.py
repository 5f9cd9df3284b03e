"""Which loop is awaiting here: asyncio's, trio's or none."""

from __future__ import annotations

import asyncio
import importlib
import sys
from collections.abc import Callable
from typing import Any, cast
from weakref import WeakKeyDictionary, ref

from atops.base.home import Home
from atops.base.home_asyncio import AsyncioHome

__all__ = ("current_home", "make_trio_home", "running_home", "trio_token")

# A Home lives as long as its loop, so that all waiters of one loop share one mailbox.
HOMES: WeakKeyDictionary[Any, Home] = WeakKeyDictionary()
LATEST: tuple[Callable[[], Any], Home | None] = (lambda: None, None)  # nearly always the one that is asked for again


def running_home() -> Home | None:
    """Return the home of the loop that runs in this thread, or None in plain code."""
    trio = sys.modules.get("trio")  # never imported here: a program without trio does not pay for it
    if trio is not None and (token := trio_token(trio)) is not None:
        return HOMES.get(token) or HOMES.setdefault(token, make_trio_home(token))
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return None
    global LATEST
    latest, home = LATEST
    if latest() is not loop:
        home = HOMES.get(loop) or HOMES.setdefault(loop, AsyncioHome(loop))
        LATEST = ref(loop), home
    return home


def current_home() -> Home:
    """Return the home of the loop that runs in this thread. Raises RuntimeError in plain code."""
    home = running_home()
    if home is None:
        raise RuntimeError(
            "no asyncio or trio loop runs in this thread; await where one does, or block with wait_sync() or sync() in "
            "plain code"
        )
    return home


def trio_token(trio: Any) -> Any:
    """Return the token of the trio run that this code is a task of, or None."""
    try:
        trio.lowlevel.current_task()  # fails in asyncio code that hosts trio in guest mode, as it should
    except (RuntimeError, AttributeError):
        return None
    return trio.lowlevel.current_trio_token()


def make_trio_home(token: Any) -> Home:
    """Return a home on the run of `token`; the module that imports trio is loaded only here."""
    return cast(Home, importlib.import_module("atops.base.home_trio").TrioHome(token))
