"""Log records of atops have the same fields, whatever they are about."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import numpy as np
import pytest

import atops
from atops import kernels as k
from atops.base.log_fields import FIELDS, get_logger
from atops.runtime.driver import board_of
from tests.architecture.source_tree import ROOT, modules


def fail() -> None:
    """Raise."""
    raise ValueError("no")


@k.kernel
def prints() -> None:
    """Print a line."""
    k.printf("text\n")


@k.kernel
def broken(x: object) -> None:
    """Fail."""
    k.assert_(False)


def test_every_logger_of_the_package_has_the_fields():
    """No module asks logging for a logger itself, and the page lists the fields."""
    known = modules(ROOT, "atops", "atops_widgets").items()
    found = [name for name, module in known if re.search(r"logging\.getLogger\(\"atops", module.text)]
    assert found == ["atops.testing"]  # which only listens
    page = (ROOT / "docs/tracing.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `(\w+)` \| .*\|$", page.partition("## Log records")[2], re.MULTILINE) == list(FIELDS)


def test_fields_that_are_not_given_are_none(caplog: pytest.LogCaptureFixture):
    """A format that names them works for every record, the program's own too; it names the line that made it."""
    get_logger("atops.test").warning("text", extra={"stream": "load"})
    logging.getLogger("atops.test").warning("text")
    record, own = caplog.records
    assert {getattr(own, field) for field in FIELDS} == {None}
    told = logging.Formatter(" ".join(f"%({field})s" for field in FIELDS)).format(record)
    assert told.split() == ["load" if field == "stream" else "None" for field in FIELDS]
    assert (record.module, record.funcName) == ("test_log_fields", "test_fields_that_are_not_given_are_none")


class Raises(logging.Handler):
    """A handler with a fault."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error

    def handle(self, record: logging.LogRecord) -> bool:
        """Raise."""
        raise self.error


@pytest.fixture
def add_handler() -> Iterator[Callable[[logging.Handler], object]]:
    """Add a handler to all logs of atops until the test is over."""
    logger = logging.getLogger("atops")
    with ExitStack() as stack:

        def add(handler: logging.Handler) -> None:
            logger.addHandler(handler)
            stack.callback(logger.removeHandler, handler)

        yield add


@pytest.mark.parametrize("error", [RuntimeError("the handler's"), SystemExit(1)])
def test_a_handler_that_raises_ends_no_work(
    error: BaseException, add_handler: Callable[[logging.Handler], object], capsys: pytest.CaptureFixture[str]
):
    """The runtime's threads make most records: what a handler raises there is shown, and the command ends."""
    add_handler(Raises(error))
    driver = atops.Driver()
    try:
        device = atops.Device(0, driver)
        device.printing.sink = lambda text: fail()
        stream = device.create_stream()
        stream.launch(prints, (1, 1)).wait_sync(5)
        board_of(driver).post(fail)  # the driver's own thread
        assert stream.call(int).wait_sync(5) == 0
    finally:
        driver.close()
    assert capsys.readouterr().err.count(f"{type(error).__name__}: {error}") >= 2


def test_a_handler_may_end_the_program(add_handler: Callable[[logging.Handler], object]):
    """In the main thread SystemExit and Ctrl-C go on."""
    add_handler(Raises(SystemExit(1)))
    with pytest.raises(SystemExit):
        get_logger("atops.test").error("text")


@pytest.mark.parametrize("closed", [True, False])
def test_a_failure_that_was_not_looked_at_has_its_place(caplog: pytest.LogCaptureFixture, closed: bool):
    """Driver, device, stream, command, kernel and seed are those of what failed, closed or collected."""

    async def main() -> tuple[int, int]:
        device = atops.Device(0)
        stream = device.create_stream(name="load")
        launch = stream.launch(broken, (1, 1), stream.upload(np.ones(1, np.float32)))
        while not launch.done():
            await stream.device.null_stream.call(int)
        if closed:
            await stream.aclose()
        return board_of(device.driver).serial, launch.seq

    serial, seq = atops.run(main, atops.EmulatorOptions(seed=5))
    records = [record for record in caplog.records if record.name == "atops.stream"]
    assert [tuple(getattr(each, field) for field in FIELDS) for each in records] == [
        (serial, 0, "load", seq, "broken", None, 5)
    ]
    assert "never looked at" in records[0].getMessage()


def test_a_callback_that_raises_names_the_driver(caplog: pytest.LogCaptureFixture):
    """What has no stream has the driver and its seed."""
    driver = atops.Driver()
    try:
        board_of(driver).call_here(fail)
        (record,) = caplog.records
        assert (record.name, record.driver, record.stream) == ("atops.driver", board_of(driver).serial, None)  # type: ignore[attr-defined]  # a field of ours
    finally:
        driver.close()


def test_c_style_calls_name_the_function(caplog: pytest.LogCaptureFixture):
    """Refused calls are told at the level DEBUG."""
    from atops import tops

    with caplog.at_level(logging.DEBUG, "atops.tops"):
        tops.topsSetDevice(99)
    assert [record.function for record in caplog.records] == ["topsSetDevice"]  # type: ignore[attr-defined]  # a field of ours
