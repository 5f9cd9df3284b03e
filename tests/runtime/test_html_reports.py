"""What objects show in a notebook: what their reprs say and their statistics, escaped, and never in the way."""

from __future__ import annotations

from html import unescape

import numpy as np
import pytest

from atops import kernels as k
from atops.runtime.driver import board_of
from atops.runtime.memory.buffer import array_html, first_values
from atops.runtime.stream import queue_of
from atops.trace.words import format_bytes
from tests.base.test_html_table import read
from tests.runtime.boards import PATIENCE, Latch, device


@k.kernel
async def scale(x, alpha: np.float32 = 2.0):
    """Scale <x> & nothing else."""
    await k.syncthreads()


def text(markup: str) -> str:
    """Return what can be read, a word after the other."""
    return " ".join(read(markup).text)


def test_a_stream_shows_its_queue_and_why_its_head_waits() -> None:
    """Running, pending, what the head waits for, the capacity, and that it is idle when it is."""
    with device() as chip:
        stream, latch = chip.create_stream(name="<b>load</b>", capacity=20), Latch(chip)
        assert "idle" in text(stream._repr_html_())
        latch.hold(stream)
        for _ in range(15):
            stream.launch(scale, (1, 1), latch.word)
        found = text(stream._repr_html_())
        assert "<b>load</b> on device 0" in found
        assert "waits for a value" in found or "pending" in found  # as soon as the driver has looked
        assert "launch of kernel scale" in found
        assert "20 commands, 4 free" in found
        assert "4 more" in found
        latch.open()
        stream.sync(PATIENCE)
        stream.close()
        assert "closed yes" in text(stream._repr_html_())


def test_a_stream_shows_its_failure() -> None:
    """The error is there, escaped, and showing it is not looking at it."""
    with device() as chip:
        stream = chip.create_stream()

        def fail() -> None:
            raise ValueError("<oops>")

        item = stream.call(fail)
        board_of(chip.driver).executor.block(item, PATIENCE)
        markup = stream._repr_html_()
        assert "&lt;oops&gt;" in markup
        assert "<oops>" in unescape(text(markup))
        assert not getattr(queue_of(stream).failure, "_seen", False)
        stream.clear_error()


def test_an_event_shows_its_record() -> None:
    """Idle, then recorded: by which command of which stream."""
    with device() as chip:
        event = chip.create_event()
        assert "state idle" in text(event._repr_html_())
        stream = chip.create_stream(name="load")
        stream.record(event)
        event.sync(PATIENCE)
        found = text(event._repr_html_())
        assert "state recorded" in found
        assert f"command {event.completion.seq} of load, done" in found


def test_a_device_shows_geometry_and_memory() -> None:
    """Clusters, scratchpads, banks, and a bar with the bytes in use."""
    with device() as chip:
        kept = chip.empty(1 << 20, "uint8")
        found = text(chip._repr_html_())
        assert f"Device 0: {chip.name}" in found
        assert f"1 MiB of {format_bytes(chip.memory_info()[1])} in 1 allocations" in found
        assert f"{chip.arch.clusters} of {chip.arch.sips_per_cluster} SIPs" in found
        assert kept.is_live
    assert "is closed" in text(chip._repr_html_())


def test_a_kernel_without_a_source_file() -> None:
    """What was typed somewhere and cannot be read again is shown all the same."""
    names = {"k": k}
    exec("@k.kernel\ndef typed(x, *, n: int = 3):\n    pass", names)
    assert "Kernel typed" in text(names["typed"]._repr_html_())  # type: ignore[attr-defined]


def test_a_kernel_shows_its_parameters() -> None:
    """Signature, parameters with their types, and its own words, escaped."""
    found = text(scale._repr_html_())
    for part in ("Kernel scale", "x device memory or a scalar", "alpha float32", "Scale <x> & nothing else."):
        assert part in found


@pytest.mark.parametrize("dtype", ["float32", "int8", "bfloat16", "complex64", "bool"])
def test_an_array_shows_its_first_values(dtype: str) -> None:
    """Shape, type, size, place, what made it, and the first eight values as they are now."""
    with device() as chip:
        stream = chip.create_stream()
        array = stream.upload(np.ones((3, 4), dtype=chip.empty(1, dtype).dtype))
        stream.sync(PATIENCE)
        found = text(array_html(array))
        assert f"DeviceArray (3, 4) {dtype}" in found
        assert "test_html_reports.py" in found
        values = first_values(array)
        assert values is not None
        assert values.endswith(", ...")
        assert len(values.split(", ")) == 9
        assert first_values(array[:0]) is None
        array.close()
        stream.sync(PATIENCE)
        assert "freed by" in text(array_html(array))
        assert first_values(array) is None


def test_a_host_array_and_bytes() -> None:
    """Host memory shows its values too; a buffer of bytes shows none."""
    with device() as chip:
        array = chip.host_malloc(3, "int32")
        array.array[:] = 7
        assert "7, 7, 7" in text(array._repr_html_())
        found = text(array_html(chip.allocate(3)))
        assert "3 B" in found
        assert "first values" not in found


def test_a_completion_shows_how_far_it_is() -> None:
    """What it is, on which stream, and its state, before and after; a buffer shows its place and no values."""
    with device() as chip:
        stream, latch = chip.create_stream(name="load"), Latch(chip)
        buffer = chip.allocate(4096)
        latch.hold(stream)
        item = stream.fill(buffer, 7)
        assert f"Completion {item.seq}: fill stream load" in text(item._repr_html_())
        assert "state pending" in text(item._repr_html_())
        latch.open()
        item.wait_sync(PATIENCE)
        assert "state done" in text(item._repr_html_())
        found = text(buffer._repr_html_())
        assert "size 4 KiB" in found
        assert "first values" not in found
