import { BOLD, mount, node } from "../drawing/base.js";
import { CELL, LANE, LANE_MARGIN, drawLanes, firstStep } from "../drawing/lanes.js";

const TOP = 20, MOST_LANES = 12;

// How many picks lead to the place before a step of the run: those before it.
export function picksBefore(picked, step) {
  return picked.filter((at) => at < step).length;
}

const plural = (count, what) => `${count} ${what}${count === 1 ? "" : "s"}`;

function head(text, body) {
  const block = node("div", {}, node("h4", {}, text), body);
  block.body = body;
  return block;
}

function row(cell, ...parts) {
  return node("tr", {}, ...parts.map((part) => node(cell, {}, ...[part].flat())));
}

const step = (by) => (view) => view.send({type: "step", by});

const keys = {
  Home: (view) => view.send({type: "go", to: 0}),
  End: (view) => view.send({type: "go", to: view.run.known}),
  b: step(-1), ArrowLeft: step(-1), ArrowRight: step(1),
  Enter: (view) => pick(view, 0),
  " ": (view) => pick(view, 0),
  f: (view) => view.send({type: "finish", policy: view.policy.value}),
  x: (view) => view.send({type: view.scene.found.on ? "cancel" : "search", strategy: "random"}),
};
for (let digit = 1; digit <= 9; digit++) keys[digit] = (view) => pick(view, digit - 1);

function setup(view) {
  view.run = {options: [], memory: [], queues: []};
  view.button("|◀", "Begin anew (Home)", () => keys.Home(view), "first");
  view.button("◀", "Take back the last pick (b, Left)", () => keys.b(view), "back");
  view.button("▶", "Make the pick again that was taken back (Right)", () => keys.ArrowRight(view), "forward");
  view.button("▶|", "Go to the end of what is known (End)", () => keys.End(view), "last");
  view.policy = node("select", {"aria-label": "How the rest comes", "data-testid": "atops-policy"},
    ...["first come", "same", "random"].map((each) => node("option", {}, each)));
  view.button("Finish", "Have the rest come as chosen beside (f)", () => keys.f(view));
  view.bar.append(view.policy);
  view.search = view.button("Is there one that breaks it?", "Run it under other schedules until one fails (x)",
    () => keys.x(view), "search");
  const parts = {next: ["What can come next", "ul", "options"], memory: ["Memory", "table", "cells"],
    queues: ["Queues", "table", "cells"]};
  for (const [name, [title, tag, style]] of Object.entries(parts)) {
    view[name] = head(title, node(tag, {class: `atops-${style}`, "data-testid": `atops-${name}`}));
  }
  view.field = node("input", {class: "atops-field", "aria-label": "Schedule", placeholder: "the schedule as a string, once the run is over",
    spellcheck: "false", "data-testid": "atops-schedule"});
  const load = node("button", {type: "button", "data-testid": "atops-load", title: "Run as this string says"}, "Load");
  view.listen(load, "click", () => view.send({type: "load", schedule: view.field.value}));
  view.listen(view.field, "keydown", (event) => event.key === "Enter" && load.click());
  const copy = node("button", {type: "button", title: "Select the string and copy it"}, "Copy");
  view.listen(copy, "click", () => {
    view.field.select();
    navigator.clipboard?.writeText(view.field.value).catch(() => {});
  });
  view.found = node("p", {class: "atops-say", "data-testid": "atops-found"});
  view.canvas.after(view.say, view.found, node("div", {class: "atops-columns"}, view.next, view.memory, view.queues),
    node("div", {class: "atops-bar"}, "Schedule", view.field, copy, load));
}

function taken(view) {
  view.pauseButton.hidden = true;
  const {run, trail, found} = view.scene;
  view.run = run;
  if (trail) view.trail = trail;
  for (const [name, on] of [["first", run.position], ["back", run.position], ["forward", run.position < run.known],
    ["last", run.position < run.known], ["finish", !run.over]]) {
    view.bar.querySelector(`[data-testid=atops-${name}]`).disabled = !on || found.on;
  }
  view.search.textContent = found.on ? "Stop" : "Is there one that breaks it?";
  view.found.textContent = searchText(found);
  view.say.classList.toggle("atops-failed", !!run.failure);
  if (view.told !== run.schedule) view.field.value = view.told = run.schedule;
  showOptions(view, found.on);
  showMemory(view);
  showQueues(view);
}

const focused = (view) => view.root.getRootNode().activeElement;

export function searchText(found) {
  if (!found.stage) return "";
  if (!found.on) return found.sentence;
  const cut = found.cut ? `, ${found.cut} cut short` : "";
  return found.stage === "shrinking" ? `Found: ${found.found}. Making it small: ${plural(found.replays, "run")}`
    : `Searching: ${found.runs} of ${plural(found.asked, "schedule")}${cut}, ${found.rate} a second`;
}

