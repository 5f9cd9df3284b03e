import { BOLD, MONO, PLAIN, formatBytes, formatNs, mount, outlineMarks } from "../drawing/base.js";
import { clickGap, drawAxis, drawCursor, momentAt, placing, toggleGaps } from "../drawing/time_axis.js";
import { clickRace, countRaces, drawRaces, listenToRaces, spotsOf, stepRaced } from "../drawing/races.js";
import { TIME_KEYS, nudge, scrubbing } from "../drawing/time_cursor.js";

const LEAST = 80, MOST = 240, OVER = 62, TOP = 62, LINE = 17, TOKEN = 22, RIGHT = 8, ROOM = 96;
const BARE = 22, LETTER = 6.6, LONGEST = 16, SMALL = 17, GAP = 3, GUTTER = 32;
const PENDING = 0, RUNNING = 1, WAITING = 2, DONE = 3;
const STATES = ["is queued", "runs", "waits", "is over"];
const ENDS = ["done", "failed", "skipped after a failure", "aborted"];

const gapText = (count) => `+ ${count.toLocaleString("en")} more`;
const gapWidth = (count) => gapText(count).length * LETTER + 8;

// Place tokens [{position, width, kept}] into `room` pixels: as many of the front as fit and those that must be seen,
// and between them how many are left out. The same as layout() in Python.
export function layout(tokens, total, room) {
  const shown = tokens.map(() => true);
  let tight = false;
  const sum = (some, extra) => some.reduce((all, {width}) => all + width + GAP + extra, 0);
  if (tokens.length < total || sum(tokens, 0) > room) {
    const gap = gapWidth(total) + GAP;
    let left = room - gap - sum(tokens.filter(({kept}) => kept), gap);
    tight = left < 0;
    tokens.forEach(({width, kept}, index) => {
      left -= kept ? 0 : width + GAP;
      shown[index] = kept || left >= 0;
    });
  }
  const spots = [];
  let x = 0, following = 0;
  const leave = (count) => {
    spots.push({gap: count, x, width: gapWidth(count)});
    x += gapWidth(count) + GAP;
  };
  tokens.forEach(({position, width}, index) => {
    if (!shown[index]) return;
    if (position > following) leave(position - following);
    spots.push({index, x, width: tight ? BARE : width});
    x += spots.at(-1).width + GAP;
    following = position + 1;
  });
  if (following < total) leave(total - following);
  return spots;
}

// Lines of words that are about `room` pixels wide, at most `most` of them.
export function wrap(text, room, most = 6) {
  const letters = Math.max(8, Math.floor(room / LETTER));
  const lines = [];
  for (const word of text.split(" ")) {
    const last = lines.length - 1;
    const fits = last >= 0 && lines[last].length + word.length < letters;
    if (fits || (last >= 0 && last + 1 >= most)) lines[last] += ` ${word}`;
    else lines.push(word);
  }
  return lines;
}

// The top of each row, its lines of words, and the bottom of the last row.
export function places(rows, room, lower = 0) {
  let y = TOP;
  const found = rows.map((row) => {
    const reason = row.reason ? wrap(row.reason, room) : [];
    const failure = row.failure ? wrap(row.failure, room - 14) : [];
    const top = y;
    const lines = reason.length + failure.length;
    y += TOKEN + (lines ? 20 + lower + LINE * lines : 28);
    return {top, reason, failure, bottom: y};
  });
  return {found, bottom: y};
}

const countsOf = (row) => `${row.open.toLocaleString("en")} queued, ${row.over.toLocaleString("en")} over`;
const atMost = (view) => `at most ${view.scene.columns.queued.reduce((one, other) => Math.max(one, other), 1).toLocaleString("en")}`;

// The width of the names left of the queues: what the longest needs, in steps, so that the picture stands while counts
// grow; at most three tenths of a narrow picture.
export function marginOf(widths, width) {
  const wide = Math.ceil((Math.max(...widths) + 18) / 16) * 16;
  return Math.max(LEAST, Math.min(wide, MOST, Math.max(width * 0.3, 136)));
}

function measureMargin(view) {
  const c = view.context, widths = (font, texts) => (c.font = font, texts.map((text) => c.measureText(text).width));
  const {rows} = view.scene;
  view.margin = marginOf([...widths(BOLD, rows.map(({label}) => label)), ...widths(PLAIN, ["queued over time", atMost(view), ...rows.map(countsOf)])], view.width);
}

