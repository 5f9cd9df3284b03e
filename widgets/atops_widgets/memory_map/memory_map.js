import { BOLD, PLAIN, formatBytes, formatNs, mount, node, stepped } from "../drawing/base.js";
import { momentAt, placing } from "../drawing/time_axis.js";
import { TIME_KEYS, listenToWheel, scrubbing } from "../drawing/time_cursor.js";

// As in drawing.py, which lays out all but the shapes.
const MARGIN = 176, RIGHT = 10, LANE = 66, SHAPE = 34, SHAPE_TOP = 19, CURVE = 92;
const SMALL = "10px system-ui, sans-serif";
const FREED = 0, LIVE = 2, REUSED = 3;
const DTYPES = "uint8 int8 uint16 int16 uint32 int32 uint64 int64 float16 bfloat16 float32 float64";
const STATES = ["freed just before", "kept for reuse", "live", "live, in a reused range"];

// Where stretches of a lane stand: [left, right, start, stop] each, in the scene's pixels and in bytes.
export function stretches(columns, lane) {
  const found = [];
  const {seg_lane: lanes, seg_left: left, seg_right: right, seg_start: start, seg_stop: stop} = columns;
  lanes.forEach((each, i) => each === lane && found.push([left[i], right[i], start[i], stop[i]]));
  return found;
}

// The address at a place of a lane; in a break, the end of the stretch before it.
export function addressAt(parts, x) {
  let found = parts.length ? parts[0][2] : 0;
  for (const [left, right, start, stop] of parts) {
    if (x < left) break;
    found = start + Math.min(1, (x - left) / Math.max(1e-9, right - left)) * (stop - start);
  }
  return Math.round(found);
}

// What goes with a place (kind 0) or an address (kind 1) of a lane in the other kind; beyond its ends both go on evenly.
function across(parts, value, kind) {
  const points = parts.flatMap(([left, right, start, stop]) => [[left, start], [right, stop]]);
  const last = points.length - 1, found = points.findIndex((point) => value < point[kind]);
  const [from, to] = found > 0 ? points.slice(found - 1) : [points[0], points[last]], other = 1 - kind;
  return from[other] + (value - from[kind]) / Math.max(1e-9, to[kind] - from[kind]) * (to[other] - from[other]);
}

// The addresses to show when `part` of a lane, null for all of it, is zoomed by a factor about an address, or about its
// middle. null: everything there is. It goes by what was asked for last and not by what is drawn: keys and wheels are
// faster than pictures. `whole` are the lane's stretches when all of it was drawn; in and out again is where one was.
export function zoomed(whole, part, factor, address) {
  const left = whole[0][0], right = whole[whole.length - 1][1], place = (value) => across(whole, value, 1);
  const [start, stop] = part ? [place(part.from), place(part.to)] : [left, right], middle = (start + stop) / 2;
  const outside = factor > 1 && (middle < left || middle > right);
  const about = outside ? middle : place(address ?? addressAt(whole, middle));
  const first = about + (start - about) * factor, last = about + (stop - about) * factor;
  if (first <= left + 0.5 && last >= right - 0.5) return null;
  const from = Math.max(0, Math.floor(across(whole, first, 0)));
  return {from, to: Math.max(from + 256, Math.ceil(across(whole, last, 0)))};
}

export function panned({from, to}, part) {
  const by = Math.max(-from, Math.round((to - from) * part));
  return {from: from + by, to: to + by};
}

const laneWidth = (view) => view.width - MARGIN - RIGHT;
// Of pixels here to pixels of the scene: not 1 while a new width is asked for, and in a saved picture.
const scaleOf = (view) => laneWidth(view) / (view.scene.width - MARGIN - RIGHT);

// ---- zooming

function laneUnder(view, y) {
  const found = view.scene.tops.findIndex((top) => y >= top && y < top + LANE);
  return found >= 0 ? found : view.lane;
}

