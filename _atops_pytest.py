"""The pytest plugin of atops: boards for tests, schedules by seed, and a look for what each test leaves behind.

PYTEST_DONT_REWRITE. It stands beside the package, so that pytest loads it without loading the runtime: that is
imported when a fixture asks for it.
"""

from __future__ import annotations

import functools
import inspect
import os
import shlex
import sys
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from atops import Device, Driver, EmulatorOptions, Stream
    from atops.testing import BoardForTest, Key, Leaks

SEED = "atops_seed"  # the fixture that tests are parametrized by
RUNNERS = ("anyio", "asyncio", "trio")  # markers of the plugins that run async tests themselves
BOARD: pytest.StashKey[BoardForTest] = pytest.StashKey()
PASSED: pytest.StashKey[bool] = pytest.StashKey()
LEAKS: list[Leaks] = []  # one a process, once there is a runtime to look at
BEFORE: set[Key] = set()  # what was alive before the test that runs now, or outlives it


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option and the ini value."""
    parser.getgroup("atops").addoption(
        "--atops-seeds", type=int, default=None, metavar="N",
        help="run each test that uses a fixture of atops, or is marked atops_schedules, under the seeds 0 to N-1",
    )  # fmt: skip
    parser.addini(
        "atops_leak_check", "whether a test fails that leaves device memory, streams or failures behind",
        type="bool", default=True,
    )  # fmt: skip


def pytest_configure(config: pytest.Config) -> None:
    """Declare the markers. Refuses a number of seeds below 1."""
    for line in (
        "schedules(n, strategy='random', ...): check the test under n schedules; arguments as of atops.check",
        "atops_schedules(n): run the test under the seeds 0 to n-1, each of which gives another order",
        "atops_leak_check(on): look for what the test leaves behind, or do not; it goes before the ini value",
    ):
        config.addinivalue_line("markers", line)
    seeds = config.getoption("--atops-seeds")
    if seeds is not None and seeds < 1:
        raise pytest.UsageError(f"--atops-seeds is {seeds}; expected 1 or more")


# ---- schedules


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make a test of each seed."""
    marker = metafunc.definition.get_closest_marker("atops_schedules")
    count = None if marker is None else _count(metafunc.definition.nodeid, marker)
    if marker is not None or "atops_driver" in metafunc.fixturenames:
        count = metafunc.config.getoption("--atops-seeds") or count
    if count is None:
        return
    if SEED not in metafunc.fixturenames:
        metafunc.fixturenames.append(SEED)
    metafunc.parametrize(SEED, range(count), indirect=True, ids=[f"seed{seed}" for seed in range(count)])


def _count(name: str, marker: pytest.Mark) -> int:
    count = marker.args[0] if marker.args else marker.kwargs.get("n")
    if len(marker.args) + len(marker.kwargs) != 1 or not isinstance(count, int) or isinstance(count, bool) or count < 1:
        text = ", ".join([*map(repr, marker.args), *(f"{key}={value!r}" for key, value in marker.kwargs.items())])
        pytest.fail(f"{name}: atops_schedules({text}); expected the number of seeds, 1 or more", pytrace=False)
    return count


def _runs_elsewhere(item: pytest.Item) -> bool:
    """Say whether another plugin runs this test, or fixtures of it, on a loop of its own."""
    if any(item.get_closest_marker(name) for name in RUNNERS):
        return True
    if "anyio_backend" in getattr(item, "fixturenames", ()):
        return True
    known = getattr(getattr(item, "_fixtureinfo", None), "name2fixturedefs", {})
    functions = [inspect.unwrap(definitions[-1].func) for definitions in known.values() if definitions]
    return any(inspect.iscoroutinefunction(each) or inspect.isasyncgenfunction(each) for each in functions)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run an async test that no other plugin runs, on the loop of its board; or check one under many schedules."""
    if (marker := pyfuncitem.get_closest_marker("schedules")) is not None:
        _check(pyfuncitem, marker)
        return True
    board = pyfuncitem.stash.get(BOARD, None)
    if board is None or not board.inline or not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    board.run(pyfuncitem.obj, {name: pyfuncitem.funcargs[name] for name in names})
    return True


def _check(item: pytest.Function, marker: pytest.Mark) -> None:
    """Run a test under many schedules, each with a board of its own, and fail with the report."""
    from atops.base.errors import UsageError
    from atops.checking.check import check

    names = item._fixtureinfo.argnames
    if boards := [name for name in names if name in ("atops_driver", "atops_device", "atops_stream")]:
        pytest.fail(
            f"{item.name} is marked schedules, which makes a board for each, and asks for {', '.join(boards)}; "
            "take atops.Device(0) in the test instead",
            pytrace=False,
        )
    arguments = {name: item.funcargs[name] for name in names}
    program = functools.partial(item.obj, **arguments) if arguments else item.obj
    options = {"options": arguments["atops_options"]} if "atops_options" in arguments else {}
    try:
        report = check(program, *marker.args, **{**options, **marker.kwargs})
    except (TypeError, UsageError) as error:
        given = [*map(repr, marker.args), *(f"{name}={value!r}" for name, value in marker.kwargs.items())]
        pytest.fail(f"{item.nodeid}: schedules({', '.join(given)}): {error}", pytrace=False)
    report.raise_if_failed()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Note whether the test passed; name the seed of one that failed, and the command that repeats it."""
    report = yield
    if call.when == "call":
        item.stash[PASSED] = report.passed
    seed = getattr(getattr(item, "callspec", None), "params", {}).get(SEED)
    if seed is not None and report.failed:
        name, text = "atops schedule", _repeating(item, seed)
        if (add := getattr(report.longrepr, "addsection", None)) is not None:
            add(name, text)
        else:
            report.sections.append((name, text))
    return report


