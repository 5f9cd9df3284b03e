"""The error tree: what went wrong, in whose code, and the result code that says so at the C edge.

    AtopsError                     everything this package raises on purpose
    ├── UsageError                 the caller's mistake; nothing was enqueued, nothing changed
    │   ├── InvalidValue           an argument out of its range (also a ValueError)
    │   │   └── OutOfBounds        an index that an array does not have (also an IndexError)
    │   ├── InvalidType            an argument of the wrong type (also a TypeError)
    │   │   └── NotExportable      device memory, which other libraries cannot share (also a BufferError)
    │   ├── InvalidDevice          no such device
    │   ├── InvalidHandle          a closed, foreign or unknown stream, event, buffer, pool
    │   ├── InvalidConfiguration   a launch geometry that the architecture cannot have
    │   ├── LaunchOutOfResources   more L1, L2, threads or clusters than there are
    │   ├── CooperativeLaunchTooLarge  more cooperative blocks than clusters
    │   ├── StreamFull             a stream with a capacity has no room left (also an asyncio.QueueFull)
    │   ├── WouldDeadlock          a blocking wait that could never end
    │   ├── IllegalState           calls in an order that has no meaning
    │   ├── NotInitialized         the driver is closed, or this is a forked child
    │   ├── NotFound               a name that nothing bears
    │   ├── NotSupported           this architecture or platform cannot do it
    │   ├── CompilationError       a kernel's source text is wrong; carries the compiler's log
    │   │   └── InvalidOption      an option of the compiler is
    │   ├── InvalidImage           a code image is damaged, of another version, or none (also a ValueError)
    │   ├── PeerAccessNotEnabled   a device reached for another's memory without access
    │   └── PeerAccessAlreadyEnabled
    ├── OutOfMemory                the device has no such range left (also a MemoryError)
    ├── StepLimit                  a run under a schedule that has made all its steps and is not over
    ├── ClusterError               a cluster has lost its scheduler, or work has lost too many workers
    ├── NotReady                   an answer, not a failure: the work is not done yet (also an
    │                          asyncio.InvalidStateError)
    └── ExecutionError             a command failed while it ran; it poisons its stream
        ├── IllegalAddress         bytes outside a live allocation
        ├── LaunchFailure          a kernel raised; carries block, thread and the kernel's traceback
        │   ├── KernelDeadlock     every thread of a kernel waits, and nothing can wake one
        │   ├── KernelAssert       a condition that a kernel asserted does not hold (also an AssertionError)
        │   ├── MissingAwait       a kernel made a request and never awaited it
        │   └── DteError           a DTE context or transfer was misused
        ├── DataRace               bytes that two sides use and nothing orders (with the detectors, in strict mode)
        ├── HostCallFailure        a host callable in stream order, or what a stream waited for, raised
        │   └── AwaitableCancelled what a stream waited for was cancelled
        ├── PriorLaunchFailure     skipped, because an earlier command of the stream failed
        ├── StreamAborted          dropped by abort, close or reset before it could finish
        │   └── CommandCancelled   dropped by `cancel` of its completion
        └── LoopClosed             a host coroutine's loop closed before the coroutine ended

What a kernel raises arrives as a LaunchFailure, an IllegalAddress of its own too: its cause is the kernel's exception,
its `code` that exception's if it has one.

Exceptions live inside; `Result` codes exist only at the C edge, which reads `code`.
"""

from __future__ import annotations

from asyncio import InvalidStateError, QueueFull
from typing import ClassVar

from atops.base.result_codes import Result

__all__ = (
    "AtopsError",
    "AwaitableCancelled",
    "ClusterError",
    "CommandCancelled",
    "CompilationError",
    "CooperativeLaunchTooLarge",
    "DataRace",
    "DteError",
    "ExecutionError",
    "HostCallFailure",
    "IllegalAddress",
    "IllegalState",
    "InvalidConfiguration",
    "InvalidDevice",
    "InvalidHandle",
    "InvalidImage",
    "InvalidOption",
    "InvalidType",
    "InvalidValue",
    "KernelAssert",
    "KernelDeadlock",
    "LaunchFailure",
    "LaunchOutOfResources",
    "LoopClosed",
    "MissingAwait",
    "NotExportable",
    "NotFound",
    "NotInitialized",
    "NotReady",
    "NotSupported",
    "OutOfBounds",
    "OutOfMemory",
    "PeerAccessAlreadyEnabled",
    "PeerAccessNotEnabled",
    "PriorLaunchFailure",
    "StepLimit",
    "StreamAborted",
    "StreamFull",
    "UsageError",
    "WouldDeadlock",
)


class AtopsError(Exception):
    """Anything this package raises on purpose. `code` is what the C-style functions return for it."""

    code: ClassVar[Result] = Result.Unknown

    def fresh(self) -> AtopsError:
        """Return a new exception of the same kind, message and cause.

        A failure is reported to many waiters; each gets its own exception, so that one waiter's traceback never grows
        into another's.
        """
        copy = type(self).__new__(type(self), *self.args)
        copy.args = self.args
        copy.__dict__.update(self.__dict__)
        copy.__cause__ = self.__cause__  # not this one: its message would stand twice in every traceback
        return copy


class UsageError(AtopsError):
    """The caller's mistake, found at the call: nothing was enqueued and nothing changed."""

    code = Result.InvalidValue


class InvalidValue(UsageError, ValueError):
    """An argument lies outside its range. The caller's mistake."""


class OutOfBounds(InvalidValue, IndexError):
    """An array was indexed beyond its extents. The caller's mistake."""


class InvalidType(UsageError, TypeError):
    """An argument has the wrong type. The caller's mistake."""


