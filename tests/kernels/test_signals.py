"""Kernel signals as kernels write them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import atops
from atops import kernels as k
from atops.base.errors import IllegalState, InvalidType, InvalidValue, LaunchFailure, MissingAwait
from atops.device.memory.value_wait import Condition
from atops.kernels.sync import signal_add, signal_read, signal_wait, signal_write
from tests.every import every
from tests.kernel_bench import Bench


def test_values_wrap(bench: Bench):
    """Reading, writing and adding are modulo 2**32; numpy's integers are taken; the host sees the same signals."""
    seen: list[int] = []

    @k.kernel
    def use(handle: np.int32):
        seen.append(signal_read(handle))
        signal_write(handle, np.int8(-1))
        seen.append(signal_add(handle))
        seen.append(signal_add(handle, np.uint64(5)))
        seen.append(signal_read(handle))

    bench.chip.signals.set(7, 40)
    bench.launch(use, (1, 1), 7)
    assert seen == [40, 0xFFFFFFFF, 0, 5]
    assert bench.chip.signals.read(7) == 5


@pytest.mark.parametrize("workers", [1, "sip"])
def test_threads_hand_over(make_bench: Callable[..., Bench], workers: int | str):
    """A consumer waits for each value of a producer in another block, and the producer for its answer."""
    bench = make_bench(workers=workers)
    order: list[str] = []

    @k.kernel
    async def hand_over(data, answer):
        for turn in range(1, 4):
            if k.blockIdx.x == 0:
                order.append(f"produce {turn}")
                signal_write(data, turn)
                await signal_wait(answer, turn)
            else:
                await signal_wait(data, turn)
                order.append(f"consume {turn}")
                signal_add(answer)

    bench.launch(hand_over, (2, 1), 0, 1)
    assert order == [f"{what} {turn}" for turn in range(1, 4) for what in ("produce", "consume")]


@every(
    "condition, before, value, after",
    [("gte", 2, 3, 3), ("gte", 0xFFFFFFF0, 5, 6), ("eq", 3, 2, 2), ("and", 3, 4, 6), ("nor", -1, 0x0000FFFF, 5),
     ("Gte", 2, 3, 3), ("EQ", 3, 2, 2), (Condition.And, 3, 4, 6), (Condition.Eq, 3, 2, 2),
     ("GteUnsigned", 4, 5, 0xFFFFFFF0), (Condition.GteUnsigned, 4, 5, 6)],
)  # fmt: skip
def test_conditions(bench: Bench, condition: Condition | str, before: int, value: int, after: int):
    """Each compares as the runtime's value waits do; "gte" counts around. Once met, a wait does not suspend."""
    bench.chip.signals.set(3, before)
    released: list[str] = []

    @k.kernel
    async def waits(value, after):
        if k.threadIdx.x == 0:
            await signal_wait(3, value, condition)
            released.append("woken")
            await signal_wait(3, value, condition)
            released.append("at once")
        else:
            assert not released
            signal_write(3, after)

    bench.launch(waits, (1, 2), value, after)
    assert released == ["woken", "at once"]


def test_a_wait_is_awaited(bench: Bench):
    """One that is forgotten is named with its line."""

    @k.kernel
    async def forgets():
        signal_wait(0, 1)

    line = forgets.function.__code__.co_firstlineno + 2
    with pytest.raises(MissingAwait, match=rf"signal 0 for gte 1 \(now 0\) at .*test_signals.py:{line}"):
        bench.launch(forgets, (1, 1))


WRONG: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "no such signal": (lambda: signal_read(64), InvalidValue, "kernel signal is 64; this chip has 0 to 63"),
    "a negative one": (lambda: signal_wait(-1, 0), InvalidValue, "kernel signal is -1"),
    "no handle": (lambda: signal_write("a", 1), InvalidType, "signal handle expects an integer, got str 'a'"),
    "no value": (lambda: signal_add(0, 0.5), InvalidType, "signal value expects an integer, got float 0.5"),
    "no condition": (lambda: signal_wait(0, 1, "lt"), InvalidValue, "'lt'; expected one of Gte, Eq, And"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_has_no_meaning(bench: Bench, case: str):
    """Handles, values and conditions are checked when they are used."""
    call, kind, why = WRONG[case]

    @k.kernel
    def wrong():
        call()

    with pytest.raises(LaunchFailure, match=why) as caught:
        bench.launch(wrong, (1, 1))
    assert isinstance(caught.value.__cause__, kind)


def test_the_host_has_functions_of_its_own():
    """Outside a kernel each of them says so."""
    for call in (lambda: signal_read(0), lambda: signal_write(0, 1), lambda: signal_add(0), lambda: signal_wait(0, 1)):
        with pytest.raises(IllegalState, match="host"):
            call()


@k.kernel
async def count(signal: np.int32, ticket: np.int32, turn: np.int32) -> None:
    """Two threads each read a number and store the next one."""
    signal_write(signal, signal_read(signal) + 1)


@k.kernel
async def lock(signal: np.int32, ticket: np.int32, turn: np.int32) -> None:
    """Take a lock by a test and a store behind it, keep it for a while, and give it back."""
    while signal_read(signal):
        await signal_wait(signal, 0, "eq")
    signal_write(signal, 1)
    await signal_wait(turn, 0)
    signal_write(signal, 0)


@k.kernel
async def count_beside_an_add(signal: np.int32, ticket: np.int32, turn: np.int32) -> None:
    """One thread adds in one step, and the other in two."""
    if k.threadIdx.x:
        signal_add(signal)
    else:
        signal_write(signal, signal_read(signal) + 1)


@k.kernel
async def count_in_turns(signal: np.int32, ticket: np.int32, turn: np.int32) -> None:
    """Count one after the other: by tickets, and where a barrier is between."""
    mine = signal_add(ticket)
    await signal_wait(turn, mine)
    signal_write(signal, signal_read(signal) + 1)
    signal_write(turn, mine + 1)
    for thread in range(2):
        await k.syncthreads()
        if k.threadIdx.x == thread:
            signal_write(signal, signal_read(signal) + 1)


@k.kernel
async def pass_on(signal: np.int32, ticket: np.int32, turn: np.int32) -> None:
    """Wait until it is the thread's turn, and say whose is next."""
    await signal_wait(turn, k.threadIdx.x)
    signal_write(turn, k.threadIdx.x + 1)


@every(
    "kernel, line",
    [(count, 3), (lock, 5), (count_beside_an_add, 6), (count_in_turns, None), (pass_on, None)],
)
def test_a_signal_that_is_read_and_overwritten_is_not_clean(kernel: k.Kernel, line: int | None) -> None:
    """Where nothing but that signal orders the threads: whichever of them is first, what it stores may be lost."""

    async def main() -> None:
        device = atops.Device(0)
        async with device.create_stream() as stream:
            stream.launch(kernel, (1, 2), *(device.signals.allocate() for _ in range(3)))

    atops.run(main, atops.EmulatorOptions(detect=True, clock="virtual"))
    report = atops.report()
    assert report.verdict == ("clean" if line is None else "inconclusive"), report
    if line is not None:
        at = f"test_signals.py:{kernel.function.__code__.co_firstlineno + line} in {kernel.function.__name__}"
        assert report.escapes == (
            f"what other threads store to signal 0 between the read and the store at {at}: nothing but the signal "
            "itself orders them; k.signal_add is one step",
        )
