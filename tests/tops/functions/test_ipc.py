"""Memory and events between processes (TOPS Runtime API, 2.2)."""

from __future__ import annotations

import gc
import os
import resource
import socket
import statistics
import threading
import time
from typing import Any, ClassVar

import pytest

import atops.tops as tops
from atops.base.options import EmulatorOptions
from atops.base.result_codes import Result
from atops.bridge.handles import event_of
from atops.bridge.pointers import device_memory
from atops.runtime.board.current_device import enter, leave
from atops.runtime.driver import Driver, board_of
from atops.runtime.ipc import page as page_module
from atops.runtime.ipc.lending import EXPORTER, HandleKind, address_of, exporter
from atops.tops.header.functions import FUNCTIONS
from tests.runtime.boards import PATIENCE, Latch
from tests.tops.conformance import Case, Conformance
from tests.tops.processes import processes

SIZE = 4096
SHARED = tops.topsEventInterprocess | tops.topsEventDisableTiming
HANDLE, INVALID = tops.topsErrorInvalidHandle, tops.topsErrorInvalidValue


@pytest.fixture(scope="module")
def other():
    """A process that lends and borrows, for all tests that do not kill it."""
    with processes(1) as (found,):
        yield found


@pytest.fixture(scope="module", autouse=True)
def lender(other):
    """What conformance rows borrow, whose world cannot ask for fixtures."""
    OTHERS[:] = [other]
    pointer = other.do("malloc", size=SIZE)[1]
    event = other.do("create")[1]
    LENT.update(memory=bytes.fromhex(other.do("export", pointer=pointer)),
                event=bytes.fromhex(other.do("share", event=event)))


@pytest.fixture(autouse=True)
def nothing_lent(other):
    """Have every loan to the other process end with its test, so that one that fails takes no other along."""
    yield
    give_back(other)


def give_back(other) -> None:
    """End every loan to the other process."""
    other.do("give_back")
    until(lambda: not EXPORTER or EXPORTER[0].leases == 0)


LENT: dict[str, bytes] = {}
OTHERS: list[Any] = []  # the process that lends to conformance rows


def malloc(size: int = SIZE) -> int:
    """Return C-style memory."""
    return tops.check(tops.topsMalloc(size))


def fill(pointer: int, value: int) -> None:
    """Fill memory, and wait for that: other processes take no part in the order of this one's streams."""
    tops.check(tops.topsMemset(pointer, value, SIZE))
    tops.check(tops.topsStreamSynchronize(None))


def export(pointer: int) -> str:
    """Return a handle as it is sent."""
    return tops.check(tops.topsIpcGetMemHandle(pointer)).reserved.hex()


def shared_event() -> tuple[int, str]:
    """Return an event, and its handle as it is sent."""
    event = tops.check(tops.topsEventCreateWithFlags(SHARED))
    return event, tops.check(tops.topsIpcGetEventHandle(event)).reserved.hex()


def memory_handle(changed: int | None = None) -> tops.topsIpcMemHandle_t:
    """Return the other process's handle, perhaps with one byte changed."""
    data = bytearray(LENT["memory"])
    if changed is not None:
        data[changed] ^= 1
    return tops.topsIpcMemHandle_t(bytes(data))


def event_handle(changed: int | None = None) -> tops.topsIpcEventHandle_t:
    """As `memory_handle`, of an event."""
    data = bytearray(LENT["event"])
    if changed is not None:
        data[changed] ^= 1
    return tops.topsIpcEventHandle_t(bytes(data))


def freed(world) -> tuple:
    """Return memory that was freed."""
    pointer = malloc()
    tops.check(tops.topsFree(pointer))
    return (pointer,)


def pooled(world) -> tuple:
    """Return memory of a pool."""
    buffer = world.device.create_stream().allocate(SIZE)
    world.keep.append(buffer)
    return (buffer.address,)


def second_device(call):
    """Return what makes arguments with device 1 current; the fixture puts device 0 back."""
    return lambda world: tops.check(tops.topsSetDevice(1)) or call(world)


