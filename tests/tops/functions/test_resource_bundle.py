"""Resource bundles (TOPS Runtime API, 2.11)."""

from __future__ import annotations

import threading
import time
from typing import ClassVar

import numpy as np
import pytest

import atops
import atops.tops as tops
from atops import kernels as k
from atops.base.options import EmulatorOptions
from atops.bridge.handles import stream_of
from atops.device.exec.thread import current_thread
from atops.runtime.board.current_device import enter, leave
from atops.runtime.driver import Driver, board_of
from atops.runtime.executables.file import ExecutableFile, SectionKind
from atops.runtime.resources.bundle import chosen_bundle, set_chosen_bundle
from tests.runtime.boards import PATIENCE, Latch
from tests.runtime.executable_models import fixed
from tests.tops.conformance import Case, Conformance

BANKS = 4  # gcu300's
MIB = 1 << 20
INVALID = tops.topsErrorInvalidValue
DEAD = tops.topsErrorInvalidHandle
NONE_LEFT = tops.topsErrorLaunchOutOfResources


def request(mode="CLUSTER", *, count=0, exclusive=False, affinity_only=False, **bundle):
    """Return a request for a bundle of a mode."""
    return tops.topsResourceRequest_t(
        cluster_count=count,
        need_alloc_cluster=exclusive,
        mem_alloc_affinity_only=affinity_only,
        res_bundle_cfg=tops.topsResourceBundle_t(
            mode=getattr(tops, f"TOPS_RES_BUNDLE_MODE__{mode}"), **bundle
        ),
    )


def create(*arguments, **named):
    """Return the handle of a new bundle."""
    return tops.check(tops.topsCreateResource(request(*arguments, **named)))


def one(world):
    """Return the handle of a bundle of cluster 1."""
    return create("PG", pg_mask=0b10)


def destroyed(world):
    """Return the handle of a bundle that is no more."""
    handle = create("PG", pg_mask=0b10)
    tops.check(tops.topsDestroyResource(handle))
    return handle


def file_for(target=None, **asked):
    """Return an executable as a file has it: built to ask for something, or with another target resource."""
    opened = atops.executable.build(fixed(), **asked)
    if target is None:
        return opened.to_bytes()
    file = ExecutableFile.from_bytes(opened.to_bytes())
    contents = {SectionKind(each.kind): file.content(each.kind) for each in file.sections}
    return ExecutableFile.of({**contents, SectionKind.TARGET_RESOURCE: target}).to_bytes()


def executable(target=None, **asked):
    """Return the handle of an executable."""
    return tops.check(tops.topsCreateExecutable(data := file_for(target, **asked), len(data)))


@pytest.fixture(autouse=True)
def no_default():
    """Have no default bundle before and after each test."""
    set_chosen_bundle(None)
    yield
    set_chosen_bundle(None)


