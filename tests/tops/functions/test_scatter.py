"""Scatter memory and dimensions (TOPS Runtime API, 2.11)."""

from __future__ import annotations

import threading
from itertools import permutations
from typing import ClassVar

import numpy as np
import pytest

import atops.tops as tops
from atops.tops.header.functions import FUNCTIONS
from tests.runtime.boards import PATIENCE, Latch
from tests.tops.conformance import Case, Conformance

INVALID, STATE = tops.topsErrorInvalidValue, tops.topsErrorIllegalState
SHAPE = (6, 8)
LEFT = ([6, 4], [0, 0], [0, 1])
RIGHT = ([4, 6], [0, 4], [1, 0])  # transposed


def parent(*parts, shape=SHAPE, bpe=4):
    """Return scatter memory of int32, with these parts."""
    pointer = tops.check(tops.topsMallocScatter(int(np.prod(shape)) * bpe))
    tops.check(tops.topsMemorySetDims(pointer, list(shape), None))
    for number, part in enumerate(parts):
        tops.check(tops.topsScatterPopulateSub(pointer, bpe, number % 4, *part, None))
    return pointer


def user(shape=(6, 4), bpe=4, named=True):
    """Return memory of the user's own, with dimensions if it is to have some."""
    pointer = tops.check(tops.topsMalloc(int(np.prod(shape)) * bpe))
    if named:
        tops.check(tops.topsMemorySetDims(pointer, list(shape), None))
    return pointer


def read(pointer, shape=SHAPE, dtype=np.int32):
    """Return the contents of memory as an array."""
    found = np.zeros(shape, dtype)
    tops.check(tops.topsMemcpyDtoH(found, pointer, found.nbytes))
    return found


def write(pointer, array):
    """Store an array."""
    tops.check(tops.topsMemcpyHtoD(pointer, array, array.nbytes))


def populate(**given):
    """Return arguments of topsScatterPopulateSub, good but for what is given."""
    row = {"bpe": 4, "bank": 0, "dims": LEFT[0], "win_pos": LEFT[1], "map_ctrl": LEFT[2], "rank_size": 2, **given}
    return lambda world: (parent(), *row.values())


def attach(memory=user, **given):
    """Return arguments of topsScatterSetSubMem, good but for what is given."""
    row = {"win_pos": [0, 0], "win_size": 2, "map_ctrl": [0, 1], "map_size": 2, **given}
    return lambda world: (parent(), memory(), *row.values())


def inplace(banks=(0, 1), shapes=(LEFT[0], RIGHT[0]), at=(LEFT[1], RIGHT[1]), axes=(LEFT[2], RIGHT[2]), **given):
    """Return arguments of topsScatterInplace, good but for what is given."""
    row = {"sub_count": 2, "bpe": 4, "banks": banks, "shapes": shapes, "at": at, "axes": axes, "rank": 2, **given}
    return lambda world: (parent(LEFT), *row.values())


def with_user_part(world):
    """Return arguments of topsScatterInplace for a parent that has a part of the user's."""
    arguments = inplace()(world)
    tops.check(tops.topsScatterSetSubMem(arguments[0], user(), [0, 4], None, [0, 1], None))
    return arguments


def fail():
    """Raise what fails a stream."""
    raise ValueError("broken")


def elsewhere():
    """Return memory of device 1."""
    tops.check(tops.topsSetDevice(1))
    pointer = user()
    tops.check(tops.topsSetDevice(0))
    return pointer


