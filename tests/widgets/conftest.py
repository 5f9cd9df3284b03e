"""What the widgets' tests share: a browser, a page in it, and no comm to any kernel."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.util import find_spec

import pytest

from tests.widgets.host import BrowserThread, Host, missing
from tests.widgets.jupyter_server import Server

HAS_WIDGETS = find_spec("anywidget") is not None or bool(os.environ.get("ATOPS_REQUIRE_BROWSER"))
collect_ignore_glob = [] if HAS_WIDGETS else ["test_*.py"]


def pytest_report_header() -> str:
    """Say so when these tests are left out."""
    return "" if HAS_WIDGETS else "the extra `notebook` is not installed: no test of the widgets runs"


@pytest.fixture(scope="session")
def browser() -> Iterator[BrowserThread]:
    """One browser for all tests."""
    try:
        import playwright  # noqa: F401
    except ImportError:
        missing("playwright is not installed")
    thread = BrowserThread()
    yield thread
    thread.close()


@pytest.fixture
def host(browser: BrowserThread) -> Iterator[Host]:
    """A page of its own. Afterwards: it asked no other host for anything, and no script failed."""
    page = Host(browser)
    yield page
    errors = page.evaluate("() => window.errors || []") + page.log
    page.close()
    assert page.requests == []
    assert errors == []


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server of notebooks for all tests."""
    if not all(find_spec(name) for name in ("notebook", "jupyterlab", "ipykernel")):
        missing("notebook, jupyterlab and ipykernel are not all installed")
    made = Server(tmp_path_factory.mktemp("notebooks"))
    yield made
    made.close()
