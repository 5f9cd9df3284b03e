"""A sequence may be lazy, and longer than any memory: it is refused at its length."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

import atops.tops as tops
from atops.base.errors import NotReady
from tests.tops.conformance import FUNCTIONS, arguments_of, implementation, new_world
from tests.tops.conformance_report import classes

LONG = 1 << 60
COUNTS = ("num", "count", "size")


class Endless(Sequence[int]):
    """So many ones, made when they are read; more than a list that a call takes has fail the test."""

    read = 0

    def __len__(self) -> int:
        return LONG

    def __getitem__(self, index: Any) -> int:
        self.read += 1
        assert self.read <= 1 << 16
        return 1


ROWS = {name: row for each in classes() for name, row in each.good.items() if "Ipc" not in name}


@pytest.mark.slow
@pytest.mark.parametrize("family", sorted({each.family for each in FUNCTIONS.values()}))
def test_long_sequences_are_refused(family):
    """In each place of a list, with any count beside it, none, and the right one."""
    for name, row in ROWS.items():
        function = FUNCTIONS[name]
        if function.family != family:
            continue
        for place, parameter in enumerate(function.parameters):
            if "*" not in parameter.type or parameter.name == "userData":
                continue
            for count in ("as it is", None, LONG):
                with new_world() as world:
                    arguments, long = list(arguments_of(row, world)), Endless()
                    if place >= len(arguments) or isinstance(arguments[place], int):
                        continue
                    arguments[place] = long
                    if count != "as it is":
                        for at, each in enumerate(function.parameters[: len(arguments)]):
                            if "*" not in each.type and any(word in each.name.lower() for word in COUNTS):
                                arguments[at] = count
                    code = implementation(name)(*arguments)[0]
                    assert code, f"{name}, {parameter.name}"
                    assert code not in (tops.topsErrorUnknown, tops.TOPSRTC_ERROR_INTERNAL_ERROR), (name, parameter)


class Later(Sequence[str]):
    """Texts that a launch has yet to make."""

    def __len__(self) -> int:
        raise NotReady("the launch is not over")

    def __getitem__(self, index: Any) -> str:
        raise NotReady("the launch is not over")


@pytest.mark.parametrize("place", [3, 4])
def test_texts_that_are_not_there_yet(world, place):
    """What cannot be read yet is invalid input of the compiler."""
    arguments: list[Any] = ["", None, None, [], []]
    arguments[place] = Later()
    assert tops.topsrtcCreateProgram(*arguments) == (tops.TOPSRTC_ERROR_INVALID_INPUT, None)
