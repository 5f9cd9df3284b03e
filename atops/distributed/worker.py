"""What runs on a worker of the cluster: a board of its own, as a plugin, and the chunks of pipelines on it."""

from __future__ import annotations

import asyncio
import platform
import sys
import threading
from bisect import bisect_left
from collections import Counter, defaultdict, deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cloudpickle
import numpy
from distributed import Worker, get_worker
from distributed.core import error_message
from distributed.diagnostics.plugin import WorkerPlugin
from distributed.metrics import context_meter
from distributed.protocol import pickle

from atops.base.errors import AtopsError, IllegalState, InvalidDevice, NotSupported, PriorLaunchFailure
from atops.base.options import EmulatorOptions
from atops.base.trace.records import Kind
from atops.base.trace.tracer import Tracer
from atops.device.call_site import caller
from atops.runtime.core.completion import command_of
from atops.runtime.device import Device, DeviceStatistics
from atops.runtime.driver import Driver
from atops.runtime.pipeline import Stage, through
from atops.runtime.stream import Stream, queue_of
from atops.runtime.stream_reports import StreamStatistics, statistics_of
from atops.trace.join import BoardTrace

__all__ = (
    "NAME", "BoardPlugin", "Job", "abort_job", "board_there", "check_versions", "report", "run_chunk", "trace",
    "versions",
)  # fmt: skip

NAME = "atops"  # of the plugin
MOST_TEXT = 5000  # characters of a failure that is told in words
REMEMBERED = 1000  # jobs that were aborted, whose chunks may still come


def versions() -> dict[str, str]:
    """Return the versions that have to be the same everywhere, by name."""
    return {
        "atops": sys.modules["atops"].__version__,
        "python": ".".join(platform.python_version_tuple()[:2]),
        "numpy": numpy.__version__.partition(".")[0],
    }


def check_versions(wanted: dict[str, str], found: dict[str, str], where: str) -> None:
    """Raise NotSupported where a worker has another version of something, or none."""
    for name, version in wanted.items():
        if found.get(name) != version:
            have = f"{name} {found[name]}" if found.get(name) else f"no {name}"
            raise NotSupported(f"{where} has {have}, the client {name} {version}; install the same on all workers")


@dataclass(frozen=True)
class Job:
    """A pipeline, as its workers get it with each chunk: a few kilobytes."""

    id: str
    name: str
    stages: bytes
    """The functions, as cloudpickle has them."""
    names: tuple[str, ...]
    """What the stages are called."""
    devices: tuple[int, ...] | None
    options: EmulatorOptions | None
    versions: dict[str, str]


class BoardPlugin(WorkerPlugin):
    """A driver with its board on a worker: opened when the worker gets the plugin, closed when it ends."""

    name = NAME
    idempotent = True  # the first one stays

    def __init__(self, options: EmulatorOptions | None) -> None:
        """Take what boards are opened with: None is what each worker's environment says."""
        self.options = options

    def setup(self, worker: Worker) -> None:
        """Open the board."""
        self.address = worker.address
        self.driver = Driver(self.options, name=f"worker {worker.address}")
        self.changed = threading.Condition()
        self.stages: dict[str, tuple[Stage, ...]] = {}  # of each job, once unpickled
        self.streams: dict[Stream, str] = {}  # those that a chunk is on, with the job that it is of
        self.free: dict[int, list[Stream]] = defaultdict(list)  # those that the next chunks take, by device
        self.aborted: deque[str] = deque(maxlen=REMEMBERED)

    async def teardown(self, worker: Worker) -> None:
        """Close the board: what runs on it ends."""
        await self.driver.aclose()

    # ---- chunks

    def run(self, job: Job, index: int, chunk: object) -> object:
        """Send a chunk through the stages on a stream of its own. Returns what a pipeline yields of it.

        Raises what a stage or a command fails with, noting which stage and chunk it was, and where.
        """
        try:
            check_versions(job.versions, versions(), f"worker {self.address}")
            if job.options is not None and job.options != self.driver.options:
                raise IllegalState(f"the board of worker {self.address} was opened with other options already")
            device = self._device(job, index)
            with self.changed:
                if job.id in self.aborted:
                    return None  # which nothing waits for any more
                free = self.free[device.ordinal]
                stream = free.pop() if free else device.create_stream(name=f"chunks {len(self.streams)}")
                self.streams[stream] = job.id
            result = None
            try:
                result = self._through(job, stream, chunk)
            finally:
                self._over(device, stream)
            return result
        except BaseException as error:
            if job.id in self.aborted:
                return None
            error.add_note(f"chunk {index} of {job.name}, on worker {self.address}")
            failure = _as_sent(error)
            if failure is error:
                raise
        raise failure

    def _device(self, job: Job, index: int) -> Device:
        ordinals = range(self.driver.devices) if job.devices is None else job.devices
        if not ordinals or max(ordinals) >= self.driver.devices:
            raise InvalidDevice(
                f"worker {self.address} has {self.driver.devices} devices; the pipeline wants {list(ordinals)}"
            )
        return Device(ordinals[index % len(ordinals)], self.driver)

    def _through(self, job: Job, stream: Stream, chunk: object) -> object:
        tracer = self.driver.tracer
        before = tracer.statistics().emitted
        ends: list[int] = []
        outcome = through(stream, self._stages(job), chunk, caller(), ends)
        try:
            result = _arrived(outcome)
        except AtopsError as error:
            stage = bisect_left(ends, command_of(error) or 0) - 1
            if 0 <= stage < len(job.names):  # else it was a copy of the pipeline's own
                error.add_note(f"in stage {stage} of the pipeline, {job.names[stage]}")
            raise
        _tell_kernels(tracer, before, stream)
        return result

    def _over(self, device: Device, stream: Stream) -> None:
        """Have a stream serve the next chunk, or end it where something is left on it."""
        queue = queue_of(stream)
        fit = queue.failure is None and not queue.owned and not queue.pending()
        if not fit:
            stream.abort()
            stream.close()
        with self.changed:
            job = self.streams.pop(stream)
            if fit and job not in self.aborted:
                self.free[device.ordinal].append(stream)
            elif fit:
                stream.close()
            self.changed.notify_all()

    def _stages(self, job: Job) -> tuple[Stage, ...]:
        with self.changed:
            found = self.stages.get(job.id)
            if found is None:
                found = self.stages[job.id] = cloudpickle.loads(job.stages)
        return found

    async def abort(self, job: str) -> None:
        """Drop all work of a job, and wait until its chunks have left. Those that still come are not begun."""
        with self.changed:
            self.aborted.append(job)
            streams = [stream for stream, of in self.streams.items() if of == job]
            self.stages.pop(job, None)
        for stream in streams:
            stream.abort()
        if streams:
            await asyncio.to_thread(self._left, job)
        await self._rest()

    async def _rest(self) -> None:
        """Give back what streams and pools hold for the next chunk, where no job has any."""
        with self.changed:
            if self.streams:
                return
            idle = [stream for streams in self.free.values() for stream in streams]
            self.free.clear()
        for stream in idle:
            stream.close()
        for device in Device.all(self.driver):
            await device.wait()

    def _left(self, job: str) -> None:
        with self.changed:
            self.changed.wait_for(lambda: job not in self.streams.values())


