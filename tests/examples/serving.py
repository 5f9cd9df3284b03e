"""A service that is served on the loopback inside a test, a way to hold its device, and a reader of its metrics."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anyio.lowlevel
import httpx
import numpy as np
import pytest
import uvicorn
from starlette.applications import Starlette

import atops
from atops import kernels as k
from atops.base.errors import NotInitialized
from examples.service.app import Service, Settings, create_app, server_config

__all__ = ("WEIGHTS", "Running", "Server", "held", "hold", "idle", "parsed", "serving", "until")

WEIGHTS = 4  # live allocations of a service that is idle
CONTEXT = ssl.create_default_context()  # costs much, and serves all


@k.kernel
async def hold(handle: np.int32) -> None:
    """Keep a cluster until the host says so."""
    await k.signal_wait(handle, 1)


class Server(uvicorn.Server):
    """A server that says when it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listens = False

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listens = True


@dataclass
class Running:
    """A service that is being served, and a client of it."""

    app: Starlette
    server: Server
    task: asyncio.Task[None]
    client: httpx.AsyncClient
    url: str

    @property
    def service(self) -> Service:
        """What the app keeps."""
        return self.app.state.service

    async def post(self, photograph: np.ndarray, **named: Any) -> httpx.Response:
        """Send a photograph, and return what comes back."""
        return await self.client.post("/embed", content=photograph.tobytes(), **named)

    def posts(self, photographs: np.ndarray, **named: Any) -> list[asyncio.Task[httpx.Response]]:
        """Send some at the same time, each in a task and on a connection of its own."""
        return [asyncio.create_task(self.post(each, **named)) for each in photographs]

    async def metrics(self) -> dict[str, float]:
        """Return every sample of /metrics."""
        return parsed((await self.client.get("/metrics")).text)


@asynccontextmanager
async def serving(settings: Settings | None = None, **options: Any) -> AsyncIterator[Running]:
    """Serve on a free port; at the end, end it, and see that no task, no memory and no driver is left."""
    settings = settings or Settings()
    before = asyncio.all_tasks()
    app = create_app(settings, atops.EmulatorOptions(**options))
    server = Server(server_config(app, settings, log_config=None, access_log=False))
    listener = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    async with asyncio.timeout(30):
        task = asyncio.create_task(server.serve([listener]))
        try:
            await until(lambda: server.listens or task.done())
            async with httpx.AsyncClient(
                base_url=url, timeout=30, trust_env=False, verify=CONTEXT, headers={"X-Deadline-Ms": "30000"}
            ) as client:
                running = Running(app, server, task, client, url)
                yield running
                if not task.done():
                    await idle(running.service)
        finally:
            server.should_exit = True
            await task
            listener.close()
        with pytest.raises(NotInitialized):
            running.service.network.device.statistics()
        assert running.service.batcher.waiting == running.service.batcher.running == 0
        await until(lambda: asyncio.all_tasks() <= before)  # those that were cancelled have a last step to do


async def idle(service: Service) -> None:
    """Wait until the device has nothing to do, and see that the weights are all that is left on it."""
    await until(lambda: service.batcher.waiting == service.batcher.running == 0)
    await service.network.device.wait()
    figures = service.network.device.statistics()
    assert (figures.memory.live, figures.active_streams, figures.poisoned_streams) == (WEIGHTS, 0, 0)


@asynccontextmanager
async def held(running: Running) -> AsyncIterator[None]:
    """Keep all clusters of the device busy inside the block."""
    device = running.service.network.device
    handle = device.signals.allocate()
    async with device.create_stream(priority=-2) as stream:
        stream.launch(hold, (device.arch.clusters, 1), handle)
        try:
            yield
        finally:
            device.signals.write(handle, 1)
            await stream


async def until(true: Callable[[], bool]) -> None:
    """Let the others have their turns until something is true."""
    while not true():
        await anyio.lowlevel.checkpoint()


def parsed(text: str) -> dict[str, float]:
    """Read the text format: every sample by name and labels. Each family has its help and its type before it."""
    samples: dict[str, float] = {}
    family = ""
    for line in text.splitlines():
        if line.startswith("# HELP "):
            family = line.split()[2]
        elif line.startswith("# TYPE "):
            assert line.split()[2] == family
            assert line.split()[3] in ("counter", "gauge", "histogram")
        else:
            name, value = line.rsplit(" ", 1)
            assert name.startswith(family) and name not in samples
            samples[name] = float(value)
    return samples
