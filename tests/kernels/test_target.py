"""What a kernel is compiled for: where it runs, and what it is held to there."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from atops import kernels as k
from atops.base.errors import InvalidValue, LaunchFailure, NotSupported
from atops.base.result_codes import Result
from atops.device.arch import ARCHITECTURES
from atops.kernels.target import TARGETS, held_to
from tests.kernel_bench import Bench


def test_targets_are_chips_and_what_they_share():
    """Each chip is a target, and each abstract architecture runs on every chip that has it."""
    assert {name: target.runs_on for name, target in TARGETS.items()} == {
        "gcu210": ("gcu210",), "gcu300": ("gcu300",), "agcu200": ("gcu210", "gcu300"), "agcu300": ("gcu300",),
    }  # fmt: skip


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
@pytest.mark.parametrize("chip", ARCHITECTURES)
def test_a_launch_elsewhere_is_refused(make_bench: Callable[..., Bench], chip: str, target):
    """A kernel runs on its target's chips only; elsewhere the launch says what it is compiled for."""

    @k.kernel(arch=target.name)
    def touch(): ...

    bench = make_bench(arch=chip)
    if chip in target.runs_on:
        bench.launch(touch, (1, 1))
        return
    with pytest.raises(NotSupported, match=f"touch is compiled for {target.name}, .*; this is {chip}") as caught:
        bench.launch(touch, (1, 1))
    assert caught.value.code is Result.NoBinaryForGcu


def test_a_kernel_is_held_to_what_all_its_chips_can_do(make_bench: Callable[..., Bench]):
    """On gcu300, one for agcu200 reaches global memory by DTE only; one for agcu300, or for no target, by index too."""
    for asynchronous in (False, True):
        for arch, free in (("agcu200", False), ("agcu300", True), ("gcu300", True), (None, True)):
            bench = make_bench(arch="gcu300")
            x = bench.empty(4, np.int32)

            if asynchronous:
                @k.kernel(arch=arch)
                async def store(x):
                    x[0] = 1
            else:
                @k.kernel(arch=arch)
                def store(x):
                    x[0] = 1

            if free:
                bench.launch(store, (1, 1), x)
                assert x.host[0] == 1
            else:
                with pytest.raises(LaunchFailure, match="gcu300 as agcu200 cannot reach global memory directly"):
                    bench.launch(store, (1, 1), x)


def test_one_that_moves_by_dte_runs_on_both(make_bench: Callable[..., Bench]):
    """What both chips can do works in a kernel for agcu200, cooperative too."""

    @k.cooperative
    @k.kernel(arch="agcu200")
    async def double(x):
        tile = k.local(2, np.int32)
        part = slice(2 * k.thread_id(), 2 * k.thread_id() + 2)
        with k.dte_scope() as dte:
            k.memcpy(dte, tile, x[part])
            tile *= 2
            await k.syncblocks()
            await k.memcpy_async(dte, x[part], tile)

    assert double.arch == "agcu200" and double.cooperative
    for chip in ARCHITECTURES:
        bench = make_bench(arch=chip)
        x = bench.upload(np.arange(8, dtype=np.int32))
        bench.launch(double, (2, 2), x)
        assert list(x.host) == list(range(0, 16, 2))


def test_features_are_held_and_capacities_are_not():
    """The figures that a kernel sees lack what its least chip lacks; memories keep the chip's sizes."""
    chip = ARCHITECTURES["gcu300"]
    held = held_to(chip, TARGETS["agcu200"])
    assert (held.gcu_arch, held.agcu_arch, held.vector_types, held.direct_global_access) == (210, 200, False, False)
    assert (held.l1_usable, held.l2_usable, held.name) == (chip.l1_usable, chip.l2_usable, "gcu300 as agcu200")
    for same in (None, TARGETS["gcu300"], TARGETS["agcu300"]):
        assert held_to(chip, same) is chip
    least = ARCHITECTURES["gcu210"]
    assert held_to(least, TARGETS["agcu200"]) is least


@pytest.mark.parametrize("arch", ["gcu100", "", 300, "GCU300", ("gcu210", "gcu300")])
def test_unknown_targets_are_refused(arch: object):
    """Another name is refused where the kernel is defined, with those there are."""
    with pytest.raises(InvalidValue, match="'gcu210', 'gcu300', 'agcu200', 'agcu300' or None, got"):
        k.kernel(arch=arch)(lambda: None)
