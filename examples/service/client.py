"""The client's side of a request: what it sends, how long it waits for the answer, and whether it is still there."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import anyio
import numpy as np
from starlette.requests import Request

from examples.service.kernels import SIDE, Array

__all__ = ("BadRequest", "ClientLeft", "body_of", "photograph_of", "seconds_of", "unless_client_leaves")

PIXELS = SIDE * SIDE
MOST_BYTES = 4 * PIXELS

Answer = TypeVar("Answer")


class BadRequest(Exception):
    """The request cannot be served as it is; `status` says why in HTTP's words."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


class ClientLeft(Exception):
    """Nobody is there any more to be answered."""


def seconds_of(request: Request, default: float, longest: float) -> float:
    """Return how long the client waits: `X-Deadline-Ms`, or `deadline_ms` of the query, at most `longest`."""
    text = request.headers.get("x-deadline-ms") or request.query_params.get("deadline_ms")
    if not text:
        return default
    try:
        milliseconds = float(text)
    except ValueError:
        milliseconds = math.nan
    if not milliseconds > 0:
        raise BadRequest(f"the deadline must be milliseconds above 0, got {text!r}")
    return min(milliseconds / 1e3, longest)


async def body_of(request: Request) -> bytes:
    """Return the body, of which no more is kept than a photograph can have. Raises BadRequest for more."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MOST_BYTES:
            raise BadRequest(f"the body has more than {MOST_BYTES} bytes", 413)
    return bytes(body)


def photograph_of(body: bytes) -> Array:
    """Return pixels from 0 to 1: those of bytes from 0 to 255, or of little-endian float32 from 0 to 1."""
    if len(body) == PIXELS:
        return np.frombuffer(body, np.uint8).astype(np.float32) / np.float32(255)
    if len(body) != MOST_BYTES:
        raise BadRequest(
            f"the body must be {SIDE} x {SIDE} pixels, as {PIXELS} bytes or {PIXELS} float32, got {len(body)} bytes"
        )
    pixels = np.frombuffer(body, "<f4").astype(np.float32)
    if not np.all((pixels >= 0) & (pixels <= 1)):  # nor a NaN: one photograph must not spoil a batch of many
        raise BadRequest("pixels as float32 are from 0 to 1")
    return pixels


async def unless_client_leaves(request: Request, work: Callable[[], Awaitable[Answer]]) -> Answer:
    """Return what `work` returns, or cancel it and raise ClientLeft when the client closes the connection.

    The body must have been read: what the server says next is that the client is gone.
    """
    outcome: list[Answer] = []
    failure: Exception | None = None

    async def leave() -> None:
        message: Any = await request.receive()
        while message["type"] != "http.disconnect":
            message = await request.receive()
        race.cancel_scope.cancel()

    async with anyio.create_task_group() as race:
        race.start_soon(leave, name="watch for the client")
        try:
            outcome.append(await work())
        except Exception as error:  # raised below, without a group around it
            failure = error
        race.cancel_scope.cancel()
    if failure is not None:
        raise failure
    if not outcome:
        raise ClientLeft("the client closed the connection")
    return outcome[0]
