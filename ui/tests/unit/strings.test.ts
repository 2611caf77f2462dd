import { afterEach, describe, expect, it } from "vitest";

import { bytes, count, day, millis, percent, remaining, score, time } from "../../src/lib/format";
import { regional, spoken } from "../../src/lib/locale";
import { numbers } from "../../src/lib/numbers";
import { language, LANGUAGES, say, t } from "../../src/lib/strings";
import { de } from "../../src/lib/strings/de";
import { en } from "../../src/lib/strings/en";
import { wording } from "../../src/lib/strings/wording";
import { TOLD_SAMPLES } from "./told";

type Leaf = string | ((...args: unknown[]) => string);

/** Every text of a catalog, by its path: `search.found`, `keys.groups.0.keys.1.1`. */
function leaves(of: unknown, path = ""): [string, Leaf][] {
  if (typeof of === "string" || typeof of === "function") return [[path, of as Leaf]];
  return Object.entries(of as object).flatMap(([key, value]) => leaves(value, path ? `${path}.${key}` : key));
}

// Three digits each: no language puts a point into them.
const NUMBERS = [613, 617, 619];

/** Arguments that are no numbers, where a text needs them. */
const SAMPLES: Record<string, unknown[][]> = {
  "pipeline.lostNames": [[["613", "617"]]],
  "pipeline.lineLabel": [["613", "accepted", 617], ["613", "dropped", 617], ["613", "running", 617]],
  "pipeline.fate": [["accepted", 613], ["dropped", 613], ["dropped", 0], ["kept", 613]],
  "pipeline.memoryLabel": [["613", "617"], ["613", null]],
  "why.acceptedAt": [[613, 617, "619"], [613, 617, null]],
  "why.droppedAt": [[613, 617, "619"], [613, 617, null]],
  "filters.days": [["613", "617"], ["613", ""], ["", "617"]],
  "ask.foot": [["extractive", "", ""], ["remote", "613", "617"], ["local:613", "613", ""]],
  "ask.written": [["613", 617], ["613", null]],
  "ask.missed": Object.keys(en.states).map((state) => [613, state]),
  "library.retrying": [[0], [613]],
  "settings.pruning.standard": [[{ kind: "standard" }]],
  "settings.pruning.full": [[{ kind: "full" }]],
  "settings.pruning.threshold": [[{ kind: "threshold", threshold: 613 }]],
  "settings.pruning.precision": [[{ kind: "precision", precision: 6.13 }]],
  "settings.pruning.errorProbability": [[{ kind: "errorProbability", probability: 6.13 }]],
  "shared.written": [
    [{ written: 613, unchanged: 617, deleted: 0, heldBack: 0, originals: null, passages: 619, resumed: false, interrupted: false }, "0 s"],
    [{ written: 613, unchanged: 0, deleted: 617, heldBack: 619, originals: 631, passages: 0, resumed: true, interrupted: true }, "0 s"],
  ],
  "models.trial.notRead": [["613", ["de", "ru"], 6.17]],
  "models.trial.installed": [[["613"]]],
  "models.trial.available": [[["613", "617"]]],
  engine: [["the model 613 is not in 617"]],
  ...TOLD_SAMPLES,
};

/** What a text says for each of its samples. */
function said(path: string, leaf: Leaf): string[] {
  if (typeof leaf === "string") return [leaf];
  return (SAMPLES[path] ?? [NUMBERS.slice(0, leaf.length)]).map((args) => leaf(...args));
}

/** Texts that are the same in both languages: names, signs, and words that German has taken over. */
const SAME = new Set([
  "app.name", "door.name", "gate.passphrase", "nav.pipeline", "nav.withKeys", "kinds.text", "kinds.markdown", "kinds.pdf",
  "keys.names.Alt", "keys.names.Super", "keys.names.Esc",
  "pipeline.prompt", "pipeline.keyword",
  "performance.rerank", "performance.p50", "performance.p95", "performance.pss", "performance.rss", "performance.app", "performance.webview",
  "library.pathPlaceholder", "library.ofKind.markdown", "library.ofKind.pdf", "place.library", "rules.example", "models.kinds.reranker", "models.about.other", "models.byNamePlaceholder", "models.servers.embedder.example",
  "models.servers.reranker.example", "models.source.tokenPlace.unknown",
  "settings.titles.desktop", "settings.endpoint", "settings.keyPlace.unknown", "settings.themes.system", "settings.webview", "settings.threads",
  "notices.told", "settingFaults.system", "shared.addressExample", "shared.herePlaceholder", "shared.name", "shared.originalsExample",
]);

/** What is written on a key is not translated here but by `keys.names`. */
const isKey = (path: string) => /^(keys\.groups\.\d+\.keys|search\.tips)(\.\d+)+\.0\.\d+$/.test(path);

afterEach(() => language.follow(() => "system"));