// The stretches of a lane when it was last drawn whole.
function wholeOf(view, number) {
  const {ordinal, bank, zoomed: part} = view.scene.lanes[number], key = `${ordinal},${bank}`;
  const parts = stretches(view.scene.columns, number);
  if (!part) view.wholes[key] = parts;
  return view.wholes[key] || parts;
}

function zoom(view, factor, x, number = view.lane) {
  const parts = stretches(view.scene.columns, number);
  if (!parts.length) return;
  view.lane = number;
  const {ordinal, bank} = view.scene.lanes[number], {zoom: asked} = view;
  const part = asked?.device === ordinal && asked.bank === bank ? asked : null;
  const address = x && addressAt(parts, (x - MARGIN) / scaleOf(view));
  setZoom(view, zoomed(wholeOf(view, number), part, factor, address));
}

function setZoom(view, part) {
  const {ordinal, bank} = view.scene.lanes[view.lane];
  view.zoom = part && {device: ordinal, bank, ...part};
  view.ask();
}

function pan(view, part) {
  if (!view.zoom) return;
  view.zoom = {...view.zoom, ...panned(view.zoom, part)};
  view.ask();
}

function zoomTo(view, rect) {
  const parts = stretches(view.scene.columns, rect.lane);
  const x = (rect.x - MARGIN) / scaleOf(view);
  const from = rect.offset >= 0 ? rect.offset : addressAt(parts, x);
  const to = rect.offset >= 0 ? from + rect.size : addressAt(parts, x + Math.max(1, rect.width / scaleOf(view)));
  const spare = Math.max(128, Math.round((to - from) / 4));
  wholeOf(view, rect.lane);
  view.lane = rect.lane;
  setZoom(view, {from: Math.max(0, from - spare), to: to + spare});
}

function changeLane(view, by) {
  const {lanes} = view.scene, count = lanes.length;
  if (!count) return;
  view.lane = (view.lane + by + count) % count;
  const {ordinal, bank, use} = lanes[view.lane];
  view.tell(`device ${ordinal}, bank ${bank}: ${use}`);
  view.redraw();
}

function showAll(view) {
  view.zoom = null;
  view.ask();
}

// ---- ranges

function choose(view, generation) {
  view.generation = generation;
  view.ask();
  showPanel(view);
}

function stepRange(view, by) {
  const found = view.rects.filter((rect) => rect.generation >= 0);
  if (!found.length) return;
  const next = stepped(found, found.findIndex((rect) => rect.generation === view.generation), by);
  choose(view, next.generation);
  view.tell(words(view, next));
}

function words(view, rect) {
  if (rect.text) return rect.text;
  const size = formatBytes(rect.size);
  if (rect.touch) return `number ${rect.seq} ${rect.touch} ${size} here`;
  if (rect.count > 1) return `${rect.count.toLocaleString("en")} ranges, ${size} together; zoom in to see them`;
  const {places, streams} = view.scene;
  const by = (site) => (places[site] ? ` by ${places[site][0]}` : "");
  const parts = [`allocation ${rect.generation}: ${size} at 0x${rect.offset.toString(16)}, ${STATES[rect.state]}`];
  parts.push(`since ${formatNs(rect.born)}${by(rect.site)}`);
  if (rect.stream >= 0) parts.push(`stream ${streams[rect.stream] || rect.stream}`);
  if (rect.died >= 0) parts.push(`freed at ${formatNs(rect.died)}${by(rect.freed)}`);
  return parts.join("; ");
}

// ---- drawing

// One that lives is filled; one that is kept is framed, one that was freed framed with dashes.
function shape(view, c, x, y, width, height, state) {
  const live = state >= LIVE, name = live ? "k12" : state === FREED ? "k13" : "quiet";
  view.fillBox(width < 4 ? name : "page", x, y, width, height);
  if (width < 4) return;
  c.globalAlpha = live ? 0.25 : 0.06;
  view.fillBox(name, x, y, width - 1, height);
  c.globalAlpha = 1;
  if (state === REUSED) view.fillBox(name, x, y + height - 3, width - 1, 3);
  view.strokeBox(name, 1, state === FREED ? [3, 2] : [], x + 0.5, y + 0.5, width - 2, height - 1);
}

