"""A page in a real browser that shows real widgets: their comm is replaced by one that forwards to the page.

The browser runs on a thread of its own, so that no event loop is left running on the tests' thread, and messages from
the page arrive on a foreign thread, as in some kernels. Every request to another host is aborted and counted.
"""

from __future__ import annotations

import asyncio
import base64
import os
import shutil
import threading
from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import pytest

from atops_widgets.feed.pace import call_soon

T = TypeVar("T")

FLAGS = (
    "--no-sandbox", "--disable-quic", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--no-first-run", "--disable-gpu", "--disable-dev-shm-usage",
)  # fmt: skip
SECONDS = 20.0
OWN = ("about:", "blob:", "data:", "file:")

# What a notebook gives a widget's module: a model with get, set, save_changes, on, off and send.
PAGE = """<!doctype html><html lang="en"><body><main></main><script>
window.errors = [];
addEventListener("error", (event) => errors.push(String(event.message)));
addEventListener("unhandledrejection", (event) => errors.push(String(event.reason)));
const models = {};
const sent = new Set();
const bytes = (text) => new DataView(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer);
window.show = async (id, script, style, state, buffers, theme) => {
  const told = {...state};
  for (const [name, text] of Object.entries(buffers)) told[name] = bytes(text);
  const heard = {};
  const model = models[id] ??= {
    get: (name) => told[name],
    set: (name, value) => { told[name] = value; },
    save_changes() {},
    on: (name, callback) => (heard[name] ??= []).push(callback),
    off: (name, callback) => { heard[name] = (heard[name] ?? []).filter((each) => each !== callback); },
    send(content) {
      const heard = window.toPython(id, content).finally(() => sent.delete(heard));
      sent.add(heard);
    },
    fire: (name, ...rest) => (heard[name] ?? []).forEach((callback) => callback(...rest)),
  };
  const sheet = document.createElement("style");
  sheet.textContent = style;
  document.head.append(sheet);
  document.body.dataset.jpThemeLight = String(theme === "light");
  document.body.style.background = theme === "light" ? "#ffffff" : "#111111";
  const el = document.createElement("div");
  el.id = `shown${document.querySelectorAll("main > div").length}`;
  document.querySelector("main").append(el);
  const url = URL.createObjectURL(new Blob([script], {type: "text/javascript"}));
  el.close = await (await import(url)).default.render({model, el});
  return el.id;
};
window.heard = async () => { while (sent.size) await Promise.allSettled(sent); };
window.deliver = (id, content, buffers) => models[id]?.fire("msg:custom", content, buffers.map(bytes));
window.update = (id, name, value) => { models[id]?.set(name, value); models[id]?.fire(`change:${name}`); };
</script></body></html>"""


def chromium() -> str:
    """Return the browser's path. Skips the test without one; fails it where ATOPS_REQUIRE_BROWSER is set."""
    found = os.environ.get("ATOPS_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        missing("no chromium is installed, and ATOPS_CHROMIUM names none")
    return str(found)


def missing(what: str) -> None:
    """Skip the test with a notice, or fail it where ATOPS_REQUIRE_BROWSER is set."""
    if os.environ.get("ATOPS_REQUIRE_BROWSER"):
        pytest.fail(what)
    pytest.skip(what)


class BrowserThread:
    """One browser, on a loop in a thread of its own."""

    def __init__(self) -> None:
        from playwright.async_api import async_playwright

        path = chromium()
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="browser", daemon=True)
        self._thread.start()
        self._starter = async_playwright()
        self.playwright: Any = self.call(self._starter.__aenter__)
        self.browser: Any = self.call(self.playwright.chromium.launch, executable_path=path, args=list(FLAGS))
        self.spare: list[Tab] = []  # blank ones: to make one takes most of a short test's time

    def call(self, function: Callable[..., Awaitable[T]], *arguments: Any, **options: Any) -> T:
        """Call an async function on the browser's thread, where playwright wants to be called; return its result."""

        async def run() -> T:
            return await function(*arguments, **options)

        return asyncio.run_coroutine_threadsafe(run(), self.loop).result(SECONDS)

    def close(self) -> None:
        """End the browser and its thread."""
        self.call(self.browser.close)
        self.call(self._starter.__aexit__)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(SECONDS)
        self.loop.close()


