"""What each DTE operation demands of shapes, as expressions for readers, which the tests evaluate. TOPS C++, 8.7."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

__all__ = ("SHAPES",)

_INSIDE = "offsets[i] + src.shape[i] <= dst.shape[i]"
_INSIDE_300 = f"dst_{_INSIDE}"
_PADDED = "dst.shape[i] == low[i] + {n} + max({n} - 1, 0) * mid[i] + high[i]"
_SAME_RANK = "dst.ndim == src.ndim"
_TIMES = "2 ** (ratio + 1)"

# Each part holds for every dimension i of `src`; `slice_shape` and each list of offsets, widths or strides has an
# entry for each of them. A slice has no part with i: what lies beyond `src` is filled.
SHAPES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "memcpy": ("src.nbytes <= dst.nbytes",),
        "memset": (),
        "slice": (_SAME_RANK,),
        "deslice": (_INSIDE,),
        "transpose": ("dst.shape[i] == src.shape[layout[i]]",),
        "slice_transpose": (_SAME_RANK,),
        "transpose_deslice": ("offsets[i] + src.shape[layout[i]] <= dst.shape[i]",),
        "pad": (_PADDED.format(n="src.shape[i]"),),
        "mirror_tb": ("dst.shape[i] == src.shape[i]", "src.ndim >= 1"),
        "mirror_lr": ("dst.shape[i] == src.shape[i]", "src.ndim >= 2"),
        "broadcast": ("src.shape[-1 - i] in (1, dst.shape[-1 - i])",),
        "slice_pad": (_PADDED.format(n="slice_shape[i]"),),
        "slice_deslice": ("dst_offsets[i] + slice_shape[i] <= dst.shape[i]",),
        "slice_broadcast": ("slice_shape[-1 - i] in (1, dst.shape[-1 - i])",),
        "slice_expand": ("dst.shape[i] == slice_shape[i]", f"dst.itemsize == src.itemsize * {_TIMES}"),
        "shrink_deslice": (_INSIDE_300, f"src.itemsize == dst.itemsize * {_TIMES}"),
        "memset_deslice": (_INSIDE_300,),
        "mirror_tb_pad": (_PADDED.format(n="src.shape[i]"), "src.ndim >= 1"),
        "mirror_lr_pad": (_PADDED.format(n="src.shape[i]"), "src.ndim >= 2"),
        "mirror_tb_deslice": (_INSIDE_300, "src.ndim >= 1"),
        "mirror_lr_deslice": (_INSIDE_300, "src.ndim >= 2"),
        "sub_sample": ("dst.shape[i] == -(-src.shape[i] // dim_stride[i])",),
    }
)