class TestResource(Conformance):
    """Every function about bundles, by its rows."""

    def after_row(self) -> None:
        """Have no default bundle again."""
        set_chosen_bundle(None)

    good: ClassVar = {
        "topsCreateResource": lambda world: (request(cluster_num=1),),
        "topsCreateResourceForExecutable": lambda world: (executable(),),
        "topsDestroyResource": lambda world: (one(world),),
        "topsDeviceSetResource": lambda world: (one(world),),
        "topsGetAffinityBankListV2": lambda world: (one(world), BANKS),
        "topsMallocForResource": lambda world: (4096, one(world)),
        "topsResourceBundleGetAttribute": lambda world: (one(world), tops.topsResourceBundleProcessorCount),
    }
    bad = (
        *(
            Case("topsCreateResource", what, (asked,), code)
            for what, asked, code in (
                ("no cluster", request(cluster_num=0), INVALID),
                ("unknown mode asks for no cluster", request("UNKNOWN"), INVALID),
                ("no SIP", request("VG"), INVALID),
                ("no bit", request("PG"), INVALID),
                ("a bit too high", request("PG", pg_mask=0b100), INVALID),
                ("no such mode", tops.topsResourceRequest_t(res_bundle_cfg=tops.topsResourceBundle_t(mode=9)), INVALID),
                ("no such policy", request(cluster_num=1, hbm_policy=7), INVALID),
                ("negative memory", request(cluster_num=1, hbm_mem_size=-1), INVALID),
                ("another bundle", tops.topsResourceRequest_t(res_bundle_cfg=b"\0" * 512), INVALID),
                ("three clusters", request(cluster_num=3), NONE_LEFT),
                ("three clusters of the user's", request("USER", count=3), NONE_LEFT),
                ("thirteen SIPs", request("VG", sip_num=13), NONE_LEFT),
                ("five copy engines", request("VG", sip_num=1, cdma_num=5), NONE_LEFT),
                ("much memory", request(cluster_num=1, hbm_mem_size=1 << 40), tops.topsErrorOutOfMemory),
            )
        ),
        *(
            Case(name, "destroyed", lambda world, more=more, first=first: (*first, destroyed(world), *more), DEAD)
            for name, first, more in (
                ("topsDestroyResource", (), ()),
                ("topsDeviceSetResource", (), ()),
                ("topsGetAffinityBankListV2", (), (BANKS,)),
                ("topsMallocForResource", (4096,), ()),
                ("topsResourceBundleGetAttribute", (), (0,)),
            )
        ),
        *(
            Case("topsCreateResourceForExecutable", what, lambda world, asked=asked: (executable(**asked),), code)
            for what, asked, code in (
                ("three clusters", {"clusters": 3}, NONE_LEFT),
                ("much memory", {"memory": 1 << 40}, tops.topsErrorOutOfMemory),
                ("an unknown mode", {"target": b"\7" * 528}, tops.topsErrorInvalidImage),
                ("nothing asked for", {"target": bytes(528)}, tops.topsErrorInvalidImage),
            )
        ),
        Case("topsCreateResourceForExecutable", "a bundle", lambda world: (one(world),), DEAD),
        Case("topsDestroyResource", "a stream", lambda world: (tops.check(tops.topsStreamCreate()),), DEAD),
        Case("topsGetAffinityBankListV2", "three banks", lambda world: (one(world), 3), INVALID),
        Case("topsResourceBundleGetAttribute", "type 1", lambda world: (one(world), 1), INVALID),
        Case("topsMallocForResource", "negative size", lambda world: (-1, one(world)), INVALID),
        Case("topsMallocForResource", "too much", lambda world: (1 << 40, one(world)), tops.topsErrorOutOfMemory),
    )
    nullable: ClassVar = frozenset({("topsDeviceSetResource", "res")})


class Holder:
    """A kernel of one block of one thread that notes where it runs, and stays until it is opened."""

    def __init__(self, stream=0, blocks=1, threads=1):
        """Launch it."""
        self.places = places = []
        self.began = began = threading.Semaphore(0)
        self.gate = gate = threading.Event()
        seen = {}

        @k.kernel
        async def hold():
            thread = current_thread()
            places.append((thread.sip.cluster.ordinal, thread.sip.ordinal))
            began.release()
            over = False
            while not over:  # what its first thread sees holds for the whole block: all leave in the same round
                if k.threadIdx.x == 0:
                    seen[k.blockIdx.x] = gate.is_set()
                await k.syncthreads()
                over = seen[k.blockIdx.x]
                await k.syncthreads()

        self.answer = tops.topsLaunchKernel(hold, blocks, threads, [], 0, stream)

    def wait(self, threads=1):
        """Wait until so many threads of it run; returns where they do."""
        for _ in range(threads):
            assert self.began.acquire(timeout=PATIENCE)
        return sorted(self.places)

    def open(self):
        """Let it end."""
        self.gate.set()


def places(blocks=1, threads=1, stream=0):
    """Return where the threads of a launch ran: clusters and SIPs."""
    holder = Holder(stream, blocks, threads)
    tops.check(holder.answer)
    holder.open()
    tops.check(tops.topsStreamSynchronize(stream))
    return sorted(set(holder.places))


def clusters(blocks=4, threads=1, stream=0):
    """Return on which clusters the blocks of a launch ran."""
    return {cluster for cluster, _ in places(blocks, threads, stream)}


def using(handle):
    """Make a bundle the default."""
    tops.check(tops.topsDeviceSetResource(handle))


def processors(handle):
    """Return on how many clusters a bundle is."""
    return tops.check(tops.topsResourceBundleGetAttribute(handle, tops.topsResourceBundleProcessorCount))


