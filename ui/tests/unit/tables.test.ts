import { describe, expect, test } from "vitest";

import { columnLetters, isNumber, numberColumns, parts } from "../../src/lib/tables";

describe("tables", () => {
  test("columns have the letters of spreadsheets", () => {
    expect([1, 26, 27, 28, 702, 703, 16_384].map(columnLetters)).toEqual(["A", "Z", "AA", "AB", "ZZ", "AAA", "XFD"]);
  });

  test("numbers are told from words as people write them", () => {
    for (const it of ["0", "12", "1,234.50", "1.234,50", "1 234", "−3", "-3.5", "+7", "€ 12", "12 €", "17 %", "(12.00)", "1e-5", "1'000"]) expect(isNumber(it), it).toBe(true);
    for (const it of ["", " ", "-", "2026-03-04", "12:30", "lock 9", "9 lives", "A1", "1/2", "%", "v1.2", "12."]) expect(isNumber(it), it).toBe(false);
  });

  test("a column of mostly numbers is one, whatever a few cells say", () => {
    const row = (cells: string[], whole = false) => ({ number: null, cells, whole, current: false });
    const rows = [row(["a", "1", ""]), row(["b", "n/a", ""]), row(["c", "3"]), row(["9 | 9"], true)];
    expect(numberColumns(rows, 3)).toEqual([false, true, false]);
    expect(numberColumns([], 2)).toEqual([false, false]);
  });

  test("a passage is cut at the tables in it", () => {
    const text = "Prices.\n\nProduct | Price\nrye | 4.80\nbun | 0.95\n\nAsk Jonas.\n\nOr me.";
    const [before, table, after] = parts(text);
    expect(before).toEqual({ kind: "text", text: "Prices." });
    expect(table?.kind === "table" && table.columns).toEqual(["Product", "Price"]);
    expect(table?.kind === "table" && table.rows.map((it) => it.cells)).toEqual([["rye", "4.80"], ["bun", "0.95"]]);
    expect(after).toEqual({ kind: "text", text: "Ask Jonas.\n\nOr me." });
  });

  test("empty places stay, and the last line may have lost its own", () => {
    const [table] = parts("A | B | C\n | x | \n1 |  |");
    expect(table?.kind === "table" && table.rows.map((it) => it.cells)).toEqual([["", "x", ""], ["1", "", ""]]);
    const [even] = parts("A | B | C\n | x | y\n1 | z");
    expect(even?.kind === "table" && even.rows.map((it) => it.cells)).toEqual([["", "x", "y"], ["1", "z", ""]]);
  });

  test("what is not even is text, as it was read", () => {
    for (const it of ["", "one line | with a bar", "a | b\nc", "a | b\nc | d | e", "ls | wc\nno bar here", Array(3).fill(Array(200).fill("x").join(" | ")).join("\n")]) {
      expect(parts(it)).toEqual([{ kind: "text", text: it }]);
    }
  });

  test("a first row of numbers names no columns", () => {
    const [table] = parts("1 | 2\n3 | 4");
    expect(table?.kind === "table" && [table.columns, table.rows.length]).toEqual([[], 2]);
  });
});
