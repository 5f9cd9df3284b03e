"""What the compiler says of wrong calls, at their lines, and where a fault is told that has no line of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from atops import kernels as k
from atops.base.errors import AtopsError, CompilationError

pytestmark = pytest.mark.slow  # the compiler is called for each

KERNEL = """#include <tops.h>
__device__ __forceinline__ int g[[maybe_unused]](int a) { return a; }
__device__ [[nodiscard]] int h(int a) { return a; }
__global__ void f(int *x) {
    __local__ int l[4];
    tops_dte_ctx_t ctx;
    if (x[0]) printf("%d %ld %s %d\\n", x[0], 3L, "three", 2.5f);
    tops::dte_scope scope(ctx);
    x[1] = g(3) + h(1);
    tops::memcpy_async(ctx, tops::mdspan(l, 4), tops::mdspan(x, 4));
}
"""
CALLS = """#include <tops.h>
__global__ void one(int *x) {}
__global__ void none() {}
int main() {
    int *d; float *f = nullptr;
    one<<<1, 1>>>(d); one<<<1, 1>>>(0); one<<<1, 1>>>(nullptr); none<<<1, 1>>>();
    one<<<1, 1>>>(d, 3);
    one<<<1, 1>>>(f);
    topsMallocHost(&d, 8);
    topsFreeHost(d);
}
"""


def test_a_transfer_that_its_scope_does_not_wait_for(run: Callable[..., Any]) -> None:
    """The fault is at the scope's line, not in a header; attributes of functions make no variables of them."""
    program = k.compile_source(KERNEL, "f.tops")
    log = str(program.log)
    assert "f.tops:7:" in log and "format '%d' expects argument of type 'int'" in log
    assert log.count("warning: ") == 1, log
    with pytest.raises(AtopsError, match=r"kernel f at f\.tops:8: destroy on a DTE context .* issued at f\.tops:10"):
        run("", "f", (1, 1), np.zeros(4, np.int32), module=program.module())


def test_calls_that_do_not_fit() -> None:
    """The kernel's parameters, and the name that is meant."""
    with pytest.raises(CompilationError) as caught:
        k.compile_source(CALLS, "calls.tops")
    said = str(caught.value)
    fits = "error: the arguments of the launch do not fit the parameters of the kernel, which are (int*)"
    for line, wanted in ((7, fits), (8, fits), (9, "topsHostMalloc"), (10, "topsHostFree")):
        assert any(f"calls.tops:{line}:" in each and wanted in each for each in said.splitlines()), said
    assert "calls.tops:6:" not in said, said
