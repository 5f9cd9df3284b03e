"""Variables that a program declares for its kernels, `__device__` and `__constant__`, and what declarations say.

TOPS C++, 8.2. A declaration is one object; each device that uses it has an instance of its own.
"""

from __future__ import annotations

import math
import operator
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import CodeType
from typing import Any, Generic, SupportsIndex, overload
from weakref import WeakSet

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from atops.base.dtypes import DTypeLike, Scalar, Scalar_co, Typed, element_name, kernel_dtype, quietly
from atops.base.errors import IllegalAddress, IllegalState, InvalidType, InvalidValue, LaunchFailure, OutOfMemory
from atops.base.locks import fork_safe
from atops.device.arch import ARCHITECTURES
from atops.device.call_site import Site, caller, expression_at
from atops.device.chip import Chip
from atops.device.exec.thread import KernelThread, maybe_current_thread
from atops.device.geometry import Array
from atops.device.span.numpy_functions import READING
from atops.device.span.span import Operand, Span
from atops.kernels.memory.sharing import CONSTANTS
from atops.kernels.memory.spaces import LanguageSpace

__all__ = ("Shape", "Variable", "constant", "declare", "device_variable", "extents_of", "set_aside", "variables_named")

Shape = SupportsIndex | Sequence[SupportsIndex]
MOST_DIMENSIONS = 64  # of a numpy array
MOST_BYTES = {
    "global": max(arch.l3_bytes for arch in ARCHITECTURES.values()),
    "constant": max(arch.constant_bytes for arch in ARCHITECTURES.values()),  # for each kernel
}

_making = fork_safe(threading.Lock())  # between OS threads that use a variable on a device for the first time
_declared: WeakSet[Variable] = WeakSet()


