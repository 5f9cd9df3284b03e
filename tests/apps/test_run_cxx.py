"""`atops run PROGRAM.cpp`: host code in C++ runs as on the chip's machine, in a process of its own."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from atops.bridge.declarations import Function
from atops.tops.header.functions import FUNCTIONS
from tests.apps.test_run import atops_run, python
from tests.runtime.child import environment

EXAMPLES = Path(__file__).parents[2] / "examples" / "cxx"
HEADERS = ("tops/tops_runtime.h", "tops/topsrtc.h", "cstdio", "cstdlib", "thread", "vector", "atomic")
HEAD = "".join(f"#include <{each}>\n" for each in HEADERS)
KERNELS = """
extern __shared__ float page[];
__global__ void turn(float *x, int n) {
    page[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = page[n - 1 - threadIdx.x];
}
__global__ __cooperative__ void meet(int *x) { __syncblocks(); if (blockIdx.x == 1 && threadIdx.x == 0) x[0] = 5; }
__global__ void wild(int *x) { *reinterpret_cast<int *>(16) = 1; }
__global__ void hello() { if (threadIdx.x == 0) printf("hello from block %d\\n", blockIdx.x); }
__device__ int counter = 40;
__constant__ float factor = 1;
__global__ void store(unsigned *w, unsigned value) { w[0] = value; }
__global__ void count() { if (threadIdx.x == 0) counter += 1; }
template <class T> __global__ void stored(T *x, T v) { x[threadIdx.x] = v; }
__global__ void mixed(int *x, char c, double d) { x[0] = c + int(d); }
__global__ void which(int *x) { x[0] = 1; }
__global__ void which(float *x) { x[0] = 2; }
template <class T> __global__ void twice(T *x) { x[0] *= 2; }
template <class T> void twice_by_pointer(T *d) { auto kernel = twice<T>; kernel<<<1, 1>>>(d); }
template <class T> __global__ __cooperative__ void met(T *x) { __syncblocks(); if (blockIdx.x == 1) x[0] += 5; }
template <class T> void met_by_pointer(T *d) { auto kernel = met<T>; kernel<<<2, 1>>>(d); }
void of_the_host(int *x) { x[0] = 42; }
template <class K> void one_of(K hello, int *d) { hello<<<1, 1>>>(d); }
template <class T> void two_of(T *d) {
    auto hello = twice<T>; hello<<<1, 1>>>(d);
    { auto turn = hello; turn<<<1, 1>>>(d); }
}
void three_of(void (*hello)(int *), int *d) { void (*turn)(int *) = hello; turn<<<1, 1>>>(d); hello<<<1, 1>>>(d); }
struct Ops { void (*hello)(int *) = which; void go(int *d) { hello<<<1, 1>>>(d); } };
void four_of(int *d) {
    auto f = [hello = twice<int>](int *d) { hello<<<1, 1>>>(d); };
    for (auto hello : {twice<int>, twice<int>}) hello<<<1, 1>>>(d);
    f(d), hello<<<1, 1>>>();
}
namespace inner { template <class T, int N = 2> __global__ void plus(T *x, T v) { x[threadIdx.x] += v * N; } }
template <class T> const void *address_of() { return reinterpret_cast<const void *>(&inner::plus<T, 1 + 2>); }
template <class T> void added(T *d, T v) {
    void *given[] = {&d, &v}; auto two = inner::plus<T>;
    const void *table[] = {(void *)inner::plus<T, 10>, address_of<T>()};
    topsLaunchKernel(two, 1, 1, given); topsLaunchKernel(inner::plus<T, 1>, 1, 1, given);
    for (auto each : table) topsLaunchKernel(each, dim3(1), dim3(1), given, 0, 0);
    topsLaunchCooperativeKernel((const void *)met<T>, 2, 1, given, 0, 0);
    topsFuncAttributes a; printf("%s ", topsGetErrorName(topsFuncGetAttributes(&a, table[0])));
}
template <void (*kernel)(unsigned *, unsigned)> void constant(unsigned *d) { kernel<<<1, 1>>>(d, 1); }
struct Pair { int left; double right; };
__global__ void by_value(double *x, Pair given, const char *none) { x[0] = given.left + given.right + (none ? 1 : 0); }
"""
PROGRAMS = {  # what main does, what comes out, and the exit code
    "pointers to kernels": (
        """unsigned *d, h[5] = {}; topsMalloc(&d, sizeof h); auto first = stored<unsigned>;
        void (*table[])(unsigned *, unsigned) = {first, store}; struct { void (*run)(unsigned *, unsigned); } op{store};
        auto launch = [&](auto kernel, unsigned *at, int value) { kernel<<<1, 1>>>(at, value); };
        table[0]<<<1, 2>>>(d + 3, 4u); (*table)<<<1, 1>>>(d + 4, 5); op.run<<<dim3(1), 1>>>(d + 1, 2);
        launch(store, d + 2, 3); constant<store>(d);
        topsMemcpy(h, d, sizeof h, topsMemcpyDeviceToHost); printf("%u%u%u%u%u\\n", h[0], h[1], h[2], h[3], h[4]);
        twice_by_pointer(d + 4); twice_by_pointer(d + 4);
        topsMemcpy(h, d + 4, 4, topsMemcpyDeviceToHost); printf("%u\\n", h[0]);
        met_by_pointer(d + 4); topsMemcpy(h, d + 4, 4, topsMemcpyDeviceToHost); printf("%u\\n", h[0]);
        auto none = reinterpret_cast<void (*)(int *)>(&printf); none<<<1, 1>>>(nullptr);
        puts(topsGetErrorName(topsGetLastError()));
        none = of_the_host; none<<<1, 1>>>((int *)d); puts(topsGetErrorName(topsGetLastError()));""",
        "12345\n20\n25\ntopsErrorInvalidDeviceFunction\ntopsErrorInvalidDeviceFunction\n", 0,
    ),
    "addresses of kernels that templates make": (
        """int h, *d; topsMalloc(&d, sizeof h); topsMemset(d, 0, 4); added(d, 4);
        topsMemcpy(&h, d, sizeof h, topsMemcpyDeviceToHost); printf("%d\\n", h); void *none[] = {&d};
        for (const void *wild : {(const void *)&h, (const void *)16, (const void *)of_the_host, (const void *)nullptr})
            puts(topsGetErrorName(topsLaunchKernel(wild, 1, 1, none)));
        topsFuncAttributes a; puts(topsGetErrorName(topsFuncGetAttributes(&a, (const void *)&h)));
        puts(topsGetErrorName(topsModuleLaunchKernel((topsFunction_t)16, 1, 1, 1, 1, 1, 1, 0, 0, none, 0)));
        void (*null)(int *) = nullptr; null<<<1, 1>>>(d); puts(topsGetErrorName(topsGetLastError()));""",
        f"topsSuccess {4 * (2 + 1 + 10 + 3) + 5}\n" + "topsErrorInvalidDeviceFunction\n" * 5
        + "topsErrorInvalidHandle\ntopsErrorInvalidDeviceFunction\n", 0,
    ),
    "variables that are called as a kernel is": (
        """int h, *d; topsMalloc(&d, sizeof h); Ops().go(d); three_of(twice<int>, d); two_of(d); one_of(twice<int>, d);
        four_of(d); topsMemcpy(&h, d, sizeof h, topsMemcpyDeviceToHost); printf("%d\\n", h);""",
        "hello from block 0\n256\n", 0,
    ),
    "kernels of one name": (
        """float h, *d; topsMalloc(&d, sizeof h); which<<<1, 1>>>(d);
        topsMemcpy(&h, d, sizeof h, topsMemcpyDeviceToHost); printf("%g\\n", h);""", "2\n", 0,
    ),
    "arguments": ("printf(\"%d %s %s\\n\", argc, argv[1], argv[2]); return 7;", "4 one two\n", 7),
    "host threads": (
        """std::atomic<int> right{0}; std::vector<std::thread> all;
        for (int t = 0; t < 4; ++t) all.emplace_back([&] {
            float h[12], *d; for (int i = 0; i < 12; ++i) h[i] = i;
            topsStream_t s; topsStreamCreate(&s); topsMalloc(&d, sizeof h);
            topsMemcpyAsync(d, h, sizeof h, topsMemcpyHostToDevice, s);
            turn<<<1, 12, sizeof h, s>>>(d, 12);
            topsMemcpyAsync(h, d, sizeof h, topsMemcpyDeviceToHost, s);
            topsStreamSynchronize(s); topsFree(d); right += h[0] == 11 && h[11] == 0; });
        for (auto &each : all) each.join();
        printf("%d\\n", int(right));""", "4\n", 0,
    ),
    "printing": ("hello<<<2, 12>>>(); topsDeviceSynchronize(); puts(\"after\");", r"hello.*\nhello.*\nafter\n", 0),
    "errors": (
        """float *d; printf("%s\\n", topsGetErrorName(topsMalloc(&d, size_t(1) << 50)));
        turn<<<1, 400>>>(d, 1);
        printf("%s\\n", topsGetErrorName(topsPeekAtLastError()));
        printf("%s\\n", topsGetErrorName(topsGetLastError()));
        printf("%s\\n", topsGetErrorName(topsGetLastError()));""",
        "topsErrorOutOfMemory\ntopsErrorInvalidConfiguration\ntopsErrorInvalidConfiguration\ntopsSuccess\n", 0,
    ),
    "a kernel that faults": (
        """int *x; topsMalloc(&x, 4); wild<<<1, 1>>>(x);
        printf("%s\\n", topsGetErrorName(topsDeviceSynchronize()));""", "topsError(?!.*Success).*\n", 0,
    ),
    "launches that no chip takes": (
        """int *d = nullptr; turn<<<dim3(1, 300, 1), 1>>>((float *)d, 1); puts(topsGetErrorString(topsGetLastError()));
        turn<<<1, 64>>>((float *)d, 1); puts(topsGetErrorString(topsPeekAtLastError()));
        puts(topsGetErrorString(topsGetLastError())); puts(topsGetErrorString(topsErrorInvalidValue));""",
        r".*: turn: grid.y is 300; .* has 256 at most\n(.*: blockDim must be .* got \(64, 1, 1\)\n){2}.*: An .*\n", 0,
    ),
    "copies that leave their memory": (
        """char *x, many[99] = {}; topsMalloc(&x, 64);
        puts(topsGetErrorString(topsMemcpy(x, many, 99, topsMemcpyHostToDevice)));
        puts(topsGetErrorString(topsMemcpy(many, x + 60, 8, topsMemcpyDeviceToHost)));
        puts(topsGetErrorName(topsMemset(x, 0, 65)));
        puts(topsGetErrorName(topsMemcpy(many, x, 64, topsMemcpyDeviceToHost)));""",
        r".*: 99 bytes at offset 0 are 35 past the end of <Allocation .*>.*\n"
        r".*: 8 bytes at offset 60 are 4 past the end of <Allocation .*>.*\n"
        r"topsErrorInvalidValue\ntopsSuccess\n", 0,
    ),
    "memory that main has allocated": (
        "int *x, many[9] = {}; topsMalloc(&x, 4); puts(topsGetErrorString(topsMemcpyHtoD(x, many, 36)));",
        r".*<Allocation .*: 4 bytes at .*, allocated at program\.cpp:\d+ in main>.*\n", 0,
    ),
    "a wait for a value that a kernel stores": (
        """topsStream_t s, t; topsStreamCreate(&s); topsStreamCreate(&t);
        unsigned *w; topsMalloc(&w, 8); topsMemset(w, 0, 8); topsDeviceSynchronize();
        topsStreamWaitValue32Async(w, 7, 0, s); store<<<1, 1, 0, t>>>(w, 7u);
        printf("%s\\n", topsGetErrorName(topsStreamSynchronize(s)));""", "topsSuccess\n", 0,
    ),
    "symbols by their names": (
        """int more = 2, h; topsMemcpyToSymbol(counter, &more, sizeof more); count<<<1, 1>>>();
        topsMemcpyFromSymbol(&h, counter, sizeof h); float f = 4; topsMemcpyToSymbol(factor, &f, sizeof f);
        topsMemcpyFromSymbol(&f, factor, sizeof f); printf("%d %g\\n", h, f);""", "3 4\n", 0,
    ),
    "sizes and ends of symbols": (
        """size_t n; void *at; int h[2] = {}; printf("%d ", topsGetSymbolSize(&n, counter)); printf("%zu ", n);
        printf("%s ", topsGetErrorName(topsMemcpyToSymbol(counter, h, 8)));
        printf("%s ", topsGetErrorName(topsGetSymbolAddress(&at, h)));
        printf("%s\\n", topsGetErrorName(topsGetSymbolSize(&n, nullptr)));""",
        "0 4 topsErrorInvalidValue topsErrorInvalidSymbol topsErrorInvalidSymbol\n", 0,
    ),
    "cooperative": (
        """int *x, h = 0; topsMalloc(&x, 4); meet<<<2, 12>>>(x); topsMemcpy(&h, x, 4, topsMemcpyDeviceToHost);
        printf("%d\\n", h);""", "5\n", 0,
    ),
    "variables": (
        """int h = 0; count<<<2, 12>>>(); count<<<1, 1>>>(); topsMemcpyFromSymbol(&h, &counter, 4); printf("%d\\n", h);
        void *at; topsGetSymbolAddress(&at, &counter); h = 7; topsMemcpy(at, &h, 4, topsMemcpyHostToDevice);
        topsMemcpyFromSymbol(&h, &counter, 4); printf("%d\\n", h);""", "43\n7\n", 0,
    ),
    "structs and null": (
        """double *x, h; topsMalloc(&x, 8); by_value<<<1, 1>>>(x, {3, 0.5}, nullptr);
        by_value<<<1, 1>>>(x, Pair{4, 0.25}, 0);
        topsMemcpy(&h, x, 8, topsMemcpyDeviceToHost); printf("%g\\n", h);""", "4.25\n", 0,
    ),
    "the board": (
        """topsDeviceProp_t p; topsGetDeviceProperties(&p, 0); int n, v; topsGetDeviceCount(&n);
        char name[64]; topsDeviceGetName(name, sizeof name, 0); topsDeviceGetAttribute(&v, topsDeviceAttribute_t(0), 0);
        printf("%d %s %s %d\\n", n, p.gcuArchName, name, p.maxThreadsPerBlock);""", r"1 .*gcu300.* 12\n", 0,
    ),
    "pinned memory": (
        """float *h, *d; topsHostMalloc(&h, 48); for (int i = 0; i < 12; ++i) h[i] = i; topsMalloc(&d, 48);
        topsMemcpyAsync(d, h, 48, topsMemcpyHostToDevice, 0); turn<<<1, 12, 48>>>(d, 12);
        topsMemcpyAsync(h, d, 48, topsMemcpyDeviceToHost, 0); topsStreamSynchronize(0);
        printf("%g %g\\n", h[0], h[11]); topsHostFree(h); topsFree(d);""", "11 0\n", 0,
    ),
    "mapped memory": (
        """float *h, *d; topsHostMalloc(&h, 48, topsHostMallocMapped); for (int i = 0; i < 12; ++i) h[i] = i;
        topsHostGetDevicePointer((void **)&d, h, 0); turn<<<1, 12, 48>>>(d, 12); topsDeviceSynchronize();
        printf("%g %g\\n", h[0], h[11]); topsMemcpy(h, d + 11, 4, topsMemcpyDefault); printf("%g\\n", h[0]);""",
        "11 0\n0\n", 0,
    ),
    "launches by the pointers to their arguments": (
        """int *i, h[2]; char c = 'A'; double d = 2, *w, v; Pair p = {3, 0.5}; const char *none = nullptr;
        topsMalloc(&i, 8); topsMalloc(&w, 8);
        void *one[] = {&i, &c, &d}, *two[] = {&w, &p, &none}, *three[] = {&i};
        topsLaunchKernel(reinterpret_cast<const void *>(&mixed), 1, 1, one, 0, 0);
        topsMemcpy(h, i, 4, topsMemcpyDeviceToHost); printf("%d ", h[0]);
        topsLaunchKernel(by_value, dim3(1), dim3(1), two); topsMemcpy(&v, w, 8, topsMemcpyDeviceToHost);
        topsLaunchCooperativeKernel(meet, 2, 12, three); topsMemcpy(h, i, 4, topsMemcpyDeviceToHost);
        unsigned u = 9; void *four[] = {&i, &u}; topsLaunchKernel((const void *)stored<unsigned>, 1, 1, four);
        topsMemcpy(h + 1, i, 4, topsMemcpyDeviceToHost); topsFuncAttributes a; topsFuncGetAttributes(&a, meet);
        printf("%g %d %d %d ", v, h[0], h[1], a.maxThreadsPerBlock);
        printf("%s\\n", topsGetErrorName(topsLaunchKernel((const void *)0, 1, 1, one, 0, 0)));""",
        "67 3.5 5 9 12 topsErrorInvalidDeviceFunction\n", 0,
    ),
    "a text that is compiled as it runs": (
        """auto compiled = [&](const char *text, const char *name, const char *called) {
            topsrtcProgram made; topsrtcCreateProgram(&made, text, name, 0, nullptr, nullptr);
            topsrtcAddNameExpression(made, called);
            size_t size; int code = topsrtcCompileProgram(made, 0, nullptr); topsrtcGetProgramLogSize(made, &size);
            std::vector<char> log(size); topsrtcGetProgramLog(made, log.data());
            printf("%s %.20s\\n", topsrtcGetErrorString(topsrtcResult(code)), log.data());
            topsFunction_t found = nullptr; topsModule_t module; const char *lowered;
            if (code) return found;
            topsrtcGetLoweredName(made, called, &lowered); topsrtcGetCodeSize(made, &size);
            std::vector<char> image(size); topsrtcGetCode(made, image.data());
            topsModuleLoadDataEx(&module, image.data(), 0, nullptr, nullptr);
            topsModuleGetFunction(&found, module, lowered);
            topsrtcDestroyProgram(&made); printf("%d ", made == nullptr);
            return found; };
        compiled("__global__ void f( {}", "wrong.tops", "f");
        double *w, v = 0.5, h; topsMalloc(&w, 8); void *one[] = {&w, &v};
        auto add = compiled("template <class T> __global__ void add(T *y, T v){ y[0] += v; }", "add.cu", "add<double>");
        topsMemset(w, 0, 8); topsModuleLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, nullptr, one, nullptr);
        struct { double *w; double v; } packed = {w, 2}; size_t size = sizeof packed;
        void *extra[] = {TOPS_LAUNCH_PARAM_BUFFER_POINTER, &packed, TOPS_LAUNCH_PARAM_BUFFER_SIZE, &size,
                         TOPS_LAUNCH_PARAM_END};
        topsModuleLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, extra);
        topsMemcpy(&h, w, 8, topsMemcpyDeviceToHost); printf("%g\\n", h);
        auto twice = compiled("from atops import kernels as k\\nimport numpy as np\\n@k.kernel\\n"
                              "def twice(x: k.Span[np.float64], by: np.int32): x[0] *= by\\n", "twice.py", "twice");
        int by = 3; void *three[] = {&w, &by}; topsLaunchCooperativeKernel(twice, 1, 1, three, 0, nullptr);
        topsMemcpy(&h, w, 8, topsMemcpyDeviceToHost); printf("%g\\n", h);""",
        "TOPSRTC_ERROR_COMPILATION wrong.tops:1:17: err\nTOPSRTC_SUCCESS \n1 2.5\nTOPSRTC_SUCCESS \n1 7.5\n", 0,
    ),
}  # fmt: skip


@pytest.fixture(autouse=True)
def _compiler(compiler: None) -> None:
    pass


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with one program that is all of them, so that it is compiled once: its last argument chooses."""
    made = tmp_path_factory.mktemp("programs")
    cases = "".join(f"case {at}: {{ {body} break; }}\n" for at, (body, _, _) in enumerate(PROGRAMS.values()))
    main = f"int main(int argc, char **argv) {{ switch (atoi(argv[3])) {{ {cases} }} }}\n"
    (made / "program.cpp").write_text(f"{HEAD}{KERNELS}{main}")
    return made


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_runs(name: str, folder: Path) -> None:
    """Its output and its exit code are those of the program."""
    _, says, code = PROGRAMS[name]
    ended = atops_run("program.cpp", "one", "two", str(list(PROGRAMS).index(name)), cwd=folder)
    assert ended.returncode == code, ended.stderr
    assert re.fullmatch(says, ended.stdout), ended.stdout + ended.stderr


