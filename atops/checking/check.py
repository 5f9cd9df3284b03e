"""`atops.check`: a program under many schedules, until one fails."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, get_args

from atops.base.choice import Name
from atops.base.choice import told as spoken
from atops.base.errors import InvalidType, InvalidValue
from atops.base.options import EmulatorOptions, whole
from atops.base.waiting.current_loop import current_loop_adapter, running_loop_adapter
from atops.base.waiting.loop_adapter import LoopAdapter
from atops.base.waiting.parking_lot import Ending
from atops.checking import CLUSTERS
from atops.checking.check_report import CheckReport, ForcedChoice, ReportedRun
from atops.checking.runner import Program, Runner, Watching, failure_by
from atops.checking.search import Ended, Found, Progress, search
from atops.checking.shrink import Switches
from atops.checking.strategies.dpor import Dpor
from atops.checking.strategies.exhaustive import Exhaustive
from atops.checking.strategies.sampling import Pct, RandomRuns, Repeated
from atops.checking.strategies.strategy import Strategy
from atops.runtime.schedules.host import Backend

if TYPE_CHECKING:
    from distributed import Client

__all__ = ("MOST_STEPS", "Check", "Checking", "StrategyName", "check")

StrategyName: TypeAlias = Literal["random", "pct", "dpor", "exhaustive"]
MOST_STEPS = 100_000


class Check:
    """Run a program under many schedules: `atops.check(program)`, or `await atops.check.aio(program)` in a loop."""

    def __call__(
        self,
        program: Program,
        schedules: int = 500,
        strategy: StrategyName | str = "random",
        *,
        arguments: Sequence[object] = (),
        options: EmulatorOptions | None = None,
        seed: int = 0,
        switches: int = 2,
        steps: int = MOST_STEPS,
        same_result: bool = False,
        replays: int = 300,
        backend: Backend = "asyncio",
        progress: Progress | None = None,
        client: Client | None = None,
    ) -> CheckReport:
        """Run `program(*arguments)` under up to `schedules` schedules, and stop at the first that fails.

        The program is a coroutine function, which runs as in `atops.run`, or a plain one, whose blocking calls run the
        steps; each run has a board of its own, from `options`, and the virtual clock. With `backend="trio"` it runs in
        trio. It fails by what it raises, an
        assertion, a deadlock, a report of the detectors in strict mode; by StepLimit after `steps` steps; and where
        `same_result`, by returning something else than the first run did. The plain schedule, first come, first
        served, is the first. A failing schedule is made small by up to `replays` further runs. The runtime logs nothing
        of all these runs: the report says what was found.

        - "random": schedules of the seeds from `seed` on. A search that goes on behind one begins at its `seed` plus
          its `schedules`: the next seed alone brings one new schedule.
        - "pct": at most `switches` changes of priority at random places of each run (probabilistic concurrency
          testing): the better one for long runs and failures that need few switches.
        - "dpor": all schedules, but those that differ only in the order of steps known not to matter to each other.
        - "exhaustive": depth first through all of them, pruned less.
        - the string of a report's schedule: that one alone.

        `progress` is kept up to date while it runs, so that another thread can read it.

        With a `client` of Dask the schedules of "random" are run by the workers of its cluster, a batch of seeds after
        the other, and the failing one is made small here. The report is the same as without one. The other strategies
        learn from each run, and need one process.

        The same arguments give the same report in every process. Programs have to be the same in each run but for the
        schedule; one that is not is found inconclusive.

        Raises InvalidType for a program that cannot be called, or sent to workers; InvalidValue for other arguments
        that make no sense; NotSupported where a worker has other versions, ClusterError where the cluster is lost;
        RuntimeError inside a running loop: `await atops.check.aio(...)` there.
        """
        search = Checking(
            program, schedules, strategy, arguments, options, seed, switches, steps, same_result, replays, backend,
            progress, client)  # fmt: skip
        if running_loop_adapter() is not None:
            raise RuntimeError(f"check of {program!r} inside a running loop; write: await atops.check.aio(...)")
        return search.run()

    async def aio(
        self,
        program: Program,
        schedules: int = 500,
        strategy: StrategyName | str = "random",
        *,
        arguments: Sequence[object] = (),
        options: EmulatorOptions | None = None,
        seed: int = 0,
        switches: int = 2,
        steps: int = MOST_STEPS,
        same_result: bool = False,
        replays: int = 300,
        backend: Backend = "asyncio",
        progress: Progress | None = None,
        client: Client | None = None,
    ) -> CheckReport:
        """As a call, on a thread of its own: for asyncio and trio, and for notebooks.

        Cancelling it ends the search after the run that goes on. Raises what the call raises; RuntimeError where no
        loop runs.
        """
        search = Checking(
            program, schedules, strategy, arguments, options, seed, switches, steps, same_result, replays, backend,
            progress, client)  # fmt: skip
        adapter = current_loop_adapter()
        return await search.run_beside(adapter)

    def __repr__(self) -> str:
        return "<atops.check: call it with a program, or await atops.check.aio(program)>"


class Checking:
    """One check: its arguments, verified here, then the search and the report."""

    def __init__(
        self, program: Program, schedules: int, strategy: str, arguments: Sequence[object],
        options: EmulatorOptions | None, seed: int, switches: int, steps: int, same_result: bool, replays: int,
        backend: Backend = "asyncio", progress: Progress | None = None, client: Client | None = None,
    ) -> None:  # fmt: skip
        if not callable(program):
            raise InvalidType(f"check of {program!r}; expected a coroutine function or a plain one")
        if backend not in get_args(Backend):
            raise InvalidValue(f"backend is {backend!r}; expected 'asyncio' or 'trio'")
        if backend == "trio" and not asyncio.iscoroutinefunction(program):
            raise InvalidValue(f"backend='trio' runs a coroutine function; {program!r} says itself what runs it")
        _check_strategy(strategy, client)
        for name, value, least in (
            ("schedules", schedules, 1), ("switches", switches, 0), ("steps", steps, 1), ("replays", replays, 0),
        ):  # fmt: skip
            if not whole(value) or value < least:
                raise InvalidValue(f"{name} is {value!r}; expected a whole number, {least} or more")
        if not whole(seed):
            raise InvalidValue(f"seed is {seed!r}; expected a whole number")
        options = EmulatorOptions.from_environment() if options is None else options
        if not isinstance(options, EmulatorOptions):
            raise InvalidType(f"the options of check are {options!r}; expected EmulatorOptions")
        if options.workers != 1:
            raise InvalidValue(f"workers is {options.workers!r}; a check runs inline, in one thread: workers=1")
        if options.schedule is not None:
            raise InvalidValue("the options of check have a schedule; check tries many, and the seed says which")
        self.client = client
        self.name = _name(program)
        self.runner = Runner(program, tuple(arguments), options, steps, backend)
        self.schedules, self.seed = schedules, seed
        if strategy in get_args(StrategyName):
            self.strategy: Strategy = _strategy(strategy, seed, switches, options.strict)
        else:
            self.strategy, self.schedules, replays = Repeated(self.runner.recorded(strategy)), 1, 0
        self.same_result, self.replays = same_result, replays
        self.stopped = False
        self.progress = Progress() if progress is None else progress
        self.progress.asked = self.schedules

    def run(self) -> CheckReport:
        """Search, and report."""
        self.progress.stage = "searching"
        try:
            return self._searched()
        finally:
            self.progress.stage = "over"

    async def run_beside(self, adapter: LoopAdapter) -> CheckReport:
        """Search on a thread of its own, and wait for it in a loop."""
        over = Ending(f"the check of {self.name}")
        reports: list[CheckReport] = []
        errors: list[BaseException] = []

        def work() -> None:
            try:
                reports.append(self.run())
            except BaseException as error:
                errors.append(error)
            finally:
                over.end()

        threading.Thread(target=work, name="atops check", daemon=True).start()
        try:
            await adapter.park(over)
        finally:
            self.stopped = True
        if errors:
            raise errors[0]
        return reports[0]

    def _searched(self) -> CheckReport:
        if self.client is not None:
            found = CLUSTERS[0](self.client, self)
        else:
            with self.runner:
                found = self.searched(self.strategy, self.schedules)
        if found.verdict != "failed":
            return CheckReport(
                self.name, self.strategy.name, self.seed, self.schedules, found, escapes=tuple(self.runner.escapes)
            )
        with self.runner:
            return self._replayed(found)

    def searched(self, strategy: Strategy, schedules: int) -> Found:
        """Search through so many schedules of a strategy. Inside the runner's block."""
        return search(
            self.runner, strategy, schedules, same_result=self.same_result, replays=self.replays,
            stopped=self.is_stopped, progress=self.progress,
        )  # fmt: skip

    def is_stopped(self) -> bool:
        """Whether the search is to end after the run that goes on."""
        return self.stopped or self.progress.stopped

    def _replayed(self, found: Found) -> CheckReport:
        """Run the failing schedule once more, and note where everything stands."""
        shrunk = found.shrunk
        original = None
        if shrunk is not None and shrunk.names != found.names:
            original, _ = self._reported(found.names)
        told, ended = self._reported(found.names if shrunk is None else shrunk.names)
        races = self.runner.races
        if (failure := ended.failure) is not None:  # of the run that is told, and not of that which was found
            if failure.kind == "race" and races and found.failure is not None:
                first = found.failure.places[:1]
                races = tuple(sorted(races, key=lambda race: race.identity not in first))
                failure = failure_by(races, failure.error)
            found = replace(found, failure=failure)
            self.progress.failure = failure
        return CheckReport(
            self.name, self.strategy.name, self.seed, self.schedules, found, told.schedule, told.forced, told.names,
            told.places, tuple(map(str, races)), self.runner.plain, self.runner.backend, original,
            told.streams, tuple(self.runner.escapes),
        )  # fmt: skip

    def _reported(self, names: Sequence[Name]) -> tuple[ReportedRun, Ended]:
        """Run so that these come, and return where everything stands in that run, and how it ends."""
        again = Switches({}, names)
        watching = Watching(again)
        ended = self.runner(watching)
        forced = []
        for each in again.forced.values():
            here = watching.all_places[each.position]
            came, missed = here.get(each.name, ""), here.get(each.instead_of, "")
            forced.append(ForcedChoice(each.position, each.name, came, each.instead_of, missed))
        streams = tuple(f"{spoken(name)} is {label!r}" for name, label in watching.streams().items())
        run = ReportedRun(self.runner.string(), tuple(forced), tuple(watching.names), tuple(watching.places), streams)
        return run, ended


def _check_strategy(strategy: str, client: object) -> None:
    if strategy not in get_args(StrategyName) and not strategy.startswith("v"):
        raise InvalidValue(
            f"strategy is {strategy!r}; expected 'random', 'pct', 'dpor', 'exhaustive', or the string of a schedule"
        )
    if client is not None and strategy != "random":
        raise InvalidValue(f"strategy is {strategy!r}; with a client only 'random' is: the others learn from each run")


def _name(program: Program) -> str:
    inner = getattr(program, "func", program)  # of a partial
    return str(getattr(inner, "__name__", None) or repr(inner))


def _strategy(name: str, seed: int, switches: int, strict: bool) -> Strategy:
    made: dict[str, Callable[[], Strategy]] = {
        "random": lambda: RandomRuns(seed),
        "pct": lambda: Pct(seed, switches),
        "dpor": Dpor,
        "exhaustive": lambda: Exhaustive(twice=strict),
    }
    return made[name]()


check: Final = Check()