class TestIpc(Conformance):
    """Every function between processes by its rows."""

    def after_row(self) -> None:
        """End every loan to the other process."""
        give_back(OTHERS[0])

    functions = tuple(name for name in FUNCTIONS if name.startswith("topsIpc"))
    good: ClassVar = {
        "topsIpcGetMemHandle": lambda w: (malloc(),),
        "topsIpcOpenMemHandle": lambda w: (memory_handle(), tops.topsIpcMemLazyEnablePeerAccess),
        "topsIpcCloseMemHandle": lambda w: tuple(tops.topsIpcOpenMemHandle(memory_handle(), 0)[1:]),
        "topsIpcGetEventHandle": lambda w: (tops.check(tops.topsEventCreateWithFlags(SHARED)),),
        "topsIpcOpenEventHandle": lambda w: (event_handle(),),
        "topsIpcOpenEventHandleExt": second_device(lambda w: (event_handle(), tops.topsTopologyMapTypeEsl, -1)),
    }
    bad = (
        Case("topsIpcGetMemHandle", "an interior pointer", lambda w: (malloc() + 1,), HANDLE),
        Case("topsIpcGetMemHandle", "freed memory", freed, HANDLE),
        Case("topsIpcGetMemHandle", "size 0", lambda w: (malloc(0),), HANDLE),
        Case("topsIpcGetMemHandle", "memory of a pool", pooled, HANDLE),
        Case("topsIpcGetMemHandle", "host memory", lambda w: (w.device.host_malloc(8).address,), HANDLE),
        Case("topsIpcGetMemHandle", "imported", lambda w: tuple(tops.topsIpcOpenMemHandle(memory_handle(), 0)[1:]),
             HANDLE),
        *(Case("topsIpcOpenMemHandle", f"forged at {at}", lambda w, at=at: (memory_handle(at), 0), HANDLE)
          for at in (0, 4, 6, 16, 24, 32, 48, 63)),
        Case("topsIpcOpenMemHandle", "zeros", (tops.topsIpcMemHandle_t(), 0), HANDLE),
        Case("topsIpcOpenMemHandle", "K33 truncated", lambda w: (memory_handle().reserved[:63], 0), HANDLE),
        Case("topsIpcOpenMemHandle", "flags 1", lambda w: (memory_handle(), 1), INVALID),
        Case("topsIpcOpenMemHandle", "K28 its own", lambda w: (*tops.topsIpcGetMemHandle(malloc())[1:], 0),
             tops.topsErrorInvalidContext),
        Case("topsIpcCloseMemHandle", "K32 the originating process", lambda w: (malloc(),), HANDLE),
        Case("topsIpcCloseMemHandle", "an interior pointer",
             lambda w: (tops.topsIpcOpenMemHandle(memory_handle(), 0)[1] + 1,), HANDLE),
        Case("topsIpcGetEventHandle", "F30 DisableTiming only",
             lambda w: tops.topsEventCreateWithFlags(tops.topsEventDisableTiming)[1:],
             tops.topsErrorInvalidConfiguration),
        Case("topsIpcGetEventHandle", "F30 a plain event", lambda w: tops.topsEventCreate()[1:],
             tops.topsErrorInvalidConfiguration),
        Case("topsIpcGetEventHandle", "an imported event", lambda w: tops.topsIpcOpenEventHandle(event_handle())[1:],
             tops.topsErrorInvalidConfiguration),
        Case("topsIpcGetEventHandle", "a dead handle", (1 << 50,), HANDLE),
        *(Case("topsIpcGetEventHandle", f"F29 {null}, a null", (null,), INVALID) for null in (None, 0)),
        Case("topsIpcOpenEventHandle", "F28 the same process",
             lambda w: tops.topsIpcGetEventHandle(tops.topsEventCreateWithFlags(SHARED)[1])[1:],
             tops.topsErrorInvalidContext),
        Case("topsIpcOpenEventHandle", "F31 null", (None,), INVALID),
        Case("topsIpcOpenEventHandle", "F31 garbage", (tops.topsIpcEventHandle_t(bytes(range(64))),), INVALID),
        *(Case("topsIpcOpenEventHandle", f"forged at {at}", lambda w, at=at: (event_handle(at),), INVALID)
          for at in (6, 16, 32, 48)),
        Case("topsIpcOpenEventHandleExt", "an event of the current device", lambda w: (event_handle(), 0, -1), INVALID),
        Case("topsIpcOpenEventHandleExt", "no such link",
             second_device(lambda w: (event_handle(), tops.topsTopologyMapTypeEsl, 4)), INVALID),
        Case("topsIpcOpenEventHandleExt", "no such kind", second_device(lambda w: (event_handle(), 9, 0)), INVALID),
        Case("topsIpcOpenEventHandleExt", "the same process",
             lambda w: (*tops.topsIpcGetEventHandle(tops.topsEventCreateWithFlags(SHARED)[1])[1:], 0, -1),
             tops.topsErrorInvalidContext),
    )  # fmt: skip
    unreachable: ClassVar = {
        ("topsIpcGetMemHandle", Result.OutOfMemory): "no descriptor: test_few_descriptors",
        ("topsIpcGetMemHandle", Result.MapFailed): "nothing is mapped before it is opened",
        ("topsIpcOpenMemHandle", Result.MapFailed): "another board: test_another_board",
        ("topsIpcOpenMemHandle", Result.TooManyPeers): "a device can be a peer of all others",
        ("topsIpcCloseMemHandle", Result.MapFailed): "an end of a mapping does not fail",
    }