def bank_of(world, pointer):
    """Return the bank that a pointer of device 0 lies in."""
    return world.device.context.memory.bank_of(pointer)


def used():
    """Return the bytes in use, bank by bank."""
    return tops.check(tops.topsGetMemUsageInfo(BANKS))[0]


# ---- what is claimed


@pytest.mark.parametrize(
    ("asked", "count"),
    [
        (request("DEVICE"), 2),
        (request(cluster_num=1), 1),
        (request(cluster_num=2), 2),
        (request("PG", pg_mask=0b11), 2),
        (request("VG", sip_num=4, cdma_num=2), 1),
        (request("UNKNOWN", count=2), 2),
        (request("USER", count=1), 1),
    ],
)
def test_processors_are_clusters_and_a_part_counts_as_one(world, asked, count):
    """The attribute tells the clusters of every mode."""
    assert processors(tops.check(tops.topsCreateResource(asked))) == count


def test_work_of_a_bundle_runs_on_its_clusters_only(world):
    """Four blocks take turns on the one cluster of a bundle, and spread over both without it."""
    handle = one(world)
    using(handle)
    assert clusters() == {1}
    using(None)
    held = Holder(threads=1)
    held.wait()
    stream = tops.check(tops.topsStreamCreateWithFlags(tops.topsStreamNonBlocking))
    assert clusters(stream=stream) == {1}  # the other one is held
    held.open()
    tops.check(tops.topsDeviceSynchronize())


def test_the_sips_of_a_part_are_its_own(world):
    """A bundle of 4 SIPs runs blocks of 4 threads on them, the next has others, and larger blocks do not fit."""
    first, second = create("VG", sip_num=4), create("VG", sip_num=4)
    found = []
    for handle in (first, second):
        using(handle)
        found.append(places(2, 4))
        assert len(found[-1]) == 4
        assert Holder(threads=5).answer == (NONE_LEFT,)
    assert not set(found[0]) & set(found[1])
    assert {cluster for each in found for cluster, _ in each} == {0}  # the second fits best where the first left 8


def test_a_part_goes_where_it_fits_best(world):
    """After 8 of 12 SIPs are gone, 4 fill that cluster, and 5 go to the other."""
    create("VG", sip_num=8)
    using(create("VG", sip_num=5))
    assert clusters() == {1}
    using(create("VG", sip_num=4))
    assert places(1, 4) == [(0, sip) for sip in range(8, 12)]


def test_an_exclusive_cluster_runs_nothing_else(world):
    """Work without a bundle, and bundles that share, use what an exclusive one leaves; it waits for no other there."""
    exclusive = create("PG", pg_mask=0b01, exclusive=True)
    assert clusters() == {1}
    using(create(cluster_num=1))
    assert clusters() == {1}
    using(exclusive)
    assert clusters() == {0}
    assert tops.topsCreateResource(request(cluster_num=2))[0] == NONE_LEFT
    assert tops.topsCreateResource(request("PG", pg_mask=0b01))[0] == NONE_LEFT
    assert tops.topsCreateResource(request("PG", pg_mask=0b10, exclusive=True))[0] == NONE_LEFT  # shared already


def test_without_anything_left_a_launch_is_refused_until_the_bundle_goes(world):
    """A bundle of the whole device leaves nothing to others; its end gives all back."""
    handle = create("DEVICE", exclusive=True)
    assert Holder().answer == (NONE_LEFT,)
    using(handle)
    assert clusters() == {0, 1}
    using(None)
    tops.check(tops.topsDestroyResource(handle))
    assert clusters() == {0, 1}


def test_work_that_comes_to_its_turn_too_late_fails(world):
    """What was enqueued before the device was claimed, and starts after it, ends its stream with the same code."""
    stream = tops.check(tops.topsStreamCreate())
    latch = Latch(world.device)
    latch.hold(stream_of(stream))
    holder = Holder(stream)
    holder.open()
    create("DEVICE", exclusive=True)
    latch.open()
    assert tops.topsStreamSynchronize(stream) == (NONE_LEFT,)
    assert holder.places == []