@pytest.mark.slow
def test_what_does_not_compile_is_told_in_its_own_lines(tmp_path: Path) -> None:
    """With exit code 1, as a compiler's; a header of the program's folder, too."""
    (tmp_path / "part.h").write_text("inline int twice(int x) { return 2 * y; }\n")
    (tmp_path / "wrong.cpp").write_text('#include "part.h"\nint main() { return twice(1); }\n')
    ended = atops_run("wrong.cpp", cwd=tmp_path)
    assert ended.returncode == 1
    assert "part.h:1:" in ended.stderr
    (tmp_path / "none.cpp").write_text("int man() { return 0; }\n")
    ended = atops_run("none.cpp", cwd=tmp_path)
    assert (ended.returncode, "has no main" in ended.stderr) == (1, True)
    (tmp_path / "broken.cpp").write_text("int main( { return 0; }\n")
    ended = atops_run("broken.cpp", cwd=tmp_path)
    told = "has no main" in ended.stderr, "broken.cpp:1:" in ended.stderr
    assert (ended.returncode, told) == (1, (False, True)), ended.stderr
    assert atops_run("absent.cpp", cwd=tmp_path).returncode == 2


@pytest.mark.slow
def test_a_crash_is_the_programs_own(tmp_path: Path) -> None:
    """The signal is named, and the exit code is what a shell makes of it."""
    (tmp_path / "crash.cpp").write_text("int main() { volatile int *p = nullptr; *p = 1; }\n")
    ended = atops_run("crash.cpp", cwd=tmp_path)
    assert ended.returncode == 128 + signal.SIGSEGV
    assert "crash.cpp was ended by SIGSEGV" in ended.stderr


