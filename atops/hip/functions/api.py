"""HIP as one API of `atops.bridge`: the decorator `call`, `derived` functions, its codes, its last error, its twins."""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import IntEnum
from functools import wraps
from inspect import unwrap
from types import FunctionType
from typing import Any, Final, ParamSpec, TypeVar, TypeVarTuple, cast, overload

import numpy as np

from atops.base.result_codes import Result, explain
from atops.bridge.call import Answer, Bridge, Codes, Twins
from atops.bridge.codes import CodeTable
from atops.bridge.declarations import Function
from atops.bridge.last_error import LastErrors
from atops.bridge.pointers import pointed
from atops.hip.header.enumerations import hipMemcpyKind
from atops.hip.header.error_codes import hipError_t
from atops.hip.header.functions import FUNCTIONS
from atops.hip.header.pointers import DeviceArray, Pointer

__all__ = ("CODES", "TWINS", "call", "derived", "forget", "in_hip", "last", "made_or_given")

NAME: Final = "atops.hip"  # of its log
ERRORS: Final[LastErrors[hipError_t]] = LastErrors("atops_hip")
last, forget = ERRORS.last, ERRORS.forget
TOPS_NAME: Final = re.compile(r"\btops(?=[A-Z]|rtc)")


def in_hip(text: str) -> str:
    """Return a text about TOPS with HIP's names."""
    return TOPS_NAME.sub("hip", text)


def _remember(code: hipError_t, message: str) -> None:
    """Store a failure for this context. NotReady is none."""
    if code is not hipError_t.hipErrorNotReady:
        ERRORS.remember(code, in_hip(message))


def _reason(code: hipError_t) -> str | None:
    """Return the message of the last failure of this context if it had this code, else what the code means."""
    stored = last()
    if stored is not None and stored.code is code:
        return stored.message
    return next((explain(result) for result, each in _SAME.items() if each is code), None)


_SAME: Final = {Result(int(code)): code for code in hipError_t if int(code) in Result.__members__.values()}
CODES: Final = CodeTable(NAME, hipError_t, _SAME, hipError_t.hipErrorUnknown, _reason)
TWINS: Final[Twins] = {}


class _HipBridge(Bridge[hipError_t]):
    """A bridge whose functions return a handle or a pointer as a `Pointer`, and take it in each form of hip-python."""

    def instead(self, codes: Codes) -> Bridge[hipError_t]:
        """Return a bridge that answers other codes in place of those that errors have."""
        return _HipBridge(NAME, FUNCTIONS, TWINS, hipError_t.hipSuccess, CODES.code_of, _remember, codes)

    def _adapted(self, function: Function, implementation: Callable[..., object]) -> Callable[..., object]:
        """Return what gives the implementation an address where a pointer or a handle came in another form."""
        names = [each.name for each in function.parameters]
        pointers = {each.name for each in function.parameters if TAKEN.fullmatch(each.type) and each.name != USER_DATA}
        if not pointers:
            return implementation

        def adapted(*arguments: object, **named: object) -> object:
            if not PLAIN.issuperset(map(type, arguments)):
                pairs = zip(names, arguments, strict=False)
                first = [pointed(value) if name in pointers else value for name, value in pairs]
                arguments = (*first, *arguments[len(first) :])
            for name in pointers.intersection(named) if named else ():
                named[name] = pointed(named[name])
            return implementation(*arguments, **named)

        return adapted

    def _answers(self, function: Function) -> tuple[Callable[[Any], Answer], Callable[[Exception], Answer]]:
        answer, fail = super()._answers(function)
        if len(function.results) != 1 or not POINTS.fullmatch(function.results[0].type):
            return answer, fail
        success = hipError_t.hipSuccess

        def pointer(outcome: object) -> Answer:
            return success, Pointer(outcome) if type(outcome) is int else outcome

        return pointer, fail


USER_DATA: Final = "userData"  # which a callback gets as it is
PLAIN: Final = frozenset((int, type(None), Pointer, DeviceArray, np.ndarray, hipMemcpyKind))  # most arguments'
TAKEN: Final = re.compile(r"(const )?void \*|hipDeviceptr_t|hip(Stream|Event|MemPool|Module|Function)_t")
POINTS: Final = re.compile(r"void \*\*|hipDeviceptr_t \*|hip(Stream|Event|MemPool|Module|Function)_t \*")
call: Final = _HipBridge(NAME, FUNCTIONS, TWINS, hipError_t.hipSuccess, CODES.code_of, _remember, {})

P = ParamSpec("P")
Ts = TypeVarTuple("Ts")
Code = TypeVar("Code", bound=IntEnum)
Given = TypeVar("Given")


def made_or_given(kind: type[Any]) -> Callable[[Callable[..., Given]], Callable[..., Given | Answer]]:
    """Let a call that fills in a struct, its first argument, be made without it, too: then it returns a new one.

    C fills in the caller's; hip-python makes one, and returns it behind the code.
    """

    def decorate(function: Callable[..., Given]) -> Callable[..., Given | Answer]:
        @wraps(function)
        def either(*arguments: object, **named: object) -> Given | Answer:
            if len(arguments) + len(named) != 1 or isinstance((*arguments, *named.values())[0], kind):
                return function(*arguments, **named)
            made = kind()
            (code,) = cast("tuple[hipError_t]", function(made, *arguments, **named))
            return code, None if code else made

        return either

    return decorate


@overload
def derived(function: Callable[P, tuple[IntEnum, *Ts]]) -> Callable[P, tuple[hipError_t, *Ts]]: ...
@overload
def derived(function: Callable[P, tuple[IntEnum, *Ts]], bridge: Bridge[Code]) -> Callable[P, tuple[Code, *Ts]]: ...
def derived(function: Callable[P, tuple[IntEnum, *Ts]], bridge: Bridge[Any] = call) -> Callable[P, tuple[Any, *Ts]]:
    """Return HIP's function of the same name, parameters and behaviour as one of TOPS, of the same implementation."""
    plain = unwrap(function)
    assert isinstance(plain, FunctionType)
    name = "hip" + plain.__name__.removeprefix("tops")
    made = FunctionType(plain.__code__, plain.__globals__, name, plain.__defaults__, plain.__closure__)
    made.__kwdefaults__, made.__qualname__, made.__doc__ = plain.__kwdefaults__, name, in_hip(plain.__doc__ or "")
    made.__annotations__ = dict(plain.__annotations__)
    bridged: Any = bridge
    result: Callable[P, tuple[Any, *Ts]] = bridged(made)
    return result
