"""The DTE's rows of the language's tables: each runs as it is written, or is the signature of what it names."""

from __future__ import annotations

import inspect
import re
import textwrap
from typing import Any

import numpy as np
import pytest

from atops import kernels as k
from atops.base.errors import DteError
from atops.device.dte.operations import OPERATIONS
from atops.kernels.tables.constructs import DTE, Construct
from tests.every import every
from tests.kernel_bench import Bench

CALLS = {row: match for row in DTE if (match := re.fullmatch(r"tops::(\w+)\((.*)\)", row.cpp))}
STATEMENTS = [row for row in DTE if row.cpp.endswith(";")]

MAKE, INIT, MOVE = "ctx = k.tops_dte_ctx_t()", "ctx.init()", "k.memcpy(ctx, y, x)"
START = "ev = k.memcpy_async(ctx, y, x)"
READY, BOTH = f"{MAKE}; {INIT}", "a, b = k.tops_dte_ctx_t(), k.tops_dte_ctx_t(); a.init(); b.init()"
TILE, GO = "tile = k.local(12, np.int32)", "ctx.trigger_and_wait()"
EXTENTS = "memory, (n, h, w, c) = x, (1, 2, 3, 2)"
SHAPED = ("assert x.shape == (1, 2, 3, 2)", MOVE)

# What comes before and after a row, so that x is moved to y and what the row says is seen.
AROUND: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "ctx = k.shared_dte_ctx()": ((), ("assert ctx.shared", INIT, MOVE)),
    "ctx = k.tops_dte_ctx_t()": ((), ("assert not ctx.shared", INIT, MOVE)),
    "k.tops_init_dte(ctx)": ((MAKE, "refused(ctx, y, x)"), (MOVE,)),
    "ctx.init()": ((MAKE, "refused(ctx, y, x)"), (MOVE,)),
    "k.tops_destroy_dte(ctx)": ((MAKE, INIT, MOVE), ("refused(ctx, y, x)",)),
    "ctx.destroy()": ((MAKE, INIT, MOVE), ("refused(ctx, y, x)",)),
    "with k.dte_scope(ctx): ...": ((MAKE,), ("refused(ctx, y, x)",)),
    "x = k.mdspan(memory, n, h, w, c)": ((MAKE, INIT, EXTENTS), SHAPED),
    "x = k.mdspan(memory, (n, h, w, c))": ((MAKE, INIT, EXTENTS), SHAPED),
    "x = k.mdspan(k.Global, memory, (n, h, w, c))": ((MAKE, INIT, EXTENTS), SHAPED),
    "ev = k.memcpy_async(ctx, dst, src)": ((MAKE, INIT, "dst, src = y, x"), ("assert not y[:].any()", "await ev")),
    "ev = k.event()": ((MAKE, INIT, MOVE), ("await ev",)),
    "await k.wait(ev)": ((MAKE, INIT, START, "assert not y[:].any()"), ("assert y[:].all()",)),
    "ctx.config_memcpy(dst, src)": ((READY, "dst, src = y, x"), ("assert not y[:].any()", GO)),
    "ctx.set_src_addr(memory)": ((READY, "ctx.config_memcpy(y, y[:])", "memory = x"), (GO,)),
    "ctx.set_dst_addr(memory)": ((READY, "ctx.config_memcpy(x, x[:])", "memory = y"), (GO,)),
    "ctx.set_src_offset(dim, offset)": (
        (READY, "ctx.config_slice(y, x, [12])", GO, "assert not y[:].any(); dim = offset = 0"), (GO,)),
    "ctx.set_dst_offset(dim, offset)": ((READY, "ctx.config_deslice(y, x, [12])", "dim = offset = 0"), (GO,)),
    "ctx.set_total_size(size)": (
        (READY, "ctx.config_memcpy(y, x)", "ctx.set_total_size(4)", GO, "assert y[:].sum() == 1; size = 48"), (GO,)),
    "ev = ctx.trigger()": ((READY, "ctx.config_memcpy(y, x)"), ("assert not y[:].any()", "await ev")),
    "ctx.trigger_and_wait()": ((READY, "ctx.config_memcpy(y, x)"), ("assert y[:].all()",)),
    "a.connect(b)": (
        (BOTH, TILE, "a.config_memcpy(tile, x); b.config_memcpy(y, tile)"), ("a.trigger(); await b.trigger()",)),
    "await ev.wait()": ((MAKE, INIT, START, "assert not y[:].any()"), ("assert y[:].all()",)),
}


def refused(ctx: Any, y: Any, x: Any) -> None:
    """Demand that a context cannot be used now."""
    with pytest.raises(DteError, match=r"call init\(\) first"):
        k.memcpy(ctx, y, x)


def test_every_operation_has_its_row():
    """The rows are the operation table's, in its order, and name the architecture that has it first."""
    rows = [(match[1], row.gcu_arch) for row, match in CALLS.items()]
    assert rows == [(row.name, row.gcu_arch) for row in OPERATIONS.values()]
    assert all(row.section == "8.7" and row.summary.endswith(".") for row in DTE)
    assert len({row.cpp for row in DTE}) == len(DTE) == len(CALLS) + len(STATEMENTS)


@every("row", CALLS, ids=lambda row: CALLS[row][1])
def test_an_operation_is_called_as_its_row_says(row: Construct):
    """The row has the function's signature, and explains each parameter that has another name than the text's."""
    name = CALLS[row][1]
    shown = [
        each.name if each.default is each.empty else f"{each.name}={each.default!r}"
        for each in inspect.signature(getattr(k, name)).parameters.values()
    ]
    assert row.python == f"k.{name}({', '.join(shown)})"
    theirs, ours = CALLS[row][2].split(", "), [each.partition("=")[0] for each in shown]
    assert len(theirs) <= len(ours) <= len(theirs) + 1
    for text, python in zip(theirs, ours, strict=False):
        if text != python:
            assert f"`{text}`" in row.differs and f"`{python}`" in row.differs
    assert bool(row.differs) is (theirs != shown)


@every("row", STATEMENTS, ids=lambda row: row.cpp)
def test_a_construct_runs_as_its_row_says(bench: Bench, row: Construct):
    """What the row has kernels write, between what it needs, moves x to y."""
    before, after = AROUND[row.python]
    lines = [*before, row.python.replace("...", MOVE), *after]
    names: dict[str, Any] = {"k": k, "np": np, "refused": refused}
    exec("async def body(y, x):\n" + textwrap.indent("\n".join(lines), "    "), names)
    x, y = bench.upload(np.arange(1, 13, dtype=np.int32)), bench.empty(12, np.int32)

    @k.kernel
    async def run(y, x):
        await names["body"](y, x)

    bench.launch(run, (1, 1), y, x)
    assert np.array_equal(y.host, x.host)