# ---- memory


def test_k26_one_handle_for_each_life(world):
    """K26: an allocation has one handle; the next one at the same address has another."""
    pointer = malloc()
    first = export(pointer)
    assert export(pointer) == first
    tops.check(tops.topsFree(pointer))
    assert malloc() == pointer
    assert export(pointer) != first


def test_both_see_the_same_bytes(world, other):
    """What one process writes the other reads, both ways, and a pointer into the middle works."""
    pointer = malloc()
    fill(pointer, 7)
    there = other.do("open", handle_=export(pointer))[1]
    assert other.do("read", pointer=there + SIZE - 2, size=2) == [7, 7]
    other.do("write", pointer=there, value=9, size=3)
    host = bytearray(4)
    tops.check(tops.topsMemcpy(host, pointer, 4, tops.topsMemcpyDeviceToHost))
    assert host == b"\x09\x09\x09\x07"
    assert other.do("close", pointer=there) == [0]


def test_k31_opened_twice_closed_twice(world, other):
    """K31: opening again gives the same pointer; it is valid until both are closed, and dead then."""
    handle = memory_handle()
    first = tops.check(tops.topsIpcOpenMemHandle(handle, 0))
    assert tops.topsIpcOpenMemHandle(handle, 0) == (0, first)
    assert tops.topsIpcCloseMemHandle(first) == (0,)
    assert tops.topsMemset(first, 1, SIZE) == (0,)
    assert tops.topsIpcCloseMemHandle(first) == (0,)
    assert tops.topsMemset(first, 1, SIZE)[0] != 0
    assert tops.topsIpcCloseMemHandle(first) == (HANDLE,)


def test_work_enqueued_before_the_close_still_runs(world):
    """The last close takes nothing from work that was enqueued before it."""
    pointer = tops.check(tops.topsIpcOpenMemHandle(memory_handle(), 0))
    latch, stream = Latch(world.device), world.device.create_stream(nonblocking=True)
    latch.hold(stream)
    filled = stream.fill(device_memory(pointer, SIZE), 3)
    assert tops.topsIpcCloseMemHandle(pointer) == (0,)
    latch.open()
    filled.wait_sync(PATIENCE)


def test_a_stale_handle_is_refused(world, other):
    """After the exporter has freed the memory its handle opens nothing."""
    pointer = malloc()
    handle = export(pointer)
    tops.check(tops.topsFree(pointer))
    assert other.do("open", handle_=handle) == [HANDLE, None]
    malloc()
    assert other.do("open", handle_=handle) == [HANDLE, None]


def test_freed_memory_is_not_used_again_while_it_is_lent(world, other):
    """The importer's bytes stay its own after topsFree; the range returns with the last close."""
    pointer = malloc()
    there = other.do("open", handle_=export(pointer))[1]
    fill(pointer, 5)
    tops.check(tops.topsFree(pointer))
    assert tops.topsMemset(pointer, 1, SIZE)[0] != 0
    again = malloc()
    assert again != pointer
    fill(again, 1)
    assert other.do("read", pointer=there, size=3) == [5, 5, 5]
    assert other.do("close", pointer=there) == [0]
    until(lambda: EXPORTER[0].leases == 0)
    assert malloc() == pointer


