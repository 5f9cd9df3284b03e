import { BOLD, MONO, PLAIN, formatBytes, formatNs, mount, node, stepped } from "../drawing/base.js";
import { countRaces, drawRaces, listenToRaces, markUnder } from "../drawing/races.js";

const CELL = 24, GAP = 3, PAD = 6, HEAD = 18, LABEL = 74, LINE = 17, WIDE = 820, PILL = 40;
const PLAY_MS = 250, PLAYED_IN = 120;

const TOLD = ["turn", "on", "section", "line", "l1_bytes", "opens"], ENDED = 6, RELEASED = 10;

// How the cells stand after `position` steps, from how they stood at step `from`; `c` are the saved columns.
export function replay(c, from, position) {
  const cells = {};
  for (const name of TOLD) {
    cells[name] = c[`first_${name}`].slice();
    const steps = c[`step_${name}`];
    for (let i = 0; i < position - from; i++) if (c.step_cell[i] >= 0) cells[name][c.step_cell[i]] = steps[i];
  }
  cells.turn.forEach((turn, i) => { if (cells.opens[i] <= position && turn <= 3) cells.turn[i] = RELEASED; });
  return cells;
}

// How many steps were taken up to a moment: `at` ascends.
export function stepsUntil(at, moment) {
  let [low, high] = [0, at.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (at[middle] <= moment) low = middle + 1;
    else high = middle;
  }
  return low;
}

// Equal rows of integers once each, with how many there were at the end.
export function tally(rows) {
  const found = {};
  for (const row of rows) (found[row] ??= [...row, 0])[row.length] += 1;
  return Object.values(found).sort((a, b) => a[0] - b[0] || a[1] - b[1]);
}

// The threads at each line: [[section, line, turn, count]]; those that ended stand nowhere.
export function marked({turn, section, line}) {
  const rows = [...turn].map((each, i) => [section[i], line[i], each]);
  return tally(rows.filter((row) => row[0] >= 0 && row[2] !== ENDED));
}

// Where blocks and cells stand in `width` pixels: rows of a cluster's blocks, beside its name.
export function layout(blocks, width, top) {
  const boxes = [], labels = [];
  let [x, y, high, first, cluster] = [LABEL, top, 0, 0, null];
  for (const [block, where, l2, threads] of blocks) {
    const columns = Math.max(1, Math.min(threads, 12, Math.floor((width - LABEL - 2 * PAD) / (CELL + GAP))));
    const wide = Math.max(104, columns * (CELL + GAP) - GAP + 2 * PAD);
    const tall = HEAD + Math.ceil(threads / columns) * (CELL + GAP) - GAP + PAD;
    const fresh = where !== cluster;
    if (fresh || x + wide > width) {
      if (boxes.length) y += high + (fresh ? 10 : 6);
      [x, high] = [LABEL, 0];
    }
    if (fresh) labels.push({cluster: where, y});
    boxes.push({block, l2, threads, columns, first, x, y, width: wide, height: tall});
    [x, high, first, cluster] = [x + wide + 6, Math.max(high, tall), first + threads, where];
  }
  return {boxes, labels, bottom: y + high};
}

// ---- what is shown: what Python told, or what the saved steps say

function shown(view) {
  const {scene, from} = view;
  const {columns: c} = scene;
  if (!view.saved) return {...scene, cells: c};
  const cursor = view.marks.cursor ?? null;
  if (cursor !== view.seenCursor) {
    view.seenCursor = cursor;
    view.at = cursor === null ? scene.steps : from + stepsUntil(c.step_at, cursor);
  }
  const step = view.at ?? scene.step;
  if (step === scene.step) return {...scene, cells: c};
  const cells = {...c, ...replay(c, from, step)};
  const i = step - from - 1;
  const states = tally([...cells.turn].map((turn) => [turn]))
    .map(([turn, count]) => [turn, ...scene.looks[turn].slice(0, 2), count]);
  const cell = c.step_cell[i], at = c.step_at[i];
  const say = `${scene.title} (number ${scene.launch}), step ${step} of ${scene.steps}` +
    (at === undefined ? "" : ` at ${formatNs(at)}`) + `. ${states.map((s) => s[3] + " " + s[2]).join(", ")}.`;
  const blocks = scene.blocks.map(([block, cluster, , threads]) => [block, cluster, 0, threads]);
  const moved = [c.block[cell], c.thread[cell]];
  return {...scene, cells, step, states, blocks, moved, say, stands: marked(cells), waits: [], verdict: ""};
}

