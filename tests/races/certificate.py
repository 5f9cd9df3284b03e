"""The mutation certificate: each synchronisation of the tree's programs taken out, and what notices that it is missing.

`python -m tests.races.certificate [PROGRAM ...] [--schedules N] [--proofs N]` prints a line for each mutant, for those
that another line makes redundant what comes of them under all schedules, and the table.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import gc
import io
import logging
import resource
import signal
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

import atops
from atops.base.choice import Chooser, Plain
from atops.checking.runner import Runner, classified
from atops.checking.search import Ended, Failure
from tests.races.programs import PROGRAMS, Program, Runnable
from tests.races.synchronisation import Mutant, mutants

__all__ = ("NOT_SEEN", "REDUNDANT", "Judge", "Verdict", "quiet", "quietly")

# Mutants that nothing can notice, because another line orders the same things: which one. By program and text.
REDUNDANT = {
    ("service_batcher", "async with self._turn:"): (
        "`_take` has no await, so that no two lanes can take one ticket: the lock is for full batches, not for order"
    ),
    ("service_kernels", "await stream"): "leaving the stream's block waits for its work",
    ("page_hand_over", "await working"): "leaving the stream's block waits for its work",
    ("virtual_time", "await left[-1]"): "the fetch behind it in the same stream is awaited",
    ("page_streams", "await slow"): "leaving the stream's block waits for its work",
    ("page_tracing", "await stream"): "leaving the stream's block waits for its work",
    ("page_tutorial", "await work.record()"): "the next fetch of the same stream is awaited",
    ("page_tutorial", "work.record()"): "the next fetch of the same stream is awaited",
    ("tops_banks_and_buffers", "check(tops.topsStreamSynchronize(stream))"): (
        "a copy into pageable memory is over when its call returns, and it is the stream's last"
    ),
    ("tops_run_an_onnx_model", "check(tops.topsStreamSynchronize(stream))"): (
        "a copy into pageable memory is over when its call returns, and it is the stream's last"
    ),
    ("hip_hand_off_by_a_word", "hip_check(hip.hipStreamSynchronize(adds))"): (
        "the other stream's last turn waits for the word that this one's last turn has written"
    ),
    (
        "hip_pool_reuse_between_streams",
        "hip_check(hip.hipStreamWaitValue32(owner, gate, 1, hip.hipStreamWaitValueEq))",
    ): ("it only keeps the owner busy: a pool gives memory again by order, whether or not the free is over"),
    ("hip_pool_reuse_between_streams", "hip_check(hip.hipStreamSynchronize(other))"): (
        "what is freed in the stream has no use behind it, and the end of its pool waits for the free"
    ),
    ("hip_streams_events_and_pools", "hip_check(hip.hipStreamSynchronize(consumer))"): (
        "a copy into pageable memory is over when its call returns; and the free's bytes are only printed"
    ),
    ("hip_streams_events_and_pools", "hip_check(hip.hipStreamSynchronize(producer))"): (
        "the consumer's copy waits for the word that the producer writes last, and is over when its call returns"
    ),
    (
        "hip_streams_events_and_pools",
        "hip_check(hip.hipStreamWaitValue32(consumer, word, 1, hip.hipStreamWaitValueEq))",
    ): "a copy from pageable memory is over when its call returns",
    ("hip_priorities", "hip_check(hip.hipStreamWaitValue32(stream, gate, 1, hip.hipStreamWaitValueEq))"): (
        "each launch has memory of its own stream's; it holds them back until the most urgent is enqueued, too"
    ),
    ("concurrency", "await stream.fetch(turned)"): "the stream's next fetch is awaited; what this one holds is unequal",
}
# And what no detector sees, as docs/races.md says.
NOT_SEEN = {
    ("tops_streams_and_events", "TOPS_CHECK(tops.topsStreamWriteValue32(d_emptied + 4 * slot, 0, 0))"): (
        "a wait for a value is no read of unwritten memory, and memory of a new board is zero"
    ),
}
STEPS = 1_000_000
PATIENCE = 6.0  # seconds of the processor for one run, of which none takes two
MEMORY = 8 << 30  # bytes: a host that spins fills what there is meanwhile


@dataclass(frozen=True)
class Verdict:
    """What notices that a synchronisation is missing ("" where nothing does), and what it says."""

    how: str
    said: str

    def __bool__(self) -> bool:
        return bool(self.how)


class Judge:
    """Judges the mutants of one program by what its run says that the program as it stands does not."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.mutants = list(mutants(program.text))
        self.known: set[tuple[object, ...]] = set()
        self.runner: _Runner  # of the latest run
        ended, races, _ = self.run(ast.parse(program.text), program.options)
        self.known = {race.key for race in races}  # where they are a page's or a notebook's subject
        self.broken = "" if ended.failure is None or _only_races(ended) else ended.failure.text

    def first_run(self, tree: ast.Module, strict: bool = False) -> Verdict:
        """Run once under the detectors, first come, first served, and return what is not known of the program."""
        options = replace(self.program.options, strict=True) if strict else self.program.options
        ended, races, warned = self.run(tree, options)
        mode = ", in strict mode" if strict else ""
        for race in races:
            if race.key not in self.known:
                return Verdict((race.kind if race.kind == "deadlock" else f"race: {race.kind}") + mode, str(race))
        if ended.failure is not None and not _only_races(ended):
            error, kind = ended.failure.error, ended.failure.kind
            if kind == "race" and error is not None:  # that of the subject; this comes on top of it
                kind = "assertion" if isinstance(error, AssertionError) else "exception"
            return Verdict(kind + mode, f"{type(error).__name__}: {ended.failure.text}")
        return Verdict("never awaited", warned) if warned else Verdict("", "")

    def run(
        self, tree: ast.Module, options: atops.EmulatorOptions, chooser: Chooser | None = None
    ) -> tuple[Ended, list[atops.Race], str]:
        """Run once. Return how it ended, what the detectors have found, and which coroutine was never awaited."""
        try:
            runnable = self.program.runnable(tree)
        except Exception as error:
            return Ended(failure=classified(error)), [], ""
        runner = self.runner = _Runner(runnable, (), options, STEPS)
        with warnings.catch_warnings(record=True) as caught, quietly():
            warnings.simplefilter("always")
            try:
                with runner, _no_longer_than(PATIENCE):
                    ended = runner(chooser or Plain())
            except KeyboardInterrupt:
                said = f"a host that spins: not over after {PATIENCE} s"
                return Ended(failure=Failure("never ends", said, TimeoutError())), [], ""
            gc.collect()
        said = (str(each.message).splitlines()[0] for each in caught)
        return ended, runner.found, next((text for text in said if "never awaited" in text), "")

    def judge(self, mutant: Mutant, schedules: int) -> Verdict:
        """Run once with the detectors, then under other schedules, with equal results."""
        verdict = self.first_run(mutant.tree)
        if not verdict and not self.program.ordered:
            return Verdict("", self.runner.in_order())
        if verdict or not schedules:
            return verdict
        if verdict := self.first_run(mutant.tree, strict=True):
            return verdict
        in_order = self.runner.in_order()
        runnable = self.program.runnable(mutant.tree)
        with warnings.catch_warnings(), quietly():
            warnings.simplefilter("ignore")
            report = atops.check(
                runnable, schedules, options=self.program.options, replays=0, steps=STEPS, same_result=True
            )  # fmt: skip
        if report.failure is not None:
            return Verdict(f"{report.failure.kind}, under other schedules", f"{report.failure.text}, run {report.runs}")
        return Verdict("", f"{in_order}; {report.verdict}: {report.why}")


    def proof(self, mutant: Mutant, schedules: int) -> str:
        """Say what comes of a mutant under all schedules that differ, as far as so many of them are all."""
        if not self.program.ordered:
            return "not proved: the program shows what depends on an order"
        made = self.program.few or self.program.made
        with warnings.catch_warnings(), quietly():
            warnings.simplefilter("ignore")
            report = atops.check(
                made(mutant.tree, f"{self.program.name}.py"), schedules, "dpor", options=self.program.options,
                replays=0, steps=STEPS, same_result=True,
            )  # fmt: skip
        if report.failure is not None:
            return f"refuted: {report.failure.kind}, {report.failure.text}"
        if report.verdict != "proved":
            return f"not proved: {report.classes:,} classes of schedules without a difference, and there are more"
        return f"proved: {report.why}"