class Variable(Operand, NDArrayOperatorsMixin, Generic[Scalar_co]):
    """A variable in device memory that kernels reach by name, on every chip: made by `device_variable` and `constant`.

    In a kernel it is used as an array: indexed, sliced, given to numpy functions; `x[...]` is its Span. On the host
    `device.symbol(x)` is its instance. `dtype`, `shape`, `size` and `nbytes` are an array's, `initial` is what a fresh
    instance holds, `is_constant` whether kernels may only read it, `site` where it was declared
    (TOPS C++, 8.2).
    """

    __slots__ = (
        "__weakref__", "_name", "aside", "dtype", "initial", "is_constant", "module", "nbytes", "shape", "site", "size",
    )  # fmt: skip

    def __init__(self, initial: Array, name: str, module: str, site: Site, is_constant: bool) -> None:
        """Declare a variable that begins as `initial`."""
        self.initial = initial
        self.dtype = initial.dtype
        self.shape: tuple[int, ...] = initial.shape
        self.size = initial.size
        self.nbytes = initial.nbytes
        self.module = module
        self.site = site
        self.aside = False  # whether a name finds it only where no other variable has that name
        self.is_constant = is_constant
        self._name = name

    @property
    def name(self) -> str:
        """Return its given name, or its name in its module; empty where there is neither."""
        if not self._name:
            held = vars(sys.modules[self.module]).copy() if self.module in sys.modules else {}
            self._name = next((name for name, value in held.items() if value is self), "")
        return self._name

    def on(self, chip: Chip) -> Span:
        """Return a chip's instance, made and initialised when it is first asked for.

        It lasts until the device is reset or its driver closes. Raises OutOfMemory, NotInitialized after that.
        """
        found: Span | None = chip.variables.get(self)
        if found is None:
            with _making:
                found = chip.variables.get(self)
                if found is None:
                    found = chip.variables[self] = self._make(chip)
        return found

    def _make(self, chip: Chip) -> Span:
        allocation = chip.memory.allocate(self.nbytes, site=self.site, label=self.name)
        array = allocation.data.view(self.dtype).reshape(self.shape)
        array[...] = self.initial
        array.flags.writeable = not self.is_constant
        space = LanguageSpace.CONSTANT if self.is_constant else LanguageSpace.DECLARED
        return Span(allocation, array, 0, space)  # type: ignore[arg-type]  # a space of the language

    def span(self) -> Span:
        """Return the instance of the running thread's device. Raises IllegalState on the host."""
        thread = maybe_current_thread()
        if thread is None:
            raise IllegalState(f"{self!r} was used on the host; use device.symbol(...) there")
        if self.is_constant and (segment := thread.block.shared.get(CONSTANTS)) is not None:
            span: Span | None = segment.get(self)
            if span is None:
                raise IllegalAddress(
                    f"{thread} at {caller()}: {self!r} is not in the constant segment of this launch, which has the "
                    "constants that the kernel names"
                )
            return span
        return self.on(thread.grid.chip)

    def as_span(self) -> Span:
        """Return the same, for what takes spans and variables alike."""
        return self.span()

    def __getitem__(self, key: object) -> Any:
        """Read an element, or return a Span of the part at `key`. Raises IllegalAddress beyond the extents."""
        return self.span()[key]

    def __setitem__(self, key: object, value: object) -> None:
        """Store into elements. Raises IllegalAddress beyond the extents, and on a constant."""
        self._target()[key] = value

    def fill(self, value: object) -> None:
        """Store `value` in every element."""
        self[...] = value

    def __getattr__(self, name: str) -> Any:
        """Return a reading method of the span. Raises AttributeError for anything else."""
        if name not in READING:
            raise AttributeError(f"{type(self).__name__} has no {name!r}")
        return getattr(self.span(), name)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Array:
        """Give out the plain array, as a span does. Raises IllegalState on the host."""
        return self.span().__array__(dtype, copy)

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: Any, out: tuple[Any, ...] | None = None, **kwargs: object
    ) -> Any:
        """Run a numpy ufunc on the spans; `out` may hold variables, which are returned then."""
        operands = _spans(inputs)
        if method == "at" and isinstance(inputs[0], Variable):
            inputs[0]._target()  # numpy itself stores into read-only arrays here
        if out is None:
            return getattr(ufunc, method)(*operands, **_spans(kwargs))
        targets = tuple(each._target() if isinstance(each, Variable) else each for each in out)
        result = getattr(ufunc, method)(*operands, out=targets, **_spans(kwargs))
        return out[0] if len(out) == 1 else result

    def __array_function__(
        self, function: Callable[..., Any], types: object, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> Any:
        """Run any other numpy function on the spans."""
        return function(*_spans(args), **_spans(kwargs))

    def _target(self) -> Span:
        """Return the span that is stored into. Raises IllegalAddress on a constant."""
        span = self.span()
        if self.is_constant:
            raise IllegalAddress(f"{maybe_current_thread()} at {caller()}: store into {self!r}; kernels only read it")
        return span

    @property
    def ndim(self) -> int:
        """Return the number of dimensions."""
        return len(self.shape)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.span())

    def __len__(self) -> int:
        if not self.shape:
            raise InvalidValue(f"{self!r} has no dimensions, so it has no length")
        return self.shape[0]

    def __float__(self) -> float:
        return float(self.span())

    def __int__(self) -> int:
        return int(self.span())

    def __index__(self) -> int:
        if self.shape or self.dtype.kind not in "iu":
            raise TypeError(f"{self!r} is no integer; an index is a variable of an integer type without dimensions")
        return int(self.span())

    def __bool__(self) -> bool:
        return bool(self.span())

    __hash__ = object.__hash__  # by identity; `==` compares elements, as for an array

    def __repr__(self) -> str:
        kind = "constant" if self.is_constant else "device variable"
        extents = ", ".join(map(str, self.shape))
        return f"<{kind} {self.name or '(no name)'}: {element_name(self.dtype)}[{extents}], declared at {self.site}>"


