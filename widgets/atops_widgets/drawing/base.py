"""The widget under every widget: frames to the page and messages from it, and the same picture as SVG, page and text.

A subclass names its script, a plain ES module beside its Python file, and makes scenes, SVG and text of a feed.
Messages from a page are handed to the widgets' thread, which alone makes frames.
"""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any, ClassVar, Final

import anywidget
import traitlets

from atops_widgets.drawing.scene import Scene, Window, pack, pack_snapshot
from atops_widgets.drawing.theme import LAYOUT, Theme, kind_table, style_sheet
from atops_widgets.feed.feed import NOTHING, Feed, FeedSource, feed_of
from atops_widgets.feed.links import saved_links
from atops_widgets.feed.pace import Flow, call_soon

__all__ = ("TraceWidget", "inline_script", "module_script", "page")

SHARED: Final = re.compile(r'^import \{[^}]*\} from "\.\./(drawing/\w+\.js)";\n', re.MULTILINE)
COMMENT_LINE: Final = re.compile(r"^\s*//.*\n", re.MULTILINE)
INDENTATION: Final = re.compile(r"^[ ]+", re.MULTILINE)
# Ends of lines where no statement ends, or one whose end is marked: behind an opening, before a closing.
NEEDLESS: Final = re.compile(r"(?<=[;{,(\[\n])\n+(?!export )|\n+(?=[})\]])")
EXPORT: Final = re.compile(r"^export (default )?", re.MULTILINE)


@cache
def module_script(name: str) -> str:
    """Return the ES module that a widget sends: the file `name` and what it shares, without comments and white space.

    No line of a script ends in a comment, and no text in it goes over several lines.
    """
    folder = files("atops_widgets")
    own = (folder / name).read_text(encoding="utf-8")
    text = "".join((folder / each).read_text(encoding="utf-8") for each in SHARED.findall(own)) + own
    text = SHARED.sub("", text)
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


def page(
    title: str, widgets: Sequence[TraceWidget], path: str | os.PathLike[str] | None, beside: Sequence[TraceWidget] = ()
) -> str:
    """Return an HTML page that needs nothing else; write it to `path`, if that is given.

    Widgets of one page are linked: what is selected in one is marked in all. Those in `beside` stand next to each other
    where there is room; the others have the whole width.
    """
    style = style_sheet(":is(.atops,.atops-page)") + LAYOUT
    parts = [HEAD.format(title=escape(title), style=style)]
    for number, widget in enumerate(widgets):
        name = f"widget{number}"
        held = {"snapshot": base64.b64encode(widget.packed()).decode(), "table": widget.table}
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
    text = "".join(parts) + "</main></body></html>\n"
    if path is not None:
        Path(path).write_text(text, encoding="utf-8")
    return text


TEXTS: Final = 100_000  # different names that a page is told


