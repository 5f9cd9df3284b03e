"""What dpor and sleep sets leave out of kernels: nothing that differs."""

from __future__ import annotations

import numpy as np
import pytest

from atops import kernels as k
from atops.checking.strategies.dpor import Dpor
from atops.checking.strategies.exhaustive import Exhaustive
from atops.device.exec.self_contained import self_contained
from tests.checking.exploring import Program, explore, on_a_bare_grid
from tests.checking.random_kernels import drawn
from tests.checking.small_kernels import KERNELS, apart, tells_the_host
from tests.every import every

SHARED: list[int] = []
WHOLE = (1, 2)


def assert_each_class_is_run_once(program: Program, most: int, strict: bool = False) -> bool:
    """Assert the same results and classes as brute force, each class in one complete run; False if it is too much."""
    brute = explore(program, Exhaustive(prune=False), most)
    if not brute.exhausted:
        return False
    for strategy in (Dpor(), Exhaustive(twice=strict)):
        found = explore(program, strategy)
        assert found.exhausted
        assert (found.results, found.classes) == (brute.results, brute.classes)
        assert found.complete == len(found.classes)
    return True


@pytest.mark.slow
@every("kernel, config, shapes", KERNELS, ids=lambda row: f"{row[0].name} {row[1]}")
def test_each_class_of_a_kernel_is_run_once(kernel, config, shapes):
    """Barriers, transfers in flight, signals, counted barriers, failures: as brute force counts them."""
    assert assert_each_class_is_run_once(on_a_bare_grid(kernel, config, *shapes), 5_000)


@every("kernel, config, shapes", [row for row in KERNELS if row[0].name not in ("by_dte", "fetched_apart")][::4])
def test_some_kernels(kernel, config, shapes):
    """The same of some of them, for each change."""
    assert assert_each_class_is_run_once(on_a_bare_grid(kernel, config, *shapes), 5_000)


@pytest.mark.slow
@every("options", [{"strict": True}, {"detect": True}])
def test_strict_mode_and_the_detectors_change_no_class(options):
    """What a strict launch touches at the issue of a transfer is told, too; and the detectors are told the same."""
    two_in_flight = [row for row in KERNELS if row[0].name == "two_in_flight"]
    for kernel, config, shapes in KERNELS[:4] + KERNELS[11:14] + two_in_flight:
        assert assert_each_class_is_run_once(
            on_a_bare_grid(kernel, config, *shapes, **options), 5_000, "strict" in options
        )


@pytest.mark.slow
@every("seed", range(6))
def test_random_kernels(seed):
    """Kernels of random steps, small ones."""
    assert_each_class_is_run_once(drawn(seed), 200)


@pytest.mark.soak
@every("seed", range(2000))
def test_many_random_kernels(seed):
    """As above, larger, and many."""
    assert_each_class_is_run_once(drawn(seed), 3_000)


def test_threads_that_touch_nothing_in_common_have_one_schedule():
    """Two threads of three steps each: 70 schedules that are one class."""
    found = explore(on_a_bare_grid(apart, (1, 2), 16), Dpor())
    assert (found.complete, found.cut) == (1, 0)


def test_what_a_kernel_touches_unseen_is_never_pruned():
    """A kernel that appends to a list of the program has every order of its turns run."""
    found = explore(on_a_bare_grid(tells_the_host, (1, 2), 2), Dpor())
    assert found.complete == explore(on_a_bare_grid(tells_the_host, (1, 2), 2), Exhaustive(prune=False)).complete


NUMBERS, LETTERS = (1, (2, 3)), [1]


def doubled(value: int) -> int:
    """A function of the program that kernels call."""
    return value * 2


def appended(value: int) -> int:
    """One that keeps what it is given."""
    SHARED.append(value)
    return value


async def takes_numbers(x: k.Span) -> None:
    x[0] = doubled(NUMBERS[0]) + np.int32(max(1, 2))


async def takes_a_list(x: k.Span) -> None:
    x[0] = LETTERS[0]


async def calls_what_keeps(x: k.Span) -> None:
    x[0] = appended(1)


async def prints(x: k.Span) -> None:
    print(x)


async def draws(x: k.Span) -> None:
    x[0] = np.random.randint(3)


async def sets_a_global(x: k.Span) -> None:
    global WHOLE
    WHOLE = (3, 4)


async def counts_in_a_function(x: k.Span) -> None:
    doubled.count = 1  # type: ignore[attr-defined]


async def goes_past_the_span(x: k.Span) -> None:
    x.array[0] = 1


def counting() -> k.Kernel:
    """Return a kernel that counts in a variable of this function."""
    count = 0

    async def counts(x: k.Span) -> None:
        nonlocal count
        count += 1

    return k.kernel(counts)


class Holder:
    """What a launch runs, as far as it is asked here."""

    def __init__(self, kernel: k.Kernel) -> None:
        self.kernel = kernel


@every(
    "kernel, contained",
    [
        (takes_numbers, True), (takes_a_list, False), (calls_what_keeps, False), (prints, False), (draws, False),
        (sets_a_global, False), (counts_in_a_function, False), (goes_past_the_span, False), (counting(), False),
    ],
)  # fmt: skip
def test_kernels_that_reach_outside_are_known(kernel, contained):
    """By what their functions name: values that nothing changes, mathematics, and functions of which that is so."""
    assert self_contained(Holder(kernel if isinstance(kernel, k.Kernel) else k.kernel(kernel))) is contained
