"""What `@kernel` accepts, what it refuses, and what a kernel tells of itself."""

from __future__ import annotations

import copy
import inspect
import pickle

import numpy as np
import pytest

from atops import kernels as k
from atops.base.errors import IllegalState, InvalidType, InvalidValue, LaunchFailure
from atops.device.arch import architecture
from tests.kernel_bench import Bench


@k.kernel
async def scale(x, y, alpha: np.float32 = 2.0):
    """Scale x into y."""


def annotated(x, y, n=3):
    """Annotated below, with types: an annotation here is a text."""


annotated.__annotations__.update(x=k.Span[np.float32], y=k.restrict["bfloat16"], n=np.int32)
annotated = k.kernel(annotated)


def test_the_name_of_a_kernel_is_a_text():
    """Another name is refused where the kernel is made."""
    with pytest.raises(InvalidType, match="name of kernel <lambda> expects a text or None, got 5"):
        k.kernel(name=5)(lambda: None)


def test_a_kernel_knows_its_function():
    """Name, signature, documentation and kind are the function's; the repr shows them."""
    assert scale.name == "scale" and scale.__doc__ == "Scale x into y." and scale.is_async and not scale.cooperative
    assert list(scale.signature.parameters) == ["x", "y", "alpha"] == list(inspect.signature(scale).parameters)
    assert repr(scale) == "<kernel scale(x, y, alpha: np.float32 = 2.0)>"
    assert repr(annotated) == '<kernel annotated(x: k.Span[np.float32], y: k.restrict["bfloat16"], n: np.int32 = 3)>'
    plain = k.kernel(name="tail", cooperative=True)(lambda: None)
    assert (plain.name, plain.is_async, repr(plain)) == ("tail", False, "<cooperative kernel tail()>")


def test_a_configuration_that_was_right_makes_no_equal_one_right():
    """What is remembered of (2, 12) does not let 2.0 pass, at any depth."""
    arch = architecture("gcu300")
    for right, wrong in (
        ((2, 12), (2.0, 12)), ((2, 12), (2, 12.0)), (((2, 1), 4), ((2.0, 1), 4)), ((2, 4, 8), (2, 4, 8.0)),
    ):  # fmt: skip
        for _ in range(2):
            assert scale.configure(right, arch).block[0] == right[1]
            with pytest.raises(InvalidType):
                scale.configure(wrong, arch)


def test_cooperative_has_a_decorator_of_its_own():
    """`@cooperative` works alone and above `@kernel`."""

    def body(): ...

    for made in (k.cooperative(body), k.cooperative(k.kernel(body)), k.kernel(cooperative=True)(body)):
        assert made.cooperative and made.name == "body"


def test_a_kernel_is_not_called(bench: Bench):
    """Calling a kernel tells how to launch it, and inside a kernel what to call instead."""
    with pytest.raises(IllegalState, match=r"stream.launch\(scale, \(grid, block\)"):
        scale(1, 2)

    @k.kernel
    def outer():
        scale(1, 2)

    with pytest.raises(LaunchFailure, match=r"thread \(0,0,0\).*called kernel scale.*@device"):
        bench.launch(outer, (1, 1))


def test_a_kernel_is_copied_and_pickled_as_a_function_is():
    """A copy of what holds kernels holds the same ones; another process imports the module that has it."""
    assert copy.copy(scale) is scale and copy.deepcopy({"kernels": [scale]})["kernels"][0] is scale
    assert pickle.loads(pickle.dumps(scale)) is scale

    def inner(x: np.float32):
        """Be found by no name."""

    with pytest.raises((pickle.PicklingError, AttributeError), match="inner"):
        pickle.dumps(k.kernel(inner))


def test_a_kernel_of_a_compiled_text_is_pickled_as_its_image():
    """Kernels of one text are of one module in the other process, too."""
    one, two = "@k.kernel\ndef one(x):\n    pass\n", "@k.kernel(arch='gcu300')\ndef two(x, y):\n    pass\n"
    text = f"from atops import kernels as k\n\n{one}\n{two}"
    module = k.compile(text, "text")
    again, other = pickle.loads(pickle.dumps((module.one, module.two)))
    assert (repr(again), repr(other)) == (repr(module.one), repr(module.two)) and again is not module.one
    copied = pickle.loads(pickle.dumps(module))
    assert copied.one is again and pickle.loads(pickle.dumps(copied)) is copied
    assert pickle.loads(pickle.dumps(again)) is again and again.function.__globals__ is other.function.__globals__


