"""One frozen object that says how an emulated board behaves: by the program, else the environment, else defaults."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Literal, NamedTuple, TypeGuard

from atops.base.agenda import MOST_STEPS
from atops.base.choice import Chooser
from atops.base.errors import InvalidValue
from atops.base.neighbours import calls_named

__all__ = (
    "ARCHITECTURE_NAMES", "VARIABLES", "EmulatorOptions", "Variable", "check_flag", "number", "trace_file", "whole",
)  # fmt: skip

MAX_DEVICES = 8
MAX_WORKERS = 256
DEFAULT_TRACE = 65536
ARCHITECTURE_NAMES = ("gcu210", "gcu300")  # of the chips in device/arch.py, which is above this file
KNOWN_ARCHITECTURES = " or ".join(map(repr, ARCHITECTURE_NAMES))
MAX_SECONDS = 1_000_000
MAX_THREADS = 4096
SWITCHES = {**dict.fromkeys(("1", "true", "yes", "on"), True), **dict.fromkeys(("0", "false", "no", "off"), False)}


class Variable(NamedTuple):
    """A variable of the environment: the field's default without it, how its text is read, and what is expected."""

    name: str
    default: Any
    read: Callable[[str], object]  # raises KeyError or ValueError for a text that no board can have
    expected: str


def _architecture(text: str) -> str:
    return ARCHITECTURE_NAMES[ARCHITECTURE_NAMES.index(text)]


def _whole(least: int, most: int, text: str) -> int:
    value = int(text)
    if not least <= value <= most:
        raise ValueError
    return value


def _workers(text: str) -> int | str:
    return text if text == "sip" else _whole(1, MAX_WORKERS, text)


def _records(text: str) -> int:
    return DEFAULT_TRACE if _is_a_file(text) else _whole(0, sys.maxsize, text)


VARIABLES: Final[Mapping[str, Variable]] = {
    "arch": Variable("ATOPS_ARCH", "gcu300", _architecture, KNOWN_ARCHITECTURES),
    "devices": Variable("ATOPS_DEVICES", 1, partial(_whole, 0, MAX_DEVICES), f"0 to {MAX_DEVICES}"),
    "workers": Variable("ATOPS_WORKERS", 1, _workers, f"1 to {MAX_WORKERS} or 'sip'"),
    "strict": Variable("ATOPS_STRICT", False, lambda text: SWITCHES[text.lower()], "1 or 0"),
    "detect": Variable("ATOPS_DETECT", False, lambda text: SWITCHES[text.lower()], "1 or 0"),
    "trace": Variable("ATOPS_TRACE", DEFAULT_TRACE, _records, "a number of records, or a file"),
    "seed": Variable("ATOPS_SEED", None, int, "a whole number"),
}


def _asked(name: str, environ: Mapping[str, str] | None = None) -> object:
    """Return a field's default: what the environment asks for. Raises InvalidValue that names the variable."""
    variable = VARIABLES[name]
    text = (os.environ if environ is None else environ).get(variable.name)
    if not text:
        return variable.default
    try:
        return variable.read(text)
    except (KeyError, ValueError):
        raise InvalidValue(f"{variable.name} is {text!r}; expected {variable.expected}") from None


def trace_file(environ: Mapping[str, str] | None = None) -> str:
    """Return the file that ATOPS_TRACE names; empty where it names none, but perhaps a number of records."""
    text = (os.environ if environ is None else environ).get("ATOPS_TRACE", "")
    return text if _is_a_file(text) else ""


def _is_a_file(text: str) -> bool:
    """Tell a name from a number. A file that is called 100 can be written as ./100."""
    return bool(text) and not text.removeprefix("-").isdecimal()


def _from_environment(name: str) -> Any:
    """Return the field of the options that is read from the environment where the program leaves it out."""
    return field(default_factory=partial(_asked, name))


