// What a language's sentences are made with: its plurals, and its numbers as this system's region writes them.

import { regional } from "../locale";
import { numbers, type Numbers } from "../numbers";

/** The forms of a word by number; languages that have more than two name them. */
export type Forms = Partial<Record<Intl.LDMLPluralRule, string>> & { other: string };

export interface Wording {
  /** A whole number. */
  n: (value: number) => string;
  /** The form that goes with a number. */
  choose: (value: number, forms: Forms) => string;
  /** A number and the word that goes with it. */
  plural: (value: number, forms: Forms) => string;
  /** A place, or from one to another: "line 3", "lines 3–9". */
  span: (start: number, end: number, one: string, many: string) => string;
  /** Names of languages, given as codes: "English and German". */
  languages: (codes: string[]) => string;
  /** What somebody typed, in the language's quotes: "“dry dock” and “oak”". Whichever way it is written, it leaves the rest of the sentence as it is. */
  typed: (texts: string[]) => string;
  /** The language's other formats. */
  numbers: () => Numbers;
}

/** Quotes of the languages that have others than English. */
const QUOTES: Record<string, [string, string]> = { de: ["„", "“"] };

export function wording(language: string): Wording {
  const [open, close] = QUOTES[language] ?? ["“", "”"];
  const rules = new Intl.PluralRules(language);
  const own = () => numbers(regional(language));
  const n = (value: number) => own().count(value);
  const names = new Intl.DisplayNames(language, { type: "language" });
  // What is no code is a name already.
  const named = (code: string) => (/^[a-z]{2,3}(-[A-Za-z0-9]+)*$/.test(code) ? names.of(code) : code);
  const choose = (value: number, forms: Forms) => forms[rules.select(value)] ?? forms.other;
  return {
    n,
    choose,
    plural: (value, forms) => `${n(value)} ${choose(value, forms)}`,
    span: (start, end, one, many) => (start === end ? `${one} ${n(start)}` : `${many} ${n(start)}–${n(end)}`),
    languages: (codes) => new Intl.ListFormat(language).format(codes.map((it) => named(it) ?? it)),
    // First strong isolate and its end: without them “שלום!” would take the signs around it along to its right.
    typed: (texts) => new Intl.ListFormat(language).format(texts.map((it) => `${open}\u2068${it}\u2069${close}`)),
    numbers: own,
  };
}