function drawShapes(view, c) {
  const s = view.scene.columns, scale = scaleOf(view);
  for (let i = 0; i < s.lane.length; i++) {
    const x = MARGIN + s.left[i] * scale, width = Math.max(1.5, (s.right[i] - s.left[i]) * scale);
    const top = view.scene.tops[s.lane[i]] + SHAPE_TOP, many = s.count[i] > 1;
    const height = many ? Math.max(5, SHAPE * s.fill[i]) : SHAPE;
    const y = top + SHAPE - height;
    shape(view, c, x, y, width, height, s.state[i]);
    const size = formatBytes(s.size[i]);
    const over = (lane, j) => j > i && lane === s.lane[i] && s.left[j] < s.right[i] && s.right[j] > s.left[i];
    if (width > 30 && !many && c.measureText(size).width < width - 7 && !s.lane.some(over)) {
      const site = (["freed ", "kept "][s.state[i]] || "") + (view.scene.places[s.site[i]]?.[1] || "");
      view.write(size, x + 4, y + (site ? 10 : 17), width - 7);
      view.write(site, x + 4, y + 24, width - 7);
    }
    view.drawn(x, y, width, height, {
      seq: -1, lane: s.lane[i], state: s.state[i], count: s.count[i], size: s.size[i], generation: s.generation[i],
      offset: s.offset[i], site: s.site[i], freed: s.freed_site[i], stream: s.stream[i], born: s.born[i],
      died: s.died[i],
    });
  }
}

// Texts, boxes, lines and places of the scene's own, as sketch.py describes them.
function drawItems(view, c) {
  const scale = scaleOf(view);
  const at = (x) => (x < MARGIN ? x : MARGIN + (x - MARGIN) * scale);
  for (const [what, x, y, a, b, d, e, f] of view.scene.items) {
    if (what === "t") {
      const small = e === "s";
      const face = c.font = small ? SMALL : e === "b" ? BOLD : PLAIN;
      const back = small ? Math.min(b, c.measureText(a).width) / 2 : 0;
      view.write(a, at(x) - back, y, x < MARGIN ? b : b * scale, d, face);
    } else if (what === "r") {
      c.globalAlpha = e;
      view.fillBox(d, at(x), y, at(x + a) - at(x), b);
      c.globalAlpha = 1;
    } else if (what === "h") {
      view.drawn(at(x), y, at(x + a) - at(x), b, {text: d, seq: e, curve: f});
    } else {
      line(view, c, x, at, y, a, b, d);
    }
  }
}

function line(view, c, points, at, colour, width, dash, alpha) {
  view.lines(...points.map((value, i) => (i % 2 ? value : at(value))));
  c.fillStyle = c.strokeStyle = view.colour(colour);
  c.globalAlpha = alpha || 1;
  c.lineWidth = width;
  c.setLineDash(dash ? dash.split(" ").map(Number) : []);
  if (alpha) c.fill();
  else c.stroke();
  c.setLineDash([]);
  c.globalAlpha = 1;
}