def until(condition) -> None:
    """Give another thread its turns until a condition holds. Fails at the limit."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0)


def test_a_loan_counts_until_its_end_is_done(world):
    """A process that sees no loan finds the range free: the count falls after the end of the loan, not before."""
    entered, gate = threading.Event(), threading.Event()

    class Slow:
        """Something whose loan takes a while to end."""

        alive = True

        def lend(self):
            return os.memfd_create("slow"), b""

        def end_loan(self):
            entered.set()
            gate.wait(PATIENCE)

    thing = Slow()
    handle = exporter().export(HandleKind.MEMORY, 1 << 60, 0, 0, thing)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.connect(address_of(exporter().token))
        connection.send(handle)
        _, (descriptor,), _, _ = socket.recv_fds(connection, 64, 1)
        os.close(descriptor)
    assert entered.wait(PATIENCE)
    thing.alive = False
    assert exporter().leases == 1
    gate.set()
    until(lambda: exporter().leases == 0)


def test_a_value_wait_sees_the_other_process(world, other):
    """A stream here waits for a word that the other process writes."""
    pointer = malloc()
    fill(pointer, 0)
    there = other.do("open", handle_=export(pointer))[1]
    stream = world.device.create_stream(nonblocking=True)
    waiting = stream.wait_value(device_memory(pointer, 4), 0x01010101, "Eq")
    other.do("write", pointer=there, value=1, size=4)
    waiting.wait_sync(PATIENCE)
    other.do("close", pointer=there)


def test_waits_from_before_the_export_see_the_other_process(world, other):
    """A stream and the host wait already when the memory becomes known elsewhere."""
    pointer = malloc()
    fill(pointer, 0)
    stream = world.device.create_stream(nonblocking=True)
    waiting = stream.wait_value(device_memory(pointer, 4), 0x01010101, "Eq")
    thread, answers = world.thread(lambda: tops.topsStreamWaitValue32(pointer + 4, 0x01010101, 1))
    memory = device_memory(pointer, 4).allocation
    until(lambda: len(memory.watches or ()) == 2)
    there = other.do("open", handle_=export(pointer))[1]
    other.do("write", pointer=there, value=1, size=8)
    waiting.wait_sync(PATIENCE)
    thread.join(PATIENCE)
    assert answers == [(0,)] and memory.watches is None
    other.do("close", pointer=there)


def test_what_is_known_of_an_imported_pointer(world):
    """It is device memory with a place and a size, which this process can neither free nor lend on."""
    pointer = tops.check(tops.topsIpcOpenMemHandle(memory_handle(), 0))
    facts = tops.check(tops.topsPointerGetAttributes(pointer + 5))
    assert (facts.memoryType, facts.device, facts.device_pointer) == (tops.topsMemoryTypeDevice, 0, pointer + 5)
    asked = {
        tops.TOPS_POINTER_ATTRIBUTE_RANGE_START_ADDR: pointer, tops.TOPS_POINTER_ATTRIBUTE_RANGE_SIZE: SIZE,
        tops.TOPS_POINTER_ATTRIBUTE_ACCESS_FLAGS: 3, tops.TOPS_POINTER_ATTRIBUTE_IS_LEGACY_TOPS_IPC_CAPABLE: False,
    }  # fmt: skip
    assert {which: tops.check(tops.topsPointerGetAttribute(which, pointer)) for which in asked} == asked
    tops.check(tops.topsSetDevice(1))
    beside = tops.check(tops.topsIpcOpenMemHandle(memory_handle(), 0))
    assert tops.topsPointerGetAttribute(tops.TOPS_POINTER_ATTRIBUTE_ACCESS_FLAGS, beside) == (0, 3)


@pytest.mark.slow
def test_a_killed_importer_leaves_nothing(world):
    """Kill -9 of the importer, of two: its lease ends, the other keeps its own, then memory is as it was."""
    pointer = malloc()
    before = world.device.memory_info()
    with processes(2) as (first, second):
        there = [each.do("open", handle_=export(pointer))[1] for each in (first, second)]
        fill(pointer, 6)
        tops.check(tops.topsFree(pointer))
        assert world.device.memory_info() == before
        first.kill()
        until(lambda: EXPORTER[0].leases == 1)
        assert second.do("read", pointer=there[1], size=2) == [6, 6]
        assert world.device.memory_info() == before
        second.kill()
        until(lambda: EXPORTER[0].leases == 0)
    assert world.device.memory_info()[0] == before[0] + SIZE


@pytest.mark.slow
def test_a_killed_exporter(world):
    """Kill -9 of the exporter: what is open stays valid until it is closed; the handle opens nothing any more."""
    with processes(1) as (exporter,):
        there = exporter.do("malloc", size=SIZE)[1]
        exporter.do("write", pointer=there, value=8, size=SIZE)
        handle = tops.topsIpcMemHandle_t(bytes.fromhex(exporter.do("export", pointer=there)))
        pointer = tops.check(tops.topsIpcOpenMemHandle(handle, 0))
        exporter.kill()
        host = bytearray(2)
        tops.check(tops.topsMemcpy(host, pointer, 2, tops.topsMemcpyDeviceToHost))
        assert host == b"\x08\x08"
        tops.check(tops.topsMemset(pointer, 1, SIZE))
        assert tops.topsIpcCloseMemHandle(pointer) == (0,)
        assert tops.topsIpcOpenMemHandle(handle, 0) == (HANDLE, None)


def test_no_descriptor_is_left(world, other):
    """Opening and closing leaves this process with the descriptors that it had."""
    tops.check(tops.topsIpcCloseMemHandle(tops.check(tops.topsIpcOpenMemHandle(memory_handle(), 0))))
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        tops.check(tops.topsIpcCloseMemHandle(tops.check(tops.topsIpcOpenMemHandle(memory_handle(), 0))))
        tops.check(tops.topsEventDestroy(tops.check(tops.topsIpcOpenEventHandle(event_handle()))))
    assert len(os.listdir("/proc/self/fd")) <= before


def descriptors() -> int:
    """Return how many file descriptors this process has."""
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("recorded", [False, True])
def test_a_destroyed_event_keeps_no_descriptor(world, recorded):
    """An exported event gives its descriptors back at once when it is destroyed, without the collector's help."""
    shared_event()  # starts the lender
    before = descriptors()
    gc.disable()
    try:
        for _ in range(20):
            event, _ = shared_event()
            if recorded:
                tops.check(tops.topsEventRecord(event, None))
                tops.check(tops.topsStreamSynchronize(None))
            tops.check(tops.topsEventDestroy(event))
            # The thread that ended the record may hold it still; and what other tests opened may be closed by now.
            until(lambda: descriptors() <= before)
    finally:
        gc.enable()


