"""Spans: views without access, accesses with checks, and what numpy makes of them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atops import kernels as k
from atops.base.errors import DteError, IllegalAddress, IllegalState, InvalidValue, LaunchFailure
from atops.device.geometry import Space, is_basic
from atops.device.memory.value_wait import Condition, Watch
from atops.device.span.span import Span, SpanAccess, check_bounds
from tests.every import every
from tests.kernel_bench import Bench, benches


@pytest.fixture
def make_bench() -> Iterator[Callable[..., Bench]]:
    """Make benches with options."""
    yield from benches()


@pytest.fixture
def bench(make_bench: Callable[..., Bench]) -> Bench:
    """A gcu300 bench."""
    return make_bench()


def inside(bench: Bench, body: Callable[..., None], *args: object) -> None:
    """Run `body` as a kernel of one thread; one or two arguments reach it as spans."""

    def one(x):
        body(x)

    def two(x, y):
        body(x, y)

    bench.launch(k.kernel(one if len(args) == 1 else two), (1, 1), *args)


def span_of(bench: Bench, values: np.ndarray) -> Span:
    """Return a span of fresh global memory that holds `values`."""
    array = bench.upload(values)
    return Span.over(array.allocation, 0, array.dtype, array.shape)


def test_views_are_no_access(bench: Bench):
    """Slicing, reshaping, viewing and transposing work on the host and on freed memory, and name the right bytes."""
    x = span_of(bench, np.arange(24, dtype=np.int32))
    bench.memory.free(x.allocation)
    assert x[4:8].shape == (4,) and x[4:8].address == x.address + 16
    grid = x.reshape(2, 3, 4)
    assert grid.shape == (2, 3, 4) and grid[1].address == x.address + 48
    assert grid[:, 1:, ::2].shape == (2, 2, 2) and grid[..., None].shape == (2, 3, 4, 1)
    assert grid.T.shape == (4, 3, 2) and grid.transpose(1, 0, 2).shape == (3, 2, 4)
    assert x.view(np.int8).shape == (96,) and x.view("int16").nbytes == 96
    assert (len(x), x.size, x.ndim, x.itemsize, x.dtype) == (24, 24, 1, 4, np.int32)
    assert x[-4:].address == x.address + 80 and x[8:8].size == 0 and x[24:].size == 0
    assert repr(x[4:8]).startswith("<Span int32[4] global +0x10 of <Allocation")


@pytest.mark.parametrize("key", [slice(0, 25), slice(25, 30), slice(-25, 3), slice(30, None), (0, 0), 24, -25])
def test_a_view_beyond_the_extents_is_refused(bench: Bench, key: object):
    """A slice or an index that leaves the extents is an error that names the extent, unlike numpy's cut."""
    x = span_of(bench, np.zeros(24, np.int32))
    with pytest.raises(IllegalAddress, match=r"extent is 24|has 1 dimensions"):
        x[key]


def test_a_second_dimension_is_checked_too(bench: Bench):
    """The dimension that is left is named."""
    x = span_of(bench, np.zeros((4, 6), np.int32))
    with pytest.raises(IllegalAddress, match="slice 2:7 of dimension 1, whose extent is 6"):
        x[..., 2:7]
    with pytest.raises(IllegalAddress, match="slice :5 of dimension 0, whose extent is 4"):
        x[:5]


def test_shapes_that_do_not_fit_are_refused(bench: Bench):
    """Reshaping to another size or across gaps and viewing as an unfit type name the span."""
    x = span_of(bench, np.zeros(24, np.int32))
    with pytest.raises(InvalidValue, match="cannot have shape"):
        x.reshape(5, 5)
    with pytest.raises(InvalidValue, match="cannot have shape"):
        x.reshape(4, 6)[:, :3].reshape(12)
    with pytest.raises(InvalidValue, match="cannot be viewed as float64"):
        x[:3].view(np.float64)
    with pytest.raises(InvalidValue, match="no length"):
        len(x[0:1].reshape(()))


def test_a_span_lies_inside_its_allocation(bench: Bench):
    """A span that would reach beyond the allocation is not made."""
    array = bench.upload(np.zeros(4, np.float32))
    with pytest.raises(IllegalAddress, match="not inside"):
        Span.over(array.allocation, 8, np.float32, (3,))


