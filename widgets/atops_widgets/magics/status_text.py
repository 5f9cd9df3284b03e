"""`%atops`: the open drivers in a few lines: devices, memory in use, and the streams that have work."""

from __future__ import annotations

from atops.runtime.device import Device
from atops.runtime.driver import DRIVERS, Driver
from atops.runtime.stream import describe
from atops.trace.text import format_bytes

__all__ = ("in_flight", "open_drivers", "status")

STREAMS = 8  # named of each device; more are counted


def status() -> str:
    """Return the state of every open driver. It starts none."""
    found = open_drivers()
    if not found:
        return "no driver runs yet: the first use of a device starts one"
    return "\n".join(line for driver in found for line in _driver(driver))


def open_drivers() -> list[Driver]:
    """Return the drivers that are open, those with the most devices last."""
    return sorted((each for each in list(DRIVERS) if each.closed is None), key=lambda each: each.devices)


def in_flight(driver: Driver) -> int:
    """Return how many commands of a driver are not over."""
    if driver.closed is not None:
        return 0
    return sum(len(Device(context.ordinal, driver).outstanding()) for context in driver.contexts)


def _driver(driver: Driver) -> list[str]:
    several = "s" * (driver.devices != 1)
    lines = [f"{driver.arch.name}, {driver.devices} device{several}, {driver.tracer.statistics().held:,} records held"]
    used = {context.ordinal: context for context in driver.contexts}
    for ordinal in range(driver.devices):
        if ordinal not in used:
            lines.append(f"  device {ordinal}: not used yet")
            continue
        figures = Device(ordinal, driver).statistics()
        memory = figures.memory
        lines.append(
            f"  device {ordinal}: {format_bytes(memory.used)} of {format_bytes(memory.total)} taken,"
            f" {memory.live} allocation{'s' * (memory.live != 1)}, peak {format_bytes(memory.peak)};"
            f" {figures.active_streams or 'no'} stream{'s' * (figures.active_streams != 1)} at work,"
            f" {figures.poisoned_streams or 'none'} failed"
        )
        with driver.lock:
            streams = [each for each in driver.active_streams() if each.context.ordinal == ordinal]
        lines += [f"    {describe(each)}" for each in streams[:STREAMS]]
        lines += [f"    and {len(streams) - STREAMS} more"] if len(streams) > STREAMS else []
    return lines