const startOf = (view) => view.margin + OVER + 12;
// Words stand behind the queue's line, or below everything where there is little room.
const isNarrow = (view) => view.width < 520;
const wordsOf = (view) => (isNarrow(view) ? 16 : startOf(view) + GUTTER);
const below = (view) => (view.width < 740 ? 49 : 30);
const limited = (view) => view.scene.rows.some((row) => row.capacity);
const placed = (view) => places(view.scene.rows, view.width - wordsOf(view) - RIGHT, isNarrow(view) ? 10 : 0);

function labelOf(view, i) {
  const {name, bytes, kind, position, state, kept} = view.scene.columns;
  if (position[i] > 5 && state[i] === PENDING && !kept[i]) return "";
  return (view.texts[name[i]] || (bytes[i] && kind[i] !== 9 ? formatBytes(bytes[i]) : "")).slice(0, LONGEST);
}

function drawToken(view, c, i, x, y, width) {
  const {kind, state, status} = view.scene.columns;
  const colour = `k${kind[i]}`, small = state[i] === DONE, height = small ? SMALL : TOKEN;
  const full = state[i] === RUNNING || (small && !status[i]);
  c.fillStyle = full ? view.kindFill(kind[i]) : view.colour("page");
  c.fillRect(x, y, width, height);
  if (!full) {
    const waits = state[i] === WAITING, place = [x + 1, y + 1, width - 2, height - 2];
    view.strokeBox(status[i] ? "failed" : colour, waits || status[i] ? 2 : 1.5, waits ? [5, 3] : [], ...place);
    if (state[i] === PENDING) view.fillBox(colour, x + 1, y + 1, 4, height - 2);
  }
  const ink = full ? "on" : status[i] ? "failed" : "ink";
  const label = small ? "" : labelOf(view, i);
  if (full) view.fillBox(colour, x + 2, y + 2, small ? width - 4 : Math.max(16, width - 6), height - 4);
  view.write(status[i] ? "!" : view.table.kinds[kind[i]][1], x + (small ? 5 : 8), y + height / 2, 12, ink, `600 ${MONO}`);
  if (label && width > BARE) view.write(label, x + 20, y + height / 2 + 0.5, width - 23, ink);
  view.drawn(x, y, width, height, tokenAt(view, i));
}

function tokenAt(view, i) {
  const {kind, state, status, seq, name, bytes, row, position, cause, since} = view.scene.columns;
  return {
    seq: seq[i], kind: kind[i], state: state[i], status: status[i], row: row[i], position: position[i],
    cause: cause[i], since: since[i], name: view.texts[name[i]] || "", bytes: bytes[i],
  };
}

function drawQueue(view, c, own, row, place) {
  const {position, kept} = view.scene.columns;
  const y = place.top + 8, startX = startOf(view), line = view.margin + OVER;
  const over = own.filter((i) => position[i] < 0);
  over.forEach((i) => drawToken(view, c, i, line + position[i] * (SMALL + GAP), y + 2, SMALL));
  view.fillBox("line", line + 4, y - 3, 2, TOKEN + 6);
  const queue = own.filter((i) => position[i] >= 0);
  const tokens = queue.map((i) => {
    const label = labelOf(view, i);
    return {position: position[i], width: BARE + (label ? c.measureText(label).width + 6 : 0), kept: !!kept[i]};
  });
  const room = view.width - startX - RIGHT - (limited(view) ? ROOM : 0);
  for (const spot of layout(tokens, row.open, room)) {
    if (spot.gap) {
      view.write(gapText(spot.gap), startX + spot.x + 4, y + TOKEN / 2, spot.width, "quiet");
      view.gaps.push({text: gapText(spot.gap), row: row.number, x: startX + spot.x, y, width: spot.width});
    } else {
      drawToken(view, c, queue[spot.index], startX + spot.x, y, spot.width);
    }
  }
  if (!row.open) view.write("idle", startX + GUTTER, y + TOKEN / 2, 60, "quiet");
}

function drawRow(view, c, row, place, own) {
  const {top} = place;
  if (row.number % 2 === 0) view.fillBox("band", 0, top, view.width, place.bottom - top - 2);
  view.write(row.label, 8, top + 19, view.margin - 16, "ink", BOLD);
  view.write(countsOf(row), 8, top + 19 + LINE, view.margin - 12, "quiet");
  drawQueue(view, c, own, row, place);
  if (row.capacity) drawCapacity(view, row, top + 8);
}

