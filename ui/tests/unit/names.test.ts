import { describe, expect, it } from "vitest";

import { fileName, folderOf, nameParts, plainName } from "../../src/lib/names";

describe("file names by anybody", () => {
  it("spells out what would turn a name round or hide in it", () => {
    expect(plainName("invoice\u202egpj.exe")).toBe("invoice⟨U+202E⟩gpj.exe");
    expect(plainName("a\u200bb\nc\u0000d\u{e0041}")).toBe("a⟨U+200B⟩b⟨U+000A⟩c⟨U+0000⟩d⟨U+E0041⟩");
  });

  it("leaves honest names alone", () => {
    for (const name of ["食パン.md", "שלום.txt", "sauerteig – Notizen (2).md", "<b>.html"]) {
      expect(nameParts(name)).toEqual([{ text: name, unseen: false }]);
    }
    expect(nameParts("")).toEqual([{ text: "", unseen: false }]);
  });

  it("takes paths apart with either separator", () => {
    expect([fileName("/a/b.md"), folderOf("/a/b.md")]).toEqual(["b.md", "/a"]);
    expect([fileName("C:\\a\\b.md"), folderOf("C:\\a\\b.md")]).toEqual(["b.md", "C:\\a"]);
    expect([fileName("b.md"), folderOf("b.md")]).toEqual(["b.md", ""]);
  });
});