describe("the German catalog", () => {
  const english = leaves(en).filter(([path]) => !isKey(path));
  const german = new Map(leaves(de));

  it("has every text of the English one, and no other", () => {
    expect([...german.keys()].sort()).toEqual(leaves(en).map(([path]) => path).sort());
    for (const [path, leaf] of english) expect(`${path}: ${typeof german.get(path)}`).toBe(`${path}: ${typeof leaf}`);
  });

  it("says nothing in English, but for what is listed", () => {
    const same = english.filter(([path, leaf]) => said(path, leaf).join("\n") === said(path, german.get(path) ?? "").join("\n"));
    expect(same.map(([path]) => path).sort()).toEqual([...SAME].sort());
  });

  it("names everything that the English text names", () => {
    // A number may be said once in one language and twice in the other, but not be left out.
    const named = (text: string) => [...new Set(text.match(/61[379]/g) ?? [])].sort();
    for (const [path, leaf] of english) {
      const other = said(path, german.get(path) ?? "");
      said(path, leaf).forEach((text, index) => expect([path, named(other[index] ?? "")]).toEqual([path, named(text)]));
    }
  });

  it("presses the same keys", () => {
    const keys = (of: typeof en) => leaves(of).filter(([path]) => isKey(path));
    expect(keys(de)).toEqual(keys(en));
  });

  it("quotes and leaves out as German does, and addresses people with Sie", () => {
    for (const [path, leaf] of german) {
      for (const text of said(path, leaf)) {
        expect(`${path}: ${text}`).not.toMatch(/“[^„“]*”|"|\b(du|dein|deine|deinen|dir|dich|euch|euer)\b/iu);
        expect(`${path}: ${text}`).not.toMatch(/[\p{L}]…/u);
      }
    }
  });
});

describe("words with numbers", () => {
  it("take the form of their number in either language", () => {
    expect([0, 1, 2].map((it) => en.ask.notSearched(it))).toEqual(["0 files were not searched", "1 file was not searched", "2 files were not searched"]);
    expect([0, 1, 2].map((it) => de.ask.notSearched(it))).toEqual(["0 Dateien wurden nicht durchsucht", "1 Datei wurde nicht durchsucht", "2 Dateien wurden nicht durchsucht"]);
    expect(de.rules.would(1, "2 KB", 3)).toBe("Lässt 1 Datei aus (2 KB, 3 Textstellen), die jetzt durchsucht wird");
    expect(de.rules.would(2, "2 KB", 1)).toBe("Lässt 2 Dateien aus (2 KB, 1 Textstelle), die jetzt durchsucht werden");
    expect([de.settings.afterSeconds(30), de.settings.afterMinutes(1), de.settings.afterMinutes(15)]).toEqual(["nach 30 Sekunden", "nach einer Minute", "nach 15 Minuten"]);
    expect([de.place.lines(3, 3), de.place.lines(3, 9)]).toEqual(["Zeile 3", "Zeilen 3–9"]);
  });

  it("would do so in languages with more forms than two", () => {
    const { plural } = wording("pl");
    const files = { one: "plik", few: "pliki", many: "plików", other: "pliku" };
    expect([1, 2, 5, 22].map((it) => plural(it, files))).toEqual(["1 plik", "2 pliki", "5 plików", "22 pliki"]);
  });

  it("make sentences of tagged messages, one for every kind", () => {
    type Message = { kind: "full"; free: number } | { kind: "gone" };
    const sentences = { full: ({ free }: { free: number }) => `${free} MB left`, gone: () => "gone" };
    expect([say<Message>(sentences, { kind: "full", free: 12 }), say<Message>(sentences, { kind: "gone" })]).toEqual(["12 MB left", "gone"]);
  });
});

describe("the language on screen", () => {
  const plain = (text: string) => text.replace(/[\u00a0\u202f]/g, " ");

  it("is the first of the system's that the app has, and English without any", () => {
    const known = ["en", "de"] as const;
    expect(spoken(known, ["fr-FR", "de-AT", "en"])).toBe("de");
    expect(spoken(known, ["en-GB", "de"])).toBe("en");
    expect(spoken(known, ["fr-FR"])).toBeUndefined();
  });

  it("is written as the system's region writes it", () => {
    expect(regional("de", ["en-GB", "de-CH"])).toBe("de-CH");
    expect(regional("en", ["de-DE", "de"])).toBe("en-DE");
    expect(regional("de", ["en"])).toBe("de");
  });

  it("is what was chosen, at once", () => {
    let wanted = "system";
    language.follow(() => wanted);
    expect([language.current, t.nav.library]).toEqual(["en", "Library"]);
    wanted = "de";
    language.follow(() => wanted);
    expect([language.current, t.nav.library]).toEqual(["de", "Bibliothek"]);
    wanted = "tlh";
    language.follow(() => wanted);
    expect(language.current).toBe("en");
    expect(Object.values(LANGUAGES).map((it) => it.name)).toEqual(["English", "Deutsch"]);
  });

  it("decides how numbers, shares and times are written", () => {
    language.follow(() => "de");
    expect([count(1234567), score(0.1234), plain(percent(0.47)), plain(bytes(1_482_752)), plain(millis(1234))]).toEqual(["1.234.567", "0,123", "47 %", "1,5 MB", "1,2 s"]);
    expect([remaining(70), remaining(4000)]).toEqual(["noch etwa 1 min", "noch etwa 1 h"]);
    expect(time(new Date(2025, 2, 9, 17, 5).getTime() / 1000)).toBe("17:05");
  });

  it("names near days, and writes far ones in its own order", () => {
    language.follow(() => "de");
    const now = new Date(2025, 2, 9, 9, 0);
    const seconds = (...at: [number, number, number]) => new Date(...at, 8).getTime() / 1000;
    expect([day(seconds(2025, 2, 9), now), day(seconds(2025, 2, 8), now), day(seconds(2025, 1, 3), now)]).toEqual(["Heute", "Gestern", "3. Feb."]);
    expect(day(seconds(2023, 9, 14), now)).toBe("14. Okt. 2023");
    expect(numbers("en-GB").day(seconds(2023, 9, 14), now)).toBe("14 Oct 2023");
  });
});
