import { expect, test } from "vitest";

import type { InstalledModel } from "../../src/lib/bindings";
import { memory } from "../../src/lib/format";
import { drafters, fit, localName, writer } from "../../src/lib/local";

const GIB = 2 ** 30;
const model = (bytes: number): InstalledModel => ({ name: "tiny", kind: "llm", bytes, license: null, source: "", active: false, writes: true, elsewhere: false, problem: null, server: false });

test("a model fits what it may take, is read from disk where it is larger, and nothing is said where nothing is known", () => {
  expect(fit(GIB, null, 8 * GIB)).toBe("fits");
  expect(fit(7 * GIB, null, 8 * GIB)).toBe("tooLarge");
  expect(fit(7 * GIB, 4 * GIB, 8 * GIB)).toBe("streamed");
  expect(fit(GIB, 4 * GIB, null)).toBe("fits");
  expect(fit(GIB, null, null)).toBe("unknown");
});

test("a model that this computer can not hold gets a limit, and any other keeps what was set", () => {
  const free = { memoryBudget: null, contextTokens: 4096, draft: "none", order: "ranked" } as const;
  expect(writer(model(20 * GIB), free, 8.5 * GIB)).toEqual({ llm: "local:tiny", local: { memoryBudget: 4 * GIB, contextTokens: 4096, draft: "none", order: "ranked" } });
  expect(writer(model(20 * GIB), free, 1.5 * GIB).local.memoryBudget).toBe(GIB);
  expect(writer(model(GIB), free, 8 * GIB).local).toEqual(free);
  expect(writer(model(20 * GIB), { ...free, memoryBudget: 2 * GIB }, 8 * GIB).local.memoryBudget).toBe(2 * GIB);
  expect(writer(model(20 * GIB), free, null).local).toEqual(free);
});

test("smaller models that run here may guess, and stop when another model answers", () => {
  const large = { ...model(20 * GIB), name: "large" };
  const others = [large, model(GIB), { ...model(GIB), name: "quotes", writes: false }, { ...model(GIB), name: "broken", problem: { words: "no", advice: null } }];
  expect(drafters(large, others as InstalledModel[]).map((it) => it.name)).toEqual(["tiny"]);
  expect(drafters(model(GIB), others as InstalledModel[])).toEqual([]);
  const local = { memoryBudget: 4 * GIB, contextTokens: null, draft: "tiny", order: "ranked" } as const;
  expect(writer(model(GIB), local, 8 * GIB).local).toEqual({ ...local, draft: "lookup" });
  expect(writer(model(GIB), { ...local, draft: "none" }, 8 * GIB).local.draft).toBe("none");
});

test("the name of a model here is told from the others", () => {
  expect([localName("local:org/tiny"), localName("remote"), localName("extractive")]).toEqual(["org/tiny", null, null]);
});

test("memory is told in the units that it is sold in", () => {
  expect([memory(2 * GIB), memory(8.2e9), memory(300 * 2 ** 20)]).toEqual(["2\u00a0GiB", "7.6\u00a0GiB", "300\u00a0MiB"]);
});
