"""TOPS C++ as the text writes it: execution and memory spaces, vectors, barriers, the DTE, printing."""

from __future__ import annotations

import string
from typing import Any

import numpy as np
import pytest

import atops
from atops import kernels as k
from atops.base.options import EmulatorOptions
from atops.device.dte.operations import OPERATIONS
from tests.device.transform_cases import EXAMPLES, random_array
from tests.every import every

FLOATS = np.arange(24, dtype=np.float32)

SPACES = """
namespace inner { __device__ float twice(float v) { return 2 * v; } }
extern __shared__ float pool[];
template <class T> __device__ void fill(T *to, T value, int count) {
    __local__ T own[8];
    for (int i = 0; i < count; ++i) own[i] = value;
    for (int i = 0; i < count; ++i) to[i] = own[i];
}
__global__ void spaces(float *out, const float *x, int n) {
    __shared__ float sums[12], total;
    __local__ __valigned__ float tile[64];
    __local__ float *p = (__local__ float *)tile;
    int me = threadIdx.x;
    p[0] = x[blockIdx.x * blockDim.x + me];
    sums[me] = inner::twice(p[0]);
    float *shared = (float *)pool;
    shared[me] = (float)me;
    __syncthreads();
    if (me == 0) { total = 0; for (int i = 0; i < n; ++i) total += sums[i]; }
    __syncthreads();
    out[blockIdx.x * blockDim.x + me] = total + shared[n - 1 - me];
}
__global__ void early(float *out) {  // some threads have left before others begin, the rest wait for each other
    __local__ float own[64];
    __shared__ tte::barrier<SIP> waiting(6);
    int me = blockIdx.x * blockDim.x + threadIdx.x;
    for (int i = 0; i < 64; ++i) own[i] = 100 + me;
    if (threadIdx.x % 2) waiting.arrive_and_wait();
    float sum = 0;
    for (int i = 0; i < 64; ++i) sum += own[i];
    out[me] = sum / 64;
}
__global__ void filled(float *out) { fill<float>(out + 4 * threadIdx.x, 0.5f + threadIdx.x, 4); }
"""


@pytest.mark.slow
def test_memory_spaces(run: Any) -> None:
    """Shared memory is the block's, local memory the thread's, dynamic shared memory what the launch asked for."""
    got = run(SPACES, "spaces", (2, 12, 1024), FLOATS * 0, FLOATS, 12)
    totals = np.repeat(FLOATS.reshape(2, 12).sum(1) * 2, 12)
    assert np.array_equal(got, totals + np.tile(np.arange(11, -1, -1), 2))
    for seed in (None, 1, 2):
        got = run(SPACES, "early", (2, 12), FLOATS * 0, options=EmulatorOptions(seed=seed))
        assert got.tolist() == (FLOATS + 100).tolist()
    assert run(SPACES, "filled", (1, 6), FLOATS * 0).tolist() == np.repeat(np.arange(6) + 0.5, 4).tolist()


AT_THE_TOP = """
__shared__ float tile[64], bias;
__shared__ int flags;
template <class F> __device__ void each(F f) { for (int i = 0; i < 4; ++i) f(i); }
__global__ void products(float *out) {
    float w = 2;
    int m = 3;
    if (threadIdx.x == 0) { for (int i = 0; i < 64; ++i) tile[i] = i; bias = 5; flags = 6; }
    __syncthreads();
    float a = w * tile[3] + w * bias;
    a += (w * tile[1]), m = m & flags;
    if (m == 2 && tile[2] > 1 && (w > 1 || w * bias == 3)) a += m > 1 ? w * tile[4] : w * bias;
    out[threadIdx.x] = a;
}
__global__ void names_of_its_own(float *out) {
    float other = 3;
    float *flags = out + 1;
    auto total = [](float *tile, const float &bias) { return tile[0] + bias; };
    for (float *tile = out; tile < out + 2; ++tile) *tile = 7;
    out[2] = total(flags, other);
}
"""


@pytest.mark.slow
def test_shared_memory_at_the_top(run: Any) -> None:
    """`w * tile[i]` is a product of what all functions share; `float *tile = x` is something of the function's own."""
    assert run(AT_THE_TOP, "products", (1, 3), FLOATS * 0)[:4].tolist() == [26, 26, 26, 0]
    assert run(AT_THE_TOP, "names_of_its_own", (1, 1), FLOATS * 0)[:4].tolist() == [7, 7, 10, 0]


