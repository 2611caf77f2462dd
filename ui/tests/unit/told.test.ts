import { afterEach, describe, expect, it } from "vitest";

import type { Notice } from "../../src/lib/bindings";
import { failed, language, noticed, say, toneOf, troubled, whole } from "../../src/lib/strings";
import { de } from "../../src/lib/strings/de";
import { messages } from "../../src/lib/strings/de/messages";
import { en } from "../../src/lib/strings/en";
import { MESSAGES } from "../../src/lib/strings/messages";
import { ADVICE, NOTICES, SETTING_FAULTS } from "./told";

afterEach(() => language.follow(() => "system"));

/** Names of commands, flags and variables: the app has none of them. */
const COMMAND_LINE = /\briddle (index|models|status|search|ask|llm|rerank|eval)\b|(^|[\s(`])--[a-z]|RIDDLE_[A-Z]/;

describe.each([["English", en], ["German", de]])("what the engine tells, in %s", (_name, words) => {
  const sentences = [
    ...Object.values(ADVICE).flat().map((it) => say(words.advice, it)),
    ...Object.values(NOTICES).flat().map((it) => say(words.notices, it)),
    ...Object.values(SETTING_FAULTS).flat().map((it) => say(words.settingFaults, it)),
    ...Object.values(words.failures),
    ...Object.values(words.noAnswers),
  ];

  it("is a sentence for every kind, and names no command", () => {
    expect(sentences.length).toBeGreaterThan(80);
    for (const sentence of sentences) {
      expect(sentence).not.toMatch(COMMAND_LINE);
      expect(sentence).not.toMatch(/undefined|\[object|\bnull\b/);
      // What comes from elsewhere stands at an end, or alone.
      if (!/61[37]$/.test(sentence)) expect(sentence).toMatch(/^[\p{Lu}\d“„].*[.!?]$/u);
    }
  });

  it("says each kind of advice in words of its own", () => {
    const all = Object.values(ADVICE).flat().map((it) => say(words.advice, it));
    expect(new Set(all).size).toBe(all.length);
  });
});

describe("what the libraries say", () => {
  const filled = (text: string) => text.replace(/\{(\d+)\}/g, (_, place: string) => `⟨${place}⟩`);

  it("is known in German", () => {
    const places = (text: string) => [...new Set(text.match(/\{\d+\}/g))].sort();
    for (const message of MESSAGES) {
      const german = messages[message];
      expect(places(german), message).toEqual(places(message));
      expect(german).not.toBe(message);
      expect(german).not.toMatch(COMMAND_LINE);
      // Of two sentences that fit, the one with more words is the right one.
      expect(de.engine(filled(message))).toBe(filled(german));
      expect(en.engine(filled(message))).toBe(filled(message));
    }
  });

  it("is translated inside of other things that are said", () => {
    expect(de.engine("rent.xlsx: protected by a password")).toBe("rent.xlsx: mit einem Passwort geschützt");
    expect(de.engine("not all of it is read: it takes too long")).toBe("nicht alles davon ist gelesen: es dauert zu lange");
    expect(de.engine("a: b/c.zip: entry 3: it is damaged")).toBe("a: b/c.zip: Eintrag 3: es ist beschädigt");
    expect(de.engine("12 pages read as pictures, 87.5 % sure")).toBe("12 Seiten als Bilder gelesen, zu 87,5 % sicher");
    expect(de.engine("1 picture in it read, 90 % sure")).toBe("1 Bild darin gelesen, zu 90 % sicher");
    expect(de.engine("Permission denied (os error 13)")).toBe("Permission denied (os error 13)");
    expect(de.engine(": ".repeat(400))).toBe(": ".repeat(400));
    expect(de.engine("")).toBe("");
  });
});

describe("a failure", () => {
  it("says what is wrong in the engine's words, and what can be done in the app's", () => {
    const failure = { code: "other", message: "the model x is not in /models", advice: { kind: "pullModel", name: "x" } } as const;
    expect(failed(failure)).toBe("The model x is not in /models. Download x in Settings, Models.");
    language.follow(() => "de");
    expect(failed(failure)).toBe("Das Modell x ist nicht in /models. Laden Sie x unter Einstellungen, Modelle herunter.");
    const unknown = { code: "other", message: "it hums", advice: null } as const;
    expect(failed(unknown)).toBe("Die Meldung lautet: „it hums“.");
  });

  it("says it in the language on screen where its code says what is wrong", () => {
    const failure = { code: "nothingIndexed", message: "nothing is indexed in /home", advice: { kind: "addFolder" } } as const;
    expect(failed(failure)).toBe("Nothing is indexed yet. Add a folder in Library.");
    language.follow(() => "de");
    expect(failed(failure)).toBe("Noch ist nichts indiziert. Fügen Sie in der Bibliothek einen Ordner hinzu.");
  });

  it("leaves a sentence as it is, and makes one of what is none", () => {
    expect([whole("the disk is full"), whole("Is it there?"), whole(" x. "), whole(""), whole("http://x is silent")]).toEqual(["The disk is full.", "Is it there?", "x.", "", "http://x is silent."]);
    expect(troubled({ message: "", advice: { kind: "listModels" } })).toBe("Choose another one in Settings, Models.");
  });
});

describe("a notice", () => {
  it("tells how a query was understood, in the quotes of the language on screen", () => {
    const plain = (notice: Notice) => noticed(notice).replace(/[\u2068\u2069]/g, "");
    const [quoted, left] = [{ kind: "notAsQuoted" as const, phrases: ["dry dock"] }, { kind: "leftOut" as const, words: ["paint", "blue boat"] }];
    expect(plain(quoted)).toBe("“dry dock” was not found as it is quoted. Its words were searched for instead.");
    expect(plain(left)).toBe("Without “paint” and “blue boat”: a minus before a word leaves out what has it.");
    language.follow(() => "de");
    expect(plain(quoted)).toBe("„dry dock“ wurde nicht so gefunden, wie es in Anführungszeichen steht. Gesucht wurde stattdessen nach den Wörtern darin.");
    expect(plain(left)).toBe("Ohne „paint“ und „blue boat“: Ein Minus vor einem Wort lässt weg, worin es vorkommt.");
    expect([toneOf(quoted), toneOf(left), toneOf({ kind: "repeats" })]).toEqual(["info", "info", "warn"]);
  });

  it("keeps what somebody typed apart from its own sentence, whichever way it is written", () => {
    const text = noticed({ kind: "notAsQuoted", phrases: ["שלום עולם!"] });
    expect(text).toContain("“\u2068שלום עולם!\u2069”");
  });

  it("names languages in the language on screen", () => {
    const notice = { kind: "keywordsDecide", model: "m", languages: ["en", "fr"], language: "de" } as const;
    expect(noticed({ ...notice, languages: [...notice.languages] })).toContain("English and French");
    language.follow(() => "de");
    expect(noticed({ ...notice, languages: [...notice.languages] })).toContain("Englisch und Französisch; das hier ist in einer anderen: Deutsch");
  });
});
