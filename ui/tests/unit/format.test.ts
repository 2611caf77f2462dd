import { describe, expect, it } from "vitest";

import type { Location } from "../../src/lib/bindings";
import { bytes, day, millis, place, remaining } from "../../src/lib/format";

const at = (kind: Location["kind"], start: number | null, end: number | null, part = ""): Location => ({ kind, start, end, part, label: "" });
const plain = (text: string) => text.replace(/\u00a0/g, " ");

describe("numbers for people", () => {
  it("have units that fit", () => {
    expect([0, 999, 1000, 1499, 999_999, 1.5e9].map((it) => plain(bytes(it)))).toEqual(["0 B", "999 B", "1 KB", "1.5 KB", "1 MB", "1.5 GB"]);
    expect([0, 0.42, 9.9, 37.4, 999, 1234, 61_000].map((it) => plain(millis(it)))).toEqual(["0 ms", "0.4 ms", "9.9 ms", "37 ms", "999 ms", "1.2 s", "1 min"]);
  });

  it("are as coarse as an estimate", () => {
    expect([1, 43, 70, 4000].map(remaining)).toEqual(["about 5 s left", "about 45 s left", "about 1 min left", "about 1 h left"]);
  });

  it("name near days", () => {
    const now = new Date(2025, 10, 21, 9, 0);
    const seconds = (date: Date) => date.getTime() / 1000;
    expect(day(seconds(new Date(2025, 10, 21, 0, 1)), now)).toBe("Today");
    expect(day(seconds(new Date(2025, 10, 20, 23, 59)), now)).toBe("Yesterday");
    expect(day(seconds(new Date(2024, 1, 12)), now)).toContain("2024");
    // A clock that was set wrong makes no nonsense.
    expect(day(seconds(new Date(2031, 0, 1)), now)).toContain("2031");
  });
});

describe("places in a file", () => {
  it("are told in the file's own terms", () => {
    expect(place(at("line", 3, 3))).toBe("line 3");
    expect(place(at("line", 3, 9))).toBe("lines 3–9");
    expect(place(at("page", 2, 2))).toBe("page 2");
    expect(place(at("section", 5, 5, "Oven › Door seals"))).toBe("Door seals");
    expect(place(at("section", 5, 5))).toBe("paragraph 5");
    expect(place(at("rows", 2, 4, "Sheet1"))).toBe("Sheet1, rows 2–4");
    expect(place(at("message", 1, 1, "spare-parts.txt"))).toBe("attachment spare-parts.txt");
    expect(place(at("whole", null, null))).toBe("");
  });
});
