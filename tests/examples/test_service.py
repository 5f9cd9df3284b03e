"""The service over HTTP, on a socket of the loopback: what clients are told, what is counted, and how it ends."""

from __future__ import annotations

import asyncio

import httpx
import numpy as np
import pytest

from atops import kernels as k
from examples.service import kernels
from examples.service.app import Settings
from tests.examples.serving import WEIGHTS, held, hold, serving, until

pytestmark = [pytest.mark.asyncio, pytest.mark.usefixtures("loop_guard")]

HELD = Settings(size=1, delay=0, lanes=1)  # one photograph on the device, all others in the queue
LONG = 3600.0
PHOTOGRAPHS = np.random.default_rng(7).integers(0, 256, (20, kernels.SIDE**2), np.uint8)


@k.kernel
def refuse(y: k.Span) -> None:
    """Fail, as a kernel with a mistake does."""
    k.assert_(False, "this photograph is out of focus")


def embedded(photographs: np.ndarray) -> np.ndarray:
    """Do in numpy what the device does."""
    x = photographs.astype(np.float32) / np.float32(255)
    *hidden, (weights, bias) = kernels.random_layers(Settings().seed)
    for inner, shift in hidden:
        x = x @ inner + shift
        x = x / (1 + np.exp(-x))
    y = x @ weights + bias
    return y / np.linalg.norm(y, axis=1, keepdims=True)


