// The functions that all scripts share, as they stand in a joined module.
import assert from "node:assert/strict";
import test from "node:test";
import zlib from "node:zlib";

const m = await import(`${process.env.ATOPS_SCRIPTS}/timeline.mjs`);

test("columns begin on multiples of eight bytes and are copies", () => {
  const buffer = new ArrayBuffer(40);
  const from = new DataView(buffer, 8);
  new Uint8Array(buffer, 8, 3).set([1, 2, 3]);
  new Float64Array(buffer, 16, 2).set([1.5, -2]);
  const columns = m.unpack([["kind", "B", 3], ["start", "d", 2]], from);
  assert.deepEqual([...columns.kind], [1, 2, 3]);
  assert.deepEqual([...columns.start], [1.5, -2]);
  new Uint8Array(buffer).fill(9);
  assert.deepEqual([...columns.kind], [1, 2, 3]);
});

test("a saved picture is inflated", async () => {
  const told = Buffer.from(JSON.stringify({say: "ä", columns: [["seq", "d", 1]]}));
  const padded = Buffer.concat([told, Buffer.alloc((8 - ((told.length + 4) % 8)) % 8, " ")]);
  const size = Buffer.alloc(4);
  size.writeUInt32LE(padded.length);
  const data = Buffer.from(new Float64Array([7]).buffer);
  const scene = await m.inflate(zlib.deflateSync(Buffer.concat([size, padded, data])));
  assert.equal(scene.say, "ä");
  assert.deepEqual([...scene.columns.seq], [7]);
});

test("neighbours are followed through events to the work behind", () => {
  // copy 0 -> record 1 -> wait 2 -> kernel 3 -> copy 4
  const found = m.around([0, 1, 2, 3], [1, 2, 3, 4], 3, new Set([1, 2]));
  assert.deepEqual(found, {before: [2, 1, 0], after: [4]});
  assert.deepEqual(m.around([0, 1], [1, 0], 0, new Set([0, 1])), {before: [1], after: [1]});
});

test("moments of an axis are told apart, however far from the origin they are", () => {
  const start = 12.3456e9, end = start + 1e5;
  const moments = m.ticks(start, end, 900);
  const texts = moments.map((at) => m.formatNs(at, moments[1] - moments[0]));
  assert.equal(new Set(texts).size, moments.length);
  assert.equal(m.formatNs(12.34563e9, 1e4), "12.34563 s");
  assert.deepEqual([0, 250, 5e5].map((at) => m.formatNs(at, 250)), ["0 ns", "250 ns", "500 µs"]);
  assert.equal(m.formatNs(2e6, undefined), "2 ms");
});

test("times and sizes have units", () => {
  assert.deepEqual([0, 999, 1500, 2e7, 3.25e9].map((ns) => m.formatNs(ns)), ["0 ns", "999 ns", "1.5 µs", "20 ms", "3.25 s"]);
  assert.deepEqual([999.6, 999499, 999500, 999999999].map((ns) => m.formatNs(ns)), ["1 µs", "999 µs", "1 ms", "1 s"]);
  assert.equal(m.formatNs(999.9e6, 1e5), "999.9 ms");
  assert.deepEqual([999.4e9, 999.6e9, 1234e9].map((ns) => m.formatNs(ns)), ["999 s", "1000 s", "1234 s"]);
  assert.deepEqual([512, 4096, 1.5 * 2 ** 20].map(m.formatBytes), ["512 B", "4 KiB", "1.5 MiB"]);
});

test("an axis has round moments, one in ninety pixels or fewer", () => {
  assert.deepEqual(m.ticks(0, 1000, 450), [0, 200, 400, 600, 800, 1000]);
  assert.deepEqual(m.ticks(1, 3, 1000), [1, 2, 3]);
  for (const [start, end] of [[0, 7], [123, 987654321], [-50, 50], [5e17, 5e17 + 900]]) {
    const found = m.ticks(start, end, 900);
    assert.ok(found.length <= 11 && found.every((at) => at >= start && at <= end), `${start} ${end}`);
  }
});