class TestScatter(Conformance):
    """Every function of scatter memory and dimensions, by its rows."""

    good: ClassVar = {
        "topsMallocScatter": (192,),
        "topsScatterSetSubMem": attach(),
        "topsScatterPopulateSub": populate(),
        "topsScatterInplace": inplace(),
        "topsScatterClearSubMemory": lambda world: (parent(LEFT),),
        "topsScatterGetSubMem": lambda world: (parent(LEFT), 0),
        "topsScatterMemoryGetInfo": lambda world: (parent(LEFT), 0),
        "topsScatterMemoryGetSubNum": lambda world: (parent(LEFT),),
        "topsMemorySetDims": lambda world: (user(), [24], 1),
        "topsMemoryGetDims": lambda world: (user(),),
    }
    nullable = frozenset(
        (name, each.name) for name in FUNCTIONS for each in FUNCTIONS[name].parameters if each.name == "dims_count"
    )
    bad = (
        Case("topsMallocScatter", "negative size", (-1,), INVALID),
        *(
            Case(name, f"index {index}", lambda world, index=index: (parent(LEFT), index), INVALID)
            for name in ("topsScatterGetSubMem", "topsScatterMemoryGetInfo")
            for index in (-1, 1)
        ),
        *(
            Case(name, "plain memory", lambda world, more=more: (user(), *more), INVALID)
            for name, more in (
                ("topsScatterClearSubMemory", ()), ("topsScatterGetSubMem", (0,)), ("topsScatterMemoryGetInfo", (0,)),
                ("topsScatterMemoryGetSubNum", ()),
            )
        ),
        *(
            Case("topsScatterPopulateSub", *row)
            for row in (
                ("bpe 8", populate(bpe=8), INVALID),
                ("no bank", populate(bank=4), INVALID),
                ("rank 1", populate(dims=[6]), INVALID),
                ("rank_size 3", populate(rank_size=3), INVALID),
                ("no permutation", populate(map_ctrl=[0, 0]), INVALID),
                ("map from 1", populate(map_ctrl=[1, 2]), INVALID),
                ("an extent of 0", populate(dims=[6, 0]), INVALID),
                ("outside", populate(win_pos=[0, 5]), INVALID),
                ("before the beginning", populate(win_pos=[-1, 0]), INVALID),
                ("outside once permuted", populate(dims=[8, 6], map_ctrl=[0, 1]), INVALID),
                ("no dims", lambda w: (tops.topsMallocScatter(192)[1], 4, 0, *LEFT, 2), STATE),
            )
        ),
        *(
            Case("topsScatterSetSubMem", *row)
            for row in (
                ("no dims", attach(lambda: user(named=False)), INVALID),
                ("another device", attach(elsewhere), INVALID),
                ("an interior pointer", attach(lambda: user() + 4), INVALID),
                ("other elements", attach(lambda: user(bpe=8)), INVALID),
                ("win_size 3", attach(win_size=3), INVALID),
                ("map_size 1", attach(map_size=1), INVALID),
                ("outside", attach(win_pos=[1, 0]), INVALID),
            )
        ),
        *(
            Case("topsScatterInplace", *row)
            for row in (
                ("a gap", inplace(at=(LEFT[1], LEFT[1])), INVALID),
                ("three", inplace(sub_count=3), INVALID),
                ("no bank", inplace(banks=(0, 4)), INVALID),
                ("a list is short", inplace(axes=(LEFT[2],)), INVALID),
                ("parts of the user's", with_user_part, INVALID),
            )
        ),
        Case("topsMemorySetDims", "no whole elements", lambda w: (user(), [5, 5], 2), INVALID),
        Case("topsMemorySetDims", "rank 9", lambda w: (user(), [1] * 9, 9), INVALID),
        Case("topsMemorySetDims", "another count", lambda w: (user(), [24], 2), INVALID),
        Case("topsMemorySetDims", "interior", lambda w: (user() + 4, [5], 1), INVALID),
        Case("topsMemorySetDims", "has parts", lambda w: (parent(LEFT), [48], 1), STATE),
        Case("topsMemoryGetDims", "never set", lambda w: (user(named=False),), STATE),
    )


def test_it_is_one_row_major_buffer(world):
    """Copies of every kind and fills see the parent as plain memory, interior pointers included."""
    pointer = parent(LEFT, RIGHT)
    array = np.arange(48, dtype=np.int32).reshape(SHAPE)
    write(pointer, array)
    assert (read(pointer) == array).all()
    assert (read(tops.check(tops.topsScatterGetSubMem(pointer, 0)), (6, 4)) == array[:, :4]).all()
    assert (read(tops.check(tops.topsScatterGetSubMem(pointer, 1)), (4, 6)) == array[:, 4:].T).all()
    plain = user(SHAPE)
    tops.check(tops.topsMemcpyDtoD(plain, pointer, 192))
    assert (read(plain) == array).all()
    tops.check(tops.topsMemset(pointer + 13, 0xFF, 50))
    expected = array.view(np.uint8).reshape(-1).copy()
    expected[13:63] = 0xFF
    assert (read(pointer, 192, np.uint8) == expected).all()
    tops.check(tops.topsMemcpyDtoD(pointer, plain, 192))
    assert (read(pointer + 7, 100, np.uint8) == array.view(np.uint8).reshape(-1)[7:107]).all()