const stepNow = (view) =>
  view.wanted !== undefined && performance.now() - view.wantedAt < 600 ? view.wanted : shown(view).step;

function go(view, to) {
  if (!view.scene.steps) return;
  to = Math.max(view.from, Math.min(view.scene.steps, to));
  if (view.first !== undefined) {
    view.first = undefined;
    view.ask();
  }
  if (view.answered) {
    [view.wanted, view.wantedAt] = [to, performance.now()];
    view.send({type: "step", to});
  } else if (view.saved) {
    view.at = to;
    view.seenCursor = view.scene.columns.step_at[Math.max(0, to - view.from - 1)];
    view.look(view.seenCursor);
  }
}

function newest(view) {
  if (view.answered) {
    view.wanted = undefined;
    view.send({type: "step", to: "newest"});
  } else go(view, view.scene.steps);
}

// The next of some ascending positions after one, or the last before it; null where there is none.
export function nextOf(positions, step, by) {
  const at = stepsUntil(positions, by > 0 ? step : step - 1);
  return positions[by > 0 ? at : at - 1] ?? null;
}

function barrier(view, by) {
  const {scene} = view;
  const known = by > 0 ? scene.meeting_after : scene.meeting_before;
  const to = view.saved ? nextOf(scene.columns.meetings, shown(view).step, by) : known;
  go(view, to ?? (by > 0 ? scene.steps : 0));
}

function play(view, on = !view.playing) {
  clearInterval(view.playing);
  view.playing = 0;
  if (on && view.scene.steps) {
    if (stepNow(view) >= view.scene.steps) go(view, 0);
    view.playing = setInterval(() => {
      const step = stepNow(view);
      if (step >= view.scene.steps) play(view, false);
      else go(view, step + Math.max(1, Math.ceil(view.scene.steps / PLAYED_IN)));
    }, PLAY_MS);
  }
  view.playButton.ariaPressed = !!view.playing;
}

function toggleThreads(view) {
  if (view.answered && view.scene.state !== "ended") view.send({type: "threads", on: !view.scene.tracing});
}

function page(view, by) {
  if (!view.answered) return;
  const {first, blocks, all_blocks: all} = view.scene;
  const to = by > 0 ? first + blocks.length : Math.max(0, first - 96);
  if (to < all) {
    view.first = to;
    view.ask();
  }
}

const chosenOf = (view) => view.cells.find((each) => each.key === view.chosen);

function choose(view, by) {
  if (!view.cells.length) return;
  const here = view.cells.indexOf(chosenOf(view));
  view.chosen = here < 0 ? view.cells[0].key : stepped(view.cells, here, by).key;
  view.redraw();
}

// The races between threads of the launch on show: both threads, as the keys of their cells, and the text.
export function racesOf(races, launch) {
  return races.filter((race) => race[0] === launch && race[1] === launch && race[3] >= 0)
    .map(([, , text, block, thread, other, its]) => [`${block}:${thread}`, `${other}:${its}`, text]);
}

function chooseRaced(view, by) {
  const keys = [...new Set(view.races.flatMap(([one, other]) => [one, other]))];
  const drawn = keys.filter((key) => view.cells.some((cell) => cell.key === key));
  if (!drawn.length) return;
  view.chosen = stepped(drawn, drawn.indexOf(view.chosen), by);
  view.select(view.scene.launch);
}

// ---- drawing

function words(view, cell) {
  const [, state] = view.scene.looks[cell.turn];
  const numbered = cell.turn >= 3 && cell.turn <= 5 ? ` (number ${cell.on})` : "";
  const section = view.scene.sections[cell.section];
  const where = section ? `, line ${cell.line} of ${section[0]}` : "";
  const l1 = cell.l1_bytes ? `, L1 ${formatBytes(cell.l1_bytes)}` : "";
  const own = (race) => view.marks.seq !== view.scene.launch && race.slice(0, 2).includes(cell.key);
  const races = view.races.filter(own).map((race) => `${race[2]}. `).join("");
  return `Block ${cell.block} thread ${cell.thread}: ${state.replace("their", "its")}${numbered}${where}${l1}. ${races}`;
}

