"""Bundles beside the rest of the runtime: loops, other forms of launches, inline runs, aborts, and the end."""

from __future__ import annotations

import asyncio

import pytest

import atops
from atops import kernels as k
from atops.base.errors import CooperativeLaunchTooLarge, InvalidHandle, LaunchOutOfResources, OutOfMemory
from atops.base.options import EmulatorOptions
from atops.device.exec.thread import current_thread
from atops.runtime.cooperative_launch import launch_together
from atops.runtime.device import Device
from atops.runtime.resources.bundle import bundle_of, chosen_bundle, create_bundle, set_chosen_bundle
from atops.runtime.resources.placement import BundleRequest
from tests.runtime.boards import PATIENCE, Latch, device, suspended_forever

MIB = 1 << 20


@pytest.fixture(autouse=True)
def no_default():
    """Have no default bundle before and after each test."""
    set_chosen_bundle(None)
    yield
    set_chosen_bundle(None)


def recorder():
    """Return a kernel and the clusters that its blocks have run on."""
    clusters = []

    @k.kernel
    def record():
        clusters.append(current_thread().sip.cluster.ordinal)

    return record, clusters


@k.cooperative
@k.kernel
async def meet():
    """Meet the other blocks."""
    await k.syncblocks()


def test_a_launch_takes_the_bundle_of_its_call():
    """What the default is when the kernel starts does not matter."""
    with device() as gcu:
        bundle = create_bundle(gcu.context, BundleRequest(cluster_mask=0b10))
        stream = gcu.create_stream()
        latch = Latch(gcu)
        latch.hold(stream)
        record, clusters = recorder()
        set_chosen_bundle(bundle)
        stream.launch(record, (3, 1))
        stream.launch(record, (3, 1))
        set_chosen_bundle(None)
        latch.open()
        stream.sync(PATIENCE)
        assert clusters == [1] * 6
        latch.close()


def test_grids_that_start_together_fit_their_bundles():
    """Two grids of one block meet on the two clusters of a bundle; a grid of two does not fit one cluster."""
    with device() as gcu:
        first, second = gcu.create_stream(), gcu.create_stream()
        set_chosen_bundle(create_bundle(gcu.context, BundleRequest()))
        for item in launch_together([(first, meet, (1, 1)), (second, meet, (1, 1))], cooperative=True):
            item.wait_sync(PATIENCE)
        set_chosen_bundle(create_bundle(gcu.context, BundleRequest(clusters=1)))
        with pytest.raises(CooperativeLaunchTooLarge):
            first.launch(meet, (2, 1))


def test_tasks_inherit_a_default_and_keep_their_own():
    """A task begins with its parent's bundle; what it sets is its own."""
    with device() as gcu:
        one, other = (create_bundle(gcu.context, BundleRequest(cluster_mask=mask)) for mask in (1, 2))

        async def child():
            before = chosen_bundle()
            set_chosen_bundle(other)
            await asyncio.sleep(0)
            return before, chosen_bundle()

        async def main():
            set_chosen_bundle(one)
            found = await asyncio.create_task(child())
            return (*found, chosen_bundle())

        assert asyncio.run(main()) == (one, other, one)
        assert chosen_bundle() is None  # the run leaves nothing behind for the thread's next one


def test_it_works_inline():
    """In a deterministic run bundles bind work as everywhere."""
    record, clusters = recorder()

    async def main():
        gcu = Device()
        bundle = create_bundle(gcu.context, BundleRequest(cluster_mask=0b10, exclusive=True, memory=MIB))
        async with gcu.create_stream() as stream:
            await stream.launch(record, (2, 1))
            set_chosen_bundle(bundle)
            await stream.launch(record, (2, 1))
            buffer = bundle.allocate(MIB)
            assert gcu.statistics().memory.used == MIB
            buffer.close()
        set_chosen_bundle(None)
        bundle.close()
        assert gcu.statistics().memory.used == 0

    atops.run(main, EmulatorOptions())
    assert clusters == [0, 0, 1, 1]


def test_an_abort_ends_the_last_work_too():
    """A destroyed bundle's clusters come back when its kernel is aborted."""
    with device() as gcu:
        bundle = create_bundle(gcu.context, BundleRequest(exclusive=True))
        stream = gcu.create_stream()
        set_chosen_bundle(bundle)
        item = stream.launch(suspended_forever, (1, 1))
        set_chosen_bundle(None)
        bundle.close()
        bundle.close()  # once more is fine
        with pytest.raises(LaunchOutOfResources, match="can be had"):
            create_bundle(gcu.context, BundleRequest(clusters=1))
        stream.abort()
        with pytest.raises(atops.base.errors.StreamAborted):
            item.wait_sync(PATIENCE)
        create_bundle(gcu.context, BundleRequest(exclusive=True))


def test_a_closed_bundle_takes_no_more():
    """It allocates nothing, is the bundle of no stream any more, and says so."""
    with device() as gcu:
        bundle = create_bundle(gcu.context, BundleRequest(sips=3))
        assert bundle_of(gcu.context) is None
        assert bundle_of(gcu.context, bundle) is bundle
        assert repr(bundle) == "<ResourceBundle on device 0: clusters 0 (3 SIPs)>"
        bundle.close()
        assert repr(bundle).endswith("destroyed>")
        with pytest.raises(InvalidHandle, match="destroyed"):
            bundle.allocate(1)
        with pytest.raises(InvalidHandle, match="destroyed"):
            bundle_of(gcu.context, bundle)


def test_a_bundle_of_another_device_is_refused():
    """Given for work of a device that it is not of, it is an invalid handle."""
    with device(devices=2) as gcu:
        other = Device(1, gcu.driver)
        bundle = create_bundle(other.context, BundleRequest())
        with pytest.raises(InvalidHandle, match="another device"):
            bundle_of(gcu.context, bundle)


def test_memory_of_idle_pools_is_given_back_for_a_reservation():
    """What a pool keeps is no obstacle; what is in use is, and then nothing is held."""
    with device() as gcu:
        stream = gcu.create_stream()
        stream.free(stream.allocate(MIB))
        stream.sync(PATIENCE)
        total = gcu.memory_info()[1]
        bundle = create_bundle(gcu.context, BundleRequest(memory=total))
        with pytest.raises(OutOfMemory, match="a resource bundle on banks"):
            create_bundle(gcu.context, BundleRequest(memory=1, exclusive=False))
        assert gcu.memory_info()[0] == 0
        bundle.close()
        assert gcu.memory_info() == (total, total)


def test_a_buffer_goes_back_when_the_work_that_uses_it_is_over():
    """Closing it while a copy is queued does not take it away."""
    with device() as gcu:
        bundle = create_bundle(gcu.context, BundleRequest(memory=MIB))
        stream = gcu.create_stream()
        latch = Latch(gcu)
        latch.hold(stream)
        buffer = bundle.allocate(MIB)
        done = stream.fill(buffer, 5)
        buffer.close()
        assert bundle.memory.free == 0
        latch.open()
        done.wait_sync(PATIENCE)
        gcu.sync(PATIENCE)
        assert bundle.memory.free == MIB
        latch.close()