def test_few_descriptors(world, other, caplog):
    """Without descriptors to be had, each function answers a code of its list, and works again afterwards."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    event, pointer = tops.check(tops.topsEventCreateWithFlags(SHARED)), malloc()
    shared_event()
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        answers = [
            tops.topsIpcGetEventHandle(event)[0], tops.topsIpcOpenEventHandle(event_handle())[0],
            tops.topsIpcOpenMemHandle(memory_handle(), 0)[0], tops.topsIpcGetMemHandle(pointer)[0],
        ]  # fmt: skip
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert answers == [tops.topsErrorOutOfMemory, INVALID, tops.topsErrorMapFailed, tops.topsSuccess]
    assert not [record for record in caplog.records if record.exc_info]
    assert tops.topsIpcGetEventHandle(event)[0] == tops.topsSuccess
    tops.check(tops.topsIpcCloseMemHandle(tops.check(tops.topsIpcOpenMemHandle(memory_handle(), 0))))


def test_a_reset_ends_imports(world, other):
    """After topsDeviceReset the imported pointer is dead; the handle can be opened again."""
    pointer = tops.check(tops.topsIpcOpenMemHandle(memory_handle(), 0))
    assert tops.topsDeviceReset() == (0,)
    assert tops.topsMemset(pointer, 1, 1)[0] != 0
    assert tops.topsIpcCloseMemHandle(pointer) == (HANDLE,)
    assert tops.topsIpcOpenMemHandle(memory_handle(), 0)[0] == 0


def test_an_import_on_another_device(world, other):
    """Memory of device 0 opened on device 1 has an address there, and lies on device 0."""
    tops.check(tops.topsSetDevice(1))
    pointer = tops.check(tops.topsIpcOpenMemHandle(memory_handle(), 0))
    assert device_memory(pointer, 1).device_id == 0
    assert pointer >> 36 == malloc() >> 36


@pytest.mark.slow
def test_another_board(world):
    """A process whose board is of another architecture maps nothing: MapFailed."""
    pointer = malloc()
    with processes(1, ATOPS_ARCH="gcu210") as (stranger,):
        assert stranger.do("open", handle_=export(pointer)) == [tops.topsErrorMapFailed, None]
    until(lambda: EXPORTER[0].leases == 0)


# ---- events


def test_recorded_here_and_waited_for_there(world, other):
    """Recorded in the exporter: the importer's query, wait and stream see when it is complete, and not before."""
    event, handle = shared_event()
    there = other.do("event", handle_=handle)[1]
    assert other.do("query", event=there) == [0]
    latch, stream = Latch(world.device), world.device.create_stream(nonblocking=True)
    latch.hold(stream)
    tops.check(tops.topsEventRecord(event, stream))
    assert other.do("query", event=there) == [tops.topsErrorNotReady]
    pointer = other.do("malloc", size=4)[1]
    other.do("write", pointer=pointer, value=0, size=4)
    other.do("wait", event=there, pointer=pointer, value=5)
    assert other.do("read", pointer=pointer, size=1) == [0]
    other.begin("sync", event=there)
    latch.open()
    assert other.answer() == [0]
    assert other.do("query", event=there) == [0]
    other.do("record", event=there)
    assert other.do("sync", event=there) == [0]
    assert tops.topsEventSynchronize(event) == (0,)


