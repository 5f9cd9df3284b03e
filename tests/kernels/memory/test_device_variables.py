"""Variables that kernels reach by name: device variables and constants, and their instances."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable, Iterator
from types import ModuleType
from weakref import WeakSet

import ml_dtypes
import numpy as np
import pytest

import atops
from atops import kernels as k
from atops.base.errors import (
    IllegalAddress,
    IllegalState,
    InvalidType,
    InvalidValue,
    LaunchFailure,
    LaunchOutOfResources,
    OutOfMemory,
)
from atops.device.arch import ARCHITECTURES
from atops.kernels.memory import device_variables as variables
from atops.kernels.memory.device_variables import Variable, constant, device_variable, variables_named
from tests.every import every
from tests.kernel_bench import Bench

CHIPS = pytest.mark.parametrize("chip", ARCHITECTURES)
FILTER = constant(np.float32, [0.25, 0.5, 0.25])
_hits = device_variable(np.int32, shape=4)


def instance(bench: Bench, variable: Variable) -> np.ndarray:
    """Return the bytes of a bench's instance, as the host sees them."""
    allocation = variable.on(bench.chip).allocation
    return allocation.data.view(variable.dtype).reshape(variable.shape)


@CHIPS
def test_every_thread_reaches_a_device_variable_by_index(make_bench: Callable[..., Bench], chip: str):
    """On both chips threads of all blocks read and store elements and slices; the instance lives on."""
    bench = make_bench(arch=chip)
    total = device_variable(np.int32, 5)
    row = device_variable(np.float32, shape=(2, 3))

    @k.kernel
    def count():
        total[...] += 1
        _hits[k.threadIdx.x] += 10
        row[k.blockIdx.x, 1:] = k.blockIdx.x + 1

    for _ in range(2):
        bench.launch(count, (2, 4))
    assert instance(bench, total) == 5 + 16
    assert list(instance(bench, _hits)) == [40, 40, 40, 40]
    assert instance(bench, row).tolist() == [[0, 1, 1], [0, 2, 2]]


@CHIPS
def test_numpy_and_the_dte_work_on_variables(make_bench: Callable[..., Bench], chip: str):
    """Operators, functions, methods and `out` take a variable as an array; a DTE takes its spans."""
    bench = make_bench(arch=chip)
    row, seen = device_variable(np.float32, [1, 2, 3]), []

    @k.kernel
    def use():
        seen.append(((row + 1).tolist(), (2 * row[1:]).tolist(), float(np.sum(row)), row.max(), list(row), len(row)))
        np.multiply(row, FILTER, out=row)
        np.add(np.stack((row, row))[0], 1, out=row[...])
        row[2:] *= 2
        tile = k.local(3, np.float32)
        with k.dte_scope() as dte:
            k.memcpy(dte, tile, row[...])
            tile += FILTER
            k.memcpy(dte, row[:2], tile[:2])
            k.memcpy(dte, tile, k.mdspan(FILTER, 3))
        seen.append(tile.tolist())

    bench.launch(use, (1, 1))
    assert seen[0] == ([2, 3, 4], [4, 6], 6.0, 3.0, [1, 2, 3], 3)
    assert seen[1] == [0.25, 0.5, 0.25]
    assert instance(bench, row).tolist() == [1.5, 2.5, 3.5]


def test_an_augmented_variable_is_still_one(bench: Bench):
    """`x += 1` with a name declared nonlocal leaves the variable itself in the name."""
    total = first = device_variable(np.int32, 1)

    @k.kernel
    def add():
        nonlocal total
        total += 2

    bench.launch(add, (1, 3))
    assert total is first and instance(bench, total) == 7


COUNT = device_variable(np.int32, 3)
RATIO = device_variable(np.float32, 2.0)


