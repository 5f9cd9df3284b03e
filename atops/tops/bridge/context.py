"""The board, the device and the streams that a C-style call uses: the current ones of the runtime."""

from __future__ import annotations

import threading

from atops.base.result_codes import Result
from atops.runtime.board.current_device import current_ordinal
from atops.runtime.current_driver import current_driver
from atops.runtime.device import Device
from atops.runtime.stream import Stream
from atops.tops.bridge.arguments import whole
from atops.tops.bridge.codes import CodeError

__all__ = ("ThreadStreams", "current_device", "current_driver", "device_at", "null_stream", "per_thread_stream")


class ThreadStreams(threading.local):
    """The per-thread streams of one thread: by device, for as long as the device is not reset."""

    def __init__(self) -> None:
        self.streams: list[Stream] = []


THREAD = ThreadStreams()


def current_device() -> Device:
    """Return the current device of the current board. Raises NoDevice on a board without any."""
    driver = current_driver()
    if not driver.options.devices:
        raise CodeError(Result.NoDevice, f"{driver!r} has no device; ATOPS_DEVICES sets how many it has")
    context = driver.context(current_ordinal(driver.serial))
    found = context.facade
    if found is None:
        found = context.facade = Device(context.ordinal, driver)
    assert isinstance(found, Device)
    return found


def null_stream() -> Stream:
    """Return the null stream of the current device, which most calls mean. Raises NoDevice."""
    driver = current_driver()
    if driver.options.devices:
        found = driver.context(current_ordinal(driver.serial)).null_stream
        if found is not None:
            assert isinstance(found, Stream)
            return found
    return current_device().null_stream  # which makes it


def device_at(ordinal: object) -> Device:
    """Return device `ordinal`. Raises InvalidDevice, InvalidType for other types than int."""
    return Device(whole(ordinal, "the device"), current_driver())


def per_thread_stream(device: Device) -> Stream:
    """Return this thread's own stream of a device: a blocking stream, made when first used and after each reset."""
    context = device.context
    streams = THREAD.streams
    for stream in streams:
        if stream.context is context:
            return stream
    stream = Stream(context, name=f"per-thread stream of {threading.current_thread().name}")
    THREAD.streams = [*(each for each in streams if each.context.dead is None), stream]
    return stream
