"""Kernels in C++ under schedules: which thread goes on is a choice, before each access that others can see."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import numpy as np
import pytest

import atops
from atops import kernels as k
from atops.base.errors import StepLimit
from atops.base.options import EmulatorOptions
from tests.every import every

pytestmark = pytest.mark.slow
SEEN = EmulatorOptions(detect=True)
TEXT = """
__global__ void lost(int *x) { int v = __atomic_load_n(x, 0); __atomic_store_n(x, v + 1, 0); }
__global__ void kept(int *x) { __atomic_fetch_add(x, 1, 0); }
__global__ void in_l2(int *x) {
    __shared__ int s[2];
    if (threadIdx.x == 0) s[0] = 0;
    __syncthreads();
    int v = __atomic_load_n(s, 0); __atomic_store_n(s, v + 1, 0);
    __syncthreads();
    if (threadIdx.x == 0) x[0] = s[0];
}
__global__ void rounds(int *x) {
    for (int i = 0; i < 2; ++i) { if (threadIdx.x == unsigned(i)) x[0] += 1; __syncthreads(); }
}
__global__ void spin(int *x) {
    if (threadIdx.x == 0) while (!__atomic_load_n(x + 1, 2)) {}
    else __atomic_store_n(x + 1, 1, 3);
    if (threadIdx.x == 0) x[0] = 2;
}
__global__ void made(int *x) {  // the first thread constructs the context, and nothing comes in between
    __shared__ tops_dte_ctx_t mover;
    __shared__ int s[2];
    if (threadIdx.x == 0) {
        mover.init();
        s[0] = 2;
        tops::memcpy(mover, tops::mdspan(x, 1), tops::mdspan(s, 1));
        mover.destroy();
    }
}
__global__ void for_ever(int *x) { while (!__atomic_load_n(x, 2)) {} }
"""
Program = Callable[[], Coroutine[Any, Any, None]]


@pytest.fixture(scope="module")
def module(request: pytest.FixtureRequest) -> Any:
    request.getfixturevalue("compiler")
    return k.compile_source(TEXT, "update.tops").module()


def counting(module: Any, name: str, config: tuple[int, int] = (1, 2)) -> Program:
    """Return a program whose kernel is to count to two."""

    async def main() -> None:
        async with atops.Device(0).create_stream() as stream:
            x = stream.zeros(2, np.int32)
            stream.launch(module.function(name), config, x)
            assert (got := int((await stream.fetch(x))[0])) == 2, got

    return main


@every("strategy", ["random", "pct", "dpor", "exhaustive"])
def test_a_lost_update_is_found_and_comes_again(module: Any, strategy: str) -> None:
    """Within ten schedules; made small, and by its string in a run by itself."""
    program = counting(module, "lost")
    report = atops.check(program, 10, strategy, options=SEEN)
    assert report.verdict == "failed" and report.failure is not None and report.failure.kind == "assertion", report
    assert 1 <= len(report.forced) <= 2, report
    assert atops.check(program, 1, report.schedule, options=SEEN).verdict == "failed"
    with pytest.raises(AssertionError):
        atops.run(program, EmulatorOptions(detect=True, schedule=report.schedule))


@every("name, config", [("lost", (2, 1)), ("in_l2", (1, 2))])
def test_updates_are_lost_between_blocks_and_in_l2(module: Any, name: str, config: tuple[int, int]) -> None:
    """Blocks that have their clusters take turns, too."""
    assert atops.check(counting(module, name, config), 30, options=SEEN).verdict == "failed"


@pytest.mark.parametrize("schedules", [100, pytest.param(2000, marks=pytest.mark.soak)])
def test_what_is_right_passes_all_schedules(module: Any, schedules: int) -> None:
    """And nothing is called proved: other streams wait while a kernel in C++ runs."""
    for name, config in [("kept", (1, 2)), ("kept", (2, 1)), ("rounds", (1, 2)), ("spin", (1, 2)), ("made", (1, 2))]:
        report = atops.check(counting(module, name, config), schedules, options=SEEN)
        assert report.verdict == f"explored {schedules}", report
        report = atops.check(counting(module, name, config), schedules // 2, "dpor", options=SEEN)
        assert report.verdict.startswith("explored"), report


def test_a_seed_draws_the_same_order_again(module: Any) -> None:
    """Some of twenty seeds lose the update, and always the same ones."""

    def lose() -> list[int]:
        found = []
        for seed in range(20):
            try:
                atops.run(counting(module, "lost"), EmulatorOptions(detect=True, seed=seed))
            except AssertionError:
                found.append(seed)
        return found

    first = lose()
    assert 0 < len(first) < 20 and first == lose()


def test_a_thread_that_waits_for_ever_ends_by_the_limit(module: Any) -> None:
    """Its turns count as steps."""
    with pytest.raises(StepLimit):
        atops.run(counting(module, "for_ever"), EmulatorOptions(detect=True, schedule="plain", steps=20_000))