@overload
def device_variable(
    dtype: Typed[Scalar], init: object = None, *, shape: Shape | None = None, name: str = ""
) -> Variable[Scalar]: ...
@overload
def device_variable(
    dtype: DTypeLike, init: object = None, *, shape: Shape | None = None, name: str = ""
) -> Variable: ...
def device_variable(dtype: DTypeLike, init: object = None, *, shape: Shape | None = None, name: str = "") -> Variable:
    """Declare a variable of global memory: `__device__ T x = init` (TOPS C++, 8.2).

    Its shape is that of `init`, or `shape`, which a single value fills; without `init` it is zeros. On the host, at a
    module's level or in a function, each call declares a variable; each device has an instance from its first use
    until it is reset. In a kernel the line declares one for all threads and launches: `static __device__ T x = init`.

    Raises InvalidType and InvalidValue where `init` is no value of `dtype` or has another shape; InvalidValue for more
    bytes than any chip's global memory, OutOfMemory for more than the host has; LaunchFailure where a line of a kernel
    declares something else than it did before.
    """
    thread, frame = maybe_current_thread(), sys._getframe(1)
    initial = _initial_value(dtype, init, shape, name, "global")
    site, module = Site(frame.f_code, frame.f_lasti), frame.f_globals.get("__name__", "")
    variable = Variable(initial, name, module, site, False)
    if thread is not None:
        return _static(thread, variable, frame.f_code, frame.f_lasti)
    _declared.add(variable)
    return variable


@overload
def constant(
    dtype: Typed[Scalar], init: object = None, *, shape: Shape | None = None, name: str = ""
) -> Variable[Scalar]: ...
@overload
def constant(dtype: DTypeLike, init: object = None, *, shape: Shape | None = None, name: str = "") -> Variable: ...
def constant(dtype: DTypeLike, init: object = None, *, shape: Shape | None = None, name: str = "") -> Variable:
    """Declare a variable of constant memory: `__constant__ T x = init` (TOPS C++, 8.2).

    Arguments are those of `device_variable`. Kernels only read it, the host writes it by symbol. It lies below no other
    memory space, so no generic pointer reaches it. Raises as `device_variable` does, InvalidValue for more bytes
    than any chip's constant memory, and IllegalState in a kernel.
    """
    thread, frame = maybe_current_thread(), sys._getframe(1)
    if thread is not None:
        raise IllegalState(f"{thread} at {caller()}: a constant is declared outside of kernels")
    initial = _initial_value(dtype, init, shape, name, "constant")
    module = frame.f_globals.get("__name__", "")
    variable = Variable(initial, name, module, Site(frame.f_code, frame.f_lasti), True)
    _declared.add(variable)
    return variable


def declare(initial: Array, name: str, module: str, site: Site, is_constant: bool) -> Variable:
    """Declare a variable of a text in another language, which begins as `initial`. Raises InvalidValue for its size."""
    space = "constant" if is_constant else "global"
    if initial.nbytes > MOST_BYTES[space]:
        raise InvalidValue(f"{name} has {initial.nbytes} bytes; {space} memory has {MOST_BYTES[space]}")
    initial.flags.writeable = False
    variable = Variable(initial, name, module, site, is_constant)
    _declared.add(variable)
    return variable


def variables_named(name: str) -> list[Variable]:
    """Return the declared variables of this name, alone or after their module's: "scale", "filters.scale".

    Those that were set aside are returned only where there is no other one.
    """
    found = [each for each in _all_declared() if each.name and name in (each.name, f"{each.module}.{each.name}")]
    return [each for each in found if not each.aside] or found


def _all_declared() -> list[Variable]:
    """Return the declared variables, a snapshot: other threads may declare some meanwhile."""
    while True:
        try:
            return list(_declared)
        except RuntimeError:  # the set grew during the iteration
            pass


def set_aside(variables: Iterable[Variable]) -> None:
    """Let names find other variables before these: a compiled program has its own beside those of its modules."""
    for each in variables:
        each.aside = True


def _static(thread: KernelThread, variable: Variable, code: CodeType, instruction: int) -> Variable:
    """Return the variable that the line of a kernel declares on this device: the first that was declared there."""
    key = id(code), expression_at(code, instruction)
    entry: tuple[Variable, CodeType] = thread.grid.chip.variables.setdefault(
        key, (variable, code)  # the entry keeps the code alive, and with it its id
    )
    first = entry[0]
    if (first.dtype, first.shape) != (variable.dtype, variable.shape):
        raise LaunchFailure(f"{thread} at {caller()}: {variable!r} was {first!r} before; a line declares one variable")
    return first


