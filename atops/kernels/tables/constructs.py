"""Functions, memory, built-in names, the DTE, synchronisation and output as tables: TOPS C++, 8.1, 8.2, 8.5 to 8.8."""

from __future__ import annotations

from dataclasses import dataclass

from atops.base.c_format import CONVERSIONS
from atops.device.arch import ARCHITECTURES
from atops.device.dte.operations import OPERATIONS, Operation
from atops.device.memory.value_wait import Condition

__all__ = ("DTE", "SPACES", "SYNC", "Construct")


@dataclass(frozen=True, slots=True)
class Construct:
    """A construct of the language text (TOPS C++, `section`) and its counterpart here.

    `cpp` is its C++ spelling and `python` what a kernel writes, `summary` one sentence on what it does. `types` are the
    permitted types in the words of the text, empty where it names none. `differs` says what differs from C++ and why,
    empty where nothing does. `gcu_arch` is the first architecture that has it: 210 or 300.
    """

    section: str
    cpp: str
    python: str
    summary: str
    types: tuple[str, ...] = ()
    differs: str = ""
    gcu_arch: int = 210


_FREE = "Python functions and numpy's have no mark, and most are of use on both sides"
_VIEW = "a parameter arrives as a Span, whose elements kernels index; `k.pointer(x)` is the pointer"
_GIVEN_BACK = "a declaration is a call: each pass gives other memory"

_EXECUTION = (
    Construct("8.1", "__global__ void f(T* x)", "@k.kernel", "The entry of a launch: it runs on the device in every "
              "thread, and only the host starts it."),
    Construct("8.1", "`void`, the result of a `__global__` function", "no result", "A kernel returns nothing: an "
              "annotated result is refused when it is defined, a returned value fails the launch."),
    Construct("8.1", "a `__global__` function is no member of a class", "`def f`, outside of classes",
              "A method, a static method and a function of a class are refused."),
    Construct("8.1", "f<<<grid, block, bytes>>>(x)", "stream.launch(f, (grid, block, bytes), x)",
              "Every call has an execution configuration; `f(x)` is refused on both sides.",
              differs="the stream is the object that is asked, not the configuration's fourth part"),
    Construct("8.1", "the call of a `__global__` function is asynchronous", "stream.launch(...)",
              "It returns before the device has run the kernel, with a completion that can be awaited."),
    Construct("8.1", "__device__ T f(T x)", "@k.device", "It runs on the device, called by kernels and other device "
              "functions; the host is refused.", differs="one that waits is an `async def`, and is awaited; one that "
              "is forgotten is an error that names its line"),
    Construct("8.1", "__global__ __device__", "refused", "A function is not both, in either order."),
    Construct("8.1", "__host__ T f(T x)", "@k.host", "It runs on the host, called by the host; a kernel that calls it "
              "fails, naming thread, kernel and line."),
    Construct("8.1", "`T f(T x)`, without a specifier", "a function without a decorator", "Both sides may call it.",
              differs=f"in C++ it is the host's alone; {_FREE}"),
    Construct("8.1", "__global__ __host__", "refused", "A function is not both, in either order."),
    Construct("8.1", "__host__ __device__ T f(T x)", "`@k.host` above `@k.device`, or below", "Both sides call it."),
    Construct("8.1", "#if __AGCU_ARCH__ >= 300 ... #elif !defined(__AGCU_ARCH__)",
              "if k.__AGCU_ARCH__ is None: ... elif k.__AGCU_ARCH__ >= 300: ...",
              "One function's code for the host and for each architecture.",
              differs="chosen when it runs, not when it is compiled; on the host the name is None, which has no order, "
              "so the host's branch comes first"),
    Construct("8.1", "__cooperative__ __global__ void f(T* x)", "`@k.cooperative`, alone or above `@k.kernel`",
              "All blocks start together and may synchronise; more blocks than clusters are refused at the launch."),
)  # fmt: skip

