"""Wrong programs: each ends as a named error, the process goes on, and the next launch is right."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import atops
from atops import kernels as k
from atops.device.native.toolchain import find_toolchain
from atops.errors import AtopsError, CompilationError, KernelAssert, KernelDeadlock, LaunchFailure, StreamAborted
from atops.kernels.cxx.declarations import noted_kernels
from tests.every import every

TRANSFER = "tops_dte_ctx_t c; tops::dte_scope s(c); __local__ float t[64];"
WRONG = {
    "null": ("float *p = 0; *p = 1;", LaunchFailure, "stored to a null pointer"),
    "wild": ("float *p = (float *)0x7123456780000; x[0] = *p;", LaunchFailure, "address that no memory can have"),
    "stack": ("x[0] = deep(100000);", LaunchFailure,
              "its stack of 1024 KiB overflowed; __local__ puts an array into L1"),
    "zero": ("volatile int z = 0; x[0] = 5 / z;", LaunchFailure, "divided an integer by zero"),
    "least": ("volatile int l = -2147483647 - 1, m = -1; x[0] = l / m;", LaunchFailure, "or the least one by -1"),
    "jump": ("void (*volatile f)() = (void (*)())16; f(); x[0] = 1;", LaunchFailure,
             "at test.tops:7: called a function at 0x10, where no code is"),
    "trap": ("__builtin_trap();", LaunchFailure, "ran into a trap: __builtin_trap"),
    "beyond": (TRANSFER + "tops::memcpy(c, tops::mdspan(t, 64), tops::mdspan(x + 4, 64));", LaunchFailure,
               "src has 256 bytes, 16 past the end of"),
    "local": (TRANSFER + " __local__ float u[64]; tops::memcpy(c, tops::mdspan(t + 8, 64), tops::mdspan(x, 64));",
              LaunchFailure, "dst has 256 bytes, 32 past the end of the 256 bytes of local memory declared at "),
    "shared": ("__shared__ float s[16]; __shared__ float u[64]; tops_dte_ctx_t c; tops::dte_scope d(c);"
               "tops::memcpy(c, tops::mdspan(x, 32), tops::mdspan(s, 32)); x[0] = u[0];", LaunchFailure,
               "src has 128 bytes, 64 past the end of the 64 bytes of shared memory declared at test.tops:"),
    "own": ("tops_dte_ctx_t c; tops::dte_scope s(c); float t[64];"
                "tops::memcpy(c, tops::mdspan(t, 64), tops::mdspan(x, 64));", LaunchFailure, "declare it __local__"),
    "declared": ("tops_dte_ctx_t c; __local__ float t[64]; tops::memcpy(c, tops::mdspan(t, 64), tops::mdspan(x, 64));",
                 LaunchFailure, "was not initialised; call tops_init_dte first"),
    "busy": (TRANSFER + "auto e = tops::memcpy_async(c, tops::mdspan(t, 64), tops::mdspan(x, 64));"
             "tops::memcpy(c, tops::mdspan(t, 64), tops::mdspan(x, 64)); tops::wait(e);", LaunchFailure,
             "whose transfer is in flight: memcpy_async"),
    "space": (TRANSFER + "tops::memcpy(c, tops::mdspan(tops::Shared, t, 64), tops::mdspan(x, 64));", LaunchFailure,
              "said to be shared memory, and lies in the thread's L1"),
    "shape": (TRANSFER + "tops::transpose(c, tops::mdspan(t, 8, 8), tops::mdspan(x, 8, 8), {0, 0});", LaunchFailure,
              "expected each of the dimensions 0 to 1 once"),
    "diverges": ("if (threadIdx.x < 3) return; __syncthreads();", KernelDeadlock,
                 "3 threads have left the kernel, 9 threads wait at __syncthreads at test.tops:"),
    "counted": ("__shared__ tte::barrier<SIP> b(12); if (threadIdx.x) b.arrive_and_wait();", KernelDeadlock,
                "11 threads wait at a counted barrier at test.tops:18 (11 of 12 arrived)"),
    "grid": ("__syncblocks();", LaunchFailure, "its launch is not cooperative"),
    "assertion": ("assert(x[0] == 17);", KernelAssert, "assertion `x[0] == 17` failed"),
    "room": ("__local__ char t[4 << 20]; t[0] = 1; x[0] = t[0];", LaunchFailure, "bytes of local memory do not fit"),
    "dynamic": ("extern __shared__ float s[]; s[400000 + threadIdx.x] = 1;", LaunchFailure,
                "used dynamic shared memory, of which the launch gives none: launch with (grid, block, bytes)"),
    "dynamic_dte": (TRANSFER + "extern __shared__ float d[]; "
                    "tops::memcpy(c, tops::mdspan(d, 64), tops::mdspan(x, 64));", LaunchFailure,
                    "dst is dynamic shared memory, of which the launch gives none"),
    "lane": ("__vector4 float v(1.0f); x[0] = v[128];", LaunchFailure, "lane 128 of a vector of 128 lanes"),
    "divisor": ("__vector4 int v(1), z(0); v = div(v, z); x[0] = v[0];", LaunchFailure, "div by 0 in lane 0"),
    "intrinsic": ("int z = __dtu_m_special(3, 4); x[0] = z;", LaunchFailure, "called __dtu_m_special"),
}  # fmt: skip
DEEP = (
    "__device__ int deep(int n) "
    "{ volatile char b[4096]; b[n % 4096] = n; return n <= 0 ? b[0] : deep(n - 1) + b[1]; }"
)


def _source() -> str:
    kernels = (f"__global__ void {name}(float *x) {{ {body} }}\n" for name, (body, _, _) in WRONG.items())
    return "".join([DEEP, "\n", *kernels, "__global__ void right(float *x) { x[threadIdx.x] += 1; }\n"])


@pytest.mark.slow
@pytest.mark.parametrize("threads", [False, True])
def test_each_is_named_and_the_next_launch_is_right(threads: bool) -> None:
    """In the loop's thread and on threads of the driver's: the error names kernel, thread and place."""
    module = k.compile_source(_source(), "test.tops").module()

    async def main() -> None:
        async with atops.Device(0).create_stream() as good:
            x = good.upload(np.zeros(64, np.float32))
            await good
            for name, (_, kind, text) in WRONG.items():
                bad = atops.Device(0).create_stream()
                bad.launch(module.function(name), (1, 12), x)
                with pytest.raises(kind) as caught:
                    await bad
                assert text in str(caught.value) and f"kernel {name}" in str(caught.value), str(caught.value)
                good.launch(module.function("right"), (1, 12), x)
                await good
            assert (await good.fetch(x))[:12].tolist() == [len(WRONG)] * 12

    asyncio.run(main()) if threads else atops.run(main)


REFUSED = {
    "tops::private_dte c;\n__global__ void f(int *x) {}":
        "test.tops:1: error: its objects at file scope cannot be made: loading it ended with SIGSEGV",
    "#include <unistd.h>\nstruct S { S() { _exit(0); } } s;\n__global__ void f(int *x) {}":
        "cannot be made: loading it ended the process, with code 0",
    "\nint none = 0, some = 3 / none;\n__global__ void f(int *x) {}":
        "test.tops:2: error: its objects at file scope cannot be made: loading it ended with SIGFPE",
    "__global__ void f(float *x) { x[0] = ; }": "test.tops:1:38: error: ",
    "__global__ void f(float *x) {\n    x[0] = foo(3); }": "test.tops:2:12: error: ",
    "__global__ int f(float *x) { return 1; }": "kernel f returns a value",
    "__global__ void f(float *x) {}\nint main() { float *x = 0;\n f(x); }": "test.tops:3:1: error: kernel f is called",
    "template <class T> __global__ void f(T *x) {}\n__global__ void g(int *x) { if (x[0])\n f<int>(x); }":
        "test.tops:3:1: error: kernel f is called as a function",
    "__global__ void f(int *x) {}\n__global__ void f(float *x) {}": "test.tops:2:1: error: kernel f is defined twice",
    "__global__ void f(int *x, ...) {}": "kernel f takes any number of arguments",
    "__global__ void f(int *x, const int &n) {}": "kernel f takes n by reference",
    "__global__ void f(int *x, int (&n)[4]) {}": "kernel f takes n by reference",
    "struct A { __global__ void f(float *x) {} };": "member of a class",
    "__global__ void f(float *x) { __vector4 float v(1.0f); v = ~v; }": "error: ",
    "__global__ void f(float *x) { __vector4 float v(1.0f); v = v / v; }": "error: ",
    '#include "/etc/hostname"\n__global__ void f(float *x) {}': "only headers of the language",
    "#include <not_there.h>\n__global__ void f(float *x) {}": "not_there.h",
    '__global__ void f(float *x) { asm("nop"); }': "inline assembly",
    "__global__ void f(float *x) { throw 1; }": "a kernel has no exceptions",
    "__global__ void f(float *x) {}\nint main() { int x = 1 <<< 2; }": "test.tops:2:1: error: <<< is preceded by no",
    "__global__ void f(float *x) {}\nint main() { auto k = f;\n k<<<1, 1>>>(3, 4); }":
        "test.tops:3:1: error: the compiler refuses it: the arguments of the launch do not fit",
    "int main() { int k[1] = {};\n k[0]<<<1, 1>>>(3); }":
        "test.tops:2: error: <<< is preceded by neither a kernel nor a pointer to one",
    "__local__ float s[4];\n__global__ void f(float *x) { x[0] = s[0]; }": "outside of a function",
}


@pytest.mark.slow
def test_gcu210_has_no_vectors() -> None:
    """A text for that chip that uses one is refused; other texts are not."""
    k.compile_source("__global__ void f(float *x) { x[0] = 1; }", "test.tops", ["--gpu-architecture=gcu210"])
    with pytest.raises(CompilationError, match="vectors exist from gcu300 on"):
        k.compile_source("__global__ void f(float *x) {\n__vector float v(1.0f); x[0] = v[0]; }", "test.tops",
                         ["--gpu-architecture=gcu210"])  # fmt: skip


@pytest.mark.slow
def test_what_is_called_as_a_kernel_is_and_is_none() -> None:
    """A member, a variable and a function of the language's headers may have a kernel's name."""
    text = "#include <tops.h>\nusing namespace tops;\n__global__ void add(int *x) {}\n__global__ void one(int *x) {}\n"
    text += "struct A { int v; void one(int y) { v = y; } void two() { one(3); } };\n"
    text += "__global__ void g(float *x) { A a; a.two(); x[0] = a.v; }\n"
    text += "__global__ void h(int *x) { auto one = [=](int y) { x[0] = y; }; one(3); }\n"
    text += "void launches(int *x) { one<<<1, 2>>>(x); if (x) one<<<1, 2>>>(x); }\n"
    k.compile_source(text, "test.tops")


SOMETHING_ELSE = {
    "a pointer to a function": "void f(void (*one)(int *), int *x) { one(x); }",
    "a reference to one": "void f(void (&one)(int *), int *x) { one(x); }",
    "the last parameter": "template <class F> void f(int *x, F one) { one(x); }",
    "a pack": "template <class... F> void f(F... one) { g(one...); }",
    "a binding": "void f() { auto [two, one] = g(); one(3); }",
    "a capture": "void f() { [one = g()] { one(3); }(); }",
    "of a type in parentheses": "void f() { decltype(g()) one = g(); one(3); }",
    "the second of a declaration": "void f() { F two, one; one(3); }",
    "a function of another text": "using other::one; void f() { one(3); }",
    "a member of another": "void f(A a) { a. one(3); }",
}


@every("line", [*SOMETHING_ELSE.values(), ""])
def test_where_a_kernels_name_may_be_something_else(line: str) -> None:
    """No call is refused there; it is where a launch, an address and a call are all that has the name."""
    text = "template <class T> __global__ void one(T *x) {}\nint main() { one<<<1, 2>>>(x); if (x) one(x);\n"
    text += "topsLaunchKernel((const void *)one, 1, 2); return 0; }\n"
    assert noted_kernels(text + line, {}) == {"one": not line}


@pytest.mark.slow
@every("text", REFUSED)
def test_what_does_not_compile(text: str) -> None:
    """The log says why, in the program's own lines."""
    if "3 / none" in text and find_toolchain().clang:
        pytest.skip("clang++ leaves out a division whose result nothing uses")
    with pytest.raises(CompilationError) as caught:
        k.compile_source(text, "test.tops")
    assert REFUSED[text] in str(caught.value), str(caught.value)


