"""Programs of all kinds under every schedule of a strategy, and the classes of schedules counted one by one."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

import numpy as np

from atops.base.agenda import Agenda
from atops.base.choice import Chooser, Random
from atops.base.errors import StepLimit
from atops.base.footprint import Footprint
from atops.base.options import EmulatorOptions
from atops.checking.runner import Runner
from atops.checking.search import Ended
from atops.checking.strategies.exhaustive import Class, Exhaustive, class_of
from atops.checking.strategies.strategy import Differs, Recorder
from atops.device.exec.block_scheduler import ClusterArray
from atops.device.exec.grid import Grid
from atops.kernels.kernel import Kernel
from tests.checking.small_kernels import LOG
from tests.kernel_bench import Bench

Program = Callable[[Chooser], Hashable]
"""Runs once under a chooser, and returns what came of it: a result, or how it failed."""


class Explored(NamedTuple):
    """What a strategy has met."""

    complete: int
    cut: int
    results: frozenset[Hashable]
    classes: frozenset[Class]
    exhausted: bool


def explore(program: Program, strategy: Exhaustive, most: int = 100_000, commands: bool = False) -> Explored:
    """Run a program under every schedule of a strategy, `most` at most. `commands`: what these touch is told, too."""
    complete, cut = 0, 0
    results: set[Hashable] = set()
    classes: set[Class] = set()
    while complete + cut < most:
        chooser = Recorder(strategy, commands=commands)
        if chooser.footprint is None:  # so that the classes can be told
            chooser.footprint = Footprint(commands)
            chooser.footprint.resumed = chooser._resumed
        result = program(chooser)
        chooser.over()
        assert not isinstance(chooser.cut, Differs), chooser.cut
        assert not (commands and chooser.footprint.refused), "something of which it cannot be told what it touches"
        if chooser.cut is not None:
            cut += 1
        else:
            complete += 1
            results.add(result)
            classes.add(class_of(strategy.path))
        if not strategy.over():
            break
    return Explored(complete, cut, frozenset(results), frozenset(classes), strategy.exhausted)


def on_a_bare_grid(kernel: Kernel, config: Any, *shapes: Any, **options: Any) -> Program:
    """Return a program that launches a kernel on a chip without a runtime, with an int32 array of zeros a shape.

    It results in what the arrays hold at the end, or in how the launch failed.
    """

    def program(chooser: Chooser) -> Hashable:
        LOG.clear()
        bench = Bench(EmulatorOptions(**options))
        arrays = [bench.upload(np.zeros(shape, np.int32)) for shape in shapes]
        agenda = Agenda(chooser)
        model = bench.grid(kernel, config, *arrays)
        grid = Grid(
            model.entry, bench.chip, model.grid_dim, model.block_dim, shared_bytes=model.shared_bytes,
            cooperative=model.cooperative, agenda=agenda, label="launch",
        )  # fmt: skip
        clusters = ClusterArray(bench.chip.clusters)
        clusters.place = lambda block: block.tasks()  # type: ignore[assignment]  # for the runtime
        clusters.submit(grid, 0, 0)
        try:
            agenda.run()
        except StepLimit as error:
            bench.memory.close()
            return "cut", str(error)
        failed = "" if grid.error is None else type(grid.error).__name__
        held = tuple(array.host.tobytes() for array in arrays) if not failed else ()
        bench.memory.close()
        signals = tuple(bench.chip.signals.read(index) for index in range(4))
        return failed, held, signals

    return program


def in_whole(main: Callable[..., Any], **options: Any) -> Program:
    """Return a program that runs as `atops.check` runs it."""
    runner = Runner(main, (), EmulatorOptions(**options), 100_000)

    def program(chooser: Chooser) -> Hashable:
        with runner:  # which keeps the log quiet
            ended = runner(chooser)
        return repr(ended.result) if ended.failure is None else ended.failure.signature

    return program


def outcomes(main: Callable[..., Any], strategy: Exhaustive, most: int, **options: Any) -> tuple[set[str], int, bool]:
    """Run a program as a check does that prunes by what commands touch, too: outcomes, runs, and whether those are all.

    Where something comes up of which that cannot be told it begins anew without, as a check does.
    """
    found: set[str] = set()
    runs, commands = 0, strategy.prunes
    with Runner(main, (), EmulatorOptions(**options), 100_000) as runner:
        while runs < most:
            chooser = Recorder(strategy, commands=commands)
            ended = runner(chooser)
            chooser.over()
            runs += 1
            assert not isinstance(chooser.cut, Differs), chooser.cut
            if commands and chooser.footprint is not None and chooser.footprint.refused:
                commands = False
                found.clear()
                strategy.begin_anew()
                continue
            if chooser.cut is None:
                found.add(_outcome(ended))
            if not strategy.over():
                break
    return found, runs, strategy.exhausted


def sampled(main: Callable[..., Any], seeds: range, **options: Any) -> set[str]:
    """Return what comes of a program under random schedules."""
    with Runner(main, (), EmulatorOptions(**options), 100_000) as runner:
        return {_outcome(runner(Random(seed))) for seed in seeds}


def _outcome(ended: Ended) -> str:
    return repr(ended.result) if ended.failure is None else repr(ended.failure.signature)