def test_what_waits_for_a_cluster_moves_when_another_claims_it(world):
    """Blocks that waited when a cluster became exclusive run where they still may; the running one is waited for."""
    held = [Holder(tops.check(tops.topsStreamCreateWithFlags(1))) for _ in range(2)]
    at = [holder.wait()[0][0] for holder in held]
    assert sorted(at) == [0, 1]
    waiting = Holder(tops.check(tops.topsStreamCreateWithFlags(1)), blocks=2)
    waiting.open()
    using(create("PG", pg_mask=0b01, exclusive=True))
    mine = Holder(tops.check(tops.topsStreamCreateWithFlags(1)))
    held[at.index(0)].open()
    assert mine.wait() == [(0, 0)]
    assert waiting.places == []
    held[at.index(1)].open()
    waiting.wait(2)
    assert {cluster for cluster, _ in waiting.places} == {1}
    mine.open()
    using(None)
    tops.check(tops.topsDeviceSynchronize())


def test_copy_engines_are_counted_on_the_cluster(world):
    """Two bundles of two engines use up a cluster's four; the next goes to the other cluster, then none is left."""
    for place in (0, 0, 1, 1):
        using(create("VG", sip_num=1, cdma_num=2))
        assert clusters() == {place}
    assert tops.topsCreateResource(request("VG", sip_num=1, cdma_num=1))[0] == NONE_LEFT


def test_cooperative_grids_fit_the_bundle(world):
    """A grid of two blocks that must meet cannot start on one cluster."""
    using(one(world))

    @k.kernel
    async def meet():
        await k.syncblocks()

    assert tops.topsLaunchCooperativeKernel(meet, 2, 1, [], 0, 0) == (tops.topsErrorCooperativeLaunchTooLarge,)
    using(create("DEVICE"))
    tops.check(tops.topsLaunchCooperativeKernel(meet, 2, 1, [], 0, 0))
    tops.check(tops.topsDeviceSynchronize())


# ---- the default


def test_the_default_is_of_the_calling_thread(world):
    """Another thread launches without it; None and 0 restore the device's own."""
    using(one(world))
    thread, found = world.thread(lambda: (chosen_bundle(), clusters(1)))
    thread.join(PATIENCE)
    assert found[0] == (None, {0})
    assert clusters(1) == {1}
    for none in (None, 0):
        using(none)
        assert clusters(1) == {0}


def test_the_default_is_of_its_device(world):
    """Work of another device goes where it likes."""
    using(one(world))
    tops.check(tops.topsSetDevice(1))
    assert clusters(1) == {0}


def test_a_destroyed_default_is_an_invalid_handle(world):
    """A launch with it is an error, and None repairs it."""
    handle = one(world)
    using(handle)
    tops.check(tops.topsDestroyResource(handle))
    assert Holder().answer == (DEAD,)
    assert tops.topsGetAffinityBankList(BANKS) == (DEAD, None)
    using(None)
    assert clusters() == {0, 1}


def test_a_reset_ends_bundles(world):
    """After topsDeviceReset the handle is dead, nothing is claimed, and the default counts no more."""
    handle = create("DEVICE", exclusive=True, hbm_mem_size=MIB)
    using(handle)
    tops.check(tops.topsDeviceReset())
    assert tops.topsDestroyResource(handle) == (DEAD,)
    assert clusters() == {0, 1}
    assert used() == [0] * BANKS


# ---- the end


def test_claims_go_when_the_last_work_ends(world):
    """A destroyed bundle is dead at once; its clusters and memory are free when its kernel is over, not before."""
    handle = create("DEVICE", exclusive=True, hbm_mem_size=MIB)
    using(handle)
    holder = Holder()
    holder.wait()
    using(None)
    tops.check(tops.topsDestroyResource(handle))
    assert tops.topsDestroyResource(handle) == (DEAD,)
    assert tops.topsCreateResource(request(cluster_num=1))[0] == NONE_LEFT
    assert sum(used()) == MIB
    holder.open()
    tops.check(tops.topsDeviceSynchronize())
    assert sum(used()) == 0
    create("DEVICE", exclusive=True)


