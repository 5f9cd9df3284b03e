"""Scripts as they are sent, and pictures as HTML: a page of its own, or what a notebook keeps of what is over.

Both hold the picture as SVG, which is seen where no script runs, and the script with what it draws, which needs no
kernel and fetches nothing.
"""

from __future__ import annotations

import json
import os
import re
from base64 import b64encode
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache
from html import escape
from importlib.resources import files
from itertools import count
from pathlib import Path
from secrets import token_hex
from typing import Final, Protocol

from atops_widgets.drawing.theme import LAYOUT, style_sheet

__all__ = ("Picture", "Scripted", "below", "board_script", "images", "inline_script", "module_script", "output", "page")

SHARED: Final = re.compile(r'^import \{[^}]*\} from "\.\./(drawing/\w+\.js)";\n', re.MULTILINE)
COMMENT_LINE: Final = re.compile(r"^\s*//.*\n", re.MULTILINE)
INDENTATION: Final = re.compile(r"^[ ]+", re.MULTILINE)
# Ends of lines where no statement ends, or one whose end is marked: behind an opening, before a closing.
NEEDLESS: Final = re.compile(r"(?<=[;{},(\[\n])\n+(?!export )|\n+(?=[})\]])")
# Texts, which stay as they are, and signs that need no room around them. No template stands in a template.
SIGN: Final = re.compile(
    r"""("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\.)*`)"""
    r"| *;(?=\})"  # needless there
    r"| *(=>|===?|!==?|[-+*/]=|<=|>=|&&|\|\||\?\?=?|[=,;:?{}()<>*]) *"
    r"| ([-+/%]) (?![-+/])"  # not where two would become one
)
CONSTANTS: Final = re.compile(r"^((?:const|let) [^;\n]*);\n(?:const|let) ", re.MULTILINE)  # two, which may be one
# Names outside of texts, but for those of properties.
NAME: Final = re.compile(r'"(?:[^"\\\n]|\\.)*"|(?:(?<=\.\.\.)|(?<![.\w$]))[a-zA-Z]\w{3,}\b')
CALLED: Final = re.compile(r"^(?:(?:async )?function |const )(\w+)(?:\(| = \()", re.MULTILINE)
# Where a name is handed on alone, and where a property or a method has it.
ALONE: Final = re.compile(r"(?<![.\w])(?<!: )(?<!=> )\w+\b(?!\(| = \()")
METHOD: Final = re.compile(r"^ +(\w+)\(.*\{$", re.MULTILINE)
WORD: Final = re.compile(r"\w+")
# One name in brackets before an arrow, which needs none; and what keeps a name, for which another word does as well.
LONGER: Final = re.compile(r"(?<!\w)\((\w+|\$)\)=>|\bconst(?=\{| [\w$\[])")
MOST: Final = {  # names that no property has, and constants; "$m" is Math
    "view": "$", "event": "_", "rect": "$_", "showAll": "$a", "timeAt": "$t", "nextRaced": "$r", "listenToWheel": "$w",
    "strong": "$s", "within": "$i", "Math": "$m", "true": "!0", "false": "!1",
}  # fmt: skip
CONSTANT: Final = re.compile(r"\b([A-Z][A-Z_]{3,}) = ")
TRAILING: Final = re.compile(r",(?=\n[\])}])")
FUNCTION: Final = re.compile(r"^export (?:async )?function (\w+)\(.*?^\}\n", re.MULTILINE | re.DOTALL)
EXPORT: Final = re.compile(r"^export (default\b ?)?", re.MULTILINE)


def _read(name: str) -> str:
    return (files("atops_widgets") / name).read_text(encoding="utf-8")


def _small(text: str) -> str:
    """Return a script without comments and white space. No line ends in a comment, no text goes over several lines."""
    bare = INDENTATION.sub("", COMMENT_LINE.sub("", text))
    while (fewer := CONSTANTS.sub(r"\1,", bare)) != bare:
        bare = fewer
    bare = NEEDLESS.sub("", TRAILING.sub("", bare))
    shorter = _shorter(text)
    bare = SIGN.sub(lambda match: match[1] or match[2] or match[3] or "", bare)
    bare = NAME.sub(lambda match: shorter.get(match[0], match[0]), bare)
    bare = LONGER.sub(lambda match: f"{match[1]}=>" if match[1] else "let", bare)
    return f"let $m=Math;{bare}" if "$m." in bare else bare


def _shorter(text: str) -> dict[str, str]:
    """Return shorter names: of what is named most, of constants, and of functions that are called or values."""
    elsewhere = {*ALONE.findall(text), *METHOD.findall(text)}
    names = [name for name in CALLED.findall(text) if name not in elsewhere]
    names += dict.fromkeys(CONSTANT.findall(text))
    return {**MOST, **{name: f"${number}" for number, name in enumerate(names)}}


