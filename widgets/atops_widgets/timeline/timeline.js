import { BOLD, MONO, formatBytes, formatNs, mount, node, outlineMarks } from "../drawing/base.js";
import { clickGap, drawAxis, drawCursor, momentAt, placing, toggleGaps } from "../drawing/time_axis.js";
import { clickRace, countRaces, drawRaces, listenToRaces, spotsOf, stepRaced } from "../drawing/races.js";
import { TIME_KEYS, listenToWheel, scrubbing } from "../drawing/time_cursor.js";

const TOP = 28, ROW = 22, HEAD = 18, RIGHT = 8, SIGN = 13;
const LEAST_NS = 4;

// A window of time, zoomed by a factor about a moment that stays where it is. `span` is all there is.
export function zoomed({start, end}, factor, about, span) {
  const widest = Math.max(span[1] - span[0], 1) * 1.1 + LEAST_NS;
  const length = Math.min(widest, Math.max(LEAST_NS, (end - start) * factor));
  const from = about - ((about - start) * length) / (end - start);
  return clamped({start: from, end: from + length}, span);
}

export function panned({start, end}, by, span) {
  return clamped({start: start + by, end: end + by}, span);
}

// Keep at least a tenth of the window on what there is.
export function clamped({start, end}, span) {
  const margin = (end - start) * 0.9;
  const shift = Math.max(0, span[0] - margin - start) - Math.max(0, end - span[1] - margin);
  return {start: start + shift, end: end + shift};
}

// The top of each row, below a line for each device, and the bottom of the last row. Those of a device that is folded
// share that line.
export function tops(rows, folded = []) {
  const found = [];
  let y = TOP, device = null;
  for (const row of rows) {
    const shares = folded.includes(row[1]);
    if (row[1] !== device) y += shares ? ROW : HEAD;
    device = row[1];
    found.push(shares ? y - ROW : y);
    if (!shares) y += ROW;
  }
  return {tops: found, bottom: y};
}

// Take a device into those that are folded, or a row into those kept at the top, or out of them; without one: none.
function toggle(view, list, what) {
  const others = view[list].filter((each) => each !== what);
  view[list] = what === undefined ? [] : others.length < view[list].length ? others : [...others, what];
  view.ask();
}

// The row of what is selected; without a selection undefined.
const chosenRow = (view) => view.scene.rows[view.rects.find(({seq}) => seq >= 0 && seq === view.marks.seq)?.row];

// Where the rows begin, right of their names, and how wide they are.
const edgeOf = (view) => Math.min(150, view.width * 0.28);
const roomOf = (view) => view.width - edgeOf(view) - RIGHT;

// The window on the axis, and how many pixels a nanosecond there has.
function shownOf(view, place = placing(view)) {
  const start = place(view.win.start), end = place(view.win.end);
  return {start, end, scale: roomOf(view) / Math.max(end - start, 1e-9)};
}

function xOf(view) {
  const place = placing(view), {start, scale} = shownOf(view, place);
  return (at) => edgeOf(view) + (place(at) - start) * scale;
}

function timeAt(view, x) {
  const {start, scale} = shownOf(view);
  return momentAt(view, start + (x - edgeOf(view)) / scale);
}

// Move the window as `act` says of where it is on the axis, and of all there is.
function changeWindow(view, act, shown = shownOf(view)) {
  const place = placing(view), {start, end} = act(shown, view.scene.span.map(place), place);
  moveWindow(view, {start: momentAt(view, start), end: momentAt(view, end)});
}

// Show a part of the time: a window, everything, or always the newest.
function showWindow(view, win, whole, follow) {
  Object.assign(view, {win, whole, follow});
  view.followButton.ariaPressed = follow;
  view.ask();
}

const moveWindow = (view, win) => showWindow(view, win, false, false);
const toggleFollow = (view) => showWindow(view, view.win, false, !view.follow);

function showAll(view) {
  const [start, end] = view.scene.span;
  showWindow(view, {start, end}, true, false);
}

