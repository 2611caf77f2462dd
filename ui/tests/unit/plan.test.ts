import { describe, expect, it } from "vitest";

import type { ModelPlan, ModelWeights } from "../../src/lib/bindings";
import { offered, total } from "../../src/lib/plan";

const weights = (file: string, bytes: number, more: Partial<ModelWeights> = {}): ModelWeights => ({ file, quantization: null, writes: true, bytes, parts: 1, usual: false, chosen: false, ...more });

const plan = (all: ModelWeights[], bytes = 0): ModelPlan => ({ name: "o/n", installed: false, page: "https://hub.test/o/n", license: null, licensePage: null, gated: false, beside: 7, bytes, weights: all });

describe("what is offered", () => {
  it("is of the sort that is chosen, the smallest first, whatever the hub's order", () => {
    const all = [weights("model.safetensors", 5, { writes: false }), weights("b", 300), weights("a", 200, { chosen: true })];
    expect(offered(plan(all)).map((it) => it.file)).toEqual(["a", "b"]);
    expect(all.map((it) => it.file)).toEqual(["model.safetensors", "b", "a"]);
    expect(offered(plan([]))).toEqual([]);
  });

  it("is of the hub's first sort while nothing is chosen", () => {
    expect(offered(plan([weights("b", 300), weights("x.onnx", 5, { writes: false })])).map((it) => it.file)).toEqual(["b"]);
  });
});

describe("the size of a download", () => {
  it("is that of the plan for what it has chosen, and of weights and side files for another", () => {
    const [small, large] = [weights("a", 200, { chosen: true }), weights("b", 300)];
    const found = plan([small, large], 250);
    expect([total(found, small), total(found, large), total(found, null)]).toEqual([250, 307, 250]);
  });

  it("is unknown while weights are to be chosen", () => {
    expect(total(plan([weights("a", 200)]), null)).toBeNull();
  });
});
