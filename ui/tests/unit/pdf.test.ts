import { describe, expect, it } from "vitest";

import { passageRuns } from "../../src/lib/pdf";

describe("the passage on a page", () => {
  const page = ["3. Plating", "The thinnest plate was found on the port", "side of the coun-", "ter, where only 4.1 mm", "remain.", "4. Anodes"];

  it("is found through spaces, hyphens and line ends", () => {
    expect([...passageRuns(page, "The thinnest plate was found on the port side of the counter, where only 4.1 mm remain.")]).toEqual([1, 2, 3, 4]);
  });

  it("is found in pieces when the parser read the page in another order", () => {
    const passage = "side of the counter, where only 4.1 mm remain. Table follows. The thinnest plate was found on the port";
    expect([...passageRuns(page, passage)].sort()).toEqual([1, 2, 3, 4]);
  });

  it("is not made up", () => {
    expect(passageRuns(page, "Nothing of the kind stands on this page, not a single word of it.").size).toBe(0);
    expect(passageRuns(page, "").size).toBe(0);
    expect(passageRuns([], "The thinnest plate").size).toBe(0);
  });
});
