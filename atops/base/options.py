"""One frozen object that says how an emulated board behaves. It reads the environment once, when asked to."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from atops.base.errors import InvalidValue

__all__ = ("ARCHITECTURE_NAMES", "EmulatorOptions", "number", "whole")

MAX_DEVICES = 8
ARCHITECTURE_NAMES = ("gcu210", "gcu300")  # of the chips in device/arch.py, which is above this file
KNOWN_ARCHITECTURES = " or ".join(map(repr, ARCHITECTURE_NAMES))
MAX_SECONDS = 1_000_000
MAX_THREADS = 4096


@dataclass(frozen=True, slots=True)
class EmulatorOptions:
    """How a board is built and how its kernels are run.

    - `arch`: "gcu210" or "gcu300". Environment: ATOPS_ARCH.
    - `devices`: 0 to 8 devices on the board. Environment: ATOPS_DEVICES.
    - `workers`: 1 (default, deterministic round robin), n (blocks spread over n threads) or "sip" (an OS thread per
      SIP thread). Only 1 runs inline.
    - `dte`: when an asynchronous transfer takes effect: "wait" (as late as legal, at the wait), "eager" (as soon as
      it is issued) or "seeded" (at the issue or at the wait, as the seed decides).
    - `strict`: poison destinations at issue, checksum host sources, raise where the default only warns.
    - `trace`: capacity of the trace ring in records; 0 switches tracing off.
    - `seed`: of the scheduling policy inline; None is first come, first served.
    - `clock`: "wall", or "virtual" (inline only): time advances only when no step is ready, to the next timer or end of
      a command. Copies, fills and reductions take the time that the architecture's bandwidths give their bytes, exactly
      and always the same; docs/tracing.md has the table. Kernels and host callables take none: there is no cost model
      of kernels yet that would be better than a guess, and what the host does is not the chip's affair.
    - `abort_grace`: seconds that an aborted kernel may go on before it is named and abandoned.
    - `callback_threads`: how many host calls (`Stream.call`, `add_callback`) may run at once, 1 to 4096. Their threads
      start with need, and end after ten idle seconds. Done callbacks and observers have as many of their own.
    - `slice`: how many suspensions of a block's threads are served before other work gets a turn.
    - `warm_bytes`: freed device memory that stays resident before pages go back to the system.
    - `esl`: True or False gives or takes the ESL ring of a gcu300 board; None is the architecture's default.
    """

    arch: str = "gcu300"
    devices: int = 1
    workers: int | Literal["sip"] = 1
    dte: Literal["wait", "eager", "seeded"] = "wait"
    strict: bool = False
    trace: int = 65536
    seed: int | None = None
    clock: Literal["wall", "virtual"] = "wall"
    abort_grace: float = 5.0
    slice: int = 256
    callback_threads: int = 64
    warm_bytes: int = 256 << 20
    esl: bool | None = None

    def __post_init__(self) -> None:
        """Check every field. Raises InvalidValue naming the field, its value and what it takes."""
        if self.arch not in ARCHITECTURE_NAMES:
            raise InvalidValue(f"arch is {self.arch!r}; expected {KNOWN_ARCHITECTURES}")
        if not whole(self.devices) or not 0 <= self.devices <= MAX_DEVICES:
            raise InvalidValue(f"devices is {self.devices!r}; expected 0 to {MAX_DEVICES}")
        if self.workers != "sip" and not (whole(self.workers) and 1 <= self.workers <= 256):
            raise InvalidValue(f"workers is {self.workers!r}; expected 1 to 256 or 'sip'")
        self._check_numbers()
        if not whole(self.callback_threads) or not 1 <= self.callback_threads <= MAX_THREADS:
            raise InvalidValue(f"callback_threads is {self.callback_threads!r}; expected 1 to {MAX_THREADS}")
        if self.dte not in ("wait", "eager", "seeded"):
            raise InvalidValue(f"dte is {self.dte!r}; expected 'wait', 'eager' or 'seeded'")
        if self.seed is not None and not whole(self.seed):
            raise InvalidValue(f"seed is {self.seed!r}; expected an int or None")
        if not isinstance(self.strict, bool):
            raise InvalidValue(f"strict is {self.strict!r}; expected True or False")
        if self.clock not in ("wall", "virtual"):
            raise InvalidValue(f"clock is {self.clock!r}; expected 'wall' or 'virtual'")
        if self.trace < 0:
            raise InvalidValue(f"trace is {self.trace!r}; expected a number of records, 0 for none")
        if self.slice < 1:
            raise InvalidValue(f"slice is {self.slice!r}; expected at least 1")
        if not 0 <= self.abort_grace <= MAX_SECONDS:  # of which NaN and infinity are none: an end has to come
            raise InvalidValue(f"abort_grace is {self.abort_grace!r}; expected seconds, 0 to {MAX_SECONDS}")

    def _check_numbers(self) -> None:
        for name, right in (("trace", whole), ("slice", whole), ("warm_bytes", whole), ("abort_grace", number)):
            if not right(value := getattr(self, name)):
                raise InvalidValue(f"{name} is {value!r}; expected a number")
        if self.warm_bytes < 0:
            raise InvalidValue(f"warm_bytes is {self.warm_bytes!r}; expected bytes, not negative")
        if self.esl is not None and not isinstance(self.esl, bool):
            raise InvalidValue(f"esl is {self.esl!r}; expected True, False or None")

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None, **changes: object) -> EmulatorOptions:
        """Return the options that ATOPS_ARCH and ATOPS_DEVICES ask for, with `changes` on top.

        A variable whose field is changed is not looked at. Raises InvalidValue, naming the variable, when one holds
        what no board can be.
        """
        environ = os.environ if environ is None else environ
        given: dict[str, object] = {}
        for variable, field, read, expected in (
            ("ATOPS_ARCH", "arch", str, KNOWN_ARCHITECTURES),
            ("ATOPS_DEVICES", "devices", int, f"0 to {MAX_DEVICES}"),
        ):
            if (text := environ.get(variable)) and field not in changes:
                try:
                    given[field] = read(text)
                    cls(**{field: given[field]})  # type: ignore[arg-type]  # refused here, the variable is named
                except ValueError:  # of which InvalidValue is one
                    raise InvalidValue(f"{variable} is {text!r}; expected {expected}") from None
        return replace(cls(), **{**given, **changes})  # type: ignore[arg-type]  # __post_init__ checks each field


def whole(value: object) -> bool:
    """Whether a value is an int, and no bool: True is equal to 1 and means something else."""
    return isinstance(value, int) and not isinstance(value, bool)


def number(value: object) -> bool:
    """Whether a value is an int or a float, and no bool."""
    return whole(value) or isinstance(value, float)
