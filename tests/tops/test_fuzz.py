"""Any function with any arguments: it answers a code, whatever it is given, and the board stays whole."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from atops.base.options import EmulatorOptions
from atops.runtime.board.current_device import enter, leave
from atops.runtime.driver import Driver, board_of
from tests.tops.any_arguments import Hand
from tests.tops.conformance import World, fresh
from tests.tops.watchdog import Watchdog, books, shown

PROGRAM = 12  # calls


def program(chance: Random, made: list[str]) -> None:
    """Run some calls, one behind the other, on a board of their own; then reset it, and find nothing left.

    `made` gets what was called.
    """
    driver = Driver(EmulatorOptions(devices=2, abort_grace=0.2, trace=64))
    enter(driver, board_of(driver))
    world, dog = World(driver), Watchdog(driver)
    try:
        dog.run(lambda: several(chance, world, dog, made))
        books(driver)
        dog.abort(hard=True)
        books(driver)
        assert all(context.memory.statistics().used == 0 for context in board_of(driver).contexts)
    finally:
        leave(driver)
        driver.close()
        fresh()


def several(chance: Random, world: World, dog: Watchdog, made: list[str]) -> None:
    """Draw calls and make them."""
    hand = Hand(chance, world)
    for _ in range(PROGRAM):
        name, arguments = hand.call()
        made.append(f"{name}{shown(arguments)}")
        hand.keep(dog.call(name, arguments)[1:])


@pytest.mark.slow
@given(st.randoms(use_true_random=False))
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_any_call_answers(elsewhere, chance: Random):
    """No call raises, hangs or answers anything but what the table says; the memory's books agree after it."""
    made: list[str] = []
    try:
        program(chance, made)
    finally:
        note("\n".join(made))


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(40))
def test_many_programs_answer(elsewhere, seed: int):
    """As above, for programs that Hypothesis would not think of."""
    for number in range(100):
        made: list[str] = []
        try:
            program(Random(f"{seed} {number}"), made)
        except BaseException as error:
            error.add_note("\n".join(made))
            raise
