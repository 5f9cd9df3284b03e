"""`atops.check` on programs: what it finds, what it says, and that the schedule it gives repeats the failure."""

from __future__ import annotations

import asyncio
import gc
import json
import statistics
import subprocess
import sys
import threading
from contextlib import suppress
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import atops
from atops import kernels as k
from atops import tops
from atops.base.errors import AtopsError, InvalidType, InvalidValue, NotSupported
from atops.base.options import EmulatorOptions
from atops.checking.search import Progress
from tests.checking.seeded_bugs import BUGS, update_lost_between_threads
from tests.every import every

ROOT = Path(__file__).resolve().parents[2]


async def race() -> int:
    """Two streams fill one word."""
    device = atops.Device(0)
    async with device.create_stream() as one, device.create_stream() as two:
        word = device.zeros(1, np.int32)
        one.fill(word, 1)
        two.fill(word, 2)
        await one
        await two
        return int((await one.fetch(word))[0])


async def ordered() -> int:
    """The same with an order."""
    device = atops.Device(0)
    async with device.create_stream() as one, device.create_stream() as two:
        word = device.zeros(1, np.int32)
        await one.fill(word, 1)
        await two.fill(word, 2)
        return int((await one.fetch(word))[0])


async def fails_on_one() -> None:
    """The race, with an opinion on it."""
    assert await race() == 2, "the first stream came last"


def plain() -> int:
    """The race, in blocking calls."""
    device = atops.Device(0)
    with device.create_stream() as one, device.create_stream() as two:
        word = device.zeros(1, np.int32)
        one.fill(word, 1)
        two.fill(word, 2)
        one.sync()
        two.sync()
        return int(one.fetch(word).result(None)[0])


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["random", "pct"])
def test_seeded_bugs_are_found_and_their_twins_pass(strategy):
    """Each of the table within 100 schedules, half of them within five; few forced choices; twins in 200 schedules."""
    needed, forced = [], []
    for name, bug in BUGS.items():
        report = atops.check(bug.wrong, 100, strategy)
        assert (name, report.verdict, report.failure and report.failure.kind) == (name, "failed", bug.kind)
        needed.append(report.runs)
        forced.append(len(report.forced))
        assert report.replays <= 300
        assert len(report.forced) == len(report.found.shrunk.forced)
    assert len(BUGS) >= 25
    assert statistics.median(needed) <= 5
    assert sum(each <= 10 for each in forced) >= 0.95 * len(forced)


@pytest.mark.parametrize("schedules", [
    pytest.param(40, marks=pytest.mark.slow), pytest.param(1000, marks=pytest.mark.soak),
])  # fmt: skip
@pytest.mark.parametrize("name", BUGS)
def test_twins_pass(name, schedules):
    """Under schedules of two strategies."""
    for strategy in ("random", "pct"):
        report = atops.check(BUGS[name].right, schedules, strategy)
        assert report.verdict in ("proved", f"explored {schedules}"), report
        report.raise_if_failed()


def test_runs_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    """The log has nothing of what a hundred runs would repeat; a run outside of a check logs as before."""
    options = atops.EmulatorOptions(detect=True)
    assert atops.check(race, schedules=3, options=options).verdict == "failed"
    assert not caplog.records
    atops.run(race, options)
    assert [record.name for record in caplog.records] == ["atops.races"]


async def one_of_three_fails() -> None:
    """Fail while others wait for a stream: the end of the run fails them, and their exceptions are not retrieved."""
    device = atops.Device(0)
    x, turns = device.zeros(4, np.int32), asyncio.Semaphore(2)

    async def job(number: int) -> None:
        async with turns, device.create_stream() as stream:
            stream.fill(x, number)
            assert (await stream.fetch(x))[0] == number

    await asyncio.gather(*map(job, range(3)))


