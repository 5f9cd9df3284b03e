"""Declared variables from the host: by symbol, in stream order, one instance a device, gone with its context."""

from __future__ import annotations

import gc
import weakref

import anyio
import numpy as np
import pytest

import atops
from atops import kernels as k
from atops.base.errors import (
    IllegalAddress,
    InvalidHandle,
    InvalidType,
    InvalidValue,
    NotFound,
    NotInitialized,
    OutOfMemory,
)
from atops.base.result_codes import Result
from atops.kernels.memory.device_variables import Variable, constant, device_variable
from atops.kernels.programs.program import compile_source
from atops.runtime.board.symbols import ConstantSymbol, forget, symbol
from atops.runtime.device import Device
from tests.runtime.boards import PATIENCE, Latch, board, device
from tests.runtime.hosts import on_hosts

TOTAL = device_variable(np.int64, 3)
SCALE = constant(np.float32, [1, 2, 4])


@k.kernel
def accumulate(x):
    """Add one for each thread to the total."""
    if k.threadIdx.x:
        return
    TOTAL[...] += k.blockDim.x
    tile = k.local(3, np.float32)
    with k.dte_scope() as dte:
        k.memcpy(dte, tile, SCALE[...])
        k.memcpy(dte, x, tile)


@on_hosts("asyncio", "trio", "inline", "shuffled")
async def test_the_host_reads_and_writes_in_stream_order(device):
    """Copies by symbol take their place between launches: set, add, fetch, set, fetch."""
    async with device.create_stream() as stream:
        x = stream.empty(3)
        total, scale = device.symbol(TOTAL), device.symbol(SCALE)
        stream.launch(accumulate, (1, 2), x)
        before = stream.fetch(total)
        stream.copy(total, np.int64(100))
        stream.copy(scale, np.array([5, 6, 7], np.float32))
        stream.launch(accumulate, (1, 2), x)
        assert (await before) == 5 and (await stream.fetch(total)) == 102
        assert list(await stream.fetch(x)) == [5, 6, 7] == list(await stream.fetch(scale))


def test_a_symbol_is_an_array_with_an_address():
    """Address, size, type and shape are the instance's, found by object, by name and by qualified name alike."""
    with device() as gcu:
        one = gcu.symbol(SCALE)
        assert (one.nbytes, one.dtype, one.shape) == (12, np.float32, (3,))
        for which in ("SCALE", f"{SCALE.module}.SCALE"):
            assert gcu.symbol(which).address == one.address
        assert gcu.buffer_at(one.address, 12).allocation is one.allocation
        assert gcu.symbol("TOTAL").address != one.address and gcu.symbol(TOTAL).shape == ()
        one.close()
        assert one.is_live  # a symbol owns nothing


@pytest.mark.parametrize("arch", ["gcu210", "gcu300"])
def test_each_device_and_each_driver_has_its_own(arch: str):
    """Devices of a board, and boards, do not see each other's instances."""
    with board(devices=2, arch=arch) as one, board(arch=arch) as other:
        devices = [Device(0, one), Device(1, one), Device(0, other)]
        for number, gcu in enumerate(devices):
            stream = gcu.create_stream()
            stream.copy(gcu.symbol(TOTAL), np.int64(10 * number))
            stream.launch(accumulate, (1, number + 1), stream.empty(3))
            stream.sync()
        values = [int(gcu.create_stream().fetch(gcu.symbol(TOTAL)).wait_sync(PATIENCE)) for gcu in devices]
        assert values == [1, 12, 23]
        with pytest.raises(InvalidHandle, match="is of"):
            devices[0].create_stream().fetch(devices[2].symbol(TOTAL))


def test_a_reset_makes_it_fresh():
    """After a reset the old symbol is dead and the next use finds the initial value, at an instance of its own."""
    with device() as gcu:
        stream, old = gcu.create_stream(), gcu.symbol(TOTAL)
        stream.copy(old, np.int64(77)).wait_sync(PATIENCE)
        context = gcu.context
        gcu.reset_sync()
        assert not old.is_live and not context.chip.variables
        stream = gcu.create_stream()
        with pytest.raises(IllegalAddress, match="freed by"):
            stream.fetch(old)
        assert int(stream.fetch(gcu.symbol(TOTAL)).wait_sync(PATIENCE)) == 3
        with pytest.raises(InvalidHandle, match="was reset"):
            symbol(context, TOTAL)


def test_an_awaited_reset_makes_it_fresh_too():
    """The awaitable reset forgets the instances as the blocking one does."""

    async def main() -> None:
        gcu = atops.Device(0)
        old = gcu.symbol(TOTAL)
        context = gcu.context
        await gcu.reset()
        assert not old.is_live and not context.chip.variables

    atops.run(main)
    with device() as gcu:

        async def reset() -> None:
            gcu.symbol(TOTAL)
            context = gcu.context
            await gcu.reset()
            assert not context.chip.variables

        anyio.run(reset)


