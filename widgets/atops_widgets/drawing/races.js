// Races: a mark on both sides, a dashed line between them, and what is said of them on hovering and by keys.
import { MONO, stepped } from "../drawing/base.js";

const RADIUS = 7;

// The commands that raced, each once, a race's two sides one after the other.
export function raced(races) {
  return [...new Set(races.flatMap(([one, other]) => [one, other]))].filter((seq) => seq >= 0);
}

// The letter R in a circle.
export function drawBadge(view, c, x, y, strong) {
  for (const [colour, radius] of [["page", RADIUS + 2], [strong ? "select" : "failed", RADIUS]]) {
    c.fillStyle = view.colour(colour);
    c.beginPath();
    c.arc(x, y, radius, 0, 2 * Math.PI);
    c.fill();
  }
  view.write("R", x - 3.6, y + 0.5, RADIUS * 2, "on", `600 ${MONO}`);
}

// Draw the marks of races [side, side, text] between spots, {x, y} by side; notes them for the pointer and for tests.
export function drawRaces(view, c, races, spots) {
  const marks = new Map();
  view.raceLines = 0;
  for (const [one, other, text] of races) {
    const [from, to] = [spots.get(one), spots.get(other)];
    const strong = [one, other].includes(view.marks.seq);
    for (const [side, spot] of [[one, from], [other, to]]) {
      if (!spot) continue;
      const known = marks.get(side) || {...spot, side, texts: [], strong};
      if (!known.texts.includes(text)) known.texts.push(text);
      marks.set(side, known);
    }
    if (!from || !to || one === other) continue;
    for (const [colour, wide, dash] of [["page", 5, []], [strong ? "select" : "failed", strong ? 3 : 2, [5, 4]]]) {
      c.strokeStyle = view.colour(colour);
      c.lineWidth = wide;
      c.setLineDash(dash);
      view.lines(from.x, from.y, to.x, to.y).stroke();
    }
    c.setLineDash([]);
    view.raceLines += 1;
  }
  view.raceMarks = [...marks.values()];
  for (const {x, y, strong} of view.raceMarks) drawBadge(view, c, x, y, strong);
}

// Where commands are drawn: in the middle of the top of the first of each.
export function spotsOf(view) {
  const spots = new Map();
  for (const {seq, x, y, width, row = 0} of view.rects) {
    if (seq >= 0 && !(spots.get(seq)?.row <= row)) spots.set(seq, {x: x + width / 2, y: y + 1, row});
  }
  return spots;
}

export function markUnder(view, {offsetX: x, offsetY: y}) {
  return view.raceMarks?.find((mark) => Math.hypot(mark.x - x, mark.y - y) <= RADIUS + 2);
}

// A race's texts beside the pointer, and a button that steps through what raced. Call it after what sets other titles.
export function listenToRaces(view, next) {
  view.raceButton = view.button("Races", "Next side of a race (r; back: R)", () => next(view, 1), "races");
  view.raceButton.hidden = true;
  view.listen(view.canvas, "pointermove", (event) => {
    const mark = markUnder(view, event), {canvas} = view;
    if (mark) canvas.title = view.raceTitle = mark.texts.join("\n");
    else if (canvas.title === view.raceTitle) canvas.title = "";
  });
}

export function countRaces(view, {length} = view.scene.races || []) {
  view.raceButton.hidden = !length;
  view.raceButton.textContent = `Races (${length})`;
}

// Select the next command that raced; `reveal` is called where it is not drawn.
export function stepRaced(view, by, reveal) {
  const sides = raced(view.scene.races || []);
  if (!sides.length) return;
  const seq = stepped(sides, sides.indexOf(view.marks.seq), by);
  if (!view.rects.some((rect) => rect.seq === seq)) reveal?.(view);
  view.select(seq);
}

// A click on a mark selects its command.
export function clickRace(view, event) {
  const mark = markUnder(view, event);
  if (mark) view.select(mark.side);
  return !!mark;
}
