"""What `atops.check(..., client=client)` deals out: seeds in batches to workers, until one fails.

The report is that of one process. There the plain schedule comes first and then the seeds in their order, up to the
first failure; so here the lowest failing seed counts, once all below it have passed, and its run is made again here.
"""

from __future__ import annotations

import asyncio
import secrets
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import cloudpickle
from distributed import Client, Future, get_worker

from atops.base.errors import IllegalState
from atops.base.locks import fork_safe
from atops.base.options import EmulatorOptions
from atops.checking.check import Checking
from atops.checking.search import Failure, Found
from atops.checking.strategies.sampling import RandomRuns
from atops.distributed.cluster import check_client, reaching, result_of, same_versions, sendable
from atops.distributed.worker import check_versions, versions

if TYPE_CHECKING:
    from atops.runtime.schedules.host import Backend

__all__ = ("run_batch", "search_on")

SECONDS = 0.5  # of work in a batch: as long may other workers go on after a failure
MOST_TASKS = 200  # given to the scheduler each second: on many workers batches are longer
MOST_RUNS = 5000  # of a batch
RUNNING = fork_safe(threading.Lock())  # a check has the process to itself: threads of a worker take turns


@dataclass(frozen=True)
class _Check:
    """A check, as workers get it with each batch."""

    program: bytes
    """The program and its arguments, as cloudpickle has them."""
    options: EmulatorOptions
    steps: int
    same_result: bool
    backend: Backend
    versions: dict[str, str]


@dataclass
class _Dealt:
    """What has come back: figures of all batches, and the lowest place in the order at which a search ended."""

    runs: int = 0
    choices: int = 0
    alike: bool = True  # nothing could come in another order, anywhere
    ended: tuple[int, Found, str] | None = None  # place of the seed, what was found there, on which worker
    stopped: bool = False
    above: dict[int, int] = field(default_factory=dict)  # choices of each batch that passed, by its first place


def search_on(client: Client, checking: Checking) -> Found:
    """Search on the workers of a cluster, and make what fails small here. Blocks; not in the client's loop.

    Raises as `check` does.
    """
    client = check_client(client)
    loop: Any = client.loop.asyncio_loop
    if not loop.is_running():
        raise IllegalState(f"the loop of {client!r} does not run; await atops.check.aio(...) in it")
    runner = checking.runner
    whole = runner.program, runner.arguments
    parts: Iterator[tuple[str, object]] = iter((("the program", whole[0]), ("its arguments", whole[1])))
    sent = _Check(
        sendable(f"the check of {checking.name}", whole, parts), replace(runner.options, schedule=None),
        runner.options.steps,
        checking.same_result, runner.backend, versions(),
    )  # fmt: skip
    before = time.perf_counter()
    with runner:
        first = checking.searched(RandomRuns(checking.seed), 1)
    spent = time.perf_counter() - before
    if first.verdict in ("failed", "inconclusive") or checking.schedules == 1:
        return first
    dealing = asyncio.run_coroutine_threadsafe(_deal(client, checking, sent, spent), loop)
    try:
        dealt = dealing.result()
    except BaseException:
        dealing.cancel()
        raise
    return _judged(checking, first, dealt)


def _judged(checking: Checking, first: Found, dealt: _Dealt) -> Found:
    """Return what a search in one process would have found."""
    choices = max(first.choices, dealt.choices)
    if dealt.ended is None:
        if dealt.stopped:
            return replace(first, verdict="inconclusive", why="it was stopped", runs=1 + dealt.runs, choices=choices)
        if dealt.alike and first.verdict == "proved":
            return replace(first, runs=1 + dealt.runs, choices=choices)
        return replace(first, verdict="explored", why="", runs=1 + dealt.runs, choices=choices)
    place, _, worker = dealt.ended
    with checking.runner:
        again = checking.searched(RandomRuns(checking.seed + place), 2)
    if again.verdict not in ("failed", "inconclusive"):
        why = f"seed {checking.seed + place} ended differently on worker {worker} than here"
        return replace(again, verdict="inconclusive", why=why, runs=place + 2, choices=choices)
    return replace(again, runs=place + 2, choices=max(choices, again.choices))


