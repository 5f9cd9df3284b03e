"""What a kernel cannot call of the C and C++ libraries is a fault with its line, and the process goes on."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from contextlib import closing
from typing import Any

import numpy as np
import pytest

import atops
from atops import kernels as k
from atops.base.errors import IllegalState, KernelAssert, LaunchFailure
from atops.device.native.library import private_ranges
from atops.device.native.toolchain import find_toolchain

HEAD = """#include <stdlib.h>
#include <unistd.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <setjmp.h>
#include <pthread.h>
#include <sys/select.h>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>
std::mutex mutex, free_one, own; int wait() { __syncthreads(); return 1; }
__global__ void right(int *x) { std::lock_guard<std::mutex> held(free_one); x[0] = 7; }
"""
WRONG = {  # what a kernel does, and what is said
    "exit(3);": r"called exit\(\), which would end the process",
    "_exit(3);": r"called _exit\(\), which would end the process",
    "abort();": r"called abort\(\)",
    "std::terminate();": r"called abort\(\)",
    "x[0] = raise(SIGTERM);": r"called raise\(\), which would end",
    "x[0] = sleep(1000);": r"called sleep\(\), which would block all threads",
    "x[0] = close(1);": r"called close\(\), which is the process's",
    "x[0] = dup2(2, 1);": r"called dup2\(\), which is the process's",
    "x[0] = fclose(stdout);": r"called fclose\(\) of a standard stream, which is the process's",
    "static std::condition_variable c; std::unique_lock<std::mutex> held(own); c.wait(held);":
        "waited for a condition variable, which would block all threads",
    "static std::atomic<int> a(0); a.wait(x[0]);": "waited for an atomic or a semaphore, which would block",
    "x[0] = select(0, 0, 0, 0, 0);": r"called select\(\), which would block",
    "pthread_exit(0);": r"called pthread_exit\(\), which would end",
    "x[0] = alarm(1);": r"called alarm\(\), which is the process's",
    'x[0] = execl("/bin/true", "true", nullptr);': r"called execl\(\), which would replace the process",
    'char *a[] = {nullptr}; x[0] = execve("/bin/true", a, a);': r"called execve\(\), which would replace the process",
    'char *a[] = {nullptr}; x[0] = execvp("true", a);': r"called execvp\(\), which would replace the process",
    'char *a[] = {nullptr}; x[0] = posix_spawn(nullptr, "/bin/true", nullptr, nullptr, a, a);':
        r"called posix_spawn\(\), a kernel starts no threads and no processes",
    "x[0] = vfork();": r"called vfork\(\), a kernel starts no",
    'x[0] = popen("true", "r") != nullptr;': r"called popen\(\), a kernel starts no",
    "x[0] = daemon(0, 0);": r"called daemon\(\), a kernel starts no",
    "x[0] = setuid(1);": r"called setuid\(\), which would change the whole process",
    'x[0] = chdir("/");': r"called chdir\(\), which would change the whole process",
    "signal(SIGSEGV, SIG_DFL);": r"called signal\(\), which is the process's",
    "static int one = wait(); x[0] = one;": "came to a static variable of a function that another thread .* is init",
    "mutex.lock(); __syncthreads(); mutex.unlock();": "waited for a mutex, which would block",
    "std::thread t([=] { x[0] = 1; }); t.join();": "constructed a std::thread; a kernel starts no threads",
    "std::vector<int> v(3); x[0] = v.at(x[0] + 7);": "threw std::out_of_range, and a kernel has no exceptions",
    'std::string s("abc"); x[0] = s.substr(x[0] + 10).size();': "threw std::out_of_range",
    "char *p = (char *)malloc(20 + x[0]); x[1] = p[0]; free(p); free(p); x[2] = 1;": "freed a block of 20 bytes twice",
    "volatile char *p = (char *)malloc(9); for (int i = 0; i < 3000; ++i) p[i] = 1; free((void *)p);":
        "used a byte 8 past the end of a block of 9 bytes",
    "volatile int *p = new int[4]; p[5 + x[0]] = 1; delete[] p;": "used a byte 5 past the end of a block of 16 bytes",
    "volatile int *p = (int *)realloc(calloc(4, 4), 64); free((void *)p); x[0] = p[1];":
        "used a block of 64 bytes that it had freed",
    "volatile char *p = (char *)malloc(9); p[-66000 + x[0]] = 1;": "used a byte 66000 before a block of 9 bytes",
    "int a[4] = {}; int *volatile p = a; free(p); x[0] = a[1];":
        "gave back 0x[0-9a-f]+, which malloc gave to no kernel",
    "int *volatile p = x; x[0] = realloc(p, 99) != 0;": "gave back 0x[0-9a-f]+, which malloc gave to no kernel",
    "x[0] = aligned_alloc(1 << 20, 1ul << 60) != 0; int *volatile p = x; free(p);":
        "gave back 0x[0-9a-f]+, which malloc gave to no kernel",
    "char *volatile p = (char *)malloc(9); p[0] = 1; free(p + 4);":
        "gave back an address 4 bytes into a block of 9 bytes",
    "char *p = 0; size_t n = 0; x[0] = getline(&p, &n, stdin);": r"called getline\(\), which takes memory from beside",
}


@pytest.fixture(scope="module")
def wrong() -> Any:
    """Return the module of all of them: `wrong_N` does the N-th in the second of its three lines."""
    kernels = (f"__global__ void wrong_{at}(int *x) {{\n  {body}\n  x[0] += 1; }}\n" for at, body in enumerate(WRONG))
    return k.compile_source(HEAD + "".join(kernels), "library.tops").module()


@pytest.mark.slow
@pytest.mark.parametrize("body", WRONG)
def test_what_would_end_or_block_the_process(body: str, wrong: Any, run: Callable[..., Any]) -> None:
    """It ends the launch; the next one of the same module is right."""
    at = list(WRONG).index(body)
    line = HEAD.count("\n") + 3 * at + 2
    says = f"library.tops:{line}: {WRONG[body]}"
    if find_toolchain().zig:  # its C++ library is a part of the module, and calls what ends the process itself
        says += r"|called (abort|pthread_create|pthread_cond_wait)\(\)"
    with pytest.raises(LaunchFailure, match=says):
        run("", f"wrong_{at}", (1, 12), np.zeros(12, np.int32), module=wrong)
    assert run("", "right", (1, 12), np.zeros(12, np.int32), module=wrong)[0] == 7


@pytest.mark.slow
def test_memory_of_a_kernel_is_as_the_library_gives_it(run: Callable[..., Any]) -> None:
    """Aligned as asked, of the size asked for, grown with what was in it; in grids and more blocks than have guards."""
    text = """#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
