"""A load generator: `python -m examples.service.load --rate 200` or `--concurrency 16`, against a service that runs.

Look at: from when a latency counts. At a rate (open loop) it counts from when the request was due, not from when it was
sent: a service that stalls is charged for all that would have come meanwhile. It uses the service by HTTP only.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import ssl
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, field
from types import TracebackType

import anyio
import httpx
from rich.console import Console
from rich.table import Table

__all__ = ("Clients", "Plan", "Report", "Samples", "generate", "main", "shown", "table_of")

BYTES = 32 * 32  # of a photograph
PERCENTILES = (50, 95, 99)
PATIENCE = 60.0  # seconds until a request without an answer is an error


@dataclass(frozen=True, slots=True)
class Plan:
    """What to send: `requests` of them, at `rate` a second (Poisson arrivals), or by `concurrency` callers in turn.

    Raises ValueError unless exactly one of the two is given.
    """

    url: str
    requests: int = 1000
    rate: float | None = None
    concurrency: int | None = None
    deadline_ms: float | None = None
    seed: int = 1

    def __post_init__(self) -> None:
        if (self.rate is None) == (self.concurrency is None):
            raise ValueError("pass a rate (open loop) or a concurrency (closed loop), not both")
        for name in ("requests", "rate", "concurrency", "deadline_ms"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise ValueError(f"{name} must be a number above 0, got {value!r}")


@dataclass(slots=True)
class Samples:
    """What came back: how often each status or error, the latencies of what succeeded, the sizes of their batches."""

    statuses: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    batches: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Report:
    """A run in figures. Percentiles are of the requests that were answered 200, None where there was none."""

    requests: int
    seconds: float
    answered_per_second: float
    statuses: dict[str, int]
    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None
    mean_batch: float | None

    @classmethod
    def of(cls, samples: Samples, seconds: float) -> Report:
        """Return the figures of a run that took so many seconds."""
        ordered = sorted(samples.seconds)
        # The nearest rank: the smallest latency that so many of a hundred did not exceed.
        ranks = [math.ceil(len(ordered) * percent / 100) - 1 for percent in PERCENTILES]
        p50, p95, p99 = (ordered[rank] * 1e3 if ordered else None for rank in ranks)
        mean = sum(samples.batches) / len(samples.batches) if samples.batches else None
        counts = dict(sorted(samples.statuses.items()))
        return cls(samples.statuses.total(), seconds, len(ordered) / seconds, counts, p50, p95, p99, mean)


class Clients:
    """As many clients as there are requests on the way, each with one connection that stays open.

    One client with many connections looks at all of them for every request, and would be what is measured. Nobody
    waits here for a connection: in an open loop, earlier ones delay no other.
    """

    def __init__(self, plan: Plan) -> None:
        self._url = plan.url
        self._headers = {} if plan.deadline_ms is None else {"X-Deadline-Ms": f"{plan.deadline_ms:g}"}
        self._context = ssl.create_default_context()  # costs much, and serves all
        self._idle: list[httpx.AsyncClient] = []
        self._all = AsyncExitStack()

    async def __aenter__(self) -> Clients:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._all.aclose()

    async def take(self) -> httpx.AsyncClient:
        """Return an idle client."""
        if self._idle:
            return self._idle.pop()
        return await self._all.enter_async_context(
            httpx.AsyncClient(
                base_url=self._url, headers=self._headers, verify=self._context, timeout=PATIENCE, trust_env=False
            )
        )

    def give_back(self, client: httpx.AsyncClient) -> None:
        """Let others use it."""
        self._idle.append(client)


async def generate(plan: Plan) -> Report:
    """Send what is planned, wait for every answer, and return the figures."""
    numbers = random.Random(plan.seed)
    photographs = [numbers.randbytes(BYTES) for _ in range(min(plan.requests, 64))]
    samples = Samples()
    began = time.perf_counter()
    async with Clients(plan) as clients:

        async def send(number: int, due: float) -> None:
            client = await clients.take()
            try:
                response = await client.post("/embed", content=photographs[number % len(photographs)])
            except httpx.HTTPError as error:
                samples.statuses[type(error).__name__] += 1
                return
            finally:
                clients.give_back(client)
            samples.statuses[str(response.status_code)] += 1
            if response.status_code == 200:
                samples.seconds.append(time.perf_counter() - due)
                samples.batches.append(int(response.headers["X-Batch-Size"]))

        async def call_in_turn(left: Iterator[int]) -> None:
            for number in left:
                await send(number, time.perf_counter())

        async with anyio.create_task_group() as tasks:
            if plan.rate is None:
                left = iter(range(plan.requests))
                for _ in range(plan.concurrency or 0):
                    tasks.start_soon(call_in_turn, left)
            else:
                due = began
                for number in range(plan.requests):
                    await anyio.sleep(max(0.0, due - time.perf_counter()))
                    tasks.start_soon(send, number, due)
                    due += numbers.expovariate(plan.rate)
    return Report.of(samples, time.perf_counter() - began)


def table_of(report: Report) -> Table:
    """Return the figures as a table to print."""
    table = Table("figure", "value", title="load")
    table.columns[1].justify = "right"
    rows: dict[str, object] = {
        "requests": report.requests,
        "seconds": f"{report.seconds:.2f}",
        "answered per second": f"{report.answered_per_second:.1f}",
        **{f"status {status}": count for status, count in report.statuses.items()},
        **{f"p{percent}": shown(getattr(report, f"p{percent}_ms"), " ms") for percent in PERCENTILES},
        "photographs in a batch, seen by one": shown(report.mean_batch, ""),
    }
    for name, value in rows.items():
        table.add_row(name, str(value))
    return table


def shown(value: float | None, unit: str) -> str:
    """Return a figure as text, or a dash where there is none."""
    return "–" if value is None else f"{value:.1f}{unit}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run as a program: print the figures. Returns 1 if nothing at all was answered 200."""
    parser = argparse.ArgumentParser(description="Send photographs to the service, and say how it does.")
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    loop = parser.add_mutually_exclusive_group()
    loop.add_argument("--rate", type=float, help="open loop: arrivals a second, whatever the service does")
    loop.add_argument("--concurrency", type=int, help="closed loop: callers that wait for their answers (default: 16)")
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--deadline-ms", type=float, help="what each request asks for")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    given = vars(parser.parse_args(arguments))
    as_json = given.pop("json")
    if given["rate"] is None and given["concurrency"] is None:
        given["concurrency"] = 16
    try:
        plan = Plan(**given)
    except ValueError as error:
        parser.error(str(error))
    report = anyio.run(generate, plan)
    if as_json:
        print(json.dumps(asdict(report)))
    else:
        Console().print(table_of(report))
    return 0 if report.answered_per_second else 1


if __name__ == "__main__":
    sys.exit(main())
