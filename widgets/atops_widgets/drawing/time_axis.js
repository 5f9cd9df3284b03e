// A time axis and the cursor on it.
import { formatNs } from "../drawing/base.js";

// The gaps in which nothing ran that are folded.
export function gapsOf({scene, marks}) {
  return scene.gaps.filter(([start]) => !marks.open.includes(start));
}

const within = (value, most) => Math.min(Math.max(value, 0), most);

// A function from moments to where they are on the axis, in nanoseconds without what is folded; as TimeAxis in Python.
export function placing(view) {
  const gaps = gapsOf(view), {left} = view.scene;
  return (at) => gaps.reduce((place, [from, to]) => place - within(at - from, to - from) * (1 - left / (to - from)), at);
}

// The moment at a place.
export function momentAt(view, place) {
  const {left} = view.scene;
  let at = place, cut = 0;
  for (const [from, to] of gapsOf(view)) {
    at += within(place + cut - from, left) * ((to - from) / left - 1);
    cut += to - from - left;
  }
  return at;
}

// Fold all gaps that are open; where none is, open all.
export function toggleGaps(view) {
  view.open(view.marks.open.length ? [] : view.scene.gaps.map(([start]) => start));
}

// Open the folded gap that was clicked.
export const clickGap = (view, rect) => rect?.gap !== undefined && (view.open([...view.marks.open, rect.gap]), true);

// Round moments for an axis, about one in every `room` pixels.
export function ticks(start, end, width, room = 90) {
  const rough = Math.max(1, ((end - start) * room) / Math.max(width, 1));
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = Math.max(1, [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough * 0.999));
  const found = [];
  for (let at = Math.ceil(start / step) * step; at <= end && found.length < 100; at += step) found.push(at);
  return found;
}

// Grid lines of a time axis, none before 0, from `top` to `bottom`, texts at `y` where they have room, and what is left of
// folded gaps. A long text says only how far it is from the last one that is in full, where that is shorter.
export function drawAxis(view, start, end, x, y, top, bottom) {
  const gaps = gapsOf(view).filter(([from, to]) => to > start && from < end);
  const edges = [Math.max(0, start), ...gaps.flat(), end], moments = [];
  for (let i = 0; i < edges.length; i += 2) moments.push(...ticks(edges[i], edges[i + 1], x(edges[i + 1]) - x(edges[i])));
  let free = 0, full = 0;
  const step = Math.min(...moments.slice(1).map((at, i) => at - moments[i])), said = (ns) => formatNs(ns, step < 1 / 0 && step);
  for (const at of moments) {
    const p = x(at), all = at ? said(at) : "0", far = `+${said(at - full)}`;
    const text = all.length > 9 && far.length < all.length ? far : all, wide = view.context.measureText(text).width + 4;
    const left = p + 3 + wide < view.width ? p + 3 : p - wide;
    view.fillBox("grid", Math.round(p), top, 1, bottom - top);
    if (left < free) continue;
    view.write(text, left, y, wide, "quiet");
    free = left + wide;
    if (text === all) full = at;
  }
  for (const [from, to] of gaps) drawGap(view, from, x(from), x(to) - x(from), top, bottom, formatNs(to - from));
}

// A folded gap: a dashed frame, and how long it is where that has room.
function drawGap(view, gap, left, width, top, bottom, length) {
  view.fillBox("page", left, top, width, bottom - top);
  view.strokeBox("line", 1, [4, 3], left + 1.5, top, width - 3, bottom - top);
  if (width > 40) view.write(length, left + 5, top + 16, width, "quiet");
  view.drawn(left, top, width, bottom - top, {seq: -1, gap, text: `${length} idle; click to open`});
}

// A line with a triangle on top.
export function drawCursor(view, x, top, bottom) {
  view.fillBox("cursor", x - 1, top + 2, 2, bottom - top - 2);
  view.lines(x - 6, top, x + 6, top, x, top + 8).fill();
}