@pytest.mark.parametrize("strict", [False, True])
def test_an_integer_variable_counts_and_indexes(make_bench: Callable[..., Bench], strict: bool):
    """As a C++ one does: a loop's bound, an index, an offset, a vector's lane; others are refused by name."""
    bench, pair = make_bench(strict=strict), device_variable(np.int32, [1, 2], name="pair")
    x = bench.upload(np.arange(8, dtype=np.int32))

    @k.kernel
    def entry(x):
        for i in range(COUNT):
            x[i] = -1
        x[COUNT : COUNT + 2] = 9
        with k.dte_scope() as dte:
            one = k.local(1, np.int32)
            one[0] = k.vector4["int"](5)[COUNT]
            k.deslice(dte, x[4:], one, (COUNT,))
        assert [0, 1, 2, 30][COUNT] == 30

    bench.launch(entry, (1, 1), x)
    assert x.host.tolist() == [-1, -1, -1, 9, 9, 5, 6, 5]
    for wrong in (lambda: range(RATIO), lambda: range(pair)):
        error = bench.attempt(k.kernel(wrong), (1, 1)).error
        assert re.search(r"raised TypeError: <device variable (RATIO|pair).*> is no integer; ", str(error))


def test_each_chip_has_an_instance_from_its_first_use(make_bench: Callable[..., Bench]):
    """An instance is made when it is first used, counts as an allocation, and knows nothing of other chips."""
    one, other = make_bench(), make_bench()
    total = device_variable(np.int64, 7, name="total")

    @k.kernel
    def add(n):
        total[...] += n

    assert one.memory.live() == []
    one.launch(add, (1, 1), 1)
    [allocation] = one.memory.live()
    assert (allocation.size, allocation.label) == (8, "total") and "test_device_variables.py" in str(allocation.site)
    assert other.memory.live() == []
    other.launch(add, (1, 1), 10)
    assert (instance(one, total), instance(other, total), total.initial) == (8, 17, 7)


def test_many_threads_make_one_instance(make_bench: Callable[..., Bench]):
    """OS threads that use a variable for the first time at the same time find the same instance."""
    bench = make_bench(workers="sip")
    total = device_variable(np.int32, shape=24)
    addresses: set[int] = set()

    @k.kernel
    async def use():
        await k.syncthreads()
        total[k.thread_id()] = 1
        addresses.add(total[...].address)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        bench.launch(use, (2, 12))
    finally:
        sys.setswitchinterval(before)
    assert len(addresses) == 1 and instance(bench, total).sum() == 24


def test_a_freed_instance_is_a_fault(bench: Bench):
    """Memory that was freed under a variable is an error, naming what freed it."""
    total = device_variable(np.int32)
    bench.memory.free(total.on(bench.chip).allocation, "a mistake")

    @k.kernel
    def use():
        total[...] = 1

    with pytest.raises(LaunchFailure, match="freed by a mistake"):
        bench.launch(use, (1, 1))


def test_a_full_device_has_no_instance(bench: Bench):
    """Where no memory is left, the first use fails with the figures."""
    total = device_variable(np.uint8, shape=1 << 20)
    bench.memory.allocate(bench.memory.total - 4096)

    @k.kernel
    def use():
        total[0] = 1

    with pytest.raises(LaunchFailure) as caught:
        bench.launch(use, (1, 1))
    assert isinstance(caught.value.__cause__, OutOfMemory)


def test_a_line_of_a_kernel_declares_one_variable(bench: Bench):
    """`static` in a function: all threads, launches and callers of the line share it, and other lines do not."""
    x = bench.empty((2, 2), np.int32)

    @k.device
    def count():
        calls = device_variable(np.int32, 100)
        calls[...] += 1
        return int(calls)

    @k.kernel
    def use(x, turn):
        other = device_variable(np.int32, 0)
        other[...] += 1
        x[turn, 0], x[turn, 1] = count(), int(other)

    for turn in range(2):
        bench.launch(use, (1, 3), x, turn)
    assert x.host.tolist() == [[103, 3], [106, 6]]
    assert all(not isinstance(key, Variable) or key.shape == () for key in bench.chip.variables)

    @k.kernel
    def differ():
        device_variable(np.int32 if k.threadIdx.x else np.int8)

    with pytest.raises(LaunchFailure, match="a line declares one variable"):
        bench.launch(differ, (1, 2))


