"""atops: an emulated GCU accelerator and the asyncio runtime that drives it.

A stream is an asyncio task queue, an event is an awaitable future, a kernel is a coroutine per hardware thread.

    floor 6  atops.cli, atops.apps, atops_widgets   what people see; benchmarks and examples stand here too
    floor 5  atops, atops.tops                      names: the async API here, the C-style functions there
    floor 4  atops.runtime                          devices, streams, commands and their queues, events, buffers, pools
    floor 3  atops.kernels                          the language that kernels are written in
    floor 2  atops.trace                            reading traces: figures, text, files
    floor 1  atops.device                           the chip: memories, DTE, kernel threads, barriers, links
    floor 0  atops.base                             errors, dims, dtypes, clock, options, waiting, trace records

Imports go down only; the first lines of each package say what its modules and folders are. The way down,
of a copy: stream.copy -> commands.copy -> queues.drain -> device.copy_engine -> device.memory.allocation;
of a launch: stream.launch -> commands.launch -> device.exec: grid, block_scheduler, interpreter -> device.dte.
Every `def` enqueues or answers at once; only an `async def` waits; blocking twins are called `sync` or `wait_sync`.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from atops import errors, kernels
from atops.base.dims import Dim3
from atops.base.errors import DataRace
from atops.base.neighbours import cure, import_of
from atops.base.options import EmulatorOptions, trace_file
from atops.base.trace.records import Kind, Status, Trace, TraceRecord
from atops.checking import CLUSTERS
from atops.device.memory.value_wait import Condition
from atops.device.races.race import Race
from atops.kernels.launch_config import LaunchConfig
from atops.runtime.board.handles import IsStream
from atops.runtime.board.symbols import Symbol
from atops.runtime.commands.task import StreamTask
from atops.runtime.cooperative_launch import launch_together
from atops.runtime.core.completion import Completion
from atops.runtime.core.event import Event
from atops.runtime.device import Device, DeviceStatistics
from atops.runtime.driver import Driver, current_driver, default_driver, report
from atops.runtime.driver_board import STARTS, Board
from atops.runtime.external_stream import ExternalStream
from atops.runtime.memory.buffer import Buffer, DeviceArray
from atops.runtime.memory.host_array import HostArray
from atops.runtime.pools.pool import MemoryPool
from atops.runtime.properties import DeviceProperties
from atops.runtime.races.report import Report
from atops.runtime.stream import Stream
from atops.runtime.stream_reports import StreamStatistics

if TYPE_CHECKING:
    from atops import aml, distributed, executable, hip, tops
    from atops.checking.check import check
    from atops.checking.check_report import CheckFailed, CheckReport
    from atops.runtime.pipeline import Pipeline, pipeline
    from atops.runtime.profiling import Profile, profile
    from atops.runtime.run import run

__version__ = "0.1.0"

__all__ = (
    "Buffer",
    "CheckFailed",
    "CheckReport",
    "Completion",
    "Condition",
    "DataRace",
    "Device",
    "DeviceArray",
    "DeviceProperties",
    "DeviceStatistics",
    "Dim3",
    "Driver",
    "EmulatorOptions",
    "Event",
    "ExternalStream",
    "HostArray",
    "IsStream",
    "Kind",
    "LaunchConfig",
    "MemoryPool",
    "Pipeline",
    "Profile",
    "Race",
    "Report",
    "Status",
    "Stream",
    "StreamStatistics",
    "StreamTask",
    "Symbol",
    "Trace",
    "TraceRecord",
    "aml",
    "check",
    "current_driver",
    "default_driver",
    "distributed",
    "errors",
    "executable",
    "hip",
    "kernels",
    "launch_together",
    "pipeline",
    "profile",
    "report",
    "run",
    "tops",
)

# Imported when first named, as many programs never use them: packages, and what is taken out of a module.
LATE = frozenset(("aml", "distributed", "executable", "hip", "tops"))
TAKEN = {
    "CheckFailed": "atops.checking.check_report",
    "CheckReport": "atops.checking.check_report",
    "Pipeline": "atops.runtime.pipeline",
    "Profile": "atops.runtime.profiling",
    "check": "atops.checking.check",
    "pipeline": "atops.runtime.pipeline",
    "profile": "atops.runtime.profiling",
    "run": "atops.runtime.run",
}


def _named_late(name: str) -> Any:
    """Import what is named for the first time: C-style functions, `atops.run`, checks, profiles.

    Raises AttributeError, to which Python adds the nearest name.
    """
    if name in LATE:
        return import_module(f"atops.{name}")
    if name in TAKEN:
        return getattr(import_module(TAKEN[name]), name)
    found = None if name.startswith("__") else cure("atops", name)
    if found is not None and import_of(sys._getframe(1)):
        raise ImportError(found, name=name)
    raise AttributeError(found or f"module 'atops' has no attribute {name!r}", name=name, obj=sys.modules[__name__])


def _search_on(client: Any, checking: Any) -> Any:
    return _named_late("distributed").schedules.search_on(client, checking)


def _profile_by_environment(board: Board) -> None:
    """Have the process profiled where ATOPS_TRACE names a file."""
    if trace_file():
        import_module("atops.runtime.profiling").profile_process(board)


CLUSTERS[:] = [_search_on]
STARTS.append(_profile_by_environment)

if not TYPE_CHECKING:  # checkers are to refuse a name that does not exist
    __getattr__ = _named_late


def __dir__() -> list[str]:
    """List what is public, and what every module has."""
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
