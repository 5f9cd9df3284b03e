"""A program one choice at a time, on a thread of its own: what asks for more does not wait for its runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextvars import copy_context
from typing import Any, Final, Literal, TypeAlias, get_args

from atops.base.choice import Chooser, Name, Plain, Random
from atops.base.errors import AtopsError, InvalidValue
from atops.base.locks import fork_safe
from atops.checking.check import Checking
from atops.checking.check_report import CheckReport
from atops.checking.search import Progress
from atops.checking.shrink import Switches
from atops.checking.stepper import Peek, Pick, Stepper
from atops.lessons.apart import raise_in
from atops_widgets.scheduler.told import Trail

__all__ = ("RUNS", "Player", "Policy")

Policy: TypeAlias = Literal["first come", "same", "random"]
RUNS: Final = fork_safe(threading.RLock())  # one run of all players and checks of widgets at a time
PEEK_S: Final = 1.5  # how long it looks ahead at one place
TICK_S: Final = 0.1  # between two reports of a check


class Player:
    """Runs a Stepper on a thread; `changed()` is called there after each request, and `searched` while it checks.

    Requests are done in order, but of several places to go to only the last. The thread ends when nothing is to do.
    """

    def __init__(self, program: Any, options: Mapping[str, Any], changed: Callable[[], None]) -> None:
        """Take a program as of `atops.check`, with options of a Stepper. Raises as that."""
        given = {"arguments": (), "options": None, "steps": 100_000, "backend": "asyncio", **options}
        checking = Checking(program, 1, "random", given["arguments"], given["options"], 0, 2, given["steps"], False, 0,
                            given["backend"])  # fmt: skip
        self.name = checking.name
        self.program, self.given = program, given
        self.stepper: Stepper | None = None
        self.peeks: dict[int, Peek] = {}
        self.trail: tuple[Name, ...] = ()  # the picks that are known, of which the first so many were made
        self.told = Trail()  # of all of them
        self.error = ""
        self.closed = False
        self.progress: Progress | None = None
        self.report: CheckReport | None = None
        self._began = self._ended = 0.0  # of the last check
        self._changed = changed
        self._lock = fork_safe(threading.Lock())
        self._requests: list[tuple[str, Callable[[], object], threading.Event]] = []
        self._thread: threading.Thread | None = None
        self._running: threading.Event | None = None  # of the request that is being done
        self._raised: BaseException | None = None

    # ---- requests: from any thread

    def ask(self, kind: str, act: Callable[[], object]) -> threading.Event:
        """Have something done on the thread, soon; the event says when. One "go" that still waits is left out."""
        over = threading.Event()
        with self._lock:
            if kind == "go" and self._requests and self._requests[-1][0] == "go":
                self._requests.pop()[2].set()
            self._requests.append((kind, act, over))
            if self._thread is None:
                target = copy_context().run
                self._thread = threading.Thread(target=target, args=(self._work,), name="atops scheduler", daemon=True)
                self._thread.start()
        return over

    def do(self, act: Callable[[], object]) -> None:
        """Do something on the thread, and wait for it; there, as an observer of a widget's, do it at once.

        Raises what it raises. Ctrl-C ends what is done, too: a program may compute for ever.
        """
        if threading.current_thread() is self._thread:
            act()
            self._changed()
            return
        errors: list[BaseException] = []

        def guarded() -> None:
            try:
                act()
            except BaseException as error:
                errors.append(error)

        over = None
        try:
            over = self.ask("do", guarded)
            over.wait()
        except KeyboardInterrupt:
            with self._lock:
                self._requests = [each for each in self._requests if each[2] is not over]
                if self._running is over and self._thread is not None:
                    raise_in(self._thread.ident or 0, KeyboardInterrupt)
            raise
        if errors:
            raise errors[0]

    @property
    def busy(self) -> bool:
        """Whether requests are left."""
        with self._lock:
            return bool(self._requests)

    def _work(self) -> None:
        while True:
            try:
                if not self._do_next():
                    return
            except KeyboardInterrupt:
                self._settle()

    def _do_next(self) -> bool:
        """Do what is asked for next. Returns False where that is nothing, and the thread ends."""
        with self._lock:
            if not self._requests:
                self._thread = None
                return False
            _, act, self._running = self._requests.pop(0)
        try:
            with RUNS:
                self.error = ""
                try:
                    act()
                except Exception as error:  # a schedule of another program, say; pages are told
                    self.error = str(error) if isinstance(error, AtopsError) else repr(error)
            self._changed()
        finally:
            self._settle()
        if not self.busy:
            with RUNS:
                self._look_ahead()
        return True

    def _settle(self) -> None:
        """Say that what ran is over. Done again where the Ctrl-C for it came in the middle of this."""
        with self._lock:
            over, self._running = self._running, None
        if over is not None:
            over.set()

    # ---- what is done there

    def begin(self) -> Stepper:
        """Return the stepper, made when first needed."""
        if self.stepper is None:
            self.stepper = Stepper(self.program, looks=True, **self.given)
            self._arrived()
        return self.stepper

    def pick(self, choice: Pick) -> None:
        """Have this come next. Raises as `Stepper.pick`."""
        stepper = self.begin()
        stepper.pick(choice)
        self._arrived()

    def go(self, position: int) -> None:
        """Go to a place of the trail: behind so many picks, or at its end."""
        stepper = self.begin()
        picks = self.trail[: max(0, min(position, len(self.trail)))]
        if picks != stepper.picks or self.error:
            stepper.go(picks)
            self._arrived()

    def finish(self, policy: str = "first come", seed: int = 0) -> None:
        """Run on to the end: first come, first served; going on with the same as long as it can; or at random."""
        if policy not in get_args(Policy):
            raise InvalidValue(f"policy is {policy!r}; expected 'first come', 'same' or 'random'")
        choosers: dict[str, Chooser] = {"first come": Plain(), "same": Switches({}), "random": Random(seed)}
        stepper = self.begin()
        if stepper.choices():
            stepper.finish(choosers[policy])
            self._end()

    def load(self, schedule: str) -> None:
        """Go to the end of a recorded run. Raises InvalidValue for a string that is none of this program's."""
        self.begin().load(schedule.strip())
        self._end()

    def checking(self, schedules: int = 500, strategy: str = "random", **more: Any) -> Checking:
        """Return a check of the program, with `progress` of its own. Raises as `atops.check`."""
        settings = {"seed": 0, "switches": 2, "same_result": False, "replays": 300, **more}
        given = self.given
        progress = Progress()
        checking = Checking(
            self.program, schedules, strategy, given["arguments"], given["options"], settings["seed"],
            settings["switches"], given["steps"], settings["same_result"], settings["replays"], given["backend"],
            progress,
        )  # fmt: skip
        self.report, self.progress, self._began, self._ended = None, progress, time.monotonic(), 0.0
        return checking

    def search(self, checking: Checking) -> None:
        """Check the program until a schedule fails, and go to the end of that one."""
        ticking = threading.Event()
        ticker = threading.Thread(target=self._tick, args=(ticking,), name="atops progress", daemon=True)
        ticker.start()
        try:
            self.report = checking.run()
        finally:
            ticking.set()
            ticker.join()
            self._ended = time.monotonic()
        if self.report.schedule is not None and self.report.failure is not None:
            self.load(self.report.schedule)

    def _tick(self, over: threading.Event) -> None:
        while not over.wait(TICK_S):
            self._changed()

    def cancel(self) -> None:
        """End a check after the run that goes on. From any thread."""
        if self.progress is not None:
            self.progress.stopped = True

    def close(self) -> None:
        """End a check, and looking ahead for pages, after the run that goes on. From any thread."""
        self.closed = True
        self.cancel()

    @property
    def seconds(self) -> float:
        """How long the last check has taken, or takes up to now."""
        return (self._ended or time.monotonic()) - self._began

    @property
    def searching(self) -> bool:
        """Whether a check goes on."""
        return self.progress is not None and self.progress.stage in ("searching", "shrinking")

    def _end(self) -> None:
        """Look at the end of the run, which is known only now."""
        stepper = self.begin()
        picks = stepper.picks
        stepper.go(picks)
        self.trail = ()
        self._arrived()

    def _arrived(self) -> None:
        """Keep what is known of the run behind the place where it stands, if it still may come so."""
        stepper = self.begin()
        self.peeks = {}
        picks = stepper.picks
        if self.trail[: len(picks)] != picks or not self.told.names:
            self.trail = picks
        if len(self.trail) == len(picks):
            self.told = Trail(stepper.names, stepper.places, stepper.picked, stepper.look.streams)

    def _look_ahead(self) -> None:
        """Find what each choice would do, as long as nothing else is asked for."""
        stepper = self.stepper
        if stepper is None:
            return
        began = told = time.monotonic()
        for at in range(len(stepper.choices())):
            if self.closed or self.busy or time.monotonic() - began > PEEK_S:
                break
            try:
                self.peeks[at] = stepper.peek(at)
            except Exception as error:  # it is not the same twice, say
                self.error = str(error) if isinstance(error, AtopsError) else repr(error)
                break
            if time.monotonic() - told > TICK_S:
                self._changed()
                told = time.monotonic()
        self._changed()
