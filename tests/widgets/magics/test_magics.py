"""The notebook extension, in a shell of its own: `%%kernel`, `%%timeline`, `%atops`, and how failures are shown."""

from __future__ import annotations

import asyncio
import atexit
import re
from collections.abc import Iterator
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from traitlets.config import Config

import atops
from atops.device.call_site import NAMERS
from atops.runtime.driver import board_of
from atops_widgets.magics.magics import status

pytestmark = pytest.mark.slow

COLOURS = re.compile(r"\x1b\[[\d;]*m")

FAIL = """
@k.kernel
def spoil(x):
    if k.threadIdx.x == 3:
        where = 10 * x.size
        x[where] = 1
""".lstrip()


class Cells:
    """A shell that is asked to run cells and says what they showed."""

    def __init__(self, shell: InteractiveShell) -> None:
        self.shell = shell

    def run(self, *cells: str) -> str:
        """Run cells and return what they printed and displayed, as plain text."""
        with capture_output() as shown:
            for cell in cells:
                self.shell.run_cell(cell, store_history=True)
        return COLOURS.sub("", f"{shown.stdout}{shown.stderr}" + "".join(_plain(each) for each in shown.outputs))

    def run_in_a_loop(self, cell: str) -> str:
        """Run a cell as a kernel does: by the coroutine of IPython, in a loop that runs already."""

        async def main() -> None:
            result = None
            try:
                result = await self.shell.run_cell_async(cell, transformed_cell=self.shell.transform_cell(cell))
            finally:
                self.shell.events.trigger("post_run_cell", result)

        with capture_output() as shown:
            asyncio.run(main())
        return COLOURS.sub("", f"{shown.stdout}{shown.stderr}" + "".join(_plain(each) for each in shown.outputs))


def _plain(output: Any) -> str:
    return f"\n{output.data['text/plain']}"


@pytest.fixture
def cells() -> Iterator[Cells]:
    """A shell with the extension, and a driver of its own under the name `board`."""
    config = Config()
    config.HistoryManager.enabled = False
    shell = InteractiveShell.instance(config=config)
    try:
        found = Cells(shell)
        found.run(
            "%load_ext atops_widgets\nimport asyncio\nimport numpy as np\nimport atops\nfrom atops import kernels as k",
            "board = atops.Driver()\nstream = atops.Device(0, board).create_stream()",
            "x = stream.zeros(12)\nstream.sync()",
        )
        yield found
        found.run("board.close()", "%unload_ext atops_widgets")
    finally:
        atexit.unregister(shell.atexit_operations)
        shell.atexit_operations()
        shell.restore_sys_module_state()  # its __main__ is empty from here on
        InteractiveShell.clear_instance()


def test_a_cell_of_source_defines_kernels(cells: Cells):
    """Kernels, functions and variables land in the namespace; options count; the first line counts as a line."""
    said = cells.run(
        "%%kernel -DSTEP=2\n"
        "steps = k.device_variable(np.int32)\n"
        "@k.device\ndef more(value): return value + STEP\n"
        "@k.kernel\ndef grow(x):\n    tile = k.local(64, np.float32)\n    x[k.thread_id()] = more(x[k.thread_id()])\n",
        "stream.launch(grow, (1, 12), x)\nprint(stream.fetch(x).wait_sync())",
    )  # fmt: skip
    assert "grow(x): 256 B of L1 a thread\nand more, steps\n" in said
    assert "[2. 2. 2. 2. 2. 2. 2. 2. 2. 2. 2. 2.]" in said


@pytest.mark.slow
def test_a_cell_of_cxx_defines_kernels(cells: Cells):
    """`%%kernel cxx`: TOPS C++ with its options and the cell's lines; a cell that is none is refused."""
    source = 'extern "C" __global__ void grow(float *x, float by) { x[threadIdx.x] += by * STEP; }\n'
    said = cells.run(
        f"%%kernel cxx -DSTEP=2\n{source}",
        "stream.launch(grow, (1, 12), x, 1.0)\nprint(stream.fetch(x).wait_sync())",
    )
    assert "grow(x, by)\n" in said and "[2. 2. 2. 2. 2. 2. 2. 2. 2. 2. 2. 2.]" in said
    said = cells.run(f"%%kernel cxx\n{source}")
    assert re.search(r"CompilationError: In\[\d+\]:2:\d+: error: 'STEP' was not declared", said)
    said = cells.run("%%kernel cxx\n@k.kernel\ndef python(x): pass\n")
    assert "the cell is Python; expected TOPS C++" in said and "python" not in cells.shell.user_ns


def test_a_mistake_in_the_source_is_the_compilers_log(cells: Cells):
    """Line and column are the editor's, a caret shows the place, no traceback follows, the namespace stays."""
    before = dict(cells.shell.user_ns)
    said = cells.run("%%kernel\n@k.kernel\nasync def wait(x):\n    await k.synchthreads()\n")
    assert re.search(r"CompilationError: In\[\d+\]:4:13: error: 'k' has no name 'synchthreads'", said)
    assert "\n    await k.synchthreads()\n            ^~~~~~~~~~~~\n1 error generated." in said
    assert "Traceback" not in said and "waited for" not in said
    assert "wait" not in cells.shell.user_ns and before["x"] is cells.shell.user_ns["x"]


