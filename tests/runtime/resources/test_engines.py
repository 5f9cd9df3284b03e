"""The copy engines of a bundle: its copies hold no more of them at once, others what they like."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

import atops
import atops.tops as tops
from atops import executable
from atops.device.copy_engine import CopyJob, Direction
from atops.runtime.commands.copy import Copy
from atops.runtime.resources.bundle import chosen_bundle, create_bundle, set_chosen_bundle, within
from atops.runtime.resources.placement import BundleRequest
from atops.runtime.stream import queue_of
from atops.tops import aio
from tests.runtime.boards import PATIENCE, Latch, device
from tests.runtime.executable_models import linear
from tests.runtime.virtual_time import MOVE, ODD, host, span, virtual

LARGE = 1 << 18  # more than is copied without an engine


@pytest.fixture(autouse=True)
def no_default():
    """Have no default bundle before and after each test."""
    set_chosen_bundle(None)
    yield
    set_chosen_bundle(None)


@pytest.fixture
def gcu():
    """A device of eight copy engines."""
    with device() as gcu:
        yield gcu


# ---- the copies of a bundle


def hold(share):
    """Hold one engine of a share. Returns what to release."""
    held = CopyJob(0, 0, Direction.NONE)
    share.request(held)
    return held


def test_copies_of_a_bundle_wait_for_its_engines(gcu):
    """With its one engine in use a copy waits that was enqueued with it as the default; others do not wait for it."""
    bundle = create_bundle(gcu.context, BundleRequest(sips=1, engines=1))
    held = hold(bundle.engines)
    source, target = gcu.allocate(LARGE), gcu.allocate(LARGE)
    theirs, ours = (gcu.create_stream(nonblocking=True) for _ in range(2))
    set_chosen_bundle(bundle)
    mine = theirs.copy(target, source)
    set_chosen_bundle(None)
    other = ours.copy(target, source)
    other.wait_sync(PATIENCE)
    assert not mine.done() and mine.parked is bundle.engines
    bundle.engines.release(held)
    mine.wait_sync(PATIENCE)
    assert "0 of 1 busy, link none, 0 waiting" in repr(bundle.engines)


def test_a_bundle_without_engines_uses_any(gcu):
    """It claims none, so nothing holds its copies back; nor a bundle that is destroyed, or of another context."""
    bundle = create_bundle(gcu.context, BundleRequest(clusters=1))
    assert bundle.engines is None
    limited = create_bundle(gcu.context, BundleRequest(sips=1, engines=1))
    stream, host = gcu.create_stream(), np.ones(LARGE, np.uint8)
    for default in (bundle, limited):
        set_chosen_bundle(default)
        limited.close()
        stream.copy(gcu.allocate(LARGE), host).wait_sync(PATIENCE)


def test_an_abort_ends_a_copy_that_waits(gcu):
    """It leaves the queue of the bundle's engines, and what is enqueued then comes to its turn."""
    bundle = create_bundle(gcu.context, BundleRequest(sips=1, engines=1))
    held, stream, memory = hold(bundle.engines), gcu.create_stream(), [gcu.allocate(LARGE) for _ in range(2)]
    set_chosen_bundle(bundle)
    dropped = stream.copy(*memory)
    marked = gcu.create_stream(nonblocking=True)
    while dropped.parked is None:  # it comes to its turn on another thread
        marked.record().sync(PATIENCE)
    stream.abort()
    assert dropped.done()
    assert "1 of 1 busy, link none, 0 waiting" in repr(bundle.engines)
    bundle.engines.release(held)
    stream.copy(*memory).wait_sync(PATIENCE)


def test_an_abort_gives_the_turn_of_a_copy_to_the_next(gcu):
    """A copy that has its turn in the bundle, and waits for the device's engines, leaves both when it is aborted."""
    engines = gcu.context.engines
    bundle = create_bundle(gcu.context, BundleRequest(sips=1, engines=1))
    held = [hold(engines) for _ in range(engines.engines)]
    streams = [gcu.create_stream(nonblocking=True) for _ in range(2)]
    source, target = gcu.allocate(LARGE), gcu.allocate(LARGE)
    marked = gcu.create_stream(nonblocking=True)
    with within(bundle):
        first = streams[0].copy(target, source)
        while first.parked is None:
            marked.record().sync(PATIENCE)
        second = streams[1].copy(target, source)
        while second.parked is None:
            marked.record().sync(PATIENCE)
    assert len(engines.waiting) == len(bundle.engines.waiting) == 1
    streams[0].abort()
    assert first.done() and len(engines.waiting) == 1 and not bundle.engines.waiting
    for each in held:
        engines.release(each)
    second.wait_sync(PATIENCE)
    assert "0 of 1 busy, link none, 0 waiting" in repr(bundle.engines)


