"""Memory by banks: allocating on one, and asking how full each is (TOPS Runtime API, 2.11)."""

from __future__ import annotations

from typing import Any

from atops.base.errors import InvalidValue
from atops.device.memory.device_memory import BankStatistics
from atops.tops.bridge.arguments import flags_in, size_of, whole
from atops.tops.bridge.call import call
from atops.tops.bridge.context import current_device
from atops.tops.bridge.pointers import own
from atops.tops.functions.extension.bank_arguments import check_total, logical_banks
from atops.tops.types.constants import topsMallocForbidMergeMove, topsMallocTopDown

__all__ = (
    "topsExtGetMcAvailableMemSize",
    "topsExtMallocWithAffinity",
    "topsExtMallocWithBank",
    "topsExtMallocWithBankV2",
    "topsGetAffinityBankList",
    "topsGetMemUsageInfo",
    "topsMemGetInfoExt",
)

FLAGS = topsMallocTopDown | topsMallocForbidMergeMove


# ---- allocating


@call
def topsExtMallocWithBank(size: int, bank: int) -> int:
    """Return a pointer to new memory on a physical bank of the current device; topsFree gives it back.

    OutOfMemory: the bank is too full; it never spills. InvalidValue: no size, or no such bank.
    """
    return _allocate(size, whole(bank, "bank"), 0)


@call
def topsExtMallocWithBankV2(size: int, bank: int, flags: int) -> int:
    """As topsExtMallocWithBank, by flags: topsMallocTopDown takes the highest address of the bank that fits.

    topsMallocForbidMergeMove is always true. OutOfMemory; InvalidValue: no size, no such bank, other flags.
    """
    return _allocate(size, whole(bank, "bank"), flags)


@call
def topsExtMallocWithAffinity(size: int, bank: int, flags: int) -> int:
    """As topsExtMallocWithBankV2, on a logical bank: entry `bank` of what topsGetAffinityBankList returns."""
    banks = logical_banks(current_device())
    logical = whole(bank, "bank")
    if not 0 <= logical < len(banks):
        raise InvalidValue(f"logical bank {logical}; 0 to {len(banks) - 1} are right")
    return _allocate(size, banks[logical], flags)


def _allocate(size: Any, bank: int, flags: Any) -> int:
    word = flags_in(flags, FLAGS)
    down = bool(word & topsMallocTopDown)
    return own(current_device().allocate(size_of(size), bank=bank, top_down=down, flags=word)).address


# ---- asking


@call
def topsGetAffinityBankList(bank_total: int) -> list[int]:
    """Return the physical banks of the current device, those nearest to the caller's default bundle first.

    Without such a bundle they are 0, 1, 2 and so on. InvalidValue: `bank_total` is not how many banks there are.
    """
    device = current_device()
    check_total(device.arch, bank_total)
    return list(logical_banks(device))


@call
def topsMemGetInfoExt(bank_total: int) -> tuple[list[int], list[int], list[int], list[int]]:
    """Return used, free, largest free range and total, in bytes, of each bank of the current device.

    Used and free together are the total. InvalidDevice: the board has none. InvalidValue: another number of banks.
    """
    banks = _banks(bank_total)
    return (
        [bank.used for bank in banks],
        [bank.free for bank in banks],
        [bank.largest_free for bank in banks],
        [bank.total for bank in banks],
    )


@call
def topsGetMemUsageInfo(bank_total: int) -> tuple[list[int], list[int]]:
    """Return the bytes in use of each bank of the current device, and the most there were since its last reset.

    InvalidValue: `bank_total` is not how many banks there are.
    """
    banks = _banks(bank_total)
    return [bank.used for bank in banks], [bank.peak for bank in banks]


@call
def topsExtGetMcAvailableMemSize(mc: int) -> int:
    """Return the most bytes that can be allocated on a bank of the current device now. InvalidValue: no such bank."""
    banks = current_device().statistics().memory.banks
    bank = whole(mc, "mc")
    if not 0 <= bank < len(banks):
        raise InvalidValue(f"mc is {bank}; 0 to {len(banks) - 1} are right")
    return banks[bank].largest_free


def _banks(bank_total: Any) -> tuple[BankStatistics, ...]:
    """Return the figures of the current device's banks. Raises InvalidValue unless `bank_total` is their number."""
    device = current_device()
    check_total(device.arch, bank_total)
    return device.statistics().memory.banks