@pytest.mark.slow
@pytest.mark.parametrize(("name", "says"), [
    ("runtime_compilation", "10000 values are right\n"),
    ("vector_add", "1000000 sums are right\n"),
    ("streams_and_events", "0 of 5000 are wrong; the callback was told topsSuccess\ntopsErrorInvalidConf.*\n"),
])  # fmt: skip
def test_the_examples_run(name: str, says: str, tmp_path: Path) -> None:
    """As they stand, from anywhere."""
    ended = atops_run(str(EXAMPLES / f"{name}.cpp"), cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert re.fullmatch(says, ended.stdout)


def test_most_functions_can_be_called_from_cxx() -> None:
    """Those whose arguments are numbers, texts, handles, structs and pointers to one of these."""
    from atops.tops.program.callbacks import supported

    refused = [function.name for function in FUNCTIONS.values() if not supported(function)]
    assert isinstance(next(iter(FUNCTIONS.values())), Function)
    assert len(FUNCTIONS) - len(refused) >= 145, refused


@pytest.mark.slow
def test_a_file_may_be_called_anything(tmp_path: Path) -> None:
    """Spaces, quotes and letters beyond ASCII; a launch with too many arguments is told in its line."""
    folder = tmp_path / "my dir ü"
    folder.mkdir()
    program = folder / 'a "prog" ñ.cpp'
    program.write_text(f"{HEAD}{KERNELS}int main() {{ puts(\"here\"); }}\n")
    run = atops_run(str(program), cwd=tmp_path)
    assert (run.returncode, run.stdout) == (0, "here\n"), run.stderr
    program.write_text(f"{HEAD}{KERNELS}int main() {{\n  count<<<1, 1>>>(5);\n}}\n")
    run = atops_run(str(program), cwd=tmp_path)
    line = f"{HEAD}{KERNELS}".count("\n") + 2
    assert run.returncode == 1 and f"ñ.cpp:{line}:" in run.stderr
    assert "error: the arguments of the launch do not fit the parameters of the kernel" in run.stderr


RACES = """
template <class T> __global__ void turn(T *x, int n) {
    __shared__ T s[12];
    s[threadIdx.x] = x[threadIdx.x];
    x[threadIdx.x] = s[n - 1 - threadIdx.x];
}
__global__ void outside(int *x) { x[12 + threadIdx.x] = 1; }
int main(int argc, char **) {
    int h[12] = {}, *x;
    topsMalloc(&x, sizeof h); topsMemcpy(x, h, sizeof h, topsMemcpyHostToDevice);
    std::thread([&] { turn<<<1, 12>>>(x, 12); }).join();
    printf("%s ", topsGetErrorName(topsDeviceSynchronize()));
    outside<<<1, 1>>>(x);
    topsError_t code = topsDeviceSynchronize();
    printf("%s %s\\n", topsGetErrorName(code), topsGetErrorString(code));
    if (argc > 1) exit(3);
}
"""


@pytest.mark.slow
def test_the_options_of_a_run_are_for_programs_in_cxx_too(tmp_path: Path) -> None:
    """Detectors, strict mode, and a trace that is written at the end, also where the program calls `exit`."""
    (tmp_path / "races.cpp").write_text(f"{HEAD}{RACES}")
    line = HEAD.count("\n")
    plain = atops_run("races.cpp", cwd=tmp_path)
    assert (plain.stdout.split()[:2], plain.stderr) == (["topsSuccess", "topsSuccess"], "")
    seen = atops_run("--detect", "races.cpp", cwd=tmp_path)
    assert "race in shared memory" in seen.stderr and f"line {line + 5} and line {line + 4}" in seen.stderr
    said = seen.stdout
    assert "topsSuccess topsErrorIllegalAddress topsErrorIllegalAddress: " in said
    assert f"races.cpp:{line + 7}: stores 4 bytes" in said
    assert atops_run("--strict", "races.cpp", cwd=tmp_path).stdout.startswith("topsErrorLaunchFailure")
    for arguments, code in ((("one",), 3), ((), 0)):
        traced = atops_run("--trace", "run.json", "--profile", "races.cpp", *arguments, cwd=tmp_path)
        assert traced.returncode == code and "device 0, null stream" in traced.stderr, traced.stderr
        names = {each.get("name") for each in json.loads((tmp_path / "run.json").read_text())["traceEvents"]}
        assert {"turn", "outside"} <= {str(each).split("<")[0] for each in names}, names
        (tmp_path / "run.json").unlink()
    assert atops_run("--trace", "none/run.json", "races.cpp", cwd=tmp_path).returncode == 2


REACHED = """
int main(int argc, char **) {
    float *h, *d; topsHostMalloc(&h, 48); for (int i = 0; i < 12; ++i) h[i] = i;
    turn<<<1, 12, 48>>>(h, 12); puts(topsGetErrorName(topsDeviceSynchronize()));
    topsSetDevice(1); topsMalloc(&d, 48); topsMemcpy(d, h, 48, topsMemcpyDefault); topsSetDevice(0);
    if (argc > 1) topsDeviceEnablePeerAccess(1, 0);
    turn<<<1, 12, 48>>>(d, 12); puts(topsGetErrorName(topsDeviceSynchronize()));
}
"""


@pytest.mark.slow
def test_watched_kernels_reach_what_the_device_does(tmp_path: Path) -> None:
    """Pinned memory, and that of a peer once access to it is enabled."""
    (tmp_path / "reach.cpp").write_text(HEAD + KERNELS + REACHED)
    for given, codes in ((("yes",), ["topsSuccess"] * 2), ((), ["topsSuccess", "topsErrorIllegalAddress"])):
        done = atops_run("--devices", "2", "--detect", "reach.cpp", *given, cwd=tmp_path)
        assert done.stdout.split() == codes, done.stderr


EARLY = """
__global__ void add(int *x) { x[threadIdx.x] += 1; }
static void later(int *x, topsStream_t stream) {
    add<<<1, 12, 0, stream>>>(x);
}
int main() {
    int *x;
    topsStream_t one, two;
    topsEvent_t event;
    topsMalloc(&x, 48); topsEventCreate(&event);
    topsStreamCreateWithFlags(&one, topsStreamNonBlocking); topsStreamCreateWithFlags(&two, topsStreamNonBlocking);
    topsEventRecord(event, one);
    topsMemsetAsync(x, 0, 48, one);
    topsStreamWaitEvent(two, event, 0);
    later(x, two);
    topsStreamSynchronize(one); topsStreamSynchronize(two);
}
"""


@pytest.mark.slow
def test_the_lines_of_calls_are_told(tmp_path: Path) -> None:
    """Of both sides of a race between streams, a launch in a function one of them, and of the wait between them."""
    (tmp_path / "early.cpp").write_text(f"{HEAD}{EARLY}")
    line = HEAD.count("\n")
    said = atops_run("--detect", "early.cpp", cwd=tmp_path).stderr
    assert f"one: fill writes, at early.cpp:{line + 13} in main" in said.replace("stream 1", "one"), said
    assert "launch of kernel add" in said and f"at early.cpp:{line + 4} in later" in said, said
    assert f"wait at line {line + 14} of early.cpp is for line {line + 12} of early.cpp" in said, said
    assert "`topsEventRecord(event, stream_1); topsStreamWaitEvent(stream_2, event, 0)`" in said, said
    assert "`topsStreamSynchronize(stream_1)` before" in said and "await" not in said, said


POINTERS = """
static int fixed[16];
__global__ void one(int *x) { x[0] = 1; }
__global__ void range(int *from, int *end, unsigned long number) { for (; from < end; ++from) *from = number != 0; }
#define TRY(...) { \\
    topsStream_t s; topsStreamCreate(&s); __VA_ARGS__; puts(topsGetErrorName(topsStreamSynchronize(s))); }
int main() {
    int local[16], *d, *p, *symbol, *heap = (int *)malloc(64), *given = local;
    void *arguments[] = {&given};
    topsMalloc(&d, 64); topsHostMalloc(&p, 64); topsGetSymbolAddress((void **)&symbol, counter);
    TRY(one<<<1, 1, 0, s>>>(fixed)) TRY(one<<<1, 1, 0, s>>>(local)) TRY(one<<<1, 1, 0, s>>>(heap))
    TRY((stored<int *><<<1, 1, 0, s>>>(nullptr, local)))
    TRY(topsLaunchKernel((const void *)one, dim3(1), dim3(1), arguments, 0, s))
    topsHostRegister(fixed, 64, 0);
    for (int *each : {d, p, fixed}) TRY(range<<<1, 1, 0, s>>>(each, each + 16, (unsigned long)local))
    TRY(one<<<1, 1, 0, s>>>(symbol))
    topsFree(d);
    TRY(range<<<1, 1, 0, s>>>(d, d, 0)) TRY(range<<<1, 1, 0, s>>>(nullptr, nullptr, 0))
    TRY(one<<<1, 1>>>(heap)) puts(topsGetErrorString(topsDeviceSynchronize()));
}
"""


@pytest.mark.slow
def test_pageable_host_memory_is_no_argument(tmp_path: Path) -> None:
    """A pointer to it is refused, in its stream; no number that looks like one, and nothing that a kernel may use."""
    (tmp_path / "pointers.cpp").write_text(HEAD + KERNELS + POINTERS)
    for options in ((), ("--detect",)):
        *codes, last, says = atops_run(*options, "pointers.cpp", cwd=tmp_path).stdout.splitlines()
        assert codes == ["topsErrorIllegalAddress"] * 5 + ["topsSuccess"] * 6, codes
        assert last == "topsSuccess"  # the stream of that turn, not of the launch
        assert re.search("kernel one: argument 1 is 0x[0-9a-f]+, an address of pageable host memory", says), says


REGISTERED = """
static int fixed[16], table[16];
__global__ void given(int *x, int *to) { if (threadIdx.x == 11) x[0] = 7; else to[threadIdx.x] = x[0]; }
__global__ void named(int *to) { if (threadIdx.x == 11) fixed[1] = 7; else to[threadIdx.x] = fixed[1] + table[1]; }
int main() {
    int *to; topsMalloc(&to, 64); topsHostRegister(fixed, 64, 0);
    given<<<1, 12>>>(fixed, to); topsDeviceSynchronize();
    named<<<1, 12>>>(to); topsDeviceSynchronize();
}
"""


@pytest.mark.slow
def test_loads_of_registered_variables_are_watched(tmp_path: Path) -> None:
    """Given as an argument, or named by the kernel; a load before a store of another thread races with it."""
    (tmp_path / "registered.cpp").write_text(HEAD + REGISTERED)
    said = atops_run("--detect", "registered.cpp", cwd=tmp_path).stderr
    for kernel, line in {"given": 3, "named": 4}.items():
        place = rf"at registered\.cpp:{HEAD.count(chr(10)) + line}"
        for does in ("loads", "stores"):
            assert re.search(rf"of kernel {kernel}: {does}, {place}", said), said


@pytest.mark.slow
def test_texts_of_folders_that_the_caller_names(tmp_path: Path) -> None:
    """A source beside the file is found; one above it where -I names its folder, by `../` and by its name."""
    (tmp_path / "kernels").mkdir()
    text = '#pragma once\n#include <vector>\n#include "deep/more.h"\ninline int two() { return more; }\n'
    (tmp_path / "utils.h").write_text(text)
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "more.h").write_text('#include "../number.h"\nconst int more = NUMBER;\n')
    (tmp_path / "number.h").write_text("#define NUMBER 2\n")
    (tmp_path / "kernels" / "part.cpp").write_text('#include "utils.h"\ninline int three() { return 1 + two(); }\n')
    (tmp_path / "else").mkdir()
    (tmp_path / "else" / "stdio.h").write_text('#include "/etc/passwd"\n')  # no text includes it
    (tmp_path / "kernels" / "conf.h").write_text("#define CONF 1\n")
    text = '#include "../utils.h"\n#include "part.cpp"\n#include <stdio.h>\n'
    text += "#define TEXT(x) #x\n#define HEAD(n) TEXT(n.h)\n#include HEAD(conf)\nstatic_assert(CONF == 1);\n"
    text += "__global__ void f(int *x) { x[0] = three(); }\n"
    (tmp_path / "kernels" / "main.cpp").write_text(text + 'int main() { printf("%d", two() + three()); }\n')
    ended = atops_run("-I", ".", "kernels/main.cpp", cwd=tmp_path)
    assert (ended.stdout, ended.stderr) == ("5", "")
    (tmp_path / "number.h").write_text("#define NUMBER 3\n")
    assert atops_run("-I..", "main.cpp", cwd=tmp_path / "kernels").stdout == "7"
    ended = python("-m", "atops", "compile", "main.cpp", "-I", "..", cwd=tmp_path / "kernels")
    assert (ended.returncode, ended.stdout) == (0, "f(x)\n"), ended.stderr
    ended = atops_run("kernels/main.cpp", cwd=tmp_path)
    assert "main.cpp:1:1: error: #include of '../utils.h': only headers" in ended.stderr
    assert "-I name more" in ended.stderr
    ended = atops_run("-Inowhere", "kernels/main.cpp", cwd=tmp_path)
    assert ended.returncode == 2 and "-I expects a folder, got 'nowhere'" in ended.stderr
    (tmp_path / "hip.cpp").write_text("#include <hip/hip_runtime.h>\nint main() {\n  return hipDeviceSynchronize();\n}")
    assert "hip.cpp:3:10: error: 'hipDeviceSynchronize' is not declared: programs in C++ call TOPS's" in atops_run(
        "hip.cpp", cwd=tmp_path).stderr  # fmt: skip


