// A time axis and the cursor on it.
import { formatNs } from "../drawing/base.js";

// Round moments for an axis, about one in every `room` pixels.
export function ticks(start, end, width, room = 90) {
  const rough = Math.max(1, ((end - start) * room) / Math.max(width, 1));
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = Math.max(1, [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough * 0.999));
  const found = [];
  for (let at = Math.ceil(start / step) * step; at <= end && found.length < 100; at += step) found.push(at);
  return found;
}

// Grid lines of a time axis from `top` to `bottom`, and texts at `y` where they have room.
export function drawAxis(view, start, end, width, x, y, top, bottom) {
  const moments = ticks(start, end, width), step = moments[1] - moments[0];
  for (const at of moments) {
    view.fillBox("grid", Math.round(x(at)), top, 1, bottom - top);
    const text = at ? formatNs(at, step) : "0", wide = view.context.measureText(text).width + 4;
    const left = x(at) + 3 + wide < view.width ? x(at) + 3 : x(at) - wide;
    view.write(text, left, y, wide, "quiet");
  }
}

// A line with a triangle on top.
export function drawCursor(view, x, top, bottom) {
  view.fillBox("cursor", x - 1, top + 2, 2, bottom - top - 2);
  view.lines(x - 6, top, x + 6, top, x, top + 8).fill();
}
