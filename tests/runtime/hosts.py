"""Running one async test program on every host: asyncio, trio, and inline in order and in a random order."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

import anyio
import pytest

import atops
from tests.loop_guard import no_blocking_on_loops

LOOPS = ("asyncio", "trio")
HOSTS = (*LOOPS, "inline", "shuffled")
SEED = 7
OPTIONS = {"devices": 2, "slice": 4}  # short turns, so that a latch kernel delays no other

Program = Callable[..., Coroutine[Any, Any, None]]


@contextmanager
def board(**options: Any) -> Iterator[atops.Device]:
    """Device 0 of a threaded driver of its own."""
    driver = atops.Driver(atops.EmulatorOptions(**{**OPTIONS, **options}))
    try:
        yield atops.Device(0, driver)
    finally:
        driver.close()


def run_program(host: str, program: Program, options: dict[str, Any], arguments: dict[str, Any]) -> None:
    """Run `program(device, **arguments)` on a host. On asyncio and trio nothing may block the loop."""
    if host in LOOPS:
        with board(**options) as device, no_blocking_on_loops():
            anyio.run(lambda: program(device, **arguments), backend=host)
        return

    async def main() -> None:
        await program(atops.Device(0), **arguments)

    seed = SEED if host == "shuffled" else None
    atops.run(main, atops.EmulatorOptions(**{**OPTIONS, "seed": seed, **options}))


def on_hosts(*hosts: str, **options: Any) -> Callable[[Program], Callable[..., None]]:
    """Make a test of an async program that takes a device, run once on each host with these emulator options."""

    def decorate(program: Program) -> Callable[..., None]:
        def test(host: str, **arguments: Any) -> None:
            run_program(host, program, options, arguments)

        signature = inspect.signature(program)
        rest = [each for name, each in signature.parameters.items() if name != "device"]
        host = inspect.Parameter("host", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        test.__signature__ = signature.replace(parameters=[host, *rest])  # type: ignore[attr-defined]
        test.__name__, test.__qualname__, test.__module__ = program.__name__, program.__qualname__, program.__module__
        test.__doc__ = program.__doc__
        test.pytestmark = getattr(program, "pytestmark", [])  # type: ignore[attr-defined]
        return pytest.mark.parametrize("host", hosts or HOSTS)(test)

    return decorate


on_every_host = on_hosts()