def _only_races(ended: Ended) -> bool:
    """Whether nothing failed but that the detectors have reported something."""
    return ended.failure is not None and ended.failure.kind == "race" and ended.failure.error is None


class _Runner(Runner):
    """Keeps the races of a run as they are."""

    def __init__(self, program: Runnable, arguments: tuple[object, ...], options: atops.EmulatorOptions, steps: int):
        super().__init__(program, arguments, options, steps)
        self.found: list[atops.Race] = []
        self.reports: list[atops.Report] = []

    def in_order(self) -> str:
        """Say what the detectors make of the latest run; if it is "clean", all that they counted is in order."""
        told = dict.fromkeys(
            f"{each.verdict} ({', '.join(f'{count:,} {what}' for what, count in each.observed.items())})"
            for each in self.reports
        )
        return "the detectors: " + ", ".join(told)

    def _note_races(self, driver: atops.Driver) -> None:
        super()._note_races(driver)
        self.reports.append(report := driver.report())
        self.found += report.races

    def __call__(self, chooser: Chooser) -> Ended:
        self.found.clear()
        self.reports.clear()
        return super().__call__(chooser)


@contextlib.contextmanager
def _no_longer_than(seconds: float) -> Iterator[None]:
    """Interrupt, as Ctrl-C does, what takes longer: a host that spins without an await has no steps to count."""
    before = signal.signal(signal.SIGPROF, lambda *_: signal.raise_signal(signal.SIGINT))
    memory = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, memory[1]))
    signal.setitimer(signal.ITIMER_PROF, seconds, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        resource.setrlimit(resource.RLIMIT_DATA, memory)
        signal.signal(signal.SIGPROF, before)


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Keep what programs print, log and write into files to themselves."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with (
            contextlib.redirect_stdout(io.StringIO()),
            tempfile.TemporaryDirectory() as folder,
            contextlib.chdir(folder),
        ):
            yield
    finally:
        logging.disable(before)


