"""Random kernels: the bytes that the detectors name are those that race by definition, over all pairs of accesses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from atops import kernels as k
from atops.device.races import bulk
from tests.kernel_bench import Bench, benches

pytestmark = pytest.mark.slow

BLOCKS, THREADS, SIZE, SIGNALS = 2, 2, 16, 6
ALL = BLOCKS * THREADS
HEAD = """\
@k.cooperative
async def f(x: k.Span) -> None:
    me = k.blockIdx.x * 2 + k.threadIdx.x
    s = k.shared(16, "uint8")
    l = k.local(16, "uint8")
    l[:] = 0
    if k.threadIdx.x == 0:
        s[:] = 0
    c0, c1 = k.tops_dte_ctx_t(), k.tops_dte_ctx_t()
    c0.init()
    c1.init()
    await k.syncblocks()
"""
THREAD, MEMORY = st.integers(0, ALL - 1), st.sampled_from("xsl")
PART = st.tuples(st.integers(0, SIZE - 4), st.integers(1, 4))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["load", "store"]), THREAD, MEMORY, PART),
        st.tuples(st.sampled_from(["element", "chosen"]), THREAD, MEMORY, PART),
        st.tuples(st.sampled_from(["copy", "window"]), THREAD, st.permutations("xsl"), PART),
        st.tuples(st.sampled_from(["wait", "signal", "await"]), THREAD, st.integers(0, SIGNALS - 1), PART),
        st.tuples(st.sampled_from(["syncthreads", "syncblocks"]), THREAD, MEMORY, PART),
    ),
    max_size=24,
)  # fmt: skip


@dataclass
class Used:
    """What one end of an access uses: bytes of a memory, from one moment of its thread to another."""

    line: int
    thread: int
    write: bool
    memory: str
    bytes: set[int]
    begin: list[int]
    end: list[int]

    def before(self, other: Used) -> bool:
        """Tell whether this is over before the other begins."""
        return other.begin[self.thread] >= self.end[self.thread]


@dataclass
class Program:
    """A kernel as text, and what it uses. Each thread's moments are counted; a clock has those that it has seen."""

    text: str = HEAD
    used: list[Used] = field(default_factory=list)
    clocks: list[list[int]] = field(default_factory=lambda: [[0] * ALL for _ in range(ALL)])
    flying: list[list[tuple[int, list[Used]]]] = field(default_factory=lambda: [[] for _ in range(ALL)])
    signalled: dict[int, list[int]] = field(default_factory=dict)

    def add(self, what: str, thread: int, where: Any, part: tuple[int, int]) -> None:
        """Add a step that the steps before allow."""
        start, size = part
        stop = start + size
        if what == "load":
            self._write(thread, f"sink = {where}[{start}:{stop}] + 1")
            self._use(thread, False, where, range(start, stop))
        elif what == "store":
            line = self._write(thread, f"{where}[{start}:{stop}] = {self._next_line() % 251}")
            assert line < 251, "no two stores have one value"
            self._use(thread, True, where, range(start, stop))
        elif what == "element":
            self._write(thread, f"{where}[{start}] += {self._next_line() % 251}")
            self._use(thread, False, where, [start])
            self._use(thread, True, where, [start])
        elif what == "chosen":
            self._write(thread, f"sink = {where}[[{start}, {stop}]]" if stop < SIZE else "pass")
            self._use(thread, False, where, [start, stop] if stop < SIZE else [])
        elif what in ("copy", "window"):
            self._issue(what, thread, where, start, size)
        elif what == "wait" and self.flying[thread]:
            self._wait(thread)
        elif what == "signal" and where not in self.signalled:
            self._write(thread, f"k.signal_write({where}, 1)")
            self.signalled[where] = self._moment(thread)
        elif what == "await" and where in self.signalled:
            self._write(thread, f"await k.signal_wait({where}, 1)")
            self._learn([thread], [self.signalled[where]])
        elif what.startswith("sync"):
            self.text += f"    await k.{what}()\n"
            for first in range(0, ALL, THREADS) if what == "syncthreads" else [0]:
                those = range(first, first + (THREADS if what == "syncthreads" else ALL))
                self._learn(those, [self._moment(each) for each in those])

    def _issue(self, what: str, thread: int, where: Any, start: int, size: int) -> None:
        busy = {context for context, _ in self.flying[thread]}
        if len(busy) == 2:
            return
        context, into, out = min({0, 1} - busy), where[0], where[1]
        if what == "copy":
            call = f"memcpy_async(c{context}, {into}[{start}:{start + size}], {out}[{SIZE - size}:{SIZE}])"
            written, read = set(range(start, start + size)), range(SIZE - size, SIZE)
        else:  # two by two of four by four
            row, column = start // 4 % 3, start % 3
            parts = f"{into}.reshape(4, 4), {out}[4:8].reshape(2, 2), ({row}, {column})"
            call, read = f"deslice_async(c{context}, {parts})", range(4, 8)
            written = {4 * (row + i) + column + j for i in range(2) for j in range(2)}
        self._write(thread, f"e{context} = k.{call}")
        moment = self._moment(thread)
        ends = [self._use(thread, False, out, read, moment), self._use(thread, True, into, written, moment)]
        self.flying[thread].append((context, ends))

    def _wait(self, thread: int) -> None:
        context, ends = self.flying[thread].pop(0)
        self._write(thread, f"await e{context}")
        moment = self._moment(thread)
        for each in ends:
            each.end = moment

    def _use(self, thread: int, write: bool, where: str, places: Any, moment: list[int] | None = None) -> Used:
        memory = {"x": "x", "s": f"s of {thread // THREADS}", "l": f"l of {thread}"}[where]
        moment = self._moment(thread) if moment is None else moment
        self.used.append(Used(self.text.count("\n"), thread, write, memory, set(places), moment, moment))
        return self.used[-1]

    def _moment(self, thread: int) -> list[int]:
        self.clocks[thread][thread] += 1
        return list(self.clocks[thread])

    def _learn(self, threads: Any, clocks: list[list[int]]) -> None:
        for thread in threads:
            self.clocks[thread] = [max(times) for times in zip(self.clocks[thread], *clocks, strict=True)]

    def _next_line(self) -> int:
        """Return the line that the next operation stands in, below its `if`."""
        return self.text.count("\n") + 2

    def _write(self, thread: int, operation: str) -> int:
        self.text += f"    if me == {thread}:\n        {operation}\n"
        return self.text.count("\n")

    def end(self) -> None:
        """Wait for what is in flight, and give the contexts back."""
        for thread in range(ALL):
            while self.flying[thread]:
                self._wait(thread)
        self.text += "    c0.destroy()\n    c1.destroy()\n"

    def races(self) -> tuple[dict[str, set[int]], set[tuple[int, int]]]:
        """Return the bytes that race, by memory, and the pairs of lines."""
        racing: dict[str, set[int]] = {}
        lines: set[tuple[int, int]] = set()
        for place, one in enumerate(self.used):
            for other in self.used[:place]:
                if (
                    one.memory == other.memory and (one.write or other.write) and one.bytes & other.bytes
                    and not one.before(other) and not other.before(one) and one.line != other.line
                ):  # fmt: skip
                    racing.setdefault(one.memory, set()).update(one.bytes & other.bytes)
                    lines.add((min(one.line, other.line), max(one.line, other.line)))
        return racing, lines