function drawLook(view, c, turn, x, y, width, height) {
  if (view.dry) return;
  const [letter, , kind] = view.scene.looks[turn];
  const quiet = kind < 0 && turn !== 7;
  c.fillStyle = kind >= 0 ? view.kindFill(kind) : view.colour(turn === 7 ? "failed" : turn === 8 ? "page" : "band");
  c.fillRect(x, y, width, height);
  if (kind >= 0) view.fillBox(`k${kind}`, x + width / 2 - 7, y + 2, 14, height - 4);
  if (quiet) view.strokeBox("line", 1, turn === 8 ? [2, 2] : [], x + 0.5, y + 0.5, width - 1, height - 1);
  c.font = `600 ${MONO}`;
  c.textAlign = "center";
  c.fillStyle = view.colour(quiet ? "quiet" : "on");
  c.fillText(letter, x + width / 2, y + height / 2 + 0.5);
  c.textAlign = "start";
  c.font = PLAIN;
}

function drawStates(view, c, now) {
  let [x, y] = [8, 4];
  for (const [turn, , state, count] of now.states) {
    const text = `${count.toLocaleString("en")} ${state}`;
    const wide = 30 + c.measureText(text).width + 14;
    if (x + wide > view.width && x > 8) [x, y] = [8, y + 22];
    drawLook(view, c, turn, x, y, 20, 16);
    view.write(text, x + 26, y + 8, view.width - x - 30);
    x += wide;
  }
  return y + 28;
}

function drawBlocks(view, c, now, place) {
  const {cells} = now;
  for (const {cluster, y} of place.labels) {
    view.write(cluster < 0 ? "blocks" : `cluster ${cluster}`, 8, y + 10, LABEL - 12, "quiet");
  }
  for (const box of place.boxes) {
    view.fillBox("band", box.x, box.y, box.width, box.height);
    const title = `block ${box.block}` + (box.l2 ? ` · L2 ${formatBytes(box.l2)}` : "");
    view.write(title, box.x + PAD, box.y + 10, box.width - 2 * PAD);
    for (let i = 0; i < box.threads; i++) {
      const at = box.first + i;
      const x = box.x + PAD + (i % box.columns) * (CELL + GAP);
      const y = box.y + HEAD + Math.floor(i / box.columns) * (CELL + GAP);
      const cell = {x, y, width: CELL, height: CELL, key: `${cells.block[at]}:${cells.thread[at]}`};
      for (const name of [...TOLD, "block", "thread"]) cell[name] = cells[name][at];
      drawLook(view, c, cell.turn, x, y, CELL, CELL);
      if (cell.turn !== ENDED && view.lineChosen === [cell.section, cell.line].join()) view.outline(cell, "before");
      if (cell.key === now.moved.join(":")) view.fillBox("cursor", x, y + CELL, CELL, 3);
      if (cell.key === view.chosen) view.outline(cell, "select");
      view.cells.push(cell);
      view.drawn(x, y, CELL, CELL, {...cell, seq: -1});
    }
  }
  const {first, all_blocks: all} = now, count = now.blocks.length;
  if (all === count) return place.bottom;
  const text = `blocks ${first + 1} to ${first + count} of ${all} (Page Up, Page Down)`;
  view.write(text, LABEL, place.bottom + 12, view.width, "quiet");
  return place.bottom + 24;
}