def _repeating(item: pytest.Item, seed: int) -> str:
    path = os.path.relpath(item.path, item.config.invocation_params.dir)
    command = ["pytest", "::".join([path, *item.nodeid.split("::")[1:]])]
    if (count := item.config.getoption("--atops-seeds")) is not None:
        command += ["--atops-seeds", str(count)]
    text = f"seed {seed}; this repeats it: {shlex.join(command)}"
    if (board := item.stash.get(BOARD, None)) is not None and not board.inline:
        text += "\n(its kernels; the order between streams is up to the loop that another plugin runs the test on)"
    return text


# ---- fixtures


@pytest.fixture
def atops_seed(request: pytest.FixtureRequest) -> int | None:
    """The seed of this run of the test, None where it has none."""
    seed: int | None = getattr(request, "param", None)
    return seed


@pytest.fixture
def atops_options() -> EmulatorOptions:
    """The options of `atops_driver`; a fixture of this name in a conftest, a module or a class takes its place."""
    from atops.base.options import EmulatorOptions

    return EmulatorOptions.from_environment()


@pytest.fixture
def atops_driver(
    request: pytest.FixtureRequest, atops_options: EmulatorOptions, atops_seed: int | None
) -> Iterator[Driver]:
    """A driver for this test, `atops.default_driver()` meanwhile.

    An async test that no other plugin runs shares one thread with it, and so does a plain test under a seed, as in
    `atops.run`; for all others it has its own threads.
    """
    from dataclasses import replace

    from atops.testing import BoardForTest

    item = request.node
    options = atops_options if atops_seed is None else replace(atops_options, seed=atops_seed)
    inline = not _runs_elsewhere(item) and (atops_seed is not None or inspect.iscoroutinefunction(item.obj))
    board = item.stash[BOARD] = BoardForTest(options, item.name, inline)
    BEFORE.add(("driver", board.driver.number, 0))  # it is closed behind the last fixture, when what is left is known
    yield board.driver
    board.restore()


@pytest.fixture
def atops_device(atops_driver: Driver) -> Device:
    """Device 0 of `atops_driver`."""
    from atops import Device

    return Device(0, atops_driver)


@pytest.fixture
def atops_stream(request: pytest.FixtureRequest, atops_device: Device) -> Iterator[Stream]:
    """A stream of `atops_device`. Behind the test its work ends, and what its verbs made is freed."""
    stream = atops_device.create_stream(name="atops_stream")
    yield stream
    request.node.stash[BOARD].end(stream, request.node.stash.get(PASSED, False))


@pytest.fixture(autouse=True)
def _atops_schedule(request: pytest.FixtureRequest) -> None:
    """Give a marked test its board, also where it asks for none."""
    if request.node.get_closest_marker("atops_schedules") is None:
        return
    if SEED not in getattr(getattr(request.node, "callspec", None), "params", {}):
        pytest.fail("atops_schedules is for test functions and methods of plain classes, not of a TestCase", False)
    request.getfixturevalue("atops_driver")


# ---- what a test leaves behind


def _leaks() -> Leaks:
    from atops.testing import Leaks

    if not LEAKS:
        LEAKS.append(Leaks())
    return LEAKS[0]


def _checks(item: pytest.Item) -> bool:
    """Say whether to look at what a test has left: not where it failed, for then its frames hold what they hold."""
    marker = item.get_closest_marker("atops_leak_check")
    wanted = item.config.getini("atops_leak_check") if marker is None else marker.args[0] if marker.args else True
    return bool(wanted) and item.stash.get(PASSED, False)


def _runtime_is_loaded() -> bool:
    return "atops.runtime.stream" in sys.modules  # which `import atops` loads behind most others


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Note what is alive before a test."""
    BEFORE.clear()
    if _runtime_is_loaded():
        _leaks().begin()
        BEFORE.update(_leaks().alive())


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any]) -> Generator[None, object, object]:
    """Note what a fixture makes that outlives the test: it is no leak of the test."""
    result = yield
    if fixturedef.scope != "function" and _runtime_is_loaded():
        BEFORE.update(_leaks().alive())
    return result


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    """Fail a test that passed and has left something behind."""
    try:
        result = yield
        if _checks(item) and _runtime_is_loaded() and (left := _leaks().left(BEFORE, lambda: _let_go(item))):
            pytest.fail("the test leaves behind:\n" + "\n".join(f"  {each}" for each in left), pytrace=False)
    finally:
        if (board := item.stash.get(BOARD, None)) is not None:
            board.close()
    return result


def _let_go(item: pytest.Item) -> None:
    """Forget what pytest keeps of a test until it begins the next one: values of fixtures, attributes of its object."""
    getattr(item, "funcargs", {}).clear()
    if (instance := getattr(item, "_instance", None)) is not None:
        vars(instance).clear()