def quiet(program: Program, schedules: int, seed: int = 0) -> atops.CheckReport:
    """Check a program as it stands, in its smaller form, under the detectors."""
    made = program.few or program.made
    with warnings.catch_warnings(), quietly():
        warnings.simplefilter("ignore")
        runnable = made(ast.parse(program.text), f"{program.name}.py")
        return atops.check(runnable, schedules, options=program.options, seed=seed, replays=0, steps=STEPS)


def main() -> int:
    """Judge all mutants of the programs that are named, or of all. Returns how many survive."""
    parser = argparse.ArgumentParser(prog="python -m tests.races.certificate", description=__doc__)
    parser.add_argument("programs", nargs="*")
    parser.add_argument("--schedules", type=int, default=50)
    parser.add_argument("--proofs", type=int, default=1_000, help="schedules for the proof of each redundant mutant")
    arguments = parser.parse_args()
    table: Counter[tuple[str, str]] = Counter()
    survivors = 0
    for name in arguments.programs or PROGRAMS:
        began, before = time.process_time(), table.total()
        judge = Judge(PROGRAMS[name])
        if judge.broken:
            print(f"{name}: as it stands: {judge.broken}", flush=True)
            continue
        for mutant in judge.mutants:
            verdict = judge.judge(mutant, arguments.schedules)
            how, said = verdict.how, verdict.said.partition("\n")[0]
            if not how and (reason := REDUNDANT.get((name, mutant.taken))):
                how, said = "redundant", f"{reason} ({said or 'nothing is reported'})"
            if not how and (reason := NOT_SEEN.get((name, mutant.taken))):
                how, said = "not seen", reason
            survivors += not how
            table[mutant.kind, how or "SURVIVES"] += 1
            print(f"{name}, {mutant}\n    {how or 'SURVIVES'}: {said}", flush=True)
            if how == "redundant" and arguments.proofs:
                print(f"    {judge.proof(mutant, arguments.proofs)}", flush=True)
        print(f"{name}: {table.total() - before} mutants in {time.process_time() - began:.1f} s", flush=True)
    for (kind, how), count in sorted(table.items()):
        print(f"{count:4}  {kind:40} {how}")
    print(f"{table.total()} mutants, {survivors} survive")
    return survivors


if __name__ == "__main__":
    sys.exit(main())
