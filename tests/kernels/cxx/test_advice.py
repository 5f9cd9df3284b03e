"""What the compiler says of wrong calls, at their lines, and where a fault is told that has no line of its own."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from atops import kernels as k
from atops.base.errors import AtopsError, CompilationError, LaunchFailure
from atops.device.native.toolchain import find_toolchain

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
    topsMallocManaged(&d, 8);
}
"""


def test_a_transfer_that_its_scope_does_not_wait_for(run: Callable[..., Any]) -> None:
    """The fault is at the scope's line, not in a header; attributes of functions make no variables of them."""
    program = k.compile_source(KERNEL, "f.tops")
    log = str(program.log)
    says = "format specifies type 'int'" if find_toolchain().clang else "format '%d' expects argument of type 'int'"
    assert "f.tops:7:" in log and says in log
    assert log.count("warning: ") == 1, log
    with pytest.raises(AtopsError, match=r"kernel f at f\.tops:8: destroy on a DTE context .* issued at f\.tops:10"):
        run("", "f", (1, 1), np.zeros(4, np.int32), module=program.module())


@pytest.mark.usefixtures("each_compiler")
def test_calls_that_do_not_fit() -> None:
    """The kernel's parameters, and the name that is meant."""
    with pytest.raises(CompilationError) as caught:
        k.compile_source(CALLS, "calls.tops")
    said = str(caught.value)
    fits = "error: the arguments of the launch do not fit the parameters of the kernel, which are (int*)"
    for line, wanted in ((7, fits), (8, fits), (9, "topsHostMalloc"), (10, "topsHostFree"), (11, "no managed memory")):
        assert any(f"calls.tops:{line}:" in each and wanted in each for each in said.splitlines()), said
    assert "calls.tops:6:" not in said, said


CANDIDATES = """#include <tops.h>
__global__ void f(int *x) {
    tops_dte_ctx_t c;
    tops::event e, g;
    tops::memcpy(c, tops::mdspan(x, 4), tops::mdspan(x, 4));
}
"""
CALL = "tops::memcpy(c, tops::mdspan(x, 4), tops::mdspan(x, 4))"


def test_arguments_that_the_compiler_counts() -> None:
    """The place of a call, which each function takes, is none of them; an event is waited for by itself."""
    more = "one of type 'int'" if find_toolchain().clang else r"'3' \(type 'int'\)"
    for given, says in {
        CALL[:-1] + ", 3, 4, 5)": "f.tops:5:.* candidate expects up to 3 arguments, 6 provided",
        CALL[:-1] + ", 3)": f"f.tops:5:.* takes no argument more, and is given {more}",
        "tops::wait(e, g)": "f.tops:5:.* takes one event: call it for each",
    }.items():
        with pytest.raises(CompilationError, match=f"(?s){says}"):
            k.compile_source(CANDIDATES.replace(CALL, given), "f.tops")


def test_what_is_wrong_behind_the_text_has_a_line_of_it() -> None:
    """The brace that nothing closes, the line that includes a header, or else the last one."""
    kernel = "__global__ void f(int *x) { x[0] = 1; }\n"
    for text, line in {f"\nnamespace a {{\n{kernel}": 2, f"{kernel}void g() {{\n#include <tops.h>\n}}\n": 3,
                       f"{kernel}struct S {{}}\n": 2}.items():  # fmt: skip
        with pytest.raises(CompilationError, match=rf"^f.tops:{line}:\d+: error: "):
            k.compile_source(text, "f.tops")


USES = """#include <tcle.h>
using namespace tops;
template <class V> __device__ void inner(float *x) {
    tcle::leaptr<V> p(x);
    p.template load<3>();
}
__global__ void f(float *x) {
    vfloat a = vzero<vfloat>();
    auto h = tcle::cvt<vhalf>(a);
    inner<vfloat>(x);
}
__global__ void g(float *x) {}
"""


@pytest.mark.usefixtures("each_compiler")
def test_what_headers_refuse_is_told_where_they_are_used() -> None:
    """Each, in the innermost line of the text."""
    with pytest.raises(CompilationError) as caught:
        k.compile_source(USES, "uses.tops")
    said = [each for each in str(caught.value).splitlines() if "error:" in each]
    assert [each.partition(":")[2].partition(":")[0] for each in said] == ["5", "9"], said
    assert said[0].endswith("error: static assertion failed: the leaptr has fewer strides")
    assert said[1].endswith("error: static assertion failed: a conversion keeps the number of lanes")


def test_types_that_do_not_fit_are_those_of_the_text() -> None:
    """Both vectors are whole, and a half has its name."""
    text = "__global__ void f(float *x) {\n  __vector4 float v(1.0f); __vector4 int w = v;\n"
    text += "  __fp16 h = \"a\";\n  __bf16 *p = x;\n}\n"
    with pytest.raises(CompilationError) as caught:
        k.compile_source(text, "f.tops")
    said = [each for each in str(caught.value).splitlines() if "error:" in each]
    assert "'__vector4 float'" in said[0] and "'__vector4 int'" in said[0] and "'__fp16'" in said[1], said
    assert re.search(r"'float ?\*'", said[2]) and re.search(r"'__bf16 ?\*'", said[2]) and "aka" not in said[2], said


def test_a_function_that_is_always_inlined() -> None:
    """Published ones say so without `inline`: no warning."""
    text = "__device__ __attribute__((always_inline)) int two() { return 2; }\n"
    text += "__global__ void f(int *x) { x[0] = tops::min(two(), 3) + tops::max(1.5f, 2); }\n"
    assert not k.compile_source(text, "f.tops").log.entries