// The last burst of work: from the last gap that is a twentieth of all there is, or more.
export function lastBurst(start, end, span) {
  const order = [...start.keys()].sort((a, b) => end[b] - end[a]), gap = (span[1] - span[0]) / 20;
  let from = span[1];
  for (const i of order) {
    if (from - end[i] >= gap && from < span[1]) break;
    from = Math.min(from, start[i]);
  }
  return {start: from, end: span[1]};
}

// Show a stretch of time, and a part of its length more on both sides.
function showLonger(view, start, end, part) {
  const spare = Math.max(2, (end - start) * part);
  moveWindow(view, {start: start - spare, end: end + spare});
}

function showLast(view) {
  const {columns, span} = view.scene, {start, end} = lastBurst(columns.start, columns.end, span);
  showLonger(view, start, end, 0.02);
}

function togglePath(view) {
  view.path = !view.path;
  view.pathButton.ariaPressed = view.path;
  view.drawLegend();
  view.ask();
}

function zoomBy(view, factor, about) {
  changeWindow(view, (win, span, place) => zoomed(win, factor, about === undefined ? (win.start + win.end) / 2 : place(about), span));
}

const zoomIn = (view) => zoomBy(view, 0.5);

function pan(view, part) {
  changeWindow(view, (win, span) => panned(win, (win.end - win.start) * part, span));
}

// ---- drawing

function drawRows(view, places) {
  let device = null;
  view.heads = [];
  view.scene.rows.forEach(([label, ordinal, name, engine, row], number) => {
    const top = places[number], folded = view.folded.includes(ordinal);
    if (ordinal !== device) {
      const [y, height] = folded ? [top, ROW] : [top - HEAD, HEAD];
      view.write(folded ? "▸" : "▾", 6, y + height / 2, 12, "quiet");
      view.write(name, 18, y + height / 2, edgeOf(view) - 26, "ink", BOLD);
      view.heads.push([y, height, "folded", ordinal]);
    } else if (folded) return;
    device = ordinal;
    if (number % 2 === 0) view.fillBox("band", edgeOf(view), top, roomOf(view), ROW);
    if (folded) return;
    view.write(label, 18, top + ROW / 2, edgeOf(view) - 26, engine ? "quiet" : "ink");
    view.heads.push([top, ROW, "pins", row]);
  });
}

function drawShapes(view, c, x, places) {
  const {row, start, end, kind, failed, count, busy, seq, name, bytes} = view.scene.columns;
  const left = edgeOf(view), right = view.width - RIGHT, last = {};
  view.signed = [];
  for (let i = 0; i < row.length; i++) {
    const from = Math.max(left, x(start[i])), to = Math.min(right, x(end[i]));
    if (to < left || from > right) continue;
    const width = Math.max(1.5, to - from), one = count[i] <= 1, [, glyph, hatch] = view.table.kinds[kind[i]];
    const text = view.texts[name[i]] || "", label = width >= 34 ? text : "";
    const height = one ? ROW - 4 : Math.max(5, (ROW - 4) * busy[i]);
    const y = places[row[i]] + ROW - 2 - height;
    c.fillStyle = width < 4 ? view.colour(`k${kind[i]}`) : view.kindFill(kind[i]);
    c.fillRect(from, y, width, height);
    const gaps = width < 4 ? view.table.gaps[hatch] : [];
    for (const part of gaps) view.fillBox("page", from, y + part * height - 1, width, 2);
    if (width > 3) view.fillBox("page", from + width - 0.5, y, 0.5, height);
    if (failed[i]) {
      view.strokeBox("page", 2, [], from + 3, y + 3, Math.max(1, width - 6), height - 6);
      view.strokeBox("failed", 2, [], from + 1, y + 1, Math.max(1, width - 2), height - 2);
      const at = Math.min(from, right - SIGN);
      if (!(Math.abs(at - last[row[i]]) < SIGN)) view.signed.push([last[row[i]] = at, places[row[i]] + 2]);
    }
    if (width >= 14 && one) {
      const room = label ? Math.min(width - 2, 16 + c.measureText(label).width) : 12;
      view.fillBox(`k${kind[i]}`, from + 1, y + 2, room, height - 4);
      view.write(glyph, from + 3, y + height / 2, 12, "on", MONO);
      if (label) view.write(label, from + 13, y + height / 2, width - 17, "on");
    }
    view.drawn(from, y, width, height, {
      seq: seq[i], kind: kind[i], count: count[i], failed: failed[i], row: row[i], start: start[i], end: end[i],
      name: text, bytes: bytes[i], gaps,
      act: !one && (() => showLonger(view, start[i], end[i], 0.5)),
    });
  }
  // The sign of what failed, over all shapes and however narrow its own is; once where several are.
  for (const [at, top] of view.signed) {
    view.fillBox("failed", at, top, SIGN, ROW - 4);
    view.write("!", at + 3, top + ROW / 2 - 2, SIGN, "on", MONO);
  }
}

