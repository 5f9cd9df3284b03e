// Where tokens and words of the queues stand: pure functions.
import assert from "node:assert/strict";
import test from "node:test";

const m = await import(`${process.env.ATOPS_SCRIPTS}/queues.mjs`);
const front = (count, kept = []) =>
  Array.from({length: count}, (_, position) => ({position, width: 22, kept: kept.includes(position)}));

test("a queue that fits is drawn whole", () => {
  const spots = m.layout(front(4), 4, 100);
  assert.deepEqual(spots.map(({index, x}) => [index, x]), [[0, 0], [1, 25], [2, 50], [3, 75]]);
});

test("what has no room is counted, and nothing leaves the room", () => {
  const spots = m.layout(front(64), 10000, 500);
  const last = spots.at(-1);
  assert.equal(spots.length - 1 + last.gap, 10000);
  assert.ok(last.x + last.width <= 500);
  assert.ok(spots.length > 12);
});

test("what must be seen is seen, with what is left out on both sides", () => {
  const tokens = [...front(64), {position: 5000, width: 80, kept: true}];
  const spots = m.layout(tokens, 10000, 600);
  const place = spots.findIndex(({index}) => index === 64);
  assert.ok(spots[place - 1].gap > 0 && spots[place + 1].gap === 4999);
  const seen = spots.filter(({index}) => index !== undefined).length;
  const left = spots.reduce((sum, {gap}) => sum + (gap || 0), 0);
  assert.equal(seen + left, 10000);
  assert.ok(spots.at(-1).x + spots.at(-1).width <= 600);
});

test("an empty queue has no spots", () => assert.deepEqual(m.layout([], 0, 100), []));

test("words break between words and lose none", () => {
  const text = "number 21 waits since 110 µs for the event of number 12 in load, behind 2 commands";
  const lines = m.wrap(text, 200, 9);
  assert.equal(lines.join(" "), text);
  assert.ok(lines.length > 1 && lines.every((line) => line.length <= 31));
  assert.equal(m.wrap(text, 100, 2).length, 2);
});

test("rows follow each other and are as high as their words", () => {
  const row = {reason: "", failure: ""};
  const {found, bottom} = m.places([row, {...row, reason: "one", failure: "two"}], 400);
  assert.equal(found[1].top, found[0].bottom);
  assert.equal(bottom, found[1].bottom);
  assert.ok(found[1].bottom - found[1].top > found[0].bottom - found[0].top);
});

test("in a narrow picture words stand lower, below what is written beside the queue", () => {
  const row = {reason: "one", failure: ""};
  assert.equal(m.places([row], 400, 10).bottom, m.places([row], 400).bottom + 10);
});

test("a saved moment is the last one that is not after the cursor", () => {
  const frames = [{at: 10}, {at: 20}, {at: 30}];
  assert.deepEqual([5, 10, 25, 99].map((at) => m.frameAt(frames, at).at), [10, 10, 20, 30]);
});

test("names have the room that the longest needs, within bounds", () => {
  assert.deepEqual([[40], [100, 60], [130], [500]].map((widths) => m.marginOf(widths, 1100)), [80, 128, 160, 240]);
  assert.equal(m.marginOf([500], 400), 136);
  assert.equal(m.marginOf([101], 1100), m.marginOf([109], 1100));
});