// What the selected operation wrote (above the lane), and what it read or was given (below it). Labels that would stand
// on others are left out: `free` is where the last one ends, by the y of its range. None hides all of its range.
function drawTouches(view, c) {
  const t = view.scene.columns, scale = scaleOf(view), free = {};
  for (let i = 0; i < t.touch_lane.length; i++) {
    if (t.touch_seq[i] !== view.marks.seq) continue;
    const x = MARGIN + t.touch_left[i] * scale, width = Math.max(3, (t.touch_right[i] - t.touch_left[i]) * scale);
    const how = t.touch_how[i], wrote = how === 1, raced = how === 3, label = ["read", "wrote", "uses", "raced over"][how];
    const under = view.scene.tops[t.touch_lane[i]] + SHAPE_TOP + SHAPE;
    const y = wrote ? under - SHAPE - 4 : under - 8 * raced, line = wrote ? y : under;
    const height = raced ? 8 : 4, [ink, mark] = raced ? ["failed", "race"] : ["select", "select"];
    view.fillBox(ink, x, y, width, height);
    c.font = BOLD;
    const room = c.measureText(label).width + 6;
    const at = Math.min(x + Math.max(0, width - room) / 2, view.width - room - RIGHT);
    const middle = wrote ? y - 5 : under + (width < room || raced ? 10 : 5);
    if (!(at < free[line])) {
      free[line] = at + room;
      view.fillBox("page", at, middle - 6, room, 11);
      view.write(label, at + 3, middle, room, ink, BOLD);
    }
    view.drawn(x, y, width, height, {
      seq: t.touch_seq[i], lane: t.touch_lane[i], touch: label, size: t.touch_bytes[i], mark,
    });
  }
}

// The axis as Python has drawn it: on a page without Python a gap that is opened stays folded here.
const drawnAxis = ({scene}) => ({scene, marks: scene.marks});

function drawMoment(view, top) {
  const {window, newest, span} = view.scene, moment = Math.min(newest, Math.max(view.marks.cursor ?? newest, span[0]));
  if (moment < window[0] || moment > window[1]) return;
  const [start, end, at] = [...window, moment].map(placing(drawnAxis(view)));
  const part = Math.min(1, Math.max(0, (at - start) / (end - start)));
  const x = MARGIN + part * laneWidth(view);
  view.fillBox("cursor", x - 1, top - 4, 2, CURVE + 4);
  view.fillBox("cursor", x - 4, top - 6, 8, 5);
}

function draw(view, c) {
  const {scene} = view;
  drawItems(view, c);
  drawShapes(view, c);
  if (scene.tops.length > 1) view.write("▸", 10, scene.tops[view.lane] + 12, 12);
  drawTouches(view, c);
  for (const top of scene.curves) drawMoment(view, top);
  for (const rect of view.rects) if (rect.generation >= 0 && rect.generation === view.generation) view.outline(rect, "select");
}

// ---- what is selected, below the picture

function setUpPanel(view) {
  view.about = node("div", {"data-testid": "atops-about"});
  view.dtypes = node("select", {"aria-label": "Type of the values", "data-testid": "atops-dtype"});
  for (const name of DTYPES.split(" ")) view.dtypes.append(node("option", {value: name}, name));
  view.listen(view.dtypes, "change", () => view.ask());
  const tools = [
    view.button("Look", "Read the bytes now; mark what changed since the last look (v)", () => look(view, 0)),
    view.button("◂ before", "Bytes before these", () => look(view, -1), "earlier"),
    view.button("after ▸", "Bytes after these", () => look(view, 1), "later"),
  ];
  view.values = node("pre", {tabindex: 0, "data-testid": "atops-values", "aria-label": "Contents of the range"});
  view.tools = node("div", {class: "atops-bar"}, "Contents as ", view.dtypes, ...tools);
  view.panel = node("div", {hidden: ""}, view.about, view.tools, view.values);
  view.canvas.after(view.panel);
}

function look(view, by) {
  const {contents, chosen} = view.scene;
  if (!chosen) return;
  const first = contents?.generation === view.generation ? contents.first : 0;
  view.send({type: "contents", generation: view.generation, first: Math.max(0, first + by * 1024)});
}