def test_pointers_outlive_their_bundle(world):
    """What was allocated stays, with its bytes; topsFree gives it to the device then."""
    handle = create("PG", pg_mask=0b10, hbm_mem_size=MIB)
    pointer = tops.check(tops.topsMallocForResource(1000, handle))
    tops.check(tops.topsMemset(pointer, 7, 1000))
    tops.check(tops.topsDestroyResource(handle))
    assert 0 < sum(used()) < MIB
    data = np.zeros(1000, np.uint8)
    tops.check(tops.topsMemcpy(data, pointer, 1000, tops.topsMemcpyDeviceToHost))
    assert (data == 7).all()
    tops.check(tops.topsFree(pointer))
    assert sum(used()) == 0


# ---- memory


@pytest.mark.parametrize(
    ("policy", "affinity_only", "bank"),
    [("BEST_FIT", False, 2), ("AFFINITY_ONLY", False, 2), ("NONE", False, 0), ("BEST_FIT", True, 2), ("NONE", True, 2)],
)
def test_memory_is_reserved_by_policy(world, policy, affinity_only, bank):
    """The reservation of a bundle on cluster 1 is on a near bank, or from bank 0 up; allocations come from it."""
    handle = create(
        "PG", pg_mask=0b10, hbm_mem_size=MIB, affinity_only=affinity_only,
        hbm_policy=getattr(tops, f"TOPS_HBM_POLICY__{policy}"),
    )  # fmt: skip
    assert used() == [MIB * (each == bank) for each in range(BANKS)]
    pointer = tops.check(tops.topsMallocForResource(MIB, handle))
    assert bank_of(world, pointer) == bank
    assert sum(used()) == MIB
    outside = tops.check(tops.topsMallocForResource(MIB, handle))
    assert bank_of(world, outside) == bank
    assert sum(used()) == 2 * MIB


def test_near_banks_only_and_then_no_more(world):
    """Affinity-only memory ends with the near banks; best fit goes on to the others."""
    total = tops.check(tops.topsMemGetInfoExt(BANKS))[3][0]
    assert tops.topsCreateResource(
        request("PG", pg_mask=0b01, hbm_mem_size=2 * total + 1, affinity_only=True)
    ) == (tops.topsErrorOutOfMemory, None)  # fmt: skip
    near = create("PG", pg_mask=0b01, hbm_mem_size=2 * total, affinity_only=True)
    assert used() == [total, total, 0, 0]
    assert tops.topsMallocForResource(total, near)[0] == 0
    assert tops.topsMallocForResource(total, near)[0] == 0
    assert tops.topsMallocForResource(1, near) == (tops.topsErrorOutOfMemory, None)
    assert bank_of(world, tops.check(tops.topsMallocForResource(1, create("PG", pg_mask=0b01)))) == 2