def test_claimed_engines_go_when_the_last_copy_ends(gcu):
    """A bundle that was destroyed keeps its engines as long as a copy of it is not over."""
    bundle = create_bundle(gcu.context, BundleRequest(sips=1, engines=4))
    stream, latch = gcu.create_stream(nonblocking=True), Latch(gcu)
    latch.hold(stream)
    set_chosen_bundle(bundle)
    item = stream.copy(gcu.allocate(LARGE), gcu.allocate(LARGE))
    set_chosen_bundle(None)
    bundle.close()
    assert create_bundle(gcu.context, BundleRequest(sips=1, engines=4)).clusters != bundle.clusters
    latch.open()
    item.wait_sync(PATIENCE)
    stream.sync(PATIENCE)
    assert create_bundle(gcu.context, BundleRequest(sips=1, engines=4)).clusters == bundle.clusters


@pytest.mark.parametrize(
    ("claimed", "begins"), [(0, [0] * 5), (1, [*range(5)]), (2, [0, 0, 1, 1, 2]), (4, [0] * 4 + [1])]
)
@pytest.mark.parametrize("seed", [None, 3])
def test_virtual_time_shows_how_many_copy_at_once(claimed, begins, seed):
    """Five copies of a bundle that claims so many engines of a cluster's four begin when one of these is free."""

    async def main():
        device = atops.Device(0)
        source, streams = device.empty(ODD, np.uint8), [device.create_stream() for _ in range(6)]
        targets = [device.empty(ODD, np.uint8) for _ in streams]
        bundle = create_bundle(device.context, BundleRequest(sips=1, engines=claimed))
        with within(bundle):
            mine = [stream.copy(target, source) for stream, target in zip(streams[:5], targets, strict=False)]
        other = streams[5].copy(targets[5], source)
        await device.wait()
        assert sorted(span(item)[0] // MOVE for item in mine) == begins
        assert span(other) == (0, MOVE)

    virtual(main, seed=seed)


def test_c_style_copies_are_held_to_the_default_bundle_s_engines():
    """The copies that a call waits for, short ones as well, and those that it leaves to a stream."""

    async def main():
        device = atops.Device(0)
        pointers = [tops.check(tops.topsMalloc(1024)) for _ in range(4)]
        streams = [tops.check(tops.topsStreamCreateWithFlags(tops.topsStreamNonBlocking)) for _ in range(2)]
        bundle = create_bundle(device.context, BundleRequest(sips=1, engines=1))
        held = hold(bundle.engines)
        with within(bundle):
            for stream, pointer in zip(streams, pointers, strict=False):
                tops.check(tops.topsMemcpyAsync(pointer, pointers[-1], 1024, tops.topsMemcpyDeviceToDevice, stream))
            up = asyncio.ensure_future(aio.topsMemcpyHtoD(pointers[2], host(1024), 1024))
            await asyncio.sleep(0)
        await device.create_stream(nonblocking=True).copy(device.empty(ODD, np.uint8), host())  # all else had its time
        assert [tops.topsStreamQuery(each)[0] for each in streams] == [tops.topsErrorNotReady] * 2
        assert not up.done()
        bundle.engines.release(held)
        assert await up == (tops.topsSuccess,)
        assert await aio.topsDeviceSynchronize() == (tops.topsSuccess,)

    virtual(main)


def test_what_an_executable_uploads_for_a_bundle_is_the_bundle_s(gcu):
    """The constants that are loaded for it, and the sections that its launch and an update bring, without a default."""
    bundle = create_bundle(gcu.context, BundleRequest(sips=1, engines=1))
    stream, latch = gcu.create_stream(nonblocking=True), Latch(gcu)
    exe = executable.build(linear(), refit=["b"])
    latch.hold(stream)

    def shares():
        return [item.share for item in queue_of(stream).pending() if isinstance(item.command, Copy)]

    constants = exe.load_constants(stream, bundle)
    assert shares() == [bundle.engines] * len(constants) and len(constants) == 2
    x, y = gcu.empty((2, 4), np.float32), gcu.empty((2, 3), np.float32)
    exe.launch(stream, [x], [y], bundle=bundle)
    assert shares()[2:] == [bundle.engines] * 2 and chosen_bundle() is None
    other = executable.build(linear())
    other.launch(stream, [x], [y])
    assert shares()[4:] == [None]
    latch.open()
    stream.sync(PATIENCE)


def test_within(gcu):
    """A block has its own bundle, which the thread does not keep; without one nothing changes."""
    bundle, other = (create_bundle(gcu.context, BundleRequest(sips=1, engines=1)) for _ in range(2))
    set_chosen_bundle(bundle)
    with within(other):
        assert chosen_bundle() is other
        with within(None):
            assert chosen_bundle() is other
    assert chosen_bundle() is bundle
