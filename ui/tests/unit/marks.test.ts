import { describe, expect, it } from "vitest";

import { cut, mark, phrases, ranges, terms } from "../../src/lib/marks";

const marked = (text: string, query: string) => mark(text, terms(query)).filter((it) => it.hit).map((it) => it.text);

describe("marking the query's words", () => {
  it("finds other forms of a word, and not what merely begins alike", () => {
    expect(marked("Door seals: a worn seal, sealed. The sea.", "door seals")).toEqual(["Door", "seals", "seal", "sealed"]);
    expect(marked("He costs more than the costume.", "costs")).toEqual(["costs"]);
  });

  it("leaves out words that say nothing", () => {
    expect(marked("What is the rent of the house?", "what is the rent")).toEqual(["rent"]);
    expect(terms("what is the").stems).toEqual([]);
  });

  it("ignores case and accents", () => {
    expect(marked("ÜBER dem Café", "uber cafe")).toEqual(["ÜBER", "Café"]);
  });

  it("marks scripts without spaces by neighbouring characters", () => {
    expect(marked("毎年その日に、この食パンを一斤", "食パン")).toEqual(["食パン"]);
  });

  it("loses no character of the text", () => {
    const text = "Ends with 食パン and ‮rtl‬ and 👩‍🚀 seals";
    expect(mark(text, terms("食パン seals rtl")).map((it) => it.text).join("")).toBe(text);
  });

  it("finds a quotation across line breaks, and takes its signs for signs", () => {
    const text = "It costs (about)\n£412. Not 412.";
    expect(ranges(text, phrases("costs (about) £412."))).toEqual([[3, 22]]);
    expect(ranges("aaa.b", phrases("a.b c … xyz"))).toEqual([]);
  });

  it("skips ranges that overlap or lie outside", () => {
    expect(cut("abcdef", [[1, 3], [2, 4], [5, 99]])).toEqual([
      { text: "a", hit: false },
      { text: "bc", hit: true },
      { text: "def", hit: false },
    ]);
  });
});