function drawArrows(view, c, x, places) {
  const {arrow_from: tail, arrow_to: head, arrow_start: start, arrow_end: end, arrow_seq: seq, arrow_cause: cause}
    = view.scene.columns;
  view.arrows = [];
  const chosen = view.marks.seq;
  for (let i = 0; i < tail.length; i++) {
    const [x0, x1, y0, y1] = [x(start[i]), x(end[i]), places[tail[i]] + ROW / 2, places[head[i]] + ROW / 2];
    if (Math.max(x0, x1) < edgeOf(view) || Math.min(x0, x1) > view.width) continue;
    const strong = chosen === seq[i] || chosen === cause[i];
    c.strokeStyle = c.fillStyle = view.colour(strong ? "select" : "ink");
    c.lineWidth = strong ? 2.5 : 1.2;
    c.beginPath();
    c.moveTo(x0, y0);
    c.bezierCurveTo(x0 + 14, y0, x1 - 14, y1, x1 - 3, y1);
    c.stroke();
    view.lines(x1, y1, x1 - 7, y1 - 3.5, x1 - 7, y1 + 3.5).fill();
    view.arrows.push({from: cause[i], to: seq[i], x0, y0, x1, y1});
  }
}

function drawPath(view, x, places) {
  const {path_row: row, path_start: start, path_end: end, path_seq: seq} = view.scene.columns;
  view.pathDrawn = [];
  if (!view.path) return;
  for (let i = 0; i < row.length; i++) {
    if (row[i] < 0) continue;
    const width = Math.max(2, x(end[i]) - x(start[i])), top = places[row[i]] + ROW - 4;
    view.fillBox("page", x(start[i]), top - 2, width, 6);
    view.fillBox("path", x(start[i]), top, width, 3);
    view.pathDrawn.push(seq[i]);
  }
}

function draw(view, c) {
  const {tops: places, bottom} = tops(view.scene.rows, view.folded), x = xOf(view), {cursor} = view.marks;
  drawRows(view, places);
  if (!view.scene.rows.length) return;
  drawAxis(view, view.win.start, view.win.end, x, 12, TOP - 8, bottom);
  c.save();
  c.beginPath();
  c.rect(edgeOf(view) - 2, 0, view.width - edgeOf(view), bottom);
  c.clip();
  drawShapes(view, c, x, places);
  drawArrows(view, c, x, places);
  outlineMarks(view);
  drawPath(view, x, places);
  drawRaces(view, c, view.scene.races || [], spotsOf(view));
  drawRange(view, c, x, bottom);
  if ((cursor ?? null) !== null) drawCursor(view, x(cursor), TOP - 12, bottom);
  c.restore();
  if (view.scene.more) view.write(`and ${view.scene.more} more rows (Page Down)`, 8, bottom + 10, view.width, "quiet");
}

// ---- pointer

// The name of a device folds its rows, that of a row keeps it at the top.
function clickHead(view, {offsetX, offsetY}) {
  const head = offsetX < edgeOf(view) && view.heads.find(([top, height]) => offsetY >= top && offsetY < top + height);
  if (head) toggle(view, ...head.slice(2));
  return head;
}