def test_arguments_are_checked() -> None:
    """As those of kernels in Python: number, type and range, each named."""
    text = "__global__ void f(float *x, int n, unsigned char c) {}"
    kernel = k.compile_source(text, "test.tops").module().function("f")
    assert str(kernel) == "<kernel f(x, n, c)>"

    async def main() -> list[str]:
        async with atops.Device(0).create_stream() as stream:
            x = stream.zeros(4, np.float32)
            said = []
            for arguments in ((x, 1), (1, 1, 1), (x, 1.5, 1), (x, 1, 256), (x, 1 << 40, 1), (np.zeros(4), 1, 1)):
                with pytest.raises(AtopsError) as caught:
                    stream.launch(kernel, (1, 1), *arguments)
                said.append(str(caught.value))
            return said

    said = atops.run(main)
    names = ("c", "x", "n", "c", "n", "x")
    assert all("kernel f" in each and name in each for each, name in zip(said, names, strict=True)), said


@pytest.mark.slow
@pytest.mark.parametrize("body", [
    "while (true) x[0] += 1;", "while (x[0] < 1) __syncthreads();",
    "float *y = (float *)x; for (;;) { if (y[1] == 3) break; }", 'for (;;) printf("x");',
    "for (;;) free(malloc(10));",
])  # fmt: skip
def test_a_kernel_that_never_ends_is_ended(body: str) -> None:
    """By an abort, in the middle of its loop; then the clusters are free."""
    text = f"__global__ void spin(volatile float *x) {{ {body} }}\n__global__ void right(float *x) {{ x[0] = 7; }}"
    module = k.compile_source(text, "test.tops").module()

    async def main() -> Any:
        stream = atops.Device(0).create_stream()
        x = stream.upload(np.zeros(12, np.float32))
        await stream
        item = stream.launch(module.function("spin"), (2, 12), x)
        while item.state != "running":
            await asyncio.to_thread(bool)
        stream.abort()
        with pytest.raises(AtopsError, match=r"was aborted while kernel spin ran: thread .* of block .* was at \S+:1"):
            await item
        async with atops.Device(0).create_stream() as other:
            y = other.zeros(1, np.float32)
            other.launch(module.function("right"), (1, 1), y)
            return (await other.fetch(y)).tolist()

    assert asyncio.run(main()) == [7.0]


