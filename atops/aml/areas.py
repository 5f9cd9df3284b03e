"""Areas: memory of some kind behind one pair of functions, `aml_area_mmap` and `aml_area_munmap`.

An area is its operations and their data. The operations of this package map memory of devices (atops.aml.hip_areas);
a program may bring others of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TextIO

from atops.aml.codes import AML_EINVAL, AML_ENOTSUP, AML_FAILURE, AML_SUCCESS, ERRNO
from atops.base.log_fields import get_logger
from atops.bridge.pointers import is_null

__all__ = ("aml_area", "aml_area_fprintf", "aml_area_mmap", "aml_area_munmap", "aml_area_ops")

log = get_logger("atops.aml")


@dataclass(slots=True)
class aml_area_ops:
    """What an area does: `mmap(data, size, options)`, `munmap(data, pointer, size)`, `fprintf(data, stream, prefix)`.

    `mmap` returns a pointer; where it fails it returns None and has set `aml_errno`. The others return AML_SUCCESS or a
    negated code.
    """

    mmap: Callable[[Any, int, Any], int | None] | None = None
    munmap: Callable[[Any, Any, int], int] | None = None
    fprintf: Callable[[Any, TextIO, str], int] | None = None


@dataclass(slots=True, eq=False)
class aml_area:
    """An area: its operations, and what they are given as `area_data`. Both are None once it was destroyed."""

    ops: aml_area_ops | None = None
    data: Any = None


def aml_area_mmap(area: aml_area | None, size: int, opts: object = None) -> int | None:
    """Return a pointer to `size` new bytes of an area, None for 0 bytes.

    On failure it returns None, and `aml_errno` is the code: -AML_EINVAL for None, a destroyed area or what is none,
    -AML_ENOTSUP for an area that cannot map, else what its `mmap` says.
    """
    if type(size) is int and size == 0:
        return None
    ops = _ops(area)
    if ops is None:
        log.debug("aml_area_mmap: %r is no area, or was destroyed", area)
        ERRNO.value = -AML_EINVAL
        return None
    if ops.mmap is None:
        ERRNO.value = -AML_ENOTSUP
        return None
    return ops.mmap(area.data, size, opts)  # type: ignore[union-attr]  # it has operations


def aml_area_munmap(area: aml_area | None, ptr: object, size: int) -> int:
    """Release memory that `aml_area_mmap` returned, of the same area and size. Null and 0 bytes are fine.

    Returns AML_SUCCESS, -AML_EINVAL for None, a destroyed area or what is none, -AML_ENOTSUP for an area that cannot
    unmap, else what its `munmap` returns.
    """
    if is_null(ptr) or (type(size) is int and size == 0):
        return AML_SUCCESS
    ops = _ops(area)
    if ops is None:
        log.debug("aml_area_munmap: %r is no area, or was destroyed", area)
        return -AML_EINVAL
    if ops.munmap is None:
        return -AML_ENOTSUP
    return ops.munmap(area.data, ptr, size)  # type: ignore[union-attr]  # it has operations


def aml_area_fprintf(stream: TextIO, prefix: str | None, area: aml_area | None) -> int:
    """Write what an area is to a text file, each line behind `prefix`.

    Returns AML_SUCCESS, -AML_EINVAL for None, a destroyed area or what is none, -AML_ENOTSUP for an area that cannot,
    -AML_FAILURE where the file takes no text.
    """
    ops = _ops(area)
    if ops is None or not hasattr(stream, "write"):
        return -AML_EINVAL
    if ops.fprintf is None:
        return -AML_ENOTSUP
    try:
        return ops.fprintf(area.data, stream, prefix or "")  # type: ignore[union-attr]  # it has operations
    except (OSError, TypeError, ValueError) as error:
        log.debug("aml_area_fprintf: %s", error)
        return -AML_FAILURE


def _ops(area: object) -> aml_area_ops | None:
    ops = area.ops if isinstance(area, aml_area) else None
    return ops if isinstance(ops, aml_area_ops) else None

