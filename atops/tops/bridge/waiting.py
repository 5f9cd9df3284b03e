"""Waiting, written once: `await until(completion)` blocks in the C-style call and awaits in its twin.

An implementation's coroutine yields what it waits for; who drives it decides how. It knows no function and no code.
"""

from __future__ import annotations

import time
from collections.abc import Coroutine, Generator
from types import CoroutineType
from typing import Any, TypeVar

from atops.runtime.core.completion import Completion
from atops.runtime.core.event import Event
from atops.runtime.device import Device
from atops.runtime.stream import Stream
from atops.tops.bridge.schedule import FLAGS, spins
from atops.tops.types.constants import topsEventBlockingSync

__all__ = ("ResetWait", "Wait", "drive", "spin", "step", "until", "until_reset")

T = TypeVar("T")


class Wait:
    """One wait for a completion, an event, a stream or a device, in both forms.

    Awaited in an implementation, it gives what the form that was chosen gives.
    """

    __slots__ = ("thing",)

    def __init__(self, thing: Any) -> None:
        self.thing = thing

    def __await__(self) -> Generator[Wait, Any, Any]:
        return (yield self)

    def blocking(self) -> Any:
        """Block until it is over."""
        thing = self.thing
        if FLAGS:
            spin(thing)
        return thing.wait_sync() if isinstance(thing, Completion) else thing.sync()

    async def awaiting(self) -> Any:
        """Wait until it is over."""
        return await (self.thing.wait() if isinstance(self.thing, Device) else self.thing)


class ResetWait(Wait):
    """The wait for a device to be fresh."""

    __slots__ = ()

    def blocking(self) -> Any:
        """Reset the device."""
        self.thing.reset_sync()

    async def awaiting(self) -> Any:
        """Reset the device."""
        await self.thing.reset()


def until(thing: Completion | Event | Stream | Device) -> Wait:
    """Return the wait for a completion (its result), an event, all work of a stream or all work of a device.

    Raises, once awaited, what the work failed with, and WouldDeadlock where a blocking wait could never end.
    """
    return Wait(thing)


def until_reset(device: Device) -> Wait:
    """Return the wait for a device to be fresh, which resets it."""
    return ResetWait(device)


def spin(thing: Completion | Event | Stream | Device) -> None:
    """Poll for as long as it takes where the device's flags ask for it (TOPS Runtime API, 2.2 topsSetDeviceFlags).

    Not for an event that was made to block the thread that waits for it (2.5 topsEventCreateWithFlags).
    """
    items: list[Completion]
    if isinstance(thing, Completion):
        items = [thing]
    elif isinstance(thing, Event):
        items = [] if thing.record is None or thing.flags & topsEventBlockingSync else [thing.record]
    else:
        items = thing.outstanding()
    for item in items:
        if spins(item.stream.context) and not item.stream.driver.inline:  # inline, only blocking makes progress
            item.stream.driver.guard_blocking(item)
            while not item.over:
                time.sleep(0)  # gives up the interpreter lock, not the processor


def drive(coroutine: Coroutine[Any, Any, T] | Wait) -> T | None:
    """Run an implementation to its end in plain code, blocking where it waits; or do the wait that it left."""
    if isinstance(coroutine, Wait):
        coroutine.blocking()
        return None
    send = coroutine.send
    try:
        wait = send(None)
        while True:
            if not isinstance(wait, Wait):
                raise _stray(coroutine, wait)
            try:
                value = wait.blocking()
            except BaseException as error:
                wait = coroutine.throw(error)
            else:
                wait = send(value)
    except StopIteration as stop:
        result: T = stop.value
        return result


async def step(coroutine: Coroutine[Any, Any, T] | Wait | T | None) -> T | None:
    """Run an implementation to its end on the caller's loop, awaiting where it waits; or do the wait that it left.

    What needs no wait is returned as it is.
    """
    if isinstance(coroutine, Wait):
        await coroutine.awaiting()
        return None
    if not isinstance(coroutine, CoroutineType):
        return coroutine  # type: ignore[return-value]  # a coroutine of another kind is none of ours
    try:
        wait = coroutine.send(None)
        while True:
            if not isinstance(wait, Wait):
                raise _stray(coroutine, wait)
            try:
                value = await wait.awaiting()
            except BaseException as error:  # a cancellation too: the implementation tidies up and lets it pass
                wait = coroutine.throw(error)
            else:
                wait = coroutine.send(value)
    except StopIteration as stop:
        result: T = stop.value
        return result


def _stray(coroutine: Coroutine[Any, Any, Any], wait: Any) -> RuntimeError:
    """Close an implementation that awaits what is no wait. Returns the error for it."""
    coroutine.close()
    return RuntimeError(f"{coroutine!r} awaits {wait!r}; await until(...) is right in an implementation")
