"""What texts that were written elsewhere take for granted: their headers, own names, and names beside the text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from ml_dtypes import bfloat16

from atops import kernels as k
from atops.base.errors import CompilationError, KernelAssert, LaunchFailure
from atops.base.options import EmulatorOptions
from atops.device.native.toolchain import find_toolchain

pytestmark = pytest.mark.slow  # the compiler is called for each

VECTORS = """
#include <tcle.h>
#include <acore_op.h>
#include <common/convert.h>
using namespace tops;
extern "C" __global__ void bits(signed char *in, float *out) {
  using bytes = typename scalar_to_vector<int8_t, TOPS_VECTOR_LENGTH>::type;
  auto given = simple_leaptr<bytes>(in).load();
  va16f32x4 low = vcast<va16f32x4>(vand<v64u8>(given, vbroadcast<v64u8>(uint8_t(15))));
  va16f32x4 high = vcast<va16f32x4>(vshri<v64u8>(given, 4));
  vstore(tcle::concat2(vunpack<0, va16f32>(low), vunpack<3, va16f32>(high)), out);
}
extern "C" __global__ void in_place(float *x, int n) {
  auto both = tcle::leaptr<__vector float>(x);
  auto skips = tcle::leaptr<__vector float, 2>(x, 0, sizeof(__vector float));
  for (int i = 0; i < n; i += 32) {
    both.store(both.load() * (__vector float)2.0f);
    skips.store<1>(skips.load<1>() + skips.load<0>() * (__vector float)0.0f);
  }
}
extern "C" __global__ void counted(int *x, int *out) {
  using vt = typename tcle::simple_altivector<int32_t>::VT;
  vt v = *(vt *)x, wrong = tcle::vsel(v >= (vt)(9) || v < (vt)(0), (vt)(1), (vt)(0));
  out[0] = tcle::redsum<0>(wrong)[0];
}
extern "C" __global__ void step(float *state, float *k, float *delta, float *out, float *update, float factor) {
  acore::outer(update, k, delta, 4, 8);
  acore::add(state, update, state, 32, factor);
  acore::matmul<1, acore::MK_KN>(out, k, state, (float *)nullptr, (int *)nullptr, 4, 8, 0, 1, 0, 1, 0);
}
extern "C" __global__ void products(float *x, float *y, float *bias, float *out) {
  acore::matmul<2, acore::MK_NK>(out, x, y, bias, (int *)nullptr, 3, 4, 0, 1, 1, 0, 0);
  acore::matmul<2, acore::KM_KN>(out + 8, x, y, (float *)nullptr, (int *)nullptr, 3, 4, 0, 1, 0, 1, 1);
}
extern "C" __global__ void sums(float *x) { acore::matmul<1, acore::MK_KN>(x, x, x, x, x, 4, 8, 1, 1, 0, 0, 0); }
template <typename V, typename O> inline KRT_API V own_gather(void *from, const O &bytes);
template <> inline KRT_API va16f32 own_gather(void *from, const va16u32 &bytes) {
  return __dtu_m_vldxda_f32((__DTU_INTRIN_AS__ char *)from, bytes);
}
extern "C" __global__ void by_offsets(float *x, float *out) {
  va16u32 bytes = vmul(viota<va16u32>(0u), vbroadcast<va16u32>(8u));
  va16f32 odd = vgather<va16f32>(x + 1, bytes);
  vscatter<va16f32>(out, vadd(odd, own_gather<va16f32>((void *)x, bytes)), bytes);
  va16u32x4 first = __dtu_m_mid_m0_u32(5);
  bytes >>= va16u32(1u);
  __dtu_m_vstxda_u32(vunpack<0, va16u32>(first), (char *)(out + 64), bytes);
  __dtu_l_movs_barrier_fence(0x3);
  using mask = typename vector_to_mask<va16u32>::type;
  out[1] = tcle::aggr_mb<0, 0>(tcle::vset_mb<mask>(3)), out[3] = tcle::aggr_mb<0, 1>(tcle::vset_mb<mask>(3));
  tcle::store(tcle::load<va16f32>(x) * va16f32(2.0f), out + 96);
  va16f32 logarithm = tcle::ln(tcle::exp(tcle::load<va16f32>(x) * va16f32(0.01f)) + va16f32(1.0f));
  tcle::store(tcle::rec(logarithm), out + 128);
}
class wrapped {
  tops::bfloat16 value;
 public:
  wrapped() = default;
  wrapped(float f) : value(f) {}
  wrapped(double f) : value(float(f)) {}
};
extern "C" __global__ void patched(wrapped *x, float *y) {
  __local__ wrapped l[8];
  tops::private_dte ctx, other;
  int at[] = {6};
  ctx.config_slice(tops::mdspan(tops::Private, l, 8), tops::mdspan(tops::Global, x, 8), at, 0);
  ctx.trigger_and_wait();
  other.config_memcpy(tops::mdspan(tops::Private, l, 8), tops::mdspan(tops::Global, x, 8));
  other.set_dst_addr(x), other.set_src_addr(l);  // the other way round
  other.trigger_and_wait();
  other.config_memset(tops::mdspan(tops::Global, y, 8), 3);
  other.set_total_size(2 * sizeof(float));
  other.trigger_and_wait();
}
extern "C" __global__ void registers(int *out) {
  tar_t place = __dtu_s_movsr2targ(3);
  v64i8 rows[2] = {__dtu_s_tvld_itar(place), __dtu_s_tvld_itar(place)};
  out[0] = 1 - __dtu_srli_a(3, 31);
  rows[0] += __dtu_m_tvld_dual(rows[1]);
}
"""


@pytest.fixture(scope="module")
def module() -> Any:
    """Compile the vectors once."""
    return k.compile_source(VECTORS, "vectors.tops").module()


@pytest.mark.usefixtures("each_compiler")
def test_headers_of_folders(run: Callable[..., Any]) -> None:
    """They include each other by their folder, and from the folder above."""
    texts = {
        "utils/a.h": '#include "b.h"\n#include "../c.h"\n',
        "utils/b.h": "__device__ inline int b() { __local__ int l[2]; l[0] = 3; return l[0]; }\n",
        "c.h": "__device__ inline int c() { return 4; }\n",
    }
    text = '#include "utils/a.h"\n__global__ void f(int *x) { x[0] = b() * c(); }\n'
    made = k.compile_source(text, "folders.tops", headers=texts).module()
    assert run("", "f", (1, 1), np.zeros(1, np.int32), module=made)[0] == 12


def test_a_header_that_the_chip_has_and_we_have_not() -> None:
    """It is what is known of all of them, and a warning says so; any other one stays missing."""
    log = str(k.compile_source(VECTORS, "vectors.tops").log)
    assert "vectors.tops:4:" in log and "<common/convert.h> is none of the headers of this emulator" in log


ENUMERATORS = {
    "enum KIND { REDUCE_MIN, REDUCE_MAX, FLOAT };": "FLOAT * 10 + REDUCE_MAX",  # 21
    "typedef int FLOAT; constexpr int REDUCE_MAX = 1;": "FLOAT(20) + REDUCE_MAX",
    "#include <tops/tops_runtime.h>": "FLOAT * 3 + int(topsReduceOpType::REDUCE_MAX) - REDUCE_MAX",
}


@pytest.mark.parametrize("own", ENUMERATORS)
def test_enumerators_that_a_program_has_itself(own: str, run: Callable[..., Any]) -> None:
    """REDUCE_MAX is the program's where it declares one, and the runtime API's elsewhere."""
    text = f"#include <tops/tops_runtime.h>\n{own}\n__global__ void f(int *x) {{ x[0] = {ENUMERATORS[own]}; }}\n"
    assert run(text, "f", (1, 1), np.zeros(1, np.int32))[0] == 21


def test_a_function_that_is_defined_nowhere(run: Callable[..., Any]) -> None:
    """It is a warning, and a fault where it is reached: files of a collection call each other."""
    text = "namespace n { int elsewhere(float); }\n__global__ void f(int *x) { x[0] = x[0] ? n::elsewhere(1) : 5; }\n"
    if find_toolchain().zig:
        with pytest.raises(CompilationError, match=r"missing cannot be loaded: .*undefined symbol: .*elsewhere"):
            k.compile_source(text, "missing.tops").module()
        return
    compiled = k.compile_source(text, "missing.tops")
    said = "n::elsewhere(float) is declared, and defined in no text of the program"
    assert f"missing.tops:1:1: warning: {said}" in str(compiled.log)
    assert run("", "f", (1, 1), np.zeros(1, np.int32), module=compiled.module())[0] == 5
    with pytest.raises(LaunchFailure, match=r"missing.tops:2: called n::elsewhere\(float\)"):
        run("", "f", (1, 1), np.ones(1, np.int32), module=compiled.module())


def test_a_launch_makes_a_kernel_of_a_template(run: Callable[..., Any]) -> None:
    """Host code that is not run says which are wanted; arguments of its own templates and aliases say nothing."""
    text = """
