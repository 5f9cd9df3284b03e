"""The interface of what runs the driver's steps: post a step, run work on a lane, wait, and tell the time.

Two executors implement it: `ThreadedExecutor` (a driver thread and worker threads) and `InlineExecutor` (one loop, one
thread, an order that a policy chooses). The rest of the runtime works with either.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from types import MethodType
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from atops.base.agenda import Agenda
    from atops.base.choice import Name
    from atops.base.errors import AtopsError
    from atops.device.copy_engine import Direction
    from atops.device.races.race import Access
    from atops.runtime.board.context import DeviceContext
    from atops.runtime.core.completion import Completion
    from atops.runtime.driver_board import Board

__all__ = ("HERE", "NOTHING", "Collectable", "Executor", "Here", "Lane", "LaterStep", "Step", "StepWaiter", "Touches")

Step = Callable[[], object]
NOTHING = bool  # C code that does nothing


class Lane(str):
    """Where work that may take long runs, apart from the driver: "kernel 0", "copy", "callback"."""

    __slots__ = ()


class LaterStep:
    """A step that will run later, on a host's timer heap."""

    __slots__ = ("_step",)

    def __init__(self, step: Step) -> None:
        self._step: Step | None = step

    @property
    def live(self) -> bool:
        """Whether it has neither run nor been cancelled."""
        return self._step is not None

    def cancel(self) -> None:
        """Forget the step. From any thread; harmless when it ran already."""
        self._step = None

    def fire(self) -> None:
        """Run the step unless it was cancelled."""
        step, self._step = self._step, None
        if step is not None:
            step()


class Collectable:
    """An object that leaves a step to the driver's thread if it is collected before it is closed.

    `__del__` is a slot and has C code, which puts the step into the driver's queue: Ctrl-C may end a method of Python
    before its first instruction, and then what the object has would be lost.
    """

    __slots__ = ("__del__",)

    __del__: Callable[[], object]

    def when_collected(self, executor: Executor, step: Step) -> None:
        """Have `step` run by the driver's thread when this is collected, in place of what was to run then."""
        self.__del__ = MethodType(executor.post_in_finalizer, step)

    def settled(self) -> None:
        """Leave nothing to do when this is collected."""
        self.__del__ = NOTHING


class StepWaiter:
    """A waiter that posts a step when it is woken, or offers it at a priority."""

    __slots__ = ("_arguments", "_post")

    def __init__(self, post: Callable[..., None], step: Step, *priority: int) -> None:
        self._post = post
        self._arguments = (step, *priority)

    def wake(self) -> None:
        """Post the step."""
        self._post(*self._arguments)


class Here(threading.local):
    """What the runtime knows of this OS thread: its role, if the runtime made it, and what it runs."""

    role: str | None = None
    callback: Completion | None = None
    writer = -1  # seq of the value write that this thread is carrying out


HERE = Here()


class Touches(Protocol):
    """Is told of steps, and tells what they touch."""

    def begin_board(self, board: Board) -> None:
        """Take the board whose steps they are."""

    def added(self, name: Name, step: Step) -> None:
        """Note a step that could come."""

    def begin(self, step: Step) -> None:
        """Note that a step of the driver's begins."""

    def task_begins(self) -> None:
        """Note that a step of the program's begins."""

    def task_over(self) -> None:
        """Note that none of the program's is under way."""

    def copying(
        self, item: Completion, context: DeviceContext, direction: Direction, action: Callable[[], None]
    ) -> Callable[[], None]:
        """Note that a command asks for a copy engine. Returns the action that moves its bytes, which is noted, too."""


