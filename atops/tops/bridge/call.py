"""The bridge between exceptions and codes: what makes a C-style function, and its awaitable twin, of an implementation.

It turns exceptions into codes, keeps the last error of each context and traces the call. It knows no family.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Coroutine, Mapping
from enum import IntEnum
from types import CoroutineType
from typing import Any, Final, Generic, ParamSpec, TypeVar, TypeVarTuple, overload

from atops.base.result_codes import Result
from atops.runtime.board.current_device import current_ordinal
from atops.runtime.current_driver import DEFAULT
from atops.runtime.driver import CURRENT, Driver
from atops.runtime.queues.trace_record import call_record
from atops.tops.bridge.codes import code_of, rtc_code_of
from atops.tops.bridge.last_error import remember, remember_rtc
from atops.tops.bridge.waiting import Wait, drive, step
from atops.tops.tables.all_functions import FUNCTIONS
from atops.tops.tables.function import Function
from atops.tops.types.error_codes import topsError_t, topsrtcResult

__all__ = ("TWINS", "Bridge", "call", "rtc_call")

P = ParamSpec("P")
C = TypeVar("C", bound=IntEnum)
T = TypeVar("T")
Ts = TypeVarTuple("Ts")
Answer = tuple[Any, ...]
Translate = Callable[[BaseException, Function, Mapping[Result, Any]], Any]

log = logging.getLogger("atops.tops")
TWINS: Final[dict[str, Callable[..., Coroutine[Any, Any, Answer]]]] = {}  # the awaitable forms, by name
NOT_READY: Final = topsError_t.topsErrorNotReady
WAITING: Final = (CoroutineType, Wait)  # what an implementation that may wait returns when it does


class Bridge(Generic[C]):
    """Makes a C-style function of an implementation that bears its name: a decorator.

    The implementation takes the function's arguments and returns its results: nothing, one value, or a tuple of as many
    as the table says; one without results may return a code, which is answered as it is and never stored. It raises
    what it likes: the caller gets the code, and None for each result. One that the table says may wait gets an
    awaitable twin: it is an `async def` that awaits `until(...)`, or, where nothing is left to do after the wait, a
    plain `def` that returns `until(...)`, or None if it need not wait.
    """

    def __init__(self, success: C, translate: Translate, instead: Mapping[Result, Any]) -> None:
        self._success = success
        self._translate = translate
        self._instead = instead

    def instead(self, codes: Mapping[Result, Any]) -> Bridge[C]:
        """Return a bridge that answers these codes in place of those that its errors have."""
        return Bridge(self._success, self._translate, {**self._instead, **codes})

    # What returns nothing is in C's type a case of what returns anything; the first that fits is meant.
    @overload
    def __call__(  # type: ignore[overload-overlap]  # as said above
        self, implementation: Callable[P, Coroutine[Any, Any, C | None]]
    ) -> Callable[P, tuple[C]]: ...
    @overload
    def __call__(
        self, implementation: Callable[P, Coroutine[Any, Any, tuple[*Ts]]]
    ) -> Callable[P, tuple[C, *Ts]]: ...
    @overload
    def __call__(self, implementation: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, tuple[C, T]]: ...
    @overload
    def __call__(  # type: ignore[overload-overlap]  # as said above
        self, implementation: Callable[P, C | Wait | None]
    ) -> Callable[P, tuple[C]]: ...
    @overload
    def __call__(self, implementation: Callable[P, tuple[*Ts]]) -> Callable[P, tuple[C, *Ts]]: ...
    @overload
    def __call__(self, implementation: Callable[P, T]) -> Callable[P, tuple[C, T]]: ...
    def __call__(self, implementation: Callable[..., Any]) -> Callable[..., Answer]:
        """Return the C-style function, and enter its twin if it may wait."""
        function = FUNCTIONS[implementation.__name__]
        answer, fail = self._answers(function)
        _declare(implementation, type(self._success), function.outs)
        if not function.waits:
            return _make(function, implementation, answer, fail)

        async def twin(*arguments: Any, **named: Any) -> Answer:
            driver = CURRENT.get() or (DEFAULT[0] if DEFAULT else None)
            started = -1 if driver is None else driver.now() if driver.tracer.active else None
            try:
                result = answer(await step(implementation(*arguments, **named)))
            except Exception as error:
                result = fail(error)
            if started is not None:
                _trace(driver, function.name, started, result[0])
            return result

        TWINS[function.name] = functools.wraps(implementation)(twin)
        return _make(function, implementation, answer, fail, waits=True)

    def _answers(self, function: Function) -> tuple[Callable[[Any], Answer], Callable[[Exception], Answer]]:
        """Return what makes the tuple of a call that went well, and of one that failed."""
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
            code = self._translate(error, function, self._instead)
            message = f"{function.name}: {error}"
            log.debug("%s: %s", code.name, message)
            if isinstance(code, topsrtcResult):
                remember_rtc(code, message)
            elif code is not NOT_READY:
                remember(code, message)
            return code, *nothing

        return answer, fail


def _declare(implementation: Callable[..., Any], code: type[IntEnum], outs: int) -> None:
    """Let what help() and inspect.signature() find by `__wrapped__` tell what a call returns: the code comes first."""
    annotations = implementation.__annotations__
    results = annotations.get("return", "Any") if outs else ""
    if outs > 1:
        results = results.removeprefix("tuple[").removesuffix("]")
    # The modules of the functions need not know the code's name: it is in the type, and no text.
    annotations["return"] = eval(f"tuple[_code, {results}]", implementation.__globals__, {"_code": code})


def _make(
    function: Function, implementation: Callable[..., Any], answer: Callable[[Any], Answer],
    fail: Callable[[Exception], Answer], waits: bool = False,
) -> Callable[..., Answer]:
    """Return the plain form of a function: one call, one tuple, one record. `waits`: it may leave a wait to be done."""
    name = function.name

    @functools.wraps(implementation)
    def function_(*arguments: Any, **named: Any) -> Answer:
        driver = CURRENT.get() or (DEFAULT[0] if DEFAULT else None)
        started = -1 if driver is None else driver.now() if driver.tracer.active else None
        try:
            outcome = implementation(*arguments, **named) if named else implementation(*arguments)
            if waits and type(outcome) in WAITING:
                outcome = drive(outcome)
            result = answer(outcome)
        except Exception as error:
            result = fail(error)
        if started is not None:
            _trace(driver, name, started, result[0])
        return result

    return function_


def _trace(driver: Driver | None, name: str, started: int, code: int) -> None:
    """Emit the record of a call; the first call of a program is traced by the driver that it started."""
    if driver is None:
        driver = CURRENT.get() or (DEFAULT[0] if DEFAULT else None)
        if driver is None or not driver.tracer.active:
            return
        started = driver.now()
    tracer = driver.tracer
    failed = bool(code) and code != 600
    tracer.emit(call_record(current_ordinal(driver.serial), started, driver.now(), failed, tracer.intern(name)))
    if tracer.pending:
        driver.tell_subscribers()


call: Final[Bridge[topsError_t]] = Bridge(topsError_t.topsSuccess, code_of, {})
rtc_call: Final[Bridge[topsrtcResult]] = Bridge(topsrtcResult.TOPSRTC_SUCCESS, rtc_code_of, {})
