"""The runner fails what a notebook would hide: tasks, device work, logged errors, stderr. Kernels await and block."""

from __future__ import annotations

import pytest

from tests.notebooks.runner import KERNELS, REQUIRED, Kernel, faults, from_cells, run, text_of

each_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)

IMPORTS = "import asyncio, gc, logging, sys, threading, warnings\nimport numpy as np\nimport atops"

HIDDEN = (
    IMPORTS,
    "async def fail(text): raise ValueError(text)\nkept = asyncio.create_task(fail('a task that is kept'))",
    "asyncio.create_task(fail('a task that is dropped'))\nawait asyncio.sleep(0)",
    "waiting = asyncio.create_task(asyncio.Event().wait(), name='waits for ever')",
    "logging.getLogger('some.part').error('went wrong %d times', 3)",
    "thread = threading.Thread(target=lambda: 1 / 0, name='divides')\nthread.start()\nthread.join()",
    "class Bad:\n    def __del__(self): raise KeyError('in a finalizer')\nBad()\ngc.collect()",
    "stream = atops.Device(0).create_stream()\ngate = stream.zeros(1, np.int32)\n"
    "away = stream.wait_value(gate, 1, 'Eq')",
    "other = atops.Driver(atops.EmulatorOptions(arch='gcu210'))",
    "import socket\ntry: socket.create_connection(('198.51.100.1', 80), 0.01)\nexcept OSError: print('offline')",
)


@pytest.mark.slow
@each_kernel
def test_what_a_notebook_hides_is_named(kernel: Kernel):
    """Every cell is green; the guard names each thing left behind, and nothing else."""
    [found] = run(from_cells(*HIDDEN), kernel)
    for part in (
        "a task that failed, unseen: <Task finished", "a task that is kept",
        "Task exception was never retrieved", "a task that is dropped",
        "a task that is not over", "waits for ever",
        "some.part logged: went wrong 3 times",
        "ZeroDivisionError('division by zero')",
        "KeyError('in a finalizer')",
        "device work that is not over: <Completion 3: wait_value on stream 1",
        "a driver that was not closed: <Driver 2: gcu210 x 1, threaded>",
        "a connection to 198.51.100.1 was wanted",
    ):  # fmt: skip
        assert part in found
    assert len(found.partition("AssertionError: the notebook left behind:\n")[2].strip().splitlines()) == 9


@pytest.mark.slow
@each_kernel
def test_a_sound_notebook_has_no_fault(kernel: Kernel):
    """Top-level await works, blocking tops calls work, and so do both in one cell, while the kernel's loop runs."""
    notebook = from_cells(
        IMPORTS + "\nfrom atops import tops",
        "stream = atops.Device(0).create_stream()\nx = stream.upload(np.arange(8.0))\nprint(await stream.fetch(x))",
        "stream.fill(x, 0)\nstream.sync()\n(await stream.fetch(x)).sum()",
        "pointer = tops.check(tops.topsMalloc(64))\ntops.check(tops.topsMemset(pointer, 7, 64))\n"
        "tops.check(tops.topsDeviceSynchronize())\ntops.check(tops.topsFree(pointer))",
        "async with asyncio.TaskGroup() as group:\n    one = group.create_task(asyncio.sleep(0, 5))\n"
        "stream.sync()\none.result()",
        "await stream.aclose()",
        "import time\nfrom atops_widgets import Scheduler\nasync def slow():\n    time.sleep(0.1)\n"
        "    async with asyncio.TaskGroup() as group:\n"
        "        for _ in range(2):\n            group.create_task(asyncio.sleep(0))\n"
        "play = Scheduler(slow)\nlen(play.choices())",  # and it looks ahead while the guard looks
    )
    assert run(notebook, kernel) == []
    assert "[0. 1. 2. 3. 4. 5. 6. 7.]" in text_of(notebook.cells[1])
    assert text_of(notebook.cells[2]) == "np.float64(0.0)"
    assert text_of(notebook.cells[4]) == "5"
    assert text_of(notebook.cells[6]) == "2"


