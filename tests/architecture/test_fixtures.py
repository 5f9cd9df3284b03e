"""The fixtures of the whole suite do what they promise: each is run on a small test that breaks its rule."""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from concurrent.futures import Future

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest
import sniffio

from tests.architecture.source_tree import ROOT
from tests.loop_guard import no_blocking_on_loops

CONFTEST = (ROOT / "tests" / "conftest.py").read_text(encoding="utf-8")
MODES = "[pytest]\nfilterwarnings = error\nasyncio_mode = strict\nasyncio_default_fixture_loop_scope = function\n"


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A suite in a folder of its own, with this project's conftest and strict modes."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.makeconftest(CONFTEST)
    pytester.makeini(MODES)
    return pytester


@pytest.mark.anyio
async def test_anyio_tests_run_on_both_loops(anyio_backend_name: str):
    """An anyio test runs on the loop that its id names."""
    await anyio.lowlevel.checkpoint()
    assert sniffio.current_async_library() == anyio_backend_name


@pytest.mark.asyncio
async def test_asyncio_tests_run_on_asyncio():
    """A test marked asyncio runs once, on asyncio, and may use its threads."""
    assert await asyncio.to_thread(threading.current_thread) is not threading.current_thread()


@pytest.mark.slow
def test_both_masters_are_refused(suite: pytest.Pytester):
    """A test marked anyio and asyncio stops the collection."""
    suite.makepyfile("import pytest\n@pytest.mark.anyio\n@pytest.mark.asyncio\nasync def test_a(): ...")
    result = suite.runpytest_subprocess()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*test_a* is marked anyio and asyncio; expected one of them"])


@pytest.mark.slow
def test_an_unmarked_async_test_fails(suite: pytest.Pytester):
    """An async test without a mark fails instead of passing unrun."""
    suite.makepyfile("async def test_a(): ...")
    suite.runpytest_subprocess().assert_outcomes(failed=1)


@pytest.mark.slow
def test_a_leaked_thread_fails_the_test(suite: pytest.Pytester):
    """A thread that outlives its test is an error that names it; a daemon and a thread that ends are none."""
    suite.makeconftest(CONFTEST.replace("THREAD_GRACE = 5.0", "THREAD_GRACE = 0.01"))
    suite.makepyfile(
        """
        import threading

        stop = threading.Event()

        def test_leak():
            threading.Thread(target=stop.wait, name="forgotten").start()

        def test_stop():
            stop.set()

        def test_daemon():
            threading.Thread(target=threading.Event().wait, daemon=True).start()
        """
    )
    result = suite.runpytest_subprocess()
    result.assert_outcomes(passed=3, errors=1)
    result.stdout.fnmatch_lines(["*threads left running: forgotten;*"])


BLOCKS = {
    "sleep": lambda: time.sleep(0.001),
    "event": lambda: threading.Event().wait(0.001),
    "queue": lambda: queue.Queue().get(timeout=60),
    "future": lambda: Future().result(0.001),
}


@pytest.mark.anyio
@pytest.mark.parametrize("block", BLOCKS.values(), ids=BLOCKS)
async def test_blocking_a_loop_is_refused(block):
    """Each way to block is refused on a thread that runs a loop, and reported again when the guard is left."""
    refused = "would block the event loop of MainThread"
    reported = pytest.raises(pytest.fail.Exception, match=refused)
    with reported, no_blocking_on_loops(), pytest.raises(AssertionError, match=refused):
        block()


@pytest.mark.anyio
async def test_other_threads_may_block(loop_guard: None):
    """What runs no loop may block; starting a thread, polling and a short lock are allowed on a loop."""
    ready = threading.Event()
    thread = threading.Thread(target=ready.wait)
    thread.start()
    assert not ready.wait(0)
    ready.set()
    await anyio.to_thread.run_sync(thread.join)
    with threading.Lock():
        assert ready.wait(0)


def test_without_a_loop_anything_may_block(loop_guard: None):
    """A plain test may wait as it likes."""
    assert not threading.Event().wait(0.001)
