"""Private memory: arrays on a thread's stack."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from atops import kernels as k
from atops.base.errors import DteError, IllegalState, InvalidType, InvalidValue, LaunchFailure, LaunchOutOfResources
from atops.kernels.memory.arrays import private
from tests.kernel_bench import Bench


@pytest.mark.parametrize("strict", [False, True])
def test_private_memory_is_the_threads_own(make_bench: Callable[..., Bench], strict: bool):
    """Each thread has its own, for its whole life; it begins alike in every run, in strict mode as 0xA5."""
    bench = make_bench(strict=strict)
    arrays: list[np.ndarray] = []

    @k.kernel
    async def take():
        a, b = private((2, 3), np.int16), private((), np.float32)
        assert (a.shape, a.dtype, b.shape, b.dtype) == ((2, 3), np.int16, (), np.float32)
        assert set(a.view(np.uint8).reshape(-1)) == ({0xA5} if strict else {0})
        a[...] = k.thread_id()
        await k.syncthreads()
        assert (a == k.thread_id()).all()
        arrays.append(a)

    bench.launch(take, (2, 3))
    assert sorted(int(a[0, 0]) for a in arrays) == list(range(6))
    assert not any(np.shares_memory(a, b) for n, a in enumerate(arrays) for b in arrays[:n])


def test_the_stack_ends(bench: Bench):
    """All of the stack can be had; one byte more is LaunchOutOfResources with what was asked, used and there."""
    room = bench.arch.stack_bytes

    @k.kernel
    def fill(more):
        kept = private(room - 256, np.int8)
        assert private(128 + more, np.int8).size + kept.size <= room

    bench.launch(fill, (1, 2), 128)
    said = rf"thread \(0,0,0\).*257 bytes.*{room - 256} of the {room} bytes of its stack"
    with pytest.raises(LaunchFailure, match=said) as caught:
        bench.launch(fill, (1, 1), 129)
    assert isinstance(caught.value.__cause__, LaunchOutOfResources)


@pytest.mark.slow
def test_no_dte_reaches_private_memory(bench: Bench):
    """As either operand, private memory is a DTE fault."""

    @k.kernel
    def move(out):
        tile, own = k.local(4, np.int32), private(4, np.int32)
        with k.dte_scope() as dte:
            k.memcpy(dte, *((tile, own) if out else (own, tile)))

    for out in (False, True):
        with pytest.raises(LaunchFailure, match="lies in private memory, which no DTE reaches") as caught:
            bench.launch(move, (1, 1), out)
        assert isinstance(caught.value, DteError)


def test_a_python_variable_is_private_too(bench: Bench):
    """Names that a kernel binds belong to its thread."""
    x = bench.empty(4, np.int32)

    @k.kernel
    async def own(x):
        mine = 10 * k.threadIdx.x
        await k.syncthreads()
        x[k.threadIdx.x] = mine

    bench.launch(own, (1, 4), x)
    assert list(x.host) == [0, 10, 20, 30]


@pytest.mark.parametrize(("shape", "dtype", "error"), [(-1, "int8", InvalidValue), (2.5, "int8", InvalidType),
                                                      (4, "float33", InvalidType)])  # fmt: skip
def test_shapes_and_types_without_meaning(bench: Bench, shape: object, dtype: object, error: type):
    """Negative extents and unknown types are faults; on the host there is no stack."""

    @k.kernel
    def wrong():
        private(shape, dtype)

    with pytest.raises(LaunchFailure) as caught:
        bench.launch(wrong, (1, 1))
    assert isinstance(caught.value.__cause__, error)
    with pytest.raises(IllegalState, match="inside a kernel"):
        private(1, np.int8)