template <typename T, typename I> __global__ void twice(T *x, I n) { for (I i = 0; i < n; ++i) x[i] = x[i] + x[i]; }
#define OF(T, name) extern "C" void name(T *x) { twice<T, u_int32_t><<<2, 12>>>(x, 4u); }
OF(__fp16, twice_f16)
template <typename T> void any(T *x) { using mine = int; twice<T, mine><<<1, 1>>>(x, 4); }
"""
    made = k.compile_source(text, "launches.tops").module()
    x = np.array([1, 2, 3, 4], np.float16)
    assert np.array_equal(run("", "twice<__fp16, u_int32_t>", (1, 1), x, 4, module=made), x * 2)


def test_bits_and_parts_of_vectors(module: Any, run: Callable[..., Any]) -> None:
    """A vector is looked at as one of other elements, cut, and put together."""
    x = np.arange(128, dtype=np.uint8) * 3
    found = run("", "bits", (1, 1), x.view(np.int8), np.zeros(64, np.float32), fetch=1, module=module)
    assert np.array_equal(found, np.concatenate([x[:32] & 15, x[96:] >> 4]))


def test_pointers_that_go_on(module: Any, run: Callable[..., Any]) -> None:
    """One changes an array in its place; one with strides goes on by what is named, or stays."""
    x = np.arange(96, dtype=np.float32)
    assert np.array_equal(run("", "in_place", (1, 1), x.copy(), 96, module=module), x * 2)


def test_masks_and_sums(module: Any, run: Callable[..., Any]) -> None:
    """Masks have `||`; redsum has the sum in its first lane."""
    x = np.arange(-4, 28, dtype=np.int32)
    found = run("", "counted", (1, 1), x, np.zeros(1, np.int32), fetch=1, module=module)
    assert found[0] == ((x < 0) | (x >= 9)).sum()


def test_products(module: Any, run: Callable[..., Any]) -> None:
    """outer, add with a factor and the plain matmul are what their names say; another matmul is a fault."""
    generator = np.random.default_rng(3)
    state, keys, delta = (generator.normal(size=shape).astype(np.float32) for shape in ((4, 8), 4, 8))
    given = (state.copy(), keys, delta, np.zeros(8, np.float32), np.zeros((4, 8), np.float32), 0.5)
    wanted = state * 0.5 + np.outer(keys, delta)
    np.testing.assert_allclose(run("", "step", (1, 1), *given, fetch=0, module=module), wanted, 1e-5, 1e-6)
    np.testing.assert_allclose(run("", "step", (1, 1), *given, fetch=3, module=module), keys @ wanted, 1e-5, 1e-5)
    x, y, bias = (generator.normal(size=size).astype(np.float32) for size in (6, 12, 4))
    found = run("", "products", (1, 1), x, y, bias, np.zeros(16, np.float32), fetch=3, module=module)
    np.testing.assert_allclose(found[:8].reshape(2, 4), x.reshape(2, 3) @ y.reshape(4, 3).T + bias, 1e-5, 1e-5)
    np.testing.assert_allclose(found[8:].reshape(2, 4), x.reshape(3, 2).T @ y.reshape(3, 4), 1e-5, 1e-5)
    with pytest.raises(LaunchFailure, match="acore::matmul for sums over several calls"):
        run("", "sums", (1, 1), np.zeros(64, np.float32), module=module)


def test_elements_at_byte_offsets(module: Any, run: Callable[..., Any]) -> None:
    """Gathered, scattered and counted up, by the functions and by the intrinsics of headers that have their own."""
    x = np.arange(64, dtype=np.float32)
    found = run("", "by_offsets", (1, 1), x, np.zeros(160, np.float32), fetch=1, module=module)
    assert np.array_equal(found[0:64:2], x[0::2] + x[1::2]) and found[1] == 1 and found[3] == 0
    assert np.array_equal(found[64:96].view(np.uint32), np.arange(5, 37))
    assert np.array_equal(found[96:128], x[:32] * 2)
    np.testing.assert_allclose(found[128:], 1 / np.log1p(np.exp(x[:32] * np.float32(0.01))), 1e-5)


def test_what_published_contexts_do(module: Any, run: Callable[..., Any]) -> None:
    """A class is filled with a number; an address that is patched says where it lies; a memset is cut by its size."""
    x = np.arange(1, 9, dtype=bfloat16)
    given = (x.copy(), np.zeros(8, np.float32))
    assert run("", "patched", (1, 1), *given, module=module).tolist() == [7, 8, 0, 0, 0, 0, 0, 0]
    assert run("", "patched", (1, 1), *given, fetch=1, module=module).tolist() == [3, 3, 0, 0, 0, 0, 0, 0]


@pytest.mark.parametrize("own", ["", "typedef int vshort;", "__device__ int f(int vshort, int) { return vshort; }"])
def test_vectors_at_the_top(own: str, run: Callable[..., Any]) -> None:
    """With <tops.h> they need no namespace, and give way to what a program calls so; an array's address is memory."""
    text = f"""
#include <tops.h>
{own}
__global__ void twice(int *from, int *to, size_t n) {{
    tops_dte_ctx_t ctx;
    tops::dte_scope scope(ctx);
    __valigned__ int buffer[128];
    tops::mdspan here(tops::Private, &buffer, 128);
    for (size_t i = 0; i < n; i += 128) {{
        tops::memcpy(ctx, here, tops::mdspan(tops::Global, from + i, 128));
        for (size_t j = 0; j < 128; j += tops::vlength<vint>()) {{
            const auto &v = tops::vload<vint>(buffer + j);
            tops::vstore(tops::vadd<vint>(v, v), buffer + j);
        }}
        tops::memcpy(ctx, tops::mdspan(tops::Global, to + i, 128), here);
    }}
}}
"""
    x = np.arange(256, dtype=np.int32)
    options = EmulatorOptions(strict=True) if not own else None
    assert np.array_equal(run(text, "twice", (1, 1), x, np.zeros_like(x), 256, fetch=1, options=options), x * 2)