VECTORS = """
__global__ void vectors(float *out, const float *x, const float *y) {
    __vector4 float a = *(__vector4 float *)x, b = *(__vector4 float *)y;
    __vector4 bool int m = a < b;
    __vector4 float c = (__vector4 float)(3) * a + b;
    ++c;
    for (int i = 0; i < 128; ++i) out[i] = m[i] ? c[i] : -c[i];
}
__global__ void bits(unsigned *out, const unsigned *x) {
    __vector unsigned int v = *(__vector unsigned int *)x, one(1u);
    v = (v << one) ^ ~(v >> one);
    *(__vector unsigned int *)out = v & (v | one);
}
__global__ void halves(unsigned short *out, const unsigned short *x) {
    __vector4 __fp16 v = *(__vector4 __fp16 *)x;
    *(__vector4 __fp16 *)out = v * v + (__vector4 __fp16)(0.5f);
}
"""


NAMESPACES = """
namespace a::b { __shared__ int s[4], t; extern __shared__ int dynamic[]; __device__ int get() { return s[1]; } }
namespace c { __shared__ int s[2]; __device__ int get() { int t = 6; return s[1] + t; } }
__shared__ int s[2];
using namespace a::b;
__global__ void f(int *out) {
    if (threadIdx.x == 0) a::b::s[1] = 1, c::s[1] = 20, ::s[1] = 300, t = 4000, ::a::b::dynamic[0] = 50000;
    __syncthreads();
    out[threadIdx.x] = get() + c::get() + ::s[1] + a::b::t + dynamic[0];
}
"""


def test_shared_memory_of_namespaces(run: Any) -> None:
    """Each has its own, by its name within the namespace and by the qualified one elsewhere."""
    module = k.compile_source(NAMESPACES, "namespaces.tops").module()
    assert run("", "f", (1, 4, 64), np.zeros(4, np.int32), module=module).tolist() == [54327] * 4


OWN_NAMES = """
#include <utility>
__shared__ int s[12], t;
template <int N, int M> __device__ int product() { return N * M; }
struct P { int s, t; int sum() const { return s + t; } };
enum class E { s, t };
template <int s> __device__ int parameter() { return s; }
__device__ int parts() { auto [s, t] = std::make_pair(3, 4); return s + t; }
__device__ int captured() { int v = 5; auto f = [s = v, t = 2] { return s * t; }; return f(); }
__device__ int beside() {
    int r = 0, s = 1, *p = &s, t(2);
    for (int k = 0, s = 3; k < s; ++k, t++) r += *p;
    return r + t;
}
__device__ int label(int k) { if (k) goto s; return 1; s: return 2; }
__global__ void f(int *out) {
    s[threadIdx.x] = threadIdx.x;
    if (threadIdx.x == 0) t = 1000;
    __syncthreads();
    auto five = product<5, 1>(), all = five + s[3] + t;
    all += P{.s = 1, .t = 2}.sum() + int(E::t) + parameter<7>();
    out[threadIdx.x] = all + parts() + captured() + beside() + label(1);
}
"""


def test_names_that_shared_memory_has_too(run: Any) -> None:
    """What a function or a class declares under such a name is its own, in whatever way it does."""
    module = k.compile_source(OWN_NAMES, "names.tops").module()
    right = 5 + 3 + 1000 + 3 + 1 + 7 + 7 + 10 + 8 + 2
    assert run("", "f", (1, 12), np.zeros(12, np.int32), module=module).tolist() == [right] * 12


SCOPES = """
namespace other { __shared__ int t[4]; }
__shared__ int s;
enum Kind { none };
__device__ int twice(int v) { return 2 * v; }
struct P { int a, b; P(int s) : a{s}, b(s) {} };
__global__ void f(int *out) {
    int t = 7, at = 0;
    if (threadIdx.x == 0) s = 100;
    __syncthreads();
    { int s = 1; { int s = 2; out[at++] = s; } out[at++] = s; }
    out[at++] = s;
    for (int s = 0; s < 2; ++s) out[at++] = s;
    out[at++] = s;
    for (int s = 3; s < 4; ++s) for (int k = 0; k < 1; ++k) { out[at++] = s; }
    out[at++] = s;
    if (int s = twice(2); s == 3) out[at++] = 0; else { out[at++] = s; }
    out[at++] = s;
    auto half = [&](int s) { return s / 2; };
    out[at++] = half(10) + twice(s);
    { auto [s, k] = P(6); out[at++] = s + k; }
    { enum { s = 9 }; out[at++] = s; }
    out[at++] = s + t;
}
"""


