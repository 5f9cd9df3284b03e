"""Which launches, and what of the host, wrote the kernel signals of a board: what those come after that see them."""

from __future__ import annotations

from types import CodeType
from typing import TYPE_CHECKING, TypeAlias

from atops.device.races.clocks import Change, Changes, Met
from atops.device.races.detector import LAST, MOST_PARTS
from atops.runtime.races.command_clock import Clock, Epoch, Waited

if TYPE_CHECKING:
    from atops.device.races.detector import LaunchDetector

__all__ = ("SignalWrites",)

# What wrote a signal, by order, and the part of the launch that did so last; 0: the host.
_Given: TypeAlias = dict[int, tuple[Epoch, int] | Clock]
_Signal: TypeAlias = tuple[object, int]  # a chip's signals, and which of them


class SignalWrites:
    """The signals of one board. The detector's lock guards all of it."""

    def __init__(self) -> None:
        self._given: dict[_Signal, _Given] = {}
        self._changes: dict[_Signal, Changes[_Given]] = {}
        self._written: dict[_Signal, tuple[CodeType, int]] = {}  # where the host last wrote it

    def by_host(self, signal: _Signal, change: Change, host: Clock, place: tuple[CodeType, int]) -> None:
        """Note that the host writes a signal: kernels that see it come after what the host knows."""
        self._written[signal] = place
        self._give(signal, change, 0, host)

    def by_kernel(self, signal: _Signal, change: Change, epoch: Epoch, kernels: LaunchDetector) -> None:
        """Note that a launch writes a signal: what it did until then comes before what follows in those that see it.

        Grids that meet have one log, and so have launches of very many parts: they come before the others as a whole.
        """
        part = LAST if epoch.meeting is not None else kernels.end_part()
        self._give(signal, change, epoch.order, (epoch, LAST if part == MOST_PARTS else part))

    def _give(self, signal: _Signal, change: Change, order: int, by: tuple[Epoch, int] | Clock) -> None:
        given = self._given.get(signal, {})
        self._changes.setdefault(signal, Changes()).note(change, given)
        self._given[signal] = {**given, order: by}

    def seen_by_kernel(self, signal: _Signal, met: Met | None, epoch: Epoch, kernels: LaunchDetector) -> None:
        """Note that a launch has seen a signal; `met` has ended its wait for that."""
        given = self._given.get(signal, {})
        if met is not None and (changes := self._changes.get(signal)) is not None:
            given = changes.until(met, given)
        if met is not None:
            places = (each[0].place if isinstance(each, tuple) else self._written[signal] for each in given.values())
            epoch.waited = Waited(epoch.place, None, tuple(places))
        part = 0
        for order, each in given.items():
            if isinstance(each, tuple):
                launch, its_part = each
                heard = (epoch.heard or {}).get(launch.seq)
                if order != epoch.order and (heard is None or heard[1][-1][0] < its_part):
                    part = part or (0 if epoch.meeting is not None else kernels.end_part())
                    epoch.hear(launch, its_part, part)
            elif each not in (told := epoch.told or []):
                epoch.told = [*told, each]

    def launches(self, signal: _Signal) -> list[Epoch]:
        """Return the launches that have written a signal."""
        return [each[0] for each in self._given.get(signal, {}).values() if isinstance(each, tuple)]
