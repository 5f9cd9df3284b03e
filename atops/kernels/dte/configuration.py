"""A DTE context as a kernel writes it, with a method to configure each operation. TOPS C++, beside 8.7.

Every operation has one, `config_` before its name, with the parameters of its plain form in their order; a test keeps
the two alike. What a configured context can do then is on the chip's floor.
"""

from __future__ import annotations

from typing import Any

from atops.device.dte.configured import ConfiguredContext
from atops.device.dte.transfer import Operand
from atops.device.geometry import Ints

__all__ = ("tops_dte_ctx_t",)


class tops_dte_ctx_t(ConfiguredContext):  # the language's own name
    """A context of the data transformation engine (TOPS C++, 8.7).

    It is given to an operation, which configures and starts in one; or configured by a method, then patched by `set_`
    methods, started by `trigger()`, as often as wanted, and connected to another one by `connect`. `config_` methods
    take what the operation of that name takes. They raise DteError, naming thread and line, where the chip lacks the
    operation, for a context that is not ready or is in flight, and for memory that it cannot reach. What the operation
    demands of shapes, offsets and types is checked when it is triggered.
    """

    __slots__ = ()

    def config_memcpy(self, dst: Operand, src: Operand) -> None:
        """Configure `memcpy`: bytes of src to the start of dst."""
        self._configure("memcpy", dst, src)

    def config_memset(self, dst: Operand, value: Any) -> None:
        """Configure `memset`: one value to all of dst."""
        self._configure("memset", dst, None, value=value)

    def config_slice(self, dst: Operand, src: Operand, offsets: Ints, value: Any = 0) -> None:
        """Configure `slice`: a window of src to dst."""
        self._configure("slice", dst, src, offsets=offsets, value=value)

    def config_deslice(self, dst: Operand, src: Operand, offsets: Ints) -> None:
        """Configure `deslice`: src over a window of dst."""
        self._configure("deslice", dst, src, offsets=offsets)

    def config_transpose(self, dst: Operand, src: Operand, layout: Ints) -> None:
        """Configure `transpose`: src, dimensions permuted, to dst."""
        self._configure("transpose", dst, src, layout=layout)

    def config_slice_transpose(self, dst: Operand, src: Operand, offsets: Ints, layout: Ints, value: Any = 0) -> None:
        """Configure `slice_transpose`: a window of src, dimensions permuted, to dst."""
        self._configure("slice_transpose", dst, src, offsets=offsets, layout=layout, value=value)

    def config_transpose_deslice(self, dst: Operand, src: Operand, offsets: Ints, layout: Ints) -> None:
        """Configure `transpose_deslice`: src, dimensions permuted, over a window of dst."""
        self._configure("transpose_deslice", dst, src, offsets=offsets, layout=layout)

    def config_pad(self, dst: Operand, src: Operand, low: Ints, high: Ints, mid: Ints, value: Any = 0) -> None:
        """Configure `pad`: src, a value around and between."""
        self._configure("pad", dst, src, low=low, high=high, mid=mid, value=value)

    def config_mirror_tb(self, dst: Operand, src: Operand) -> None:
        """Configure `mirror_tb`: src, last axis reversed, to dst."""
        self._configure("mirror_tb", dst, src)

    def config_mirror_lr(self, dst: Operand, src: Operand) -> None:
        """Configure `mirror_lr`: src, last axis but one reversed, to dst."""
        self._configure("mirror_lr", dst, src)

    def config_broadcast(self, dst: Operand, src: Operand) -> None:
        """Configure `broadcast`: src repeated to dst's shape."""
        self._configure("broadcast", dst, src)

    def config_slice_pad(
        self, dst: Operand, src: Operand, src_offsets: Ints, slice_shape: Ints, low: Ints,
        high: Ints, mid: Ints, value: Any = 0,
    ) -> None:  # fmt: skip
        """Configure `slice_pad`: a window of src, a value around and between, on gcu300."""
        self._configure(
            "slice_pad", dst, src, src_offsets=src_offsets, slice_shape=slice_shape, low=low, high=high, mid=mid,
            value=value,
        )  # fmt: skip

    def config_slice_deslice(
        self, dst: Operand, src: Operand, src_offsets: Ints, slice_shape: Ints, dst_offsets: Ints
    ) -> None:
        """Configure `slice_deslice`: a window of src over a window of dst, on gcu300."""
        self._configure(
            "slice_deslice", dst, src, src_offsets=src_offsets, slice_shape=slice_shape, dst_offsets=dst_offsets
        )

    def config_slice_broadcast(self, dst: Operand, src: Operand, src_offsets: Ints, slice_shape: Ints) -> None:
        """Configure `slice_broadcast`: a window of src repeated to dst's shape, on gcu300."""
        self._configure("slice_broadcast", dst, src, src_offsets=src_offsets, slice_shape=slice_shape)

    def config_slice_expand(
        self, dst: Operand, src: Operand, src_offsets: Ints, slice_shape: Ints, phase: int, ratio: int
    ) -> None:
        """Configure `slice_expand`: a window of src to one part of each element of dst, the rest 0, on gcu300."""
        self._configure(
            "slice_expand", dst, src, src_offsets=src_offsets, slice_shape=slice_shape, phase=phase, ratio=ratio
        )

    def config_shrink_deslice(self, dst: Operand, src: Operand, phase: int, ratio: int, dst_offsets: Ints) -> None:
        """Configure `shrink_deslice`: one part of each element of src over a window of dst, on gcu300."""
        self._configure("shrink_deslice", dst, src, phase=phase, ratio=ratio, dst_offsets=dst_offsets)

    def config_memset_deslice(self, dst: Operand, src: Operand, dst_offsets: Ints, value: Any) -> None:
        """Configure `memset_deslice`: one value over a window of dst that has src's shape, on gcu300."""
        self._configure("memset_deslice", dst, src, dst_offsets=dst_offsets, value=value)

    def config_mirror_tb_pad(
        self, dst: Operand, src: Operand, low: Ints, high: Ints, mid: Ints, value: Any = 0
    ) -> None:
        """Configure `mirror_tb_pad`: src, last axis reversed, a value around and between, on gcu300."""
        self._configure("mirror_tb_pad", dst, src, low=low, high=high, mid=mid, value=value)

    def config_mirror_lr_pad(
        self, dst: Operand, src: Operand, low: Ints, high: Ints, mid: Ints, value: Any = 0
    ) -> None:
        """Configure `mirror_lr_pad`: src, last axis but one reversed, a value around and between, on gcu300."""
        self._configure("mirror_lr_pad", dst, src, low=low, high=high, mid=mid, value=value)

    def config_mirror_tb_deslice(self, dst: Operand, src: Operand, dst_offsets: Ints) -> None:
        """Configure `mirror_tb_deslice`: src, last axis reversed, over a window of dst, on gcu300."""
        self._configure("mirror_tb_deslice", dst, src, dst_offsets=dst_offsets)

    def config_mirror_lr_deslice(self, dst: Operand, src: Operand, dst_offsets: Ints) -> None:
        """Configure `mirror_lr_deslice`: src, last axis but one reversed, over a window of dst, on gcu300."""
        self._configure("mirror_lr_deslice", dst, src, dst_offsets=dst_offsets)

    def config_sub_sample(self, dst: Operand, src: Operand, dim_stride: Ints) -> None:
        """Configure `sub_sample`: each dim_stride-th of src's elements, in each dimension, to dst, on gcu300."""
        self._configure("sub_sample", dst, src, dim_stride=dim_stride)
