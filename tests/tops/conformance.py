"""What every C-style function must do, as tests that a family's tables fill in: success, failures, null, wrong types.

A family's test file has one class that inherits `Conformance` and says which arguments are right and which are not.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import anyio
import pytest

from atops.base.results import Result
from atops.runtime.device import Device
from atops.runtime.driver import CURRENT, Driver
from atops.tops._call import TWINS
from atops.tops._last_error import forget, last
from atops.tops._schedule import FLAGS
from atops.tops.error_codes import topsError_t, topsrtcResult
from atops.tops.function_table import FUNCTIONS
from atops.tops.tables.function import Function

__all__ = ("Case", "Conformance", "World", "implementation")

HANDLE_TYPES = ("topsStream_t", "topsEvent_t", "topsModule_t", "topsFunction_t", "topsExecutable_t", "topsResource_t")


@dataclass
class World:
    """A board of two devices that is current for one test; `keep` is for what the test must not lose."""

    driver: Driver
    keep: list[Any] = field(default_factory=list)

    @property
    def device(self) -> Device:
        """Device 0."""
        return Device(0, self.driver)

    @property
    def second(self) -> Device:
        """Device 1."""
        return Device(1, self.driver)


    def thread(self, function: Callable[[], Any]) -> tuple[threading.Thread, list[Any]]:
        """Start a thread in which this board is current; the list gets what `function` returns."""
        results: list[Any] = []

        def run() -> None:
            CURRENT.set(self.driver)
            results.append(function())

        thread = threading.Thread(target=run)
        thread.start()
        return thread, results


Arguments = Callable[[World], tuple[Any, ...]] | tuple[Any, ...]


class Case(NamedTuple):
    """A call that must fail: which function, what is wrong (with the row of the table of behaviours), how, the code."""

    function: str
    what: str
    arguments: Arguments
    code: topsError_t | topsrtcResult


def implementation(name: str) -> Callable[..., tuple[Any, ...]]:
    """Return the C-style function of a name."""
    import atops.tops as tops

    return getattr(tops, name)


class Conformance:
    """Inherit as `TestStream(Conformance)` and fill in the tables.

    - `functions`: the names this class is about: a family's, from the table, less what another class has.
    - `good`: arguments of a call that succeeds, for each function.
    - `bad`: cases that fail. Each documented code of each function has one, or a reason in `unreachable`.
    - `anything`: parameters that take any object at all; `nullable`: pointers and handles that may be None. Streams
      always may.
    """

    functions: ClassVar[tuple[str, ...]]
    good: ClassVar[Mapping[str, Arguments]]
    bad: ClassVar[tuple[Case, ...]] = ()
    unreachable: ClassVar[Mapping[tuple[str, Result], str]] = {}
    anything: ClassVar[frozenset[tuple[str, str]]] = frozenset()
    nullable: ClassVar[frozenset[tuple[str, str]]] = frozenset()

    def __init_subclass__(cls) -> None:
        """Leave out the tests that have no rows here."""
        rows = {
            "test_failure": cls.bad,
            "test_twin": [name for name in cls.functions if FUNCTIONS[name].waits],
            "test_wrong_type": [each for name in cls.functions for each in cls._typed(FUNCTIONS[name])],
            "test_null": [each for name in cls.functions for each in cls._nulls(FUNCTIONS[name])],
        }
        for test, found in rows.items():
            if not found:
                setattr(cls, test, None)

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Give each test its rows."""
        names = metafunc.fixturenames
        if "case" in names:
            ids = [f"{case.function}-{case.what}" for case in self.bad]
            metafunc.parametrize("case", self.bad, ids=ids)
        elif "parameter" in names:
            kept = self._nulls if "null" in metafunc.function.__name__ else self._typed
            rows = [(name, each.name) for name in self.functions for each in kept(FUNCTIONS[name])]
            metafunc.parametrize(("name", "parameter"), rows, ids=[f"{name}-{each}" for name, each in rows])
        elif "waiting" in names:
            metafunc.parametrize("waiting", [name for name in self.functions if FUNCTIONS[name].waits])
        elif "name" in names:
            metafunc.parametrize("name", self.functions)

    @classmethod
    def _typed(cls, function: Function) -> list[Any]:
        return [each for each in function.parameters if (function.name, each.name) not in cls.anything]

    @classmethod
    def _nulls(cls, function: Function) -> list[Any]:
        return [
            each
            for each in cls._typed(function)
            if ("*" in each.type or each.type in HANDLE_TYPES)
            and each.type != "topsStream_t"
            and (function.name, each.name) not in cls.nullable
        ]

    # ---- the tests

    def test_success(self, world: World, name: str) -> None:
        """The call succeeds, returns as many results as the table says, and leaves no error behind."""
        answer = implementation(name)(*arguments_of(self.good[name], world))
        assert answer[0] == 0, explain(answer)
        assert len(answer) == 1 + FUNCTIONS[name].outs
        assert None not in answer[1:]
        assert last() is None

    def test_keywords(self, world: World, name: str) -> None:
        """The arguments have the names that C gives them."""
        names = [each.name for each in FUNCTIONS[name].parameters]
        arguments = arguments_of(self.good[name], world)
        answer = implementation(name)(**dict(zip(names, arguments, strict=False)))
        assert answer[0] == 0, explain(answer)

    def test_twin(self, world: World, waiting: str) -> None:
        """The awaitable form answers what the blocking one does."""
        for backend in ("asyncio", "trio"):
            arguments = arguments_of(self.good[waiting], world)
            answer = anyio.run(TWINS[waiting], *arguments, backend=backend)
            assert answer[0] == 0, explain(answer)
            assert len(answer) == 1 + FUNCTIONS[waiting].outs

    def test_wrong_count(self, world: World, name: str) -> None:
        """Arguments too few or too many are InvalidValue; nothing is raised."""
        given = arguments_of(self.good[name], world)
        missing = implementation(name)(*given[:-1]) if required(FUNCTIONS[name]) and given else None
        over = implementation(name)(*given, *([None] * 20))
        for answer in (missing, over):
            if answer is not None and (answer is over or len(given) <= required(FUNCTIONS[name])):
                assert answer[0] != 0
                assert answer[1:] == (None,) * FUNCTIONS[name].outs

    def test_wrong_type(self, world: World, name: str, parameter: str) -> None:
        """An argument of no type that the parameter takes is a failure, and every result is None."""
        answer = self._with(world, name, parameter, object())
        assert answer[0] not in (0, topsError_t.topsErrorUnknown), explain(answer)
        assert answer[1:] == (None,) * FUNCTIONS[name].outs

    def test_null(self, world: World, name: str, parameter: str) -> None:
        """Null for a pointer or a handle is a failure, and every result is None."""
        for null in (None, 0):
            answer = self._with(world, name, parameter, null)
            assert answer[0] not in (0, topsError_t.topsErrorUnknown), explain(answer)
            assert answer[1:] == (None,) * FUNCTIONS[name].outs

    def test_failure(self, world: World, case: Case) -> None:
        """The call answers the code that the entry documents, or that the header has for it."""
        arguments = arguments_of(case.arguments, world)
        forget()
        answer = implementation(case.function)(*arguments)
        assert answer[0] is case.code, explain(answer)
        assert answer[1:] == (None,) * FUNCTIONS[case.function].outs
        if case.code is not topsError_t.topsErrorNotReady and isinstance(case.code, topsError_t):
            assert last() is not None and last().code is case.code

    def test_every_documented_code_has_a_case(self) -> None:
        """Each code of each entry has a case, or a reason why no call can meet it."""
        met = {(case.function, Result(int(case.code))) for case in self.bad if isinstance(case.code, topsError_t)}
        documented = {(name, code) for name in self.functions for code in FUNCTIONS[name].codes}
        assert documented - met - set(self.unreachable) == set()
        assert set(self.unreachable) & met == set()
        assert set(self.unreachable) <= documented
        assert set(self.good) == set(self.functions)

    def _with(self, world: World, name: str, parameter: str, value: Any) -> tuple[Any, ...]:
        names = [each.name for each in FUNCTIONS[name].parameters]
        named = dict(zip(names, arguments_of(self.good[name], world), strict=False))
        return implementation(name)(**{**named, parameter: value})


def arguments_of(arguments: Arguments, world: World) -> tuple[Any, ...]:
    """Return the arguments of a row, made in this world if they must be."""
    return arguments(world) if callable(arguments) else arguments


def required(function: Function) -> int:
    """Return how many arguments the function cannot do without."""
    return sum(each.default is None for each in function.parameters)


def explain(answer: tuple[Any, ...]) -> str:
    """Return what to print with an answer that was not expected."""
    error = last()
    return f"{answer!r}: {error.message if error else ''}"


def fresh() -> None:
    """Forget what an earlier test left behind in this thread."""
    forget()
    FLAGS.clear()