@pytest.mark.parametrize("options", ["--no-such-option", "-DN='"])
def test_a_wrong_option_is_named(cells: Cells, options: str):
    """An option that the compiler does not know, or that cannot be split, is an error that shows it."""
    said = cells.run(f"%%kernel {options}\n@k.kernel\ndef f(x): pass\n")
    assert said.lstrip().startswith("InvalidOption: ") and options in said


@pytest.mark.parametrize("magic", ["", "%%kernel\n"])
def test_a_failure_shows_the_kernels_lines(cells: Cells, magic: str):
    """First what failed and where in the kernel, then the cell's line that waited; nothing of the runtime."""
    line = FAIL.splitlines().index("        x[where] = 1") + 1 + bool(magic)
    said = cells.run(magic + FAIL, "stream.launch(spoil, (1, 12), x)\nstream.sync()")
    assert re.search(rf"LaunchFailure: thread \(3,0,0\) .* raised IllegalAddress at In\[\d+\]:{line} in spoil", said)
    assert "in block (0,0,0), thread (3,0,0):\n" in said
    assert re.search(rf"In\[\d+\], line {line}, in spoil\n", said)
    assert f"\n      {line - 1}         where = 10 * x.size\n----> {line}         x[where] = 1\n" in said
    assert re.search(r"waited for by:\nIn\[\d+\], line 2, in <module>\n----> 2 stream\.sync\(\)\n", said)
    assert "atops/" not in said


def test_the_whole_traceback_is_there_on_request(cells: Cells):
    """`%tb` shows the runtime's frames of the same failure."""
    said = cells.run(FAIL, "stream.launch(spoil, (1, 12), x)\nstream.sync()", "%tb")
    shown, whole = said.split("%tb shows the runtime's lines too")
    assert "queue.py" not in shown and "queue.py" in whole and "IllegalAddress" in whole


def test_a_skipped_command_shows_the_first_failure(cells: Cells):
    """A wait for a later command shows that it was skipped, and the kernel's lines."""
    said = cells.run(FAIL, "stream.launch(spoil, (1, 12), x)\nstream.fetch(x).wait_sync()")
    assert "PriorLaunchFailure: stream 1 skipped copy" in said
    assert "the first failure was LaunchFailure: thread (3,0,0)" in said
    assert "---->" in said and "x[where] = 1" in said and "atops/" not in said


def test_failures_of_a_task_group_are_shown(cells: Cells):
    """Each one's kernel lines and each task's line; the group itself is not in the way."""
    cells.run(FAIL)
    said = cells.run_in_a_loop(
        "async def one():\n    stream.launch(spoil, (1, 12), x)\n    await stream\n"
        "async with asyncio.TaskGroup() as group:\n    group.create_task(one())"
    )
    assert said.count("LaunchFailure: thread (3,0,0)") == 1 and "x[where] = 1" in said
    assert re.search(r"In\[\d+\], line 3, in one\n----> 3 await stream\n", said)
    assert "ExceptionGroup" not in said and "atops/" not in said


def test_a_group_hides_no_other_error(cells: Cells):
    """What failed beside a kernel, for another reason, is named with its line too."""
    cells.run(FAIL)
    said = cells.run_in_a_loop(
        "async def one():\n    stream.launch(spoil, (1, 12), x)\n    await stream\n"
        "async def two():\n    try:\n        await asyncio.Event().wait()\n    finally:\n"
        "        raise ValueError('mine')\n"
        "async with asyncio.TaskGroup() as group:\n    group.create_task(one())\n    group.create_task(two())"
    )
    assert "LaunchFailure: thread (3,0,0)" in said and "ValueError: mine" in said
    assert re.search(r"In\[\d+\], line 8, in two\n----> 8 raise ValueError\('mine'\)\n", said)


def test_a_compilation_without_the_magic_shows_its_place(cells: Cells):
    """The log, and the line of the cell that compiled the text."""
    said = cells.run("def make():\n    return k.compile_source('@k.kernel\\ndef f(x): y\\n', 'f.py')\nmake()")
    assert "CompilationError: f.py:2:11: error: undefined name 'y'" in said and "atops/" not in said
    assert re.search(r"compiled by:\nIn\[\d+\], line 3, in <module>\n.*\nIn\[\d+\], line 2, in make\n", said)


def test_other_errors_are_shown_as_ever(cells: Cells):
    """An error that is none of the device's keeps IPython's traceback, in a group as well."""
    assert "ZeroDivisionError: division by zero" in cells.run("1 / 0")
    said = cells.run("raise ExceptionGroup('several', [ValueError('this one')])")
    assert "several (1 sub-exception)" in said and "ValueError: this one" in said