@pytest.mark.slow
def test_a_result_needs_an_address(tmp_path: Path) -> None:
    """A NULL where a function's only result goes to is InvalidValue; one of several results may be left out."""
    text = """int main() { size_t free; puts(topsGetErrorString(topsMalloc(nullptr, 4)));
    puts(topsGetErrorName(topsGetLastError())); puts(topsGetErrorName(topsMemGetInfo(&free, nullptr))); }"""
    (tmp_path / "null.cpp").write_text(HEAD + text)
    said = "topsErrorInvalidValue: topsMalloc has no address for its result: NULL for ptr\ntopsErrorInvalidValue\n"
    assert atops_run("null.cpp", cwd=tmp_path).stdout == said + "topsSuccess\n"


@pytest.mark.slow
def test_without_a_device_calls_answer_that(tmp_path: Path) -> None:
    """A program with variables runs, too: it is its own choice what to do then."""
    text = """__device__ int kept; __global__ void nothing() {} int main() { void *p;
    puts(topsGetErrorName(topsMalloc(&p, 64))); nothing<<<1, 1>>>(); puts(topsGetErrorName(topsGetLastError())); }"""
    (tmp_path / "none.cpp").write_text(HEAD + text)
    done = atops_run("--devices", "0", "none.cpp", cwd=tmp_path)
    assert (done.stdout, done.stderr, done.returncode) == ("topsErrorNoDevice\ntopsErrorInvalidDevice\n", "", 0)


