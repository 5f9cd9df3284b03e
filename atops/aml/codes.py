"""AML's constants and error codes, `aml_errno`, which a failed mapping sets, and the functions of the library itself.

Functions that return a status return AML_SUCCESS or a code negated. `aml_errno` holds a code negated, too.
"""

from __future__ import annotations

import sys
import threading
from enum import IntEnum
from typing import Final

from atops.base.errors import AtopsError
from atops.base.result_codes import Result
from atops.bridge.arguments import whole
from atops.bridge.codes import result_of
from atops.tops.header.constants import topsHostMallocMapped, topsHostMallocPortable

__all__ = (
    "AML_AREA_HIP_FLAG_ALLOC_GLOBAL", "AML_AREA_HIP_FLAG_ALLOC_HOST", "AML_AREA_HIP_FLAG_ALLOC_MAPPED",
    "AML_AREA_HIP_FLAG_ALLOC_UNIFIED", "AML_AREA_HIP_FLAG_DEFAULT", "AML_BACKEND_HIP", "AML_EBUSY", "AML_EDOM",
    "AML_EINVAL", "AML_ENOMEM", "AML_ENOTSUP", "AML_EPERM", "AML_ERROR_MAX", "AML_FAILURE", "AML_SUCCESS", "ERRNO",
    "FLAGS", "AmlError", "aml_finalize", "aml_init", "aml_perror", "aml_strerror", "aml_support_backends", "code_of",
    "host_flags",
)  # fmt: skip

AML_AREA_HIP_FLAG_DEFAULT: Final = 0
AML_AREA_HIP_FLAG_ALLOC_HOST: Final = 1
AML_AREA_HIP_FLAG_ALLOC_UNIFIED: Final = 2
AML_AREA_HIP_FLAG_ALLOC_MAPPED: Final = 4
AML_AREA_HIP_FLAG_ALLOC_GLOBAL: Final = 8
FLAGS: Final = 15  # all of them

AML_BACKEND_HIP: Final = 1 << 6  # of the backends that a build of AML may have, the one that is here


class AmlError(IntEnum):
    """AML's error codes."""

    AML_SUCCESS = 0
    AML_FAILURE = 1
    AML_ENOMEM = 2
    AML_EINVAL = 3
    AML_EDOM = 4
    AML_ENOTSUP = 5
    AML_EBUSY = 6
    AML_EPERM = 7


AML_SUCCESS: Final = 0
AML_FAILURE: Final = 1
AML_ENOMEM: Final = 2
AML_EINVAL: Final = 3
AML_EDOM: Final = 4
AML_ENOTSUP: Final = 5
AML_EBUSY: Final = 6
AML_EPERM: Final = 7
AML_ERROR_MAX: Final = 8

SAID: Final = {
    AmlError.AML_SUCCESS: "success",
    AmlError.AML_FAILURE: "the runtime failed",
    AmlError.AML_ENOMEM: "out of memory",
    AmlError.AML_EINVAL: "an argument is wrong",
    AmlError.AML_EDOM: "a value is out of its range",
    AmlError.AML_ENOTSUP: "not supported",
    AmlError.AML_EBUSY: "in use",
    AmlError.AML_EPERM: "not permitted",
}

CODES: Final = {
    Result.OutOfMemory: AmlError.AML_ENOMEM,
    Result.MemoryAllocation: AmlError.AML_ENOMEM,
    Result.NoDevice: AmlError.AML_ENOTSUP,
    Result.InsufficientDriver: AmlError.AML_ENOTSUP,
    Result.NotSupported: AmlError.AML_ENOTSUP,
    Result.DeviceAlreadyInUse: AmlError.AML_EBUSY,
    Result.HostMemoryAlreadyRegistered: AmlError.AML_EBUSY,
    Result.InvalidDevice: AmlError.AML_EINVAL,
    Result.InvalidDevicePointer: AmlError.AML_EINVAL,
    Result.InvalidValue: AmlError.AML_EINVAL,
    Result.HostMemoryNotRegistered: AmlError.AML_EINVAL,
}


class _Errno(threading.local):
    """The error number of each thread: what a call sets, the code that follows it in that thread reads."""

    value: int = AML_SUCCESS


ERRNO: Final = _Errno()


def code_of(error: BaseException) -> AmlError:
    """Return AML's code for an exception: AML_FAILURE for what has none."""
    return CODES.get(result_of(error), AmlError.AML_FAILURE)


def host_flags(flags: int) -> int:
    """Return the flags of pinned or registered memory for those of an area: mapped, portable."""
    mapped = topsHostMallocMapped if flags & AML_AREA_HIP_FLAG_ALLOC_MAPPED else 0
    return mapped | (topsHostMallocPortable if flags & AML_AREA_HIP_FLAG_ALLOC_GLOBAL else 0)


def aml_strerror(errno: int) -> str:
    """Return what a code means; its sign does not matter."""
    try:
        return SAID[AmlError(abs(errno))]
    except (AtopsError, TypeError, ValueError):
        return "unknown error"


def aml_perror(message: str) -> None:
    """Print a message, and what the thread's `aml_errno` means, to the standard error stream."""
    print(f"{message}: {aml_strerror(ERRNO.value)}", file=sys.stderr)


def aml_init(*arguments: object) -> int:
    """Begin the use of the library. Nothing is to be done here: returns AML_SUCCESS, whatever it is given."""
    return AML_SUCCESS


def aml_finalize() -> None:
    """End the use of the library. Memory that areas have mapped stays."""


def aml_support_backends(backends: int) -> int:
    """Tell whether all of these backends (bits, such as AML_BACKEND_HIP) are here: 1 or 0."""
    try:
        return int(whole(backends, "backends") & ~AML_BACKEND_HIP == 0)
    except AtopsError:
        return 0
