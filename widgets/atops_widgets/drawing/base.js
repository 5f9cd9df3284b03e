// What every widget's script shares: frames from Python or from the saved picture, the canvas and its drawn list,
// themes, keys, marks. A widget's script is `export default mount({...})`; see `mount` at the end.

const TYPES = {
  d: Float64Array, f: Float32Array, i: Int32Array, I: Uint32Array, h: Int16Array, H: Uint16Array, b: Int8Array,
  B: Uint8Array,
};
export const PLAIN = "12px system-ui, sans-serif", BOLD = `600 ${PLAIN}`, MONO = "12px ui-monospace, monospace";
const FIRST_ANSWER_MS = 700;
const ASK_MS = 33;
const TOLD_MS = 3000;
const PING_MS = 2000;

// Columns out of one buffer, as `wire.pack` in Python writes them. Each is copied, so that it begins where it may.
export function unpack(header, view) {
  const columns = {};
  let at = 0;
  for (const [name, code, length] of header) {
    const type = TYPES[code];
    const bytes = length * type.BYTES_PER_ELEMENT;
    columns[name] = new type(view.buffer.slice(view.byteOffset + at, view.byteOffset + at + bytes));
    at += Math.ceil(bytes / 8) * 8;
  }
  return columns;
}

// The saved picture, as `wire.pack_snapshot` in Python writes it.
export async function inflate(saved) {
  const bytes = typeof saved === "string" ? Uint8Array.from(atob(saved), (each) => each.charCodeAt(0)) : saved;
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  const raw = await new Response(stream).arrayBuffer();
  const size = new DataView(raw).getUint32(0, true);
  const told = JSON.parse(new TextDecoder().decode(new Uint8Array(raw, 4, size)));
  return {...told, columns: unpack(told.columns, new DataView(raw, 4 + size))};
}

// The operations before and after one, along edges from -> to; `through` are skipped to those behind them.
export function around(from, to, seq, through) {
  const walk = (here, there) => {
    const next = new Map();
    for (let i = 0; i < here.length; i++) {
      if (!next.has(here[i])) next.set(here[i], []);
      next.get(here[i]).push(there[i]);
    }
    const found = new Set();
    const pending = [seq];
    while (pending.length && found.size < 256) {
      for (const other of next.get(pending.shift()) || []) {
        if (other === seq || found.has(other)) continue;
        found.add(other);
        if (through.has(other)) pending.push(other);
      }
    }
    return [...found];
  };
  return {before: walk(to, from), after: walk(from, to)};
}

// A time with three digits, or with as many as tell it from one that is `step` away.
export function formatNs(ns, step) {
  for (const [unit, scale] of [["s", 1e9], ["ms", 1e6], ["µs", 1e3]]) {
    const value = ns / scale, size = Math.abs(value);
    const digits = step ? Math.ceil(Math.log10(scale / step) - 1e-9) : 2 - Math.floor(Math.log10(size));
    if (size >= (step ? 1 : 0.9995)) return `${+value.toFixed(Math.max(0, digits))} ${unit}`;
  }
  return `${Math.round(ns)} ns`;
}

export function formatBytes(size) {
  let step = 0;
  for (; Math.abs(size) >= 1024 && step < 4; step++) size /= 1024;
  return +size.toFixed(1) + [" B", " KiB", " MiB", " GiB", " TiB"][step];
}

// The one `by` places from the one at `here`, around the end; where there is none (-1), the first or the last.
export function stepped(list, here, by) {
  return list[here < 0 ? (by > 0 ? 0 : list.length - 1) : (here + by + list.length) % list.length];
}