@CHIPS
def test_kernels_only_read_constants(make_bench: Callable[..., Bench], chip: str):
    """Reads work on both chips; every way to store fails, naming thread and line, and changes nothing."""
    bench = make_bench(arch=chip)

    def ufunc_at():
        np.add.at(FILTER, 0, 1)

    def by_dte():
        tile = k.local(3, np.float32)
        with k.dte_scope() as dte:
            k.memcpy(dte, FILTER[...], tile)

    stores = [
        lambda: FILTER.__setitem__(0, 1), lambda: FILTER.fill(0), lambda: FILTER[1:].__setitem__(0, 1),
        lambda: np.add(FILTER, 1, out=FILTER), lambda: np.add(FILTER, 1, out=FILTER[...]),
        lambda: np.copyto(FILTER, 0), ufunc_at, by_dte, lambda: np.asarray(FILTER).__setitem__(0, 9),
        lambda: np.add.at(FILTER[...], 0, 1), lambda: np.add.at(FILTER[1:], [0], 1), lambda: np.copyto(FILTER[...], 0),
        lambda: FILTER[...].__setitem__([0, 1], 1), lambda: FILTER[...].fill(0),
    ]  # fmt: skip

    @k.kernel
    def store(number):
        if k.threadIdx.x == 1:
            assert FILTER[1] == 0.5 and FILTER.sum() == 1
            stores[number]()

    for number in range(len(stores)):
        error = bench.attempt(store, (1, 2), number).error
        said = re.search(r"thread \(1,0,0\).*(only read|read-only).*test_device_variables.py", str(error))
        assert isinstance(error, LaunchFailure) and said, (number, error)
    assert instance(bench, FILTER).tolist() == [0.25, 0.5, 0.25]


def test_a_direct_store_into_a_constant_names_it(bench: Bench):
    """The message of the plain store shows the constant and where it was declared."""

    @k.kernel
    def store():
        FILTER[0] = 1

    said = r"store into <constant FILTER: float32\[3\], declared at test_\w+.py:\d+ in <module>>; kernels only"
    with pytest.raises(LaunchFailure, match=said) as caught:
        bench.launch(store, (1, 1))
    assert isinstance(caught.value.__cause__, IllegalAddress)


def test_a_store_into_a_slice_of_a_constant_says_why(bench: Bench):
    """It is an illegal address that names thread, line and memory, not numpy's complaint of an array."""

    @k.kernel
    def store():
        part = FILTER[1:]
        part[0] = 1

    said = r"raised IllegalAddress at test_\w+.py:\d+ in .*store: a store into <Span float32\[2\] constant .*"
    with pytest.raises(LaunchFailure, match=said + "this constant memory is read-only in kernels"):
        bench.launch(store, (1, 1))


