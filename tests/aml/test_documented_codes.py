"""The codes that AML documents for its areas over HIP, each met by a call or listed with a reason.

`make conformance` counts these rows beside those of the other C-style functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple
from unittest.mock import patch

import numpy as np

import atops
from atops import aml, tops
from atops.aml.codes import AmlError
from atops.bridge.pointers import OWNED
from atops.runtime.board.current_device import enter, leave
from atops.runtime.driver import board_of
from tests.every import every
from tests.runtime.boards import board

HIP, MAPPED = aml.aml_area_hip, aml.AML_AREA_HIP_FLAG_ALLOC_MAPPED
REGISTERED = np.zeros(4096, np.uint8)


class Failure(NamedTuple):
    """A call of a function that ends with a code."""

    function: str
    name: str
    code: AmlError
    call: Callable[[], int]


# The codes of each function. The first four are the text's; the others are what stands before them for any area.
DOCUMENTED: Final = {
    "aml_area_hip_create": {AmlError.AML_FAILURE, AmlError.AML_EINVAL, AmlError.AML_ENOMEM},
    "aml_area_hip_destroy": set[AmlError](),
    "aml_area_hip_mmap": {
        AmlError.AML_ENOTSUP, AmlError.AML_EINVAL, AmlError.AML_EBUSY, AmlError.AML_ENOMEM, AmlError.AML_FAILURE,
    },
    "aml_area_hip_munmap": {AmlError.AML_EINVAL},
    "aml_area_mmap": {AmlError.AML_EINVAL, AmlError.AML_ENOTSUP},
    "aml_area_munmap": {AmlError.AML_EINVAL, AmlError.AML_ENOTSUP},
    "aml_area_fprintf": {AmlError.AML_EINVAL, AmlError.AML_ENOTSUP},
}  # fmt: skip

# What no call of a test can meet.
UNREACHABLE: Final = {
    ("aml_area_hip_create", AmlError.AML_ENOMEM): "an area is an object of Python; without memory for it nothing runs",
}


def _create(device: object, flags: object) -> int:
    code, area = aml.aml_area_hip_create(device, flags)  # type: ignore[arg-type]
    assert area is None
    return code


def _mmap(size: object, options: object = None, flags: object = 0) -> int:
    """Return what a mapping leaves in `aml_errno`; it returns None, takes nothing and leaves the device alone."""
    aml.aml_errno = aml.AML_SUCCESS
    before, device = len(OWNED), tops.topsGetDevice()
    data = aml.aml_area_hip_data(flags)  # type: ignore[arg-type]
    assert aml.aml_area_hip_mmap(data, size, options) is None  # type: ignore[arg-type]
    assert len(OWNED) == before and tops.topsGetDevice() == device
    return aml.aml_errno


def _of_any(area: object, size: object = 8) -> int:
    aml.aml_errno = aml.AML_SUCCESS
    assert aml.aml_area_mmap(area, size) is None  # type: ignore[arg-type]
    return aml.aml_errno


def _registered() -> int:
    tops.check(tops.topsHostRegister(REGISTERED, REGISTERED.nbytes, 0))
    try:
        return _mmap(8, aml.aml_area_hip_mmap_options(ptr=REGISTERED), MAPPED)
    finally:
        tops.check(tops.topsHostUnregister(REGISTERED))


@contextmanager
def _without_devices() -> Iterator[None]:
    with board(devices=0) as empty:
        enter(empty, board_of(empty))
        try:
            yield
        finally:
            leave(empty)


def _no_devices(call: Callable[[], int]) -> int:
    with _without_devices():
        return call()


def _closed(call: Callable[[], int]) -> int:
    """Call it while the current driver is closed."""
    with board() as gone, atops.Device(0, gone):
        gone.close()
        return call()


def _no_count(call: Callable[[], int]) -> int:
    gone = atops.errors.NotInitialized("the driver is closed")
    with patch("atops.aml.hip_areas.current_board", side_effect=gone):
        return call()


def _twice() -> int:
    pointer = aml.aml_area_hip_mmap(aml.aml_area_hip_data(0), 8, None)
    assert aml.aml_area_hip_munmap(None, pointer, 8) == aml.AML_SUCCESS
    return aml.aml_area_hip_munmap(None, pointer, 8)


def _inside() -> int:
    pointer = aml.aml_area_hip_mmap(aml.aml_area_hip_data(0), 8, None)
    assert pointer is not None
    try:
        return aml.aml_area_hip_munmap(None, pointer + 1, 8)
    finally:
        assert aml.aml_area_hip_munmap(None, pointer, 8) == aml.AML_SUCCESS


EINVAL, ENOTSUP, FAILURE = AmlError.AML_EINVAL, AmlError.AML_ENOTSUP, AmlError.AML_FAILURE
BARE = aml.aml_area(aml.aml_area_ops())
options = aml.aml_area_hip_mmap_options

FAILURES = (
    Failure("aml_area_hip_create", "one device too many", EINVAL, lambda: _create(2, 0)),
    Failure("aml_area_hip_create", "a large number", EINVAL, lambda: _create(1 << 40, 0)),
    Failure("aml_area_hip_create", "what is no device", EINVAL, lambda: _create(None, 0)),
    Failure("aml_area_hip_create", "flags of no meaning", EINVAL, lambda: _create(0, 16)),
    Failure("aml_area_hip_create", "flags below 0", EINVAL, lambda: _create(0, -1)),
    Failure("aml_area_hip_create", "what are no flags", EINVAL, lambda: _create(0, "0")),
    Failure("aml_area_hip_create", "a board without devices", EINVAL, lambda: _no_devices(lambda: _create(0, 0))),
    Failure("aml_area_hip_create", "no count of devices", FAILURE, lambda: _no_count(lambda: _create(0, 0))),
    Failure("aml_area_hip_mmap", "a board without devices", ENOTSUP, lambda: _no_devices(lambda: _mmap(8))),
    Failure("aml_area_hip_mmap", "a size below 0", EINVAL, lambda: _mmap(-1)),
    Failure("aml_area_hip_mmap", "what is no size", EINVAL, lambda: _mmap("8")),
    Failure("aml_area_hip_mmap", "too much", AmlError.AML_ENOMEM, lambda: _mmap(1 << 50)),
    Failure("aml_area_hip_mmap", "no such device", EINVAL, lambda: _mmap(8, options(device=2))),
    Failure("aml_area_hip_mmap", "what is no device", EINVAL, lambda: _mmap(8, options(device="1"))),  # type: ignore[arg-type]
    Failure("aml_area_hip_mmap", "what are no options", EINVAL, lambda: _mmap(8, 5)),
    Failure("aml_area_hip_mmap", "no memory to map", EINVAL, lambda: _mmap(8, None, MAPPED)),
    Failure("aml_area_hip_mmap", "too little to map", EINVAL, lambda: _mmap(8, options(ptr=bytearray(4)), MAPPED)),
    Failure("aml_area_hip_mmap", "memory that is mapped", AmlError.AML_EBUSY, _registered),
    Failure("aml_area_hip_mmap", "flags of no meaning", EINVAL, lambda: _mmap(8, None, 99)),
    Failure("aml_area_hip_mmap", "a runtime that is gone", FAILURE, lambda: _closed(lambda: _mmap(8))),
    Failure("aml_area_hip_munmap", "twice", EINVAL, _twice),
    Failure("aml_area_hip_munmap", "inside", EINVAL, _inside),
    Failure("aml_area_hip_munmap", "of nothing", EINVAL, lambda: aml.aml_area_hip_munmap(None, 1 << 39, 8)),
    Failure("aml_area_hip_munmap", "no pointer", EINVAL, lambda: aml.aml_area_hip_munmap(None, "pointer", 8)),
    Failure("aml_area_mmap", "no area", EINVAL, lambda: _of_any(None)),
    Failure("aml_area_mmap", "what is no area", EINVAL, lambda: _of_any("area")),
    Failure("aml_area_mmap", "data of no area", EINVAL, lambda: _of_any(aml.aml_area(aml.aml_area_hip_ops, None))),
    Failure("aml_area_mmap", "no such operation", ENOTSUP, lambda: _of_any(BARE)),
    Failure("aml_area_munmap", "no area", EINVAL, lambda: aml.aml_area_munmap(None, 8, 8)),
    Failure("aml_area_munmap", "no such operation", ENOTSUP, lambda: aml.aml_area_munmap(BARE, 8, 8)),
    Failure("aml_area_fprintf", "no area", EINVAL, lambda: aml.aml_area_fprintf(_Paper(), None, None)),
    Failure("aml_area_fprintf", "no stream", EINVAL, lambda: aml.aml_area_fprintf(None, None, HIP)),  # type: ignore[arg-type]
    Failure("aml_area_fprintf", "no such operation", ENOTSUP, lambda: aml.aml_area_fprintf(_Paper(), None, BARE)),
)  # fmt: skip


class _Paper:
    """What takes what is printed."""

    def write(self, text: str) -> int:
        return len(text)


@every("row", FAILURES, [f"{row.function}: {row.name}" for row in FAILURES])
def test_failures(row: Failure) -> None:
    """Each ends with its code, negated, and no exception; the next call is served."""
    with board(devices=2) as made, atops.Device(1, made):
        assert row.call() == -row.code
        pointer = aml.aml_area_mmap(HIP, 8)
        assert aml.aml_area_munmap(HIP, pointer, 8) == aml.AML_SUCCESS


def test_each_documented_code_is_met_or_listed() -> None:
    """And nothing is listed that a call meets."""
    met = {(row.function, row.code) for row in FAILURES}
    documented = {(name, code) for name, codes in DOCUMENTED.items() for code in codes}
    assert met == documented - set(UNREACHABLE) and documented >= set(UNREACHABLE)
