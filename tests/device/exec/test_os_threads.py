"""A block whose threads have an OS thread each, at the edges of its life."""

from __future__ import annotations

from atops import kernels as k
from atops.base.errors import ExecutionError
from atops.device.exec.block import Progress
from atops.device.exec.grid import Grid
from atops.device.exec.os_threads import SipBlock
from tests.kernel_bench import Bench


@k.kernel
async def forever() -> None:
    """Never end by itself."""
    while True:
        await k.syncthreads()


def test_a_block_that_is_stopped_while_it_is_made() -> None:
    """The grid knows a block before its threads can run: an abort that comes then ends them when they do."""
    bench = Bench.of(workers="sip")
    model = bench.grid(forever, (1, 3))

    class Stopped(Grid):
        def on_start(self) -> None:
            self.stop(ExecutionError("enough"))

    grid = Stopped(model.entry, model.chip, model.grid_dim, model.block_dim)
    cluster = bench.chip.clusters[0]
    block = SipBlock(grid, 0, cluster, cluster.sips)
    assert [task.step(1) for task in block.tasks()] == [Progress.DONE] * 3
    assert grid.done and "enough" in str(grid.error)
