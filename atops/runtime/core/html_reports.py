"""Small tables for completions, arrays and devices in a notebook, with what their reprs and statistics tell.

The objects come as arguments: their modules import this one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from atops.base.errors import NotInitialized
from atops.base.html_table import bar, html_table
from atops.runtime.core.commands import words_of

if TYPE_CHECKING:
    from atops.runtime.core.completion import Completion
    from atops.runtime.device import Device

__all__ = ("array_html", "completion_html", "device_html", "first_values", "in_words")

SHOWN = 8  # values of an array
UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")


def array_html(array: Any) -> str:
    """Return a table for a buffer or an array: its address, its size, where it was made, its first values now."""
    allocation = array.allocation
    dtype, shape = getattr(array, "dtype", None), getattr(array, "shape", None)
    title = type(array).__name__ if shape is None else f"{type(array).__name__} {shape} {dtype}"
    return html_table(title, (
        ("size", in_words(array.nbytes)),
        ("address", f"{array.address:#x}, offset {allocation.offset + array.offset:#x} of {allocation.where}"),
        ("bank", allocation.bank if allocation.device is not None else None),
        ("label", allocation.label or None),
        ("allocated at", allocation.site),
        ("freed by", None if allocation.alive else allocation.freed_by),
        ("first values", first_values(array) if shape is not None else None),
    ))  # fmt: skip


def completion_html(item: Completion) -> str:
    """Return a table for a command: what it is, where, and how far it is or how it came out. No look at its failure."""
    return html_table(f"Completion {item.seq}: {words_of(item.command)}", (
        ("stream", item.stream.label),
        ("state", item.state),
        ("waits for", item.parked if item.state in ("pending", "running") else None),
        ("error", item.failure),
    ))  # fmt: skip


def first_values(array: Any) -> str | None:
    """Return the first values as they are now, whatever is still queued; None of an array that has none or is freed."""
    count, allocation = min(array.size, SHOWN), array.allocation
    data = allocation.data  # taken before its life is asked: what is held stays mapped
    if not count or not allocation.alive:
        return None
    values = np.frombuffer(data, array.dtype, count, array.offset)
    return ", ".join(map(str, values.tolist())) + (", ..." if array.size > count else "")


def device_html(device: Device) -> str:
    """Return a table for a device: its geometry, how full its memory is, and its streams; of a closed driver, that."""
    title, arch = f"Device {device.ordinal}: {device.name}", device.arch
    try:
        state = device.statistics()
    except NotInitialized as error:
        return html_table(title, [("architecture", arch.name), ("state", error)])
    memory = state.memory
    queued = f"{state.active_streams} with {state.pending_commands} commands"
    full = f"{in_words(memory.used)} of {in_words(memory.total)} in {memory.live} allocations"
    return html_table(title, (
        ("architecture", arch.name),
        ("clusters", f"{arch.clusters} of {arch.sips_per_cluster} SIPs"),
        ("scratchpads", f"{in_words(arch.l1_usable)} L1 a SIP, {in_words(arch.l2_usable)} L2 a cluster"),
        ("memory", bar(memory.used, memory.total, full)),
        ("peak", in_words(memory.peak)),
        ("banks", f"{len(memory.banks)} of {in_words(memory.banks[0].total)}" if memory.banks else None),
        ("fragmentation", f"{memory.fragmentation:.0%}" if memory.fragmentation else None),
        ("quarantined", in_words(memory.quarantined) if memory.quarantined else None),
        ("streams", queued if state.active_streams else "idle"),
        ("failed streams", state.poisoned_streams or None),
        ("peers", ", ".join(f"device {ordinal}" for ordinal in state.peers) or None),
    ))  # fmt: skip


def in_words(nbytes: int) -> str:
    """Return a number of bytes for people: "1.5 MiB"."""
    value, unit = float(nbytes), 0
    while value >= 1024 and unit < len(UNITS) - 1:
        value /= 1024
        unit += 1
    return f"{nbytes} bytes" if not unit else f"{value:.4g} {UNITS[unit]}"