class TraceWidget(anywidget.AnyWidget):
    """A picture of a feed. Subclasses set `script` and `label` and write `scene`, `to_svg` and `to_text`.

    - `script`: the file of the ES module, beside the Python file.
    - `label`: the title of the picture.
    - `swatches`: what its legend has beside the kinds, numbered after them: a name and a small SVG each.
    - `details`, `threads`: whether it needs the driver's details (moments and changes), and steps of kernel threads.
    """

    script: ClassVar[str] = ""
    label: ClassVar[str] = ""
    swatches: ClassVar[Sequence[tuple[str, str]]] = ()
    details: ClassVar[bool] = False
    threads: ClassVar[bool] = False

    snapshot = traitlets.Bytes(b"").tag(sync=True)
    table = traitlets.Dict().tag(sync=True)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        if "script" in cls.__dict__:  # not the class that every instance gets for its traits
            cls._esm = module_script(cls.script)
            cls._css = style_sheet() + LAYOUT
        super().__init_subclass__(**kwargs)

    def __init__(self, source: FeedSource = None) -> None:
        """Show `source`: a driver (None: the current one), a trace, the path of a trace file, or a feed."""
        self.feed: Feed = feed_of(source)
        table = kind_table()
        table["swatches"] = [*table["swatches"], *(list(each) for each in self.swatches)]
        super().__init__(table={**table, "label": self.label, "script": self.script})
        self.window = Window()
        self.legend: Callable[[], list[int]] | None = None  # the kinds that it explains; None: those of its scene
        self._flow = Flow()
        self._dirty = False
        self._drawn = (-1, -1)
        self._texts_told = 0
        self.prepare()
        self.on_msg(self._arrived)
        if self.details:
            self.feed.ask_details()
        if self.threads:
            self.feed.ask_details(threads=True)
        self.feed.watch(self)

    # ---- what a subclass writes

    def prepare(self) -> None:
        """Make what scenes need; called once, when `feed` is there and before anything is drawn."""

    def scene(self, window: Window) -> Scene:
        """Return the picture of what `window` shows. The feed's lock is held."""
        raise NotImplementedError

    def to_svg(self, *, width: int = 960, theme: Theme | None = None) -> str:
        """Return the picture as one `<svg>` element; without a theme it follows the page it stands in."""
        raise NotImplementedError

    def to_text(self, width: int = 100) -> str:
        """Return the picture as text, for a terminal and for a screen reader."""
        raise NotImplementedError

    def heard(self, message: Mapping[str, object]) -> None:
        """Do what a message of the widget's own script asks for; then `redraw`. Unknown ones are ignored."""

    # ---- for users

    def redraw(self) -> None:
        """Send a new frame soon. From any thread."""
        self._dirty = True
        self.feed.wake()

    def close(self) -> None:
        """Take the views away and look no more. Closing twice is allowed."""
        self.feed.unwatch(self)
        super().close()

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return one HTML page that needs nothing else: picture, script and text; write it to `path`."""
        return page(self.label, [self], path)

    def packed(self) -> bytes:
        """Return the picture of everything as a saved notebook or a page holds it: compressed, with links."""
        with self.feed.lock:
            scene = self.scene(self.saved_window())
            columns, sites = saved_links(self.feed)
            told = self._told(scene) | {"saved": True, "text": self.to_text(), "sites": sites}
            told["texts"] = [0, self.feed.texts.all[:TEXTS]]
            return pack_snapshot(told, {**scene.columns, **columns})

    def saved_window(self) -> Window:
        """Return what a saved picture shows: everything, finer than a page is wide, so that one can zoom in."""
        return Window(width=4096)

    # ---- the feed's side: all on the widgets' thread

    def tick(self, now: float) -> float | None:
        """Send a frame if one is due; return when to come again, None when there is nothing to send."""
        feed = self.feed
        if not self._dirty and self._drawn == (feed.version, feed.marks_version):
            return None
        wait = self._flow.wait(now)
        if wait == 0.0:
            self._send_frame(now)
        return wait or None

    def rest(self) -> None:
        """Write the compressed picture that a saved notebook shows."""
        self.snapshot = self.packed()

    def _send_frame(self, now: float) -> None:
        with self.feed.lock:
            self._dirty = False
            self._drawn = self.feed.version, self.feed.marks_version
            try:
                scene = self.scene(self.window)
            except Exception as error:
                self.send({"type": "error", "text": f"{self.label} cannot be drawn: {type(error).__name__}: {error}"})
                raise
            told = self._told(scene)
            texts = self.feed.texts.all[self._texts_told : TEXTS]
            told["texts"] = [self._texts_told, texts]
            self._texts_told += len(texts)
        columns, buffer = pack(scene.columns)
        self.send({"type": "frame", "frame": self._flow.sent(now), "columns": columns, **told}, buffers=[buffer])

    def _told(self, scene: Scene) -> dict[str, Any]:
        """Return what travels as JSON with every frame: the scene's own, the feed's state, the marks."""
        feed = self.feed
        marks, origin = feed.marks(), feed.origin_ns
        first, last = feed.span()
        return {
            **scene.told,
            **({} if self.legend is None else {"kinds": self.legend()}),
            "origin": origin,  # widgets of one feed have it in common: their marks mean the same
            "span": [first - origin, last - origin],
            "state": "paused" if feed.paused else "live" if feed.live else "ended",
            "held": len(feed.records),
            "missed": feed.missed,
            "dropped": feed.records.start,
            "races": feed.told_races(),
            "marks": {
                "seq": marks.seq, "before": marks.before, "after": marks.after, "place": marks.place,
                "text": marks.text, "cursor": None if marks.cursor_ns is None else marks.cursor_ns - origin,
            },
        }  # fmt: skip

    def _arrived(self, _widget: object, content: object, _buffers: object) -> None:
        call_soon(self._receive, content)

    def _receive(self, content: object) -> None:
        """Do what a page asks for. What is not understood is ignored: a page may be older or newer than this."""
        if not isinstance(content, dict):
            return
        view = str(content.get("view", ""))
        match content:
            case {"type": "ack", "frame": int(frame)}:
                self._flow.acknowledge(view, frame)
                return
            case {"type": "hello", "frame": int(frame)}:
                self.window = Window.asked(content, self.feed.origin_ns)
                if self._flow.hello(view, frame):
                    self._texts_told = 0
                    self._dirty = True
            case {"type": "bye"}:
                self._flow.bye(view)
                return
            case {"type": "window"}:
                self.window = Window.asked(content, self.feed.origin_ns)
                self._dirty = True
            case {"type": "select", "seq": int(seq)}:
                self.feed.selection.select(seq)
            case {"type": "cursor", "at": int(at) | float(at)}:
                self.feed.selection.look_at(self.feed.origin_ns + int(at))
            case {"type": "cursor"}:
                self.feed.selection.look_at(None)
            case {"type": "pause", "on": bool(on)}:
                (self.feed.pause if on else self.feed.resume)()
            case {"type": "text"}:
                self.send({"type": "text", "text": self.to_text()})
            case _:
                self.heard(content)
        self.feed.wake()

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """Return the live view, beside it an SVG for where no script runs, and text for a terminal."""
        self.feed.poll()  # so that the SVG shows what is over by now
        if not self.feed.live and not self.snapshot:
            self.rest()
        bundle = super()._repr_mimebundle_(**kwargs)
        if bundle is not None:
            bundle[0]["text/html"] = self.to_svg()
            bundle[0]["text/plain"] = self.to_text()
        return bundle

    def __repr__(self) -> str:
        chosen = self.feed.selection.seq
        return f"<{type(self).__name__} of {self.feed!r}{f', {chosen} selected' if chosen != NOTHING else ''}>"