export function node(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

// Mark what is drawn of the selected operation and of its neighbours.
export function outlineMarks(view) {
  const {seq, before, after} = view.marks;
  if (seq < 0) return;
  for (const [mark, seqs] of Object.entries({before, after, select: [seq]}))
    for (const rect of view.rects) if (seqs.includes(rect.seq)) view.outline(rect, mark);
}

// One view of a widget. `spec` is what the widget's own script gives to `mount`.
class View {
  constructor(spec, model, el) {
    const marks = {seq: -1, before: [], after: [], cursor: null, place: "", text: "", open: []};
    const [id, table] = [Math.random().toString(36).slice(2), model.get("table")];
    Object.assign(this, {spec, model, id, table, marks, scene: null, answered: false, frame: 0, frames: 0},
      {texts: [], rects: [], errors: [], ends: []});
    this.build(el);
  }

  build(el) {
    const {label} = this.table;
    this.canvas = node("canvas", {
      tabindex: 0, role: "application", "aria-roledescription": label, "aria-label": label, "data-testid": "atops-canvas",
    });
    this.context = this.canvas.getContext("2d");
    this.bar = node("div", {class: "atops-bar", role: "toolbar", "aria-label": `${label} controls`});
    this.bar.append(node("span", {class: "atops-title"}, label));
    this.note = node("span", {class: "atops-note", "data-testid": "atops-note"});
    this.say = node("p", {class: "atops-say", "data-testid": "atops-say"});
    this.legend = node("ul", {class: "atops-legend", "aria-label": "Legend"});
    this.pre = node("pre", {tabindex: 0, "data-testid": "atops-text"});
    this.more = node("details", {}, node("summary", {}, "As text"), this.pre);
    this.root = node("section", {class: `atops atops-${this.spec.name}`, "aria-label": label,
      "data-testid": `atops-${this.spec.name}`});
    this.root.append(this.bar, this.canvas, this.say, this.legend, this.more);
    this.root.atops = this;
    el.append(this.root);
    this.spec.setup?.(this);
    this.pauseButton = this.button("Pause", "Pause reading (space)", () => this.pause());
    this.bar.append(this.note);
    // Before the notebook hears of a key: its own shortcuts cut and insert cells.
    this.listen(window, "keydown", (event) => this.key(event), true);
    for (const name of ["click", "input"]) this.listen(this.root, name, () => this.acted = performance.now(), true);
    this.listen(this.canvas, "click", (event) => this.click(event));
    this.listen(this.more, "toggle", () => this.more.open && this.send({type: "text"}));
    this.listen(document, "atops-mark", (event) => this.markedElsewhere(event.detail));
  }

  start() {
    const heard = (content, buffers) => this.hear(content, buffers);
    this.model.on("msg:custom", heard);
    const pings = setInterval(() => this.ping(), PING_MS);
    this.ends.push(() => this.model.off("msg:custom", heard), () => clearInterval(pings));
    this.measure();
    const sizes = new ResizeObserver(() => {
      const before = this.width;
      this.measure();
      if (this.width !== before) this.ask();
    });
    sizes.observe(this.canvas);
    const themes = new MutationObserver(() => this.redraw());
    for (const each of [document.body, this.root])
      themes.observe(each, {attributes: true, attributeFilter: ["class", "data-jp-theme-light", "data-theme"]});
    this.listen(matchMedia("(prefers-color-scheme: dark)"), "change", () => this.redraw());
    const sight = new IntersectionObserver((seen) => {
      const away = !seen.at(-1).isIntersecting;
      if (away !== this.away) this.greet(away);
    });
    sight.observe(this.root);
    for (const each of [sizes, themes, sight]) this.ends.push(() => each.disconnect());
    this.greet(false);
    this.fallBack();
  }

  // Say that it shows frames from now on, or none while it is out of sight.
  greet(away) {
    this.away = away;
    this.send(away ? {type: "away"} : {type: "hello", frame: this.frame, ...this.asked()});
  }

  // Show the saved picture until Python answers, which in a saved notebook or a page it never does.
  async fallBack() {
    const saved = this.model.get("snapshot");
    if (saved?.length || saved?.byteLength) {
      const scene = await inflate(saved);
      if (!this.answered) this.take(scene);
    } else {
      setTimeout(() => this.answered || this.tell("Waiting for the kernel: no picture is saved here."), FIRST_ANSWER_MS);
    }
  }

  close() {
    this.send({type: "bye"});
    for (const end of this.ends) end();
    cancelAnimationFrame(this.pending);
  }

  listen(target, name, handler, options) {
    target.addEventListener(name, handler, options);
    this.ends.push(() => target.removeEventListener(name, handler, options));
  }

  // ---- messages

  send(message) {
    // To a kernel that has been shut down nothing can be sent; that nothing comes back is told. The quotes keep the name,
    // which would be made shorter.
    try { this.model.send({"view": this.id, ...message}); } catch {}
  }

  asked() {
    return {width: Math.round(this.width), ...this.spec.asked?.(this)};
  }

  // Ask for what the window shows now; at most one request is on its way, the last one counts.
  ask() {
    this.redraw();
    if (this.asking) return;
    this.asking = setTimeout(() => {
      this.asking = 0;
      this.send({type: "window", ...this.asked()});
    }, ASK_MS);
  }

  // Ask whether the kernel is there; where it did not answer the last time, say so until it does.
  ping() {
    if (!this.answered || this.scene.state === "ended") return;
    this.silent = this.pinged;
    this.pinged = true;
    this.redraw();
    this.send({type: "ping"});
  }

  hear(content, buffers) {
    if (this.silent) this.redraw();
    this.pinged = this.silent = false;
    if (content.type === "frame") {
      this.send({type: "ack", frame: content.frame});
      this.answered = true;
      this.frame = content.frame;
      // Where nothing but the time has gone on, there are no columns: the scene is the last one.
      const {columns} = content, last = columns ? {} : this.scene;
      this.take({...last, ...content, columns: last.columns || unpack(columns, buffers[0])});
    } else if (content.type === "text") {
      this.pre.textContent = content.text;
    } else if (content.type === "error") {
      this.errors.push(content.text);
      this.tell(content.text);
    } else if (this.scene) {
      this.spec.heard?.(this, content);
    }
  }

  take(scene) {
    const [from, texts] = scene.texts || [0, []];
    this.texts.length = Math.min(this.texts.length, from);
    this.texts.push(...texts);
    this.scene = scene;
    this.frames += 1;
    if (scene.saved && scene.text) this.pre.textContent = scene.text;
    this.marks = scene.marks;
    this.through = null;
    this.pauseButton.hidden = !this.answered || scene.state === "ended" || this.table.part > 0;
    this.spec.taken?.(this);
    this.pauseButton.ariaPressed = scene.state === "paused";
    this.drawLegend();
    this.showMarks();
  }

  // ---- marks

  select(seq) {
    this.mark({seq});
    if (this.answered) this.send({type: "select", seq});
  }

  look(cursor) {
    this.mark({cursor});
    if (this.answered) this.send(cursor === null ? {type: "cursor"} : {type: "cursor", at: cursor});
  }

  // Draw these idle gaps to scale, and fold the others.
  open(open) {
    this.mark({open});
    if (this.answered) this.send({type: "open", gaps: open});
  }

  // Mark here at once. Where no Python answers, find the neighbours here and tell the other widgets of the page.
  mark(change) {
    this.marks = {...this.marks, ...change};
    if (!this.answered && this.scene) {
      const {origin} = this.scene, {seq} = this.marks, text = (seq >= 0 && this.spec.tell?.(this, seq)) || "";
      this.linkHere(text);
      document.dispatchEvent(new CustomEvent("atops-mark", {detail: {...change, from: this.id, origin, text}}));
    } else if ("seq" in change) {
      Object.assign(this.marks, {before: [], after: [], place: "", text: ""});
    }
    this.showMarks();
  }

  markedElsewhere({from, origin, text, ...change}) {
    if (from === this.id || this.answered || origin !== this.scene?.origin) return;
    this.marks = {...this.marks, ...change};
    this.linkHere(text);
    this.showMarks();
  }

  linkHere(text) {
    const {columns: c, sites} = this.scene, {seq} = this.marks;
    if (!c.link_before) return;
    this.through ||= new Set(c.link_through);
    Object.assign(this.marks, around(c.link_before, c.link_after, seq, this.through));
    Object.assign(this.marks, {place: sites[c.link_site[c.link_seq.indexOf(seq)]] || "", text});
  }

  showMarks() {
    const {seq, text} = this.marks;
    this.redraw();
    if (seq < 0) this.tell(this.scene?.say || "");
    else this.tell(text || this.spec.tell?.(this, seq) || `number ${seq}`, ...this.linked());
  }

  // Where the selected operation comes from, what it waited for and what waits for it: texts and numbers.
  linked() {
    const {before, after, place, seq} = this.marks;
    const raced = (this.scene?.races || []).filter((race) => seq >= 0 && race.slice(0, 2).includes(seq));
    // What the host did has numbers from 2 ** 40 on; the text tells of it.
    const list = (what, all) => {
      const seqs = all.filter((each) => Math.max(each, seq) < 2 ** 40), more = seqs.length - 6;
      return [...seqs.slice(0, 6).flatMap((each, i) => [i ? ", " : what, each]), more > 0 ? ` and ${more} more` : ""];
    };
    return [
      place && `; enqueued at ${place}`, ...list("; waited for ", before), ...list("; awaited by ", after),
      ...raced.slice(0, 3).map((race) => `; ${race[2]}`), raced.length > 3 ? `; and ${raced.length - 3} more races` : "",
    ];
  }

  // A screen reader is told of what the user did here just now, not of every frame, nor by all widgets at once. Numbers of
  // operations select these; the canvas takes the focus of one that goes.
  tell(...parts) {
    if (this.say.textContent === parts.join("")) return;
    this.say.ariaLive = performance.now() - this.acted < TOLD_MS ? "polite" : "off";
    if (this.say.matches(":focus-within")) this.canvas.focus();
    this.say.replaceChildren(...parts.map((part) => {
      if (typeof part === "string") return part;
      const made = node("button", {type: "button"}, part);
      made.onclick = () => this.select(part);
      return made;
    }));
  }

  // ---- drawing

  measure() {
    this.width = this.canvas.clientWidth || 600;
    this.redraw();
  }

  redraw() {
    this.pending ||= requestAnimationFrame(() => {
      this.pending = 0;
      if (this.scene) this.draw();
    });
  }

  draw() {
    const began = performance.now();
    const height = Math.ceil(this.spec.height(this));
    const scale = globalThis.devicePixelRatio || 1;
    const size = [height, scale, this.width].join();
    if (this.size !== size) {
      const {canvas, width} = this;
      Object.assign(this, {size, height});
      canvas.style.height = `${height}px`;
      [canvas.width, canvas.height] = [width, height].map((each) => Math.round(each * scale));
    }
    this.style = getComputedStyle(this.root);
    this.colours = {};
    this.patterns = {};
    this.rects = [];
    const c = this.context;
    c.setTransform(scale, 0, 0, scale, 0, 0);
    this.fillBox("page", 0, 0, this.width, height);
    c.font = PLAIN;
    c.textBaseline = "middle";
    this.spec.draw(this, c);
    this.noteState();
    this.drawMs = performance.now() - began;
  }

  noteState() {
    const {scene, answered} = this;
    const parts = this.table.part > 0 ? [scene.note] : [
      scene.note, ...(scene.lost ?? []),
      answered && scene.behind > 0.3 && `${scene.behind.toFixed(1)} s behind`,
      this.silent ? "no answer: kernel gone or busy" : answered ? scene.state : "saved",
    ];
    const text = parts.filter(Boolean).join(" · ");
    if (this.note.textContent !== text) this.note.textContent = text;
  }

  colour(name) {
    return this.colours[name] ||= this.style.getPropertyValue(`--${name}`).trim() || "#888";
  }

  // The fill of a kind: its colour with its hatch over it, in the colour of text on shapes.
  kindFill(kind) {
    const key = `k${kind}`;
    if (this.patterns[key]) return this.patterns[key];
    const hatch = this.table.hatches[this.table.kinds[kind][2]];
    if (!hatch) return this.patterns[key] = this.colour(key);
    const tile = node("canvas", {width: 8, height: 8});
    const c = tile.getContext("2d");
    c.fillStyle = this.colour(key);
    c.fillRect(0, 0, 8, 8);
    c.strokeStyle = this.colour("on");
    c.globalAlpha = 0.3;
    c.lineWidth = 1.4;
    c.stroke(new Path2D(hatch));
    return this.patterns[key] = this.context.createPattern(tile, "repeat");
  }

  fillBox(colour, ...place) {
    this.context.fillStyle = this.colour(colour);
    this.context.fillRect(...place);
  }

  strokeBox(colour, lineWidth, dash, ...place) {
    const c = this.context;
    c.strokeStyle = this.colour(colour);
    c.lineWidth = lineWidth;
    c.setLineDash(dash);
    c.strokeRect(...place);
    c.setLineDash([]);
  }

  // A path through points, x and y in turn; returns the context, to stroke or to fill it.
  lines(...points) {
    this.context.beginPath();
    for (let i = 0; i < points.length; i += 2) this.context.lineTo(points[i], points[i + 1]);
    return this.context;
  }

  // Note something drawn: for clicks, for keys, and for tests, which read `rects` instead of pixels.
  drawn(x, y, width, height, what) {
    this.rects.push({x, y, width, height, ...what});
  }

  // Text that is cut where it does not fit, in a font of its own or in that of the canvas.
  write(text, x, y, room, colour = "ink", font = PLAIN) {
    const c = this.context;
    c.fillStyle = this.colour(colour);
    c.font = font;
    let cut = text, most = text.length;
    const wide = () => c.measureText(cut).width > room;
    while (most > 2 && wide()) cut = `${text.slice(0, most -= 1)}…`;
    if (!wide()) c.fillText(cut, x, y);
    c.font = PLAIN;
  }

  // Mark something drawn: "select" solid, "before" (it was waited for) dashed, "after" (it waits) dotted.
  outline(rect, mark) {
    const place = [rect.x - 1.5, rect.y - 1.5, Math.max(rect.width, 2) + 3, rect.height + 3];
    this.strokeBox("page", 5, [], ...place);
    this.strokeBox(mark, mark === "select" ? 3.5 : 2.5, {select: [], before: [7, 3], after: [2, 2]}[mark], ...place);
    rect.mark = mark;
  }

  drawLegend() {
    const own = this.table.kinds.length, kinds = [...(this.scene.kinds || []), ...(this.spec.signs?.(this) || []).map((i) => own + i)];
    const key = kinds.join();
    if (this.legend.dataset.kinds === key) return;
    this.legend.dataset.kinds = key;
    this.legend.replaceChildren(...kinds.map((kind) => {
      const [name, picture] = this.table.swatches[kind];
      const swatch = node("span", {"aria-hidden": "true"});
      swatch.innerHTML = picture;
      return node("li", {}, swatch, name);
    }));
  }

  // ---- pointer

  hit({offsetX: x, offsetY: y}) {
    for (let i = this.rects.length - 1; i >= 0; i--) {
      const rect = this.rects[i];
      if (x >= rect.x - 1 && x < rect.x + Math.max(rect.width, 3) && y >= rect.y && y < rect.y + rect.height) return rect;
    }
    return null;
  }

  click(event) {
    if (this.moved || !this.scene) return;
    const rect = this.hit(event);
    if (this.spec.click?.(this, rect, event)) return;
    this.select(rect?.seq >= 0 ? rect.seq : -1);
  }

  // ---- keys and buttons

  button(text, title, act, name = text.toLowerCase()) {
    const made = node("button", {type: "button", title, "aria-label": title, "data-testid": `atops-${name}`}, text);
    this.listen(made, "click", () => this.scene && act());
    this.bar.append(made);
    return made;
  }

  pause() {
    if (this.answered) this.send({type: "pause", on: this.scene.state !== "paused"});
  }

  // Show what stands further down, or further up.
  page(by) {
    const [step, last] = this.spec.pages(this);
    this.first = Math.max(0, Math.min(last, (this.first || 0) + by * step));
    this.ask();
  }

  // Step through what can be selected, by time where it is drawn by time, else by number.
  step(by) {
    const rects = this.rects.filter(({seq}) => seq >= 0).sort((a, b) => a.start - b.start || a.seq - b.seq);
    const seqs = [...new Set(rects.map(({seq}) => seq))];
    if (seqs.length) this.select(stepped(seqs, seqs.indexOf(this.marks.seq), by));
  }

  // Select nothing; where nothing is selected, give the focus back to the notebook's cell.
  leave() {
    if (this.marks.seq >= 0) this.select(-1);
    else this.root.closest("[tabindex]")?.focus();
  }

  key(event) {
    const path = event.composedPath();
    if (event.ctrlKey || event.metaKey || event.altKey || !path.includes(this.root)) return;
    if (event.key === "Enter" && event.shiftKey && !path[0].keyed) return;
    event.stopPropagation();
    path[0].keyed?.(event);
    if (path[0] !== this.canvas) return;
    this.acted = performance.now();
    const keys = {n: () => this.step(1), p: () => this.step(-1), Escape: () => this.leave(), " ": () => this.pause(),
      ...(this.spec.pages && {PageDown: () => this.page(1), PageUp: () => this.page(-1)})};
    const act = this.spec.keys?.[event.key] || keys[event.key];
    if (!act) return;
    if (this.scene || event.key === "Escape") act(this, event);
    event.preventDefault();
  }
}

// Make the module that a notebook runs, of what a widget is:
// - name, draw(view, context), height(view): needed;
// - setup(view), asked(view), taken(view), tell(view, seq), click(view, rect, event): as wanted;
// - keys: functions of the view by the names of keys; pages(view): [rows of a page, the last row that one may begin with].
// Keys and buttons do nothing before there is a picture, but for Escape.
export function mount(spec) {
  return {
    spec,
    render({model, el}) {
      const view = new View(spec, model, el);
      view.start();
      return () => view.close();
    },
  };
}