def test_scopes_of_names_that_shared_memory_has_too(run: Any) -> None:
    """A name that a block, a loop or a lambda has for itself is the shared memory's again behind it."""
    module = k.compile_source(SCOPES, "scopes.tops").module()
    right = [2, 1, 100, 0, 1, 100, 3, 100, 4, 100, 205, 12, 9, 107]
    assert run("", "f", (1, 1), np.zeros(len(right), np.int32), module=module).tolist() == right


OWN = (  # each has an `s` of its own, and finds the shared one behind it: x[0] becomes 4 + s[0] + 1
    "auto f = [s = 3](int a) { return s + a; }; x[0] = f(1)",
    "int q = 2; auto f = [q, s = int{2}, &x] { return q + s; }; x[0] = f()",
    "auto f = [s = 3](int a) { auto g = [&] { return s; }; return g() + a; }; x[0] = f(1)",
    "auto f = [=, s = 4]() mutable noexcept { s += 0; return s; }; x[0] = f()",
    "auto f = [&s = x[1]] { s = 4; }; f(); x[0] = x[1]",
    "x[0] = ([](int a, int s) { return a * 0 + s; })(s[0], 4)",
    "x[0] = least([](int a, int s) { return s - a; }(3, 7), s[0])",
    "auto f = []<int s>(Int<s>) { return s; }; x[0] = f(Int<4>())",
    "auto f = []<class s>(s a) { return a; }; x[0] = f(4)",
    "bool less = x[1] < 3, t = less; x[0] = 3 + t",
    "enum class E { t = 1, s = 4 }; x[0] = int(E::s)",
    "{ enum E { t, s = 4 }; x[0] = s; }",
    "{ enum class E : char { s = 4 }; x[0] = int(E::s) + s[0] - 7; }",
    "goto s; x[0] = 1; s: x[0] = 4",
    "void (*f)(int *) = four; { void (*s)(int *) = f; s(x); }",
    "struct A { int s[2]; int get() { return s[0]; } } a{{4}}; x[0] = a.get()",
    "{ using s = int; s v = 4; x[0] = v; }",
    "if (int s = 4; s) x[0] = s; else x[0] = s + 1",
    "switch (s[0]) { case 7: { int s = 4; x[0] = s; } }",
    "x[0] = made<4>()",
)


def test_each_scope_ends_where_it_does(run: Any) -> None:
    """What captures, parameters of lambdas and their templates, enumerators, labels and pointers to functions hide."""
    kernels = "".join(
        f"__global__ void f{at}(int *x) {{ s[0] = 7; {own}; x[0] += s[0] + 1; }}\n" for at, own in enumerate(OWN)
    )
    text = f"""#include <tops.h>
__shared__ int s[4];
template <int> struct Int {{}};
template <int s> __device__ int made() {{ return s; }}
__device__ int least(int a, int b) {{ return a < b ? a : b; }}
__device__ void four(int *s) {{ s[0] = 4; }}
{kernels}"""
    module = k.compile_source(text, "scopes.tops").module()
    for at, own in enumerate(OWN):
        assert run("", f"f{at}", (1, 1), np.zeros(2, np.int32), module=module)[0] == 12, own


ALIGNED = """
__shared__ char first;
alignas(256) __shared__ int top[3];
__global__ void f(long *out) {
    __shared__ char c; alignas(128) __shared__ int s[3]; __local__ char d; alignas(64) static __local__ int t[3];
    first = c = d = 1, top[0] = s[0] = t[0] = 2;
    out[0] = long(top) % 256, out[1] = long(s) % 128, out[2] = long(t) % 64;
}
"""


def test_an_alignment_before_the_space(run: Any) -> None:
    """It is that of the memory."""
    module = k.compile_source(ALIGNED, "aligned.tops").module()
    assert run("", "f", (1, 1), np.ones(3, np.int64), module=module).tolist() == [0, 0, 0]


