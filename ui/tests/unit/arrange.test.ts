import { describe, expect, it } from "vitest";

import { arrange, provisional } from "../../src/lib/arrange";

describe("rows that settle", () => {
  it("keeps the pinned row where it is and the others in order", () => {
    expect(arrange([5, 4, 3, 2, 1], 1, 0)).toEqual([1, 5, 4, 3, 2]);
    expect(arrange([5, 4, 3, 2, 1], 5, 3)).toEqual([4, 3, 2, 5, 1]);
    expect(arrange([1, 2], null, -1)).toEqual([1, 2]);
  });

  it("lets a pinned row go that is not in the result, and never counts beyond the end", () => {
    expect(arrange([1, 2], 9, 0)).toEqual([1, 2]);
    expect(arrange([1, 2, 3], 1, 99)).toEqual([2, 3, 1]);
  });

  it("puts winners first, then who runs, then who is out, and loses nobody", () => {
    expect(provisional([1, 2, 3, 4, 5], [4, 2], new Set([1]))).toEqual([4, 2, 3, 5, 1]);
    expect(provisional([1, 2], [7], new Set([8]))).toEqual([1, 2]);
  });
});
