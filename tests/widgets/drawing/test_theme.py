"""Colours have contrast enough on light and dark pages, and none of them stands alone."""

from __future__ import annotations

from itertools import combinations, pairwise
from math import dist
from operator import mul

import pytest

from atops.base.trace.records import Kind
from atops_widgets.drawing.theme import GAPS, HATCHES, KINDS, PAGE, STYLES, kind_table, style_sheet

TEXT, SHAPE = 4.5, 3.0
NO_MEANING = {"page", "band", "grid", "on"}  # grounds, and lines that only guide the eye


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_contrast(theme: int) -> None:
    """Text has at least 4.5 to 1 on page, band and every shape; shapes, marks and frames at least 3 to 1."""
    page, band, on = (PAGE[name][theme] for name in ("page", "band", "on"))
    low = [name for name in ("ink", "quiet") for ground in (page, band) if contrast(PAGE[name][theme], ground) < TEXT]
    shapes = {str(kind): (style.light, style.dark)[theme] for kind, style in STYLES.items()}
    low += [name for name, colour in shapes.items() if contrast(colour, page) < SHAPE or contrast(colour, band) < SHAPE]
    low += [f"text on {name}" for name, colour in shapes.items() if contrast(on, colour) < TEXT]
    low += [name for name in PAGE if name not in NO_MEANING and contrast(PAGE[name][theme], page) < SHAPE]
    assert low == []


def test_every_kind_has_a_letter_of_its_own() -> None:
    """All kinds are in the table, no two have the same letter, and every hatch is drawn."""
    assert list(KINDS) == list(Kind)
    assert list(STYLES) == list(range(len(Kind) + 1))  # one more for the program's waits
    assert len({style.glyph for style in STYLES.values()}) == len(STYLES)
    assert {style.hatch for style in STYLES.values()} <= set(HATCHES)
    assert [entry[1] for entry in kind_table()["kinds"]] == [style.glyph for style in STYLES.values()]  # type: ignore[index]


# What is left of red, green and blue without one kind of cones (Machado, Oliveira and Fernandes 2009).
VISIONS = {
    "all": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "no red": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "no green": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.01182, 0.04294, 0.968881)),
    "no blue": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.3039)),
}
APART = 15.0  # in CIELAB; 2.3 is just noticed


def test_kinds_of_one_hatch_are_told_apart_by_everybody() -> None:
    """Two kinds have another hatch, or colours that differ clearly in every kind of vision, on light and dark pages."""
    alike = [
        (one, other, theme, vision) for one, other in combinations(STYLES, 2)
        if STYLES[one].hatch == STYLES[other].hatch
        for theme in ("light", "dark") for vision, matrix in VISIONS.items()
        if dist(*(_lab(getattr(STYLES[kind], theme), matrix) for kind in (one, other))) < APART
    ]  # fmt: skip
    assert alike == []


def test_thin_shapes_have_gaps_where_wide_ones_have_a_hatch() -> None:
    """Each hatch has its own gaps, none has none, and they lie within the shape and apart."""
    assert list(GAPS) == list(HATCHES) and GAPS["none"] == ()
    assert len(set(GAPS.values())) == len(GAPS)
    for parts in GAPS.values():
        assert all(0.1 < part < 0.9 for part in parts)
        assert all(after - before > 0.2 for before, after in pairwise(parts))
    assert kind_table()["gaps"] == GAPS


def test_contrast_is_that_of_the_standard() -> None:
    """Black on white has 21 to 1, a colour on itself 1 to 1, and the order does not matter."""
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#777777") == 1
    assert contrast("#ffffff", "#767676") == contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.01)


def test_the_style_sheet_has_both_themes() -> None:
    """Every colour is a custom property in both themes, and the page's own word wins over the system's."""
    sheet = style_sheet(".x")
    assert sheet.count("--k6:#0860ca") == 1
    assert sheet.count("--k6:#6cb6ff") == 2
    assert "data-jp-theme-light" in sheet and "prefers-color-scheme:dark" in sheet


def contrast(first: str, second: str) -> float:
    """Return the contrast ratio of two colours written #rrggbb, 1 to 21, as WCAG 2 defines it."""
    lighter, darker = sorted((_luminance(first), _luminance(second)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def _linear(colour: str) -> list[float]:
    parts = (int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5))
    return [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]


def _lab(colour: str, vision: tuple[tuple[float, ...], ...]) -> tuple[float, float, float]:
    red, green, blue = (max(0.0, min(1.0, sum(map(mul, row, _linear(colour))))) for row in vision)
    x, y, z = (
        part ** (1 / 3) if part > 0.008856 else 7.787 * part + 16 / 116
        for part in (
            (0.4124 * red + 0.3576 * green + 0.1805 * blue) / 0.95047, 0.2126 * red + 0.7152 * green + 0.0722 * blue,
            (0.0193 * red + 0.1192 * green + 0.9505 * blue) / 1.08883,
        )
    )  # fmt: skip
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def _luminance(colour: str) -> float:
    linear = _linear(colour)
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
