"""`__device__` and `__constant__` variables in C++, which the host reaches by symbol, and kernels made of templates."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import atops
import atops.tops as tops
from atops import kernels as k
from atops.errors import CompilationError, NotFound
from tests.runtime.boards import board

pytestmark = pytest.mark.slow

VARIABLES = """#include <tops.h>
__constant__ float weights[3];
__device__ int total = 40, spare;
static __device__ const short table[2][2] = {{1, 2},
                                             {3, 4}};
namespace deep { __device__ __bf16 brain = (__bf16)1.5f; }
struct Pair { int a; float b; };
__device__ Pair pairs[2] = {{1, 2.0f}, {3, 4.0f}};
__device__ int *where = &total;
__device__ const int EXTENT = 4;
__constant__ constexpr int TWICE[] = {2, 4};

__global__ void read(float *out) {
    __shared__ int room[EXTENT * TWICE[0]];
    room[threadIdx.x] = table[1][threadIdx.x & 1];
    __syncthreads();
    if (threadIdx.x == 0) {
        out[0] = weights[0] + weights[1] + weights[2];
        out[1] = (float)deep::brain;
        out[2] = pairs[1].a + pairs[1].b;
        out[3] = *where;
        out[4] = room[0] + room[1];
    }
}
__global__ void count() {
    tops_dte_ctx_t ctx;
    tops::dte_scope scope(ctx);
    __local__ int mine[1];
    tops::memcpy(ctx, tops::mdspan(mine, 1), tops::mdspan(&total, 1));
    mine[0] += threadIdx.x;
    tops::memcpy(ctx, tops::mdspan(&spare, 1), tops::mdspan(mine, 1));
    *where += 1;
}
"""


@pytest.fixture(scope="module")
def program() -> k.CompiledProgram:
    return k.compile_source(VARIABLES, "variables.tops")


def read(module: k.Module, device: atops.Device) -> list[float]:
    """Return what a kernel sees of the variables."""
    with device.create_stream() as stream:
        out = stream.zeros(5)
        stream.launch(module.function("read"), (1, 2), out)
        seen: list[float] = stream.fetch(out).wait_sync().tolist()
    return seen


def test_the_host_and_kernels_share_them(program: k.CompiledProgram) -> None:
    """By symbol, each with its type and extents; each device and each module has its own; a reset makes them new."""
    module, other = program.module(), program.module()
    found = {name: (str(each.dtype), each.shape, each.is_constant) for name, each in module.variables.items()}
    assert found == {
        "weights": ("float32", (3,), True), "total": ("int32", (), False), "spare": ("int32", (), False),
        "table": ("int16", (2, 2), False), "deep::brain": ("bfloat16", (), False),
        "pairs": ("uint8", (2, 8), False), "where": ("uint8", (8,), False),
    }  # fmt: skip
    assert str(module.variable("total").site).startswith("variables.tops:3")
    with board(devices=2) as made:
        first, second = atops.Device(0, made), atops.Device(1, made)
        with first.create_stream() as stream:
            stream.copy(first.symbol(module.variable("weights")), np.array([1, 2, 3], np.float32)).wait_sync()
            assert read(module, first) == [6.0, 1.5, 7.0, 40.0, 7.0]
            assert read(module, second) == read(other, first) == [0.0, 1.5, 7.0, 40.0, 7.0]
            stream.launch(module.function("count"), (1, 1))
            assert stream.fetch(first.symbol(module.variable("total"))).wait_sync() == 41
            assert stream.fetch(first.symbol(module.variable("spare"))).wait_sync() == 40
        assert read(module, first)[3] == 41.0 and read(other, first)[3] == 40.0
        first.reset_sync()
        assert read(module, first) == [0.0, 1.5, 7.0, 40.0, 7.0]


def test_the_c_functions_reach_them(program: k.CompiledProgram) -> None:
    """`topsModuleGetGlobal` returns the memory and its size, from an image, too."""
    with board() as made, atops.Device(0, made):
        module = tops.check(tops.topsModuleLoadData(program.image().to_bytes()))
        pointer, size = tops.check(tops.topsModuleGetGlobal(module, "weights"))
        assert size == 12
        tops.check(tops.topsMemcpy(pointer, np.full(3, 2, np.float32), 12, tops.topsMemcpyHostToDevice))
        out = tops.check(tops.topsMalloc(20))
        function = tops.check(tops.topsModuleGetFunction(module, "read"))
        tops.check(tops.topsModuleLaunchKernel(function, 1, 1, 1, 2, 1, 1, 0, None, [out], None))
        seen = np.zeros(5, np.float32)
        tops.check(tops.topsMemcpy(seen, out, 20, tops.topsMemcpyDeviceToHost))
        assert seen.tolist() == [6.0, 1.5, 7.0, 40.0, 7.0]
        tops.check(tops.topsModuleUnload(module))
        tops.check(tops.topsFree(out))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("__constant__ float c = 1;\n__global__ void f() { c = 2; }", "2:.*read-only"),
        ("__global__ void f() { __device__ int x; x = 1; }", "1:.*at the top of the text or in a namespace"),
        ("extern __device__ int x;\n__global__ void f() { x = 1; }", "1:.*x is declared extern, and not defined"),
        ("template <class T> __device__ T x = 1;\n__global__ void f() {}", "1:.*at the top of the text"),
    ],
)  # fmt: skip
def test_what_is_refused(text: str, said: str) -> None:
    """A store into a constant, and variables that have no place of their own."""
    with pytest.raises(CompilationError, match=said):
        k.compile_source(text, "test.tops")


TEMPLATES = """#include <tops.h>
namespace op {
template <class T, int N> __global__ void scale(T *x, T by) { if (threadIdx.x < N) x[threadIdx.x] *= by; }
}
template __global__ void op::scale<float, 2>(float *, float);
template <class T> __device__ T twice(T x) { return x + x; }
template <class T> __global__ void doubled(T *x) { x[threadIdx.x] = twice(x[threadIdx.x]); }
"""


def test_templates_are_kernels_by_name(run: Any) -> None:
    """Those that the text instantiates, and those that a name expression asks for; an image knows both."""
    program = k.Program(TEMPLATES, "templates.tops")
    program.add_name_expression("&doubled<unsigned char>")
    module = program.compile().module()
    assert sorted(module.kernels) == ["doubled<unsigned char>", "op::scale<float,2>"]
    assert run("", "op::scale<float, 2>", (1, 4), np.ones(4, np.float32), 3.0, module=module).tolist() == [3, 3, 1, 1]
    lowered = program.lowered_name("&doubled<unsigned char>")
    loaded = k.load_module(program.image().to_bytes())
    assert run("", lowered, (1, 3), np.arange(3, dtype=np.uint8), module=loaded).tolist() == [0, 2, 4]
    with pytest.raises(NotFound, match="doubled<int>"):
        module.function("doubled<int>")
    wrong = k.Program(TEMPLATES, "templates.tops")
    wrong.add_name_expression("missing<int>")
    with pytest.raises(CompilationError, match="missing<int>"):
        wrong.compile()
