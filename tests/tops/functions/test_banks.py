"""Memory by banks (TOPS Runtime API, 2.11)."""

from __future__ import annotations

from typing import ClassVar

import pytest

import atops.tops as tops
from atops.base.options import EmulatorOptions
from atops.base.result_codes import Result
from atops.runtime.board.current_device import enter, leave
from atops.runtime.driver import Driver, board_of
from tests.runtime.boards import PATIENCE
from tests.tops.conformance import Case, Conformance

TOTAL = 4  # how many banks gcu300 has
HUGE = 1 << 40
INVALID = tops.topsErrorInvalidValue


class TestBanks(Conformance):
    """Every function about banks, by its rows."""

    good: ClassVar = {
        "topsExtMallocWithBank": (4096, 1),
        "topsExtMallocWithBankV2": (4096, 1, tops.topsMallocTopDown),
        "topsExtMallocWithAffinity": (4096, 1, tops.topsMallocForbidMergeMove),
        "topsGetAffinityBankList": (TOTAL,),
        "topsMemGetInfoExt": (TOTAL,),
        "topsGetMemUsageInfo": (TOTAL,),
        "topsExtGetMcAvailableMemSize": (0,),
    }
    bad = (
        *(
            Case(name, what, (*arguments, *more), code)
            for name, more in (
                ("topsExtMallocWithBank", ()),
                ("topsExtMallocWithBankV2", (0,)),
                ("topsExtMallocWithAffinity", (0,)),
            )
            for what, arguments, code in (
                ("more than a bank", (HUGE, 0), tops.topsErrorOutOfMemory),
                ("no such bank", (1, TOTAL), INVALID),
                ("bank -1", (1, -1), INVALID),
                ("negative size", (-1, 0), INVALID),
            )
        ),
        *(
            Case(name, f"flags {flags:#x}", (1, 0, flags), INVALID)
            for name in ("topsExtMallocWithBankV2", "topsExtMallocWithAffinity")
            for flags in (tops.topsMallocPreferHighSpeedMem, tops.topsMallocHostAccessable, -1)
        ),
        *(
            Case(name, f"{count} banks", (count,), INVALID)
            for name in ("topsGetAffinityBankList", "topsMemGetInfoExt", "topsGetMemUsageInfo")
            for count in (0, TOTAL - 1, TOTAL + 1, -1)
        ),
        Case("topsExtGetMcAvailableMemSize", "no such bank", (TOTAL,), INVALID),
        Case("topsExtGetMcAvailableMemSize", "bank -1", (-1,), INVALID),
    )
    unreachable: ClassVar = {
        ("topsMemGetInfoExt", Result.InvalidDevice): "only a board without devices: test_no_device",
    }


def bank_of(world, pointer):
    """Return the bank that a pointer of device 0 lies in."""
    return world.device.context.memory.bank_of(pointer)


def test_memory_is_on_its_bank_and_on_no_other(world):
    """Each bank's figures move with what is allocated on it, and come back with topsFree; peaks stay."""
    for bank in range(TOTAL):
        before = tops.check(tops.topsMemGetInfoExt(TOTAL))[0]
        pointer = tops.check(tops.topsExtMallocWithBank(1 << 20, bank))
        assert bank_of(world, pointer) == bank
        used, free, largest, total = tops.check(tops.topsMemGetInfoExt(None or TOTAL))
        assert [now - then for now, then in zip(used, before, strict=True)] == [
            (1 << 20) * (each == bank) for each in range(TOTAL)
        ]
        assert [one + other for one, other in zip(used, free, strict=True)] == total
        assert all(most <= rest for most, rest in zip(largest, free, strict=True))
        tops.check(tops.topsFree(pointer))
    current, peak = tops.check(tops.topsGetMemUsageInfo(TOTAL))
    assert current == [0] * TOTAL
    assert peak == [1 << 20] * TOTAL


