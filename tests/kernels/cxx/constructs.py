"""A text in C++ for each construct of the language: what docs/cxx.md says of it is what the compiler says."""

from __future__ import annotations

from typing import Final

__all__ = ("TEXTS",)

# By the construct's spelling; operators, types, functions and operations have tests of their own.
TEXTS: Final = {
    # 8.1
    "__global__ void f(T* x)": "__global__ void f(float *x) { x[0] = 1; }",
    "`void`, the result of a `__global__` function": "__global__ int f(float *x) { return 1; }",
    "a `__global__` function is no member of a class": "struct A { __global__ void f(float *x) { x[0] = 1; } };",
    "f<<<grid, block, bytes>>>(x)": "__global__ void f(float *x) {} void go(float *x) { f<<<dim3(2), 12, 64>>>(x); }",
    "the call of a `__global__` function is asynchronous":
        "__global__ void f(float *x) {} void go(float *x) { f<<<dim3(2), 12>>>(x); f<<<2, 12, 0, nullptr>>>(x); }",
    "__device__ T f(T x)": "__device__ float f(float x) { return x; } __global__ void g(float *x) { x[0] = f(x[1]); }",
    "__global__ __device__": "__global__ __device__ void f(float *x) {}",
    "__host__ T f(T x)": "__host__ float f(float x) { return x; }",
    "`T f(T x)`, without a specifier": "float f(float x) { return x; } __global__ void g(float *x) { x[0] = f(x[1]); }",
    "__global__ __host__": "__global__ __host__ void f(float *x) {}",
    "__host__ __device__ T f(T x)": "__host__ __device__ float f(float x) { return x; }",
    "#if __AGCU_ARCH__ >= 300 ... #elif !defined(__AGCU_ARCH__)":
        "#if __AGCU_ARCH__ >= 300\n__global__ void f(int *x) {}\n#elif !defined(__AGCU_ARCH__)\n#error "
        "host\n#endif\n",
    "__cooperative__ __global__ void f(T* x)": "__cooperative__ __global__ void f(float *x) { __syncblocks(); }",
    # 8.2
    "`T x; T x[n];` (automatic)": "__global__ void f(float *y) { float x, z[8]; x = z[0] = y[0]; y[1] = x; }",
    "T* p = x": "__global__ void f(float *x) { float *p = x; *p++ = 1; }",
    "void f(T* x)": "__global__ void f(short *x) {}",
    "`void f(T* x)` (parameters)": "__global__ void f(__local__ float *x) {}",
    "__device__ T x = v;": "__device__ int x = 7; __global__ void f(int *y) { y[0] = x++; }",
    "topsMemcpyToSymbol(&x, &v, n); topsMemcpyFromSymbol":
        "#include <tops/tops_runtime.h>\n__device__ int x; void go() { int v = 1; topsMemcpyToSymbol(&x, &v, "
        "4); topsMemcpyFromSymbol(&v, x, 4); }",
    "extern __device__ T x;": "extern __device__ int x; __device__ int x = 3; __global__ void f(int *y) { y[0] = x; }",
    "`static __device__ T x = v;` (of a file)": "static __device__ int x = 7; __global__ void f(int *y) { y[0] = x; }",
    "`static __device__ T x = v;` (in a function)":
        "__global__ void f(int *y) { static __device__ int x = 7; y[0] = ++x; }",
    "__constant__ T x = v;": "__constant__ int x = 7; __global__ void f(int *y) { y[0] = x; }",
    "__device__ __constant__ T x = v;":
        "__device__ __constant__ int x[2] = {7, 8}; __global__ void f(int *y) { y[0] = x[1]; }",
    "struct P { float a; int b; }; __device__ P x;":
        "struct P { float a; int b; }; __device__ P x; __global__ void f() { x.b = 1; }",
    "__shared__ T x[n];": "__global__ void f(int *y) { __shared__ int x[8]; x[0] = 1; y[0] = x[0]; }",
    "__shared__ T x;": "__global__ void f(int *y) { __shared__ int x; x = 1; y[0] = x; }",
    "`__shared__ T x[n];` (in a helper or a loop)":
        "__device__ int *h() { __shared__ int x[8]; return x; } __global__ void f(int *y) { y[0] = h()[0]; }",
    "extern __shared__ T x[];": "extern __shared__ float x[]; __global__ void f(float *y) { y[0] = x[0]; }",
    "__local__ T x[n];": "__global__ void f(int *y) { __local__ int x[8]; x[0] = 1; y[0] = x[0]; }",
    "`__local__ T x[n];` (in a helper or a loop)":
        "__global__ void f(int *y) { for (int i = 0; i < 3; ++i) { __local__ int x[8]; x[i] = i; y[i] = x[i]; } }",
    "__device__ __shared__ T x[n]; __device__ __local__ T x[n];":
        "__global__ void f(int *y) { __device__ __shared__ int x[8]; __device__ __local__ int z[8]; x[0] = "
        "z[0] = y[0]; }",
    "const T* __restrict__ x": "__global__ void f(const int *__restrict__ x, int *y) { y[0] = x[0]; }",
    "__local__ char* p; char* q = p;":
        "__global__ void f(char *y) { __local__ char x[8]; __local__ char *p = x; char *q = p; y[0] = *q; }",
    "char* p; __local__ char* q = (__local__ char*) p;":
        "__global__ void f(char *y) { __local__ char x[8]; char *p = x; __local__ char *q = (__local__ char "
        "*)p; y[0] = *q; }",
    "__local__ char* p; (__shared__ char*) p":
        "__global__ void f(char *y) { __local__ char x[8]; __local__ char *p = x; y[0] = *(__shared__ char *)p; }",
    "__constant__ char* p; char* q = p;":
        "__constant__ char x[4]; __global__ void f(char *y) { __constant__ char *p = x; char *q = p; y[0] = *q; }",
    "(int*) p": "__global__ void f(float *p) { ((int *)p)[0] = 1; }",
    # 8.3
    "__vector": "__global__ void f(float *x) { __vector float v(1.0f); *(__vector float *)x = v; }",
    "__vector2": "__global__ void f(float *x) { __vector2 float v(1.0f); *(__vector2 float *)x = v; }",
    "__vector4": "__global__ void f(float *x) { __vector4 float v(1.0f); *(__vector4 float *)x = v; }",
    "__vector4 int v;": "__global__ void f(int *x) { __vector4 int v; v = *(__vector4 int *)x; x[0] = v[1]; }",
    "__vector4 int v = x;": "__global__ void f(int *x) { __vector4 int v = x[0]; x[0] = v[1]; }",
    "__local__ __vector float v[128];":
        "__global__ void f(float *x) { __local__ __vector float v[128]; x[0] = v[3][1]; }",
    "x = *(__vector4 float*)(p + i);":
        "__global__ void f(float *p) { __vector4 float x = *(__vector4 float*)(p + 3); p[0] = x[0]; }",
    "*(__vector4 float*)(p + i) = x;":
        "__global__ void f(float *p) { *(__vector4 float*)(p + 3) = __vector4 float(2.0f); }",
    # 8.5, 8.6
    "gridDim": "__global__ void f(int *x) { dim3 d = gridDim; x[0] = d.x + gridDim.y; }",
    "blockIdx": "__global__ void f(int *x) { uint3 d = blockIdx; x[0] = d.x + blockIdx.y; }",
    "blockDim": "__global__ void f(int *x) { dim3 d = blockDim; x[0] = d.x + blockDim.y; }",
    "threadIdx": "__global__ void f(int *x) { uint3 d = threadIdx; x[0] = d.x + threadIdx.y; }",
    "GCU_ARCH": "#if __GCU_ARCH__ != 300\n#error other\n#endif\n__global__ void f(int *x) { x[0] = __GCU_ARCH__; }",
    "AGCU_ARCH": "#if __AGCU_ARCH__ != 300\n#error other\n#endif\n__global__ void f(int *x) { x[0] = __AGCU_ARCH__; }",
    "compilation for `AGCU200` or `AGCU300`": "#ifndef __AGCU_ARCH__\n#error host\n#endif\n__global__ void f() {}",
    # 8.7
    "__shared__ tops_dte_ctx_t ctx;":
        "__global__ void f(int *x) { __shared__ tops_dte_ctx_t ctx; if (threadIdx.x == 0) ctx.init(); }",
    "tops_dte_ctx_t ctx;": "__global__ void f(int *x) { tops_dte_ctx_t ctx; ctx.init(); ctx.destroy(); }",
    "tops_init_dte(&ctx);": "__global__ void f(int *x) { tops_dte_ctx_t ctx; tops_init_dte(&ctx); }",
    "tops_init_dte(ctx);": "__global__ void f(int *x) { tops_dte_ctx_t ctx; tops_init_dte(ctx); }",
    "ctx.init();": "__global__ void f(int *x) { tops_dte_ctx_t ctx; ctx.init(); }",
    "tops_destroy_dte(&ctx);": "__global__ void f(int *x) { tops_dte_ctx_t ctx; ctx.init(); tops_destroy_dte(&ctx); }",
    "tops_destroy_dte(ctx);": "__global__ void f(int *x) { tops_dte_ctx_t ctx; ctx.init(); tops_destroy_dte(ctx); }",
    "ctx.destroy();": "__global__ void f(int *x) { tops_dte_ctx_t ctx; ctx.init(); ctx.destroy(); }",
    "tops::dte_scope s(ctx);": "__global__ void f(int *x) { tops_dte_ctx_t ctx; tops::dte_scope s(ctx); }",
    "tops::mdspan x((char*)(address), N, H, W, C);":
        "__global__ void f(int *y) { tops::mdspan x((char *)(y), 1, 2, 3, 4); }",
    "int shape[] = {N, H, W, C}; tops::mdspan x((char*)(address), shape);":
        "__global__ void f(int *y) { int shape[] = {1, 2, 3, 4}; tops::mdspan x((char *)(y), shape); }",
    "tops::mdspan x(space, address, shape);":
        "__global__ void f(int *y) { int shape[] = {1, 2}; tops::mdspan x(tops::Global, y, shape); }",
    "tops::event ev = tops::memcpy_async(ctx, dst, src);":
        "__global__ void f(float *x) { tops_dte_ctx_t a, b; tops::dte_scope scope(a), other(b); tops::event ev "
        "= tops::memcpy_async(a, tops::mdspan(x, 4), tops::mdspan(x + 4, 4)); tops::wait(ev); }",
    "tops::event ev;":
        "__global__ void f(float *x) { tops_dte_ctx_t a, b; tops::dte_scope scope(a), other(b); tops::event "
        "ev; tops::wait(ev); }",
    "tops::wait(ev);":
        "__global__ void f(float *x) { tops_dte_ctx_t a, b; tops::dte_scope scope(a), other(b); "
        "tops::wait(tops::memcpy_async(a, tops::mdspan(x, 4), tops::mdspan(x + 4, 4))); }",
    "ev.wait();":
        "__global__ void f(float *x) { tops_dte_ctx_t a, b; tops::dte_scope scope(a), other(b); "
        "tops::memcpy_async(a, tops::mdspan(x, 4), tops::mdspan(x + 4, 4)).wait(); }",
    "ctx.config_memcpy(dst, src);":
        "__global__ void f(float *x) { tops_dte_ctx_t a, b; tops::dte_scope scope(a), other(b); "
        "a.config_memcpy(tops::mdspan(x, 4), tops::mdspan(x + 4, 4)); }",
    "ctx.set_src_addr(address);":
        "__global__ void f(float *x) { tops_dte_ctx_t a, b; tops::dte_scope scope(a), other(b); "
        "a.set_src_addr(x); }",
    "ctx.set_dst_addr(address);":
        "__global__ void f(float *x) { tops_dte_ctx_t a, b; tops::dte_scope scope(a), other(b); "
        "a.set_dst_addr(x); }",
    "ctx.set_src_offset(dim, offset);":
        "__global__ void f(float *x) { tops_dte_ctx_t a, b; tops::dte_scope scope(a), other(b); "
        "a.set_src_offset(0, 1); }",
    "ctx.set_dst_offset(dim, offset);":
        "__global__ void f(float *x) { tops_dte_ctx_t a, b; tops::dte_scope scope(a), other(b); "
        "a.set_dst_offset(0, 1); }",
    "ctx.set_total_size(bytes);":
        "__global__ void f(float *x) { tops_dte_ctx_t a, b; tops::dte_scope scope(a), other(b); "
        "a.set_total_size(64); }",
    "tops::event ev = ctx.trigger();":
        "__global__ void f(float *x) { tops_dte_ctx_t a, b; tops::dte_scope scope(a), other(b); tops::event ev "
        "= a.trigger(); ev.wait(); }",
    "ctx.trigger_and_wait();":
        "__global__ void f(float *x) { tops_dte_ctx_t a, b; tops::dte_scope scope(a), other(b); "
        "a.trigger_and_wait(); }",
    "a.connect(b);":
        "__global__ void f(float *x) { tops_dte_ctx_t a, b; tops::dte_scope scope(a), other(b); a.connect(b); }",
    # 8.8, and beside it
    "void __syncthreads()": "__global__ void f() { __syncthreads(); }",
    "void __syncblocks()": "__cooperative__ __global__ void f() { __syncblocks(); }",
    "enum BarrierScope { SIP = 0, CLUSTER = 1 }": "__global__ void f(int *x) { x[0] = SIP; x[1] = CLUSTER; }",
    "tte::barrier<BarrierScope>(int count)":
        "__global__ void f() { __shared__ tte::barrier<SIP> one(12); __shared__ tte::barrier<CLUSTER> two(12); }",
    "tte::barrier::arrive()": "__global__ void f() { __shared__ tte::barrier<SIP> b(12); b.arrive(); }",
    "void tte::barrier::wait()": "__global__ void f() { __shared__ tte::barrier<SIP> b(12); b.arrive(); b.wait(); }",
    "void tte::barrier::arrive_and_wait()":
        "__global__ void f() { __shared__ tte::barrier<SIP> b(12); b.arrive_and_wait(); }",
    "int printf(const char* format, ...)":
        '__global__ void f(int *x) { int n = printf("%d %i %u %o %x %X %f %F %e %E %g %G %a %A %c %s %p", 1, '
        '1, 1u, 1u, 1u, 1u, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, \'c\', "s", (void *)x); x[0] = n; }',
    "void assert(expression)": "__global__ void f(int *x) { assert(x[0] == 1); }",
    "topsKernelSignalRead": "__global__ void f(int *x) { x[0] = topsKernelSignalRead(0); }",
    "topsKernelSignalWrite": "__global__ void f(int *x) { topsKernelSignalWrite(0, 1); }",
}  # fmt: skip
