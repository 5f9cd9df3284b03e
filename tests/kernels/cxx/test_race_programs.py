"""Programs with one race each, and their right twins: the detectors name the first and are silent for the second."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import atops
from atops import kernels as k
from atops.base.options import EmulatorOptions
from tests.every import every

# name: (wrong, right, the kind of the race). `x` and `y` have 256 numbers; a block has 12 threads.
PROGRAMS = {
    "win_overlap": (
        "tops_dte_ctx_t c; tops::dte_scope scope(c); int me = threadIdx.x; __local__ float t[8]; "
        "for (float &f:t) f=me; auto e=tops::deslice_async(c, tops::mdspan(x,8,8), "
        "tops::mdspan(t,4,2), {2,me%7}); tops::wait(e);",
        "tops_dte_ctx_t c; tops::dte_scope scope(c); int me = threadIdx.x; __local__ float t[8]; "
        "for (float &f:t) f=me; if (me<4) { auto e=tops::deslice_async(c, tops::mdspan(x,8,8), "
        "tops::mdspan(t,4,2), {2,me*2}); tops::wait(e);} ",
        "race in global memory",
    ),
    "two_copies": (
        "tops_dte_ctx_t c; tops::dte_scope scope(c); int me = threadIdx.x; __local__ float t[4]; "
        "for (float &f:t) f=me; tops::memcpy(c, tops::mdspan(x,4), tops::mdspan(t,4));",
        "tops_dte_ctx_t c; tops::dte_scope scope(c); int me = threadIdx.x; __local__ float t[4]; "
        "for (float &f:t) f=me; tops::memcpy(c, tops::mdspan(x+4*me,4), tops::mdspan(t,4));",
        "race in global memory",
    ),
    "histogram": (
        "int me = threadIdx.x; for (int i=me;i<64;i+=12) x[64 + int(y[i])%5] += 1;",
        "int me = threadIdx.x; if(!me) for (int i=0;i<64;i+=1) x[64+int(y[i])%5] += 1;",
        "race in global memory",
    ),
    "scan": (
        "int me = threadIdx.x; __shared__ float a[2][12]; a[0][me]=me; __syncthreads(); int w=0; "
        "for(int s=1;s<12;s*=2){ a[1-w][me]=a[w][me]+(me>=s?a[w][me-s]:0); w=1-w; } "
        "x[me]=a[w][me];",
        "int me = threadIdx.x; __shared__ float a[2][12]; a[0][me]=me; __syncthreads(); int w=0; "
        "for(int s=1;s<12;s*=2){ a[1-w][me]=a[w][me]+(me>=s?a[w][me-s]:0); w=1-w; "
        "__syncthreads(); } x[me]=a[w][me];",
        "race in shared memory",
    ),
    "dyn_overlap": (
        "extern __shared__ float s[]; int me = threadIdx.x; float *p=s+me*3; for(int i=0;i<4;++i)"
        " p[i]=me; __syncthreads(); x[me]=p[0];",
        "extern __shared__ float s[]; int me = threadIdx.x; float *p=s+me*4; for(int i=0;i<4;++i)"
        " p[i]=me; __syncthreads(); x[me]=p[0];",
        "race in shared memory",
    ),
    "bf16": (
        "int me = threadIdx.x; __bf16 *h=(__bf16*)x; h[me/2]=__bf16(float(me));",
        "int me = threadIdx.x; __bf16 *h=(__bf16*)x; h[me]=__bf16(float(me));",
        "race in global memory",
    ),
    "shared_copy_early": (
        "tops_dte_ctx_t c; tops::dte_scope scope(c); int me = threadIdx.x; __shared__ float "
        "s[12]; s[me]=me; if(me==11) tops::memcpy(c, tops::mdspan(x,12), tops::mdspan(s,12));",
        "tops_dte_ctx_t c; tops::dte_scope scope(c); int me = threadIdx.x; __shared__ float "
        "s[12]; s[me]=me; __syncthreads(); if(me==11) tops::memcpy(c, tops::mdspan(x,12), "
        "tops::mdspan(s,12));",
        "race in shared memory",
    ),
    "overwrite_in_flight": (
        "tops_dte_ctx_t c; tops::dte_scope scope(c); int me = threadIdx.x; __shared__ float "
        "s[64]; tops::event e; if(me==0) e=tops::memcpy_async(c, tops::mdspan(s,64), "
        "tops::mdspan(y,64)); __syncthreads(); x[me]=s[me]; __syncthreads(); if(me==0) "
        "tops::wait(e);",
        "tops_dte_ctx_t c; tops::dte_scope scope(c); int me = threadIdx.x; __shared__ float "
        "s[64]; tops::event e; if(me==0) { e=tops::memcpy_async(c, tops::mdspan(s,64), "
        "tops::mdspan(y,64)); tops::wait(e);} __syncthreads(); x[me]=s[me];",
        "transfer in flight",
    ),
    "tree": (
        "__shared__ float s[16]; int me = threadIdx.x; s[me]=y[me]; if(me<4) s[12+me]=0; "
        "__syncthreads(); for(int h=8;h;h/=2) if(me<h) s[me]+=s[me+h]; if(!me) x[0]=s[0];",
        "__shared__ float s[16]; int me = threadIdx.x; s[me]=y[me]; if(me<4) s[12+me]=0; "
        "__syncthreads(); for(int h=8;h;h/=2) { if(me<h) s[me]+=s[me+h]; __syncthreads(); } "
        "if(!me) x[0]=s[0];",
        "race in shared memory",
    ),
    "neighbour": (
        "int me = threadIdx.x; x[me]=x[me+1];",
        "int me = threadIdx.x; float v=x[me+1]; __syncthreads(); x[me]=v;",
        "race in global memory",
    ),
    "vector_shared": (
        "int me = threadIdx.x; __shared__ float s[256]; if(me<2) *(__vector4 float*)(s+64*me) = "
        "(__vector4 float)(1.0f*me); x[me]=0;",
        "int me = threadIdx.x; __shared__ float s[256]; if(me<2) *(__vector4 float*)(s+128*me) = "
        "(__vector4 float)(1.0f*me); x[me]=0;",
        "race in shared memory",
    ),
    "atomic_plain": (
        "int me = threadIdx.x; if(me) __atomic_fetch_add((int*)x,1,__ATOMIC_RELAXED); else x[64]=*(int*)x;",
        "int me = threadIdx.x; __atomic_fetch_add((int*)x,1,__ATOMIC_RELAXED); __syncthreads(); "
        "if(!me) x[64]=*(int*)x;",
        "race in global memory",
    ),
    "loop_reuse": (
        "int me = threadIdx.x; __shared__ float s[12]; for(int r=0;r<3;++r){ s[me]=y[me+r]; "
        "__syncthreads(); x[me]+=s[(me+1)%12]; }",
        "int me = threadIdx.x; __shared__ float s[12]; for(int r=0;r<3;++r){ s[me]=y[me+r]; "
        "__syncthreads(); x[me]+=s[(me+1)%12]; __syncthreads(); }",
        "race in shared memory",
    ),
}
ADVICE = {  # of some of them
    "two_copies": "both store: the bytes overlap; give each thread bytes of its own",
    "overwrite_in_flight": "in the thread that issues it, with a barrier behind that",
    "neighbour": "meets itself: `__syncthreads()` between what all threads load there and what they store",
}
MODES: tuple[dict[str, Any], ...] = ({}, {"seed": 3}, {"dte": "eager"})

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def module() -> Any:
    """Return the compiled text."""
    return compiled()


def compiled() -> Any:
    """Compile all of them as one text."""
    kernels = (
        f"__global__ void {name}{side}(float *x, float *y) {{ {body} }}\n"
        for name, (wrong, right, _) in PROGRAMS.items()
        for side, body in (("", wrong), ("_twin", right))
    )
    return k.compile_source("#include <tops.h>\n" + "".join(kernels), "programs.tops").module()


def _report(module: Any, name: str, **options: Any) -> atops.Report:
    async def main() -> atops.Report:
        async with atops.Device(0).create_stream() as stream:
            x = stream.upload(np.zeros(256, np.float32))
            y = stream.upload(np.arange(256, dtype=np.float32))
            await stream.launch(module.function(name), (1, 12, 256 * name.startswith("dyn")), x, y)
            return atops.report()

    return atops.run(main, EmulatorOptions(detect=True, strict=False, **options))


@every("name", PROGRAMS)
def test_the_race_is_named_and_the_twin_is_clean(module: Any, name: str) -> None:
    """Whatever the order of turns, and whenever transfers take effect."""
    for options in MODES:
        races = _report(module, name, **options).races
        kinds = [each.kind for each in races]
        assert PROGRAMS[name][2] in kinds, (options, kinds)
        assert any(ADVICE.get(name, "") in each.advice for each in races), races
        report = _report(module, f"{name}_twin", **options)
        assert report.verdict == "clean", (options, str(report))


WAVE = """
__global__ void wave(int *x) {
    __shared__ int s[4];
    int me = threadIdx.x;
    for (int i = 0; i < 3; i++) {
        s[me] = me + i;
        __syncthreads();
        x[me] += s[3 - me];
        %s
    }
}
"""


def test_advice_for_a_loop_holds_when_it_is_followed() -> None:
    """A barrier behind the later line: the one between the two is there already, and not enough."""

    async def main(text: str) -> list[int]:
        module = k.compile_source(text, "wave.cpp").module()
        async with atops.Device(0).create_stream() as stream:
            x = stream.zeros(4, np.int32)
            stream.launch(module.function("wave"), (1, 4), x)
            return (await stream.fetch(x)).tolist()

    atops.run(main, EmulatorOptions(detect=True), WAVE % "")
    (race,) = atops.report().races
    assert "line 8 comes first here, and then line 6 once more: `__syncthreads()` behind line 8" in race.advice
    assert atops.run(main, EmulatorOptions(detect=True), WAVE % "__syncthreads();") == [12, 9, 6, 3]
    assert atops.report().verdict == "clean"
