"""Colours, patterns and letters of everything the widgets draw, for light and dark pages, and their style sheets.

A colour never stands alone: every kind also has the glyph that the text timeline draws for it, and a hatch. Shapes have
a contrast of at least 3 with the page and text one of at least 4.5, on shapes too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from typing import Final, Literal, TypeAlias

from atops.base.trace.records import Kind
from atops.trace.colours import HATCHES, LOOKS, PAGE, Hatch
from atops.trace.text import GLYPHS
from atops.trace.words import KIND_NAMES
from atops_widgets.feed.host import PROGRAM_WAITS

__all__ = (
    "GAPS",
    "HATCHES",
    "KINDS",
    "LAYOUT",
    "NAMES",
    "PAGE",
    "STYLES",
    "THINNEST",
    "KindStyle",
    "Theme",
    "kind_table",
    "style_sheet",
)  # fmt: skip

Theme: TypeAlias = Literal["light", "dark"]


@dataclass(frozen=True, slots=True)
class KindStyle:
    """The look of one kind: its colour on light and on dark pages, its hatch and its letter."""

    light: str
    dark: str
    hatch: Hatch
    glyph: str


KINDS: Final[Mapping[Kind, KindStyle]] = {
    kind: KindStyle(light, dark, hatch, GLYPHS[kind]) for kind, light, dark, hatch in LOOKS
}

# Styles and names by number, of all that is drawn as a kind.
STYLES: Final[Mapping[int, KindStyle]] = {
    **{int(kind): style for kind, style in KINDS.items()},
    PROGRAM_WAITS: KindStyle("#75560c", "#b8a05c", "falling", "_"),
}
NAMES: Final[Mapping[int, str]] = {
    **{int(kind): name for kind, name in KIND_NAMES.items()}, PROGRAM_WAITS: "the program waits",
}  # fmt: skip

THINNEST: Final = 4  # pixels: below, a shape has gaps in place of its hatch
# Where these gaps are, in parts of the height of a shape.
GAPS: Final[Mapping[Hatch, tuple[float, ...]]] = {
    "none": (), "rising": (0.25,), "falling": (0.75,), "dots": (0.2, 0.5, 0.8), "level": (0.35, 0.65),
    "upright": (0.5,), "cross": (0.15, 0.85),
}  # fmt: skip


def kind_table() -> dict[str, list[list[str]] | dict[Hatch, str] | dict[Hatch, tuple[float, ...]]]:
    """Return what the scripts need of the kinds, by number: name, glyph and hatch; colours are in the style sheet.

    `swatches` are entries of a legend, a name and a small SVG each.
    """
    return {
        "kinds": [[NAMES[kind], style.glyph, style.hatch] for kind, style in STYLES.items()],
        "hatches": dict(HATCHES),
        "gaps": dict(GAPS),
        "swatches": [[NAMES[kind], _swatch(kind)] for kind in STYLES],
    }


def _swatch(kind: int) -> str:
    colour, hatch = f'fill="var(--k{int(kind)})"', HATCHES[STYLES[kind].hatch]
    return (
        f'<svg width="22" height="14"><rect width="22" height="14" rx="2" {colour}/>'
        '<g stroke="var(--on)" stroke-opacity=".3" stroke-width="1.4">'
        f'<path d="{hatch}"/><path d="{hatch}" transform="translate(8)"/></g>'
        f'<rect x="5" width="12" height="14" {colour}/>'
        '<text x="11" y="11" text-anchor="middle" font-size="12" font-family="monospace" fill="var(--on)">'
        f"{escape(STYLES[kind].glyph)}</text></svg>"
    )


def style_sheet(scope: str = ".atops") -> str:
    """Return the colours as custom properties of what `scope` selects: `--k6` of kind 6, `--page`, `--ink`, ...

    The page's own choice wins: what Jupyter and VS Code write on the body, or `data-theme` on the element; else the
    system's preference decides.
    """
    light, dark = _variables("light"), _variables("dark")
    told = "[data-jp-theme-light],.vscode-dark,.vscode-light"
    return (
        f"{scope}{{{light}color-scheme:light}}"
        f"@media (prefers-color-scheme:dark){{:where(body:not({told})) {scope}:not([data-theme])"
        f"{{{dark}color-scheme:dark}}}}"
        f"body[data-jp-theme-light=false] {scope}:not([data-theme]),body.vscode-dark {scope}:not([data-theme]),"
        f"{scope}[data-theme=dark]{{{dark}color-scheme:dark}}"
    )


def _variables(theme: Theme) -> str:
    which = 0 if theme == "light" else 1
    named = {name: both[which] for name, both in PAGE.items()}
    named |= {f"k{int(kind)}": style.light if theme == "light" else style.dark for kind, style in STYLES.items()}
    return "".join(f"--{name}:{colour};" for name, colour in named.items())


LAYOUT: Final = """
.atops-board{display:flex;flex-wrap:wrap;gap:6px;background:var(--page)}
.atops-part{flex:1 1 100%;min-width:0}.atops-beside{flex:1 1 400px;min-width:min(100%,400px)}
.atops-beside>.atops{height:100%}
.atops{background:var(--page);color:var(--ink);font:13px/1.4 system-ui,sans-serif;padding:6px 8px;position:relative;
border:1px solid var(--grid);border-radius:4px;box-sizing:border-box;max-width:100%}
.atops *{box-sizing:border-box}
.atops-bar{display:flex;flex-wrap:wrap;gap:4px;align-items:center;margin-bottom:4px}
.atops-title{font-weight:600;margin-right:6px}
.atops button,.atops select{font:inherit;color:var(--ink);background:var(--band);border:1px solid var(--line);
border-radius:4px;padding:1px 8px;min-height:24px;cursor:pointer}
.atops input[type=search]{font:inherit;color:var(--ink);background:var(--page);border:1px solid var(--line);
border-radius:4px;padding:1px 6px;min-height:24px}
.atops input::placeholder{color:var(--quiet);opacity:1}
.atops button[aria-pressed=true]{background:var(--ink);color:var(--page)}
.atops button:disabled,.atops input:disabled{opacity:.5;cursor:default}
.atops :focus-visible{outline:2px solid var(--select);outline-offset:1px}
.atops canvas{display:block;width:100%;touch-action:pan-y}
.atops-note{color:var(--quiet);margin-left:auto}
.atops-say{margin:4px 0 0;min-height:1.4em;overflow-wrap:anywhere}
.atops-say button{border:0;background:none;padding:0;min-height:0;text-decoration:underline}
.atops-legend{display:flex;flex-wrap:wrap;gap:2px 14px;margin:4px 0 0;padding:0;list-style:none}
.atops-legend li{display:flex;align-items:center;gap:5px}
.atops details{margin-top:4px}
.atops pre{overflow:auto;max-height:30em;margin:4px 0;font:12px/1.35 ui-monospace,monospace;color:var(--ink);
background:var(--band);padding:6px}
"""
