"""The widget under every widget: frames to the page and messages from it, and the same picture as SVG, page and text.

A subclass names its script, a plain ES module beside its Python file, and makes scenes, SVG and text of a feed.
Messages from a page are handed to the widgets' thread, which alone makes frames.
"""

from __future__ import annotations

import base64
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from secrets import token_hex
from typing import Any, ClassVar, Final

import anywidget
import traitlets
from IPython.core.interactiveshell import InteractiveShell

from atops.device.call_site import NAMERS
from atops_widgets.drawing.page import images, module_script, output, page
from atops_widgets.drawing.scene import Scene, Window, pack, pack_snapshot
from atops_widgets.drawing.theme import LAYOUT, Theme, kind_table, style_sheet
from atops_widgets.feed.feed import NOTHING, Feed, FeedSource, feed_of
from atops_widgets.feed.links import saved_links
from atops_widgets.feed.pace import Flow, call_soon

__all__ = ("LIVE", "ClosingWidget", "FeedWidget", "TraceWidget", "cell_shown", "publish")

TEXTS: Final = 100_000  # different names that a page is told
SAME_S: Final = 1.0  # how long a scene in which only the time has gone on is good
FARTHEST: Final = 1 << 62  # nanoseconds that a page may name
EXPECTED: Final = {
    "selected": "the number of a command, or -1 for none",
    "cursor": "a moment, in nanoseconds since the pictures' 0 (less than 146 years), or None for the newest",
    "span": "[start, end], in nanoseconds since the pictures' 0 and the start first, or [] for everything",
}  # of traits


def cell_shown(file: str) -> str | None:
    """Return what the file of a notebook's cell is called, `In[5]`; None for other files. From any thread."""
    known = InteractiveShell.instance().compile.format_code_name(file) if InteractiveShell.initialized() else None
    return None if known is None else known[1]


NAMERS.append(cell_shown)  # once a notebook imports this, its cells have names, whichever widget comes first

class ClosingWidget(anywidget.AnyWidget):
    """A widget that one thread may close while another one sends: what it says after its end is dropped."""

    def _send(self, msg: object, buffers: object = None) -> None:
        """Send a message. That of the base class reads `comm` again between its check and its use."""
        comm = self.comm
        if comm is not None and getattr(comm, "kernel", True) is not None:
            comm.send(data=msg, buffers=buffers)


