import { describe, expect, it } from "vitest";

import type { LayerTrace } from "../../src/lib/bindings";
import { decidedBy, extent, flowLines, layerTicks, spread, ticks } from "../../src/lib/flow";

function layer(number: number, active: number[], scores: number[], accepted: number[] = [], dropped: number[] = []): LayerTrace {
  return { layer: number, ms: 1, ioWaitMs: 0, bytesRead: 0, residentWeightBytes: 0, dispersion: null, active, scores, accepted, dropped };
}

describe("the lines of a reranking", () => {
  // The first layer's head was not run; then 2 is dropped, 0 accepted, and 1 runs to the end.
  const layers = [layer(1, [0, 1, 2], []), layer(2, [0, 1, 2], [0.9, 0.5, 0.1], [0], [2]), layer(3, [1], [0.6], [1])];

  it("end where a candidate was decided, and have points only where there are scores", () => {
    const lines = flowLines(layers);
    expect(lines.map((it) => [it.candidate, it.outcome, it.until])).toEqual([[0, "accepted", 2], [1, "accepted", 3], [2, "dropped", 2]]);
    expect(lines[1]?.points).toEqual([{ layer: 2, score: 0.5 }, { layer: 3, score: 0.6 }]);
  });

  it("are decided anew by a replay", () => {
    const lines = decidedBy(flowLines(layers), [
      { outcome: "kept", atLayer: 3 },
      { outcome: "dropped", atLayer: 2 },
      { outcome: "accepted", atLayer: 3 },
    ]);
    expect(lines.map((it) => [it.outcome, it.until])).toEqual([["running", 3], ["dropped", 2], ["accepted", 3]]);
    expect(decidedBy(flowLines(layers), [])).toEqual(flowLines(layers));
  });

  it("have a range even when all scores are equal or none is there", () => {
    expect(extent([])).toEqual([0, 1]);
    const [low, high] = extent([{ candidate: 0, points: [{ layer: 1, score: 0.5 }], outcome: "running", until: 1 }]);
    expect(low).toBeLessThan(0.5);
    expect(high).toBeGreaterThan(0.5);
  });

  it("are logits where every passage is irrelevant, and relevances elsewhere", () => {
    const flat = flowLines([layer(1, [0, 1], [0.3, 0.2]), layer(2, [0, 1], [0.001, 0.00001])]);
    const { lines, logits } = spread(flat);
    expect(logits).toBe(true);
    expect(lines[0]?.points[1]?.score).toBeCloseTo(-6.9, 1);
    expect(lines[1]?.points[1]?.score).toBeCloseTo(-11.5, 1);
    expect(spread(flowLines([layer(1, [0, 1], [0, 0])])).lines[0]?.points[0]?.score).toBe(-17);
    expect(spread(flowLines(layers))).toEqual({ lines: flowLines(layers), logits: false });
    const raw = flowLines([layer(1, [0, 1], [-4, -9])]);
    expect(spread(raw).logits).toBe(false);
  });

  it("stand on axes with round numbers inside the range", () => {
    expect(ticks(0, 1, 5)).toEqual([0, 0.2, 0.4, 0.6, 0.8, 1]);
    expect(ticks(-3.2, 4.1, 4)).toEqual([-2, 0, 2, 4]);
    expect(ticks(1, 1, 4)).toEqual([1]);
    expect(layerTicks(6, 600)).toEqual([1, 2, 3, 4, 5, 6]);
    expect(layerTicks(28, 300).length).toBeLessThanOrEqual(12);
  });
});
