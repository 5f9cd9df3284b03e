"""A web service over one device: `python -m examples.service.app` serves POST /embed, GET /metrics and GET /healthz.

Look at: `lifespan`, where everything with a lifetime is an `async with`, so that a shutdown is the same blocks left in
reverse: the batcher finishes what it took, the weights are freed, the driver is closed. See the README beside it.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

import anyio
import uvicorn
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

import atops
from examples.service.batcher import Batcher, BatchFailed, DeadlineMissed, QueueFull, Refusal, ShuttingDown
from examples.service.client import (
    BadRequest,
    ClientLeft,
    body_of,
    photograph_of,
    seconds_of,
    unless_client_leaves,
)
from examples.service.kernels import Array, Network, random_layers
from examples.service.readings import Readings

__all__ = ("Service", "Settings", "create_app", "main", "server_config")

STATUS: dict[type[Exception], int] = {
    ClientDisconnect: 499,  # while it sent the body; what nginx writes down for a client that left
    ClientLeft: 499,
    QueueFull: 429,
    ShuttingDown: 503,
    DeadlineMissed: 504,
    BatchFailed: 500,
}


@dataclass(frozen=True, slots=True)
class Settings:
    """How the service behaves. Times are in seconds; see `Batcher` for what it takes."""

    size: int = 32
    delay: float = 0.004
    capacity: int = 256
    lanes: int = 2
    grace: float = 5.0
    deadline: float = 2.0  # of a request that names none
    longest_deadline: float = 30.0
    connections: int = 1024
    seed: int = 1


class Service:
    """What a request needs: the settings, the batcher and the readings."""

    def __init__(self, settings: Settings, network: Network) -> None:
        self.settings = settings
        self.network = network
        self.batcher = Batcher(
            network.device, self._work,
            size=settings.size, delay=settings.delay, capacity=settings.capacity, lanes=settings.lanes,
            grace=settings.grace,
        )  # fmt: skip
        self.readings = Readings(self.batcher, network.device)

    async def _work(self, stream: atops.Stream, photographs: Sequence[Array]) -> list[tuple[Array, int]]:
        """Return a row for each photograph, with the number of those that went with it."""
        with self.readings.batch(len(photographs)):
            rows = await self.network.embed(stream, photographs)
        return [(row, len(rows)) for row in rows]


def create_app(settings: Settings | None = None, options: atops.EmulatorOptions | None = None) -> Starlette:
    """Return the application. Its `state.service` is there while it runs."""
    chosen = settings or Settings()

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with atops.Driver(options) as driver:
            # Handlers run in contexts of their own, where this driver is not the current one: the device is named.
            network = Network(atops.Device(0, driver), random_layers(chosen.seed))
            service = app.state.service = Service(chosen, network)
            async with network, service.batcher:
                yield

    routes = [
        Route("/embed", embed, methods=["POST"]),
        Route("/metrics", metrics),
        Route("/healthz", healthz),
    ]
    return Starlette(routes=routes, lifespan=lifespan)


async def embed(request: Request) -> Response:
    """Answer one photograph with its vector, as little-endian float32."""
    service: Service = request.app.state.service
    with service.readings.request() as reading:
        response = await answer(service, request)
        reading.status = response.status_code
    return response


async def answer(service: Service, request: Request) -> Response:
    """Return the vector, or the refusal in HTTP's words. Every wait in here ends with the client's deadline."""
    began = anyio.current_time()
    settings = service.settings
    try:
        within = seconds_of(request, settings.deadline, settings.longest_deadline)
        photograph = await photograph_within(request, within)
        left = began + within - anyio.current_time()
        row, together = await unless_client_leaves(request, partial(service.batcher.submit, photograph, left))
    except BadRequest as error:
        return refusal(error, error.status)
    except (Refusal, ClientLeft, ClientDisconnect) as error:
        status = STATUS[type(error)]
        return refusal(error, status, service.batcher.retry_after() if status in (429, 503) else None)
    return Response(
        row.astype("<f4").tobytes(), media_type="application/octet-stream", headers={"X-Batch-Size": str(together)}
    )


async def photograph_within(request: Request, seconds: float) -> Array:
    """Return the body that the client sends. Raises DeadlineMissed where that takes too long."""
    try:
        with anyio.fail_after(seconds):
            return photograph_of(await body_of(request))
    except TimeoutError:
        raise DeadlineMissed(f"the body did not come within {seconds:.3f} s") from None


def refusal(error: Exception, status: int, retry_after: float | None = None) -> Response:
    """Return an error as JSON: its class, or that of what it was raised from, and its words."""
    cause = error.__cause__ or error
    headers = {} if retry_after is None else {"Retry-After": str(max(1, math.ceil(retry_after)))}
    body = {"error": type(cause).__name__, "message": str(cause)}
    return JSONResponse(body, status, headers)


async def metrics(request: Request) -> Response:
    """Answer what the service has counted, for Prometheus."""
    service: Service = request.app.state.service
    return Response(generate_latest(service.readings.registry), headers={"Content-Type": CONTENT_TYPE_LATEST})


async def healthz(request: Request) -> Response:
    """Answer 200 while items are taken, and 503 from the moment the service shuts down."""
    service: Service = request.app.state.service
    healthy = service.batcher.is_open and service.network.device.driver.closed is None
    return JSONResponse({"status": "ok" if healthy else "shutting down"}, 200 if healthy else 503)


def server_config(app: Starlette, settings: Settings, **options: object) -> uvicorn.Config:
    """Return how uvicorn serves the app: bounded in connections, and in the time that a shutdown takes."""
    return uvicorn.Config(
        app,
        lifespan="on",
        limit_concurrency=settings.connections,
        timeout_graceful_shutdown=math.ceil(settings.grace),
        **options,  # type: ignore[arg-type]  # whatever uvicorn takes
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until a signal comes."""
    usual = Settings()
    parser = argparse.ArgumentParser(description="Serve photographs' vectors from an emulated device.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--size", type=int, default=usual.size, help="the most photographs of a batch")
    parser.add_argument("--delay-ms", type=float, default=usual.delay * 1e3, help="how long the first waits for others")
    parser.add_argument("--capacity", type=int, default=usual.capacity, help="how many photographs wait at most")
    parser.add_argument("--lanes", type=int, default=usual.lanes, help="how many batches are on the device at once")
    given = parser.parse_args(arguments)
    settings = Settings(size=given.size, delay=given.delay_ms / 1e3, capacity=given.capacity, lanes=given.lanes)
    uvicorn.Server(server_config(create_app(settings), settings, host=given.host, port=given.port)).run()


if __name__ == "__main__":
    main()