class PageComm:
    """A widget's comm that ends in a page."""

    kernel = True

    def __init__(self, host: Host, comm_id: str, dead: bool) -> None:
        self.host = host
        self.comm_id = comm_id
        self.frames = 0
        self.dead = dead  # its kernel is gone

    def send(self, data: Any = None, metadata: Any = None, buffers: Any = None) -> None:
        """Forward a custom message, or a changed trait, to the page; in order."""
        if self.dead:
            return
        texts = [base64.b64encode(bytes(buffer)).decode() for buffer in buffers or []]
        if data["method"] == "custom":
            self.frames += data["content"].get("type") == "frame"
            self.host.post("([id, content, buffers]) => deliver(id, content, buffers)",
                           [self.comm_id, data["content"], texts])  # fmt: skip

    def on_msg(self, callback: Any) -> None:
        """Ignore listeners: the page's messages go straight to the widget."""

    def on_close(self, callback: Any) -> None:
        """Ignore listeners of the end."""

    def close(self, *_: Any, **__: Any) -> None:
        """Send nothing any more."""
        self.dead = True


class Tab:
    """A page of the browser, which one host after another has: what happens in it is told to the one that has it."""

    def __init__(self) -> None:
        self.host: Host | None = None
        self.page: Any = None

    async def open(self, browser: Any) -> None:
        """Make the page."""
        context = await browser.new_context()
        await context.route("**/*", self._route)
        self.page = await context.new_page()
        self.page.on("console", lambda message: self._log(message.text))
        self.page.on("pageerror", lambda error: self._log(str(error)))
        await self.page.expose_function("toPython", self._to_python)

    def _log(self, text: str) -> None:
        if self.host is not None:
            self.host.log.append(text)

    async def _route(self, route: Any) -> None:
        if route.request.url.startswith(OWN):
            await route.continue_()
        else:
            if self.host is not None:
                self.host.requests.append(route.request.url)
            await route.abort()

    def _to_python(self, name: str, content: Any) -> None:
        if self.host is not None and name in self.host.widgets:
            self.host.hear(self.host.widgets[name], content)


NUMBERS = count()  # of widgets in pages: what a page was late to say reaches no widget of the next host


class Host:
    """One page. `requests` are the addresses on other hosts that were asked for, `log` what its console said."""

    def __init__(self, thread: BrowserThread, width: int = 1000, height: int = 900) -> None:
        self.thread = thread
        self.requests: list[str] = []
        self.log: list[str] = []
        self.widgets: dict[str, Any] = {}
        self.page: Any = None
        self._tab = thread.spare.pop() if thread.spare else Tab()
        thread.call(self._open, {"width": width, "height": height})

    def show(self, widget: Any, theme: str = "light", *, dead: bool = False, board: bool = False) -> Shown:
        """Show a widget at the end of the page, as a notebook cell would; a second time: a second view of it.

        `dead`: as a saved notebook does, whose kernel is gone: nothing the page says is heard. `board`: it is a board.
        """
        known = [name for name, each in self.widgets.items() if each is widget]
        name = known[0] if known else f"model{next(NUMBERS)}"
        self.widgets[name] = widget
        if not known:
            widget.comm = PageComm(self, name, dead)
        state = widget.get_state()
        binary = {key: base64.b64encode(value).decode() for key, value in state.items() if isinstance(value, bytes)}
        plain = {key: value for key, value in state.items() if key in ("table", "parts")}
        element = self.evaluate(
            "([id, script, style, state, buffers, theme]) => show(id, script, style, state, buffers, theme)",
            [name, str(widget._esm), str(widget._css), plain, binary, theme],
        )
        return Shown(self, widget, f"#{element} {'' if board else '> '}section")

    def open(self, path: Path) -> None:
        """Open an HTML file."""
        self.thread.call(self.page.goto, path.as_uri())

    def shown(self, selector: str) -> Shown:
        """Return a widget of a page that was opened, by the selector of its section."""
        return Shown(self, None, selector)

    def evaluate(self, script: str, argument: Any = None) -> Any:
        """Return what a function of JavaScript returns in the page."""
        return self.thread.call(self.page.evaluate, script, argument)

    def post(self, script: str, argument: Any) -> None:
        """Have a function called in the page, soon, in order. From any thread."""
        asyncio.run_coroutine_threadsafe(self._quietly(script, argument), self.thread.loop)

    def close(self) -> None:
        """Close the page and the widgets."""
        for widget in self.widgets.values():
            widget.close()
        self.thread.call(self.page.goto, "about:blank")
        self._tab.host = None
        self.thread.spare.append(self._tab)

    def hear(self, widget: Any, content: Any) -> None:
        """Hand a widget what the page says to it."""
        if widget.comm is not None and not widget.comm.dead:  # as in a kernel, where one that was closed has no comm
            widget._handle_custom_msg(content, [])

    async def _open(self, viewport: dict[str, int]) -> None:
        if self._tab.page is None:
            await self._tab.open(self.thread.browser)
        self._tab.host, self.page = self, self._tab.page
        await self.page.set_viewport_size(viewport)
        await self.page.set_content(PAGE)

    async def _quietly(self, script: str, argument: Any) -> None:
        from playwright.async_api import Error

        try:
            await self.page.evaluate(script, argument)
        except Error:
            if not self.page.is_closed():
                raise