class Holder:
    """Where methods would live."""

    def method(self):
        """Be a method."""

    @staticmethod
    def static():
        """Be a static method."""


def generate():
    """Be a generator."""
    yield


async def agenerate():
    """Be an asynchronous generator."""
    yield


def typed() -> int:
    """Promise a result."""
    return 1


def counted(*args):
    """Take any number."""


@pytest.mark.parametrize(
    ("what", "why"),
    [(Holder.method, "member of Holder"), (Holder.static, "member of Holder"),
     (staticmethod(typed), "expects a function"), (Holder(), "expects a function"), (print, "expects a function"),
     (generate, "generator"),
     (agenerate, "generator"), (typed, "returns nothing"), (counted, "no fixed number")],
)  # fmt: skip
def test_what_is_no_kernel_is_refused(what: object, why: str):
    """Methods, generators, functions with a result or without a fixed number of parameters, and what is none."""
    with pytest.raises(InvalidType, match=why):
        k.kernel(what)


def test_a_returned_value_is_a_failure(bench: Bench):
    """A kernel returns nothing, plain or suspended; the message shows the value. None is nothing."""

    @k.kernel
    def plain():
        return 42

    @k.kernel
    async def suspended():
        await k.syncthreads()
        return 43

    @k.kernel
    async def nothing():
        return None

    for kernel, value in ((plain, 42), (suspended, 43)):
        with pytest.raises(LaunchFailure, match=rf"thread \(0,0,0\).*returned {value}; a kernel returns nothing"):
            bench.launch(kernel, (1, 2))
    assert bench.launch(nothing, (1, 2)).error is None


def test_dynamic_shared_memory_is_seen_in_the_code():
    """One use is found by any name and through functions that are called; a second one is refused at once."""
    from atops.kernels import dynamic_shared as extern

    def helper():
        return k.dynamic_shared(np.int8)

    @k.kernel
    def direct():
        k.dynamic_shared(np.int8)

    @k.kernel
    def renamed():
        extern(np.int8)

    @k.kernel
    def nested():
        device_helper()

    @k.kernel
    def deep():
        [helper() for _ in range(2)]

    @k.kernel
    def none():
        k.shared(4, np.int8)

    device_helper = k.device(helper)
    assert all(each.uses_dynamic_shared for each in (direct, renamed, nested, deep))
    assert not none.uses_dynamic_shared and not scale.uses_dynamic_shared
    with pytest.raises(InvalidValue, match=r"asks for dynamic shared memory 2 times, on lines \[\d+, \d+\]"):

        @k.kernel
        def twice():
            k.dynamic_shared(np.int8)
            extern(np.int8)


def test_functions_that_call_each_other_are_looked_at_once():
    """Recursion does not hang the look into a kernel's code."""

    def even(n):
        return n == 0 or odd(n - 1)

    def odd(n):
        return n != 0 and even(n - 1)

    @k.kernel
    def recursive():
        even(4)

    assert not recursive.uses_dynamic_shared


def test_device_functions_belong_to_kernels(bench: Bench):
    """A device function works in kernels, plain or awaited, keeps its name, and is refused on the host."""
    y = bench.empty(2)

    @k.device
    def double(x):
        """Twice x."""
        return 2 * x

    @k.device
    async def meet(x):
        await k.syncthreads()
        return x + 1

    @k.kernel
    async def use(y):
        y[k.threadIdx.x] = await meet(double(10))

    bench.launch(use, (1, 2), y)
    assert list(y.host) == [21, 21]
    assert double.__doc__ == "Twice x."
    with pytest.raises(IllegalState, match="device function double was called on the host"):
        double(1)
    with pytest.raises(InvalidType, match="expects a function, got"):
        k.device(3)


def size():
    """Have the name of an attribute of every array."""
    k.dynamic_shared(np.int32)[0] = 1


@k.kernel
def names_alike(x):
    """Have an attribute and a local that are called like a function which this kernel never calls."""
    n = x.size
    helper = n
    x[0] = helper


def test_an_attribute_is_no_call():
    """A kernel needs no dynamic shared memory because of a function of its module that it only has a namesake of."""
    assert not names_alike.uses_dynamic_shared