class FeedWidget(ClosingWidget):
    """A widget that shows a feed. What is chosen in it are traits, both ways: set them, observe them, link them.

    - `selected`: the number of the selected command, -1 for none.
    - `cursor`: the moment of the time cursor in nanoseconds since the pictures' 0, None for the newest.
    - `paused`: whether reading stands still.

    Traits that change on the page or with the feed are set on the widgets' own thread: observers run there.
    """

    label: ClassVar[str] = ""

    selected = traitlets.Int(NOTHING).tag(sync=True)
    cursor = traitlets.Float(None, allow_none=True).tag(sync=True)
    paused = traitlets.Bool(False).tag(sync=True)

    def __init__(self, feed: Feed, **traits: Any) -> None:
        self.feed = feed
        self._displays: list[str] = []
        self._followed: object = None  # what the feed had when the traits were set to it
        self._follower = 0  # the thread that sets them
        super().__init__(**traits)
        self._follow()
        self.observe(self._chosen, ["selected", "cursor", "paused"])
        self.on_msg(self._arrived)
        if self.ticks:
            feed.watch(self)

    @traitlets.validate("selected", "cursor", "span")
    def _fitting(self, proposal: Mapping[str, Any]) -> object:
        """Return what is set if a picture can show it. Raises TraitError."""
        name, value = proposal["trait"].name, proposal["value"]
        if name == "selected":
            fits = NOTHING <= value < FARTHEST
        elif name == "cursor":
            fits = value is None or abs(value) < FARTHEST
        else:
            fits = not value or (len(value) == 2 and -FARTHEST < value[0] < value[1] < FARTHEST)
        if not fits:
            raise traitlets.TraitError(
                f"The '{name}' trait of a {type(self).__name__} instance expected {EXPECTED[name]}, not {value!r}."
            )
        return value

    # ---- what a subclass writes

    def module(self) -> str:
        """Return the ES module that draws it."""
        raise NotImplementedError

    def held(self) -> Mapping[str, object]:
        """Return what the module is given on a page without Python, as JSON holds it."""
        raise NotImplementedError

    def save(self) -> None:
        """Write the picture that a saved notebook shows into traits."""
        raise NotImplementedError

    def drawings(self) -> Mapping[str, str]:
        """Return its SVGs by their labels."""
        raise NotImplementedError

    def to_text(self, width: int = 100) -> str:
        """Return the picture as text, for a terminal and for a screen reader."""
        raise NotImplementedError

    def _arrived(self, widget: object, content: object, buffers: object) -> None:
        """Hear what a page says. On any thread."""
        raise NotImplementedError

    # ---- the feed's side: on the widgets' thread

    @property
    def ticks(self) -> bool:
        """True for what the feed tells of news; not so a part of a board, which tells its parts."""
        return True

    @property
    def seen(self) -> bool:
        """True while a page shows it."""
        raise NotImplementedError

    def tick(self, now: float) -> float | None:
        """Send what is due; return in how many seconds to come again, None when there is nothing to do."""
        raise NotImplementedError

    def rest(self) -> None:
        """Save the picture; where no more will come, put it in the place of the live one."""
        self.save()
        if not self.feed.live:
            self._follow()
            for display in self._displays:
                publish(self._over(), display, update=True)
            self._displays.clear()

    def _follow(self) -> None:
        selection, origin = self.feed.selection, self.feed.origin_ns
        state = selection.seq, selection.cursor_ns, self.feed.paused, origin
        if state == self._followed:
            return
        self._followed = state
        self._follower = threading.get_ident()
        try:
            self.selected = selection.seq
            self.cursor = None if selection.cursor_ns is None else float(selection.cursor_ns - origin)
            self.paused = self.feed.paused
        finally:
            self._follower = 0

    def _chosen(self, change: Mapping[str, Any]) -> None:
        """Do what a trait that was set asks for. The feed's own news, which may be older than its state, do nothing."""
        if self._follower == threading.get_ident():
            return
        self._followed = None
        feed, value = self.feed, change["new"]
        if change["name"] == "selected":
            feed.selection.select(value)
        elif change["name"] == "cursor":
            feed.selection.look_at(None if value is None else feed.origin_ns + int(value))
        else:
            (feed.pause if value else feed.resume)()

    # ---- for users

    def close(self) -> None:
        """Take the views away and look no more. Closing twice is allowed."""
        self.feed.unwatch(self)
        super().close()

    def __del__(self) -> None:
        if "feed" in self.__dict__:  # else its making has failed, and there is nothing to close
            super().__del__()

    # ---- in a notebook

    def _over(self) -> dict[str, object]:
        """Return what a notebook shows of what is over: HTML that needs neither kernel nor network."""
        return {"text/html": output(self, images(self)), "text/plain": self.to_text()}

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, object], dict[str, object]]:
        """Return the live view, with an SVG for where no script runs; of what is over HTML alone; and text."""
        self.feed.poll()  # so that the SVG shows what is over by now
        if not self.feed.live:
            return self._over(), {}
        bundle = super()._repr_mimebundle_(**kwargs)
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle or {}, {})
        data["text/html"] = f"{images(self)}<p>{LIVE}</p>"
        data["text/plain"] = self.to_text()
        return data, metadata

    def _ipython_display_(self) -> None:
        """Show it in a cell. A live picture can be replaced there when it is over."""
        data, metadata = self._repr_mimebundle_()
        display = f"atops-{token_hex(8)}"
        if self.feed.live:
            self._displays.append(display)
        publish(data, display, metadata)


LIVE: Final = "This was live; it stands here as it was when its cell ran. Call stop() to keep the picture itself."