CHOICES = (
    "import asyncio\nimport atops\nfrom atops import tops\ngate, tasks = asyncio.Event(), []\n"
    "def now():\n    return atops.Device().ordinal, tops.check(tops.topsGetDevice())\n"
    "async def background():\n    await gate.wait()\n    return now()\n"
    "async def choose(ordinal):\n    tops.check(tops.topsSetDevice(ordinal))\n"
    "tasks.append(asyncio.create_task(background()))\nprint(now())",
    "tops.check(tops.topsSetDevice(1))",
    "print(now())",
    "await asyncio.sleep(0)\nprint(now())\ntasks.append(asyncio.create_task(background()))",
    "await choose(2)",
    "print(now())",
    "with atops.Device(3):\n    await asyncio.sleep(0)\n    atops.Device(1).set_current()\nprint(now())",
    "await asyncio.create_task(choose(3))\nprint(now())",
    "stream = atops.Device(1).create_stream()\nawait stream\nstream.use();",
    "print(now(), atops.Device().current_stream is stream)\nstream.close()\natops.Device(0).use();",
    "gate.set()\nprint(now(), await asyncio.gather(*tasks))",
)


@pytest.mark.slow
@each_kernel
def test_a_device_chosen_in_a_cell_is_current_in_the_next(kernel: Kernel):
    """In cells with an `await`, too, which are tasks of their own; what a block or another task chose is not."""
    notebook = from_cells(*CHOICES)
    assert run(notebook, kernel, ATOPS_DEVICES="4") == []
    assert [text_of(cell).strip() for cell in notebook.cells] == [
        "(0, 0)", "", "(1, 1)", "(1, 1)", "", "(2, 2)", "(2, 2)", "(2, 2)", "", "(1, 1) True",
        "(0, 0) [(0, 0), (1, 1)]",
    ]  # fmt: skip


@pytest.mark.slow
def test_stderr_and_cells_that_must_raise():
    """A cell that warns is a fault, and so is one that should raise and does not."""
    import nbformat

    said, warned, raised, missing = (
        nbformat.v4.new_output("stream", name="stdout", text="fine\n"),
        nbformat.v4.new_output("stream", name="stderr", text="careful\n"),
        nbformat.v4.new_output("error", ename="ZeroDivisionError", evalue="", traceback=[]),
        nbformat.v4.new_output("display_data"),
    )
    notebook = from_cells("said", "warned", "raised", "missing")
    for cell, output in zip(notebook.cells, (said, warned, raised, missing), strict=True):
        cell.outputs = [output]
    for cell in notebook.cells[2:]:
        cell.metadata["tags"] = ["raises-exception"]
    assert faults(notebook) == ["stderr: careful\nof this cell:\nwarned", "this cell did not raise:\nmissing"]


@pytest.mark.slow
def test_a_cell_that_raises_ends_the_run():
    """The one fault shows the cell and its error."""
    [found] = run(from_cells("1 / 0", "print('never')"), KERNELS[0])
    assert "1 / 0" in found and "ZeroDivisionError" in found


@pytest.mark.slow
def test_a_kernel_that_is_missing_skips_or_fails(tmp_path, monkeypatch: pytest.MonkeyPatch):
    """Where a version is not installed its tests are skipped with a notice; where it is demanded they fail."""
    missing = Kernel("ipykernel 5", tmp_path / ".kernel5")
    monkeypatch.delenv(REQUIRED, raising=False)
    with pytest.raises(pytest.skip.Exception, match=r"ipykernel 5 is not in \.kernel5"):
        run(from_cells("1"), missing)
    monkeypatch.setenv(REQUIRED, "1")
    with pytest.raises(pytest.fail.Exception, match="`make test` installs it"):
        run(from_cells("1"), missing)
