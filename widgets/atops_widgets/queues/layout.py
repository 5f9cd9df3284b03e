"""Where the tokens of a queue stand in a row, and what is left out between them: the same as the script computes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

__all__ = ("LETTER", "LONGEST", "PLAIN", "layout", "token_width")

PLAIN: Final = 22.0  # pixels of a token that shows a letter only
LETTER: Final = 6.6  # that a letter takes, about
WIDE: Final = 7.4  # the same, where nothing may be cut
GAP: Final = 3.0
LONGEST: Final = 16  # letters of a name

Spot = tuple[str, float, float, int]  # "token" or "gap", x, width, index of the token or number left out


def token_width(label: str) -> float:
    """Return how wide a token with this label is."""
    return PLAIN + (min(len(label), LONGEST) * WIDE + 4 if label else 0.0)


def layout(tokens: Sequence[tuple[int, float, bool]], total: int, room: float) -> list[Spot]:
    """Place tokens, (position in the queue, width, whether it must be seen), into `room` pixels.

    As many of the front as fit are placed, and those that must be seen; between them stands how many are left out.
    """
    shown, tight = [True] * len(tokens), False
    whole = sum(width + GAP for _, width, _ in tokens)
    if len(tokens) < total or whole > room:
        gap = _gap_width(total) + GAP
        left = room - gap - sum(width + GAP + gap for _, width, kept in tokens if kept)
        tight = left < 0  # not even these have room: none gets a label
        for index, (_, width, kept) in enumerate(tokens):
            left -= 0 if kept else width + GAP
            shown[index] = kept or left >= 0
    spots: list[Spot] = []
    x, following = 0.0, 0
    for index, (position, width, _) in enumerate(tokens):
        if not shown[index]:
            continue
        if position > following:
            spots.append(("gap", x, _gap_width(position - following), position - following))
            x += spots[-1][2] + GAP
        spots.append(("token", x, PLAIN if tight else width, index))
        x, following = x + spots[-1][2] + GAP, position + 1
    if following < total:
        spots.append(("gap", x, _gap_width(total - following), total - following))
    return spots


def _gap_width(count: int) -> float:
    """Return how wide the words "+ 9,940 more" are."""
    return len(f"+ {count:,} more") * LETTER + 8