def _spans(value: Any) -> Any:
    """Return `value` with each variable in it replaced by its span."""
    if isinstance(value, Variable):
        return value.span()
    if type(value) in (list, tuple):
        return type(value)(_spans(each) for each in value)
    if type(value) is dict:
        return {name: _spans(each) for name, each in value.items()}
    return value


def extents_of(shape: Shape, dtype: DTypeLike) -> tuple[tuple[int, ...], np.dtype[np.generic], int]:
    """Return shape, element type and size in bytes. Raises InvalidType and InvalidValue, also for too many extents."""
    element = kernel_dtype(dtype)
    if type(shape) is int and shape >= 0:
        return (shape,), element, shape * element.itemsize
    if type(shape) is tuple and len(shape) <= MOST_DIMENSIONS:  # most other calls, which take a fraction of the time so
        size = element.itemsize
        for extent in shape:
            if type(extent) is not int or extent < 0:
                break
            size *= extent
        else:
            return shape, element, size
    try:
        extents = tuple(map(operator.index, shape)) if isinstance(shape, Iterable) else (operator.index(shape),)
    except TypeError:
        raise InvalidType(f"shape expects an int, or one for each dimension, got {shape!r}") from None
    if len(extents) > MOST_DIMENSIONS:
        raise InvalidValue(f"shape has {len(extents)} dimensions; it has at most {MOST_DIMENSIONS}")
    if extents and min(extents) < 0:
        raise InvalidValue(f"shape is {extents}; no extent is negative")
    return extents, element, math.prod(extents) * element.itemsize


def _initial_value(dtype: DTypeLike, init: object, shape: Shape | None, name: str, space: str) -> Array:
    """Return `init` as an array of `dtype` and `shape` (its own unless told); zeros where it is None.

    One value fills any shape. Raises InvalidType for what is no value of `dtype`, InvalidValue for one out of its
    range, for another shape, for a variable without elements, and for one of more bytes than any chip has in `space`,
    "global" or "constant"; OutOfMemory where the host has too few.
    """
    given = None if init is None else _array(init)
    extents, element, size = extents_of((() if given is None else given.shape) if shape is None else shape, dtype)
    if not size:
        raise InvalidValue(f"a variable of shape {extents} has no elements; expected extents of 1 or more")
    what = f"{'a constant' if space == 'constant' else 'a device variable'} {name}".rstrip()
    if size > MOST_BYTES[space]:
        raise InvalidValue(f"{what} of {size} bytes; {space} memory has {MOST_BYTES[space]}")
    if given is not None and given.shape not in ((), extents):
        raise InvalidValue(f"the initial value has shape {given.shape}; expected {extents}, or one value")
    try:
        initial = np.zeros(extents, element)
    except MemoryError:
        raise OutOfMemory(f"{what} of {size} bytes, which the host cannot hold") from None
    if given is not None:
        initial[...] = _converted(given, element)
    initial.flags.writeable = False
    return initial


def _array(init: object) -> Array:
    try:
        given = np.asarray(init)
    except ValueError as error:
        raise InvalidType(f"the initial value is {init!r}, no array: {error}") from None
    if given.dtype.hasobject or given.dtype.kind in "SUmM":
        raise InvalidType(f"the initial value expects numbers, got {init!r}")
    return given


def _converted(given: Array, element: np.dtype[np.generic]) -> Array:
    """Return the values as elements, whole numbers exact. Raises as `_initial_value` does."""
    if given.dtype == element:
        return given
    if given.dtype.kind == "c" and element.kind != "c":
        raise InvalidType(f"the initial value is complex; expected {element_name(element)}")
    try:
        converted: Array = quietly(given.astype, element)
    except (TypeError, ValueError):
        raise InvalidType(f"the initial value is of {given.dtype}; expected {element_name(element)}") from None
    if element.kind in "biu":
        exact = bool(np.array_equal(converted, given)) and not (element.kind == "u" and bool(np.any(given < 0)))
    else:
        exact = element.fields is not None or bool(np.array_equal(np.isfinite(converted), np.isfinite(given)))
    if not exact:
        raise InvalidValue(f"the initial value {given.tolist()} is out of the range of {element_name(element)}")
    return converted
