"""What is asked of a client of Dask: that it fits, the versions of the workers, a board on each, how a loss is told."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager

import cloudpickle
from distributed import Client, Future, KilledWorker
from distributed.comm import CommClosedError

from atops.base.errors import ClusterError, IllegalState, InvalidType, NotSupported
from atops.base.options import EmulatorOptions
from atops.base.waiting.current_loop import running_loop_adapter
from atops.distributed.worker import NAME, BoardPlugin, board_there, check_versions, versions

__all__ = ("check_client", "losses", "open_boards", "reaching", "result_of", "same_versions", "sendable")


def check_client(client: object) -> Client:
    """Return a client that works.

    Raises InvalidType for what is no `distributed.Client`, IllegalState for one that is closed, ClusterError for one
    that has lost its scheduler, NotSupported in trio.
    """
    if not isinstance(client, Client):
        raise InvalidType(f"the client is {client!r}; expected a distributed.Client")
    if running_loop_adapter() is not None and not _in_asyncio():
        raise NotSupported("Dask's client belongs to asyncio, and trio runs here; run this part by asyncio.run(...)")
    if client.status == "connecting":
        raise ClusterError(f"{client!r} has no connection: its scheduler is lost, or not reached yet")
    if client.status != "running":
        raise IllegalState(f"{client!r} is {client.status}; one that runs is needed: await it, or make one")
    return client


def _in_asyncio() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


async def same_versions(client: Client) -> None:
    """Raise NotSupported where a worker has another version of atops or Python, or none. In the client's loop."""
    found = await client.get_versions(packages=["atops"])
    mine = versions()
    for address, told in found["workers"].items():
        theirs = {name: str(version or "") for name, version in told["packages"].items()}
        theirs["python"] = ".".join(str(told["host"]["python"]).split(".")[:2])
        theirs["numpy"] = theirs.get("numpy", "").partition(".")[0]
        check_versions(mine, theirs, f"worker {address}")


async def open_boards(client: Client, options: EmulatorOptions | None) -> None:
    """Have a board on each worker, and on those that still come. In the client's loop.

    Raises as `same_versions` does, and what a board is not opened for.
    """
    await same_versions(client)
    try:
        await client.register_plugin(BoardPlugin(options), name=NAME)
    except OSError:  # a worker went away meanwhile; the others get the plugin, and those that come
        await client.run(board_there, on_error="ignore")


def sendable(what: str, value: object, parts: Iterator[tuple[str, object]]) -> bytes:
    """Return a value as a worker gets it. Raises InvalidType, which names the part that cannot be sent."""
    try:
        return bytes(cloudpickle.dumps(value))
    except Exception as error:
        for name, part in parts:
            try:
                cloudpickle.dumps(part)
            except Exception as cause:
                raise InvalidType(f"{what} cannot be sent to a worker: {name} cannot be pickled: {cause}") from cause
        raise InvalidType(f"{what} cannot be sent to a worker: {error}") from error


async def result_of(future: Future) -> object:
    """Return a result. A cancellation ends this wait alone: one task of Dask gathers results for many waits."""
    gathering = asyncio.ensure_future(future.result())
    gathering.add_done_callback(_look_at)
    return await asyncio.shield(gathering)


def _look_at(gathering: asyncio.Future[object]) -> None:
    """Take note of what nothing waits for any more."""
    if not gathering.cancelled():
        gathering.exception()


@contextmanager
def losses(what: str) -> Iterator[None]:
    """Raise ClusterError for what Dask raises where workers or the scheduler are lost, around the wait for a result."""
    try:
        yield
    except (KilledWorker, CancelledError, CommClosedError) as error:
        if hasattr(error, "__notes__"):  # a worker's: a stage raised it
            raise
        if not isinstance(error, KilledWorker):
            raise ClusterError(f"{what} is lost: {error}") from error
        last = getattr(error.last_worker, "address", error.last_worker)
        raise ClusterError(f"{what} was given up: several workers that had it died, {last} last") from error


@contextmanager
def reaching(client: Client, what: str) -> Iterator[None]:
    """Raise ClusterError where the scheduler cannot be reached, around what is asked of it and not of a program."""
    try:
        with losses(what):
            yield
    except (OSError, TimeoutError) as error:
        raise ClusterError(f"{what} is lost: the scheduler of {client!r} is not reached ({error})") from error
