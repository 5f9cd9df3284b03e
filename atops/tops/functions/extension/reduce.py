"""Reductions of two arrays in device memory: topsMemoryReduceAsync (TOPS Runtime API, 2.11)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from atops.base.dtypes import as_dtype
from atops.base.errors import InvalidValue
from atops.runtime.commands.reduce import Reduce
from atops.runtime.memory.buffer import Buffer
from atops.tops.bridge.arguments import member, size_of
from atops.tops.bridge.call import call
from atops.tops.bridge.handles import usable_stream_of
from atops.tops.bridge.pointers import device_memory
from atops.tops.types.enumerations import topsReduceDataType, topsReduceOpType

__all__ = ("topsMemoryReduceAsync",)

OPERATION: Final[Mapping[topsReduceOpType, str]] = MappingProxyType({
    topsReduceOpType.REDUCE_SUM: "sum",
    topsReduceOpType.REDUCE_PROD: "product",
    topsReduceOpType.REDUCE_MAX: "maximum",
    topsReduceOpType.REDUCE_MIN: "minimum",
})
DTYPE: Final[Mapping[topsReduceDataType, np.dtype[Any]]] = MappingProxyType({
    topsReduceDataType.INT8: as_dtype("int8"),
    topsReduceDataType.UINT8: as_dtype("uint8"),
    topsReduceDataType.INT32: as_dtype("int32"),
    topsReduceDataType.UINT32: as_dtype("uint32"),
    topsReduceDataType.INT64: as_dtype("int64"),
    topsReduceDataType.UINT64: as_dtype("uint64"),
    topsReduceDataType.FLOAT16: as_dtype("float16"),
    topsReduceDataType.FLOAT32: as_dtype("float32"),
    topsReduceDataType.LFLOAT64: as_dtype("float64"),
    topsReduceDataType.BFLOAT16: as_dtype("bfloat16"),
})


@call
def topsMemoryReduceAsync(
    lhs: int, rhs: int, result: int, op: topsReduceOpType, dtype: topsReduceDataType, element_cnt: int,
    stream: int | None,
) -> None:  # fmt: skip
    """Store `op(lhs[i], rhs[i])` in `result[i]`, in the order of a stream, all on its device.

    `result` may be `lhs` or `rhs` itself. Integers wrap; half and bfloat16 are computed in float32 and rounded once;
    MAX and MIN propagate NaN. InvalidValue: a pointer that is not on the stream's device, a range that leaves its
    allocation, a result that overlaps an operand otherwise, UNKNOW or not a member, a count of more than 32 bits.
    """
    queue = usable_stream_of(stream)
    operation = OPERATION.get(member(topsReduceOpType, op, "op"))
    element = DTYPE.get(member(topsReduceDataType, dtype, "dtype"))
    if operation is None or element is None:
        raise InvalidValue(f"op and dtype must be known, got {op!r} and {dtype!r}")
    count = size_of(element_cnt, "element_cnt", 32)
    nbytes = count * element.itemsize
    one, other, target = (
        device_memory(pointer, nbytes, what, device=queue.device, plain=False)
        for pointer, what in ((lhs, "lhs"), (rhs, "rhs"), (result, "result"))
    )
    for source, what in ((one, "lhs"), (other, "rhs")):
        _check_overlap(target, source, what)
    ends = ((buffer.allocation, buffer.offset) for buffer in (one, other, target))
    queue.submit(Reduce(operation, element, count, *ends))


def _check_overlap(target: Buffer, source: Buffer, what: str) -> None:
    apart = target.offset - source.offset
    if target.allocation is source.allocation and 0 < abs(apart) < target.nbytes:
        shared = target.nbytes - abs(apart)
        raise InvalidValue(f"result must be {what} itself or lie apart from it, but {shared} of their bytes are shared")
