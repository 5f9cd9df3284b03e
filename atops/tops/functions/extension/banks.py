"""Memory by banks: allocate on one, list them, and tell how full each is (TOPS Runtime API, 2.11)."""

from __future__ import annotations

from atops.base.errors import InvalidValue
from atops.device.arch import Architecture
from atops.device.memory.device_memory import BankStatistics
from atops.runtime.device import Device
from atops.runtime.resources.bundle import bundle_of
from atops.runtime.resources.placement import near_banks
from atops.tops.bridge.arguments import flags_in, index_in, size_of, whole
from atops.tops.bridge.call import call
from atops.tops.bridge.context import current_device
from atops.tops.bridge.pointers import own
from atops.tops.types.constants import topsMallocForbidMergeMove, topsMallocTopDown

__all__ = (
    "check_total", "logical_banks", "topsExtGetMcAvailableMemSize", "topsExtMallocWithAffinity",
    "topsExtMallocWithBank", "topsExtMallocWithBankV2", "topsGetAffinityBankList", "topsGetMemUsageInfo",
    "topsMemGetInfoExt",
)  # fmt: skip

FLAGS = topsMallocTopDown | topsMallocForbidMergeMove


# ---- allocating


@call
def topsExtMallocWithBank(size: int, bank: int) -> int:
    """Return a pointer to new memory on a physical bank of the current device; topsFree gives it back.

    OutOfMemory: the bank is too full; it never spills. InvalidValue: not a size, or no such bank.
    """
    return _allocate(size, whole(bank, "bank"), 0)


@call
def topsExtMallocWithBankV2(size: int, bank: int, flags: int) -> int:
    """As topsExtMallocWithBank, by flags: topsMallocTopDown takes the highest address of the bank that fits.

    topsMallocForbidMergeMove is always true. OutOfMemory; InvalidValue: not a size, no such bank, other flags.
    """
    return _allocate(size, whole(bank, "bank"), flags)


@call
def topsExtMallocWithAffinity(size: int, bank: int, flags: int) -> int:
    """As topsExtMallocWithBankV2, on a logical bank: entry `bank` of what topsGetAffinityBankList returns."""
    banks = logical_banks(current_device())
    return _allocate(size, banks[index_in(bank, len(banks), "bank")], flags)


def _allocate(size: object, bank: int, flags: object) -> int:
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
    return banks[index_in(mc, len(banks), "mc")].largest_free


def _banks(bank_total: object) -> tuple[BankStatistics, ...]:
    """Return the figures of the current device's banks. Raises InvalidValue unless `bank_total` is their number."""
    device = current_device()
    check_total(device.arch, bank_total)
    return device.statistics().memory.banks


def check_total(arch: Architecture, bank_total: object) -> None:
    """Raise InvalidValue unless `bank_total` is how many banks the architecture has."""
    if whole(bank_total, "bank_total") != arch.banks:
        raise InvalidValue(f"bank_total must be {arch.banks}, the number of banks, got {bank_total}")


def logical_banks(device: Device) -> tuple[int, ...]:
    """Return the physical bank of each logical one: by nearness to the caller's default bundle, else 0, 1, 2 ...

    Raises InvalidHandle where the default bundle was destroyed.
    """
    bundle = bundle_of(device.context)
    return near_banks(device.arch, () if bundle is None else bundle.clusters)
