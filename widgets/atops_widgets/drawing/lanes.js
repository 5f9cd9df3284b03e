import { BOLD, MONO } from "../drawing/base.js";

export const LANE_MARGIN = 150, LANE = 20, CELL = 18, THINNEST = 4;

// The first of `all` steps that are shown where `room` fit and `now` have come: so that these and a few more are seen.
export function firstStep(all, now, room) {
  return Math.max(0, Math.min(all - room, now - room + 3));
}

// What has come in a run, from `y` down: a lane for each actor from `top` on, `count` of them, a shape for each step from
// the `first` one on, `cell` wide, fainter from step `now` on, with a bar under those that are picked. Returns x of `now`.
export function drawLanes(view, c, trail, {y: above, top, count, first, cell, now}) {
  const {steps, texts} = trail, picked = new Set(trail.picked), x = (step) => LANE_MARGIN + (step - first) * cell;
  for (let lane = 0; lane < count; lane++) {
    const y = above + lane * LANE;
    if (lane % 2 === 0) view.fillBox("band", 0, y, view.width, LANE);
    view.write(trail.actors[top + lane], 2, y + LANE / 2, LANE_MARGIN - 8, "ink", MONO);
  }
  const last = Math.min(steps.length, first + Math.floor((view.width - LANE_MARGIN) / cell));
  for (let step = first; step < last; step++) {
    const [actor, kind, words, place] = steps[step], lane = actor - top, y = above + lane * LANE + 2;
    if (lane < 0 || lane >= count) continue;
    const [letter, colour] = view.table.kinds[kind] || ["?", 14], room = cell - (cell < 8 ? 1 : 2);
    c.globalAlpha = step < now ? 1 : 0.45;
    view.fillBox(`k${colour}`, x(step) + 1, y, room, LANE - 4);
    if (cell >= 12) view.write(letter, x(step) + cell / 2 - 4, y + LANE / 2 - 2, cell, "on", BOLD);
    c.globalAlpha = 1;
    if (picked.has(step)) view.fillBox("ink", x(step) + 1, y + LANE - 6, room, 3);
    const text = `${step + 1}: ${texts[words]}` + (texts[place] && ` at ${texts[place]}`);
    view.drawn(x(step), y - 2, cell, LANE, {step, text, trail, picked: picked.has(step), past: step < now});
  }
  return x(now);
}