_MEMORY = (
    Construct("8.2", "`T x; T x[n];` (automatic)", "a Python variable, or `k.private(n, T)`",
              "Private memory of one thread, on its stack: of bounded size, out of every DTE's reach.",
              differs=f"{_GIVEN_BACK}, which is given back when nothing refers to it any more"),
    Construct("8.2", "T* p = x", "p = k.pointer(x)", "A pointer to what x holds: arithmetic in "
              "elements, difference, comparison, `p[i]`.",
              differs="its space, `p.space`, is the one that x lies in, and generic for a parameter; immutable (`*p++` "
              "is `p[0]`, then `p = p + 1`); beyond the memory it was made of is IllegalAddress"),
    Construct("8.2", "void f(T* x)", "`def f(x: k.Span[T])`, `def f(x: k.Span)`",
              "A parameter that takes device memory of T only, or device memory of any type.",
              differs="a name without an annotation takes device memory too, and numbers; what the C-style functions "
              "pass by pointer needs the annotation"),
    Construct("8.2", "`void f(T* x)` (parameters)", "`k.pointer(x)` of a parameter",
              "No parameter names a space, which is refused; a pointer to what it points to is generic.",
              differs=_VIEW),
    Construct("8.2", "__device__ T x = v;", "x = k.device_variable(T, v)",
              "A variable in global memory, one instance a device from its first use to the device's reset; every "
              "thread reaches it, on each chip also by index.",
              differs="`x[i]` or `x[...]` where C++ writes `x`: a Python name cannot be stored through"),
    Construct("8.2", "topsMemcpyToSymbol(&x, &v, n); topsMemcpyFromSymbol",
              "stream.copy(device.symbol(x), v); stream.fetch(device.symbol(x))",
              "The host reaches a variable by itself or by name; its symbol's address and nbytes are what "
              "topsGetSymbolAddress and topsGetSymbolSize give."),
    Construct("8.2", "extern __device__ T x;", "`from module import x`", "The variable that another file declares.",
              differs="Python has no declaration apart from the definition: the object itself is imported"),
    Construct("8.2", "`static __device__ T x = v;` (of a file)", "_x = k.device_variable(T, v)",
              "A variable of this file.", differs="Python has no linkage: a leading underscore says so, and a "
              "name that two modules use is found with its module's before it"),
    Construct("8.2", "`static __device__ T x = v;` (in a function)", "`x = k.device_variable(T, v)` in a kernel",
              "One variable for the line, for all threads and launches of a device."),
    Construct("8.2", "__constant__ T x = v;", "x = k.constant(T, v)",
              "Kernels read it and the host writes it; what a kernel names is bounded in bytes.",
              differs="bounded where it is defined and launched, as there is no linker"),
    Construct("8.2", "__device__ __constant__ T x = v;", "x = k.constant(T, v)", "The same as `__constant__` alone."),
    Construct("8.2", "struct P { float a; int b; }; __device__ P x;",
              'x = k.device_variable(np.dtype([("a", np.float32), ("b", np.int32)]))',
              "Variables of a structure, in this and every other memory space.",
              differs='a structured type of numpy; `x["a"]` where C++ writes `x.a`'),
    Construct("8.2", "__shared__ T x[n];", "x = k.shared_variable(n, T)",
              "Memory of a block in L2, for its threads alone: one array for the line, as long as the block."),
    Construct("8.2", "__shared__ T x;", "x = k.shared_variable((), T)",
              "One value that the threads of a block share.",
              differs="`x[...] = v` stores, as a Python name cannot be stored through"),
    Construct("8.2", "`__shared__ T x[n];` (in a helper or a loop)", "x = k.shared(n, T)",
              "Memory of a block in L2: threads that pass the line for the n-th time get the same.",
              differs=f"{_GIVEN_BACK}, which is given back when each thread of the block has come there (or has ended) "
              "and none refers to it any more"),
    Construct("8.2", "extern __shared__ T x[];", "x = k.dynamic_shared(T)",
              "Shared memory whose bytes the launch gives; one in a kernel.",
              differs="a launch may give bytes to a kernel without one"),
    Construct("8.2", "__local__ T x[n];", "x = k.local_variable(n, T)",
              "Memory of a thread in L1, for what it computes on: one array for the line, as long as the thread."),
    Construct("8.2", "`__local__ T x[n];` (in a helper or a loop)", "x = k.local(n, T)",
              "Memory of a thread in L1, for what it computes on.",
              differs=f"{_GIVEN_BACK}, which is given back when nothing refers to it any more"),
    Construct("8.2", "__device__ __shared__ T x[n]; __device__ __local__ T x[n];", "k.shared(n, T); k.local(n, T)",
              "The same as without `__device__`."),
    Construct("8.2", "const T* __restrict__ x", "`x: k.restrict`, `x: k.restrict[T]`",
              "A parameter whose bytes no other one reaches; unchecked, but strict mode reports a launch that "
              "breaks it.", differs="of kernels only: a device function's arguments are Python's"),
    Construct("8.2", "__local__ char* p; char* q = p;", "q = k.generic(p)",
              "A pointer becomes one into its own space or the generic one by itself: in comparisons and differences "
              "too.", differs="written, where C++ converts by a declared type"),
    Construct("8.2", "char* p; __local__ char* q = (__local__ char*) p;", "q = p.cast(space=k.Local)",
              "A generic pointer becomes a specific one when that is written.",
              differs="checked: the bytes must lie in that space"),
    Construct("8.2", "__local__ char* p; (__shared__ char*) p", "refused",
              "A pointer into one specific space never becomes one into another.",
              differs="refused when it runs, not when it is compiled"),
    Construct("8.2", "__constant__ char* p; char* q = p;", "refused",
              "Constant memory lies below no other space: no generic pointer reaches it, and no parameter does.",
              differs="refused when it runs, not when it is compiled"),
    Construct("8.2", "(int*) p", "p.cast(np.int32)", "The same bytes as elements of another type."),
)  # fmt: skip