__global__ void right(int *x) {
  int wrong = 0;
  char *all = strdup("all of it"), *part = strndup(all, 3);
  wrong += strcmp(all, "all of it") || strcmp(part, "all");
  free(all);
  free(part);
  for (size_t align = 16; align <= 1 << 17; align *= 2) {
    void *a = aligned_alloc(align, align), *b = nullptr;
    wrong += posix_memalign(&b, align, 3) || uintptr_t(a) % align || uintptr_t(b) % align;
    free(a);
    free(b);
  }
  void *none = nullptr;
  wrong += posix_memalign(&none, 3, 8) != EINVAL;
  int *grown = (int *)malloc(8);
  wrong += malloc_usable_size(grown) < 8;
  grown[1] = 7;
  grown = (int *)reallocarray(grown, 1000, sizeof(int));
  wrong += grown[1] != 7 || reallocarray(grown, SIZE_MAX, 2);
  free(grown);
  char **many = (char **)malloc(12000 * sizeof(char *));
  for (int i = 0; i < 12000; ++i) *(many[i] = (char *)malloc(1)) = char(i);
  for (int i = 0; i < 12000; ++i) { wrong += *many[i] != char(i); free(many[i]); }
  free(many);
  x[blockIdx.x] = 100 + wrong;
}
"""
    for _ in range(3):
        assert list(run(text, "right", (2, 1), np.zeros(2, np.int32))) == [100, 100]


def test_what_a_failed_launch_has_taken_is_given_back() -> None:
    """Its blocks are; those that a right one has left stay for later ones."""
    text = """#include <stdlib.h>
