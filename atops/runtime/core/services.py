"""What the parts of a driver see of it: the lock, the counter, the executor, the tracer, and a few questions.

Streams, completions, devices and pools stand on this and never on `Driver`, which stands on them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, NoReturn

from atops.base.errors import AtopsError, InvalidType
from atops.base.options import EmulatorOptions
from atops.base.trace.tracer import Tracer
from atops.base.waiting.locks import OwnedLock
from atops.device.memory.host_memory import HostMemory
from atops.device.topology import Topology
from atops.runtime.core.host_tasks import HostTasks
from atops.runtime.core.value_poller import Poller
from atops.runtime.executors.executor import Executor, Step

if TYPE_CHECKING:
    from atops.runtime.board.context import DeviceContext
    from atops.runtime.commands.copy import Copy
    from atops.runtime.core.commands import Run
    from atops.runtime.core.completion import Completion
    from atops.runtime.queues.queue import StreamQueue

__all__ = ("DriverServices", "InProcess")


class InProcess:
    """A driver, or a handle of a part of one, which cannot be copied: a copy would be a second one."""

    __slots__ = ()

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        """Refuse. Raises InvalidType."""
        raise InvalidType(f"{self!r} cannot be copied or pickled: a driver and its parts are of one process")


class DriverServices(ABC):
    """One driver, as its parts see it.

    `lock` orders every submission and guards every queue; `seq` numbers commands under it. `execute` says how a command
    of each kind runs. `closed` is what to raise once the driver is closed.
    """

    options: EmulatorOptions
    executor: Executor
    inline: bool
    post: Callable[[Step], None]
    now: Callable[[], int]
    execute: Mapping[type, Run]
    lock: OwnedLock
    seq: int
    event_numbers: Iterator[int]
    closed: AtopsError | None
    tracer: Tracer
    topology: Topology
    host: HostMemory
    poller: Poller
    host_tasks: HostTasks
    retired: dict[DeviceContext, None]  # the contexts that resets have replaced, until what ran there is over

    @abstractmethod
    def context(self, ordinal: int) -> DeviceContext:
        """Return the device's context. Raises InvalidDevice, or NotInitialized when closed."""

    @property
    @abstractmethod
    def contexts(self) -> tuple[DeviceContext, ...]:
        """The contexts of the devices that have been used."""

    @abstractmethod
    def active_streams(self) -> list[StreamQueue]:
        """Return every stream that has work. With the lock held."""

    @abstractmethod
    def next_stream_number(self) -> int:
        """Return a number that no stream of this driver has had."""

    def called_amid(self) -> bool:
        """Tell whether this is a finalizer or a signal handler, in the middle of a call that holds the lock.

        Raises IllegalState in a thread that may not use an inline driver.
        """
        if self.inline:
            self.executor.check_caller()
        return self.lock._is_owned()

    def asked_in_vain(self, thing: object) -> None:
        """Note that the program asked whether something is over, and it is not."""
        if not self.lock._is_owned():  # else it is a finalizer or a signal handler, which may only look
            self.executor.asked_in_vain(thing)

    @abstractmethod
    def guard_blocking(self, target: Completion) -> None:
        """Raise WouldDeadlock if blocking here until a completion is done could never end."""

    @abstractmethod
    def wait_all(self, items: list[Completion], timeout: float | None = None) -> None:
        """Block until every completion is over, well or not. Raises TimeoutError, WouldDeadlock."""

    @abstractmethod
    def run_callback(self, function: Callable[..., object], *arguments: object) -> None:
        """Call user code on a callback thread."""

    @abstractmethod
    def call_here(self, function: Callable[..., object], *arguments: object) -> None:
        """Call user code in this thread; what it raises is logged."""

    @abstractmethod
    def call_apart(self, function: Callable[..., object], *arguments: object) -> None:
        """Call user code in a thread of the runtime, which nothing that it raises may end."""

    @abstractmethod
    def head_parked(self) -> None:
        """Note that a stream's head waits, so that a stall is noticed."""

    @abstractmethod
    def trace(self, item: Completion, error: AtopsError | None) -> AtopsError | None:
        """Emit the record of a command that settles with `error`. Returns what it fails with; never raises."""

    @abstractmethod
    def tell_subscribers(self) -> None:
        """Have the trace's subscribers told of what is new, if there are any."""

    @abstractmethod
    def trace_part(self, item: Completion, part: Copy) -> AtopsError | None:
        """Emit the record of one step of a command that takes several. As `trace`."""