// Dragging the axis moves the time cursor, dragging elsewhere the window.
function listenToPointer(view) {
  const {canvas} = view;
  let held = null;
  scrubbing(view, (event) => event.offsetY < TOP && event.offsetX >= edgeOf(view), (x) => timeAt(view, x));
  view.listen(canvas, "pointerdown", (event) => {
    if (!view.scene || view.moved) return;
    held = {x: event.offsetX, win: shownOf(view), measures: event.shiftKey, at: timeAt(view, event.offsetX)};
    canvas.setPointerCapture(event.pointerId);
  });
  view.listen(canvas, "pointermove", (event) => {
    if (!held || (!view.moved && Math.abs(event.offsetX - held.x) <= 3)) return;
    view.moved = true;
    if (held.measures) measureRange(view, held.at, timeAt(view, event.offsetX));
    else changeWindow(view, (win, span) => panned(win, (held.x - event.offsetX) / win.scale, span), held.win);
  });
  view.listen(canvas, "lostpointercapture", () => {
    if (held?.measures) tellRange(view);
    held = null;
  });
  view.listen(canvas, "dblclick", () => showAll(view));
  listenToWheel(view, (event) => {
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) pan(view, event.deltaX / view.width);
    else zoomBy(view, 2 ** (event.deltaY / 240), timeAt(view, event.offsetX));
  });
}

// ---- looking for names, and measuring

function setUpSearch(view) {
  const box = view.search = node("input", {type: "search", placeholder: "Find (/)", size: 12, "data-testid": "atops-find",
    "aria-label": "Find by name: Enter the next, Shift Enter the last"});
  const find = (by) => view.send({type: "find", text: box.value, by});
  view.listen(box, "input", () => find(0));
  // The view calls it: before the notebook hears of a key.
  box.keyed = ({key, shiftKey}) => {
    if (key === "Enter") find(shiftKey ? -1 : 1);
    if (key === "Escape") view.canvas.focus();
  };
  view.found = node("span", {"data-testid": "atops-found", role: "status"});
  view.bar.append(box, view.found);
}

// Move the window to what was found, where it is not in view.
function revealFound(view) {
  const {find, found, missing, columns: c} = view.scene, {seq} = view.marks;
  view.found.textContent = find ? `${found.toLocaleString("en")} found${missing}` : "";
  if (!find || seq < 0 || seq === view.revealed) return;
  view.revealed = seq;
  const i = c.seq.indexOf(seq), {start, end} = view.win;
  if (i < 0) showAll(view);
  else if (c.end[i] < start || c.start[i] > end)
    changeWindow(view, (win, span, place) => panned(win, place(c.start[i]) - (win.start + win.end) / 2, span));
}

// Measure from one moment to another; without them nothing.
function measureRange(view, from, to) {
  view.range = from === undefined ? null : [Math.min(from, to), Math.max(from, to)];
  view.redraw();
}

function tellRange(view) {
  view.send({type: "range", ...(view.range && {start: Math.round(view.range[0]), end: Math.round(view.range[1])})});
}

// The first press marks the cursor's moment, the second measures to it, the third ends it.
function measureAt(view) {
  const at = view.marks.cursor ?? view.win.end;
  const {range} = view, first = range?.[0] ?? at;
  measureRange(view, ...(range && first !== range[1] ? [] : [first, at]));
  tellRange(view);
}

function drawRange(view, c, x, bottom) {
  if (!view.range) return;
  const [from, to] = view.range, left = x(from), wide = Math.max(2, x(to) - left), text = formatNs(to - from);
  c.globalAlpha = 0.15;
  view.fillBox("cursor", left, TOP - 8, wide, bottom - TOP + 8);
  c.globalAlpha = 1;
  for (const at of [left, left + wide]) view.fillBox("cursor", at, TOP - 8, 1, bottom - TOP + 8);
  const room = c.measureText(text).width;
  view.fillBox("page", left + 2, TOP - 9, room + 6, 14);
  view.write(text, left + 5, TOP - 2, room + 4, "cursor");
}