function drawSource(view, c, now, left, width, top) {
  let y = top;
  const chosen = chosenOf(view), [most, code] = width < 420 ? [2, 100] : [3, 134];
  now.sections.forEach(([title, lines], number) => {
    view.write(title, left, y + 8, width, "ink", BOLD);
    y += 20;
    for (const [line, text] of lines) {
      const stands = now.stands.filter((mark) => mark[0] === number && mark[1] === line);
      const own = chosen && chosen.section === number && chosen.line === line && chosen.turn !== ENDED;
      if (stands.length) view.fillBox("band", left, y, width, LINE);
      if (own || view.lineChosen === [number, line].join()) view.fillBox(own ? "select" : "before", left, y, 3, LINE);
      let x = left + 6;
      stands.slice(0, most).forEach(([, , turn, count]) => {
        drawLook(view, c, turn, x, y + 1, 18, LINE - 2);
        view.write(String(count), x + 20, y + LINE / 2, 30);
        x += 23 + 7 * String(count).length;
      });
      c.font = MONO;
      c.textAlign = "end";
      c.fillStyle = view.colour("quiet");
      c.fillText(line, left + code - 10, y + LINE / 2);
      c.textAlign = "start";
      view.write(text, left + code, y + LINE / 2, width - code - 4, "ink", MONO);
      view.drawn(left, y, width, LINE, {seq: -1, section: number, sourceLine: line, count: stands.length});
      y += LINE;
    }
    y += 8;
  });
  return y;
}

// The waits: two boxes each, and an arrow between them.
function drawWaits(view, c, now, y) {
  if (!now.waits.length) return y;
  const gap = view.width < 520 ? 44 : 128, wide = (view.width - gap - 8) / 2, right = wide + gap;
  view.write(now.verdict || "Waits", 8, y + 8, view.width - 16, now.verdict ? "failed" : "ink", BOLD);
  y += 22;
  for (const [threads, what, missing, hope, tone] of now.waits.slice(0, 8)) {
    const middle = y + PILL / 2;
    [[8, "k4", threads, what, "quiet"], [right, tone, missing, hope, tone === "failed" ? tone : "quiet"]].forEach(
      ([x, edge, first, second, colour]) => {
        view.fillBox("band", x, y, wide, PILL);
        view.fillBox(edge, x, y, 4, PILL);
        view.write(first, x + 12, y + 12, wide - 20);
        view.write(second, x + 12, y + 28, wide - 20, colour);
      });
    view.fillBox(tone, wide + 14, middle - 1, gap - 28, 2);
    view.lines(right - 4, middle, right - 14, middle - 5, right - 14, middle + 5).fill();
    if (gap > 99) view.write("waits for", wide + 40, middle - 10, 100, "quiet");
    view.drawn(8, y, view.width - 16, PILL, {seq: -1, wait: threads});
    y += PILL + 6;
  }
  const more = now.waits.length - 8;
  if (more > 0) view.write(`and ${more} more (As text)`, 8, y + 8, view.width, "quiet");
  return y + (more > 0 ? 22 : 4);
}

// Draw everything and return how high it is; `view.dry`: only the latter, for the canvas must know beforehand.
function render(view, c) {
  const now = view.now = shown(view);
  view.cells = [];
  if (!now.steps) return 1;
  const top = drawStates(view, c, now);
  const beside = view.width >= WIDE && now.sections.length > 0;
  const width = beside ? Math.round(view.width / 2) - 8 : view.width - 8;
  const places = layout(now.blocks, width, top), edge = Math.max(...places.boxes.map((box) => box.x + box.width));
  const grid = drawBlocks(view, c, now, places);
  const source = beside ? drawSource(view, c, now, edge + 20, view.width - edge - 28, top)
    : drawSource(view, c, now, 8, view.width - 16, grid + 12);
  return drawWaits(view, c, now, Math.max(grid, source) + 8);
}

function height(view) {
  view.style ||= getComputedStyle(view.root);
  view.colours ||= {};
  view.dry = true;
  view.context.font = PLAIN;
  const found = render(view, view.context);
  view.dry = false;
  return found;
}

function draw(view, c) {
  render(view, c);
  const corner = ({key, x, y}) => [key, {x: x + CELL - 3, y: y + 3}];
  drawRaces(view, c, view.races, new Map(view.cells.map(corner)));
  const {now, marks} = view;
  const cell = chosenOf(view);
  const own = marks.seq === now.launch;
  const linked = own ? view.linked() : [], said = linked.join("") ? [now.say.replace(/\.$/, ""), ...linked] : [now.say];
  if (marks.seq < 0 || own) view.tell(cell ? words(view, cell) : "", ...said);
  Object.assign(view.range, {min: view.from, max: now.steps});
  view.range.value = now.step;
  view.scene.note = now.steps ? `step ${now.step.toLocaleString("en")} of ${now.steps.toLocaleString("en")}` : "";
}