__global__ void take(int **x) { *(x[threadIdx.x] = (int *)malloc(4)) = 7; }
__global__ void wrong(int **x) {
  char *volatile p = (char *)malloc(64); p[0] = 1;
  __syncthreads();
  __builtin_trap();
}
__global__ void right(int **x) { int *p = x[threadIdx.x]; ++*p; x[threadIdx.x] = (int *)long(*p); free(p); }
"""
    module = k.compile_source(text, "heap.tops").module()

    async def main() -> Any:
        device = atops.Device(0)
        x = device.zeros(12, np.int64)
        await device.create_stream().launch(module.function("take"), (1, 12), x)
        mappings = []
        for _ in range(8):
            with pytest.raises(LaunchFailure, match=r"heap\.tops:6"):
                await device.create_stream().launch(module.function("wrong"), (1, 12), x)
            mappings.append(len(private_ranges()))
        async with device.create_stream() as stream:
            stream.launch(module.function("right"), (1, 12), x)
            assert mappings[-1] < mappings[0] + 12, mappings
            return (await stream.fetch(x)).tolist()

    assert atops.run(main) == [8] * 12


@pytest.mark.slow
def test_a_process_is_forked_while_a_kernel_takes_memory() -> None:
    """What guards the blocks is free in the child, whose kernels take memory, too."""
    text = """#include <stdlib.h>