@pytest.mark.slow
def test_vectors(run: Any) -> None:
    """Operators work lane by lane; a comparison gives a mask; shifts are of unsigned types."""
    x, y = np.random.default_rng(1).standard_normal((2, 128)).astype(np.float32)
    c = (np.float32(3) * x + y) + np.float32(1)
    assert np.array_equal(run(VECTORS, "vectors", (1, 1), x * 0, x, y), np.where(x < y, c, -c))
    bits = np.random.default_rng(2).integers(0, 1 << 32, 32, dtype=np.uint32)
    assert np.array_equal(run(VECTORS, "bits", (1, 1), bits * 0, bits), (bits << 1) ^ ~(bits >> 1))
    half = np.random.default_rng(3).standard_normal(256).astype(np.float16)
    got = run(VECTORS, "halves", (1, 1), (half * 0).view(np.uint16), half.view(np.uint16)).view(np.float16)
    assert np.array_equal(got, (half * half + np.float16(0.5)))


BARRIERS = """
__global__ void rotate(int *x, int rounds) {
    int me = threadIdx.x, size = blockDim.x;
    for (int i = 0; i < rounds; ++i) {
        int next = x[(me + 1) % size];
        __syncthreads();
        x[me] = next;
        __syncthreads();
    }
}
__cooperative__ __global__ void everywhere(int *x, int rounds) {
    int me = blockIdx.x * blockDim.x + threadIdx.x, size = gridDim.x * blockDim.x;
    for (int i = 0; i < rounds; ++i) {
        int next = x[(me + 1) % size];
        __syncblocks();
        x[me] = next;
        __syncblocks();
    }
}
__global__ void handed_on(int *x, int rounds) {
    __shared__ tte::barrier<SIP> full(12), empty(12);
    for (int i = 0; i < rounds; ++i) {
        if (threadIdx.x == 0) {
            x[12] = i;
            full.arrive_and_wait();
            empty.arrive_and_wait();
        } else {
            full.arrive();
            full.wait();
            x[threadIdx.x] += x[12];
            empty.arrive_and_wait();
        }
    }
}
"""


@pytest.mark.slow
@pytest.mark.parametrize("seed", [None, 0, 1, 2, 3])
def test_barriers(run: Any, seed: int | None) -> None:
    """Of the block, of the grid, and counted; whatever thread goes on first."""
    options = EmulatorOptions(seed=seed)
    x = np.arange(24, dtype=np.int32)
    assert np.array_equal(run(BARRIERS, "rotate", (1, 12), x[:12], 5, options=options), np.roll(x[:12], -5))
    assert np.array_equal(run(BARRIERS, "everywhere", (2, 12), x, 7, options=options), np.roll(x, -7))
    got = run(BARRIERS, "handed_on", (1, 12), np.zeros(13, np.int32), 10, options=options)
    assert got[1:12].tolist() == [45] * 11


TRANSFERS = """
__global__ void tiles(float *out, const float *x, int n) {
    constexpr int TILE = 32;
    __local__ float tile[2][TILE];
    tops_dte_ctx_t in[2], to;
    for (int i = 0; i < 2; ++i) tops_init_dte(&in[i]);
    to.init();
    tops::event ready[2];
    int tiles = n / TILE, step = gridDim.x * blockDim.x, me = blockIdx.x * blockDim.x + threadIdx.x, turn = 0;
    tops::mdspan first(x + me * TILE, TILE);
    if (me < tiles) ready[0] = tops::memcpy_async(in[0], tops::mdspan(tile[0], TILE), first);
    for (int t = me; t < tiles; t += step, turn ^= 1) {
        if (t + step < tiles)
            ready[turn ^ 1] = tops::memcpy_async(in[turn ^ 1], tops::mdspan(tile[turn ^ 1], TILE),
                                                 tops::mdspan(tops::Global, x + (t + step) * TILE, TILE));
        tops::wait(ready[turn]);
        for (int i = 0; i < TILE; ++i) tile[turn][i] += 1;
        tops::memcpy(to, tops::mdspan(out + t * TILE, TILE), tops::mdspan(tops::Local, tile[turn], TILE));
    }
    for (int i = 0; i < 2; ++i) tops_destroy_dte(in[i]);
    to.destroy();
}
__global__ void one_for_all(float *out, const float *x) {
    __shared__ tops_dte_ctx_t ctx;
    __shared__ float all[24];
    if (threadIdx.x == 0) {
        ctx.init();
        int shape[] = {2, 12};
        tops::memcpy(ctx, tops::mdspan(all, shape), tops::mdspan((float *)x, 2, 12));
        ctx.destroy();
    }
    __syncthreads();
    out[threadIdx.x] = all[threadIdx.x] + all[12 + threadIdx.x];
}
"""


