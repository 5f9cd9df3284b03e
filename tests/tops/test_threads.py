"""Many threads at once: any calls for a while, and handles that several of them destroy."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from functools import partial
from random import Random
from threading import Barrier
from typing import Any, NamedTuple

import pytest

import atops.tops as tops
from atops.base.options import EmulatorOptions
from atops.bridge.pointers import OWNED
from atops.runtime.board.current_device import enter, leave
from atops.runtime.driver import Driver, board_of
from tests.runtime.boards import PATIENCE, leftovers
from tests.tops.any_arguments import Hand
from tests.tops.conformance import World, fresh, implementation
from tests.tops.programs import module
from tests.tops.watchdog import Watchdog, books

THREADS = 16
ROUNDS = 50


class Kind(NamedTuple):
    """Something with a handle: how it is made, what destroys and uses it, and what a dead one is answered with."""

    make: Callable[[World], Any]
    destroy: str
    use: Callable[[Any], tuple[Any, ...]]
    code: Any


KINDS = {
    "stream": Kind(
        lambda w: tops.check(tops.topsStreamCreate()), "topsStreamDestroy", tops.topsStreamQuery,
        tops.topsErrorInvalidHandle,
    ),
    "event": Kind(
        lambda w: tops.check(tops.topsEventCreate()), "topsEventDestroy", tops.topsEventQuery,
        tops.topsErrorInvalidHandle,
    ),
    "module": Kind(
        module, "topsModuleUnload", lambda handle: tops.topsModuleGetFunction(handle, "empty"),
        tops.topsErrorInvalidHandle,
    ),
    "program": Kind(
        lambda w: tops.check(tops.topsrtcCreateProgram("", "p", 0, [], [])), "topsrtcDestroyProgram",
        tops.topsrtcGetCodeSize, tops.TOPSRTC_ERROR_INVALID_PROGRAM,
    ),
    "memory": Kind(
        lambda w: tops.check(tops.topsMalloc(4096)), "topsFree", lambda pointer: tops.topsMemset(pointer, 0, 1),
        tops.topsErrorInvalidValue,
    ),
    "pinned memory": Kind(
        lambda w: tops.check(tops.topsHostMalloc(4096, 0)), "topsHostFree", tops.topsHostGetFlags,
        tops.topsErrorInvalidValue,
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_one_of_many_threads_destroys(world: World, kind: str):
    """Of threads that destroy one handle exactly one succeeds; the others, and every later use, meet a dead one."""
    made = KINDS[kind]
    gate = Barrier(4 + 1, timeout=PATIENCE)
    handles = [made.make(world) for _ in range(ROUNDS)]

    def destroy_all() -> list[Any]:
        answers = []
        for handle in handles:
            gate.wait()
            answers.append(implementation(made.destroy)(handle)[0])
        return answers

    racers = [world.thread(destroy_all) for _ in range(4)]
    for _ in handles:
        gate.wait()
    for thread, _ in racers:
        thread.join(PATIENCE)
    for handle, codes in zip(handles, zip(*(found[0] for _, found in racers), strict=True), strict=True):
        assert sorted(code == 0 for code in codes) == [False, False, False, True]
        assert len({code for code in codes if code}) == 1
        assert made.use(handle)[0] is made.code
        assert implementation(made.destroy)(handle)[0] in codes


def storm(seconds: float, seed: int) -> None:
    """Have 16 threads make any calls for a while; then find the books in order, and nothing left once all is freed."""
    driver = Driver(EmulatorOptions(devices=2, abort_grace=0.2, trace=64))
    enter(driver, board_of(driver))
    world, dog = World(driver), Watchdog(driver)
    hands = [Hand(Random(f"{seed} {number}"), world) for number in range(THREADS)]
    until = time.monotonic() + seconds

    def calls(hand: Hand) -> None:
        while time.monotonic() < until:
            name, arguments = hand.call()
            hand.keep(dog.call(name, arguments)[1:])

    try:
        dog.run(*(partial(calls, hand) for hand in hands))
        dog.abort()
        books(driver)
        world.keep.clear()
        dog.run(lambda: free_all(driver))
        books(driver)
        dog.abort(hard=True)
        assert all(context.memory.statistics().used == 0 for context in board_of(driver).contexts)
        gc.collect()
        assert not {what: left for what, left in leftovers(driver).items() if not what.startswith("host")}
    finally:
        leave(driver)
        driver.close()
        fresh()


def free_all(driver: Driver) -> None:
    """Free by their pointers what the C-style functions hold of a board, and find that it is theirs no more."""
    for context in board_of(driver).contexts:
        tops.check(tops.topsSetDevice(context.ordinal))
        for allocation in context.memory.live():
            if allocation.serial in OWNED:
                tops.topsFree(allocation.address)  # which may answer an earlier failure, and frees all the same
        assert not [each for each in context.memory.live() if each.serial in OWNED]


@pytest.mark.slow
def test_any_calls_of_many_threads(elsewhere):
    """Three seconds of random calls: none raises or hangs, and the memory's books agree."""
    storm(3, 1)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(3))
def test_any_calls_of_many_threads_for_long(elsewhere, seed: int):
    """As above, for a minute."""
    storm(60, seed)