def test_access_on_the_host_is_refused(bench: Bench):
    """The host reads and stores no element: it has copies for that."""
    x = span_of(bench, np.zeros(4, np.float32))
    for access in (lambda: x[0], lambda: np.asarray(x), lambda: x + 1, lambda: float(x[:1]), lambda: np.sum(x)):
        with pytest.raises(IllegalState, match="host"):
            access()


def test_elements_are_read_and_stored(bench: Bench):
    """Integers read and store elements, slices take values, masks and index arrays gather and scatter."""

    def body(x: Span) -> None:
        assert x[2] == 2.0 and x[-1] == 7.0 and isinstance(x[2], np.float32)
        x[0] = 10
        x[1:3] = [20, 30]
        x[-1] += 1
        x[np.array([4, 5])] = x[2:4]
        assert list(x[x > 9]) == [10, 20, 30, 30]
        x.reshape(2, 4)[1, 3] = 99
        assert [float(value) for value in x] == [10, 20, 30, 3, 30, 3, 6, 99]
        assert float(x[:1]) == 10 and int(x[1:2]) == 20 and bool(x[2:3])

    array = bench.upload(np.arange(8, dtype=np.float32))
    inside(bench, body, array)
    assert list(array.host) == [10, 20, 30, 3, 30, 3, 6, 99]


def test_numpy_functions_work_on_spans(bench: Bench):
    """ufuncs, their methods, `out=`, operators, reductions and other functions take spans, mixed with arrays."""

    def body(x: Span, y: Span) -> None:
        assert list(np.add(x, 1)) == [1, 2, 3, 4] and list(2 * x) == [0, 2, 4, 6]
        assert np.multiply(x, 3, out=y) is y
        assert np.sum(x) == 6 and np.add.reduce(x) == 6 and np.max(x) == 3
        assert list(np.concatenate([x, y[:1]])) == [0, 1, 2, 3, 0]
        assert np.shape(x) == (4,) and np.zeros_like(x).shape == (4,)
        x += 1
        np.add.at(x, [0, 0], 5)
        np.copyto(dst=y[2:], src=x[:2])
        assert isinstance(np.transpose(x.reshape(2, 2)), Span)
        assert all(isinstance(part, Span) for part in np.split(x, 2))
        whole, rest = np.divmod(x, 3, out=(None, y[:4]))
        assert list(whole) == [3, 0, 1, 1] and rest.address == y.address
        assert np.clip(x, 2, 3, out=x) is x

    x, y = bench.upload(np.arange(4, dtype=np.int32)), bench.empty(4, np.int32)
    inside(bench, body, x, y)
    assert list(x.host) == [3, 2, 3, 3] and list(y.host) == [2, 2, 0, 1]


def test_storing_beyond_the_extents_changes_nothing(bench: Bench):
    """A store that leaves the extents names the thread and its line."""
    x = bench.upload(np.arange(4))
    for key in (4, slice(2, 6), np.array([0, 9])):

        def body(span: Span, key: object = key) -> None:
            span[key] = 7

        with pytest.raises(LaunchFailure, match=r"thread \(0,0,0\).*test_span.py"):
            inside(bench, body, x)
    assert list(x.host) == [0, 1, 2, 3]


def test_gcu210_has_no_direct_access(make_bench: Callable[..., Bench]):
    """Indexing global memory on gcu210 is a fault that names the thread and tells of the DTE; views are allowed."""
    bench = make_bench(arch="gcu210")
    x = bench.upload(np.arange(4, dtype=np.float32))
    inside(bench, lambda x: x[1:3].reshape(2, 1), x)
    for access in (lambda x: x[0], lambda x: x.__setitem__(0, 1), lambda x: np.add(x, 1), np.asarray):
        with pytest.raises(LaunchFailure, match=r"thread \(0,0,0\).*gcu210 cannot reach global memory.*DTE") as caught:
            inside(bench, access, x)
        assert isinstance(caught.value.__cause__, IllegalAddress)
    assert list(x.host) == [0, 1, 2, 3]


def test_an_operator_names_the_programs_line(make_bench: Callable[..., Bench]):
    """What goes wrong in an operator stands in the program's own line, not in numpy, which calls the span."""
    bench = make_bench(arch="gcu210")
    x = bench.upload(np.zeros(4, np.float32))

    def body(span: Span) -> None:
        span + 1

    with pytest.raises(LaunchFailure, match=rf"at test_span.py:{body.__code__.co_firstlineno + 1} in .*body: <Span"):
        inside(bench, body, x)