_CHIPS = sorted(ARCHITECTURES.values(), key=lambda chip: chip.gcu_arch)
_NUMBERS = " or ".join(str(chip.gcu_arch) for chip in _CHIPS)
_ABSTRACT = " or ".join(
    f"{level} ({', '.join(chip.name for chip in _CHIPS if chip.agcu_arch >= level)})"
    for level in sorted({chip.agcu_arch for chip in _CHIPS})
)

_BUILT_IN = (
    Construct("8.5", "gridDim", "k.gridDim", "How many blocks the grid has, in x, y and z.", ("dim3",)),
    Construct("8.5", "blockIdx", "k.blockIdx", "The block's index in the grid.", ("uint3",)),
    Construct("8.5", "blockDim", "k.blockDim", "How many threads each block has, in x, y and z.", ("dim3",)),
    Construct("8.5", "threadIdx", "k.threadIdx", "The thread's index in its block.", ("uint3",)),
    Construct("8.6", "GCU_ARCH", "`k.GCU_ARCH`, `k.__GCU_ARCH__`",
              f"The chip that the kernel is compiled for: {_NUMBERS}.",
              differs="a number in kernels, None on the host and in a kernel for an abstract architecture; read as "
              "`k.GCU_ARCH`, never imported"),
    Construct("8.6", "AGCU_ARCH", "`k.AGCU_ARCH`, `k.__AGCU_ARCH__`",
              f"The abstract architecture that the kernel is compiled for: {_ABSTRACT}.",
              differs="a number in kernels, None on the host; read as `k.AGCU_ARCH`, never imported"),
    Construct("8.6", "compilation for `AGCU200` or `AGCU300`", '@k.kernel(arch="agcu200")',
              "The kernel runs on the chips of that architecture and is held to what all of them can do.",
              differs="without `arch`, a kernel is compiled for whichever chip runs it"),
)  # fmt: skip

SPACES: tuple[Construct, ...] = _EXECUTION + _MEMORY + _BUILT_IN


_SUSPENDED = "an `await`, for a thread can be suspended here"
_AWAITED = f"{_SUSPENDED}; one that is forgotten is an error that names its line"
_HOST_ONLY = "the texts name the host's functions only (Runtime API, 2.11); here kernels have their own"