function list(view) {
  const {launches, launch} = view.scene;
  const key = JSON.stringify(launches);
  if (view.filled !== key) {
    view.filled = key;
    view.choice.replaceChildren(...launches.map(([seq, text]) => node("option", {value: seq}, text)));
  }
  view.choice.value = launch;
  for (const each of view.steps) each.disabled = !launches.length;
  view.choice.hidden = !launches.length;
  view.choice.disabled = !view.answered;
}

// The newest launch is the first of the list.
function other(view, by) {
  const {choice} = view;
  choice.selectedIndex = Math.max(0, Math.min(choice.length - 1, choice.selectedIndex - by));
  choice.dispatchEvent(new Event("change"));
}

export default mount({
  name: "cluster-grid",
  draw,
  height,
  setup(view) {
    view.cells = [];
    view.choice = node("select", {"aria-label": "Launch", style: "max-width:22em"});
    view.listen(view.choice, "change", () => view.answered && view.select(Number(view.choice.value)));
    view.range = node("input", {type: "range", min: 0, max: 0, "aria-label": "Step", style: "flex:1 1 8em"});
    view.listen(view.range, "input", () => go(view, Number(view.range.value)));
    view.bar.append(view.choice);
    view.button("«", "To the start (Home)", () => go(view, 0), "start");
    view.button("‹", "One step back (Left)", () => go(view, stepNow(view) - 1), "back");
    view.playButton = view.button("Play", "Play (g)", () => play(view));
    view.button("›", "One step on (Right)", () => go(view, stepNow(view) + 1), "on");
    view.button("»", "To the newest step (End)", () => newest(view), "end");
    view.button("Barrier ›", "To the next meeting (b; back: B)", () => barrier(view, 1), "barrier");
    view.failButton = view.button("Failure", "To the failure (x)", () => go(view, view.scene.failed_at));
    view.bar.append(view.range);
    view.steps = [...view.bar.children].slice(1);
    view.threadsButton = view.button("Trace threads", "Record steps of launches, which slows them (t)",
      () => toggleThreads(view), "threads");
    listenToRaces(view, chooseRaced);
    view.ends.push(() => clearInterval(view.playing));
  },
  asked: (view) => ({options: view.first === undefined ? {} : {first: view.first}}),
  taken(view) {
    const {scene} = view;
    view.from = scene.replay || 0;
    view.saved = !view.answered && scene.replay !== undefined;
    if (scene.step === view.wanted) view.wanted = undefined;
    if (scene.launch !== view.launch) [view.launch, view.chosen, view.lineChosen, view.wanted] = [scene.launch];
    if (!view.answered) view.seenCursor = scene.marks.cursor ?? null;
    view.failButton.hidden = scene.failed_at < 0;
    view.threadsButton.hidden = !view.answered || scene.state === "ended";
    view.threadsButton.ariaPressed = scene.tracing;
    list(view);
    view.races = racesOf(scene.races || [], scene.launch);
    countRaces(view, view.races);
  },
  click(view, rect, event) {
    const mark = markUnder(view, event);
    if (mark) {
      view.chosen = mark.side;
    } else if (rect?.sourceLine !== undefined) {
      const line = [rect.section, rect.sourceLine].join();
      view.lineChosen = view.lineChosen === line ? undefined : line;
    } else {
      view.chosen = rect?.key === view.chosen ? undefined : rect?.key;
    }
    view.redraw();
    return true;
  },
  keys: {
    n: (view) => other(view, 1),
    p: (view) => other(view, -1),
    ArrowLeft: (view) => go(view, stepNow(view) - 1),
    ArrowRight: (view) => go(view, stepNow(view) + 1),
    Home: (view) => go(view, 0),
    End: newest,
    b: (view) => barrier(view, 1),
    B: (view) => barrier(view, -1),
    x: (view) => view.scene.failed_at >= 0 && go(view, view.scene.failed_at),
    g: (view) => play(view),
    t: toggleThreads,
    r: (view) => chooseRaced(view, 1),
    R: (view) => chooseRaced(view, -1),
    ArrowUp: (view) => choose(view, -1),
    ArrowDown: (view) => choose(view, 1),
    PageDown: (view) => page(view, 1),
    PageUp: (view) => page(view, -1),
  },
});