def test_a_view_that_is_read_only_is_not_stored_into(bench: Bench):
    """A broadcast view is read-only; every store is an IllegalAddress that names thread, line and view."""
    x = bench.upload(np.zeros(1, np.float32))
    for store in (
        lambda view: view.__setitem__(0, 1),
        lambda view: view.__setitem__([0, 1], 1),
        lambda view: np.add.at(view, [0, 1], 1),
        lambda view: np.add(view, 1, out=view),
        lambda view: np.copyto(view, 1),
        lambda view: view.fill(1),
    ):
        said = r"thread \(0,0,0\).*at test_span.py:\d+ in .*: a store into <Span float32\[4\].*read-only in kernels"
        with pytest.raises(LaunchFailure, match=said) as caught:
            inside(bench, lambda x, store=store: store(np.broadcast_to(x, (4,))), x)
        assert isinstance(caught.value.__cause__, IllegalAddress)
    assert list(x.host) == [0]


def test_access_to_freed_memory_is_a_fault(bench: Bench):
    """A span outlives its allocation only as a name: an access tells what freed it."""
    x = bench.upload(np.arange(4))

    def body(span: Span) -> None:
        bench.memory.free(x.allocation, "the test")
        span[0]

    with pytest.raises(LaunchFailure, match=r"thread \(0,0,0\).*was freed by the test"):
        inside(bench, body, x)


def test_a_store_ends_a_wait_for_a_value(bench: Bench):
    """Each way to store tells the watches of the bytes it stores, and no others."""
    x = bench.empty(16, np.int32)
    seen: list[int] = []
    for place in (1, 4, 6, 9, 11, 13, 15):
        Watch(x.allocation, 4 * place, 32, 1, Condition.Eq, None, lambda place=place: seen.append(place)).arm()

    def body(span: Span) -> None:
        span[1] = 1
        assert seen == [1]
        span[4:5] = 1
        np.add(span[6:7], 1, out=span[6:7])
        assert seen == [1, 4, 6]
        span.reshape(4, 4)[2, 1] = 1
        np.add.at(span[10:12], [1], 1)
        np.copyto(span[12:14], 1)
        span[-1] = 1

    inside(bench, body, x)
    assert seen == [1, 4, 6, 9, 11, 13, 15]


def test_asarray_is_a_declared_escape(make_bench: Callable[..., Bench]):
    """np.asarray gives the live array, marks the allocation, and is noted once in strict mode; a copy is no escape."""
    bench = make_bench(strict=True)
    x, y = bench.upload(np.arange(4)), bench.upload(np.arange(4))

    @k.kernel
    def escape(x, y):
        for _ in range(2):
            np.asarray(x)[0] = 5
        assert np.array(y, copy=True).base is None
        assert np.asarray(y, np.float32).dtype == np.float32
        with pytest.raises(InvalidValue, match="without a copy"):
            np.asarray(y, np.float32, copy=False)

    grid = bench.launch(escape, (1, 1), x, y)
    assert x.allocation.host_visible and not y.allocation.host_visible
    assert x.host[0] == 5
    assert len(grid.warnings) == 1 and "not observed" in grid.warnings[0] and "test_span.py" in grid.warnings[0]


def test_an_observer_sees_each_access(make_bench: Callable[..., Bench]):
    """Loads, stores and escapes are reported with space, device, offset and size, in local memory too when strict."""
    bench = make_bench(strict=True)
    x = bench.upload(np.arange(8, dtype=np.int32))
    seen: list[tuple[str, SpanAccess]] = []

    @k.kernel
    def touch(x):
        tile = k.local(4, np.int32)
        tile[1] = x[3]
        x[2:4] = tile[0:2]
        np.asarray(x)

    bench.launch(touch, (1, 1), x, observer=lambda kind, thread, detail: seen.append((kind, detail)))
    at = x.allocation.offset
    assert [each for each in seen if each[0] in ("load", "store", "escape")] == [
        ("load", SpanAccess(Space.GLOBAL, 0, at + 12, 4)),
        ("store", SpanAccess(Space.LOCAL, 0, 4, 4)),
        ("load", SpanAccess(Space.LOCAL, 0, 0, 8)),
        ("store", SpanAccess(Space.GLOBAL, 0, at + 8, 8)),
        ("escape", SpanAccess(Space.GLOBAL, 0, at, 32)),
    ]