def test_recorded_there_and_waited_for_here(world, other):
    """The importer records: the exporter's streams wait for it, and the latest record is the one that counts."""
    event, handle = shared_event()
    there = other.do("event", handle_=handle)[1]
    tops.check(tops.topsEventRecord(event, None))
    tops.check(tops.topsEventSynchronize(event))
    other.do("hold")
    other.do("record", event=there, held=True)
    assert tops.topsEventQuery(event) == (tops.topsErrorNotReady,)
    stream = world.device.create_stream(nonblocking=True)
    tops.check(tops.topsStreamWaitEvent(stream, event, 0))
    after = stream.record()
    assert not after.is_done
    other.do("release")
    after.sync(PATIENCE)
    assert tops.topsEventQuery(event) == (0,)


def recorded_and_held_there(other) -> int:
    """Return an event of ours whose newest record the other process owes, until it is told to release it."""
    event, handle = shared_event()
    there = other.do("event", handle_=handle)[1]
    other.do("hold")
    other.do("record", event=there, held=True)
    return event


def test_a_blocking_wait_for_another_process_has_a_limit(world, other):
    """It ends with TimeoutError after its seconds, names the process, and leaves the record as it is."""
    event = device_event(recorded_and_held_there(other))
    with pytest.raises(TimeoutError, match=r"process \d+ was not done within 0.01 s"):
        event.sync(0.01)
    with pytest.raises(TypeError, match="seconds"):
        event.sync("soon")
    assert not event.is_done
    other.do("release")
    event.sync(PATIENCE)
    assert event.is_done


def test_a_reset_ends_a_blocking_wait_for_another_process(world, other):
    """A call that blocks in it, past every command of this process, fails with the reset of the device."""
    event = device_event(recorded_and_held_there(other))
    page, blocks, told = event.shared.page, threading.Event(), list[BaseException]()
    wait = page.wait
    page.wait = lambda seen, limit: (blocks.set(), wait(seen, limit))

    def blocked() -> None:
        try:
            event.sync(PATIENCE)
        except BaseException as error:
            told.append(error)

    thread = threading.Thread(target=blocked)
    thread.start()
    assert blocks.wait(PATIENCE)
    world.device.reset_sync()
    thread.join(PATIENCE)
    del page.wait
    other.do("release")
    assert "reset" in str(told[0])


@pytest.mark.slow
def test_a_killed_recorder(world):
    """Kill -9 of a process that owes a record, with three processes: a wait for it ends with an error, soon."""
    event, handle = shared_event()
    with processes(2) as (recorder, waiter):
        at, to = (each.do("event", handle_=handle)[1] for each in (recorder, waiter))
        recorder.do("hold")
        recorder.do("record", event=at, held=True)
        waiter.begin("sync", event=to)
        stream = world.device.create_stream(nonblocking=True)
        waiting = stream.wait(device_event(event))
        recorder.kill()
        assert waiter.answer() == [tops.topsErrorLaunchFailure]
        with pytest.raises(Exception, match="ended before"):
            waiting.wait_sync(PATIENCE)
        assert tops.topsEventQuery(event) == (tops.topsErrorLaunchFailure,)
        tops.check(tops.topsEventRecord(event, None))
        assert waiter.do("sync", event=to) == [0]


