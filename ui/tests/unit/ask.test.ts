import { describe, expect, it } from "vitest";

import { pieces } from "../../src/lib/ask.svelte";

describe("an answer while it is written", () => {
  it("has its citations cut out", () => {
    expect(pieces("It costs £412 [1], paid [2]", 2)).toEqual([
      { kind: "words", text: "It costs £412" },
      { kind: "cite", n: 1 },
      { kind: "words", text: ", paid" },
      { kind: "cite", n: 2 },
    ]);
  });

  it("shows numbers that point nowhere as what they are, and waits for unfinished ones", () => {
    expect(pieces("see [7] and a[0]", 2)).toEqual([{ kind: "words", text: "see [7] and a[0]" }]);
    expect(pieces("paid [1", 2)).toEqual([{ kind: "words", text: "paid" }]);
    expect(pieces("paid [", 2)).toEqual([{ kind: "words", text: "paid" }]);
  });
});
