// Steps put on top of how cells stood, places of blocks, meetings: pure functions.
import assert from "node:assert/strict";
import test from "node:test";

const m = await import(`${process.env.ATOPS_SCRIPTS}/cluster_grid.mjs`);
const NEVER = 2 ** 40;

function saved() {
  const steps = [[0, 1, 0, 12, 4], [1, 0, -1, 11, NEVER], [-1, 7, -1, 99, NEVER], [1, 1, 0, 14, 4], [0, 0, -1, 12, NEVER]];
  const column = (i) => Float64Array.from(steps, (step) => step[i]);
  const first = (value) => Float64Array.of(value, value);
  return {
    step_cell: column(0), step_turn: column(1), step_on: column(2), step_line: column(3), step_opens: column(4),
    step_section: Float64Array.of(0, 0, 0, 0, 0), step_l1_bytes: Float64Array.of(1, 2, 3, 4, 5),
    first_turn: first(8), first_on: first(-1), first_section: first(-1), first_line: first(0), first_l1_bytes: first(0),
    first_opens: first(NEVER),
  };
}

test("steps are put on top of how the cells stood", () => {
  const turns = (position) => [...m.replay(saved(), 0, position).turn];
  assert.deepEqual(turns(0), [8, 8]);
  assert.deepEqual(turns(2), [1, 0]);
  assert.deepEqual([...m.replay(saved(), 0, 3).line], [12, 11]);
  assert.deepEqual([...m.replay(saved(), 0, 5).l1_bytes], [5, 4]);
});

test("a thread whose barrier has opened is let go until it runs", () => {
  assert.deepEqual([...m.replay(saved(), 0, 3).turn], [1, 0]);
  assert.deepEqual([...m.replay(saved(), 0, 4).turn], [10, 10]);
  assert.deepEqual([...m.replay(saved(), 0, 5).turn], [0, 10]);
});

test("steps before the first saved one are in how the cells stood", () => {
  const c = {...saved(), step_opens: Float64Array.of(104, NEVER, NEVER, 104, NEVER)};
  assert.deepEqual([...m.replay(c, 100, 102).turn], [1, 0]);
  assert.deepEqual([...m.replay(c, 100, 104).turn], [10, 10]);
});

test("threads are counted where they stand; those that ended stand nowhere", () => {
  const cells = {turn: [1, 1, 0, 6, 8], section: [0, 0, 0, 0, -1], line: [12, 12, 12, 12, 0]};
  assert.deepEqual(m.marked(cells), [[0, 12, 1, 2], [0, 12, 0, 1]]);
  assert.deepEqual(m.tally([[3], [1], [3]]), [[1, 1], [3, 2]]);
});

test("a moment is after all steps up to it", () => {
  assert.equal(m.stepsUntil([1, 2, 2, 5], 2), 3);
  assert.equal(m.stepsUntil([1, 2, 2, 5], 0), 0);
  assert.equal(m.stepsUntil([1, 2, 2, 5], 9), 4);
});

test("the next meeting lies behind, the one before lies ahead", () => {
  assert.equal(m.nextOf([3, 9], 3, 1), 9);
  assert.equal(m.nextOf([3, 9], 9, 1), null);
  assert.equal(m.nextOf([3, 9], 9, -1), 3);
  assert.equal(m.nextOf([3, 9], 3, -1), null);
});

test("blocks stand beside their cluster, in as many rows as they need", () => {
  const {boxes, labels, bottom} = m.layout([[0, 0, 0, 12], [2, 0, 0, 12], [1, 1, 0, 4]], 500, 10);
  assert.deepEqual(labels.map((label) => label.cluster), [0, 1]);
  assert.deepEqual(boxes.map((box) => box.first), [0, 12, 24]);
  assert.deepEqual(boxes.map((box) => [box.x, box.y]), [[74, 10], [74, 64], [74, 122]]);
  assert.ok(boxes.every((box) => box.x + box.width <= 500 && box.y + box.height <= bottom));
  assert.equal(m.layout([], 500, 10).bottom, 10);
  const narrow = m.layout([[0, 0, 0, 12]], 180, 0).boxes[0];
  assert.ok(narrow.columns < 12 && narrow.x + narrow.width <= 180);
});
