"""Another process for the tests between processes: it obeys one line of JSON at a time, and answers each with one.

{"do": name, ...}: `open`, `close`, `read`, `write`, `event`, `record`, `query`, `sync`, `wait`, `hold`, `release`,
`malloc`, `export`, `create`, `share`, `ping` (answers the time when an event was complete), `give_back` (closes what
is open). What reads or writes has done so when it answers.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import numpy as np

import atops.tops as tops
from atops.bridge.pointers import device_memory
from atops.runtime.device import Device
from tests.runtime.boards import Latch

KEPT: dict[str, Any] = {}
OPEN: list[int] = []


def handle(kind: Any, text: str) -> Any:
    """Return a handle from what it was sent as."""
    return kind(bytes.fromhex(text))


def open_(handle_: str) -> tuple[Any, ...]:
    """Open memory, and remember it for `give_back`."""
    answer = tops.topsIpcOpenMemHandle(handle(tops.topsIpcMemHandle_t, handle_), 0)
    if answer[1] is not None:
        OPEN.append(answer[1])
    return answer


def close(pointer: int) -> tuple[Any, ...]:
    """Close memory once."""
    if pointer in OPEN:
        OPEN.remove(pointer)
    return tops.topsIpcCloseMemHandle(pointer)


def give_back() -> list[tuple[Any, ...]]:
    """Close whatever a test that failed has left open."""
    return [close(pointer) for pointer in OPEN.copy()]


def write(pointer: int, value: int, size: int) -> tuple[Any, ...]:
    """Fill bytes, and wait for that: a fill of device memory is enqueued only."""
    answer = tops.topsMemset(pointer, value, size)
    tops.check(tops.topsStreamSynchronize(None))
    return answer


def read(pointer: int, size: int) -> list[int]:
    """Return bytes through a copy of the runtime."""
    host = np.zeros(size, np.uint8)
    tops.check(tops.topsMemcpy(host, pointer, size, tops.topsMemcpyDeviceToHost))
    return [int(each) for each in host]


def hold() -> int:
    """Make a stream that stands still until `release`."""
    KEPT["latch"] = Latch(Device(0))
    KEPT["stream"] = stream = Device(0).create_stream(nonblocking=True)
    KEPT["latch"].hold(stream)
    return 0


def ping(event: int) -> float:
    """Wait for a record of the other process; return when it was complete, by the clock of all processes."""
    print("waiting", flush=True)
    tops.check(tops.topsEventSynchronize(event))
    return time.monotonic()


def wait_then_write(event: int, pointer: int, value: int) -> int:
    """Let a stream wait for the event and then write a byte."""
    stream = KEPT.setdefault("waiter", Device(0).create_stream(nonblocking=True))
    tops.check(tops.topsStreamWaitEvent(stream, event, 0))
    stream.fill(device_memory(pointer, 1), value)
    return 0


DO = {
    "open": open_,
    "close": close,
    "give_back": give_back,
    "read": read,
    "write": write,
    "event": lambda handle_: tops.topsIpcOpenEventHandle(handle(tops.topsIpcEventHandle_t, handle_)),
    "record": lambda event, held=False: tops.topsEventRecord(event, KEPT["stream"] if held else None),
    "query": lambda event: tops.topsEventQuery(event),
    "sync": lambda event: tops.topsEventSynchronize(event),
    "wait": wait_then_write,
    "hold": hold,
    "release": lambda: KEPT["latch"].open(),
    "malloc": lambda size: tops.topsMalloc(size),
    "export": lambda pointer: tops.check(tops.topsIpcGetMemHandle(pointer)).reserved.hex(),
    "create": lambda: tops.topsEventCreateWithFlags(tops.topsEventInterprocess | tops.topsEventDisableTiming),
    "share": lambda event: tops.check(tops.topsIpcGetEventHandle(event)).reserved.hex(),
    "ping": ping,
}

if __name__ == "__main__":
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        print(json.dumps(DO[order.pop("do")](**order)), flush=True)
