"""Kernels compiled from text at work: launched from modules and images, compared with numpy, faults at their lines."""

from __future__ import annotations

import traceback
from collections.abc import Iterator

import numpy as np
import pytest

import atops
from atops.base.errors import InvalidValue, KernelDeadlock, LaunchFailure, NotSupported
from atops.base.result_codes import Result
from atops.kernels.programs.program import Program, compile_source, load_module
from atops.runtime.device import Device
from atops.runtime.driver import board_of
from atops.runtime.stream import Stream
from tests.kernels.source_texts import SCALE, declarations
from tests.runtime.boards import PATIENCE, board
from tests.runtime.hosts import on_every_host

__all__ = ("declarations",)  # a fixture

REDUCE = """\
partial = k.device_variable(np.float32, shape=2)
factor = k.constant(np.float32, FACTOR)


@k.cooperative
async def reduce(x, y):
    block = k.shared(k.blockDim.x, np.float32)
    share = k.local(SHARE, np.float32)
    with k.dte_scope() as dte:
        start = k.thread_id() * SHARE
        k.memcpy(dte, share, x[start : start + SHARE])
    block[k.threadIdx.x] = np.sum(share) * factor[...]
    await k.syncthreads()
    if k.threadIdx.x == 0:
        partial[k.blockIdx.x] = np.sum(block)
    await k.syncblocks()
    if k.thread_id() == 0:
        with k.dte_scope() as dte:
            share[0] = partial[0] + partial[1]
            k.memcpy(dte, y, share[:1])
"""

FAULTY = """\
@k.device
def divide(a, b):
    # where it goes wrong
    return a / b


@k.kernel
def fails(x):
    if k.thread_id() == 3:
        divide(1, x.size - x.size)


@k.kernel
async def hangs():
    if k.threadIdx.x:
        await k.syncthreads()
"""


@pytest.fixture
def stream() -> Iterator[Stream]:
    """A stream of a board of its own."""
    with board() as driver:
        made = Device(0, driver).create_stream()
        yield made
        made.clear_error()
        made.close()


@on_every_host
async def test_a_compiled_kernel_computes_what_numpy_does(device: atops.Device):
    """Text to kernel to result, from the program's module and from the image's, on every host."""
    program = Program(SCALE, "scale.py")
    program.add_name_expression("&scale")
    image = program.compile().image().to_bytes()
    host = np.linspace(-3, 3, 5000, dtype=np.float32)
    async with device.create_stream() as stream:
        x = stream.upload(host)
        for module in (program.module(), load_module(image)):
            for name in ("scale", program.lowered_name("&scale")):
                y = stream.empty_like(x)
                stream.launch(module.function(name), (2, 12), x, y, 2.5)
                assert np.array_equal(await stream.fetch(y), host * np.float32(2.5))


@pytest.mark.parametrize("arch", ["gcu210", "gcu300"])
def test_a_cooperative_kernel_with_variables_and_macros(declarations: None, arch: str):
    """Device variables, constants, shared memory and both barriers, on both chips."""
    host = np.arange(24 * 8, dtype=np.float32)
    module = compile_source(REDUCE, options=[f"-arch={arch}", "-DSHARE=8", "-DFACTOR=0.5"]).module()
    with board(arch=arch) as driver:
        device = Device(0, driver)
        stream = device.create_stream()
        y = stream.empty(1, np.float32)
        stream.launch(module.function("reduce"), (2, 12), stream.upload(host), y)
        assert stream.fetch(y).wait_sync(PATIENCE)[0] == host.sum() / 2
        partial = stream.fetch(device.symbol(module.variable("partial"))).wait_sync(PATIENCE)
        assert partial.sum() == host.sum() / 2 and partial.shape == (2,)
        stream.close()


def test_a_fault_names_the_line_of_the_text(stream: Stream):
    """The message has the program's name and the line; the traceback shows the lines of kernel and function."""
    module = compile_source(FAULTY, "faulty.py").module()
    failed = stream.launch(module.function("fails"), (1, 12), stream.zeros(4, "int32"))
    with pytest.raises(LaunchFailure, match=r"thread \(3,0,0\).*ZeroDivisionError.*\(faulty.py:10\)") as caught:
        failed.wait_sync(PATIENCE)
    shown = "".join(traceback.format_exception(caught.value.__cause__))
    assert "line 10, in fails\n    divide(1, x.size - x.size)" in shown
    assert "line 4, in divide\n    return a / b" in shown


def test_a_deadlock_names_the_line_of_the_text(stream: Stream):
    """Reports that group threads by where they stand know the text too."""
    module = compile_source(FAULTY, "faulty.py").module()
    hanging = stream.launch(module.function("hangs"), (1, 2))
    with pytest.raises(KernelDeadlock, match=r"faulty.py:16"):
        hanging.wait_sync(PATIENCE)


def test_a_module_for_another_chip_is_refused_at_the_call(stream: Stream):
    """The launch says so, with the code that the C edge returns; nothing is enqueued."""
    kernel = compile_source(SCALE, options=["--gpu-architecture=gcu210"]).module().function("scale")
    x = stream.zeros(4, "float32")
    before = board_of(stream.driver).seq
    with pytest.raises(NotSupported, match="compiled for gcu210") as caught:
        stream.launch(kernel, (1, 1), x, x)
    assert caught.value.code is Result.NoBinaryForGcu and board_of(stream.driver).seq == before


def test_dynamic_shared_memory_of_a_compiled_kernel_needs_its_size(stream: Stream):
    """What is known of the text is known at the launch."""
    text = "@k.kernel\ndef f(x):\n    d = k.dynamic_shared(np.int32)\n    d[0] = 7\n"
    text += "    with k.dte_scope() as dte:\n        k.memcpy(dte, x, d[:1])\n"
    kernel = compile_source(text).module().function("f")
    x = stream.zeros(1, "int32")
    with pytest.raises(InvalidValue, match="uses dynamic shared memory"):
        stream.launch(kernel, (1, 1), x)
    stream.launch(kernel, (1, 1, 64), x)
    assert stream.fetch(x).wait_sync(PATIENCE)[0] == 7


def test_an_unloaded_module_does_not_stop_what_is_enqueued(stream: Stream):
    """A launch keeps its kernel."""
    module = compile_source(SCALE).module()
    x = stream.upload(np.ones(100, np.float32))
    y = stream.empty_like(x)
    stream.launch(module.function("scale"), (2, 12), x, y)
    module.unload()
    assert (stream.fetch(y).wait_sync(PATIENCE) == 2).all()
