"""Arguments for any C-style function, as a program in any state might pass them: right, stale, half right and absurd.

What is drawn depends on the chance that is given and on what earlier calls returned, and on nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from random import Random
from typing import Any

import numpy as np

import atops.tops as tops
from atops.base.errors import AtopsError
from atops.bridge.declarations import CParameter, Function
from atops.tops.header.functions import FUNCTIONS
from tests.tops.conformance import HANDLE_TYPES, ORDINALS, World, arguments_of
from tests.tops.conformance_report import classes
from tests.tops.programs import IMAGE, SOURCE, add, nothing

__all__ = ("Hand",)

PRESENT = tuple(name for name in FUNCTIONS if hasattr(tops, name))
HELD: list[Any] = []  # host memory whose bare address is passed: by contract the program keeps it
KEPT = 64  # results that are remembered

# No size is in between: nothing that succeeds fills gigabytes, or takes long.
MODEST = (0, 1, 2, 3, 4, 5, 7, 8, 12, 16, 31, 64, 100, 256, 4096, 65536, 1 << 20)
HUGE = tuple(sign * (1 << bits) + more for bits in (44, 48, 63, 64, 100) for sign in (1, -1) for more in (0, -1))
WORDS = (*(1 << bit for bit in range(33)), (1 << 31) - 1, (1 << 32) - 1, -1, -2, -(1 << 31), 0x01010101)
TEXTS = ("", "x", "fill", "empty", "calls", "weights", "no such name", "a\0b", "\N{SNOWMAN}", SOURCE, "def", "--arch=x")
BYTES = (b"", b"\0", b"empty", bytes(64), bytes(range(64)), b"\xff" * 4096, IMAGE)
STRUCTS = tuple(
    each for module in tops.VALUES for name in module.__all__
    if isinstance(each := getattr(module, name), type) and hasattr(each, "to_bytes") and hasattr(each, "layout")
)  # fmt: skip


@cache
def good_calls() -> dict[str, Any]:
    """Return the rows of the conformance tables that say what a good call of each function is."""
    return {name: row for each in classes() for name, row in each.good.items()}


def raises(*_: Any) -> None:
    """Be a callback that fails."""
    raise RuntimeError("a callback that fails")


class Hand:
    """What there is to pass: the results of the calls so far, and everything that needs no call."""

    def __init__(self, chance: Random, world: World) -> None:
        self._chance = chance
        self._world = world
        self._rows = good_calls()
        self._results: list[Any] = []
        self._any: tuple[Callable[[], Any], ...] = (
            self._number, self._number, self._result, self._result, self._near, self._near, self._array, self._sequence,
            self._object, lambda: None, lambda: chance.choice(TEXTS), lambda: chance.choice(BYTES), self._dims,
        )  # fmt: skip

    def call(self) -> tuple[str, tuple[Any, ...]]:
        """Return a function's name and arguments: those of a good call with some replaced, or each drawn for itself."""
        name = self._chance.choice(PRESENT)
        return name, self._arguments(FUNCTIONS[name])

    def _arguments(self, function: Function) -> tuple[Any, ...]:
        chance, names = self._chance, function.parameters
        made: list[Any] = []
        if chance.random() < 0.5:
            made = self._good(function.name)
        missing = names[len(made) :]
        made += [self._fitting(each) for each in missing if each.default is None or chance.random() < 0.5]
        rate = chance.choice((0.0, 0.1, 0.4))
        for place, each in enumerate(names[: len(made)]):
            if chance.random() < rate:
                made[place] = self._bounded(each, chance.choice(self._any)())
        if chance.random() < 0.02:
            made = made[:-1] if chance.random() < 0.5 else [*made, None]
        return tuple(made)

    def keep(self, results: tuple[Any, ...]) -> None:
        """Remember what a call returned, to pass it on."""
        self._results = [*self._results, *results][-KEPT:]

    # ---- what fits

    def _good(self, name: str) -> list[Any]:
        """Return what a row of the conformance tables says; nothing where it needs another process."""
        try:
            return list(arguments_of(self._rows[name], self._world))
        except (KeyError, AssertionError, AtopsError):
            return []  # the board is in a state in which the row cannot be made

    def _fitting(self, parameter: CParameter) -> Any:
        """Return something of the kind that a parameter takes."""
        chance, type_ = self._chance, parameter.type
        if type_ in HANDLE_TYPES:
            return chance.choice((None, 0, 2, self._result())) if type_ == "topsStream_t" else self._result()
        if parameter.name in ORDINALS:
            return chance.choice((0, 1, 1, 2))
        if "char" in type_:
            return chance.choice(TEXTS)
        if type_ == "dim3":
            return self._dims()
        if "*" in type_ or type_ == "topsDeviceptr_t":
            return chance.choice((self._near, self._result, self._array, self._sequence))()
        return chance.choice(MODEST if type_ == "size_t" else (0, 0, 1, 2, 3, 4, *WORDS))

    def _bounded(self, parameter: CParameter, value: Any) -> Any:
        """Return the value, or another one in place of a size with which a right call would take long."""
        if not isinstance(value, int) or "*" in parameter.type or parameter.type == "topsDeviceptr_t":
            return value
        if parameter.type == "dim3":
            return value if not 8 < value < 1 << 33 else 8
        return value if parameter.type in ("int", "unsigned int") or not 1 << 20 < value < 1 << 44 else -value

    # ---- anything

    def _number(self) -> Any:
        chance = self._chance
        value = chance.choice((*MODEST, *WORDS, *HUGE))
        return chance.choice((value, value, value, float(value), np.int64(value % 1000), bool(value), math.nan))

    def _result(self) -> Any:
        return self._chance.choice(self._results) if self._results else 0

    def _near(self) -> Any:
        """Return a result, moved if it is a number: an interior pointer, a handle beside the right one."""
        found = self._result()
        if type(found) is not int:
            return found
        return found + self._chance.choice((0, 0, 0, 1, 4, 16, 255, 256, -1, -16, -256, 4096))

    def _array(self) -> Any:
        """Return memory of the host in one of its forms."""
        chance = self._chance
        array = np.zeros(chance.choice((1, 8, 64, 4096)), chance.choice((np.uint8, np.float32, np.int64)))
        match chance.randrange(7):
            case 0:
                array.flags.writeable = False
            case 1:
                array = array[::2]
            case 2:
                return bytearray(array.tobytes())
            case 3:
                HELD.append(array)
                return int(array.__array_interface__["data"][0])
            case 4:
                return memoryview(array)
        return array

    def _sequence(self) -> Any:
        chance = self._chance
        values = [chance.choice((0, 1, 1, 2, 2, 3, 4, 8, -1, 1 << 62, None)) for _ in range(chance.randrange(5))]
        return chance.choice((list, tuple))(chance.choice((values, [self._near() for _ in values])))

    def _dims(self) -> Any:
        return self._chance.choice((1, 2, (1, 1, 1), (2, 1), (1, 2), tops.dim3(1), tops.dim3(2, 2), (0, 1, 1),
                                    (1, 1, 1, 1), (1 << 40,), -1, (1.5, 1)))  # fmt: skip

    def _object(self) -> Any:
        chance, world = self._chance, self._world
        match chance.randrange(8):
            case 0:
                return object()
            case 1:
                return chance.choice((add, nothing, print, raises, lambda *_: None))
            case 2:
                return chance.choice(STRUCTS)()
            case 3:
                return chance.choice((world.device, world.driver, {}, {"y": 1}, set(), ...))
            case 4:
                return chance.choice(list(chance.choice((tops.topsMemcpyKind, tops.topsError_t, tops.topsJitOption))))
            case 5 | 6 if world.driver.closed is None and world.device.context.dead is None:
                kept = world.device.null_stream if chance.random() < 0.5 else world.device.create_event()
                world.keep.append(kept)
                return kept
        return Refusal()


class Refusal:
    """An object that is a number by its looks, and refuses to tell which."""

    def __index__(self) -> int:
        """Raise."""
        raise ValueError("no number after all")

