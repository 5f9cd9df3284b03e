"""Binding arguments: scalars of the annotated type, device memory as spans, and what has to be uploaded first."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from atops import kernels as k
from atops.base.errors import IllegalAddress, InvalidType, InvalidValue, PeerAccessNotEnabled
from atops.device.span.span import Span
from atops.kernels.arguments import restrict
from tests.every import every
from tests.kernel_bench import Bench, DeviceArray

PAIR = np.dtype([("n", np.int32), ("x", np.float32)])


def taken(annotation: object, value: object) -> Any:
    """Return what a kernel whose parameter `a` has this annotation gets for `value`."""

    def probe(a): ...

    probe.__annotations__["a"] = annotation
    return k.kernel(probe).bind((value,)).values["a"]


@every(
    "annotation, value, expected",
    [
        (np.float32, 2, np.float32(2)),
        ("np.int8", -128, np.int8(-128)),
        ("float16", 1.5, np.float16(1.5)),
        ("'uint32'", 2**32 - 1, np.uint32(2**32 - 1)),
        (np.dtype("int64"), np.int8(3), np.int64(3)),
        (np.bool_, True, np.bool_(True)),
        (np.uint8, np.bool_(True), np.uint8(1)),
        ("half", 0.5, np.float16(0.5)),
        (np.float32, float("inf"), np.float32("inf")),
        (np.complex64, 1j, np.complex64(1j)),
        (ml_dtypes.bfloat16, 1, ml_dtypes.bfloat16(1)),
    ],
)
def test_scalars_arrive_as_annotated(annotation: object, value: object, expected: Any):
    """A scalar becomes a numpy scalar of the annotated type, which may be given by name or as text."""
    got = taken(annotation, value)
    assert type(got) is type(expected) and got == expected


@pytest.mark.parametrize(
    ("annotation", "value"),
    [(Any, 3), (object, 2.5), (int, 7), (float, 0.1), (bool, False), ("Any", 5), (Any, np.int8(1)),
     (Any, (1, 2, (3, 4.0))), (Any, np.dtype("f4")), (Any, np.float32)],
)  # fmt: skip
def test_other_scalars_stay_as_they_are(annotation: object, value: object):
    """Without an element type, numbers, tuples of them and types pass unchanged; Python's types check only."""
    got = taken(annotation, value)
    assert got == value and type(got) is type(value)


def test_annotations_are_read_where_a_name_comes_later():
    """In a function the kernel may come before what it calls; its annotations are texts in this module."""
    @k.kernel
    def probe(a: np.int16):
        later(a)

    def later(a): ...

    assert type(probe.bind((5,)).values["a"]) is np.int16


def test_python_types_convert_numpy_scalars():
    """`int`, `float` and `bool` give Python's own numbers."""
    assert type(taken(int, np.int64(3))) is int
    assert type(taken(float, 3)) is float
    assert type(taken(bool, np.bool_(True))) is bool


@every(
    "annotation", ["int23", "'int23'", list, "list", dict, str, None, 5, "int +", "k.Spam", np.object_]
)
def test_annotations_that_are_no_types_are_refused(annotation: object):
    """An annotation of no meaning names parameter and annotation, at the definition; it is not ignored."""
    with pytest.raises(InvalidType, match=r"kernel probe: parameter a is annotated with .*; expected k\.Span"):
        taken(annotation, 1)


@pytest.mark.parametrize("checking", ["TYPE_CHECKING", "typing"])
def test_names_for_type_checkers_are_left_to_them(monkeypatch: pytest.MonkeyPatch, checking: str):
    """A module that knows TYPE_CHECKING may annotate with names that are missing when it runs, not with wrong ones."""
    monkeypatch.setitem(globals(), checking, sys.modules["typing"])
    assert taken("Unknown", 5) == 5 and type(taken("half", 1)) is np.float16
    with pytest.raises(InvalidType, match="annotated with 'list'"):
        taken("list", 5)


@pytest.mark.parametrize(
    ("annotation", "value"),
    [(int | float, 3), (tuple[int, ...], (1, 2)), (Callable[..., Any], len), (type, np.int8),
     (np.dtype, np.dtype("f4")),
     (np.integer, np.int8(1)), (complex, 1j)],
)  # fmt: skip
def test_annotations_may_leave_the_type_open(annotation: object, value: object):
    """Unions of numbers, tuples, functions, types and numpy's abstract types take what an unannotated one does."""
    assert taken(annotation, value) is value or taken(annotation, value) == value


@pytest.mark.parametrize(
    ("annotation", "value"),
    [(np.int8, 128), (np.int8, -129), (np.uint32, -1), (np.float16, 1e6), (np.float32, 10**400), (np.bool_, 2),
     (np.uint64, 2**64), (np.float32, 10**39), (np.complex64, 1e300j)],
)  # fmt: skip
def test_overflow_is_refused(annotation: object, value: object):
    """A value that the type cannot hold names kernel, parameter, value and type."""
    with pytest.raises(InvalidValue, match=r"kernel probe: parameter a got .*range of"):
        taken(annotation, value)