// Why a queue stands, and how it failed. Where there is little room arrows go on behind the words.
function drawWords(view, c, row, place) {
  const wordsX = wordsOf(view), paper = row.number % 2 ? "page" : "band";
  const clear = (y, text, x) => isNarrow(view) && view.fillBox(paper, x - 2, y - 8, c.measureText(text).width + 4, 16);
  let y = place.top + 8 + TOKEN + 15 + (isNarrow(view) ? 10 : 0);
  for (const line of place.reason) {
    clear(y, line, wordsX);
    view.write(line, wordsX, y, view.width - wordsX, row.waits ? "ink" : "quiet");
    y += LINE;
  }
  place.failure.forEach((line, number) => {
    clear(y, line, wordsX + 14);
    if (!number) view.write("!", wordsX, y, 12, "failed", `700 ${MONO}`);
    view.write(line, wordsX + 14, y, view.width - wordsX - 14, "failed");
    y += LINE;
  });
}

function drawCapacity(view, row, y) {
  const x = view.width - ROOM, width = ROOM - RIGHT - 4, used = Math.min(1, row.open / row.capacity);
  const full = used >= 1, colour = full ? "failed" : "line";
  view.strokeBox(colour, 1, [], x + 0.5, y + 0.5, width, 6);
  view.fillBox(colour, x + 1, y + 1, (width - 1) * used, 5);
  view.write(`${row.open} of ${row.capacity}${full ? ", full" : ""}`, x, y + 15, ROOM - 4, full ? "failed" : "quiet");
}

// From each waiting command to what it waits for: down or up beside the words, then along to it.
function drawArrows(view, c) {
  view.arrows = [];
  const at = new Map(view.rects.map((rect) => [rect.seq, rect]));
  let lane = 0;
  for (const from of view.rects) {
    const to = from.state === WAITING && from.cause >= 0 ? at.get(from.cause) : null;
    if (!to || to === from) continue;
    const x0 = from.x + 5 + (lane++ % 3) * 6, x1 = to.x + Math.min(to.width / 2, 11);
    const up = to.y <= from.y, same = to.row === from.row;
    const y0 = up ? from.y : from.y + from.height, y1 = up && !same ? to.y + to.height : to.y;
    const bend = same ? from.y - 5 : up ? y1 + 6 : y1 - 6;
    const strong = view.marks.seq === from.seq || view.marks.seq === to.seq;
    c.strokeStyle = c.fillStyle = view.colour(strong ? "select" : "ink");
    c.lineWidth = strong ? 2.5 : 1.3;
    c.lineJoin = "round";
    view.lines(x0, y0, x0, bend, x1, bend, x1, y1).stroke();
    const tip = y1 > bend ? -5 : 5;
    view.lines(x1, y1, x1 - 4, y1 + tip, x1 + 4, y1 + tip).fill();
    view.arrows.push({from: from.seq, to: to.seq, x0, y0, x1, y1});
  }
}

// The last of the saved moments that is not after the cursor, or the first one.
export function frameAt(frames, cursor) {
  return frames.reduce((found, frame) => (frame.at <= cursor ? frame : found), frames[0]);
}

// Where no Python answers: show the saved moment that the cursor is at.
function goBack(view) {
  const {scene} = view;
  if (view.answered || !scene.frames?.length) return;
  view.saved ||= {...scene};
  const cursor = view.marks.cursor ?? null;
  const frame = cursor === null ? view.saved : frameAt(scene.frames, cursor);
  view.scene = {...view.saved, ...frame, columns: {...view.saved.columns, ...frame.columns}};
}

// ---- how much was queued over time, and the cursor

const strip = (view) => {
  const [start, end] = view.scene.strip, place = placing(view), from = place(start), {margin} = view;
  const scale = (view.width - margin - RIGHT) / Math.max(place(end) - from, 1);
  const at = (x) => momentAt(view, from + (x - margin) / scale);
  return {start, end, at, x: (at) => margin + (place(at) - from) * scale};
};

function drawStrip(view, c) {
  const {start, end, x} = strip(view), {margin} = view;
  const {queued, edges} = view.scene.columns, base = TOP - 12, height = 32;
  const most = queued.reduce((one, other) => Math.max(one, other), 1);
  view.write("queued over time", 8, 18, margin - 16, "quiet");
  view.write(atMost(view), 8, 18 + LINE, margin - 16, "quiet");
  drawAxis(view, start, end, x, 9, 16, base);
  c.fillStyle = view.colour("line");
  c.beginPath();
  c.moveTo(margin, base);
  queued.forEach((count, i) => {
    const top = base - (count ? Math.max(1.5, (count / most) * height) : 0);
    c.lineTo(x(edges[i]), top);
    c.lineTo(x(edges[i + 1]), top);
  });
  c.lineTo(view.width - RIGHT, base);
  c.fill();
  c.fillRect(margin, base, view.width - margin - RIGHT, 1);
  const cursor = view.marks.cursor ?? view.scene.at;
  if (cursor === null || cursor === undefined) return;
  drawCursor(view, Math.max(margin, Math.min(view.width - RIGHT, x(cursor))), 15, base + 2);
}