function showPanel(view) {
  const {chosen, contents, live, touched} = view.scene, {about} = view;
  const own = chosen?.generation === view.generation;
  const add = (text) => about.append(node("div", {}, text));
  const told = JSON.stringify([touched, own && [chosen, contents]]);
  view.panel.hidden = !own && !touched.length;
  view.tools.style.display = own && live && view.answered ? "" : "none";
  // Made anew only when it changes: a button may have the focus, or be pressed just now.
  if (view.toldHere === told) return;
  view.toldHere = told;
  about.replaceChildren();
  touched.forEach(add);
  showValues(view, own && contents?.generation === view.generation ? contents : null);
  if (!own) return;
  chosen.text.forEach(add);
  for (const [seq, text] of chosen.operations) {
    const made = node("button", {type: "button", "data-testid": `atops-operation-${seq}`}, text);
    made.onclick = () => view.select(seq);
    about.append(made, " ");
  }
}

function showValues(view, found) {
  const {values} = view;
  values.hidden = !found;
  values.replaceChildren();
  if (!found) return;
  values.append(found.text);
  for (const [text, changed] of found.parts) {
    values.append(changed ? node("b", {style: "color:var(--path)"}, text) : text);
  }
}

// ---- pointer

function listenToPointer(view) {
  const {canvas} = view;
  scrubbing(view, (event) => view.hit(event)?.curve >= 0, (x) => {
    const axis = drawnAxis(view), [start, end] = view.scene.window.map(placing(axis));
    return momentAt(axis, start + ((x - MARGIN) / laneWidth(view)) * (end - start));
  });
  view.listen(canvas, "dblclick", (event) => {
    const rect = view.hit(event);
    if (rect?.generation >= 0 || rect?.count > 1) zoomTo(view, rect);
    else showAll(view);
  });
  listenToWheel(view, (event) => zoom(view, 2 ** (event.deltaY / 240), event.offsetX, laneUnder(view, event.offsetY)));
}

function clicked(view, rect) {
  if (!rect) {
    choose(view, -1);
    return false;
  }
  if (rect.curve >= 0) return true;
  if (rect.lane >= 0) view.lane = rect.lane;
  if (rect.count > 1) zoomTo(view, rect);
  else if (rect.generation >= 0) choose(view, rect.generation);
  return !(rect.seq >= 0);
}

export default mount({
  name: "memory",
  draw,
  height: (view) => view.scene.height,
  setup(view) {
    Object.assign(view, {generation: -1, lane: 0, first: 0, zoom: null, wholes: {}});
    view.button("−", "Zoom out of the bank (-)", () => zoom(view, 2), "zoom-out");
    view.button("+", "Zoom into the bank (+)", () => zoom(view, 0.5), "zoom-in");
    view.button("All", "Show all addresses in use (Home)", () => showAll(view));
    view.threads = view.button("Trace threads", "L1 and L2 of kernels from now on, which makes them much slower",
      () => view.send({type: "threads"}), "threads");
    setUpPanel(view);
    listenToPointer(view);
  },
  asked: (view) => ({
    options: {zoom: view.zoom, first: view.first, generation: view.generation, dtype: view.dtypes.value},
  }),
  taken(view) {
    view.lane = Math.max(0, Math.min(view.lane, view.scene.lanes.length - 1));
    if (!view.answered && view.scene.chosen) view.generation = view.scene.chosen.generation;
    view.threads.hidden = !view.answered || !view.scene.live || view.scene.state === "ended";
    showPanel(view);
  },
  span: (view) => view.scene.window,
  pages: ({scene}) => [1, scene.count - 1],
  words,
  click: clicked,
  keys: {
    ...TIME_KEYS,
    n: (view) => stepRange(view, 1),
    p: (view) => stepRange(view, -1),
    "+": (view) => zoom(view, 0.5),
    "-": (view) => zoom(view, 2),
    ArrowLeft: (view) => pan(view, -0.2),
    ArrowRight: (view) => pan(view, 0.2),
    ArrowUp: (view) => changeLane(view, -1),
    ArrowDown: (view) => changeLane(view, 1),
    Home: showAll,
    v: (view) => look(view, 0),
  },
});
