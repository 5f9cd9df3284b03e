"""The cost of widgets: answer each line "widgets n" with the seconds of the demo's pipeline that they watch.

`widgets` is none, all, or the name of one; n is a number of chunks of 1 MiB. A line "small widgets n" asks for a
pipeline of chunks of 96 KiB, and "scene widget n" for the seconds of a picture of n records. `atops bench` starts this
program in a process of its own, because it imports the widgets.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import atops
from atops import kernels as k
from atops.apps.histogram import count_bytes
from atops_widgets import WIDGETS, Feed, TraceWidget
from atops_widgets.feed.pace import call_soon
from benchmarks.programs.million_records import million

CHUNK = 1 << 20  # bytes, as in the demo
SMALL = 24 * 1024  # numbers: 96 KiB of float32, 4 KiB for each thread
KINDS = {kind.__name__: kind for kind in WIDGETS}
WATCHERS = {"none": [], "all": WIDGETS, **{name: [kind] for name, kind in KINDS.items()}}
PATIENCE_S = 60.0
WARM = 30  # chunks before those that count
SCENES = 5  # the quickest counts
FEEDS: dict[int, Feed] = {}  # by their records


@k.kernel
async def scale(y: k.Span, x: k.Span, alpha: np.float32) -> None:
    tile = k.local(1024, np.float32)
    with k.dte_scope() as dte:
        for part in k.tiles(x.size, 1024):
            await k.memcpy_async(dte, tile, x[part])
            tile *= alpha
            k.memcpy(dte, y[part], tile)


def staged(stream: atops.Stream, chunk: atops.Buffer) -> atops.Buffer:
    out = stream.empty_like(chunk)
    stream.launch(scale, (2, 12), out, chunk, 3.0)
    return out


async def pipeline(count: int, small: bool) -> float:
    """Return the seconds that `count` chunks took through a device and back."""
    if small:
        chunks = [np.full(SMALL, number, np.float32) for number in range(8)]
    else:
        chunks = [np.frombuffer(np.random.default_rng(number).bytes(CHUNK), np.uint8) for number in range(8)]
    stage = staged if small else count_bytes
    start = time.perf_counter()
    async with atops.pipeline((chunks[i % 8] for i in range(count)), stage, streams=4, in_flight=8) as results:
        async for _ in results:
            pass
    return time.perf_counter() - start


@contextmanager
def watching(kinds: list[type[TraceWidget]]) -> Iterator[None]:
    """Have widgets watch from here on, each before a page that has its first picture and takes every frame at once."""
    atops.current_driver().tracer.clear()  # what was recorded before would be read first
    widgets = [kind() for kind in kinds]
    for widget in widgets:
        shown = threading.Event()
        widget.send = page(widget, shown)
        call_soon(widget._receive, {"type": "hello", "view": "page", "frame": 0, "width": 960})
        shown.wait(PATIENCE_S)
    yield
    for widget in widgets:
        widget.close()


def page(widget: TraceWidget, shown: threading.Event) -> Any:
    """Return a `send` that writes a message as a comm does, and has a page acknowledge it."""

    def send(content: dict[str, Any], buffers: list[bytes] | None = None) -> None:
        json.dumps(content), [bytes(buffer) for buffer in buffers or []]
        if content["type"] == "frame":
            call_soon(widget._receive, {"type": "ack", "view": "page", "frame": content["frame"]})
            shown.set()

    return send


def scene(name: str, count: int) -> float:
    """Return the seconds of the quickest picture of `count` records, when what can be kept of them is kept."""
    widget = KINDS[name](FEEDS[count] if count in FEEDS else FEEDS.setdefault(count, million(count)))
    seconds = []
    for _ in range(SCENES):
        start = time.perf_counter()
        with widget.feed.lock:
            widget.scene(widget.window)
        seconds.append(time.perf_counter() - start)
    widget.close()
    return min(seconds)


def main() -> None:
    print(json.dumps({name: kind.label for name, kind in KINDS.items()}), flush=True)
    for line in sys.stdin:
        *what, widgets, count = line.split()
        if what == ["scene"]:
            print(scene(widgets, int(count)), flush=True)
            continue
        small = what == ["small"]
        with watching(WATCHERS[widgets]):
            asyncio.run(pipeline(WARM, small))
            print(asyncio.run(pipeline(int(count), small)), flush=True)


if __name__ == "__main__":
    main()