def test_registers_compile(module: Any, run: Callable[..., Any]) -> None:
    """What intrinsics give goes into any type and computes; the first one that is reached is a fault."""
    with pytest.raises(LaunchFailure, match=r"vectors.tops:75.*called __dtu_s_movsr2targ"):
        run("", "registers", (1, 1), np.zeros(1, np.int32), module=module)


def test_an_assertion_with_a_text(run: Callable[..., Any]) -> None:
    """op_assert tells what it is given to say, and its format is checked; a program's own goes first."""
    text = """#include <krt/builtins.h>
__global__ void f(int *x) {
    op_assert(x[0] < 3, "x is %d, half of it %g\\n", x[0], __fp16(x[0] / 2.0f));
    x[1] = 5;
}"""
    assert run(text, "f", (1, 1), np.zeros(2, np.int32)).tolist() == [0, 5]
    with pytest.raises(KernelAssert, match=r"kernel f at test\.tops:3: assertion `x is 7, half of it 3\.5` failed"):
        run(text, "f", (1, 1), np.full(2, 7, np.int32))
    own = text.replace("__global__", "__device__ void op_assert(bool c, const char *, int, __fp16) {}\n__global__")
    assert run(own, "f", (1, 1), np.full(2, 7, np.int32)).tolist() == [7, 5]
    whole = text.replace("x is %d, half of it %g\\n\", x[0], __fp16(x[0] / 2.0f)", "x is %d\\n\", x[0]")
    with pytest.raises(KernelAssert, match=r"kernel f at test\.tops:3: assertion `x is 7` failed"):
        run(whole, "f", (1, 1), np.full(2, 7, np.int32))
    with pytest.raises(CompilationError, match=r"test\.tops:3:.*(?:%s|'char \*')"):
        k.compile_source(whole.replace("%d", "%s"), "test.tops", ["-Werror"])


def test_the_header_of_the_runtime_alone(run: Callable[..., Any]) -> None:
    """It brings the names of published kernels, and std::string."""
    text = """#include <tops/tops_runtime.h>
    int letters(std::string text) { return int(text.size()); }
    __global__ void f(int *x) {
        tops::vstore(tops::vadd(tops::vload<vint>(x), tops::vbroadcast<vint>(letters("four"))), x);
    }"""
    assert run(text, "f", (1, 1), np.arange(32, dtype=np.int32)).tolist() == list(range(4, 36))
