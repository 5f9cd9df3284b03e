"""The DTE in the language's tables: contexts, data parameters, events and operations. TOPS C++, 8.7."""

from __future__ import annotations

from atops.device.dte.operations import OPERATIONS, Operation
from atops.kernels.tables.constructs import Construct

__all__ = ("DTE",)

_ADDRESS = "memory is a Span or a local or shared array, which know type and place, and no raw address"
_POINTER = "there is no address operator"
_AWAITED = "an `await`, for a thread can be suspended here"
_COMMON = "the text does not have it, published kernels do"


def _row(cpp: str, python: str, summary: str, differs: str = "") -> Construct:
    """Return a row of section 8.7."""
    return Construct("8.7", cpp, python, summary, differs=differs)


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

def _called(row: Operation[...]) -> Construct:
    """Return the row of an operation."""
    shown = [
        name if each.default is each.empty else f"{name}={each.default!r}"
        for name, each in row.signature.parameters.items()
    ]
    cpp, python = f"tops::{row.name}({row.cpp})", f"k.{row.name}({', '.join(shown)})"
    return Construct(row.section, cpp, python, row.summary, differs=row.differs, gcu_arch=row.gcu_arch)


_OPERATIONS = tuple(map(_called, OPERATIONS.values()))

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