def test_a_recorder_that_ends_right_after_its_record(world, monkeypatch):
    """Its record is done, also where the words were read before it was and the process was looked for behind that."""
    owed, asked = page_module.EventPage(), []
    ticket = owed.submit()

    def ends(*process) -> bool:  # between the look at the words and the look at the process
        asked.append(process)
        owed.finish(ticket, failed=False)
        return False

    monkeypatch.setattr(page_module, "is_running", ends)
    assert owed.state(ticket, look=True) == page_module.TicketState.DONE and len(asked) == 1


def test_a_record_is_published_before_its_own_process_sees_it(world, monkeypatch):
    """A process may end once its record is done; what it had not published by then would be lost to the others."""
    event, _ = shared_event()
    shared, done_before, finish = device_event(event), [], page_module.EventPage.finish

    def finishes(page, ticket: int, failed: bool) -> None:
        done_before.append(shared.completion.is_done)
        finish(page, ticket, failed)

    monkeypatch.setattr(page_module.EventPage, "finish", finishes)
    tops.check(tops.topsEventRecord(event, None))
    assert tops.topsEventSynchronize(event) == (0,) and done_before == [False]


def device_event(event: int):
    """Return the event of a handle."""
    return event_of(event)


@pytest.mark.slow
def test_a_killed_exporter_of_an_event(world):
    """Kill -9 of the exporter: a record that it owes fails; the importer's own records go on."""
    with processes(1) as (exporter,):
        there = exporter.do("create")[1]
        handle = tops.topsIpcEventHandle_t(bytes.fromhex(exporter.do("share", event=there)))
        event = tops.check(tops.topsIpcOpenEventHandle(handle))
        exporter.do("hold")
        exporter.do("record", event=there, held=True)
        exporter.kill()
        assert tops.topsEventSynchronize(event) == (tops.topsErrorLaunchFailure,)
        tops.check(tops.topsEventRecord(event, None))
        assert tops.topsEventSynchronize(event) == (0,)
        assert tops.topsIpcOpenEventHandle(handle) == (INVALID, None)


def test_a_destroyed_event_is_not_opened(world, other):
    """A handle of a destroyed event opens nothing; what is open goes on."""
    event, handle = shared_event()
    there = other.do("event", handle_=handle)[1]
    tops.check(tops.topsEventDestroy(event))
    assert other.do("event", handle_=handle) == [INVALID, None]
    assert other.do("record", event=there) == [0]
    assert other.do("sync", event=there) == [0]


@pytest.mark.slow
def test_strict_mode_reports_a_stream_wait_on_an_import(other, caplog):
    """A stream wait on an imported event works, and strict mode says that other runtimes have it only at home."""
    driver = Driver(EmulatorOptions(devices=1, strict=True))
    enter(driver, board_of(driver))
    try:
        event = tops.check(tops.topsIpcOpenEventHandle(event_handle()))
        tops.check(tops.topsStreamWaitEvent(None, event, 0))
        tops.check(tops.topsStreamSynchronize(None))
        own = tops.check(tops.topsEventCreateWithFlags(SHARED))
        tops.check(tops.topsIpcGetEventHandle(own))
        tops.check(tops.topsStreamWaitEvent(None, own, 0))
    finally:
        leave(driver)
        driver.close()
    assert [record.name for record in caplog.records if "imported" in record.message] == ["atops.ipc"]


@pytest.mark.slow
def test_latency_of_an_event(world, other):
    """From the end of the work here to the end of the blocking wait there: half a millisecond on a machine at rest.

    The bound leaves room for one that is not.
    """
    event, handle = shared_event()
    there, times = other.do("event", handle_=handle)[1], []
    stream = world.device.create_stream(nonblocking=True)
    for _ in range(60):
        latch = Latch(world.device)
        latch.hold(stream)
        tops.check(tops.topsEventRecord(event, stream))
        other.begin("ping", event=there)
        assert other.line() == "waiting\n"
        came = time.monotonic()
        until(lambda came=came: time.monotonic() > came + 0.002)  # by now it blocks, which is the slower way
        latch.open()
        times.append(other.answer() - event_of(event)._time / 1e9)
    print(f"median {statistics.median(times) * 1e6:.0f} us, worst {max(times) * 1e6:.0f} us")
    assert statistics.median(times) < 0.1 and min(times) > 0
