import { describe, expect, test } from "vitest";

import { terms } from "../../src/lib/marks";
import { markedBoxes, seenRuns } from "../../src/lib/seen";

const LINES = [
  { page: 1, text: "Contract for a winter mooring", left: 0.1, top: 0.1, right: 0.6, bottom: 0.14 },
  { page: 2, text: "The deposit is 1,480 euros. It is", left: 0.1, top: 0.2, right: 0.7, bottom: 0.24 },
  { page: 2, text: "returned within four weeks.", left: 0.1, top: 0.26, right: 0.5, bottom: 0.3 },
  { page: 2, text: "Keys are handed over in the office.", left: 0.1, top: 0.5, right: 0.7, bottom: 0.54 },
];

describe("lines of a scan", () => {
  test("only those of the page in sight count", () => {
    expect(seenRuns(LINES, 1).map((it) => it.text)).toEqual(["Contract for a winter mooring"]);
    expect(seenRuns(LINES, 3)).toEqual([]);
  });

  test("the passage's lines are marked and no others, and the words in them", () => {
    const boxes = markedBoxes(seenRuns(LINES, 2), "The deposit is 1,480 euros. It is returned\nwithin four weeks.", terms("deposit"));
    expect(boxes.filter((it) => !it.word).map((it) => it.box.top)).toEqual([0.2, 0.26]);
    const words = boxes.filter((it) => it.word);
    expect(words).toHaveLength(1);
    expect(words[0]?.box.left).toBeGreaterThan(0.1);
    expect(words[0]?.box.width).toBeLessThan(0.2);
  });
});
