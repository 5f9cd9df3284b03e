"""The examples of the language text (002), each as a program that runs what it shows, on both architectures."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

from atops import kernels as k
from atops.base.options import EmulatorOptions

pytestmark = pytest.mark.slow  # the compiler is called for each chip

# What the text shows, and what a kernel makes of it: a text, the expression that out[0] becomes, and its value.
EXAMPLES: dict[str, tuple[str, str, float]] = {
    "8.1 functions of host and device": (
        """__host__ __device__ int func(void) {
        #if __AGCU_ARCH__ >= 300
            return 300;
        #elif __AGCU_ARCH__ >= 200
            return 200;
        #elif !defined(__AGCU_ARCH__)
            return 0;
        #endif
        }""", "func() >= 200", 1,
    ),
    "8.2 a global variable": (
        """__device__ float global_var = 1.0f;
        __device__ void show(void) { printf("%f\\n", global_var); }""", "(show(), global_var)", 1,
    ),
    "8.2 an extern variable": (
        """extern __device__ float extern_global_var;
        __device__ void show(void) { printf("%f\\n", extern_global_var); }
        __device__ float extern_global_var = 4.0f;""", "(show(), extern_global_var)", 4,
    ),
    "8.2 a static variable": (
        """static __device__ float static_var = 1.0f;
        __device__ float show(void) {
            static __device__ float static_var2 = 1.0f;
            printf("%f %f\\n", static_var, static_var2);
            return static_var + static_var2;
        }""", "show()", 2,
    ),
    "8.2 a variable that host code sets": (
        """#include <tops/tops_runtime.h>
        __device__ float device_var;
        void test(void) {
            float host_var = 1.0f;
            topsMemcpyToSymbol(&device_var, &host_var, sizeof(host_var));
        }""", "device_var", 0,
    ),
    "8.2 a constant": (
        """__constant__ float const_var = 1.0f;
        __device__ void show(void) { printf("%f\\n", const_var); }""", "(show(), const_var)", 1,
    ),
    "8.2 a constant of the device": ("__device__ __constant__ float device_const_var = 2.0f;", "device_const_var", 2),
    "8.2 shared memory": (
        """__device__ float share(void) {
            __shared__ float shared_var;
            if (threadIdx.x == 0) {
                shared_var = 1.0f;
            }
            __syncthreads();
            return shared_var;
        }""", "share()", 1,
    ),
    "8.2 dynamic shared memory": (
        """extern __shared__ float shared_array[];
        __device__ float share(void) {
            int* array0 = (int*)shared_array;
            float* array1 = (float*)&array0[127];
            array0[3] = 7;
            return array1 - shared_array + array0[3];
        }""", "share()", 134,
    ),
    "8.2 local memory": (
        """__device__ int local(void) {
            __local__ __vector float shared_var[128];
            return sizeof(shared_var);
        }""", "local()", 128 * 128,
    ),
    "8.2 restrict": (
        """__device__ void add(const float* __restrict__ a, const float* __restrict__ b, float* c) {
            *a++;
            *b++;
            *c = a[-1] + b[-1];
        }
        __device__ float sum(void) {
            float a = 1.0f;
            float b = 1.0f;
            float c = 0.0f;
            add(&a, &b, &c);
            return c;
        }""", "sum()", 2,
    ),
    "8.2 conversions of pointers": (
        """__device__ int same(void) {
            __local__ char here[4];
            __local__ char* ptr0 = here;
            char* ptr1 = ptr0;
            __local__ char* ptr2 = (__local__ char*) ptr1;
            return ptr2 == ptr0;
        }""", "same()", 1,
    ),
    "8.7 operations of a context": (
        """__device__ float move(float *from) {
            tops_dte_ctx_t ctx;
            __local__ float to[4];
            tops::mdspan src(tops::Global, from, 4), dst(to, 4);
            ctx.init();
            tops::memcpy(ctx, dst, src);
            ctx.destroy();
            tops_init_dte(ctx);
            tops::event ev = tops::memcpy_async(ctx, dst, src);
            tops::wait(ev);
            tops_destroy_dte(ctx);
            tops_init_dte(&ctx);
            tops_destroy_dte(&ctx);
            return to[2];
        }""", "move(out)", 5,
    ),
    "8.7 a context of the block": (
        """__device__ float move(float *from) {
            __shared__ tops_dte_ctx_t ctx;
            __shared__ float to[2][2];
            int shape[] = {1, 1, 2, 2}, N = 1, H = 1, W = 2, C = 2;
            if (threadIdx.x == 0) {
                tops_init_dte(ctx);
                char *address = (char *)to;
                tops::mdspan src4((float *)from, shape), dst((float *)address, N, H, W, C);
                tops::memcpy(ctx, dst, src4);
                tops_destroy_dte(ctx);
            }
            __syncthreads();
            return to[1][0];
        }""", "move(out)", 5,
    ),
    "8.8 a barrier": (
        """__device__ float meet(void) {
            __shared__ tte::barrier<CLUSTER> all(12);
            __shared__ float value;
            if (threadIdx.x == 11) value = 3;
            all.arrive_and_wait();
            return value;
        }""", "meet()", 3,
    ),
}  # fmt: skip
WITH_VECTORS = {
    "8.3 vectors": (
        """__device__ int sizes(void) {
            __vector4 int v1(1);
            __vector4 bool int v2 = v1 == v1;
            __vector4 short v3(2);
            __vector4 bool short v4 = v3 < v3;
            return sizeof(v1) + v2[127] + v4[255] + v3[3];
        }""", "sizes()", 515,
    ),
    "8.4 a function": ("__device__ float one(void) { __vector4 float v(0.0f); return exp(v)[5]; }", "one()", 1),
}  # fmt: skip
ALL = {**EXAMPLES, **WITH_VECTORS}
ROWS = [(name, arch) for arch in ("gcu300", "gcu210") for name in EXAMPLES]
ROWS.remove(("8.2 local memory", "gcu210"))  # it is of vectors
ROWS += [(name, "gcu300") for name in WITH_VECTORS]


@cache
def compiled(arch: str) -> Any:
    """Compile all examples for a chip at once, the N-th in the namespace `example_N`, its includes before it."""
    texts = []
    for at, (name, (text, expression, _)) in enumerate(ALL.items()):
        if (name, arch) in ROWS:
            includes = "".join(f"{line}\n" for line in text.splitlines() if "#include" in line)
            rest = "\n".join(line for line in text.splitlines() if "#include" not in line)
            kernel = f"float found = {expression}; __syncthreads(); out[0] = found;"
            rest += f"\n__global__ void kernel(float *out) {{ {kernel} }}"
            texts.append(f"{includes}namespace example_{at} {{\n{rest}\n}}\n")
    return k.compile_source("".join(texts), "text.tops", [f"--gpu-architecture={arch}"]).module()


@pytest.mark.parametrize(("name", "arch"), ROWS)
def test_an_example_of_the_text(name: str, arch: str, run: Callable[..., Any]) -> None:
    """It compiles as it is written, in a namespace, and does what the text says."""
    out = np.array([1, 2, 5, 4], np.float32)
    config = (1, 12, 1024) if "dynamic" in name else (1, 12)
    kernel = f"example_{list(ALL).index(name)}::kernel"
    assert run("", kernel, config, out, options=EmulatorOptions(arch=arch), module=compiled(arch))[0] == ALL[name][2]
