"""The DTE in the language's tables: contexts, data parameters, events and the twenty-two operations. TOPS C++, 8.7."""

from __future__ import annotations

from atops.kernels.tables.constructs import Construct

__all__ = ("DTE",)

_PADDING = "`pad_low`, `pad_high`, `pad_mid` are `low`, `high`, `mid`, one int for each dimension"
_NO_VALUE = "`value` may be left out and is then 0"
_PAD_VALUE = f"{_PADDING}; `pad_value` is `value`, which may be left out and is then 0"
_OFFSET = "`offset` is `offsets`, one int for each dimension"
_FILL = f"{_OFFSET}; what lies beyond `src` is `value`, which may be left out and is then 0"
_ADDRESS = "memory is a Span or a local or shared array, which know type and place, and no raw address"
_POINTER = "there is no address operator"
_AWAITED = "an `await`, for a thread can be suspended here"
_COMMON = "the text does not have it, published kernels do"


def _row(cpp: str, python: str, summary: str, differs: str = "", gcu_arch: int = 210) -> Construct:
    """Return a row of section 8.7."""
    return Construct("8.7", cpp, python, summary, differs=differs, gcu_arch=gcu_arch)


_CONTEXTS: tuple[Construct, ...] = (
    _row("__shared__ tops_dte_ctx_t ctx;", "ctx = k.shared_dte_ctx()",
         "A context of the block's engine, for one thread at a time, between global and shared memory."),
    _row("tops_dte_ctx_t ctx;", "ctx = k.tops_dte_ctx_t()",
         "A context of the thread's own engine, between any two of global, shared and local memory."),
    _row("tops_init_dte(&ctx);", "k.tops_init_dte(ctx)", "Make a context ready for use.",
         _POINTER),
    _row("tops_init_dte(ctx);", "k.tops_init_dte(ctx)", "Make a context ready for use."),
    _row("ctx.init();", "ctx.init()", "Make a context ready for use."),
    _row("tops_destroy_dte(&ctx);", "k.tops_destroy_dte(ctx)", "Give a context back; no transfer may be in flight.",
         _POINTER),
    _row("tops_destroy_dte(ctx);", "k.tops_destroy_dte(ctx)", "Give a context back; no transfer may be in flight."),
    _row("ctx.destroy();", "ctx.destroy()", "Give a context back; no transfer may be in flight."),
    _row("tops::dte_scope s(ctx);", "with k.dte_scope(ctx): ...",
         "Initialise a context, and destroy it at the end of the scope.",
         f"a `with` block is the scope; without an argument it makes a private context, `as` gives it; {_COMMON}"),
    _row("tops::mdspan x((char*)(address), N, H, W, C);", "x = k.mdspan(memory, n, h, w, c)",
         "Memory seen with a shape, its extents given one by one.", _ADDRESS),
    _row("int shape[] = {N, H, W, C}; tops::mdspan x((char*)(address), shape);",
         "x = k.mdspan(memory, (n, h, w, c))", "Memory seen with a shape, its extents given as an array.", _ADDRESS),
    _row("tops::mdspan x(space, address, shape);", "x = k.mdspan(k.Global, memory, (n, h, w, c))",
         "Memory seen with a shape, its memory space named: k.Global, k.Shared or k.Local.",
         f"{_ADDRESS}; a space that it does not lie in is an error"),
    _row("tops::event ev = tops::memcpy_async(ctx, dst, src);", "ev = k.memcpy_async(ctx, dst, src)",
         "Start an operation and get its event; each operation has such a form, its name with _async."),
    _row("tops::event ev;", "ev = k.event()", "An event of no transfer, over when it is waited for."),
    _row("tops::wait(ev);", "await k.wait(ev)", "Wait for an operation; then dst may be read and src overwritten.",
         _AWAITED),
    _row("ev.wait();", "await ev.wait()", "Wait for an operation; then dst may be read and src overwritten.",
         f"{_AWAITED}; `await ev` does the same; {_COMMON}"),
)  # fmt: skip