async def connection(url: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Open a bare connection to a service."""
    where = httpx.URL(url)
    return await asyncio.open_connection(where.host, where.port)


def vector(response: httpx.Response) -> np.ndarray:
    """Return what a response has as an array."""
    assert response.status_code == 200, response.text
    return np.frombuffer(response.content, "<f4")


@pytest.mark.slow
async def test_answers_are_numpys_and_one_batch_makes_them():
    """With a delay that never passes, four requests are one batch; each has its own vector, of bytes or of float32."""
    async with serving(Settings(size=4, delay=LONG, lanes=1)) as running:
        floats = PHOTOGRAPHS[:2].astype("<f4") / np.float32(255)
        posts = [*running.posts(PHOTOGRAPHS[2:4]), *running.posts(floats)]
        responses = await asyncio.gather(*posts)
        wanted = embedded(PHOTOGRAPHS[[2, 3, 0, 1]])
        np.testing.assert_allclose([vector(each) for each in responses], wanted, rtol=1e-4, atol=1e-5)
        assert {each.headers["x-batch-size"] for each in responses} == {"4"}


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["gcu210", "gcu300"])
async def test_a_lone_request_waits_for_a_time_only(arch: str):
    """It is answered though no other request comes, on each chip, in strict mode too."""
    async with serving(Settings(size=32, delay=0.001), arch=arch, strict=True) as running:
        response = await running.post(PHOTOGRAPHS[0])
        np.testing.assert_allclose(vector(response), embedded(PHOTOGRAPHS[:1])[0], rtol=1e-4, atol=1e-5)
        assert response.headers["x-batch-size"] == "1"


@pytest.mark.slow
async def test_a_full_queue_is_429_with_retry_after():
    """What is in the queue is answered when the device goes on; what found it full was told when to come again."""
    async with serving(Settings(size=1, delay=0, lanes=1, capacity=2)) as running:
        batcher = running.service.batcher
        async with held(running):
            posts = running.posts(PHOTOGRAPHS[:1])
            await until(lambda: batcher.running == 1)
            posts += running.posts(PHOTOGRAPHS[1:3])
            await until(lambda: batcher.waiting == 2)
            refused = await running.post(PHOTOGRAPHS[3])
            assert (await running.metrics())["service_queue_depth"] == 2
        assert refused.status_code == 429
        assert refused.json()["error"] == "QueueFull"
        assert int(refused.headers["retry-after"]) >= 1
        rows = [vector(each) for each in await asyncio.gather(*posts)]
        np.testing.assert_allclose(rows, embedded(PHOTOGRAPHS[:3]), rtol=1e-4, atol=1e-5)


@pytest.mark.slow
async def test_a_missed_deadline_is_504_and_spares_the_device():
    """By header, by query or by default, while the device stands still; no batch has them afterwards."""
    settings = Settings(size=1, delay=0, lanes=1, deadline=0.02, longest_deadline=30)
    async with serving(settings) as running:
        async with held(running):
            first = asyncio.create_task(running.post(PHOTOGRAPHS[0], headers={"X-Deadline-Ms": "99999"}))
            await until(lambda: running.service.batcher.running == 1)
            late = await asyncio.gather(
                running.post(PHOTOGRAPHS[1], headers={"X-Deadline-Ms": "10"}),
                running.post(PHOTOGRAPHS[2], headers={"X-Deadline-Ms": ""}, params={"deadline_ms": "10"}),
                running.post(PHOTOGRAPHS[3], headers={"X-Deadline-Ms": ""}),
            )
            assert running.service.batcher.waiting == 0
        assert [(each.status_code, each.json()["error"]) for each in late] == [(504, "DeadlineMissed")] * 3
        assert (await first).status_code == 200
        assert (await running.metrics())["service_batch_size_sum"] == 1


@pytest.mark.slow
async def test_a_body_that_trickles_in_has_the_same_deadline():
    """A client that promises a body and does not send it gets 504, and holds nothing."""
    async with serving(Settings(deadline=0.02)) as running:
        reader, writer = await connection(running.url)
        writer.write(b"POST /embed HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 1024\r\n\r\nsome")
        assert (await reader.readline()).split()[1] == b"504"
        assert b"the body did not come within" in await reader.read()
        writer.close()
        await writer.wait_closed()


@pytest.mark.slow
async def test_a_client_that_leaves_gives_its_place_back():
    """In the queue its place is free at once; on the device its batch goes on without a waiter."""
    async with serving(HELD) as running:
        batcher = running.service.batcher
        async with held(running):
            posts = running.posts(PHOTOGRAPHS[:1])
            await until(lambda: batcher.running == 1)
            posts += running.posts(PHOTOGRAPHS[1:3])
            await until(lambda: batcher.waiting == 2)
            for left in (posts[0], posts[1]):
                left.cancel()
            await until(lambda: batcher.waiting == 1)
        np.testing.assert_allclose(vector(await posts[2]), embedded(PHOTOGRAPHS[2:3])[0], rtol=1e-4, atol=1e-5)
        figures = await running.metrics()
        assert figures['service_requests_total{status="499"}'] == 2
        assert figures["service_batch_size_sum"] == 2


@pytest.mark.slow
async def test_a_client_that_leaves_while_it_sends_is_counted_too():
    """A body that ends in the middle is no error and gets no answer."""
    async with serving() as running:
        _, writer = await connection(running.url)
        writer.write(b"POST /embed HTTP/1.1\r\nHost: x\r\nContent-Length: 1024\r\n\r\nsome")
        writer.close()
        await writer.wait_closed()
        figures: dict[str, float] = {}
        while 'service_requests_total{status="499"}' not in figures:
            figures = await running.metrics()


@pytest.mark.slow
async def test_a_failed_batch_is_500_and_names_the_kernels_error(monkeypatch: pytest.MonkeyPatch):
    """Its requests are told what failed; the next is answered as if nothing had been."""
    async with serving(Settings(size=2, delay=LONG, lanes=1)) as running:
        with monkeypatch.context() as patch:
            patch.setattr(kernels, "normalise", refuse)
            failed = await asyncio.gather(*running.posts(PHOTOGRAPHS[:2]))
        for each in failed:
            assert (each.status_code, each.json()["error"]) == (500, "KernelAssert")
            assert "out of focus" in each.json()["message"]
        rows = [vector(each) for each in await asyncio.gather(*running.posts(PHOTOGRAPHS[:2]))]
        np.testing.assert_allclose(rows, embedded(PHOTOGRAPHS[:2]), rtol=1e-4, atol=1e-5)
        figures = await running.metrics()
        assert figures['service_batches_total{outcome="failed"}'] == 1
        assert figures['service_batches_total{outcome="done"}'] == 1


BAD = {
    "too short": ({"content": b"short"}, 400, "5 bytes"),
    "too long": ({"content": bytes(5000)}, 413, "more than 4096 bytes"),
    "not a number": ({"content": np.full(1024, np.nan, "<f4").tobytes()}, 400, "0 to 1"),
    "no pixel": ({"content": np.full(1024, 3e38, "<f4").tobytes()}, 400, "0 to 1"),
    "no deadline": ({"content": bytes(1024), "headers": {"X-Deadline-Ms": "soon"}}, 400, "'soon'"),
    "a deadline before now": (
        {"content": bytes(1024), "headers": {"X-Deadline-Ms": ""}, "params": {"deadline_ms": "-5"}}, 400, "'-5'"
    ),
}  # fmt: skip


@pytest.mark.slow
async def test_what_is_no_photograph_never_comes_near_a_batch():
    """It is told what would be right; other methods and paths are refused as usual."""
    async with serving() as running:
        for request, status, says in BAD.values():
            response = await running.client.post("/embed", **request)
            assert (response.status_code, response.json()["error"]) == (status, "BadRequest")
            assert says in response.json()["message"]
        assert (await running.client.get("/embed")).status_code == 405
        assert "service_batches_total" not in "".join(await running.metrics())


@pytest.mark.slow
async def test_the_metrics_are_true():
    """After a known number of requests each figure is what it must be, and buckets add up."""
    async with serving(Settings(size=2, delay=LONG, lanes=1)) as running:
        await asyncio.gather(*running.posts(PHOTOGRAPHS[:6]))
        await running.client.post("/embed", content=b"")
        text = (await running.client.get("/metrics")).text
        device = running.service.network.device
        await device.wait()
        figures = await running.metrics()
        assert text.endswith("\n")
        wanted = {
            'service_requests_total{status="200"}': 6,
            'service_requests_total{status="400"}': 1,
            "service_request_seconds_count": 7,
            'service_request_seconds_bucket{le="+Inf"}': 7,
            'service_batches_total{outcome="done"}': 3,
            'service_batch_size_bucket{le="1.0"}': 0,
            'service_batch_size_bucket{le="2.0"}': 3,
            "service_batch_size_sum": 6,
            "service_batch_size_count": 3,
            "service_batch_seconds_count": 3,
            "service_queue_depth": 0,
            "service_queue_capacity": 256,
            "service_requests_on_device": 0,
            "atops_allocations": WEIGHTS,
            'atops_memory_bytes{kind="used"}': device.statistics().memory.used,
            'atops_streams{state="active"}': 0,
            'atops_streams{state="poisoned"}': 0,
            "atops_commands_pending": 0,
        }
        assert {name: figures.get(name) for name in wanted} == wanted
        assert figures['atops_memory_bytes{kind="used"}'] >= 4 * sum(w.size for w, _ in kernels.random_layers(1))
        buckets = [value for name, value in figures.items() if name.startswith("service_request_seconds_bucket")]
        assert buckets == sorted(buckets)
        async with held(running):
            posts = running.posts(PHOTOGRAPHS[:3])
            await until(lambda: (running.service.batcher.running, running.service.batcher.waiting) == (2, 1))
            busy = await running.metrics()
            posts += running.posts(PHOTOGRAPHS[3:4])
        await asyncio.gather(*posts)
        assert busy["service_requests_on_device"] == 2 and busy["service_queue_depth"] == 1
        assert busy['atops_streams{state="active"}'] == 2 and busy["atops_commands_pending"] >= 2


@pytest.mark.slow
async def test_a_shutdown_finishes_what_is_in_flight():
    """New connections are refused, health says so, and accepted ones get their answers."""
    async with serving(HELD) as running:
        assert (await running.client.get("/healthz")).status_code == 200
        async with held(running):
            posts = running.posts(PHOTOGRAPHS[:2])
            await until(lambda: (running.service.batcher.running, running.service.batcher.waiting) == (1, 1))
            running.server.should_exit = True
            await until(lambda: not running.server.servers[0].is_serving())
            with pytest.raises(httpx.ConnectError):
                async with httpx.AsyncClient(trust_env=False) as late:
                    await late.get(f"{running.url}/healthz")
        rows = [vector(each) for each in await asyncio.gather(*posts)]
        np.testing.assert_allclose(rows, embedded(PHOTOGRAPHS[:2]), rtol=1e-4, atol=1e-5)
        await running.task


@pytest.mark.slow
async def test_a_service_that_is_closing_says_503():
    """An open connection is told when to come again, and health is not good any more."""
    async with serving() as running:
        running.service.batcher.close()
        response = await running.post(PHOTOGRAPHS[0])
        assert (response.status_code, response.json()["error"]) == (503, "ShuttingDown")
        assert int(response.headers["retry-after"]) >= 1
        assert (await running.client.get("/healthz")).status_code == 503


@pytest.mark.slow
async def test_a_shutdown_ends_though_the_device_does_not(caplog: pytest.LogCaptureFixture):
    """A kernel that waits for ever costs the grace; then its requests are dropped and the driver is closed."""
    settings = Settings(size=1, delay=0, lanes=1, grace=0.05)
    async with serving(settings) as running:
        device = running.service.network.device
        stream = device.create_stream(priority=-2)
        stream.launch(hold, (device.arch.clusters, 1), device.signals.allocate())
        posts = running.posts(PHOTOGRAPHS[:2])
        await until(lambda: (running.service.batcher.running, running.service.batcher.waiting) == (1, 1))
        running.server.should_exit = True
        outcomes = await asyncio.gather(*posts, return_exceptions=True)
        assert all(isinstance(each, httpx.RemoteProtocolError) or each.status_code >= 500 for each in outcomes)
        await running.task
    assert "timeout graceful shutdown exceeded" in caplog.text
