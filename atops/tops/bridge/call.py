"""Make a C-style function, and its awaitable twin, of an implementation: the decorators `call` and `rtc_call`.

A call turns exceptions into codes, keeps the last error of each context and leaves a trace record.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Mapping
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
from atops.tops.bridge.waiting import Wait, Work, drive, step
from atops.tops.tables.all_functions import FUNCTIONS
from atops.tops.tables.function import Function
from atops.tops.types.error_codes import topsError_t, topsrtcResult

__all__ = ("TWINS", "Bridge", "call", "rtc_call")

P = ParamSpec("P")
C = TypeVar("C", bound=IntEnum)
T = TypeVar("T")
Ts = TypeVarTuple("Ts")
Answer = tuple[object, ...]
Codes = Mapping[Result, Any]  # what to answer in place of the codes of errors
Translate = Callable[[BaseException, Function, Codes], Any]

log = logging.getLogger("atops.tops")
TWINS: Final[dict[str, Callable[..., Work[Answer]]]] = {}  # the awaitable forms, by name
NOT_READY: Final = topsError_t.topsErrorNotReady
WAITING: Final = (CoroutineType, Wait)  # the results of an implementation that are waits


class Bridge(Generic[C]):
    """A decorator that makes a C-style function of the implementation of the same name.

    The implementation takes the function's arguments and returns its results: nothing, one value, or a tuple of as many
    as the table says; one without results may return a code, which is answered and not stored as the last error. When
    it raises, the call answers the exception's code, and None for each result.

    If the table says that the function may wait, it gets an awaitable twin. Its implementation is an `async def` that
    awaits `until(...)`; where nothing is left to do after the wait, a plain `def` that returns `until(...)`, or None
    when there is nothing to wait for.
    """

    def __init__(self, success: C, translate: Translate, instead: Codes) -> None:
        self._success = success
        self._translate = translate
        self._instead = instead

    def instead(self, codes: Codes) -> Bridge[C]:
        """Return a bridge that answers other codes in place of those that errors have."""
        return Bridge(self._success, self._translate, {**self._instead, **codes})

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
        function = FUNCTIONS[implementation.__name__]
        answer, fail = self._answers(function)
        _declare(implementation, type(self._success), function.outs)
        if not function.waits:
            return _make(function, implementation, answer, fail)

        async def twin(*arguments: object, **named: object) -> Answer:
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
    """Annotate the code in front of the results, for help() and inspect.signature(), which follow `__wrapped__`."""
    annotations = implementation.__annotations__
    results = annotations.get("return", "object") if outs else ""
    if outs > 1:
        results = results.removeprefix("tuple[").removesuffix("]")
    # The modules of the functions have no import of the code's type, so it is passed to their annotations here.
    annotations["return"] = eval(f"tuple[_code, {results}]", implementation.__globals__, {"_code": code})


def _make(
    function: Function, implementation: Callable[..., Any], answer: Callable[[Any], Answer],
    fail: Callable[[Exception], Answer], waits: bool = False,
) -> Callable[..., Answer]:
    """Return the plain form of a function. `waits` tells that the implementation may return a wait to be done."""
    name = function.name

    @functools.wraps(implementation)
    def function_(*arguments: object, **named: object) -> Answer:
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


def _trace(driver: Driver | None, name: str, started: int, code: object) -> None:
    """Emit the record of a call; the first call of a program is traced by the driver that the call started."""
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