class NotExportable(InvalidType, BufferError):
    """Device memory was to be shared with another library, which only host memory can be. The caller's mistake."""


class InvalidDevice(UsageError):
    """There is no device of this ordinal on the board. The caller's mistake."""

    code = Result.InvalidDevice


class InvalidHandle(UsageError):
    """A closed, foreign or unknown object was used. The caller's mistake."""

    code = Result.InvalidHandle


class InvalidConfiguration(InvalidValue):
    """A launch geometry that the architecture cannot have. The caller's mistake."""

    code = Result.InvalidConfiguration


class LaunchOutOfResources(UsageError):
    """More threads, clusters, L1 or L2 than the device has. The caller's mistake."""

    code = Result.LaunchOutOfResources


class CooperativeLaunchTooLarge(UsageError, ValueError):
    """A cooperative grid has more blocks than the device has clusters. The caller's mistake."""

    code = Result.CooperativeLaunchTooLarge


class StreamFull(UsageError, QueueFull):
    """A stream with a capacity has no room left. Await `stream.room(n)`, or enqueue less."""

    code = Result.NotReady


class WouldDeadlock(UsageError):
    """A blocking wait was asked for where it could never end. The caller's mistake."""

    code = Result.IllegalState


class IllegalState(UsageError):
    """Calls were made in an order that has no meaning. The caller's mistake."""

    code = Result.IllegalState


class NotInitialized(UsageError):
    """The driver is closed, or belongs to the parent of this forked process."""

    code = Result.NotInitialized


class NotFound(UsageError, LookupError):
    """A name or key that nothing bears. The caller's mistake."""

    code = Result.NotFound


class NotSupported(UsageError):
    """This architecture, device or platform cannot do it, or an operation was asked of the wrong one."""

    code = Result.NotSupported


class CompilationError(UsageError):
    """The source text of a kernel is wrong. The message is the compiler's log: each fault with its place."""

    code = Result.InvalidSource


class InvalidOption(CompilationError):
    """An option of the compiler is unknown or has a wrong value. The message is the compiler's log."""

    code = Result.InvalidValue


class InvalidImage(UsageError, ValueError):
    """A code image is damaged, of another version, or no image at all. The fault of its maker or of a copy."""

    code = Result.InvalidImage


class PeerAccessNotEnabled(UsageError):
    """A device reached for another device's memory without access to it. The caller's mistake."""

    code = Result.PeerAccessNotEnabled


class PeerAccessAlreadyEnabled(UsageError):
    """Peer access was enabled twice. The caller's mistake."""

    code = Result.PeerAccessAlreadyEnabled


class OutOfMemory(MemoryError, AtopsError):  # this order: only so can MemoryError.__new__ make one
    """The memory has no free range of this size. Nobody's mistake until the program ignores it."""

    code = Result.OutOfMemory


class NotReady(AtopsError, InvalidStateError):
    """The work is not done yet. An answer, not a failure."""

    code = Result.NotReady


class StepLimit(AtopsError):
    """A run under a schedule has made as many steps as it may, or one on a virtual clock has asked in vain as often.

    The message says what goes on.
    """

    standing: str = ""
    """Where the tasks of the program wait that no step was of for long, "left waits at program.py:12", if any."""


class ClusterError(AtopsError):
    """A cluster has lost its scheduler, or a piece of work has lost too many workers. The message says which."""

    code = Result.OperatingSystem


class ExecutionError(AtopsError):
    """A command failed while it ran. It fails its completion and poisons its stream."""

    code = Result.LaunchFailure


class IllegalAddress(ExecutionError):
    """Bytes outside a live allocation were touched: the fault of the code that computed the address."""

    code = Result.IllegalAddress


class LaunchFailure(ExecutionError):
    """A kernel raised. `__cause__` is its own exception; `block` and `thread` say where (dim3 indices or None)."""

    block: tuple[int, int, int] | None = None
    thread: tuple[int, int, int] | None = None


class KernelAssert(LaunchFailure, AssertionError):
    """A condition that a kernel asserted does not hold. The kernel's mistake; the message shows the condition."""

    code = Result.Assert


class KernelDeadlock(LaunchFailure):
    """Every thread of a kernel waits and nothing can wake one. The kernel's mistake; the message groups the waiters."""


class MissingAwait(LaunchFailure):
    """A kernel made a request (a barrier, a wait) and never awaited it. The kernel's mistake; names the line."""


class DteError(LaunchFailure):
    """A DTE context or transfer was misused. The kernel's mistake."""


class DataRace(ExecutionError):
    """Bytes that two sides use, one of them to write, in no order. Raised in strict mode, by the later of the two.

    `races` are what was found: `atops.Race` objects, which `atops.report()` has, too.
    """

    races: tuple[object, ...] = ()


class HostCallFailure(ExecutionError):
    """A host callable in stream order, or what a stream waited for, raised. `__cause__` is its exception."""


class AwaitableCancelled(HostCallFailure):
    """The future, task or coroutine that a stream waited for was cancelled."""


class PriorLaunchFailure(ExecutionError):
    """The command was skipped, because an earlier command of its stream failed (`__cause__`)."""

    code = Result.PriorLaunchFailure


class StreamAborted(ExecutionError):
    """The command was dropped by abort, by closing its scope with an error, or by a device reset."""

    code = Result.ContextIsDestroyed


class CommandCancelled(StreamAborted):
    """The command was cancelled by `cancel` of its completion."""


class LoopClosed(ExecutionError):
    """The event loop that owed a host coroutine closed before the coroutine ended."""

    code = Result.OperatingSystem
