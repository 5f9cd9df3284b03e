// Windows of time and rows of the timeline: pure functions.
import assert from "node:assert/strict";
import test from "node:test";

const m = await import(`${process.env.ATOPS_SCRIPTS}/timeline.mjs`);
const SPAN = [0, 1000];

test("zooming keeps the moment under the pointer where it is", () => {
  const win = m.zoomed({start: 100, end: 500}, 0.5, 200, SPAN);
  assert.deepEqual(win, {start: 150, end: 350});
});

test("zooming ends at a few nanoseconds and at a little more than everything", () => {
  let win = {start: 0, end: 1000};
  for (let i = 0; i < 60; i++) win = m.zoomed(win, 0.5, 300, SPAN);
  assert.ok(win.end - win.start >= 4 && win.start <= 300 && win.end >= 300);
  for (let i = 0; i < 60; i++) win = m.zoomed(win, 2, 300, SPAN);
  assert.ok(win.end - win.start <= 1104.1);
});

test("panning never loses the records", () => {
  assert.deepEqual(m.panned({start: 0, end: 100}, 50, SPAN), {start: 50, end: 150});
  const right = m.panned({start: 0, end: 100}, 1e9, SPAN);
  assert.ok(right.start < SPAN[1] && right.end - right.start === 100);
  const left = m.panned({start: 0, end: 100}, -1e9, SPAN);
  assert.ok(left.end > SPAN[0]);
});

test("rows stand below a line for each device", () => {
  const {tops, bottom} = m.tops([["a", 0], ["b", 0], ["c", 1]]);
  assert.deepEqual(tops, [46, 68, 108]);
  assert.equal(bottom, 130);
  assert.deepEqual(m.tops([]), {tops: [], bottom: 28});
});

test("places without what is folded, and the moments there, are inverse", () => {
  const view = {scene: {gaps: [[100, 1100], [1200, 9200]], left: 20}, marks: {open: []}};
  const place = m.placing(view);
  assert.deepEqual([0, 100, 600, 1100, 1200, 9200, 9300].map(place), [0, 100, 110, 120, 220, 240, 340]);
  for (const at of [-5, 0, 77, 100, 600, 1100, 1150, 5000, 9200, 20000]) {
    assert.ok(Math.abs(m.momentAt(view, place(at)) - at) < 1e-6, `${at}`);
  }
  const open = m.placing({...view, marks: {open: [100]}});
  assert.deepEqual([100, 600, 1200, 9200].map(open), [100, 600, 1200, 1220]);
});