@pytest.mark.slow
@pytest.mark.parametrize("end", ["return 3;", "exit(3);"])
def test_a_program_ends_as_one_of_c_does(end: str, tmp_path: Path) -> None:
    """By what it has registered for its end, and by the destructors of its globals, which may call the device."""
    text = """#include <fstream>
    std::ofstream written("written.txt");
    struct Memory { void *at; ~Memory() { printf("global %s\\n", topsGetErrorName(topsFree(at))); } } memory;
    struct Local { ~Local() { printf("static\\n"); } };
    __global__ void nothing() {}
    int main() {
        static Local local;
        atexit([] { printf("registered\\n"); });
        written << "a line";
        topsMalloc(&memory.at, 64);
        nothing<<<1, 1>>>();
        END
    }"""
    (tmp_path / "ends.cpp").write_text(HEAD + text.replace("END", end))
    done = atops_run("ends.cpp", cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("registered\nstatic\nglobal topsSuccess\n", "") and done.returncode == 3
    assert (tmp_path / "written.txt").read_text() == "a line"


@pytest.mark.soak
@pytest.mark.parametrize("end", ["return 3;", "exit(3);"])
def test_a_kernel_that_never_ends_does_not_hold_a_program_up(end: str, tmp_path: Path) -> None:
    """It is dropped when main has been over for as long as an aborted kernel may go on."""
    kernel = "__global__ void spin(volatile int *x) { while (x) {} }"
    (tmp_path / "spin.cpp").write_text(f"{HEAD}{kernel} int main() {{ spin<<<1, 1>>>((int *)8); {end} }}")
    done = atops_run("spin.cpp", cwd=tmp_path)
    assert done.returncode == 3 and "goes on after 5 s: it is dropped" in done.stderr


@pytest.mark.slow
def test_a_program_ends_with_the_process_that_runs_it(tmp_path: Path) -> None:
    """Its standard output, which both have, is closed then, though it would go on for ever."""
    text = '#include <cstdio>\nvolatile int on = 1;\nint main() { puts("on"); while (on) {} }\n'
    (tmp_path / "endless.cpp").write_text(text)
    command = [sys.executable, "-m", "atops", "run", "endless.cpp"]
    with subprocess.Popen(command, cwd=tmp_path, env=environment({}), stdout=subprocess.PIPE) as runs:
        assert runs.stdout is not None and runs.stdout.readline() == b"on\n"
        runs.terminate()
        assert runs.stdout.read() == b""
