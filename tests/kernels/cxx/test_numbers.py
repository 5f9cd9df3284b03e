"""Arithmetic of the half and bf16 types: with their own type, and with every other number."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from atops import kernels as k
from atops.base.errors import CompilationError
from atops.base.options import EmulatorOptions

pytestmark = pytest.mark.slow  # the compiler is called for each

ARITHMETIC = """
#include <tops.h>
template <class T, class U> constexpr bool same = std::is_same_v<T, U>;
template <class T> __device__ int wrong() {
    T a(2.5f), b(0.75f), c = a;
    static_assert(same<decltype(a + b), T> && same<decltype(a * b), T>);
    static_assert(same<decltype(a + 1.0f), float> && same<decltype(2 * a), float> && same<decltype(a / 2.0), double>);
    int bad = 0;
    auto wants = [&](double found, double wanted) { bad += found != wanted; };
    wants(a + b, 3.25), wants(a - b, 1.75), wants(a * b, 1.875), wants(b / a, float(T(0.3f)));
    wants(a + 1.0f, 3.5), wants(1.0f + a, 3.5), wants(a - 1.0f, 1.5), wants(4.0f / a, 1.6f), wants(a + 1.0, 3.5);
    wants(a * 2, 5), wants(2 * a, 5), wants(a / 2, 1.25), wants(3L - a, 0.5), wants(a * 2u, 5), wants(a + true, 3.5);
    wants(c++, 2.5), wants(c, 3.5), wants(++c, 4.5), wants(c--, 4.5), wants(c, 3.5), wants(--c, 2.5);
    c += 1, wants(c, 3.5), c -= 0.5, wants(c, 3), c *= a, wants(c, 7.5), c /= 2.0f, wants(c, 3.75);
    T more = a * 2 + b * 0.5f, most = -a;
    wants(more, 5.375), wants(most, -2.5), wants(a < 3 && a >= b && a != 1.0f && 2.0 < a, 1);
    return bad;
}
template <class T> __device__ int wrong_limits(double most, double least, double step) {
    using Limits = std::numeric_limits<T>;
    using Float = std::numeric_limits<float>;
    static_assert(Limits::is_specialized && Limits::is_signed && !Limits::is_integer && !Limits::is_modulo);
    static_assert(Limits::has_denorm == Float::has_denorm && Limits::has_signaling_NaN && Limits::has_quiet_NaN);
    static_assert(Limits::round_style == Float::round_style && std::is_same_v<decltype(Limits::round_error()), T>);
    static_assert(std::numeric_limits<const T>::digits == Limits::digits);
    constexpr int counts[] = {Limits::digits, Limits::digits10, Limits::max_digits10, Limits::max_exponent,
                              Limits::min_exponent, Limits::max_exponent10, Limits::min_exponent10};
    constexpr int of_half[] = {11, 3, 5, 16, -13, 4, -4}, of_brain[] = {8, 2, 4, 128, -125, 38, -37};
    constexpr T top = Limits::max();
    return (top != most) + (Limits::lowest() != -most) + (Limits::min() != least) + (Limits::epsilon() != step) +
           (Limits::infinity() != INFINITY) + (Limits::denorm_min() <= 0) +
           (Limits::quiet_NaN() == Limits::quiet_NaN()) + (Limits::signaling_NaN() == Limits::signaling_NaN()) +
           (Limits::round_error() != 0.5f) + (ldexp(1.0, Limits::min_exponent - 1) != least) +
           (memcmp(counts, most < 1e5 ? of_half : of_brain, sizeof counts) != 0);
}
constexpr __fp16 three = 1.5f, six = three + three;
static_assert(six == 3 && -six < 0 && std::is_same_v<decltype(max(three, six)), __fp16> && max(six, 4) == 4.0f);
constexpr tops::bfloat rounded(1.00390625f), squared = rounded * tops::bfloat(2);
static_assert(rounded == 1 && squared == 2 && tops::min(rounded, squared) == 1 && min(2.5, rounded) == 1);
__global__ void limits(int *x) {
    x[0] = wrong_limits<__fp16>(65504, 0x1p-14, 0x1p-10);
    x[1] = wrong_limits<tops::half>(65504, 0x1p-14, 0x1p-10);
    x[2] = wrong_limits<__bf16>(0x1.FEp127, 0x1p-126, 0x1p-7);
    x[3] = wrong_limits<tops::bfloat>(0x1.FEp127, 0x1p-126, 0x1p-7);
}
__global__ void arithmetic(int *x) {
    x[0] = wrong<__fp16>(), x[1] = wrong<__bf16>(), x[2] = wrong<tops::half>(), x[3] = wrong<tops::bfloat>();
    __fp16 tiny(1.0f);
    tiny += 0.0004885f;  // more than half a step of one: rounded once, with the sum
    x[4] = tiny == 1.0f;
    x[5] = tops::half(1.5f) + __fp16(1.5f) != 3;
}
"""


@pytest.mark.usefixtures("each_compiler")
def test_arithmetic(run: Callable[..., Any]) -> None:
    """Values, types (two of one keep it, with another number it is as with a float), and `std::numeric_limits`."""
    module = k.compile_source(ARITHMETIC, "arithmetic.tops").module()
    assert run("", "arithmetic", (1, 1), np.full(6, 9, np.int32), module=module).tolist() == [0] * 6
    assert run("", "limits", (1, 1), np.full(4, 9, np.int32), module=module).tolist() == [0] * 4


CONDITIONAL = """
#include <tops/half.h>
#include <algorithm>
#define SELECT(c, a, b) ((c) ? (a) : (b))
template <typename T, int N = 2> __device__ T pick(bool c, T x) { return c ? 0 : x; }
template <typename T> __device__ float clip(T x) {
    return x > T(3) ? 3.0f : x < 0 ? T(0)
        : x;
}
__global__ void f(float *x, bool yes) {
    __fp16 a = 1.5f, ab[2] = {1, 2}; __bf16 b = 2.5f; tops::half c = 3; const __fp16 d = 0.1f;
    x[0] = yes ? a : 0, x[1] = yes ? 0.f : b, x[2] = yes ? x[0] > 1 ? a : 2.0f : 3;
    x[3] = SELECT(yes, a, 1.0) + SELECT(yes, 2, c), x[4] = std::max(yes ? a : 2.f, yes ? 1.f : a);
    x[5] = pick<__fp16>(yes, a) + pick<float>(false, 2) + pick<__bf16, 3>(false, b) +
           (yes ? pick<__fp16, 3>(false, 4) : 9);
    x[6] = clip(a) + clip(c + c) + clip(-2.5f) + clip(tops::bfloat(-1));
    (yes ? ab[0] : ab[1]) = 7, x[7] = ab[0] * 10 + ab[1];
    x[8] = std::is_same_v<decltype(yes ? a : 1), float> +
           2 * std::is_same_v<std::decay_t<decltype(yes ? a : d)>, __fp16> +
           4 * std::is_same_v<decltype(yes ? a : b), float> + 8 * std::is_same_v<decltype(yes ? 1.0 : c), double>;
    x[9] = yes ? d : 0;
    x[10] = yes ? (x[0] > 1 ? a : 2.0) : b, x[11] = yes ? std::fabs(x[0] > 1 ? a : -2.0) : a;
    x[12] = yes ? x[0] > 1 ? a : 2.0 : b, x[13] = SELECT(yes, SELECT(!yes, a, 2.0), b);
}
"""


def test_conditionals(each_compiler: str, run: Callable[..., Any]) -> None:
    """A half beside another number is a float; of two of one type nothing changes. A mistake is told at its place."""
    module = k.compile_source(CONDITIONAL, "conditional.tops").module()
    tenth = np.float32(np.float16(0.1))
    for options in (None, EmulatorOptions(detect=True)):
        for yes, wanted in ((1, [1.5, 0, 1.5, 3.5, 1.5, 0 + 2 + 2.5 + 4, 1.5 + 3 + 0 + 0, 72, 15, tenth, 1.5, 1.5, 1.5,
                             2]),
                            (0, [0, 2.5, 3, 4, 2, 1.5 + 2 + 2.5 + 9, 1.5 + 3 + 0 + 0, 17, 15, 0, 2.5, 1.5, 2.5,
                             2.5])):  # fmt: skip
            found = run("", "f", (1, 1), np.zeros(14, np.float32), yes, module=module, options=options)
            assert found.tolist() == wanted
    with pytest.raises(CompilationError, match=r"^c.tops:3:5: error: .*'y'"):
        k.compile_source("__global__ void f(__fp16 *x) {\n  x[0] = x[1] > 0 ? x[1] : 0;\n    y = 3;\n}\n", "c.tops")
    left_alone = ["h ?: 1.0f", "yes ? ({ __fp16 z = h; z; }) : 1.0f"]
    if each_compiler == "g++":  # clang++ takes statements in an argument of a template
        left_alone.append("yes ? h : float(({ int z = 1; z; }))")
    for left in left_alone:
        with pytest.raises(CompilationError) as caught:
            k.compile_source(f"__global__ void f(float *x, bool yes, __fp16 h) {{\n  x[0] = {left};\n}}\n", "c.tops")
        assert re.search(r"^c.tops:2:.* error: .*(?:different types|ambiguous)", str(caught.value))
        assert "arm" not in str(caught.value)