def test_a_timeline_shows_what_the_cell_did(cells: Cells):
    """Only what ended while it ran, under the names of the streams; the cell's own output comes first."""
    said = cells.run(
        "stream.fill(x, 1)\nstream.sync()",
        "%%timeline board\nstream.copy(x, np.full(12, 7, np.float32))\nstream.sync()\nprint('copied')",
    )
    assert said.index("copied") < said.index("copy host to device")
    assert "1 record in" in said and "fill" not in said


@pytest.mark.parametrize("ending", ["", "raise RuntimeError('at the end')"])
def test_a_timeline_of_a_cell_that_awaits(cells: Cells, ending: str):
    """A cell with top-level await shows its picture, also when it raises, and its lines keep their numbers."""
    said = cells.run_in_a_loop(f"%%timeline board\nstream.fill(x, 5)\nprint((await stream.fetch(x))[0])\n{ending}")
    assert "5.0" in said and "copy device to host" in said and "fill, 48 B" in said
    assert "awaited here" in said and re.search(r"In\[\d+\]:3 in .*, 1 wait\n +print\(\(await stream\.fetch", said)
    assert not ending or re.search(r"----> 4 raise RuntimeError\('at the end'\)", said)


def test_a_timeline_of_a_driver_that_the_cell_makes(cells: Cells):
    """The name is looked up when the cell ends; a name that is no driver is said so."""
    said = cells.run(
        "%%timeline other\nother = atops.Driver()\ns = atops.Device(0, other).create_stream()\ns.zeros(3)\ns.sync()",
        "other.close()", "%%timeline missing\nx = x",
    )  # fmt: skip
    assert "fill, 12 B" in said
    assert "%%timeline missing: the notebook has no driver called 'missing'" in said


def test_a_timeline_says_what_it_cannot_show(cells: Cells):
    """Nothing ended; something is still under way; there is no trace."""
    said = cells.run("%%timeline board\nstream.wait_value(x, 1, 'Eq')\n", "stream.abort()\nstream.clear_error()")
    assert "no command ended in this cell" in said and "1 command still under way" in said
    said = cells.run("board.tracer.resize(0)", "%%timeline board\nstream.fill(x, 1)\nstream.sync()")
    assert "the driver keeps no trace" in said


def test_cells_without_the_magic_show_no_timeline(cells: Cells):
    """Also when the words stand further down, where they are an error that says where they belong."""
    assert "record" not in cells.run("stream.fill(x, 1)\nstream.sync()", "text = '''\n%%timeline\n'''")
    said = cells.run("get_ipython().run_cell_magic('timeline', '', 'pass')")
    assert "UsageError: %%timeline must be the first line of a cell" in said


def test_status_names_devices_memory_and_streams(cells: Cells):
    """A board with a stream that waits, and one that failed."""
    cells.run("stream.wait_value(x, 1, 'Eq')")
    said = cells.run("%atops")
    assert re.search(r"gcu300, 1 device, \d+ records held\n  device 0: .* of 48 GiB taken, 1 allocation,", said)
    assert "1 stream at work, none failed\n    <Stream stream 1 on device 0, 1 command>" in said
    cells.run("stream.abort()", FAIL, "stream.launch(spoil, (1, 12), x)\nstream.sync()")
    assert "1 failed\n" in cells.run("%atops")


def test_status_starts_no_driver(monkeypatch: pytest.MonkeyPatch):
    """Without a driver it says so, and there is none afterwards."""
    monkeypatch.setattr("atops_widgets.magics.magics.BOARDS", set())
    assert status() == "no driver runs yet: the first use of a device starts one"
    closed = atops.Driver()
    closed.close()
    monkeypatch.setattr("atops_widgets.magics.magics.BOARDS", {board_of(closed)})
    assert status() == "no driver runs yet: the first use of a device starts one"


def test_unloading_takes_everything_away(cells: Cells):
    """Magics, watch, names of cells and the handler of failures are gone, and come back with loading."""
    assert len(NAMERS) == 1
    said = cells.run("%unload_ext atops_widgets", FAIL, "stream.launch(spoil, (1, 12), x)\nstream.sync()", "%atops")
    assert NAMERS == [] and "queue.py" in said and "`%atops` not found" in said
    assert "device 0" in cells.run("%load_ext atops_widgets", "%atops")


def test_a_cell_is_checked_under_schedules(cells: Cells):
    """It may await, has the notebook's names and keeps its own; in a running loop, too. The line says how many."""
    cell = (
        "%%schedules 30\n"
        "total = [0]\n"
        "async def add():\n    value = total[0]\n    await asyncio.sleep(0)\n    total[0] = value + 1\n"
        "await asyncio.gather(add(), add())\n"
        "assert total[0] == 2\n"
    )
    for run in (cells.run, cells.run_in_a_loop):
        said = run(cell)
        assert re.search(r"<CheckReport: In\[\d+\] fails under the plain schedule: assertion", said)
    assert "total" not in cells.shell.user_ns
    assert "is proved" in cells.run("%%schedules 30 dpor\nvalue = 1\n")
    assert "expected a number of schedules" in cells.run("%%schedules 30 pct more\nvalue = 1\n")
