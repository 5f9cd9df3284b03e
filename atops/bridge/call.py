"""Make a C-style function, and its awaitable twin, of an implementation: a `Bridge` of each API is the decorator.

A call turns exceptions into codes, keeps the last error of each context and leaves a trace record. A wait is written
once: `await until(completion)` blocks in the plain function and awaits in the twin. An implementation's coroutine
yields its waits: `drive` blocks for each of them, `step` awaits each.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Coroutine, Generator, Mapping
from enum import IntEnum
from types import CoroutineType, GenericAlias
from typing import Any, Final, Generic, ParamSpec, TypeVar, TypeVarTuple, get_args, overload
from weakref import WeakKeyDictionary

from atops.base.errors import StepLimit
from atops.base.log_fields import get_logger
from atops.base.result_codes import Result
from atops.base.waiting.current_loop import checkpoint
from atops.bridge.declarations import Function
from atops.runtime.board.context import DeviceContext
from atops.runtime.board.current_device import current_ordinal, known_board
from atops.runtime.core.command_trace import call_record
from atops.runtime.core.completion import Completion
from atops.runtime.core.event import Event
from atops.runtime.device import Device
from atops.runtime.driver_board import Board
from atops.runtime.stream import Stream, queue_of

__all__ = (
    "BLOCKING_SYNC", "SCHEDULES", "SPIN", "Answer", "Bridge", "Codes", "Twins", "Wait", "Work", "drive", "spin",
    "spins", "step", "until",
)  # fmt: skip

T = TypeVar("T")
Waitable = Completion | Event | Stream | Device
Work = Coroutine[object, object, T]  # an implementation that may wait
SPIN: Final = 1  # among the flags of a device: waits for it poll; topsDeviceScheduleSpin
BLOCKING_SYNC: Final = 1  # among the flags of an event: waits for it sleep all the same; topsEventBlockingSync
SCHEDULES: WeakKeyDictionary[DeviceContext, int] = WeakKeyDictionary()  # what a device was set to, until a reset


class Wait:
    """One wait for a completion, an event, a stream or a device, in both forms; awaited it gives the wait's result."""

    __slots__ = ("thing",)

    def __init__(self, thing: Waitable) -> None:
        self.thing = thing

    def __await__(self) -> Generator[Wait, Any, Any]:
        return (yield self)

    def blocking(self) -> object:
        """Block until it is over, and return its result."""
        thing = self.thing
        if SCHEDULES:
            spin(thing)
        if isinstance(thing, Completion):
            return thing.wait_sync()
        thing.sync()
        return None

    async def awaiting(self) -> object:
        """Wait until it is over, and return its result."""
        return await (self.thing.wait() if isinstance(self.thing, Device) else self.thing)


def until(thing: Waitable) -> Wait:
    """Return the wait for a completion (its result), an event, all work of a stream or all work of a device.

    Raises, once awaited, what the work failed with, and WouldDeadlock where a blocking wait could never end.
    """
    return Wait(thing)


def spin(thing: Waitable) -> None:
    """Poll for as long as it takes where the device's flags ask for it (TOPS Runtime API, 2.2 topsSetDeviceFlags).

    Not for an event that was made to block the thread that waits for it (2.5 topsEventCreateWithFlags).
    """
    items: list[Completion]
    if isinstance(thing, Completion):
        items = [thing]
    elif isinstance(thing, Event):
        items = [] if thing.completion is None or thing.flags & BLOCKING_SYNC else [thing.completion]
    else:
        items = thing.outstanding() if isinstance(thing, Device) else queue_of(thing).outstanding()
    items = [item for item in items if spins(item.queue.context)]
    if items and not items[0].queue.board.inline:  # inline, only blocking makes progress
        items[0].queue.board.guard_blocking(items)
        for item in items:
            while not item.over:
                time.sleep(0)  # gives up the interpreter lock, not the processor


def drive(coroutine: Work[T] | Wait) -> T | None:
    """Run an implementation to its end in plain code, blocking where it waits; or do the wait that it left."""
    if isinstance(coroutine, Wait):
        coroutine.blocking()
        return None
    send = coroutine.send
    try:
        wait = send(None)
        while True:
            if not isinstance(wait, Wait):
                raise _stray(coroutine, wait)
            try:
                value = wait.blocking()
            except BaseException as error:
                wait = coroutine.throw(error)
            else:
                wait = send(value)
    except StopIteration as stop:
        result: T = stop.value
        return result


