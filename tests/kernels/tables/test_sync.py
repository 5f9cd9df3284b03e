"""Each row of the table of synchronisation, printing, assertions and signals does what it says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from atops import kernels as k
from atops.base.c_format import CONVERSIONS, c_format
from atops.base.errors import KernelAssert
from atops.kernels.output import assert_, printf
from atops.kernels.sync import signal_add, signal_read, signal_wait, signal_write
from atops.kernels.tables.constructs import SYNC
from tests.every import every
from tests.kernel_bench import Bench

NAMED = {each.__name__: each for each in (printf, assert_, signal_add, signal_read, signal_wait, signal_write)}
SAMPLES = {"an integer": 7, "a float": 0.5, "a character or its code": "c", "a str or bytes": "s",
           "memory or an address": 64}  # fmt: skip


async def syncthreads(log: list[Any]) -> None:
    """Log before and after the block's barrier."""
    log.append("before")
    await k.syncthreads()
    assert log.count("before") >= 3
    log.append("after")


async def syncblocks(log: list[Any]) -> None:
    """Log before and after the grid's barrier."""
    log.append("before")
    await k.syncblocks()
    assert log.count("before") == 6
    log.append("after")


async def scopes(log: list[Any]) -> None:
    """Make the largest barrier of each scope."""
    assert (k.BarrierScope.SIP, k.BarrierScope.CLUSTER) == (0, 1)
    await k.barrier(k.BarrierScope.SIP, 3).arrive_and_wait()
    await k.barrier(k.BarrierScope.CLUSTER, 6).arrive_and_wait()
    log.append("met")


async def barrier(log: list[Any]) -> None:
    """Share one barrier in each block."""
    log.append(k.barrier(k.BarrierScope.SIP, 2))
    assert log[-1].count == 2


async def arrive(log: list[Any]) -> None:
    """Arrive and go on."""
    log.append(k.barrier(k.BarrierScope.SIP, 3).arrive())


async def wait(log: list[Any]) -> None:
    """Let one wait for the arrivals of two."""
    gate = k.barrier(k.BarrierScope.SIP, 2)
    if k.threadIdx.x:
        gate.arrive()
        log.append("arrived")
    else:
        await gate.wait()
        assert log.count("arrived") >= 2


async def arrive_and_wait(log: list[Any]) -> None:
    """Wait for each other."""
    log.append("here")
    await k.barrier(k.BarrierScope.SIP, 3).arrive_and_wait()
    assert log.count("here") >= 3


async def prints(log: list[Any]) -> None:
    """Print with every conversion."""
    for kind, row in CONVERSIONS.items():
        sample = SAMPLES[row.takes]
        assert printf(f"%{kind}", sample) == len(c_format(f"%{kind}", [sample]))
        log.append(f"%{kind}")


async def asserts(log: list[Any]) -> None:
    """Assert what holds, and what does not."""
    assert_(True)
    with pytest.raises(KernelAssert):
        assert_(False)
    log.append("asserted")


async def reads_and_writes(log: list[Any]) -> None:
    """Write a signal and read it."""
    signal_write(k.thread_id(), 5 + k.thread_id())
    log.append(signal_read(k.thread_id()) - k.thread_id())


async def adds(log: list[Any]) -> None:
    """Count threads."""
    log.append(signal_add(9))


async def waits(log: list[Any]) -> None:
    """Let one wait for the others."""
    if k.thread_id():
        signal_add(9)
    else:
        for condition in ("gte", "eq", "and", "nor", "gteunsigned"):
            await signal_wait(9, 5, condition)
        log.append("released")


def counts(*numbers: Any) -> Callable[[list[Any]], bool]:
    """Return a check that the log has these items, in any order."""
    return lambda log: sorted(log, key=str) == sorted(numbers, key=str)


PROOFS: dict[str, tuple[Any, Callable[[list[Any]], bool]]] = {
    "await k.syncthreads()": (syncthreads, lambda log: log.count("after") == 6),
    "await k.syncblocks()": (syncblocks, lambda log: log == ["before"] * 6 + ["after"] * 6),
    "k.BarrierScope.SIP, k.BarrierScope.CLUSTER": (scopes, counts(*["met"] * 6)),
    "k.barrier(scope, count)": (barrier, lambda log: sorted(map(log.count, set(log))) == [3, 3]),
    "b.arrive()": (arrive, counts(*[0] * 6)),
    "await b.wait(token=None)": (wait, counts(*["arrived"] * 4)),
    "await b.arrive_and_wait()": (arrive_and_wait, counts(*["here"] * 6)),
    "k.printf(format, *arguments)": (prints, lambda log: log[: len(CONVERSIONS)] == list(row_of("k.printf").types)),
    "k.assert_(condition, message=None)": (asserts, counts(*["asserted"] * 6)),
    "k.signal_read(handle)": (reads_and_writes, counts(*[5] * 6)),
    "k.signal_write(handle, value)": (reads_and_writes, counts(*[5] * 6)),
    "k.signal_add(handle, value=1)": (adds, counts(*range(6))),
    'await k.signal_wait(handle, value, condition="gte")': (waits, counts("released")),
}


def row_of(name: str) -> Any:
    """Return the row whose Python begins so."""
    return next(row for row in SYNC if row.python.startswith(name))


def test_every_row_has_a_proof():
    """And there is no proof without a row; each row says what it does and on every chip."""
    assert [row.python for row in SYNC] == list(PROOFS)
    assert all(row.summary.endswith(".") and row.differs and row.gcu_arch == 210 for row in SYNC)
    assert {row.cpp for row in SYNC if row.section == "8.8"} == {
        "void __syncthreads()", "void __syncblocks()", "enum BarrierScope { SIP = 0, CLUSTER = 1 }",
        "tte::barrier<BarrierScope>(int count)", "tte::barrier::arrive()", "void tte::barrier::wait()",
        "void tte::barrier::arrive_and_wait()",
    }  # fmt: skip


@pytest.mark.slow
@every("python", PROOFS)
@every("arch", ["gcu210", "gcu300"])
def test_a_row_holds(make_bench: Callable[..., Bench], python: str, arch: str):
    """A cooperative grid of two blocks with three threads each does what the row says, on either chip."""
    body, holds = PROOFS[python]
    log: list[Any] = []

    @k.cooperative
    async def prove():
        await body(log)

    make_bench(arch=arch).launch(prove, (2, 3))
    assert holds(log), log


@pytest.mark.parametrize("name", NAMED)
def test_the_signature_is_the_row_s(name: str):
    """What the table shows can be called so."""
    shown = row_of(f"await k.{name}" if name == "signal_wait" else f"k.{name}").python
    names = [part.split("=")[0].strip(" *") for part in shown.partition("(")[2].rstrip(")").split(",")]
    code = NAMED[name].__code__
    assert list(code.co_varnames[: len(names)]) == names