def test_strict_local_memory_is_a_span(make_bench: Callable[..., Bench]):
    """In strict mode local and shared memory are spans that numpy functions and the DTE take as they take arrays."""
    bench = make_bench(strict=True)
    x = bench.upload(np.arange(8, dtype=np.float32))

    @k.kernel
    def double(x):
        tile, row = k.local(8, np.float32), k.shared((2, 4), np.float32)
        assert isinstance(tile, Span) and isinstance(row, Span) and (tile.space, row.space) == (k.Local, k.Shared)
        assert tile[0] == np.frombuffer(b"\xa5" * 4, np.float32)[0]
        with k.dte_scope() as dte:
            k.memcpy(dte, tile, x)
            np.multiply(tile, 2, out=row.reshape(8))
            k.memcpy(dte, x, row)

    bench.launch(double, (1, 1), x)
    assert list(x.host) == list(np.arange(8) * 2)


VIEWS: dict[str, Callable[[Span], object]] = {
    "ravel": lambda x: x.ravel(),
    "squeeze": lambda x: x[:1].squeeze(),
    "swapaxes": lambda x: x.swapaxes(0, 1),
    "diagonal": lambda x: x.diagonal(),
    "numpy's diagonal": lambda x: np.diagonal(x),
    "mT": lambda x: x.mT,
    "conj": lambda x: x.conj(),
    "conjugate": lambda x: x.conjugate(),
    "real": lambda x: x.real,
    "real of complex numbers": lambda x: x.view(np.complex64).real,
    "imag of complex numbers": lambda x: x.view(np.complex64).imag,
    "getfield": lambda x: x.getfield(np.int16, 2),
}
COPIES: dict[str, Callable[[Span], object]] = {
    "ravel across gaps": lambda x: x.T.ravel(),
    "flatten": lambda x: x.flatten(),
    "take": lambda x: x.take([1, 0], axis=1),
    "repeat": lambda x: x.repeat(2, axis=0),
    "compress": lambda x: x.compress([True, False], axis=0),
    "searchsorted": lambda x: x[0].searchsorted(x[1]),
    "choose": lambda x: (x.astype(np.int32) % 2).choose([1.5, 2.5]),
    "argpartition": lambda x: x.argpartition(1),
    "conj of complex numbers": lambda x: x.view(np.complex64).conj(),
    "imag": lambda x: x.imag,
    "copy": copy.copy,
    "deep copy": copy.deepcopy,
    "dot": lambda x: x.dot(x.T),
    "astype": lambda x: x.astype(object),
    "vectorize": np.vectorize(lambda value: value * 2, otypes=[np.float32]),
}
VALUES: dict[str, Callable[[Span], object]] = {
    "item": lambda x: x.item(3),
    "item in two dimensions": lambda x: x.item((1, 2)),
    "dumps": lambda x: len(x.dumps()) > 0,
    "contains": lambda x: (3.0 in x, 99.0 in x),
    "complex": lambda x: complex(x[0, 2:3].reshape(())),
    "index": lambda x: range(8)[x.view(np.int32)[0, 0:1].reshape(())],
}


@every("name", VIEWS)
def test_views_of_an_array_come_back_as_spans(make_bench: Callable[..., Bench], name: str):
    """What only views is no access, on gcu210 as well; the span names the bytes that numpy's view has."""
    host = np.arange(12, dtype=np.float32).reshape(2, 6)
    expected = VIEWS[name](host)
    x = span_of(make_bench(arch="gcu210"), host)
    view = VIEWS[name](x)
    assert isinstance(view, Span) and isinstance(expected, np.ndarray)
    first = expected.__array_interface__["data"][0] - host.__array_interface__["data"][0]
    assert (view.shape, view.dtype, view.strides) == (expected.shape, expected.dtype, expected.strides)
    assert view.address == x.address + first
    assert (x.strides, x.T.strides) == (host.strides, host.T.strides)
    assert x.flags.c_contiguous and not x.T.flags.c_contiguous