@pytest.mark.slow
@pytest.mark.parametrize("options", [EmulatorOptions(), EmulatorOptions(dte="eager"), EmulatorOptions(seed=4)])
def test_transfers(run: Any, options: EmulatorOptions) -> None:
    """Two tiles in turn; a context that the block shares; however transfers take effect."""
    x = np.arange(32 * 50, dtype=np.float32)
    assert np.array_equal(run(TRANSFERS, "tiles", (2, 12), x * 0, x, x.size, options=options), x + 1)
    got = run(TRANSFERS, "one_for_all", (1, 12), FLOATS[:12] * 0, FLOATS, options=options)
    assert np.array_equal(got, FLOATS[:12] + FLOATS[12:])


SPELLED = {
    "float32": "float", "int32": "int", "uint16": "unsigned short", "uint8": "unsigned char", "uint32": "unsigned",
    "int16": "short", "int8": "char",
}  # fmt: skip


def _call(name: str) -> tuple[str, Any]:
    """Return a kernel that does the example of an operation, and the example."""
    case = EXAMPLES[name]
    dst, src = SPELLED[str(case.dst_kind)], SPELLED[str(case.src_kind)]
    span = "tops::mdspan({}, {})".format
    arguments = [span("dst", ", ".join(map(str, case.dst)))]
    if case.src is not None:
        arguments.append(span("src", ", ".join(map(str, case.src))))
    for value in case.parameters.values():
        arguments.append("{" + ", ".join(map(str, value)) + "}" if isinstance(value, tuple | list) else str(value))
    call = "tops::{}({})".format
    return f"""
__global__ void {name}_now({dst} *dst, {src} *src) {{
    tops_dte_ctx_t ctx; tops::dte_scope scope(ctx);
    {call(name, ", ".join(["ctx", *arguments]))};
}}
__global__ void {name}_later({dst} *dst, {src} *src) {{
    tops_dte_ctx_t ctx; tops::dte_scope scope(ctx);
    tops::event done = {call(f"{name}_async", ", ".join(["ctx", *arguments]))};
    tops::wait(done);
}}
""", case


@pytest.mark.slow
def test_the_headers_have_every_operation_of_the_dte(run: Any) -> None:
    """Its two forms do what the operation of kernels in Python does, for the same arguments."""
    texts = {name: _call(name) for name in OPERATIONS}
    module = k.compile_source("".join(text for text, _ in texts.values()), "all.tops").module()
    for name, (_, case) in texts.items():
        dst = random_array(case.dst, case.dst_kind, 2).copy()
        src = np.zeros(1, case.src_kind) if case.src is None else random_array(case.src, case.src_kind).copy()
        expected = dst.copy()
        OPERATIONS[name](expected, None if case.src is None else src, **case.parameters)
        for form in ("now", "later"):
            got = run("", f"{name}_{form}", (1, 1), dst, src, module=module)
            assert np.array_equal(got, expected), f"{name}_{form}"


@pytest.mark.slow
def test_kernels_are_marked_by_attributes_too(run: Any) -> None:
    """`__global__` is an attribute on the chip, and texts write it so; literals stay. Dynamic memory may go unused."""
    text = 'extern "C" __attribute__((global)) void f(int *x, int n) {\n    extern __shared__ int s[];\n'
    text += '    x[0] = n < 0 ? s[0] : sizeof("__attribute__((global))"); x[1] = __LINE__;\n}\n'
    module = k.compile_source(text, "test.tops").module()
    assert run("", "f", (1, 1), np.zeros(2, np.int32), 1, module=module).tolist() == [24, 3]
    assert module.function("f").uses_dynamic_shared