async def step(coroutine: Work[T] | Wait | T | None) -> T | None:
    """Run an implementation to its end on the caller's loop, awaiting where it waits; or do the wait that it left.

    A result that needs no wait is returned unchanged.
    """
    if isinstance(coroutine, Wait):
        await coroutine.awaiting()
        return None
    if not isinstance(coroutine, CoroutineType):
        return coroutine  # type: ignore[return-value]  # a result, not a coroutine
    try:
        wait = coroutine.send(None)
        while True:
            if not isinstance(wait, Wait):
                raise _stray(coroutine, wait)
            try:
                value = await wait.awaiting()
            except BaseException as error:  # a cancellation too: the implementation tidies up and lets it pass
                wait = coroutine.throw(error)
            else:
                wait = coroutine.send(value)
    except StopIteration as stop:
        result: T = stop.value
        return result


def _stray(coroutine: Work[object], wait: object) -> RuntimeError:
    """Close an implementation that awaits something else than a wait. Returns the error for it."""
    coroutine.close()
    return RuntimeError(f"an implementation may await until(...) only; {coroutine!r} awaits {wait!r}")


def spins(context: DeviceContext) -> bool:
    """Return whether waits for this device poll. Auto is Yield: they sleep."""
    return SCHEDULES.get(context) == SPIN


# ---- functions

P = ParamSpec("P")
C = TypeVar("C", bound=IntEnum)
Ts = TypeVarTuple("Ts")
Answer = tuple[object, ...]
Codes = Mapping[Result, Any]  # what to answer in place of the codes of errors
Translate = Callable[[BaseException, Function, Codes], Any]
Twins = dict[str, Callable[..., Work[Answer]]]  # the awaitable forms, by name

WAITING: Final = (CoroutineType, Wait)  # the results of an implementation that are waits


class Bridge(Generic[C]):
    """A decorator that makes a C-style function of the implementation of the same name.

    `name` is that of its log, `functions` declares those of its API, `translate` makes codes of errors, `remember`
    keeps the last error, and `twins` takes the awaitable forms.

    The implementation takes the function's arguments and returns its results: nothing, one value, or a tuple of as many
    as the table says; one without results may return a code, which is answered and not stored as the last error. When
    it raises, the call answers the exception's code, and None for each result.

    If the table says that the function may wait, it gets an awaitable twin. Its implementation is an `async def` that
    awaits `until(...)`; where nothing is left to do after the wait, a plain `def` that returns `until(...)`, or None
    when there is nothing to wait for.
    """

    def __init__(
        self, name: str, functions: Mapping[str, Function], twins: Twins, success: C, translate: Translate,
        remember: Callable[[C, str], object], instead: Codes,
    ) -> None:  # fmt: skip
        self._name = name
        self._log = get_logger(name)
        self._functions = functions
        self._twins = twins
        self._success = success
        self._translate = translate
        self._remember = remember
        self._instead = instead

    def instead(self, codes: Codes) -> Bridge[C]:
        """Return a bridge that answers other codes in place of those that errors have."""
        both = {**self._instead, **codes}
        return Bridge(self._name, self._functions, self._twins, self._success, self._translate, self._remember, both)

    # An implementation that returns nothing fits several of these; the first that fits counts.
    @overload
    def __call__(  # type: ignore[overload-overlap]  # the first counts
        self, implementation: Callable[P, Work[C | None]]
    ) -> Callable[P, tuple[C]]: ...
    @overload
    def __call__(
        self, implementation: Callable[P, Work[tuple[*Ts]]]
    ) -> Callable[P, tuple[C, *Ts]]: ...
    @overload
    def __call__(self, implementation: Callable[P, Work[T]]) -> Callable[P, tuple[C, T]]: ...
    @overload
    def __call__(  # type: ignore[overload-overlap]  # the first counts
        self, implementation: Callable[P, C | Wait | None]
    ) -> Callable[P, tuple[C]]: ...
    @overload
    def __call__(self, implementation: Callable[P, tuple[*Ts]]) -> Callable[P, tuple[C, *Ts]]: ...
    @overload
    def __call__(self, implementation: Callable[P, T]) -> Callable[P, tuple[C, T]]: ...
    def __call__(self, implementation: Callable[..., Any]) -> Callable[..., Answer]:
        """Return the C-style function, and enter its twin if it may wait."""
        function = self._functions[implementation.__name__]
        answer, fail = self._answers(function)
        _declare(implementation, type(self._success), function.outs)
        run = self._adapted(function, implementation)
        if not function.waits:
            return _make(function, implementation, run, answer, fail)

        async def twin(*arguments: object, **named: object) -> Answer:
            await checkpoint()  # before it does anything: what is cancelled here has not been done
            board = known_board()
            started = -1 if board is None else board.now() if board.tracer.active else None
            before = 0 if board is None else board.seq
            try:
                result = answer(await step(run(*arguments, **named)))
            except Exception as error:
                result = fail(error)
            if started is not None:
                _trace(board, function.name, started, result[0], before)
            return result

        self._twins[function.name] = functools.wraps(implementation)(twin)
        return _make(function, implementation, run, answer, fail, waits=True)

    def _adapted(self, function: Function, implementation: Callable[..., object]) -> Callable[..., object]:
        """Return what a call runs: the implementation, or what gives it the arguments in another form."""
        return implementation

    def _answers(self, function: Function) -> tuple[Callable[[Any], Answer], Callable[[Exception], Answer]]:
        """Return what makes the tuple that a call answers: from its result, and from its exception."""
        success, outs = self._success, function.outs
        nothing = (None,) * outs
        plain = (success,)

        def answer(outcome: Any) -> Answer:
            if outs == 1:
                return success, outcome
            if outs == 0:
                return plain if outcome is None else (outcome,)
            return success, *outcome

        def fail(error: Exception) -> Answer:
            if isinstance(error, StepLimit):
                raise error  # it ends the run, and is no answer of this call
            code = self._translate(error, function, self._instead)
            message = f"{function.name}: {error}"
            self._log.debug("%s: %s", code.name, message, extra={"function": function.name})
            self._remember(code, message)
            return code, *nothing

        return answer, fail