def publish(
    data: dict[str, object], display: str, metadata: dict[str, object] | None = None, *, update: bool = False
) -> None:
    """Show data in the cell that runs, or in the place where `display` was shown. Without a notebook do nothing."""
    if InteractiveShell.initialized():
        publisher = InteractiveShell.instance().display_pub
        publisher.publish(data=data, metadata=metadata, transient={"display_id": display}, update=update)


class TraceWidget(FeedWidget):
    """A picture of a feed. Subclasses set `script` and `label` and write `scene`, `to_svg` and `to_text`.

    - `script`: the file of the ES module, beside the Python file.
    - `label`: the title of the picture.
    - `swatches`: what its legend has beside the kinds, numbered after them: a name and a small SVG each.
    - `timed`: whether it shows the time that a timeline of the same feed shows.
    - `details`, `threads`: whether it needs the driver's details (moments and changes), and steps of kernel threads.
    """

    script: ClassVar[str] = ""
    swatches: ClassVar[Sequence[tuple[str, str]]] = ()
    timed: ClassVar[bool] = False
    details: ClassVar[bool] = False
    threads: ClassVar[bool] = False

    snapshot = traitlets.Bytes(b"").tag(sync=True)
    table = traitlets.Dict().tag(sync=True)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        if "script" in cls.__dict__:  # not the class that every instance gets for its traits
            cls._esm = module_script(cls.script)
            cls._css = style_sheet() + LAYOUT
        super().__init_subclass__(**kwargs)

    def __init__(self, source: FeedSource = None, *, board: object = None) -> None:
        """Show `source`: a driver (None: the current one), a trace, the path of a trace file, or a feed.

        `board` is the comm of a part of a board, which shows and saves its parts.
        """
        table = kind_table()
        table["swatches"] = [*table["swatches"], *(list(each) for each in self.swatches)]
        self.board = board
        self.window = Window()
        self.legend: Callable[[], list[int]] | None = None  # the kinds that it explains; None: those of its scene
        self._flow = Flow()
        self._dirty = False
        self._drawn = (-1, -1)
        self._shown: tuple[object, float] = None, 0.0  # what the last scene was of, and when it was made
        self._texts_told = 0
        own = {} if board is None else {"comm": board}
        feed = feed_of(source)
        self.feed = feed
        self.prepare()
        super().__init__(feed, table={**table, "label": self.label, "script": self.script}, **own)
        if board is not None:
            self.comm = board  # a notebook such as marimo gives each widget that is made a comm of its own
        if self.details:
            self.feed.ask_details()
        if self.threads:
            self.feed.ask_details(threads=True)

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

    def shows(self) -> object:
        """Return a value that changes whenever the scene does; None where any news may change it.

        The axis of time does not count: it goes on all the time. The feed's lock is held.
        """
        return None

    def heard(self, message: Mapping[str, object]) -> None:
        """Do what a message of the widget's own script asks for; then `redraw`. Unknown ones are ignored."""

    # ---- for users

    def redraw(self) -> None:
        """Send a new frame soon. From any thread."""
        self._dirty = True
        self.feed.wake()

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return one HTML page that needs nothing else: picture, script and text; write it to `path`."""
        return page(self.label, self, path)

    def module(self) -> str:
        """Return the ES module that draws it."""
        return module_script(self.script)

    def drawings(self) -> dict[str, str]:
        """Return its SVG by its label."""
        return {self.label: self.to_svg()}

    def held(self) -> dict[str, object]:
        """Return what the module is given on a page without Python."""
        return {"snapshot": base64.b64encode(self.packed()).decode(), "table": self.table}

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

    @property
    def ticks(self) -> bool:
        """True unless it is a part of a board."""
        return self.board is None

    @property
    def seen(self) -> bool:
        """True while a page shows it, in sight or not."""
        return bool(self._flow.views or self._flow.away)

    def tick(self, now: float) -> float | None:
        """Send a frame if one is due; return when to come again, None when there is nothing to send."""
        feed = self.feed
        self._follow()
        if not self._dirty and self._drawn == (feed.version, feed.marks_version):
            return None
        wait = self._flow.wait(now)
        if wait == 0.0:
            self._send_frame(now)
        return wait or None

    def save(self) -> None:
        """Write the compressed picture that a saved notebook shows."""
        self.snapshot = self.packed()

    def _send_frame(self, now: float) -> None:
        with self.feed.lock:
            shows, (shown, made_at) = self.shows(), self._shown
            same = shows is not None and shows == shown and not self._dirty and now - made_at < SAME_S
            self._dirty = False
            self._drawn = self.feed.version, self.feed.marks_version
            try:
                scene = Scene() if same else self.scene(self._asked())
            except Exception as error:
                self.send({"type": "error", "text": f"{self.label} cannot be drawn: {type(error).__name__}: {error}"})
                raise
            if not same:
                self._shown = shows, now
            told = self._told(scene)
            texts = self.feed.texts.all[self._texts_told : TEXTS]
            told["texts"] = [self._texts_told, texts]
            self._texts_told += len(texts)
        columns, buffer = pack(scene.columns)
        header = {} if same else {"columns": columns}  # without it the page keeps the scene that it has
        self.send({"type": "frame", "frame": self._flow.sent(now), **header, **told}, buffers=[buffer])

    def _asked(self) -> Window:
        """Return the window that the page asks for, with the span of time of a timeline beside it."""
        span = self.feed.selection.span
        return self.window if span is None or not self.timed else replace(self.window, start_ns=span[0], end_ns=span[1])

    def _told(self, scene: Scene) -> dict[str, object]:
        """Return what travels as JSON with every frame: the scene's own, the feed's state, the marks."""
        feed = self.feed
        marks, origin = feed.marks(), feed.origin_ns
        folding, opened = feed.folding(), feed.selection.opened
        return {
            **scene.told,
            **({} if self.legend is None else {"kinds": self.legend()}),
            "origin": origin,  # widgets of one feed have it in common: their marks mean the same
            "span": [folding.first - origin, folding.last - origin],
            "gaps": [[start - origin, end - origin] for start, end in folding.gaps],
            "left": folding.left,
            "state": "paused" if feed.paused else "live" if feed.live else "ended",
            "held": len(feed.records),
            "behind": feed.behind_s,
            "lost": feed.lost(),
            "races": feed.told_races(),
            "marks": {
                "seq": marks.seq, "before": marks.before, "after": marks.after, "place": marks.place,
                "text": marks.text, "cursor": None if marks.cursor_ns is None else marks.cursor_ns - origin,
                "open": sorted(start - origin for start in opened),
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
            case {"type": "away"}:
                self._flow.leave(view)
                return
            case {"type": "bye"}:
                self._flow.bye(view)
                self.feed.unseen()
                return
            case {"type": "window"}:
                self.window = Window.asked(content, self.feed.origin_ns)
                self._dirty = True
            case {"type": "select" | "cursor" | "open"}:
                self._mark(content)
            case {"type": "pause", "on": bool(on)}:
                (self.feed.pause if on else self.feed.resume)()
            case {"type": "text" | "ping" as kind}:
                self.send({"type": kind, "text": self.to_text() if kind == "text" else ""})
            case _:
                self.heard(content)
        self.feed.wake()

    def _mark(self, content: Mapping[str, object]) -> None:
        """Select a command, move the time cursor, or say which idle gaps are drawn to scale."""
        selection, origin = self.feed.selection, self.feed.origin_ns
        match content:
            case {"type": "select", "seq": int(seq)}:
                selection.select(seq)
            case {"type": "cursor", "at": int(at) | float(at)}:
                selection.look_at(origin + int(at))
            case {"type": "cursor"}:
                selection.look_at(None)
            case {"type": "open", "gaps": [*starts]}:
                whole = (start for start in starts if isinstance(start, int | float) and abs(start) < FARTHEST)
                selection.open(origin + int(start) for start in whole)

    def __repr__(self) -> str:
        chosen = self.feed.selection.seq
        return f"<{type(self).__name__} of {self.feed!r}{f', {chosen} selected' if chosen != NOTHING else ''}>"
