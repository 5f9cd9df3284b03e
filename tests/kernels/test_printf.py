"""printf as kernels write it: what the device's FIFO gets. How C formats is tests/base/test_c_format.py."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

from atops import kernels as k
from atops.base.errors import InvalidType, LaunchFailure
from atops.kernels.memory.device_variables import constant, device_variable
from atops.kernels.memory.pointer import pointer
from atops.kernels.output import printf
from tests.kernel_bench import Bench


def printed(bench: Bench) -> str:
    """Take what the kernels have printed."""
    return "".join([each.text for each in bench.chip.print_fifo.take()[0]])


def test_threads_print_in_the_order_they_run(bench: Bench):
    """Each call's text is whole; between two barriers threads print in order, with one worker."""

    @k.kernel
    async def hello():
        printf("%d.%d ", k.blockIdx.x, k.threadIdx.x)
        await k.syncthreads()
        printf("[%u]\n", k.threadIdx.x)

    bench.launch(hello, (1, 3))
    assert printed(bench) == "0.0 0.1 0.2 [0]\n[1]\n[2]\n"


@pytest.mark.parametrize("workers", [1, "sip"])
def test_threads_keep_their_own_order(make_bench: Callable[..., Bench], workers: int | str):
    """Under every executor, each thread's texts come in its order and none is missing."""
    bench = make_bench(workers=workers)

    @k.kernel
    async def count():
        for turn in range(20):
            printf("%d %d\n", k.thread_id(), turn)
            await k.syncthreads()

    bench.launch(count, (2, 4))
    lines = printed(bench).splitlines()
    for thread in range(8):
        assert [line for line in lines if line.startswith(f"{thread} ")] == [f"{thread} {turn}" for turn in range(20)]


def test_the_text_s_examples(bench: Bench):
    """As 8.2 prints its variables; scalars of every type of the language; the number of characters comes back."""
    counts: list[int] = []

    @k.kernel
    def show(x: np.float32, h: ml_dtypes.bfloat16, n: np.uint8):
        counts.append(printf("%f\n", x))
        counts.append(printf("%f %f\n", x, h))
        counts.append(printf("%hhd %s %%", n, "n"))

    bench.launch(show, (1, 1), 1.0, 1.5, 255)
    text = printed(bench)
    assert text == "1.000000\n1.000000 1.500000\n-1 n %"
    assert sum(counts) == len(text)


PRINTED_SCALE, PRINTED_TOTAL = constant(np.float32, 1.5), device_variable(np.int32, 7)


@pytest.mark.parametrize("arch", ["gcu210", "gcu300"])
def test_variables_print_as_in_the_text(make_bench: Callable[..., Bench], arch: str):
    """The printf of a variable in 8.2 as it stands, and the addresses of a variable and a pointer."""
    bench = make_bench(arch=arch)

    @k.kernel
    def show():
        printf("%f %d %p %p\n", PRINTED_SCALE, PRINTED_TOTAL, PRINTED_TOTAL, pointer(PRINTED_TOTAL) + 1)

    bench.launch(show, (1, 1))
    address = PRINTED_TOTAL.on(bench.chip).address
    assert printed(bench) == f"1.500000 7 {address:#x} {address + 4:#x}\n"


@pytest.mark.parametrize("strict", [False, True])
def test_pointers(make_bench: Callable[..., Bench], strict: bool):
    """%p of global memory is its device address, of local and shared memory the place in L1 and L2, in either mode."""
    bench = make_bench(strict=strict)
    x = bench.empty(8, np.float32)

    @k.kernel
    def where(x):
        near, both = k.local(64, np.float32), k.shared(64, np.int8)
        printf("%p %p %p %p %p", x, x[2:], near, near[3:], both[5:])

    bench.launch(where, (1, 1), x)
    address = x.allocation.address
    assert printed(bench) == f"{address:#x} {address + 8:#x} 0x0 0xc 0x5"


def test_device_functions_print(bench: Bench):
    """A function that kernels call prints for the thread that calls it."""

    @k.device
    def tell(what):
        printf("%d: %s\n", k.threadIdx.x, what)

    @k.kernel
    def ask():
        tell("here")

    bench.launch(ask, (1, 2))
    assert printed(bench) == "0: here\n1: here\n"


def test_a_wrong_call_is_a_fault_of_the_kernel(bench: Bench):
    """Thread, line, conversion and value are named; what was printed before stays."""

    @k.kernel
    def wrong():
        if k.threadIdx.x == 1:
            printf("%s %d\n", "value", 2.5)
        printf("fine\n")

    with pytest.raises(LaunchFailure) as caught:
        bench.launch(wrong, (1, 2))
    line = wrong.function.__code__.co_firstlineno + 3
    cause = caught.value.__cause__
    assert isinstance(cause, InvalidType)
    assert f"thread (1,0,0) of block (0,0,0) of kernel wrong at test_printf.py:{line}" in str(cause)
    assert "'%s %d\\n': %d got argument 2, float 2.5; expected an integer" in str(cause)
    assert printed(bench) == "fine\n"


def test_the_fifo_is_bounded(bench: Bench):
    """Kernels never wait for room: the oldest texts go, and the device counts them."""
    bench.chip.print_fifo.size = 200

    @k.kernel
    def much():
        for turn in range(100):
            printf("line %d\n", turn)

    bench.launch(much, (1, 1))
    texts, lost = bench.chip.print_fifo.take()
    assert 0 < len(texts) < 20 and lost == 100 - len(texts)
    assert [each.text for each in texts] == [f"line {turn}\n" for turn in range(lost, 100)]


def test_the_host_prints_at_once(capsys: pytest.CaptureFixture[str]):
    """A function of both sides prints on the host too, and its errors are plain ones there."""
    assert printf("%03d|", 7) == 4
    assert capsys.readouterr().out == "007|"
    with pytest.raises(InvalidType, match=r"^printf format '%d'"):
        printf("%d", "x")
    address = np.zeros(4)
    with pytest.raises(InvalidType, match="memory or an address"):
        printf("%p", address)