def _declare(implementation: Callable[..., object], code: type[IntEnum], outs: int) -> None:
    """Annotate the code in front of the results, for help() and inspect.signature(), which follow `__wrapped__`."""
    annotations = implementation.__annotations__
    told = annotations.get("return", "object")
    if not isinstance(told, str):  # the implementation is also that of another API's function, which has told
        annotations["return"] = GenericAlias(tuple, (code, *get_args(told)[1:]))
        return
    results = told if outs else ""
    if outs > 1:
        results = results.removeprefix("tuple[").removesuffix("]")
    # The modules of the functions have no import of the code's type, so it is passed to their annotations here.
    annotations["return"] = eval(f"tuple[_code, {results}]", implementation.__globals__, {"_code": code})


def _make(
    function: Function, implementation: Callable[..., Any], run: Callable[..., Any],
    answer: Callable[[Any], Answer], fail: Callable[[Exception], Answer], waits: bool = False,
) -> Callable[..., Answer]:
    """Return the plain form of a function, which calls `run`. `waits` tells that this may return a wait to be done."""
    name = function.name

    @functools.wraps(implementation)
    def function_(*arguments: object, **named: object) -> Answer:
        started: int | None = -1
        before = 0
        if (board := known_board()) is not None:
            started, before = board.now() if board.tracer.active else None, board.seq
        try:
            outcome = run(*arguments, **named) if named else run(*arguments)
            if waits and outcome is not None and type(outcome) in WAITING:
                outcome = drive(outcome)
            result = answer(outcome)
        except Exception as error:
            result = fail(error)
        if started is not None:
            _trace(board, name, started, result[0], before)
        return result

    return function_


def _trace(board: Board | None, name: str, started: int, code: object, before: int) -> None:
    """Emit the record of a call; the first call of a program is traced by the driver that the call started."""
    if board is None:
        board = known_board()
        if board is None or not board.tracer.active:
            return
        started = board.now()
    tracer = board.tracer
    failed = code != 0 and code != Result.NotReady
    newest = board.seq if board.seq > before else -1
    device, number = current_ordinal(board.serial), tracer.intern(name)
    tracer.emit(call_record(device, started, board.now(), failed, number, newest))
    if tracer.subscriptions:
        board.tell_subscribers()