def run_chunk(job: Job, index: int, chunk: object) -> object:
    """Run a chunk on the worker that this task is on."""
    return _plugin(get_worker()).run(job, index, chunk)


async def abort_job(job: str, dask_worker: Worker) -> None:
    """Drop a job on a worker."""
    if (plugin := dask_worker.plugins.get(NAME)) is not None:
        await plugin.abort(job)


async def board_there(dask_worker: Worker) -> None:
    """Wait until a worker has its board."""
    for _ in range(100):
        if hasattr(dask_worker.plugins.get(NAME), "driver"):
            return
        await asyncio.sleep(0.1)


def report(dask_worker: Worker) -> tuple[list[DeviceStatistics], list[list[StreamStatistics]]]:
    """Return the statistics of each device of a worker, and of its streams that have something to do."""
    devices = Device.all(_plugin(dask_worker).driver)
    return [each.statistics() for each in devices], [_streams(each) for each in devices]


def trace(dask_worker: Worker) -> BoardTrace:
    """Return what the board of a worker remembers of what it did."""
    plugin = _plugin(dask_worker)
    tracer = plugin.driver.tracer
    label, virtual = f"worker {plugin.address}", tracer.anchor_ns is None
    return BoardTrace(tracer.snapshot(), label, plugin.driver.devices, virtual, _machine())


def _machine() -> str:
    """Return what tells machines apart whose clocks have origins of their own."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return platform.node()


def _plugin(worker: Worker) -> BoardPlugin:
    plugin = worker.plugins.get(NAME)
    if not isinstance(plugin, BoardPlugin) or not hasattr(plugin, "driver"):
        raise IllegalState(f"worker {worker.address} has no board of atops; its log says why it could not be opened")
    return plugin


def _streams(device: Device) -> list[StreamStatistics]:
    context = device.context
    with context.board.lock:
        active = list(context.active)
    return [statistics_of(each) for each in active]


def _arrived(outcome: Any) -> object:
    """Wait for what was fetched, and return it."""
    if isinstance(outcome, tuple):
        return tuple([_arrived(each) for each in outcome])
    try:
        return outcome.wait_sync()
    except PriorLaunchFailure:
        outcome.queue.raise_error()
        raise


def _as_sent(error: BaseException) -> BaseException:
    """Return a failure, or in its place what names it: where it cannot be sent, or would end a worker or an iteration.

    Dask sends the text alone of what cannot be pickled, and cuts what is long: then the notes are lost.
    """
    if isinstance(error, Exception) and not isinstance(error, StopIteration | StopAsyncIteration):
        tries: list[Exception] = [error]
        if isinstance(error, AtopsError):
            tries.append(bare := error.fresh())
            bare.__cause__ = None  # what a kernel raised may be all that cannot be pickled
        for each in tries:
            came = pickle.loads(error_message(each)["exception"].data)
            if getattr(came, "__notes__", None) == error.__notes__:
                return each
    failure = RuntimeError(f"a stage of the pipeline raised {error!r:.{MOST_TEXT}}")
    failure.__notes__ = error.__notes__
    return failure


def _tell_kernels(tracer: Tracer, before: int, stream: Stream) -> None:
    """Tell Dask how long the kernels of a chunk took: its dashboard shows them as activities of the task."""
    spent: Counter[str] = Counter()
    number = queue_of(stream).number
    for record in tracer.since(before).records:
        if record.kind == Kind.LAUNCH and record.stream == number:
            spent[record.name] += record.duration_ns
    for kernel, nanoseconds in spent.items():
        context_meter.digest_metric(f"kernel {kernel}", nanoseconds / 1e9, "seconds")