SYNC: tuple[Construct, ...] = (
    Construct(
        "8.8", "void __syncthreads()", "await k.syncthreads()",
        "All threads of the block wait until each of them has come here.",
        differs=f"{_AWAITED}; `k.__syncthreads` is the same function",
    ),
    Construct(
        "8.8", "void __syncblocks()", "await k.syncblocks()",
        "All threads of the grid wait until each of them has come here; the kernel must be cooperative.",
        differs=f"{_AWAITED}; in a grid that is not cooperative it is an error at the call; "
        "`k.__syncblocks` is the same function",
    ),
    Construct(
        "8.8", "enum BarrierScope { SIP = 0, CLUSTER = 1 }", "k.BarrierScope.SIP, k.BarrierScope.CLUSTER",
        "Whose threads a barrier counts: those of one block, or in a cooperative grid those of all its blocks.",
        differs="the text does not say what the scopes mean; an arrival from outside the scope is an error",
    ),
    Construct(
        "8.8", "tte::barrier<BarrierScope>(int count)", "k.barrier(scope, count)",
        "Make a barrier whose phases end when `count` threads have arrived; the scope's threads share it by its line.",
        differs="the scope is an argument; a count below 1, above the scope's threads, or other than another "
        "thread's is an error",
    ),
    Construct(
        "8.8", "tte::barrier::arrive()", "b.arrive()",
        "Arrive without waiting; the arrival that brings the count to zero ends the waits and begins a new phase.",
        differs="it returns a token of the phase, which `wait` takes",
    ),
    Construct(
        "8.8", "void tte::barrier::wait()", "await b.wait(token=None)",
        "Wait for the end of the phase of this thread's last arrival, or of the token's; at once where it is over.",
        differs=f"{_AWAITED}; the text has no token; a thread that never arrived waits for the current phase",
    ),
    Construct(
        "8.8", "void tte::barrier::arrive_and_wait()", "await b.arrive_and_wait()",
        "Arrive, and wait for the end of that phase.",
        differs=_AWAITED,
    ),
    Construct(
        "8.2", "int printf(const char* format, ...)", "k.printf(format, *arguments)",
        "Print as C does; the host shows it at the end of the launch, before an `await` of it returns.",
        tuple(f"%{conversion}" for conversion in CONVERSIONS),
        differs="arguments that do not fit their conversions, undefined in C, are errors; a full FIFO loses its "
        "oldest texts, and the host logs how many",
    ),
    Construct(
        "2.3", "void assert(expression)", "k.assert_(condition, message=None)",
        "End the launch with KernelAssert, which is topsErrorAssert, unless the condition holds.",
        differs="the texts name the error code only; Python's own `assert` ends a launch alike",
    ),
    Construct(
        "2.11", "topsKernelSignalRead", "k.signal_read(handle)",
        "Return the 32-bit value of a kernel signal.",
        differs=_HOST_ONLY,
    ),
    Construct(
        "2.11", "topsKernelSignalWrite", "k.signal_write(handle, value)",
        "Set a kernel signal and end the waits that it satisfies.",
        differs=_HOST_ONLY,
    ),
    Construct(
        "2.11", "", "k.signal_add(handle, value=1)",
        "Add to a kernel signal in one step and return the value before.",
        differs="the texts have no such function",
    ),
    Construct(
        "2.11", "", 'await k.signal_wait(handle, value, condition="gte")',
        "Wait until a kernel signal meets a condition, as the runtime's value waits compare.",
        tuple(each.name.lower() for each in Condition),
        differs="the texts have no such function",
    ),
)  # fmt: skip


_NO_ADDRESS = "memory is a Span or a local or shared array, which know type and place, and no raw address"
_NO_OPERATOR = "there is no address operator"
_PUBLISHED = "the text does not have it, published kernels do"


def _dte(cpp: str, python: str, summary: str, differs: str = "") -> Construct:
    return Construct("8.7", cpp, python, summary, differs=differs)


