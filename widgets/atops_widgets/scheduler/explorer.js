import { BOLD, mount, node } from "../drawing/base.js";
import { CELL, LANE, LANE_MARGIN, THINNEST, drawLanes } from "../drawing/lanes.js";

const TOP = 46, KIND = 18, GAP = 30, MOST_LANES = 10, BAR = 18, WIDEST = 420;

// How wide each of some steps is drawn, where `room` pixels are for all of them.
export function cellOf(steps, room) {
  return Math.max(THINNEST, Math.min(CELL, Math.floor(room / Math.max(1, steps))));
}

function setup(view) {
  view.stop = view.button("Stop", "End the check after the run that goes on (x)", () => keys.x(view));
  view.choices = node("div", {class: "atops-columns", "data-testid": "atops-forced"});
  view.say.after(view.choices);
}

const keys = {
  x: (view) => view.send({type: "cancel"}),
  ArrowLeft: (view) => scroll(view, -1),
  ArrowRight: (view) => scroll(view, 1),
  Home: (view) => scroll(view, -Infinity),
};

function scroll(view, by) {
  const longest = Math.max(0, ...runs(view).map(({trail}) => trail.steps.length));
  view.from = Math.max(0, Math.min(longest - 10, (view.from || 0) + by * 20)) || 0;
  view.redraw();
}

const runs = (view) => view.runs || [];
const lanes = (run) => Math.min(MOST_LANES, run.trail.actors.length);

function taken(view) {
  const {found, runs: told} = view.scene;
  view.pauseButton.hidden = true;
  view.stop.hidden = !found.on;
  if (!told) return;
  view.runs = told;
  view.choices.replaceChildren(...told.map((run) => {
    const list = run.forced.map(([at, words]) => node("li", {}, `step ${at + 1}: ${words}`));
    if (!list.length) list.push(node("li", {}, "nothing is forced: what has the turn goes on as long as it can"));
    const block = node("div", {}, node("h4", {}, `${run.title}: ${run.forced.length} forced`), node("ul", {}, ...list));
    block.append(node("code", {class: "atops-string"}, run.schedule));
    return block;
  }));
}

function height(view) {
  const {found} = view.scene;
  const kinds = TOP + Math.max(1, found.kinds.length) * KIND;
  return runs(view).reduce((all, run) => all + GAP + lanes(run) * LANE, kinds) + 4;
}

function draw(view, c) {
  const {found} = view.scene;
  drawProgress(view, found);
  drawKinds(view, found);
  let y = TOP + Math.max(1, found.kinds.length) * KIND;
  for (const run of runs(view)) {
    const {steps} = run.trail, room = view.width - LANE_MARGIN;
    const hidden = run.trail.actors.length - lanes(run), from = Math.min(view.from || 0, Math.max(0, steps.length - 1));
    const cell = cellOf(steps.length - from, room), cut = (steps.length - from) * cell > room;
    const more = (hidden > 0 ? `, ${hidden} more lanes` : "") + (cut || from ? ", arrows scroll" : "");
    view.write(`${run.title}: ${steps.length} steps, ${run.forced.length} of them forced${more}`, 0, y + 18, view.width, "ink", BOLD);
    y += GAP;
    drawLanes(view, c, run.trail, {y, top: 0, count: lanes(run), first: from, cell, now: steps.length});
    y += lanes(run) * LANE;
  }
}

// How many schedules were run of those that may be; of them those that led where another had been.
function drawProgress(view, found) {
  const wide = Math.min(WIDEST, view.width - 4), share = (count) => Math.ceil(wide * Math.min(1, count / Math.max(1, found.asked)));
  view.fillBox("band", 0, 2, wide, BAR);
  view.fillBox("k6", 0, 2, share(found.runs), BAR);
  view.fillBox("quiet", share(found.runs - found.cut), 2, share(found.runs) - share(found.runs - found.cut), BAR);
  view.strokeBox("line", 1, [], 0.5, 2.5, wide - 1, BAR - 1);
  view.drawn(0, 2, share(found.runs), BAR, {bar: "explored", text: progressText(found)});
  view.write(progressText(found), 0, BAR + 14, view.width);
}

export function progressText(found) {
  const n = (count) => count.toLocaleString("en");
  const parts = [`${n(found.runs)} of ${n(found.asked)} schedules`];
  if (found.cut) parts.push(`${n(found.cut)} cut short, which led where another one had been`);
  if (found.found) parts.push(`1 fails, ${n(found.replays)} runs to make it small`);
  parts.push(`at most ${n(found.choices)} choices`, `${n(found.rate)} runs a second`);
  return parts.join(" · ");
}

// How often what came was of each kind.
function drawKinds(view, found) {
  const most = Math.max(1, ...found.kinds.map(([, count]) => count));
  found.kinds.forEach(([kind, count], at) => {
    const [letter, colour, name] = view.table.kinds[kind] || ["?", 14, kind], y = TOP + at * KIND;
    const wide = Math.max(16, Math.round((WIDEST - LANE_MARGIN) * count / most));
    view.write(name, 0, y + KIND / 2, LANE_MARGIN - 8);
    view.fillBox(`k${colour}`, LANE_MARGIN, y + 1, wide, KIND - 3);
    view.write(letter, LANE_MARGIN + 4, y + KIND / 2, 12, "on", BOLD);
    view.write(count.toLocaleString("en"), LANE_MARGIN + wide + 6, y + KIND / 2, 100, "quiet");
    view.drawn(LANE_MARGIN, y, wide, KIND, {kind, count, text: `${name}: ${count.toLocaleString("en")}`});
  });
}

function click(view, rect) {
  view.canvas.title = rect?.text || "";
  if (rect) view.tell(rect.text);
  return true;
}

export default mount({name: "explorer", setup, taken, height, draw, click, keys});
