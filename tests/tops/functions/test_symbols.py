"""Variables of kernels as the host reaches them (TOPS Runtime API, 2.6)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest

import atops.tops as tops
from atops import kernels as k
from atops.base.result_codes import Result
from atops.bridge.handles import register
from atops.kernels.programs.program import compile_source
from atops.tops.functions.module import topsModuleLoadData
from tests.runtime.boards import PATIENCE, Latch
from tests.tops.conformance import Case, Conformance, World
from tests.tops.pointers import device_pointer, host_pointer, read, registered

table = k.device_variable("int32", np.arange(16))
factors = k.constant("float32", np.arange(16))
NBYTES = 64
H2H, H2D, D2H, D2D, ANY = tops.topsMemcpyKind
INVALID, DIRECTION = tops.topsErrorInvalidValue, tops.topsErrorInvalidMemcpyDirection
SYMBOL = tops.topsErrorInvalidSymbol
SOURCE = """
from atops import kernels as k

counter = k.device_variable("int32", shape=4)

@k.kernel
def use(x):
    x[0] = counter[0]
"""
IMAGE = compile_source(SOURCE, "counting.py").image().to_bytes()

TO = {"topsMemcpyToSymbol": (), "topsMemcpyToSymbolAsync": (None,)}
FROM = {"topsMemcpyFromSymbol": (), "topsMemcpyFromSymbolAsync": (None,)}
ASK = ("topsGetSymbolAddress", "topsGetSymbolSize")


def module(world: World) -> int:
    """Return a handle of a module with one variable."""
    handle: int = tops.check(topsModuleLoadData(IMAGE))
    return handle


def copy_of(name: str, symbol: object = table, size: int = NBYTES, offset: int = 0, kind: object = None) -> tuple:
    """Return arguments of a copy to or from a symbol."""
    host = np.zeros(NBYTES + 8, "uint8")
    if name in TO:
        return symbol, host, size, offset, H2D if kind is None else kind, *TO[name]
    return host, symbol, size, offset, D2H if kind is None else kind, *FROM[name]


class TestSymbols(Conformance):
    """Every function about symbols, by its rows."""

    functions = (*ASK, *TO, *FROM, "topsModuleGetGlobal")
    good: ClassVar = {
        **{name: (table,) for name in ASK},
        **{name: (lambda world, name=name: copy_of(name)) for name in (*TO, *FROM)},
        "topsModuleGetGlobal": lambda world: (module(world), "counter"),
    }
    bad = (
        *(Case(name, "null", (None,), SYMBOL) for name in ASK),
        *(Case(name, "an unknown name", ("no such thing",), SYMBOL) for name in ASK),
        *(Case(name, "no symbol", (3.0,), INVALID) for name in ASK),
        *(Case(name, "H16 null symbol", copy_of(name, None), SYMBOL) for name in (*TO, *FROM)),
        *(Case(name, "H16 unknown", copy_of(name, "no such thing"), SYMBOL) for name in (*TO, *FROM)),
        *(Case(name, "H16 too large", copy_of(name, size=NBYTES + 1), INVALID) for name in (*TO, *FROM)),
        *(Case(name, "H16 offset", copy_of(name, offset=1), INVALID) for name in (*TO, *FROM)),
        *(Case(name, "negative offset", copy_of(name, size=1, offset=-1), INVALID) for name in (*TO, *FROM)),
        *(Case(name, f"H16 kind {kind}", copy_of(name, kind=kind), DIRECTION) for name in (*TO, *FROM)
          for kind in (-1, 5, 0, 3)),
        *(Case(name, "H16 the other way", copy_of(name, kind=D2H), DIRECTION) for name in TO),
        *(Case(name, "H16 the other way", copy_of(name, kind=H2D), DIRECTION) for name in FROM),
        *(Case(name, "H16 null host", (table, None, 4, 0, H2D), INVALID) for name in TO),
        *(Case(name, "H16 null host", (None, table, 4, 0, D2H), INVALID) for name in FROM),
        Case("topsModuleGetGlobal", "no such variable", lambda w: (module(w), "other"), tops.topsErrorNotFound),
        Case("topsModuleGetGlobal", "a kernel's name", lambda w: (module(w), "use"), tops.topsErrorNotFound),
        Case("topsModuleGetGlobal", "no name", lambda w: (module(w), ""), INVALID),
        Case("topsModuleGetGlobal", "no module", (12345, "counter"), tops.topsErrorInvalidHandle),
    )  # fmt: skip
    unreachable: ClassVar = {("topsModuleGetGlobal", Result.InvalidContext): "a device has one context"}


@pytest.mark.parametrize("symbol", [table, factors, "table", f"{__name__}.factors"])
def test_symbols_and_names(world, symbol):
    """Device variables and constants, by themselves or by name, in the macro or not, have an address and a size."""
    address = tops.check(tops.topsGetSymbolAddress(tops.TOPS_SYMBOL(symbol)))
    expected = {"table": table, f"{__name__}.factors": factors}.get(symbol) if isinstance(symbol, str) else symbol
    assert tops.topsGetSymbolSize(symbol) == (tops.topsSuccess, NBYTES)
    assert read(address, NBYTES) == expected.initial.tobytes()


@pytest.mark.parametrize("symbol", [table, factors])
def test_copies_to_and_from(world, symbol):
    """Bytes go to a place in a symbol and back, also from and to device memory."""
    host, back = np.arange(8, dtype="uint8") + 1, np.zeros(NBYTES, "uint8")
    tops.check(tops.topsMemcpyToSymbol(symbol, host, 8, 4))
    tops.check(tops.topsMemcpyFromSymbol(back, symbol, NBYTES))
    assert back.tobytes() == symbol.initial.tobytes()[:4] + host.tobytes() + symbol.initial.tobytes()[12:]
    pointer = device_pointer(world)
    tops.check(tops.topsMemcpyFromSymbol(pointer, symbol, 8, 4, D2D))
    tops.check(tops.topsMemcpyToSymbol(symbol, pointer, 8, 20, D2D))
    tops.check(tops.topsMemcpyFromSymbol(back, symbol, 8, 20, ANY))
    assert back[:8].tobytes() == host.tobytes()


def test_each_device_has_its_own(world):
    """The symbol of the current device is meant, or that of the stream's."""
    one = np.full(4, 9, "uint8")
    stream = world.second.create_stream()
    handle = register(stream, world.second.context)
    tops.check(tops.topsMemcpyToSymbolAsync(table, one, 4, 0, H2D, handle))
    addresses = []
    for device, value in ((0, bytes(4)), (1, one.tobytes())):
        tops.topsSetDevice(device)
        addresses.append(tops.check(tops.topsGetSymbolAddress(table)))
        assert read(addresses[-1], 4) == value
    assert addresses[0] != addresses[1]


