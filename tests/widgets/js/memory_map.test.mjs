// Addresses of the memory map: pure functions.
import assert from "node:assert/strict";
import test from "node:test";

const m = await import(`${process.env.ATOPS_SCRIPTS}/memory_map.mjs`);
const PARTS = [[0, 400, 0, 4000], [440, 840, 100000, 104000]];

test("stretches are those of one lane", () => {
  const columns = {seg_lane: [0, 1, 1], seg_left: [1, 2, 3], seg_right: [4, 5, 6], seg_start: [7, 8, 9], seg_stop: [10, 11, 12]};
  assert.deepEqual(m.stretches(columns, 1), [[2, 5, 8, 11], [3, 6, 9, 12]]);
  assert.deepEqual(m.stretches(columns, 2), []);
});

test("a place of a lane is an address; in a break it is the end before it", () => {
  assert.equal(m.addressAt(PARTS, 0), 0);
  assert.equal(m.addressAt(PARTS, 200), 2000);
  assert.equal(m.addressAt(PARTS, 420), 4000);
  assert.equal(m.addressAt(PARTS, 640), 102000);
  assert.equal(m.addressAt(PARTS, 9999), 104000);
  assert.equal(m.addressAt([], 5), 0);
});

test("zooming in keeps the address that it is about", () => {
  let part = null;
  for (let i = 0; i < 40; i++) {
    const before = part ? part.to - part.from : 104000;
    part = m.zoomed(PARTS, part, 0.5, 2000);
    assert.ok(part.from <= 2000 && part.to > 2000);
    assert.ok(part.to - part.from < before || part.to - part.from === 256);
  }
});

test("steps count though nothing was drawn between them", () => {
  const once = m.zoomed(PARTS, null, 0.125, 2000), steps = [0.5, 0.5, 0.5].reduce((p, f) => m.zoomed(PARTS, p, f, 2000), null);
  assert.ok(Math.abs(once.from - steps.from) <= 3 && Math.abs(once.to - steps.to) <= 3);
});

test("in and out again is where one was, in a break too", () => {
  for (const parts of [PARTS, [[0, 300, 512, 5000], [340, 800, 9e9, 9e9 + 4000]]]) {
    for (let steps = 1; steps < 5; steps++) {
      let part = null;
      for (let i = 0; i < steps; i++) part = m.zoomed(parts, part, 0.5);
      for (let i = 0; i < steps; i++) part = m.zoomed(parts, part, 2);
      assert.equal(part, null, `${steps} steps of ${JSON.stringify(parts)}`);
    }
  }
});

test("zooming into little stays with it", () => {
  let part = null;
  for (let i = 0; i < 9; i++) part = m.zoomed([[0, 800, 0, 7]], part, 0.5);
  assert.ok(part.from < 7 && part.to === part.from + 256);
});

test("zooming out ends with everything", () => {
  const whole = [[0, 800, 0, 8000]];
  assert.deepEqual(m.zoomed(whole, {from: 2000, to: 3000}, 2), {from: 1500, to: 3500});
  assert.equal(m.zoomed(whole, {from: 2000, to: 3000}, 1000), null);
  assert.equal(m.zoomed(whole, {from: 20000, to: 30000}, 1000), null);
});

test("panning stops at address 0", () => {
  assert.deepEqual(m.panned({from: 1000, to: 2000}, 0.5), {from: 1500, to: 2500});
  assert.deepEqual(m.panned({from: 100, to: 1100}, -0.5), {from: 0, to: 1000});
});