@pytest.mark.parametrize("axes", list(permutations(range(3))))
def test_axis_j_of_a_part_is_axis_map_j_of_the_parent(world, axes):
    """Every permutation of three axes, of a window in the middle and of what is around it."""
    shape = (3, 4, 5)
    array = np.arange(60, dtype=np.int16).reshape(shape)
    windows = [(slice(0, 1), slice(0, 4), slice(0, 5)), (slice(1, 3), slice(0, 4), slice(0, 2)),
               (slice(1, 3), slice(0, 1), slice(2, 5)), (slice(1, 3), slice(1, 4), slice(2, 5))]
    rows = [
        ([array[each].shape[axis] for axis in axes], [span.start for span in each], list(axes)) for each in windows
    ]
    pointer = parent(*rows, shape=shape, bpe=2)
    write(pointer, array)
    assert (read(pointer, shape, np.int16) == array).all()
    for number, each in enumerate(windows):
        part = array[each].transpose(axes)
        assert (read(tops.check(tops.topsScatterGetSubMem(pointer, number)), part.shape, np.int16) == part).all()


def test_large_copies_too(world):
    """Where the copy runs makes no difference."""
    shape = (512, 512)
    pointer = parent(([512, 200], [0, 0], [0, 1]), ([312, 512], [0, 200], [1, 0]), shape=shape)
    array = np.random.default_rng(3).integers(0, 1 << 30, shape).astype(np.int32)
    write(pointer, array)
    assert (read(pointer, shape) == array).all()


def test_before_it_is_complete_every_copy_is_invalid(world):
    """A gap, an overlap and a freed part make it incomplete; the code comes at the call."""
    for parts in ((), (LEFT,), (LEFT, ([6, 4], [0, 3], [0, 1]))):
        assert tops.topsMemset(parent(*parts), 0, 4) == (INVALID,)
    memory = user()
    pointer = parent(RIGHT)
    tops.check(tops.topsScatterSetSubMem(pointer, memory, [0, 0], 2, [0, 1], 2))
    write(pointer, np.ones(SHAPE, np.int32))
    tops.check(tops.topsFree(memory))
    assert tops.topsMemset(pointer, 0, 4) == (INVALID,)
    assert tops.topsScatterGetSubMem(pointer, 1) == (INVALID, None)


def test_parts_are_counted_described_and_on_their_banks(world):
    """Index is the order of attachment; dims of parts and parent can be asked for."""
    pointer = parent(LEFT, RIGHT)
    assert tops.check(tops.topsScatterMemoryGetSubNum(pointer)) == 2
    assert tops.check(tops.topsScatterMemoryGetInfo(pointer, 1)) == ([0, 4], 2, [1, 0], 2)
    assert tops.check(tops.topsMemoryGetDims(pointer)) == ([6, 8], 2)
    memory = world.device.context.memory
    banks = [memory.bank_of(tops.check(tops.topsScatterGetSubMem(pointer, index))) for index in range(2)]
    assert banks == [0, 1]
    found = tops.check(tops.topsPointerGetAttributes(pointer))
    assert found.memoryType == tops.topsMemoryTypeScatter


def test_freeing_the_parent_frees_its_own_parts_only(world):
    """An owned part is not for topsFree; the user's stays the user's."""
    before = tops.check(tops.topsMemGetInfo())[0]
    pointer, memory = parent(RIGHT), user()
    tops.check(tops.topsScatterSetSubMem(pointer, memory, [0, 0], None, [0, 1], None))
    write(pointer, np.arange(48, dtype=np.int32).reshape(SHAPE))
    part = tops.check(tops.topsScatterGetSubMem(pointer, 0))
    assert tops.topsFree(part) == (tops.topsErrorInvalidDevicePointer,)
    assert tops.topsFree(pointer + 4) == (tops.topsErrorInvalidDevicePointer,)
    assert tops.topsFree(pointer) == (tops.topsSuccess,)
    assert tops.topsFree(pointer) == (tops.topsErrorInvalidDevicePointer,)
    assert tops.topsMemset(part, 0, 1) == (INVALID,)
    assert (read(memory, (6, 4)) == np.arange(48).reshape(SHAPE)[:, :4]).all()
    tops.check(tops.topsFree(memory))
    assert tops.check(tops.topsMemGetInfo())[0] == before


