"""Declared variables as the host reaches them: by symbol, as arrays that streams copy. TOPS Runtime API, 2.6."""

from __future__ import annotations

from collections import Counter
from typing import NoReturn

from atops.base.dtypes import Scalar_co
from atops.base.errors import InvalidType, InvalidValue, NotFound, OutOfMemory
from atops.base.result_codes import Result
from atops.device.memory.allocation import Allocation
from atops.kernels.memory.device_variables import Variable, variables_named
from atops.runtime.board.context import DeviceContext
from atops.runtime.board.deferred_free import free_when_idle
from atops.runtime.memory.buffer import DeviceArray, Part

__all__ = ("ConstantSymbol", "Symbol", "forget", "symbol")


class Symbol(DeviceArray[Scalar_co]):
    """A declared variable's instance on one device. It owns nothing, and is dead after the device's reset."""

    __slots__ = ()


class ConstantSymbol(Symbol[Scalar_co]):
    """A constant's instance: kernels name it, and get no pointer to it, because none would be a generic one."""

    __slots__ = ()

    def __kernel_argument__(self) -> NoReturn:
        raise InvalidType(f"{self!r} is constant memory, which no parameter points to; kernels refer to it by name")

    def _part(self, part: Part) -> Part:
        super()._part(part)
        if type(part) is DeviceArray:
            part.__class__ = ConstantSymbol  # type: ignore[assignment]  # a part of it is no more of a pointer
        return part


def symbol(context: DeviceContext, which: Variable | str) -> Symbol:
    """Return the instance of a variable on a device, made now if it was not used there.

    A name is the variable's own, or that after its module's: "scale", "filters.scale". Raises NotFound for a name that
    no declared variable bears, InvalidValue for one that several bear, InvalidType for anything else, and OutOfMemory.
    """
    context.check_alive()
    variable = _variable(which)
    try:
        span = variable.on(context.chip)
    except OutOfMemory:
        if not context.trim_pools():
            raise
        span = variable.on(context.chip)
    assert span.allocation is not None
    kind = ConstantSymbol if variable.is_constant else Symbol
    made = kind(span.allocation, span.offset, variable.dtype, variable.shape)
    made.driver = context.board.driver
    return made


def forget(context: DeviceContext, variable: Variable) -> None:
    """Give back a variable's instance on a device, if it has one there, once all work that is enqueued now is over."""
    span = context.chip.variables.get(variable)
    if span is None:
        return

    def free(allocation: Allocation, by: object) -> None:
        if context.chip.variables.get(variable) is span:
            del context.chip.variables[variable]
        context.memory.free(allocation, by)

    free_when_idle(context, free, span.allocation)


def _variable(which: object) -> Variable:
    if isinstance(which, Variable):
        return which
    if not isinstance(which, str):
        raise InvalidType(f"the symbol is {which!r}; expected a device variable or a constant, or the name of one")
    found = variables_named(which)
    if not found:
        error = NotFound(f"no declared variable is called {which!r}")
        error.code = Result.InvalidSymbol  # type: ignore[misc]  # this one carries its own code
        raise error
    if len(found) > 1:
        raise InvalidValue(f"{len(found)} variables are called {which!r}, in {_listed(found)}")
    return found[0]


def _listed(found: list[Variable]) -> str:
    """Say where variables of one name are declared, each place once, and what would name one of them alone."""
    places = Counter(f"{each.module} ({each.site})" for each in found)
    listed = ", ".join(place if count == 1 else f"{place}, {count} times" for place, count in sorted(places.items()))
    names = Counter(f"{each.module}.{each.name}" for each in found)
    alone = [repr(name) for name, count in sorted(names.items()) if count == 1]
    return f"{listed}; expected {' or '.join(['the variable itself', *alone])}"