const nextRaced = (view, by) => stepRaced(view, by, showAll);

function words(view, rect) {
  const kind = view.table.kinds[rect.kind][0], long = formatNs(rect.end - rect.start);
  if (rect.count > 1) return `${rect.count} records, mostly ${kind}, within ${long}; zoom in to see them`;
  const parts = [
    rect.name ? `${kind} ${rect.name}` : kind, rect.bytes && formatBytes(rect.bytes),
    `at ${formatNs(rect.start)} for ${long}`, rect.failed && "failed, skipped or aborted",
  ];
  // What the host did has seqs above those of all commands.
  return parts.filter(Boolean).join(", ") + (rect.seq < 1e12 ? ` (number ${rect.seq})` : "");
}

export default mount({
  name: "timeline",
  draw,
  height: ({scene, folded}) => (scene.rows.length ? tops(scene.rows, folded).bottom + (scene.more ? 22 : 6) : 1),
  setup(view) {
    Object.assign(view, {win: {start: 0, end: 1}, whole: true, folded: [], pins: []});
    view.button("−", "Zoom out (-)", () => zoomBy(view, 2), "zoom-out");
    view.button("+", "Zoom in (+)", () => zoomIn(view), "zoom-in");
    view.button("All", "Show everything (Home)", () => showAll(view));
    view.followButton = view.button("Follow", "Follow the newest records (f)", () => toggleFollow(view));
    view.pathButton = view.button("Critical path", "Mark the critical path (k)", () => togglePath(view), "path");
    listenToPointer(view);
    listenToRaces(view, nextRaced);
    setUpSearch(view);
  },
  asked: (view) => ({
    ...(view.whole || view.follow ? {} : view.win),
    width: roomOf(view),
    options: {
      follow: view.follow, length: view.win.end - view.win.start, host: view.host, path: view.path, first: view.first,
      pins: view.pins,
    },
  }),
  taken(view) {
    const {range, window: [start, end]} = view.scene;
    if (view.whole || view.follow || view.win.end <= view.win.start) view.win = {start, end};
    view.followButton.hidden = !view.answered || view.scene.state === "ended";
    view.pathButton.hidden = !view.answered && !view.scene.path;
    countRaces(view);
    view.search.hidden = !view.answered;
    if (view.answered) revealFound(view);
    if (range && view.measured !== range[2]) view.found.textContent = view.measured = range[2];
  },
  // Python says what to show: nothing stands for everything.
  heard: (view, {type, span: [start, end] = []}) =>
    type === "show" && (end === undefined ? showAll(view) : moveWindow(view, {start, end})),
  signs: (view) => view.scene.signs.filter((i) => !i || view.path),
  span: (view) => view.scene.span,
  shown: ({win}) => [win.start, win.end],
  pages: ({scene}) => [40, scene.first + scene.rows.length + scene.more - 1],
  words,
  tell(view, seq) {
    const rect = view.rects.find((each) => each.seq === seq);
    return rect && words(view, rect);
  },
  click: (view, rect, event) => clickHead(view, event) || clickRace(view, event) || clickGap(view, rect) || (rect?.act && (rect.act(), true)),
  keys: {
    ...TIME_KEYS,
    ArrowLeft: (view) => pan(view, -0.2),
    ArrowRight: (view) => pan(view, 0.2),
    "+": zoomIn,
    "=": zoomIn,
    "-": (view) => zoomBy(view, 2),
    Home: showAll,
    l: showLast,
    m: measureAt,
    "/": (view) => view.search.focus(),
    f: toggleFollow,
    i: toggleGaps,
    d: (view) => toggle(view, "folded", (chosenRow(view) || view.scene.rows[0] || [])[1]),
    o: (view) => toggle(view, "pins", chosenRow(view)?.[4]),
    h: (view) => view.ask(view.host = !view.host),
    k: togglePath,
    r: (view) => nextRaced(view, 1),
    R: (view) => nextRaced(view, -1),
  },
});
