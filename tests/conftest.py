"""What every test stands on: both event loops, repeatable Hypothesis, no thread left behind, a guard against blocking.

An async test carries `pytest.mark.anyio` and runs on asyncio and on trio. A test of asyncio itself carries
`pytest.mark.asyncio` instead. Both on one test would run it under two masters, so collection refuses that.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests.loop_guard import no_blocking_on_loops

THREAD_GRACE = 5.0  # seconds that a thread which is already ending may take; a test that leaks none never waits

settings.register_profile("ci", derandomize=True, deadline=None, print_blob=True)
settings.register_profile("soak", deadline=None, print_blob=True, max_examples=2_000)
settings.load_profile("ci")  # `--hypothesis-profile` comes later and wins


def pytest_configure() -> None:
    """Let Ctrl-C end a program that a test starts: a shell's background jobs ignore it, and so would their children."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


# Files that take long though they have few tests, the longest first: begun last they would be waited for alone.
LONG = (
    "test_lessons", "test_matrix", "test_saved", "test_exit", "test_notebook7", "test_page", "test_dashboard",
    "test_right_programs", "test_run_cxx", "test_real_programs", "test_kernels", "test_examples", "test_notebooks",
    "test_notebook", "test_jupyterlab", "test_tops_programs", "test_types", "test_mutants", "test_library_calls",
    "test_random_kernels", "test_scale", "test_seeded", "test_fork", "test_interrupts", "test_floors", "test_bench",
)  # fmt: skip


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the files first that take long. Refuse a test that both anyio and pytest-asyncio would run."""
    places = {name: place for place, name in enumerate(LONG)}
    items.sort(key=lambda item: places.get(item.path.stem, len(places)))
    for item in items:
        if item.get_closest_marker("anyio") and item.get_closest_marker("asyncio"):
            raise pytest.UsageError(f"{item.nodeid} is marked anyio and asyncio; expected one of them")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not even import a file of slow tests alone where slow tests are left out: what they import is slow, too."""
    if collection_path.suffix == ".py" and "not slow" in config.option.markexpr:
        return "\npytestmark = pytest.mark.slow" in collection_path.read_text(encoding="utf-8") or None
    return None


def pytest_collection() -> None:
    """Collect no garbage while tests are collected, for there is hardly any; nor where they are only handed out."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Keep the collector from going through what will live to the end: twelve thousand tests, and every module."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="module", autouse=True)
def quick_collector() -> Iterator[None]:
    """Keep the collector from going through what the files before left alive: caches, reports, modules."""
    yield
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def compiler() -> None:
    """Skip what needs a C++ compiler where there is none, but not in CI."""
    from atops.base.errors import NotSupported  # a test's choice of environment comes before the import
    from atops.device.native.toolchain import find_toolchain

    try:
        find_toolchain()
    except NotSupported as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))


@pytest.fixture
def tiny_switch_interval() -> Iterator[None]:
    """Let threads interrupt each other almost everywhere."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.fixture(
    scope="session",
    params=[pytest.param(("asyncio", {"use_uvloop": False}), id="asyncio"), pytest.param(("trio", {}), id="trio")],
)
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    """The loop that an anyio test runs on: asyncio, then trio."""
    return request.param


@pytest.fixture(autouse=True)
def no_leaked_threads() -> Iterator[None]:
    """Fail a test that leaves a non-daemon thread behind: it would hold the interpreter's exit."""
    before = set(threading.enumerate())
    yield
    started = [thread for thread in threading.enumerate() if thread not in before and not thread.daemon]
    for thread in started:
        thread.join(THREAD_GRACE)
    leaked = [thread.name for thread in started if thread.is_alive()]
    if leaked:
        pytest.fail(f"threads left running: {', '.join(leaked)}; what starts a thread joins it or makes it a daemon")


@pytest.fixture
def loop_guard() -> Iterator[None]:
    """Fail the test if it blocks a thread that runs an event loop; see tests/loop_guard.py for what counts."""
    with no_blocking_on_loops():
        yield