@pytest.mark.slow
def test_it_counts_as_device_memory_until_the_driver_ends():
    """The statistics show an instance from its first use; the driver's end gives it back, mapping and all."""
    with board() as driver:
        gcu = Device(0, driver)
        before = gcu.statistics().memory.used
        first = gcu.symbol(device_variable(np.uint8, shape=1000))
        assert gcu.statistics().memory.used == before + 1024
        context = gcu.context
        pages = weakref.ref(context.memory.arena.source[0])
        anyio.run(driver.aclose)
    assert not first.is_live and context.memory.statistics().used == 0 and not context.chip.variables
    gc.collect()
    assert pages() is None
    with pytest.raises(NotInitialized):
        gcu.symbol(TOTAL)


def test_a_constant_is_no_parameter():
    """A constant's symbol, and a part of it, are refused as arguments; a device variable's is a plain pointer."""
    with device() as gcu:
        stream, scale = gcu.create_stream(), gcu.symbol(SCALE)
        for part in (scale, scale[1:], scale.reshape(3, 1), scale.view(np.uint8)):
            assert isinstance(part, ConstantSymbol)
            with pytest.raises(InvalidType, match="is constant memory, which no parameter points to"):
                stream.launch(accumulate, (1, 1), part)

        @k.kernel
        def store(x):
            x[...] = 55

        stream.launch(store, (1, 1), gcu.symbol(TOTAL))
        assert int(stream.fetch(gcu.symbol(TOTAL)).wait_sync(PATIENCE)) == 55


def test_symbols_that_are_none():
    """Unknown names have the C edge's own code, names of several variables say where; others are no symbol."""
    twins = [device_variable(np.int8, name="twin") for _ in range(2)]
    with device() as gcu:
        with pytest.raises(NotFound, match="no declared variable is called 'NOTHING'") as caught:
            gcu.symbol("NOTHING")
        assert caught.value.code is Result.InvalidSymbol
        with pytest.raises(InvalidValue, match=r"2 variables are called 'twin', in .*test_symbols.py:\d+"):
            gcu.symbol("twin")
        same = compile_source("twin = k.device_variable(np.int8)\n", "only.py")
        modules = [compile_source("twin = k.device_variable(np.int8)\n", "both.py").module() for _ in range(3)]
        modules.append(same.module())
        assert all(list(module.variables) == ["twin"] for module in modules)
        place = r"both \(both.py:1 in <module>\), 3 times, only \(only.py:1 in <module>\), .*test_symbols.py:\d+ in .*"
        with pytest.raises(InvalidValue, match=rf"6 variables are called 'twin', in {place}itself or 'only.twin'$"):
            gcu.symbol("twin")
        assert gcu.symbol("only.twin").nbytes == 1  # the module's, though `same` has variables of its own
        lonely = compile_source("lonely = k.device_variable(np.int16)\n", "lonely.py")
        assert gcu.symbol("lonely").address == gcu.symbol(lonely.variables["lonely"]).address
        assert gcu.symbol(twins[0]).address != gcu.symbol(twins[1]).address
        for wrong in (3, None, np.int8, accumulate):
            with pytest.raises(InvalidType, match="a device variable or a constant"):
                gcu.symbol(wrong)


def test_idle_pool_memory_makes_room():
    """Where only a pool's idle memory is in the way it is given back first; a full device is OutOfMemory."""
    big = device_variable(np.uint8, shape=1 << 20)
    with device() as gcu:
        gcu.default_pool.release_threshold = 1 << 30  # synchronising leaves its idle memory alone
        stream = gcu.create_stream()
        stream.empty(1 << 20, np.uint8).close()
        stream.record().sync(PATIENCE)
        kept = gcu.allocate(gcu.memory_info()[0] - (64 << 10))
        assert gcu.symbol(big).nbytes == 1 << 20
        with pytest.raises(OutOfMemory):
            gcu.symbol(device_variable(np.uint8, shape=2 << 20))
        kept.close()


@pytest.mark.slow
def test_a_declaration_outlives_no_driver():
    """A variable without references goes when the driver that used it is closed."""

    def use() -> weakref.ref[Variable]:
        with board() as driver:
            variable = device_variable(np.int8)
            Device(0, driver).symbol(variable)
            anyio.run(driver.aclose)
        return weakref.ref(variable)

    gone = use()
    gc.collect()
    assert gone() is None


def test_forgotten_instance_is_given_back_after_the_work():
    """Work that was enqueued before keeps the instance; then its memory is free, and a new use makes a new one."""
    with board() as driver:
        there = Device(0, driver)
        total = device_variable(np.int32, 3, name="forgotten")
        forget(there.context, total)
        free = there.memory_info()[0]
        latch, stream = Latch(there), there.create_stream()
        held = there.memory_info()[0]
        first = there.symbol(total)
        latch.hold(stream)
        filled = stream.fill(first, 8)
        forget(there.context, total)
        assert there.symbol(total).address == first.address and there.memory_info()[0] < held
        latch.open()
        filled.wait_sync(PATIENCE)
        there.sync()
        latch.close()
        assert there.memory_info()[0] == free
        assert stream.fetch(there.symbol(total)).wait_sync(PATIENCE) == 3
        stream.close()
