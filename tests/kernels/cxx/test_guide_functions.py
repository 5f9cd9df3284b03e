"""The vector functions and the incremental configuration of the public guide, against numpy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from atops import kernels as k
from atops.base.errors import CompilationError

pytestmark = pytest.mark.slow  # the compiler is called

X = np.linspace(-3.5, 4.25, 32, dtype=np.float32)  # has halves, and 0
X[:4] = np.nan, np.inf, -np.inf, -0.0
Y = np.tile(np.array([2, -1.5, 0.25, -0.75], np.float32), 8)
I = np.arange(-16, 16, dtype=np.int32)  # noqa: E741  # the integers, as X and Y are the floats
J = np.tile(np.array([3, -5, 1, 7], np.int32), 8)


def wide(function: Any, *given: Any) -> Any:
    """Compute in double, and round once."""
    return function(*(each.astype(np.float64) for each in given)).astype(np.float32)


@np.errstate(all="ignore")
def of_floats() -> dict[str, Any]:
    """Return what each expression has to give."""
    return {
        "vasin(x)": wide(np.arcsin, X), "vacos(x)": wide(np.arccos, X), "vatan(x)": wide(np.arctan, X),
        "vsinh(x)": wide(np.sinh, X), "vcosh(x)": wide(np.cosh, X), "vasinh(x)": wide(np.arcsinh, X),
        "vacosh(x)": wide(np.arccosh, X), "vcbrt(x)": wide(np.cbrt, X), "vtrunc(x)": np.trunc(X),
        "vrint(x)": np.rint(X), "vexpm1(x)": wide(np.expm1, X), "vexp2(x)": wide(np.exp2, X),
        "vlog1p(x)": wide(np.log1p, X),
        "vlog2(x)": wide(np.log2, X), "vlog10(x)": wide(np.log10, X), "vsign(x)": np.sign(X),
        "vlogb(y)": np.floor(np.log2(np.abs(Y))), "vatan2(x, y)": wide(np.arctan2, X, Y),
        "vpower(x, y)": wide(np.power, X, Y), "vdim(x, y)": np.where(np.isnan(X), X, np.where(X > Y, X - Y, 0)),
        "vhypot(x, y)": wide(np.hypot, X, Y), "vcopysign(x, y)": np.copysign(X, Y), "vmod(x, y)": np.mod(X, Y),
        "vrem(x, y)": np.fmod(X, Y), "vselect(vlt<vbool16_t>(x, y), x, y)": np.where(X < Y, X, Y),
        "vselect(visnan(x), y, x)": np.where(np.isnan(X), Y, X),
        "vselect(visfinite(x), x, y)": np.where(np.isfinite(X), X, Y),
        "vadd(y, vbroadcast(2.5f))": Y + np.float32(2.5), "vbitcast<vfloat>(vnot(vnot(vbitcast<vuint>(x))))": X,
        "typename scalar2vector<float>::type(x)": X, "vcast<vfloat>(vilogb(y))": np.floor(np.log2(np.abs(Y))),
    }  # fmt: skip


INTEGERS = {
    "vmod(i, j)": np.mod(I, J), "vrem(i, j)": np.fmod(I, J), "vsign(i)": np.sign(I), "vnot(i)": ~I,
    "vshl(i, s)": I << (np.abs(J) & 31), "vshr(i, s)": I >> np.abs(J), "vshr(i, vint(40))": np.where(I < 0, -1, 0),
    "vshl(i, vint(32))": 0 * I, "vbroadcast(7)": 0 * I + 7, "as_int": X.view(np.int32),
}  # fmt: skip


def test_each_is_what_numpy_gives(run: Callable[..., Any]) -> None:
    """Of float and int; those of floats are computed in double and rounded once."""
    expressions = of_floats()
    stores = "".join(f"vstore({each}, o + 32 * {row});\n" for row, each in enumerate(expressions))
    whole = "".join(f"vstore({each}, p + 32 * {row});\n" for row, each in enumerate(INTEGERS))
    text = f"""#include <tops.h>
using namespace tops;
__global__ void f(float *o, float *a, float *b) {{
  vfloat x = vload<vfloat>(a), y = vload<vfloat>(b);
  {stores}}}
__global__ void g(int *p, int *a, int *b, float *c) {{
  vint i = vload<vint>(a), j = vload<vint>(b), s = vabs(j), as_int = vbitcast(vload<vfloat>(c));
  {whole}}}
"""
    module = k.compile_source(text, "guide.tops").module()
    floats = run("", "f", (1, 1), np.zeros((len(expressions), 32), np.float32), X, Y, module=module)
    whole = run("", "g", (1, 1), np.zeros((len(INTEGERS), 32), np.int32), I, J, X, module=module)
    wrong = {}
    for found, expected in ((floats, expressions), (whole, INTEGERS)):
        for row, (name, right) in zip(found, expected.items(), strict=True):
            if not np.allclose(row, right, rtol=1.2e-7, atol=0, equal_nan=True):
                wrong[name] = row, right
    assert not wrong


MISSING = {
    "a / b": ("'__vector4 float' and '__vector4 float'", "; call div(a, b) or tops::vdiv(a, b)"),
    "c + a": ("'__vector4 int' and '__vector4 float'", "; both have to be of one type: convert one with tops::vcast"),
    "c << c": ("'__vector4 int' and '__vector4 int'", "; it is of unsigned elements: call tops::vshl(a, b)"),
}


@pytest.mark.parametrize("expression", MISSING)
def test_an_operator_that_vectors_have_not(expression: str) -> None:
    """The types are spelled as in the text, and what there is instead is named."""
    text = f"__global__ void f() {{ __vector4 float a, b; __vector4 int c; auto r = {expression}; }}\n"
    with pytest.raises(CompilationError) as failed:
        k.compile_source(text, "operators.tops")
    message = str(failed.value)
    assert all(each in message for each in MISSING[expression])
    assert "Anything" not in message and "Vector<" not in message


def test_a_context_is_configured_again_in_parts(run: Callable[..., Any]) -> None:
    """Sizes, layout and pad of what is configured change; lists of extents may have a name."""
    text = """#include <tops.h>
__global__ void f(int *o, int *x) {
  auto shape = {2, 3}, turned = {3, 2}, none = {0, 0};
  tops::private_dte c, p, s, m;
  tops::mdspan all(tops::Global, x, shape);
  c.config_transpose(tops::mdspan(o, shape), all, {0, 1});
  c.set_transpose_layout({1, 0});
  c.set_dst_dim_size(0, 3), c.set_dst_dim_size(1, 2);
  c.trigger_and_wait();
  p.config_pad(tops::mdspan(tops::Global, o + 6, 3, 3), all, none, none, none, 9);
  p.set_pad_config({1, 0}, {0, 0}, {0, 0});
  p.trigger_and_wait();
  s.config_slice(tops::mdspan(o + 15, 1, 3), all, none);
  s.set_src_dim_size(0, 1), s.set_src_offset(1, 1), s.set_dst_dim_size(1, 2);
  s.trigger_and_wait();
  m.config_memcpy(tops::mdspan(o + 17, turned), all, 4);
  m.trigger_and_wait();
}
"""
    x = np.arange(1, 7, dtype=np.int32).reshape(2, 3)
    found = run(text, "f", (1, 1), np.zeros(24, np.int32), x)
    right = [*x.T.ravel(), 9, 9, 9, *x.ravel(), 2, 3, 1, 2, 3, 4, 0, 0, 0]
    assert found.tolist() == right
