"""Waiting, written once: `await until(completion)` blocks in the C-style call and awaits in its twin.

An implementation's coroutine yields its waits: `drive` blocks for each of them, `step` awaits each.
"""

from __future__ import annotations

import time
from collections.abc import Coroutine, Generator
from types import CoroutineType
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from atops.runtime.board.context import DeviceContext
from atops.runtime.core.completion import Completion
from atops.runtime.core.event import Event
from atops.runtime.device import Device
from atops.runtime.stream import Stream
from atops.tops.types.constants import topsDeviceScheduleSpin, topsEventBlockingSync

__all__ = (
    "ResetWait", "Wait", "Work", "drive", "schedule_of", "set_schedule", "spin", "spins", "step", "until",
    "until_reset",
)  # fmt: skip

T = TypeVar("T")
Waitable = Completion | Event | Stream | Device
Work = Coroutine[Any, Any, T]  # an implementation that may wait
FLAGS: WeakKeyDictionary[DeviceContext, int] = WeakKeyDictionary()  # of topsSetDeviceFlags, until a reset


class Wait:
    """One wait for a completion, an event, a stream or a device, in both forms; awaited it gives the wait's result."""

    __slots__ = ("thing",)

    def __init__(self, thing: Waitable) -> None:
        self.thing = thing

    def __await__(self) -> Generator[Wait, Any, Any]:
        return (yield self)

    def blocking(self) -> object:
        """Block until it is over, and return its result."""
        thing = self.thing
        if FLAGS:
            spin(thing)
        if isinstance(thing, Completion):
            return thing.wait_sync()
        thing.sync()
        return None

    async def awaiting(self) -> object:
        """Wait until it is over, and return its result."""
        return await (self.thing.wait() if isinstance(self.thing, Device) else self.thing)


class ResetWait(Wait):
    """The wait for a device to be reset."""

    __slots__ = ("device",)

    def __init__(self, device: Device) -> None:
        self.device = device

    def blocking(self) -> None:
        """Reset the device, blocking."""
        self.device.reset_sync()

    async def awaiting(self) -> None:
        """Reset the device."""
        await self.device.reset()


def until(thing: Waitable) -> Wait:
    """Return the wait for a completion (its result), an event, all work of a stream or all work of a device.

    Raises, once awaited, what the work failed with, and WouldDeadlock where a blocking wait could never end.
    """
    return Wait(thing)


def until_reset(device: Device) -> Wait:
    """Return the wait for a device to be reset, which resets it."""
    return ResetWait(device)


def spin(thing: Waitable) -> None:
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


def drive(coroutine: Work[T] | Wait) -> T | None:
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


async def step(coroutine: Work[T] | Wait | T | None) -> T | None:
    """Run an implementation to its end on the caller's loop, awaiting where it waits; or do the wait that it left.

    A result that needs no wait is returned unchanged.
    """
    if isinstance(coroutine, Wait):
        await coroutine.awaiting()
        return None
    if not isinstance(coroutine, CoroutineType):
        return coroutine  # type: ignore[return-value]  # a result, not a coroutine
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


def _stray(coroutine: Work[object], wait: object) -> RuntimeError:
    """Close an implementation that awaits something else than a wait. Returns the error for it."""
    coroutine.close()
    return RuntimeError(f"an implementation may await until(...) only; {coroutine!r} awaits {wait!r}")


def schedule_of(context: DeviceContext) -> int:
    """Return the schedule flag of a device: 0 (topsDeviceScheduleAuto) until it is set."""
    return FLAGS.get(context, 0)


def set_schedule(context: DeviceContext, flags: int) -> None:
    """Set the schedule flag of a device."""
    FLAGS[context] = flags


def spins(context: DeviceContext) -> bool:
    """Return whether waits for this device poll. Auto is Yield: they sleep."""
    return FLAGS.get(context) == topsDeviceScheduleSpin
