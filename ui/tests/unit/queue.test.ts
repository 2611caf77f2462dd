import { describe, expect, test } from "vitest";

import { app } from "../../src/lib/app.svelte";
import type { LibraryState } from "../../src/lib/bindings";
import { waits } from "../../src/lib/queue";

const library = (change: Partial<LibraryState>): LibraryState => ({ ...app.library, scans: { ...app.library.scans, installed: true, waiting: 0, secondsLeft: 0 }, phase: "watching", ...change });
const meaning = { passages: 100, done: 60, wordsAlone: 0, keptHere: 0, waiting: null, secondsLeft: 400 };
const queue = { files: [], prose: 10, tables: 30, tooLarge: 2 };

describe("what waits", () => {
  test("nothing, and large files alone are not said to wait", () => {
    expect(waits(library({ queue: { files: [], prose: 0, tables: 0, tooLarge: 9 } }))).toEqual([]);
  });

  test("each with what comes before it", () => {
    const scans = { ...library({}).scans, waiting: 5, secondsLeft: 15 };
    const progress = { done: 1, total: 4, perSecond: 1, secondsLeft: 3, failed: 0, current: "" };
    const all = waits(library({ phase: "reading", progress, scans, meaning, queue: { ...queue, files: [{ kind: "pdf", count: 3 }] } }));
    expect(all.map((it) => [it.kind, it.count, it.seconds, it.why.kind])).toEqual([
      ["files", 3, 3, "now"],
      ["prose", 10, 103, "afterFiles"],
      ["tables", 30, 403, "afterProse"],
      ["scans", 5, 418, "last"],
      ["tooLarge", 2, null, "limit"],
    ]);
  });

  test("who holds up is named, and nobody says a time while nothing is done", () => {
    const held = waits(library({ meaning: { ...meaning, waiting: "battery" }, queue }));
    expect(held[0]?.why).toEqual({ kind: "held", by: "battery" });
    const some = waits(library({ meaning, meaningLimits: { cpu: 30, onBattery: false }, queue: { ...queue, prose: 0 } }));
    expect(some[0]?.why).toEqual({ kind: "share", share: 0.3 });
    const paused = waits(library({ phase: "paused", meaning, queue }));
    expect(paused.slice(0, 2).map((it) => [it.seconds, it.why.kind])).toEqual([[null, "paused"], [null, "paused"]]);
    expect(paused.at(-1)?.why.kind).toBe("limit");
    const scans = { ...library({}).scans, waiting: 5, secondsLeft: 15, installed: false };
    expect(waits(library({ scans }))[0]).toMatchObject({ kind: "scans", seconds: null, why: { kind: "noReader" } });
    const unknown = waits(library({ meaning: { ...meaning, secondsLeft: null }, queue, scans: { ...scans, installed: true } }));
    expect(unknown.map((it) => it.seconds)).toEqual([null, null, null, null]);
  });
});