@pytest.fixture(name="make", scope="module")
def _make() -> Iterator[Callable[..., Bench]]:
    yield from benches()


@pytest.fixture(name="bench", scope="module", params=["default", "eager", "seeded", "a thread each", "strict"])
def _bench(make: Callable[..., Bench], request: pytest.FixtureRequest) -> Bench:
    modes: dict[str, dict[str, Any]] = {
        "default": {}, "eager": {"dte": "eager"}, "seeded": {"dte": "seeded", "seed": 3},
        "a thread each": {"workers": "sip"}, "strict": {"strict": True},
    }  # fmt: skip
    return make(detect=True, **modes[request.param])


each_way = pytest.mark.parametrize("few", [200, 0])  # runs that are compared one by one, not as arrays


@each_way
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_what_is_named_is_what_races(bench: Bench, few: int, steps: list[Any]) -> None:
    """The same bytes of each memory, and no pair of lines that does not race."""
    compare(bench, few, steps)


@pytest.mark.soak
@each_way
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_many_random_kernels(bench: Bench, few: int, steps: list[Any]) -> None:
    """As above, other ones each time."""
    compare(bench, few, steps)


def compare(bench: Bench, few: int, steps: list[Any]) -> None:
    """Run a random kernel, and compare what the detectors name with all pairs of accesses that race."""
    program = Program()
    for step in steps:
        program.add(*step)
    program.end()
    for signal in range(SIGNALS):
        bench.chip.signals.set(signal, 0, None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bulk, "FEW", few)
        kernel = k.compile_source(program.text, "random.py").module().function("f")
        grid = bench.attempt(kernel, (BLOCKS, THREADS), bench.upload(np.zeros(SIZE, np.uint8)))
    assert grid.error is None or bench.options.strict, program.text
    assert grid.detector is not None
    racing, lines = program.races()
    found: dict[str, set[int]] = {}
    for race in grid.detector.take():
        assert race.first.site is not None and race.second.site is not None and race.first.thread is not None
        pair = sorted((race.first.site.line, race.second.site.line))
        assert tuple(pair) in lines, f"{race}\n{program.text}"
        block, thread = race.first.thread
        memory = "x"
        if not race.memory.startswith("<Allocation"):
            memory = f"s of {block}" if race.memory.startswith("shared") else f"l of {block * THREADS + thread}"
        found.setdefault(memory, set()).update(byte for start, stop in race.ranges for byte in range(start, stop))
    if grid.error is None:
        assert found == racing, program.text