_CONTEXTS = (
    _dte("__shared__ tops_dte_ctx_t ctx;", "ctx = k.shared_dte_ctx()",
         "A context of the block's engine, for one thread at a time, between global and shared memory."),
    _dte("tops_dte_ctx_t ctx;", "ctx = k.tops_dte_ctx_t()",
         "A context of the thread's own engine, between any two of global, shared and local memory."),
    _dte("tops_init_dte(&ctx);", "k.tops_init_dte(ctx)", "Make a context ready for use.",
         _NO_OPERATOR),
    _dte("tops_init_dte(ctx);", "k.tops_init_dte(ctx)", "Make a context ready for use."),
    _dte("ctx.init();", "ctx.init()", "Make a context ready for use."),
    _dte("tops_destroy_dte(&ctx);", "k.tops_destroy_dte(ctx)", "Give a context back; no transfer may be in flight.",
         _NO_OPERATOR),
    _dte("tops_destroy_dte(ctx);", "k.tops_destroy_dte(ctx)", "Give a context back; no transfer may be in flight."),
    _dte("ctx.destroy();", "ctx.destroy()", "Give a context back; no transfer may be in flight."),
    _dte("tops::dte_scope s(ctx);", "with k.dte_scope(ctx): ...",
         "Initialise a context, and destroy it at the end of the scope.",
         f"a `with` block is the scope; without an argument it makes a private context, `as` gives it; {_PUBLISHED}"),
    _dte("tops::mdspan x((char*)(address), N, H, W, C);", "x = k.mdspan(memory, n, h, w, c)",
         "Memory seen with a shape, its extents given one by one.", _NO_ADDRESS),
    _dte("int shape[] = {N, H, W, C}; tops::mdspan x((char*)(address), shape);",
         "x = k.mdspan(memory, (n, h, w, c))", "Memory seen with a shape, its extents given as an array.", _NO_ADDRESS),
    _dte("tops::mdspan x(space, address, shape);", "x = k.mdspan(k.Global, memory, (n, h, w, c))",
         "Memory seen with a shape, its memory space named: k.Global, k.Shared or k.Local.",
         f"{_NO_ADDRESS}; a space that it does not lie in is an error"),
    _dte("tops::event ev = tops::memcpy_async(ctx, dst, src);", "ev = k.memcpy_async(ctx, dst, src)",
         "Start an operation and get its event; each operation has such a form, its name with _async."),
    _dte("tops::event ev;", "ev = k.event()", "An event of no transfer, over when it is waited for."),
    _dte("tops::wait(ev);", "await k.wait(ev)", "Wait for an operation; then dst may be read and src overwritten.",
         _SUSPENDED),
    _dte("ev.wait();", "await ev.wait()", "Wait for an operation; then dst may be read and src overwritten.",
         f"{_SUSPENDED}; `await ev` does the same; {_PUBLISHED}"),
)  # fmt: skip

def _operation(row: Operation[...]) -> Construct:
    shown = [
        name if each.default is each.empty else f"{name}={each.default!r}"
        for name, each in row.signature.parameters.items()
    ]
    cpp, python = f"tops::{row.name}({row.cpp})", f"k.{row.name}({', '.join(shown)})"
    return Construct(row.section, cpp, python, row.summary, differs=row.differs, gcu_arch=row.gcu_arch)


_OPERATIONS = tuple(map(_operation, OPERATIONS.values()))

_CONFIGURED = (
    _dte("ctx.config_memcpy(dst, src);", "ctx.config_memcpy(dst, src)",
         "Configure an operation without starting it; each operation has such a method, config_ before its name.",
         _PUBLISHED),
    _dte("ctx.set_src_addr(address);", "ctx.set_src_addr(memory)",
         "Read the configured shape from the start of other memory.", f"{_NO_ADDRESS}; {_PUBLISHED}"),
    _dte("ctx.set_dst_addr(address);", "ctx.set_dst_addr(memory)",
         "Write the configured shape to the start of other memory.", f"{_NO_ADDRESS}; {_PUBLISHED}"),
    _dte("ctx.set_src_offset(dim, offset);", "ctx.set_src_offset(dim, offset)",
         "Move the window in src along one dimension, the outermost being 0.", _PUBLISHED),
    _dte("ctx.set_dst_offset(dim, offset);", "ctx.set_dst_offset(dim, offset)",
         "Move the window in dst along one dimension, the outermost being 0.", _PUBLISHED),
    _dte("ctx.set_total_size(bytes);", "ctx.set_total_size(size)", "Change how many bytes a configured memcpy moves.",
         f"`bytes` is `size`; {_PUBLISHED}"),
    _dte("tops::event ev = ctx.trigger();", "ev = ctx.trigger()", "Start what is configured and get its event.",
         _PUBLISHED),
    _dte("ctx.trigger_and_wait();", "ctx.trigger_and_wait()", "Do what is configured.", _PUBLISHED),
    _dte("a.connect(b);", "a.connect(b)",
         "Let each transfer of b begin after one of a: start both, wait only for b's.", _PUBLISHED),
)  # fmt: skip

DTE: tuple[Construct, ...] = (*_CONTEXTS, *_OPERATIONS, *_CONFIGURED)