_OPERATIONS: tuple[Construct, ...] = (
    _row("tops::memcpy(ctx, dst, src)", "k.memcpy(ctx, dst, src)",
         "Copy all bytes of src to the first bytes of dst, which has at least as many."),
    _row("tops::memset(ctx, dst, const_value)", "k.memset(ctx, dst, value)", "Set every element of dst to a value.",
         "`const_value` is `value`, a value of dst's element type"),
    _row("tops::slice(ctx, dst, src, offset)", "k.slice(ctx, dst, src, offsets, value=0)",
         "Copy the window of dst's shape at the offsets of src.", _FILL),
    _row("tops::deslice(ctx, dst, src, offset)", "k.deslice(ctx, dst, src, offsets)",
         "Copy src over the window of its shape at the offsets of dst, which lies inside dst.", _OFFSET),
    _row("tops::transpose(ctx, dst, src, layout)", "k.transpose(ctx, dst, src, layout)",
         "Copy src with its dimensions permuted: dst.shape[i] == src.shape[layout[i]]."),
    _row("tops::slice_transpose(ctx, dst, src, offset, layout)",
         "k.slice_transpose(ctx, dst, src, offsets, layout, value=0)",
         "Cut a window at the offsets of src, then copy it with its dimensions permuted.", _FILL),
    _row("tops::transpose_deslice(ctx, dst, src, offset, layout)",
         "k.transpose_deslice(ctx, dst, src, offsets, layout)",
         "Permute the dimensions of src, then copy it over the window at the offsets of dst.", _OFFSET),
    _row("tops::pad(ctx, dst, src, pad_low, pad_high, pad_mid, pad_value)",
         "k.pad(ctx, dst, src, low, high, mid, value=0)",
         "Copy src with a value around it and between its elements: dst is low + n + (n - 1) * mid + high.",
         _PAD_VALUE),
    _row("tops::mirror_tb(ctx, dst, src)", "k.mirror_tb(ctx, dst, src)",
         "Copy src with its last axis reversed (X, the last element of the shape)."),
    _row("tops::mirror_lr(ctx, dst, src)", "k.mirror_lr(ctx, dst, src)",
         "Copy src with its last axis but one reversed (Y, the last element but one of the shape)."),
    _row("tops::broadcast(ctx, dst, src)", "k.broadcast(ctx, dst, src)",
         "Copy src, repeated along the dimensions that it lacks or has once."),
    _row("tops::slice_pad(ctx, dst, src, src_offsets, slice_shape, pad_low, pad_high, pad_mid, pad_value)",
         "k.slice_pad(ctx, dst, src, src_offsets, slice_shape, low, high, mid, value=0)",
         "Cut a window of src, then pad it; what lies beyond src is the value too.", _PAD_VALUE, 300),
    _row("tops::slice_deslice(ctx, dst, src, src_offsets, slice_shape, dst_offsets)",
         "k.slice_deslice(ctx, dst, src, src_offsets, slice_shape, dst_offsets)",
         "Copy a window of src over a window of dst; what lies beyond src is 0.", gcu_arch=300),
    _row("tops::slice_broadcast(ctx, dst, src, src_offsets, slice_shape)",
         "k.slice_broadcast(ctx, dst, src, src_offsets, slice_shape)",
         "Cut a window of src, then repeat it to dst's shape; what lies beyond src is 0.", gcu_arch=300),
    _row("tops::slice_expand(ctx, dst, src, src_offsets, slice_shape, phase, ratio)",
         "k.slice_expand(ctx, dst, src, src_offsets, slice_shape, phase, ratio)",
         "Copy a window of src to one part of each element of dst, which is 2 ** (ratio + 1) times as large; "
         "the other parts, and what lies beyond src, are 0.", gcu_arch=300),
    _row("tops::shrink_deslice(ctx, dst, src, phase, ratio, dst_offsets)",
         "k.shrink_deslice(ctx, dst, src, phase, ratio, dst_offsets)",
         "Copy one part of each element of src, which is 2 ** (ratio + 1) times as large, over a window of dst.",
         gcu_arch=300),
    _row("tops::memset_deslice(ctx, dst, src, dst_offsets, value)",
         "k.memset_deslice(ctx, dst, src, dst_offsets, value)",
         "Set the window of src's shape at the offsets of dst to a value; src is neither read nor written.",
         gcu_arch=300),
    _row("tops::mirror_tb_pad(ctx, dst, src, pad_low, pad_high, pad_mid, value)",
         "k.mirror_tb_pad(ctx, dst, src, low, high, mid, value=0)",
         "Reverse the last axis of src, then pad.", f"{_PADDING}; {_NO_VALUE}", 300),
    _row("tops::mirror_lr_pad(ctx, dst, src, pad_low, pad_high, pad_mid, value)",
         "k.mirror_lr_pad(ctx, dst, src, low, high, mid, value=0)",
         "Reverse the last axis but one of src, then pad.", f"{_PADDING}; {_NO_VALUE}", 300),
    _row("tops::mirror_tb_deslice(ctx, dst, src, dst_offsets)", "k.mirror_tb_deslice(ctx, dst, src, dst_offsets)",
         "Copy src, its last axis reversed, over the window at the offsets of dst.", gcu_arch=300),
    _row("tops::mirror_lr_deslice(ctx, dst, src, dst_offsets)", "k.mirror_lr_deslice(ctx, dst, src, dst_offsets)",
         "Copy src, its last axis but one reversed, over the window at the offsets of dst.", gcu_arch=300),
    _row("tops::sub_sample(ctx, dst, src, dim_stride)", "k.sub_sample(ctx, dst, src, dim_stride)",
         "Copy each dim_stride-th element of src in each dimension: dst has ceil(n / stride).", gcu_arch=300),
)  # fmt: skip

_CONFIGURED: tuple[Construct, ...] = (
    _row("ctx.config_memcpy(dst, src);", "ctx.config_memcpy(dst, src)",
         "Configure an operation without starting it; each operation has such a method, config_ before its name.",
         _COMMON),
    _row("ctx.set_src_addr(address);", "ctx.set_src_addr(memory)",
         "Read the configured shape from the start of other memory.", f"{_ADDRESS}; {_COMMON}"),
    _row("ctx.set_dst_addr(address);", "ctx.set_dst_addr(memory)",
         "Write the configured shape to the start of other memory.", f"{_ADDRESS}; {_COMMON}"),
    _row("ctx.set_src_offset(dim, offset);", "ctx.set_src_offset(dim, offset)",
         "Move the window in src along one dimension, the outermost being 0.", _COMMON),
    _row("ctx.set_dst_offset(dim, offset);", "ctx.set_dst_offset(dim, offset)",
         "Move the window in dst along one dimension, the outermost being 0.", _COMMON),
    _row("ctx.set_total_size(bytes);", "ctx.set_total_size(size)", "Change how many bytes a configured memcpy moves.",
         f"`bytes` is `size`; {_COMMON}"),
    _row("tops::event ev = ctx.trigger();", "ev = ctx.trigger()", "Start what is configured and get its event.",
         _COMMON),
    _row("ctx.trigger_and_wait();", "ctx.trigger_and_wait()", "Do what is configured.", _COMMON),
    _row("a.connect(b);", "a.connect(b)",
         "Let each transfer of b begin after one of a: start both, wait only for b's.", _COMMON),
)  # fmt: skip

DTE: tuple[Construct, ...] = (*_CONTEXTS, *_OPERATIONS, *_CONFIGURED)
