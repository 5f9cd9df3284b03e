"""What texts that were written elsewhere take for granted: their headers, own names, and names beside the text."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from atops import kernels as k
from atops.base.errors import LaunchFailure
from atops.device.native.toolchain import NAMED

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
extern "C" __global__ void closed(float *out) { acore::matmul<1, acore::MK_NK>(out, out, out, out, out, 4, 8); }
extern "C" __global__ void registers(int *out) {
  tar_t place = __dtu_s_movsr2targ(3);
  v64i8 rows[2] = {__dtu_s_tvld_itar(place), __dtu_s_tvld_itar(place)};
  out[0] = 1 - __dtu_srli_a(3, 31);
  rows[0] += __dtu_m_vldxda_dual_u32(rows[1]);
}
"""


@pytest.fixture(scope="module")
def module() -> Any:
    """Compile the vectors once."""
    return k.compile_source(VECTORS, "vectors.tops").module()


@pytest.mark.parametrize("command", ["g++", "clang++"])
def test_headers_of_folders(command: str, monkeypatch: pytest.MonkeyPatch, run: Callable[..., Any]) -> None:
    """They include each other by their folder, and from the folder above."""
    if shutil.which(command) is None:
        pytest.skip(f"needs {command}")
    monkeypatch.setenv(NAMED, command)
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
    with pytest.raises(LaunchFailure, match="acore::matmul with a layout or numbers"):
        run("", "closed", (1, 1), np.zeros(64, np.float32), module=module)


def test_registers_compile(module: Any, run: Callable[..., Any]) -> None:
    """What intrinsics give goes into any type and computes; the first one that is reached is a fault."""
    with pytest.raises(LaunchFailure, match=r"vectors.tops:33.*called __dtu_s_movsr2targ"):
        run("", "registers", (1, 1), np.zeros(1, np.int32), module=module)