class Shown:
    """One view of a widget in a page. In its JavaScript `view` is the script's View: rects, scene, marks, frame, ..."""

    def __init__(self, host: Host, widget: Any, selector: str) -> None:
        self.host = host
        self.widget = widget
        self.selector = selector

    def get(self, expression: str, argument: Any = None) -> Any:
        """Return the value of a JavaScript expression of `view` (and `argument`); what it sends has been heard."""
        value = self.host.evaluate(
            f"([selector, argument]) => {{ {self._view()} return {expression}; }}", [self.selector, argument]
        )
        self._hear()
        return value

    def until(self, condition: str, argument: Any = None) -> Any:
        """Wait until an expression of `view` is true, and return its value; what the page has sent has been heard.

        The view is brought into sight: out of it nothing is drawn. The test fails if it never is true.
        """
        script = f"""([selector, argument]) => {{
            {self._view()}
            if (view?.away) view.root.scrollIntoView({{block: "nearest"}});
            return view && view.scene && ({condition});
        }}"""
        value = self.host.thread.call(_value, self.host.page, script, [self.selector, argument])
        self._hear()
        return value

    def press(self, *keys: str) -> None:
        """Press keys with the canvas focused."""
        for key in keys:
            self.host.thread.call(self.host.page.locator(f"{self.selector} canvas").first.press, key)
        self._hear()

    def click(self, x: float, y: float, button: str | None = None) -> None:
        """Click at a place of the canvas, or, with its test id, on a button."""
        if button is not None:
            self.host.thread.call(self.host.page.locator(f"{self.selector} [data-testid={button}]").click)
        else:
            canvas = self.host.page.locator(f"{self.selector} canvas")
            self.host.thread.call(canvas.click, position={"x": x, "y": y})
        self._hear()

    def drag(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        """Drag from one place of the canvas to another."""
        box = self.host.thread.call(self.host.page.locator(f"{self.selector} canvas").bounding_box)
        mouse = self.host.page.mouse
        self.host.thread.call(mouse.move, box["x"] + start[0], box["y"] + start[1])
        self.host.thread.call(mouse.down)
        self.host.thread.call(mouse.move, box["x"] + end[0], box["y"] + end[1], steps=4)
        self.host.thread.call(mouse.up)
        self._hear()

    def screenshot(self, path: Path) -> None:
        """Write a picture of the widget."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self.host.thread.call(self.host.page.locator(self.selector).screenshot, path=path)

    def _hear(self) -> None:
        """Return when Python has done all that the page has asked for: what a test does next comes after it.

        In a notebook's page, where messages go through a kernel, it returns at once.
        """
        self.host.evaluate("() => window.heard?.()")
        done = threading.Event()
        call_soon(done.set)  # widgets answer on this thread, in order
        assert done.wait(SECONDS)

    def _view(self) -> str:
        return "const view = document.querySelector(selector)?.atops;"


async def _value(page: Any, script: str, argument: Any) -> Any:
    """Wait until a function in the page returns something true; return it."""
    return await (await page.wait_for_function(script, arg=argument, timeout=SECONDS * 900)).json_value()