def test_asynchronous_copies(world):
    """Pinned and registered memory is copied when the stream comes to it."""
    latch, stream = Latch(world.device), world.device.create_stream(nonblocking=True)
    handle = register(stream, world.device.context)
    host, array = host_pointer(world), registered(world)
    tops.host_view(host, 4)[:] = 5
    latch.hold(stream)
    tops.check(tops.topsMemcpyToSymbolAsync(table, host, 4, 0, H2D, handle))
    tops.check(tops.topsMemcpyFromSymbolAsync(array, table, 4, 0, D2H, handle))
    assert not array.any()
    latch.open()
    stream.sync(PATIENCE)
    assert array[:5].tolist() == [5, 5, 5, 5, 0]


def test_l11_module_global(world):
    """L11: a module's variable has an address that copies take; both results are always there."""
    address, size = tops.check(tops.topsModuleGetGlobal(module(world), "counter"))
    assert size == 16
    assert read(address, size) == bytes(16)
    tops.check(tops.topsMemset(address, 1, size))
    assert read(address, size) == b"\x01" * 16


def test_a_modules_variable_is_on_the_modules_device(world):
    """It is there whichever device is current, until that device is reset."""
    handle = module(world)
    first = tops.check(tops.topsModuleGetGlobal(handle, "counter"))
    tops.topsSetDevice(1)
    assert tops.topsModuleGetGlobal(handle, "counter") == (tops.topsSuccess, *first)
    tops.topsSetDevice(0)
    tops.check(tops.topsDeviceReset())
    assert tops.topsModuleGetGlobal(handle, "counter") == (tops.topsErrorInvalidHandle, None, None)