@every(
    "annotation, value, right",
    [(np.int32, 2.5, "scalar of int32"), (np.int32, 2.0, "scalar of int32"), (int, 1.5, "scalar of int"),
     (np.float32, "3", "scalar of float32"), (np.float32, 1j, "scalar of float32"), (Any, "text", "number"),
     (Any, None, "number"), (Any, {}, "number"), (k.Span, 3, "memory of the device"),
     (Any, [1, 2], "upload it first"), (Any, np.zeros(3), "upload it first"), (np.float32, np.zeros(1), "upload")],
)  # fmt: skip
def test_wrong_types_are_refused(annotation: object, value: object, right: str):
    """A value of another type names kernel and parameter and says what would be right."""
    with pytest.raises(InvalidType, match=rf"kernel probe: parameter a expects .*{right}"):
        taken(annotation, value)


def test_a_structure_arrives_as_one_scalar():
    """A structured element type takes numpy's structures."""
    got = taken(PAIR, np.array((3, 0.5), PAIR)[()])
    assert got["n"] == 3 and got["x"] == 0.5


def test_arguments_are_counted_and_named():
    """Too few, too many, unknown and doubled arguments name the kernel and its signature; defaults are used."""

    @k.kernel
    def axpy(x, y, /, alpha: np.float32 = 1, *, beta: np.float32 = 0): ...

    for args, named, why in (
        ((1,), {}, "missing a required"),
        ((1, 2, 3, 4), {}, "too many"),
        ((1, 2), {"gamma": 1}, "unexpected keyword"),
        ((1, 2, 3), {"alpha": 1}, "multiple values"),
    ):
        with pytest.raises(InvalidType, match=rf"kernel axpy\(x, y, /.*{why}"):
            axpy.bind(args, named)
    for args, named, count in (
        ((), {}, "0 arguments given, 2 to 4 expected"),
        ((1,), {}, "1 argument given, 2 to 4 expected"),
        ((1, 2, 3, 4, 5), {}, "5 arguments given, 2 to 4 expected"),
        ((1, 2, 3), {"beta": 4, "gamma": 5}, "5 arguments given, 2 to 4 expected"),
    ):
        with pytest.raises(InvalidType, match=count):
            axpy.bind(args, named)
    with pytest.raises(InvalidType, match=r"kernel probe\(a\): too many .*; 2 arguments given, 1 expected$"):
        k.kernel(lambda a: None, name="probe").bind((1, 2))
    with pytest.raises(InvalidType, match=r"unexpected keyword argument 'gamma'$"):
        axpy.bind((1, 2), {"gamma": 1})  # the number fits
    bound = axpy.bind((1, 2), {"beta": 3})
    assert dict(bound.values) == {"x": 1, "y": 2, "alpha": 1.0, "beta": 3.0}
    assert repr(bound) == "<BoundKernel axpy(x=1, y=2, alpha=np.float32(1.0), beta=np.float32(3.0))>"


def test_positional_and_named_arguments_arrive(bench: Bench):
    """Defaults, positional-only and keyword-only parameters reach the kernel under their names."""
    seen: list[tuple[object, ...]] = []

    @k.kernel
    def axpy(x, /, alpha: np.float32 = 1, *, beta: np.int16 = 0):
        seen.append((x.shape, alpha, beta))

    bench.launch(axpy, (1, 1), bench.empty(3))
    assert seen == [((3,), 1.0, 0)] and type(seen[0][2]) is np.int16


def test_memory_arrives_as_one_span_a_launch(bench: Bench):
    """All threads get the same span, of the argument's type and shape; each launch makes its own."""
    spans: list[object] = []
    x = bench.upload(np.arange(6, dtype=np.int16).reshape(2, 3))

    @k.kernel
    def keep(x: k.Span):
        spans.append(x)

    bench.launch(keep, (2, 2), x)
    bench.launch(keep, (1, 1), x)
    assert len({id(span) for span in spans[:4]}) == 1 and spans[4] is not spans[0]
    assert (spans[0].shape, spans[0].dtype, spans[0].address) == ((2, 3), np.int16, x.allocation.address)


def test_memory_is_no_scalar(bench: Bench):
    """Device memory for a scalar parameter is refused."""
    with pytest.raises(InvalidType, match=r"parameter a expects a scalar of float32, got DeviceArray"):
        taken(np.float32, bench.empty(3))


def test_a_tuple_holds_no_memory(bench: Bench):
    """A tuple of arrays is refused with what is expected, since memory of the device is what was given."""
    with pytest.raises(InvalidType, match="a parameter of its own for each, got DeviceArray in a tuple"):
        taken(Any, (1, bench.empty(3)))