function showOptions(view, off) {
  const {run, table} = view, list = view.next.body;
  const here = [...list.querySelectorAll("button")].indexOf(focused(view));
  list.replaceChildren(...run.options.map((option, at) => {
    const [letter, colour] = table.kinds[option.kind] || ["?", 14];
    const kind = node("span", {class: "atops-kind", style: `background:var(--k${colour})`, "aria-hidden": "true"}, letter);
    const words = node("span", {}, node("strong", {}, option.words), option.does && " ", node("code", {}, option.does));
    const made = node("button", {type: "button", class: "atops-option", "data-testid": `atops-option-${at + 1}`},
      node("span", {class: "atops-key"}, at < 9 ? `${at + 1}` : ""), kind, words);
    for (const line of [option.would, option.place]) if (line) made.append(node("small", {}, line));
    made.disabled = !!off;
    made.onclick = () => pick(view, at);
    made.keyed = (event) => optionKey(view, event, at);
    return node("li", {}, made);
  }));
  const buttons = list.querySelectorAll("button");
  if (here >= 0) (buttons[Math.min(here, buttons.length - 1)] || view.canvas).focus();
  view.next.firstChild.textContent = run.over ? `It is over: ${run.failure ? "it failed" : run.verdict}` : "What can come next";
  if (run.over) list.append(node("li", {}, "Take picks back, begin anew, or load another schedule."));
}

function optionKey(view, event, at) {
  const buttons = view.next.body.querySelectorAll("button"), by = {ArrowUp: -1, ArrowDown: 1}[event.key];
  if (event.key === " " || event.key === "Enter") return;
  if (by) buttons[(at + by + buttons.length) % buttons.length].focus();
  else if (keys[event.key]) keys[event.key](view);
  else if (event.key === "Escape") view.canvas.focus();
  else return;
  view.acted = performance.now();
  event.preventDefault();
}

function pick(view, option) {
  if (option < view.run.options.length) view.send({type: "pick", option, at: view.run.position});
}

function showMemory(view) {
  const {memory} = view.run;
  view.memory.hidden = !memory.length;
  view.memory.firstChild.textContent = view.run.over ? "Memory before the end" : "Memory";
  view.memory.body.replaceChildren(row("th", "name", "where", "type", "values"), ...memory.map((each) => {
    const cells = node("code");
    if (each.first) cells.append(`[${each.first}:] `);
    each.values.forEach((value, at) => {
      const change = each.changed.indexOf(at);
      if (change >= 0) cells.append(node("del", {"aria-label": `was ${each.was[change]}`}, each.was[change]), node("mark", {}, value), " ");
      else cells.append(`${value} `);
    });
    if (each.size > each.first + each.values.length) cells.append("…");
    return row("td", node("code", {}, each.name), `${each.where} ${each.owner}`, each.type, cells);
  }));
}

function showQueues(view) {
  const {queues} = view.run;
  view.queues.hidden = !queues.length;
  view.queues.firstChild.textContent = view.run.over ? "Queues before the end" : "Queues";
  view.queues.body.replaceChildren(row("th", "stream", "the first one comes next"), ...queues.map((queue) => {
    const commands = queue.commands.slice(0, 8).map((each) => {
      const said = node("li", {title: each.place}, node("code", {}, each.words));
      if (each.running) said.append(" ", node("mark", {}, "runs"));
      return said;
    });
    if (queue.commands.length > 8) commands.push(node("li", {}, `and ${queue.commands.length - 8} more`));
    return row("td", queue.name, node("ol", {}, ...commands));
  }));
}

// ---- what has come, a lane for each actor

const lanes = (view) => Math.min(MOST_LANES, view.trail?.actors.length || 0);

function height(view) {
  return TOP + Math.max(1, lanes(view)) * LANE + 4;
}

function draw(view, c) {
  const {trail, run} = view, count = lanes(view), hidden = (trail?.actors.length || 0) - count;
  view.write(hidden > 0 ? `What has come (${hidden} more below: Page Down)` : "What has come", 0, 10, LANE_MARGIN * 2, "quiet");
  if (!trail?.steps.length) return;
  const room = Math.max(1, Math.floor((view.width - LANE_MARGIN) / CELL)), top = Math.min(view.first || 0, Math.max(0, hidden));
  const first = firstStep(trail.steps.length, run.step, room);
  const x = drawLanes(view, c, trail, {y: TOP, top, count, first, cell: CELL, now: run.step});
  view.fillBox("select", x - 1, 2, 2, view.height - 2);
  const label = `${run.step}`, beside = x + 4 + 8 * label.length < view.width ? x + 4 : x - 4 - 8 * label.length;
  view.write(label, beside, 10, 60, "select", BOLD);
}

function click(view, rect) {
  view.canvas.title = rect?.text || "";
  if (rect) view.send({type: "go", to: picksBefore(view.trail.picked, rect.step)});
  return true;
}

export default mount({
  name: "scheduler", setup, taken, height, draw, click, keys,
  pages: (view) => [MOST_LANES, Math.max(0, (view.trail?.actors.length || 0) - MOST_LANES)],
});
