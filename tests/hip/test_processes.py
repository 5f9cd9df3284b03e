"""Memory and events of other processes: HIP's structs around the handles of TOPS, whose tests have the semantics."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from atops.base.result_codes import Result
from atops.hip import hip
from tests.tops.conformance import Case, Conformance, World, new_world
from tests.tops.functions import test_ipc as ipc

E = hip.hipError_t
SHARED = hip.hipEventInterprocess | hip.hipEventDisableTiming

other, lender, nothing_lent = ipc.other, ipc.lender, ipc.nothing_lent  # fixtures: the process that lends


def memory_handle(changed: int | None = None) -> hip.hipIpcMemHandle_t:
    """Return the other process's handle, perhaps with one byte changed."""
    return hip.hipIpcMemHandle_t(ipc.memory_handle(changed).reserved)


def event_handle(changed: int | None = None) -> hip.hipIpcEventHandle_t:
    """As `memory_handle`, of an event."""
    return hip.hipIpcEventHandle_t(ipc.event_handle(changed).reserved)


def own(world: Any) -> tuple[Any, ...]:
    """Return the handle of memory of this very process."""
    made = hip.hipIpcMemHandle_t()
    hip.check(hip.hipIpcGetMemHandle(made, ipc.malloc()))
    return made, 0


def own_event(world: Any) -> tuple[Any, ...]:
    """Return the handle of an event of this very process."""
    made = hip.hipIpcEventHandle_t()
    hip.check(hip.hipIpcGetEventHandle(made, hip.check(hip.hipEventCreateWithFlags(SHARED))))
    return (made,)


STARVED = "no descriptor is left: tests of TOPS functions, of which these are made, take them away"


def test_handles_are_made_or_filled_in(world: World) -> None:
    """The caller's struct is filled in, as in C; without it a new one is returned, as hip-python does."""
    memory, event = ipc.malloc(), hip.check(hip.hipEventCreateWithFlags(SHARED))
    for get, kind, thing in (
        (hip.hipIpcGetMemHandle, hip.hipIpcMemHandle_t, memory),
        (hip.hipIpcGetEventHandle, hip.hipIpcEventHandle_t, event),
    ):
        into = kind()
        assert get(into, thing) == (E.hipSuccess,)
        assert get(thing) == (E.hipSuccess, into)
        assert get(5) == (E.hipErrorInvalidHandle, None)
        assert get(into) == get() == (E.hipErrorInvalidValue,)
    assert hip.hipIpcGetMemHandle(devPtr=memory) == (E.hipSuccess, hip.check(hip.hipIpcGetMemHandle(memory)))


class TestProcesses(Conformance):
    """Every function between processes by its rows."""

    def after_row(self) -> None:
        """End every loan to the other process."""
        ipc.give_back(ipc.OTHERS[0])

    good: ClassVar = {
        "hipIpcGetMemHandle": lambda w: (hip.hipIpcMemHandle_t(), ipc.malloc()),
        "hipIpcOpenMemHandle": lambda w: (memory_handle(), hip.hipIpcMemLazyEnablePeerAccess),
        "hipIpcCloseMemHandle": lambda w: tuple(hip.hipIpcOpenMemHandle(memory_handle(), 0)[1:]),
        "hipIpcGetEventHandle": lambda w: (
            hip.hipIpcEventHandle_t(), hip.check(hip.hipEventCreateWithFlags(SHARED)),
        ),
        "hipIpcOpenEventHandle": lambda w: (event_handle(),),
    }  # fmt: skip
    bad: ClassVar = (
        Case("hipIpcGetMemHandle", "interior", lambda w: (hip.hipIpcMemHandle_t(), ipc.malloc() + 1),
             E.hipErrorInvalidHandle),
        Case("hipIpcGetMemHandle", "no struct", lambda w: (None, ipc.malloc()), E.hipErrorInvalidValue),
        Case("hipIpcOpenMemHandle", "forged", lambda w: (memory_handle(32), 0), E.hipErrorInvalidHandle),
        Case("hipIpcOpenMemHandle", "flags", lambda w: (memory_handle(), 2), E.hipErrorInvalidValue),
        Case("hipIpcOpenMemHandle", "its own", own, E.hipErrorInvalidContext),
        Case("hipIpcCloseMemHandle", "its own", lambda w: (ipc.malloc(),), E.hipErrorInvalidHandle),
        Case("hipIpcGetEventHandle", "a plain event", lambda w: (hip.hipIpcEventHandle_t(), hip.hipEventCreate()[1]),
             E.hipErrorInvalidConfiguration),
        Case("hipIpcGetEventHandle", "no struct", (None, None), E.hipErrorInvalidValue),
        Case("hipIpcGetEventHandle", "dead", (hip.hipIpcEventHandle_t(), 1 << 50), E.hipErrorInvalidHandle),
        Case("hipIpcOpenEventHandle", "forged", lambda w: (event_handle(32),), E.hipErrorInvalidValue),
        Case("hipIpcOpenEventHandle", "its own", own_event, E.hipErrorInvalidContext),
    )  # fmt: skip
    unreachable: ClassVar = {
        ("hipIpcGetMemHandle", Result.OutOfMemory): STARVED,
        ("hipIpcGetEventHandle", Result.OutOfMemory): STARVED,
        ("hipIpcOpenMemHandle", Result.MapFailed): "another board: tests of TOPS functions have one",
    }


def test_memory_that_another_process_has_filled(world: Any, other: Any) -> None:
    """Is read here, and what is stored here is read there."""
    pointer = other.do("malloc", size=64)[1]
    other.do("write", pointer=pointer, value=7, size=64)
    handle = hip.hipIpcMemHandle_t(bytes.fromhex(other.do("export", pointer=pointer)))
    mine = hip.check(hip.hipIpcOpenMemHandle(handle, hip.hipIpcMemLazyEnablePeerAccess))
    host = bytearray(64)
    hip.check(hip.hipMemcpy(host, mine, 64, hip.hipMemcpyKind.hipMemcpyDeviceToHost))
    assert host == bytes([7] * 64)
    hip.check(hip.hipMemset(mine, 9, 64))
    hip.check(hip.hipDeviceSynchronize())
    assert other.do("read", pointer=pointer, size=64) == [9] * 64
    hip.check(hip.hipIpcCloseMemHandle(mine))


@pytest.fixture
def world() -> Any:
    """A board of two devices."""
    with new_world() as made:
        yield made