def test_clear_detaches_all_and_frees_the_owned(world):
    """Afterwards other parts, and other dimensions, can be given."""
    before = tops.check(tops.topsMemGetInfo())[0]
    pointer = parent(LEFT, RIGHT)
    tops.check(tops.topsScatterClearSubMemory(pointer))
    assert tops.check(tops.topsScatterMemoryGetSubNum(pointer)) == 0
    assert tops.check(tops.topsMemGetInfo())[0] == before
    tops.check(tops.topsMemorySetDims(pointer, [48], 1))
    tops.check(tops.topsScatterPopulateSub(pointer, 4, 0, [48], [0], [0], 1))
    write(pointer, np.arange(48, dtype=np.int32))
    assert (read(pointer, 48) == np.arange(48)).all()


def test_inplace_keeps_the_contents_and_the_pointer(world):
    """Other windows on other banks hold what was there."""
    pointer = parent(LEFT, RIGHT)
    array = np.arange(48, dtype=np.int32).reshape(SHAPE)
    write(pointer, array)
    rows = ([[2, 8], [8, 4]], [[0, 0], [2, 0]], [[0, 1], [1, 0]])
    tops.check(tops.topsScatterInplace(pointer, 2, 4, [3, 2], *rows, 2))
    assert (read(pointer) == array).all()
    assert (read(tops.check(tops.topsScatterGetSubMem(pointer, 1)), (8, 4)) == array[2:].T).all()
    used = tops.check(tops.topsMemGetInfoExt(4))[0]
    assert used == [0, 0, 256, 256]


def test_inplace_that_fails_leaves_the_old_parts(world):
    """No memory for the second new part: the first is given back, contents and parts are as before."""
    pointer = parent(LEFT, RIGHT)
    array = np.arange(48, dtype=np.int32).reshape(SHAPE)
    write(pointer, array)
    tops.check(tops.topsExtMallocWithBank(tops.check(tops.topsExtGetMcAvailableMemSize(2)), 2))
    before = tops.check(tops.topsMemGetInfoExt(4))[0]
    rows = ([LEFT[0], RIGHT[0]], [LEFT[1], RIGHT[1]], [LEFT[2], RIGHT[2]])
    assert tops.topsScatterInplace(pointer, 2, 4, [3, 2], *rows, 2) == (tops.topsErrorOutOfMemory,)
    assert tops.check(tops.topsMemGetInfoExt(4))[0] == before
    assert (read(pointer) == array).all()


def test_copies_run_in_the_order_of_their_stream(world):
    """A copy to the parent is enqueued as any other, and earlier work is seen."""
    latch = Latch(world.device)
    stream = world.device.create_stream(nonblocking=True)
    pointer, plain = parent(LEFT, RIGHT), user(SHAPE)
    latch.hold(stream)
    tops.check(tops.topsMemsetAsync(plain, 7, 192, stream))
    tops.check(tops.topsMemcpyDtoDAsync(pointer, plain, 192, stream))
    world.let_run()
    assert not stream.is_done
    latch.open()
    stream.sync(PATIENCE)
    assert (read(pointer, 192, np.uint8) == 7).all()


def test_what_needs_one_place_refuses_it(world):
    """Prefetches and codecs take a range of one live allocation."""
    pointer = parent(LEFT, RIGHT)
    assert tops.topsMemCachePrefetch(pointer, 192) == (INVALID,)
    assert tops.topsExtCodecMemHandle(pointer, 192) == (INVALID, None)


def test_a_reset_ends_it(world):
    """After topsDeviceReset the pointer is unknown."""
    pointer = parent(LEFT)
    tops.check(tops.topsDeviceReset())
    assert tops.topsScatterMemoryGetSubNum(pointer) == (INVALID, None)


@pytest.mark.parametrize("place", range(3))
def test_a_reduction_takes_it_at_each_end(world, place):
    """As lhs, rhs and result it is one row-major buffer."""
    array = np.arange(48, dtype=np.int32).reshape(SHAPE)
    ends = [user(SHAPE), user(SHAPE), user(SHAPE)]
    ends[place] = parent(LEFT, RIGHT)
    write(ends[0], array)
    write(ends[1], array * 5)
    tops.check(tops.topsMemoryReduceAsync(*ends, tops.REDUCE_SUM, tops.INT32, 48, None))
    assert (read(ends[2]) == array * 6).all()


