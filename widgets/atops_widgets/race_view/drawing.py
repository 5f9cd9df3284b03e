"""A race on two lines, one for each side: as it is, and with the order that is missing. And the bytes it is about."""

from __future__ import annotations

from typing import Final

from atops_widgets.drawing.svg import Drawing
from atops_widgets.drawing.theme import Theme
from atops_widgets.race_view.sightings import Mend, Sighting

__all__ = ("as_it_is", "bytes_strip", "mended")

WIDTH: Final = 460
LINE: Final = (46.0, 118.0)  # y of the two sides' lines
BOX: Final = (148.0, 26.0)  # width and height of an access
TOP: Final = 14.0
NAME: Final = 21.0  # from a line to the name of who is on it
STRIP: Final = 12.0
DASHED: Final = 'stroke-width="2" stroke-dasharray="5 4" data-race="missing"'


def as_it_is(race: Sighting, theme: Theme | None = None) -> str:
    """Return the picture of both sides with nothing between them but a dashed edge: either may come first."""
    drawing = _begun(race, "As it is", theme)
    for number, y in enumerate(LINE):
        _access(drawing, race, number, WIDTH - BOX[0] - 8, y)
    middle, half = WIDTH - BOX[0] / 2 - 8, BOX[1] / 2
    drawing.path(f"M{middle} {LINE[0] + half + 2}V{LINE[1] - half - 2}", "failed", DASHED)
    drawing.badge(middle, sum(LINE) / 2, race.kind)
    drawing.text(middle - 16, sum(LINE) / 2, "nothing orders these", "failed", 'text-anchor="end"')
    return drawing.finish(LINE[1] + 56, _words(race, "nothing orders them"))


def mended(race: Sighting, mend: Mend, theme: Theme | None = None) -> str:
    """Return the picture with what would put them in order: a barrier, an event, or a wait."""
    drawing = _begun(race, "With the order that is missing", theme)
    first, second = mend.of, 1 - mend.of
    _access(drawing, race, first, 8, LINE[first])
    _access(drawing, race, second, WIDTH - BOX[0] - 8, LINE[second])
    middle, half = WIDTH / 2, BOX[1] / 2
    more = 'stroke-width="3" data-race="order"'
    if mend.how == "barrier":
        drawing.path(f"M{middle} {LINE[0] - half}V{LINE[1] + half}", "before", more)
    elif mend.how == "event":
        for x, y, word in ((middle - 44, LINE[first], "record"), (middle + 44, LINE[second], "wait")):
            drawing.rect(x - 27, y - half, 54, BOX[1], "page", f'stroke="{drawing.fill("before")}" stroke-width="2"')
            drawing.text(x, y, word, "ink", 'text-anchor="middle"')
        down = half if second > first else -half
        drawing.path(f"M{middle - 44} {LINE[first] + down}L{middle + 44} {LINE[second] - down}", "before",
                     f"{more} {drawing.arrow}")  # fmt: skip
    else:
        drawing.path(f"M{8 + BOX[0]} {LINE[first]}L{WIDTH - BOX[0] - 8} {LINE[second]}", "before",
                     f"{more} {drawing.arrow}")  # fmt: skip
    drawing.text(middle, LINE[1] + 42, mend.code, "ink", 'text-anchor="middle" font-family="monospace"', WIDTH - 8)
    return drawing.finish(LINE[1] + 56, _words(race, f"{mend.code} orders them"))


def bytes_strip(race: Sighting, theme: Theme | None = None) -> str:
    """Return the memory as a strip with the bytes of the race in it; empty where its size is not known."""
    size = race.size
    if not size or not race.ranges:
        return ""
    drawing = Drawing(WIDTH, f"{race.bytes_told} of {size}", theme)
    drawing.rect(0, 2, WIDTH, STRIP, "band", f'stroke="{drawing.fill("line")}"')
    for start, stop in race.ranges[:64]:
        x, end = start * WIDTH / size, stop * WIDTH / size
        drawing.rect(x, 2, max(2.0, end - x), STRIP, "failed", 'data-race="bytes"', f"bytes {start} to {stop}")
    drawing.text(0, STRIP + 12, "0", "quiet")
    drawing.text(WIDTH, STRIP + 12, f"{size:,} bytes", "quiet", 'text-anchor="end"')
    return drawing.finish(STRIP + 22)


def _begun(race: Sighting, title: str, theme: Theme | None) -> Drawing:
    drawing = Drawing(WIDTH, f"{title}: {race.kind}", theme)
    drawing.text(0, TOP - 6, title, "ink", 'font-weight="600"')
    for y, said, side in zip(LINE, (LINE[0] - NAME, LINE[1] + NAME), race.sides, strict=True):
        drawing.path(f"M0 {y}H{WIDTH}", "line")
        drawing.text(0, said, side.actor, "quiet", room=WIDTH - 4)
    return drawing


def _access(drawing: Drawing, race: Sighting, number: int, x: float, y: float) -> None:
    side = race.sides[number]
    kind = "k6" if side.write else "k2"
    told = f"{number + 1}: {side.actor}: {side.what}" + (f", at {side.place}" if side.place else "")
    drawing.rect(x, y - BOX[1] / 2, *BOX, kind, 'rx="3"', told)
    text = f"{number + 1} · " + (f"{side.line}: " if side.line else "") + side.what
    drawing.text(x + 6, y, text, "on", 'pointer-events="none"', BOX[0] - 10)


def _words(race: Sighting, order: str) -> str:
    one, two = race.sides
    return f"{one.actor}: {one.what}; {two.actor}: {two.what}; {order}"
