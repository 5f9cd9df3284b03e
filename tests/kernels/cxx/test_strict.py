"""Every access of a watched kernel is seen: bounds, what was never stored, races. Each wrong one has a right twin."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
import pytest

import atops
from atops import kernels as k
from atops.base.options import EmulatorOptions
from atops.device.native.toolchain import find_toolchain
from atops.errors import DataRace, DteError, LaunchFailure
from tests.every import every

CONTEXT = "tops_dte_ctx_t c; tops::dte_scope scope(c); "
ME = "int me = threadIdx.x; "
# name: (wrong, right, the kind of the race or part of the error). `x` has 64 numbers; blocks have 12 threads.
BOUNDS = {
    "past_global": ("x[53 + me] = 1;", "x[52 + me] = 1;", "stores 4 bytes, 4 past the end of <Allocation"),
    "far_past_global": ("x[me] = x[me + 69];", "x[me] = x[me + 12];", "reads 4 bytes, 24 past the end of <Alloc"),
    "before_global": ("x[me] = *(x - 1 - me);", "x[me] = *(x + me);", "reads 4 bytes, 4 before the beginning of"),
    "across_the_end": ("if (me == 0) *(double *)(x + 63) = 1;", "if (me == 0) *(double *)(x + 62) = 1;",
                       "stores 8 bytes, 4 past the end of"),
    "past_local": ("__local__ float t[8]; t[8] = 1; x[me] = 1;", "__local__ float t[8]; t[7] = 1; x[me] = 1;",
                   "stores 4 bytes, 4 past the end of the 32 bytes of local memory declared at strict.tops:"),
    "before_local": ("__local__ float u[32]; __local__ float t[8]; u[0] = t[0] = 1; t[-1 - me / 12] = 1;",
                     "__local__ float u[32]; __local__ float t[8]; u[0] = t[0] = 1; t[1 + me / 12] = 1;",
                     "of local memory declared at strict.tops:"),
    "past_local_by_and_by": ("__local__ float t[8]; for (int i = 0; i < 9; ++i) t[i] = 1; x[me] = 1;",
                             "__local__ float t[8]; for (int i = 0; i < 8; ++i) t[i] = 1; x[me] = 1;",
                             "stores 4 bytes, 4 past the end of the 32 bytes of local memory declared at strict.tops:"),
    "past_aligned": ("__local__ __valigned__ float s[4], t[8]; s[0] = t[8] = 1; x[me] = 1;",
                     "__local__ __valigned__ float s[4], t[8]; s[0] = t[7] = 1; x[me] = 1;",
                     "stores 4 bytes, 4 past the end of the 544 bytes of local memory declared at strict.tops:"),
    "past_aligned_shared": ("__shared__ alignas(128) int s[11]; s[me] = 1;",
                            "alignas(128) __shared__ int s[12]; s[me] = 1;",
                            "stores 4 bytes, 4 past the end of the 44 bytes of shared memory declared at strict.tops:"),
    "constant": ("if (me) x[me] = ((int *)TABLE)[1]; else ((int *)TABLE)[1] = 1;", "x[me] = ((int *)TABLE)[1];",
                 "stores 4 bytes of the constant TABLE, which kernels only read"),
    "constant_by_dte": ("__local__ int t[4]; t[me % 4] = 1; tops::private_dte c; tops::mdspan to((int *)TABLE, 4);"
                        "if (me == 0) tops::memset(c, to, 1);",
                        "__local__ int t[4]; tops::private_dte c; tops::mdspan from(TABLE, 4);"
                        "tops::memcpy(c, tops::mdspan(t, 4), from); x[me] = t[0];",
                        "stores 16 bytes of the constant TABLE, which kernels only read"),
    "past_shared": ("__shared__ int s[11]; s[me] = 1;", "__shared__ int s[12]; s[me] = 1;",
                    "stores 4 bytes, 4 past the end of the 44 bytes of shared memory declared at strict.tops:"),
    "into_the_next": ("__shared__ int s[32]; __shared__ int t[32]; s[me] = t[me] = 0; s[32 + me] = 1;",
                      "__shared__ int s[32]; __shared__ int t[32]; s[me] = t[me] = 0; s[20 + me] = 1;",
                      "past the end of the 128 bytes of shared memory declared"),
    "past_dynamic": ("extern __shared__ int s[]; s[me + 5] = 1;", "extern __shared__ int s[]; s[me + 4] = me;",
                     "stores 4 bytes, 4 past the end of the 64 bytes of dynamic shared memory"),
    "stack_of_another": ("__shared__ Pointer s; int mine = me; if (me == 0) s.to = &mine; __syncthreads(); "
                         "x[me] = *s.to;", "__shared__ int s; int mine = me; if (me == 0) s = mine; __syncthreads(); "
                         "x[me] = s;",
                         "reads 4 bytes of what another thread has: a variable on the stack of thread (0,0,0)"),
    "local_of_another": ("__shared__ Pointer s; __local__ int t[4]; t[0] = 1; if (me == 0) s.to = t; "
                         "__syncthreads(); x[me] = *s.to;", "__shared__ Pointer s; __shared__ int t[4]; "
                         "if (me == 0) { t[0] = 1; s.to = t; } __syncthreads(); x[me] = *s.to;",
                         "local memory of thread (0,0,0) of block (0,0,0)"),
    "static_of_a_function": ("static int n = 0; n += 1; x[me] = n;", "static int n = y[0] + 1; x[me] = n;",
                             "stores 4 bytes of a variable of host code, which no kernel has: declare it __device__"),
    "global_of_the_host": ("host_total += 1;", "x[me] = host_total;",
                           "stores 4 bytes of a variable of host code"),
    "a_copy": ("float t[70]; memcpy(t, x, sizeof t); x[me] = t[0] * 0;",
               "float t[60]; if (me == 0) { memcpy(t, x, sizeof t); x[0] = t[0] * 0; }",
               "reads 280 bytes, 24 past the end of <Allocation"),
    "an_object": (f"{CONTEXT}__local__ float t[8]; tops::memcpy(c, tops::mdspan(t, 16), tops::mdspan(x, 16));",
                  f"{CONTEXT}__local__ float t[8]; tops::memcpy(c, tops::mdspan(t, 8), tops::mdspan(x, 8));",
                  "dst has 64 bytes, 32 past the end of the 32 bytes of local memory declared"),
    "a_vector": ("tops::vstore((__vector4 float)(0.0f), y);", f"{CONTEXT}__local__ float t[128]; "
                 "tops::vstore((__vector4 float)(float(me)), t); "
                 "tops::memcpy(c, tops::mdspan(x + me, 1), tops::mdspan(t + me, 1));",
                 "stores 512 bytes, 256 past the end of <Allocation"),
    "shared_of_no_size": ("extern __shared__ int s[]; x[me] = s[me];",
                          "extern __shared__ int s[]; x[me] = me < 12 ? me : s[me];",
                          "reads 4 bytes of dynamic shared memory, of which the launch gives none"),
    "past_malloc": ("volatile int *p = (int *)malloc(16); p[4 + int(y[0])] = 1; free((void *)p);",
                    "volatile int *p = (int *)malloc(16); p[3 + int(y[0])] = 1; free((void *)p); std::vector<int> v; "
                    "for (int i = 0; i < 9; ++i) v.push_back(i); std::string s(v[8] + 30, 'a'); s += \"longer\"; "
                    "x[me] = s[me];", "used a byte 1 past the end of a block of 16 bytes that malloc gave it"),
    "freed": ("volatile int *p = new int[4]; delete[] p; x[me] = p[1];",
              "volatile int *p = new int[4]; p[1] = 2; x[me] = p[1]; delete[] p;", "of 16 bytes that it had freed"),
    "spelled_out": ("float t[6] = {1}; if (me == 0) __builtin_memcpy(x + 60, t, 24);",
                    "float t[6] = {1}; if (me == 0) __builtin_memcpy(x + 58, t, 24); void *volatile none = 0; "
                    "size_t no = int(y[0]); memmove(x, none, no); memmove(none, x, no); memset(none, 0, no);",
                    "stores 24 bytes, 8 past the end"),
    "null": ("float *p = 0; x[me] = *p;", "x[me] = 0;", "read from a null pointer"),
    "wild": ("float *p = (float *)0x712345678000; x[me] = *p;", "x[me] = 0;", "where no memory of the kernel is"),
    "a_header": ("__vector4 float v = *(__vector4 float *)y; x[me] = v[64 + me];", "x[me] = 0;",
                 "reads 512 bytes, 256 past the end of <Allocation"),
}  # fmt: skip
HEAD = """#include <tops.h>
#include <stdlib.h>
#include <string>
#include <vector>
struct Pointer { int *to; };
__device__ __noinline__ void put(float *x, int place) {
    x[place] = threadIdx.x;
}
int host_total = 7;
__constant__ int TABLE[4] = {1, 2, 3, 4};
"""
HAND_OVER = "__shared__ int s[12]; s[me] = me; {} x[me] = s[11 - me];"
COUNTED = "__shared__ tte::barrier<SIP> b(12); __shared__ int s[12]; s[me] = me; {} x[me] = s[11 - me];"
TRANSFER = "__local__ float t[64]; auto e = tops::memcpy_async(c, tops::mdspan(t, 64), tops::mdspan(y, 64)); "
HALF = ("__local__ float t[64]; for (float &f : t) f = 1; "
        "auto e = tops::memcpy_async(c, tops::mdspan(t + 32, 32), tops::mdspan(y, 32));")
SHARED_TILE = "__shared__ float s[64]; if (me == 0) tops::memcpy(c, tops::mdspan(s, 64), tops::mdspan(y, 64)); "
RACES = {
    "no_barrier": (HAND_OVER.format(""), HAND_OVER.format("__syncthreads();"), "race in shared memory"),
    "no_second_barrier": (HAND_OVER.format("__syncthreads();") + " s[me] = 0;",
                          HAND_OVER.format("__syncthreads();") + " __syncthreads(); s[me] = 0;",
                          "race in shared memory"),
    "no_wait": (COUNTED.format("b.arrive();") + " b.wait();", COUNTED.format("b.arrive_and_wait();"),
                "race in shared memory"),
    "lost_update": ("x[0] += 1;", "x[me] += 1;", "race in global memory"),
    "different_values": ("x[0] = me;", "x[0] = 3;", "race in global memory"),
    "one_element": ("x[me] = me; x[me + 1] = 5;", "x[me] = me; __syncthreads(); if (me == 0) x[12] = 5;",
                    "race in global memory"),
    "bytes": ("((char *)x)[me / 2] = me;", "((char *)x)[me] = me;", "race in global memory"),
    "halves": ("((short *)x)[11 - me] = me; x[me] = 0;", "((short *)x)[11 - me] = me;", "race in global memory"),
    "read_of_a_tile": (f"{CONTEXT}{SHARED_TILE} x[me] = s[me];",
                       f"{CONTEXT}{SHARED_TILE} __syncthreads(); x[me] = s[me];",
                       "race in shared memory"),
    "too_early": (f"{CONTEXT}{TRANSFER} x[me] = t[me]; tops::wait(e);",
                  f"{CONTEXT}{TRANSFER} tops::wait(e); x[me] = t[me];",
                  "transfer in flight"),
    "the_half_in_flight": (f"{CONTEXT}{HALF} x[me] = t[32 + me]; tops::wait(e);",
                           f"{CONTEXT}{HALF} x[me] = t[me]; tops::wait(e); x[me] = t[32 + me];", "transfer in flight"),
    "into_the_source": (f"{CONTEXT}__local__ float t[64]; for (float &f : t) f = 1; "
                        "auto e = tops::memcpy_async(c, tops::mdspan(x + 0 * me, 1), tops::mdspan(t, 1)); t[0] = 2; "
                        "tops::wait(e);",
                        f"{CONTEXT}__local__ float t[64]; for (float &f : t) f = 1; if (me) return; "
                        "auto e = tops::memcpy_async(c, tops::mdspan(x, 1), tops::mdspan(t, 1)); t[1] = 2; "
                        "tops::wait(e); t[0] = 2;", "transfer in flight"),
    "never_waited": ("tops_dte_ctx_t c; c.init(); " + TRANSFER + "x[me] = 0; (void)e;",
                     f"{CONTEXT}{TRANSFER} x[me] = 0; tops::wait(e);", "transfer never waited for"),
    "one_context": ("__shared__ tops_dte_ctx_t c; __local__ float t[64]; if (me == 0) c.init(); __syncthreads(); "
                    "tops::memcpy(c, tops::mdspan(t, 64), tops::mdspan(y, 64)); x[me] = t[me];",
                    "__shared__ tops_dte_ctx_t c; __local__ float t[64]; if (me == 0) c.init(); __syncthreads(); "
                    "if (me == 0) tops::memcpy(c, tops::mdspan(t, 64), tops::mdspan(y, 64)); else t[me] = 0; "
                    "x[me] = t[me]; if (me == 0) c.destroy();", "one DTE context, no order"),
    "unwritten_local": ("__local__ int t[4]; t[0] = 1; x[me] = t[1];", "__local__ int t[4]; t[1] = 1; x[me] = t[1];",
                        "read of unwritten memory"),
    "unwritten_shared": ("__shared__ int s[24]; s[me] = 1; __syncthreads(); x[me] = s[12 + me];",
                         "__shared__ int s[24]; s[12 + me] = 1; __syncthreads(); x[me] = s[12 + me];",
                         "read of unwritten memory"),
    "unwritten_by_transfer": (f"{CONTEXT}__local__ float t[8]; t[0] = 1; tops::memcpy(c, tops::mdspan(x + 4 * me, 4), "
                              "tops::mdspan(t, 4));", f"{CONTEXT}__local__ float t[8]; t[0] = 1; "
                              "tops::memcpy(c, tops::mdspan(x + 4 * me, 1), tops::mdspan(t, 1));",
                              "read of unwritten memory"),
    "in_a_function": ("put(x, 0);", "put(x, me);", "race in global memory"),
    "in_a_header": ("__vector float v(me); if (me < 12) *(__vector float *)y = v;",
                    "__vector float v(1.0f); if (me == 0) *(__vector float *)y = v;",
                    "race in global memory"),
}  # fmt: skip
RIGHT = {  # no alarm
    "a_flag": "__shared__ int flag, what; if (me == 11) __atomic_store_n(&flag, 0, __ATOMIC_RELEASE); __syncthreads(); "
              "if (me == 11) { what = 7; __atomic_store_n(&flag, 1, __ATOMIC_RELEASE); } "
              "else while (!__atomic_load_n(&flag, __ATOMIC_ACQUIRE)); x[me] = what;",
    "constructed": "__shared__ tte::barrier<SIP> b(12); struct P { int a = 3, b = 4; }; __shared__ P p; "
                   "b.arrive_and_wait(); x[me] = p.a + p.b;",
    "padding": "struct P { char a; int b; }; __local__ P p, q; p.a = 1; p.b = 2; q = p; x[me] = q.b;",
    "tables": "static const int table[] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8}; x[me] = table[me];",
    "atomics": "__atomic_fetch_add((int *)x, 1, __ATOMIC_RELAXED);",
    "released": "__shared__ int f, v; if (me == 0) { f = 0; } __syncthreads(); if (me == 0) { v = 7; "
                "__atomic_store_n(&f, 1, __ATOMIC_RELEASE); } if (__atomic_load_n(&f, __ATOMIC_ACQUIRE)) x[me] = v;",
    "printed": 'printf("%d %s\\n", me, "text"); x[me] = 0;',
    "waited_by_another": "__shared__ tops_dte_ctx_t c; __shared__ tops::event e; __shared__ float s[12]; "
                         "if (me == 0) { c.init(); "
                         "e = tops::memcpy_async(c, tops::mdspan(s, 12), tops::mdspan(y, 12)); } "
                         "__syncthreads(); if (me == 5) tops::wait(e); __syncthreads(); x[me] = s[me]; "
                         "if (me == 0) c.destroy();",
    "columns": f"{CONTEXT}__local__ float t[4]; for (float &f : t) f = me; if (me < 8) tops::deslice(c, "
               "tops::mdspan(x, 8, 8), tops::mdspan(t, 4, 1), {2, me});",
}  # fmt: skip


NEWS = {  # in a text without strings: (wrong, right, part of the error)
    "past_new": ("P *volatile p = new P; x[me] = p[1].a; delete p;",
                 "P *volatile p = new P; p->a = 1; x[me] = p->a; delete p;",
                 "used a byte 1 past the end of a block of 8 bytes"),
    "deleted": ("P *volatile p = new P; delete p; x[me] = p->b;", "P *volatile p = new P; p->b = 1; delete p;",
                "used a block of 8 bytes that it had freed"),
    "past_a_vector": ("std::vector<int> v(8); v[8 + me] = 1;", "std::vector<int> v(8); v.push_back(1); v[8] = 2;",
                      "past the end of a block of 32 bytes"),
    "past_an_aligned": ("A *volatile p = new A; x[me] = p[1].a[0]; delete p;",
                        "A *volatile p = new A[2]; p[1].a[0] = 1; x[me] = p[1].a[0]; delete[] p; std::map<int, int> m; "
                        "m[3] = 4; auto s = std::make_shared<P>(); s->b = m[3];",
                        "used a byte 1 past the end of a block of 64 bytes"),
}  # fmt: skip
NEW_HEAD = """#include <map>
#include <memory>
#include <vector>
struct P { int a, b; };
struct alignas(64) A { int a[16]; };
"""


NEVER = "DTE context that it initialised here was never destroyed{}; call destroy(), or use dte_scope"
KEPT = {  # contexts that are never destroyed, and what is said; "" of those that may be kept
    "kept": ("tops_dte_ctx_t c; c.init();", f"a private {NEVER.format(' (nor were 11 more of its block)')}"),
    "kept_by_a_function": ("if (me == 7) keep(3), keep(0);", f"a private {NEVER.format('')}"),
    "kept_of_a_block": ("__shared__ tops_dte_ctx_t c; if (me == 2) c.init();", f"a shared {NEVER.format('')}"),
    "not_kept": ("tops::private_dte c; c.init(); tops_dte_ctx_t d; { tops::dte_scope s(d); } d.init(); d.destroy();",
                 ""),
}
AGAIN = "init of a private DTE context a second time; the first was at strict.tops:{line}, destroy() it before"
KEPT["again"] = ("tops_dte_ctx_t c; tops::dte_scope s(c); c.init();", AGAIN)
KEEP = "__device__ void keep(int n) { tops_dte_ctx_t c; tops_init_dte(&c); if (n) return; tops_destroy_dte(&c); }\n"


def _source() -> str:
    """One text with all of them: `name` is wrong, `name_twin` right."""
    made = [HEAD]
    for name, (wrong, right, _) in (BOUNDS | RACES).items():
        for each, body in ((name, wrong), (f"{name}_twin", right)):
            made.append(f"__global__ void {each}(float *x, float *y) {{ {ME}{body} }}\n")
    more = RIGHT | {name: body for name, (body, _) in KEPT.items()}
    made += [KEEP, *(f"__global__ void {name}(float *x, float *y) {{ {ME}{body} }}\n" for name, body in more.items())]
    return "".join(made)


@pytest.fixture(scope="module")
def module() -> Any:
    """Return the compiled text."""
    return compiled()


def compiled() -> Any:
    """Compile all of them."""
    return k.compile_source(_source(), "strict.tops").module()


def _run(module: Any, name: str, **options: Any) -> atops.Report:
    async def main() -> atops.Report:
        async with atops.Device(0).create_stream() as stream:
            x, y = stream.upload(np.zeros(64, np.float32)), stream.upload(np.zeros(64, np.float32))
            await stream.launch(module.function(name), (1, 12, 64 * ("dynamic" in name)), x, y)
            return atops.report()

    return atops.run(main, EmulatorOptions(**options))


pytestmark = pytest.mark.slow


@every("name", BOUNDS)
def test_an_access_out_of_bounds_is_named(module: Any, name: str) -> None:
    """The launch fails, with the line, the object and by how much; the twin runs, and is clean."""
    with pytest.raises(LaunchFailure) as caught:
        _run(module, name, detect=True, strict=False)
    said = str(caught.value)
    assert BOUNDS[name][2] in said and "strict.tops:" in said and f"of kernel {name}" in said, said
    _run(module, f"{name}_twin", strict=True)


def test_a_thread_keeps_its_turn_in_a_critical_section() -> None:
    """However long it goes on: another one that came to the mutex meanwhile would wait for ever."""
    text = """#include <mutex>
