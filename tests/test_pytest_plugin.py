"""The pytest plugin: boards for tests of every kind, schedules that a command repeats, and leaks by their lines."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from importlib.metadata import entry_points

import pytest

from tests.architecture.source_tree import ROOT

# Where the package is installed pytest finds the plugin itself.
INSTALLED = any(each.name == "atops" for each in entry_points(group="pytest11"))
pytestmark = pytest.mark.slow  # each test runs a suite in a process of its own
INI = "[pytest]\nfilterwarnings = error\n"
OF_OTHERS = "asyncio_mode = strict\nasyncio_default_fixture_loop_scope = function\n"
HEAD = """
import asyncio
import numpy as np
import pytest
import atops
from atops import kernels as k

KEPT = []

def fail():
    raise ValueError("no")
"""

Run = Callable[..., pytest.RunResult]


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a function that runs a suite of one file in a process of its own.

    With every plugin that is installed if `others`, as users have it; else with that of atops alone, in half the time.
    """
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}:{ROOT / 'widgets'}")

    def run_file(text: str, *arguments: str, others: bool = False) -> pytest.RunResult:
        if not others:
            monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
        pytester.makeini(INI + OF_OTHERS * others)
        pytester.makepyfile(test_it=HEAD + text)
        own = () if INSTALLED and others else ("-p", "_atops_pytest")
        return pytester.runpytest_subprocess(*own, *arguments)

    return run_file


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> pytest.LineMatcher:
    """Run all of SHARED as one suite, in one process with the plugin of atops alone, and return what it says."""
    folder = tmp_path_factory.mktemp("shared")
    (folder / "pytest.ini").write_text(INI)
    for name, text in SHARED.items():
        (folder / f"test_{name}.py").write_text(HEAD + text)
    changes = {"PYTHONPATH": f"{ROOT}:{ROOT / 'widgets'}", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-m", "pytest", "-v", "-p", "_atops_pytest", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=folder, env=os.environ | changes, capture_output=True, text=True, timeout=100)
    print(done.stdout, done.stderr)
    return pytest.LineMatcher(done.stdout.splitlines())


def outcomes(shared: pytest.LineMatcher, name: str) -> dict[str, int]:
    """Return how often each outcome came in a file of SHARED."""
    pattern = rf"^test_{name}\.py::.* (PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS)\b.*%\]$"
    return dict(Counter(found[1].lower() for line in shared.lines if (found := re.match(pattern, line))))


BOARDS = """
def doubled(stream):
    assert atops.current_driver() is stream.driver
    x = stream.upload(np.arange(4, dtype=np.float32))
    stream.fill(x, 3.0)
    return stream.fetch(x)

def test_plain(atops_driver, atops_device, atops_stream):
    assert atops_device.driver is atops_driver is atops_stream.driver and not atops_driver.inline
    assert doubled(atops_stream).wait_sync().sum() == 12

class TestInAClass:
    @pytest.mark.parametrize("value", [1, 2])
    def test_parameters(self, atops_stream, value):
        self.kept = atops_stream.zeros(value)

async def test_that_no_other_plugin_runs(atops_stream):
    assert atops_stream.driver.inline
    assert (await doubled(atops_stream)).sum() == 12

@pytest.mark.asyncio
async def test_of_pytest_asyncio(atops_stream):
    assert (await doubled(atops_stream)).sum() == 12

@pytest.mark.anyio
async def test_of_anyio(atops_stream, anyio_backend_name):
    assert (await doubled(atops_stream)).sum() == 12

@pytest.fixture(scope="module")
def shared():
    device = atops.Device(0)
    return device, device.allocate(100)

@pytest.fixture
def mine(atops_device):
    return atops_device.allocate(100)

def test_of_fixtures(shared, mine, atops_driver):
    device, memory = shared
    assert device.driver is not atops_driver is mine.driver

def test_the_wider_fixture_again(shared):
    pass
"""


def test_boards_serve_tests_of_every_kind(run: Run):
    """Plain and async tests, on each plugin's loops, in classes, with parameters and fixtures, have a board."""
    run(BOARDS, others=True).assert_outcomes(passed=9)


def test_workers_of_xdist_have_boards(run: Run):
    """The same in two processes."""
    run(BOARDS, "-n", "2", others=True).assert_outcomes(passed=9)


def test_the_example_of_the_page_passes(shared: pytest.LineMatcher):
    """What the how-to page shows is a suite that passes."""
    assert outcomes(shared, "page") == {"passed": 30}


def test_async_tests_in_auto_mode_are_the_other_plugins(run: Run):
    """Where pytest-asyncio takes every async test, the board has its own threads."""
    text = """
async def test_auto(atops_stream):
    assert not atops_stream.driver.inline
    await atops_stream.call(int)
"""
    run(text, "-o", "asyncio_mode=auto", others=True).assert_outcomes(passed=1)


OPTIONS = """
@pytest.fixture(params=["gcu210", "gcu300"])
def atops_options(request):
    return atops.EmulatorOptions(arch=request.param, devices=2, clock="virtual")

async def test_options(atops_driver, request):
    assert atops_driver.options.arch in request.node.name and atops_driver.devices == 2
    before = asyncio.get_running_loop().time()
    await asyncio.sleep(3600)
    assert asyncio.get_running_loop().time() - before == 3600
"""


def test_options_are_a_fixture(shared: pytest.LineMatcher):
    """A fixture called atops_options takes the place of the plugin's."""
    assert outcomes(shared, "options") == {"passed": 2}


SCHEDULES = """
@pytest.mark.atops_schedules(20)
async def test_race(request):
    order = []
    async with atops.Device(0).create_stream() as one, atops.Device(0).create_stream() as other:
        for _ in range(4):
            one.call(order.append, 1)
            other.call(order.append, 2)
    with open("orders.txt", "a") as file:
        print(*order, file=file)
    assert order[0] == 1

@pytest.mark.atops_schedules(n=2)
@pytest.mark.parametrize("name", ["a", "b"])
class TestPlain:
    def test_plain(self, atops_seed, name):
        assert atops.current_driver().options.seed == atops_seed
        with atops.Device(0).create_stream().auto_synchronize() as stream:
            stream.call(int)
"""


def test_a_schedule_is_repeated_by_the_command_that_its_failure_names(run: Run, pytester: pytest.Pytester):
    """Each seed is a test; the report of one that fails names the seed and a command, which gives the same order."""
    result = run(SCHEDULES)
    outcomes = result.parseoutcomes()
    assert outcomes["passed"] + outcomes["failed"] == 24 and 0 < outcomes["failed"] < 20
    orders = (pytester.path / "orders.txt").read_text(encoding="utf-8").splitlines()
    assert len(set(orders)) > 5
    command = next(line for line in result.outlines if "this repeats it: " in line)
    seed = int(command.split()[1].rstrip(";"))
    assert command == f"seed {seed}; this repeats it: pytest 'test_it.py::test_race[seed{seed}]'"
    for _ in range(2):
        run(SCHEDULES, f"test_it.py::test_race[seed{seed}]").assert_outcomes(failed=1)
        assert (pytester.path / "orders.txt").read_text(encoding="utf-8").splitlines()[-1] == orders[seed]


def test_the_option_gives_seeds_to_whatever_uses_a_board(run: Run):
    """--atops-seeds runs tests with a fixture of atops under so many seeds, marked ones too, and no others."""
    text = """
def test_board(atops_device, atops_seed):
    assert atops_device.driver.options.seed == atops_seed is not None and atops_seed < 1

@pytest.mark.atops_schedules(9)
def test_marked(): pass

def test_other(): pass
"""
    result = run(text, "--atops-seeds", "2")
    result.assert_outcomes(passed=4, failed=1)
    result.stdout.fnmatch_lines(["seed 1; this repeats it: pytest 'test_it.py::test_board[[]seed1]' --atops-seeds 2"])


def test_a_marker_without_a_number_is_refused(run: Run, pytester: pytest.Pytester):
    """A number of schedules that is none is an error of the file, which names what was given."""
    markers = ("0", "'3'", "True", "", "1, 2", "m=1")
    for at, marker in enumerate(markers):
        marked = f"import pytest\n@pytest.mark.atops_schedules({marker})\ndef test_marked(): pass\n"
        pytester.makepyfile(**{f"test_{at}": marked})
    result = run("def test_it(): pass\n", "--continue-on-collection-errors")
    result.assert_outcomes(passed=1, errors=len(markers))
    for at, marker in enumerate(markers):
        said = f"test_{at}.py::test_marked: atops_schedules({marker}); expected the number of seeds, 1 or more"
        assert said in result.outlines


def test_no_seeds_are_refused(run: Run):
    """--atops-seeds 0 is an error of the command line."""
    result = run("def test_one(): pass\n", "--atops-seeds", "0")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--atops-seeds is 0; expected 1 or more"])


LEAKS = {
    "KEPT.append(atops_device.allocate(4096))": "4 KiB of memory of device 0 are held; made at test_leaks_*.py:*",
    "KEPT.append(atops.Device(0).zeros(1024))": "4 KiB of memory of device 0 are held; made at test_leaks_*.py:*",
    "KEPT.append(atops_device.host_malloc(1024))": "1 KiB of host memory are held; made at test_leaks_*.py:*",
    "KEPT.append(atops_device.create_stream(name='load'))": "stream 'load' is open; made at test_leaks_*:* in test_*",
    "KEPT.append(atops.Driver())": "<Driver *: gcu300 x 1, threaded> is not closed",
    "atops_device.create_stream().call(fail)": "stream ? ended with a failure that was never looked at: fail raised *",
    "atops_device.create_stream(name='s').call(fail).stream.close()": "s ended with a failure that was never looked *",
    "atops_device.null_stream.call(fail)": "null stream ended with a failure that was never looked at: *",
}


def leaks(own_board: bool) -> str:
    """Return a file with a test for each of LEAKS, and one behind each that leaves nothing."""
    device = "atops_device" if own_board else "no=0"
    make = "" if own_board else "atops_device = atops.Device(0); "
    return "\n".join(
        f"def test_{own_board}_{number}({device}):\n    {make}{line}\n\ndef test_between_{number}(): pass\n"
        for number, line in enumerate(LEAKS)
    )


@pytest.mark.parametrize("own_board", [True, False])
def test_what_a_test_leaves_is_named_with_its_line(shared: pytest.LineMatcher, own_board: bool):
    """Memory, streams, drivers and failures, on the test's board and the default one, in the test that left them."""
    assert outcomes(shared, f"leaks_{own_board}") == {"passed": 2 * len(LEAKS), "error": len(LEAKS)}
    for number, text in enumerate(LEAKS.values()):
        lines = [f"*ERROR at teardown of test_{own_board}_{number} *", "the test leaves behind:", f"  {text}*"]
        shared.fnmatch_lines(lines, consecutive=True)


DETAILED = """
def cached(device):
    KEPT.append(device.allocate(4096))

def fill(device):
    cached(device)

def test_leak(atops_driver, atops_device):
    with atops_driver.tracer.detailed():
        fill(atops_device)
"""


def test_what_led_to_a_leak_is_told_where_details_were_recorded(shared: pytest.LineMatcher):
    """Memory that was made while details were recorded is told with the functions that called for it."""
    assert outcomes(shared, "detailed") == {"passed": 1, "error": 1}
    calls = "test_detailed.py:* in fill, test_detailed.py:* in test_leak"
    shared.fnmatch_lines([f"  4 KiB of * are held; made at test_detailed.py:* in cached, called at {calls}"])


NO_LEAK = """
factor = k.device_variable(np.float32, [3.0])

@k.kernel
def scale(x):
    x.fill(factor[0])

def test_variables_of_kernels_last(atops_driver, atops_device, atops_stream):
    array = atops_device.empty(2)
    atops_device.null_stream.launch(scale, (1, 1), array)
    assert atops_device.null_stream.fetch(array).wait_sync().sum() == 6

def test_cycle(atops_device):
    cycle = [atops_device.allocate(100), atops_device.create_stream()]
    cycle.append(cycle)

def test_looked_at(atops_device):
    with pytest.raises(atops.errors.ExecutionError) as caught:
        atops_device.create_stream().call(fail).wait_sync()

class TestObject:
    def setup_method(self):
        self.one = atops.Device(0).allocate(100)

    def test_object(self, atops_device):
        self.other = atops_device.create_stream()

    def teardown_method(self):
        assert self.one.nbytes == 100

def test_queued(atops_stream):
    atops_stream.call(int)
    atops_stream.fill(atops_stream.zeros(1000), 1.0)

@pytest.mark.atops_leak_check(False)
def test_switched_off(atops_device):
    KEPT.append(atops_device.allocate(100))

@pytest.mark.xfail(strict=True)
def test_that_fails(atops_device):
    KEPT.append(atops_device.allocate(100))
    raise ValueError
"""


def test_what_is_no_leak_is_not_told(shared: pytest.LineMatcher):
    """Cycles, failures that were looked at, what an object of a class holds, failed tests, and what is switched off."""
    assert outcomes(shared, "no_leak") == {"passed": 6, "xfail": 1}


def test_the_leak_check_is_switched_off_by_the_ini_value_and_on_by_the_marker(run: Run):
    """The marker goes before the ini value."""
    text = """
def test_off():
    KEPT.append(atops.Device(0).allocate(100))

@pytest.mark.atops_leak_check
def test_on():
    KEPT.append(atops.Device(0).allocate(100))
"""
    run(text, "-o", "atops_leak_check=false").assert_outcomes(passed=2, errors=1)


def test_work_that_does_not_end_is_named(shared: pytest.LineMatcher):
    """A stream whose work goes on for ever is told with the command that runs."""
    assert outcomes(shared, "endless") == {"passed": 1, "error": 1}
    shared.fnmatch_lines(["  stream 'atops_stream' is open, * of its commands not over, the first *wait_value*"])


def test_the_plugin_is_loaded_without_the_runtime():
    """A process that has loaded the plugin has not imported atops."""
    program = "import sys, _atops_pytest; print([name for name in ('atops', 'numpy') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.stdout == "[]\n", done.stderr


def test_the_plugin_can_be_left_out(run: Run):
    """With -p no:atops nothing of it is there."""
    text = "def test_leak(): KEPT.append(atops.Device(0).allocate(100))\n"
    run(text, "-p", "no:atops" if INSTALLED else "no:_atops_pytest", others=True).assert_outcomes(passed=1)


CHECKED = """
async def update(lock):
    total = [0]

    async def add():
        async with lock or asyncio.Semaphore(9):
            value = total[0]
            await asyncio.sleep(0)
            total[0] = value + 1

    await asyncio.gather(add(), add())
    assert total[0] == 2

@pytest.mark.schedules(50)
async def test_wrong():
    await update(None)

@pytest.mark.schedules(50, strategy="pct", seed=3)
@pytest.mark.parametrize("number", [1, 2])
async def test_right(number):
    await update(asyncio.Lock())
    assert number and atops.current_driver().inline

@pytest.mark.schedules(0)
def test_no_number():
    pass

@pytest.mark.schedules(5)
def test_board_of_a_fixture(atops_device):
    pass
"""


def test_schedules_are_checked_in_one_test(shared: pytest.LineMatcher):
    """A test that is marked fails with the report; wrong arguments and boards of fixtures are refused."""
    assert outcomes(shared, "checked") == {"passed": 2, "failed": 3}
    shared.fnmatch_lines(["*test_wrong fails under *", "*EmulatorOptions(schedule=*"])
    shared.fnmatch_lines(["*schedules is 0; expected a whole number, 1 or more*"])
    shared.fnmatch_lines(["*take atops.Device(0) in the test instead*"])


PAGE = (ROOT / "docs/howto/test_a_kernel.md").read_text(encoding="utf-8")
SHARED = {  # suites for one process, by the names of their files
    "page": PAGE.partition("```python fragment\n")[2].partition("```")[0],
    "options": OPTIONS,
    "leaks_True": leaks(own_board=True),
    "leaks_False": leaks(own_board=False),
    "detailed": DETAILED,
    "no_leak": NO_LEAK,
    "endless": "def test_it(atops_stream): atops_stream.wait_value(atops_stream.zeros(1, np.int32), 1)\n",
    "checked": CHECKED,
}