@pytest.mark.slow
def test_an_abort_tells_one_place() -> None:
    """Also of blocks that it stops in several OS threads at once."""
    text = "__global__ void spin(volatile float *x) { for (;;) ++x[blockIdx.x]; }"
    module = k.compile_source(text, "test.tops").module()

    async def main() -> None:
        device = atops.Device(0)
        for _ in range(8):
            stream = device.create_stream()
            x = stream.zeros(12, np.float32)
            await stream
            item = stream.launch(module.function("spin"), (12, 12), x)
            await asyncio.sleep(0.1)  # for every cluster to have a block
            stream.abort()
            with pytest.raises(StreamAborted) as caught:
                await item
            assert str(caught.value).count(" was at test.tops:1") == 1, str(caught.value)

    async def driven() -> None:
        async with atops.Driver(atops.EmulatorOptions(workers=8)):
            await main()

    asyncio.run(driven())


REPLACED = """
import faulthandler, signal, ctypes, atops
from atops import kernels as k
text = "__global__ void bad(int *x) { *(volatile int *)8 = 1; } __global__ void right(int *x) { x[0] = 42; }"
module = k.compile_source(text, "test.tops").module()

def run(name):
    async def main():
        async with atops.Device(0).create_stream() as stream:
            x = stream.zeros(1, "i4")
            stream.launch(module.function(name), (2, 12), x)
            return (await stream.fetch(x))[0]
    try:
        assert atops.run(main) == 42
    except atops.errors.AtopsError as error:
        assert name == "bad" and "stored to a null pointer" in str(error), error

run("right")
"""
BY_DEFAULT = "run('bad'); signal.signal(signal.SIGSEGV, signal.SIG_DFL); run('bad'); run('right')"
REPLACING = {  # what a program does, and how often a fault that is no kernel's is told at its end
    BY_DEFAULT: 0,
    "faulthandler.enable(); run('bad'); run('right')": 1,
    "faulthandler.enable(); run('bad'); faulthandler.disable(); run('bad'); run('right')": 0,
}