def test_the_reservation_has_one_owner(world):
    """With all of the device's memory reserved topsMalloc has none, and the bundle has it to the last byte."""
    total = sum(tops.check(tops.topsMemGetInfoExt(BANKS))[3])
    handle = create("DEVICE", hbm_mem_size=total)
    assert tops.topsMalloc(1) == (tops.topsErrorOutOfMemory, None)
    pointers = [tops.check(tops.topsMallocForResource(total // BANKS, handle)) for _ in range(BANKS)]
    assert len({bank_of(world, each) for each in pointers}) == BANKS
    assert tops.topsMallocForResource(1, handle) == (tops.topsErrorOutOfMemory, None)


def test_freed_parts_are_reserved_again_and_grow_together(world):
    """However it is cut and freed, the reservation is one piece again at the end."""
    handle = create("DEVICE", hbm_mem_size=MIB)
    for order in ((0, 1, 2), (2, 1, 0), (1, 0, 2)):
        pointers = [tops.check(tops.topsMallocForResource(size, handle)) for size in (1000, 300_000, 1)]
        assert len({*pointers}) == 3
        for which in order:
            tops.check(tops.topsFree(pointers[which]))
        assert sum(used()) == MIB
        whole = tops.check(tops.topsMallocForResource(MIB, handle))
        assert sum(used()) == MIB
        assert tops.topsFree(whole) == (0,)
        assert tops.topsFree(whole)[0] == tops.topsErrorInvalidDevicePointer


def test_size_zero_gives_pointers_of_their_own(world):
    """Nothing is allocated, each pointer is another, and each is freed once."""
    handle = create("DEVICE", hbm_mem_size=MIB)
    pointers = [tops.check(tops.topsMallocForResource(0, handle)) for _ in range(3)]
    assert 0 not in pointers
    assert len({*pointers}) == 3
    for pointer in pointers:
        assert tops.topsFree(pointer) == (0,)


def test_banks_in_the_order_of_a_bundle(world):
    """V2 lists them for a given bundle, the first form and logical banks for the default one."""
    handle = one(world)
    assert tops.check(tops.topsGetAffinityBankListV2(handle, BANKS)) == [2, 3, 0, 1]
    assert tops.check(tops.topsGetAffinityBankList(BANKS)) == [0, 1, 2, 3]
    using(handle)
    assert tops.check(tops.topsGetAffinityBankList(BANKS)) == [2, 3, 0, 1]
    assert bank_of(world, tops.check(tops.topsExtMallocWithAffinity(1, 1, 0))) == 3
    assert tops.check(tops.topsGetAffinityBankListV2(create("DEVICE"), BANKS)) == [0, 1, 2, 3]


# ---- beside others


def test_creating_waits_for_a_reset(world):
    """While another thread resets the device the call waits; it succeeds on the fresh device."""
    stream = tops.check(tops.topsStreamCreate())
    holder = Holder(stream)
    holder.wait()
    entered, go_on = threading.Event(), threading.Event()

    def last() -> None:
        entered.set()
        go_on.wait(PATIENCE)

    tops.check(tops.topsStreamAddCallback(stream, lambda *_: last(), None, 0))
    resetting, reset = world.thread(tops.topsDeviceReset)
    assert entered.wait(PATIENCE)  # the callback runs: its stream was aborted, and the reset waits for it
    creating, made = world.thread(lambda: tops.topsCreateResource(request(cluster_num=1)))
    deadline = time.monotonic() + PATIENCE
    while sum(len(item.waiters or ()) for item in world.device.context.resetting()) < 2:  # the reset and the creation
        assert creating.is_alive()
        assert time.monotonic() < deadline
        time.sleep(0)
    assert made == []
    go_on.set()
    creating.join(PATIENCE)
    resetting.join(PATIENCE)
    assert made[0][0] == 0
    assert reset == [(0,)]
    assert tops.topsDestroyResource(made[0][1]) == (0,)


def test_many_threads_claim_each_sip_once(world):
    """Of 30 threads that each want an exclusive SIP, 24 get one, and no two the same."""
    threads = [
        world.thread(lambda: tops.topsCreateResource(request("VG", sip_num=1, exclusive=True))) for _ in range(30)
    ]
    for thread, _ in threads:
        thread.join(PATIENCE)
    answers = [found[0] for _, found in threads]
    assert sorted(answer[0] for answer in answers) == [0] * 24 + [NONE_LEFT] * 6
    assert Holder().answer == (NONE_LEFT,)
    for _, handle in answers:
        if handle is not None:
            tops.check(tops.topsDestroyResource(handle))
    assert clusters() == {0, 1}


def test_gcu210_has_bundles_too():
    """The other chip has as many clusters, SIPs and banks."""
    driver = Driver(EmulatorOptions(arch="gcu210", abort_grace=0.2, trace=0))
    enter(driver, board_of(driver))
    try:
        using(create("PG", pg_mask=0b10, exclusive=True))
        assert clusters() == {1}
    finally:
        leave(driver)
        driver.close()


def test_an_executable_says_what_it_needs(world):
    """The bundle has the clusters and the memory that the executable was built to ask for."""
    handle = tops.check(tops.topsCreateResourceForExecutable(executable(clusters=2, memory=MIB)))
    assert processors(handle) == 2
    assert sum(used()) == MIB
    assert processors(tops.check(tops.topsCreateResourceForExecutable(executable()))) == 1


def test_nothing_is_held_after_a_failure(world):
    """A request that fails for its memory, or for its clusters, leaves everything to be had."""
    before = tops.check(tops.topsGetMemUsageInfo(BANKS))[0]
    assert tops.topsCreateResource(request("DEVICE", exclusive=True, hbm_mem_size=1 << 40))[0] == 2
    assert tops.topsCreateResource(request(cluster_num=3, exclusive=True, hbm_mem_size=MIB))[0] == NONE_LEFT
    assert tops.check(tops.topsGetMemUsageInfo(BANKS))[0] == before
    create("DEVICE", exclusive=True)