def test_an_incomplete_parent_is_no_operand(world):
    """Before it is complete, no call takes it."""
    pointer, plain = parent(LEFT), user(SHAPE)
    assert tops.topsMemoryReduceAsync(pointer, plain, plain, tops.REDUCE_SUM, tops.INT32, 48, None) == (INVALID,)
    assert tops.topsMemcpyPeer(plain, 0, pointer, 0, 192) == (INVALID,)
    assert tops.topsStreamWriteValue32(pointer, 1, 0) == (tops.topsErrorInvalidDevicePointer,)


@pytest.mark.parametrize("device", [0, 1])
def test_peer_copies_take_it(world, device):
    """Within its device and to another one, in both directions."""
    array = np.arange(48, dtype=np.int32).reshape(SHAPE)
    pointer = parent(LEFT, RIGHT)
    tops.check(tops.topsSetDevice(device))
    plain = user(SHAPE)
    write(pointer, array)
    tops.check(tops.topsMemcpyPeer(plain, device, pointer, 0, 192))
    assert (read(plain) == array).all()
    write(plain, array + 1)
    tops.check(tops.topsMemcpyPeer(pointer, 0, plain, device, 192))
    assert (read(pointer) == array + 1).all()


@pytest.mark.parametrize("word", [0, 3, 4, 12, 47])
def test_words_of_it_are_written_and_waited_for(world, word):
    """A word lies in one part, whose axes may be permuted; a wait for it sees copies to the parent and to the part."""
    pointer = parent(LEFT, RIGHT)
    tops.check(tops.topsMemset(pointer, 0, 192))
    at = pointer + 4 * word
    tops.check(tops.topsStreamWriteValue32Async(at, word + 1, 0, None))
    expected = np.zeros(48, np.int32)
    expected[word] = word + 1
    assert (read(pointer, 48) == expected).all()
    stream = tops.check(tops.topsStreamCreateWithFlags(tops.topsStreamNonBlocking))
    tops.check(tops.topsStreamWaitValue32Async(at, 77, tops.topsStreamWaitValueEq, stream))
    world.let_run()
    assert tops.topsStreamQuery(stream) == (tops.topsErrorNotReady,)
    tops.check(tops.topsMemcpy(at, np.int32([77]), 4, tops.topsMemcpyHostToDevice))
    assert tops.topsStreamSynchronize(stream) == (0,)
    assert tops.topsStreamWaitValue32(at, 77, tops.topsStreamWaitValueEq) == (0,)


def test_a_word_in_pieces_is_refused(world):
    """Two parts hold two bytes of it each."""
    left, right = ([4, 2], [0, 0], [0, 1]), ([4, 2], [0, 2], [0, 1])
    pointer = parent(left, right, shape=(4, 4), bpe=1)
    assert tops.topsStreamWriteValue32(pointer, 1, 0) == (tops.topsErrorInvalidDevicePointer,)
    whole = parent(([4, 4], [0, 0], [0, 1]), shape=(4, 4), bpe=1)
    assert tops.topsStreamWriteValue32(whole + 4, 0x01020304, 0) == (0,)
    assert (read(whole, (4, 4), np.uint8)[1] == [4, 3, 2, 1]).all()


def test_an_owned_part_tells_its_dimensions(world):
    """Those that topsScatterPopulateSub gave it; they change only with the parts."""
    pointer = parent(LEFT, RIGHT)
    part = tops.check(tops.topsScatterGetSubMem(pointer, 1))
    assert tops.topsMemoryGetDims(part) == (0, [4, 6], 2)
    assert tops.topsMemorySetDims(part, [24], None) == (INVALID,)


def test_freeing_it_waits_for_its_own_device(world):
    """Not for the current one; and a failure there is told, and keeps nothing."""
    latch = Latch(world.device)
    stream = world.device.create_stream(nonblocking=True)
    pointer = parent(LEFT)
    latch.hold(stream)
    freed = threading.Event()

    def free_from_elsewhere():
        tops.check(tops.topsSetDevice(1))
        answer = tops.topsFree(pointer)
        freed.set()
        return answer

    thread, answers = world.thread(free_from_elsewhere)
    assert not freed.wait(0.02)
    latch.open()
    thread.join(PATIENCE)
    assert answers == [(0,)]
    again = parent(LEFT)
    before = tops.check(tops.topsMemGetInfo())[0]
    world.device.create_stream().call(fail)
    assert tops.topsFree(again) == (tops.topsErrorLaunchFailure,)
    assert tops.topsScatterMemoryGetSubNum(again) == (INVALID, None)
    assert tops.check(tops.topsMemGetInfo())[0] > before
    tops.check(tops.topsDeviceReset())
