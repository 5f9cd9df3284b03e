"""Being the scheduler in a browser: by keys, by pointer and for a screen reader."""

from __future__ import annotations

import pytest

from atops_widgets import Scheduler
from tests.widgets.host import Host, Shown
from tests.widgets.pictures import keep
from tests.widgets.scheduler_programs import late, long

pytestmark = pytest.mark.slow

FIRST = "view.root.querySelector('.atops-option')"


def shows(host: Host, scheduler: Scheduler, theme: str = "light") -> Shown:
    """Show it, and return when it is drawn."""
    shown = host.show(scheduler, theme)
    shown.until("view.rects.length > 0")
    return shown


def test_keys_pick_go_back_and_finish(host: Host) -> None:
    """Digits pick, arrows go back and forth, f has the rest come, Home begins anew; the sentence tells it politely."""
    scheduler = Scheduler(late)
    shown = shows(host, scheduler)
    names = [option.name for option in scheduler.choices()]
    shown.press("2")
    shown.until("view.run.position === 1 && view.say.textContent.includes('Step')")
    assert scheduler.stepper.picks == (names[1],) and shown.get("view.say.ariaLive") == "polite"
    shown.press("ArrowLeft")
    shown.until("view.run.position === 0 && view.run.known === 1")
    shown.press("ArrowRight")
    shown.until("view.run.position === 1")
    shown.press("1")
    shown.until("view.run.position === 2")
    shown.press("b", "b")
    shown.until("view.run.position === 0 && view.run.known === 2")
    shown.press("End")
    shown.until("view.run.position === 2")
    shown.press("f")
    shown.until("view.run.over && view.field.value.startsWith('v1.')")
    assert "It passed" in shown.get("view.say.textContent") and scheduler.verdict == "passed"
    shown.press("Home")
    shown.until("view.run.position === 0 && view.run.options.length === argument", len(names))


def test_options_are_buttons_that_keep_the_focus(host: Host) -> None:
    """Tab leads to the choices, arrows go through them, Enter picks, and the focus stays among them."""
    scheduler = Scheduler(late)
    shown = shows(host, scheduler)
    shown.get(f"{FIRST}.focus()")
    keyboard = host.page.keyboard
    host.thread.call(keyboard.press, "ArrowDown")
    assert shown.get("document.activeElement.dataset.testid") == "atops-option-2"
    host.thread.call(keyboard.press, "Enter")
    shown.until("view.run.position === 1 && document.activeElement.dataset.testid?.startsWith('atops-option')")
    host.thread.call(keyboard.press, "b")
    shown.until("view.run.position === 0")
    host.thread.call(keyboard.press, "Escape")
    assert shown.get("document.activeElement === view.canvas")
    assert "fill row with 7" in shown.get(f"{FIRST}.textContent")


def test_the_pointer_picks_and_goes_back_to_a_step(host: Host) -> None:
    """A click on a choice picks it; one on a step that has come goes to the choice before it."""
    scheduler = Scheduler(late)
    shown = shows(host, scheduler)
    shown.click(0, 0, "atops-option-1")
    shown.until("view.run.position === 1")
    shown.click(0, 0, "atops-finish")
    shown.until("view.run.over && view.rects.filter((rect) => rect.picked).length > 3")  # drawn, too
    spot = shown.get("view.rects.filter((rect) => rect.picked)[3]")
    shown.click(spot["x"] + 5, spot["y"] + 5)
    shown.until("view.run.position === 3 && view.rects.some((rect) => !rect.past)")
    assert len(scheduler.stepper.picks) == 3
    assert shown.get("view.canvas.title").startswith(f"{spot['step'] + 1}: ")


def test_one_that_breaks_it_is_shown_and_its_string_loads(host: Host) -> None:
    """The search says how it ends and shows the run; its string, put into the field of another one, leads there."""
    scheduler = Scheduler(late)
    shown = shows(host, scheduler)
    shown.click(0, 0, "atops-search")
    shown.until("view.run.failure && view.found.textContent.includes('late fails under')")
    assert "too late" in shown.get("view.say.textContent") and scheduler.verdict.startswith("failed")
    shown.until("view.search.textContent.startsWith('Is there')")
    other = Scheduler(late)
    there = shows(host, other)
    there.get("view.field.value = argument", scheduler.schedule)
    there.click(0, 0, "atops-load")
    there.until("view.run.failure")
    assert other.stepper.names == scheduler.stepper.names
    there.press("b")
    there.until("!view.run.over")
    there.get("view.field.value = 'v1.nonsense'")
    there.click(0, 0, "atops-load")
    there.until("view.say.textContent.includes('v1.nonsense')")


def test_memory_is_marked_where_it_has_changed(host: Host) -> None:
    """The value that a pick has changed is marked, and what it was is struck out, with words for a reader."""
    scheduler = Scheduler(late)
    shown = shows(host, scheduler)
    while not scheduler.stepper.memory or not scheduler.stepper.memory[0].changed:
        scheduler.pick(0)
    row = shown.until("view.memory.body.querySelector('mark') && view.memory.body.textContent")
    assert "row" in row and shown.get("view.memory.body.querySelector('del').ariaLabel") == "was 0"


def test_two_views_and_a_closed_kernel(host: Host) -> None:
    """A second view shows the same; both follow a pick in Python; text is told on demand."""
    scheduler = Scheduler(late)
    one, two = shows(host, scheduler), shows(host, scheduler)
    scheduler.pick(1)
    for shown in (one, two):
        shown.until("view.run.position === 1")
    two.press("b")
    one.until("view.run.position === 0")
    one.get("view.more.open = true")
    one.until("view.pre.textContent.includes('what could come next')")


def test_a_thousand_steps_are_drawn_within_a_frame(host: Host) -> None:
    """Of a run of more than a thousand steps those around the present take less than a 30th of a second."""
    scheduler = Scheduler(long)
    scheduler.finish("random")
    assert len(scheduler.stepper.names) > 1000
    shown = shows(host, scheduler)
    frame = "const began = performance.now(); view.take({...view.scene}); view.draw(); return performance.now() - began"
    times = shown.get(f"Array.from({{length: 30}}, () => {{ {frame}; }}).sort((a, b) => a - b)")
    assert times[15] < 1000 / 30
    assert 0 < shown.get("view.rects.length") < 100
    shown.press("Home")
    shown.until("view.run.position === 0 && view.rects[0].step === 0")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_picture(host: Host, theme: str) -> None:
    """The picture of the documentation: in a run that fails, before a transfer that can come next."""
    scheduler = Scheduler(late)
    shown = shows(host, scheduler, theme)
    scheduler.search()
    while not any(option.name[0] == "transfer" for option in scheduler.choices()):
        scheduler.back()
    shown.until("view.run.position < view.run.known && view.run.options.some((each) => each.would)")
    keep(shown, "scheduler", theme)
    ink, page = shown.get("[getComputedStyle(view.next.body.querySelector('button')).color, "
                          "getComputedStyle(view.root).backgroundColor]")  # fmt: skip
    assert ink != page