def test_printing(run: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """As C's printf, shown before the launch is over."""
    text = '__global__ void say(int *x) { printf("%d of %s: %.2f\\n", x[0], "three", 0.5); }'
    run(text, "say", (1, 1), np.array([7]))
    assert capsys.readouterr().out == "7 of three: 0.50\n"


@pytest.mark.slow
def test_macros_tell_the_chip(run: Any) -> None:
    """And what the program defines is there."""
    text = """__global__ void which(int *x) { x[0] = __GCU_ARCH__; x[1] = __AGCU_ARCH__; x[2] = TILE; }"""
    program = k.compile_source(text, "which.tops", ["-DTILE=17"])
    got = run("", "which", (1, 1), np.zeros(3, np.int32), module=program.module())
    assert got.tolist() == [300, 300, 17]


def test_macros_are_the_programs_alone(run: Any) -> None:
    """Of an option or of the text, before what it includes: names that headers have for parameters, too."""
    names = [*string.ascii_uppercase, *"abinxy", "WIDTH", "LANES", "count", "value", "type"]
    heads = ("tops.h", "tcle.h", "krt/scalar.h", "krt/none.h", "hip/hip_runtime.h", "cooperative_groups.h")
    text = "\ufeff#define row 5\n" + "".join(f"#include <{each}>\n" for each in heads)
    text += "__global__ void f_(int *x_) { x_[0] = A + T + WIDTH + row; }"
    program = k.compile_source(text, "own.tops", [f"-D{each}=2" for each in names])
    assert run("", "f_", (1, 1), np.zeros(1, np.int32), module=program.module()).tolist() == [11]


ADDRESSES = """
__global__ void through(float *x) {
    __local__ float two[8][16];
    float buffer[128];
    int shape[] = {8, 16};
    tops_dte_ctx_t ctx;
    tops::dte_scope scope(ctx);
    tops::memcpy(ctx, tops::mdspan(tops::Private, &buffer, 128), tops::mdspan(tops::Global, x, 128));
    tops::memcpy(ctx, tops::mdspan(tops::Local, &two, shape), tops::mdspan(tops::Private, &buffer, shape));
    two[7][15] = -1;
    tops::memcpy(ctx, tops::mdspan(x, 128), tops::mdspan(&two, 128));
}
"""


@pytest.mark.slow
@pytest.mark.usefixtures("each_compiler")
def test_a_span_of_an_arrays_address(run: Any) -> None:
    """Its elements are the array's, whichever compiler deduces them."""
    x = np.arange(128, dtype=np.float32)
    assert run(ADDRESSES, "through", (1, 1), x).tolist() == [*range(127), -1]


@pytest.mark.slow
@every("options", [{"schedule": "random", "seed": 1}, {"clock": "virtual"}, {"strict": True}, {"workers": 1}])
def test_other_ways_to_run(options: dict[str, Any]) -> None:
    """A native kernel is one step of a schedule, and runs under a virtual clock and in strict mode."""
    kernel = k.compile_source(BARRIERS, "test.tops").module().function("rotate")

    async def main() -> Any:
        async with atops.Device(0).create_stream() as stream:
            x = stream.upload(np.arange(12, dtype=np.int32))
            stream.launch(kernel, (1, 12), x, 5)
            return (await stream.fetch(x)).tolist()

    assert atops.run(main, EmulatorOptions(**options)) == np.roll(np.arange(12), -5).tolist()


@pytest.mark.slow
def test_detectors_see_what_kernels_store() -> None:
    """A run with a native kernel can be clean, and what it stored is not called unwritten."""
    text = "__global__ void one(float *x) { x[threadIdx.x] = 1; }"
    kernel = k.compile_source(text, "one.tops").module().function("one")

    async def main() -> atops.Report:
        async with atops.Device(0).create_stream() as stream:
            x = stream.empty(12, np.float32)
            stream.launch(kernel, (1, 12), x)
            assert (await stream.fetch(x)).tolist() == [1.0] * 12
        return atops.report()

    report = atops.run(main, EmulatorOptions(detect=True))
    assert report.verdict == "clean", str(report)


CXX17 = """
enum Left { TWO = 2 };
enum Right { THREE = 3 };
struct Counter { int count = 5; int plus_one() { return [=] { return count + 1; }(); } };
void __global__ f(int *out) {
    const char *text = u8"abc";
    register volatile int twice = 2;
    twice *= 2;
    int3 made = make_int3(7, 8, 9);
    int numbers[] = {TWO + THREE, Counter().plus_one(), twice, text[1], made.z};
    for (int i = 0; i < 5; ++i) out[i] = numbers[i];
}
"""


def test_texts_are_of_cxx17(run: Any) -> None:
    """What C++20 has changed or deprecated is as it was, without a warning; `void` may stand before `__global__`."""
    program = k.compile_source(CXX17, "cxx17.tops")
    assert not program.log.entries
    assert run("", "f", (1, 1), np.zeros(5, np.int32), module=program.module()).tolist() == [5, 6, 4, ord("b"), 9]