class Executor(ABC):
    """Run the driver's steps one at a time, and its work beside them."""

    inline: bool
    agenda: Agenda | None = None  # where a schedule chooses what comes next
    touches: Touches | None = None  # told of what commands touch, where a strategy leaves out schedules by that
    # As `post`, for what the collector ends. Where threads run it is C code, which no Ctrl-C cuts off, and `start` has
    # to be called before.
    post_in_finalizer: Callable[[Step], object]

    @property
    def schedule(self) -> str | None:
        """What was chosen until now, as a string; None where no schedule chooses."""
        said = self.said()
        return None if said is None else said()

    def said(self) -> Callable[[], str] | None:
        """Return what returns that string, and keeps nothing else of the run."""
        return None

    def start(self) -> None:  # noqa: B027  # where one thread runs everything there is nothing to start
        """Start the thread that runs steps, if there is none. Raises RuntimeError where the system gives none."""

    @abstractmethod
    def now(self) -> int:
        """Return the time in integer nanoseconds."""

    @abstractmethod
    def post(self, step: Step) -> None:
        """Run `step` soon, after the steps posted before it. From any thread. A step never blocks."""

    @abstractmethod
    def offer(self, step: Step, priority: int) -> None:
        """As `post`, for a step of a stream: the most urgent goes first, and among equals the first to be offered."""

    @abstractmethod
    def later(self, delay: int, step: Step) -> LaterStep:
        """Run `step` after `delay` nanoseconds. From any thread."""

    def spend(self, duration: int, step: Step, priority: int = 0) -> LaterStep:
        """Offer the step that ends a command after `duration` ns. Virtual time goes on even if the program polls.

        Cancelling it forgets the step until it is offered.
        """
        return self.later(duration, partial(self.offer, step, priority))

    @abstractmethod
    def run(self, lane: Lane, work: Step, priority: int = 0) -> None:
        """Run `work` on a lane, the most urgent first. It may take long, and reports its own end. From any thread."""

    @abstractmethod
    def go_on(self, lane: Lane, work: Step, priority: int = 0, ahead: int = 0) -> None:
        """As `run`, for more of a kernel that has just had a turn and was neither parked nor ended by it.

        A virtual clock may go as far as `ahead`, in nanoseconds, before it.
        """

    @abstractmethod
    def backlog(self, lane: Lane) -> Callable[[], bool]:
        """Return a cheap function that tells whether all work of a lane has begun: a snapshot."""

    @abstractmethod
    def widen(self, lane: Lane, threads: int) -> None:
        """Say how many pieces of work a lane may run at once (1 unless told)."""

    @abstractmethod
    def grow(self, lane: Lane, threads: int) -> None:
        """Make a lane that begins every piece of work at once, in up to `threads` threads."""

    def crowd(self, lane: Lane) -> tuple[int, int]:
        """Return how much work of a growing lane waits for a thread, and how much has begun."""
        return 0, 0

    @abstractmethod
    def abandon(self, lane: Lane) -> None:
        """Replace a thread of the lane that never comes back."""

    @abstractmethod
    def block(self, source: object, timeout: float | None) -> bool:
        """Wait until `source` settles, or `timeout` seconds. Returns whether it settled.

        Raises WouldDeadlock where the wait could never end.
        """

    def sees_order(self, what: str) -> None:  # noqa: B027  # most have nothing to do
        """Note that the program read `what`, which any step may change: the time, or the trace."""

    def number_launch(self, stream: Name) -> str:
        """Return what a launch of a stream is called in the names of a schedule's choices."""
        return ""

    def asked_in_vain(self, thing: object) -> None:  # noqa: B027  # most have nothing to do
        """Note that the program asked whether something is over, and it is not: perhaps it polls."""

    def stalled(
        self, report: str, timers: int, outside: list[object], cause: AtopsError | None
    ) -> list[Access] | None:  # fmt: skip
        """End the awaits of a program that can never go on: every stream stands still, as the report says.

        Returns where its tasks wait, or None where it did not: where threads run, one of them may still go on.

        `timers` are the driver's own that end nothing, `outside` what streams wait for outside of the board.
        `cause` is the failure after which a stream skipped what one of them waits for, if that is so.
        """
        return None

    @property
    def foreign(self) -> bool:
        """Whether the calling thread may not use this executor's driver."""
        return False

    @abstractmethod
    def check_caller(self) -> None:
        """Raise IllegalState if the calling thread may not use this executor's driver."""

    @abstractmethod
    def close(self) -> None:
        """Stop. Idempotent; never waits for work that may not end."""
