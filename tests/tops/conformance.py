"""What every C-style function must do, as tests that a family's tables fill in: success, failures, null, wrong types.

A family's test file has one class that inherits `Conformance` and says which arguments are valid and which are not.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import anyio

from atops.base.options import EmulatorOptions
from atops.base.result_codes import Result
from atops.bridge.call import SCHEDULES
from atops.bridge.declarations import Function
from atops.bridge.handles import register, take
from atops.hip.functions import api as hip_api
from atops.hip.header.error_codes import hipError_t
from atops.hip.header.functions import FUNCTIONS as HIP_FUNCTIONS
from atops.runtime.board.current_device import enter, leave
from atops.runtime.device import Device
from atops.runtime.driver import Driver, board_of
from atops.tops.functions import api as tops_api
from atops.tops.header.error_codes import topsError_t, topsrtcResult
from atops.tops.header.functions import FUNCTIONS as TOPS_FUNCTIONS
from tests.every import failures
from tests.runtime.boards import PATIENCE

__all__ = ("FUNCTIONS", "Case", "Conformance", "World", "implementation", "new_world")

FUNCTIONS = {**TOPS_FUNCTIONS, **HIP_FUNCTIONS}
TWINS = {**tops_api.TWINS, **hip_api.TWINS}
# What numbers a device.
ORDINALS = frozenset(
    {"device", "deviceId", "peerDeviceId", "dstDevice", "srcDevice", "dstDeviceId", "srcDeviceId"}
)
CODES = (topsError_t, hipError_t)
HANDLE_TYPES = ("topsStream_t", "topsEvent_t", "topsModule_t", "topsFunction_t", "topsExecutable_t", "topsResource_t",
                "topsrtcProgram", "hipStream_t", "hipEvent_t", "hipMemPool_t", "hipModule_t", "hipFunction_t")


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

    def let_run(self) -> None:
        """Let everything go as far as it can: what is not done after this is held up, and not merely late."""
        for device in (self.device, self.second):
            probe = device.create_stream(nonblocking=True, name="probe")
            for _ in range(2):  # steps that were posted before the probe's are over when it is
                probe.record().sync(PATIENCE)
            probe.close()

    def thread(self, function: Callable[[], Any]) -> tuple[threading.Thread, list[Any]]:
        """Start a thread in which this board is current; the list gets what `function` returns."""
        results: list[Any] = []

        def run() -> None:
            enter(self.driver, board_of(self.driver))
            results.append(function())

        thread = threading.Thread(target=run)
        thread.start()
        return thread, results


@contextmanager
def new_world() -> Iterator[World]:
    """Make a gcu300 board of two devices, with device 0 current in this thread and no error or flag of another test."""
    driver = Driver(EmulatorOptions(devices=2, abort_grace=0.2, trace=256))
    enter(driver, board_of(driver))
    fresh()
    try:
        with Device(0):
            yield World(driver)
    finally:
        fresh()
        leave(driver)
        driver.close()


Arguments = Callable[[World], tuple[Any, ...]] | tuple[Any, ...]


class Case(NamedTuple):
    """A call that must fail: which function, what is wrong (with the row of the table of behaviours), how, the code."""

    function: str
    what: str
    arguments: Arguments
    code: topsError_t | topsrtcResult | hipError_t


def implementation(name: str) -> Callable[..., tuple[Any, ...]]:
    """Return the C-style function of a name."""
    import atops.tops as tops
    from atops.hip import hip

    return getattr(hip if name in HIP_FUNCTIONS else tops, name)


def api_of(name: str) -> Any:
    """Return the API of a function, which has its last error."""
    return hip_api if name in HIP_FUNCTIONS else tops_api


class Conformance:
    """Inherit as `TestStream(Conformance)` and fill in the tables.

    - `functions`: the names this class is about; those of `good` where it does not say. The report goes by them, and
      says which functions no class is about.
    - `good`: arguments of a call that succeeds, for each function.
    - `bad`: cases that fail. Each documented code of each function has one, or a reason in `unreachable`.
    - `hosts`: functions to which the device -1 is the host.
    - `never`: functions that never succeed, and have only cases.
    - `anything`: parameters that take any object at all; `nullable`: pointers and handles that may be None. Streams
      always may.
    """

    functions: ClassVar[tuple[str, ...]]
    good: ClassVar[Mapping[str, Arguments]]
    bad: ClassVar[tuple[Case, ...]] = ()
    unreachable: ClassVar[Mapping[tuple[str, Result], str]] = {}
    hosts: ClassVar[frozenset[str]] = frozenset()
    never: ClassVar[frozenset[str]] = frozenset()
    anything: ClassVar[frozenset[tuple[str, str]]] = frozenset()
    nullable: ClassVar[frozenset[tuple[str, str]]] = frozenset()

    def __init_subclass__(cls) -> None:
        """Leave out the tests that have no rows here."""
        super().__init_subclass__()
        if not hasattr(cls, "functions"):
            cls.functions = (*cls.good, *cls.never)
        for test, found in cls.rows().items():
            if not found:
                setattr(cls, test, None)

    @classmethod
    def rows(cls) -> dict[str, list[tuple[Any, ...]]]:
        """Return what each test is run with: the function's name, and perhaps a parameter's name or a case.

        Both the tests and `make conformance` go through these.
        """
        succeed = [name for name in cls.functions if name not in cls.never]
        names = [(name,) for name in succeed]
        parameters = [(FUNCTIONS[name], each) for name in succeed for each in FUNCTIONS[name].parameters]
        typed = [(function, each) for function, each in parameters if (function.name, each.name) not in cls.anything]
        return {
            "test_success": names,
            "test_keywords": names,
            "test_wrong_count": names,
            "test_twin": [(name,) for name in succeed if FUNCTIONS[name].waits],
            "test_wrong_type": [(function.name, each.name) for function, each in typed],
            "test_null": [
                (function.name, each.name)
                for function, each in typed
                if ("*" in each.type or each.type in HANDLE_TYPES)
                and each.type not in ("topsStream_t", "hipStream_t")
                and (function.name, each.name) not in cls.nullable
            ],
            "test_wrong_device": [
                (function.name, each.name) for function, each in parameters if each.name in ORDINALS
            ],
            "test_destroyed": [
                (function.name, each.name)
                for function, each in parameters
                if each.type in HANDLE_TYPES and (function.name, each.name) not in cls.anything
            ],
            "test_failure": [(case.function, case) for case in cls.bad],
        }

    @classmethod
    def documented(cls) -> set[tuple[str, Result]]:
        """Return each code of each entry."""
        return {(name, code) for name in cls.functions for code in FUNCTIONS[name].codes}

    @classmethod
    def met(cls) -> set[tuple[str, Result]]:
        """Return the codes that cases meet, of which the entries need not tell."""
        return {(case.function, Result(int(case.code))) for case in cls.bad if isinstance(case.code, CODES)}

    # ---- the tests: each goes through its rows, with a new board for each

    def test_success(self) -> None:
        """The call succeeds, returns as many results as the table says, and leaves no error behind."""
        self._every("test_success", self.check_success)

    def test_keywords(self) -> None:
        """The arguments have the names that C gives them."""
        self._every("test_keywords", self.check_keywords)

    def test_twin(self) -> None:
        """The awaitable form answers what the blocking one does."""
        self._every("test_twin", self.check_twin)

    def test_wrong_count(self) -> None:
        """Arguments too few or too many are InvalidValue; nothing is raised."""
        self._every("test_wrong_count", self.check_wrong_count)

    def test_wrong_type(self) -> None:
        """An argument of no type that the parameter takes is a failure, and every result is None."""
        self._every("test_wrong_type", self.check_wrong_type)

    def test_null(self) -> None:
        """Null for a pointer or a handle is a failure, and every result is None."""
        self._every("test_null", self.check_null)

    def test_wrong_device(self) -> None:
        """The number of no device is a failure, and every result is None."""
        self._every("test_wrong_device", self.check_wrong_device)

    def test_destroyed(self) -> None:
        """A handle that was destroyed is a failure, and every result is None."""
        self._every("test_destroyed", self.check_destroyed)

    def test_failure(self) -> None:
        """The call answers the code that the entry documents, or that the header has for it."""
        self._every("test_failure", self.check_failure)

    def test_every_documented_code_has_a_case(self) -> None:
        """Each code of each entry has a case, or a reason why no call can meet it."""
        met, unreachable = self.met(), set(self.unreachable)
        assert self.documented() - met - unreachable == set()
        assert unreachable & met == set()
        assert unreachable <= self.documented()
        assert all(self.unreachable.values())
        assert set(self.good) | self.never == set(self.functions) and not self.never & set(self.good)

    def check_success(self, world: World, name: str) -> None:
        """Check one row of `test_success`."""
        answer = implementation(name)(*arguments_of(self.good[name], world))
        assert answer[0] == 0, explain(answer)
        assert len(answer) == 1 + FUNCTIONS[name].outs
        assert None not in answer[1:]
        assert api_of(name).last() is None

    def check_keywords(self, world: World, name: str) -> None:
        """Check one row of `test_keywords`."""
        names = [each.name for each in FUNCTIONS[name].parameters]
        arguments = arguments_of(self.good[name], world)
        answer = implementation(name)(**dict(zip(names, arguments, strict=False)))
        assert answer[0] == 0, explain(answer)

    def check_twin(self, world: World, name: str) -> None:
        """Check one row of `test_twin`."""
        for backend in ("asyncio", "trio"):
            arguments = arguments_of(self.good[name], world)
            answer = anyio.run(TWINS[name], *arguments, backend=backend)
            assert answer[0] == 0, explain(answer)
            assert len(answer) == 1 + FUNCTIONS[name].outs

    def check_wrong_count(self, world: World, name: str) -> None:
        """Check one row of `test_wrong_count`."""
        given = arguments_of(self.good[name], world)
        missing = implementation(name)(*given[:-1]) if required(FUNCTIONS[name]) and given else None
        over = implementation(name)(*given, *([None] * 20))
        for answer in (missing, over):
            if answer is not None and (answer is over or len(given) <= required(FUNCTIONS[name])):
                assert answer[0] != 0
                assert answer[1:] == (None,) * FUNCTIONS[name].outs

    def check_wrong_type(self, world: World, name: str, parameter: str) -> None:
        """Check one row of `test_wrong_type`."""
        self._fails(self._with(world, name, parameter, object()), name)

    def check_null(self, world: World, name: str, parameter: str) -> None:
        """Check one row of `test_null`."""
        for null in (None, 0):
            self._fails(self._with(world, name, parameter, null), name)

    def check_wrong_device(self, world: World, name: str, parameter: str) -> None:
        """Check one row of `test_wrong_device`."""
        for ordinal in (-2 if name in self.hosts else -1, world.driver.devices, 1 << 40):
            self._fails(self._with(world, name, parameter, ordinal), name)

    def check_destroyed(self, world: World, name: str, parameter: str) -> None:
        """Check one row of `test_destroyed`."""
        destroyed = dead_handle(self._arguments(world, name).get(parameter))
        self._fails(self._with(world, name, parameter, destroyed), name)

    def check_failure(self, world: World, name: str, case: Case) -> None:
        """Check one row of `test_failure`."""
        arguments = arguments_of(case.arguments, world)
        api_of(name).forget()
        answer = implementation(name)(*arguments)
        assert answer[0] is case.code, explain(answer)
        assert answer[1:] == (None,) * FUNCTIONS[name].outs
        if case.code != Result.NotReady and isinstance(case.code, CODES):
            stored = api_of(name).last()
            assert stored is not None and stored.code is case.code

    def after_row(self) -> None:
        """Undo what a row leaves behind outside its board."""

    def _every(self, test: str, check: Callable[..., None]) -> None:
        """Run `check` for each row of a test, each on a board of its own; name the rows that fail together."""

        def one(*row: Any) -> None:
            with new_world() as world:
                try:
                    check(world, *row)
                finally:
                    self.after_row()

        rows = self.rows()[test]
        found = failures(one, rows, lambda row: "-".join(each.what if isinstance(each, Case) else each for each in row))
        assert not found, f"{len(found)} of {len(rows)} rows failed:\n" + "\n".join(found)

    def _arguments(self, world: World, name: str) -> dict[str, Any]:
        names = [each.name for each in FUNCTIONS[name].parameters]
        return dict(zip(names, arguments_of(self.good[name], world), strict=False))

    def _with(self, world: World, name: str, parameter: str, value: Any) -> tuple[Any, ...]:
        return implementation(name)(**{**self._arguments(world, name), parameter: value})

    def _fails(self, answer: tuple[Any, ...], name: str) -> None:
        assert answer[0] not in (0, Result.Unknown), explain(answer)
        assert answer[1:] == (None,) * FUNCTIONS[name].outs


def arguments_of(arguments: Arguments, world: World) -> tuple[Any, ...]:
    """Return the arguments of a row, made in this world if they must be."""
    return arguments(world) if callable(arguments) else arguments


def dead_handle(good: Any) -> int:
    """Return the handle of something destroyed: of what a good argument stands for, or of a stream where it is null."""
    if not isinstance(good, int) or not good:
        good = register(object(), None)
    take(good, object)
    return good


def required(function: Function) -> int:
    """Return how many arguments the function cannot do without."""
    return sum(each.default is None for each in function.parameters)


def explain(answer: tuple[Any, ...]) -> str:
    """Return what to print with an answer that was not expected."""
    error = (hip_api if isinstance(answer[0], hipError_t) else tops_api).last()
    return f"{answer!r}: {error.message if error else ''}"


def fresh() -> None:
    """Forget what an earlier test left behind in this thread."""
    tops_api.forget()
    hip_api.forget()
    SCHEDULES.clear()
