"""Small concurrent programs without a runtime: actors that run from one choice to the next, and say what they touch.

A program is a function of a `Model`: it adds its actors, generators that yield after each step. A model has shared
words, locks that park, barriers, and runs under any chooser.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator

from atops.base.choice import Chooser, Name
from atops.base.footprint import StepAccesses

Actor = Generator[None, None, None]


class Model:
    """Shared state of one run, and its actors."""

    def __init__(self) -> None:
        self.words: dict[str, int] = {}
        self.ready: list[tuple[Name, Actor]] = []
        self.parked: dict[object, list[tuple[Name, Actor]]] = {}
        self.reads: list[tuple[object, int, int]] = []
        self.writes: list[tuple[object, int, int]] = []
        self.current: tuple[Name, Actor] | None = None
        self.park_at: object = None
        self.barriers: dict[str, int] = {}

    def add(self, actor: Actor) -> None:
        """Let an actor run."""
        self.ready.append((("thread", 0, 0, len(self.ready)), actor))

    def read(self, word: str) -> int:
        """Return a shared word."""
        self.reads.append((word, 0, 4))
        return self.words.get(word, 0)

    def write(self, word: str, value: int) -> None:
        """Store into a shared word."""
        self.writes.append((word, 0, 4))
        self.words[word] = value

    def take(self, lock: str) -> bool:
        """Take a lock, or park the actor at it, which must yield and try again."""
        self.reads.append(("lock", 0, 1) if False else (("lock", lock), 0, 1))
        self.writes.append((("lock", lock), 0, 1))
        if self.words.get(f"lock {lock}"):
            self.park_at = "lock", lock
            return False
        self.words[f"lock {lock}"] = 1
        return True

    def give(self, lock: str) -> None:
        """Give a lock back, and wake all that are parked at it."""
        self.writes.append((("lock", lock), 0, 1))
        self.words[f"lock {lock}"] = 0
        self.ready += self.parked.pop(("lock", lock), [])

    def meet(self, barrier: str, count: int) -> None:
        """Arrive at a barrier of so many; the last one lets all go on."""
        arrived = self.parked.setdefault(barrier, [])
        if len(arrived) + 1 < count:
            self.park_at = barrier
            return
        self.ready += self.parked.pop(barrier)

    def run(self, chooser: Chooser) -> tuple[object, ...]:
        """Run to the end, or to a deadlock, and return the words."""
        while self.ready:
            index = chooser.choose("thread", [name for name, _ in self.ready])
            name, actor = self.ready.pop(index)
            self.reads, self.writes, self.park_at = [], [], None
            try:
                next(actor)
            except StopIteration:
                pass
            else:
                where = self.ready if self.park_at is None else self.parked.setdefault(self.park_at, [])
                where.append((name, actor))
            if (note := getattr(chooser, "note", None)) is not None:
                note(StepAccesses(tuple(self.reads), tuple(self.writes)))
        stuck = sorted(str(name) for each in self.parked.values() for name, _ in each)
        return (*sorted(self.words.items()), *stuck)


Program = Callable[[Model], None]


def drawn(seed: int) -> Program:
    """Return a random program: two to four actors that read, write, branch on what they read, lock and meet."""
    rng = random.Random(seed)
    actors = rng.choice([2, 2, 3, 3, 4])
    length = {2: 4, 3: 3, 4: 2}[actors]
    words = ["x", "y", "z"][: rng.randint(1, 3)]
    meeting = rng.random() < 0.3
    texts = []
    for _ in range(actors):
        steps = []
        for _ in range(rng.randint(1, length)):
            kind = rng.choice(["read", "write", "add", "branch", "none", "lock"])
            steps.append((kind, rng.choice(words), rng.choice(words), rng.randint(1, 3)))
        texts.append((steps, rng.randrange(len(steps)) if meeting else -1))

    def program(model: Model) -> None:
        for steps, at in texts:
            model.add(_actor(model, steps, at, actors))

    return program


def _actor(model: Model, steps: list[tuple[str, str, str, int]], meets: int, actors: int) -> Actor:
    mine = 0
    for number, (kind, word, other, value) in enumerate(steps):
        if kind == "read":
            mine = model.read(word)
        elif kind == "write":
            model.write(word, mine + value)
        elif kind == "add":
            model.write(word, model.read(word) * 3 + value)
        elif kind == "branch":
            if model.read(word) > 0:
                model.write(other, value)
        elif kind == "lock":
            while not model.take(word):
                yield
            yield
            model.write(other, model.read(other) * 2 + value)
            model.give(word)
        if number == meets:
            model.meet("meeting", actors)
        yield


def counted(shared: int, turns: int = 8) -> Program:
    """Return two actors of so many turns, of which the first `shared` touch one word."""

    def actor(model: Model, which: int) -> Actor:
        for turn in range(turns):
            if turn < shared:
                model.write("x", model.read("x") * 2 + which)
            if turn < turns - 1:
                yield

    def program(model: Model) -> None:
        for which in range(2):
            model.add(actor(model, which))

    return program