@every("name", [*COPIES, *VALUES])
def test_what_only_reads_is_what_numpy_makes_of_an_array(make_bench: Callable[..., Bench], name: str):
    """In strict mode a span gives numpy's own result, as an array that is no view, observed and without an escape."""
    method = {**COPIES, **VALUES}[name]
    host = np.arange(12, dtype=np.float32).reshape(2, 6)
    results: list[object] = []
    kinds: list[str] = []

    @k.kernel
    def read(x):
        results.append(method(x))

    bench = make_bench(strict=True)
    x = bench.upload(host)
    grid = bench.launch(read, (1, 1), x, observer=lambda kind, thread, detail: kinds.append(kind))
    expected = method(host)
    assert type(results[0]) is type(expected)
    if isinstance(results[0], np.ndarray):
        assert results[0].dtype == expected.dtype and not np.may_share_memory(results[0], x.host)
    assert np.array_equal(results[0], expected)
    assert set(kinds) >= {"load"} and not {"store", "escape"} & set(kinds) and not grid.warnings


def test_what_only_reads_is_an_access(make_bench: Callable[..., Bench]):
    """On gcu210 a copy of global memory is refused as each access is."""
    bench = make_bench(arch="gcu210")
    x = bench.upload(np.zeros((2, 6), np.float32))
    for name in ("ravel across gaps", "flatten", "take", "conj of complex numbers", "vectorize"):
        with pytest.raises(LaunchFailure, match="gcu210 cannot reach global memory directly"):
            inside(bench, COPIES[name], x)


def test_a_method_stores_into_a_span(bench: Bench):
    """`out` of a method may be a span: the store is checked, told, and the span is what comes back."""
    x, y = bench.upload(np.arange(4, dtype=np.int32)), bench.empty(4, np.int32)
    seen: list[int] = []
    Watch(y.allocation, 12, 32, 2, Condition.Eq, None, lambda: seen.append(1)).arm()

    def body(x: Span, y: Span) -> None:
        assert x.clip(1, 2, out=y) is y
        assert seen == [1]
        with pytest.raises(IllegalAddress, match="read-only in kernels"):
            x.take([0], out=y.reshape(2, 2).diagonal()[:1])

    inside(bench, body, x, y)
    assert list(y.host) == [1, 1, 2, 2]


REFUSALS = {
    "sort": r"x\[...\] = np.sort\(x\)",
    "partition": "np.partition",
    "put": r"x.reshape\(-1\)\[indices\] = values",
    "resize": "np.resize",
    "flat": r"x.reshape\(-1\)",
    "byteswap": r"x.copy\(\).byteswap",
    "setfield": r"x.view\(dtype\)",
    "data": "np.asarray",
}


@pytest.mark.parametrize("name", REFUSALS)
def test_what_a_span_lacks_says_what_is_right(bench: Bench, name: str):
    """Methods that change an array in place, and what would give its memory away, are an error that helps."""
    x = span_of(bench, np.zeros(4, np.float32))
    with pytest.raises(AttributeError, match=f"a Span has no '{name}'.*{REFUSALS[name]}"):
        getattr(x, name)
    assert not hasattr(x, name)


def test_a_span_has_whatever_an_array_has():
    """No public attribute of numpy's arrays is simply absent: each is there or refused with what to use."""
    absent = {name for name in dir(np.ndarray) if not name.startswith("_") and name not in dir(Span)}
    assert not absent


def test_memory_of_others_is_no_operand(bench: Bench):
    """A temporary array lies in no device memory, so the DTE refuses it."""
    x = bench.upload(np.arange(8, dtype=np.float32))

    @k.kernel
    def wrong(x):
        tile = k.local(8, np.float32)
        with k.dte_scope() as dte:
            k.memcpy(dte, x, tile * 2)

    with pytest.raises(DteError, match="src of memcpy is an array outside this thread's memories"):
        bench.launch(wrong, (1, 1), x)



@pytest.mark.parametrize("key", [3, np.int8(1), slice(2), ..., None, "field", (1, slice(0, 2)), (..., None), ()])
def test_basic_keys(key: object):
    """Integers, slices, the ellipsis, new axes, field names and tuples of them choose a part."""
    assert is_basic(key)


@pytest.mark.parametrize("key", [True, np.array([1]), [0, 1], (1, [0]), (slice(None), np.array(True)), 1.5, (1, False)])
def test_keys_that_gather(key: object):
    """Masks and index arrays make a copy."""
    assert not is_basic(key)