def test_a_kernel_names_so_many_bytes_of_constants(bench: Bench):
    """What a kernel names itself, through functions and as `module.name`, is added up once each at the launch."""
    room = bench.arch.constant_bytes
    a, b, c = (constant(np.uint8, shape=room // 2) for _ in range(3))
    tables = ModuleType("tables")
    tables.c = c

    def helper():
        return b[0]

    @k.kernel
    def two():
        a[0], helper(), b[1], a[2]

    @k.kernel
    def three():
        a[0], helper(), tables.c[0]

    device_helper = k.device(helper)

    @k.kernel
    def nested():
        [device_helper() for _ in range(2)], a[0], FILTER[0]

    assert [each.constant_bytes for each in (two, three, nested)] == [room, room // 2 * 3, room + 12]
    bench.launch(two, (1, 1))
    for kernel, size in ((three, room // 2 * 3), (nested, room + 12)):
        with pytest.raises(LaunchOutOfResources, match=f"refers to {size} bytes of constants; gcu300 has {room}"):
            bench.launch(kernel, (1, 1))
    with pytest.raises(InvalidValue, match=f"a constant of {room + 1} bytes; constant memory has {room}"):
        constant(np.uint8, shape=room + 1)
    constant(np.uint8, shape=room)


def test_constants_are_declared_outside(bench: Bench):
    """A declaration of a constant in a kernel is a fault."""

    @k.kernel
    def declare():
        constant(np.int8)

    with pytest.raises(LaunchFailure, match="a constant is declared outside of kernels"):
        bench.launch(declare, (1, 1))


def test_names_are_those_of_the_module():
    """A variable at a module's level is found by the name it has there, alone or qualified; others by what they got."""
    module = FILTER.module
    assert FILTER.name == "FILTER" and _hits.name == "_hits"
    assert variables_named(f"{module}.FILTER") == [FILTER] and variables_named(f"{module}._hits") == [_hits]
    named, nameless = device_variable(np.int8, name="only here"), device_variable(np.int8)
    assert variables_named("only here") == [named] and nameless.name == ""
    assert variables_named("") == [] and "device variable (no name): int8[], declared" in repr(nameless)
    del named
    assert variables_named("only here") == []


def test_the_host_has_symbols_instead():
    """Every use on the host is an error that says what to use; what a declaration is can be asked anywhere."""
    for use in (
        lambda: _hits[0], lambda: _hits + 1, lambda: np.sum(_hits), lambda: np.asarray(_hits), lambda: int(_hits),
        lambda: list(_hits), lambda: _hits.fill(0), lambda: _hits.max(), lambda: bool(_hits == 1),
    ):  # fmt: skip
        with pytest.raises(IllegalState, match=r"_hits.*on the host; use device.symbol"):
            use()
    assert (_hits.shape, _hits.dtype, _hits.size, _hits.nbytes, _hits.ndim, len(_hits)) == ((4,), np.int32, 4, 16, 1, 4)
    assert hash(_hits) != hash(FILTER)
    with pytest.raises(InvalidValue, match="has no dimensions"):
        len(device_variable(np.int8))
    with pytest.raises(AttributeError, match="no 'sort'"):
        _ = _hits.sort


@pytest.mark.parametrize(
    ("dtype", "init", "shape", "expected"),
    [(np.float32, 1, None, np.float32(1)), (np.int8, [[1, -2]], None, np.array([[1, -2]], np.int8)),
     (np.uint16, 7, (2, 2), np.full((2, 2), 7, np.uint16)), ("bfloat16", None, 3, np.zeros(3, ml_dtypes.bfloat16)),
     (np.float16, [0.1, float("inf")], None, np.array([0.1, np.inf], np.float16)),
     (np.int32, np.arange(3), 3, np.arange(3, dtype=np.int32)), (np.bool_, [1, 0], None, np.array([True, False])),
     (np.dtype([("n", "i4"), ("x", "f4")]), np.array((3, 0.5), "i4,f4"), None, None)],
)  # fmt: skip
def test_what_a_variable_begins_as(dtype: object, init: object, shape: object, expected: np.ndarray | None):
    """The initial value has the declared type and shape and cannot be changed; one value fills a shape."""
    initial = device_variable(dtype, init, shape=shape).initial
    assert not initial.flags.writeable
    if expected is None:
        assert initial["n"] == 3 and initial["x"] == 0.5
    else:
        assert initial.dtype == expected.dtype and np.array_equal(initial, expected)


@every(
    "dtype, init, shape, error, why",
    [(np.int8, 128, None, InvalidValue, "out of the range of int8"), (np.uint8, -1, None, InvalidValue, "uint8"),
     (np.uint32, [0, -1], None, InvalidValue, "uint32"), (np.int32, 1.5, None, InvalidValue, "int32"),
     (np.float16, 1e6, None, InvalidValue, "float16"), (np.bool_, 2, None, InvalidValue, "bool"),
     (np.int32, [1, 2], 3, InvalidValue, r"has shape \(2,\); expected \(3,\), or one value"),
     (np.int32, None, 0, InvalidValue, "no elements"), (np.int32, [], None, InvalidValue, "no elements"),
     (np.int32, None, -1, InvalidValue, "no extent is negative"), (np.int32, None, 2.5, InvalidType, "shape expects"),
     (np.float32, "1", None, InvalidType, "expects numbers"), (np.float32, 1j, None, InvalidType, "complex"),
     (np.float32, [[1], [2, 3]], None, InvalidType, "no array"), ("float33", 1, None, InvalidType, "float33"),
     (np.float32, {}, None, InvalidType, "expects numbers")],
)  # fmt: skip
def test_what_no_variable_begins_as(dtype: object, init: object, shape: object, error: type, why: str):
    """Values out of range, other shapes, no elements and what is no number are refused where they are declared."""
    for declare in (device_variable, constant):
        with pytest.raises(error, match=why):
            declare(dtype, init, shape=shape)


def test_declarations_from_many_threads_are_all_known():
    """Declaring is safe from any OS thread."""
    made: list[Variable] = []

    def declare(number: int) -> None:
        made.extend(device_variable(np.int8, name=f"of many {number}") for _ in range(50))

    threads = [threading.Thread(target=declare, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [len(variables_named(f"of many {number}")) for number in range(4)] == [50] * 4 and len(made) == 200


def test_names_are_found_while_another_thread_declares(monkeypatch: pytest.MonkeyPatch):
    """Going through the declared variables is safe while their set grows."""

    class Growing(WeakSet):
        """A set that grows the first time that it is iterated."""

        def __iter__(self) -> Iterator[Variable]:
            for number, each in enumerate(super().__iter__()):
                if number == 0 and not late:
                    late.append(device_variable(np.int8, name="declared late"))
                yield each

    late: list[Variable] = []
    early = [device_variable(np.int8, name="declared early") for _ in range(2)]
    monkeypatch.setattr(variables, "_declared", Growing(early))
    assert len(variables_named("declared early")) == 2
    assert variables_named("declared late") == late != []


@pytest.mark.parametrize("extent", [10**15, 10**30])
def test_a_variable_fits_a_chip(extent: int):
    """One of more bytes than any chip has is refused where it is declared, with its name and the limit."""
    for declare, what, most in (
        (device_variable, "a device variable huge", max(arch.l3_bytes for arch in ARCHITECTURES.values())),
        (constant, "a constant huge", max(arch.constant_bytes for arch in ARCHITECTURES.values())),
    ):
        for init in (None, 1):
            with pytest.raises(InvalidValue, match=f"{what} of {4 * extent} bytes; .* memory has {most}"):
                declare(np.float32, init, shape=extent, name="huge")


def test_a_variable_fits_the_host(monkeypatch: pytest.MonkeyPatch):
    """Where the host has no memory for the initial value, the variable is named."""

    def full(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(np, "zeros", full)
    with pytest.raises(OutOfMemory, match="a device variable table of 16 bytes, which the host cannot hold"):
        device_variable(np.float32, shape=4, name="table")


_WHOLE = constant(np.int32, [2, 0, 1, 3])
_ONE = device_variable(np.int32, 7)


@k.kernel
def _takes_variables(x, out):
    out[0:4] = _WHOLE
    out[4] = _ONE
    out[5:9] = x[_WHOLE]
    out[9] = x.dot(_WHOLE)


def test_a_variable_given_whole_is_read_as_a_span_is():
    """Stored, as an index, as an argument of a method: what is read is observed, and no plain array escapes."""

    async def main() -> list[int]:
        async with atops.Device(0).create_stream() as stream:
            x, out = stream.upload(np.arange(4, dtype=np.int32)), stream.zeros(10, np.int32)
            stream.launch(_takes_variables, (1, 1), x, out)
            return (await stream.fetch(out)).tolist()

    assert atops.run(main, atops.EmulatorOptions(detect=True)) == [2, 0, 1, 3, 7, 2, 0, 1, 3, 11]
    assert atops.report().verdict == "clean"