def test_templates_of_kernels_only() -> None:
    """They are no kernels: a warning says how to make one."""
    text = "template <class T> __global__ void scale(T *x) { x[0] = 1; }\n"
    said = str(k.compile_source(text, "f.tops").log)
    assert "f.tops:1:" in said and "templates of kernels only (scale): instantiate one" in said
    assert not k.compile_source(text + "template __global__ void scale<float>(float *);\n", "f.tops").log.entries


def test_formats_that_halves_do_not_fit(run: Callable[..., Any], capfd: pytest.CaptureFixture[str]) -> None:
    """The compiler checks no format with a half among its arguments: the kernel does."""
    text = "#include <tops.h>\n__global__ void f(int *x) {\n    tops::half h(2.5f);\n"
    text += '    if (x[0]) printf("%f %*d %s\\n", h, 4, 7, h);\n'
    text += '    else printf("%%%-6.*f|%g|%4d\\n", 1, h, 1.5, 7);\n}\n'
    module = k.compile_source(text, "f.tops").module()
    run("", "f", (1, 1), np.zeros(1, np.int32), module=module)
    assert capfd.readouterr().out == "%2.5   |1.5|   7\n"
    with pytest.raises(LaunchFailure, match=r"f\.tops:4: printf: argument 4 is a floating number, .* a pointer"):
        run("", "f", (1, 1), np.ones(1, np.int32), module=module)


def test_a_number_is_no_address_of_an_mdspan() -> None:
    """The error is at the call, and says what goes first."""
    text = "#include <tops.h>\n__global__ void f(float *x) {\n    tops::mdspan m(x[0], 4);\n"
    text += "    tops::mdspan n(tops::Global, 4, x);\n}\n"
    with pytest.raises(CompilationError) as caught:
        k.compile_source(text, "f.tops")
    said = [each for each in str(caught.value).splitlines() if "error:" in each]
    assert [each.split(": ")[0].rpartition(":")[0] for each in said] == ["f.tops:3", "f.tops:4"], said
    assert all("error: mdspan takes an address, and the extents behind it" in each for each in said), said


def test_a_kernel_and_functions_of_one_name(run: Callable[..., Any]) -> None:
    """Each is called as what it is; host code launches the kernel."""
    text = "namespace a {\nstruct V { int v; };\n__device__ int one() { return 1; }\n"
    text += "__device__ void f(int a, float *x) { x[0] = a; }\n"
    text += "__global__ void f(float *x, __fp16 *y = nullptr, V v = {2}) {\n"
    text += "  f(__LINE__ + one(), x); x[1] = v.v; }\n}\n__constant__ int c[1] = {1};\n"
    text += "__device__ float f(float a) { return rsqrtf(a); }\n__global__ void f(float *x) { x[0] = f(0.25f); }\n"
    text += "void host(float *x) { f<<<1, 1>>>(x); a::f<<<1, 1>>>(x); }\n"
    module = k.compile_source(text, "f.tops").module()
    x = np.zeros(2, np.float32)
    assert run("", "a::f", (1, 1), x, None, (7).to_bytes(4, "little"), module=module).tolist() == [7, 7]
    assert run("", "f", (1, 1), x, module=module).tolist() == [2, 0]


def test_printf_of_every_type(run: Callable[..., Any], capfd: pytest.CaptureFixture[str]) -> None:
    """Numbers of two bytes are printed as floats are; parts of words, texts, commas and 100 arguments as in C."""
    text = "#include <tops.h>\\n#include <tops/half.h>\\nenum E { ONE = 1 };\\nstruct B { unsigned a : 3, b : 5; };\\n"
    text += "template <class T, int N> __device__ T more(T a) { return a + N; }\\n"
    text = text.replace("\\n", "\n") + """#define LOG(format, ...) printf("%s " format "|", __func__, ##__VA_ARGS__)
    __global__ void f(int *x) {
        __fp16 h = 1.5f; __bf16 b = 2.5f; tops::half t(3.5f); tops::bfloat u(4.5f); B parts{1, 2}; char name[4] = "ab";
        printf("%.1f %.1f %.1f %.1f %d|", h, b, t, u, 7);
        printf("%u %u %s %d %c|", parts.a, parts.b, name, ONE, 'c'); LOG("none"); LOG("%d %s", 3, x[0] ? "a,b" : "c");
        printf("%d %u %d|", more<int, 3>(2), B{1, 2}.b, 7); printf("%.1f %d|", h, more<int, 3>(3));
        printf(""" + '"' + "%d " * 100 + '"' + ", " + ", ".join(map(str, range(100))) + ");\n    }\n"
    program = k.compile_source(text, "f.tops")
    assert not program.log.entries
    run("", "f", (1, 1), np.zeros(4, np.int32), module=program.module())
    said = capfd.readouterr().out
    assert said.startswith("1.5 2.5 3.5 4.5 7|1 2 ab 1 c|f none|f 3 c|5 2 7|1.5 6|0 1 2 ") and said.endswith(" 98 99 ")


def test_a_launch_of_too_many_threads(run: Callable[..., Any]) -> None:
    """It is told how a thread of C++ takes a share of the elements."""
    module = k.compile_source("__global__ void f(int *x) { x[threadIdx.x] = 1; }", "f.tops").module()
    with pytest.raises(AtopsError, match=r"12 at most: .*for \(int i = threadIdx\.x; i < n; i \+= blockDim\.x\)"):
        run("", "f", (1, 64), np.zeros(4, np.int32), module=module)