def test_resolving_checks_life_and_access(bench: Bench):
    """Just before the run, dead memory is an IllegalAddress and memory out of reach a PeerAccessNotEnabled."""

    @k.kernel
    def copy(dst, src): ...

    x, y = bench.empty(4), bench.empty(4)
    bound = copy.bind((x, y))
    assert bound.allocations == (x.allocation, y.allocation) and bound.name == "copy"
    assert copy.bind((x, x)).allocations == (x.allocation,)
    with pytest.raises(PeerAccessNotEnabled, match="kernel copy: parameter src is memory of device 0"):
        bound.resolve(lambda allocation: allocation is x.allocation)
    bench.memory.free(y.allocation, "the test")
    with pytest.raises(IllegalAddress, match=r"kernel copy, parameter src: .*freed by the test"):
        bound.resolve(lambda allocation: True)


def promised(bench: Bench, *arguments: Any, annotation: object = restrict, asynchronous: bool = False) -> list[str]:
    """Return the warnings of a launch whose parameter `a` is restrict."""
    if asynchronous:

        async def probe(a, b, n=0): ...

    else:

        def probe(a, b, n=0): ...

    probe.__annotations__["a"] = annotation
    return bench.launch(k.kernel(probe), (2, 3), *arguments).warnings


@pytest.mark.parametrize("asynchronous", [False, True])
def test_strict_mode_reports_a_broken_restrict(make_bench: Callable[..., Bench], asynchronous: bool):
    """Bytes that a restrict parameter shares with another are reported once, naming both; otherwise nothing is."""
    bench = make_bench(strict=True)
    x, y = bench.empty(8), bench.empty(8)
    [said] = promised(bench, x, x, asynchronous=asynchronous)
    assert "kernel probe: parameter a is restrict, and parameter b reaches its bytes: float32[8] at 0x" in said
    assert promised(bench, x, y, 3, asynchronous=asynchronous) == []
    low, high = Part(x, 0, 4), Part(x, 4, 4)
    assert promised(bench, low, high) == [] and len(promised(bench, low, Part(x, 3, 2))) == 1
    assert promised(bench, Part(x, 0, 0), x) == []


def test_each_pair_of_aliases_is_reported_once(make_bench: Callable[..., Bench]):
    """Two restrict parameters that are one are one report; two others that are one are none."""
    bench = make_bench(strict=True)
    x, y = bench.empty(8), bench.empty(8)

    @k.kernel
    def probe(a: restrict, b: restrict[np.float32], c, d, n: np.int32): ...

    assert probe.restricted == {"a", "b"}
    assert len(bench.launch(probe, (1, 2), x, x, y, y, 1).warnings) == 1
    assert len(bench.launch(probe, (1, 2), x, y, y, x, 1).warnings) == 2


def test_restrict_is_unchecked_by_default(bench: Bench):
    """As the language says, the promise is the program's own affair."""
    x = bench.empty(8)
    assert promised(bench, x, x) == []


@pytest.mark.parametrize("annotation", [restrict[np.float32], "restrict['fp32']", restrict[np.dtype("f4")]])
def test_restrict_may_name_an_element_type(bench: Bench, annotation: object):
    """It then takes memory of this type only, and no number in any case."""
    promised(bench, bench.empty(8), 1, annotation=annotation)
    with pytest.raises(InvalidType, match=r"parameter a expects memory of float32, got"):
        promised(bench, bench.empty(8, np.int32), 1, annotation=annotation)
    with pytest.raises(InvalidType, match="parameter a expects memory of the device, got int 3"):
        promised(bench, 3, 1, annotation=annotation)


@pytest.mark.parametrize("annotation", [Span[np.float32], "Span['fp32']"])
def test_a_span_may_name_an_element_type(bench: Bench, annotation: object):
    """It then takes memory of this type only, which others may reach as well, and no number in any case."""

    def probe(x): ...

    probe.__annotations__["x"] = annotation
    typed = k.kernel(probe)
    assert typed.parameters["x"].elements == np.float32 and not typed.restricted
    bench.launch(typed, (1, 1), bench.empty(8))
    for wrong in (bench.empty(8, np.int32), 3):
        with pytest.raises(InvalidType, match=r"parameter x expects memory of"):
            bench.launch(typed, (1, 1), wrong)
    with pytest.raises(InvalidType, match="float33"):
        _ = Span["float33"]


def test_restrict_of_no_type_is_refused():
    """What is no element type is refused where it is written."""
    with pytest.raises(InvalidType, match="float33"):
        _ = restrict["float33"]


class Part:
    """A part of an array of a bench, in elements."""

    def __init__(self, array: DeviceArray, start: int, count: int) -> None:
        self.region = (array.allocation, start * array.dtype.itemsize, array.dtype, (count,))

    def __kernel_argument__(self) -> tuple[Any, ...]:
        return self.region


@pytest.mark.parametrize("space", [k.Global, k.Local, k.Generic, "k.Shared"])
def test_no_parameter_names_a_memory_space(space: Any):
    """It is refused at the definition, by name (TOPS C++, 8.2)."""

    def body(x): ...

    body.__annotations__["x"] = space
    with pytest.raises(InvalidType, match=r"parameter x is annotated with \w+ memory; no parameter names"):
        k.kernel(body)
