// The time cursor: how pointer and keys move it. What a widget gives to `mount` for it:
// - span(view): the [start, end] that it moves in; shown(view): the part in view, if it is another;
// - words(view, rect): the title of something drawn, shown where the pointer hovers.
import { momentAt, placing } from "../drawing/time_axis.js";

// Put the time cursor to a moment that there is.
function scrub(view, at) {
  const [start, end] = view.spec.span(view);
  view.look(Math.round(Math.min(Math.max(at, start), end)));
}

// Move it by hundredths of what is shown, along the axis as it is drawn: a folded gap is as short as it looks.
export function nudge(view, by) {
  const {span, shown} = view.spec, window = (shown || span)(view), place = placing(view), [start, end] = window.map(place);
  const at = place(view.marks.cursor ?? view.scene.at ?? window[1]);
  scrub(view, momentAt(view, at + ((end - start) / 100) * by));
}

export const TIME_KEYS = {
  "[": (view) => nudge(view, -1),
  "]": (view) => nudge(view, 1),
  c: (view) => view.look(null),
};

// Where `begins` says so, the pointer moves the time cursor along `timeAt` until it is released; elsewhere it hovers.
export function scrubbing(view, begins, timeAt) {
  const {canvas} = view;
  let held = false;
  view.listen(canvas, "pointerdown", (event) => {
    held = view.moved = Boolean(view.scene && begins(event));
    if (!held) return;
    canvas.setPointerCapture(event.pointerId);
    scrub(view, timeAt(event.offsetX));
  });
  view.listen(canvas, "pointermove", (event) => {
    const rect = view.scene && view.hit(event);
    if (held) scrub(view, timeAt(event.offsetX));
    canvas.title = rect ? rect.text || view.spec.words(view, rect) : "";
    canvas.style.cursor = rect?.seq >= 0 || rect?.gap !== undefined ? "pointer" : "default";
  });
  view.listen(canvas, "lostpointercapture", () => held = false);
}

// The wheel belongs to the page, but for a canvas that has the focus, and with Ctrl.
export function listenToWheel(view, act) {
  view.listen(view.canvas, "wheel", (event) => {
    if (!view.scene || !(event.ctrlKey || event.metaKey || document.activeElement === view.canvas)) return;
    event.preventDefault();
    act(event);
  }, {passive: false});
}
