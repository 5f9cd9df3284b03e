"""What makes completions and events futures to asyncio and to concurrent.futures."""

from __future__ import annotations

import asyncio
import concurrent.futures
import sys
import threading
from abc import abstractmethod
from collections.abc import Callable, Generator
from contextvars import Context, copy_context
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, NoReturn, TypeAlias

from atops.base.errors import AtopsError, IllegalState, InvalidType
from atops.base.log_fields import get_logger
from atops.base.waiting.current_loop import running_loop_adapter
from atops.base.waiting.loop_adapter import LoopAdapter
from atops.runtime.core.thread_waits import Watch, Watchers

# What a command gives. With its default a bare `Completion` is complete, too: the runtime settles commands of any kind.
if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from atops.runtime.core.completion import Completion

    T_co = TypeVar("T_co", covariant=True, default=Any)

    class _Future(  # type: ignore[misc, type-var, override]  # the two differ, and are only read
        asyncio.Future[T_co], concurrent.futures.Future[T_co]
    ):
        """What type checkers take it for: `asyncio.wait` is declared to take asyncio's own futures alone."""

        def get_loop(self) -> NoReturn:
            """Nothing has it here: what is settled by a driver belongs to no loop."""
            raise NotImplementedError
else:
    from typing import TypeVar

    T_co = TypeVar("T_co", covariant=True)
    _Future = concurrent.futures.Future

__all__ = (
    "AT_ONCE", "FutureLike", "InProcess", "LoopCallback", "T_co", "Timeout", "call_here", "checked_callback",
    "ends_a_wait", "tell_detector",
)  # fmt: skip

log = get_logger("atops.driver")


class _Given(Enum):
    """Whether a timeout was given."""

    AT_ONCE = "answer at once"

    def __repr__(self) -> str:
        return self.name


AT_ONCE: Final = _Given.AT_ONCE
Timeout: TypeAlias = float | Literal[_Given.AT_ONCE] | None  # of `result` and `exception`, in seconds


class InProcess:
    """A driver, or a handle of a part of one, which cannot be copied: a copy would be a second one."""

    __slots__ = ()

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        """Refuse. Raises InvalidType."""
        raise InvalidType(f"{self!r} cannot be copied or pickled: a driver and its parts are of one process")


class FutureLike(InProcess, _Future[T_co], Generic[T_co]):  # type: ignore[override]  # as above
    """The methods of a future, for what a stream settles.

    asyncio's functions take it for what can be awaited, and make a task of it where they would cancel a future: so the
    end of a wait never cancels work. `asyncio.wait` takes it as it is; `asyncio.wrap_future`, `concurrent.futures.wait`
    and `as_completed` as a future of threads.
    """

    __slots__ = ()

    def __init__(self) -> None:
        """Have nothing of Future's: neither its lock nor its state."""

    @abstractmethod
    def __await__(self) -> Generator[object, object, T_co]:
        """Wait until it is over. Cancelling the wait leaves the work alone."""

    async def wait(self) -> T_co:
        """Wait as `await` does, as a coroutine: what `asyncio.create_task` and `TaskGroup.create_task` want."""
        return await self

    @abstractmethod
    def result(self, timeout: Timeout = AT_ONCE) -> T_co:
        """Return the result, or raise a fresh exception when the work failed. With a timeout, block as `sync` does.

        Raises NotReady when it is not over and no timeout was given.
        """

    @abstractmethod
    def exception(self, timeout: Timeout = AT_ONCE) -> AtopsError | None:
        """Return what the work failed with, or None. With a timeout, block as `sync` does.

        Raises NotReady when it is not over and no timeout was given.
        """

    # ---- what the functions of concurrent.futures and asyncio reach for

    @abstractmethod
    def _watched(self) -> tuple[Watch, Completion | None]:
        """Return what has its state for threads, turned to the current record."""

    @property
    def _condition(self) -> threading.Condition:  # type: ignore[override]  # it is made when it is first asked for
        return self._watched()[0].condition

    @property
    def _state(self) -> str:  # type: ignore[override]  # as above
        return self._watched()[0].state

    @property
    def _waiters(self) -> Watchers:  # type: ignore[override]  # what they do with the list
        watch, record = self._watched()
        return Watchers(watch, self, record)

    def _get_snapshot(self) -> tuple[bool, bool, T_co | None, AtopsError | None]:
        """Return whether it is over and was cancelled, its result and failure: of Python 3.14 on."""
        if not self.done():
            return False, False, None, None
        error = self.exception()
        return True, self.cancelled(), self.result() if error is None else None, error

    def set_running_or_notify_cancel(self) -> NoReturn:
        """Refuse. Raises IllegalState: its stream settles it."""
        raise IllegalState(f"{self!r} is settled by its stream, and by nothing else")

    def set_result(self, result: object) -> NoReturn:
        """Refuse. Raises IllegalState: its stream settles it."""
        self.set_running_or_notify_cancel()

    def set_exception(self, exception: object) -> NoReturn:
        """Refuse. Raises IllegalState: its stream settles it."""
        self.set_running_or_notify_cancel()


class LoopCallback:
    """A done callback that was added on a loop, and runs there."""

    __slots__ = ("_adapter", "_apart", "_context", "_thing", "function")

    def __init__(
        self,
        thing: FutureLike[Any],
        function: Callable[[Any], object],
        context: Context,
        adapter: LoopAdapter,
        apart: Callable[..., object],
    ) -> None:
        self.function = function
        self._thing = thing
        self._context = context
        self._adapter = adapter
        self._apart = apart  # calls a function on a callback thread

    def wake(self) -> None:
        """Have the loop call it, or a callback thread if the loop has closed. From any thread."""
        if not self._adapter.deliver(self._run):
            self._apart(self._context.run, self.function, self._thing)  # after the loop's end: nothing waits for it

    def _run(self) -> None:
        tell_detector(self._thing)
        self._adapter.call(self.function, self._thing, self._context)


def checked_callback(thing: FutureLike[Any], function: object, context: Context | None) -> Context:
    """Return the context of a done callback: the one given, else a copy of this one. Raises InvalidType."""
    if not callable(function):
        raise InvalidType(f"add_done_callback() of {thing!r} expects a function, got {function!r}")
    if context is not None and not isinstance(context, Context):
        raise InvalidType(f"add_done_callback() of {thing!r} expects a contextvars.Context as context, got {context!r}")
    return copy_context() if context is None else context


def call_here(function: Callable[[Any], object], thing: FutureLike[Any], context: Context) -> None:
    """Call a done callback of what is over: soon if a loop runs here, else at once. What it raises is logged."""
    tell_detector(thing)
    adapter = running_loop_adapter()
    if adapter is not None and adapter.deliver(lambda: adapter.call(function, thing, context)):
        return
    try:
        context.run(function, thing)
    except Exception:
        log.exception("a callback raised: %r", function)


def tell_detector(thing: FutureLike[Any]) -> None:
    """Tell the race detector, where there is one, that the program is told that a thing is over."""
    record = thing if (completion := getattr(thing, "completion", thing)) is None else completion
    queue = getattr(record, "queue", None)
    if queue is not None and (detector := queue.board.detector) is not None:
        detector.saw(record)


def ends_a_wait() -> bool:
    """Tell whether the caller's caller is asyncio, which passes on that a wait by `wrap_future` was cancelled."""
    return sys._getframe(2).f_globals.get("__name__") == "asyncio.futures"
