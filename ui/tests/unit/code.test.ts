import { describe, expect, it } from "vitest";

import { highlight } from "../../src/lib/code";

const tones = (source: string, name: string) => highlight(source, name).map((line) => line.filter((it) => it.tone !== "plain").map((it) => `${it.tone}:${it.text}`));
const joined = (source: string, name: string) => highlight(source, name).map((line) => line.map((it) => it.text).join("")).join("\n");

describe("colours for code", () => {
  it("knows comments, strings, numbers and words", () => {
    expect(tones('let a = 12; // "no"\n/* two\nlines */ fn "x\\"y"', "a.rs")).toEqual([
      ["key:let", "num:12", 'com:// "no"'],
      ["com:/* two"],
      ["com:lines */", "key:fn", 'str:"x\\"y"'],
    ]);
    expect(tones("x = '''a\nb''' # c", "a.py")).toEqual([["str:'''a"], ["str:b'''", "com:# c"]]);
  });

  it("changes no character, whatever the source", () => {
    for (const source of ['unclosed "string\nnext', "/* unclosed", "`back\ntick", "", "\n\n", "\\", '"\\', "食パン = 3; // ‮", "a\r\nb"]) {
      expect(joined(source, "a.js")).toBe(source);
    }
  });
});
