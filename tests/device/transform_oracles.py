"""What each DTE operation leaves in dst: for each index of dst, by arithmetic, where its bytes come from.

Written from TOPS C++ 8.7 and nothing else: they know no implementation, and go through the elements of dst, not of src.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Index = tuple[int, ...]
Cells = dict[Index, bytes]
Ints = tuple[int, ...]


def cells(array: Array) -> Cells:
    """Return the bytes of each element by its index."""
    octets, size = array.tobytes(), array.itemsize
    return {index: octets[n * size : (n + 1) * size] for n, index in enumerate(np.ndindex(array.shape))}


def expected(name: str, dst: Array, src: Array | None, **parameters: Any) -> Cells:
    """Return the bytes of each element of dst after the operation, which is not run."""
    return ORACLES[name](dst, src, **parameters)


def memcpy(dst: Array, src: Array) -> Cells:
    """Dst's bytes are src's, as many as src has."""
    octets = src.tobytes() + dst.tobytes()[src.nbytes :]
    strides = [math.prod(dst.shape[axis + 1 :]) * dst.itemsize for axis in range(dst.ndim)]
    starts = {index: sum(i * s for i, s in zip(index, strides, strict=True)) for index in np.ndindex(dst.shape)}
    return {index: octets[start : start + dst.itemsize] for index, start in starts.items()}


def memset(dst: Array, src: None, *, value: Any) -> Cells:
    """Each element is the value."""
    return {index: element(value, dst) for index in np.ndindex(dst.shape)}


def slice_(dst: Array, src: Array, *, offsets: Ints, value: Any = 0) -> Cells:
    """Element i is src's i + offset, or the value where there is none."""
    return fetched(dst, src, lambda index: plus(index, offsets), element(value, dst))


def deslice(dst: Array, src: Array, *, offsets: Ints) -> Cells:
    """Element i is src's i - offset, or itself where there is none."""
    return fetched(dst, src, lambda index: minus(index, offsets), None)


def transpose(dst: Array, src: Array, *, layout: Ints) -> Cells:
    """Element i is src's with i[k] in its dimension layout[k]."""
    return fetched(dst, src, lambda index: unturned(index, layout), None)


def slice_transpose(dst: Array, src: Array, *, offsets: Ints, layout: Ints, value: Any = 0) -> Cells:
    """The transposition's source index is one of the slice, which begins at the offsets."""
    return fetched(dst, src, lambda index: plus(unturned(index, layout), offsets), element(value, dst))


def transpose_deslice(dst: Array, src: Array, *, offsets: Ints, layout: Ints) -> Cells:
    """The deslice's source index is one of the transposed src."""
    return fetched(dst, src, lambda index: unturned(minus(index, offsets), layout), None)


def pad(dst: Array, src: Array, *, low: Ints, high: Ints, mid: Ints, value: Any = 0) -> Cells:
    """Each (mid + 1)-th element behind low is src's; all others are the value."""
    return fetched(dst, src, lambda index: unspread(index, low, mid), element(value, dst))


def mirror_tb(dst: Array, src: Array) -> Cells:
    """The last coordinate counts from the end."""
    return fetched(dst, src, lambda index: flipped(index, src, 1), None)


def mirror_lr(dst: Array, src: Array) -> Cells:
    """The last coordinate but one counts from the end."""
    return fetched(dst, src, lambda index: flipped(index, src, 2), None)


def broadcast(dst: Array, src: Array) -> Cells:
    """Coordinates that src lacks or has once are dropped or 0."""
    return fetched(dst, src, lambda index: narrowed(index, src.shape), None)


def slice_pad(
    dst: Array, src: Array, *, src_offsets: Ints, slice_shape: Ints, low: Ints, high: Ints, mid: Ints, value: Any = 0
) -> Cells:
    """The padding's source index is one of the slice; in the slice, what src does not have is the value too."""

    def origin(index: Index) -> Index | None:
        at = unspread(index, low, mid)
        return plus(at, src_offsets) if within(at, slice_shape) else None

    return fetched(dst, src, origin, element(value, dst))


def slice_deslice(dst: Array, src: Array, *, src_offsets: Ints, slice_shape: Ints, dst_offsets: Ints) -> Cells:
    """In dst's window are the slice's elements, of which those that src does not have are 0."""
    after, source = cells(dst), cells(src)
    for index in after:
        at = minus(index, dst_offsets)
        if within(at, slice_shape):
            after[index] = source.get(plus(at, src_offsets), bytes(dst.itemsize))
    return after


def slice_broadcast(dst: Array, src: Array, *, src_offsets: Ints, slice_shape: Ints) -> Cells:
    """The broadcast's source index is one of the slice, whose elements beyond src are 0."""
    return fetched(dst, src, lambda i: plus(narrowed(i, slice_shape), src_offsets), bytes(dst.itemsize))


def slice_expand(
    dst: Array, src: Array, *, src_offsets: Ints, slice_shape: Ints, phase: int, ratio: int
) -> Cells:  # fmt: skip
    """The slice's bytes begin at byte `phase * size` of an element; its other bytes are 0."""
    source, size, factor = cells(src), src.itemsize, (2, 4)[ratio]
    after = {}
    for index in np.ndindex(dst.shape):
        moved = source.get(plus(index, src_offsets), bytes(size))
        after[index] = bytes(size * phase) + moved + bytes(size * (factor - 1 - phase))
    return after