def test_what_asyncio_says_of_tasks_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Of tasks whose exceptions were never retrieved, above all."""
    report = atops.check(one_of_three_fails, schedules=20)
    assert report.failure is not None and report.failure.kind == "assertion"
    gc.collect()
    assert not caplog.records


async def leaves_a_task() -> None:
    """Have a task fail, and never retrieve its exception."""

    async def fails() -> None:
        raise ValueError("which nothing asks for")

    await asyncio.wait([asyncio.create_task(fails())])


async def leaves_a_wait() -> None:
    """Return while a task waits for a stream, which the end of the run fails."""
    stream = atops.Device(0).create_stream()

    async def waits() -> None:
        await stream.wait_value(atops.Device(0).zeros(1, np.uint32), 1)

    task = asyncio.create_task(waits())
    await asyncio.sleep(0)
    assert not task.done()


async def fails_at_its_end() -> None:
    """Return while a task waits, which fails by itself when it is cancelled."""

    async def waits() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            raise ValueError("wrong in the end")

    task = asyncio.create_task(waits())
    await asyncio.sleep(0)
    assert not task.done()


async def leaves_a_callback() -> None:
    """Have a callback of the loop fail, too."""
    asyncio.get_running_loop().call_soon({}.pop, "missing")
    await leaves_a_task()


@pytest.mark.parametrize("strategy", ["random", "dpor"])
def test_what_a_callback_of_the_loop_raises_is_a_failure(strategy: str, caplog: pytest.LogCaptureFixture) -> None:
    """It is told nowhere else; nor is what a task has raised that nothing retrieves."""
    programs = (leaves_a_callback, "KeyError"), (leaves_a_task, "ValueError"), (fails_at_its_end, "ValueError")
    for program, error in programs:
        report = atops.check(program, 20, strategy=strategy)
        assert report.failure is not None and report.failure.kind == "exception"
        assert report.failure.text.startswith(error)
    assert atops.check(leaves_a_wait, 20, strategy=strategy)
    gc.collect()
    assert not caplog.records


def test_a_failing_schedule_repeats_the_failure():
    """Its string fails in `atops.run`, each time, and so do those of every seeded bug."""
    report = atops.check(fails_on_one)
    assert report.failure.kind == "assertion"
    for _ in range(3):
        with pytest.raises(AssertionError, match="the first stream came last"):
            atops.run(fails_on_one, atops.EmulatorOptions(schedule=report.schedule))


@pytest.mark.slow
def test_with_detectors_data_races_are_found_at_the_first_run():
    """Those on the device, by name, whatever order it had; twins are silent."""
    options, found = atops.EmulatorOptions(detect=True), []
    for bug in BUGS.values():
        report = atops.check(bug.wrong, 30, options=options)
        assert not report
        assert atops.check(bug.right, 15, options=options)
        if report.failure.kind == "race":
            found.append(report.runs)
            assert report.races
            assert "What nothing orders" in str(report)
    assert found == [1] * len(found)
    assert len(found) >= 14


@pytest.mark.slow
def test_schedules_of_all_seeded_bugs_repeat_them():
    """By `atops.run` alone."""
    for bug in BUGS.values():
        report = atops.check(bug.wrong, 100)
        with pytest.raises((AssertionError, AtopsError, IndexError)):
            atops.run(bug.wrong, atops.EmulatorOptions(schedule=report.schedule, clock="virtual"))


def test_threads_that_were_there_before_wake_nothing_of_a_run():
    """A notebook has some: a deadlock is one all the same."""
    over = threading.Event()
    other = threading.Thread(target=over.wait)
    other.start()
    try:
        report = atops.check(BUGS["full_stream_and_who_opens_it"].wrong, 5)
    finally:
        over.set()
        other.join()
    assert report.failure is not None and report.failure.kind == "deadlock", report


def test_a_schedule_that_was_not_made_small_is_printed_in_part():
    """Of thousands of forced choices the first are shown; all are in the report."""

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(3):
                group.create_task(turns())
        raise AssertionError

    async def turns() -> None:
        for _ in range(60):
            await asyncio.sleep(0)

    report = atops.check(main, replays=0)
    text, count = str(report), len(report.forced)
    assert count > 100
    assert text.count(" comes before ") == 50 and f"and {count - 50} more, in `report.forced`" in text


def test_what_is_reported():
    """The verdict, a sentence, the forced choices, a drawing, and where the nearest passing run is another one."""
    report = atops.check(fails_on_one)
    text = str(report)
    assert report.verdict == "failed"
    assert not report
    assert report.sentence.startswith("fails_on_one fails under")
    assert "AssertionError: the first stream came last" in report.sentence
    assert len(report.forced) <= 3
    assert "stream 2" in report.drawing
    assert report.drawing.count(">") == len(report.forced)
    for part in (report.sentence, "forced choice", report.schedule, report.drawing.splitlines()[0].strip(), "passes:"):
        assert part in text
    with pytest.raises(AssertionError, match="fails_on_one fails under") as raised:
        report.raise_if_failed()
    assert isinstance(raised.value.__cause__, AssertionError)
    assert report.schedule in report._repr_html_()
    assert "<script" not in report._repr_html_()
    read = json.loads(report.to_json())
    assert read["verdict"] == "failed"
    assert read["schedule"] == report.schedule
    assert len(read["forced"]) == len(report.forced)
    assert read["streams"] == list(report.streams)


@pytest.mark.slow
def test_what_passes():
    """Samples say how many; a program without choices, and one of which all schedules were run, are proved."""
    assert atops.check(ordered, 20).verdict == "explored 20"

    async def alone() -> int:
        return 3

    report = atops.check(alone)
    assert report.verdict == "proved"
    assert report
    assert report.failure is report.schedule is None
    report.raise_if_failed()
    assert "proved" in str(report)


@pytest.mark.slow
def test_results_are_compared_where_asked():
    """Two unordered fills leave one or the other."""
    assert atops.check(race, 50)
    report = atops.check(race, 50, same_result=True)
    assert report.failure.kind == "different results"
    assert atops.check(ordered, 20, same_result=True)


def test_exhaustive_and_dpor_find_it_too():
    """Depth first."""
    for strategy in ("exhaustive", "dpor"):
        assert atops.check(fails_on_one, 500, strategy).verdict == "failed"


def test_two_tasks_are_proved():
    """All orders of the steps of two tasks; one of them loses an update, with its twin."""

    async def add(total: list[int], lock: asyncio.Lock | None) -> None:
        if lock is not None:
            await lock.acquire()
        value = total[0]
        await asyncio.sleep(0)
        total[0] = value + 1
        if lock is not None:
            lock.release()

    async def both(locked: bool) -> None:
        total, lock = [0], asyncio.Lock() if locked else None
        await asyncio.gather(add(total, lock), add(total, lock))
        assert total[0] == 2

    for strategy in ("exhaustive", "dpor"):
        assert atops.check(both, 1000, strategy, arguments=(False,)).verdict == "failed"
        report = atops.check(both, 1000, strategy, arguments=(True,))
        assert report.verdict == "proved", report
        assert report.classes > 1


def test_a_plain_function_is_checked_by_its_blocking_calls():
    """And by what it gives to `asyncio.run` and `atops.run`; its schedule is repeated by check."""

    def by_asyncio() -> int:
        return asyncio.run(race())

    def by_run() -> int:
        return atops.run(race, atops.EmulatorOptions(devices=2))

    for program in (plain, by_asyncio, by_run):
        report = atops.check(program, 100, same_result=True)
        assert (report.program, report.verdict) == (program.__name__, "failed")
    report = atops.check(plain, 100, same_result=True)
    assert "atops.check(plain, strategy=" in str(report)
    assert atops.check(plain, strategy=report.schedule).verdict == "explored 1"


def test_a_schedule_of_another_program_is_refused():
    """And so is a string that was cut."""
    schedule = atops.check(fails_on_one).schedule
    with pytest.raises(InvalidValue, match="another program"):
        atops.check(ordered, strategy=schedule)
    with pytest.raises(InvalidValue, match=r"checksum|cut"):
        atops.check(fails_on_one, strategy=schedule[:-2])
    again = atops.check(fails_on_one, strategy=schedule)
    assert again.verdict == "failed" and " fails under the given schedule: " in again.sentence


def test_endless_programs_reach_the_step_limit():
    """A task that polls for ever is a failure, and the limit is said."""

    async def endless() -> None:
        while True:  # noqa: ASYNC110 - it polls
            await asyncio.sleep(0)

    report = atops.check(endless, 5, steps=500, replays=3)
    assert report.failure.kind == "step limit"


def polls_a_completion() -> None:
    """Ask for ever whether a wait is over that nothing ends."""
    device = atops.Device(0)
    waiting = device.create_stream().wait_value(device.zeros(1, np.uint32), 1)
    while not waiting.done():
        pass


def polls_in_c_style() -> None:
    """The same by codes, of which none says that the run is at its end."""
    stream = tops.topsStreamCreate()[1]
    word = tops.topsMalloc(4)[1]
    tops.topsStreamWaitValue32Async(word, 1, tops.topsStreamWaitValueGte, stream)
    while tops.topsStreamQuery(stream)[0] != tops.topsSuccess:
        pass


def takes_no_notice() -> None:
    """Catch what ends the run."""
    with suppress(atops.errors.StepLimit):
        polls_a_completion()


@pytest.mark.slow
@every("program", [polls_a_completion, polls_in_c_style, takes_no_notice])
def test_polling_reaches_the_step_limit(program):
    """Though it awaits nothing, and nothing is left to run."""
    report = atops.check(program, 5, steps=3_000, replays=0)
    assert report.failure.kind == "step limit"
    assert "asks again and again whether something is over" in report.failure.text


@k.kernel
async def one_leaves(x) -> None:
    """Have one thread of two come to the barrier."""
    if k.threadIdx.x:
        await k.syncthreads()


@k.kernel
async def one_stays_for_ever(x) -> None:
    """The same, and that one takes notice of nothing."""
    while k.threadIdx.x:
        with suppress(BaseException):
            await k.syncthreads()


@pytest.mark.slow
@every("detect", [False, True])
def test_a_failure_that_was_never_looked_at_is_one(detect):
    """A launch deadlocks; who awaits it and catches that has handled it, with the detectors on, too."""

    async def launched(awaits: bool, kernel: k.Kernel = one_leaves) -> None:
        async with atops.Device(0).create_stream() as stream:
            launch = stream.launch(kernel, (1, 2), stream.zeros(1, np.int32))
            if awaits:
                with suppress(atops.errors.KernelDeadlock):
                    await launch

    def checked(*arguments: object) -> atops.CheckReport:
        return atops.check(launched, 5, arguments=arguments, options=EmulatorOptions(detect=detect), replays=0)

    assert checked(True)
    assert checked(False).failure.kind == "deadlock"
    assert checked(True, one_stays_for_ever)


@pytest.mark.parametrize("then", ["", "raise ValueError('garbage')"])
def test_a_missing_await_is_told_before_the_races_that_come_of_it(then: str) -> None:
    """The barrier that was not awaited, not what was read too early; nor the copy that was skipped for it."""

    @k.kernel
    async def body(out):
        page = k.shared(4, np.int32)
        page[k.threadIdx.x] = 1
        k.syncthreads()
        out[k.threadIdx.x] = page[3 - k.threadIdx.x]
        if then:
            raise ValueError("garbage")

    async def program() -> None:
        async with atops.Device(0).create_stream() as stream:
            out = stream.zeros(4, np.int32)
            stream.launch(body, (1, 4), out)
            await stream.fetch(out)

    report = atops.check(program, 3, options=EmulatorOptions(detect=True))
    assert report.failure is not None and report.failure.kind == "exception" and report.races
    assert report.failure.text.startswith("MissingAwait: thread (0,0,0) of block (0,0,0) of kernel body")
    assert "asked for syncthreads at test_check.py:" in report.failure.text
    assert ("raised ValueError: garbage" in report.failure.text) == bool(then)


def test_arguments_are_looked_at_first():
    """Each message has the value and what it may be."""
    for arguments, error, text in (
        ((3,), InvalidType, "expected a coroutine function"),
        ((race, 0), InvalidValue, "schedules is 0"),
        ((race, 2.5), InvalidValue, "schedules is 2.5"),
        ((race, 5, "bfs"), InvalidValue, "strategy is 'bfs'.*'dpor'"),
    ):
        with pytest.raises(error, match=text):
            atops.check(*arguments)
    for named, text in (
        ({"seed": "a"}, "seed is 'a'"),
        ({"replays": -1}, "replays is -1"),
        ({"steps": 0}, "steps is 0"),
        ({"options": atops.EmulatorOptions(workers=2)}, "workers is 2"),
        ({"options": atops.EmulatorOptions(schedule="plain")}, "have a schedule"),
    ):
        with pytest.raises(InvalidValue, match=text):
            atops.check(race, 5, **named)


def test_in_a_running_loop_it_is_awaited():
    """A call there says how; awaiting it leaves the loop free, and cancelling ends it."""

    async def main() -> None:
        with pytest.raises(RuntimeError, match=r"await atops\.check\.aio"):
            atops.check(race)
        turns = []

        async def tick() -> None:
            while True:
                turns.append(1)
                await asyncio.sleep(0.001)

        ticking = asyncio.create_task(tick())
        report = await atops.check.aio(fails_on_one)
        assert report.verdict == "failed"
        assert turns
        checking = asyncio.create_task(atops.check.aio(ordered, 10**6))
        await asyncio.sleep(0.02)
        checking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await checking
        ticking.cancel()

    asyncio.run(main())


def test_trio_awaits_it_too():
    """The same call."""
    trio = pytest.importorskip("trio")

    async def main() -> None:
        assert (await atops.check.aio(fails_on_one)).verdict == "failed"

    trio.run(main)


def test_a_missing_trio_is_named(monkeypatch):
    """What is to be installed is said, as `atops.run` says it."""
    monkeypatch.setitem(sys.modules, "trio", None)
    with pytest.raises(NotSupported, match=r"pip install 'atops\[trio\]'"):
        atops.check(ordered, 1, backend="trio")


@pytest.mark.slow
def test_reports_are_the_same_in_every_process():
    """Same seeds, same answer, with other hash seeds."""
    text = (
        "import atops; from functools import partial; from tests.checking.seeded_bugs import BUGS;"
        "names = 'broken_lock', 'locks_in_two_orders', 'stores_of_two_streams';"
        "print([atops.check(BUGS[name].wrong, 50, strategy).to_json()"
        " for name in names for strategy in ('random', 'pct', 'dpor')])"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", text], env={"PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}, cwd=ROOT, text=True,
            capture_output=True, check=True,
        ).stdout
        for seed in ("1", "2")
    ]  # fmt: skip
    assert runs[0] == runs[1]
    assert "failed" in runs[0]


@k.kernel
def stores_unseen(x):
    """Store by a plain array, which the detectors do not see."""
    np.asarray(x)[0] = 1


async def launches_unseen():
    """Launch it."""
    async with atops.Device(0).create_stream() as stream:
        await stream.launch(stores_unseen, (1, 1), stream.zeros(1, np.int32))


def test_what_the_detectors_did_not_see_is_said_of_a_pass():
    """As `atops.report()` says of one run: a pass is no word about the races of these accesses."""
    report = atops.check(launches_unseen, 2, options=EmulatorOptions(detect=True))
    assert report
    assert report.escapes[0].startswith("np.asarray of a span at test_check.py:")
    assert f"Not seen by the detectors:\n  {report.escapes[0]}\n" in str(report)
    assert json.loads(report.to_json())["escapes"] == list(report.escapes)


@k.kernel
async def counts(signal: np.int32, how: np.int32):
    """Count the threads in a signal: by two steps, by one, or one thread after the other."""
    if how == 0:
        k.signal_write(signal, int(k.signal_read(signal)) + 1)
    elif how == 1:
        k.signal_add(signal)
    else:
        await k.signal_wait(signal, k.threadIdx.x, "eq")
        k.signal_write(signal, k.threadIdx.x + 1)


async def counted(how: int) -> None:
    """Launch it with two threads."""
    device = atops.Device(0)
    signal = device.signals.allocate()
    async with device.create_stream() as stream:
        await stream.launch(counts, (1, 2), signal, how)
    assert device.signals.read(signal) == 2


def test_a_signal_that_threads_read_and_then_overwrite_is_not_proved():
    """No schedule has another thread between the two, so that none fails; an atomic step and a hand-over are proved."""
    report = atops.check(counted, strategy="dpor", arguments=(0,))
    assert report.verdict == f"explored {report.runs}"
    assert "threads read signal 0 and then overwrite it, at test_check.py:" in str(report)
    assert "k.signal_add is one step" in report.why
    for how in (1, 2):
        assert atops.check(counted, strategy="dpor", arguments=(how,)).verdict == "proved"


def test_a_partial_keeps_its_name():
    """The report names the function."""
    assert atops.check(partial(update_lost_between_threads, False), 5).program == "update_lost_between_threads"


@every(
    "options",
    [atops.EmulatorOptions(devices=2), atops.EmulatorOptions(strict=True), atops.EmulatorOptions(arch="gcu210")],
)
def test_options_are_those_of_the_boards(options):
    """All but the clock, which is virtual, and the schedule."""
    seen = []

    async def main() -> None:
        driver = atops.current_driver()
        seen.append((driver.options.devices, driver.options.strict, driver.options.arch, driver.options.clock))

    atops.check(main, 3, options=options)
    assert set(seen) == {(options.devices, options.strict, options.arch, "virtual")}


def test_progress_is_told_while_it_runs() -> None:
    """Runs, choices by kind and replays are counted; who reads it can end the check."""
    progress = Progress()
    report = atops.check(fails_on_one, progress=progress)
    assert (progress.stage, progress.runs, progress.replays) == ("over", report.runs, report.replays)
    assert progress.failure == report.failure and progress.asked == 500
    assert progress.kinds["stream"] >= 2 * report.runs and progress.choices == report.found.choices
    ended = Progress(stopped=True)
    assert atops.check(ordered, progress=ended).verdict == "inconclusive" and ended.runs == 0


def test_the_run_before_shrinking_is_kept() -> None:
    """Where the failing schedule was made smaller, the report has the run that was found, with its own string."""
    report = atops.check(update_lost_between_threads, arguments=(False,), seed=3)
    assert report.failure is not None and report.original is not None
    assert len(report.original.forced) >= len(report.forced) and report.original.names == report.found.names
    again = atops.check(update_lost_between_threads, strategy=report.original.schedule, arguments=(False,))
    assert again.failure is not None and again.failure.signature == report.failure.signature


@k.kernel
async def collide(x: k.Span[np.int32]) -> None:
    """Have all threads count in the same bytes."""
    counts, me = k.shared(4, np.int32), k.threadIdx.x
    counts[:] = 0
    await k.syncthreads()
    counts[x[me]] += 1
    await k.syncthreads()
    x[me] = counts[me % 4]


async def collisions() -> None:
    """Launch it."""
    async with atops.Device(0).create_stream() as stream:
        stream.launch(collide, (1, 12), stream.upload(np.arange(12, dtype=np.int32) % 4))


def test_what_is_said_of_a_failure_is_that_of_the_run_that_is_shown() -> None:
    """Not of the run that was found: made small, it may bring together other threads, at other bytes."""
    for strategy in ("random", "pct"):
        report = atops.check(collisions, 5, strategy, options=atops.EmulatorOptions(detect=True))
        assert report.failure is not None
        assert report.failure.text == report.races[0].partition("\n")[0]
        again = atops.check(collisions, strategy=report.schedule, options=atops.EmulatorOptions(detect=True))
        assert again.failure is not None and again.failure.text == report.failure.text


@k.kernel
def lose(x: k.Span[np.int32]) -> None:
    """Add to a number without any order."""
    x[0] = x[0] + 1


async def lose_an_update() -> None:
    """Find, with the detectors, that nothing orders the updates."""
    async with atops.Device(0).create_stream() as stream:
        x = stream.zeros(1, np.int32)
        stream.launch(lose, (1, 2), x)
        assert (await stream.fetch(x))[0] == 2


def test_a_process_that_has_checked_before_gives_the_same_report() -> None:
    """To the letter: the numbers of allocations in it, too; outside of checks no number comes twice."""
    seen = EmulatorOptions(detect=True)
    first, second = (str(atops.check(lose_an_update, 20, options=seen)) for _ in range(2))
    assert first == second and "Allocation #1" in first
    serials = [atops.Device(0).allocate(4).allocation.serial for _ in range(2)]
    assert serials[0] < serials[1]


async def two_races() -> None:
    """Fill one row by two streams where one order of the tasks comes, and another row where another one does."""
    device, order = atops.Device(0), list[str]()
    async with device.create_stream() as one, device.create_stream() as two:
        x, y = device.zeros(4, np.int32), device.zeros(4, np.int32)

        async def task(*names: str) -> None:
            for name in names:
                order.append(name)
                await asyncio.sleep(0)

        await asyncio.gather(task("a", "b", "c"), task("d", "e"))
        if order.index("e") < order.index("b"):
            one.fill(x, 1)
            two.fill(x, 2)
        elif order.index("d") > order.index("c"):
            one.fill(y, 1)
            two.fill(y, 2)


def test_a_race_does_not_become_another_one_as_it_is_made_small() -> None:
    """Without forced choices there is another race: the one that was found needs one."""
    report = atops.check(two_races, options=EmulatorOptions(detect=True), seed=0)
    assert report.failure is not None and len(report.forced) == 1 and len(report.races) == 1
    assert report.found.failure is not None and "#1" in report.failure.text and "#1" in report.races[0]