@pytest.mark.slow
@pytest.mark.parametrize("does", REPLACING)
def test_a_program_that_replaces_the_handlers(does: str) -> None:
    """The next faulting kernel is a named error all the same; any other fault is the program's, and ends it."""
    done = subprocess.run([sys.executable, "-c", f"{REPLACED}{does}\nprint('so far', flush=True)\nctypes.string_at(8)"],
                          capture_output=True, text=True, timeout=120, check=False)  # fmt: skip
    told = done.stderr.count("Fatal Python error: Segmentation fault")
    assert (done.stdout, done.returncode, told) == ("so far\n", -11, REPLACING[does]), done.stderr


HANDLERS = r"""
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>

static char *page;
static sigjmp_buf back;
static struct sigaction under;
static int passed;

static void set(void (*handler)(int, siginfo_t *, void *), int flags) {
    if (!page) page = (char *)mmap(0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct sigaction action = {};
    action.sa_sigaction = handler;
    action.sa_flags = SA_SIGINFO | flags;
    sigaction(SIGSEGV, &action, &under);
}

static void mend(int, siginfo_t *, void *) { mprotect(page, 4096, PROT_READ | PROT_WRITE); }
static void jump(int, siginfo_t *, void *) { siglongjmp(back, 1); }
static void leave(int, siginfo_t *, void *) {}
static void pass(int number, siginfo_t *info, void *state) {
    ++passed;
    under.sa_sigaction(number, info, state);
}

extern "C" {
void mends() { set(mend, 0); }
void jumps() { set(jump, 0); }
void leaves() { set(leave, (int)SA_RESETHAND); }
void passes() { set(pass, 0); }
void ignores() { signal(SIGSEGV, SIG_IGN); }
int store(int times) {
    passed = 0;
    for (int each = 0; each < times; ++each) {
        mprotect(page, 4096, PROT_READ);
        *(volatile char *)page = 1;
    }
    return passed;
}
int probe(const volatile char *address) { return sigsetjmp(back, 1) ? -1 : *address; }
}
"""
HANDLED = {  # what a program does, and whether a fault that is no kernel's ends it
    "mends before": ("host.mends(); run('bad'); assert host.store(2000) == 0; run('bad')", False),
    "mends after": ("run('bad'); host.mends(); run('bad'); assert host.store(2000) == 0; run('bad')", False),
    "passes on": (
        "host.mends(); run('bad'); host.passes(); run('bad'); assert host.store(2000) == 2000; run('bad')", False),
    "jumps": ("host.jumps(); run('bad'); assert [host.probe(16 * each) for each in range(3)] == [-1] * 3; run('bad')",
              False),
    "leaves once": ("host.leaves(); run('bad'); ctypes.string_at(8)", True),
    "ignores": ("host.ignores(); run('bad'); ctypes.string_at(8)", True),
    "is sent one": ("run('bad'); signal.raise_signal(signal.SIGSEGV)", True),
    "is sent one, and tells": (
        "run('bad'); faulthandler.enable(); run('bad'); signal.raise_signal(signal.SIGSEGV)", True),
}  # fmt: skip


@pytest.fixture(scope="module")
def handlers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library of handlers that a program may have."""
    path = tmp_path_factory.mktemp("handlers") / "handlers.so"
    done = find_toolchain().run(["-shared", "-fPIC", "-x", "c++", "-o", str(path), "-"], HANDLERS)
    assert done.returncode == 0, done.stderr
    return path


@pytest.mark.slow
@every("does", HANDLED)
def test_a_programs_own_faults(does: str, handlers: Path) -> None:
    """Its handler has each of them, however often they come; and what it leaves ends the process."""
    text, ends = HANDLED[does]
    given = f"{REPLACED}host = ctypes.CDLL({str(handlers)!r})\nhost.probe.argtypes = [ctypes.c_void_p]\n"
    done = subprocess.run([sys.executable, "-c", f"{given}{text}\nprint('gone on')"],
                          capture_output=True, text=True, timeout=60, check=False)  # fmt: skip
    assert (done.stdout, done.returncode) == (("", -11) if ends else ("gone on\n", 0)), done.stderr