std::mutex shut;
__global__ void add(int *x, int n) {
    for (int i = 0; i < n; ++i) { std::lock_guard<std::mutex> held(shut); x[0] = x[0] + 1; x[1 + threadIdx.x] = x[0]; }
}"""
    module = k.compile_source(text, "shut.tops").module()

    async def main() -> int:
        async with atops.Device(0).create_stream() as stream:
            x = stream.zeros(8, np.int32)
            stream.launch(module.function("add"), (1, 4), x, 20_000)
            return int((await stream.fetch(x))[0])

    assert atops.run(main, EmulatorOptions(detect=True, strict=False)) == 80_000


def test_memory_of_new_has_bounds() -> None:
    """That of one object and of containers, too; the twins are clean."""
    rows = {f"{name}{twin}": row[at] for name, row in NEWS.items() for at, twin in enumerate(("", "_twin"))}
    kernels = "".join(f"__global__ void {name}(float *x, float *y) {{ {ME}{body} }}\n" for name, body in rows.items())
    module = k.compile_source(NEW_HEAD + kernels, "strict.tops").module()
    for name, (*_, said) in NEWS.items():
        if not find_toolchain().zig:  # its C++ library is a part of the module, and may use memory of its own
            with pytest.raises(LaunchFailure, match=said):
                _run(module, name, detect=True, strict=False)
        assert _run(module, f"{name}_twin", strict=True).verdict == "clean"


@every("name", RACES)
def test_a_race_is_named_with_both_lines(module: Any, name: str) -> None:
    """In the report; in strict mode the launch fails with it; the twin is clean."""
    races = _run(module, name, detect=True, strict=False).races
    assert RACES[name][2] in [each.kind for each in races], races
    race = next(each for each in races if each.kind == RACES[name][2])
    # Where a transfer was never waited for, there is no line on which that was left out.
    for side in (race.first, race.second)[: 1 if race.kind == "transfer never waited for" else 2]:
        assert side.site is not None and side.site.path.endswith("strict.tops"), side
    with pytest.raises(DataRace, match=RACES[name][2]):
        _run(module, name, strict=True)
    report = _run(module, f"{name}_twin", strict=True)
    assert report.verdict == "clean", str(report)


ACROSS = """
__cooperative__ __global__ void together(float *x) {
    int me = blockIdx.x * blockDim.x + threadIdx.x;
    x[me] = me;
    __syncthreads(); BARRIER
    if (me == 0) for (int i = 0; i < 24; ++i) x[24] += x[i];
}
__global__ void apart(float *x) { x[threadIdx.x + 12 * PLACE] = blockIdx.x; }
"""


@pytest.mark.parametrize("workers", [1, 2])
def test_races_between_blocks(module: Any, workers: int) -> None:
    """On one OS thread or two: of a cooperative launch without its barrier, and of any other that shares bytes."""

    async def reports(text: str) -> list[atops.Report]:
        found = []
        made = k.compile_source(text, "across.tops").module()
        for name in ("together", "apart"):
            async with atops.Driver(EmulatorOptions(detect=True, strict=False, workers=workers)) as driver:
                async with driver.device(0).create_stream() as stream:
                    x = stream.zeros(64, np.float32)
                    await stream.launch(made.function(name), (2, 12), x, cooperative=name == "together")
                found.append(driver.report())
        return found

    wrong = asyncio.run(reports(ACROSS.replace("BARRIER", "").replace("PLACE", "0")))
    for report, lines in zip(wrong, ((4, 6), (8, 8)), strict=True):
        races = [each for each in report.races if each.kind == "race in global memory"]
        assert [(each.first.site.line, each.second.site.line) for each in races] == [lines], report
        assert {each.thread[0] for each in (races[0].first, races[0].second)} == {0, 1}
    right = asyncio.run(reports(ACROSS.replace("BARRIER", "__syncblocks();").replace("PLACE", "blockIdx.x")))
    assert [each.verdict for each in right] == ["clean"] * 2, right


@every("name", RIGHT)
def test_what_is_right_is_clean(module: Any, name: str) -> None:
    """No alarm in strict mode."""
    report = _run(module, name, strict=True)
    assert report.verdict == "clean", str(report)


@every("name", KEPT)
def test_a_context_that_is_never_destroyed(module: Any, name: str) -> None:
    """Strict mode ends the launch at the line where it was initialised, or is again; detectors alone say nothing."""
    said = KEPT[name][1]
    assert _run(module, name, detect=True, strict=False).verdict == "clean"
    if not said:
        assert _run(module, name, strict=True).verdict == "clean"
        return
    with pytest.raises(DteError) as caught:
        _run(module, name, strict=True)
    line = _source()[: _source().index("keep(int" if "function" in name else f" {name}(")].count("\n") + 1
    assert f"of kernel {name} at strict.tops:{line}: {said.format(line=line)}" in str(caught.value), caught.value


def test_a_schedule_shows_a_race_again(module: Any) -> None:
    """`atops.check` names it, and the schedule that it gives repeats it; the twin passes."""

    def program(name: str) -> Callable[[], Awaitable[None]]:
        async def main() -> None:
            async with atops.Device(0).create_stream() as stream:
                x = stream.zeros(64, np.float32)
                await stream.launch(module.function(name), (1, 12), x, x)

        return main

    options = EmulatorOptions(detect=True, strict=False)
    report = atops.check(program("no_barrier"), options=options)
    assert report.verdict == "failed" and report.failure is not None and report.failure.kind == "race", report
    assert atops.check(program("no_barrier_twin"), 100, options=options).verdict == "explored 100"