POSITIONS = st.integers(-12, 12)
EDGES = st.none() | POSITIONS
PARTS = st.one_of(POSITIONS, st.builds(slice, EDGES, EDGES, st.sampled_from([None, 1, 2, -1])))


@pytest.mark.slow
@given(shape=st.lists(st.integers(0, 6), max_size=3), parts=st.lists(PARTS, max_size=3), at=st.integers(0, 3))
def test_what_passes_is_inside(shape: list[int], parts: list[object], at: int):
    """A key that passes is one numpy takes, and every position it names exists; any other is refused."""
    array = np.zeros(shape)
    key = tuple([*parts[:at], ..., *parts[at:]])
    axes = [*range(min(at, len(parts))), *range(len(shape) - max(0, len(parts) - at), len(shape))]
    fits = len(parts) <= len(shape)
    if fits:
        for part, axis in zip(parts, axes, strict=True):
            extent = shape[axis]
            named = [part] if isinstance(part, int) else [part.start, part.stop]
            last = extent - 1 if isinstance(part, int) else extent
            fits &= all(-extent <= each <= last for each in named if each is not None)
    if fits:
        check_bounds(array, key)
        array[key]
    else:
        with pytest.raises(IllegalAddress, match="dimension"):
            check_bounds(array, key)


BELOW: list[tuple[str, Callable[..., object]]] = [
    ("index -1 of dimension 0", lambda x, i: x[i - 1]),
    ("slice -1:1 of dimension 0", lambda x, i: x[i - 1 : i + 1]),
    ("slice -2: of dimension 0", lambda x, i: x[i - 2 :]),
    ("slice :-1 of dimension 0", lambda x, i: x[: i - 1]),
    ("slice 3:1 of dimension 0", lambda x, i: x[i + 3 : i + 1]),
    ("slice 1:3:-1 of dimension 0", lambda x, i: x[i + 1 : i + 3 : -1]),
    ("index -1 of dimension 1", lambda x, i: x.reshape(4, 2)[i, i - 1]),
    ("index -1 of dimension 1", lambda x, i: x.reshape(4, 2)[..., i - 1]),
    ("index -3 of dimension 0", lambda x, i: x[[1, i - 3]]),
    ("index -3 of dimension 0", lambda x, i: x[np.array([1, i - 3])]),
    ("index -1 of dimension 0", lambda x, i: x.__setitem__(i - 1, 7)),
    ("slice -1:1 of dimension 0", lambda x, i: x.__setitem__(slice(i - 1, i + 1), 7)),
    ("index -1 of dimension 0", lambda x, i: x.__setitem__([i - 1], 7)),
]


@pytest.mark.parametrize("place", ["global", "local", "shared", "variable"])
@every("row", BELOW, ids=lambda row: row[0])
def test_strict_mode_refuses_what_lies_before_the_start(row: tuple, place: str):
    """Negative indexes and backward slices, read or stored, name the cure; by default they are numpy's."""
    said, access = row
    variable = k.device_variable(np.float32, np.zeros(8))

    @k.kernel
    def run(x):
        memory = {"global": x, "local": k.local(8, np.float32), "shared": k.shared(8, np.float32),
                  "variable": variable[...]}[place]  # fmt: skip
        if k.threadIdx.x == 0:
            access(memory, 0)

    for strict in (False, True):
        bench = Bench.of(strict=strict)
        try:
            if strict:
                with pytest.raises(LaunchFailure, match=rf"{said} lies before .*guard the first elements") as caught:
                    bench.launch(run, (1, 1), bench.empty(8))
                assert isinstance(caught.value.__cause__, IllegalAddress)
            else:
                bench.launch(run, (1, 1), bench.empty(8))
        finally:
            bench.memory.close()


def test_strict_mode_takes_what_counts_from_the_start():
    """Empty parts, whole reversals and strides stay, as do masks."""
    bench = Bench.of(strict=True)

    @k.kernel
    def run(x):
        tile = k.local(8, np.float32)
        for memory in (x, tile):
            assert memory[3:3].size == 0 and memory[::-1].size == memory[::2].size * 2 == 8
            assert memory[8:8].size == 0 and memory[5:1:-1].size == 4 and memory[memory == memory].size <= 8

    bench.launch(run, (1, 1), bench.empty(8))
    bench.memory.close()