def test_peaks_restart_at_a_reset(world):
    """After topsDeviceReset nothing has ever been in use."""
    tops.check(tops.topsExtMallocWithBank(1 << 20, 2))
    tops.check(tops.topsDeviceReset())
    assert tops.check(tops.topsGetMemUsageInfo(TOTAL)) == ([0] * TOTAL, [0] * TOTAL)


def test_what_is_available_can_be_had_and_one_byte_more_can_not(world):
    """A bank is filled to its last byte, and a full one is OutOfMemory while others are free."""
    size = tops.check(tops.topsExtGetMcAvailableMemSize(3))
    assert tops.topsExtMallocWithBank(size + 1, 3) == (tops.topsErrorOutOfMemory, None)
    pointer = tops.check(tops.topsExtMallocWithBank(size, 3))
    assert tops.check(tops.topsExtGetMcAvailableMemSize(3)) == 0
    assert tops.topsExtMallocWithBank(1, 3) == (tops.topsErrorOutOfMemory, None)
    assert tops.topsExtMallocWithBank(1, 2)[0] == 0
    assert bank_of(world, pointer) == 3


def test_idle_memory_of_pools_is_no_obstacle(world):
    """What a pool keeps idle is given back before a bank is called full."""
    stream = world.device.create_stream()
    stream.free(stream.allocate(1 << 20))
    stream.sync(PATIENCE)
    capacity = tops.check(tops.topsMemGetInfoExt(TOTAL))[3][0]
    assert tops.topsExtMallocWithBank(capacity, 0)[0] == 0


def test_flags_are_kept_and_top_down_is_the_highest_address(world):
    """TopDown takes the end of the bank; the allocation knows its flags."""
    flags = tops.topsMallocTopDown | tops.topsMallocForbidMergeMove
    low = tops.check(tops.topsExtMallocWithBankV2(4096, 1, 0))
    high = tops.check(tops.topsExtMallocWithBankV2(4096, 1, flags))
    memory = world.device.context.memory
    part = memory.total // TOTAL
    assert low == memory.base_address + part
    assert high + 4096 == memory.base_address + 2 * part
    assert memory.find(high).flags == flags


def test_logical_banks_are_those_of_the_list(world):
    """Logical bank i is entry i of the list, which without a bundle is 0, 1, 2 and so on."""
    order = tops.check(tops.topsGetAffinityBankList(TOTAL))
    assert order == list(range(TOTAL))
    for logical, physical in enumerate(order):
        assert bank_of(world, tops.check(tops.topsExtMallocWithAffinity(64, logical, 0))) == physical


def test_size_zero_is_a_pointer_of_its_own(world):
    """No memory is allocated for size 0, the pointer is not null, and topsFree takes it once."""
    pointers = {tops.check(tops.topsExtMallocWithBank(0, 0)) for _ in range(3)}
    assert len(pointers) == 3
    assert 0 not in pointers
    for pointer in pointers:
        assert tops.topsFree(pointer) == (tops.topsSuccess,)
        assert tops.topsFree(pointer) == (tops.topsErrorInvalidDevicePointer,)


@pytest.mark.parametrize("arch", ["gcu210", "gcu300"])
def test_how_many_banks_there_are_is_the_architectures(arch):
    """The number of banks is that of the architecture's table, and all banks are equal."""
    driver = Driver(EmulatorOptions(arch=arch, trace=0))
    enter(driver, board_of(driver))
    try:
        total = tops.check(tops.topsMemGetInfoExt(driver.arch.banks))[3]
        assert len(total) == driver.arch.banks
        assert set(total) == {driver.arch.l3_bytes // driver.arch.banks}
    finally:
        leave(driver)
        driver.close()


def test_no_device():
    """A board without devices has no banks."""
    driver = Driver(EmulatorOptions(devices=0, trace=0))
    enter(driver, board_of(driver))
    try:
        assert tops.topsMemGetInfoExt(TOTAL)[0] is tops.topsErrorInvalidDevice
        assert tops.topsExtMallocWithBank(1, 0)[0] is tops.topsErrorNoDevice
    finally:
        leave(driver)
        driver.close()