@calls_named
@dataclass(frozen=True, slots=True)
class EmulatorOptions:
    """How a board is built and how its kernels are run.

    A field that the program gives holds. Of those that it leaves out, seven are looked for in the environment when the
    object is made: ATOPS_ARCH, ATOPS_DEVICES, ATOPS_WORKERS, ATOPS_STRICT and ATOPS_DETECT (1 or 0), ATOPS_SEED, and
    ATOPS_TRACE if it is a number (else it names a file: see `atops.profile`). So an existing program runs strict, or
    from a seed, as it stands; `python -m atops run` sets them. Making one raises InvalidValue that names the field, or
    the variable.

    - `arch`: "gcu210" or "gcu300" (the default).
    - `devices`: 0 to 8 devices on the board; 1 by default.
    - `workers`: 1 (default, deterministic round robin), n (blocks spread over n threads) or "sip" (an OS thread per
      SIP thread). Only 1 runs inline.
    - `dte`: when an asynchronous transfer takes effect: "wait" (as late as legal, at the wait), "eager" (as soon as
      it is issued) or "seeded" (at the issue or at the wait, as the seed decides).
    - `strict`: poison destinations at issue, checksum host sources, raise where the default only warns.
    - `detect`: report races: accesses to the same bytes that nothing orders (`atops.report()`, docs/races.md). With
      `strict`, too, what races fails with DataRace.
    - `trace`: capacity of the trace ring in records; 0 switches tracing off.
    - `seed`: of the scheduling policy inline; None is first come, first served.
    - `schedule`: of an inline run: "random" (from `seed`, 0 without one), "plain" (first come, first served), the
      string of another run, which is repeated, or a `Chooser` of the program's own. Then all that could come next is
      one choice by name (docs/races.md), which `seed` alone does not make it.
    - `steps`: how many steps a run under a schedule may make before it ends with StepLimit.
    - `clock`: "wall", or "virtual" (inline only): time advances only when no step is ready, to the next timer or end of
      a command. Copies, fills and reductions take the time that the architecture's bandwidths give their bytes, kernels
      that of their transfers, barriers, vectors and what `k.cost` says, exactly and whatever the order of threads;
      docs/tracing.md has the tables. Host callables take none: what the host does is not the chip's affair.
    - `abort_grace`: seconds that an aborted kernel may go on before it is named and abandoned.
    - `callback_threads`: how many host calls (`Stream.call`, `add_callback`) may run at once, 1 to 4096. Their threads
      start with need, and end after ten idle seconds. Done callbacks and observers have as many of their own.
    - `slice`: how many suspensions of a block's threads are served before other work gets a turn.
    - `warm_bytes`: freed device memory that stays resident before pages go back to the system.
    - `native_process`: run each launch of a kernel in C++ in a process of its own, so that its crash ends that process
      only and fails the launch (docs/cxx.md). Not one that is watched, in strict mode or by the detectors.
    - `esl`: True or False gives or takes the ESL ring of a gcu300 board; None is the architecture's default.
    """

    arch: str = _from_environment("arch")
    devices: int = _from_environment("devices")
    workers: int | Literal["sip"] = _from_environment("workers")
    dte: Literal["wait", "eager", "seeded"] = "wait"
    strict: bool = _from_environment("strict")
    detect: bool = _from_environment("detect")
    trace: int = _from_environment("trace")
    seed: int | None = _from_environment("seed")
    schedule: str | Chooser | None = None
    steps: int = MOST_STEPS
    clock: Literal["wall", "virtual"] = "wall"
    abort_grace: float = 5.0
    slice: int = 256
    callback_threads: int = 64
    warm_bytes: int = 256 << 20
    native_process: bool = False
    esl: bool | None = None

    def __post_init__(self) -> None:  # one test a field
        """Check every field. Raises InvalidValue naming the field, its value and what it takes."""
        if self.arch not in ARCHITECTURE_NAMES:
            raise InvalidValue(f"arch is {self.arch!r}; expected {KNOWN_ARCHITECTURES}")
        if not whole(self.devices) or not 0 <= self.devices <= MAX_DEVICES:
            raise InvalidValue(f"devices is {self.devices!r}; expected 0 to {MAX_DEVICES}")
        if self.workers != "sip" and not (whole(self.workers) and 1 <= self.workers <= MAX_WORKERS):
            raise InvalidValue(f"workers is {self.workers!r}; expected 1 to {MAX_WORKERS} or 'sip'")
        self._check_types()
        if not whole(self.callback_threads) or not 1 <= self.callback_threads <= MAX_THREADS:
            raise InvalidValue(f"callback_threads is {self.callback_threads!r}; expected 1 to {MAX_THREADS}")
        if self.dte not in ("wait", "eager", "seeded"):
            raise InvalidValue(f"dte is {self.dte!r}; expected 'wait', 'eager' or 'seeded'")
        if self.seed is not None and not whole(self.seed):
            raise InvalidValue(f"seed is {self.seed!r}; expected an int or None")
        if self.clock not in ("wall", "virtual"):
            raise InvalidValue(f"clock is {self.clock!r}; expected 'wall' or 'virtual'")
        if self.trace < 0:
            raise InvalidValue(f"trace is {self.trace!r}; expected a number of records, 0 for none")
        if self.slice < 1:
            raise InvalidValue(f"slice is {self.slice!r}; expected at least 1")
        if not 0 <= self.abort_grace <= MAX_SECONDS:  # of which NaN and infinity are none: an end has to come
            raise InvalidValue(f"abort_grace is {self.abort_grace!r}; expected seconds, 0 to {MAX_SECONDS}")

    def _check_types(self) -> None:
        for name in ("strict", "detect", "native_process"):
            check_flag(name, getattr(self, name))
        if not (self.schedule is None or isinstance(self.schedule, Chooser) or _is_schedule(self.schedule)):
            raise InvalidValue(
                f"schedule is {self.schedule!r}; expected 'random', 'plain', the string of a run ('v1...') or a Chooser"
            )
        if not whole(self.steps) or self.steps < 1:
            raise InvalidValue(f"steps is {self.steps!r}; expected a number of steps, at least 1")
        for name, right in (("trace", whole), ("slice", whole), ("warm_bytes", whole), ("abort_grace", number)):
            if not right(value := getattr(self, name)):
                raise InvalidValue(f"{name} is {value!r}; expected a number")
        if self.warm_bytes < 0:
            raise InvalidValue(f"warm_bytes is {self.warm_bytes!r}; expected bytes, not negative")
        if self.esl is not None and not isinstance(self.esl, bool):
            raise InvalidValue(f"esl is {self.esl!r}; expected True, False or None")

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None, **changes: object) -> EmulatorOptions:
        """Return the options that a given environment asks for, with `changes` on top; by default, the process's.

        A variable whose field is changed is not looked at. Raises InvalidValue, naming the variable, when one holds
        what no board can be.
        """
        asked = {name: _asked(name, environ) for name in VARIABLES if name not in changes}
        return cls(**asked, **changes)  # type: ignore[arg-type]  # __post_init__ checks each field


def _is_schedule(value: object) -> bool:
    return isinstance(value, str) and (value in ("random", "plain") or value.startswith("v"))


def check_flag(name: str, value: object) -> None:
    """Raise InvalidValue for what is no bool: a text such as "no" is true."""
    if not isinstance(value, bool):
        raise InvalidValue(f"{name} is {value!r}; expected True or False")


def whole(value: object) -> TypeGuard[int]:
    """Whether a value is an int, and no bool: True is equal to 1 and means something else."""
    return isinstance(value, int) and not isinstance(value, bool)


def number(value: object) -> bool:
    """Whether a value is an int or a float, and no bool."""
    return whole(value) or isinstance(value, float)