function drawKey(view, c, y) {
  let x = 8;
  const sample = (text, paint) => {
    if (x > 8 && x + 30 + c.measureText(text).width > view.width) {
      x = 8;
      y += 19;
    }
    paint(x, y);
    view.write(text, x + 28, y + 7, view.width - x - 30, "quiet");
    x += 28 + c.measureText(text).width + 18;
  };
  sample("runs", (left, top) => view.fillBox("ink", left, top, 20, 14));
  sample("waits, arrow: for what", (left, top) => view.strokeBox("ink", 2, [5, 3], left + 1, top + 1, 18, 12));
  sample("queued", (left, top) => {
    view.strokeBox("ink", 1.5, [], left + 1, top + 1, 18, 12);
    view.fillBox("ink", left + 1, top + 1, 4, 12);
  });
  sample("left of the line: over lately; ! not successful",
    (left, top) => view.fillBox("line", left + 9, top - 2, 2, 18));
}

function draw(view, c) {
  const {rows, columns} = view.scene;
  const {found, bottom} = placed(view);
  view.gaps = [];
  if (!rows.length) return;
  drawStrip(view, c);
  const own = rows.map(() => []);
  columns.row.forEach((row, i) => own[row].push(i));
  rows.forEach((row, number) => drawRow(view, c, {...row, number}, found[number], own[number]));
  drawArrows(view, c);
  rows.forEach((row, number) => drawWords(view, c, {...row, number}, found[number]));
  outlineMarks(view);
  drawRaces(view, c, view.scene.races || [], spotsOf(view));
  drawKey(view, c, bottom + 8);
  const more = view.scene.streams - rows.length;
  if (more > 0) {
    const text = `${more.toLocaleString("en")} more streams, those with work first (Page Up, Page Down)`;
    view.write(text, 8, bottom + below(view) + 8, view.width, "quiet");
  }
}

function words(view, rect) {
  const parts = [view.table.kinds[rect.kind][0] + (rect.name ? ` ${rect.name}` : "")];
  if (rect.bytes && rect.kind !== 9) parts.push(formatBytes(rect.bytes));
  const {label} = view.scene.rows[rect.row];
  if (rect.state === DONE) parts.push(`${ENDS[rect.status]} in ${label} at ${formatNs(rect.since)}`);
  else parts.push(`${STATES[rect.state]} in ${label} since ${formatNs(rect.since)}, place ${rect.position + 1} in the queue`);
  return `${parts.join(", ")} (number ${rect.seq})`;
}

export default mount({
  name: "queues",
  draw,
  height(view) {
    goBack(view);
    if (!view.scene.rows.length) return 1;
    measureMargin(view);
    return placed(view).bottom + below(view) + (view.scene.streams > view.scene.rows.length ? 18 : 0);
  },
  setup(view) {
    view.button("◀", "Look earlier ([)", () => nudge(view, -1), "earlier");
    view.button("▶", "Look later (])", () => nudge(view, 1), "later");
    view.newest = view.button("Newest", "Show what is queued now, or was at most (c)", () => view.look(null));
    scrubbing(view, (event) => event.offsetY < TOP - 8 && event.offsetX >= view.margin, (x) => strip(view).at(x));
    listenToRaces(view, stepRaced);
  },
  asked: (view) => ({options: {first: view.first || 0}}),
  taken(view) {
    const {before, after} = view.scene.linked;
    const both = (one, other) => [...new Set([...one, ...other])];
    view.marks = {...view.marks, before: both(view.marks.before, before), after: both(view.marks.after, after)};
    view.newest.ariaPressed = view.marks.cursor === null;
    countRaces(view);
    view.newest.textContent = view.scene.fullest ? "Fullest" : "Newest";
  },
  tell(view, seq) {
    const i = view.scene.columns.seq.indexOf(seq);
    return i >= 0 && words(view, tokenAt(view, i));
  },
  span: (view) => view.scene.strip,
  pages: ({scene}) => [scene.rows.length, scene.streams - scene.rows.length],
  words,
  click: (view, rect, event) => clickRace(view, event) || clickGap(view, rect),
  keys: {...TIME_KEYS, i: toggleGaps, r: (view) => stepRaced(view, 1), R: (view) => stepRaced(view, -1)},
});