__global__ void take(int *x, int n) {
  for (int i = 0; i < n; ++i) { char *volatile p = (char *)malloc(64); p[0] = 1; free(p); }
  x[0] += 1;
}"""
    take = k.compile_source(text, "take.tops").module().function("take")
    over = threading.Event()

    def busy() -> None:
        with closing(atops.Driver()) as driver, atops.Device(0, driver).create_stream() as stream:
            x = stream.upload(np.zeros(1, np.int32))
            while not over.is_set():
                stream.launch(take, (1, 1), x, 1000).wait_sync()

    other = threading.Thread(target=busy)
    other.start()
    try:
        apart = atops.EmulatorOptions(native_process=True)
        with closing(atops.Driver(apart)) as driver, atops.Device(0, driver).create_stream() as stream:
            x = stream.upload(np.zeros(1, np.int32))
            for _ in range(10):
                stream.launch(take, (1, 1), x, 1).wait_sync(60)
            assert stream.fetch(x).wait_sync()[0] == 10
    finally:
        over.set()
        other.join()


@pytest.mark.slow
def test_a_static_variable_that_needs_itself(run: Callable[..., Any]) -> None:
    """It is a fault each time; one that needs what is there is initialised once."""
    module = k.compile_source(
        """int first(int n) {
  static int made = first(n - 1);
  return made;
}
int seen = 0;
__global__ void wrong(int *x) { x[0] = first(3); }
__global__ void right(int *x) {
  static int made = ++seen;
  x[threadIdx.x] = made;
}""",
        "statics.tops",
    ).module()
    for _ in range(2):
        with pytest.raises(LaunchFailure, match=r"statics\.tops:2: came to a static .* that it is initialising itself"):
            run("", "wrong", (1, 12), np.zeros(12, np.int32), module=module)
    assert set(run("", "right", (1, 12), np.zeros(12, np.int32), module=module)) == {1}


@pytest.mark.slow
def test_a_transfer_that_begins_in_memory_and_ends_behind_it(run: Callable[..., Any]) -> None:
    """By how many bytes is told, and of what."""
    text = """__global__ void f(int *x) {
  tops_dte_ctx_t c; tops::dte_scope s(c);
  __local__ int l[64];
  tops::memcpy(c, tops::mdspan(l, 64), tops::mdspan(x + 4, 64));
}"""
    with pytest.raises(LaunchFailure, match=r"test.tops:4: src has 256 bytes, 208 past the end of <.*, at offset 16"):
        run(text, "f", (1, 1), np.zeros(16, np.int32))


def test_a_folder_that_cannot_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """The variable that names another one is told."""
    monkeypatch.setenv("ATOPS_CACHE", "/proc/none")
    with pytest.raises(IllegalState, match=r"/proc/none/native, which cannot be made .*: set ATOPS_CACHE"):
        k.compile_source("__global__ void nothing() {}", "nothing.tops")


@pytest.mark.slow
def test_a_jump_to_nowhere(run: Callable[..., Any]) -> None:
    """A longjmp leaves neither a stack nor a counter that could be trusted."""
    text = HEAD + "__global__ void wrong(int *x) {\n"
    text += "  jmp_buf b; for (char &each : *(char(*)[sizeof b]) & b) each = 0;\n  longjmp(b, 1);\n}\n"
    with pytest.raises(LaunchFailure, match=r"an address that no memory can have, .* or a longjmp went where"):
        run(text, "wrong", (1, 1), np.zeros(12, np.int32))


@pytest.mark.slow
def test_ctrl_c_ends_a_kernel_that_runs_inline() -> None:
    """Python hears of the signal when the kernel has come back."""
    module = k.compile_source("__global__ void spin(volatile int *x) { while (!x[0]) {} }", "spin.tops").module()
    entered = threading.Event()

    async def main() -> None:
        async with atops.Device(0).create_stream() as stream:
            x = stream.upload(np.zeros(4, np.int32))
            await stream
            entered.set()
            stream.launch(module.function("spin"), (1, 1), x)
            await stream

    def interrupt() -> None:
        entered.wait()
        while not over.wait(0.05):  # until it is heard: the kernel may not have begun
            os.kill(os.getpid(), signal.SIGINT)

    over = threading.Event()
    other = threading.Thread(target=interrupt)
    other.start()
    try:
        with pytest.raises((KeyboardInterrupt, LaunchFailure)):
            try:
                atops.run(main)
            finally:
                over.set()
    finally:
        over.set()
        other.join()


LINES = {  # calls at the end of a function, and what lies under <assert.h> and behind a frame
    "raise(9);": (LaunchFailure, r"lines.tops:9: called raise\(\)"),
    "void (*volatile none)() = nullptr; none();": (LaunchFailure, "lines.tops:9: called a function at 0"),
    "free(reinterpret_cast<void *>(x));": (LaunchFailure, "lines.tops:9: gave back 0x[0-9a-f]+, which malloc gave to"),
    'printf("%s", reinterpret_cast<const char *>(0x1234));': (LaunchFailure, "lines.tops:9: read from 0x1234"),
    "assert(x[0] == 5);": (KernelAssert, r"lines.tops:9: assertion `x\[0\] == 5` failed"),
    "smash(24);": (LaunchFailure, "an address that no memory can have"),
    "smash(4096);": (LaunchFailure, "stored to .*, where no memory of the kernel is"),
}


@pytest.mark.parametrize("body", LINES)
def test_the_line_of_a_call(body: str, run: Callable[..., Any]) -> None:
    """Also where the call is the last of its function, and where a frame was written over."""
    text = f"""
#include <assert.h>
#include <signal.h>
#include <stdlib.h>
__attribute__((noinline)) __device__ void smash(int n) {{
    volatile char few[8];
    for (int i = 0; i < n; ++i) few[i] = 0x41;
}}
__global__ void f(int *x) {{ {body} }}
"""
    kind, says = LINES[body]
    with pytest.raises(kind, match=says):
        run(text, "f", (1, 12), np.zeros(4, np.int32), module=k.compile_source(text, "lines.tops").module())
