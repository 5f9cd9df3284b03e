"""What widgets of a program share that is run on a thread of its own: frames, messages, and pictures that stay."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from secrets import token_hex
from typing import Any, ClassVar, Final

import traitlets

from atops_widgets.drawing.base import LIVE, ClosingWidget, publish
from atops_widgets.drawing.page import module_script
from atops_widgets.drawing.theme import LAYOUT, style_sheet
from atops_widgets.feed.feed import NOTHING
from atops_widgets.feed.pace import call_soon
from atops_widgets.scheduler.player import Player
from atops_widgets.scheduler.told import KINDS, Told

__all__ = ("STYLE", "ProgramWidget")

STYLE: Final = """
.atops-columns{display:flex;margin-bottom:8px;flex-wrap:wrap;gap:6px 20px;align-items:flex-start}
.atops-columns>div{flex:1 1 300px;min-width:0}
.atops-scheduler h4{font-size:13px;margin:8px 0 4px;font-weight:600}
.atops-options{list-style:none;margin:0;padding:0;display:flex;flex-direction:column;gap:4px;max-height:27em;
overflow:auto;padding:1px}
.atops .atops-option{display:grid;grid-template-columns:auto auto 1fr;gap:0 8px;width:100%;text-align:left;
padding:4px 8px;align-items:baseline}
.atops .atops-option:hover{border-color:var(--select)}
.atops-option small{grid-column:3;font-size:12px;color:var(--quiet);overflow-wrap:anywhere}
.atops-option code,.atops-cells code{font:12px/1.35 ui-monospace,monospace;background:none;color:inherit;padding:0}
.atops-key{font:11px/16px ui-monospace,monospace;border:1px solid var(--line);border-radius:3px;width:18px;
text-align:center;color:var(--quiet)}
.atops-kind{font:600 11px/16px ui-monospace,monospace;border-radius:3px;width:18px;text-align:center;color:var(--on)}
.atops-cells{border-collapse:collapse;font-size:12px}
.atops .atops-cells :is(td,th){text-align:left;vertical-align:top;padding:2px 12px 2px 0;
border:0;background:none;color:inherit;white-space:normal}
.atops-cells th{font-weight:400;color:var(--quiet)}
.atops-cells mark{background:var(--select);color:var(--page);border-radius:2px;padding:0 2px}
.atops-cells ol{margin:0;padding-left:18px}
.atops-cells del{color:var(--quiet);text-decoration:line-through;margin-right:3px}
.atops .atops-field{font:12px ui-monospace,monospace;color:var(--ink);background:var(--page);
border:1px solid var(--line);border-radius:4px;padding:2px 6px;min-height:24px;flex:1 1 160px;min-width:0}
.atops-explorer ul{margin:0;padding-left:18px}
.atops-explorer h4{font-size:13px;margin:8px 0 4px;font-weight:600}
.atops-string{font:12px/1.35 ui-monospace,monospace;overflow-wrap:anywhere;color:var(--quiet);background:none}
.atops-failed{color:var(--failed)}
"""


class ProgramWidget(ClosingWidget):
    """A picture of what a Player does. Subclasses set `script` and `label` and write what is marked."""

    script: ClassVar[str] = ""
    label: ClassVar[str] = ""

    table = traitlets.Dict().tag(sync=True)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        if "script" in cls.__dict__:  # not the class that every instance gets for its traits
            cls._esm = module_script(cls.script)
            cls._css = style_sheet() + LAYOUT + STYLE
        super().__init_subclass__(**kwargs)

    def __init__(self, program: Any, options: dict[str, Any]) -> None:
        self._player = Player(program, options, self._changed)
        self._displays: list[str] = []
        self._ended = False
        self._frames = 0
        self._telling = threading.Lock()
        kinds = {kind: list(each) for kind, each in KINDS.items()}
        super().__init__(table={"label": self.label, "kinds": kinds})
        self.on_msg(self._arrived)

    # ---- what a subclass writes

    def _note(self) -> None:
        """Note where the player stands. On its threads, `_telling` held."""
        raise NotImplementedError

    def _frame(self, anew: bool) -> Told | None:
        """Return what pages are told; all of it `anew` where a page has only now been opened. None: nothing yet."""
        raise NotImplementedError

    def _heard(self, message: Told) -> None:
        """Do what a message of the widget's own asks for; unknown ones are ignored. On any thread; return at once."""

    def to_text(self, width: int = 100) -> str:
        """Return the picture as text, for a terminal and for a screen reader."""
        raise NotImplementedError

    def _still(self) -> str:
        """Return the picture as HTML without a script."""
        raise NotImplementedError

    def _kept(self) -> str:
        """Return the HTML that a notebook keeps of what is over."""
        return self.to_html()

    def _corner(self) -> str:
        """Return what stands in the corner."""
        return "ended" if self._ended else "live"

    # ---- for users

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return the picture as HTML that needs nothing else; write it to `path`."""
        text = self._still()
        if path is not None:
            Path(path).write_text(f"<!doctype html><meta charset=utf-8><title>{self.label}</title>{text}", "utf-8")
        return text

    def stop(self) -> None:
        """Keep the picture in the notebook as it is now: it needs no kernel any more. A check ends."""
        self._player.cancel()
        self._end()

    def close(self) -> None:
        """End a check and looking ahead, and take the views away. Closing twice is allowed."""
        if "_player" in self.__dict__:  # not of one that was refused
            self._player.close()
        super().close()

    def _end(self) -> None:
        """Put what needs no kernel in the place of the live picture. From any thread; doing so again does no harm."""
        self._ended = True
        if self._displays:
            over = self._over()
            for display in self._displays.copy():
                publish(over, display, update=True)

    def _over(self) -> dict[str, object]:
        return {"text/html": self._kept(), "text/plain": self.to_text()}

    # ---- the page

    def _changed(self) -> None:
        """Tell pages where it stands. On the player's threads."""
        with self._telling:
            self._note()
            self._send_frame(False)

    def _send_frame(self, anew: bool) -> None:
        told = self._frame(anew)
        if told is None:
            return
        self._frames += 1
        self.send({"type": "frame", "frame": self._frames, "columns": [], **self._scene(told)})

    def _scene(self, told: Told) -> Told:
        return {"state": self._corner(), "marks": {"seq": NOTHING, "before": [], "after": []}, **told}

    def _arrived(self, widget: object, content: object, buffers: object) -> None:
        match content:
            case {"type": "cancel"}:
                self._player.cancel()
            case {"type": "ping"}:
                self.send({"type": "ping"})
            case {"type": "hello" | "text" as kind}:
                call_soon(self._hello if kind == "hello" else self._text)
            case dict():
                self._heard(content)

    def _hello(self) -> None:
        with self._telling:
            self._send_frame(True)

    def _text(self) -> None:
        self.send({"type": "text", "text": self.to_text()})

    # ---- in a notebook

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, object], dict[str, object]]:
        """Return the live view, with a still picture for where no script runs; of what is over HTML alone; and text."""
        if self._ended:
            return self._over(), {}
        bundle = super()._repr_mimebundle_(**kwargs)
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle or {}, {})
        data["text/html"] = f"{self.to_html()}<p>{LIVE}</p>"
        data["text/plain"] = self.to_text()
        return data, metadata

    def _ipython_display_(self) -> None:
        """Show it in a cell."""
        data, metadata = self._repr_mimebundle_()
        display = f"atops-{token_hex(8)}"
        publish(data, display, metadata)
        self._displays.append(display)
        if self._ended:  # meanwhile
            self._end()