def _shared(names: Iterable[str], own: str) -> str:
    """Return what a widget shares with others: those of the functions that are called from it, or from each other."""
    text = "".join(map(_read, names))
    while True:
        named = Counter(WORD.findall(text + own))
        left = FUNCTION.sub(lambda match: match[0] if named[match[1]] > 1 else "", text)  # noqa: B023
        if left == text:
            return text
        text = left


@cache
def module_script(name: str, exports: bool = False) -> str:
    """Return the ES module that a widget sends: the file `name` and what it shares, made small.

    With `exports` it gives out all of its functions, for tests of them.
    """
    own = _read(name)
    text = SHARED.sub("", _shared(SHARED.findall(own), SHARED.sub("", own)) + own)
    return _small(text if exports else EXPORT.sub(lambda match: match[0] if match[1] else "", text))


@cache
def board_script(names: tuple[str, ...]) -> str:
    """Return the ES module of a board of several widgets: what they share once, and each in a scope of its own."""
    owns = {name: _read(name) for name in names}
    shared = dict.fromkeys(each for own in owns.values() for each in SHARED.findall(own))
    parts = [EXPORT.sub("", SHARED.sub("", _read(each))) for each in shared]
    parts.append("const widgets = {};\n")
    for name, own in owns.items():
        body = EXPORT.sub(lambda match: f'widgets["{name}"] = ' if match[1] else "", SHARED.sub("", own))  # noqa: B023
        parts.append(f"{{\n{body}}}\n")
    return _small("".join(parts) + _read("board.js"))


def inline_script(module: str) -> str:
    """Return a module for a page's own `<script type="module">`: its default export is the constant `widget`."""
    text = EXPORT.sub(lambda match: "const widget = " if match[1] else "", module)
    return text.replace("</", "<\\/")


class Scripted(Protocol):
    """What a script draws without Python."""

    def module(self) -> str:
        """Return the ES module that draws it."""

    def held(self) -> Mapping[str, object]:
        """Return what the module is given, as JSON holds it."""


class Picture(Scripted, Protocol):
    """What can be put into a page: a widget, or a board of several."""

    label: str

    def drawings(self) -> Mapping[str, str]:
        """Return its SVGs by their labels, for where no script runs."""

    def to_text(self) -> str:
        """Return the picture as text."""


HEAD: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy" content="default-src 'none';script-src 'unsafe-inline';\
style-src 'unsafe-inline';img-src data:">
<title>{title}</title><style>{style}
body{{margin:0 auto;max-width:1280px;padding:12px;font:14px/1.4 system-ui,sans-serif}}
.atops-page{{background:var(--page);color:var(--ink);min-height:100vh;margin:-12px;padding:12px}}</style></head>
<body><main class="atops-page">
"""

# What a script is given instead of a notebook's model: the saved picture, and no answers.
START: Final = """{{
{script}
const held = {held};
const model = {{get: (name) => held[name], set() {{}}, save_changes() {{}}, on() {{}}, off() {{}}, send() {{}}}};
const el = document.getElementById("{name}");
if (el) {{ el.replaceChildren(); widget.render({{model, el}}); }}
}}
"""
NUMBERS: Final = count()
PLACE: Final = token_hex(4)  # of this process: cells of one notebook may have been run by several


def _body(picture: Scripted, name: str, still: str) -> str:
    text = json.dumps(picture.held(), separators=(",", ":")).replace("</", "<\\/")
    script = START.format(script=inline_script(picture.module()), held=text, name=name)
    return f'<div id="{name}">{still}</div>\n<script type="module">{script}</script>\n'


def page(title: str, picture: Picture, path: str | os.PathLike[str] | None) -> str:
    """Return an HTML page that needs nothing else; write it to `path`, if that is given."""
    text = (
        f"{HEAD.format(title=escape(title), style=style_sheet(':is(.atops,.atops-page)') + LAYOUT)}"
        f"{_body(picture, 'atops-picture', below(picture.drawings().values()))}"
        f"<details><summary>{escape(picture.label)} as text</summary>"
        f"<pre>{escape(picture.to_text())}</pre></details>\n</main></body></html>\n"
    )
    if path is not None:
        Path(path).write_text(text, encoding="utf-8")
    return text


def output(picture: Scripted, still: str, style: str = "") -> str:
    """Return HTML for a cell of a notebook: a still picture, and in its place one that zooms where scripts run."""
    name = f"atops-{PLACE}-{next(NUMBERS)}"
    styles = f"{style_sheet(':is(.atops,.atops-board)')}{LAYOUT}{style}"
    return f"<style>{styles}</style>\n{_body(picture, name, still)}"


def images(picture: Picture) -> str:
    """Return its SVGs as images: of a notebook that is not trusted JupyterLab shows these, and no `<svg>`."""
    return below(
        f'<img alt="{escape(label)}" src="data:image/svg+xml;base64,{b64encode(svg.encode()).decode()}">'
        for label, svg in picture.drawings().items()
    )


def below(parts: Iterable[str]) -> str:
    """Return pictures below each other."""
    return "".join(f"<div>{each}</div>" for each in parts)
