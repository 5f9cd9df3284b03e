"""Every row of the tables of execution and memory spaces, built-in variables and macros is true: one proof each."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from atops import kernels as k
from atops.base.errors import (
    CooperativeLaunchTooLarge,
    ExecutionError,
    IllegalState,
    InvalidType,
    InvalidValue,
    LaunchFailure,
    LaunchOutOfResources,
    NotSupported,
)
from atops.kernels.arguments import restrict
from atops.kernels.execution_spaces import device, host
from atops.kernels.memory.arrays import Constant, Generic, private
from atops.kernels.memory.device_variables import constant, device_variable
from atops.kernels.memory.pointer import generic, pointer
from atops.kernels.tables.constructs import SPACES, Construct
from atops.kernels.target import macro
from tests.every import every
from tests.kernel_bench import Bench
from tests.runtime import boards

Proof = Callable[[Callable[..., Bench]], None]
PROOFS: dict[str, Proof] = {}

COUNTER = device_variable(np.float32, 1.0)
_static = device_variable(np.float32, 2.0)
WEIGHT = constant(np.float32, 1.5)

language: Any = ModuleType("macro_language")
language.__getattr__ = macro


def proves(cpp: str) -> Callable[[Proof], Proof]:
    """Note a function as the proof of the row that is spelled so."""

    def note(proof: Proof) -> Proof:
        assert cpp not in PROOFS, cpp
        PROOFS[cpp] = proof
        return proof

    return note


def run(bench: Bench, body: Callable[..., object], config: Any = (1, 1), *arguments: Any) -> None:
    """Run a function as a kernel."""
    bench.launch(k.kernel(body), config, *arguments)


def refused(bench: Bench, body: Callable[..., object], error: type, why: str, config: Any = (1, 1)) -> None:
    """Make sure that a function fails as a kernel."""
    with pytest.raises(LaunchFailure, match=why) as caught:
        run(bench, body, config)
    assert isinstance(caught.value.__cause__, error)


@pytest.mark.slow
@every("row", SPACES, ids=lambda row: f"{row.section} {row.cpp}")
def test_the_row_is_true(row: Construct, make_bench: Callable[..., Bench]):
    """What the row says holds."""
    PROOFS[row.cpp](make_bench)


def test_there_is_a_row_for_each_proof():
    """Rows and proofs are the same, each once, and every row says where it stands and what it does."""
    assert [row.cpp for row in SPACES if row.cpp not in PROOFS] == [] and len(PROOFS) == len(SPACES)
    assert {row.section for row in SPACES} == {"8.1", "8.2", "8.5", "8.6"}
    assert all(row.python and row.summary.endswith(".") and row.gcu_arch == 210 for row in SPACES)


# 8.1


@proves("__global__ void f(T* x)")
def _entry(make: Callable[..., Bench]) -> None:
    bench = make()
    x = bench.empty((2, 3), np.int32)

    def entry(x):
        x[k.blockIdx.x, k.threadIdx.x] = 1

    run(bench, entry, (2, 3), x)
    assert x.host.all()


@proves("`void`, the result of a `__global__` function")
def _no_result(make: Callable[..., Bench]) -> None:
    def typed() -> int: ...

    with pytest.raises(InvalidType, match="returns nothing"):
        k.kernel(typed)
    with pytest.raises(LaunchFailure, match="returned 1; a kernel returns nothing"):
        run(make(), lambda: 1)


@proves("a `__global__` function is no member of a class")
def _no_member(make: Callable[..., Bench]) -> None:
    class Holder:
        def method(self): ...

        @staticmethod
        def static(): ...

    for member in (Holder.method, Holder.static, Holder().method, Holder.__dict__["static"]):
        with pytest.raises(InvalidType):
            k.kernel(member)
    with pytest.raises(InvalidType, match="is a member of"):

        class Inner:
            @k.kernel
            def method(self): ...


@proves("f<<<grid, block, bytes>>>(x)")
def _configured(make: Callable[..., Bench]) -> None:
    seen: list[tuple[int, ...]] = []

    @k.kernel
    def entry():
        seen.append((*k.gridDim, *k.blockDim, k.dynamic_shared(np.int8).size))

    make().launch(entry, (2, (1, 2), 64))
    assert set(seen) == {(2, 1, 1, 1, 2, 1, 64)}
    with pytest.raises(IllegalState, match="it is launched"):
        entry()
    refused(make(), lambda: entry(), IllegalState, "called kernel entry")


@proves("the call of a `__global__` function is asynchronous")
def _asynchronous(make: Callable[..., Bench]) -> None:
    with boards.device() as gcu:
        stream, latch = gcu.create_stream(), boards.Latch(gcu)
        latch.hold(stream)
        launched = stream.launch(boards.add_one, (1, 1), stream.zeros(1, "int32"))
        assert not launched.done()
        latch.open()
        launched.wait_sync(boards.PATIENCE)


@proves("__device__ T f(T x)")
def _device(make: Callable[..., Bench]) -> None:
    @device
    async def meet(value):
        await k.syncthreads()
        return outer(value)

    outer = device(lambda value: value + 1)
    bench = make()
    x = bench.empty(2, np.int32)

    async def entry(x):
        x[k.threadIdx.x] = await meet(4)

    run(bench, entry, (1, 2), x)
    assert list(x.host) == [5, 5]
    with pytest.raises(IllegalState, match="on the host"):
        outer(1)


@proves("__global__ __device__")
def _global_device(make: Callable[..., Bench]) -> None:
    for order in ((k.kernel, device), (device, k.kernel)):
        with pytest.raises(InvalidType, match=r"@device"):
            order[0](order[1](lambda: None))


@proves("__host__ T f(T x)")
def _host(make: Callable[..., Bench]) -> None:
    here = host(lambda value: value + 1)
    assert here(1) == 2
    refused(make(), lambda: here(1), IllegalState, r"thread \(0,0,0\).*test_spaces.py:\d+.*only the host calls it")


@proves("`T f(T x)`, without a specifier")
def _unmarked(make: Callable[..., Bench]) -> None:
    def plain(value):
        return value + 1

    assert plain(1) == 2
    bench = make()
    x = bench.empty(1)

    def entry(x):
        x[0] = plain(2)

    run(bench, entry, (1, 1), x)
    assert x.host[0] == 3


@proves("__global__ __host__")
def _global_host(make: Callable[..., Bench]) -> None:
    for order in ((k.kernel, host), (host, k.kernel)):
        with pytest.raises(InvalidType, match=r"@host"):
            order[0](order[1](lambda: None))


@proves("__host__ __device__ T f(T x)")
def _both(make: Callable[..., Bench]) -> None:
    one, other = host(device(lambda: 7)), device(host(lambda: 8))
    seen = [one(), other()]
    run(make(), lambda: seen.extend((one(), other())))
    assert seen == [7, 8, 7, 8]


@proves("#if __AGCU_ARCH__ >= 300 ... #elif !defined(__AGCU_ARCH__)")
def _branches(make: Callable[..., Bench]) -> None:
    @host
    @device
    def where():
        if language.__AGCU_ARCH__ is None:
            return "host"
        if language.__AGCU_ARCH__ >= 300:
            return "agcu300"
        return "agcu200"

    seen = [where()]
    for arch in ("gcu210", "gcu300"):
        run(make(arch=arch), lambda: seen.append(where()))
    assert seen == ["host", "agcu200", "agcu300"]


@proves("__cooperative__ __global__ void f(T* x)")
def _cooperative(make: Callable[..., Bench]) -> None:
    @k.cooperative
    async def entry(x):
        x[k.blockIdx.x] = 1
        await k.syncblocks()
        assert x[0] == x[1] == 1

    bench = make()
    bench.launch(entry, (2, 1), bench.empty(2))
    with pytest.raises(CooperativeLaunchTooLarge):
        bench.launch(entry, (3, 1), bench.empty(3))
    with pytest.raises(LaunchFailure):
        run(bench, entry.function, (2, 1), bench.empty(2))


# 8.2


@proves("`T x; T x[n];` (automatic)")
def _automatic(make: Callable[..., Bench]) -> None:
    bench = make()
    room = bench.arch.stack_bytes

    async def own():
        mine = private(4, np.int32)
        mine[...] = k.threadIdx.x
        await k.syncthreads()
        assert (mine == k.threadIdx.x).all()

    run(bench, own, (1, 3))
    refused(bench, lambda: private(room + 1, np.int8), LaunchOutOfResources, f"of the {room} bytes of its stack")

    def move():
        with k.dte_scope() as dte:
            k.memset(dte, private(4, np.int32), 0)

    with pytest.raises(LaunchFailure, match="private memory, which no DTE reaches"):
        run(bench, move)


@proves("T* p = x")
def _pointer(make: Callable[..., Bench]) -> None:
    bench = make()

    def entry(x):
        p = pointer(x)
        p[1] = 5
        q = p + 1
        assert p.space is Generic and q[0] == 5 and q - p == 1 and p < q and q - 1 == p
        with pytest.raises(ExecutionError):
            p[4]

    run(bench, entry, (1, 1), bench.empty(4, np.int32))


@proves("`void f(T* x)` (parameters)")
def _parameters(make: Callable[..., Bench]) -> None:
    bench = make()

    def entry(x):
        assert pointer(x).space is Generic and pointer(x).cast(space=k.Global)[0] == 0

    run(bench, entry, (1, 1), bench.empty(4, np.int32))


@proves("__device__ T x = v;")
def _device_variable(make: Callable[..., Bench]) -> None:
    seen: list[float] = []

    def entry():
        seen.append(float(COUNTER))
        COUNTER[...] += 1

    for arch in ("gcu210", "gcu300"):
        one, other = make(arch=arch), make(arch=arch)
        run(one, entry, (2, 2))
        run(one, entry)
        run(other, entry)
    assert seen == [1, 2, 3, 4, 5, 1] * 2


@proves("topsMemcpyToSymbol(&x, &v, n); topsMemcpyFromSymbol")
def _symbols(make: Callable[..., Bench]) -> None:
    with boards.device() as gcu:
        stream, symbol = gcu.create_stream(), gcu.symbol("COUNTER")
        assert symbol.nbytes == 4 and symbol.address == gcu.symbol(COUNTER).address
        stream.copy(symbol, np.float32(9))
        stream.launch(k.kernel(lambda: COUNTER.__setitem__(..., COUNTER + 1)), (1, 1))
        assert stream.fetch(symbol).wait_sync(boards.PATIENCE) == 10
        gcu.reset_sync()
        assert gcu.create_stream().fetch(gcu.symbol(COUNTER)).wait_sync(boards.PATIENCE) == 1


@proves("extern __device__ T x;")
def _extern(make: Callable[..., Bench]) -> None:
    scope: dict[str, Any] = {"__name__": "another_file", "COUNTER": COUNTER}  # as `from module import COUNTER` does
    exec("def entry():\n    COUNTER[...] += 1\n", scope)
    bench = make()
    run(bench, scope["entry"])
    run(bench, scope["entry"])
    assert COUNTER.on(bench.chip).array == 3


@proves("`static __device__ T x = v;` (of a file)")
def _static_of_file(make: Callable[..., Bench]) -> None:
    bench = make()
    run(bench, lambda: _static.__setitem__(..., 5))
    assert _static.on(bench.chip).array == 5 and _static.name == "_static"


@proves("`static __device__ T x = v;` (in a function)")
def _static_in_function(make: Callable[..., Bench]) -> None:
    seen: list[float] = []

    def entry():
        static = device_variable(np.float32, 1.0)
        static[...] += 1
        seen.append(float(static))

    bench = make()
    run(bench, entry, (1, 2))
    run(bench, entry, (1, 1))
    assert seen == [2, 3, 4]


@proves("__constant__ T x = v;")
def _constant(make: Callable[..., Bench]) -> None:
    bench = make()
    room = bench.arch.constant_bytes
    half, rest = constant(np.uint8, shape=room // 2), constant(np.uint8, shape=room // 2 + 1)

    def entry():
        assert WEIGHT == 1.5 and half[0] == rest[0] == 0

    with pytest.raises(LaunchOutOfResources, match=f"refers to {room + 5} bytes of constants; .* {room}"):
        run(bench, entry)
    with pytest.raises(InvalidValue, match="constant memory has"):
        constant(np.uint8, shape=room + 1)
    with pytest.raises(LaunchFailure, match="kernels only read it"):
        run(bench, lambda: WEIGHT.fill(0))
    with boards.device() as gcu:
        stream, seen = gcu.create_stream(), []
        stream.copy(gcu.symbol(WEIGHT), np.float32(8))
        stream.launch(k.kernel(lambda: seen.append(float(WEIGHT))), (1, 1))
        stream.sync()
        assert seen == [8]


@proves("__device__ __constant__ T x = v;")
def _device_constant(make: Callable[..., Bench]) -> None:
    assert WEIGHT.is_constant and not COUNTER.is_constant
    seen: list[float] = []
    run(make(), lambda: seen.append(pointer(WEIGHT).cast(space=Constant)[0]))
    assert seen == [1.5]


@proves("__shared__ T x[n];")
def _shared(make: Callable[..., Bench]) -> None:
    bench = make(strict=True)
    x = bench.empty((4, 2), np.int32)

    async def entry(x):
        for _ in range(3):
            row = k.shared_variable(2, np.int32)
        fresh = int(row[0])
        await k.syncthreads()
        row[k.threadIdx.x] = k.blockIdx.x
        await k.syncthreads()
        x[k.blockIdx.x, k.threadIdx.x] = row[1 - k.threadIdx.x]
        assert np.uint32(fresh & 0xFFFFFFFF) == 0xA5A5A5A5  # no earlier block's: it lives as long as its block

    run(bench, entry, (4, 2), x)
    assert x.host.tolist() == [[0, 0], [1, 1], [2, 2], [3, 3]]
    refused(bench, lambda: k.shared_variable(bench.arch.l2_usable + 1, "i1"), LaunchOutOfResources, "bytes of L2")


@proves("__shared__ T x;")
def _shared_value(make: Callable[..., Bench]) -> None:
    bench = make()
    x = bench.empty((4, 2), np.float32)

    async def entry(x):
        value = k.shared_variable((), np.float32)
        if k.threadIdx.x == 0:
            value[...] = 1.5 + k.blockIdx.x
        await k.syncthreads()
        x[k.blockIdx.x, k.threadIdx.x] = value

    run(bench, entry, (4, 2), x)
    assert x.host.tolist() == [[b + 1.5] * 2 for b in range(4)]


@proves("`__shared__ T x[n];` (in a helper or a loop)")
def _shared_in_a_loop(make: Callable[..., Bench]) -> None:
    bench = make()

    async def entry():
        for turn in range(20):
            row = k.shared(bench.arch.l2_usable // 4, np.int8)
            row[k.threadIdx.x] = turn
            await k.syncthreads()
            assert row[1 - k.threadIdx.x] == turn

    run(bench, entry, (1, 2))


@proves("struct P { float a; int b; }; __device__ P x;")
def _structure(make: Callable[..., Bench]) -> None:
    kind = np.dtype([("a", np.float32), ("b", np.int32)])
    held = device_variable(kind)
    bench = make()

    def entry():
        for memory in (held, k.local(1, kind), k.shared(1, kind), private(1, kind)):
            memory["a"], memory["b"] = 0.5, 7
            assert memory["a"] == 0.5 and memory["b"] == 7

    run(bench, entry)
    assert held.on(bench.chip).array.item() == (0.5, 7)


@proves("extern __shared__ T x[];")
def _dynamic_shared(make: Callable[..., Bench]) -> None:
    @k.kernel
    async def entry():
        whole = k.dynamic_shared(np.int32)
        assert whole.size == 32
        ints, floats = pointer(whole), (pointer(whole) + 16).cast(np.float32)
        if k.threadIdx.x == 0:
            ints[0], floats[0] = 3, 1.0
        await k.syncthreads()
        assert ints[0] == 3 and ints[16] == 0x3F800000

    bench = make()
    bench.launch(entry, (1, 2, 128))
    with pytest.raises(InvalidValue, match="give a size"):
        bench.launch(entry, (1, 2))
    run(bench, lambda: None, (1, 1, 128))
    with pytest.raises(InvalidValue, match="a kernel has one"):
        k.kernel(lambda: (k.dynamic_shared("i4"), k.dynamic_shared("i4")))


@proves("__local__ T x[n];")
def _local(make: Callable[..., Bench]) -> None:
    bench = make(strict=True)

    async def entry():
        rows = [k.local_variable(4, np.int32) for _ in range(3)]
        row = rows[2]
        assert np.asarray(rows[0]).view(np.uint32)[0] == 0xA5A5A5A5  # no earlier thread's
        row[...] = k.thread_id()
        await k.syncthreads()
        assert (row == k.thread_id()).all()

    run(bench, entry, (4, 3))
    refused(bench, lambda: k.local_variable(bench.arch.l1_usable + 1, "i1"), LaunchOutOfResources, "bytes of L1")


@proves("`__local__ T x[n];` (in a helper or a loop)")
def _local_in_a_loop(make: Callable[..., Bench]) -> None:
    bench = make()

    def total(n):
        row = k.local(n, np.float32)
        row[...] = 1
        return row.sum()

    def entry():
        assert sum(total(4096) for _ in range(500)) == 500 * 4096
        ping, pong = [k.local(4, np.int32) for _ in range(2)]
        ping[...], pong[...] = 1, 2
        assert ping.sum() == 4 and pong.sum() == 8

    run(bench, entry)


@proves("void f(T* x)")
def _typed_parameters(make: Callable[..., Bench]) -> None:
    bench = make()
    floats, ints = bench.empty(4), bench.empty(4, np.int32)

    def typed(x: k.Span[np.float32]):
        assert x.dtype == np.float32

    def untyped(x: k.Span):
        assert x.size == 4

    run(bench, typed, (1, 1), floats)
    for each in (floats, ints):
        run(bench, untyped, (1, 1), each)
    for body, wrong in ((typed, ints), (typed, 3), (untyped, 3)):
        with pytest.raises(InvalidType, match="parameter x expects"):
            run(bench, body, (1, 1), wrong)


@proves("__device__ __shared__ T x[n]; __device__ __local__ T x[n];")
def _device_shared(make: Callable[..., Bench]) -> None:
    seen: list[Any] = []
    run(make(), lambda: seen.extend((pointer(k.shared(2, np.int32)).space, pointer(k.local(2, np.int32)).space)))
    assert seen == [k.Shared, k.Local]


@proves("const T* __restrict__ x")
def _restrict(make: Callable[..., Bench]) -> None:
    @k.kernel
    def entry(a: restrict, b: restrict[np.float32], c): ...

    for strict, reports in ((True, 1), (False, 0)):
        bench = make(strict=strict)
        x, y = bench.empty(4), bench.empty(4)
        assert len(bench.launch(entry, (1, 2), x, y, y).warnings) == reports


@proves("__local__ char* p; char* q = p;")
def _implicit(make: Callable[..., Bench]) -> None:
    def entry():
        p = pointer(k.local(4, np.int8))
        q = generic(p)
        assert q.space is Generic and q == p and q + 1 > p and q + 3 - p == 3

    run(make(), entry)


@proves("char* p; __local__ char* q = (__local__ char*) p;")
def _explicit(make: Callable[..., Bench]) -> None:
    def entry():
        p = generic(k.local(4, np.int8))
        assert p.cast(space=k.Local).space is k.Local

    run(make(), entry)
    refused(make(), lambda: generic(k.local(4, "i1")).cast(space=k.Shared), InvalidValue, "local memory .* shared")


@proves("__local__ char* p; (__shared__ char*) p")
def _between(make: Callable[..., Bench]) -> None:
    refused(make(), lambda: pointer(k.local(4, "i1")).cast(space=k.Shared), InvalidType, "a local .* a shared pointer")


@proves("__constant__ char* p; char* q = p;")
def _constant_pointer(make: Callable[..., Bench]) -> None:
    refused(make(), lambda: generic(WEIGHT), InvalidType, "a constant pointer never becomes a generic pointer")
    with boards.device() as gcu, pytest.raises(InvalidType, match="which no parameter points to"):
        gcu.create_stream().launch(boards.add_one, (1, 1), gcu.symbol(WEIGHT))


@proves("(int*) p")
def _reinterpreted(make: Callable[..., Bench]) -> None:
    def entry():
        p = pointer(k.local(4, np.float32))
        p[1] = 1.0
        assert p.cast(np.int32)[1] == 0x3F800000

    run(make(), entry)


# 8.5 and 8.6


def _index(name: str, expected: Callable[[int, int], tuple[int, int, int]]) -> Proof:
    """Return the proof that a built-in variable has these numbers in each thread of a grid of 2 x 2 by 3 x 2."""

    def proof(make: Callable[..., Bench]) -> None:
        seen: dict[int, tuple[int, ...]] = {}
        built_in = getattr(k, name)

        def entry():
            assert (built_in.x, built_in.y, built_in.z) == tuple(built_in)
            seen[k.thread_id()] = tuple(built_in)

        run(make(), entry, ((2, 2), (3, 2)))
        assert seen == {thread: expected(thread // 6, thread % 6) for thread in range(24)}
        with pytest.raises(IllegalState, match="on the host"):
            _ = built_in.x

    return proof


proves("gridDim")(_index("gridDim", lambda block, thread: (2, 2, 1)))
proves("blockIdx")(_index("blockIdx", lambda block, thread: (block % 2, block // 2, 0)))
proves("blockDim")(_index("blockDim", lambda block, thread: (3, 2, 1)))
proves("threadIdx")(_index("threadIdx", lambda block, thread: (thread % 3, thread // 3, 0)))


def _macro(name: str, expected: tuple[int, int]) -> Proof:
    """Return the proof that a macro has one number on each chip, and none on the host."""

    def proof(make: Callable[..., Bench]) -> None:
        seen: list[int] = []
        for arch in ("gcu210", "gcu300"):
            run(make(arch=arch), lambda: seen.append(getattr(language, name)))
        assert tuple(seen) == expected and getattr(language, name) is None

    return proof


proves("GCU_ARCH")(_macro("GCU_ARCH", (210, 300)))
proves("AGCU_ARCH")(_macro("AGCU_ARCH", (200, 300)))


@proves("compilation for `AGCU200` or `AGCU300`")
def _compiled_for(make: Callable[..., Bench]) -> None:
    seen: list[tuple[int | None, int]] = []

    @k.kernel(arch="agcu200")
    def look(x):
        seen.append((language.GCU_ARCH, language.AGCU_ARCH))

    @k.kernel(arch="agcu200")
    def index(x):
        x[0] = 1

    @k.kernel(arch="agcu300")
    def newer(x): ...

    for arch in ("gcu210", "gcu300"):
        bench = make(arch=arch)
        bench.launch(look, (1, 1), bench.empty(1))
        with pytest.raises(LaunchFailure, match="cannot reach global memory directly"):
            bench.launch(index, (1, 1), bench.empty(1))
    assert seen == [(None, 200)] * 2
    old = make(arch="gcu210")
    with pytest.raises(NotSupported, match="newer is compiled for agcu300, which runs on gcu300; this is gcu210"):
        old.launch(newer, (1, 1), old.empty(1))