def shrink_deslice(dst: Array, src: Array, *, phase: int, ratio: int, dst_offsets: Ints) -> Cells:
    """In dst's window are the bytes of src's elements from byte `phase * size` on."""
    after, source, size = cells(dst), cells(src), dst.itemsize
    for index in after:
        whole = source.get(minus(index, dst_offsets))
        if whole is not None:
            after[index] = whole[phase * size :][:size]
    return after


def memset_deslice(dst: Array, src: Array, *, dst_offsets: Ints, value: Any) -> Cells:
    """In dst's window of src's shape is the value."""
    after = cells(dst)
    for index in after:
        if within(minus(index, dst_offsets), src.shape):
            after[index] = element(value, dst)
    return after


def mirror_tb_pad(dst: Array, src: Array, *, low: Ints, high: Ints, mid: Ints, value: Any = 0) -> Cells:
    """The padding's last source coordinate counts from the end."""
    return fetched(dst, src, lambda index: flipped(unspread(index, low, mid), src, 1), element(value, dst))


def mirror_lr_pad(dst: Array, src: Array, *, low: Ints, high: Ints, mid: Ints, value: Any = 0) -> Cells:
    """The padding's last source coordinate but one counts from the end."""
    return fetched(dst, src, lambda index: flipped(unspread(index, low, mid), src, 2), element(value, dst))


def mirror_tb_deslice(dst: Array, src: Array, *, dst_offsets: Ints) -> Cells:
    """The deslice's last source coordinate counts from the end."""
    return fetched(dst, src, lambda index: flipped(minus(index, dst_offsets), src, 1), None)


def mirror_lr_deslice(dst: Array, src: Array, *, dst_offsets: Ints) -> Cells:
    """The deslice's last source coordinate but one counts from the end."""
    return fetched(dst, src, lambda index: flipped(minus(index, dst_offsets), src, 2), None)


def sub_sample(dst: Array, src: Array, *, dim_stride: Ints) -> Cells:
    """Element i is src's i * stride."""
    return fetched(dst, src, lambda index: tuple(i * s for i, s in zip(index, dim_stride, strict=True)), None)


def fetched(dst: Array, src: Array, origin: Callable[[Index], Index | None], missing: bytes | None) -> Cells:
    """Return src's bytes at the `origin` of each index, or `missing` where src has none there; None keeps dst's."""
    source = cells(src)
    return {
        index: source.get(origin(index), before if missing is None else missing)  # type: ignore[arg-type]
        for index, before in cells(dst).items()
    }


def element(value: Any, array: Array) -> bytes:
    """Return the bytes of one value of the array's element type."""
    return np.array(value, array.dtype).tobytes()


def plus(index: Index, offsets: Iterable[int]) -> Index:
    """Return the index so much further."""
    return tuple(i + offset for i, offset in zip(index, offsets, strict=True))


def minus(index: Index, offsets: Iterable[int]) -> Index:
    """Return the index so much nearer, which may be none."""
    return tuple(i - offset for i, offset in zip(index, offsets, strict=True))


def within(index: Index | None, extents: Ints) -> bool:
    """Say whether an index is one of an array of `extents`."""
    return index is not None and all(0 <= i < extent for i, extent in zip(index, extents, strict=True))


def unturned(index: Index, layout: Ints) -> Index:
    """Return the index before a transposition: what is dimension k now was dimension layout[k]."""
    return tuple(index[layout.index(axis)] for axis in range(len(layout)))


def unspread(index: Index, low: Ints, mid: Ints) -> Index | None:
    """Return the index before padding, which may be beyond the padded, or None in `low` and between neighbours."""
    at = []
    for i, before, gap in zip(index, low, mid, strict=True):
        place, rest = divmod(i - before, gap + 1)
        if place < 0 or rest:
            return None
        at.append(place)
    return tuple(at)


def flipped(index: Index | None, array: Array, last: int) -> Index | None:
    """Return the index with the coordinate that is `last` from the end counted from the array's other side."""
    if index is None:
        return None
    axis = len(index) - last
    return (*index[:axis], array.shape[axis] - 1 - index[axis], *index[axis + 1 :])


def narrowed(index: Index, extents: Ints) -> Index:
    """Return the index in what was broadcast: the last coordinates, each 0 where the extent is 1."""
    own = index[len(index) - len(extents) :]
    return tuple(0 if extent == 1 else i for i, extent in zip(own, extents, strict=True))


ORACLES: dict[str, Callable[..., Cells]] = {
    function.__name__.rstrip("_"): function
    for function in (
        memcpy, memset, slice_, deslice, transpose, slice_transpose, transpose_deslice, pad, mirror_tb, mirror_lr,
        broadcast, slice_pad, slice_deslice, slice_broadcast, slice_expand, shrink_deslice, memset_deslice,
        mirror_tb_pad, mirror_lr_pad, mirror_tb_deslice, mirror_lr_deslice, sub_sample,
    )
}  # fmt: skip