async def _deal(client: Client, checking: Checking, sent: _Check, seconds: float) -> _Dealt:
    """Have batches run, two for each worker at a time, until all have passed or the lowest failure is known."""
    with reaching(client, f"the check of {checking.name}"):
        await same_versions(client)
        return await _dealt(client, checking, sent, seconds)


async def _dealt(client: Client, checking: Checking, sent: _Check, seconds: float) -> _Dealt:
    total, token, dealt = checking.schedules - 1, secrets.token_hex(4), _Dealt()
    under_way: dict[asyncio.Task[Any], tuple[int, Future]] = {}
    begun = 0
    try:
        while True:
            dealt.stopped = dealt.stopped or checking.is_stopped()
            most = total if dealt.ended is None else dealt.ended[0]
            workers = max(1, len(await client.nthreads()))
            room = 2 * workers
            while begun < most and len(under_way) < room and not dealt.stopped:
                share = -(-(total - begun) // room)  # towards the end smaller ones: all workers end together
                runs = int(max(SECONDS, workers / MOST_TASKS) / seconds)
                count = max(1, min(MOST_RUNS, runs, share))
                key = f"check {checking.name}-{token}-{begun}"
                batch = client.submit(run_batch, sent, checking.seed + begun, count, key=key, pure=False)
                under_way[asyncio.create_task(result_of(batch))] = begun, batch
                begun += count
            if not under_way:
                return dealt
            done, _ = await asyncio.wait(under_way, return_when="FIRST_COMPLETED")
            for each in done:
                place, batch = under_way.pop(each)
                batch.release()
                found, worker, took = each.result()
                seconds = max(took, 1e-6)
                _note(dealt, place, found, worker)
                checking.progress.runs, checking.progress.choices = 1 + dealt.runs, dealt.choices
            if dealt.ended is not None:  # what comes after it does not count any more
                last = dealt.ended[0]
                _drop(under_way, [each for each, (place, _) in under_way.items() if place > last])
    finally:
        _drop(under_way, list(under_way))


def _drop(under_way: dict[asyncio.Task[Any], tuple[int, Future]], tasks: list[asyncio.Task[Any]]) -> None:
    """Let go of batches: those that no worker has begun are forgotten."""
    for each in tasks:
        each.cancel()
        under_way.pop(each)[1].release()


def _note(dealt: _Dealt, place: int, found: Found, worker: str) -> None:
    """Add a batch. Its first run was the plain schedule, which counts once for all."""
    runs = found.runs - 1
    if found.verdict in ("failed", "inconclusive"):
        ended = place + max(0, runs - 1)
        if dealt.ended is None or ended < dealt.ended[0]:
            dealt.ended = ended, found, worker
    dealt.above[place] = found.choices
    dealt.runs += runs
    dealt.alike = dealt.alike and found.verdict == "proved"
    last = None if dealt.ended is None else dealt.ended[0]
    dealt.choices = max(choices for first, choices in dealt.above.items() if last is None or first <= last)


def run_batch(sent: _Check, seed: int, count: int) -> tuple[Found, str, float]:
    """Run so many seeds on a worker, after the plain schedule. Returns what was found, where, and seconds a run."""
    worker = get_worker().address
    check_versions(sent.versions, versions(), f"worker {worker}")
    program, arguments = _program(sent.program)
    checking = Checking(
        program, count + 1, "random", arguments, sent.options, seed, 0, sent.steps, sent.same_result, 0, sent.backend
    )
    with RUNNING, checking.runner:
        before = time.perf_counter()
        found = checking.searched(checking.strategy, count + 1)
        spent = time.perf_counter() - before
    failure = None if found.failure is None else Failure(found.failure.kind, found.failure.text)
    bare = replace(found, failure=failure, names=(), passing=None, shrunk=None)
    return bare, worker, spent / max(1, found.runs)


@lru_cache(maxsize=8)
def _program(sent: bytes) -> Any:
    """Return a program and its arguments: the same ones for all batches."""
    return cloudpickle.loads(sent)
