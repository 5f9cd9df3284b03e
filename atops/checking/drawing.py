"""A run as text: a lane for each actor, time from top to bottom, and the choices that were forced."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import groupby, zip_longest
from textwrap import wrap

from atops.base.choice import Name
from atops.checking.actors import owner, short

__all__ = ("difference", "drawing")

MOST_LANES = 6
MOST_ROWS = 36
WIDTH = 26  # of a lane, at most


def drawing(names: Sequence[Name], places: Sequence[str] = (), forced: Collection[int] = ()) -> list[str]:
    """Return the lines of a drawing of a run.

    `places` are where the actors stood when their turns came, one for each choice or none; `forced` the positions of
    choices that were forced. Turns in a row are one line; what is far from any forced choice is left out where there
    are too many lines.
    """
    turns = _turns(names, places, forced)
    shown = _most_telling(turns)
    lanes = _lanes(names, [turns[at][1] for at in shown if at is not None], forced)
    if not lanes:
        return []
    heads = [short(name, lanes) for name in lanes]
    texts = {at: _text(turns[at]) for at in shown if at is not None}
    wide = []
    for name, head in zip(lanes, heads, strict=True):
        inside = [len(text) for at, text in texts.items() if turns[at][1] == name]
        wide.append(min(WIDTH, max([len(head), *inside])))
    number = len(str(len(names)))
    wrapped = [wrap(head, width) for head, width in zip(heads, wide, strict=True)]
    lines = [
        " " * (number + 3) + "  ".join(part.ljust(width) for part, width in zip(parts, wide, strict=True))
        for parts in zip_longest(*wrapped, fillvalue="")
    ]
    for at in shown:
        if at is None:
            lines.append(" " * number + " :")
            continue
        start, name, _, is_forced, _ = turns[at]
        mark = ">" if is_forced else " "
        if name in lanes:
            cells = ["|"] * len(lanes)
            cells[lanes.index(name)] = texts[at]
            line = "  ".join(_cut(cell, width).ljust(width) for cell, width in zip(cells, wide, strict=True))
        else:
            line = f"({short(name, lanes)})"
        lines.append(f"{start + 1:>{number}} {mark} {line}".rstrip())
    return [line.rstrip() for line in lines]


def _cut(text: str, width: int) -> str:
    """Return a text in a lane's width. Its end is kept: of a place that is the line's number."""
    return text if len(text) <= width else "…" + text[len(text) + 1 - width :]


Turn = tuple[int, Name, int, bool, str]  # the first choice of turns in a row, whose, how many, whether forced, where


def _turns(names: Sequence[Name], places: Sequence[str], forced: Collection[int]) -> list[Turn]:
    """Return the run as turns in a row; a forced choice begins anew."""
    found: list[Turn] = []
    for at, name in enumerate(names):
        lane = owner(name)
        place = places[at] if at < len(places) else ""
        if not place and lane[0] != name[0]:
            place = f"DTE {name[-1]}" if name[0] == "transfer" else f"{name[0]} {name[-1]}"
        if found and found[-1][1] == lane and at not in forced:
            start, _, count, is_forced, where = found[-1]
            found[-1] = start, lane, count + 1, is_forced, where
        else:
            found.append((at, lane, 1, at in forced, place))
    return found


def _text(turn: Turn) -> str:
    _, _, count, _, place = turn
    return f"{place or '*'} x {count}" if count > 1 else place or "*"


def _most_telling(turns: Sequence[Turn]) -> list[int | None]:
    """Return which turns to show, None for a gap: those near forced choices, the first and the last."""
    if len(turns) <= MOST_ROWS:
        return list(range(len(turns)))
    marked = [at for at, turn in enumerate(turns) if turn[3]]
    wanted: dict[int, None] = dict.fromkeys((0, len(turns) - 1))
    for apart in range(len(turns)):
        for at in (*marked, len(turns) - 1):
            for each in (at - apart, at + apart):
                if 0 <= each < len(turns) and len(wanted) < MOST_ROWS:
                    wanted[each] = None
        if len(wanted) >= MOST_ROWS:
            break
    shown: list[int | None] = []
    last = -1
    for at in sorted(wanted):
        if at != last + 1:
            shown.append(None)
        shown.append(at)
        last = at
    return shown


def _lanes(names: Sequence[Name], shown: Sequence[Name], forced: Collection[int]) -> list[Name]:
    """Return the actors that get a lane: those of forced choices first, then those with the most lines, by name."""
    counts: dict[Name, int] = {}
    for name in shown:
        counts[name] = counts.get(name, 0) + 1
    for at in forced:
        if at < len(names) and (lane := owner(names[at])) in counts:
            counts[lane] += len(shown)
    chosen = sorted(counts, key=lambda name: (-counts[name], _order(name)))[:MOST_LANES]
    return sorted(chosen, key=_order)


def _order(name: Name) -> tuple[tuple[bool, str | int], ...]:
    return tuple((isinstance(part, int), part) for part in name)


def difference(
    names: Sequence[Name], passing: Sequence[Name], runs: tuple[str, str] = ("fails", "passes")
) -> list[str]:  # fmt: skip
    """Return the lines that say where a failing run leaves the most similar one that passes, or any run another."""
    at = next((at for at, (one, other) in enumerate(zip(names, passing, strict=False)) if one != other), None)
    if at is None:
        at = min(len(names), len(passing))
        if at == len(names) and at == len(passing):
            return []
    everything = {*names, *passing}
    same = "the first choice of both runs is" if at == 1 else f"the first {at} choices of both runs are"
    lines = [f"{same} the same; then" if at else "the first choice differs:"]
    for what, run in zip(runs, (names, passing), strict=True):
        rest = [f"{short(name, everything)}{_times(len(list(group)))}" for name, group in groupby(run[at : at + 60])]
        said = ", ".join(rest[:6]) + (", ..." if len(rest) > 6 else "") if rest else "it is over"
        lines.append(f"  {what}: {said}")
    return lines


def _times(count: int) -> str:
    return f" x {count}" if count > 1 else ""
