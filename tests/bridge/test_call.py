"""The bridge between exceptions and codes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextvars import Context

import pytest

import atops.tops as tops
from atops.base import errors
from atops.base.result_codes import Result
from atops.base.trace.records import Kind, Status
from atops.bridge.call import until
from atops.bridge.codes import CodeError
from atops.runtime.board.current_device import DEFAULT
from atops.tops.functions.api import TWINS, call, last, rtc_call
from tests.every import every
from tests.runtime.boards import Latch

FAULT = errors.PriorLaunchFailure("skipped")
FAULT.__cause__ = errors.IllegalAddress("out of bounds")
RAISED = [
    (errors.InvalidValue("x"), tops.topsErrorInvalidValue),
    (errors.InvalidType("x"), tops.topsErrorInvalidValue),
    (TypeError("x"), tops.topsErrorInvalidValue),
    (ValueError("x"), tops.topsErrorInvalidValue),
    (OverflowError("x"), tops.topsErrorInvalidValue),
    (MemoryError(), tops.topsErrorOutOfMemory),
    (errors.InvalidHandle("x"), tops.topsErrorInvalidHandle),
    (errors.InvalidDevice("x"), tops.topsErrorInvalidValue),  # its entry does not list InvalidDevice
    (errors.InvalidConfiguration("x"), tops.topsErrorInvalidValue),
    (CodeError(Result.InvalidDevicePointer, "x"), tops.topsErrorInvalidValue),
    (CodeError(Result.NoDevice, "x"), tops.topsErrorNoDevice),
    (CodeError(Result.MapFailed, "x"), tops.topsErrorMapFailed),
    (errors.WouldDeadlock("x"), tops.topsErrorIllegalState),
    (errors.StreamAborted("x"), tops.topsErrorContextIsDestroyed),
    (FAULT, tops.topsErrorIllegalAddress),
    (errors.PriorLaunchFailure("x"), tops.topsErrorPriorLaunchFailure),
]


@pytest.fixture(autouse=True)
def twins(world) -> Iterator[None]:
    """Leave the registry of twins as it was."""
    kept = TWINS.copy()
    yield
    TWINS.clear()
    TWINS.update(kept)


def raising(error: BaseException, bridge=call):
    """Return topsModuleGetGlobal, which has two results, with an implementation that raises."""

    @bridge
    def topsModuleGetGlobal(hmod: int, name: str) -> tuple[int, int]:
        """Raise."""
        raise error

    return topsModuleGetGlobal


@every("error, code", RAISED, ids=[f"{type(e).__name__}-{c.name}" for e, c in RAISED])
def test_exceptions_become_codes(error, code):
    """Each exception has one code; every result is None; the failure is stored with its words."""
    assert raising(error)(1, "x") == (code, None, None)
    assert last().code is code
    assert last().message == f"topsModuleGetGlobal: {error}"


def test_not_ready_is_never_stored():
    """NotReady is an answer: it neither becomes the last error nor resets it."""
    assert raising(errors.NotReady("x"))(1, "x") == (tops.topsErrorNotReady, None, None)
    assert last() is None
    raising(errors.InvalidHandle("x"))(1, "x")
    raising(errors.NotReady("x"))(1, "x")
    assert tops.topsPeekAtLastError() == (tops.topsErrorInvalidHandle,)


def test_an_unknown_exception_is_logged(caplog):
    """An unexpected exception is Unknown, with its traceback in the log."""
    with caplog.at_level(logging.ERROR, "atops.tops"):
        assert raising(RuntimeError("a mistake"))(1, "x") == (tops.topsErrorUnknown, None, None)
    assert "topsModuleGetGlobal" in caplog.text
    assert "RuntimeError: a mistake" in caplog.text


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(), asyncio.CancelledError()])
def test_what_ends_a_program_goes_through(error):
    """Ctrl-C, an exit and a cancellation are no codes."""
    with pytest.raises(type(error)):
        raising(error)(1, "x")


def test_a_function_may_answer_another_code():
    """An override wins over the table, and a code mapped to itself is kept."""
    bridge = call.instead({Result.InvalidHandle: Result.InvalidValue, Result.InvalidDevice: Result.InvalidDevice})
    assert raising(errors.InvalidHandle("x"), bridge)(1, "x")[0] is tops.topsErrorInvalidValue
    assert raising(errors.InvalidDevice("x"), bridge)(1, "x")[0] is tops.topsErrorInvalidDevice
    assert raising(errors.InvalidHandle("x"))(1, "x")[0] is tops.topsErrorInvalidHandle


def test_answers():
    """No result, a code of its own, one result, and several."""

    @call
    def topsInit(flags: int) -> tops.topsError_t | None:
        """Answer NotReady for 600."""
        return tops.topsErrorNotReady if flags == 600 else None

    @call
    def topsGetDevice() -> tuple[int, int]:
        """Return one result that is a tuple."""
        return (1, 2)

    assert topsInit(0) == (tops.topsSuccess,)
    assert topsInit(flags=600) == (tops.topsErrorNotReady,)
    assert topsInit() == topsInit(1, 2) == topsInit(flag=1) == (tops.topsErrorInvalidValue,)
    assert topsGetDevice() == (tops.topsSuccess, (1, 2))


def test_runtime_compilation_has_its_own_codes():
    """rtc_call answers members of topsrtcResult and stores no last error."""

    def answer(error: BaseException, bridge=rtc_call) -> tops.topsrtcResult:
        @bridge
        def topsrtcGetCodeSize(program: int) -> int:
            """Raise."""
            raise error

        code, size = topsrtcGetCodeSize(1)
        assert size is None
        return code

    assert answer(errors.InvalidHandle("x")) is tops.TOPSRTC_ERROR_INVALID_PROGRAM
    assert answer(errors.CompilationError("x")) is tops.TOPSRTC_ERROR_COMPILATION
    assert answer(errors.InvalidOption("x")) is tops.TOPSRTC_ERROR_INVALID_OPTION
    assert answer(TypeError("x")) is tops.TOPSRTC_ERROR_INVALID_INPUT
    assert answer(errors.NotSupported("x")) is tops.TOPSRTC_ERROR_INTERNAL_ERROR
    bridge = rtc_call.instead({Result.NotFound: tops.TOPSRTC_ERROR_INVALID_INPUT})
    assert answer(errors.NotFound("x")) is tops.TOPSRTC_ERROR_NAME_EXPRESSION_NOT_VALID
    assert answer(errors.NotFound("x"), bridge) is tops.TOPSRTC_ERROR_INVALID_INPUT
    assert last() is None


def test_an_implementation_that_awaits_by_itself(caplog):
    """An implementation that awaits anything but `until` is a mistake: Unknown, closed, and named in the log."""
    closed = []

    @call
    async def topsDeviceSynchronize() -> None:
        """Await what only a loop could give."""
        try:
            await asyncio.sleep(0)
        finally:
            closed.append(True)

    assert topsDeviceSynchronize() == (tops.topsErrorUnknown,)
    assert closed == [True]
    assert "an implementation may await until(...) only" in caplog.text


def test_errors_of_a_wait_reach_the_implementation(world):
    """What a wait raises can be handled where it stands, in both forms; what follows it still runs."""
    stream = world.device.create_stream()
    latch = Latch(world.device)

    item = latch.hold(stream)
    stream.abort()

    @call
    async def topsStreamSynchronize(stream: int) -> tops.topsError_t | None:
        """Answer NotReady where the work was dropped."""
        try:
            await until(item)
        except errors.StreamAborted:
            return tops.topsErrorNotReady
        return None

    assert topsStreamSynchronize(0) == (tops.topsErrorNotReady,)
    assert asyncio.run(TWINS["topsStreamSynchronize"](0)) == (tops.topsErrorNotReady,)


def test_one_record_a_call(world):
    """With tracing on each call leaves one record with its name, device and outcome; off, none."""
    tops.topsSetDevice(1)
    tops.topsSetDevice(7)
    asyncio.run(tops.aio.topsDeviceSynchronize())
    records = world.driver.tracer.records()
    assert [(each.kind, each.name, each.device, each.status) for each in records] == [
        (Kind.API, "topsSetDevice", 1, Status.DONE),
        (Kind.API, "topsSetDevice", 1, Status.FAILED),
        (Kind.API, "topsDeviceSynchronize", 1, Status.DONE),
    ]
    assert all(each.submitted_ns <= each.started_ns <= each.finished_ns for each in records)
    world.driver.tracer.resize(0)
    tops.topsGetDevice()
    assert world.driver.tracer.records() == []


def test_a_call_tells_the_newest_command_that_it_enqueued(world):
    """By its seq; one that enqueues none says -1."""
    stream, memory = tops.topsStreamCreate()[1], tops.topsMalloc(64)[1]
    tops.topsMemsetAsync(memory, 1, 64, stream)
    tops.topsStreamSynchronize(stream)
    records = world.driver.tracer.records()
    calls = {record.name: record.correlation for record in records if record.kind is Kind.API}
    fill = next(record.seq for record in records if record.kind is Kind.FILL)
    assert calls["topsMemsetAsync"] == fill and calls["topsStreamSynchronize"] == -1


def test_asking_for_a_name_starts_no_driver():
    """A call that needs no board makes none."""
    kept = DEFAULT.copy()
    DEFAULT.clear()
    try:
        named = Context().run(tops.topsGetErrorName, 1)  # where no board is current
        assert named == (tops.topsSuccess, "topsErrorInvalidValue") and DEFAULT == []
    finally:
        DEFAULT[:] = kept
