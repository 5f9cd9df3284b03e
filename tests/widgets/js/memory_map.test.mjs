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

test("zooming in keeps the address under the pointer inside", () => {
  const part = m.zoomed(PARTS, 0.5, 200, [0, 104000]);
  assert.ok(part.from <= 2000 && part.to > 2000 && part.to - part.from < 104000);
  let parts = PARTS;
  for (let i = 0; i < 40; i++) {
    const {from, to} = m.zoomed(parts, 0.5, 200, [0, 104000]);
    assert.ok(to - from >= 256);
    parts = [[0, 800, from, to]];
  }
});

test("zooming out ends with everything", () => {
  const near = [[0, 800, 2000, 3000]];
  assert.deepEqual(m.zoomed(near, 2, 400, [0, 104000]), {from: 1500, to: 3500});
  assert.equal(m.zoomed(near, 1000, 400, [0, 104000]), null);
  assert.equal(m.zoomed([], 2, 400, [0, 1]), null);
});

test("panning stops at address 0", () => {
  assert.deepEqual(m.panned({from: 1000, to: 2000}, 0.5), {from: 1500, to: 2500});
  assert.deepEqual(m.panned({from: 100, to: 1100}, -0.5), {from: 0, to: 1000});
});
