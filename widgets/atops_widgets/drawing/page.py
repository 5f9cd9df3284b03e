"""The scripts of the widgets, and one HTML page with one or several of them, which fetches nothing.

A script is a plain ES module beside its Python file, joined with the base that all share. A page shows pictures and
text without scripts too.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from html import escape
from importlib.resources import files
from typing import Final, Protocol

from atops_widgets.drawing.theme import LAYOUT, Theme, style_sheet

__all__ = ("Drawable", "inline_script", "module_script", "page")

BASE: Final = "drawing/base.js"
IMPORT_OF_BASE: Final = re.compile(r'^import \{[^}]*\} from "\.\./drawing/base\.js";\n', re.MULTILINE)
COMMENT_LINE: Final = re.compile(r"^\s*//.*\n", re.MULTILINE)
INDENTATION: Final = re.compile(r"^[ ]+", re.MULTILINE)
# Ends of lines where no statement ends, or one whose end is marked: behind an opening, before a closing.
NEEDLESS: Final = re.compile(r"(?<=[;{,(\[\n])\n+(?!export )|\n+(?=[})\]])")
EXPORT: Final = re.compile(r"^export (default )?", re.MULTILINE)


@cache
def module_script(name: str) -> str:
    """Return the ES module that a widget sends: the base and the file `name`, without comments and white space.

    No line of a script ends in a comment, and no text in it goes over several lines.
    """
    folder = files("atops_widgets")
    own = (folder / name).read_text(encoding="utf-8")
    text = (folder / BASE).read_text(encoding="utf-8") + IMPORT_OF_BASE.sub("", own)
    return NEEDLESS.sub("", INDENTATION.sub("", COMMENT_LINE.sub("", text)))


def inline_script(name: str) -> str:
    """Return the same for a page's own `<script type="module">`: its default export is the constant `widget`."""
    text = EXPORT.sub(lambda match: "const widget = " if match[1] else "", module_script(name))
    return text.replace("</", "<\\/")


HEAD = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy" content="default-src 'none';script-src 'unsafe-inline';\
style-src 'unsafe-inline';img-src data:">
<title>{title}</title><style>{style}
body{{margin:0 auto;max-width:1280px;padding:12px;font:14px/1.4 system-ui,sans-serif}}
.atops-page{{background:var(--page);color:var(--ink);min-height:100vh;margin:-12px;padding:12px}}
.atops-page{{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,560px),1fr));gap:12px;\
align-content:start}}
.atops-part{{grid-column:1/-1;min-width:0}}.atops-beside{{grid-column:auto}}</style></head>
<body><main class="atops-page">
"""

# What a widget's script is given instead of a notebook's model: the saved picture, and no answers.
START = """{{
{script}
const held = {held};
const model = {{get: (name) => held[name], set() {{}}, save_changes() {{}}, on() {{}}, off() {{}}, send() {{}}}};
held.snapshot = new DataView(Uint8Array.from(atob(held.snapshot), (c) => c.charCodeAt(0)).buffer);
const el = document.getElementById("{name}");
el.replaceChildren();
el.nextElementSibling.remove();
widget.render({{model, el}});
}}
"""


class Drawable(Protocol):
    """What a page asks of a widget."""

    script: str
    label: str
    table: Mapping[str, object]

    def packed(self) -> bytes:
        """Return the compressed picture."""

    def to_svg(self, *, width: int = 960, theme: Theme | None = None) -> str:
        """Return the picture as SVG."""

    def to_text(self, width: int = 100) -> str:
        """Return the picture as text."""


def page(title: str, widgets: Sequence[Drawable], beside: Sequence[Drawable] = ()) -> str:
    """Return the page. Widgets of one page are linked: what is selected in one is marked in all.

    Those in `beside` stand next to each other where there is room; the others have the whole width.
    """
    style = style_sheet(":is(.atops,.atops-page)") + LAYOUT
    parts = [HEAD.format(title=escape(title), style=style)]
    for number, widget in enumerate(widgets):
        name = f"widget{number}"
        held = {"snapshot": base64.b64encode(widget.packed()).decode(), "table": dict(widget.table)}
        text = json.dumps(held, separators=(",", ":")).replace("</", "<\\/")
        parts += [
            f'<section class="atops-part{" atops-beside" * (widget in beside)}">\n'
            f'<div id="{name}">{widget.to_svg()}</div>\n',
            f"<details><summary>{escape(widget.label)} as text</summary>",
            f"<pre>{escape(widget.to_text())}</pre></details>\n",
            '<script type="module">',
            START.format(script=inline_script(widget.script), held=text, name=name),
            "</script>\n</section>\n",
        ]
    return "".join(parts) + "</main></body></html>\n"
